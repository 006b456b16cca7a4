/* common/log/waiting_index.c - the index of log/waiting/: names, fills and parts,
 * sorted; see waiting.h and waiting_internal.h: waiting_has(),
 * waiting_set_in(), waiting_sweep(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/waiting_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"

void
waiting_index_free(struct waiting_index *x)
{
    free(x->fills);
    free(x->parts);
    *x = (struct waiting_index){.fills = NULL};
}

void
waiting_forget_names(struct waiting *w)
{
    free(w->names);
    free(w->cells);
    free(w->bytes);
    w->names = NULL;
    w->cells = NULL;
    w->bytes = NULL;
    w->name_count = w->name_capacity = w->cell_count = 0;
    w->byte_count = w->byte_capacity = 0;
}

/* ---- names -------------------------------------------------------------- */

static uint32_t *
cell_of(const struct waiting *w, const uint8_t *name, size_t size)
{
    size_t at = hash_name(&w->key, 0, name, size) & (w->cell_count - 1);

    for (; w->cells[at] != 0; at = (at + 1) & (w->cell_count - 1)) {
        const struct waiting_name *n = &w->names[w->cells[at] - 1];

        if (bytes_equal(w->bytes + n->at, n->size, name, size))
            break;
    }
    return &w->cells[at];
}

static int
grow_cells(struct waiting *w)
{
    const size_t count = w->cell_count > 0 ? 2 * w->cell_count : 64;
    uint32_t *cells = calloc(count, sizeof *cells);

    if (!cells)
        return -ENOMEM;
    free(w->cells);
    w->cells = cells;
    w->cell_count = count;
    for (uint32_t i = 0; i < w->name_count; i++)
        *cell_of(w, w->bytes + w->names[i].at, w->names[i].size) = i + 1;
    return 0;
}

int
waiting_intern(struct waiting *w, const uint8_t *name, uint16_t size,
               uint32_t *number)
{
    uint32_t *cell;
    int rc = 0;

    if (2 * (w->name_count + 1) > w->cell_count)
        rc = grow_cells(w);
    if (rc == 0)
        rc = array_grow(&w->names, &w->name_capacity, w->name_count + 1,
                        sizeof *w->names);
    if (rc == 0)
        rc = array_grow(&w->bytes, &w->byte_capacity, w->byte_count + size, 1);
    if (rc < 0)
        return rc;
    cell = cell_of(w, name, size);
    if (*cell == 0) {
        memcpy(w->bytes + w->byte_count, name, size);
        w->names[w->name_count] =
            (struct waiting_name){.at = w->byte_count, .size = size};
        w->byte_count += size;
        *cell = (uint32_t)++w->name_count;
    }
    *number = *cell - 1;
    return 0;
}

/* ---- order --------------------------------------------------------------- */

static int
compare_u64(uint64_t x, uint64_t y)
{
    return (x > y) - (x < y);
}

static int
by_fill(const void *a, const void *b)
{
    const struct waiting_fill *x = a, *y = b;
    int c = log_fill_compare(&x->id, &y->id);

    if (c == 0)
        c = strcmp(x->file->name, y->file->name);
    return c != 0 ? c : compare_u64(x->member.at, y->member.at);
}

static int
by_part(const void *a, const void *b)
{
    const struct waiting_part *x = a, *y = b;

    return x->name != y->name ? compare_u64(x->name, y->name)
                              : compare_u64(x->fill, y->fill);
}

/* ---- old and fresh into one ---------------------------------------------- */

/* The sorted fills of both, those of files that are gone left out; the maps
 * become the new numbers. */
static size_t
merge_fills(const struct waiting *w, struct waiting_fill *to, uint32_t *old_map,
            uint32_t *fresh_map)
{
    const struct waiting_index *x = &w->index, *y = &w->fresh;
    size_t i = 0, k = 0, count = 0;

    while (i < x->fill_count || k < y->fill_count) {
        if (i < x->fill_count && !x->fills[i].file->listed) {
            old_map[i++] = WAITING_NONE;
        } else if (k < y->fill_count && !y->fills[k].file->listed) {
            fresh_map[y->fills[k++].number] = WAITING_NONE;
        } else if (k == y->fill_count ||
                   (i < x->fill_count &&
                    by_fill(&x->fills[i], &y->fills[k]) < 0)) {
            old_map[i] = (uint32_t)count;
            to[count++] = x->fills[i++];
        } else {
            fresh_map[y->fills[k].number] = (uint32_t)count;
            to[count++] = y->fills[k++];
        }
    }
    return count;
}

/* Renumbers parts by their fills' new numbers; returns how many stay. */
static size_t
map_parts(struct waiting_index *x, const uint32_t *map)
{
    size_t count = 0;

    for (size_t i = 0; i < x->part_count; i++) {
        struct waiting_part p = x->parts[i];

        p.fill = map[p.fill];
        if (p.fill != WAITING_NONE)
            x->parts[count++] = p;
    }
    return count;
}

/* A keyspace of a fill that was read record by record is there many times. */
static size_t
add_up_parts(struct waiting_part *parts, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (kept > 0 && by_part(&parts[kept - 1], &parts[i]) == 0)
            parts[kept - 1].increments += parts[i].increments;
        else
            parts[kept++] = parts[i];
    return kept;
}

static void
merge_parts(struct waiting_part *to, const struct waiting_index *x,
            const struct waiting_index *y)
{
    size_t i = 0, k = 0;

    while (i < x->part_count || k < y->part_count)
        if (k == y->part_count ||
            (i < x->part_count && by_part(&x->parts[i], &y->parts[k]) < 0))
            *to++ = x->parts[i++];
        else
            *to++ = y->parts[k++];
}

int
waiting_index_merge(struct waiting *w)
{
    struct waiting_index *x = &w->index, *y = &w->fresh;
    struct waiting_index z = {
        .fill_capacity = x->fill_count + y->fill_count + 1,
        .part_capacity = x->part_count + y->part_count + 1};
    uint32_t *maps = calloc(z.fill_capacity, sizeof *maps);
    uint32_t *fresh_map;

    z.fills = calloc(z.fill_capacity, sizeof *z.fills);
    z.parts = calloc(z.part_capacity, sizeof *z.parts);
    if (!maps || !z.fills || !z.parts) {
        free(maps);
        waiting_index_free(&z);
        return -ENOMEM;
    }
    fresh_map = maps + x->fill_count;
    if (y->fill_count > 0)
        qsort(y->fills, y->fill_count, sizeof *y->fills, by_fill);
    z.fill_count = merge_fills(w, z.fills, maps, fresh_map);
    x->part_count = map_parts(x, maps);
    y->part_count = map_parts(y, fresh_map);
    if (y->part_count > 0)
        qsort(y->parts, y->part_count, sizeof *y->parts, by_part);
    y->part_count = add_up_parts(y->parts, y->part_count);
    z.part_count = x->part_count + y->part_count;
    merge_parts(z.parts, x, y);
    free(maps);
    waiting_index_free(x);
    waiting_index_free(y);
    *x = z;
    return 0;
}

/* ---- searches ------------------------------------------------------------ */

/* The first part that is not before this fill of a name. */
static size_t
find_part(const struct waiting *w, uint32_t name, const struct log_fill *id)
{
    const struct waiting_index *x = &w->index;
    size_t from = 0, to = x->part_count;

    while (from < to) {
        const size_t at = from + (to - from) / 2;
        const struct waiting_part *p = &x->parts[at];

        if (p->name < name || (p->name == name &&
                               log_fill_compare(&x->fills[p->fill].id, id) < 0))
            from = at + 1;
        else
            to = at;
    }
    return from;
}

uint32_t
waiting_find(const struct waiting *w, const uint8_t *name, size_t size)
{
    uint32_t cell;
    size_t count;

    if (w->cell_count == 0)
        return WAITING_NONE;
    cell = *cell_of(w, name, size);
    if (cell == 0)
        return WAITING_NONE;
    (void)waiting_parts(w, cell - 1, &count);
    return count > 0 ? cell - 1 : WAITING_NONE;
}

const struct waiting_part *
waiting_parts(const struct waiting *w, uint32_t name, size_t *count)
{
    static const struct log_fill first;
    const size_t from = find_part(w, name, &first);

    *count = name == WAITING_NONE ? 0 : find_part(w, name + 1, &first) - from;
    return *count == 0 ? NULL : &w->index.parts[from];
}

const struct log_fill *
waiting_earlier(const struct waiting *w, uint32_t name,
                const struct log_fill *id)
{
    const struct log_fill begin = log_fill_make(id->uuid, id->epoch, 0);
    const size_t at = find_part(w, name, &begin);
    const struct waiting_part *p;
    const struct log_fill *f;

    if (at == 0)
        return NULL;
    p = &w->index.parts[at - 1];
    f = &w->index.fills[p->fill].id;
    return p->name == name && log_fill_is_of_log(f, id->uuid) ? f : NULL;
}

bool
waiting_has(const struct waiting *w, uint32_t name, const struct log_fill *id)
{
    const size_t at = find_part(w, name, id);
    const struct waiting_part *p;

    if (at == w->index.part_count)
        return false;
    p = &w->index.parts[at];
    return p->name == name &&
           log_fill_compare(&w->index.fills[p->fill].id, id) == 0;
}

/* ---- what is in --------------------------------------------------------- */

struct waiting_fill *
waiting_fill_of(struct waiting *w, const struct waiting_file *file, uint64_t at,
                const struct log_fill *id)
{
    size_t from = 0, to = w->index.fill_count;

    while (from < to) {
        const size_t middle = from + (to - from) / 2;

        if (log_fill_compare(&w->index.fills[middle].id, id) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    for (; from < w->index.fill_count; from++) {
        struct waiting_fill *f = &w->index.fills[from];

        if (log_fill_compare(&f->id, id) != 0)
            break;
        if (f->file == file && f->member.at == at)
            return f;
    }
    return NULL;
}

bool
waiting_set_in(struct waiting *w, const struct waiting_fill *fill,
               const uint8_t *name, size_t size)
{
    const struct waiting_part key = {.name = waiting_find(w, name, size),
                                     .fill = (uint32_t)(fill - w->index.fills)};
    struct waiting_part *p;

    p = key.name == WAITING_NONE
            ? NULL
            : bsearch(&key, w->index.parts, w->index.part_count, sizeof *p,
                      by_part);
    if (!p || p->in)
        return false;
    p->in = true;
    return true;
}

void
waiting_sweep(struct waiting *w, uint32_t pass)
{
    struct waiting_index *x = &w->index;

    for (size_t i = 0; i < w->file_count; i++)
        w->files[i]->left = w->files[i]->parts = 0;
    for (size_t i = 0; i < x->fill_count; i++)
        x->fills[i].wanted = false;
    for (size_t i = 0; i < x->part_count; i++) {
        const struct waiting_part *p = &x->parts[i];
        struct waiting_fill *f = &x->fills[p->fill];

        f->file->parts++;
        if (p->in)
            continue;
        f->file->left++;
        f->wanted = f->wanted || w->names[p->name].refused != pass;
    }
}

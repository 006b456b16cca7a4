/* common/log/waiting_index.c - the index of log/waiting/: names, fills and parts,
 * sorted; see waiting.h and waiting_internal.h: waiting_has(),
 * waiting_set_in(), waiting_sweep(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/waiting_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- order --------------------------------------------------------------- */

static int
compare_u64(uint64_t x, uint64_t y)
{
    return (x > y) - (x < y);
}

static int
by_fill(const void *a, const void *b)
{
    const struct waiting_fill *x = *(struct waiting_fill *const *)a,
                              *y = *(struct waiting_fill *const *)b;
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
                              : compare_u64(x->fill->number, y->fill->number);
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

void
waiting_index_sort(struct waiting *w)
{
    /* Without new files, what stays is in order. */
    const bool any_new = w->file_count > w->sorted_count;
    struct waiting_index *x = &w->index;
    size_t fills = 0, parts = 0;

    for (size_t i = 0; i < x->part_count; i++)
        if (x->parts[i].fill->file->listed)
            x->parts[parts++] = x->parts[i];
    for (size_t i = 0; i < x->fill_count; i++)
        if (x->fills[i]->file->listed)
            x->fills[fills++] = x->fills[i];
        else
            free(x->fills[i]);
    if (any_new && fills > 0)
        qsort(x->fills, fills, sizeof(struct waiting_fill *), by_fill);
    for (size_t i = 0; i < fills; i++)
        x->fills[i]->number = (uint32_t)i;
    if (any_new && parts > 0) {
        qsort(x->parts, parts, sizeof *x->parts, by_part);
        parts = add_up_parts(x->parts, parts);
    }
    x->fill_count = fills;
    x->part_count = parts;
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

        if (p->name < name ||
            (p->name == name && log_fill_compare(&p->fill->id, id) < 0))
            from = at + 1;
        else
            to = at;
    }
    return from;
}

uint32_t
waiting_find(const struct waiting *w, const uint8_t *name, size_t size)
{
    const uint32_t number = name_table_find(&w->names, name, size);
    size_t count;

    (void)waiting_parts(w, number, &count);
    return count > 0 ? number : WAITING_NONE;
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
    f = &p->fill->id;
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
    return p->name == name && log_fill_compare(&p->fill->id, id) == 0;
}

/* ---- what is in --------------------------------------------------------- */

bool
waiting_set_in(struct waiting *w, struct waiting_fill *fill,
               const uint8_t *name, size_t size)
{
    const struct waiting_part key = {.name = waiting_find(w, name, size),
                                     .fill = fill};
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
        w->files[i]->left = 0;
    for (size_t i = 0; i < x->fill_count; i++)
        x->fills[i]->wanted = false;
    for (size_t i = 0; i < x->part_count; i++) {
        const struct waiting_part *p = &x->parts[i];
        struct waiting_fill *f = p->fill;

        if (p->in)
            continue;
        f->file->left++;
        f->wanted = f->wanted || w->names.entries[p->name].note != pass;
    }
}

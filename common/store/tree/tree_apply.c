/* common/store/tree/tree_apply.c - changes to a tree: one sweep over the groups
 * that they touch.
 *
 * Edits are sorted, so the sweep goes through the directory from left to right
 * once (level.c).  A run of edits is given to its group, and the result is
 * appended to the directory: the same group with a new buffer, or new groups
 * that were packed in the stage (stage.c).
 *
 * Edits and buffer are merged into one sequence (pending_next(), which has the
 * algebra of signs).  Either the sequence becomes the new buffer, and only
 * buffer and header are written; or it is merged with the base rows into the
 * stage, where blocks are packed full and leave as groups.  A group that came
 * out too small stays in the stage, and its neighbour is folded after it.
 *
 * When anything fails the transaction is dropped, so nothing here undoes
 * anything.  tree.h says what a group, a block and a row are.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/store/tree/stage.h"
#include "common/store/tree/value.h"

/* The memory of a change. */
struct tree_work {
    struct tree *tree;
    struct levels levels;
    struct stage stage;
    /* Copies of the current group, and its new buffer. */
    uint8_t header[BLOCK_SIZE];
    uint8_t base[GROUP_MAX][BLOCK_SIZE];
    uint8_t buffer[GROUP_BUFFER_MAX][BLOCK_SIZE];
    uint8_t out[GROUP_BUFFER_MAX][BLOCK_SIZE];
};

struct tree_work *
tree_work_new(void)
{
    return malloc(sizeof(struct tree_work));
}

void
tree_work_free(struct tree_work *w)
{
    free(w);
}

/* ---- pending edits: buffer and edits as one ---- */

struct pending {
    enum block_order kind;
    const struct buffer *buffer;
    unsigned entry;
    const struct row *edits;
    size_t at;
    size_t count;
};

/* Combines `old` and `edit`, edits of the same row, into *out: 1, or 0 if they
 * cancel out. */
static int
combine_edits(enum block_order kind, const struct row *old,
              const struct row *edit, struct row *out)
{
    const unsigned was = old->flags & BLOCK_SIGN;
    const unsigned is = edit->flags & BLOCK_SIGN;

    *out = *edit;
    if (was == BLOCK_DELETE) {
        if (is != BLOCK_INSERT)
            return -EBADMSG;
        if (kind == BLOCK_RANKS)
            return 0;
        out->flags = (uint16_t)((edit->flags & ~BLOCK_SIGN) | BLOCK_UPDATE);
        return 1;
    }
    if (is == BLOCK_INSERT)
        return -EBADMSG;
    if (was == BLOCK_UPDATE)
        return 1;
    if (is == BLOCK_DELETE)
        return 0;
    out->flags = (uint16_t)((edit->flags & ~BLOCK_SIGN) | BLOCK_INSERT);
    return 1;
}

/* Finds the next edit against the base: 1, 0 at the end, or -EBADMSG. */
static int
pending_next(struct pending *p, struct row *out)
{
    while (p->entry < p->buffer->entries || p->at < p->count) {
        struct row old;
        int d, rc;

        if (p->entry >= p->buffer->entries) {
            *out = p->edits[p->at++];
            return 1;
        }
        old = buffer_row(p->buffer, p->entry);
        d = p->at < p->count ? row_compare(p->kind, &old, &p->edits[p->at])
                             : -1;
        if (d < 0) {
            p->entry++;
            *out = old;
            return 1;
        }
        if (d > 0) {
            *out = p->edits[p->at++];
            return 1;
        }
        rc = combine_edits(p->kind, &old, &p->edits[p->at], out);
        p->entry++;
        p->at++;
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* ---- folding ---- */

/* Copies the base rows before one edit, and applies the edit.  *block and *row
 * are how far the base has been copied. */
static int
fold_one(struct tree_work *w, const struct group *g, const struct row *edit,
         unsigned *block, unsigned *row)
{
    const bool insert = (edit->flags & BLOCK_SIGN) == BLOCK_INSERT;
    struct row r = *edit;
    struct block b;
    unsigned at;
    bool found;
    int rc;

    while (*block + 1u < g->blocks) {
        const struct row end = group_separator(g, *block + 1);

        if (row_compare(w->tree->kind, edit, &end) < 0)
            break;
        b = block_open(w->base[*block]);
        rc = stage_copy(&w->stage, &b, *row, b.count);
        if (rc < 0)
            return rc;
        (*block)++;
        *row = 0;
    }
    b = block_open(w->base[*block]);
    at = block_find(&b, w->tree->kind, edit, *row, &found);
    if (found == insert)
        return -EBADMSG;
    rc = stage_copy(&w->stage, &b, *row, at);
    if (rc < 0)
        return rc;
    *row = at + (found ? 1 : 0);
    if ((edit->flags & BLOCK_SIGN) == BLOCK_DELETE)
        return 0;
    r.flags &= BLOCK_SATURATED;
    return stage_row(&w->stage, &r);
}

/* Copies the base blocks.  It is cheap to check that the first and last row of
 * each lie between its separators. */
static int
load_base(struct tree_work *w, const struct group *g)
{
    for (unsigned i = 0; i < g->blocks; i++) {
        struct block b;
        struct row first, last;
        const int rc = group_base(w->tree, g, i, w->base[i], &b);

        if (rc < 0)
            return rc;
        first = block_row(&b, 0);
        last = block_row(&b, b.count - 1u);
        if (group_block_of(g, w->tree->kind, &first) != i ||
            group_block_of(g, w->tree->kind, &last) != i)
            return -EBADMSG;
    }
    return 0;
}

static int
merge_buffer(struct tree_work *w, const struct group *g, struct pending *p)
{
    unsigned block = 0, row = 0;
    struct row edit;
    int rc;

    rc = load_base(w, g);
    if (rc < 0)
        return rc;
    rc = stage_take(&w->stage, g);
    if (rc < 0)
        return rc;
    while ((rc = pending_next(p, &edit)) > 0) {
        rc = fold_one(w, g, &edit, &block, &row);
        if (rc < 0)
            return rc;
    }
    if (rc < 0)
        return rc;
    for (; block < g->blocks; block++, row = 0) {
        const struct block b = block_open(w->base[block]);

        rc = stage_copy(&w->stage, &b, row, b.count);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- buffering ---- */

/* A new buffer that is being made: its blocks in `out`, its header in
 * `header`. */
struct filler {
    struct tree_work *work;
    const struct group *group;
    struct block_writer writer;
    unsigned blocks; /* complete */
    unsigned entries;
    unsigned base; /* block of the last entry */
};

static void
filler_block(struct filler *f)
{
    const struct block_id id = {
        .type = BLOCK_BUFFER,
        .order = (uint8_t)f->work->tree->kind,
        .generation = f->work->tree->generation,
        .key = value_key(f->group->id, GROUP_BUFFER_PART + f->blocks),
    };
    const uint16_t count = f->writer.count;
    const size_t size = block_writer_finish(&f->writer);

    block_seal(f->work->out[f->blocks], size, count, &id);
    f->blocks++;
}

/* Goes on to the base block of `r` (NULL: the last one), and sets the first
 * entry of the blocks in between. */
static void
filler_base(struct filler *f, const struct row *r)
{
    while (f->base + 1u < f->group->blocks) {
        uint8_t *e;

        if (r != NULL) {
            const struct row end = group_separator(f->group, f->base + 1);

            if (row_compare(f->work->tree->kind, r, &end) < 0)
                break;
        }
        f->base++;
        e = f->work->header + GROUP_HEAD + GROUP_ENTRY * (size_t)f->base;
        put_le16(e + 2, (uint16_t)f->entries);
        put_le16(e + 4, 0);
    }
}

static int
filler_add(struct filler *f, const struct row *r)
{
    const unsigned sign = r->flags & BLOCK_SIGN;
    const int net = sign == BLOCK_INSERT ? 1 : sign == BLOCK_DELETE ? -1 : 0;
    uint8_t *e;

    filler_base(f, r);
    e = f->work->header + GROUP_HEAD + GROUP_ENTRY * (size_t)f->base;
    put_le16(e + 4, (uint16_t)((int16_t)get_le16(e + 4) + net));
    if ((int)get_le16(e) + (int16_t)get_le16(e + 4) < 0)
        return -EBADMSG;
    if (!block_writer_fits(&f->writer, (size_t)BLOCK_ROW_HEAD + r->key_size)) {
        filler_block(f);
        assert(f->blocks < GROUP_BUFFER_MAX);
        block_writer_init(&f->writer, f->work->out[f->blocks]);
    }
    block_writer_add(&f->writer, r);
    f->entries++;
    return 0;
}

/* Stores the new buffer and header. */
static int
filler_store(struct filler *f)
{
    struct tree_work *w = f->work;
    const struct group *g = f->group;
    uint8_t *header = w->header;
    const struct block_id id = {
        .type = BLOCK_GROUP,
        .order = (uint8_t)w->tree->kind,
        .more = (uint16_t)f->blocks,
        .generation = w->tree->generation,
        .key = value_key(g->id, 0),
    };
    const size_t size = get_le16(header + 20);
    int rc;

    put_le32(header + 28, w->tree->generation);
    put_le16(header + 32, (uint16_t)f->entries);
    block_seal(header, size, g->blocks, &id);
    rc = value_put(w->tree, id.key, header, size);
    for (unsigned i = 0; i < f->blocks && rc == 0; i++)
        rc = value_put(w->tree, value_key(g->id, GROUP_BUFFER_PART + i),
                       w->out[i], get_le16(w->out[i] + 20));
    for (unsigned i = f->blocks; i < g->buffers && rc == 0; i++)
        rc = value_remove(w->tree, value_key(g->id, GROUP_BUFFER_PART + i));
    return rc;
}

/* Writes the pending edits as the group's buffer; *rows gets the group's new
 * number of rows. */
static int
fill_buffer(struct tree_work *w, const struct group *g, struct pending *p,
            uint64_t *rows)
{
    struct filler f = {.work = w, .group = g};
    struct row edit;
    int rc;

    block_writer_init(&f.writer, w->out[0]);
    put_le16(w->header + GROUP_HEAD + 2, 0);
    put_le16(w->header + GROUP_HEAD + 4, 0);
    while ((rc = pending_next(p, &edit)) > 0) {
        rc = filler_add(&f, &edit);
        if (rc < 0)
            return rc;
    }
    if (rc < 0)
        return rc;
    filler_base(&f, NULL);
    if (f.writer.count > 0)
        filler_block(&f);
    *rows = group_before(g, g->blocks);
    return filler_store(&f);
}

/* ---- which of the two ---- */

/* A number that differs by group and fold, so that folds spread over
 * batches. */
static uint32_t
jitter_of(const struct group *g)
{
    uint64_t x = g->id * 0x9e3779b97f4a7c15u + g->base_generation;

    x ^= x >> 31;
    x *= 0xbf58476d1ce4e5b9u;
    return (uint32_t)(x >> 32);
}

/* Whether the buffer may grow by these edits.
 *
 * If each batch adds the same number, a limit of L costs a batch L / 2 for the
 * buffer, which is rewritten, and base * added / L for its share of a fold.
 * That is least if L^2 is 2 * base * added, and little more at half of that,
 * where a read meets fewer edits.  For reads, the limit of large batches is a
 * share of the base. */
static bool
buffer_takes(const struct tree *t, const struct group *g,
             const struct buffer *b, const struct row *edits, size_t count)
{
    const size_t base = (size_t)g->blocks * BLOCK_SIZE;
    const size_t most = (size_t)GROUP_BUFFER_MAX *
                        (BLOCK_SIZE - BLOCK_HEAD - BLOCK_ROW_MAX - 2);
    size_t used = 0, added = 0;

    if (g->blocks < GROUP_MIN)
        return false;
    for (unsigned i = 0; i < b->count; i++)
        used += b->blocks[i].size - (size_t)BLOCK_HEAD;
    for (size_t i = 0; i < count && added <= most; i++)
        added += (size_t)BLOCK_ROW_HEAD + 2 + edits[i].key_size;
    used += added;
    if (used > most || used > base / 4)
        return false;
    if (t->pages >= t->pages_fold)
        return true;
    if (added > base / 32)
        return used <= base / 16 + jitter_of(g) % (base / 16);
    return used * used / base <=
           added / 2 + added * (jitter_of(g) % 1024) / 1024;
}

/* Applies `edits`, all in this group's range: adds them to its buffer, or folds
 * the group into the stage (always while the stage is active). */
static int
update_group(struct tree_work *w, const struct level_group *at,
             const struct row *edits, size_t count)
{
    struct pending p = {.kind = w->tree->kind, .edits = edits, .count = count};
    struct buffer buffer;
    struct group g;
    uint64_t rows;
    int rc;

    rc = group_get(w->tree, at->id, at->rows, w->header, &g);
    if (rc == 0)
        rc = group_buffer(w->tree, &g, w->buffer, &buffer);
    if (rc < 0)
        return rc;
    p.buffer = &buffer;
    if (!w->stage.active && buffer_takes(w->tree, &g, &buffer, edits, count)) {
        rc = fill_buffer(w, &g, &p, &rows);
        if (rc < 0)
            return rc;
        return level_append(&w->levels, 1, at->id, rows, at->separator);
    }
    if (!w->stage.active)
        stage_start(&w->stage, at->separator);
    return merge_buffer(w, &g, &p);
}

/* ---- the sweep ---- */

/* How many of the edits lie before `end` (NULL: all). */
static size_t
edits_before(enum block_order kind, const struct row *edits, size_t count,
             const struct row *end)
{
    size_t n = 0;

    if (end == NULL)
        return count;
    while (n < count && row_compare(kind, &edits[n], end) < 0)
        n++;
    return n;
}

/* Applies its edits to the current group, and goes on with its right neighbours
 * while the result is too small for a group.  *used is how many edits were
 * used. */
static int
sweep_groups(struct tree_work *w, const struct row *edits, size_t count,
             size_t *used)
{
    struct level_group g;
    bool any = false;

    *used = 0;
    while ((!any || stage_small(&w->stage)) && levels_take(&w->levels, &g)) {
        const size_t n =
            edits_before(w->levels.tree->kind, edits + *used, count - *used,
                         g.has_upper ? &g.upper : NULL);
        const int rc = update_group(w, &g, edits + *used, n);

        if (rc < 0)
            return rc;
        *used += n;
        any = true;
    }

    /* No edit used: the directory and its group disagree, which is damage. */
    if (*used == 0)
        return -EBADMSG;
    return w->stage.active ? stage_finish(&w->stage) : 0;
}

/* A tree without any group yet: all edits are inserts. */
static int
sweep_empty(struct tree_work *w, const struct row *edits, size_t count)
{
    int rc = 0;

    stage_start(&w->stage, w->levels.lowest);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct row r = edits[i];

        if ((r.flags & BLOCK_SIGN) != BLOCK_INSERT)
            return -EBADMSG;
        r.flags &= BLOCK_SATURATED;
        rc = stage_row(&w->stage, &r);
    }
    return rc < 0 ? rc : stage_finish(&w->stage);
}

int
tree_apply(struct tree *t, const struct row *edits, size_t count)
{
    struct tree_work *w = t->work;
    uint64_t rows = t->root.count;
    size_t at = 0;
    int rc;

    assert(w != NULL);
    if (count == 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const unsigned sign = edits[i].flags & BLOCK_SIGN;

        assert(sign != 0);
        rows += sign == BLOCK_INSERT ? 1u : 0u;
        rows -= sign == BLOCK_DELETE ? 1u : 0u;
    }
    w->tree = w->stage.tree = t;
    w->stage.levels = &w->levels;
    w->stage.active = false;
    rc = levels_start(&w->levels, t);
    if (rc == 0 && t->root.id == 0) {
        rc = sweep_empty(w, edits, count);
        at = count;
    }
    while (rc == 0 && at < count) {
        size_t used;

        rc = levels_seek(&w->levels, &edits[at]);
        if (rc == 0)
            rc = sweep_groups(w, &edits[at], count - at, &used);
        if (rc == 0)
            at += used;
    }
    if (rc == 0)
        rc = levels_finish(&w->levels);
    if (rc == 0)
        t->root.count = rows;
    return rc;
}

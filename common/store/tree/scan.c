/* common/store/tree/scan.c - rows of a tree in sequence: ranges and scans.
 *
 * A base block is walked: the buffer's entries for it cut its rows into runs.
 * Nothing is copied but what a range asks for.
 *
 * Entry points: tree_range(), tree_keys(), scan_group(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/tree/scan.h"

#include <assert.h>
#include <errno.h>

#include "common/base/bytes.h"

/* Consecutive rows: those of `block` from `from` to `to`, or one edit. */
struct run {
    const struct block *block; /* NULL: the edit */
    unsigned from;
    unsigned to;
    struct row edit;
};

/* A group's base blocks, one at a time, seen through the buffer. */
struct walk {
    struct tree *tree;
    const struct group *group;
    const struct buffer *buffer;
    struct block base;
    unsigned row;
    unsigned entry;
    unsigned entry_end;
    unsigned left; /* rows still to come, says the group's header */
    bool has_edit;
    struct row edit;
};

/* Begins base block i. */
static int
walk_start(struct walk *w, unsigned i)
{
    w->row = 0;
    w->entry = group_first(w->group, i);
    w->entry_end = group_first(w->group, i + 1);
    w->left = group_total(w->group, i);
    w->has_edit = false;
    return group_base(w->tree, w->group, i, NULL, &w->base);
}

/* Takes the next buffer entry: *to is where it cuts the base. */
static int
walk_entry(struct walk *w, unsigned *to)
{
    const struct row e = buffer_row(w->buffer, w->entry++);
    const bool insert = (e.flags & BLOCK_SIGN) == BLOCK_INSERT;
    bool found;

    *to = block_find(&w->base, w->tree->kind, &e, w->row, &found);
    if (found == insert)
        return -EBADMSG;
    if ((e.flags & BLOCK_SIGN) != BLOCK_DELETE) {
        w->has_edit = true;
        w->edit = e;
        w->edit.flags = e.flags & BLOCK_SATURATED;
    }
    return found ? 1 : 0;
}

/* 1 and the next run, 0 at the end, or an error. */
static int
walk_next(struct walk *w, struct run *run)
{
    while (!w->has_edit && w->entry < w->entry_end) {
        unsigned to;
        const int gone = walk_entry(w, &to);

        if (gone < 0)
            return gone;
        run->from = w->row;
        w->row = to + (unsigned)gone;
        if (run->from < to) {
            run->block = &w->base;
            run->to = to;
            goto found;
        }
    }
    if (w->has_edit) {
        w->has_edit = false;
        run->block = NULL;
        run->from = 0;
        run->to = 1;
        run->edit = w->edit;
        goto found;
    }
    if (w->row < w->base.count) {
        run->block = &w->base;
        run->from = w->row;
        run->to = w->base.count;
        w->row = w->base.count;
        goto found;
    }
    return w->left == 0 ? 0 : -EBADMSG;

found:
    if (run->to - run->from > w->left)
        return -EBADMSG;
    w->left -= run->to - run->from;
    return 1;
}

/* Gives the runs of a group to `take`, behind the first `skip` rows, until it
 * returns false: then 0, else 1. */
static int
take_runs(struct walk *w, uint64_t skip,
          bool (*take)(void *ctx, const struct run *run), void *ctx)
{
    const struct group *g = w->group;
    unsigned i;

    for (i = 0; i < g->blocks && skip >= group_total(g, i); i++)
        skip -= group_total(g, i);
    for (; i < g->blocks; i++) {
        struct run run;
        int rc;

        rc = walk_start(w, i);
        if (rc < 0)
            return rc;
        while ((rc = walk_next(w, &run)) > 0) {
            if (skip >= run.to - run.from) {
                skip -= run.to - run.from;
                continue;
            }
            run.from += (unsigned)skip;
            skip = 0;
            if (!take(ctx, &run))
                return 0;
        }
        if (rc < 0)
            return rc;
    }
    return 1;
}

/* Gives the runs from row `offset` on to `take`, until it returns false. */
static int
take_from(struct tree *t, uint64_t offset,
          bool (*take)(void *ctx, const struct run *run), void *ctx)
{
    struct tree_finder f;
    struct walk w = {.tree = t, .group = &f.group, .buffer = &f.buffer};
    int rc = 1;

    while (rc > 0 && offset < t->root.count) {
        rc = scan_find_offset(t, offset, &f);
        if (rc < 0)
            return rc;
        if (f.group.count == 0)
            return -EBADMSG;
        rc = take_runs(&w, offset - f.before, take, ctx);
        offset = f.before + f.group.count;
    }
    return rc < 0 ? rc : 0;
}

/* Rows on their way into the caller's bytes. */
struct copying {
    uint64_t left; /* rows still wanted */
    uint8_t *at;
    uint8_t *end;
    const uint8_t *prefix; /* keys order: rows end before a key without it */
    size_t prefix_size;
};

/* Copies a row with its flags cleared, if it is wanted and fits.  Returns
 * whether more rows are. */
static bool
copy_row(struct copying *c, const struct row *r)
{
    struct row plain = *r;

    if (!bytes_begin(r->key, r->key_size, c->prefix, c->prefix_size) ||
        (size_t)(c->end - c->at) < (size_t)BLOCK_ROW_HEAD + r->key_size)
        return false;
    plain.flags = 0;
    c->at += row_put(c->at, &plain);
    return --c->left > 0;
}

/* The same of a run in rank order, whose rows have no flags. */
static bool
copy_range(void *ctx, const struct run *run)
{
    struct copying *c = ctx;
    unsigned to = run->to;
    const uint8_t *start;
    size_t size;
    bool full = false;

    if (run->block == NULL)
        return copy_row(c, &run->edit);
    if (to - run->from > c->left)
        to = run->from + (unsigned)c->left;
    start = block_at(run->block, run->from);
    size = (size_t)(block_at(run->block, to) - start);
    while (size > (size_t)(c->end - c->at)) {
        full = true;
        to--;
        size = (size_t)(block_at(run->block, to) - start);
    }
    memcpy(c->at, start, size);
    c->at += size;
    c->left -= to - run->from;
    return !full && c->left > 0;
}

int64_t
tree_range(struct tree *t, uint64_t offset, uint8_t *bytes, size_t size,
           uint64_t *rows)
{
    struct copying c = {.left = *rows, .at = bytes, .end = bytes + size};
    int rc = 0;

    assert(t->kind == BLOCK_RANKS);
    if (*rows > 0)
        rc = take_from(t, offset, copy_range, &c);
    *rows -= c.left;
    return rc < 0 ? rc : c.at - bytes;
}

static bool
copy_keys(void *ctx, const struct run *run)
{
    bool more = true;

    if (run->block == NULL)
        return copy_row(ctx, &run->edit);
    for (unsigned i = run->from; more && i < run->to; i++) {
        const struct row r = block_row(run->block, i);

        more = copy_row(ctx, &r);
    }
    return more;
}

/* A prefix that is longer than a key can be has no rows; an `after` that is
 * longer is cut: no key lies between the two. */
int64_t
tree_keys(struct tree *t, struct store_query *q, size_t size)
{
    const uint16_t after_size =
        (uint16_t)(q->after_size < BLOCK_KEY_MAX ? q->after_size
                                                 : BLOCK_KEY_MAX);
    const struct row after = {.key = q->after, .key_size = after_size};
    const struct row prefix = {.key = q->prefix,
                               .key_size = (uint16_t)q->prefix_size};
    const uint64_t offset = (uint64_t)q->offset;
    struct copying c = {.left = q->length,
                        .at = q->bytes,
                        .end = q->bytes + size,
                        .prefix = q->prefix,
                        .prefix_size = q->prefix_size};
    uint64_t first;
    bool is_after, there;
    int rc;

    assert(t->kind == BLOCK_KEYS);
    q->rows = 0;
    if (q->length == 0 || t->root.count == 0 || q->prefix_size > BLOCK_KEY_MAX)
        return 0;
    is_after = after_size > 0 && row_compare_keys(&after, &prefix) >= 0;
    rc = scan_count_before(t, is_after ? &after : &prefix, &first, &there);
    if (rc < 0)
        return rc;
    first += is_after && there;
    rc = take_from(t, offset > first ? offset : first, copy_keys, &c);
    q->rows = q->length - c.left;
    return rc < 0 ? rc : c.at - q->bytes;
}

/* What scan_group() gives rows to. */
struct giving {
    int (*row)(void *ctx, const struct row *r);
    void *ctx;
    int rc;
};

static bool
give_rows(void *ctx, const struct run *run)
{
    struct giving *g = ctx;

    for (unsigned i = run->from; g->rc == 0 && i < run->to; i++) {
        const struct row r =
            run->block != NULL ? block_row(run->block, i) : run->edit;

        g->rc = g->row(g->ctx, &r);
    }
    return g->rc == 0;
}

int
scan_group(struct tree *t, const struct group *g, const struct buffer *buffer,
           int (*row)(void *ctx, const struct row *r), void *ctx)
{
    struct giving giving = {.row = row, .ctx = ctx};
    struct walk w = {.tree = t, .group = g, .buffer = buffer};
    const int rc = take_runs(&w, 0, give_rows, &giving);

    return rc < 0 ? rc : giving.rc;
}

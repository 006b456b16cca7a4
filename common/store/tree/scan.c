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

/* Consecutive rows: those of `block` from `from` to `to`, or one edit. */
struct run {
    const struct block *block; /* NULL: the edit */
    unsigned from;
    unsigned to;
    struct row edit;
};

/* One base block seen through the buffer. */
struct walk {
    const struct buffer *buffer;
    struct block base;
    enum block_order kind;
    unsigned row;
    unsigned entry;
    unsigned entry_end;
    unsigned left; /* rows still to come, says the group's header */
    bool has_edit;
    struct row edit;
};

static int
walk_start(struct walk *w, struct tree *t, const struct group *g,
           const struct buffer *buffer, unsigned i)
{
    w->buffer = buffer;
    w->kind = t->kind;
    w->row = 0;
    w->entry = group_first(g, i);
    w->entry_end = group_first(g, i + 1);
    w->left = group_total(g, i);
    w->has_edit = false;
    return group_base(t, g, i, NULL, &w->base);
}

/* Takes the next buffer entry: *to is where it cuts the base. */
static int
walk_entry(struct walk *w, unsigned *to)
{
    const struct row e = buffer_row(w->buffer, w->entry++);
    const bool insert = (e.flags & BLOCK_SIGN) == BLOCK_INSERT;
    bool found;

    *to = block_find(&w->base, w->kind, &e, w->row, &found);
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

/* A range on its way into the caller's bytes. */
struct scan_range {
    uint64_t skip;
    uint64_t length; /* rows still wanted */
    uint8_t *at;
    uint8_t *end;
    bool full;
};

/* Copies what is wanted of a run. */
static void
range_run(struct scan_range *r, const struct run *run)
{
    unsigned from = run->from, to = run->to;
    const uint8_t *start;
    size_t size;

    if (r->skip >= to - from) {
        r->skip -= to - from;
        return;
    }
    if (run->block == NULL) {
        if ((size_t)(r->end - r->at) <
            (size_t)BLOCK_ROW_HEAD + run->edit.key_size) {
            r->full = true;
            return;
        }
        r->at += row_put(r->at, &run->edit);
        r->length--;
        return;
    }
    from += (unsigned)r->skip;
    r->skip = 0;
    if (to - from > r->length)
        to = from + (unsigned)r->length;
    start = block_at(run->block, from);
    size = (size_t)(block_at(run->block, to) - start);
    while (size > (size_t)(r->end - r->at)) {
        r->full = true;
        to--;
        size = (size_t)(block_at(run->block, to) - start);
    }
    memcpy(r->at, start, size);
    r->at += size;
    r->length -= to - from;
}

/* Copies what is wanted of a group. */
static int
range_group(struct tree *t, const struct group *g, struct scan_range *r)
{
    struct buffer buffer;
    struct walk w;
    struct run run;
    unsigned i;
    int rc;

    rc = group_buffer(t, g, NULL, &buffer);
    if (rc < 0)
        return rc;
    for (i = 0; i < g->blocks && r->skip >= group_total(g, i); i++)
        r->skip -= group_total(g, i);
    for (; i < g->blocks && r->length > 0 && !r->full; i++) {
        rc = walk_start(&w, t, g, &buffer, i);
        if (rc < 0)
            return rc;
        while (r->length > 0 && !r->full) {
            rc = walk_next(&w, &run);
            if (rc <= 0)
                break;
            range_run(r, &run);
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

int64_t
tree_range(struct tree *t, uint64_t offset, uint64_t length, uint8_t *bytes,
           size_t size, uint64_t *rows)
{
    struct scan_range r = {.length = length, .at = bytes, .end = bytes + size};

    assert(t->kind == BLOCK_RANKS);
    while (r.length > 0 && !r.full && offset < t->root.count) {
        struct group g;
        uint64_t before;
        int rc;

        rc = scan_find_offset(t, offset, &g, &before);
        if (rc < 0)
            return rc;
        if (g.count == 0)
            return -EBADMSG;
        r.skip = offset - before;
        rc = range_group(t, &g, &r);
        if (rc < 0)
            return rc;
        offset = before + g.count;
    }
    *rows = length - r.length;
    return r.at - bytes;
}

/* A range in key order on its way into the caller's bytes. */
struct scan_keys {
    const struct tree_keys *keys;
    struct row start; /* no row before it is wanted */
    bool exclusive;   /* nor the row of `start` itself */
    bool has_started; /* rows are past `start` */
    uint64_t left;    /* rows still wanted */
    uint8_t *at;
    uint8_t *end;
};

/* Copies a row if it is wanted.  Returns whether more rows are. */
static bool
copy_key_row(struct scan_keys *s, const struct row *r)
{
    const struct tree_keys *k = s->keys;
    struct row plain = *r;

    if (!s->has_started) {
        const int order = row_compare_keys(r, &s->start);

        if (order < 0 || (order == 0 && s->exclusive))
            return true;
        s->has_started = true;
    }
    if (r->key_size < k->prefix_size ||
        memcmp(r->key, k->prefix, k->prefix_size) != 0)
        return false;
    if ((size_t)(s->end - s->at) < (size_t)BLOCK_ROW_HEAD + r->key_size)
        return false;
    plain.flags = 0;
    s->at += row_put(s->at, &plain);
    return --s->left > 0;
}

/* Copies what is wanted of a run.  Returns whether more rows are. */
static bool
copy_key_run(struct scan_keys *s, const struct run *run)
{
    unsigned i = run->from;
    bool found;

    if (run->block == NULL)
        return copy_key_row(s, &run->edit);
    if (!s->has_started)
        i = block_find(run->block, BLOCK_KEYS, &s->start, i, &found);
    for (; i < run->to; i++) {
        const struct row r = block_row(run->block, i);

        if (!copy_key_row(s, &r))
            return false;
    }
    return true;
}

/* Copies what is wanted of the group at the finder: 1 when rows of the next one
 * may be wanted, else 0, or an error. */
static int
copy_key_group(struct tree *t, const struct tree_finder *f, struct scan_keys *s)
{
    const unsigned first =
        s->has_started ? 0 : group_block_of(&f->group, t->kind, &s->start);

    for (unsigned i = first; i < f->group.blocks; i++) {
        struct walk w;
        struct run run;
        int rc;

        rc = walk_start(&w, t, &f->group, &f->buffer, i);
        if (rc < 0)
            return rc;
        while ((rc = walk_next(&w, &run)) > 0) {
            if (!copy_key_run(s, &run))
                return 0;
        }
        if (rc < 0)
            return rc;
    }
    return f->has_upper ? 1 : 0;
}

/* The row at a position that the tree has. */
static int
find_row_at(struct tree *t, uint64_t offset, struct row *out)
{
    struct group g;
    struct buffer buffer;
    struct walk w;
    struct run run;
    uint64_t skip;
    unsigned i = 0;
    int rc;

    rc = scan_find_offset(t, offset, &g, &skip);
    if (rc == 0)
        rc = group_buffer(t, &g, NULL, &buffer);
    if (rc < 0)
        return rc;
    for (skip = offset - skip; i < g.blocks && skip >= group_total(&g, i); i++)
        skip -= group_total(&g, i);
    if (i == g.blocks)
        return -EBADMSG;
    rc = walk_start(&w, t, &g, &buffer, i);
    if (rc < 0)
        return rc;
    while ((rc = walk_next(&w, &run)) > 0) {
        if (skip < run.to - run.from) {
            *out = run.block != NULL
                       ? block_row(run.block, run.from + (unsigned)skip)
                       : run.edit;
            return 0;
        }
        skip -= run.to - run.from;
    }
    return rc < 0 ? rc : -EBADMSG;
}

/* Determines where a read begins.  -ENOENT: behind all rows. */
static int
start_keys(struct tree *t, struct scan_keys *s)
{
    const struct tree_keys *k = s->keys;
    const struct row after = {.key = k->after,
                              .key_size = (uint16_t)k->after_size};
    struct row at;
    int rc;

    s->start =
        (struct row){.key = k->prefix, .key_size = (uint16_t)k->prefix_size};
    if (k->after_size > 0 && row_compare_keys(&after, &s->start) >= 0) {
        s->start = after;
        s->exclusive = true;
    }
    if (k->offset == 0)
        return 0;
    if (k->offset >= t->root.count)
        return -ENOENT;
    rc = find_row_at(t, k->offset, &at);
    if (rc == 0 && row_compare_keys(&at, &s->start) > 0) {
        s->start = at;
        s->exclusive = false;
    }
    return rc;
}

int64_t
tree_keys(struct tree *t, const struct tree_keys *keys, uint8_t *bytes,
          size_t size, uint64_t *rows)
{
    struct tree_finder f = {.valid = false};
    struct scan_keys s = {
        .keys = keys, .left = keys->length, .at = bytes, .end = bytes + size};
    struct row next;
    int rc;

    assert(t->kind == BLOCK_KEYS);
    rc = start_keys(t, &s);
    next = s.start;
    if (rc == 0)
        rc = 1;
    while (rc > 0 && s.left > 0) {
        rc = scan_find_group(t, &next, &f);
        if (rc == 0)
            rc = copy_key_group(t, &f, &s);
        next = f.upper;
    }
    if (rc < 0 && rc != -ENOENT)
        return rc;
    *rows = keys->length - s.left;
    return s.at - bytes;
}

/* Gives the rows of a run to `row`. */
static int
scan_run(const struct run *run, int (*row)(void *ctx, const struct row *r),
         void *ctx)
{
    int rc = 0;

    for (unsigned i = run->from; rc == 0 && i < run->to; i++) {
        const struct row r =
            run->block != NULL ? block_row(run->block, i) : run->edit;

        rc = row(ctx, &r);
    }
    return rc;
}

int
scan_group(struct tree *t, const struct group *g, const struct buffer *buffer,
           int (*row)(void *ctx, const struct row *r), void *ctx)
{
    for (unsigned i = 0; i < g->blocks; i++) {
        struct walk w;
        struct run run;
        int rc;

        rc = walk_start(&w, t, g, buffer, i);
        if (rc < 0)
            return rc;
        while ((rc = walk_next(&w, &run)) > 0) {
            rc = scan_run(&run, row, ctx);
            if (rc != 0)
                return rc;
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

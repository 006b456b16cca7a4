/* common/store/tree/find.c - lookups in an order: by row, by offset, in
 * sequence.
 *
 * Down the nodes to a group, to one of its base blocks, and there a walk: the
 * buffer's entries for this block cut its rows into runs.  Everything points
 * into LMDB's pages; nothing is copied but results.
 */
#include "common/store/tree/tree.h"

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
load_base(struct tree *t, const struct group *g, unsigned i, struct block *out)
{
    int rc;

    rc = tree_block(t, BLOCK_BASE, tree_key(g->id, i + 1), g->base_generation,
                    out);
    if (rc < 0)
        return rc;
    return out->count == group_rows(g, i) ? 0 : -EBADMSG;
}

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
    return load_base(t, g, i, &w->base);
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

/* The group that would hold `r`. */
static int
seek_row(struct tree *t, const struct row *r, struct tree_finder *f)
{
    uint64_t id = t->root.id, rows = t->root.count;

    f->valid = false;
    f->has_upper = false;
    f->has_buffer = false;
    f->base_index = 0;
    f->before = 0;
    if (id == 0)
        return -ENOENT;
    for (unsigned level = t->root.level; level > 0; level--) {
        struct node n;
        unsigned i;
        const int rc = tree_node(t, id, level, &n);

        if (rc < 0)
            return rc;
        i = node_find(&n, t->kind, r);
        if (i + 1 < n.count) {
            f->upper = node_separator(&n, i + 1);
            f->has_upper = true;
        }
        f->before += node_before(&n, i);
        rows = node_rows(&n, i);
        id = node_child(&n, i);
    }
    return tree_group(t, id, rows, &f->group);
}

/* Brings the finder to the group of `r`, with its buffer. */
static int
finder_move(struct tree *t, const struct row *r, struct tree_finder *f)
{
    int rc;

    if (f->valid && (!f->has_upper || row_compare(t->kind, r, &f->upper) < 0))
        return 0;
    rc = seek_row(t, r, f);
    if (rc < 0)
        return rc;
    rc = tree_buffer(t, &f->group, &f->buffer);
    if (rc < 0)
        return rc;
    f->valid = true;
    return 0;
}

/* The first entry from `low` to `high` that is not before `r`. */
static unsigned
buffer_find(const struct buffer *b, enum block_order order, const struct row *r,
            unsigned low, unsigned high, bool *found)
{
    *found = false;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        const struct row m = buffer_row(b, middle);
        const int d = row_compare(order, &m, r);

        if (d == 0) {
            *found = true;
            return middle;
        }
        if (d < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int
tree_find(struct tree *t, const struct row *r, struct tree_finder *f,
          struct row *out)
{
    unsigned block, at;
    bool found;
    int rc;

    rc = finder_move(t, r, f);
    if (rc < 0)
        return rc;
    block = group_block_of(&f->group, t->kind, r);
    at = buffer_find(&f->buffer, t->kind, r, group_first(&f->group, block),
                     group_first(&f->group, block + 1), &found);
    if (found) {
        *out = buffer_row(&f->buffer, at);
        return (out->flags & BLOCK_SIGN) == BLOCK_DELETE ? -ENOENT : 0;
    }
    if (f->base_index != block + 1) {
        f->base_index = 0;
        rc = load_base(t, &f->group, block, &f->base);
        if (rc < 0)
            return rc;
        f->base_index = block + 1;
    }
    at = block_find(&f->base, t->kind, r, 0, &found);
    if (!found)
        return -ENOENT;
    *out = block_row(&f->base, at);
    return 0;
}

/* Rows before `r` in base block `block`, which has it. */
static int
rank_in_block(struct tree *t, const struct tree_finder *f, unsigned block,
              const struct row *r, uint64_t *rank)
{
    unsigned first = group_first(&f->group, block), at, i;
    bool in_buffer, in_base;
    int64_t rows;
    struct block base;
    int rc;

    rc = load_base(t, &f->group, block, &base);
    if (rc < 0)
        return rc;
    at = buffer_find(&f->buffer, t->kind, r, first,
                     group_first(&f->group, block + 1), &in_buffer);
    rows = (int64_t)block_find(&base, t->kind, r, 0, &in_base);
    if (in_buffer) {
        const struct row e = buffer_row(&f->buffer, at);

        if ((e.flags & BLOCK_SIGN) == BLOCK_DELETE)
            return -ENOENT;
    } else if (!in_base) {
        return -ENOENT;
    }
    for (i = first; i < at; i++) {
        const unsigned sign = buffer_row(&f->buffer, i).flags & BLOCK_SIGN;

        rows += sign == BLOCK_INSERT ? 1 : sign == BLOCK_DELETE ? -1 : 0;
    }
    if (rows < 0)
        return -EBADMSG;
    *rank += (uint64_t)rows;
    return 0;
}

int
tree_rank(struct tree *t, const struct row *r, uint64_t *rank)
{
    struct tree_finder f = {.valid = false};
    uint64_t before;
    unsigned block;
    int rc;

    rc = finder_move(t, r, &f);
    if (rc < 0)
        return rc;
    block = group_block_of(&f.group, t->kind, r);
    before = f.before;
    for (unsigned i = 0; i < block; i++)
        before += group_total(&f.group, i);
    rc = rank_in_block(t, &f, block, r, &before);
    if (rc < 0)
        return rc;
    *rank = before;
    return 0;
}

/* The child of `n` that holds row `offset` of it. */
static unsigned
node_find_offset(const struct node *n, uint64_t offset)
{
    unsigned low = 0, high = n->count - 1u;

    while (low < high) {
        const unsigned middle = (low + high) / 2;

        if (node_before(n, middle + 1) > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The group with row `offset`, which exists; *before: rows before it. */
static int
seek_offset(struct tree *t, uint64_t offset, struct group *g, uint64_t *before)
{
    uint64_t id = t->root.id, rows = t->root.count;

    *before = 0;
    for (unsigned level = t->root.level; level > 0; level--) {
        struct node n;
        unsigned i;
        const int rc = tree_node(t, id, level, &n);

        if (rc < 0)
            return rc;
        if (node_before(&n, n.count) != rows)
            return -EBADMSG;
        i = node_find_offset(&n, offset - *before);
        *before += node_before(&n, i);
        rows = node_rows(&n, i);
        id = node_child(&n, i);
    }
    return tree_group(t, id, rows, g);
}

/* A range on its way into the caller's bytes. */
struct range {
    uint64_t skip;
    uint64_t length; /* rows still wanted */
    uint8_t *at;
    uint8_t *end;
    bool full;
};

/* Copies what is wanted of a run. */
static void
range_run(struct range *r, const struct run *run)
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
range_group(struct tree *t, const struct group *g, struct range *r)
{
    struct buffer buffer;
    struct walk w;
    struct run run;
    int rc;

    rc = tree_buffer(t, g, &buffer);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < g->blocks && r->length > 0 && !r->full; i++) {
        const uint64_t rows = group_total(g, i);

        if (r->skip >= rows) {
            r->skip -= rows;
            continue;
        }
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
    struct range r = {.length = length, .at = bytes, .end = bytes + size};

    assert(t->kind == BLOCK_RANKS);
    while (r.length > 0 && !r.full && offset < t->root.count) {
        struct group g;
        uint64_t before;
        int rc;

        rc = seek_offset(t, offset, &g, &before);
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

/* Gives the rows of a run to `row`, those not above `after` left out. */
static int
scan_run(enum block_order order, const struct run *run, const struct row *after,
         int (*row)(void *ctx, const struct row *r), void *ctx)
{
    for (unsigned i = run->from; i < run->to; i++) {
        const struct row r =
            run->block != NULL ? block_row(run->block, i) : run->edit;
        int rc;

        if (after != NULL && row_compare(order, &r, after) <= 0)
            continue;
        rc = row(ctx, &r);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int
tree_scan_group(struct tree *t, const struct group *g,
                const struct buffer *buffer, unsigned block,
                const struct row *after,
                int (*row)(void *ctx, const struct row *r), void *ctx)
{
    for (unsigned i = block; i < g->blocks; i++) {
        struct walk w;
        struct run run;
        int rc;

        rc = walk_start(&w, t, g, buffer, i);
        if (rc < 0)
            return rc;
        for (;;) {
            rc = walk_next(&w, &run);
            if (rc < 0)
                return rc;
            if (rc == 0)
                break;
            rc = scan_run(t->kind, &run, i == block ? after : NULL, row, ctx);
            if (rc != 0)
                return rc;
        }
    }
    return 0;
}

int
tree_scan(struct tree *t, const struct row *after,
          int (*row)(void *ctx, const struct row *r), void *ctx)
{
    static const struct row first[3] = {
        [BLOCK_KEYS] = {.key = (const uint8_t *)""},
        [BLOCK_RANKS] = {.count = INT64_MAX, .key = (const uint8_t *)""},
    };
    struct tree_finder f = {.valid = false};
    struct row from = after != NULL ? *after : first[t->kind];
    int rc;

    if (t->root.id == 0)
        return 0;
    for (;;) {
        rc = finder_move(t, &from, &f);
        if (rc < 0)
            return rc;
        rc = tree_scan_group(t, &f.group, &f.buffer,
                             group_block_of(&f.group, t->kind, &from), after,
                             row, ctx);
        if (rc != 0 || !f.has_upper)
            return rc;
        from = f.upper;
        after = NULL;
    }
}

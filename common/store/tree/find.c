/* common/store/tree/find.c - lookups in a tree: by row, by offset.
 *
 * Down the nodes to a group, and there by its buffer and one of its base
 * blocks.  Everything points into the kv's bytes.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/tree/scan.h"

#include <errno.h>

#include "common/store/tree/node.h"

/* The group that would hold `r`, or (NULL) that has row `offset`. */
static int
find_leaf(struct tree *t, const struct row *r, uint64_t offset,
          struct tree_finder *f)
{
    uint64_t id = t->root.id, rows = t->root.count;

    f->valid = false;
    f->has_upper = false;
    f->base_index = 0;
    f->before = 0;
    if (id == 0)
        return -ENOENT;
    for (unsigned level = t->root.level; level > 0; level--) {
        struct node n = {.level = (uint16_t)level};
        unsigned i;
        const int rc = node_get(t, id, rows, NULL, &n);

        if (rc < 0)
            return rc;
        i = r != NULL ? node_find(&n, t->kind, r)
                      : node_find_offset(&n, offset - f->before);
        if (i + 1 < n.count) {
            f->upper = node_separator(&n, i + 1);
            f->has_upper = true;
        }
        f->before += node_before(&n, i);
        rows = node_rows(&n, i);
        id = node_child(&n, i);
    }
    return group_get(t, id, rows, NULL, &f->group);
}

/* Brings the finder to the group that would hold `r`, with its buffer.  -ENOENT
 * when the tree is empty. */
static int
find_group(struct tree *t, const struct row *r, struct tree_finder *f)
{
    int rc;

    /* cppcheck-suppress ctuuninitvar ; a caller has set `valid` */
    if (f->valid && (!f->has_upper || row_compare(t->kind, r, &f->upper) < 0))
        return 0;
    rc = find_leaf(t, r, 0, f);
    if (rc < 0)
        return rc;
    rc = group_buffer(t, &f->group, NULL, &f->buffer);
    if (rc < 0)
        return rc;
    f->valid = true;
    return 0;
}

/* The first of the buffer's entries for base block `block` of the finder's group
 * that is not before `r`. */
static unsigned
buffer_find(const struct tree_finder *f, unsigned block, enum block_order order,
            const struct row *r, bool *found)
{
    unsigned low = group_first(&f->group, block);
    unsigned high = group_first(&f->group, block + 1);

    *found = false;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        const struct row m = buffer_row(&f->buffer, middle);
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

    rc = find_group(t, r, f);
    if (rc < 0)
        return rc;
    block = group_block_of(&f->group, t->kind, r);
    at = buffer_find(f, block, t->kind, r, &found);
    if (found) {
        *out = buffer_row(&f->buffer, at);
        return (out->flags & BLOCK_SIGN) == BLOCK_DELETE ? -ENOENT : 0;
    }
    if (f->base_index != block + 1) {
        f->base_index = 0;
        rc = group_base(t, &f->group, block, NULL, &f->base);
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

/* Rows before `r` in the finder's group, which would hold it. */
static int
count_in_group(struct tree *t, const struct tree_finder *f, const struct row *r,
               uint64_t *count, bool *there)
{
    const unsigned block = group_block_of(&f->group, t->kind, r);
    struct block base;
    int64_t rows;
    unsigned at;
    bool edited;
    int rc;

    rc = group_base(t, &f->group, block, NULL, &base);
    if (rc < 0)
        return rc;
    at = buffer_find(f, block, t->kind, r, &edited);
    rows = (int64_t)block_find(&base, t->kind, r, 0, there);
    if (edited)
        *there =
            (buffer_row(&f->buffer, at).flags & BLOCK_SIGN) != BLOCK_DELETE;
    for (unsigned i = group_first(&f->group, block); i < at; i++) {
        const unsigned sign = buffer_row(&f->buffer, i).flags & BLOCK_SIGN;

        rows += sign == BLOCK_INSERT ? 1 : sign == BLOCK_DELETE ? -1 : 0;
    }
    if (rows < 0)
        return -EBADMSG;
    *count = group_before(&f->group, block) + (uint64_t)rows;
    return 0;
}

int
scan_count_before(struct tree *t, const struct row *r, uint64_t *count,
                  bool *there)
{
    struct tree_finder f = {.valid = false};
    int rc;

    rc = find_group(t, r, &f);
    if (rc == 0)
        rc = count_in_group(t, &f, r, count, there);
    if (rc == 0)
        *count += f.before;
    return rc;
}

int
tree_rank(struct tree *t, const struct row *r, uint64_t *rank)
{
    bool there;
    const int rc = scan_count_before(t, r, rank, &there);

    return rc < 0 || there ? rc : -ENOENT;
}

int
scan_find_offset(struct tree *t, uint64_t offset, struct tree_finder *f)
{
    const int rc = find_leaf(t, NULL, offset, f);

    return rc < 0 ? rc : group_buffer(t, &f->group, NULL, &f->buffer);
}

/* common/store/tree/node.c - nodes of a tree's directory. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/tree/node.h"

#include <errno.h>

#include "common/store/tree/tree.h"
#include "common/store/tree/value.h"

bool
node_separator_inside(const uint8_t *bytes, size_t size, size_t at,
                      size_t first)
{
    return at >= first && at + BLOCK_ROW_HEAD <= size &&
           at + row_size(bytes + at) <= size &&
           row_size(bytes + at) <= BLOCK_ROW_MAX;
}

int
node_check(const uint8_t *bytes, size_t size)
{
    const size_t count = block_count(bytes);
    const size_t first = BLOCK_HEAD + NODE_ENTRY * count;
    uint64_t before = 0;

    if (count == 0 || first > size)
        return -EBADMSG;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *e = bytes + BLOCK_HEAD + NODE_ENTRY * i;

        if (get_le64(e) < before ||
            !node_separator_inside(bytes, size, get_le16(e + 8), first))
            return -EBADMSG;
        before = get_le64(e);
    }
    return 0;
}

int
node_get(struct tree *t, uint64_t id, uint64_t rows, uint8_t *copy,
         struct node *out)
{
    const uint8_t *bytes;
    int rc;

    rc = value_get(t, BLOCK_NODE, value_key(id, 0), copy, &bytes);
    if (rc < 0)
        return rc;
    out->bytes = bytes;
    out->count = block_count(bytes);

    /* The parent's count distinguishes a stale node from the right one. */
    return block_more(bytes) == out->level &&
                   node_before(out, out->count) == rows
               ? 0
               : -EBADMSG;
}

unsigned
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

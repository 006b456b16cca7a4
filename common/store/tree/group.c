/* common/store/tree/group.c - groups of rows: header, buffer, base blocks. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/tree/group.h"

#include <errno.h>

#include "common/store/tree/node.h"
#include "common/store/tree/tree.h"
#include "common/store/tree/value.h"

int
group_check(const uint8_t *bytes, size_t size)
{
    const unsigned blocks = block_count(bytes);
    const size_t first = GROUP_HEAD + GROUP_ENTRY * (size_t)blocks;
    unsigned last = 0;

    if (blocks < 1 || blocks > GROUP_MAX || first > size || size > GROUP_SIZE ||
        block_more(bytes) > GROUP_BUFFER_MAX)
        return -EBADMSG;
    for (unsigned i = 0; i < blocks; i++) {
        const uint8_t *e = bytes + GROUP_HEAD + GROUP_ENTRY * (size_t)i;

        if (!node_separator_inside(bytes, size, get_le16(e + 6), first) ||
            get_le16(e + 2) < last)
            return -EBADMSG;
        last = get_le16(e + 2);
        if ((int)get_le16(e) + (int16_t)get_le16(e + 4) < 0)
            return -EBADMSG;
    }
    return last <= get_le16(bytes + 32) ? 0 : -EBADMSG;
}

int
group_get(struct tree *t, uint64_t id, uint64_t rows, uint8_t *copy,
          struct group *out)
{
    const uint8_t *bytes;
    int rc;

    rc = value_get(t, BLOCK_GROUP, value_key(id, 0), copy, &bytes);
    if (rc < 0)
        return rc;
    *out = (struct group){
        .id = id,
        .bytes = bytes,
        .count = rows,
        .blocks = block_count(bytes),
        .buffers = block_more(bytes),
        .base_generation = get_le32(bytes + 24),
        .buffer_generation = get_le32(bytes + 28),
        .entries = get_le16(bytes + 32),
    };
    /* The parent's count distinguishes a stale header from the right one. */
    return group_before(out, out->blocks) == rows ? 0 : -EBADMSG;
}

/* One base or buffer block: part `part` of the group. */
static int
get_block(struct tree *t, const struct group *g, unsigned part, uint8_t *copy,
          struct block *out)
{
    const bool is_buffer = part >= GROUP_BUFFER_PART;
    const uint8_t *bytes;
    int rc;

    rc = value_get(t, is_buffer ? BLOCK_BUFFER : BLOCK_BASE,
                   value_key(g->id, part), copy, &bytes);
    if (rc < 0)
        return rc;
    if (block_generation(bytes) !=
        (is_buffer ? g->buffer_generation : g->base_generation))
        return -EBADMSG;
    *out = block_open(bytes);
    return 0;
}

int
group_buffer(struct tree *t, const struct group *g,
             uint8_t (*copies)[BLOCK_SIZE], struct buffer *out)
{
    unsigned entries = 0;

    for (unsigned i = 0; i < g->buffers; i++) {
        const int rc =
            get_block(t, g, GROUP_BUFFER_PART + i,
                      copies != NULL ? copies[i] : NULL, &out->blocks[i]);

        if (rc < 0)
            return rc;
        entries += out->blocks[i].count;
    }
    out->count = g->buffers;
    out->entries = entries;
    return entries == g->entries ? 0 : -EBADMSG;
}

int
group_base(struct tree *t, const struct group *g, unsigned i, uint8_t *copy,
           struct block *out)
{
    int rc;

    rc = get_block(t, g, i + 1, copy, out);
    if (rc < 0)
        return rc;
    return out->count == group_rows(g, i) ? 0 : -EBADMSG;
}

/* tests/lib/pagekind.c - see pagekind.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/pagekind.h"

#include <string.h>

#include "common/base/bytes.h"
#include "common/store/history/runs.h"
#include "common/store/lmdb/keyspace.h"
#include "common/store/lmdb/pages_layout.h"

static enum page_kind
leaf_kind(const uint8_t *page)
{
    struct page_node first;

    if (!page_node(page, 4096, true, 0, &first))
        return KIND_NONE;
    if (first.flags == NODE_SUB)
        return KIND_NAMES;
    if (first.key_size == 17 && *first.key == 'm')
        return KIND_MARKS;
    if (first.key_size != 8)
        return KIND_OTHER;
    /* Numbers of transactions are native, and small. */
    return native64(first.key) < 4096 ? KIND_FREE : KIND_VALUES;
}

#define VALUE_HEAD 48 /* bytes: smaller values are of no block */
/* Whether a page of its own is a block of a tree. */
static bool
is_block(const uint8_t *value)
{
    const struct block_id id = {
        .type = value[4], .order = value[5], .key = get_le64(value + 8)};
    const size_t size = get_le16(value + 20);

    return size <= PAGEKIND_SIZE - PAGE_HEAD &&
           block_verify(value, size, &id) == 0;
}

enum page_kind
page_kind(const uint8_t *page)
{
    const uint8_t type = page[PAGE_HEAD + 4];

    switch (native16(page + PAGE_FLAGS_AT)) {
    case PAGE_BRANCH:
        return KIND_BRANCH;
    case PAGE_LEAF:
        return leaf_kind(page);
    case PAGE_OVER:
        if (!is_block(page + PAGE_HEAD))
            return KIND_NONE; /* one of history */
        return type == 1 ? KIND_BASE : type == 2 ? KIND_BUFFER : KIND_NONE;
    default:
        return KIND_NONE;
    }
}

void
page_used(const uint8_t *page, size_t *start, size_t *end)
{
    *start = native16(page + PAGE_LOWER_AT);
    *end = native16(page + PAGE_UPPER_AT);
    if (native16(page + PAGE_FLAGS_AT) == PAGE_OVER) {
        *start = PAGE_HEAD + (size_t)get_le16(page + PAGE_HEAD + 20);
        *end = 4096;
    }
}

/* Whether a value of the tree is not whole. */
static bool
is_damaged(const uint8_t *value, size_t size, const struct block_id *id)
{
    return block_verify(value, size, id) < 0;
}

static bool
is_run_block(const MDB_val *key, const MDB_val *value)
{
    const struct kv_item item = {key->mv_data, value->mv_data, key->mv_size,
                                 value->mv_size};
    struct rows_reader r;

    return rows_open(&r, &item) == 0;
}

/* Whether the store's own look at what is in a leaf sees the bit in it. */
static bool
leaf_sees(uint8_t page[4096], size_t at, uint8_t mask)
{
    struct page_node n = {.at = 0, .end = 0};
    struct keyspace_mark was, now;
    struct block_id id;
    MDB_val key, value;
    uint8_t *data;

    for (unsigned i = 0; at < n.at || at >= n.end; i++)
        if (16 + 2 * i >= native16(page + PAGE_LOWER_AT) ||
            !page_node(page, PAGEKIND_SIZE, true, i, &n))
            return false;
    data = page + (n.data - page);
    key = (MDB_val){n.key_size, page + n.at + NODE_HEAD};
    value = (MDB_val){n.size, data};
    if (at < n.at + NODE_HEAD || n.flags != 0)
        return false;
    if (n.key_size == 17 && *n.key == 'm') {
        if (keyspace_mark_parse(&key, &value, &was) < 0)
            return false;
        page[at] ^= mask;
        return keyspace_mark_parse(&key, &value, &now) < 0 ||
               now.hash != was.hash;
    }
    if (n.key_size >= RUN_KEY_HEAD && is_run_block(&key, &value)) {
        page[at] ^= mask;
        return !is_run_block(&key, &value);
    }
    if (n.size < VALUE_HEAD || page + at < n.data ||
        page_kind(page) != KIND_VALUES)
        return false;
    id = (struct block_id){
        .type = data[4], .order = data[5], .key = get_le64(data + 8)};
    if (is_damaged(data, n.size, &id))
        return false;
    page[at] ^= mask;
    return is_damaged(data, n.size, &id);
}

/* The same of a value with a page of its own. */
static bool
value_sees(uint8_t page[4096], size_t at, uint8_t mask)
{
    uint8_t *value = page + PAGE_HEAD;
    const struct block_id id = {
        .type = value[4], .order = value[5], .key = get_le64(value + 8)};
    const size_t size = get_le16(value + 20);

    if (at < PAGE_HEAD)
        return false;
    page[at] ^= mask;
    return block_verify(value, size, &id) < 0;
}

bool
page_sum_sees(const uint8_t *page, size_t at, uint8_t mask)
{
    const enum page_kind kind = page_kind(page);
    uint8_t copy[PAGEKIND_SIZE];

    memcpy(copy, page, sizeof copy);
    return kind >= KIND_NAMES && kind <= KIND_OTHER ? leaf_sees(copy, at, mask)
           : kind >= KIND_BASE                      ? value_sees(copy, at, mask)
                                                    : false;
}

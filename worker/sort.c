/* worker/sort.c - see fold_memory.h.
 *
 * Keys of one keyspace often begin alike, and then the 8 bytes that are
 * compared first would all be the same; so they are taken from where the
 * keys begin to differ.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/fold_memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"

#define AHEAD 8 /* entries asked for before they are needed */

/* Bytes that a key shares with another at the front, `most` at most. */
static size_t
shared_bytes(const struct fold_entry *a, const struct fold_entry *b,
             size_t most)
{
    size_t i;

    if (b->key_size < most)
        most = b->key_size;
    for (i = 0; i < most && a->key[i] == b->key[i]; i++)
        ;
    return i;
}

/* Lists the entries.  Returns their number; *shared is what all their keys have
 * in common at the front. */
static size_t
list_items(const struct fold *f, const struct fold_keyspace *k,
           struct sort_item *items, size_t *shared)
{
    const struct fold_entry *first = NULL;
    const struct fold_chunk *c;
    size_t count = 0;
    uint32_t i;

    *shared = 0;
    for (c = fold_chunk_at(f, k->chunk); c; c = fold_chunk_at(f, c->older)) {
        for (i = 0; i < c->count; i++) {
            const struct fold_entry *e = fold_entry_at(f, c->entries[i]);

            if (!first)
                *shared = e->key_size;
            first = first ? first : e;
            *shared = shared_bytes(first, e, *shared);
            items[count++].entry = c->entries[i];
        }
    }
    return count;
}

/* The next 8 bytes as a number that sorts like them.  Names hold no NUL, so
 * padding with zeros sorts the shorter one first. */
static uint64_t
prefix_of(const struct fold_entry *e, size_t from)
{
    uint8_t bytes[8] = {0};
    size_t size = e->key_size - from;

    memcpy(bytes, e->key + from, size < 8 ? size : 8);
    return get_be64(bytes);
}

static int
compare_entries(const struct fold_entry *a, const struct fold_entry *b)
{
    const int order = bytes_compare(a->key, a->key_size, b->key, b->key_size);

    return order != 0 ? order
                      : (a->minute > b->minute) - (a->minute < b->minute);
}

static int
compare_items(const void *a, const void *b, void *ctx)
{
    const struct sort_item *x = a, *y = b;
    const struct fold *f = *(const struct fold **)ctx;

    if (x->prefix != y->prefix)
        return x->prefix < y->prefix ? -1 : 1;
    return compare_entries(fold_entry_at(f, x->entry),
                           fold_entry_at(f, y->entry));
}

size_t
fold_sort(const struct fold *f, const struct fold_keyspace *k, void *scratch,
          struct store_delta **deltas)
{
    struct sort_item *items = scratch;
    struct store_delta *out =
        (struct store_delta *)(void *)(items + k->entry_count);
    const struct fold_entry *e;
    size_t shared, count, i;

    count = list_items(f, k, items, &shared);
    assert(count <= k->entry_count);
    for (i = 0; i < count; i++) {
        if (i + AHEAD < count)
            fold_prefetch(f, items[i + AHEAD].entry);
        items[i].prefix = prefix_of(fold_entry_at(f, items[i].entry), shared);
    }
    qsort_r(items, count, sizeof *items, compare_items, &f);
    for (i = 0; i < count; i++) {
        if (i + AHEAD < count)
            fold_prefetch(f, items[i + AHEAD].entry);
        e = fold_entry_at(f, items[i].entry);
        out[i] = (struct store_delta){.key = e->key,
                                      .key_size = e->key_size,
                                      .minute = e->minute,
                                      .sum_high = e->sum_high,
                                      .sum_low = e->sum_low};
    }
    *deltas = out;
    return count;
}

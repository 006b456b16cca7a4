/* worker/sort.c - see fold.h: fold_deltas().
 *
 * Entries are sorted by 8 bytes of their keys, which lie beside where they are:
 * most comparisons read no entry, which would be somewhere else in memory.  Keys
 * of one keyspace often begin alike, so these bytes are taken from where they
 * begin to differ.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/fold_memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"

#define AHEAD 8 /* entries asked for before they are needed */

/* Lists the entries.  Returns their number; *shared is what all their keys have
 * in common at the front. */
static size_t
list_items(const struct fold *f, const struct fold_keyspace *k,
           struct sort_item *items, size_t *shared)
{
    const struct fold_entry *first = fold_at(f, k->newest), *e;
    uint32_t at = k->newest;
    size_t count = 0;

    *shared = at == 0 ? 0 : first->key_size;
    for (; at != 0; at = e->older) {
        e = fold_at(f, at);
        *shared = bytes_common_size(first->key, *shared, e->key, e->key_size);
        items[count++].entry = e;
    }
    return count;
}

/* 8 bytes as a number that sorts like them.  Names hold no NUL, so padding with
 * zeros sorts the shorter one first. */
static uint64_t
prefix_of(const struct fold_entry *e, size_t from)
{
    uint8_t bytes[8] = {0};
    size_t size = e->key_size - from;

    memcpy(bytes, e->key + from, size < 8 ? size : 8);
    return get_be64(bytes);
}

static int
compare_items(const void *a, const void *b)
{
    const struct sort_item *x = a, *y = b;
    int c = (x->prefix > y->prefix) - (x->prefix < y->prefix);

    if (c == 0)
        c = bytes_compare(x->entry->key, x->entry->key_size, y->entry->key,
                          y->entry->key_size);
    return c != 0 ? c
                  : (x->entry->minute > y->entry->minute) -
                        (x->entry->minute < y->entry->minute);
}

size_t
fold_deltas(const struct fold *f, const struct fold_keyspace *k, void *scratch,
            struct store_delta **deltas)
{
    struct sort_item *items = scratch ? scratch : (void *)f->scratch.at;
    struct store_delta *out =
        (struct store_delta *)(void *)(items + k->entry_count);
    size_t shared, count, i;

    assert(scratch || k->entry_count * FOLD_SCRATCH_SIZE <= f->scratch.size);
    count = list_items(f, k, items, &shared);
    assert(count <= k->entry_count);
    for (i = 0; i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(items[i + AHEAD].entry);
        items[i].prefix = prefix_of(items[i].entry, shared);
    }
    qsort(items, count, sizeof *items, compare_items);
    for (i = 0; i < count; i++) {
        const struct fold_entry *e = items[i].entry;

        if (i + AHEAD < count)
            __builtin_prefetch(items[i + AHEAD].entry);
        out[i] =
            (struct store_delta){.key = e->key,
                                 .key_size = e->key_size,
                                 .minute = e->minute,
                                 .sum = int128_of(e->sum_high, e->sum_low)};
    }
    *deltas = out;
    return count;
}

/* worker/sort.c - see fold_memory.h.
 *
 * Keys of one keyspace often begin alike, and then the 8 bytes that are
 * compared first would all be the same; so they are taken from where the
 * keys begin to differ.  A merge sort without recursion: runs of RUN by
 * insertion, then doubled from one array to the other and back.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/fold_memory.h"

#include "common/base/bytes.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#define RUN   8
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

static bool
entry_before(const struct fold_entry *a, const struct fold_entry *b)
{
    const int order = bytes_compare(a->key, a->key_size, b->key, b->key_size);

    return order != 0 ? order < 0 : a->minute < b->minute;
}

static inline bool
item_before(const struct fold *f, const struct sort_item *a,
            const struct sort_item *b)
{
    if (a->prefix != b->prefix)
        return a->prefix < b->prefix;
    return entry_before(fold_entry_at(f, a->entry), fold_entry_at(f, b->entry));
}

static void
sort_run(const struct fold *f, struct sort_item *items, size_t count)
{
    size_t i, j;

    for (i = 1; i < count; i++) {
        const struct sort_item item = items[i];

        for (j = i; j > 0 && item_before(f, &item, &items[j - 1]); j--)
            items[j] = items[j - 1];
        items[j] = item;
    }
}

/* Which of two runs gives the next item is a coin toss to the branch
 * predictor, so that is not a branch. */
static void
merge_runs(const struct fold *f, const struct sort_item *from, size_t middle,
           size_t end, struct sort_item *to)
{
    size_t a = 0, b = middle, i = 0;

    while (a < middle && b < end) {
        size_t second = from[b].prefix < from[a].prefix;

        if (__builtin_expect(from[b].prefix == from[a].prefix, 0))
            second = item_before(f, &from[b], &from[a]);
        to[i++] = from[second ? b : a];
        a += 1 - second;
        b += second;
    }
    memcpy(to + i, from + a, (middle - a) * sizeof *to);
    memcpy(to + i + middle - a, from + b, (end - b) * sizeof *to);
}

/* Returns the array of the two that ends up sorted. */
static struct sort_item *
merge_sort(const struct fold *f, struct sort_item *items,
           struct sort_item *spare, size_t count)
{
    struct sort_item *swap;
    size_t width, at;

    for (at = 0; at < count; at += RUN)
        sort_run(f, items + at, count - at < RUN ? count - at : RUN);
    for (width = RUN; width < count; width *= 2) {
        for (at = 0; at < count; at += 2 * width) {
            const size_t rest = count - at;

            merge_runs(f, items + at, rest < width ? rest : width,
                       rest < 2 * width ? rest : 2 * width, spare + at);
        }
        swap = items;
        items = spare;
        spare = swap;
    }
    return items;
}

size_t
fold_sort(const struct fold *f, const struct fold_keyspace *k, void *scratch,
          struct store_delta **deltas)
{
    struct sort_item *items = scratch;
    struct sort_item *spare = items + k->entry_count;
    struct store_delta *out =
        (struct store_delta *)(void *)(spare + k->entry_count);
    const struct fold_entry *e;
    size_t shared, count, i;

    count = list_items(f, k, items, &shared);
    assert(count <= k->entry_count);
    for (i = 0; i < count; i++) {
        if (i + AHEAD < count)
            fold_prefetch(f, items[i + AHEAD].entry);
        items[i].prefix = prefix_of(fold_entry_at(f, items[i].entry), shared);
    }
    items = merge_sort(f, items, spare, count);
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

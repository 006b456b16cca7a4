/* worker/sort.c - see fold_memory.h.
 *
 * Entries are sorted by 8 bytes of their keys, which lie beside their references:
 * a comparison reads no entry, which would be somewhere else in memory.  Those
 * that are tied are sorted again by the next 8 bytes and, when their keys have
 * ended and are the same, by their minutes.  Keys of one keyspace often begin
 * alike, so the first bytes are taken from where they begin to differ.
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
compare_items(const void *a, const void *b)
{
    const struct sort_item *x = a, *y = b;

    return (x->prefix > y->prefix) - (x->prefix < y->prefix);
}

/* Sorts items that are tied, by the bytes of their keys from `from` on.  True:
 * some are tied still. */
static bool
sort_tied(const struct fold *f, struct sort_item *items, size_t count,
          size_t from)
{
    const bool is_one_key = items[1].tie == TIE_KEY;
    bool tied = false;
    size_t i;

    for (i = 0; i < count; i++) {
        const struct fold_entry *e = fold_entry_at(f, items[i].entry);

        if (i + AHEAD < count)
            fold_prefetch(f, items[i + AHEAD].entry);
        items[i].prefix = is_one_key ? e->minute : prefix_of(e, from);
    }
    qsort(items, count, sizeof *items, compare_items);
    items[0].tie = TIE_NONE;
    for (i = 1; i < count; i++) {
        const uint64_t prefix = items[i].prefix;

        if (is_one_key || prefix != items[i - 1].prefix)
            items[i].tie = TIE_NONE;
        else
            items[i].tie = (prefix & 0xff) == 0 ? TIE_KEY : TIE_BYTES;
        tied |= items[i].tie != TIE_NONE;
    }
    return tied;
}

/* Sorts by key from `from` on, then by minute.  A round is for all that are
 * tied. */
static void
sort_items(const struct fold *f, struct sort_item *items, size_t count,
           size_t from)
{
    bool tied = count > 1;
    size_t first, end;

    for (first = 0; first < count; first++)
        items[first].tie = TIE_BYTES;
    for (; tied; from += sizeof items->prefix) {
        tied = false;
        for (first = 0; first < count; first = end) {
            for (end = first + 1; end < count && items[end].tie != TIE_NONE;)
                end++;
            if (end - first > 1 &&
                sort_tied(f, items + first, end - first, from))
                tied = true;
        }
    }
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
    sort_items(f, items, count, shared);
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

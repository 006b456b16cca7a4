/* worker/order.c - see order.h.
 *
 * Keys of one keyspace often begin alike, and then the 8 bytes that are
 * compared first would all be the same; so they are taken from where the
 * keys begin to differ.  A merge sort without recursion: runs of RUN by
 * insertion, then doubled from one array to the other and back.
 */
#include "worker/order.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#define RUN 8

/* Bytes that all keys of the keyspace share at the front. */
static size_t
common_prefix(const struct fold *f, const struct fold_keyspace *k)
{
    const struct fold_entry *first = NULL, *e;
    size_t shared = 0, i;
    uint32_t at;

    for (at = k->entries; at != 0; at = e->next) {
        e = fold_entry_at(f, at);
        if (e->count == 0)
            continue;
        if (!first) {
            first = e;
            shared = e->key_size;
            continue;
        }
        if (e->key_size < shared)
            shared = e->key_size;
        for (i = 0; i < shared && e->key[i] == first->key[i]; i++)
            ;
        shared = i;
    }
    return shared;
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
    const size_t least = a->key_size < b->key_size ? a->key_size : b->key_size;
    const int order = memcmp(a->key, b->key, least);

    if (order != 0)
        return order < 0;
    if (a->key_size != b->key_size)
        return a->key_size < b->key_size;
    return a->minute < b->minute;
}

static inline bool
item_before(const struct fold *f, const struct order_item *a,
            const struct order_item *b)
{
    if (a->prefix != b->prefix)
        return a->prefix < b->prefix;
    return entry_before(fold_entry_at(f, a->entry), fold_entry_at(f, b->entry));
}

static void
sort_run(const struct fold *f, struct order_item *items, size_t count)
{
    size_t i, j;

    for (i = 1; i < count; i++) {
        const struct order_item item = items[i];

        for (j = i; j > 0 && item_before(f, &item, &items[j - 1]); j--)
            items[j] = items[j - 1];
        items[j] = item;
    }
}

static void
merge_runs(const struct fold *f, const struct order_item *from, size_t middle,
           size_t end, struct order_item *to)
{
    size_t a = 0, b = middle, i;

    for (i = 0; i < end; i++) {
        if (a < middle && (b >= end || !item_before(f, &from[b], &from[a])))
            to[i] = from[a++];
        else
            to[i] = from[b++];
    }
}

/* Returns the array of the two that ends up sorted. */
static struct order_item *
sort_items(const struct fold *f, struct order_item *items,
           struct order_item *spare, size_t count)
{
    struct order_item *swap;
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
order_deltas(const struct fold *f, const struct fold_keyspace *k, void *scratch,
             struct store_delta **deltas)
{
    struct order_item *items = scratch;
    struct order_item *spare = items + k->entry_count;
    struct store_delta *out =
        (struct store_delta *)(void *)(spare + k->entry_count);
    const size_t shared = common_prefix(f, k);
    const struct fold_entry *e;
    size_t count = 0, i;
    uint32_t at;

    for (at = k->entries; at != 0; at = e->next) {
        e = fold_entry_at(f, at);
        if (e->count == 0)
            continue;
        items[count++] =
            (struct order_item){.prefix = prefix_of(e, shared), .entry = at};
    }
    assert(count <= k->entry_count);
    items = sort_items(f, items, spare, count);
    for (i = 0; i < count; i++) {
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

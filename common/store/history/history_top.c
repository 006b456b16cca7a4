/* common/store/history/history_top.c - see history_top.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/history/history_top.h"

#include <stdlib.h>
#include <string.h>

/* Whether `a` comes before `b` in the top. */
static bool
is_before(const struct store_top *a, const struct store_top *b)
{
    const int128 x = a->sum.sum, y = b->sum.sum;

    if (x != y)
        return x > y;
    return bytes_compare(a->key, a->key_size, b->key, b->key_size) < 0;
}

/* Puts an entry into the heap of `count` in place of its root, which is the entry
 * that ranks last: those on the way down move up, so that each is copied once. */
static void
sift_down(struct store_top *top, uint64_t count, const struct store_top *entry)
{
    uint64_t at = 0;

    for (;;) {
        uint64_t child = 2 * at + 1;

        if (child + 1 < count && is_before(&top[child], &top[child + 1]))
            child++;
        if (child >= count || is_before(&top[child], entry))
            break;
        top[at] = top[child];
        at = child;
    }
    top[at] = *entry;
}

/* Puts an entry into the heap at its end, `at`. */
static void
sift_up(struct store_top *top, uint64_t at, const struct store_top *entry)
{
    while (at > 0 && is_before(&top[(at - 1) / 2], entry)) {
        top[at] = top[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    top[at] = *entry;
}

/* Whether the top would change by a key. */
static bool
wants_key(const struct store_history_query *q, const uint8_t *key, size_t size,
          int128 sum)
{
    int128 least;

    if (q->rows < q->length)
        return q->length > 0;
    if (q->length == 0)
        return false;
    least = q->top[0].sum.sum;
    return sum > least ||
           (sum == least &&
            bytes_compare(key, size, q->top[0].key, q->top[0].key_size) < 0);
}

/* Adds a key if it belongs to the top. */
static void
offer_key(struct store_history_query *q, const uint8_t *key, size_t size,
          int128 sum)
{
    struct store_top entry;

    if (!wants_key(q, key, size, sum))
        return;
    entry.sum = (struct store_bucket){sum, true};
    entry.before = (struct store_bucket){.any = false};
    entry.key_size = (uint16_t)size;
    memcpy(entry.key, key, size);
    if (q->rows == q->length)
        sift_down(q->top, q->rows, &entry);
    else
        sift_up(q->top, q->rows++, &entry);
}

static int
compare_entries(const void *a, const void *b)
{
    return is_before(a, b) ? -1 : 1;
}

/* Counts a key, and whether it ranks before the one of the query; without one
 * adds its sum. */
static void
count_key(struct store_history_query *q, const uint8_t *key, size_t size,
          int128 sum)
{
    const int128 own = q->sum.sum;

    q->keys++;
    if (q->key_size == 0)
        q->sum = (struct store_bucket){own + sum, true};
    else
        q->rank += sum > own || (sum == own && bytes_compare(key, size, q->key,
                                                             q->key_size) < 0);
}

/* ---- groups ------------------------------------------------------------ */

static void
take_row(struct store_history_query *q, const uint8_t *key, size_t size,
         int128 sum)
{
    if (q->op == STORE_HISTORY_TOP)
        offer_key(q, key, size, sum);
    else
        count_key(q, key, size, sum);
}

static void
take_open(struct store_history_query *q)
{
    if (q->open.key_size > 0)
        take_row(q, q->open.key, q->open.key_size, q->open.sum.sum);
    q->open.key_size = 0;
}

void
history_take_key(struct store_history_query *q, const uint8_t *key, size_t size,
                 int128 sum)
{
    struct store_top *open = &q->open;
    const uint8_t *end;

    if (q->group == 0) {
        take_row(q, key, size, sum);
        return;
    }
    end = memchr(key + q->prefix_size, q->group, size - q->prefix_size);
    if (end)
        size = (size_t)(end - key) + 1;
    if (bytes_equal(open->key, open->key_size, key, size)) {
        open->sum.sum += sum;
        return;
    }
    take_open(q);
    open->sum = (struct store_bucket){sum, true};
    open->key_size = (uint16_t)size;
    memcpy(open->key, key, size);
}

void
history_end_keys(struct store_history_query *q)
{
    take_open(q);
    if (q->op == STORE_HISTORY_TOP)
        qsort(q->top, q->rows, sizeof *q->top, compare_entries);
}

bool
history_is_group(const struct store_history_query *q,
                 const struct store_top *row)
{
    return q->group != 0 && row->key_size > q->prefix_size &&
           row->key[row->key_size - 1] == q->group;
}

/* tests/bench/batch.c - see batch.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/lib/test.h"

void
batch_init(struct batch *b, size_t capacity)
{
    *b = (struct batch){.capacity = capacity,
                        .random = {1},
                        .before = "key:",
                        .after = "",
                        .deltas = need(capacity, sizeof *b->deltas),
                        .keys = need(capacity, sizeof *b->keys)};
}

void
batch_put_key(const struct batch *b, char key[BATCH_KEY + 1], uint64_t id)
{
    const size_t before = strlen(b->before), after = strlen(b->after);

    memcpy(key, b->before, before);
    for (size_t i = BATCH_KEY - after; i-- > before; id /= 10)
        key[i] = (char)('0' + id % 10);
    memcpy(key + BATCH_KEY - after, b->after, after + 1);
}

static void
put_delta(struct batch *b, size_t i, uint64_t id, uint64_t sum)
{
    batch_put_key(b, b->keys[i], id);
    b->deltas[i] = (struct store_delta){.key = (uint8_t *)b->keys[i],
                                        .key_size = BATCH_KEY,
                                        .minute = b->minute,
                                        .sum = sum};
}

void
batch_put_sequence(struct batch *b, uint64_t first, size_t count)
{
    assert_true(count <= b->capacity);
    for (size_t i = 0; i < count; i++)
        put_delta(b, i, first + i, 1 + (first + i) % 9);
    b->count = count;
}

static int
compare_keys(const void *x, const void *y)
{
    const struct store_delta *a = x, *b = y;

    return memcmp(a->key, b->key, BATCH_KEY);
}

void
batch_put_random(struct batch *b, size_t count, uint64_t of, uint64_t most)
{
    size_t kept = 0;

    assert_true(count <= b->capacity);
    for (size_t i = 0; i < count; i++)
        put_delta(b, i, random_below(&b->random, of),
                  1 + random_below(&b->random, most));
    qsort(b->deltas, count, sizeof *b->deltas, compare_keys);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || compare_keys(&b->deltas[kept - 1], &b->deltas[i]) != 0)
            b->deltas[kept++] = b->deltas[i];
    b->count = kept;
}

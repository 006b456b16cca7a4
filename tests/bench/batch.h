/* tests/bench/batch.h - deltas of keys that are numbers, in the order of keys.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_BENCH_BATCH_H
#define COUNTD_TESTS_BENCH_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "common/store/store.h"
#include "tests/lib/random.h"

#define BATCH_KEY 20 /* bytes of a key */

struct batch {
    struct store_delta *deltas;
    size_t count, capacity;
    uint32_t minute; /* of all that is put */
    struct random random;
    char (*keys)[BATCH_KEY + 1];
    const char *before, *after; /* the digits of a key */
};

/* For at most so many, "key:" and digits; lasts until the process ends. */
void batch_init(struct batch *b, size_t capacity);

void batch_put_key(const struct batch *b, char key[BATCH_KEY + 1], uint64_t id);

/* Keys `first` to `first + count - 1`, by 1 to 9. */
void batch_put_sequence(struct batch *b, uint64_t first, size_t count);

/* Some of `count` random keys below `of`, each once, by 1 to `most`. */
void batch_put_random(struct batch *b, size_t count, uint64_t of,
                      uint64_t most);

#endif

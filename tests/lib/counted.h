/* tests/lib/counted.h - a model of what a keyspace counts, and batches for
 * both.
 *
 * The keyspace is called "pages" (KS).  Random numbers come from `rng`, which a
 * test sets to have the same ones each time. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_COUNTED_H
#define COUNTD_TESTS_LIB_COUNTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store/store.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

__extension__ typedef __int128 sum128;

#define KS_NAME "pages"
#define KS      (const uint8_t *)KS_NAME, 5

/* ---- random numbers ---- */

extern uint64_t rng;
uint64_t below(uint64_t n);

/* ---- the model: an array sorted by key ---- */

struct counter {
    uint8_t key[256];
    uint16_t size;
    bool saturated;
    int64_t count;
};

struct model {
    struct counter *counters;
    size_t count, room;
    sum128 sum;
};

struct counter *model_find(struct model *m, const uint8_t *key, uint16_t size);

/* ---- batches ---- */

struct batch_keys {
    uint8_t *bytes;
    struct store_delta *deltas;
    size_t count;
};

/* About `n` deltas of keys below `span`, from -most to most; some far beyond
 * int64 when `huge`.  Keys are of a shape: 0 short ones, 1 the longest, 2 all
 * sizes from 1 to 256 with common beginnings. */
void batch_make(struct batch_keys *b, size_t n, uint64_t span, int shape,
                int64_t most, bool huge);
void batch_free(struct batch_keys *b);
void model_apply(struct model *m, const struct batch_keys *b);

/* A log's records. */
struct log_batch {
    struct log_fill mark;
    struct batch_keys keys;
};

void log_make(struct log_batch *l, uint8_t id, uint64_t epoch, size_t n,
              uint64_t span);

/* What a worker does with up to 4 logs: asks for their marks and applies those
 * that agree together; asks again when they have changed or another process is
 * writing. */
int apply_logs(struct store *s, const struct log_batch *logs, size_t n);

/* ---- stores ---- */

/* Opens LMDB's engine for KS and other keyspaces of this directory. */
struct store *open_store(const struct tmpdir *d, size_t txn_memory,
                         bool writable);

struct store_delta delta(const char *key, int64_t sum);
int apply_deltas(struct store *s, const uint8_t *name, size_t name_size,
                 const struct log_fill *marks, size_t mark_count,
                 const struct store_delta *deltas, size_t count,
                 struct store_applied *applied);
/* Applies a log of one each of `count` keys of `size` bytes: key-0, key-1 ...,
 * with zeros in front.  Epoch 0: without a mark. */
int apply_keys(struct store *s, uint64_t epoch, unsigned count, size_t size,
               struct store_applied *applied);
int apply_one(struct store *s, const char *name, const char *key, int64_t sum);

/* A count, or an error. */
int64_t get_one(struct store *s, const char *name, const char *key);
enum store_mark_state mark_state(struct store *s, const struct log_fill *mark);

/* Expects KS to be as the model: totals, every key, every rank. */
void compare_all(struct store *s, struct model *m);

/* Expects store_check() to find nothing in KS. */
void check_clean(struct store *s);

/* Removes all files. */
void tmpdir_empty(const struct tmpdir *d);

/* setup and teardown of a test: *state is a struct tmpdir in memory. */
int in_memory(void **state);
int remove_dir(void **state);

#endif

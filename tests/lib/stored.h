/* tests/lib/stored.h - what tests put into a store and find in it, whatever
 * its engine.  Names and keys are texts.  Errors: as common/store/store.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_STORED_H
#define COUNTD_TESTS_LIB_STORED_H

#include "common/setup/datadir.h"
#include "common/setup/tiers.h"
#include "common/store/store.h"

/* The change of a key that came in a minute. */
static inline struct store_delta
stored_delta(const void *key, size_t size, uint32_t minute, int64_t sum)
{
    return (struct store_delta){
        .key = key, .key_size = (uint16_t)size, .minute = minute, .sum = sum};
}

/* For store_check(). */
void print_fault(void *ctx, const char *text);

/* Applies deltas under one mark, or (NULL) under none. */
int stored_apply(struct store *s, const char *name, const struct log_fill *mark,
                 const struct store_delta *deltas, size_t count);

/* The same of one key. */
int stored_add(struct store *s, const char *name, const struct log_fill *mark,
               const char *key, int64_t sum);

/* What the keyspace has of fills. */
int stored_marks(struct store *s, const char *name,
                 const struct log_fill *marks, size_t count,
                 struct store_mark_info *infos);

/* Deletes keys; those that existed are added to *deleted. */
int stored_del(struct store *s, const char *name, const struct store_key *keys,
               size_t count, uint64_t *deleted);

/*   -ENOENT  no such keyspace or key */
int stored_get(struct store *s, const char *name, const char *key,
               struct store_row *row);
int stored_totals(struct store *s, const char *name, struct store_totals *out);

/* Rows `offset` to `offset + length - 1`; returns their number. */
int stored_range(struct store *s, const char *name, int64_t offset,
                 uint64_t length, uint8_t *bytes, size_t size);

/* Up to `length` rows in key order from position `offset` on, of keys that
 * begin with `prefix` and come after `after`; returns their number. */
int stored_keys(struct store *s, const char *name, int64_t offset,
                const char *prefix, const char *after, uint64_t length,
                uint8_t *bytes, size_t size);

/* Calls `row` for each row of the keyspace by count; stops when it returns
 * non-zero and returns that. */
int stored_each(struct store *s, const char *name,
                int (*row)(void *ctx, const uint8_t *key, size_t key_size,
                           const struct store_row *r),
                void *ctx);

/* A data directory with its keyspaces in files, for reading, at the time of
 * `now_ms` (NULL: of the clock); or for writing, much at once, with history or
 * (NULL) without.  A failure fails the test. */
struct stored_dir {
    struct datadir dir;
    struct store *store;
    struct tiers_rules history;
};

void stored_open(struct stored_dir *s, const char *path,
                 uint64_t (*now_ms)(void));
void stored_write(struct stored_dir *s, const char *path, const char *tiers);
void stored_close(struct stored_dir *s);

/* What a data directory counts of a key; INT64_MIN: it has none. */
int64_t stored_count(const char *path, const char *name, const char *key);

#endif

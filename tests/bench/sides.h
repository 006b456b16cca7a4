/* tests/bench/sides.h - stores that benches of history fill, and what stands
 * beside them.
 *
 * All goes by a clock that the bench sets, and by one batch at a time.  What
 * fails ends the bench. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_BENCH_SIDES_H
#define COUNTD_TESTS_BENCH_SIDES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/setup/tiers.h"
#include "common/store/store.h"
#include "tests/bench/batch.h"
#include "tests/bench/redis.h"
#include "tests/bench/sqlite.h"
#include "tests/lib/tmpdir.h"

#define SIDES_DAY   1440u
#define SIDES_BATCH 500000 /* keys of sides_batch, at most */
#define SIDES_TIERS "1m:2d,1h:90d,1d:10y"

/* The batch that is applied; its minute is the time. */
extern struct batch sides_batch;

/* A store in a folder of its own. */
struct side {
    struct tmpdir tmp;
    struct store *store;
    struct tiers_rules rules;
    uint64_t epoch;
};

void side_make(struct side *s);
void side_open(struct side *s, const char *tiers);
void side_close(struct side *s); /* and remove it */

/* Applies the batch to a keyspace; milliseconds. */
double side_apply(struct side *s, const char *name);

/* A turn of the store's own work. */
void side_tend(struct side *s);

double side_file_mb(const struct side *s, const char *name);
double side_used(struct side *s, const char *name); /* bytes */

/* What stands beside: NULL where it is not installed. */
struct beside {
    struct sqlite *sqlite;
    struct redis *redis;
    double sqlite_ms, redis_ms;
};

void beside_open(struct beside *b, const char *dir);
void beside_apply(struct beside *b);
void beside_close(struct beside *b);

#endif

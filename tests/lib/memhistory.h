/* tests/lib/memhistory.h - the questions of common/store/store.h about history,
 * answered from a plain table: what is right, for engines to be compared with.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_MEMHISTORY_H
#define COUNTD_TESTS_LIB_MEMHISTORY_H

#include "common/store/store.h"

struct name {
    uint8_t bytes[STORE_NAME_MAX];
    size_t size;
};

/* The increments of a key in a minute; a key and minute may stand several times. */
struct memhistory {
    struct name key;
    uint32_t minute;
    int128 sum;
};

/* What an engine makes of it: what came in more than a day came now. */
struct memhistory memhistory_of(const struct store_delta *d, uint32_t now);

/* As store_history(), of a table for which nothing is missing, ever. */
int memhistory_answer(const struct memhistory *table, size_t count,
                      struct store_history_query *q);

/* Asks an engine, by `ask`, in pieces (-EAGAIN), and compares its answer with
 * that of the table, but for what it does not promise.  `deleted`: some keys of
 * the table were, whose steps stay, with 0, in what came for all keys.
 * q->length and the steps are at most MEMHISTORY_ROWS. */
#define MEMHISTORY_ROWS 512
void memhistory_compare(const struct memhistory *table, size_t count,
                        bool deleted, struct store_history_query q,
                        int (*ask)(void *ctx, struct store_history_query *q),
                        void *ctx);

#endif

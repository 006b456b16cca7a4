/* reader/history_query.h - queries of history, and of all keys with a prefix:
 * from a request to what the store answers.
 *
 * A period is widened to whole steps: to the finest of which nothing, or the
 * least, is missing.  The answer has the widened period.
 *
 * Without a period the counts of keys are read, in key order, as history's sums
 * of a period are: so a top and its groups are made in the same way.
 *
 * A query of a key or keyspace may cover ten years, and the top of a period and
 * a rank in it read every key: all proceed in steps, each on a snapshot of its
 * own.
 *
 * Ownership: the caller's; the store is borrowed.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_HISTORY_QUERY_H
#define COUNTD_READER_HISTORY_QUERY_H

#include <stdbool.h>

#include "common/setup/time_text.h"
#include "common/store/store.h"
#include "common/wire/query.h"

#define HISTORY_QUERY_ROWS   256 /* keys read at a time */
#define HISTORY_QUERY_MEMORY (STORE_TOP_MAX * sizeof(struct store_top))

/* The first members are the caller's. */
struct history_query {
    struct store *store;
    void *memory; /* HISTORY_QUERY_MEMORY bytes for the rows */

    struct store_history_query q;
    struct time_range span; /* as asked, of a period */
    int64_t step;           /* seconds that the times are multiples of; 0: none
                               yet */
    unsigned tried;         /* steps of which the store was asked: */
    struct store_history_query trial;
    bool is_chosen;
    bool is_all_time;
    /* 0, or why there are no rows: -EINVAL times that no tier has, -E2BIG too
     * many buckets, -ENOENT no such keyspace, -ENODATA it has no history;
     * others: it cannot be read. */
    int error;
    uint8_t rows[HISTORY_QUERY_ROWS * (QUERY_ROW_SIZE + QUERY_NAME_SIZE)];
};

/* Begins; what was begun before is forgotten.  Of `q` the operation, the names,
 * `group` and `length` are read, and the names stay where they are until the
 * end; KEY without a key is of the KEYSPACE.  Times of 0 mean all time: TOP and
 * RANK are of counts then, instead of sums; for STEP it is enough that `to` is
 * 0.  `step`: seconds, for KEY. */
void history_query_start(struct history_query *p,
                         const struct store_history_query *q,
                         struct time_range span, int64_t step);

/* Goes on until about until_ns (clock_ns(); 0: to the end); true when it is
 * done.  What the store keeps goes with the next store_read_end(). */
bool history_query_step(struct history_query *p, uint64_t until_ns);

/* For an answer without error: how many rows q.buckets or q.top has, and Unix
 * seconds, 0 or a time before which increments may be missing. */
size_t history_query_rows(const struct history_query *p);
int64_t history_query_since(const struct history_query *p);

#endif

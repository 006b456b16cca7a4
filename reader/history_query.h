/* reader/history_query.h - queries of history: from a request to the bytes of
 * its answer.
 *
 * A period is widened to whole steps: to the finest that nothing is missing
 * from, or least is.  The answer says which.
 *
 * A query of a key or keyspace may cover ten years, and the top of a period and
 * a rank in it read every key: all proceed in steps, each of its own snapshot.
 *
 * A query that cannot be answered (times that no tier has, no such keyspace)
 * gets an answer that says so, and the connection stays open.
 *
 * Ownership: the caller's between history_query_init() and
 * history_query_fini(); the store is borrowed.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_HISTORY_QUERY_H
#define COUNTD_READER_HISTORY_QUERY_H

#include <stdbool.h>

#include "common/store/store.h"
#include "reader/query.h"

#define HISTORY_QUERY_ROW_MAX                                                  \
    ((size_t)(QUERY_HISTORY_ROW_SIZE + QUERY_NAME_SIZE))
#define HISTORY_QUERY_SIZE_MAX                                                 \
    (QUERY_REPLY_SIZE + QUERY_HISTORY_HEAD +                                   \
     QUERY_ROWS_MAX * HISTORY_QUERY_ROW_MAX)

struct history_query {
    struct store *store;
    struct store_history_query q;
    enum query_op op;
    int64_t as_of_ms;
    int64_t from, to; /* as asked, of a period: seconds */
    int64_t step;     /* that the times are multiples of; 0: none yet */
    unsigned tried;   /* steps of which the store was asked */
    bool is_chosen;
    int error;                    /* of the answer; else it ends the peer */
    struct store_bucket *buckets; /* one memory: a query has either */
    struct store_top *top;
    uint8_t name[QUERY_NAME_SIZE];
    uint8_t key[QUERY_NAME_SIZE];
};

/*   -ENOMEM */
int history_query_init(struct history_query *p, struct store *store);
void history_query_fini(struct history_query *p);

/* The most bytes that the answer to `q` can take. */
size_t history_query_bound(const struct query *q);

/* Begins; what was begun before is forgotten.  Nothing of `q` is kept. */
void history_query_start(struct history_query *p, const struct query *q,
                         int64_t as_of_ms);

/* Goes on until about until_ns (clock_ns(); 0: to the end); true when it is
 * done.  What the store keeps goes with the next store_read_end(). */
bool history_query_step(struct history_query *p, uint64_t until_ns);

/* The size of the whole answer, then its bytes.  *failed: it says that the
 * keyspace cannot be read. */
size_t history_query_size(const struct history_query *p);
size_t history_query_put(const struct history_query *p, uint8_t *out,
                         bool *failed);

#endif

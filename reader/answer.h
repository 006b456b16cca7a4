/* reader/answer.h - requests for ranges in, the bytes of their answers out; and
 * what else reads the store at once.
 *
 * Requests of one connection are added and then answered together, in one call
 * of the store, which puts the rows where they are sent from.  What the store
 * keeps for the next such call of the turn goes at answer_end_turn(), so that a
 * slow client does not pin a snapshot.
 *
 * Ownership: the caller's; store and as_of are borrowed.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_ANSWER_H
#define COUNTD_READER_ANSWER_H

#include <stdbool.h>

#include "common/store/as_of.h"
#include "common/store/store.h"
#include "common/wire/query.h"

#define ANSWER_ROW_MAX  ((size_t)(QUERY_ROW_SIZE + QUERY_NAME_SIZE))
#define ANSWER_SIZE_MAX (QUERY_REPLY_SIZE + QUERY_ROWS_MAX * ANSWER_ROW_MAX)

#define ANSWER_BATCH 64 /* requests are answered together, at most */
/* Why there is no answer to what takes longer than read.max_time. */
#define ANSWER_TOO_LONG                                                        \
    "the answer takes longer than read.max_time: ask for less, or for a "      \
    "shorter time"

struct answer {
    struct store *store;
    struct as_of *as_of;
    size_t count;  /* requests added */
    size_t bound;  /* bytes that their answers take at most */
    size_t unread; /* of the last ones: not answered yet, to be asked again */
    struct store_query queries[ANSWER_BATCH];
    int64_t as_of_ms[ANSWER_BATCH];
};

void answer_init(struct answer *a, struct store *store, struct as_of *as_of);

/* Before the first request of a turn; now_ms is monotonic. */
void answer_start_turn(struct answer *a, uint64_t now_ms);
void answer_end_turn(struct answer *a);

/* The most bytes that the answer to `q` can take. */
size_t answer_bound(const struct query_range *q);

/* Adds a request to those that are answered together; its names stay where they
 * are until then.  False: answer those before it first. */
bool answer_add(struct answer *a, const struct query_range *q);

/* Writes the answers to what was added, in that order, and returns their size:
 * at most the sum of answer_bound().  What a store that is not local has not read
 * yet, and the requests behind it, are not answered: a->unread.  *failed: the last one says that its
 * keyspace cannot be read, and requests behind it are not answered. */
size_t answer_put(struct answer *a, uint8_t *out, bool *failed);

/* Answers one query, with its rows in `rows`: its error.  *as_of_ms is of before
 * the snapshot.  What is not -ENOENT or -EAGAIN was reported. */
int answer_query(struct answer *a, struct store_query *q, uint8_t *rows,
                 size_t size, int64_t *as_of_ms);

/* Writes an answer that is an error, as query_error() says it, and returns its
 * size. */
size_t answer_error(int error, uint8_t *out);

#endif

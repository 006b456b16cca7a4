/* reader/answer.h - reads the store at once, for whatever needs one row, or some.
 *
 * What the store keeps for the next read of the turn of the loop goes at its end
 * (jobs_end_turn()), so that a slow client does not pin a snapshot.  as_of is read
 * before, so that what it claims is in the snapshot. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_ANSWER_H
#define COUNTD_READER_ANSWER_H

#include "common/net/http.h"
#include "common/store/store.h"
#include "common/wire/query.h"

#define ANSWER_ROW_MAX ((size_t)(QUERY_ROW_SIZE + QUERY_NAME_SIZE))
/* Of the rows of a page, and of the one behind it. */
#define ANSWER_SIZE_MAX ((QUERY_ROWS_MAX + 1) * ANSWER_ROW_MAX)

/* Why there is no answer to what takes longer than read.max_time. */
#define ANSWER_TOO_LONG                                                        \
    "the answer takes longer than read.max_time: ask for less, or for a "      \
    "shorter time"

/* Answers one query, with its rows in `rows`: its error.  Errors other than
 * -ENOENT and -EAGAIN were reported. */
int answer_query(struct store *s, struct store_query *q, uint8_t *rows,
                 size_t size);

/* Answers a request over HTTP with these bytes. */
enum conn_next answer_bytes(struct http_call *x, const void *bytes,
                            size_t size);

/* Refuses one; what may be there later has a Retry-After.  `code` is a word for
 * programs, NULL: none. */
enum conn_next answer_refuse(struct http_call *x, enum http_status status,
                             const char *code, const char *detail);

/* Reports that a keyspace cannot be read, or, of size 0, that keyspaces cannot be
 * listed. */
void answer_report(const uint8_t *keyspace, size_t size, int error);

#endif

/* reader/resp/resp_service.h - Redis clients count and read: RESP as a protocol
 * of common/net/conn.h.
 *
 *     sorted set or hash NAME, member or field M    keyspace NAME, key M
 *     string K                                      resp.keyspace, key K
 *     score, value                                  the count, an int64
 *
 * Commands are done in order; answers keep that order.  Reads see one snapshot
 * per keyspace and turn of the loop (common/store/as_of.h).  Increments go to
 * countd-write, and their answers wait until they are durable there
 * (reader/resp/forward.h); what they answer is in reader/resp/last_answers.h.
 *
 * A transaction (MULTI) queues its requests as they came, and EXEC does them
 * one after the other.  It is not atomic.  WAIT lets its connection pause until
 * the snapshot has all that the connection wrote.
 *
 * A service of a connection gives way after a millisecond (RESP_STEP_NS):
 * between commands, also of an EXEC, and within those that look at many names.
 * What takes longer than its connection's turn is either resumed at the
 * argument where it gave way (MGET, EXISTS), or has a cursor that comes back
 * earlier (ZSCAN), or is a job (reader/jobs.h): SCAN, KEYS, DBSIZE, CLIENT LIST,
 * a range of a period.
 *
 * Ownership: the caller's; jobs and settings are borrowed.  The
 * loop's thread.  Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_RESP_RESP_SERVICE_H
#define COUNTD_READER_RESP_RESP_SERVICE_H

#include "common/net/tokens.h"
#include "common/setup/config.h"
#include "common/store/store.h"
#include "reader/jobs.h"
#include "reader/resp/forward.h"
#include "reader/resp/last_answers.h"
#include "reader/resp/resp.h"

#define RESP_ROWS_MAX     QUERY_ROWS_MAX /* of one answer */
#define RESP_QUEUED_MAX   10000          /* requests of one transaction */
#define RESP_QUEUED_BYTES ((size_t)1 << 20)
#define RESP_OWED_MAX     4096 /* acknowledgements due to one connection */
#define RESP_REQUEST_MAX  CONN_NEED_MAX
#define RESP_STEP_NS      UINT64_C(1000000) /* of work, before it gives way */

/* What the store gives for them. */
#define RESP_ROWS_BYTES                                                        \
    ((size_t)RESP_ROWS_MAX * (QUERY_ROW_SIZE + STORE_NAME_MAX))

/* An answer of rows of the longest keys with their scores, and the largest. */
#define RESP_ROWS_SIZE(count)                                                  \
    (4 * RESP_NUMBER_SIZE +                                                    \
     (size_t)(count) * (QUERY_NAME_SIZE + 4 * RESP_NUMBER_SIZE))
#define RESP_ANSWER_MAX RESP_ROWS_SIZE(RESP_ROWS_MAX)

struct resp_service {
    struct jobs *jobs;
    const struct config *config;
    struct tokens *tokens; /* the caller's; NULL: no client needs one */
    struct last_answers answers;
    struct forward forward;
    struct pool queued;            /* requests of transactions */
    struct list_link transactions; /* that have some; the oldest first */
    uint8_t *replay;               /* of the transaction that is done */
    uint8_t *rows;                 /* of a range, as the store gives them */
    struct resp_pattern pattern;   /* of the command that is begun */
    uint64_t next_id;              /* of connections */
    uint64_t commands;
    int read_error;      /* the last one, of resp_unreadable() */
    uint64_t unreadable; /* answers that a keyspace cannot be read */
    uint64_t stuck_ms;   /* as_of_ms at which a read has given up its wait */
    struct resp_arg strings; /* their keyspace: resp.keyspace */
    uint64_t started_ms;     /* monotonic */
    uint64_t step_ns;        /* RESP_STEP_NS; a test has less */
    uint64_t until_ns;       /* the service of a connection gives way then */
    struct resp_request request;
};

/* Behind conn_turn(), forward_send() sends what a turn has counted. */
extern const struct protocol resp_protocol;

/* `connections` may be open at the port. */
int resp_service_init(struct resp_service *r, struct jobs *jobs,
                      const struct config *config, const struct layout *layout,
                      size_t connections);
void resp_service_fini(struct resp_service *r);

/* Fills in the figures of the protocol in a row of the reader's; what keyspaces
 * could not be read is added to that of others. */
void resp_service_fill(struct resp_service *r, int64_t *values);

#endif

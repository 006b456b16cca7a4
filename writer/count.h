/* writer/count.h - POST /v1/count: increments over HTTP.
 *
 * The increments of a request are staged until it is parsed to its end: one bad
 * line, and nothing of it counts.  They are appended in one go to one log, and
 * the answer waits behind the gate of the logs' commit, as the acknowledging
 * port's do.
 *
 * While the logs have no room for all of a request it waits, for count.wait at
 * most; then it is answered 503 with Retry-After, and nothing of it counts.
 *
 * readable_ms of an answer is read from the clock after the increments are in
 * the log's file: an answer of a reader whose as_of_ms is at least that has
 * them (common/store/as_of.h).  The file is written at the end of the turn, for all
 * its requests at once: count_turn().
 *
 * A request with an Idempotency-Key is appended behind its mark (keys.h).  The
 * next one with this key and this body is answered with the same count, and
 * appends nothing; while the first is in flight its answer waits for the next
 * sync, which ends after that of the first.
 *
 * A web page of another site that is in count.cors needs no token.  It counts
 * into the keyspaces of count.cors_keyspaces alone, from 1 to COUNT_PAGE_MOST at
 * a time, and the pages of each site have count.cors_rate increments a second, as
 * many at once as they have in a second.
 *
 * Ownership: the caller's, between open and close.  The loop's thread; nothing
 * allocates after count_open().
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_COUNT_H
#define COUNTD_WRITER_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/http.h"
#include "common/net/loop.h"
#include "common/setup/config.h"
#include "common/setup/name_pattern.h"
#include "common/wire/gunzip.h"
#include "writer/count_body.h"
#include "writer/ingest.h"

#define COUNT_INCREMENTS_MAX 4096
#define COUNT_INFLATED_MAX   262144u

static_assert(HTTP_BODY_MAX == 65536, "as countd(5) has it");

#define COUNT_TIMES_MAX 4096
#define COUNT_TIME_SIZE 13 /* digits of a time from 2001 to 2286 */

/* The answers of a turn whose readable_ms is to be overwritten: after the write
 * of the log's file, and before the group of the gate is closed. */
struct count_times {
    size_t count;
    struct count_place {
        const struct conn *conn;
        uint32_t at; /* conn_gated_at() of the time's first digit */
    } places[COUNT_TIMES_MAX];
};

/* What the head of a request says of its body. */
struct count_head {
    enum count_format format;
    enum name_form names;
    struct increment_form form;
    bool is_packed; /* by gzip */
    int origin;     /* which of count.cors sent it by a page; -1: none */
};

#define COUNT_PAGE_MOST   1000
#define COUNT_ORIGINS_MAX 256 /* more than the text of count.cors has */

struct count_pages {
    struct name_patterns keyspaces;
    uint64_t step_ns; /* that an increment takes of its site's time */
    uint64_t due_ns[COUNT_ORIGINS_MAX]; /* when all that was counted is due */
};

struct count_stats {
    uint64_t requests;   /* answered with 200 */
    uint64_t increments; /* of these */
    uint64_t refused;    /* with a status of 4.. */
    uint64_t busy;       /* 503: no log to write to */
    uint64_t replayed;   /* answered again, for their Idempotency-Key */
};

struct count {
    struct loop *loop;
    struct ingest *ingest; /* borrowed: logs, commit, the figure of all */
    uint64_t wait_ms;
    struct list_link line;
    struct count_pages pages;
    struct loop_timer timer;
    struct count_times times;
    struct gunzip gunzip;
    struct count_stats stats;
    /* Of the request at its route. */
    struct count_head head;
    struct increment *staged; /* COUNT_INCREMENTS_MAX, and one too many */
    uint32_t staged_count;
    uint8_t inflated[COUNT_INFLATED_MAX + 1];
};

extern const struct http_route count_routes[];
extern const size_t count_route_count;

/* 0 or -ENOMEM.  One that is all zero, or closed, is off: count_turn() and
 * count_ready() do nothing. */
int count_open(struct count *s, struct loop *loop, struct ingest *ingest,
               const struct config *config);
void count_close(struct count *s);

static inline bool
count_is_on(const struct count *s)
{
    return s->staged != NULL;
}

/* The end of a turn, before its commit: writes what was put into the logs, and
 * fills in readable_ms of the answers. */
void count_turn(struct count *s);

/* The logs have free slots again. */
void count_ready(struct count *s);

#endif

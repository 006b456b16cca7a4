/* writer/sequence.h - sequence numbers over HTTP: unique and increasing,
 * whatever crashes, restarts and clock steps happen.
 *
 *   GET /fetch                 a number and a line end
 *   GET /fetch?n=N             N of them, 1 to 4096, a line each
 *   GET /explain?sequence=S    what is in one
 *
 * A number has a second and a serial (common/wire/sequence.h). The second is
 * that of the clock, and never ahead of it while the clock runs forward. The
 * serial goes on from number to number and begins again at 1 in a new second
 * when its end is reached.
 *
 * Begin a start with the second after the current one: every number of an
 * earlier run has a lower second, so the numbers stay unique even when older
 * files were restored or the mark was deleted. Requests wait for that second.
 *
 * A clock that was set back is what the mark is for. Numbers
 * are given for seconds below the mark only, and it is kept SEQUENCE_AHEAD_S
 * ahead of the clock by a thread while numbers are requested. A start whose
 * mark is later than the clock waits for the clock to reach the mark; if that
 * takes longer than SEQUENCE_WAIT_S, the numbers go on from the mark at once,
 * which is reported. A clock that steps back under a running process leaves the
 * second as it is until the clock has caught up.
 *
 * A request waits for the disk only if the mark has been reached: at a start,
 * after a minute without a request, after a jump of the clock, and when the
 * disk is slow. When the disk fails, requests are refused (503) until it works.
 *
 * The mark is in a file of its own, and durable before a number below it is
 * given.  Each move overwrites it: it lies in one sector, so that a crash leaves
 * the old mark or the new one.
 *
 *   at   size  field of live/sequence-RESERVE-SERVER_NO
 *    0      8  magic "COUNTDS2"
 *    8      4  reserve, little-endian as all below
 *   12      4  server_no
 *   16      8  until: Unix time in seconds
 *   24     16  0; the identity of the file in earlier versions
 *   40      4  crc32 of the 40 bytes before
 *   44         end
 *
 * Ownership: the caller's, between open and close.  The loop's thread, and the
 * mark its own while it is moved.  The writer's lock on the data directory makes
 * sure that no other process moves it.
 * Errors: 0 or a negative errno; text goes to diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_SEQUENCE_H
#define COUNTD_WRITER_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/diag.h"
#include "common/net/http.h"
#include "common/net/io.h"
#include "common/wire/sequence.h"

#define SEQUENCE_AHEAD_S   2     /* of the clock, the mark */
#define SEQUENCE_SLOW_S    5     /* more ahead at most, when the disk is slow */
#define SEQUENCE_WAIT_S    10    /* for a clock that was set back */
#define SEQUENCE_IDLE_MS   60000 /* without a request: the mark is not moved */
#define SEQUENCE_RETRY_MS  1000
#define SEQUENCE_COUNT_MAX 4096
#define SEQUENCE_LINE_SIZE (SEQUENCE_SIZE + 1)
#define SEQUENCE_SECOND_AT SEQUENCE_PREFIX
#define SEQUENCE_SERIAL_AT (SEQUENCE_PREFIX + 6)

struct sequence_mark {
    int fd; /* -1: not open */
    char name[32];
    uint32_t reserve, server_no;
    uint64_t until; /* seconds; no number at or above it was ever given */
};

struct sequence_stats {
    uint64_t given;  /* numbers */
    uint64_t waited; /* requests that waited for the clock or the mark */
    uint64_t moves;  /* of the mark */
};

struct sequence {
    struct loop *loop;
    struct sequence_mark mark; /* the thread's while it is being moved */
    bool refuses;              /* the mark is damaged */

    uint64_t second; /* of the next number, if the clock is not past it */
    uint64_t given;  /* second of the last number; 0: none was given */
    uint32_t serial; /* of the last number */
    char text[SEQUENCE_LINE_SIZE]; /* the last number */
    uint64_t until; /* durable mark: no number at or above this second */

    struct io io;
    struct io_job job;
    bool moving, failing;
    int rc;                  /* of the job */
    uint64_t want;           /* the mark that is being written */
    uint64_t began_ms;       /* clock: the last move began */
    uint64_t took_s;         /* duration of the last move */
    uint64_t used_ms;        /* clock: the last request for a number */
    struct list_link line;   /* requests that wait for the clock or the mark */
    struct loop_timer timer; /* the next second of the clock */
    struct diag_repeat failing_warning, behind_warning;
    struct sequence_stats stats;
};

extern const struct http_route sequence_routes[];
extern const size_t sequence_route_count;

/* Reads the mark in folder `live_fd`. With a damaged mark this is 0 and the
 * routes answer 503. */
int sequence_open(struct sequence *s, struct loop *loop, int live_fd,
                  uint32_t reserve, uint32_t server_no);
void sequence_close(struct sequence *s);

/* ---- the mark ------------------------------------------------------------ */

/* Opens or makes the file in folder `dirfd`, and reads the mark, which is 0 in a
 * new one.  sequence_mark_close() in any case.
 *   -EBADMSG  the mark is damaged */
int sequence_mark_open(struct sequence_mark *m, int dirfd, uint32_t reserve,
                       uint32_t server_no);
void sequence_mark_close(struct sequence_mark *m);

/* Makes `until` the mark, durably. After an error either mark may be on disk;
 * m->until is then still the old one. */
int sequence_mark_move(struct sequence_mark *m, uint64_t until);

#endif

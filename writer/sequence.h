/* writer/sequence.h - sequence numbers over HTTP: unique and increasing,
 * whatever crashes, restarts and clock steps happen.
 *
 *   GET /fetch                 a number and a line end
 *   GET /fetch?n=N             N of them, 1 to 4096, a line each
 *   GET /explain?sequence=S    what is in one
 *
 * A number has a second and a serial (common/wire/sequence.h).  The second is
 * that of the clock, or that of the number before where the clock is behind it;
 * the serial goes on from number to number, and where it begins again the
 * second is one more.
 *
 * The mark (sequence_mark.h) is kept some seconds ahead: numbers are given for
 * seconds below it, and it is moved, by a thread, when half of that is over, as
 * long as numbers are asked for.  A start begins at the mark, when the clock is
 * not past it: nothing before can have had that second.  So a request waits for
 * the disk only where the mark has been reached: at the start or after a minute
 * without one, when the clock jumps, at the end of the serials, and when the
 * disk is slow.  When it fails, requests are refused (503) until it works.
 *
 * Ownership: the caller's, between open and close.  The loop's thread.
 * Errors: 0 or a negative errno; text goes to diag.
 */
#ifndef COUNTD_WRITER_SEQUENCE_H
#define COUNTD_WRITER_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/diag.h"
#include "common/net/http.h"
#include "common/wire/sequence.h"
#include "writer/io.h"
#include "writer/sequence_mark.h"

#define SEQUENCE_AHEAD_S   5 /* of the clock, the mark */
#define SEQUENCE_RENEW_MS  2500
#define SEQUENCE_IDLE_MS   60000 /* no number for so long: not renewed */
#define SEQUENCE_RETRY_MS  1000
#define SEQUENCE_BEHIND_S  3600 /* a clock so far behind is an error */
#define SEQUENCE_COUNT_MAX 4096
#define SEQUENCE_LINE_SIZE (SEQUENCE_SIZE + 1)
#define SEQUENCE_SECOND_AT SEQUENCE_PREFIX
#define SEQUENCE_SERIAL_AT (SEQUENCE_PREFIX + 6)

struct sequence_figures {
    uint64_t given;  /* numbers */
    uint64_t waited; /* requests that waited for the mark */
    uint64_t moves;  /* of the mark */
};

struct sequence {
    struct loop *loop;
    struct sequence_mark mark; /* the thread's while it is being moved */
    bool refuses;              /* the mark cannot be used, which was said */

    uint64_t second; /* of the last number, or what the next has at least */
    uint32_t serial; /* of the last number */
    char text[SEQUENCE_LINE_SIZE]; /* of the last number */
    uint64_t until;                /* none at or above this second, yet */

    struct io io;
    struct io_job job;
    bool moving, failing;
    int rc;                /* of the job */
    uint64_t want;         /* the mark that is being written */
    uint64_t began_ms;     /* clock: the job was pushed, or pushed in vain */
    uint64_t took_s;       /* the last move */
    uint64_t used_ms;      /* clock: a number was asked for */
    struct http_line line; /* requests that wait for the mark */
    struct loop_timer timer;
    struct diag_repeat said_failing, said_behind;
    struct sequence_figures figures;
};

extern const struct http_route sequence_routes[];
extern const size_t sequence_route_count;

/* Opens the mark in folder `live_fd`, and begins to move it.  A mark that
 * cannot be believed is no error: the routes answer 503. -EBUSY  another
 * process gives numbers of this server */
int sequence_open(struct sequence *s, struct loop *loop, int live_fd,
                  uint32_t reserve, uint32_t server_no);
void sequence_close(struct sequence *s);

#endif

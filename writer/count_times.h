/* writer/count_times.h - readable_ms of the answers of a turn.
 *
 * readable_ms must not be before the increments are in the log's file, and the
 * file is written once a turn, after all requests of the turn were answered.
 * So an answer is put with the time of the turn, behind the gate, and that time
 * is overwritten after the write, before the group of the gate is closed.
 *
 *     put an answer -> count_times_add() ... write -> count_times_fill()
 *
 * Ownership: the caller's; all zero is empty.  The loop's thread.
 */
#ifndef COUNTD_WRITER_COUNT_TIMES_H
#define COUNTD_WRITER_COUNT_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/gate.h"

#define COUNT_TIMES_MAX 4096
#define COUNT_TIME_SIZE 13 /* digits of a time from 2001 to 2286 */

struct count_times {
    size_t count;
    struct {
        const struct conn *conn;
        uint32_t at; /* conn_gated_at() of the time's first digit */
    } places[COUNT_TIMES_MAX];
};

/* False: there is no place left, until count_times_fill(). */
bool count_times_have_place(const struct count_times *t);

/* An answer that the served connection puts behind its gate has a time of
 * COUNT_TIME_SIZE digits at this place.  There is a place left. */
void count_times_add(struct count_times *t, const struct conn *c, uint32_t at);

/* All of them become this time.  Between services, before a group of the gate
 * is released. */
void count_times_fill(struct count_times *t, uint64_t now_ms);

#endif

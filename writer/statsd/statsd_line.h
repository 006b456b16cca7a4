/* writer/statsd/statsd_line.h - one StatsD line: what it counts.
 *
 *     line  = name ":" group *( ":" group )
 *     group = value *( ":" value ) "|" type *( "|" field )
 *     field = "@" rate / "#" tags / "c:" any / "T" any / "e:" any / "card:" any
 *
 * The values of a group share its type and fields.  Types c and m are
 * counters; ms, h and d timers; g gauges, of which those that are totals are
 * delivered, as of the kind of counters; s sets.  A rate is a number of
 * common/wire/decimal.h, above 0 and at most 1.  A colon within a type or a
 * rate begins the next group; within tags and the other fields it belongs to
 * the field.  T and digits are the Unix seconds of the whole line; the last such
 * field decides, and any other that begins with T is passed over.
 *
 * A line counts as a whole or not at all: the whole line is checked before the
 * first increment is delivered.  Increments are in millionths, see
 * common/wire/decimal.h.
 *
 * Nothing here has effects, except the sink that is called. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_STATSD_STATSD_LINE_H
#define COUNTD_WRITER_STATSD_STATSD_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/setup/config.h"
#include "common/wire/decimal.h"

#define STATSD_LINE_MAX 8192 /* bytes of a line without its LF */

/* What a line consists of, as bits: which of these it has. */
enum statsd_kind {
    STATSD_COUNTER = 1,
    STATSD_TIMER = 2,
    STATSD_GAUGE = 4,
    STATSD_SET = 8,
    STATSD_EVENT = 16, /* "_e{": an event of DogStatsD */
    STATSD_CHECK = 32  /* "_sc|": a service check of DogStatsD */
};

/* Which sum of its key an increment belongs to: a timer has two. */
enum statsd_part {
    STATSD_PART_COUNTER,
    STATSD_PART_TIMER_COUNT,
    STATSD_PART_TIMER_SUM,
    STATSD_PART_TOTAL /* of a gauge: no increment, but its value */
};

/* What an increment is added to. */
struct statsd_sum {
    enum statsd_part part;
    const uint8_t *key; /* valid during the call only */
    size_t key_size;
    int64_t at; /* the line's time in Unix seconds; 0: it has none */
};

struct statsd_sink {
    void (*add)(void *ctx, const struct statsd_sum *sum, int128 millionths);
    void *ctx;
};

/* Takes a line without its LF; a CR at its end is dropped by the caller.  Of
 * the settings key_size and statsd's timers, tags and total matter.
 * Returns its kinds (enum statsd_kind), or -EBADMSG if the line is malformed:
 * then *why says what is wrong, and nothing was added. */
int statsd_line(const struct config *config, const uint8_t *line, size_t size,
                const struct statsd_sink *sink, const char **why);

#endif

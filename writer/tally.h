/* writer/tally.h - the activity of live names and quotas, written as increments
 * to the writer's own log (live.history).
 *
 * A source is a set of named things, each with TALLY_PARTS amounts that grow. A
 * round visits every thing once a minute and moves its amounts into the log:
 * amounts[i] becomes an increment of keyspaces[i], the key is the thing's name
 * (tally_key), and the amount falls by what was put. So an amount is in memory
 * or in the log, never in both, and a crash loses a minute's at most.
 *
 * A round runs in pieces with pauses, so it delays no client. If no log has a
 * free slot the round waits; activity adds up meanwhile and is not lost.
 *
 * Ownership: the caller's, between init and fini; the logs and what a source
 * points to are borrowed.  The loop's thread.  Nothing allocates.
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_WRITER_TALLY_H
#define COUNTD_WRITER_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/loop.h"
#include "writer/logs.h"

#define TALLY_INTERVAL_MS 60000
#define TALLY_SOON_MS     1000 /* between rounds, at least: tally_soon() */
#define TALLY_PAUSE_MS    1    /* between two pieces */
#define TALLY_PIECE       64   /* things written at once */
#define TALLY_STEPS       1024 /* places looked at, at once */
#define TALLY_PARTS       3
#define TALLY_SOURCES     3
#define TALLY_HASH_SIZE   33 /* "#" and 32 digits */

struct tally_item {
    uint64_t *amounts; /* TALLY_PARTS of them */
    const uint8_t *name;
    size_t name_size;
};

struct tally_source {
    const char *keyspaces[TALLY_PARTS];
    /* The first thing at or after *from (0 at first) with an amount above 0.
     *   1        *out is it, and *from its place
     *   0        there is none
     *   -EAGAIN  *steps is used up; *from is where to continue */
    int (*next)(void *ctx, uint32_t *from, uint32_t *steps,
                struct tally_item *out);
    void *ctx;
};

struct tally_stats {
    uint64_t rounds;
    uint64_t increments;
    uint64_t waits; /* times that the logs had no free slot */
};

struct tally {
    struct loop *loop;
    struct logs *logs;
    uint64_t interval_ms;
    struct tally_source sources[TALLY_SOURCES];
    size_t source_count; /* 0: off */
    struct loop_timer timer;
    struct tally_stats stats;

    bool in_round;
    bool waiting; /* for a free slot */
    uint64_t round_ms;
    size_t source; /* being visited, from here on */
    uint32_t from;

    bool stopping;
    uint64_t stop_timeout_ms;
    void (*stopped)(void *ctx);
    void *ctx;
};

void tally_init(struct tally *t, struct loop *loop, struct logs *logs,
                uint64_t interval_ms);
void tally_fini(struct tally *t);

/* Adds a source; the first one begins it all, and its first round is due after
 * an interval.  The sizes of messages must hold the names (config_check).
 * -ENOSPC: no timer is free. */
int tally_add(struct tally *t, const struct tally_source *source);

/* Begins a round as soon as TALLY_SOON_MS have passed since the last one began:
 * things with activity cannot go before it is written. */
void tally_soon(struct tally *t);

/* The logs have free slots again. */
void tally_ready(struct tally *t);

/* Nothing happens to the things any more: writes all there is, and calls
 * `stopped`. If the logs have no free slot for `timeout_ms`, the rest is given
 * up, which is reported. */
void tally_stop(struct tally *t, uint64_t timeout_ms,
                void (*stopped)(void *ctx), void *ctx);

void tally_print(const struct tally *t);

/* Whether no amount is above 0. */
static inline bool
tally_is_empty(const uint64_t amounts[TALLY_PARTS])
{
    return (amounts[0] | amounts[1] | amounts[2]) == 0;
}

/* The key of a name, in at most `size_max` bytes (above TALLY_HASH_SIZE, and
 * not above MESSAGE_NAME_MAX): its size.  A name that fits is its own key.  A
 * name that is too long, has a NUL, or looks like what follows, is cut, has _
 * for each NUL, and ends in # and 32 hexadecimal digits of SipHash-2-4-128 of
 * the whole name under a fixed key: so no two names have the same key, and the
 * key is the same after a restart. */
size_t tally_key(const uint8_t *name, size_t size, size_t size_max,
                 uint8_t *key);

#endif

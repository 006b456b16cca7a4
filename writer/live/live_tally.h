/* writer/live/live_tally.h - the activity of counters and semaphores, written
 * as increments to the writer's own log.
 *
 * Every interval a round begins: for each object that was acquired, released
 * or refused since the last one, the amounts are put into the log as
 * increments, which are then merged and read like all others:
 *
 *     live.acquired            live.semaphore.acquired
 *     live.released            live.semaphore.released
 *     live.refused             live.semaphore.refused
 *
 * The key is the object's name (live_tally_key).  A round runs in pieces with
 * pauses, so it delays no client.  If no log has a free slot the round waits;
 * activity accumulates in the objects meanwhile and is not lost.
 *
 * Ownership: the caller's, between init and fini; struct live and struct logs
 * are borrowed.  The loop's thread.  Nothing allocates.
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_WRITER_LIVE_LIVE_TALLY_H
#define COUNTD_WRITER_LIVE_LIVE_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/loop.h"
#include "common/wire/message.h"
#include "writer/live/live.h"
#include "writer/logs.h"

#define LIVE_TALLY_INTERVAL_MS 60000
#define LIVE_TALLY_PIECE       64 /* objects at once */
#define LIVE_TALLY_HURRY_PIECE 512
#define LIVE_TALLY_HURRY_MS    1000 /* between rounds that begin early */
#define LIVE_TALLY_PAUSE_MS    1    /* between two pieces */
#define LIVE_TALLY_KINDS       2
#define LIVE_TALLY_PARTS       3  /* acquired, released, refused */
#define LIVE_TALLY_HASH_SIZE   33 /* "#" and 32 digits */

struct live_tally_figures {
    uint64_t rounds;
    uint64_t increments;
    uint64_t waits; /* times that the logs had no room */
};

struct live_tally {
    struct loop *loop;
    struct logs *logs;
    struct layout layout;
    struct live *lives[LIVE_TALLY_KINDS]; /* by enum live_kind; NULL: none */
    uint64_t interval_ms;
    struct loop_timer timer;
    struct live_tally_figures figures;

    bool in_round;
    bool hurrying; /* larger pieces */
    bool waiting;  /* for room in the logs */
    uint64_t round_ms;
    unsigned kind;                   /* that is being taken */
    uint64_t left[LIVE_TALLY_KINDS]; /* objects this round takes, at most */
    uint64_t owed[LIVE_TALLY_PARTS]; /* amounts of the object taken last */
    unsigned owed_kind;              /* of that object */
    struct message message;          /* its names */
    uint8_t key[MESSAGE_NAME_MAX];
    uint8_t bytes[MESSAGE_SIZE_MAX + LOGS_WORD];

    bool stopping;
    uint64_t patience_ms;
    void (*stopped)(void *ctx);
    void *ctx;
};

/* Begins; the first round is due after an interval.  `lives` are those there
 * are, by enum live_kind, and must have been made with history on.  The sizes
 * of messages must hold the names (config_check).  -ENOSPC: no timer. */
int live_tally_init(struct live_tally *h, struct loop *loop, struct logs *logs,
                    struct live *const lives[LIVE_TALLY_KINDS],
                    uint64_t interval_ms);
void live_tally_fini(struct live_tally *h);

/* Objects with activity use memory that others want, or are about to go: begins
 * a round at once, unless one began a moment ago, and makes it quick. */
void live_tally_hurry(struct live_tally *h);

/* The logs have room again. */
void live_tally_ready(struct live_tally *h);

/* Nothing happens to the objects any more: takes all there is, and calls
 * `stopped`.  When the logs have no room for `patience_ms`, the rest is given
 * up, which is said. */
void live_tally_stop(struct live_tally *h, uint64_t patience_ms,
                     void (*stopped)(void *ctx), void *ctx);

/* The key of a name, in at most `room` bytes (above LIVE_TALLY_HASH_SIZE, and
 * not above MESSAGE_NAME_MAX): its size.  A name that fits is its own key.  One
 * that is too long, has a NUL, or looks like what follows, is cut, has _ for
 * each NUL, and ends in # and 32 hexadecimal digits of SipHash-2-4-128 of the
 * whole name under a fixed key: so no two names have the same key, and the
 * key is the same after a restart. */
size_t live_tally_key(const uint8_t *name, size_t size, size_t room,
                      uint8_t *key);

#endif

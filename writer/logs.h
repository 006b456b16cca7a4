/* writer/logs.h - the logs being written: the current one, the spares that
 * follow it, and those on their way to the workers.
 *
 * The caller asks for the number of free slots (logs_free_slots) and puts
 * messages into them (logs_put).  At the end of a turn the writer writes the
 * slots (logs_flush), and writer/commit.h syncs them, through logs_file:
 *
 *     free slots -> put ... put -> logs_flush -> begin -> sync ~~> end
 *
 * A log is retired when it is full, `log.rotate_after` after its first
 * message, sooner while workers keep up (logs_early.c), by logs_rotate() and by
 * logs_finish().  Unless all of it is durable already it then waits for the
 * next sync, which covers it and its successor, and only after that it is
 * sealed: so the slots are durable before the SEALED header is written, and a
 * message that is acknowledged after a rotation never depends on an unsynced
 * log.
 *
 * A log that has marks of requests with a key (keys.h) is sealed after they are
 * stored.  While that fails, the log stays OPEN and sealing is retried; when
 * LOGS_RETIRED logs wait, there is no log to write to.
 *
 * No log to write to (log.max reached, disk full): logs_free_slots() is 0, and
 * `ready` is called when there is one again.
 *
 * Two I/O threads wait for the disk: one syncs, one creates, begins and
 * seals.  A struct log belongs to one of loop, job and thread at a time; the
 * syncing thread gets descriptors only, and no log is closed while a sync
 * that was given its descriptor runs.
 *
 * Ownership: struct logs is the caller's, between logs_open() and
 * logs_close().  Nothing allocates after logs_open().
 * Errors: 0 or a negative errno; text goes to diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_LOGS_H
#define COUNTD_WRITER_LOGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/log/logdir.h"
#include "common/net/io.h"
#include "common/net/loop.h"
#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "common/wire/message.h"
#include "writer/commit.h"
#include "writer/keys.h"

#define LOGS_STAGE   1024 /* slots that wait for one pwrite */
#define LOGS_SPARES  4    /* begun ahead, as far as there are empty logs */
#define LOGS_RETIRED 16   /* logs on their way at once; then push back */
/* Bytes put during a sync after which no more are taken: answers would wait too
 * long for the next sync.  With a disk slower than the clients, each group
 * would otherwise be larger than the one before. */
#define LOGS_GROUP ((uint64_t)4 << 20)

enum retired_state {
    RETIRED_FREE,
    RETIRED_DIRTY,
    RETIRED_SYNCING,
    RETIRED_SEALING,
    RETIRED_DEFERRED /* until seal_timer: its marks could not be stored */
};

struct retired {
    struct io_job job;
    struct logs *logs; /* that it belongs to */
    enum retired_state state;
    uint64_t index; /* of the log, which is the file thread's while sealed */
    struct log log;
    uint32_t synced_slots;
    struct mark_list marks; /* the file thread's while sealed */
    bool stored;            /* they are in live/requests */
    int rc;
};

struct log_sync {
    struct sync_item {
        int fd;
        uint64_t index;
        uint64_t at, end;      /* what may not be on disk yet */
    } items[LOGS_RETIRED + 1]; /* in the order they are synced */
    size_t count;
    uint64_t failed; /* index of the log, when it has */
    uint64_t fill;   /* which current log, and how many of its slots */
    uint32_t slots;
    uint64_t position; /* logs_position() when it began */
};

struct spare_job {
    struct io_job job;
    bool may_begin;  /* a spare is wanted, and not only a log made ahead */
    bool may_create; /* there is no other spare */
    bool is_short;   /* there are fewer logs than log.count, and room for one */
    bool takes_marks; /* of the logs that are begun */
    struct log log;
    int rc;
    bool began; /* the failure was log_begin's */
};

/* The log that was retired last. */
struct logs_early {
    struct loop_timer timer;
    uint64_t index;      /* of that log */
    uint64_t retired_ms; /* monotonic */
    uint64_t sealed_ms;  /* Unix: when its sealing began; 0: it has not */
    uint64_t took_ms;    /* from then until it is merged, about, of the last */
    struct timespec changed; /* log/waiting/, when it was merged */
    bool is_merged;          /* as last seen */
    bool left_file;          /* its merge left one in log/waiting/ */
};

struct logs_events {
    void *ctx;
    /* logs_free_slots() is not 0 any more, or the group not full */
    void (*ready)(void *ctx);
    /* All logs with messages are handed on (logs_finish). */
    void (*finished)(void *ctx);
    void (*failed)(void *ctx); /* the disk failed: reply nothing, exit 111 */
};

struct logs_stats {
    uint64_t appended; /* messages */
    uint64_t flushes;
    uint64_t sealed;
    uint64_t pushed_back; /* times that there was no log */
    bool secret_lost;     /* requests with a key wait for an operator */
};

struct logs {
    struct loop *loop;
    const struct config *config;
    struct logs_events events;
    struct layout layout;
    struct logdir dir; /* the file thread's once it runs */
    struct io sync_io;
    struct io file_io;

    struct log current;
    bool has_current;
    struct log spares[LOGS_SPARES]; /* the next one first */
    size_t spare_count;
    uint64_t fill;         /* +1 per current log */
    uint32_t synced_slots; /* of the current log */
    bool rotating;         /* as soon as there is a spare */

    uint8_t *slots;           /* the stage */
    struct message *messages; /* in each slot of the stage */
    uint32_t staged;
    uint64_t staged_first_ms;
    uint64_t last_ms; /* received_ms never goes back in a log */

    struct keys keys;
    struct mark_list marks; /* of the current log */
    uint64_t durable;       /* logs_position() that the last sync has covered */

    struct retired retired[LOGS_RETIRED];
    bool retired_dirty; /* one of them is RETIRED_DIRTY */
    struct log_sync sync;
    struct spare_job make;
    struct io_job recover;
    bool syncing;
    bool making;
    bool recovering;
    bool dirty; /* the current log has slots that no sync covers */
    bool finishing;
    bool finished;
    bool failed;
    bool blocked;     /* a caller found no free slot */
    uint64_t none_ms; /* monotonic: since then none was found; 0: one was */
    bool group_full;  /* a caller found the group full */
    bool warned;      /* that there was none */

    struct logs_early early;
    struct loop_timer rotate_timer;
    struct loop_timer overdue_timer; /* rotates without a spare */
    struct loop_timer sync_timer;
    bool sync_due;
    struct loop_timer retry_timer;
    struct loop_timer recover_timer;
    struct loop_timer seal_timer; /* tries deferred logs again */
    struct logs_stats stats;
    /* Called with the events' ctx when a log was released to the workers: only
     * its numbers are valid.  Set by the caller; NULL: not called. */
    void (*handed)(void *ctx, const struct log *log);
};

/* Recovers the directory, refuses other message sizes (-EPROTO), begins the
 * first log and starts the threads, which make the others up to log.count
 * while the loop runs.  A full disk does not fail: there are no free slots
 * then.  Signals must be blocked already. */
int logs_open(struct logs *l, struct loop *loop, const struct datadir *d,
              const struct config *config, const struct logs_events *events);

/* Releases logs with nothing in them; those with messages, which logs_finish()
 * has not retired, are left to recovery, as by a crash. */
void logs_close(struct logs *l);

/* Returns the number of messages that may be put now; rotates if the log is
 * full.  0: there is no log, or the disk failed; `ready` is called when there
 * is one. */
uint32_t logs_free_slots(struct logs *l);

/* Whether that was 0, and only that, for `for_ms`. */
bool logs_are_stuck(struct logs *l, uint64_t for_ms);

/* Whether LOGS_GROUP bytes were put since the sync in flight began.  True:
 * `ready` is called when it has ended. */
bool logs_group_is_full(struct logs *l);

/* The number of slots of a log of the configured size. */
uint32_t logs_slots(const struct logs *l);

/* Whether a log is the current one or a spare. */
bool logs_has_open(const struct logs *l, uint64_t index);

/* Takes the next slot for a message, whose names message_parse() or
 * message_check() has passed. */
void logs_put(struct logs *l, const struct message *m);

/* Whether `count` messages, at most logs_slots(), may be put now into
 * one log, without calling logs_free_slots() in between; rotates if needed.
 * False: `ready` is called later. */
bool logs_have_run(struct logs *l, uint32_t count);

/* Takes memory for the mark of the next request.  -ENOMEM */
int logs_reserve_mark(struct logs *l);

/* Puts the mark of a request whose increments follow, after logs_have_run() for
 * all of them and the mark, and logs_reserve_mark(). */
void logs_put_mark(struct logs *l, const struct request_mark *mark);

/* Writes what was put into the current log: at the end of a turn, before
 * commit_turn(). */
void logs_flush(struct logs *l);

/* The number of messages put so far.  They are durable once logs_is_durable()
 * of it is true. */
uint64_t logs_position(const struct logs *l);
bool logs_is_durable(const struct logs *l, uint64_t position);

/* Has the group that collects synced, though nothing was put into it: an answer
 * waits for what is in flight.  False: there is no log. */
bool logs_want_sync(struct logs *l);

/* What writer/commit.h makes durable; its ctx is a struct logs.  A sync covers
 * all that was put. */
extern const struct commit_file logs_file;

/* Hands the current log on, if there is anything in it. */
void logs_rotate(struct logs *l);

/* logs_rotate(), and releases the logs with nothing in them, the slots of
 * earlier fills overwritten with zeros: countd del --purge asks for it.  An
 * empty current log needs a spare to take its place; without one, or while a
 * sync is in flight, the next call releases it. */
void logs_clear(struct logs *l);

/* Hands on all logs with messages; then calls `finished`. */
void logs_finish(struct logs *l);

#endif

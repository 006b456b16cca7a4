/* reader/fresh.h - as_of_ms: how far the keyspace files are known to reach.
 *
 * Every increment that was in a commit log at as_of_ms is in any snapshot
 * taken after it was asked for.  It is the time just before a look at the
 * logs, or earlier when the look found increments not merged yet: just before
 * the oldest of them.  Records held for one keyspace hold back that keyspace
 * only.
 *
 * It never claims too much.  The clock is read first, then the logs are
 * scanned, then the held files listed: records go from log to held file to
 * keyspace and are durable there before they leave, so what moves meanwhile
 * is seen at least once.  The snapshot comes last.  An older as_of with a
 * newer snapshot is true as well, so a look is good for some milliseconds.
 *
 * Where nobody can tell - increments from before the clock was set back, until
 * the last of them is merged; held files of a newer version - it stays at what
 * was claimed before, or is 0.
 */
#ifndef COUNTD_READER_FRESH_H
#define COUNTD_READER_FRESH_H

#include <stdbool.h>
#include <time.h>

#include "common/log/fills.h"
#include "common/log/logdir.h"
#include "common/setup/datadir.h"

#define FRESH_AGE_MS   5  /* how long a look is good for */
#define FRESH_HELD_MAX 64 /* keyspaces with held records that are kept */

struct fresh_span {
    uint64_t oldest_ms; /* UINT64_MAX: nothing is held */
    uint64_t newest_ms; /* 0: likewise */
};

struct fresh_held {
    struct fresh_span span;
    size_t size;
    uint8_t name[NAME_MAX_SIZE];
};

struct fresh {
    const struct datadir *datadir; /* borrowed */
    struct logdir logs;
    bool looked;
    uint64_t until_ms;   /* monotonic: the look is good until then */
    uint64_t as_of_ms;   /* by the logs */
    uint64_t seen_ms;    /* just after the look: what is later is of a clock
                            that was set back */
    struct fills before; /* not merged yet, of before it was set back */
    bool held_unknown;   /* anything may be held, for anybody */
    bool held_more;      /* than are kept: those count for all the others */
    struct fresh_span held_all;
    size_t held_count;
    struct fresh_held held[FRESH_HELD_MAX];
    bool listed; /* the list is of data/held as of these times */
    struct timespec held_mtime, held_ctime;
};

int fresh_init(struct fresh *f, const struct datadir *datadir,
               const struct layout *l, uint64_t log_size);
void fresh_fini(struct fresh *f);

/* Looks again if the last look is too old at `now_ms` (monotonic).  No
 * snapshot may be open: an answer's as_of must be older than its snapshot. */
void fresh_look(struct fresh *f, uint64_t now_ms);

/* The as_of of one keyspace, or of all (size 0); by the last look. */
int64_t fresh_as_of(struct fresh *f, const uint8_t *name, size_t size);

#endif

/* common/store/as_of.h - as_of_ms: the time up to which an answer is complete.
 *
 * Every increment that was in a commit log at as_of_ms is contained in any
 * store snapshot taken after as_of_get().  as_of_ms is the millisecond before
 * the last scan of the logs or, if the scan found unmerged increments, just
 * before the oldest of them; fills that wait for a keyspace lower its as_of_ms
 * only.  Those that a command placed lower none: they were in no log here at
 * that time.
 *
 * A log of many keyspaces takes seconds to merge, and counts as unmerged until
 * the last of them has its records.  While as_of_ms is more than AS_OF_LATE_MS
 * old and logs are being merged, a keyspace does not wait for those whose
 * records it has by its marks: only the other logs bound its as_of_ms.
 *
 * It is never too late.  The clock is read first, then the logs are scanned,
 * then log/waiting/ is listed: records go from a log to there to a keyspace and
 * are durable there before they leave, so the scan sees a moving record at
 * least once.  The store's snapshot comes last: a refresh first ends existing
 * ones.  An older as_of with a newer snapshot is true as well, so a refresh is
 * valid for some milliseconds.
 *
 * It never goes back, of one keyspace: what was true once is true of every
 * later snapshot.  That the logs allow to claim less than before only means
 * that a record was stamped before the scan and written after it.  When a
 * refresh fails, the one before it remains valid.
 *
 * Only the clock can take a claim away.  When it was set back, the same times
 * come twice; while a time may still come again, as_of_ms is 0, "unknown". That
 * ends when all that the logs contained at that moment is merged.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_AS_OF_H
#define COUNTD_COMMON_STORE_AS_OF_H

#include <stdbool.h>

#include "common/log/logdir.h"
#include "common/log/pending.h"
#include "common/log/waiting.h"
#include "common/setup/datadir.h"
#include "common/store/store.h"

#define AS_OF_AGE_MS  5    /* a refresh is valid for this long */
#define AS_OF_CLAIMS  512  /* keyspaces whose last claim is stored */
#define AS_OF_LATE_MS 1000 /* before marks are read: a merge usually ends */
#define AS_OF_MERGING 256  /* logs that marks are compared with, at most */

/* The claim of a keyspace, while not all of them have the same. */
struct as_of_claim {
    uint64_t refresh; /* number of the refresh */
    uint64_t as_of_ms;
    uint16_t size;
    uint8_t name[STORE_NAME_MAX];
};

struct as_of {
    struct store *store;    /* borrowed */
    struct waiting waiting; /* held files alone */
    struct logdir logs;
    uint64_t refresh;  /* number of the last refresh that worked; 0: none did */
    uint64_t until_ms; /* monotonic: the refresh is valid until then */
    uint64_t as_of_ms; /* by the logs */
    uint64_t sure_ms;  /* true of every keyspace, whatever waits */
    uint64_t seen_ms;  /* just after the refresh: a later stamp is from a
                          clock that was set back */
    int64_t ahead_ms;  /* the least lead of Unix time over clock_ms() */
    /* Unmerged since before the clock was set back. */
    struct pending_set before;
    uint64_t ended_ms;   /* the last millisecond before the refresh */
    uint64_t waiting_ms; /* first_ms of the oldest log that no keyspace has */
    uint64_t most_ms;    /* the latest claim of a keyspace by its marks */
    bool is_late;        /* marks are compared with `merging` */
    unsigned merging_count;
    struct log_fill *merging; /* AS_OF_MERGING; the fills being merged */
    bool is_held;             /* fills wait for some keyspace */
    /* AS_OF_CLAIMS of them; unused while nothing waits. */
    struct as_of_claim *claims;

    /* Has what was claimed of the keyspace before the answer was read, and what
     * its snapshot had; false: it is not read yet.  NULL: the store is local. */
    bool (*answered)(void *ctx, const uint8_t *name, size_t size,
                     int64_t *claim, struct store_as_of *had);
    void *ctx;
};

/* The claims are about snapshots of `store`. */
int as_of_init(struct as_of *f, struct store *store,
               const struct datadir *datadir, const struct layout *l,
               uint64_t log_size);
void as_of_fini(struct as_of *f);

/* Refreshes if the last refresh is too old at `now_ms` (monotonic). */
void as_of_refresh(struct as_of *f, uint64_t now_ms);

/* The as_of of one keyspace, or of all (size 0), by the last refresh: what this
 * directory's logs allow to claim of a store that has all that was applied. */
int64_t as_of_claim(struct as_of *f, const uint8_t *name, size_t size);

/* Of the answer that is made now: with an engine that is not local the claim from
 * before it was read, bounded by what its snapshot had.  as_of_own() is about what
 * this directory's logs had, by its own clock; as_of_get() about all. */
int64_t as_of_get(struct as_of *f, const uint8_t *name, size_t size);
int64_t as_of_own(struct as_of *f, const uint8_t *name, size_t size);

/* As as_of_own() of what is merged, whatever waits for keyspaces. */
uint64_t as_of_merged(struct as_of *f);

/* A claim from before an answer that is made in steps, with the same bounds. */
int64_t as_of_bound(struct as_of *f, int64_t claim);

#endif

/* worker/drain.h - applies held records once their keyspace can take them.
 *
 * Keyspaces are served by name, the records of one strictly by id, each as the
 * store batch it was; its marks show whether it is already applied.  A record
 * that fails blocks those after it, and its keyspace is retried with
 * exponential back-off (struct retry).  A record is deleted after its keyspace
 * has committed it.
 *
 * A record counts as applied only if the keyspace has exactly the fills that
 * the record names.  If the keyspace has a later fill, or some of the logs and
 * not others, the directory was assembled from copies of different times: it is
 * unknown whether the record is applied, so it stays, is reported, and an
 * operator decides.  A record is deleted before a later fill of one of its logs
 * is applied, so a crash in between leaves no such record.  Workers and
 * commands hold a log's records after those held for its keyspace, so they
 * never move a mark beyond a held fill.
 *
 * While full logs wait, draining takes a fifth of the worker's time but at
 * least one record per pass; a pass that applied nothing is followed by a pause
 * four times its length.
 *
 * The retry table is indexed by name hash: on a collision a healthy keyspace
 * may wait up to DRAIN_RETRY_MOST_MS.
 *
 * Ownership: struct drain belongs to the caller; store and held are borrowed.
 * One thread.  Reports through diag. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_DRAIN_H
#define COUNTD_WORKER_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/diag.h"
#include "common/base/hash.h"
#include "common/store/held.h"
#include "common/store/store.h"
#include "worker/retry.h"

#define DRAIN_RETRIES        4096 /* a power of 2 */
#define DRAIN_RETRY_FIRST_MS 50
#define DRAIN_RETRY_MOST_MS  60000
#define DRAIN_BUSY_MS        50 /* retry after this if another process is writing */
#define DRAIN_POLL_MS        1000 /* between two passes, while records are held */
#define DRAIN_SLICE_NS       20000000  /* a call while no log waits */
#define DRAIN_CREDIT_NS      250000000 /* a call while logs wait, at most */
#define DRAIN_IDS            64        /* records deleted at once */
#define DRAIN_LOGS           256       /* named by those records, at most */

/* The retry state of all keyspaces with this hash. */
struct drain_place {
    struct retry retry;
    uint32_t open;   /* the pass in which they are tried */
    uint32_t failed; /* the pass in which one of them failed */
};

struct drain_stats {
    uint64_t records; /* applied and deleted */
    uint64_t damaged; /* passes that met a damaged or doubtful record */
};

struct drain {
    struct store *store;
    struct held *held;
    bool (*stop)(void *ctx); /* asked before each record; NULL: never */
    void *stop_ctx;
    bool (*begin)(void *ctx); /* merge_begin(): false, nothing may be applied
                                 now; NULL: anything may */
    void *begin_ctx;
    uint64_t (*now_ns)(void); /* clock_ns; tests have their own */
    struct drain_stats stats;
    struct diag_repeat stays, ahead, mixed, damaged;

    struct hash_key key;
    struct drain_place places[DRAIN_RETRIES];
    uint32_t pass;                /* from 1; 0: none has begun */
    bool passing;                 /* it goes on after `name` */
    bool applied;                 /* something, in this pass */
    uint8_t name[STORE_NAME_MAX]; /* the keyspace that was looked at last */
    size_t name_size;
    uint64_t due_ms;   /* of the next pass */
    uint64_t pass_ns;  /* that this pass has taken */
    int64_t credit_ns; /* that logs leave for it */
    uint64_t until_ns; /* of this call */
};

void drain_init(struct drain *d, struct store *store, struct held *held);

/* Adds the time that merging logs took to what draining may use. */
void drain_merged(struct drain *d, uint64_t ns);

/* Records were held: a pass may begin. */
void drain_held(struct drain *d);

/* Applies held records for a while; with `logs_wait` within the share that
 * drain_merged() grants.  Returns when to call again (clock_ms; a past time
 * means at once); UINT64_MAX if nothing is held. */
uint64_t drain_run(struct drain *d, bool logs_wait);

#endif

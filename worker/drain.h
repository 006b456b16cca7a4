/* worker/drain.h - applies what is held, when its keyspaces can take it.
 *
 * Keyspaces come in turn, by name; the records of one strictly in the order in
 * which they were held, each as the batch that it is: the marks tell what of it
 * is in.  A record that cannot be applied has those behind it wait, and its
 * keyspace is tried again later, after longer and longer (struct retry).  A
 * record is deleted when it is in durably.
 *
 * A record is in only when the keyspace has exactly the fills that the record
 * names.  One of which the keyspace has a later fill, or some logs and not
 * others, belongs to a directory that was put together from copies of different
 * times: nobody can tell whether it is in, so it stays and is reported, and an
 * operator decides.  A record is deleted before a later fill of one of its logs
 * is applied, so a crash in between leaves no such record.  Workers and
 * commands hold a log's records behind what is held of its keyspace, so they
 * never bring a mark past a held fill.
 *
 * While logs wait it takes a fifth of the worker's time, and never nothing:
 * every pass that may begin applies at least one record.  A pass that could
 * apply nothing is followed by a rest that is four times as long.
 *
 * The retries are a table by hash of the name.  Where two names share a place,
 * a well keyspace may wait as long as a sick one does, DRAIN_RETRY_MOST_MS, and
 * a sick one is tried as often as the well one is applied to.
 *
 * Ownership: the caller's; store and held are borrowed.  One thread.  Reports
 * through diag.
 */
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
#define DRAIN_BUSY_MS        50 /* another process is at it: again after that */
#define DRAIN_LOOK_MS        1000 /* a pass begins that often, while any is held */
#define DRAIN_SLICE_NS       20000000  /* a call that no log waits for */
#define DRAIN_CREDIT_NS      250000000 /* a call that logs wait for, at most */
#define DRAIN_IDS            64        /* records deleted at once */
#define DRAIN_LOGS           256       /* that those name, at most */

/* Of all keyspaces with this hash. */
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

/* Merging logs took so long. */
void drain_merged(struct drain *d, uint64_t ns);

/* Something was held just now: a pass may begin. */
void drain_held(struct drain *d);

/* Applies what can be applied, for a while; `logs_wait`: within the share that
 * drain_merged() leaves.  Returns when to call again (clock_ms; what is past
 * means at once); UINT64_MAX when nothing is held. */
uint64_t drain_run(struct drain *d, bool logs_wait);

#endif

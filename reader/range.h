/* reader/range.h - the connections of the range protocol.
 *
 * Requests are answered strictly in order, many per turn, with one send.  A
 * connection is in one of these states, each a list:
 *
 *   SERVING    waits for requests
 *   QUEUED     has more requests here than one turn allowed: served again
 *              after the others
 *   LISTING    asked for the keyspaces: the first in line gets a step between
 *              turns until its answer is whole
 *   DRAINING   has answers its peer has not taken: not read from
 *   WAITING    its next answer might not find memory: served when it would
 *   LINGERING  got its last answer (an error); what the peer still sends is
 *              thrown away until it closes, so that no reset eats the answer
 *
 * Memory is bounded: answers that are not taken wait in one pool, and a
 * request is only answered when its whole answer would fit there.  Small
 * answers may use a reserve that large ones may not, so a few peers that ask
 * for much and take nothing do not stop the others.  While somebody waits for
 * memory, peers that took nothing for RANGE_STALL_MS are closed.
 */
#ifndef COUNTD_READER_RANGE_H
#define COUNTD_READER_RANGE_H

#include <sys/queue.h>

#include "common/net/loop.h"
#include "common/net/net.h"
#include "reader/answer.h"
#include "reader/pool.h"

#define RANGE_POOL_CHUNKS 2048 /* 32 MiB */
#define RANGE_STALL_MS    5000
#define RANGE_LINGER_MS   2000
#define RANGE_STOP_MS     2000

enum range_state {
    RANGE_FREE,
    RANGE_SERVING,
    RANGE_QUEUED,
    RANGE_LISTING,
    RANGE_DRAINING,
    RANGE_WAITING,
    RANGE_LINGERING,
    RANGE_STATES,
};

struct range;

struct range_conn {
    struct loop_source source;
    struct range *range;
    TAILQ_ENTRY(range_conn) entry; /* in the list of its state */
    enum range_state state;
    bool closing;        /* the last answer was an error */
    bool granted;        /* it was its turn to get memory */
    bool listing;        /* its first request is a listing */
    size_t need;         /* chunks, when WAITING */
    uint64_t changed_ms; /* when it entered the state, or took bytes */
    struct rchain unsent; /* answers */
    struct rchain stash;  /* requests, when they do not fit below */
    size_t in_size;
    uint8_t in[QUERY_EXTENDED_SIZE];
};

TAILQ_HEAD(range_list, range_conn);

struct range {
    struct loop *loop;
    struct answer *answer;
    struct listener listener;
    struct loop_timer tick;
    struct range_list lists[RANGE_STATES];
    size_t counts[RANGE_STATES];
    struct range_conn *conns;
    size_t conn_max;
    size_t conn_used;  /* those behind were never used */
    uint64_t stall_ms; /* RANGE_STALL_MS */
    struct rpool pool;
    size_t granted_free; /* free chunks when memory was last given out */
    bool waiters_changed;
    struct range_conn *listed; /* whose listing has begun; or NULL */
    uint8_t *in;               /* of the connection being served */
    uint8_t *out;
    bool in_turn; /* the answer module knows of this turn */
    bool stopping;
    uint64_t stop_ms;
};

/* Takes all memory.  -ENOMEM. */
int range_init(struct range *r, struct loop *loop, struct answer *answer,
               size_t conn_max);

/* Serves a listening socket, which it owns from now on. */
int range_listen(struct range *r, int fd);

/* Stops accepting, answers what has arrived, for at most RANGE_STOP_MS, then
 * stops the loop. */
void range_stop(struct range *r);

/* Closes everything at once. */
void range_fini(struct range *r);

#endif

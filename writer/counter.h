/* writer/counter.h - the counter and semaphore protocols over live objects.
 *
 * One struct serves one of the two on its own port: its connections, its
 * objects, its statistics.  frame.h has the bytes, live.h the objects,
 * requests.h makes answers of requests.
 *
 * A turn of a connection: one receive into a buffer that all share; the
 * complete requests in it are done in order and their answers go to another
 * such buffer, which is sent at once.  The more connections send, the less is
 * received from each in one turn, and what may be answered is in proportion:
 * so a turn takes no longer for those who send much, whatever they ask for,
 * and who asks for little waits for few.  What is left of either is kept with
 * the connection until the next event, a few bytes in its struct, more in
 * chunks of an arena, as many as the bytes need that are there:
 *
 *   OPEN       reads and answers
 *   BLOCKED    answers wait for the socket: nothing is read
 *   DUMPING    a Dump goes out piece by piece; requests behind it wait
 *   SKIPPING   the surplus of a body is thrown away as it comes
 *   DROPPING   the socket is closed; what it held is released step by step
 *
 * However a connection ends, what it holds is released: some thousand in the
 * same turn, more in the following ones.  There is no idle close.  A peer
 * that has vanished is found by keepalive after 345 s; as long may one take
 * nothing of the answers that it asked for.
 *
 * Memory for what is kept is a part of the budget (COUNTER_KEPT_SHARE), taken
 * at the start: names cannot use it up, and it cannot take room from names.
 * When it is used up, a connection is ended for the one that needs a chunk: of
 * those with an unfinished request or of those that wait for their socket,
 * whichever keep more together, one of those that keep most (within a factor
 * of two), and of these the one that has received and sent nothing for longest.
 * It may be the one that needs the chunk.  So half requests cannot take the
 * room of answers, nor answers theirs, and who keeps little is the last to go;
 * no request is refused for it.
 *
 * Ownership: the caller's, between init and fini.  The loop's thread.
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_COUNTER_H
#define COUNTD_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/list.h"
#include "common/net/loop.h"
#include "common/net/net.h"
#include "writer/live.h"

#define COUNTER_DROP_STEP  64  /* holdings of a connection in one go */
#define COUNTER_DROPS      64  /* such goes in one turn, at most */
#define COUNTER_SWEEP_STEP 512 /* objects looked at in one turn */
#define COUNTER_CLOSES     256 /* connections closed in one turn of a stop */
#define COUNTER_KEPT_SHARE 16  /* this part of the budget is for buffers */
#define COUNTER_RANKS      10  /* of how much one keeps */

/* Bytes received in one turn, about: those who send share them, but one
 * receive is not below or above so many. */
#define COUNTER_TURN_BYTES  262144
#define COUNTER_RECEIVE_MIN 4096
#define COUNTER_RECEIVE_MAX 65536

struct counter_options {
    enum live_kind kind;
    size_t connections;     /* there is memory for; more wait */
    size_t max_connections; /* more are closed at once; 0: no limit */
    size_t slots;           /* of the index at start */
    uint32_t interval_s;    /* of the window, or between sweeps */
    struct budget *budget;  /* borrowed */
    bool history;
};

/* Requests that passed the check of their arguments. */
struct counter_figures {
    uint64_t connections; /* ever */
    uint64_t noop, get, acquire, release, stats, dump;
};

struct counter_conn;

struct counter {
    struct counter_options options;
    struct loop *loop;
    struct live live;
    struct listener listener;
    struct counter_figures figures;
    size_t open; /* connections with a socket */
    /* Connections that had their turn: in this turn of the loop, and in the
     * one before. */
    size_t served, served_before;

    struct counter_conn *conns;
    size_t touched; /* conns from here on were never used */
    size_t used;    /* conns with a socket, or something to release */
    struct list_link free;
    struct list_link dropping;
    unsigned drops; /* left in this turn */
    bool stopping;
    size_t stop_at; /* conns before it are closed */

    struct budget kept_budget; /* its part of the budget */
    struct arena kept;         /* unfinished requests, unsent answers */
    /* Chunks of it, and who has them by the logarithm of their number, who
     * moved on last at the end: with an unfinished request, and waiting. */
    uint64_t chunks[2];
    struct list_link keepers[2][COUNTER_RANKS];
    uint8_t *in;  /* what one receive takes */
    uint8_t *out; /* answers, before they are sent */
    size_t out_size;

    uint64_t clock_ms; /* of the last live_clock() */
    bool sweeping;
    struct loop_timer sweep_timer;
};

/* Takes the memory.  -ENOMEM, -ENOSPC (no timer). */
int counter_init(struct counter *c, struct loop *loop,
                 const struct counter_options *options);

/* Closes every connection, the listening socket too. */
void counter_fini(struct counter *c);

/* Serves a listening socket, and owns it from now on. */
int counter_listen(struct counter *c, int fd);

/* Takes a connected non-blocking socket, as if it had been accepted.  -EMFILE
 * when there are `connections` already; then it stays the caller's. */
int counter_take(struct counter *c, int fd);

/* At the end of each turn of the loop: the bounded pieces of sweeps, of
 * releases and of a stop.  True: there is more, the next turn should not
 * wait. */
bool counter_turn(struct counter *c);

/* Stops accepting; from the end of this turn on closes all connections as they
 * stand and releases all that they hold.  Then `used` is 0. */
void counter_stop(struct counter *c);

#endif

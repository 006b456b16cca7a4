/* common/net/conn.h - the connections of every listener: receive, hand over,
 * send.
 *
 * A listener is a row of a table: a listening socket and the protocol spoken
 * there. A connection is in one state, which is also the list of its listener
 * it is in:
 *
 *   IDLE     waits for its peer: for bytes, or for room in its socket
 *   QUEUED   has work; waits at its listener for its part of a turn
 *   BUSY     the same, and has much to do: its last receive was of more than
 *            CONN_LITTLE bytes, or its last slice did not do all
 *   PAUSED   waits for conn_wake(), or for memory; it is not received from,
 *            and ends when its peer has gone (a reset; soon after a close that
 *            is no more than the end of its input, too, with CONN_EOF_WAKES,
 *            else it gets its answer)
 *   ENDING   its last answer is sent and its side shut down; what still comes
 *            is thrown away, for 2 s and 16 MiB at most, so that no reset
 *            overtakes that answer; at a stop all connections with answers
 *            or acks end so, for 250 ms
 *   CLOSED   the socket is gone; the protocol's ended() goes on in steps, or a
 *            gate still names the connection; its number is not free yet
 *
 * A turn: events only queue.  conn_turn() then serves listener after listener
 * in the order of the table, each for CONN_TURN_US at most, first come first
 * served.  A connection gets a slice: one receive of CONN_SLICE bytes at most
 * (or protocol.slice: more is cheaper where no answer depends on one slice) and
 * about as many bytes of answers; then it stands behind its neighbours.  All
 * that are QUEUED are served before those that are BUSY, so a peer that sends
 * little does not wait for those that flood its listener, only for the end of
 * the turn in which it sends, and for one slice of each that was QUEUED before
 * it; and at least one BUSY connection of a listener is served in each turn.
 * So how long a turn takes depends on the number of listeners, not on how many
 * send, nor how much.
 *
 * Input is in one receive buffer that all share: what the connection kept, then
 * what came.  Only what take() leaves is copied, into the pool.  Answers are
 * written in place into one send buffer and sent once per slice; only what the
 * socket does not take, or a gate holds, is copied into the pool.
 *
 * The pool is bounded.  A large answer is begun only when it fits (conn_space),
 * and a sixteenth of the pool is left to input and small answers.  If it is
 * used up nevertheless, one connection ends: of those whose peer moved no byte
 * for 5 s, else of all, the one that keeps most.  That is looked for among all
 * connections: slow, in rare trouble.
 *
 * Events are edge-triggered: a connection is registered once, and it remembers
 * whether there may be more to receive.
 *
 * Ownership: all memory is taken in conns_init().  The loop's thread.
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_CONN_H
#define COUNTD_COMMON_NET_CONN_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/diag.h"
#include "common/base/list.h"
#include "common/net/gate.h"
#include "common/net/loop.h"
#include "common/net/net.h"
#include "common/net/networks.h"
#include "common/net/pool.h"

#define CONN_SLICE      65536u /* bytes received, or put, in a service, about */
#define CONN_LITTLE     4096
#define CONN_TURN_US    500
#define CONN_ENDING_MS  2000
#define CONN_ENDING_MAX (16u << 20)
#define CONN_STALL_MS   5000
#define CONN_LEFT_MS    500
#define CONN_LAST_MS    500

/* A client has at most half of the places that a listener can have, or
 * CONN_CLIENT_LEAST where that is more, and never the last eighth: one of many
 * leaves places to the others. */
#define CONN_CLIENT_LEAST 256

/* Bytes that one request needs at most, unless input_max is more. */
#define CONN_NEED_MAX    (3 * CONN_SLICE + 4096)
#define CONN_REFUSAL_MAX 16 /* bytes of a refusal */

/* Bytes of answers that may use what the pool reserves: those that most ask
 * for, which 100 rows of the longest names are. */
#define CONN_SMALL_ANSWER 32768

struct conns; /* of one loop: listeners, pool, buffers */
struct listener;

/* ---- connections ------------------------------------------------------- */

enum conn_state {
    CONN_FREE,
    CONN_IDLE,
    CONN_QUEUED,
    CONN_BUSY,
    CONN_PAUSED,
    CONN_ENDING,
    CONN_CLOSED,
    CONN_STATES
};

struct conn {
    struct loop_source source; /* fd -1: FREE or CLOSED */
    struct list_link link;     /* in its listener's list of its state */
    struct listener *listener;
    struct chain in, out;
    uint64_t acks_due; /* bytes of acks that may be sent */
    /* Bytes of `out`, or of acks, that are behind the gate, by group. */
    uint32_t gated[GATE_GROUPS];
    uint32_t need; /* bytes of input that take() waits for */
    /* Low 32 bits of clock_ms(): at the last byte in or out, and at the first
     * byte of what is kept. */
    uint32_t moved_ms, began_ms;
    uint16_t flags;  /* conn.c's */
    uint16_t client; /* networks_client() of its peer */
    uint8_t state;
    uint8_t newest; /* group of the gate that the last bytes are behind */
    uint8_t gate;   /* 1 + id of the gate that holds bytes; 0: none */
    uint8_t phase;  /* bytes sent of the first ack that is due */
    bool sent_much; /* the last receive was of more than CONN_LITTLE bytes */
    bool is_local;  /* through a unix socket */
};                  /* the protocol's own state follows */

static_assert(sizeof(struct conn) <= 128, "idle connections are cheap");

/* What a protocol's state of a connection is: state_size bytes, zero at first,
 * aligned to 8. */
static inline void *
conn_state(struct conn *c)
{
    return c + 1;
}

/* The connection whose state that is. */
static inline struct conn *
conn_of_state(void *state)
{
    return (struct conn *)state - 1;
}

/* ---- protocols --------------------------------------------------------- */

enum conn_next {
    CONN_NEED_INPUT, /* take(): the rest is not a whole request: need */
    /* more(), a route of HTTP, a Redis command: answered; goes on behind it. */
    CONN_ANSWERED = CONN_NEED_INPUT,
    CONN_FULL,  /* conn_space() or conn_gate() failed: call again later */
    CONN_YIELD, /* call take() again in the next slice: there is more to do */
    CONN_PAUSE, /* again after conn_wake(); it ends when its peer has gone */
    CONN_LONG,  /* call more(), not take(), until that says CONN_ANSWERED; it
                   ends when its peer has gone */
    CONN_END,   /* ends when all answers, acks and gated bytes are sent */
    CONN_CUT    /* close now */
};

struct input {
    const uint8_t *at; /* take() moves it on, and size, over what it did */
    size_t size;
    /* CONN_NEED_INPUT: bytes from `at` that must be there, at most input_max;
     * 0: one more. */
    uint32_t need;
};

enum protocol_flags {
    /* The end of a peer's input wakes a pause once, so that what is due then is
     * answered: a client that has closed looks the same as one that only
     * half-closed.  An answer that is not there yet, or is behind a gate, is
     * waited for CONN_LEFT_MS more: as a rule it comes at once, and a peer that
     * half-closes behind its request is to get it. */
    CONN_EOF_WAKES = 1,
    /* Answers can say that they are the last.  At a stop a connection that was in
     * use lately is given CONN_LAST_MS for one more request, whose answer says so:
     * a request that is on its way then meets no end. */
    CONN_SAYS_CLOSE = 2
};

/* What a stop means for a connection: CUT ends it as it stands, as does the end of
 * its peer's input, behind which the others still answer; ANSWER answers what has
 * arrived, DRAIN takes what arrives until it is quiet. */
enum stop_way { STOP_CUT, STOP_ANSWER, STOP_DRAIN };

struct protocol {
    uint32_t state_size; /* a multiple of 8 */
    uint16_t flags;
    uint8_t stop;   /* enum stop_way */
    uint32_t slice; /* bytes received in one service; 0: CONN_SLICE */
    /* What its messages are: a connection ends before take() gets its first bytes
     * if a browser sent them, or text (common/wire/first_bytes.h).  NULL: take()
     * gets them. */
    const char *takes;
    const char *ack;     /* what conn_add_acks() counts: "WIN"; NULL: none */
    const char *refusal; /* sent after malformed input; NULL: nothing is, and
                            the connection is cut */

    /* Returns the bytes of input that take() may get now, at least what it
     * kept.  0: the listener waits for listener_wake(), and no byte leaves the
     * kernel.  NULL: no limit. */
    size_t (*input_limit)(struct listener *d);
    enum conn_next (*take)(struct conn *c, struct input *in);
    /* The peer has closed its side within a request; `in` is what came of it.
     * Not after a reset.  NULL: such a rest is dropped. */
    void (*rest)(struct conn *c, struct input *in);
    enum conn_next (*more)(struct conn *c); /* ANSWERED, FULL, ... */
    /* Called after a connection is accepted.  NULL: nothing to do. */
    void (*began)(struct conn *c);
    /* Called after the socket is closed, in steps as short as a service, until
     * it returns true.  NULL: nothing to do. */
    bool (*ended)(struct conn *c);
};

#define LISTENER_NO_PORT "socket" /* the socket alone */

struct listener_config {
    const char *name;       /* in the ready line, messages and figures */
    const char *socket;     /* its name in the data directory (local.h); NULL:
                               it has none */
    const char *listen;     /* host:port, or LISTENER_NO_PORT; NULL or empty:
                               the listener is off, its socket too */
    const char *listen_key; /* setting of `listen`, for messages */
    const char *allow;      /* networks that may connect; empty: all, where the
                               address is of loopback */
    const char *allow_key;  /* setting of `allow`, for messages */
    const char *enable_key; /* the setting that turns it off; the same as
                               listen_key where an empty one does */
    const char *max_key;    /* the setting of `max`, for messages */
    const struct protocol *protocol;
    void *ctx;          /* conn_ctx() */
    size_t max;         /* connections */
    size_t reserved;    /* connections that no other listener can have */
    uint32_t idle_s;    /* closed after; 0: never */
    uint32_t request_s; /* the longest time from the first byte of a request
                           to its last; 0: no limit */
    const char *request_key; /* the setting of that, for messages; NULL: none */
    uint32_t yield_s;      /* idle so long it may end for a new one, or a tenth
                              of that if it has never sent a byte; 0: never */
    uint32_t keep_alive_s; /* a vanished peer is found after; 0: 2 h */
    bool close_over;       /* over max: closed at once; else waits in the
                              backlog */
};

/* Figures of a port (common/setup/figures.def), in their order. */
struct listener_stats {
    uint64_t accepted;
    uint64_t received;  /* bytes */
    uint64_t sent;      /* bytes */
    uint64_t malformed; /* connections refused by conn_refuse() */
    uint64_t browsers;  /* connections refused for their first bytes */
    uint64_t turned_away;
    uint64_t not_allowed; /* connections from other networks */
    uint64_t yielded;
    uint64_t evicted; /* connections closed for their memory */
    uint64_t late;    /* connections whose request took over request_s */
    uint64_t cut_off; /* connections that ended within a request */
};

/* A listener has a port, a socket in the data directory, or both. */
enum { LISTENER_PORT, LISTENER_SOCKET, LISTENER_ACCEPTORS };

struct acceptor {
    struct loop_source source;
    struct listener *listener;
    bool paused; /* its peers wait in the backlog */
};

struct listener {
    const struct listener_config *row;
    struct conns *conns;
    struct acceptor acceptors[LISTENER_ACCEPTORS];
    struct list_link lists[CONN_STATES];
    uint8_t *array; /* conns, `stride` bytes each */
    size_t stride;
    size_t touched;    /* index: connections from here on were never used */
    size_t used;       /* connections not FREE */
    size_t open;       /* connections with a socket */
    size_t working;    /* connections that are QUEUED or BUSY */
    size_t client_max; /* connections of one client; more are closed */
    uint32_t clients[NETWORKS_CLIENTS]; /* open connections of each client */
    uint16_t port;                      /* 0: it has only its socket */
    bool blocked;                       /* true while input_limit() is 0 */
    bool stopping;
    uint64_t moved_ms;     /* clock of its last byte in */
    uint64_t released_ms;  /* clock of the last answer that a gate released */
    struct networks allow; /* none: all networks */
    struct listener_stats stats;
    struct diag_repeat allow_warning, late_warning, full_warning,
        browser_warning, malformed_warning, memory_warning;
};

uint32_t conn_number(const struct conn *c); /* in its listener, from 0 */

/* loop_unix_ms() of its loop. */
uint64_t conn_unix_ms(const struct conn *c);

/* The connection with that number, below row->max; NULL: it has no socket. */
struct conn *listener_open_conn(const struct listener *d, uint32_t number);

/* Its peer's address; "-" when that has gone. */
void conn_peer(const struct conn *c, char text[NET_ADDRESS_SIZE]);

static inline void *
conn_ctx(const struct conn *c)
{
    return c->listener->row->ctx;
}

/* ---- for protocols, within take(), more() and ended() ------------------- */

/* Returns space for `size` bytes at the end of the send buffer; `size` is at
 * most the larger of CONN_SLICE and answer_max.  NULL: not now; put nothing
 * more and return CONN_FULL, or try less.  conn_put() adds the first `size`
 * bytes of that space to the answers. */
uint8_t *conn_space(struct conn *c, size_t size);
void conn_put(struct conn *c, size_t size);

/* Whether this slice comes before those of the BUSY, and others have work, too.
 * A protocol that returns CONN_FULL then, in place of a large answer, makes it
 * in its first slice as one of the BUSY: small answers do not wait for it. */
bool conn_goes_first(const struct conn *c);

/* Adds `count` acks; takes no memory. */
void conn_add_acks(struct conn *c, uint32_t count);

/* Reports malformed input with the peer's address, counts it, and puts the
 * refusal after all answers.  Returns what take() returns then. */
enum conn_next conn_refuse(struct conn *c, const char *why);

/* A browser speaks to this port, or what sends text: counts and reports that;
 * `words` are those of first_bytes.h.  Returns what take() returns then. */
enum conn_next conn_refuse_browser(struct conn *c, const char *words);

/* Whether the peer has ended its side, or is gone. */
bool conn_has_left(const struct conn *c);

/* Ends the connection after the answers that were put.  Its peer gets them also
 * if it goes on sending (ENDING).  Returns CONN_END. */
enum conn_next conn_last(struct conn *c);

/* Serves a connection again that returned CONN_PAUSE. */
void conn_wake(struct conn *c);

/* input_limit() may be above 0 again. */
void listener_wake(struct listener *d);

/* Puts what follows behind a gate (gate.h): it is sent when the group that
 * collects now is durable.  Call it once per take(), before the first such
 * answer.  False: bytes are behind another gate; put nothing, return
 * CONN_FULL. */
bool conn_gate(struct conn *c, struct gate *g);

/* ---- of one loop ------------------------------------------------------- */

struct conns_options {
    const struct listener_config *rows;
    size_t count;      /* of rows */
    size_t shared;     /* connections of all listeners: descriptors there are */
    size_t pool_size;  /* bytes */
    size_t answer_max; /* bytes that one conn_space() may ask for */
    size_t input_max;  /* bytes one request may need; 0: CONN_NEED_MAX */
};

/* Takes all memory.  -ENOMEM. */
int conns_init(struct conns **out, struct loop *loop,
               const struct conns_options *options);

/* Closes everything as it stands. */
void conns_fini(struct conns *cs);

struct listener *conns_listener(struct conns *cs, size_t index);

/* Serves a listening socket, of a port or of the data directory, at a listener,
 * and owns it from now on. */
int conns_listen(struct conns *cs, size_t listener, int fd);

/* Takes a connected non-blocking socket, as if it had been accepted.  -EMFILE:
 * there is no place; it stays the caller's. */
int conns_take(struct conns *cs, size_t listener, int fd);

/* At the end of each turn of the loop.  True: the next turn is not to wait, as
 * closed connections have left more to be done. */
bool conn_turn(struct conns *cs);

/* Whether a connection waits to be served, and the next turn is not to wait:
 * once conn_turn(), and whatever may release a gate, is done. */
bool conns_have_work(const struct conns *cs);

/* Stops accepting and ends all connections, each as its protocol says: those of
 * STOP_DRAIN have `ms` for their input, from when no listener is blocked on, and a
 * second more for the answers; those of STOP_ANSWER go on
 * meanwhile, and then have `ms` to take their answers.  Calls `done` when none is
 * left. */
void conns_stop(struct conns *cs, uint64_t ms, void (*done)(void *ctx),
                void *ctx);

#endif

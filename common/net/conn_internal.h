/* common/net/conn_internal.h - what the files of conn.h share; no other file
 * includes it.
 *
 *     conn.c             a connection's states and its service
 *     conn_in.c          what it receives, keeps, throws away and refuses
 *     conn_out.c         what it sends, and the memory for what waits
 *     gate.c             answers that wait for a commit
 *     listener.c         turns, timeouts, memory
 *     listener_accept.c  which connections are accepted: places, networks
 *     listener_stop.c    the end of all connections */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_CONN_INTERNAL_H
#define COUNTD_COMMON_NET_CONN_INTERNAL_H

#include "common/net/conn.h"

#include <sys/types.h>

#define CONN_QUIET_MS                                                          \
    250 /* at a stop: TCP repeats after 200 ms what did not get through */
#define CONN_DISCARDS   16  /* receives thrown away in one service */
#define CONN_CLOSES_MAX 256 /* connections of a list closed in one turn */

/* Bytes behind a gate from which on a connection is not received from, so that
 * it cannot owe without end while a disk hangs. */
#define CONN_GATED_MAX (16u << 20)

enum conn_flags {
    F_READABLE = 1,  /* there may be more to receive */
    F_EOF = 2,       /* its peer has ended its side, or is gone */
    F_FULL = 4,      /* its socket takes no more for now */
    F_LONG = 8,      /* an answer goes on: more(), not take() */
    F_FRESH = 16,    /* its first bytes have not been looked at */
    F_AGAIN = 32,    /* what it kept may hold whole requests */
    F_CLOSING = 64,  /* no more input; closes when all has gone */
    F_LINGER = 128,  /* shuts down and drains before that */
    F_STARVED = 256, /* waits for memory for an answer */
    F_HOLD = 512,    /* waits for conn_wake() */
    F_GATE_0 = 1024, /* named by its gate's group 0; the next bit: group 1 */
    F_GATE_1 = 2048,
    F_BLOCKED = 4096, /* waits until input_limit() is above 0 */
    F_DONE = 8192,    /* CLOSED, and ended() is through */
    F_GONE = 16384    /* its peer takes nothing any more: a reset */
};
#define F_GATES (F_GATE_0 | F_GATE_1)

struct conns {
    struct loop *loop;
    struct pool pool;
    uint32_t reserve; /* chunks for input and small answers */
    uint8_t *in;
    size_t input_max; /* bytes one request may need */
    uint8_t *out;
    size_t out_size;
    size_t count; /* listeners */
    size_t shared;
    struct listener *listeners;

    /* Of the connection that is being served. */
    uint64_t now_ms; /* clock of the turn */
    struct conn *served;
    size_t out_used;
    size_t gated_at; /* bytes of `out` from here on are behind the gate */
    bool is_short;   /* conn_space() had no memory */
    bool yields;     /* take() returned CONN_YIELD */

    size_t starved;        /* connections with F_STARVED */
    uint32_t starved_free; /* chunks when they were last looked at */

    struct loop_timer tick;
    bool stopping;
    bool ending;        /* stopping, and no more input is waited for */
    uint64_t drain_ms;  /* of conns_stop() */
    uint64_t answer_ms; /* clock: the deaf with answers are cut; if ending */
    uint64_t stop_ms;   /* clock: input ends; ending: the deaf are cut */
    /* Clock: input ends also while listeners are blocked. */
    uint64_t give_up_ms;
    void (*done)(void *ctx);
    void *ctx;
};

static inline struct conn *
listener_conn(const struct listener *d, size_t number)
{
    return (struct conn *)(void *)(d->array + number * d->stride);
}

static inline uint32_t
conn_slice(const struct protocol *p)
{
    return p->slice > 0 ? p->slice : CONN_SLICE;
}

static inline uint32_t
conns_now(const struct conns *cs)
{
    return (uint32_t)loop_now_ms(cs->loop);
}

/* At a stop: whether a last request may be on its way. */
static inline bool
conn_awaits_last(const struct conn *c)
{
    return (c->listener->row->protocol->flags & CONN_SAYS_CLOSE) != 0 &&
           (c->flags & F_EOF) == 0 &&
           conns_now(c->listener->conns) - c->moved_ms < CONN_LAST_MS;
}

static inline uint32_t
conn_gated(const struct conn *c)
{
    return c->gated[0] + c->gated[1];
}

/* ---- conn.c ---- */

/* One service.  The connection has work before; after, it is filed by what it
 * waits for, or closed. */
void conn_serve(struct conn *c);

/* It has work: it stands at the end of its listener's queue, of those that send
 * little or of those that are BUSY. */
void conn_queue(struct conn *c);

/* Closes the socket, and calls ended() once; more of that follows in turns. */
void conn_close(struct conn *c);

/* CLOSED: ended() once; frees the number when that and the gates are through.
 * False: it is still CLOSED. */
bool conn_end_some(struct conn *c);

/* Starts with a fresh socket.  0 or -errno. */
int conn_begin(struct conn *c, struct listener *d, int fd,
               const struct net_address *peer);

/* ---- conn_in.c ---- */

/* Has the input of this service in the receive buffer, `limit` bytes at most
 * (above what is kept): its size, or -1 when there is nothing to give to the
 * protocol now.  *failed: there is no memory, or the time of a request is over;
 * the connection must end. */
ssize_t conn_gather(struct conn *c, size_t limit, bool *failed);

/* Gives the protocol what it has of a request that will not be completed. */
void conn_give_rest(struct conn *c);

/* Keeps what take() left, and notes what it needs.  False: no memory. */
bool conn_keep_rest(struct conn *c, const struct input *in,
                    enum conn_next next);

/* Whether the rest of a request that is kept in part has not come in time. */
bool conn_is_late(const struct conn *c);

/* Drops what is kept. */
void conn_forget(struct conn *c);

/* ---- conn_out.c ---- */

void conn_starve(struct conn *c, bool starved);

/* Ends connections until the pool has `chunks` free ones.  False: the served
 * connection must end, because no other one has any. */
bool conns_reserve_chunks(struct conns *cs, uint32_t chunks);

/* Ends the connection that has most of the pool; `stalled`: among those that
 * moved no byte for CONN_STALL_MS and wait for their peers.  False: none has any. */
bool conns_evict(struct conns *cs, bool stalled);

/* Whether acks are due, or bytes are in `out`. */
static inline bool
conn_keeps_answers(const struct conn *c)
{
    return c->acks_due > 0 || c->out.size > 0;
}

/* Some of that may be sent. */
bool conn_has_waiting(const struct conn *c);

/* Sends all that waits and may go.  False: the connection has failed. */
bool conn_send_waiting(struct conn *c);

/* Sends what was put into the send buffer, as far as it may go, and keeps the
 * rest, for which there is memory.  False: the connection has failed. */
bool conn_flush(struct conn *c);

/* ---- listener_accept.c ---- */

/* Accepts again, if it has paused and there is a place, or a connection that
 * yields one. */
void conns_go_on_accepting(struct listener *d);

void conns_stop_accepting(struct listener *d);

/* A connection has closed its socket, or given up its number. */
void conns_note_closed(struct listener *d);

/* ---- listener_stop.c ---- */

/* While stopping: once per look. */
void conns_stop_some(struct conns *cs);

/* A listener that was blocked is not any more. */
void conns_stop_longer(struct conns *cs);

#endif

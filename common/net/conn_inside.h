/* common/net/conn_inside.h - what conn.c (a connection's service), gate.c and
 * door.c (places, time, stopping) share; nobody else includes it. */
#ifndef COUNTD_NET_CONN_INSIDE_H
#define COUNTD_NET_CONN_INSIDE_H

#include "common/net/conn.h"

enum conn_flags {
    F_READABLE = 1,  /* there may be more to receive */
    F_EOF = 2,       /* its peer has ended its side, or is gone */
    F_FULL = 4,      /* its socket takes no more for now */
    F_LONG = 8,      /* an answer goes on: more(), not take() */
    F_FRESH = 16,    /* its first bytes have not been looked at */
    F_AGAIN = 32,    /* what it kept may hold whole requests */
    F_CLOSING = 64,  /* no more input; closes when all has gone */
    F_LINGER = 128,  /* shuts down and drains before that */
    F_STARVED = 256, /* waits for memory: `skip` bytes for an answer */
    F_HOLD = 512,    /* waits for conn_wake() */
    F_GATE_0 = 1024, /* named by its gate's group 0; the next bit: group 1 */
    F_GATE_1 = 2048,
    F_SKIPPING = 4096, /* what it needs is there, the surplus is not */
    F_BLOCKED = 8192,  /* waits for room at its door */
    F_DONE = 16384     /* CLOSED, and ended() is through */
};
#define F_GATES (F_GATE_0 | F_GATE_1)

struct conns {
    struct loop *loop;
    struct pool pool;
    uint32_t reserve; /* chunks for input and small answers */
    uint8_t *in;
    uint8_t *out;
    size_t out_size;
    size_t count; /* of doors */
    size_t shared;
    struct door *doors;

    /* Of the connection that is being served. */
    struct conn *served;
    size_t out_used;
    size_t gated_at; /* bytes of `out` from here on are behind the gate */
    size_t wanted;   /* bytes that conn_space() had no memory for */
    size_t slice;    /* bytes put since the service began */

    uint32_t stall_ms;
    size_t starved;        /* connections with F_STARVED */
    uint32_t starved_free; /* chunks when they were last looked at */

    struct loop_timer tick;
    bool stopping;
    bool ending;        /* stopping, and no more input is waited for */
    uint64_t stop_ms;   /* clock: input ends */
    uint64_t looked_ms; /* of the last look while stopping */
    void (*done)(void *ctx);
    void *ctx;
};

static inline struct door *
door_at(struct conns *cs, size_t i)
{
    return &cs->doors[i];
}

static inline struct conn *
door_conn(const struct door *d, size_t number)
{
    return (struct conn *)(void *)(d->array + number * d->stride);
}

/* ---- conn.c ---- */

/* Puts a connection into a state, at the end of its door's list. */
void conn_enter(struct conn *c, enum conn_state state);

/* One service.  The connection is in no list before, and in one after. */
void conn_serve(struct conn *c);

/* It has work: it stands at the end of its door's queue. */
void conn_queue(struct conn *c);

/* Closes the socket, and calls ended() once; more of that follows in turns. */
void conn_close(struct conn *c);

/* CLOSED: ended() once; frees the number when that and the gates are through.
 * False: it is still CLOSED. */
bool conn_end_some(struct conn *c);

/* Ends whoever keeps most of the pool, if anyone keeps any; `stalled`: only of
 * those that moved no byte for CONN_STALL_MS.  False: nobody. */
bool conns_evict(struct conns *cs, bool stalled);

/* Starts with a fresh socket.  0 or -errno. */
int conn_begin(struct conn *c, struct door *d, int fd);

/* ---- door.c ---- */

/* A connection has closed its socket, or given up its number. */
void door_closed(struct door *d);

#endif

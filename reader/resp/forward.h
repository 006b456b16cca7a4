/* reader/resp/forward.h - increments on their way to countd-write.
 *
 * All increments go over one connection to the acknowledging port of
 * countd-write (DIR/socket/ack, or an address), in the order in which they
 * came.  An answer waits behind the gate until the increments of its group are
 * acknowledged, which means that they are durable:
 *
 *     forward_add(), conn_put() ...  the group that collects
 *     forward_send()                 its bytes are sent; it becomes the group
 *                                    in flight when the one before is through
 *     WIN for all of it              its answers leave
 *
 * Messages are sent at once, whatever group is in flight.
 *
 * A connection begins with an increment of 0, which counts nothing: once that is
 * acknowledged, a process serves it, and does not only let it wait.  While there is
 * no such connection, those with increments pause, for resp.wait; then
 * -MASTERDOWN is the answer.  The connection is tried again every 50 ms.
 *
 * A countd-write that stops takes all that was sent until it shuts its side of
 * the socket down, and acknowledges that: what could not be sent is sent to the
 * next one.  If the connection breaks and acknowledgements are missing, each answer
 * is replaced: by -UNSURE if its message was sent, as it is then counted once or
 * not at all; by -MASTERDOWN if it was not, as it is then not counted.
 *
 * Ownership: the caller's; loop, layout and the table of answers are borrowed.
 * The loop's thread.  Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_RESP_FORWARD_H
#define COUNTD_READER_RESP_FORWARD_H

#include "common/net/conn.h"
#include "common/setup/config.h"
#include "common/wire/message.h"
#include "reader/resp/last_answers.h"

#define FORWARD_MAX      16384u /* increments not acknowledged */
#define FORWARD_RETRY_MS 50     /* between tries to connect */

enum forward_state {
    FORWARD_DOWN,
    FORWARD_CONNECTING, /* until the increment of 0 is acknowledged */
    FORWARD_UP,
    FORWARD_ENDING /* takes no more; acknowledgements still come */
};

/* Whether an increment is taken, waits, or is refused. */
enum forward_now { FORWARD_TAKES, FORWARD_WAITS, FORWARD_REFUSES };

extern const char forward_refusal[]; /* what answers it then */

/* What the state of a connection that forwards begins with: zero at first. */
struct forward_place {
    struct forward *forward; /* NULL: no increment yet */
    uint32_t first, last;    /* records of it in the queue; valid if owed > 0 */
    uint32_t owed;           /* acknowledgements due */
    uint32_t put;            /* bytes of answers put so far, modulo 2^32 */
    uint64_t acked_ms;       /* time of its last acknowledgement */
};

struct forward_record {
    struct conn *conn;
    uint32_t next;  /* of its connection */
    uint32_t entry; /* in the table of answers */
    uint32_t at;    /* `put` before its answer */
    uint32_t size;  /* of its answer */
};

struct forward_stats {
    uint64_t forwarded; /* increments sent or queued */
    uint64_t refused;   /* answered -MASTERDOWN: not counted */
    uint64_t unsure;    /* answered -UNSURE */
};

struct forward {
    struct loop *loop;
    const struct layout *layout;
    struct last_answers *answers; /* the caller's, set before forward_init() */
    const char *data_dir;
    struct net_address writer; /* size 0: the socket */
    struct loop_source source;
    struct loop_timer retry;
    struct gate gate;
    struct forward_record *records; /* a ring by number of the increment */
    uint8_t *messages;              /* the same */
    uint64_t added, acked;          /* increments, ever */
    uint64_t sent;                  /* bytes of messages, ever */
    uint64_t wait_ms;               /* resp.wait */
    uint64_t down_ms;               /* clock: since when it is not up */
    uint64_t group_end;             /* of the group in flight */
    uint64_t lost;                  /* while it fails: the first not sent */
    bool in_flight;                 /* there is a group in flight */
    bool wants_output;              /* the socket was full */
    uint8_t ack_phase;              /* bytes received of the next WIN */
    enum forward_state state;
    struct forward_stats stats;
};

/* Begins to connect to resp.writer, else to the socket in the data directory;
 * `connections` may wait.
 *   -EINVAL         resp.writer is not an address; reported
 *   -EADDRNOTAVAIL  its name is not known; reported
 *   -ENOMEM
 * forward_fini() ends also one that did not begin, or is zero. */
int forward_init(struct forward *f, struct loop *loop,
                 const struct layout *layout, const struct config *config,
                 size_t connections);
void forward_fini(struct forward *f);

/* WAITS, too, where as many increments are on their way as may be: behind the
 * gate, a connection is served again when it is worth a try. */
enum forward_now forward_now(struct forward *f);

/* Adds an increment, where forward_now() has said TAKES,
 * whose answer of `size` bytes is put next; it and all that
 * is put after it waits.  message_check() has passed it. */
void forward_add(struct forward *f, struct conn *c, const struct message *m,
                 uint32_t entry, uint32_t size);

/* Sends what was added: at the end of a turn. */
void forward_send(struct forward *f);

#endif

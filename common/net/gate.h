/* common/net/gate.h - answers that wait for a group commit.
 *
 * A gate has two groups: the one that collects, and the one whose sync is in
 * flight.  A protocol calls conn_gate() (conn.h) before it puts an answer that
 * depends on the commit.  The connection then sends that answer, and all that
 * follows it, only after gate_release() of the group.
 *
 *     conn_gate()  ->  gate_close_group()  ->  gate_release()
 *
 * Ownership: struct gate is the caller's; gate_init() takes its memory.  A
 * connection that closes meanwhile keeps its number until its groups are
 * released, because the gate refers to it.
 * Threads: those of the loop.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_GATE_H
#define COUNTD_COMMON_NET_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/pool.h"

#define GATE_GROUPS 2

struct conn;

struct gate {
    struct conn **waiting[GATE_GROUPS];
    size_t count[GATE_GROUPS];
    unsigned collecting;
    uint8_t id; /* unique among the gates of a loop */
};

/* Takes memory for `max` connections; `id` differs from that of the other
 * gates.  -ENOMEM. */
int gate_init(struct gate *g, size_t max, uint8_t id);
void gate_fini(struct gate *g);

/* Whether a connection is in the group that collects. */
bool gate_has_waiters(const struct gate *g);

/* The sync of the collecting group begins; the other group collects. */
void gate_close_group(struct gate *g);

/* The group in flight is durable: its connections send what they have. */
void gate_release(struct gate *g);

/* An answer behind a gate that is to be replaced by other bytes. */
struct gate_answer {
    uint32_t at; /* bytes behind the first one that is gated; rising */
    uint32_t size;
    const char *words;
};

/* Neither group will be, and the connections go on: of each connection that
 * waits, the answers that `next` names are replaced by their words and all that
 * is gated is free to go.  `next` returns false when there are no more; `gated`
 * is how many bytes the connection has behind the gate.  A connection for whose
 * words there is no memory is closed.  Not for protocols with acks, and
 * not within a turn's services. */
void gate_replace(struct gate *g, bool (*next)(struct conn *c, uint32_t gated,
                                               struct gate_answer *out));

/* ---- answers that are completed later ------------------------------------ */

/* Where the next byte goes that the served connection puts, which has called
 * conn_gate() in this service or has bytes behind a gate: bytes behind the
 * first one that is gated.  True until a group of its gate is released. */
uint32_t conn_gated_at(const struct conn *c);

/* Overwrites `size` bytes that wait behind a gate, from conn_gated_at() on; of
 * a connection that has closed meanwhile nothing.  Between services, while the
 * group collects.  The cursor is all zero at first; calls for one connection
 * that follow each other have a rising `at`. */
void gate_overwrite(struct chain_cursor *cursor, const struct conn *c,
                    uint32_t at, const void *bytes, size_t size);

#endif

/* writer/live/live_protocol.h - requests of the counter and semaphore protocols
 * to answers, memory to memory.
 *
 * Requests are done in order and answered in order, each as soon as what it needs
 * of its body is there; the rest of that is thrown away.
 *
 * The order of checks: the magic, the opcode, then the arguments; only a
 * request that passes them counts in the figures.  A request that is longer
 * than necessary is still executed.
 *
 * Nothing here knows of sockets: the server is asked for its objects, its
 * figures and the number of its connections.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_LIVE_LIVE_PROTOCOL_H
#define COUNTD_WRITER_LIVE_LIVE_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/frame.h"
#include "writer/live/live_server.h"

/* Answers stop when there are `piece` bytes of them, at most as many as here; the
 * last one may have LIVE_PROTOCOL_ANSWER more, or be a record of a Dump.  The
 * room that `out` must have then is LIVE_PROTOCOL_OUT_SIZE. */
#define LIVE_PROTOCOL_PIECE    (65536 - 128)
#define LIVE_PROTOCOL_OUT_SIZE 131072
#define LIVE_PROTOCOL_ANSWER   1024

enum live_protocol_stop {
    LIVE_PROTOCOL_MORE, /* the next request needs more bytes: `need` */
    LIVE_PROTOCOL_FULL, /* enough answers: send, and call again */
    LIVE_PROTOCOL_DUMP, /* a Dump was taken: call live_protocol_dump() until it
                           is done */
    LIVE_PROTOCOL_LONG  /* the next body is above FRAME_BODY_MAX: close */
};

struct live_protocol {
    const uint8_t *in; /* moves on, with in_size, over what is done */
    size_t in_size;
    uint8_t *out;
    size_t out_size; /* bytes in it; grows */
    size_t piece;    /* when to stop */
    uint32_t need;   /* bytes of the next request, as far as it is known */
    uint32_t skip;   /* bytes of the last one that have not come, of no use */
    uint8_t dump[4]; /* the opaque of the Dump that was taken */
};

/* Does the requests of `in` on behalf of `holder`. */
enum live_protocol_stop live_protocol_do(struct live_server *s, uint32_t holder,
                                         struct live_protocol *r);

/* Puts records of a dump from *from (0 at first) until there are enough, or a
 * bounded number of objects was looked at.  True: the end is put. */
bool live_protocol_dump(const struct live_server *s, uint32_t *from,
                        const uint8_t opaque[4], struct live_protocol *r);

#endif

/* common/wire/frame.h - requests and answers of the counter and semaphore
 * protocols.
 *
 * All integers are big-endian.  A request is a header and a body:
 *
 *   at    size  field
 *      0     1  magic      0x90; an answer has 0x91
 *      1     1  opcode     an answer repeats it
 *      2     1  flags      ignored but in Who; an answer has its status here
 *      3     1  reserved   ignored; 0 in an answer
 *      4     4  body size
 *      8     4  opaque     any bytes; an answer repeats them
 *     12        body
 *
 *   opcode        body of the request              body of the answer
 *   Noop          -                                -
 *   Get           name                             u32
 *   Acquire       u32 resources, u32 bound, name   u32 resources
 *   Release       u32 resources, name              -
 *   Stats         -                                u16 size, u16 size, name,
 *                                                  value; again and again
 *   Dump          -                                many answers: u32 current,
 *                                                  u32 maximum, name; the last
 *                                                  has no body
 *
 *   Who           u32 from, name                   u32 next, then for each:
 *                                                  u32 amount, u32 age in s,
 *                                                  u16 size, address
 *
 * A name is u16 size and 1 to 65535 bytes, any.  `bound` is the maximum of a
 * counter, the initial value of a semaphore.  A body may be longer than its
 * request needs.  The body of an error is its text.
 *
 * Source: the protocol documents of yrmcds (counter, semaphore).
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_FRAME_H
#define COUNTD_COMMON_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

#define FRAME_HEADER   12
#define FRAME_REQUEST  0x90
#define FRAME_ANSWER   0x91
#define FRAME_NAME_MAX 65535
/* The most a request can need: its header, an Acquire's fields, a name. */
#define FRAME_NEED_MAX (FRAME_HEADER + 10 + FRAME_NAME_MAX)
/* A longer body closes the connection. */
#define FRAME_BODY_MAX (UINT32_C(30) << 20)

enum frame_opcode {
    FRAME_NOOP = 0x00,
    FRAME_GET = 0x01,
    FRAME_ACQUIRE = 0x02,
    FRAME_RELEASE = 0x03,
    FRAME_STATS = 0x10,
    FRAME_DUMP = 0x11,
    FRAME_WHO = 0x57 /* countd's own */
};

/* The flags of Who, so that no other client meets it: with others, which have
 * no meaning, its opcode is an unknown one. */
#define FRAME_WHO_FLAGS 0x63

enum frame_status {
    FRAME_OK = 0x00,
    FRAME_NOT_FOUND = 0x01,
    FRAME_INVALID = 0x04,
    FRAME_NOT_AVAILABLE = 0x21,
    FRAME_NOT_ACQUIRED = 0x22,
    FRAME_UNKNOWN = 0x81,
    FRAME_NO_MEMORY = 0x82
};

struct frame_header {
    uint8_t magic;
    uint8_t opcode;
    uint8_t status; /* flags, in a request */
    uint32_t body_size;
    uint8_t opaque[4];
};

static inline void
frame_get_header(const uint8_t bytes[FRAME_HEADER], struct frame_header *h)
{
    h->magic = bytes[0];
    h->opcode = bytes[1];
    h->status = bytes[2];
    h->body_size = get_be32(bytes + 4);
    memcpy(h->opaque, bytes + 8, 4);
}

static inline void
frame_put_header(uint8_t bytes[FRAME_HEADER], const struct frame_header *h)
{
    bytes[0] = h->magic;
    bytes[1] = h->opcode;
    bytes[2] = h->status;
    bytes[3] = 0;
    put_be32(bytes + 4, h->body_size);
    memcpy(bytes + 8, h->opaque, 4);
}

/* What Get, Acquire, Release and Who ask; `name` points into the body. */
struct frame_ask {
    uint32_t resources; /* Who: the connection to begin with */
    uint32_t bound;
    uint16_t name_size;
    const uint8_t *name;
};

/* Reads the body of a Get, Acquire, Release or Who, of which `size` bytes are
 * there.  False: too short, no name, resources of 0 or above the bound
 * (Acquire). */
static inline bool
frame_get_ask(enum frame_opcode opcode, const uint8_t *body, size_t size,
              struct frame_ask *a)
{
    const size_t fixed = opcode == FRAME_ACQUIRE   ? 8
                         : opcode == FRAME_RELEASE ? 4
                         : opcode == FRAME_WHO     ? 4
                                                   : 0;

    if (size < fixed + 2)
        return false;
    a->resources = fixed >= 4 ? get_be32(body) : 0;
    a->bound = fixed == 8 ? get_be32(body + 4) : 0;
    a->name_size = get_be16(body + fixed);
    a->name = body + fixed + 2;
    if (opcode == FRAME_ACQUIRE &&
        (a->resources == 0 || a->resources > a->bound))
        return false;
    return a->name_size > 0 && a->name_size <= size - fixed - 2;
}

/* The text that is the body of an error; "" of FRAME_OK. */
static inline const char *
frame_text(enum frame_status status)
{
    static const char *const texts[] = {[FRAME_NOT_FOUND] = "Not found",
                                        [FRAME_INVALID] = "Invalid arguments",
                                        [FRAME_NOT_AVAILABLE] =
                                            "Resource not available",
                                        [FRAME_NOT_ACQUIRED] = "Not acquired",
                                        [FRAME_UNKNOWN] = "Unknown command",
                                        [FRAME_NO_MEMORY] = "OutOfMemory"};
    const size_t i = status;

    return i < sizeof texts / sizeof texts[0] && texts[i] ? texts[i] : "";
}

#endif

/* common/log/slot.h - the slot of a commit log: stamp, checksum, parsing.
 *
 * message.h has the offsets of its fields.
 *
 * The crc32 (zlib's) of a slot covers, in this order:
 *
 *     uuid of the log | slot number u64 | increment | keyspace | 00 | key |
 *     00 | epoch u32 | minute u32 | received_ms u64 | synced u32
 *
 * with the names up to their first NUL (a name that fills its field gets its
 * 00 too).  It covers uuid, number and epoch so that a slot that was copied,
 * misplaced or left from an earlier fill never counts.  The padding is compared
 * with zero instead: summing it would cost more than all other work for a
 * message.
 *
 * A slot with an empty keyspace is the mark of a request (mark.h): its message
 * has a keyspace_size of 0 and no minute, and mark_is() is true.
 *
 * The functions have no effects and allocate nothing.  Errors: 0 or a negative
 * errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_SLOT_H
#define COUNTD_COMMON_LOG_SLOT_H

#include <stdint.h>

#include "common/log/log_header.h"

#define SLOT_RUN      16 /* slots that are processed together */
#define SLOT_SIZE_MAX (MESSAGE_SIZE_MAX + 24)

/* Consecutive slots of a fill. */
struct slot_run {
    const struct log_header *log; /* its layout, uuid and epoch count */
    uint64_t number;              /* of the first */
    unsigned count;               /* 1 to SLOT_RUN */
};

/* The part of a slot after its message, less its epoch and its minute, which is
 * the message's. */
struct slot_stamp {
    uint64_t received_ms;
    uint32_t synced;
};

/* Is called with one record of a fill after the other: a slot of a log, or a
 * record of an archived one, which has no `synced`.  A result other than 0 ends
 * the reading, and is returned.  What a message points to lives until the last
 * record of its run: of SLOT_RUN records from number 0 on. */
typedef int slot_visit(void *ctx, uint32_t number, const struct message *m,
                       const struct slot_stamp *stamp);

/* Completes slots whose message bytes are in place: writes their stamps and
 * crc32s.  m[i] was parsed from slot i. */
void slot_put_run(const struct slot_run *r, uint8_t *slots,
                  const struct message *m, const struct slot_stamp *stamp);

/* Parses the slots.
 *   -ENOENT   one is of another epoch (not written in this fill; its bytes may
 *             be anything)
 *   -EBADMSG  one is torn, damaged or misplaced */
int slot_parse_run(const struct slot_run *r, const uint8_t *slots,
                   struct message *out, struct slot_stamp *stamps);

/* Parses one slot. */
static inline int
slot_parse(const struct log_header *log, const uint8_t *slot, uint64_t number,
           struct message *out, struct slot_stamp *stamp)
{
    return slot_parse_run(&(struct slot_run){log, number, 1}, slot, out, stamp);
}

#endif

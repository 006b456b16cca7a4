/* writer/ingest.h - increments from connections into the logs.
 *
 * Two protocols over the same messages.  The silent one never sends a byte: a
 * client that sends and closes has nothing unread that would turn its close
 * into a reset.  The acknowledging one sends WIN for each message once it is on
 * disk: the WINs wait behind the gate of the logs' commit.
 *
 * A time message (message.h) says of which minute those behind it are, as long as
 * the connection lasts; it is answered like any other and takes no slot.
 *
 * Both take no byte from the kernel while no log has room, or while the group
 * that collects is full and a client waits for it.  A malformed message
 * ends its connection, on the acknowledging port after the WINs due and FAIL.
 *
 * Ownership: the caller's.  The loop's thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_INGEST_H
#define COUNTD_WRITER_INGEST_H

#include <stdint.h>

#include "common/net/conn.h"
#include "writer/commit.h"
#include "writer/logs.h"

/* What both listeners have for ctx. */
struct ingest {
    struct logs *logs;     /* borrowed */
    struct commit *commit; /* of the logs; borrowed */
    uint64_t messages;     /* figure */
};

extern const struct protocol ingest_silent;
extern const struct protocol ingest_ack;

#endif

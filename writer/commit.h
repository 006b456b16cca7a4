/* writer/commit.h - group commit: when appended bytes are synced,
 * and when the answers that depend on them leave.
 *
 * A struct commit covers one file (the logs, the journal of quotas), so neither
 * waits for the other's bytes.  Bytes appended since the last sync began are
 * the collecting group; its answers wait behind the gate:
 *
 *     append, conn_gate, put       a protocol, many times in a turn
 *     commit_turn                  once, the last of the turn, after all that
 *                                  was appended is written: when nothing is in
 *                                  flight and an answer waits, or it is due,
 *                                  the group's sync begins in an I/O thread
 *     synced                       its answers may leave; the next sync begins
 *
 * Order: `begin` notes which bytes the sync covers before the gate closes its
 * group, so a group's bytes are in its sync.  After a failed sync no answer
 * leaves and the process exits.
 *
 * Ownership: struct commit is the caller's.  All runs in the loop's thread,
 * except `sync`.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_COMMIT_H
#define COUNTD_WRITER_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/conn.h"
#include "common/net/io.h"

/* The file that is made durable.  Only sync() waits for the disk. */
struct commit_file {
    bool (*is_due)(const void *ctx); /* a sync, though no answer waits */
    bool (*begin)(void *ctx);        /* false: nothing, or not now */
    int (*sync)(void *ctx);          /* I/O thread; 0 or -errno, no retry */
    bool (*end)(void *ctx, int rc);  /* false: it has failed, and said so */
    uint8_t gate_id;                 /* unique among the files of a loop */
};

struct commit {
    struct gate gate;
    const struct commit_file *file;
    void *ctx;
    struct io *io; /* borrowed; one thread may serve several commits */
    struct io_job job;
    bool in_flight;
    bool failed; /* no answer leaves any more */
    int rc;
    uint64_t took_ns;        /* the last one */
    uint64_t syncs, sync_ns; /* figures */
};

/* For `max` connections that may wait.  -ENOMEM. */
int commit_init(struct commit *m, const struct commit_file *file, void *ctx,
                struct io *io, size_t max);
void commit_fini(struct commit *m);

/* The end of a turn. */
void commit_turn(struct commit *m);

/* Starts a sync now if there is anything to sync and none is in flight. */
void commit_go(struct commit *m);

#endif

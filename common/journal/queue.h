/* common/journal/queue.h - a durable queue: records that wait in a journal
 * until they are done.
 *
 *     queue_put, queue_remove ... -> queue_commit
 *
 * A queue is a folder of its own: segments "1", "2", ... and the note "lock".
 * Only the last segment is written to; only the oldest one is ever removed.
 * A group is one write and one sync of the records that were put and removed
 * between two calls of queue_commit(): it is in as a whole or not at all.
 *
 * A record has an id, which is never given twice and always above the ids
 * before it.  Records are read in the order of their ids, from any id.
 *
 * What holds after each way to end:
 *   killed       The note says up to where groups are durable.  It is written
 *                after the sync, and in the boot it names it is exact: what is
 *                before must be whole, what is after was promised to no caller
 *                and is cut.  Nothing is taken for torn.
 *   power loss   The boot id differs.  The last group is taken for torn, and
 *                cut without a report, only when nothing good follows it, the
 *                note does not call it durable, and something of it is missing
 *                (the file ends in it, or it has more lines of zeros than were
 *                written).  Anything else is damage.
 *   damage       A record whose checksum fails is lost and reported; all others
 *                are read.  Groups are numbered, so a missing one is reported
 *                as well.  The segment is kept as "bad-N" when its turn to be
 *                removed comes.
 *   failed write or sync   queue_commit() returns the error.  In this boot
 *                nothing of the group counts for any process.  After a power
 *                loss it may come back, where it could not be cut off.
 *                The next group begins a new segment once the old one is cut
 *                and synced; until that works each begin fails.
 *
 * Space: 2 * what waits + 3 segments, when queue_compact() is called after
 * removing.  It copies what waits in the oldest segment after the last group
 * (ids stay) and removes that segment.
 *
 * Processes: any number, each with a handle.  A writer has a flock on "lock"
 * while it commits, which is not waited for.  Readers take no lock: they read
 * up to where the note says.  queue_lock() is an OFD lock on the same file,
 * which is never replaced, for the process that works records off.  Local file
 * systems only.
 *
 * Memory: 24 bytes for each record that waits, and for some that are gone; the
 * group; one record.
 *
 * Ownership: the handle is the caller's from open to close.  One thread.
 * Errors: 0 or a negative errno.
 *   -EAGAIN another process is writing   -ENOSPC, -EIO as above
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_JOURNAL_QUEUE_H
#define COUNTD_COMMON_JOURNAL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

struct queue_options {
    int dir_fd; /* the folder, borrowed */
    bool writable;
    uint32_t segment_size; /* bytes, written as zeros ahead */
    uint64_t max;          /* bytes of records that wait; 0: any number */

    /* A record was met: in queue_open(), queue_refresh(), queue_commit(). While
     * all segments are read again, a record may be added again under its id.
     * Non-zero stops and becomes the result.  NULL: not needed. */
    int (*added)(void *ctx, uint64_t id, const uint8_t *bytes, size_t size);
    /* A record that was added waits no more; id 0: all are forgotten, and
     * those that wait are added again.  NULL: not needed. */
    void (*removed)(void *ctx, uint64_t id);
    /* Damage, in words. */
    void (*report)(void *ctx, const char *text);
    void *ctx;
};

/* Opens the queue and reads it; with `writable` makes what is missing.  Damage
 * is reported and counted (queue_stats); the rest is there.
 *   -ENOENT  read only, and there is no queue */
int queue_open(struct queue **out, const struct queue_options *options);
void queue_close(struct queue *q);

/* Takes what other processes did meanwhile; one read when that is nothing. */
int queue_refresh(struct queue *q);

/* ---- writing ------------------------------------------------------------- */

/* Adds a record to the group that collects.
 *   -EDQUOT  `max` would be passed   -EFBIG, -ENOMEM */
int queue_put(struct queue *q, const void *bytes, size_t size);

/* Removes a record with the group that collects; an id that waits no more is
 * ignored. */
int queue_remove(struct queue *q, uint64_t id);

/* Forgets what the group has collected. */
void queue_discard(struct queue *q);

/* Bytes that the group has collected. */
size_t queue_collected(const struct queue *q);

/* Takes the writer's flock and refreshes, so that what others wrote is known
 * before a group is collected; queue_commit() goes on with it, and it or
 * queue_release() gives it back. */
int queue_acquire(struct queue *q);
void queue_release(struct queue *q);

/* Makes the group durable; *first (or NULL) becomes the id of its first record,
 * the others follow it.  After an error the group is discarded. */
int queue_commit(struct queue *q, uint64_t *first);

/* Gives back space above the bound; copies about `bytes` at most.  1: there is
 * more to do. */
int queue_compact(struct queue *q, uint64_t bytes);

/* From now on no group of a process that was killed, or whose sync failed, can
 * come back after a power loss: for a caller who is about to rely on what is
 * not there.  Two reads when there is no such group.
 *   -EAGAIN  a process is writing: what it writes is its own */
int queue_remove_unfinished(struct queue *q);

/* Makes the note durable: from now on, also after a power loss, damage of the
 * last group is distinguished from a torn one.  For when changes pause. */
int queue_rest(struct queue *q);

/* The pid of the process that made the last call return -EAGAIN; 0: unknown. */
long queue_holder(const struct queue *q);

/* ---- reading ------------------------------------------------------------- */

/* The first record with an id above `after`; 0: there is none. */
uint64_t queue_next(const struct queue *q, uint64_t after);

/* Its bytes, until the next call.
 *   -ENOENT it waits no more, or was copied by another process: refresh
 *   -EBADMSG damaged; *size is written */
int queue_read(struct queue *q, uint64_t id, const uint8_t **bytes,
               size_t *size);

#define QUEUE_ENTRY 32u /* bytes that a record takes beside its own */

struct queue_stats {
    uint64_t records, bytes; /* that wait, with QUEUE_ENTRY for each */
    uint64_t file_bytes;     /* of all segments */
    uint64_t bad_segments;   /* that have damage */
};
void queue_stats(const struct queue *q, struct queue_stats *out);

/* Locks the part of the records that callers agree to call `part`, or all: one
 * process works them off.  Parts with the same 30 low bits are one.  At most
 * one lock a handle; refreshes.  -EAGAIN */
int queue_lock(struct queue *q, uint64_t part);
int queue_lock_all(struct queue *q);
void queue_unlock(struct queue *q);

#endif

/* common/store/held.h - data/held: batches that wait for their keyspace.
 *
 * A keyspace that cannot take its records (damaged, over a limit) delays no
 * other: its batches are held here, a record for each refused one, exactly as
 * it was given to store_apply(), its marks and its deltas.  The logs are then
 * free.  Records of a keyspace are applied later, one by one, strictly in the
 * order of their ids.  The folder is a queue of common/journal.
 *
 * Why no record is lost or counted twice:
 *
 * A process that applies to a keyspace claims or lists its logs first, then
 * takes a snapshot.  What a former owner of a log held was durable before that
 * owner released the log, so the snapshot shows it.
 *
 * While nothing is held for a keyspace, a log's records are applied.  Otherwise
 * a log whose fill is held (HELD_SAME) is done, and any other log's records are
 * held after those, unless its mark shows that they are applied.  So a mark
 * never moves beyond a held fill.
 *
 * A record is applied only if the keyspace's marks are exactly the record's. It
 * is deleted after store_apply() of it was durable, and before a later fill of
 * one of its logs is applied.
 *
 * Bytes: data/FORMAT.md.  Memory: about 110 bytes and the name for each record,
 * 32 for each of its fills.
 *
 * Any number of processes and handles.  A process that writes holds the queue's
 * flock, which is not waited for.
 *
 * Ownership: struct held is the caller's from held_open() to held_close(); one
 * thread.  Errors: 0 or a negative errno.  Damage is reported through diag, the
 * rest goes on.
 *   -EAGAIN   another process is writing: try again soon
 *   -ENOSPC   the disk is full
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_HELD_H
#define COUNTD_COMMON_STORE_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store/store.h"

#define HELD_FOLDER     "held"
#define HELD_BAD_PREFIX "bad-" /* bad-N: a damaged segment of the folder */

struct held;

struct held_options {
    int data_fd; /* the data directory, borrowed */
    bool writable;
    uint64_t max; /* bytes of records; 0: no limit (setting held.max) */
};

/* Opens nothing yet: the folder is opened when it is needed and made with the
 * first record.
 *   -ENOTSUP  there is a held.mdb of an earlier version; reported */
int held_open(struct held **out, const struct held_options *options);
void held_close(struct held *h);

/* ---- snapshots (worker, reader, commands) -------------------------------- */

/* Takes a new snapshot: the calls below answer from it until the next call that
 * says that it takes one.  0 also when there is no folder: then nothing is
 * held. After an error nothing is known of what is held. */
int held_refresh(struct held *h);

/* Whether anything at all is held. */
bool held_any(struct held *h);

enum held_state {
    HELD_NONE, /* nothing is held for this keyspace */
    HELD_SAME, /* this very fill's records are held for it */
    HELD_OTHER /* something else is: a log's records must go behind it */
};

/* Determines for each mark what is held for this keyspace.  Reads the record of
 * a fill that is held, and takes a new snapshot if it is there no more. */
int held_states(struct held *h, const uint8_t *name, size_t name_size,
                const struct store_fill *marks, size_t count,
                enum held_state *states);

/* Whether a fill comes before what is held of its log for this keyspace: at
 * least one fill of the log is, and each of these has a later epoch.  Such a
 * fill must not be held behind them. */
bool held_is_earlier(struct held *h, const uint8_t *name, size_t name_size,
                     const struct store_fill *fill);

/* first_ms of the oldest and of the newest fill that is held for this keyspace,
 * for all with size 0; UINT64_MAX and 0 when nothing is. */
int held_span(struct held *h, const uint8_t *name, size_t name_size,
              uint64_t *oldest_ms, uint64_t *newest_ms);

/* The records held for one keyspace. */
struct held_summary {
    const uint8_t *name; /* until the next call */
    size_t name_size;
    uint64_t records;
    uint64_t fills; /* marks in all of them; several may be of one log */
    uint64_t bytes;
    uint64_t oldest_ms; /* first_ms of the oldest fill */
    uint64_t since_ms;  /* when the first record was held (Unix) */
    int error;          /* why the first was refused; 0: they only wait */
};

/* Calls `row` for each keyspace of which something is held, by name; stops when
 * it returns non-zero and returns that. */
int held_each(struct held *h,
              int (*row)(void *ctx, const struct held_summary *s), void *ctx);

/* ---- holding ------------------------------------------------------------ */

/* Begins, fills and ends one step that is durable as a whole when held_commit()
 * returns 0; when it does not, some of its records may be held (they are found
 * to be HELD_SAME).  Begin takes the flock and a new snapshot.  held_put() adds
 * one batch, and `error`, why it was refused.  After an error of held_put(),
 * held_abort(); held_commit() ends the step in any case.
 *   -EDQUOT  held.max would be passed (held_put)
 *   -EINVAL  not a batch: no marks, deltas out of order (held_put) */
int held_begin(struct held *h);
int held_put(struct held *h, const struct store_batch *batch, int error);
int held_commit(struct held *h);
void held_abort(struct held *h);

/* The pid of the process that made the last call return -EAGAIN; 0: unknown. */
long held_holder(const struct held *h);

/* ---- applying what is held (worker) ------------------------------------- */

/* A record as it was put.  Its memory is the handle's, until the next call that
 * gets the handle. */
struct held_record {
    uint64_t id;
    struct store_batch batch;
};

/* Takes the lock of a keyspace's records: one process at a time applies or
 * drops them.  Not waited for.  At most one per handle; released by
 * held_unlock() or the end of the process.  Takes a new snapshot, because the
 * last owner of the lock may have applied what was seen before.
 *   -EAGAIN  another process has it
 *   -ENOENT  nothing is held */
int held_lock(struct held *h, const uint8_t *name, size_t name_size);

/* The same of the records of all keyspaces, for a backup: what it copies is
 * then neither applied nor dropped before the keyspaces are copied, too. */
int held_lock_all(struct held *h);
void held_unlock(struct held *h);

/* The keyspace after `name` (size 0: the first) of which something is held:
 * into `next` (STORE_NAME_MAX bytes) and *next_size.  -ENOENT: none is after
 * it. */
int held_next_name(struct held *h, const uint8_t *name, size_t name_size,
                   uint8_t *next, size_t *next_size);

/* The first record of a keyspace with an id above `after`.
 *   -ENOENT  there is none   -EBADMSG  it is damaged: *out has its id
 *   -ENOMEM */
int held_next(struct held *h, const uint8_t *name, size_t name_size,
              uint64_t after, struct held_record *out);

/* Deletes exactly these records, durably; damaged ones go as well, and those
 * that are not there are no error.  Takes a new snapshot. */
int held_delete(struct held *h, const uint64_t *ids, size_t count);

/* Gives back space, and quarantines a damaged segment of which nothing waits.
 * Takes a new snapshot. */
int held_maintain(struct held *h);

/* Deletes all records of a keyspace, durably; *records becomes their number.
 * Takes the lock itself. */
int held_drop(struct held *h, const uint8_t *name, size_t name_size,
              uint64_t *records);

/* ---- check and copy (countd check, backup) ------------------------------ */

/* Reads everything against its checksums; of the result, `keys` are records,
 * `marks` fills. */
int held_check(const struct held *h, void (*fault)(void *ctx, const char *text),
               void *ctx, struct store_check_result *out);

/* Returns how many files of the folder have damage now: segments, and those
 * that were quarantined and that no operator has removed. */
uint64_t held_damaged_files(const struct held *h);

/* Copies all records, in their order, into a new folder of the data directory
 * `to_fd`, durably; nothing when none is held.
 *   -EEXIST  there is one already   -EBADMSG  a record is damaged */
int held_copy(struct held *h, int to_fd);

#endif

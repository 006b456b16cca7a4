/* common/store/lmdb/held.h - data/held.mdb: batches that wait for their
 * keyspace.
 *
 * A keyspace that cannot take its records (damaged, over a limit) stops nobody:
 * what it was to get is kept here, a record for each refused batch, exactly as
 * it was given to store_apply(): its marks and its deltas, nothing folded again
 * and nothing put together.  The logs are then free.  Records of a keyspace are
 * applied later, one by one, strictly in the order of their ids.
 *
 * Why no record is lost or counted twice, whoever dies when:
 *   - A worker first claims its logs (flock), then begins
 * held_snapshot_begin(), in the file that has the name then.  What a former
 * owner of a log held was committed before that owner let go of the log, so the
 * look shows it.
 *   - A keyspace of which nothing is held takes a log's records directly.  When
 *     something is held, a log whose very fill is held (HELD_SAME) is done once
 *     a commit of this file (held_make_durable) has made that durable, and any
 * other log's records are held as well, behind what is there.  So what a mark
 *     says of a log never passes an earlier fill of it that is still held.
 *   - A record is deleted only after store_apply() of it was durable; applied
 *     again after a crash, its marks say that it is in.
 *
 * Databases and bytes: data/FORMAT.md.  A record is one value with a crc32.
 *
 * Any number of processes.  Whoever writes holds a flock on the data file,
 * taken without waiting, so nobody waits inside LMDB.  A process that finds the
 * file under the name is another one than it has open goes over to that.
 *
 * Ownership: struct held is the caller's from held_open() to held_close(); one
 * thread.  Errors: 0 or a negative errno; says through diag what it does to the
 * file.
 *   -EAGAIN   another process is writing to it: soon again
 *   -EBADMSG  the file is damaged (see held_open)
 *   -ENOSPC   the disk is full
 */
#ifndef COUNTD_COMMON_STORE_LMDB_HELD_H
#define COUNTD_COMMON_STORE_LMDB_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store/store.h"

#define HELD_FILE "held.mdb"

struct held;

struct held_options {
    int data_fd; /* the data directory, borrowed */
    bool writable;
    uint64_t max; /* bytes of records; 0: no limit (setting held.max) */
};

/* Opens nothing yet: the file is opened when it is needed and made with the
 * first record.  When it is found damaged, a writable handle renames it to
 * bad-held-N.mdb, reports that, and goes on without; one that only reads says
 * -EBADMSG.  One handle per process: LMDB must not have a file open twice.
 * A handle that has a replaced file open holds up those who use the new one,
 * until it looks again: held_snapshot_begin() about once a second.  -ENOMEM. */
int held_open(struct held **out, const struct held_options *options);
void held_close(struct held *h);

/* ---- looking (worker, reader, commands) -------------------------------- */

/* Begins a snapshot, in the file that has the name now; ends the one before. 0
 * also when there is no file: then nothing is held.  Keep it short: pages that
 * it sees are not used again.  After an error nothing is known of what is held.
 *   -EAGAIN  the file was replaced, and some process has the old one open */
int held_snapshot_begin(struct held *h);
void held_snapshot_end(struct held *h);

/* Whether anything at all is held. */
bool held_any(const struct held *h);

enum held_state {
    HELD_NONE, /* nothing is held for this keyspace */
    HELD_SAME, /* this very fill's records are held for it */
    HELD_OTHER /* something else is: a log's records must go behind it */
};

/* Says of each mark what is held for this keyspace. */
int held_states(struct held *h, const uint8_t *name, size_t name_size,
                const struct store_mark *marks, size_t count,
                enum held_state *states);

/* first_ms of the oldest and of the newest fill that is held for this keyspace,
 * for all with size 0; UINT64_MAX and 0 when nothing is. */
int held_span(struct held *h, const uint8_t *name, size_t name_size,
              uint64_t *oldest_ms, uint64_t *newest_ms);

/* What is held for a keyspace. */
struct held_summary {
    const uint8_t *name; /* until the next call */
    size_t name_size;
    uint64_t records;
    uint64_t fills; /* marks in all of them */
    uint64_t bytes;
    uint64_t oldest_ms; /* first_ms of the oldest fill */
    uint64_t since_ms;  /* when the first record was held (Unix) */
    int error;          /* why it was refused */
};

/* Calls `row` for each keyspace of which something is held, by name; stops when
 * it returns non-zero and returns that. */
int held_each(struct held *h,
              int (*row)(void *ctx, const struct held_summary *s), void *ctx);

/* ---- holding (worker) -------------------------------------------------- */

/* Begins, fills and ends one step that is durable as a whole when held_commit()
 * returns 0; when it does not, some of its records may be kept (they are found
 * to be HELD_SAME).  Begin ends the look.  held_put() keeps one batch, and
 * `error`, why it was refused.  After an error of held_put(), held_abort();
 * held_commit() ends the step in any case.
 *   -ESTALE  the file is another than the one that was looked at, or was
 *            replaced meanwhile: look again
 *   -EDQUOT  held.max would be passed (held_put)
 *   -EINVAL  not a batch: no marks, deltas out of order (held_put) */
int held_begin(struct held *h);
int held_put(struct held *h, const struct store_batch *batch, int error);
int held_commit(struct held *h);
void held_abort(struct held *h);

/* Makes what others held durable: a commit that changes nothing.  Ends the
 * look.  -ESTALE: as held_begin(). */
int held_make_durable(struct held *h);

/* pid of who made the last call say -EAGAIN; 0: cannot tell. */
long held_holder(const struct held *h);

/* ---- applying what is held (worker) ------------------------------------ */

/* A record as it was put.  Its memory is the handle's, or that of the look,
 * until the next call that gets the handle. */
struct held_record {
    uint64_t id;
    struct store_batch batch;
};

/* Takes the lock of a keyspace's records: one process at a time applies or
 * drops them.  Not waited for.  At most one per handle; released by
 * held_unlock() or the end of the process.  Begins a new look: what was seen
 * before may have been applied by the last owner of the lock.
 *   -EAGAIN  another process has it
 *   -ENOENT  there is no file, so nothing is held */
int held_lock(struct held *h, const uint8_t *name, size_t name_size);

/* The same of the records of all keyspaces, for a backup: what it copies is
 * then neither applied nor dropped before the keyspaces are copied, too. */
int held_lock_all(struct held *h);
void held_unlock(struct held *h);

/* The keyspace after `name` (size 0: the first) of which something is held, in
 * the snapshot of held_snapshot_begin(): into `next` (STORE_NAME_MAX bytes) and
 * *next_size.  -ENOENT: none is after it. */
int held_next_name(struct held *h, const uint8_t *name, size_t name_size,
                   uint8_t *next, size_t *next_size);

/* The first record of a keyspace with an id above `after`, in the snapshot.
 *   -ENOENT  there is none   -EBADMSG  it is damaged: *out has its id
 *   -ENOMEM */
int held_next(struct held *h, const uint8_t *name, size_t name_size,
              uint64_t after, struct held_record *out);

/* Deletes exactly these records of a keyspace, durably; damaged ones go as
 * well, and those that are not there are no error.  Ends the look.
 *   -ESTALE  the file is another than the one that was looked at */
int held_delete(struct held *h, const uint8_t *name, size_t name_size,
                const uint64_t *ids, size_t count);

/* Deletes all records of a keyspace, durably; *records says how many.  Takes
 * the lock itself. */
int held_drop(struct held *h, const uint8_t *name, size_t name_size,
              uint64_t *records);

/* ---- care (countd check, backup, held salvage) -------------------------- */

/* Reads everything against its checksums and itself, as store_check(); of the
 * result, `blocks` are values, `keys` records.  The handle only reads: one that
 * writes would set a damaged file aside. */
int held_check(struct held *h, void (*fault)(void *ctx, const char *text),
               void *ctx, struct store_check_result *out);

/* Copies the file, of one moment, into the data directory `to_fd`, durably;
 * nothing when there is none.
 *   -EEXIST  there is one already */
int held_copy(struct held *h, int to_fd);

/* Finds whole records in any bytes, those of a damaged held file: `fd` is open
 * for reading.  Calls `found` for each record that is good, in the order of
 * their ids, until it returns non-zero, and returns that.  A record may also be
 * one that was applied and deleted since: its marks tell.  *lost counts records
 * of which there is something, but not all: at most so many are lost. */
int held_salvage(int fd, int (*found)(void *ctx, const struct held_record *r),
                 void *ctx, uint64_t *lost);

#endif

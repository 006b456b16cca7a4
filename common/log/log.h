/* common/log/log.h - one commit log: claim it, fill it, hand it on.
 *
 * A commit log is a preallocated file of fixed-size slots, named by ten
 * digits.  Its checksummed header is the truth; the directory shows the same:
 *
 *     mode 0400         empty: countd-write may claim it
 *     mode 0200         full: countd-worker may claim it
 *     mode 0600         owned, or its owner died
 *     lock-NNNNNNNNNN   a hard link, present while it is owned
 *     flock             held: owned, exactly; dies with its owner
 *
 * Only the holder of the flock may chmod the log, unlink its lock or write.
 *
 * File: header A at 0, header B at 4096, slots from 8192 (LOG_SLOTS_AT).  The
 * headers are written in turn with generation + 1; the valid one with the
 * highest generation rules.  Header bytes, little-endian:
 *
 *   at    size  field
 *      0     8  magic          "COUNTDL1"
 *      8     4  version        1
 *     12     4  features       0; an unknown bit: refuse
 *     16    16  uuid           random, of the file
 *     32     8  index          the ten digits
 *     40     8  generation     +1 per header write
 *     48     8  epoch          +1 per fill
 *     56     4  state          enum log_state
 *     60     4  slot_size
 *     64     4  slots
 *     68     2  keyspace_size
 *     70     2  key_size
 *     72     8  count          slots, when SEALED
 *     80     8  first_ms       received_ms of slot 0, when SEALED
 *     88     8  last_ms        of the last slot, when SEALED
 *     96    16  boot_id        of the machine when written
 *    112     8  pid
 *    120     4  zero
 *    124     4  crc32 of bytes 0 to 123; the rest of the block is zero
 *
 * Ownership: struct log is the caller's, is open from log_claim() until
 * log_release() or log_abandon(), and is not copied meanwhile.  Nothing here
 * prints; creation, recovery and log_inspect() map a buffer of 1 MiB while
 * they run, nothing else allocates.  Errors: 0 or a negative errno.
 * Threads: none here; one log belongs to one thread at a time.
 */
#ifndef COUNTD_LOG_H
#define COUNTD_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/wire/message.h"

#define LOG_HEADER_SIZE 128  /* bytes used of each header block */
#define LOG_BLOCK_SIZE  4096 /* a header block */
#define LOG_SLOTS_AT    LAYOUT_SLOTS_AT
#define LOG_NAME_SIZE   11 /* ten digits and NUL */
#define LOG_LOCK_SIZE   16 /* "lock-" and the name */
#define LOG_BAD_SIZE    40 /* "bad-NNNNNNNNNN-EPOCH", ".1" if that is taken */
#define LOG_INDEX_MAX   9999999999

enum log_state { LOG_EMPTY = 0, LOG_OPEN = 1, LOG_SEALED = 2 };

#define LOG_MODE_EMPTY 0400
#define LOG_MODE_FULL  0200
#define LOG_MODE_OWNED 0600

struct log_header {
    uint8_t uuid[MESSAGE_UUID_SIZE];
    uint64_t index;
    uint64_t generation;
    uint64_t epoch;
    enum log_state state;
    uint32_t slot_size;
    uint32_t slots;
    uint16_t keyspace_size;
    uint16_t key_size;
    uint64_t count;    /* meaningful when SEALED */
    uint64_t first_ms; /* likewise */
    uint64_t last_ms;
    uint8_t boot_id[16];
    uint64_t pid;
};

struct log {
    int dirfd;   /* data/log, borrowed; outlives the log */
    int lock_fd; /* holds the flock; -1 unless claimed */
    int fd;      /* read and write; -1 unless claimed */
    int turn;    /* header block the next header goes to: 0 or 1 */
    struct log_header header;
    struct layout layout; /* by the header's sizes */
    uint32_t count;       /* slots appended in this fill */
    uint64_t first_ms;    /* received_ms of slot 0 once count > 0 */
    uint64_t last_ms;
};

/* What one look at a log's two headers and slots says (log_inspect). */
struct log_report {
    int headers_rc; /* 0, -EBADMSG both bad, -EPROTONOSUPPORT newer */
    bool header_ok[2];
    struct log_header header; /* valid when headers_rc is 0 */
    uint32_t valid;           /* slots of the header's epoch that check */
    uint32_t damaged;         /* slots that a later one says were durable, or
                                 below `count` when SEALED, and do not check (in
                                 an EMPTY log none); and all that a file cut short
                                 has no room for */
    uint32_t end;             /* one past the last valid slot */
};

/* ---- names and header bytes (pure) ------------------------------------ */

void log_name(uint64_t index, char name[LOG_NAME_SIZE]);
void log_lock_name(uint64_t index, char name[LOG_LOCK_SIZE]);

/* The index of a file name: "0000000042" or "lock-0000000042" (then *lock).
 * -EINVAL for any other name. */
int log_parse_name(const char *file, uint64_t *index, bool *lock);

void log_header_put(const struct log_header *h, uint8_t bytes[LOG_BLOCK_SIZE]);

/*   -EBADMSG          magic, checksum, sizes or padding are wrong
 *   -EPROTONOSUPPORT  valid, but of a newer version or unknown features */
int log_header_get(const uint8_t bytes[LOG_BLOCK_SIZE], struct log_header *out);

/* Slots that fit a log of `log_size` bytes; 0 when none does. */
uint32_t log_slots(uint64_t log_size, const struct layout *l);

/* ---- claim, recover, create, release ---------------------------------- */

/* Takes log `index` whose mode must be `want_mode` (LOG_MODE_EMPTY for a
 * writer, LOG_MODE_FULL for a worker) and reads its headers.
 *   -EBUSY   owned by someone alive
 *   -ESTALE  in another state, or needs recovery first: try the next one
 *            (where the header contradicts the mode, the mode is mended)
 *   -ENOENT  there is no such log
 *   -EBADMSG both headers bad: it has been renamed to bad-N-0 (quarantine)
 *   -EPROTONOSUPPORT  of a newer version: left alone
 *   -EPERM   not our file, or not a regular one: left alone
 * or what a system call said; then the log is left to recovery. */
int log_claim(struct log *log, int dirfd, uint64_t index, mode_t want_mode);

/* Recovers log `index` when its owner is dead: cuts the torn tail, makes the
 * rest durable, seals it (or marks it EMPTY), mends the mode, unlinks the
 * stale lock.  Idempotent; any process may call it at any time.
 * A lock without its log is removed once it is a second old, since before
 * that its creator may not have the flock yet.
 *   0        nothing to do, or recovered
 *   -EBUSY   owned by someone alive, or just being created
 *   -EBADMSG damaged: quarantined as bad-N-EPOCH
 *   -EPROTONOSUPPORT, -EPERM, -ENOENT as above */
int log_recover(int dirfd, uint64_t index);

/* Creates log `index` EMPTY: zeros and headers written and synced before the
 * name appears (reliability: only then may a record in it be acknowledged).
 *   -EEXIST  log or lock is there already (a dead creator's is cleaned by
 *            log_recover)
 *   -EAGAIN  others got in the way: try again
 *   -ENOSPC  disk full; the partial file is gone again */
int log_create(int dirfd, uint64_t index, const struct layout *l,
               uint32_t slots);

/* Hands the log on in the mode its header's state asks for (EMPTY 0400;
 * SEALED 0200, with first_ms for its mtime), drops lock and flock.  An OPEN log
 * cannot be released: seal it first.  On failure everything is closed all the
 * same and recovery tidies the rest; the code says what went wrong. */
int log_release(struct log *log);

/* Closes without touching anything on disk: as if we had died. */
void log_abandon(struct log *log);

/* Renames a claimed log to bad-N-EPOCH (mode 0400), drops lock and flock and
 * gives it up.  The file is never merged, reused or removed by a daemon. */
int log_quarantine(struct log *log);

/* ---- filling (countd-write) ------------------------------------------- */

/* EMPTY(e) -> OPEN(e+1), durable.  Done ahead, on the spare log.  After a
 * failure abandon it. */
int log_begin(struct log *log);

/* Appends `count` finished slots (slot_put) in one pwrite run.  `count` must
 * fit.  Any failure: the log is suspect; abandon it and exit 111. */
int log_append(struct log *log, const uint8_t *slots, uint32_t count,
               uint64_t first_ms, uint64_t last_ms);

/* fdatasync.  A failure is never retried. */
int log_sync(struct log *log);

/* OPEN -> SEALED(count), durable; or -> EMPTY when nothing was appended.
 * Two syncs: the slots, then the header.
 *   -ESTALE  the file was removed or replaced by hand while we filled it */
int log_seal(struct log *log);

/* ---- emptying (countd-worker) ----------------------------------------- */

/* Reads slots [from, from+count) into `slots` (count * slot_size bytes).
 *   -EIO, -EBADMSG (short file) */
int log_read(const struct log *log, uint32_t from, uint32_t count,
             uint8_t *slots);

/* SEALED(e) -> EMPTY(e).  Needs no sync: brought back by a power loss, every
 * keyspace's marker says the log is in already. */
int log_empty(struct log *log);

/* ---- looking without owning (countd log, countd check, as_of) ---------- */

/* Reads headers and all slots of an open file.  `index` is what the file name
 * says, or UINT64_MAX for quarantined files (not compared).  The header is
 * as recovery would take it: EMPTY beside an invalid block, with valid slots
 * of a later epoch, is reported OPEN.  An error only when reading failed. */
int log_inspect(int fd, uint64_t index, struct log_report *out);

#endif

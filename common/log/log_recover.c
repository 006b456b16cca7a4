/* common/log/log_recover.c - see log_recover.h: log_recover() recovers a log
 * (recover_log, recover_open()) or a lock without its log
 * (recover_lone_lock()); log_unsealed() asks a header. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/log_recover.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/boot_id.h"
#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/log/inspect.h"
#include "common/log/log_owner.h"
#include "common/log/logfile.h"
#include "common/log/mark.h"
#include "common/log/slot.h"

#define PAGE     4096 /* bytes; no machine has smaller ones */
#define YOUNG_MS 1000 /* how long a creator may need to take the flock */

/* ---- a log that was being filled ----------------------------------------- */

/* How much of the first invalid slot was written. */
enum tail {
    TAIL_NONE,  /* nothing is known to have been written */
    TAIL_TORN,  /* its end, or its middle, may be missing */
    TAIL_WHOLE, /* all of it: it was damaged afterwards */
};

/* A pwrite is copied page by page, and a kill ends it between two of them. The
 * stamp is the end of a slot: one with this epoch was written whole, unless a
 * page boundary lies within the stamp. */
static int
read_tail(int fd, const struct inspect *look, enum tail *tail)
{
    const struct layout *l = &look->header.layout;
    const uint64_t at = LOG_SLOTS_AT + (uint64_t)look->prefix * l->slot_size;
    const uint64_t stamp = at + l->message_size, last = at + l->slot_size - 1;
    uint8_t slot[SLOT_SIZE_MAX];
    struct slot_stamp parsed;
    struct message m;
    int rc;

    *tail = TAIL_NONE;
    if (look->prefix == look->header.slots)
        return 0;
    rc = inspect_read(fd, slot, l->slot_size, at);
    if (rc < 0)
        return rc;
    if (get_le32(slot + l->message_size) == look->header.epoch) {
        *tail = stamp / PAGE == last / PAGE ? TAIL_WHOLE : TAIL_TORN;
        return 0;
    }
    /* If only the epoch is damaged, the slot is valid with the right one. */
    put_le32(slot + l->message_size, (uint32_t)look->header.epoch);
    if (slot_parse(&look->header, slot, look->prefix, &m, &parsed) == 0)
        *tail = TAIL_WHOLE;
    return 0;
}

/* The number of records that are cut off, from the first invalid slot on.
 * -EBADMSG: that slot was written whole and damaged later; cutting it off could
 * lose acknowledged records.
 *
 * Slots are appended in order, and the page cache outlives every process. So
 * while the machine runs, no slot before a valid one is torn.  The file system
 * may be mounted anew meanwhile: umount writes all dirty pages. After a disk
 * was removed or failed a sync, pages may be lost within one boot; then this
 * reports damage, and the log is quarantined and can be salvaged, which is
 * right for such a disk.
 *
 * After a power loss any page may be missing.  Then only slots that a later one
 * calls synced are known to have been whole (`damaged` in inspect.h). */
static int
judge_tail(int fd, const struct inspect *look)
{
    const uint32_t behind = look->valid - look->prefix;
    enum tail tail;
    int rc;

    rc = read_tail(fd, look, &tail);
    if (rc < 0)
        return rc;
    if (boot_id_is_this(look->header.boot_id) &&
        (behind > 0 || tail == TAIL_WHOLE))
        return -EBADMSG;
    return (int)behind + (tail != TAIL_NONE);
}

struct mark_array {
    struct marked *marks;
    size_t count, capacity;
};

static int
take_mark(void *ctx, uint32_t number, const struct message *m,
          const struct slot_stamp *stamp)
{
    struct mark_array *a = ctx;

    (void)number;
    if (!mark_is(m))
        return 0;
    if (a->count == a->capacity)
        return -EIO; /* the log was read before, and had fewer */
    mark_get(m, &a->marks[a->count].mark);
    a->marks[a->count++].received_ms = stamp->received_ms;
    return 0;
}

/* Stores the marks of a log that is about to be sealed.  Its slots are durable
 * already: a stored mark without its increments would be answered as counted.
 */
static int
store_marks(struct log *log, const struct inspect *look,
            struct requests *requests)
{
    struct mark_array a = {.capacity = look->marks};
    struct logfile_slots slots = {
        .fd = log->fd, .header = &log->header, .end = log->header.count};
    int rc;

    if (look->marks == 0)
        return 0;
    a.marks = malloc(a.capacity * sizeof *a.marks);
    if (!a.marks)
        return -ENOMEM;
    rc = logfile_each(&slots, take_mark, &a);
    if (rc == 0 && slots.skipped > 0)
        rc = -EIO; /* all slots that recovery keeps were valid before */
    log->header.marks = (uint32_t)a.count;
    if (rc == 0 && a.count > 0)
        rc = requests ? requests_put(requests, &log->header, a.marks, a.count)
                      : -ENOKEY;
    free(a.marks);
    return rc;
}

/* Whether more than an EMPTY header may not be on disk.  The owner may also
 * have died between a SEALED header and the sync of it, and the mode of a full
 * log promises a durable one. */
static bool
may_be_unsynced(const struct inspect *look)
{
    return look->header.state == LOG_SEALED || log_owner_is_doubtful(look);
}

/* Makes what the dead owner wrote durable, and reads the headers again.  If it
 * died of a failed sync, the page cache contains slots or a header that the
 * disk does not, marked clean.  So first write all dirty pages, drop the clean
 * ones, and then read.  Dropping is best effort: a slot trusted wrongly was
 * never acknowledged. */
static int
make_durable(struct log *log, struct inspect *look)
{
    int rc;

    rc = log_owner_sync(log->fd);
    if (rc < 0)
        return rc;
    (void)posix_fadvise(log->fd, 0, 0, POSIX_FADV_DONTNEED);
    return log_owner_read_headers(log, look);
}

/* Recovers a log whose owner died during a fill, or whose header may not show
 * it: counts its valid slots, which are durable, and seals the log.  Returns
 * the number of records that were cut off. */
static int
recover_open(struct log *log, struct inspect *look, struct requests *requests)
{
    int rc, cut;

    rc = inspect_slots(log->fd, look);
    if (rc < 0)
        return rc;
    log->header = look->header;
    if (look->damaged > 0)
        return -EBADMSG;
    if (log->header.state != LOG_OPEN) {
        /* It is EMPTY: write that into the invalid block, too. */
        rc = log_owner_write_header(log, log->header);
        return rc < 0 ? rc : log_owner_sync(log->fd);
    }
    cut = judge_tail(log->fd, look);
    if (cut < 0)
        return cut;
    /* Their epoch keeps the slots that are cut off from ever counting.  No
     * client was answered for a request that is not whole, since all of it is
     * synced at once: it is sent again. */
    cut += (int)(look->prefix - look->whole);
    log->has_times = look->has_times;
    log->header.count = look->whole;
    log->header.first_ms = look->whole > 0 ? look->first_ms : 0;
    log->header.last_ms = look->whole_ms;
    rc = store_marks(log, look, requests);
    if (rc == 0)
        rc = log_seal(log);
    return rc < 0 ? rc : cut;
}

/* ---- a log or a lock whose owner died ------------------------------------ */

/* True if the file was created or changed within the last second.  A time in
 * the future counts as old: the clock was set back. */
static bool
is_young(const struct stat *st)
{
    const uint64_t now = clock_unix_ms();
    uint64_t changed;

    if (st->st_ctim.tv_sec < 0)
        return false;
    changed = (uint64_t)st->st_ctim.tv_sec * 1000 +
              (uint64_t)st->st_ctim.tv_nsec / 1000000;
    return changed <= now && now - changed < YOUNG_MS;
}

/* Removes lock-N if it is not a link of N: its creator died.  A new one is left
 * to a later scan: its creator may be about to take the flock, and a process
 * woken by the new name would interfere each time.
 *   0 also if it is gone or a link of N, -EBUSY if its creator lives or may
 *             live */
static int
recover_lone_lock(int dirfd, uint64_t index)
{
    char name[LOG_NAME_SIZE], lock[LOG_LOCK_SIZE];
    struct stat st = {0};
    int fd, rc;

    log_name(index, name);
    log_lock_name(index, lock);
    fd = log_owner_open(dirfd, lock);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    rc = fstat(fd, &st) < 0 ? -errno : log_owner_check(&st);
    if (rc == 0)
        rc = is_young(&st) ? -EBUSY : log_owner_take_flock(fd, &st);
    if (rc < 0)
        goto close_lock;

    /* Check again under the flock: the creator may have finished, or another
     * may have begun, meanwhile. */
    rc = log_owner_names_file(dirfd, name, &st);
    if (rc == 0)
        rc = log_owner_unlink_lock(dirfd, index, fd);
    else if (rc == 1)
        rc = 0;

close_lock:
    (void)close(fd);
    return rc;
}

static bool
has_owned_mode(const struct stat *st)
{
    const mode_t mode = st->st_mode & LOG_OWNER_MODE_MASK;

    return mode != LOG_MODE_EMPTY && mode != LOG_MODE_FULL;
}

/* 1 if the log N with the status `st` is owned or its owner died; 0 if it is at
 * rest.  *alien: lock-N exists and is another file. */
static int
looks_owned(int dirfd, uint64_t index, const struct stat *st, bool *alien)
{
    char lock[LOG_LOCK_SIZE];
    struct stat lock_st;

    *alien = false;
    log_lock_name(index, lock);
    if (fstatat(dirfd, lock, &lock_st, AT_SYMLINK_NOFOLLOW) == 0) {
        *alien = !log_owner_is_same_file(st, &lock_st);
        if (!*alien)
            return 1;
    } else if (errno != ENOENT) {
        return -errno;
    }
    return has_owned_mode(st);
}

/* Recovers a log N that seems to have lost its owner.
 *
 * A log of a newer version is not changed, since each change would wake the
 * watching workers and lead here again.  One that cannot be read is made
 * readable, once. */
static int
recover_log(int dirfd, uint64_t index, struct requests *requests,
            bool *was_owned)
{
    char name[LOG_NAME_SIZE];
    struct log log = {.lock_fd = -1, .fd = -1};
    struct inspect look;
    struct stat st = {0};
    bool alien;
    int lock_fd, rc, cut = 0;

    log_name(index, name);
    lock_fd = log_owner_open_locked(dirfd, name, &st);
    if (lock_fd < 0)
        return lock_fd;

    /* Another process may have recovered or replaced it meanwhile. */
    rc = log_owner_names_file(dirfd, name, &st);
    if (rc == 1)
        rc = looks_owned(dirfd, index, &st, &alien);
    if (rc == 1 && inspect_headers(lock_fd, index, &look) == 0 &&
        look.headers_rc == -EPROTONOSUPPORT)
        rc = look.headers_rc;
    if (rc <= 0)
        goto close_lock;
    /* Who claims a log changes its mode under the flock. */
    *was_owned = has_owned_mode(&st);
    rc = log_owner_take(&log, dirfd, index, lock_fd, &st);
    if (rc < 0)
        goto close_lock;
    rc = log_owner_read_headers(&log, &look);
    if (rc == 0 && may_be_unsynced(&look))
        rc = make_durable(&log, &look);
    if (rc == 0 && log_owner_is_doubtful(&look))
        cut = rc = recover_open(&log, &look, requests);
    if (rc < 0)
        return log_owner_fail(&log, rc, LOG_MODE_OWNED);
    rc = log_release(&log);
    return rc < 0 ? rc : cut;

close_lock:
    (void)close(lock_fd);
    return rc;
}

int
log_recover(int dirfd, uint64_t index, struct requests *requests)
{
    bool was_owned;

    return log_recover_dead(dirfd, index, requests, &was_owned);
}

int
log_recover_dead(int dirfd, uint64_t index, struct requests *requests,
                 bool *was_owned)
{
    char name[LOG_NAME_SIZE], lock[LOG_LOCK_SIZE];
    struct stat st = {0};
    bool alien;
    int rc;

    assert(dirfd >= 0 && index <= LOG_INDEX_MAX);

    *was_owned = false;
    log_name(index, name);
    rc = log_owner_stat(dirfd, name, &st);
    if (rc == -ENOENT) {
        log_lock_name(index, lock);
        if (fstatat(dirfd, lock, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        return recover_lone_lock(dirfd, index);
    }
    if (rc < 0)
        return rc;
    rc = looks_owned(dirfd, index, &st, &alien);
    if (rc < 0)
        return rc;
    if (alien) {
        const int lone = recover_lone_lock(dirfd, index);

        if (lone < 0)
            return lone;
    }
    return rc == 0 ? 0 : recover_log(dirfd, index, requests, was_owned);
}

/* ---- before a writer starts ---------------------------------------------- */

/* 1: the header does not say SEALED or EMPTY; 0: it does, or the log is gone;
 * -EACCES: it has the mode of a full log, which only root reads. */
static int
read_header(int dirfd, uint64_t index, struct log_unsealed *out)
{
    struct inspect look;
    const int rc = inspect_log(dirfd, index, &look);

    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    if (look.headers_rc < 0)
        return 1;
    out->epoch = look.header.epoch;
    out->has_marks = (look.header.features & LOG_HAS_MARKS) != 0;
    return log_owner_is_doubtful(&look);
}

/* A claim reads the header of a full log, and leaves one that is OPEN to
 * recovery. */
static int
claim_full(int dirfd, uint64_t index, struct requests *requests,
           struct log_unsealed *out)
{
    struct log log;
    int rc;

    rc = log_claim(&log, dirfd, index, LOG_MODE_FULL);
    if (rc == 0) {
        out->epoch = log.header.epoch;
        out->has_marks = (log.header.features & LOG_HAS_MARKS) != 0;
        (void)log_release(&log); /* recovery repairs what this leaves */
        return 0;
    }
    if (rc == -ESTALE)
        rc = log_recover(dirfd, index, requests);
    out->has_marks = out->has_marks || rc == -ENOKEY;
    return rc >= 0 || rc == -ENOENT || rc == -EBADMSG ? 0 : 1;
}

int
log_unsealed(int dirfd, uint64_t index, struct requests *requests,
             struct log_unsealed *out)
{
    int rc;

    *out = (struct log_unsealed){.epoch = 0};
    rc = read_header(dirfd, index, out);
    return rc == 0 ? 0 : claim_full(dirfd, index, requests, out);
}

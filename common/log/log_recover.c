/* common/log/log_recover.c - see log_recover.h. */
#include "common/log/log_recover.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/log/inspect.h"
#include "common/log/log_owner.h"
#include "common/log/slot.h"

#define PAGE     4096 /* the smallest there is */
#define YOUNG_MS 1000 /* how long a creator may take to get his flock */

/* ---- a log that was being filled ----------------------------------------- */

/* How much of the first slot that does not check was written. */
enum tail {
    TAIL_NONE,  /* nothing that tells of it */
    TAIL_TORN,  /* its end, or its middle, may be missing */
    TAIL_WHOLE, /* all of it: it was damaged afterwards */
};

/* A pwrite is copied page by page, and a kill ends it between two of them; the
 * stamp is the end of a slot.  So one that carries this epoch was written
 * whole, unless a page ends within its stamp. */
static int
look_at_tail(int fd, const struct inspect *look, enum tail *tail)
{
    const struct layout *l = &look->layout;
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
    if (get_le64(slot + l->message_size) == look->header.epoch) {
        *tail = stamp / PAGE == last / PAGE ? TAIL_WHOLE : TAIL_TORN;
        return 0;
    }
    /* Only its epoch may be damaged: then all the rest still checks. */
    put_le64(slot + l->message_size, look->header.epoch);
    if (slot_parse(l, slot, look->header.uuid, look->prefix, look->header.epoch,
                   &m, &parsed) == 0)
        *tail = TAIL_WHOLE;
    return 0;
}

/* The records that are cut off from the first slot that does not check on.
 *   -EBADMSG  that slot was written whole: it is damaged, and with it goes
 *             what may have been acknowledged
 *
 * Slots are appended in order, and what is in the page cache outlives every
 * process.  So as long as the machine runs nothing is torn before a valid
 * slot.  The file system may be mounted anew meanwhile: an umount writes all
 * that is dirty.  Where a disk was pulled out or failed a sync, pages are lost
 * in the same boot, and this says damage where it was a loss: the log is set
 * aside, reported and can be salvaged, which is what such a disk needs.
 *
 * After a power loss any page may be missing.  Then only what later slots call
 * synced is known to have been whole (damaged, in inspect.h). */
static int
judge_tail(int fd, const struct inspect *look)
{
    const uint32_t behind = look->valid - look->prefix;
    enum tail tail;
    int rc;

    rc = look_at_tail(fd, look, &tail);
    if (rc < 0)
        return rc;
    if (log_owner_is_of_this_boot(&look->header) &&
        (behind > 0 || tail == TAIL_WHOLE))
        return -EBADMSG;
    return (int)behind + (tail != TAIL_NONE);
}

/* The owner died while it filled the log, or no header says that it did not:
 * counts what is there, makes it durable and seals it.  Returns how many
 * records were cut off. */
static int
recover_open(struct log *log, struct inspect *look)
{
    int rc, cut;

    /* When the owner died of a failed sync, the page cache holds slots that
     * the disk does not, marked clean.  So all that is dirty is written, what
     * is clean dropped, and only then read.  The second is best effort: a
     * slot believed wrongly was never acknowledged. */
    rc = log_owner_sync(log->fd);
    if (rc < 0)
        return rc;
    (void)posix_fadvise(log->fd, 0, 0, POSIX_FADV_DONTNEED); /* see above */

    rc = log_owner_read_headers(log, look);
    if (rc < 0)
        return rc;
    rc = inspect_slots(log->fd, look);
    if (rc < 0)
        return rc;
    log_owner_adopt(log, look);
    if (look->damaged > 0)
        return -EBADMSG;
    if (log->header.state != LOG_OPEN) {
        /* It is empty, and shall be so without a doubt. */
        rc = log_owner_write_header(log, log->header);
        return rc < 0 ? rc : log_owner_sync(log->fd);
    }
    cut = judge_tail(log->fd, look);
    if (cut < 0)
        return cut;
    /* The epoch of what is cut off keeps it from ever counting. */
    log->count = look->prefix;
    log->first_ms = look->first_ms;
    log->last_ms = look->last_ms;
    rc = log_seal(log);
    return rc < 0 ? rc : cut;
}

/* ---- a log or a lock whose owner died ------------------------------------ */

/* True when the file was made or changed within the last moments.  A time in
 * the future is old: the clock was set back, and nobody shall wait for it. */
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

/* Removes lock-N when it is no link of N: its creator died.  One just made is
 * left to a later scan: its creator may be about to take the flock, and who is
 * woken by the new name would be in his way each time.
 *   0 also when it is gone or a link of N, -EBUSY when its creator lives or
 *   may live */
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

    /* Under the flock once more: the creator may have finished, or a new one
     * begun, since we looked. */
    rc = log_owner_names_file(dirfd, name, &st);
    if (rc == 0)
        rc = log_owner_unlink_lock(dirfd, index, fd);
    else if (rc == 1)
        rc = 0;

close_lock:
    (void)close(fd); /* nothing was written through it */
    return rc;
}

/* 1 when the log N, seen as `st`, shows that it is owned or that its owner
 * died; 0 when it is at rest.  *alien: lock-N is there and another file. */
static int
looks_owned(int dirfd, uint64_t index, const struct stat *st, bool *alien)
{
    const mode_t mode = st->st_mode & LOG_OWNER_MODE_MASK;
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
    return mode != LOG_MODE_EMPTY && mode != LOG_MODE_FULL;
}

/* True when the log is seen to be of a newer version; what its mode forbids us
 * to read may be as well. */
static bool
is_newer(int fd, uint64_t index)
{
    struct inspect look;

    return inspect_headers(fd, index, &look) == 0 &&
           look.headers_rc == -EPROTONOSUPPORT;
}

/* N is there and seems to have lost its owner.
 *
 * A log of a newer version is not touched, since each change would wake the
 * workers that watch and have us here again.  Only one that cannot be read is
 * made readable, once. */
static int
recover_log(int dirfd, uint64_t index)
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

    /* Somebody may have recovered it, or replaced it, since we looked. */
    rc = log_owner_names_file(dirfd, name, &st);
    if (rc == 1)
        rc = looks_owned(dirfd, index, &st, &alien);
    if (rc == 1 && is_newer(lock_fd, index))
        rc = -EPROTONOSUPPORT;
    if (rc <= 0)
        goto close_lock;
    rc = log_owner_take(&log, dirfd, index, lock_fd, &st);
    if (rc < 0)
        goto close_lock;
    rc = log_owner_read_headers(&log, &look);
    if (rc == 0 && log_owner_is_doubtful(&look))
        cut = rc = recover_open(&log, &look);
    if (rc < 0)
        return log_owner_fail(&log, rc, LOG_MODE_OWNED);
    rc = log_release(&log);
    return rc < 0 ? rc : cut;

close_lock:
    (void)close(lock_fd); /* nothing was written through it */
    return rc;
}

int
log_recover(int dirfd, uint64_t index)
{
    char name[LOG_NAME_SIZE], lock[LOG_LOCK_SIZE];
    struct stat st = {0};
    bool alien;
    int rc;

    assert(dirfd >= 0 && index <= LOG_INDEX_MAX);

    log_name(index, name);
    rc = log_owner_look_at(dirfd, name, &st);
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
#ifdef COUNTD_MUTANT_UNLINK_WITHOUT_FLOCK
    log_lock_name(index, lock);
    (void)unlinkat(dirfd, lock, 0); /* the planted bug */
#endif
    if (alien) {
        const int lone = recover_lone_lock(dirfd, index);

        if (lone < 0)
            return lone;
    }
    return rc == 0 ? 0 : recover_log(dirfd, index);
}

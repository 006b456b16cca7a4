/* common/log/recover.c - see recover.h. */
#include "common/log/recover.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/log/inspect.h"
#include "common/log/own.h"

#define YOUNG_MS 1000 /* how long a creator may take to get his flock */

/* ---- acting on what the headers say ------------------------------------- */

/* The owner died while it filled the log, or no header says that it did not:
 * counts what is there, makes it durable and seals it. */
static int
recover_open(struct log *log, struct inspect *look)
{
    int rc;

    /* When the owner died of a failed sync, the page cache holds slots that
     * the disk does not, marked clean.  So all that is dirty is written, what
     * is clean dropped, and only then read.  The second is best effort: a
     * slot believed wrongly was never acknowledged. */
    rc = own_sync(log->fd);
    if (rc < 0)
        return rc;
    (void)posix_fadvise(log->fd, 0, 0, POSIX_FADV_DONTNEED); /* see above */

    rc = inspect_headers(log->fd, log->header.index, look);
    if (rc < 0)
        return rc;
    if (look->headers_rc < 0)
        return look->headers_rc;
    rc = inspect_slots(log->fd, look);
    if (rc < 0)
        return rc;
    own_adopt(log, look);
    if (look->damaged > 0)
        return -EBADMSG;
    if (log->header.state != LOG_OPEN)
        return 0;

    /* What lies behind the first slot that does not check was never
     * acknowledged; its epoch keeps it from ever counting. */
    log->count = look->prefix;
    log->first_ms = look->first_ms;
    log->last_ms = look->last_ms;
    return log_seal(log);
}

/* Reads the headers of a log we hold, and recovers it when it is OPEN: it is
 * EMPTY or SEALED then.
 *   -EBADMSG  damaged, -EPROTONOSUPPORT */
static int
settle(struct log *log)
{
    struct inspect look;
    int rc;

    rc = inspect_headers(log->fd, log->header.index, &look);
    if (rc < 0)
        return rc;
    if (look.headers_rc < 0)
        return look.headers_rc;
    own_adopt(log, &look);
    if (look.missing > 0)
        return -EBADMSG;

    /* EMPTY beside a lost block: that may have said OPEN. */
    if (look.header.state == LOG_OPEN ||
        (look.header.state == LOG_EMPTY && !look.header_ok[look.turn]))
        return recover_open(log, &look);
    return 0;
}

/* settle(), and what follows when it fails.  `mode` is what a log of a newer
 * version goes back to; LOG_MODE_OWNED leaves it as it is. */
int
own_settle(struct log *log, mode_t mode)
{
    int rc, failed;

    rc = settle(log);
    if (rc == 0)
        return 0;
    if (rc == -EBADMSG) {
        failed = log_quarantine(log);
        return failed < 0 ? failed : rc;
    }
    if (rc == -EPROTONOSUPPORT && mode != LOG_MODE_OWNED) {
        failed = own_let_go(log, mode);
        return failed < 0 ? failed : rc;
    }
    log_abandon(log);
    return rc;
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
    fd = own_open(dirfd, lock);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    rc = fstat(fd, &st) < 0 ? -errno : own_check(&st);
    if (rc == 0)
        rc = is_young(&st) ? -EBUSY : own_take_flock(fd, &st);
    if (rc < 0)
        goto close_lock;

    /* Under the flock once more: the creator may have finished, or a new one
     * begun, since we looked. */
    rc = own_names_file(dirfd, name, &st);
    if (rc == 0)
        rc = own_unlink_lock(dirfd, index, fd);
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
    const mode_t mode = st->st_mode & OWN_MODE_MASK;
    char lock[LOG_LOCK_SIZE];
    struct stat lock_st;

    *alien = false;
    log_lock_name(index, lock);
    if (fstatat(dirfd, lock, &lock_st, AT_SYMLINK_NOFOLLOW) == 0) {
        *alien = !own_is_same_file(st, &lock_st);
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
    struct stat st = {0};
    bool alien;
    int lock_fd, rc;

    log_name(index, name);
    lock_fd = own_open_locked(dirfd, name, &st);
    if (lock_fd < 0)
        return lock_fd;

    /* Somebody may have recovered it, or replaced it, since we looked. */
    rc = own_names_file(dirfd, name, &st);
    if (rc == 1)
        rc = looks_owned(dirfd, index, &st, &alien);
    if (rc == 1 && is_newer(lock_fd, index))
        rc = -EPROTONOSUPPORT;
    if (rc <= 0)
        goto close_lock;
    rc = own_make_ours(&log, dirfd, index, lock_fd, &st);
    if (rc < 0)
        goto close_lock;
    rc = own_settle(&log, LOG_MODE_OWNED);
    return rc < 0 ? rc : log_release(&log);

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
    rc = own_look_at(dirfd, name, &st);
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

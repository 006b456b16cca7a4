/* common/log/log_owner.c - see log_owner.h: log_owner_open_locked(),
 * log_owner_take(), log_owner_read_headers(); then log_owner_release() or
 * log_owner_fail(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/log_owner.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/boot_id.h"
#include "common/base/files.h"

/* ---- files -------------------------------------------------------------- */

bool
log_owner_is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

int
log_owner_check(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() ? 0 : -EPERM;
}

int
log_owner_stat(int dirfd, const char *name, struct stat *st)
{
    if (fstatat(dirfd, name, st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return log_owner_check(st);
}

int
log_owner_names_file(int dirfd, const char *name, const struct stat *st)
{
    struct stat now;

    if (fstatat(dirfd, name, &now, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    return log_owner_is_same_file(&now, st);
}

/* The mode of a log forbids reading or writing to all but root and may change
 * between stat and open, so both are tried; either suffices for the flock.  If
 * no mode that allows one was met, the log changes its owner constantly. */
int
log_owner_open(int dirfd, const char *name)
{
    static const int access[] = {O_RDONLY, O_WRONLY, O_RDONLY};
    struct stat st;
    size_t i;
    int fd, rc;

    for (i = 0; i < sizeof access / sizeof access[0]; i++) {
        fd = openat(dirfd, name, access[i] | LOG_OWNER_OPEN_FLAGS);
        if (fd >= 0)
            return fd;
        if (errno == ELOOP)
            return -EPERM;
        if (errno != EACCES)
            return -errno;
    }
    rc = log_owner_stat(dirfd, name, &st);
    if (rc < 0)
        return rc;
    return (st.st_mode & (S_IRUSR | S_IWUSR)) != 0 ? -EBUSY : -EACCES;
}

int
log_owner_make_file(int dirfd, const char *name)
{
    struct stat st;
    int fd, rc;

    fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | LOG_OWNER_OPEN_FLAGS,
                LOG_MODE_OWNED);
    if (fd < 0)
        return -errno;
    rc = log_owner_take_flock(fd, &st);
    if (rc == -EBUSY || (rc == 0 && st.st_nlink == 0))
        rc = -ESTALE;
    if (rc == 0)
        return fd;
    (void)close(fd); /* nothing is in it */
    return rc;
}

int
log_owner_take_flock(int fd, struct stat *st)
{
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EBUSY : -errno;
    if (fstat(fd, st) < 0)
        return -errno;
    return log_owner_check(st);
}

int
log_owner_open_locked(int dirfd, const char *name, struct stat *st)
{
    int fd, rc;

    fd = log_owner_open(dirfd, name);
    if (fd < 0)
        return fd;
    rc = log_owner_take_flock(fd, st);
    if (rc == 0)
        return fd;
    (void)close(fd);
    return rc;
}

uint64_t
log_owner_mtime_ms(const struct stat *st)
{
    if (st->st_mtim.tv_sec < 0)
        return 0;
    return (uint64_t)st->st_mtim.tv_sec * 1000 +
           (uint64_t)st->st_mtim.tv_nsec / 1000000;
}

int
log_owner_sync(int fd)
{
    return fdatasync(fd) < 0 ? -errno : 0;
}

/* ---- headers ------------------------------------------------------------ */

int
log_owner_write_header(struct log *log, struct log_header h)
{
    uint8_t block[LOG_BLOCK_SIZE];
    int rc;

    assert(log->next_block == 0 || log->next_block == 1);
    memcpy(h.boot_id, boot_id_get(), sizeof h.boot_id);
    h.pid = (uint64_t)getpid();
    h.generation = log->header.generation + 1;
    log_header_put(&h, block);
    rc = write_at(log->fd, block, sizeof block,
                  (uint64_t)log->next_block * LOG_BLOCK_SIZE);
    if (rc < 0)
        return rc;
    log->header = h;
    log->next_block = !log->next_block;
    return 0;
}

int
log_owner_read_headers(struct log *log, struct inspect *look)
{
    const int rc = inspect_headers(log->fd, log->header.index, look);

    if (rc < 0)
        return rc;
    if (look->headers_rc < 0)
        return look->headers_rc;
    log->header = look->header;
    log->next_block = look->next_block;
    return look->missing > 0 ? -EBADMSG : 0;
}

bool
log_owner_is_doubtful(const struct inspect *look)
{
    return look->header.state == LOG_OPEN ||
           (look->header.state == LOG_EMPTY &&
            !look->header_ok[look->next_block]);
}

/* ---- taking and releasing ----------------------------------------------- */

int
log_owner_take(struct log *log, int dirfd, uint64_t index, int lock_fd,
               const struct stat *st)
{
    char name[LOG_NAME_SIZE];
    struct stat now;
    int fd, rc;

    log_name(index, name);
    /* Not when it is so already: a recovery that fails again and again would
     * wake the workers that watch the directory each time. */
    if ((st->st_mode & LOG_OWNER_MODE_MASK) != LOG_MODE_OWNED &&
        fchmod(lock_fd, LOG_MODE_OWNED) < 0)
        return -errno;
    fd = openat(dirfd, name, O_RDWR | LOG_OWNER_OPEN_FLAGS);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &now) < 0) {
        rc = -errno;
        goto close_fd;
    }
    if (!log_owner_is_same_file(&now, st)) {
        rc = -ESTALE;
        goto close_fd;
    }
    *log = (struct log){.dirfd = dirfd,
                        .lock_fd = lock_fd,
                        .fd = fd,
                        .header = {.index = index}};
    return 0;

close_fd:
    (void)close(fd);
    return rc;
}

int
log_owner_unlink_lock(int dirfd, uint64_t index, int lock_fd)
{
    char lock[LOG_LOCK_SIZE];
    struct stat st;
    int rc;

    log_lock_name(index, lock);
    if (fstat(lock_fd, &st) < 0)
        return -errno;
    rc = log_owner_names_file(dirfd, lock, &st);
    if (rc <= 0)
        return rc;
    return unlinkat(dirfd, lock, 0) < 0 ? -errno : 0;
}

int
log_owner_release(struct log *log, mode_t mode)
{
    int rc = 0;

    if (fchmod(log->lock_fd, mode) < 0)
        rc = -errno;
    if (rc == 0)
        rc = log_owner_unlink_lock(log->dirfd, log->header.index, log->lock_fd);
    log_abandon(log);
    return rc;
}

int
log_owner_fail(struct log *log, int rc, mode_t mode)
{
    int failed = 0;

    if (rc == -EBADMSG)
        failed = log_quarantine(log);
    else if (rc == -EPROTONOSUPPORT && mode != LOG_MODE_OWNED)
        failed = log_owner_release(log, mode);
    else
        log_abandon(log);
    return failed < 0 ? failed : rc;
}

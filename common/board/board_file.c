/* common/board/board_file.c - creating, attaching and retiring board files; see
 * board_internal.h.
 *
 * A file that a process may have mapped is never truncated: a new board is
 * created beside the old one, the old one is marked retired, and the new one
 * takes its name.  It is marked first, so that no user of the old one misses
 * the new one.
 *
 * Entry points: countd_board_create(), countd_board_attach(),
 * countd_board_master_alive(), countd_board_info(), countd_board_name(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/board/board_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"

#define OPEN_TRIES 100 /* of a file that is being replaced */
#define OPEN_FLAGS (O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

static int
report_errno(const struct board_error *e, int rc, const char *what)
{
    return board_fail(e, rc, "%s: %s", what, strerror(-rc));
}

/* ---- handles ----------------------------------------------------------- */

static unsigned
update_attempts(void)
{
    const char *text = getenv("COUNTD_BOARD_ATTEMPTS");
    char *end;
    long n;

    if (!text)
        text = getenv("IPC_LEADERBOARD_MAX_SPINLOCK_ATTEMPTS");
    if (!text)
        return BOARD_TRIES;
    n = strtol(text, &end, 10);
    return *end == '\0' && n > 0 && n < INT_MAX ? (unsigned)n : BOARD_TRIES;
}

static bool
is_still_at(int fd, const char *path)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* Maps the file through an open file of its own: a mapping goes to the children
 * of fork(), and keeps its open file, with the locks on that, until it ends.
 *   -EAGAIN  the path names a file other than `fd` by now */
static int
map_board(const char *path, int fd, const struct board_header *h,
          bool read_only, void **out)
{
    const int prot = read_only ? PROT_READ : PROT_READ | PROT_WRITE;
    const int map_fd = open(path, (read_only ? O_RDONLY : O_RDWR) | OPEN_FLAGS);
    int rc = map_fd < 0 ? -errno : 0;

    if (rc < 0)
        return rc;
    /* A name that has gone to a newer file does not come back to this one. */
    if (!is_still_at(fd, path))
        rc = -EAGAIN;
    if (rc == 0)
        *out = mmap(NULL, (size_t)h->file_size, prot, MAP_SHARED, map_fd, 0);
    if (rc == 0 && *out == MAP_FAILED)
        rc = -errno;
    (void)close(map_fd); /* the mapping has it */
    return rc;
}

/* A handle of a file whose header has been checked, or is being made.  Takes
 * the descriptor. */
static int
new_handle(const char *path, int fd, const struct board_header *h,
           bool read_only, struct countd_board **out)
{
    struct countd_board *b;
    void *map = MAP_FAILED;
    int rc;

    rc = map_board(path, fd, h, read_only, &map);
    if (rc < 0)
        return rc;
    b = calloc(1, sizeof *b);
    if (!b) {
        rc = -ENOMEM;
        goto unmap;
    }
    b->header = map;
    b->slots = (uint8_t *)map + h->header_size;
    b->slot_count = h->slots;
    b->shared_count = h->shared_count;
    b->private_count = h->private_count;
    b->cells = h->cells;
    b->stride = h->stride;
    b->cells_at = board_block_size(h->shared_count);
    b->cell_stride = board_block_size(h->private_count + 1);
    b->file_size = h->file_size;
    b->fd = fd;
    b->read_only = read_only;
    b->forks = board_forks();
    b->tries = update_attempts();
    rc = board_handle_add(b);
    if (rc == 0) {
        *out = b;
        return 0;
    }
    free(b);

unmap:
    (void)munmap(map, (size_t)h->file_size); /* it is mapped */
    return rc;
}

/* Frees the handle, and leaves the descriptor to the caller. */
static void
free_handle(struct countd_board *b)
{
    board_handle_remove(b);
    (void)munmap(b->header, (size_t)b->file_size); /* it is mapped */
    free(b);
}

void
countd_board_close(struct countd_board *b)
{
    const int fd = b->fd;

    board_unregister(b);
    /* Given up, not only closed: a child that was made without fork() may have
     * the open file, too. */
    if (b->master && b->forks == board_forks())
        board_lock_drop(fd, BOARD_LOCK_MASTER);
    free_handle(b);
    if (fd >= 0)
        (void)close(fd);
}

/* ---- creating ---------------------------------------------------------- */

/* Opens what has the name, which may be nothing, and locks it: who has that is
 * master to be. */
static int
lock_old(const struct board_error *e, unsigned mode, int *out)
{
    struct stat st;
    int fd, rc;

    for (int i = 0; i < OPEN_TRIES; i++) {
        fd = open(e->path, O_RDWR | O_CREAT | OPEN_FLAGS, mode);
        if (fd < 0)
            return report_errno(e, -errno, "cannot be opened");
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
            (void)close(fd); /* not ours */
            return board_fail(e, -EINVAL, "is not a regular file");
        }
        rc = board_lock_try(fd, BOARD_LOCK_MASTER);
        if (rc == 0 && is_still_at(fd, e->path)) {
            *out = fd;
            return 0;
        }
        (void)close(fd); /* and with it the lock */
        if (rc < 0 && rc != -EBUSY)
            return report_errno(e, rc, "cannot be locked");
        if (rc < 0)
            return board_fail(e, rc,
                              "is owned by some other process, cannot lock it "
                              "exclusively");
    }
    return board_fail(e, -EBUSY,
                      "is owned by some other process: it keeps changing");
}

/* Marks the old board as retired, for all processes that have it mapped. */
static int
retire_board(const struct board_error *e, int fd)
{
    const uint64_t one = 1;
    struct board_header h;
    const ssize_t n = pread(fd, &h, sizeof h, 0);

    if (n < 0)
        return report_errno(e, -errno, "cannot be read");
    if (n == 0)
        return 0;
    if ((size_t)n < sizeof h.magic ||
        memcmp(h.magic, BOARD_MAGIC, sizeof h.magic) != 0)
        return board_fail(
            e, -EBADMSG,
            "is not a board and was not overwritten; remove it if it "
            "is not needed");
    if ((size_t)n < sizeof h)
        return 0; /* too short: no process can have attached */
    BOARD_STEP();
    if (pwrite(fd, &one, sizeof one, offsetof(struct board_header, retired)) !=
        sizeof one)
        return board_fail(e, -EIO, "cannot be retired");
    return 0;
}

static void
write_header(struct board_header *h, const struct countd_board_shape *shape,
             uint8_t *to)
{
    uint8_t *names = to + BOARD_NAMES_AT;

    h->pid = (uint32_t)getpid();
    h->created_ms = clock_unix_ms();
    if (getrandom(&h->epoch, sizeof h->epoch, 0) != sizeof h->epoch)
        h->epoch = clock_ns() ^ h->pid; /* another than the last is enough */
    for (uint32_t i = 0; shape->names && i < h->shared_count + h->private_count;
         i++)
        memcpy(names + (size_t)i * COUNTD_BOARD_NAME_SIZE, shape->names[i],
               strlen(shape->names[i])); /* checked; the file is zero */
    board_format_seal(h, names);
    memcpy(to, h, sizeof *h);
}

/* Makes the new file beside the old one, with all its blocks: a full disk is an
 * error now and not a signal later. */
static int
make_new(const struct board_error *e, const char *path,
         const struct countd_board_shape *shape, struct board_header *h,
         struct countd_board **out)
{
    int fd, rc;

    if (unlink(path) < 0 && errno != ENOENT)
        return report_errno(e, -errno, "cannot be made: remove an old one");
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return report_errno(e, -errno, "cannot be made");
    rc = -posix_fallocate(fd, 0, (off_t)h->file_size);
    if (rc == 0)
        rc = board_lock_try(fd, BOARD_LOCK_MASTER);
    if (rc == 0)
        rc = new_handle(path, fd, h, false, out);
    if (rc != 0)
        goto close_fd;
    if (fchmod(fd, shape->mode != 0 ? shape->mode : 0600) < 0) {
        rc = -errno;
        free_handle(*out);
        *out = NULL;
        goto close_fd;
    }
    (*out)->master = true;
    write_header(h, shape, (uint8_t *)(*out)->header);
    return 0;

close_fd:
    (void)close(fd);
    (void)unlink(path); /* the next one removes it, too */
    return report_errno(e, rc, "cannot be made");
}

int
countd_board_create(struct countd_board **out, const char *path,
                    const struct countd_board_shape *shape,
                    char error[COUNTD_BOARD_ERROR_SIZE])
{
    const struct board_error e = {path, error};
    char temp[PATH_MAX];
    struct countd_board *b = NULL;
    struct board_header h;
    int old = -1, rc;

    if (shape->size != sizeof *shape)
        return board_fail(&e, -EINVAL, "cannot be made: size of the shape");
    rc = board_format(&e, shape, &h);
    if (rc < 0)
        return rc;
    if ((size_t)snprintf(temp, sizeof temp, "%s.new", path) >= sizeof temp)
        return board_fail(&e, -ENAMETOOLONG, "has too long a name");
    rc = lock_old(&e, shape->mode != 0 ? shape->mode : 0600, &old);
    if (rc < 0)
        return rc;
    rc = make_new(&e, temp, shape, &h, &b);
    if (rc < 0)
        goto close_old;
    assert(b);
    rc = retire_board(&e, old);
    if (rc == 0 && rename(temp, path) < 0)
        rc = report_errno(&e, -errno, "cannot take its name");
    if (rc < 0) {
        (void)unlink(temp); /* the next one removes it, too */
        countd_board_close(b);
        goto close_old;
    }
    *out = b;

close_old:
    (void)close(old); /* and with it its lock */
    return rc;
}

/* ---- attaching --------------------------------------------------------- */

static int
report_abandoned(const struct board_error *e, const char *why)
{
    return board_fail(e, -ESRCH, "is abandoned, cannot attach to it (%s)", why);
}

/* Whether the master of the file with this header allows to attach to it. */
static int
check_master(const struct board_error *e, int fd, const struct board_header *h,
             unsigned flags)
{
    if (atomic_load_explicit(&h->retired, memory_order_relaxed) != 0)
        return board_lock_life(fd, BOARD_LOCK_MASTER) == COUNTD_BOARD_DEAD
                   ? report_abandoned(e, "it is retired")
                   : board_fail(e, -EAGAIN, "is being replaced: try again");
    if ((flags & COUNTD_BOARD_ORPHAN) == 0 &&
        board_lock_life(fd, BOARD_LOCK_MASTER) == COUNTD_BOARD_DEAD)
        return report_abandoned(e, "it has no master");
    return 0;
}

static int
attach_to(const struct board_error *e, int fd,
          const struct countd_board_shape *shape, unsigned flags,
          struct countd_board **out)
{
    const bool read_only = (flags & COUNTD_BOARD_READ_ONLY) != 0;
    struct board_header h;
    struct stat st;
    ssize_t n;
    int rc;

    if (fstat(fd, &st) < 0)
        return report_errno(e, -errno, "cannot be looked at");
    if (!S_ISREG(st.st_mode))
        return board_fail(e, -EBADMSG, "is not a regular file");
    if (st.st_size == 0)
        return board_lock_life(fd, BOARD_LOCK_MASTER) == COUNTD_BOARD_DEAD
                   ? report_abandoned(e, "it is empty")
                   : board_fail(e, -EAGAIN, "is being made: try again");
    memset(&h, 0, sizeof h);
    n = pread(fd, &h, sizeof h, 0);
    if (n < 0)
        return report_errno(e, -errno, "cannot be read");
    rc = board_format_check(e, &h, (uint64_t)st.st_size);
    if (rc == 0 && shape)
        rc = board_format_compare(e, &h, shape);
    if (rc == 0)
        rc = check_master(e, fd, &h, flags);
    if (rc < 0)
        return rc;
    rc = new_handle(e->path, fd, &h, read_only, out);
    if (rc == -EAGAIN)
        return board_fail(e, rc, "is being replaced: try again");
    if (rc < 0)
        return report_errno(e, rc, "cannot be mapped");
    assert(*out);
    rc = board_format_check_names(e, &h,
                                  (uint8_t *)(*out)->header + BOARD_NAMES_AT);
    if (rc == 0)
        return 0;
    free_handle(*out);
    return rc;
}

int
countd_board_attach(struct countd_board **out, const char *path,
                    const struct countd_board_shape *shape, unsigned flags,
                    char error[COUNTD_BOARD_ERROR_SIZE])
{
    const struct board_error e = {path, error};
    struct countd_board *b = NULL;
    int fd, rc;

    if (shape && shape->size != sizeof *shape)
        return board_fail(&e, -EINVAL,
                          "cannot be attached to: size of the shape");
    fd =
        open(path, ((flags & COUNTD_BOARD_READ_ONLY) != 0 ? O_RDONLY : O_RDWR) |
                       OPEN_FLAGS);
    if (fd < 0 && errno == ENOENT) {
        (void)report_abandoned(&e, "file not exists"); /* for the text */
        return -ENOENT;
    }
    if (fd < 0)
        return report_errno(&e, -errno, "cannot be opened");
    rc = attach_to(&e, fd, shape, flags, &b);
    if (rc < 0)
        (void)close(fd);
    else
        *out = b;
    return rc;
}

/* ---- about it ---------------------------------------------------------- */

static enum countd_board_life
master_life(const struct countd_board *b)
{
    /* On its own open file the master does not see its lock. */
    return b->master && b->forks == board_forks()
               ? COUNTD_BOARD_ALIVE
               : board_lock_life(b->fd, BOARD_LOCK_MASTER);
}

int
countd_board_master_alive(struct countd_board *b)
{
    if (board_is_retired(b))
        return -ENOTCONN;
    return master_life(b) != COUNTD_BOARD_DEAD;
}

void
countd_board_info(struct countd_board *b, struct countd_board_info *out)
{
    const struct board_header *h = b->header;

    *out = (struct countd_board_info){
        .shape = {.size = sizeof out->shape,
                  .slots = b->slot_count,
                  .shared_count = b->shared_count,
                  .private_count = b->private_count,
                  .cells = b->cells},
        .epoch = h->epoch,
        .created_ms = h->created_ms,
        .recovered = atomic_load(&h->recovered),
        .master = (pid_t)h->pid,
        .retired = board_is_retired(b),
    };
    out->master_alive = out->retired ? COUNTD_BOARD_DEAD : master_life(b);
    for (uint32_t i = 1; i <= BOARD_PROCESSES; i++)
        out->processes += board_process_life(b, i) != COUNTD_BOARD_DEAD;
}

const char *
countd_board_name(const struct countd_board *b, uint32_t index)
{
    if (index >= b->shared_count + b->private_count)
        return "";
    return (const char *)b->header + BOARD_NAMES_AT +
           (size_t)index * COUNTD_BOARD_NAME_SIZE;
}

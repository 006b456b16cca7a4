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

/* A handle of a file whose header has been checked, or is being made.  Takes
 * the descriptor. */
static int
new_handle(int fd, const struct board_header *h, bool read_only,
           struct countd_board **out)
{
    struct countd_board *b;
    void *map;
    int rc;

    if (board_forks_watch() < 0)
        return -ENOMEM;
    b = calloc(1, sizeof *b);
    if (!b)
        return -ENOMEM;
    map =
        mmap(NULL, (size_t)h->file_size,
             read_only ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        rc = -errno;
        assert(rc < 0);
        free(b);
        return rc;
    }
    b->header = map;
    b->slots = (uint8_t *)map + h->header_size;
    b->slot_count = h->slots;
    b->shared_count = h->shared_count;
    b->private_count = h->private_count;
    b->cells = h->cells;
    b->stride = h->stride;
    b->cells_at =
        (8 + 16 * h->shared_count + BOARD_LINE - 1) / BOARD_LINE * BOARD_LINE;
    b->cell_stride = h->cells == 0 ? 0 : (h->stride - b->cells_at) / h->cells;
    b->file_size = h->file_size;
    b->fd = fd;
    b->read_only = read_only;
    b->forks = board_forks();
    b->tries = update_attempts();
    *out = b;
    return 0;
}

void
countd_board_close(struct countd_board *b)
{
    board_unregister(b);
    /* A forked child's copy of the descriptor has the lock, too: so it is given
     * up, not only closed. */
    if (b->master && b->forks == board_forks())
        board_lock_drop(b->fd, BOARD_LOCK_MASTER);
    (void)munmap(b->header, (size_t)b->file_size); /* it is mapped */
    (void)close(b->fd);
    free(b);
}

/* ---- creating ---------------------------------------------------------- */

static bool
is_still_at(int fd, const char *path)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* Opens what has the name, which may be nothing, and locks it: who has that is
 * master to be. */
static int
lock_old(const struct board_error *e, unsigned mode, int *out)
{
    struct stat st;
    int fd, rc;

    for (int i = 0; i < OPEN_TRIES; i++) {
        fd = open(e->path,
                  O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);
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
    struct board_id own;

    board_id_own(&own);
    h->pid = own.pid;
    h->start = own.start;
    h->space = own.space;
    h->created_ms = clock_unix_ms();
    if (getrandom(&h->epoch, sizeof h->epoch, 0) != sizeof h->epoch)
        h->epoch = clock_ns() ^ own.pid; /* another than the last is enough */
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
    if (rc == 0 && fchmod(fd, shape->mode != 0 ? shape->mode : 0600) < 0)
        rc = -errno;
    if (rc == 0)
        rc = new_handle(fd, h, false, out);
    if (rc != 0) {
        (void)close(fd);
        (void)unlink(path); /* the next one removes it, too */
        return report_errno(e, rc, "cannot be made");
    }
    (*out)->master = true;
    write_header(h, shape, (uint8_t *)(*out)->header);
    return 0;
}

int
countd_board_create(struct countd_board **out, const char *path,
                    const struct countd_board_shape *shape, char *error,
                    size_t error_size)
{
    const struct board_error e = {path, error, error_size};
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

static bool
has_master(int fd, const struct board_header *h)
{
    const struct board_id id = {
        .pid = h->pid, .start = h->start, .space = h->space};

    /* The lock alone would do, but for children of a dead master that have its
     * descriptor. */
    return board_lock_is_held(fd, BOARD_LOCK_MASTER) && board_id_alive(&id);
}

static int
report_abandoned(const struct board_error *e, const char *why)
{
    return board_fail(e, -ESRCH, "is abandoned, cannot attach to it (%s)", why);
}

/* Whether a file with this header may be attached to. */
static int
check_board(const struct board_error *e, int fd, const struct board_header *h,
            uint64_t file_size, const struct countd_board_shape *shape,
            unsigned flags)
{
    int rc = board_format_check(e, h, file_size);

    if (rc == 0 && shape)
        rc = board_format_compare(e, h, shape);
    if (rc < 0)
        return rc;
    if (atomic_load_explicit(&h->retired, memory_order_relaxed) != 0)
        return board_lock_is_held(fd, BOARD_LOCK_MASTER)
                   ? board_fail(e, -EAGAIN, "is being replaced: try again")
                   : report_abandoned(e, "it is retired");
    if ((flags & COUNTD_BOARD_ORPHAN) == 0 && !has_master(fd, h))
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
        return board_lock_is_held(fd, BOARD_LOCK_MASTER)
                   ? board_fail(e, -EAGAIN, "is being made: try again")
                   : report_abandoned(e, "it is empty");
    memset(&h, 0, sizeof h);
    n = pread(fd, &h, sizeof h, 0);
    if (n < 0)
        return report_errno(e, -errno, "cannot be read");
    rc = check_board(e, fd, &h, (uint64_t)st.st_size, shape, flags);
    if (rc < 0)
        return rc;
    rc = new_handle(fd, &h, read_only, out);
    if (rc < 0)
        return report_errno(e, rc, "cannot be mapped");
    rc = board_format_check_names(e, &h,
                                  (uint8_t *)(*out)->header + BOARD_NAMES_AT);
    if (rc == 0)
        return 0;
    (void)munmap((*out)->header, (size_t)h.file_size); /* it is mapped */
    free(*out);
    return rc;
}

int
countd_board_attach(struct countd_board **out, const char *path,
                    const struct countd_board_shape *shape, unsigned flags,
                    char *error, size_t error_size)
{
    const struct board_error e = {path, error, error_size};
    struct countd_board *b;
    int fd, rc;

    if (shape && shape->size != sizeof *shape)
        return board_fail(&e, -EINVAL,
                          "cannot be attached to: size of the shape");
    fd =
        open(path, ((flags & COUNTD_BOARD_READ_ONLY) != 0 ? O_RDONLY : O_RDWR) |
                       O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
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

int
countd_board_master_alive(struct countd_board *b)
{
    const struct board_header *h = b->header;
    const struct board_id id = {
        .pid = h->pid, .start = h->start, .space = h->space};

    if (board_is_retired(b))
        return -ENOTCONN;
    if (b->master) /* or a forked child of it, which has its descriptor */
        return b->forks == board_forks() || board_id_alive(&id);
    return has_master(b->fd, h);
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
    out->master_alive = countd_board_master_alive(b) == 1;
    for (uint32_t i = 1; i <= BOARD_PROCESSES; i++)
        out->processes += board_process_alive(b, i);
}

const char *
countd_board_name(const struct countd_board *b, uint32_t index)
{
    if (index >= b->shared_count + b->private_count)
        return "";
    return (const char *)b->header + BOARD_NAMES_AT +
           (size_t)index * COUNTD_BOARD_NAME_SIZE;
}

/* tests/crash/powerloss.c - a preload library that notes every change to the
 * files below one directory; see powerloss.h.
 *
 *     POWERLOSS_DIR     the directory, an absolute path without links
 *     POWERLOSS_LOG     where the records go: this name and .PID; and the boot
 *                       that the daemons believe to be in
 *     POWERLOSS_SHARED  the file with the shared counter
 *     POWERLOSS_DELAY   microseconds a sync takes longer on average: on a
 *                       directory in memory nothing would happen during one
 *
 * Changes through a shared mapping are not seen (LMDB's lock file, which it
 * makes anew after a crash; nothing else maps writable).  A process that
 * cannot note what it does is ended at once: the test would prove nothing.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/crash/powerloss.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Unknown to older headers, known to the kernel. */
#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1 << 1)
#endif

static struct powerloss_shared *shared; /* NULL: off */
static char root[PATH_MAX];
static size_t root_size;
static int log_fd = -1;
static long delay_us;
static pid_t log_pid;

static void
die_of(const char *what)
{
    dprintf(STDERR_FILENO, "powerloss: %s: %s\n", what, strerror(errno));
    _exit(99);
}

/* Direct system calls where this library needs some itself. */
static int
sys_openat(int dirfd, const char *path, int flags, mode_t mode)
{
    return (int)syscall(SYS_openat, dirfd, path, flags, mode);
}

static void
open_log(void)
{
    const char *base = getenv("POWERLOSS_LOG");
    char path[PATH_MAX];

    if (log_fd >= 0 && log_pid == getpid())
        return;
    if (snprintf(path, sizeof path, "%s.%ld", base ? base : "",
                 (long)getpid()) >= (int)sizeof path)
        die_of("POWERLOSS_LOG is too long");
    log_fd = sys_openat(AT_FDCWD, path,
                        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    log_pid = getpid();
    if (log_fd < 0)
        die_of(path);
}

__attribute__((constructor)) static void
start(void)
{
    const char *dir = getenv("POWERLOSS_DIR");
    const char *path = getenv("POWERLOSS_SHARED");
    void *map;
    const char *delay = getenv("POWERLOSS_DELAY");
    int fd;

    if (!dir || !path || !getenv("POWERLOSS_LOG"))
        return;
    delay_us = delay ? atol(delay) : 0;
    if (!realpath(dir, root))
        die_of(dir);
    root_size = strlen(root);
    fd = sys_openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        die_of(path);
    map = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        die_of("mmap");
    (void)close(fd); /* the mapping stays */
    open_log();
    shared = map;
}

/* From here to leave_call() the test does not kill us. */
static void
enter_call(void)
{
    for (;;) {
        while (atomic_load(&shared->freeze))
            (void)sched_yield(); /* cannot fail on Linux */
        atomic_fetch_add(&shared->busy, 1);
        if (!atomic_load(&shared->freeze))
            return;
        atomic_fetch_sub(&shared->busy, 1);
    }
}

static void
leave_call(void)
{
    int saved = errno;

    atomic_fetch_sub(&shared->busy, 1);
    errno = saved;
}

static uint64_t
draw_number(void)
{
    return atomic_fetch_add(&shared->seq, 1) + 1;
}

static void
note_call(struct powerloss_record *r, const char *name, const char *name2,
          const struct iovec *bytes, int count)
{
    struct iovec parts[IOV_MAX > 64 ? 64 : IOV_MAX];
    size_t total = sizeof *r;
    int n = 0, i, saved = errno;

    /* A socket: a daemon makes it anew, whatever a loss of power left. */
    if (r->kind != POWERLOSS_SYNC_ALL && r->inode == 0)
        return;
    r->magic = POWERLOSS_MAGIC;
    r->name_size = (uint16_t)(name ? strlen(name) : 0);
    r->name2_size = (uint16_t)(name2 ? strlen(name2) : 0);
    parts[n++] = (struct iovec){r, sizeof *r};
    if (r->name_size > 0) {
        memcpy(&parts[n].iov_base, &name, sizeof name);
        parts[n++].iov_len = r->name_size;
    }
    if (r->name2_size > 0) {
        memcpy(&parts[n].iov_base, &name2, sizeof name2);
        parts[n++].iov_len = r->name2_size;
    }
    total += (size_t)r->name_size + r->name2_size + r->size;
    /* A write may have been short: only what was written is noted. */
    for (i = 0; i < count && r->size > 0; i++) {
        size_t left = total;
        int k;

        for (k = 0; k < n; k++)
            left -= parts[k].iov_len;
        if (left == 0)
            break;
        if (n == (int)(sizeof parts / sizeof parts[0]))
            die_of("too many buffers in one write");
        parts[n] = bytes[i];
        if (parts[n].iov_len > left)
            parts[n].iov_len = left;
        n++;
    }
    open_log();
    /* One system call per record: threads cannot mix theirs. */
    if (syscall(SYS_writev, log_fd, parts, n) != (long)total)
        die_of("cannot note");
    errno = saved;
}

static bool
is_below(int fd)
{
    char link[64], path[PATH_MAX];
    ssize_t size;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof path - 1);
    if (size < 0 || (size_t)size < root_size)
        return false;
    path[size] = '\0';
    return memcmp(path, root, root_size) == 0 &&
           (path[root_size] == '/' || path[root_size] == '\0');
}

/* The inode of a descriptor below the directory; 0 for all others. */
static uint64_t
inode_of(int fd)
{
    struct stat st;
    uint64_t inode = 0;
    int saved = errno;

    if (is_below(fd) && fstat(fd, &st) == 0 &&
        (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        inode = st.st_ino;
    errno = saved;
    return inode;
}

/* Where a name is: the inode of its folder (0: not below the directory) and
 * its last part, within `path`. */
static uint64_t
folder_of(int dirfd, const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    uint64_t inode;
    int fd, saved = errno;

    *name = slash ? slash + 1 : path;
    if (!slash)
        strcpy(folder, ".");
    else if (slash == path)
        strcpy(folder, "/");
    else if ((size_t)(slash - path) < sizeof folder) {
        memcpy(folder, path, (size_t)(slash - path));
        folder[slash - path] = '\0';
    } else
        return 0;
    fd = sys_openat(dirfd, folder, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    inode = fd < 0 ? 0 : inode_of(fd);
    if (fd >= 0)
        (void)close(fd);
    errno = saved;
    return inode;
}

static uint64_t
inode_at(int dirfd, const char *path)
{
    struct stat st;
    int saved = errno;
    uint64_t inode;

    inode = fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                    !S_ISSOCK(st.st_mode)
                ? st.st_ino
                : 0;
    errno = saved;
    return inode;
}

/* ---- names --------------------------------------------------------------- */

static void
note_open(int fd, uint64_t dir, const char *name, uint64_t seq, int flags)
{
    struct powerloss_record r = {.kind = POWERLOSS_CREATE, .seq = seq};
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    r.inode = st.st_ino;
    r.dir = dir;
    r.mode = st.st_mode & 07777;
    if ((flags & O_TMPFILE) == O_TMPFILE)
        name = NULL;
    note_call(&r, name, NULL, NULL, 0);
}

/* The power goes in the mind of the test only, so the machine shows each
 * recording that it is in a boot of its own. */
static int
open_boot_id(void)
{
    const char *base = getenv("POWERLOSS_LOG");
    uint64_t hash = 0xcbf29ce484222325u;
    char text[40];
    int fd, size;

    for (; base && *base; base++)
        hash = (hash ^ (unsigned char)*base) * 0x100000001b3u;
    size = snprintf(text, sizeof text, "%016llx%016llx\n",
                    (unsigned long long)hash, ~(unsigned long long)hash);
    fd = memfd_create("boot_id", MFD_CLOEXEC);
    if (fd < 0 || syscall(SYS_pwrite64, fd, text, size, 0) != size)
        die_of("boot_id");
    return fd;
}

static int
do_open(int dirfd, const char *path, int flags, mode_t mode)
{
    const char *name;
    uint64_t dir = 0, seq;
    int fd;

    if (shared && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)
        return open_boot_id();
    if (shared &&
        ((flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE))
        dir = folder_of(dirfd, path, &name);
    if (dir == 0)
        return sys_openat(dirfd, path, flags, mode);
    enter_call();
    seq = draw_number();
    /* O_EXCL first, to know whether the file is new. */
    fd = -1;
    if ((flags & O_CREAT) && !(flags & O_EXCL)) {
        do {
            fd = sys_openat(dirfd, path, flags | O_EXCL, mode);
            if (fd >= 0)
                flags |= O_EXCL;
            else if (errno == EEXIST)
                fd = sys_openat(dirfd, path, flags & ~O_CREAT, mode);
        } while (fd < 0 && errno == ENOENT && inode_at(dirfd, path) != 0);
    } else
        fd = sys_openat(dirfd, path, flags, mode);
    if (fd >= 0 && ((flags & O_EXCL) || (flags & O_TMPFILE) == O_TMPFILE))
        note_open(fd, dir, name, seq, flags);
    else if (fd >= 0 && (flags & O_TRUNC)) {
        struct powerloss_record r = {.kind = POWERLOSS_SIZE,
                                     .seq = draw_number(),
                                     .inode = inode_of(fd)};

        note_call(&r, NULL, NULL, NULL, 0);
    }
    leave_call();
    return fd;
}

static mode_t
mode_argument(int flags, va_list list)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE
               ? (mode_t)va_arg(list, int)
               : 0;
}

#define OPEN_BODY(dirfd)                                                       \
    va_list list;                                                              \
    mode_t mode;                                                               \
                                                                               \
    va_start(list, flags);                                                     \
    mode = mode_argument(flags, list);                                         \
    va_end(list);                                                              \
    return do_open(dirfd, path, flags, mode)

int
open(const char *path, int flags, ...)
{
    OPEN_BODY(AT_FDCWD);
}

int
openat(int dirfd, const char *path, int flags, ...)
{
    OPEN_BODY(dirfd);
}

/* Other names of the same calls: off_t has 64 bits. */
#define ALIAS(name, of) __typeof__(of) name __attribute__((alias(#of)))

ALIAS(open64, open);
ALIAS(openat64, openat);

/* A system call that changes names; `look` is what it is about. */
static int
change_name(enum powerloss_kind kind, int dirfd, const char *path, int look_fd,
            const char *look, const long a[6])
{
    struct powerloss_record r = {.kind = (uint16_t)kind};
    const char *name;
    int rc;

    r.dir = shared ? folder_of(dirfd, path, &name) : 0;
    if (r.dir == 0)
        return (int)syscall(a[0], a[1], a[2], a[3], a[4], a[5]);
    enter_call();
    r.seq = draw_number();
    /* Before, where it is there: the new name may be gone again at once. */
    r.inode = inode_at(look_fd, look);
    rc = (int)syscall(a[0], a[1], a[2], a[3], a[4], a[5]);
    if (r.inode == 0)
        r.inode = inode_at(look_fd, look);
    if (rc == 0)
        note_call(&r, name, NULL, NULL, 0);
    leave_call();
    return rc;
}

int
mkdirat(int dirfd, const char *path, mode_t mode)
{
    return change_name(POWERLOSS_MKDIR, dirfd, path, dirfd, path,
                       (long[6]){SYS_mkdirat, dirfd, (long)path, mode});
}

int
mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

int
linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    return change_name(
        POWERLOSS_LINK, to_fd, to, from_fd, from,
        (long[6]){SYS_linkat, from_fd, (long)from, to_fd, (long)to, flags});
}

int
link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int
unlinkat(int dirfd, const char *path, int flags)
{
    return change_name(POWERLOSS_UNLINK, dirfd, path, dirfd, path,
                       (long[6]){SYS_unlinkat, dirfd, (long)path, flags});
}

int
unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int
rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int
renameat2(int from_fd, const char *from, int to_fd, const char *to,
          unsigned flags)
{
    struct powerloss_record r = {.kind = POWERLOSS_RENAME};
    const char *name, *name2;
    int rc;

    r.dir = shared ? folder_of(from_fd, from, &name) : 0;
    r.dir2 = shared ? folder_of(to_fd, to, &name2) : 0;
    if (r.dir == 0 && r.dir2 == 0)
        return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
    if (r.dir == 0 || r.dir2 == 0 || (flags & RENAME_EXCHANGE)) {
        errno = ENOTSUP;
        die_of("a rename this recorder does not know");
    }
    enter_call();
    r.seq = draw_number();
    r.inode = inode_at(from_fd, from);
    rc = (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
    if (rc == 0)
        note_call(&r, name, name2, NULL, 0);
    leave_call();
    return rc;
}

int
renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return renameat2(from_fd, from, to_fd, to, 0);
}

int
rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* ---- data ---------------------------------------------------------------- */

/* Any of the writing calls: `at` below 0 is the file's position. */
static ssize_t
do_write(int fd, const struct iovec *parts, int count, off_t at)
{
    struct powerloss_record r = {.kind = POWERLOSS_WRITE};
    ssize_t done;
    int flags;

    r.inode = shared ? inode_of(fd) : 0;
    if (r.inode == 0)
        return at < 0 ? syscall(SYS_writev, fd, parts, count)
                      : syscall(SYS_pwritev, fd, parts, count, at, 0);
    enter_call();
    done = at < 0 ? syscall(SYS_writev, fd, parts, count)
                  : syscall(SYS_pwritev, fd, parts, count, at, 0);
    if (done > 0) {
        flags = fcntl(fd, F_GETFL);
        r.durable = flags >= 0 && (flags & O_DSYNC) != 0;
        r.at = at < 0 ? lseek(fd, 0, SEEK_CUR) - done : at;
        r.size = (uint64_t)done;
        r.seq = draw_number();
        note_call(&r, NULL, NULL, parts, count);
    }
    leave_call();
    return done;
}

ssize_t
write(int fd, const void *from, size_t size)
{
    struct iovec part = {.iov_len = size};

    memcpy(&part.iov_base, &from, sizeof from);
    return do_write(fd, &part, 1, -1);
}

ssize_t
pwrite(int fd, const void *from, size_t size, off_t at)
{
    struct iovec part = {.iov_len = size};

    memcpy(&part.iov_base, &from, sizeof from);
    return do_write(fd, &part, 1, at);
}

ALIAS(pwrite64, pwrite);

ssize_t
writev(int fd, const struct iovec *parts, int count)
{
    return do_write(fd, parts, count, -1);
}

ssize_t
pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    return do_write(fd, parts, count, at);
}

ALIAS(pwritev64, pwritev);

/* A system call that changes what a file is like: what it then is is noted. */
static int
change_file(enum powerloss_kind kind, int fd, const long a[6])
{
    struct powerloss_record r = {.kind = (uint16_t)kind};
    struct stat st;
    int rc;

    r.inode = shared ? inode_of(fd) : 0;
    if (r.inode == 0)
        return (int)syscall(a[0], a[1], a[2], a[3], a[4]);
    enter_call();
    rc = (int)syscall(a[0], a[1], a[2], a[3], a[4]);
    if (rc == 0) {
        if (fstat(fd, &st) < 0)
            die_of("fstat");
        r.at = kind == POWERLOSS_TIME
                   ? st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec
                   : st.st_size;
        r.mode = st.st_mode & 07777;
        r.seq = draw_number();
        note_call(&r, NULL, NULL, NULL, 0);
    }
    leave_call();
    return rc;
}

int
ftruncate(int fd, off_t size)
{
    return change_file(POWERLOSS_SIZE, fd, (long[6]){SYS_ftruncate, fd, size});
}

ALIAS(ftruncate64, ftruncate);

int
fallocate(int fd, int mode, off_t at, off_t size)
{
    /* Blocks behind the end of a file change nothing that can be read. */
    if (mode == FALLOC_FL_KEEP_SIZE)
        return (int)syscall(SYS_fallocate, fd, mode, at, size);
    if (mode != 0 && shared && inode_of(fd) != 0) {
        errno = ENOTSUP;
        die_of("an fallocate this recorder does not know");
    }
    return change_file(POWERLOSS_SIZE, fd,
                       (long[6]){SYS_fallocate, fd, mode, at, size});
}

int
posix_fallocate(int fd, off_t at, off_t size)
{
    return fallocate(fd, 0, at, size) == 0 ? 0 : errno;
}

int
fchmod(int fd, mode_t mode)
{
    return change_file(POWERLOSS_MODE, fd, (long[6]){SYS_fchmod, fd, mode});
}

int
futimens(int fd, const struct timespec times[2])
{
    return change_file(POWERLOSS_TIME, fd,
                       (long[6]){SYS_utimensat, fd, 0, (long)times, 0});
}

int
fchmodat(int dirfd, const char *path, mode_t mode, int flags)
{
    struct powerloss_record r = {.kind = POWERLOSS_MODE, .mode = mode};
    const char *name;
    int rc;

    if (flags != 0) {
        errno = ENOTSUP;
        die_of("an fchmodat this recorder does not know");
    }
    if (!shared || folder_of(dirfd, path, &name) == 0)
        return (int)syscall(SYS_fchmodat, dirfd, path, mode);
    enter_call();
    rc = (int)syscall(SYS_fchmodat, dirfd, path, mode);
    if (rc == 0) {
        r.inode = inode_at(dirfd, path);
        r.seq = draw_number();
        note_call(&r, NULL, NULL, NULL, 0);
    }
    leave_call();
    return rc;
}

int
chmod(const char *path, mode_t mode)
{
    return fchmodat(AT_FDCWD, path, mode, 0);
}

/* ---- syncs --------------------------------------------------------------- */

static int
do_sync(int fd, enum powerloss_kind kind, long call)
{
    struct powerloss_record r = {.kind = (uint16_t)kind};
    int rc;

    r.inode = shared ? inode_of(fd) : 0;
    if (r.inode == 0)
        return (int)syscall(call, fd);
    enter_call();
    r.seq = draw_number();
    rc = (int)syscall(call, fd);
    if (delay_us > 0) {
        /* Of any length up to twice that, by the number drawn: the order in
         * which two processes come out of their syncs is any, too. */
        long part = (long)((r.seq * 0x9e3779b97f4a7c15u) >> 54);
        struct timespec pause = {.tv_nsec = delay_us * part * 2};

        (void)nanosleep(&pause, NULL); /* a shorter one is as good */
    }
    if (rc == 0) {
        r.end = draw_number();
        note_call(&r, NULL, NULL, NULL, 0);
    }
    leave_call();
    return rc;
}

int
fsync(int fd)
{
    return do_sync(fd, POWERLOSS_FSYNC, SYS_fsync);
}

int
fdatasync(int fd)
{
    return do_sync(fd, POWERLOSS_FDATASYNC, SYS_fdatasync);
}

int
syncfs(int fd)
{
    return do_sync(fd, POWERLOSS_SYNC_ALL, SYS_syncfs);
}

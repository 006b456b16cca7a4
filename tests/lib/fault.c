/* tests/lib/fault.c - see fault.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/clock.h"

enum group { GROUP_DISK, GROUP_MEMORY, GROUP_NET };

/* One line per wrapped call; WRAP in the Makefile holds the same names. */
#define CALLS(X)                                                               \
    X(linkat, DISK)                                                            \
    X(unlinkat, DISK)                                                          \
    X(renameat, DISK)                                                          \
    X(renameat2, DISK)                                                         \
    X(mkdirat, DISK)                                                           \
    X(fchmod, DISK)                                                            \
    X(fchmodat, DISK)                                                          \
    X(open, DISK)                                                              \
    X(openat, DISK)                                                            \
    X(read, DISK)                                                              \
    X(write, DISK)                                                             \
    X(pread, DISK)                                                             \
    X(pwrite, DISK)                                                            \
    X(pwritev, DISK)                                                           \
    X(fdatasync, DISK)                                                         \
    X(fsync, DISK)                                                             \
    X(flock, DISK)                                                             \
    X(ftruncate, DISK)                                                         \
    X(posix_fallocate, DISK)                                                   \
    X(futimens, DISK)                                                          \
    X(fstat, DISK)                                                             \
    X(fstatat, DISK)                                                           \
    X(fstatvfs, DISK)                                                          \
    X(malloc, MEMORY)                                                          \
    X(calloc, MEMORY)                                                          \
    X(realloc, MEMORY)                                                         \
    X(socket, NET)                                                             \
    X(bind, NET)                                                               \
    X(listen, NET)                                                             \
    X(connect, NET)                                                            \
    X(accept4, NET)                                                            \
    X(recv, NET)                                                               \
    X(send, NET)                                                               \
    X(sendmsg, NET)                                                            \
    X(epoll_create1, NET)                                                      \
    X(epoll_ctl, NET)                                                          \
    X(epoll_wait, NET)

#define CALL_ENUM(name, group)  CALL_##name,
#define CALL_ENTRY(name, group) {#name, GROUP_##group},

enum call { CALLS(CALL_ENUM) CALL_COUNT };

static const struct {
    const char *name;
    enum group group;
} calls[CALL_COUNT] = {CALLS(CALL_ENTRY)};

enum action { ACT_NOTHING, ACT_ERROR, ACT_SHORT, ACT_KILL, ACT_HOOK };

/* The calls that are armed.  Written by the test's thread, read by any; `action` comes
 * last and goes first, so a half-written plan does nothing. */
static struct {
    atomic_int action;
    atomic_bool armed[CALL_COUNT]; /* calls that count towards nth */
    atomic_uint nth;
    atomic_bool lasting;
    atomic_int error;
    atomic_size_t size;
} plan;

static atomic_uint seen[CALL_COUNT];
static atomic_uint counted; /* calls among plan.armed */
static atomic_bool hit;
static void (*called)(void *ctx); /* of ACT_HOOK */
static void *called_ctx;
static _Atomic int64_t clock_offset_ms;
static _Atomic uint64_t passed_ns;
static _Atomic uint64_t stopped_ns; /* 0: clock_ns() and clock_ms() go */

static bool
belongs_to(enum call c, const char *name)
{
    return strcmp(calls[c].name, name) == 0 ||
           (calls[c].group == GROUP_DISK && strcmp(name, "disk") == 0) ||
           (calls[c].group == GROUP_MEMORY && strcmp(name, "memory") == 0) ||
           (calls[c].group == GROUP_NET && strcmp(name, "net") == 0);
}

static void
arm_plan(const char *name, unsigned nth, bool lasting, enum action action,
         int error, size_t size)
{
    bool known = name == NULL;

    atomic_store(&plan.action, ACT_NOTHING);
    for (int c = 0; c < CALL_COUNT; c++) {
        atomic_store(&seen[c], 0);
        plan.armed[c] = name && belongs_to((enum call)c, name);
        known = known || plan.armed[c];
    }
    if (!known) {
        fprintf(stderr, "fault: %s is not in WRAP\n", name);
        abort();
    }
    atomic_store(&counted, 0);
    atomic_store(&hit, false);
    plan.nth = nth;
    plan.lasting = lasting;
    plan.error = error;
    plan.size = size;
    atomic_store(&plan.action, action);
}

void
fault_inject(const char *call, unsigned nth, int error)
{
    arm_plan(call, nth, false, ACT_ERROR, error, 0);
}

void
fault_inject_from(const char *call, unsigned nth, int error)
{
    arm_plan(call, nth, true, ACT_ERROR, error, 0);
}

void
fault_short(const char *call, unsigned nth, size_t size)
{
    arm_plan(call, nth, false, ACT_SHORT, 0, size ? size : 1);
}

void
fault_kill(const char *call, unsigned nth)
{
    arm_plan(call, nth, false, ACT_KILL, 0, 0);
}

void
fault_hook(const char *call, unsigned nth, void (*hook)(void *ctx), void *ctx)
{
    called = hook;
    called_ctx = ctx;
    arm_plan(call, nth, false, ACT_HOOK, 0, 0);
}

void
fault_clear(void)
{
    arm_plan(NULL, 0, false, ACT_NOTHING, 0, 0);
    atomic_store(&clock_offset_ms, 0);
    atomic_store(&passed_ns, 0);
    atomic_store(&stopped_ns, 0);
}

bool
fault_hit(void)
{
    return atomic_load(&hit);
}

unsigned
fault_calls(const char *call)
{
    unsigned sum = 0;

    for (int c = 0; c < CALL_COUNT; c++)
        if (belongs_to((enum call)c, call))
            sum += atomic_load(&seen[c]);
    return sum;
}

void
fault_clock(int64_t offset_ms)
{
    atomic_store(&clock_offset_ms, offset_ms);
}

void
fault_pass_ns(uint64_t ns)
{
    atomic_fetch_add(&passed_ns, ns);
}

unsigned
fault_open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    if (!dir)
        return 0;
    while (readdir(dir))
        count++;
    /* Nothing was written through it. */
    (void)closedir(dir);
    return count - 3; /* ".", ".." and the descriptor of dir */
}

/* Counts one call and says what is to happen to it. */
static enum action
pass_call(enum call c)
{
    enum action action = (enum action)atomic_load(&plan.action);
    unsigned n;

    atomic_fetch_add(&seen[c], 1);
    if (action == ACT_NOTHING || !plan.armed[c])
        return ACT_NOTHING;
    n = atomic_fetch_add(&counted, 1) + 1;
    if (n != plan.nth && !(plan.lasting && n > plan.nth))
        return ACT_NOTHING;
    atomic_store(&hit, true);
    if (action == ACT_KILL) {
        /* Cannot fail, and nothing after it runs. */
        (void)kill(getpid(), SIGKILL);
        _exit(137);
    }
    if (action == ACT_HOOK) {
        atomic_store(&plan.action, ACT_NOTHING);
        called(called_ctx);
        return ACT_NOTHING;
    }
    return action;
}

static size_t
shorten_size(enum action action, size_t size)
{
    return action == ACT_SHORT && plan.size < size ? plan.size : size;
}

#define REAL_AND_WRAP(type, name, params)                                      \
    type __real_##name params;                                                 \
    type __wrap_##name params;                                                 \
    type __wrap_##name params

/* Calls that return -1 and errno, and know no short form. */
#define WRAP(type, name, params, args)                                         \
    REAL_AND_WRAP(type, name, params)                                          \
    {                                                                          \
        if (pass_call(CALL_##name) == ACT_ERROR) {                             \
            errno = plan.error;                                                \
            return -1;                                                         \
        }                                                                      \
        return __real_##name args;                                             \
    }

/* Reads and writes: `size` is shortened when asked. */
#define WRAP_MOVE(name, params, args)                                          \
    REAL_AND_WRAP(ssize_t, name, params)                                       \
    {                                                                          \
        enum action action = pass_call(CALL_##name);                           \
                                                                               \
        if (action == ACT_ERROR) {                                             \
            errno = plan.error;                                                \
            return -1;                                                         \
        }                                                                      \
        size = shorten_size(action, size);                                     \
        return __real_##name args;                                             \
    }

/* Allocators: the error is always ENOMEM. */
#define WRAP_MEMORY(name, params, args)                                        \
    REAL_AND_WRAP(void *, name, params)                                        \
    {                                                                          \
        if (pass_call(CALL_##name) == ACT_ERROR) {                             \
            errno = ENOMEM;                                                    \
            return NULL;                                                       \
        }                                                                      \
        return __real_##name args;                                             \
    }

WRAP(int, linkat, (int a, const char *b, int c, const char *d, int e),
     (a, b, c, d, e))
WRAP(int, unlinkat, (int a, const char *b, int c), (a, b, c))
WRAP(int, renameat, (int a, const char *b, int c, const char *d), (a, b, c, d))
WRAP(int, renameat2, (int a, const char *b, int c, const char *d, unsigned e),
     (a, b, c, d, e))
WRAP(int, mkdirat, (int a, const char *b, mode_t c), (a, b, c))
WRAP(int, fchmod, (int a, mode_t b), (a, b))
WRAP(int, fchmodat, (int a, const char *b, mode_t c, int d), (a, b, c, d))
WRAP_MOVE(read, (int fd, void *to, size_t size), (fd, to, size))
WRAP_MOVE(write, (int fd, const void *from, size_t size), (fd, from, size))
WRAP_MOVE(pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at))
WRAP_MOVE(pwrite, (int fd, const void *from, size_t size, off_t at),
          (fd, from, size, at))
WRAP(int, fdatasync, (int a), (a))
WRAP(int, fsync, (int a), (a))
WRAP(int, flock, (int a, int b), (a, b))
WRAP(int, ftruncate, (int a, off_t b), (a, b))
WRAP(int, futimens, (int a, const struct timespec b[2]), (a, b))
WRAP(int, fstat, (int a, struct stat *b), (a, b))
WRAP(int, fstatat, (int a, const char *b, struct stat *c, int d), (a, b, c, d))
WRAP(int, fstatvfs, (int a, struct statvfs *b), (a, b))
WRAP_MEMORY(malloc, (size_t a), (a))
WRAP_MEMORY(calloc, (size_t a, size_t b), (a, b))
WRAP_MEMORY(realloc, (void *a, size_t b), (a, b))
WRAP(int, socket, (int a, int b, int c), (a, b, c))
WRAP(int, bind, (int a, const struct sockaddr *b, socklen_t c), (a, b, c))
WRAP(int, listen, (int a, int b), (a, b))
WRAP(int, connect, (int a, const struct sockaddr *b, socklen_t c), (a, b, c))
WRAP(int, accept4, (int a, struct sockaddr *b, socklen_t *c, int d),
     (a, b, c, d))
WRAP_MOVE(recv, (int fd, void *to, size_t size, int flags),
          (fd, to, size, flags))
WRAP_MOVE(send, (int fd, const void *from, size_t size, int flags),
          (fd, from, size, flags))
WRAP(ssize_t, sendmsg, (int a, const struct msghdr *b, int c), (a, b, c))
WRAP(int, epoll_create1, (int a), (a))
WRAP(int, epoll_ctl, (int a, int b, int c, struct epoll_event *d), (a, b, c, d))
WRAP(int, epoll_wait, (int a, struct epoll_event *b, int c, int d),
     (a, b, c, d))

/* Returns the error instead of setting errno. */
REAL_AND_WRAP(int, posix_fallocate, (int fd, off_t at, off_t size))
{
    if (pass_call(CALL_posix_fallocate) == ACT_ERROR)
        return plan.error;
    return __real_posix_fallocate(fd, at, size);
}

/* A short pwritev is cut within its first buffer. */
REAL_AND_WRAP(ssize_t, pwritev,
              (int fd, const struct iovec *from, int count, off_t at))
{
    enum action action = pass_call(CALL_pwritev);

    if (action == ACT_ERROR) {
        errno = plan.error;
        return -1;
    }
    if (action == ACT_SHORT && count > 0)
        return __real_pwrite(fd, from[0].iov_base,
                             shorten_size(action, from[0].iov_len), at);
    return __real_pwritev(fd, from, count, at);
}

static mode_t
mode_argument(int flags, va_list list)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE
               ? (mode_t)va_arg(list, int)
               : 0;
}

#define WRAP_OPEN(name, params, ...)                                           \
    REAL_AND_WRAP(int, name, params)                                           \
    {                                                                          \
        va_list list;                                                          \
        mode_t mode;                                                           \
                                                                               \
        va_start(list, flags);                                                 \
        mode = mode_argument(flags, list);                                     \
        va_end(list);                                                          \
        if (pass_call(CALL_##name) == ACT_ERROR) {                             \
            errno = plan.error;                                                \
            return -1;                                                         \
        }                                                                      \
        return __real_##name(__VA_ARGS__, flags, mode);                        \
    }

WRAP_OPEN(openat, (int dirfd, const char *path, int flags, ...), dirfd, path)
WRAP_OPEN(open, (const char *path, int flags, ...), path)

/* What the same calls are named where the compiler fortifies by itself. */
int __wrap___openat_2(int dirfd, const char *path, int flags);
int __wrap___open_2(const char *path, int flags);
ssize_t __wrap___read_chk(int fd, void *to, size_t size, size_t room);
ssize_t __wrap___pread_chk(int fd, void *to, size_t size, off_t at,
                           size_t room);
ssize_t __wrap___recv_chk(int fd, void *to, size_t size, size_t room,
                          int flags);

int
__wrap___openat_2(int dirfd, const char *path, int flags)
{
    return __wrap_openat(dirfd, path, flags);
}

int
__wrap___open_2(const char *path, int flags)
{
    return __wrap_open(path, flags);
}

ssize_t
__wrap___read_chk(int fd, void *to, size_t size, size_t room)
{
    if (size > room)
        abort();
    return __wrap_read(fd, to, size);
}

ssize_t
__wrap___pread_chk(int fd, void *to, size_t size, off_t at, size_t room)
{
    if (size > room)
        abort();
    return __wrap_pread(fd, to, size, at);
}

ssize_t
__wrap___recv_chk(int fd, void *to, size_t size, size_t room, int flags)
{
    if (size > room)
        abort();
    return __wrap_recv(fd, to, size, flags);
}

REAL_AND_WRAP(uint64_t, clock_unix_ms, (void))
{
    return __real_clock_unix_ms() + (uint64_t)atomic_load(&clock_offset_ms);
}

static uint64_t
pass_clock(uint64_t now_ns)
{
    const uint64_t stopped = atomic_load(&stopped_ns);

    return (stopped > 0 ? stopped : now_ns) + atomic_load(&passed_ns);
}

REAL_AND_WRAP(uint64_t, clock_ns, (void))
{
    return pass_clock(__real_clock_ns());
}

REAL_AND_WRAP(uint64_t, clock_ms, (void))
{
    return pass_clock(__real_clock_ns()) / 1000000;
}

void
fault_stop_clock(void)
{
    atomic_store(&stopped_ns, __real_clock_ns());
}

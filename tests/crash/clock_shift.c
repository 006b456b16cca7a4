/* tests/crash/clock_shift.c - a library to preload that has the clock at another
 * time: $CLOCK_SHIFT seconds are added, below 0 taken away.
 *
 *     make test-at AT='2028-02-29 23:59'
 *
 * What a program reads as the time of day and as times of files is shifted alike,
 * so files are as old as they are; the monotonic clock is not.  (libfaketime
 * leaves out fstatat() and statx().) */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static long shift;

__attribute__((constructor)) static void
read_shift(void)
{
    const char *text = getenv("CLOCK_SHIFT");

    shift = text ? atol(text) : 0;
}

static bool
is_of_day(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

/* ---- clocks -------------------------------------------------------------- */

int
clock_gettime(clockid_t clock, struct timespec *t)
{
    static int (*next)(clockid_t, struct timespec *);
    void *found;
    int rc;

    if (!next) {
        found = dlsym(RTLD_NEXT, "clock_gettime");
        memcpy(&next, &found, sizeof next);
    }
    rc = next(clock, t);
    if (rc == 0 && is_of_day(clock))
        t->tv_sec += shift;
    return rc;
}

time_t
time(time_t *out)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME_COARSE, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

int
gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec t;

    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    *out = (struct timeval){t.tv_sec, t.tv_nsec / 1000};
    return 0;
}

int
timespec_get(struct timespec *t, int base)
{
    return clock_gettime(CLOCK_REALTIME, t) == 0 ? base : 0;
}

/* A moment of a program's clock, as the kernel has it. */
static struct timespec
to_kernel(struct timespec t)
{
    if (t.tv_nsec != UTIME_NOW && t.tv_nsec != UTIME_OMIT)
        t.tv_sec -= shift;
    return t;
}

int
clock_nanosleep(clockid_t clock, int flags, const struct timespec *t,
                struct timespec *left)
{
    const struct timespec until =
        is_of_day(clock) && flags == TIMER_ABSTIME ? to_kernel(*t) : *t;

    return syscall(SYS_clock_nanosleep, clock, flags, &until, left) == 0
               ? 0
               : errno;
}

/* ---- files --------------------------------------------------------------- */

static int
shift_stat(int rc, struct stat *st)
{
    if (rc == 0) {
        st->st_atim.tv_sec += shift;
        st->st_mtim.tv_sec += shift;
        st->st_ctim.tv_sec += shift;
    }
    return rc;
}

int
fstatat(int at, const char *restrict path, struct stat *restrict st, int flags)
{
    return shift_stat((int)syscall(SYS_newfstatat, at, path, st, flags), st);
}

int
stat(const char *restrict path, struct stat *restrict st)
{
    return fstatat(AT_FDCWD, path, st, 0);
}

int
lstat(const char *restrict path, struct stat *restrict st)
{
    return fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

int
fstat(int fd, struct stat *st)
{
    return shift_stat((int)syscall(SYS_fstat, fd, st), st);
}

int
statx(int at, const char *restrict path, int flags, unsigned mask,
      struct statx *restrict st)
{
    const int rc = (int)syscall(SYS_statx, at, path, flags, mask, st);

    if (rc == 0) {
        st->stx_atime.tv_sec += shift;
        st->stx_btime.tv_sec += shift;
        st->stx_ctime.tv_sec += shift;
        st->stx_mtime.tv_sec += shift;
    }
    return rc;
}

static int
set_times(int at, const char *path, const struct timespec times[2], int flags)
{
    struct timespec t[2];

    for (int i = 0; times && i < 2; i++)
        t[i] = to_kernel(times[i]);
    return (int)syscall(SYS_utimensat, at, path, times ? t : NULL, flags);
}

int
utimensat(int at, const char *path, const struct timespec times[2], int flags)
{
    return set_times(at, path, times, flags);
}

int
futimens(int fd, const struct timespec times[2])
{
    return set_times(fd, NULL, times, 0);
}

int
timerfd_settime(int fd, int flags, const struct itimerspec *new,
                struct itimerspec *old)
{
    struct itimerspec t = *new;

    /* Whether its clock is the one of the day, a time of years says. */
    if ((flags & TFD_TIMER_ABSTIME) != 0 && t.it_value.tv_sec > 1000000000)
        t.it_value = to_kernel(t.it_value);
    return (int)syscall(SYS_timerfd_settime, fd, flags, &t, old);
}

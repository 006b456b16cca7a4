/* common/board/board_locks.c - locks that end with the open file they were
 * taken on, and the open files of this process; see board_internal.h.
 *
 * Only these parts of a board need the kernel: being the master, changing the
 * table of processes, and knowing whether a process lives.  A lock is seen from
 * every namespace, whatever of /proc is hidden there.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/board/board_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define TABLE_TRIES 1000 /* of a millisecond */

atomic_uint board_forks_count;

/* The handles of this process; the table of a board is changed under the mutex,
 * too. */
static pthread_mutex_t handles_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct countd_board *handles;
static bool is_watched;

static struct flock
lock_range(short type, unsigned which)
{
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = which, .l_len = 1};
}

int
board_lock_try(int fd, unsigned which)
{
    struct flock l = lock_range(F_WRLCK, which);

    if (fcntl(fd, F_OFD_SETLK, &l) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
}

void
board_lock_drop(int fd, unsigned which)
{
    struct flock l = lock_range(F_UNLCK, which);

    (void)fcntl(fd, F_OFD_SETLK, &l); /* giving up cannot fail */
}

enum countd_board_life
board_lock_life(int fd, unsigned which)
{
    struct flock l = lock_range(F_RDLCK, which);

    if (fcntl(fd, F_OFD_GETLK, &l) < 0)
        return COUNTD_BOARD_UNKNOWN;
    return l.l_type != F_UNLCK ? COUNTD_BOARD_ALIVE : COUNTD_BOARD_DEAD;
}

int
board_lock_table(struct countd_board *b)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int rc = -EBUSY;

    (void)pthread_mutex_lock(&handles_mutex);
    for (int i = 0; i < TABLE_TRIES && rc == -EBUSY; i++) {
        if (i > 0)
            (void)nanosleep(&pause, NULL); /* cut short: the next try */
        rc = board_lock_try(b->fd, BOARD_LOCK_TABLE);
    }
    if (rc < 0)
        (void)pthread_mutex_unlock(&handles_mutex);
    return rc;
}

void
board_unlock_table(struct countd_board *b)
{
    board_lock_drop(b->fd, BOARD_LOCK_TABLE);
    (void)pthread_mutex_unlock(&handles_mutex);
}

/* ---- fork() ------------------------------------------------------------ */

static void
before_fork(void)
{
    (void)pthread_mutex_lock(&handles_mutex);
}

static void
after_fork(void)
{
    (void)pthread_mutex_unlock(&handles_mutex);
}

/* Opens the board anew in the child, where only this thread runs.  Were the
 * parent's open file shared, its locks would outlive it.  Without /proc there
 * is no way back to the file: the child can read, and all else fails. */
static void
reopen_board(struct countd_board *b)
{
    char path[64];
    int fd;

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", b->fd);
    fd = open(path, (b->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    if (fd >= 0 && dup3(fd, b->fd, O_CLOEXEC) >= 0) {
        (void)close(fd);
        return;
    }
    (void)close(b->fd);
    b->fd = -1;
}

static void
after_fork_in_child(void)
{
    atomic_fetch_add_explicit(&board_forks_count, 1, memory_order_relaxed);
    for (struct countd_board *b = handles; b; b = b->next)
        reopen_board(b);
    (void)pthread_mutex_unlock(&handles_mutex);
}

int
board_handle_add(struct countd_board *b)
{
    int rc = 0;

    (void)pthread_mutex_lock(&handles_mutex);
    if (!is_watched &&
        pthread_atfork(before_fork, after_fork, after_fork_in_child) != 0)
        rc = -ENOMEM;
    is_watched |= rc == 0;
    if (rc == 0) {
        b->next = handles;
        handles = b;
    }
    (void)pthread_mutex_unlock(&handles_mutex);
    return rc;
}

void
board_handle_remove(struct countd_board *b)
{
    struct countd_board **at = &handles;

    (void)pthread_mutex_lock(&handles_mutex);
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    (void)pthread_mutex_unlock(&handles_mutex);
}

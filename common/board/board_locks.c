/* common/board/board_locks.c - locks that end with the open file they were
 * taken on; see board_internal.h.
 *
 * Only these parts of a board need the kernel: being the master, changing the
 * table of processes, and judging a process to be dead.
 */
#include "common/board/board_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define TABLE_TRIES 1000 /* of a millisecond */

static struct flock
lock_range(short type, enum board_lock which)
{
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = which, .l_len = 1};
}

int
board_lock_try(int fd, enum board_lock which)
{
    struct flock l = lock_range(F_WRLCK, which);

    if (fcntl(fd, F_OFD_SETLK, &l) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
}

void
board_lock_drop(int fd, enum board_lock which)
{
    struct flock l = lock_range(F_UNLCK, which);

    (void)fcntl(fd, F_OFD_SETLK, &l); /* giving up cannot fail */
}

bool
board_lock_is_held(int fd, enum board_lock which)
{
    struct flock l = lock_range(F_RDLCK, which);

    return fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

int
board_lock_table(const struct countd_board *b)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    char path[64];
    int fd, rc = -EBUSY;

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", b->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (int i = 0; i < TABLE_TRIES && rc == -EBUSY; i++) {
        if (i > 0)
            (void)nanosleep(&pause, NULL); /* cut short: the next try */
        rc = board_lock_try(fd, BOARD_LOCK_TABLE);
    }
    if (rc == 0)
        return fd;
    (void)close(fd);
    return rc;
}

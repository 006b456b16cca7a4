/* common/client/lib/forks.h - whether a handle is used in the process that
 * opened it.
 *
 * A forked child gets copies of the handles, of locks that threads it does not
 * have may hold, and the very connections of its parent.  Asking getpid() at
 * each call would tell it, and cost a system call; instead the child counts
 * itself when it is born.  One made past the C library's fork() does not.
 */
#ifndef COUNTD_CLIENT_FORKS_H
#define COUNTD_CLIENT_FORKS_H

#include <stdatomic.h>
#include <stdbool.h>

/* How many forks away this process is from the first that watched. */
extern atomic_uint forks_count;

/* Counts forks from now on, and tells how many there have been.
 *   -ENOMEM  */
int forks_watch(unsigned *now);

/* True in a child that was forked after forks_watch() said `then`. */
static inline bool
forks_since(unsigned then)
{
    /* Only a fork changes it, and that has one thread. */
    return atomic_load_explicit(&forks_count, memory_order_relaxed) != then;
}

#endif

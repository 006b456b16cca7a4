/* common/client/lib/forks.c - see forks.h. */
#include "common/client/lib/forks.h"

#include <pthread.h>

atomic_uint forks_count;

static atomic_bool watched;

/* Runs in a child that has but this thread: no locks here. */
static void
count_fork(void)
{
    atomic_fetch_add_explicit(&forks_count, 1, memory_order_relaxed);
}

int
forks_watch(unsigned *now)
{
    int rc;

    /* Without a lock, which a fork could copy while it is held.  Two threads
     * at once may make each fork count twice: that does no harm. */
    if (!atomic_load(&watched)) {
        rc = -pthread_atfork(NULL, NULL, count_fork);
        if (rc < 0)
            return rc;
        atomic_store(&watched, true);
    }
    *now = atomic_load_explicit(&forks_count, memory_order_relaxed);
    return 0;
}

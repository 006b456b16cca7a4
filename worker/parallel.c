/* worker/parallel.c - see parallel.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/parallel.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct lane {
    void (*work)(void *ctx, unsigned lane);
    void *ctx;
    unsigned number;
    bool started;
    pthread_t thread;
};

static void *
run_lane(void *arg)
{
    struct lane *l = arg;

    l->work(l->ctx, l->number);
    return NULL;
}

void
parallel_run(unsigned count, void (*work)(void *ctx, unsigned lane), void *ctx)
{
    struct lane lanes[PARALLEL_MAX];

    assert(count >= 1 && count <= PARALLEL_MAX);
    for (unsigned i = 0; i < count; i++) {
        struct lane *l = &lanes[i];

        *l = (struct lane){.work = work, .ctx = ctx, .number = i};
        l->started =
            i > 0 && pthread_create(&l->thread, NULL, run_lane, l) == 0;
    }
    for (unsigned i = 0; i < count; i++)
        if (!lanes[i].started)
            work(ctx, i);
    for (unsigned i = 0; i < count; i++)
        if (lanes[i].started)
            (void)pthread_join(lanes[i].thread,
                               NULL); /* of ours: cannot fail */
}

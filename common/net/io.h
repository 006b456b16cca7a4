/* common/net/io.h - a thread that waits for the disk, or for a server, so that the
 * loop does not.
 *
 * Jobs run one after the other in the order pushed; each is handed back to
 * the loop's thread, where its `done` is called.  Between io_push() and
 * `done` a job, and whatever it carries, belongs to the I/O thread.
 *
 * The writer has two: one only syncs, so that a reply never waits for the
 * other, which makes, begins and seals logs.  countd-read has some where the
 * counters are in a database (reader/remote.h).
 *
 * Ownership: struct io and the jobs are the caller's; nothing allocates.
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_IO_H
#define COUNTD_COMMON_NET_IO_H

#include <pthread.h>
#include <stdbool.h>

#include "common/base/list.h"
#include "common/net/loop.h"

struct io_job {
    void (*run)(struct io_job *job);  /* in the I/O thread; may block */
    void (*done)(struct io_job *job); /* in the loop; may push again */
    struct list_link link;            /* io.c's */
};

struct io {
    struct loop *loop;
    struct loop_source source; /* the eventfd that signals finished jobs */
    pthread_t thread;
    pthread_mutex_t mutex; /* of everything below */
    pthread_cond_t wake;
    struct list_link todo, finished; /* jobs */
    bool stopping;
};

int io_start(struct io *io, struct loop *loop);
void io_push(struct io *io, struct io_job *job);

/* Runs what is queued to its end and joins the thread; `done` is not called
 * any more. */
void io_stop(struct io *io);

#endif

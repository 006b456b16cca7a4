/* reader/remote_internal.h - what remote.c, which has threads make calls, and
 * remote_engine.c, which asks and makes them, share. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_REMOTE_INTERNAL_H
#define COUNTD_READER_REMOTE_INTERNAL_H

#include "common/net/io.h"
#include "reader/remote.h"

enum remote_kind { REMOTE_READ, REMOTE_HISTORY, REMOTE_LIST };

/* One malloc(), with all that its pointers point to behind it. */
struct remote_call {
    struct io_job job;
    struct remote *remote;
    struct remote_thread *thread; /* that makes it */
    struct remote_asker *asker;   /* NULL: it was forgotten */
    struct list_link link;        /* of the asker's calls */
    struct list_link queued;      /* in r->waiting */
    enum remote_kind kind;
    bool is_made;
    int error;
    struct store_as_of bound; /* of its snapshots */

    struct store_query query; /* READ; of LIST only `after` */
    int64_t claim;            /* of as_of, when it was asked */
    uint8_t *rows; /* also of LIST: names and their numbers of keys */
    size_t capacity;

    struct store_history_query history;       /* HISTORY */
    const struct store_history_query *theirs; /* where the asker's is */

    struct remote_listing *listing; /* LIST */
    size_t count;                   /* rows; error -EAGAIN: there are more */
};

struct remote_listing {
    struct store_listing listing;
    struct remote *remote;
    struct remote_call *call; /* NULL: none */
    const uint8_t *next;      /* row of it */
    size_t taken;             /* rows before that */
    uint8_t after[STORE_NAME_MAX];
    size_t after_size;
};

struct remote_thread {
    struct io io;
    struct store *store;
    struct remote_call *call; /* NULL: it is idle */
};

struct remote {
    struct store store; /* first: the handle */
    struct remote_thread threads[REMOTE_THREADS];
    unsigned opened;  /* handles */
    unsigned started; /* threads */
    unsigned busy;    /* of these */
    struct list_link waiting;
    struct as_of *as_of;
    struct remote_asker *asker; /* NULL: none */
    bool again;
    bool is_down; /* the last call was not answered */
    char trouble[512];
};

static inline struct remote *
remote_of(struct store *s)
{
    return (struct remote *)(void *)s;
}

/* ---- remote.c ---- */

/* Makes a call of the asker with `size` bytes behind it: 0, or an error. */
int remote_call_new(struct remote *r, enum remote_kind kind, size_t size,
                    struct remote_call **out, uint8_t **at);

/* It is made from now on: -EAGAIN. */
int remote_call_push(struct remote_call *c);

/* The next of the asker's calls, after `c` (NULL: the first). */
struct remote_call *remote_call_next(const struct remote *r,
                                     struct remote_call *c);

/* The call is not wanted any more; a thread may still make it. */
void remote_call_drop(struct remote_call *c);

/* ---- remote_engine.c ---- */

extern const struct store_engine remote_engine;

/* Lowers what snapshots had to what another had. */
void remote_lower_bound(struct store_as_of *bound,
                        const struct store_as_of *to);

/* In a thread: makes the call of this job with the thread's store. */
void remote_call_make(struct io_job *job);

#endif

/* reader/remote.h - an engine that is not local, for a loop that never waits for
 * it: a store whose calls are made by threads.
 *
 * Each thread has a handle of the engine, and with it a connection.  A call that
 * the loop makes for an asker is noted, and returns -EAGAIN; a thread makes it,
 * and the asker is woken when all its calls have been made.  Then the same is
 * asked again, and is answered:
 *
 *     remote_begin(r, &job->asker, false);
 *     done = step(job);                   // store_read(): -EAGAIN
 *     remote_end(r);
 *     if (!done && remote_is_asking(&job->asker))
 *         ... the loop goes on until asker.wake() ...
 *
 * What makes its answer from the beginning each time (`again`) has every answer
 * as often as it asks, until remote_forget(); a step that goes on where it was
 * has it once.  Each query is a call, and has a snapshot of its own.
 *
 * The as_of of an answer is from before its snapshot: remote_as_of() has what was
 * claimed when it was asked for, and what the snapshot had then.
 *
 * A question about history is to stay where it is, as it is, until it is answered
 * or forgotten: it is known again by its place.
 *
 * While the server does not answer, one call at a time finds out whether it does
 * again, and the others fail at once (-EHOSTDOWN), as do further ones of an asker
 * that has waited for it: an asker waits once.
 *
 * Ownership: the store, which store_close() ends, owns the handles that it was
 * given.  An asker is its owner's, and is forgotten before its memory goes.
 * Errors: as store.h; -EAGAIN means that and nothing else. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_REMOTE_H
#define COUNTD_READER_REMOTE_H

#include "common/base/list.h"
#include "common/net/loop.h"
#include "common/store/as_of.h"

#define REMOTE_THREADS 4
#define REMOTE_NAMES   256 /* of a list, in one call */
/* Time for a question about history, until others have their turn. */
#define REMOTE_STEP_NS UINT64_C(20000000)

struct remote;

struct remote_asker {
    void (*wake)(struct remote_asker *a);
    struct list_link calls;   /* of it, made or not */
    unsigned asking;          /* calls that are not made yet */
    bool has_failed;          /* one was not answered by the server */
    struct store_as_of bound; /* what the snapshots of all had */
};

/* `open` makes the handle of a thread.  The store is for store_read() and the
 * rest, and is ready for them after remote_start().  -ENOMEM, or what it says. */
int remote_open(struct remote **out,
                int (*open)(void *ctx, unsigned thread, struct store **store),
                void *ctx);
struct store *remote_store(struct remote *r);

/* Starts the threads; askers are woken in this loop until remote_stop(), which
 * waits for calls that are being made.  as_of, which is borrowed, has the claims
 * before an answer, and asks remote_as_of(). */
int remote_start(struct remote *r, struct loop *loop, struct as_of *as_of);
void remote_stop(struct remote *r);

void remote_asker_init(struct remote_asker *a,
                       void (*wake)(struct remote_asker *a));

/* Calls are of this asker, until remote_end(). */
void remote_begin(struct remote *r, struct remote_asker *a, bool again);
void remote_end(struct remote *r);

static inline bool
remote_is_asking(const struct remote_asker *a)
{
    return a->asking > 0;
}

/* Drops all that the asker has asked, and ends what remote_begin() began for it. */
void remote_forget(struct remote *r, struct remote_asker *a);

/* The claim about the keyspace before the asker's answers were read, and what
 * their snapshots had.  False: there was none.  `ctx` is the remote:
 * for struct as_of. */
bool remote_as_of(void *ctx, const uint8_t *name, size_t size, int64_t *claim,
                  struct store_as_of *had);

#endif

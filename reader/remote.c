/* reader/remote.c - see remote.h: remote_open(), remote_start(), remote_begin(),
 * remote_forget().
 *
 * A call waits in r->waiting until a thread is idle, then it is that thread's
 * until call_made(), in the loop: no two threads ever see one call. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/remote_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- calls ---------------------------------------------------------------- */

/* The call has its answer, or fails. */
static void
end_call(struct remote_call *c)
{
    struct remote_asker *a = c->asker;

    c->is_made = true;
    if (!a) {
        free(c);
        return;
    }
    if (c->error == -EHOSTDOWN)
        a->has_failed = true;
    else
        remote_lower_bound(&a->bound, &c->bound);
    if (--a->asking == 0)
        a->wake(a);
}

static struct remote_thread *
find_idle(struct remote *r)
{
    for (unsigned i = 0; i < r->started; i++)
        if (!r->threads[i].call)
            return &r->threads[i];
    return NULL;
}

/* Whether a call fails at once: another finds out whether the server answers
 * again. */
static bool
is_refused(const struct remote *r)
{
    return r->is_down && r->busy > 0;
}

/* Gives calls to idle threads.  While the server is down none waits. */
static void
give_calls(struct remote *r)
{
    while (!list_alone(&r->waiting)) {
        struct remote_thread *t = find_idle(r);
        struct remote_call *c;

        if (!t && !is_refused(r))
            return;
        c = LOOP_OWNER(list_pop(&r->waiting), struct remote_call, queued);
        if (is_refused(r)) {
            c->error = -EHOSTDOWN;
            end_call(c);
            continue;
        }
        t->call = c;
        c->thread = t;
        r->busy++;
        io_push(&t->io, &c->job);
    }
}

static void
call_made(struct io_job *job)
{
    struct remote_call *c = LOOP_OWNER(job, struct remote_call, job);
    struct remote *r = c->remote;
    const bool goes_on = c->kind == REMOTE_HISTORY && c->error == -EAGAIN;

    r->is_down = c->error == -EHOSTDOWN;
    if (r->is_down)
        (void)snprintf(r->trouble, sizeof r->trouble, "%s",
                       store_trouble(c->thread->store));
    c->thread->call = NULL;
    c->thread = NULL;
    r->busy--;
    if (goes_on && c->asker)
        list_add(&r->waiting, &c->queued);
    else
        end_call(c);
    give_calls(r);
}

int
remote_call_new(struct remote *r, enum remote_kind kind, size_t size,
                struct remote_call **out, uint8_t **at)
{
    struct remote_asker *a = r->asker;
    struct remote_call *c;

    if (!a || a->has_failed || is_refused(r))
        return -EHOSTDOWN;
    *out = c = malloc(sizeof *c + size);
    if (!c)
        return -ENOMEM;
    *c = (struct remote_call){
        .job = {.run = remote_call_make, .done = call_made},
        .remote = r,
        .asker = a,
        .kind = kind,
        .bound = {UINT64_MAX, UINT64_MAX}};
    *at = (uint8_t *)(c + 1);
    list_init(&c->link);
    list_add(&a->calls, &c->link);
    list_init(&c->queued);
    return 0;
}

int
remote_call_push(struct remote_call *c)
{
    c->asker->asking++;
    list_add(&c->remote->waiting, &c->queued);
    give_calls(c->remote);
    return -EAGAIN;
}

struct remote_call *
remote_call_next(const struct remote *r, struct remote_call *c)
{
    struct list_link *l;

    if (!r->asker)
        return NULL;
    l = c ? c->link.next : r->asker->calls.next;
    return l == &r->asker->calls ? NULL
                                 : LOOP_OWNER(l, struct remote_call, link);
}

void
remote_call_drop(struct remote_call *c)
{
    if (c->listing)
        c->listing->call = NULL;
    if (!c->is_made)
        c->asker->asking--;
    list_remove(&c->link);
    list_remove(&c->queued);
    if (c->thread)
        c->asker = NULL;
    else
        free(c);
}

int
remote_open(struct remote **out,
            int (*open)(void *ctx, unsigned thread, struct store **store),
            void *ctx)
{
    struct remote *r = calloc(1, sizeof *r);
    int rc = r ? 0 : -ENOMEM;

    if (!r)
        return rc;
    r->store.engine = &remote_engine;
    list_init(&r->waiting);
    while (rc == 0 && r->opened < REMOTE_THREADS) {
        rc = open(ctx, r->opened, &r->threads[r->opened].store);
        r->opened += rc == 0;
    }
    if (rc < 0) {
        store_close(&r->store);
        return rc;
    }
    *out = r;
    return 0;
}

struct store *
remote_store(struct remote *r)
{
    return &r->store;
}

int
remote_start(struct remote *r, struct loop *loop, struct as_of *as_of)
{
    int rc = 0;

    r->as_of = as_of;
    as_of->answered = remote_as_of;
    as_of->ctx = r;
    while (rc == 0 && r->started < REMOTE_THREADS) {
        rc = io_start(&r->threads[r->started].io, loop);
        r->started += rc == 0;
    }
    return rc;
}

void
remote_stop(struct remote *r)
{
    while (r->started > 0) {
        struct remote_thread *t = &r->threads[--r->started];

        io_stop(&t->io);
        if (t->call) { /* its end is not told any more */
            assert(!t->call->asker);
            free(t->call);
        }
    }
}

/* ---- askers ---------------------------------------------------------------- */

void
remote_asker_init(struct remote_asker *a, void (*wake)(struct remote_asker *a))
{
    *a = (struct remote_asker){.wake = wake, .bound = {UINT64_MAX, UINT64_MAX}};
    list_init(&a->calls);
}

void
remote_begin(struct remote *r, struct remote_asker *a, bool again)
{
    r->asker = a;
    r->again = again;
}

void
remote_end(struct remote *r)
{
    r->asker = NULL;
}

void
remote_forget(struct remote *r, struct remote_asker *a)
{
    while (!list_alone(&a->calls))
        remote_call_drop(
            LOOP_OWNER(list_pop(&a->calls), struct remote_call, link));
    remote_asker_init(a, a->wake);
    if (r->asker == a)
        r->asker = NULL;
}

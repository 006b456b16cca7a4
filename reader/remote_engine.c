/* reader/remote_engine.c - see remote.h: the functions of the engine, each of
 * which looks for its answer among the asker's calls, and otherwise makes a
 * call; and what a thread does with a call.
 *
 *     remote_call_make() - in a thread
 *     read_store(), read_history(), next_name() - in the loop
 *     remote_as_of() */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/remote_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/wire/query.h"

/* ---- what a thread does ------------------------------------------------- */

/* -EAGAIN has another meaning in this engine: a lock of another session ends
 * soon, and is reported like a server that does not answer. */
static int
error_of(int error)
{
    return error == -EAGAIN ? -EHOSTDOWN : error;
}

static void
make_names(struct remote_call *c, struct store *s)
{
    const uint64_t until_ns = clock_ns() + REMOTE_STEP_NS;
    struct store_listing *l;
    struct store_listed found;
    int rc = store_listing_open(s, &l);

    if (rc < 0) {
        c->error = rc;
        return;
    }
    store_listing_start(l, c->query.after, c->query.after_size);
    for (uint8_t *at = c->rows;
         c->count < REMOTE_NAMES &&
         (rc = store_listing_next(l, until_ns, &found)) == 1;
         c->count++)
        at += query_row_put(at, found.keys, found.name,
                            (uint16_t)found.name_size);
    c->error = rc == 1 ? -EAGAIN : rc; /* there are more */
    store_listing_close(l);
}

void
remote_lower_bound(struct store_as_of *bound, const struct store_as_of *to)
{
    if (to->own_ms < bound->own_ms)
        bound->own_ms = to->own_ms;
    if (to->all_ms < bound->all_ms)
        bound->all_ms = to->all_ms;
}

void
remote_call_make(struct io_job *job)
{
    struct remote_call *c = LOOP_OWNER(job, struct remote_call, job);
    struct store *s = c->thread->store;
    struct store_as_of had;

    c->error = error_of(store_as_of(s, &had));
    if (c->error == 0) {
        remote_lower_bound(&c->bound, &had);
        if (c->kind == REMOTE_READ)
            c->error = error_of(store_read(s, &c->query, c->rows, c->capacity));
        else if (c->kind == REMOTE_LIST)
            make_names(c, s);
        else
            c->error =
                store_history(s, &c->history, clock_ns() + REMOTE_STEP_NS);
    }
    store_read_end(s);
}

static const uint8_t *
copy_name(uint8_t **at, const uint8_t *name, size_t size)
{
    uint8_t *to = *at;

    if (size > 0)
        memcpy(to, name, size);
    *at += size;
    return to;
}

static bool
is_same(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    return a_size == b_size && (a_size == 0 || memcmp(a, b, a_size) == 0);
}

/* ---- reads -------------------------------------------------------------- */

static bool
is_same_query(const struct store_query *a, const struct store_query *b)
{
    return a->op == b->op && a->length == b->length &&
           (a->op == STORE_AROUND || a->offset == b->offset) &&
           is_same(a->name, a->name_size, b->name, b->name_size) &&
           is_same(a->key, a->key_size, b->key, b->key_size) &&
           is_same(a->prefix, a->prefix_size, b->prefix, b->prefix_size) &&
           is_same(a->after, a->after_size, b->after, b->after_size);
}

static int
take_answer(struct remote_call *c, struct store_query *to)
{
    const struct store_query *from = &c->query;
    int error;

    if (!c->is_made) /* a thread has it */
        return -EAGAIN;
    error = c->error;
    if (from->size > 0)
        memcpy(to->bytes, from->bytes, from->size);
    to->size = from->size;
    to->rows = from->rows;
    to->row = from->row;
    to->rank = from->rank;
    to->totals = from->totals;
    to->offset = from->offset;
    if (!c->remote->again)
        remote_call_drop(c);
    return error;
}

static int
ask_query(struct remote *r, const struct store_query *q)
{
    const size_t rows = store_query_size_max(q);
    struct remote_call *c;
    uint8_t *at;
    const int rc = remote_call_new(r, REMOTE_READ,
                                   q->name_size + q->key_size + q->prefix_size +
                                       q->after_size + rows,
                                   &c, &at);

    if (rc < 0)
        return rc;
    c->query = *q;
    c->query.name = copy_name(&at, q->name, q->name_size);
    c->query.key = copy_name(&at, q->key, q->key_size);
    c->query.prefix = copy_name(&at, q->prefix, q->prefix_size);
    c->query.after = copy_name(&at, q->after, q->after_size);
    c->claim = as_of_claim(r->as_of, q->name, q->name_size);
    c->rows = at;
    c->capacity = rows;
    return remote_call_push(c);
}

static int
read_store(struct store *s, struct store_query *q, size_t size_max)
{
    struct remote *r = remote_of(s);

    (void)size_max; /* the largest answer fits */
    for (struct remote_call *c = NULL; (c = remote_call_next(r, c)) != NULL;)
        if (c->kind == REMOTE_READ && is_same_query(&c->query, q))
            return take_answer(c, q);
    return ask_query(r, q);
}

bool
remote_as_of(void *ctx, const uint8_t *name, size_t size, int64_t *claim,
             struct store_as_of *had)
{
    const struct remote *r = ctx;

    if (r->asker)
        *had = r->asker->bound;
    for (struct remote_call *c = NULL; (c = remote_call_next(r, c)) != NULL;)
        if (c->kind == REMOTE_READ &&
            is_same(c->query.name, c->query.name_size, name, size)) {
            *claim = c->claim;
            *had = c->bound;
            return true;
        }
    return false;
}

/* ---- history ------------------------------------------------------------ */

/* Buckets that an answer may have; the engine refuses more. */
static size_t
count_buckets(const struct store_history_query *q)
{
    const size_t n =
        store_history_has_buckets(q) && q->step > 0 && q->to > q->from
            ? (q->to - q->from) / q->step
            : 0;

    return n < STORE_BUCKETS_MAX ? n : STORE_BUCKETS_MAX;
}

static size_t
count_top(const struct store_history_query *q)
{
    return q->op == STORE_HISTORY_TOP || q->op == STORE_HISTORY_STEP
               ? (size_t)q->length
               : 0;
}

/* Copies the answer into the caller's arrays. */
static int
take_history(struct remote_call *c, struct store_history_query *to)
{
    const struct store_history_query *from = &c->history;
    const struct store_history_query mine = *to;
    int error;

    if (!c->is_made) /* a thread has it */
        return -EAGAIN;
    error = c->error;
    *to = *from;
    to->name = mine.name;
    to->key = mine.key;
    to->prefix = mine.prefix;
    to->buckets = mine.buckets;
    to->top = mine.top;
    if (error == 0 && store_history_has_buckets(to))
        memcpy(to->buckets, from->buckets,
               count_buckets(&mine) * sizeof *to->buckets);
    if (error == 0 && count_top(to) > 0)
        memcpy(to->top, from->top, (size_t)from->rows * sizeof *to->top);
    remote_call_drop(c);
    return error;
}

static int
ask_history(struct remote *r, const struct store_history_query *q)
{
    const size_t buckets = count_buckets(q) * sizeof *q->buckets;
    const size_t top = count_top(q) * sizeof *q->top;
    struct remote_call *c;
    uint8_t *at;
    const int rc = remote_call_new(
        r, REMOTE_HISTORY,
        buckets + top + q->name_size + q->key_size + q->prefix_size, &c, &at);

    if (rc < 0)
        return rc;
    c->theirs = q;
    c->history = *q;
    c->history.buckets = (struct store_bucket *)(void *)at;
    c->history.top = (struct store_top *)(void *)(at + buckets);
    at += buckets + top;
    c->history.name = copy_name(&at, q->name, q->name_size);
    c->history.key = copy_name(&at, q->key, q->key_size);
    c->history.prefix = copy_name(&at, q->prefix, q->prefix_size);
    return remote_call_push(c);
}

static int
read_history(struct store *s, struct store_history_query *q, uint64_t until_ns)
{
    struct remote *r = remote_of(s);

    (void)until_ns; /* the loop does not wait at all */
    for (struct remote_call *c = NULL; (c = remote_call_next(r, c)) != NULL;)
        if (c->theirs == q)
            return take_history(c, q);
    return ask_history(r, q);
}

/* ---- lists of keyspaces ------------------------------------------------- */

static struct remote_listing *
listing_of(struct store_listing *l)
{
    return (struct remote_listing *)(void *)l;
}

static void
drop_names(struct remote_listing *l)
{
    if (l->call)
        remote_call_drop(l->call);
}

static void
close_listing(struct store_listing *listing)
{
    drop_names(listing_of(listing));
    free(listing_of(listing));
}

static void
start_listing(struct store_listing *listing, const uint8_t *after, size_t size)
{
    struct remote_listing *l = listing_of(listing);

    drop_names(l);
    l->after_size = size;
    if (size > 0)
        memcpy(l->after, after, size);
}

static int
ask_names(struct remote_listing *l)
{
    const size_t names =
        (size_t)REMOTE_NAMES * (QUERY_ROW_SIZE + STORE_NAME_MAX);
    struct remote_call *c;
    uint8_t *at;
    const int rc =
        remote_call_new(l->remote, REMOTE_LIST, names + l->after_size, &c, &at);

    if (rc < 0)
        return rc;
    c->rows = at;
    at += names;
    c->query.after = copy_name(&at, l->after, l->after_size);
    c->query.after_size = l->after_size;
    c->listing = l;
    l->call = c;
    l->next = c->rows;
    l->taken = 0;
    return remote_call_push(c);
}

static int
next_name(struct store_listing *listing, uint64_t until_ns,
          struct store_listed *out)
{
    struct remote_listing *l = listing_of(listing);
    const struct remote_call *c = l->call;
    struct query_row name;

    (void)until_ns; /* the loop does not wait at all */
    if (!c)
        return ask_names(l);
    if (!c->is_made)
        return -EAGAIN;
    if (l->taken == c->count) {
        const int rc = c->error;

        remote_call_drop(l->call);
        return rc == -EAGAIN ? ask_names(l) : rc;
    }
    l->taken++;
    l->next = query_row_get(l->next, &name);
    l->after_size = name.key_size;
    memcpy(l->after, name.key, name.key_size);
    *out = (struct store_listed){name.key, name.key_size, name.count};
    return 1;
}

/* ---- the engine --------------------------------------------------------- */

/* The marks of a keyspace only make as_of more recent, so nothing waits for
 * them. */
static int
read_marks(struct store *s, const struct store_batch *batch,
           struct store_mark_info *infos)
{
    (void)s;
    (void)batch;
    (void)infos;
    return -EHOSTDOWN;
}

static const char *
show_trouble(const struct store *s)
{
    return ((const struct remote *)(const void *)s)->trouble;
}

static void
close_store(struct store *s)
{
    struct remote *r = remote_of(s);

    for (unsigned i = 0; i < r->opened; i++)
        store_close(r->threads[i].store);
    free(r);
}

static int
open_listing(struct store *s, struct store_listing **out)
{
    struct remote_listing *l = calloc(1, sizeof *l);

    if (!l)
        return -ENOMEM;
    l->listing.engine = &remote_engine;
    l->remote = remote_of(s);
    *out = &l->listing;
    return 0;
}

const struct store_engine remote_engine = {
    .close = close_store,
    .marks = read_marks,
    .read = read_store,
    .history = read_history,
    .listing_open = open_listing,
    .listing_close = close_listing,
    .listing_start = start_listing,
    .listing_next = next_name,
    .trouble = show_trouble,
};

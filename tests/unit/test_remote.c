/* tests/unit/test_remote.c - a store whose calls threads make: the loop does not
 * wait, and what was asked is answered when it asks again. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/wire/query.h"
#include "reader/remote.h"

/* An engine that answers when the test lets it: a key's count is its size, and
 * the answer of a keyspace is its name's size. */
struct engine {
    struct store store; /* first */
    struct office *office;
};

struct asker {
    struct remote_asker asker;
    struct office *office;
    unsigned woken;
};

static struct office {
    struct loop *loop;
    struct remote *remote;
    struct engine engines[REMOTE_THREADS];
    struct asker askers[8];
    unsigned woken; /* askers, of all */
    struct as_of as_of;
    struct store_as_of had;

    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t changed;
    bool is_silent; /* calls wait */
    bool is_down;   /* and fail */
    unsigned inside, calls, closed;
    unsigned pieces; /* of a question about history */
} office;

/* A call comes in, and may have to wait. */
static bool
enter_engine(struct office *o)
{
    bool fails;

    /* A normal mutex, locked and unlocked in pairs: neither can fail. */
    (void)pthread_mutex_lock(&o->lock);
    o->calls++;
    o->inside++;
    (void)pthread_cond_broadcast(&o->changed);
    while (o->is_silent)
        (void)pthread_cond_wait(&o->changed, &o->lock);
    o->inside--;
    fails = o->is_down;
    (void)pthread_mutex_unlock(&o->lock);
    return !fails;
}

static int
fake_read(struct store *s, struct store_query *q, size_t size_max)
{
    assert(size_max >= QUERY_ROW_SIZE + q->key_size);
    if (!enter_engine(((struct engine *)(void *)s)->office))
        return -EHOSTDOWN;
    if (q->name[0] == 'n')
        return -ENOENT;
    q->row.count = (int64_t)q->key_size;
    q->totals.keys = q->name_size;
    q->rows = 1;
    q->size = query_row_put(q->bytes, (int64_t)q->name_size, q->key,
                            (uint16_t)q->key_size);
    return 0;
}

static int
fake_history(struct store *s, struct store_history_query *q, uint64_t until_ns)
{
    struct office *o = ((struct engine *)(void *)s)->office;
    const bool works = enter_engine(o);

    assert(until_ns > 0);
    if (!works)
        return -EHOSTDOWN;
    if (q->wants)
        q->rank += q->wants(q, (const uint8_t *)"the", 3);
    if (++q->done < o->pieces)
        return -EAGAIN;
    q->since = 7;
    if (q->op == STORE_HISTORY_KEYSPACE)
        q->buckets[(q->to - q->from) / q->step - 1].sum = 5;
    if (q->op == STORE_HISTORY_TOP)
        q->top[q->rows++].key_size = 3;
    return 0;
}

struct fake_listing {
    struct store_listing listing;
    struct office *office;
    unsigned at;
    char name[8];
};

static int
fake_listing_open(struct store *s, struct store_listing **out)
{
    struct fake_listing *l = calloc(1, sizeof *l);

    assert(l);
    l->listing.engine = s->engine;
    l->office = ((struct engine *)(void *)s)->office;
    *out = &l->listing;
    return 0;
}

static void
fake_listing_close(struct store_listing *l)
{
    free((struct fake_listing *)(void *)l);
}

static void
fake_listing_start(struct store_listing *listing, const uint8_t *after,
                   size_t size)
{
    struct fake_listing *l = (struct fake_listing *)(void *)listing;

    l->at = size == 0 ? 0 : (unsigned)atoi((const char *)after + 1) + 1;
}

/* 600 keyspaces: k0000 ... */
static int
fake_listing_next(struct store_listing *listing, uint64_t until_ns,
                  struct store_listed *out)
{
    struct fake_listing *l = (struct fake_listing *)(void *)listing;

    assert(until_ns > 0);
    if (l->at % REMOTE_NAMES == 0 && !enter_engine(l->office))
        return -EHOSTDOWN;
    if (l->at == 600)
        return 0;
    (void)snprintf(l->name, sizeof l->name, "k%04u", l->at++);
    *out = (struct store_listed){(const uint8_t *)l->name, 6, l->at};
    return 1;
}

static void
fake_close(struct store *s)
{
    ((struct engine *)(void *)s)->office->closed++;
}

static const char *
fake_trouble(const struct store *s)
{
    (void)s;
    return "it is silent";
}

/* Of the snapshot that the next call reads. */
static int
fake_as_of(struct store *s, struct store_as_of *out)
{
    (void)s;
    *out = office.had;
    return 0;
}

static const struct store_engine fake = {
    .close = fake_close,
    .as_of = fake_as_of,
    .read = fake_read,
    .history = fake_history,
    .listing_open = fake_listing_open,
    .listing_close = fake_listing_close,
    .listing_start = fake_listing_start,
    .listing_next = fake_listing_next,
    .trouble = fake_trouble,
};

/* ---- the office ----------------------------------------------------------- */

static int
open_engine(void *ctx, unsigned thread, struct store **store)
{
    struct office *o = ctx;

    o->engines[thread] = (struct engine){{.engine = &fake}, o};
    *store = &o->engines[thread].store;
    return 0;
}

static void
wake_asker(struct remote_asker *asker)
{
    struct asker *a = LOOP_OWNER(asker, struct asker, asker);

    a->woken++;
    a->office->woken++;
    loop_stop(a->office->loop);
}

static int
setup(void **state)
{
    struct office *o = &office;

    *o = (struct office){.loop = loop_new(),
                         .as_of = {.until_ms = 1, .as_of_ms = 100},
                         .had = {70, 90}};
    assert_non_null(o->loop);
    assert_rc(-pthread_mutex_init(&o->lock, NULL), 0);
    assert_rc(-pthread_cond_init(&o->changed, NULL), 0);
    assert_rc(remote_open(&o->remote, open_engine, o), 0);
    assert_rc(remote_start(o->remote, o->loop, &o->as_of), 0);
    for (size_t i = 0; i < 8; i++) {
        o->askers[i].office = o;
        remote_asker_init(&o->askers[i].asker, wake_asker);
    }
    *state = o;
    return 0;
}

static void
set_server(struct office *o, bool is_silent, bool is_down)
{
    (void)pthread_mutex_lock(&o->lock); /* as in enter_engine() */
    o->is_silent = is_silent;
    o->is_down = is_down;
    (void)pthread_cond_broadcast(&o->changed);
    (void)pthread_mutex_unlock(&o->lock);
}

static int
teardown(void **state)
{
    struct office *o = *state;

    set_server(o, false, false);
    for (size_t i = 0; i < 8; i++)
        remote_forget(o->remote, &o->askers[i].asker);
    remote_stop(o->remote);
    store_close(remote_store(o->remote));
    assert_int_equal(o->closed, REMOTE_THREADS);
    loop_free(o->loop);
    (void)pthread_cond_destroy(&o->changed); /* no thread waits on them */
    (void)pthread_mutex_destroy(&o->lock);
    return 0;
}

#define CASE(name) TEST_IN(name, struct office *o, setup, teardown)

static void
await_inside(struct office *o, unsigned count)
{
    (void)pthread_mutex_lock(&o->lock); /* as in enter_engine() */
    while (o->inside < count)
        (void)pthread_cond_wait(&o->changed, &o->lock);
    (void)pthread_mutex_unlock(&o->lock);
}

static void
await_woken(struct office *o, unsigned count)
{
    while (o->woken < count)
        assert_rc(loop_run(o->loop), 0);
}

/* Asks for the row of a key; the error. */
static int
ask_row(struct office *o, size_t i, bool again, const char *keyspace,
        const char *key, struct store_query *out)
{
    uint8_t row[QUERY_ROW_SIZE + STORE_NAME_MAX];
    struct store_query q = {.op = STORE_AROUND,
                            .length = 1,
                            .name = (const uint8_t *)keyspace,
                            .name_size = strlen(keyspace),
                            .key = (const uint8_t *)key,
                            .key_size = strlen(key)};

    remote_begin(o->remote, &o->askers[i].asker, again);
    (void)store_read(remote_store(o->remote), &q, row, sizeof row);
    remote_end(o->remote);
    if (q.error == 0) {
        assert_int_equal(q.rows, 1);
        assert_int_equal(get_le64s(row), strlen(keyspace));
        assert_memory_equal(row + QUERY_ROW_SIZE, key, strlen(key));
    }
    *out = q;
    return q.error;
}

CASE(an_answer_is_there_when_its_asker_is_woken)
{
    struct store_query q;

    assert_rc(ask_row(o, 0, true, "words", "the", &q), -EAGAIN);
    assert_true(remote_is_asking(&o->askers[0].asker));
    await_woken(o, 1);
    assert_false(remote_is_asking(&o->askers[0].asker));
    for (int i = 0; i < 3; i++) {
        assert_rc(ask_row(o, 0, true, "words", "the", &q), 0);
        assert_int_equal(q.row.count, 3);
    }
    assert_int_equal(o->calls, 1);
    assert_rc(ask_row(o, 0, true, "words", "of", &q), -EAGAIN);
    assert_rc(ask_row(o, 0, true, "none", "of", &q), -EAGAIN);
    await_woken(o, 2);
    assert_rc(ask_row(o, 0, true, "none", "of", &q), -ENOENT);
    assert_rc(ask_row(o, 0, true, "words", "of", &q), 0);
    remote_forget(o->remote, &o->askers[0].asker);
    assert_rc(ask_row(o, 0, true, "words", "of", &q), -EAGAIN);
    await_woken(o, 3);
}

CASE(what_goes_on_where_it_was_has_an_answer_once)
{
    struct store_query q;

    assert_rc(ask_row(o, 0, false, "words", "the", &q), -EAGAIN);
    assert_rc(ask_row(o, 0, false, "words", "the", &q), -EAGAIN);
    await_woken(o, 1);
    assert_int_equal(o->calls, 1);
    assert_rc(ask_row(o, 0, false, "words", "the", &q), 0);
    assert_rc(ask_row(o, 0, false, "words", "the", &q), -EAGAIN);
    await_woken(o, 2);
    assert_int_equal(o->calls, 2);
}

static bool
was_claimed(struct office *o, const char *name, int64_t *claim,
            struct store_as_of *had)
{
    *had = (struct store_as_of){UINT64_MAX, UINT64_MAX};
    return remote_as_of(o->remote, (const uint8_t *)name, strlen(name), claim,
                        had);
}

CASE(as_of_is_of_before_the_answer_was_read)
{
    struct store_as_of had;
    struct store_query q;
    int64_t claim = 0;

    assert_rc(ask_row(o, 0, true, "words", "the", &q), -EAGAIN);
    o->as_of.as_of_ms = 200;
    await_woken(o, 1);
    o->had = (struct store_as_of){300, 300}; /* of later snapshots */
    remote_begin(o->remote, &o->askers[0].asker, true);
    assert_true(was_claimed(o, "words", &claim, &had));
    assert_int_equal(claim, 100);
    assert_int_equal(had.all_ms, 70);
    assert_int_equal(had.own_ms, 90);
    assert_false(was_claimed(o, "other", &claim, &had));
    assert_int_equal(had.all_ms, 70);
    remote_begin(o->remote, &o->askers[1].asker, true);
    assert_false(was_claimed(o, "words", &claim, &had));
    assert_true(had.all_ms == UINT64_MAX);
    remote_end(o->remote);
    assert_false(was_claimed(o, "words", &claim, &had));
}

CASE(while_the_server_is_down_one_call_finds_out_and_the_others_fail)
{
    struct store_query q;

    set_server(o, true, true);
    for (size_t i = 0; i < 6; i++)
        assert_rc(ask_row(o, i, true, "words", "the", &q), -EAGAIN);
    await_inside(o, REMOTE_THREADS); /* and two wait for a thread */
    set_server(o, false, true);
    await_woken(o, 6);
    for (size_t i = 0; i < 6; i++)
        assert_rc(ask_row(o, i, true, "words", "the", &q), -EHOSTDOWN);
    assert_string_equal(store_trouble(remote_store(o->remote)), "it is silent");
    assert_rc(ask_row(o, 0, true, "words", "of", &q), -EHOSTDOWN);
    remote_forget(o->remote, &o->askers[0].asker);

    set_server(o, true, true);
    assert_rc(ask_row(o, 6, true, "words", "the", &q), -EAGAIN); /* finds out */
    assert_rc(ask_row(o, 0, true, "words", "of", &q), -EHOSTDOWN);
    assert_rc(ask_row(o, 7, true, "words", "the", &q), -EHOSTDOWN);
    set_server(o, false, false);
    await_woken(o, 7);
    assert_rc(ask_row(o, 6, true, "words", "the", &q), 0);
    assert_rc(ask_row(o, 7, true, "words", "the", &q), -EAGAIN);
    await_woken(o, 8);
    assert_rc(ask_row(o, 7, true, "words", "the", &q), 0);
}

CASE(what_is_forgotten_wakes_nobody)
{
    struct store_query q;

    set_server(o, true, false);
    for (size_t i = 0; i < 6; i++)
        assert_rc(ask_row(o, i, true, "words", "the", &q), -EAGAIN);
    await_inside(o, REMOTE_THREADS);
    for (size_t i = 0; i < 5; i++)
        remote_forget(o->remote, &o->askers[i].asker);
    set_server(o, false, false);
    await_woken(o, 1);
    assert_int_equal(o->askers[5].woken, 1);
    assert_int_equal(o->calls, REMOTE_THREADS + 1); /* one never began */
}

CASE(history_is_read_in_pieces_and_answered_in_the_callers_arrays)
{
    struct store_bucket buckets[3] = {{0}};
    struct store_top top[2] = {{.key_size = 0}};
    struct store_history_query q = {.op = STORE_HISTORY_KEYSPACE,
                                    .name = (const uint8_t *)"words",
                                    .name_size = 5,
                                    .to = 6,
                                    .step = 2,
                                    .buckets = buckets};
    struct store_history_query t = {.op = STORE_HISTORY_TOP,
                                    .name = (const uint8_t *)"words",
                                    .name_size = 5,
                                    .to = 6,
                                    .top = top,
                                    .length = 2};
    struct store *s = remote_store(o->remote);

    o->pieces = 3;
    remote_begin(o->remote, &o->askers[0].asker, false);
    assert_rc(store_history(s, &q, 1), -EAGAIN);
    assert_rc(store_history(s, &t, 0), -EAGAIN);
    assert_rc(store_history(s, &q, 1), -EAGAIN);
    await_woken(o, 1);
    assert_int_equal(o->calls, 6);
    assert_rc(store_history(s, &t, 1), 0);
    assert_true(t.top == top && t.rows == 1 && top[0].key_size == 3);
    assert_rc(store_history(s, &q, 1), 0);
    assert_true(q.buckets == buckets && buckets[2].sum == 5);
    assert_int_equal(q.since, 7);
    remote_end(o->remote);
}

static bool
wants(const struct store_history_query *q, const uint8_t *key, size_t size)
{
    return q->wants_from == 2 && size == 3 && memcmp(key, "the", 3) == 0;
}

/* A thread may still ask when the asker has gone. */
CASE(which_keys_count_is_asked_of_a_copy_of_the_question)
{
    struct store_history_query *q = malloc(sizeof *q);
    struct store *s = remote_store(o->remote);

    assert_non_null(q);
    *q = (struct store_history_query){.op = STORE_HISTORY_RANK,
                                      .name = (const uint8_t *)"words",
                                      .name_size = 5,
                                      .wants = wants,
                                      .wants_from = 2};
    remote_begin(o->remote, &o->askers[0].asker, false);
    assert_rc(store_history(s, q, 1), -EAGAIN);
    await_woken(o, 1);
    assert_rc(store_history(s, q, 1), 0);
    assert_true(q->rank == 1 && q->wants == wants);

    set_server(o, true, false);
    assert_rc(store_history(s, q, 1), -EAGAIN);
    await_inside(o, 1);
    remote_forget(o->remote, &o->askers[0].asker);
    free(q);
    set_server(o, false, false);
    remote_stop(o->remote); /* the call is over */
}

CASE(a_list_goes_on_behind_its_last_name)
{
    struct store *s = remote_store(o->remote);
    struct store_listing *l;
    struct store_listed found;
    unsigned count = 0;
    int rc;

    assert_rc(store_listing_open(s, &l), 0);
    store_listing_start(l, NULL, 0);
    do {
        remote_begin(o->remote, &o->askers[0].asker, false);
        while ((rc = store_listing_next(l, 0, &found)) == 1)
            assert_int_equal(found.keys, ++count);
        remote_end(o->remote);
        if (rc == -EAGAIN)
            await_woken(o, o->woken + 1);
    } while (rc == -EAGAIN);
    assert_rc(rc, 0);
    assert_int_equal(count, 600);

    set_server(o, true, false);
    store_listing_start(l, NULL, 0);
    remote_begin(o->remote, &o->askers[0].asker, false);
    assert_rc(store_listing_next(l, 0, &found), -EAGAIN);
    remote_end(o->remote);
    await_inside(o, 1);
    store_listing_close(l);
    assert_false(remote_is_asking(&o->askers[0].asker));
}

/* common/client/lib/queries.c - libcountd: reading, from countd_ranges() to
 * countd_wait_readable(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/lib/countd.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/bytes.h"
#include "common/client/lib/exchange.h"
#include "common/client/lib/handle.h"
#include "common/wire/query.h"

static int
ask_range(const struct exchange *x, size_t index, struct query *q)
{
    const struct countd_ask *a = (const struct countd_ask *)x->asks + index;

    if (a->keyspace_size > QUERY_NAME_SIZE)
        return -ENAMETOOLONG;
    q->offset = a->offset;
    q->length = a->length;
    q->keyspace = a->keyspace;
    q->keyspace_size = (uint16_t)a->keyspace_size;
    return 0;
}

PUBLIC int
countd_ranges(struct countd *c, const struct countd_ask *asks, size_t count,
              struct countd_rows **out)
{
    struct exchange x = {.r = &c->reading,
                         .ask = ask_range,
                         .asks = asks,
                         .count = count,
                         .out = out};

    for (size_t i = 0; i < count; i++)
        out[i] = NULL;
    return exchange_run(&x);
}

PUBLIC int
countd_range(struct countd *c, const void *keyspace, size_t keyspace_size,
             int64_t offset, int64_t length, struct countd_rows **out)
{
    struct query q = {.op = QUERY_RANGE,
                      .keyspace = keyspace,
                      .offset = offset,
                      .length = length};

    return exchange_one(&c->reading, &q, keyspace_size, 0, false, out);
}

static int
run_one(struct countd *c, enum query_op op, const void *keyspace,
        size_t keyspace_size, const void *key, size_t key_size,
        struct countd_rows **out)
{
    struct query q = {.op = op, .keyspace = keyspace, .key = key};

    return exchange_one(&c->reading, &q, keyspace_size, key_size, false, out);
}

/* The number in the one row of the answer. */
static int
run_number(struct countd *c, enum query_op op, const void *keyspace,
           size_t keyspace_size, const void *key, size_t key_size,
           int64_t *number)
{
    struct countd_rows *rows = NULL;
    int rc;

    rc = run_one(c, op, keyspace, keyspace_size, key, key_size, &rows);
    if (rc < 0)
        return rc;
    assert(rows);
    if (rows->count == 0)
        rc = -ENOENT;
    else
        *number = rows->rows[0].count;
    countd_rows_free(rows);
    return rc;
}

PUBLIC int
countd_get(struct countd *c, const void *keyspace, size_t keyspace_size,
           const void *key, size_t key_size, int64_t *count)
{
    return run_number(c, QUERY_GET, keyspace, keyspace_size, key, key_size,
                      count);
}

PUBLIC int
countd_rank(struct countd *c, const void *keyspace, size_t keyspace_size,
            const void *key, size_t key_size, int64_t *rank)
{
    return run_number(c, QUERY_RANK, keyspace, keyspace_size, key, key_size,
                      rank);
}

PUBLIC int
countd_total(struct countd *c, const void *keyspace, size_t keyspace_size,
             int64_t *total)
{
    return run_number(c, QUERY_TOTAL, keyspace, keyspace_size, NULL, 0, total);
}

PUBLIC int
countd_keyspaces(struct countd *c, const void *after, size_t after_size,
                 struct countd_rows **out)
{
    return run_one(c, QUERY_KEYSPACES, after, after_size, NULL, 0, out);
}

PUBLIC void
countd_rows_free(struct countd_rows *rows)
{
    free(rows);
}

PUBLIC void
countd_read_timeout(struct countd *c, int timeout_ms)
{
    /* As in exchange_run(). */
    (void)pthread_mutex_lock(&c->reading.lock);
    c->reading.timeout_ms = timeout_ms;
    (void)pthread_mutex_unlock(&c->reading.lock);
}

PUBLIC int
countd_around(struct countd *c, const void *keyspace, size_t keyspace_size,
              const void *key, size_t key_size, int64_t length, int64_t *first,
              struct countd_rows **out)
{
    struct query q = {
        .op = QUERY_AROUND, .keyspace = keyspace, .key = key, .length = length};
    struct countd_rows *rows = NULL;
    int rc;

    rc = exchange_one(&c->reading, &q, keyspace_size, key_size, false, &rows);
    if (rc < 0)
        return rc;
    assert(rows);
    if (rows->count == 0) {
        countd_rows_free(rows);
        return -ENOENT;
    }
    *first = rows->rows[0].count;
    rows->rows++;
    rows->count--;
    *out = rows;
    return 0;
}

/* ---- many keys, and facts ---------------------------------------------- */

#define KEYS_AT_ONCE 256

static int
ask_key(const struct exchange *x, size_t index, struct query *q)
{
    const struct countd_key *k = (const struct countd_key *)x->asks + index;

    if (k->keyspace_size > QUERY_NAME_SIZE || k->key_size > QUERY_NAME_SIZE)
        return -ENAMETOOLONG;
    q->op = k->key_size > 0 ? QUERY_GET : QUERY_TOTAL;
    q->keyspace = k->keyspace;
    q->keyspace_size = (uint16_t)k->keyspace_size;
    q->key = k->key;
    q->key_size = (uint16_t)k->key_size;
    return 0;
}

/* At most KEYS_AT_ONCE of them. */
static int
get_some(struct countd *c, struct countd_key *keys, size_t count)
{
    struct countd_rows *rows[KEYS_AT_ONCE] = {NULL};
    int errors[KEYS_AT_ONCE] = {0};
    struct exchange x = {.r = &c->reading,
                         .ask = ask_key,
                         .asks = keys,
                         .count = count,
                         .out = rows,
                         .errors = errors};
    const int rc = exchange_run(&x);

    for (size_t i = 0; i < count; i++) {
        keys[i].result = errors[i];
        if (rows[i] && rows[i]->count == 0)
            keys[i].result = -ENOENT;
        else if (rows[i])
            keys[i].count = rows[i]->rows[0].count;
        countd_rows_free(rows[i]);
    }
    return rc;
}

PUBLIC int
countd_gets(struct countd *c, struct countd_key *keys, size_t count)
{
    int first = 0;

    for (size_t at = 0; at < count; at += KEYS_AT_ONCE) {
        const size_t left = count - at;
        const int rc =
            get_some(c, keys + at, left < KEYS_AT_ONCE ? left : KEYS_AT_ONCE);

        if (first == 0)
            first = rc;
    }
    return first;
}

static void
take_fact(struct countd_facts *f, const struct countd_row *row)
{
    const struct {
        const char *word;
        int64_t *to;
    } facts[] = {
        {"count", &f->count}, {"total", &f->count},         {"rank", &f->rank},
        {"keys", &f->keys},   {"saturated", &f->saturated},
    };

    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        if (bytes_equal(facts[i].word, strlen(facts[i].word), row->key,
                        row->key_size))
            *facts[i].to = row->count;
}

PUBLIC int
countd_about(struct countd *c, const void *keyspace, size_t keyspace_size,
             const void *key, size_t key_size, struct countd_facts *out)
{
    struct countd_facts facts = {0};
    struct countd_rows *rows = NULL;
    int rc;

    rc = run_one(c, QUERY_ABOUT, keyspace, keyspace_size, key, key_size, &rows);
    if (rc < 0)
        return rc;
    assert(rows);
    for (size_t i = 0; i < rows->count; i++)
        take_fact(&facts, &rows->rows[i]);
    facts.as_of_ms = rows->as_of_ms;
    rc = rows->count == 0 ? -ENOENT : 0;
    countd_rows_free(rows);
    *out = facts;
    return rc;
}

PUBLIC int
countd_keys(struct countd *c, const void *keyspace, size_t keyspace_size,
            const void *prefix, size_t prefix_size, const void *after,
            size_t after_size, int64_t length, struct countd_rows **out)
{
    struct query q = {.op = QUERY_KEYS,
                      .keyspace = keyspace,
                      .key = after,
                      .prefix = prefix,
                      .prefix_size = (uint16_t)prefix_size,
                      .length = length};

    if (prefix_size > QUERY_NAME_SIZE)
        return -ENAMETOOLONG;
    return exchange_one(&c->reading, &q, keyspace_size, after_size, false, out);
}

PUBLIC int
countd_keyspace_state(struct countd *c, const void *keyspace,
                      size_t keyspace_size, struct countd_keyspace_state *out)
{
    struct countd_rows *rows = NULL;
    int rc;

    rc = run_one(c, QUERY_VERSION, keyspace, keyspace_size, NULL, 0, &rows);
    if (rc < 0)
        return rc;
    assert(rows);
    *out = (struct countd_keyspace_state){.as_of_ms = rows->as_of_ms};
    if (rows->count == 2)
        *out = (struct countd_keyspace_state){(uint64_t)rows->rows[0].count,
                                              (uint64_t)rows->rows[1].count,
                                              rows->as_of_ms};
    rc = rows->count == 2 ? 0 : rows->count == 0 ? -ENOENT : -EPROTO;
    countd_rows_free(rows);
    return rc;
}

/* ---- waiting ----------------------------------------------------------- */

#define PAUSE_MAX_MS 50

/* The server's time, and up to when it is readable. */
static int
ask_now(struct countd *c, const void *keyspace, size_t keyspace_size,
        int64_t *now_ms, int64_t *as_of_ms)
{
    struct countd_rows *rows = NULL;
    int rc;

    rc = run_one(c, QUERY_NOW, keyspace, keyspace_size, NULL, 0, &rows);
    if (rc < 0)
        return rc;
    assert(rows);
    rc = rows->count == 1 ? 0 : -EPROTO;
    if (rc == 0)
        *now_ms = rows->rows[0].count;
    *as_of_ms = rows->as_of_ms;
    countd_rows_free(rows);
    return rc;
}

static void
pause_ms(unsigned ms)
{
    const struct timespec t = {.tv_nsec = (long)ms * 1000000};

    (void)nanosleep(&t, NULL); /* woken early, it asks sooner */
}

PUBLIC int
countd_wait_readable(struct countd *c, const void *keyspace,
                     size_t keyspace_size, int timeout_ms)
{
    const uint64_t deadline_ms = link_deadline(timeout_ms);
    int64_t target_ms, now_ms, as_of_ms;
    unsigned pause = 1;
    int rc;

    rc = countd_sync(c, timeout_ms);
    if (rc == 0)
        rc = ask_now(c, keyspace, keyspace_size, &target_ms, &as_of_ms);
    while (rc == 0 && as_of_ms < target_ms) {
        if (link_passed(deadline_ms))
            return -ETIMEDOUT;
        pause_ms(pause);
        pause = pause < PAUSE_MAX_MS / 2 ? 2 * pause : PAUSE_MAX_MS;
        rc = ask_now(c, keyspace, keyspace_size, &now_ms, &as_of_ms);
    }
    return rc;
}

/* common/client/lib/questions.c - libcountd: reading, by the documents of
 * countd-read: from countd_range() to countd_wait_readable().
 *
 * Each call asks one question and takes from the document what it returns; what
 * the documents are countd(7) says.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/bytes.h"
#include "common/client/lib/document.h"
#include "common/wire/name.h"

#define KEYS_AT_ONCE 256 /* of a question */

/* ---- rows ---------------------------------------------------------------- */

PUBLIC int
countd_range(struct countd *c, const struct countd_query *q,
             struct countd_rows **out)
{
    return document_rows(c, "range", DOCUMENT_RANGE | DOCUMENT_MAY_LACK, q,
                         out);
}

PUBLIC int
countd_around(struct countd *c, const struct countd_query *q,
              struct countd_rows **out)
{
    return document_rows(c, "around", DOCUMENT_N, q, out);
}

PUBLIC int
countd_keys(struct countd *c, const struct countd_query *q,
            struct countd_rows **out)
{
    return document_rows(c, "keys", DOCUMENT_N | DOCUMENT_MAY_LACK, q, out);
}

PUBLIC int
countd_keyspaces(struct countd *c, const struct countd_query *q,
                 struct countd_rows **out)
{
    return document_rows(c, "keyspaces", 0, q, out);
}

PUBLIC int
countd_period_top(struct countd *c, const struct countd_query *q,
                  struct countd_rows **out)
{
    return document_rows(c, "top", DOCUMENT_PERIOD | DOCUMENT_N, q, out);
}

PUBLIC int
countd_history(struct countd *c, const struct countd_query *q,
               struct countd_rows **out)
{
    const int64_t step = q->step;
    int rc;

    if (step <= 0 || step % 60 != 0 || q->from % step != 0 ||
        q->to % step != 0 || q->to == 0)
        return -EINVAL;
    rc = document_rows(c, "history", DOCUMENT_PERIOD | DOCUMENT_STEP, q, out);
    if (rc < 0 || (*out)->count == (uint64_t)((q->to - q->from) / step))
        return rc;
    countd_rows_free(*out);
    return -EPROTO;
}

PUBLIC void
countd_rows_free(struct countd_rows *rows)
{
    free(rows);
}

/* ---- facts --------------------------------------------------------------- */

/* The state of the keyspace, which is the version of the document. */
static void
take_state(const struct document *d, struct countd_facts *out)
{
    const char *tag = http_header(&d->answer, "ETag: W/\"");
    char *end;

    if (!tag)
        return;
    out->nonce = strtoull(tag, &end, 16);
    out->change = *end == '-' ? strtoull(end + 1, NULL, 16) : 0;
}

static int
ask_facts(struct document *d, struct countd_facts *out)
{
    struct countd_facts f = {.rank = -1};
    int rc = document_ask(d);

    while ((rc == 0 || rc == -ENOENT) && document_next(d)) {
        document_count(d, "count", &f.count, &f.sum);
        document_count(d, "total", &f.count, &f.sum);
        document_number(d, "rank", &f.rank);
        document_number(d, "keys", &f.keys);
        document_number(d, "groups", &f.keys);
        document_number(d, "saturated", &f.saturated);
        document_number(d, "as_of_ms", &f.as_of_ms);
        document_number(d, "since", &f.since);
        document_number(d, "from", &f.from);
        document_number(d, "to", &f.to);
        document_sum(d, "sum", &f.sum);
    }
    if (rc == 0)
        take_state(d, &f);
    rc = document_end(d);
    if (rc == 0 || rc == -ENOENT)
        *out = f;
    return rc;
}

PUBLIC int
countd_about(struct countd *c, const struct countd_query *q,
             struct countd_facts *out)
{
    struct document d;

    document_about(c, &d, q->key.size > 0 ? "rank" : "total", q);
    return ask_facts(&d, out);
}

static int
ask_period(struct countd *c, const struct countd_query *q,
           struct countd_facts *out)
{
    struct document d;

    document_about(c, &d, q->key.size > 0 ? "rank" : "distinct", q);
    document_put_period(&d, q);
    return ask_facts(&d, out);
}

PUBLIC int
countd_period_rank(struct countd *c, const struct countd_query *q,
                   struct countd_facts *out)
{
    struct countd_query all = *q;
    int rc = ask_period(c, q, out);

    if (rc != -ENOMSG)
        return rc;
    all.key.size = 0;
    rc = ask_period(c, &all, out);
    if (rc == 0)
        out->sum = (struct countd_sum){.any = 0};
    return rc;
}

/* ---- many keys ----------------------------------------------------------- */

/* Checks that it can be asked: 0, or why not. */
static int
check_key(const struct countd_key *k)
{
    if (k->keyspace.size > NAME_MAX_SIZE || k->key.size > NAME_MAX_SIZE)
        return -ENAMETOOLONG;
    return k->keyspace.size == 0 ? -EINVAL : 0;
}

/* How many of these keys are asked for in one question: of one keyspace, and as
 * many as fit. */
static size_t
put_keys(struct countd *c, struct document *d, const struct countd_key *keys,
         size_t count)
{
    const struct countd_key *k = keys;
    size_t n = 0;

    document_about(c, d, k->key.size > 0 ? "get" : "total",
                   &(struct countd_query){.keyspace = k->keyspace});
    if (k->key.size == 0)
        return 1;
    for (; n < count && n < KEYS_AT_ONCE && keys[n].key.size > 0 &&
           check_key(&keys[n]) == 0 &&
           bytes_equal(keys[n].keyspace.data, keys[n].keyspace.size,
                       k->keyspace.data, k->keyspace.size) &&
           document_has_room(d, keys[n].key.size);
         n++)
        document_put_name(d, "key", keys[n].key);
    return n;
}

/* Several keys have rows in the order of the question, one has a fact. */
static void
take_count(struct document *d, struct countd_key *keys, size_t count)
{
    const size_t at = d->in_rows ? d->row : 0;
    struct countd_key *k;

    if (at >= count || d->token == JSON_NULL ||
        !(document_is(d, "count") || document_is(d, "total")))
        return;
    k = &keys[at];
    document_number(d, "count", &k->count);
    document_number(d, "total", &k->count);
    k->result = 0;
}

/* Asks one question, and returns how many keys it was about. */
static size_t
get_some(struct countd *c, struct countd_key *keys, size_t count)
{
    struct document d;
    size_t n;
    int rc = check_key(keys);

    if (rc < 0) {
        keys->result = rc;
        return 1;
    }
    n = put_keys(c, &d, keys, count);
    for (size_t i = 0; i < n; i++)
        keys[i].result = -ENOENT;
    if (document_ask(&d) == 0)
        while (document_next(&d))
            take_count(&d, keys, n);
    rc = document_end(&d);
    for (size_t i = 0; rc < 0 && i < n; i++)
        keys[i].result = rc;
    return n;
}

/* An error of the connection, which the next question would meet, too. */
static bool
ends_all(int rc)
{
    return rc < 0 && rc != -ENOENT && rc != -EINVAL && rc != -ENAMETOOLONG &&
           rc != -EIO && rc != -EHOSTDOWN;
}

PUBLIC int
countd_gets(struct countd *c, struct countd_key *keys, size_t count)
{
    int first = 0, rc;

    for (size_t at = 0, n; at < count; at += n) {
        n = get_some(c, keys + at, count - at);
        rc = keys[at].result;
        for (size_t i = at + n; ends_all(rc) && i < count; i++)
            keys[i].result = rc;
        if (first == 0 && rc != -ENOENT)
            first = rc;
        if (ends_all(rc))
            break;
    }
    return first;
}

PUBLIC int
countd_get(struct countd *c, struct countd_name keyspace,
           struct countd_name key, int64_t *count)
{
    struct countd_key k = {.keyspace = keyspace, .key = key};

    if (key.size == 0)
        return -EINVAL;
    (void)countd_gets(c, &k, 1); /* its result says more */
    if (k.result == 0)
        *count = k.count;
    return k.result;
}

/* ---- waiting ------------------------------------------------------------- */

#define PAUSE_MAX_NS 4000000

PUBLIC void
countd_read_timeout(struct countd *c, int timeout_ms)
{
    /* As in document_begin(). */
    (void)pthread_mutex_lock(&c->asking.http.lock);
    c->asking.http.timeout_ms = timeout_ms;
    (void)pthread_mutex_unlock(&c->asking.http.lock);
}

/* The server's time, and up to when it is readable. */
static int
ask_now(struct countd *c, struct countd_name keyspace, int64_t *now_ms,
        int64_t *as_of_ms)
{
    struct document d;

    document_begin(&c->asking, &d, "now");
    if (keyspace.size > 0)
        document_put_name(&d, "keyspace", keyspace);
    if (document_ask(&d) == 0)
        while (document_next(&d)) {
            document_number(&d, "now_ms", now_ms);
            document_number(&d, "as_of_ms", as_of_ms);
        }
    return document_end(&d);
}

PUBLIC int
countd_as_of(struct countd *c, struct countd_name keyspace, int64_t *as_of_ms)
{
    int64_t now_ms;

    return ask_now(c, keyspace, &now_ms, as_of_ms);
}

PUBLIC int
countd_wait_readable(struct countd *c, struct countd_name keyspace,
                     int timeout_ms)
{
    const uint64_t deadline_ms = link_deadline(timeout_ms);
    int64_t target_ms = 0, now_ms, as_of_ms = 0;
    struct timespec pause = {.tv_nsec = 1000000};
    int rc;

    rc = countd_sync(c, timeout_ms);
    if (rc == 0)
        rc = ask_now(c, keyspace, &target_ms, &as_of_ms);
    while (rc == 0 && as_of_ms < target_ms) {
        if (link_passed(deadline_ms))
            return -ETIMEDOUT;
        (void)nanosleep(&pause, NULL); /* woken early, it asks sooner */
        if (pause.tv_nsec < PAUSE_MAX_NS)
            pause.tv_nsec *= 2;
        rc = ask_now(c, keyspace, &now_ms, &as_of_ms);
    }
    return rc;
}

/* common/client/lib/questions.c - libcountd: reading, by the documents of
 * countd-read: from countd_ranges() to countd_wait_readable().
 *
 * Each call asks one question and takes from the document what it returns; what
 * the documents are countd(7) says.  countd_ranges() and countd_range() alone are of another port.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "common/client/lib/document.h"
#include "common/client/lib/exchange.h"
#include "common/wire/name.h"

#define KEYS_AT_ONCE 256 /* of a question */

/* ---- ranges -------------------------------------------------------------- */

PUBLIC int
countd_ranges(struct countd *c, const struct countd_ask *asks, size_t count,
              struct countd_rows **out)
{
    struct exchange x = {
        .r = &c->reading, .asks = asks, .count = count, .out = out};

    for (size_t i = 0; i < count; i++)
        out[i] = NULL;
    return exchange_run(&x);
}

PUBLIC int
countd_range(struct countd *c, const void *keyspace, size_t keyspace_size,
             int64_t offset, int64_t length, struct countd_rows **out)
{
    const struct countd_ask ask = {keyspace, keyspace_size, offset, length};
    struct countd_rows *rows;
    const int rc = countd_ranges(c, &ask, 1, &rows);

    if (rc < 0)
        countd_rows_free(rows);
    else
        *out = rows;
    return rc;
}

/* ---- one number ---------------------------------------------------------- */

PUBLIC int
countd_about(struct countd *c, const void *keyspace, size_t keyspace_size,
             const void *key, size_t key_size, struct countd_facts *out)
{
    struct countd_facts facts = {0};
    struct document d;
    int rc;

    document_about(c, &d, key_size > 0 ? "rank" : "total", keyspace,
                   keyspace_size, key, key_size);
    rc = document_ask(&d);
    while ((rc == 0 || rc == -ENOENT) && document_next(&d)) {
        document_number(&d, "count", &facts.count);
        document_number(&d, "total", &facts.count);
        document_number(&d, "rank", &facts.rank);
        document_number(&d, "keys", &facts.keys);
        document_number(&d, "saturated", &facts.saturated);
        document_number(&d, "as_of_ms", &facts.as_of_ms);
    }
    rc = document_end(&d);
    if (rc == 0 || rc == -ENOENT)
        *out = facts;
    return rc;
}

static int
find_number(struct countd *c, const char *command, const void *keyspace,
            size_t keyspace_size, const void *key, size_t key_size,
            int64_t *out)
{
    struct document d;
    int64_t number = 0;
    int rc;

    document_about(c, &d, command, keyspace, keyspace_size, key, key_size);
    if (document_ask(&d) == 0)
        while (document_next(&d))
            document_number(&d, strcmp(command, "get") == 0 ? "count" : command,
                            &number);
    rc = document_end(&d);
    if (rc == 0)
        *out = number;
    return rc;
}

PUBLIC int
countd_get(struct countd *c, const void *keyspace, size_t keyspace_size,
           const void *key, size_t key_size, int64_t *count)
{
    if (key_size == 0)
        return -EINVAL;
    return find_number(c, "get", keyspace, keyspace_size, key, key_size, count);
}

PUBLIC int
countd_rank(struct countd *c, const void *keyspace, size_t keyspace_size,
            const void *key, size_t key_size, int64_t *rank)
{
    if (key_size == 0)
        return -EINVAL;
    return find_number(c, "rank", keyspace, keyspace_size, key, key_size, rank);
}

PUBLIC int
countd_total(struct countd *c, const void *keyspace, size_t keyspace_size,
             int64_t *total)
{
    return find_number(c, "total", keyspace, keyspace_size, NULL, 0, total);
}

PUBLIC int
countd_keyspace_state(struct countd *c, const void *keyspace,
                      size_t keyspace_size, struct countd_keyspace_state *out)
{
    struct countd_keyspace_state state = {.nonce = 0};
    struct document d;
    const char *tag;
    char *end = NULL;
    int rc;

    document_about(c, &d, "total", keyspace, keyspace_size, NULL, 0);
    rc = document_ask(&d);
    while ((rc == 0 || rc == -ENOENT) && document_next(&d))
        document_number(&d, "as_of_ms", &state.as_of_ms);
    tag = rc == 0 ? http_header(&d.answer, "ETag: W/\"") : NULL;
    if (tag)
        state.nonce = strtoull(tag, &end, 16);
    if (tag && *end == '-')
        state.change = strtoull(end + 1, NULL, 16);
    else if (rc == 0 && d.error == 0)
        d.error = -EPROTO;
    rc = document_end(&d);
    if (rc == 0 || rc == -ENOENT)
        *out = state;
    return rc;
}

/* ---- rows ---------------------------------------------------------------- */

/* The rows of a document in one piece: `name` is what their names are called,
 * `count` their numbers, which are -1 where there are none.  *first: the rank
 * of the first. */
static int
take_rows(struct document *d, const char *name, const char *count,
          int64_t *first, struct countd_rows **out)
{
    const size_t rows = document_rows_max(d);
    struct countd_rows *r =
        malloc(sizeof *r + rows * sizeof *r->rows + d->answer.size);
    uint8_t *at;

    if (!r)
        return -ENOMEM;
    *r = (struct countd_rows){.rows = (struct countd_row *)(r + 1)};
    at = (uint8_t *)(r->rows + rows);
    for (size_t i = 0; i < rows; i++)
        r->rows[i] = (struct countd_row){-1, (const char *)at, 0};
    while (document_next(d)) {
        struct countd_row *row = &r->rows[d->row];
        int name_size;

        if (!d->in_rows) {
            document_number(d, "as_of_ms", &r->as_of_ms);
            continue;
        }
        document_number(d, count, &row->count);
        if (d->row == 0)
            document_number(d, "rank", first);
        name_size = document_name(d, name, at);
        if (name_size < 0)
            continue;
        row->key = (const char *)at;
        row->key_size = (size_t)name_size;
        at += name_size;
        *at++ = '\0';
        document_plain_rows(d, r->rows, &at);
    }
    r->count = d->row;
    *out = r;
    return 0;
}

/* Rows of a keyspace that is not there. */
static int
take_no_rows(struct document *d, struct countd_rows **out)
{
    struct countd_rows *r = calloc(1, sizeof *r);

    if (!r)
        return -ENOMEM;
    d->error = 0;
    while (document_next(d))
        document_number(d, "as_of_ms", &r->as_of_ms);
    *out = r;
    return 0;
}

/* Asks for rows, and ends the question.  `if_none`: a keyspace that is not there
 * has none, and is no error. */
static int
ask_rows(struct document *d, const char *name, const char *count,
         int64_t *first, bool if_none, struct countd_rows **out)
{
    struct countd_rows *rows = NULL;
    int rc = document_ask(d);

    if (rc == 0)
        rc = take_rows(d, name, count, first, &rows);
    else if (rc == -ENOENT && if_none)
        rc = take_no_rows(d, &rows);
    rc = document_end_with(d, rc, rows);
    if (rc == 0)
        *out = rows;
    return rc;
}

int
document_range(struct countd *c, const void *keyspace, size_t keyspace_size,
               int64_t offset, int64_t length, int64_t *first,
               struct countd_rows **out)
{
    struct document d;

    document_about(c, &d, "range", keyspace, keyspace_size, NULL, 0);
    document_put_number(&d, "offset", offset, "");
    document_put_number(
        &d, "length", length > COUNTD_ROWS_MAX ? COUNTD_ROWS_MAX : length, "");
    return ask_rows(&d, "key", "count", first, true, out);
}

PUBLIC int
countd_around(struct countd *c, const void *keyspace, size_t keyspace_size,
              const void *key, size_t key_size, int64_t length, int64_t *first,
              struct countd_rows **out)
{
    struct document d;

    document_about(c, &d, "around", keyspace, keyspace_size, key, key_size);
    document_put_number(&d, "n", length, "");
    return ask_rows(&d, "key", "count", first, false, out);
}

PUBLIC int
countd_keys(struct countd *c, const void *keyspace, size_t keyspace_size,
            const void *prefix, size_t prefix_size, const void *after,
            size_t after_size, int64_t length, struct countd_rows **out)
{
    struct document d;
    int64_t first;

    document_about(c, &d, "keys", keyspace, keyspace_size, NULL, 0);
    if (prefix_size > 0)
        document_put_name(&d, "prefix", prefix, prefix_size);
    if (after_size > 0)
        document_put_name(&d, "after", after, after_size);
    document_put_number(
        &d, "n", length > COUNTD_ROWS_MAX ? COUNTD_ROWS_MAX : length, "");
    return ask_rows(&d, "key", "count", &first, true, out);
}

PUBLIC int
countd_keyspaces(struct countd *c, const void *after, size_t after_size,
                 struct countd_rows **out)
{
    struct document d;
    int64_t first;

    document_begin(&c->asking, &d, "keyspaces");
    if (after_size > 0)
        document_put_name(&d, "after", after, after_size);
    return ask_rows(&d, "keyspace", "keys", &first, false, out);
}

PUBLIC void
countd_rows_free(struct countd_rows *rows)
{
    free(rows);
}

/* ---- many keys ----------------------------------------------------------- */

/* Checks that it can be asked: 0, or why not. */
static int
check_key(const struct countd_key *k)
{
    if (k->keyspace_size > NAME_MAX_SIZE || k->key_size > NAME_MAX_SIZE)
        return -ENAMETOOLONG;
    return k->keyspace_size == 0 ? -EINVAL : 0;
}

/* How many of these keys are asked for in one question: of one keyspace, and as
 * many as fit. */
static size_t
put_keys(struct countd *c, struct document *d, const struct countd_key *keys,
         size_t count)
{
    const struct countd_key *k = keys;
    size_t n = 0;

    document_about(c, d, k->key_size > 0 ? "get" : "total", k->keyspace,
                   k->keyspace_size, NULL, 0);
    if (k->key_size == 0)
        return 1;
    for (; n < count && n < KEYS_AT_ONCE && keys[n].key_size > 0 &&
           check_key(&keys[n]) == 0 &&
           keys[n].keyspace_size == k->keyspace_size &&
           memcmp(keys[n].keyspace, k->keyspace, k->keyspace_size) == 0 &&
           document_has_room(d, keys[n].key_size);
         n++)
        document_put_name(d, "key", keys[n].key, keys[n].key_size);
    return n;
}

/* Several keys have rows in the order of the question, one has a fact. */
static void
take_count(struct document *d, struct countd_key *keys, size_t count)
{
    const size_t at = d->in_rows ? d->row : 0;
    struct countd_key *k;

    if (at >= count || d->token != JSON_NUMBER ||
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

/* ---- waiting ------------------------------------------------------------- */

#define PAUSE_MAX_MS 5

PUBLIC void
countd_read_timeout(struct countd *c, int timeout_ms)
{
    /* As in exchange_run() and document_begin(). */
    (void)pthread_mutex_lock(&c->reading.lock);
    c->reading.timeout_ms = timeout_ms;
    (void)pthread_mutex_unlock(&c->reading.lock);
    (void)pthread_mutex_lock(&c->asking.http.lock);
    c->asking.http.timeout_ms = timeout_ms;
    (void)pthread_mutex_unlock(&c->asking.http.lock);
}

/* The server's time, and up to when it is readable. */
static int
ask_now(struct countd *c, const void *keyspace, size_t keyspace_size,
        int64_t *now_ms, int64_t *as_of_ms)
{
    struct document d;

    document_begin(&c->asking, &d, "now");
    if (keyspace_size > 0)
        document_put_name(&d, "keyspace", keyspace, keyspace_size);
    if (document_ask(&d) == 0)
        while (document_next(&d)) {
            document_number(&d, "now_ms", now_ms);
            document_number(&d, "as_of_ms", as_of_ms);
        }
    return document_end(&d);
}

PUBLIC int
countd_as_of(struct countd *c, const void *keyspace, size_t keyspace_size,
             int64_t *as_of_ms)
{
    int64_t now_ms;

    return ask_now(c, keyspace, keyspace_size, &now_ms, as_of_ms);
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
    int64_t target_ms = 0, now_ms, as_of_ms = 0;
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

/* reader/answer.c - see answer.h: answer_start_turn(), answer_end_turn(),
 * answer_bound(), answer_error(), answer_add(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/answer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/wire/name.h"

static struct diag_repeat failures;

int
answer_init(struct answer *a, struct store *store, struct as_of *as_of)
{
    int rc;

    *a = (struct answer){
        .store = store, .as_of = as_of, .step_ms = ANSWER_STEP_MS};
    a->list.rows = malloc(QUERY_ROWS_MAX * ANSWER_ROW_MAX);
    rc = a->list.rows ? history_query_init(&a->history, store) : -ENOMEM;
    if (rc == 0)
        rc = store_listing_open(store, &a->list.from);
    if (rc < 0) {
        history_query_fini(&a->history);
        free(a->list.rows);
    }
    return rc;
}

void
answer_fini(struct answer *a)
{
    answer_end_turn(a);
    store_listing_close(a->list.from);
    history_query_fini(&a->history);
    free(a->list.rows);
}

void
answer_start_turn(struct answer *a, uint64_t now_ms)
{
    as_of_refresh(a->as_of, now_ms);
}

void
answer_end_turn(struct answer *a)
{
    store_read_end(a->store);
}

/* Whether an answer has no rows from the store. */
static bool
is_alone(const struct query *q)
{
    return q->op == QUERY_NOW || q->op == QUERY_ABOUT ||
           q->op == QUERY_VERSION || q->op == QUERY_AROUND;
}

size_t
answer_bound(const struct query *q)
{
    if (query_is_history(q->op))
        return history_query_bound(q);
    return QUERY_REPLY_SIZE +
           (q->op == QUERY_AROUND ? (size_t)QUERY_ROW_SIZE : 0) +
           (size_t)q->length * ANSWER_ROW_MAX;
}

size_t
answer_error(int error, uint8_t *out)
{
    const struct query_reply reply = {.rows = query_error(error)};

    query_reply_put(&reply, out);
    return QUERY_REPLY_SIZE;
}

/* ---- what is answered together ----------------------------------------- */

static enum store_op
op_of(const struct query *q)
{
    switch (q->op) {
    case QUERY_GET:
        return STORE_GET;
    case QUERY_RANK:
        return STORE_RANK;
    case QUERY_TOTAL:
    case QUERY_VERSION:
        return STORE_TOTAL;
    case QUERY_KEYS:
        return STORE_KEYS;
    case QUERY_ABOUT:
        return q->key_size > 0 ? STORE_RANK : STORE_TOTAL;
    case QUERY_AROUND:
        return STORE_AROUND;
    default:
        return STORE_RANGE;
    }
}

bool
answer_add(struct answer *a, const struct query *q)
{
    const bool alone = is_alone(q);
    struct store_query *to;

    assert(!answer_is_long(q));
    if (a->count == ANSWER_BATCH || (a->count > 0 && (alone || a->alone)))
        return false;
    a->alone = alone;
    if (alone)
        a->one = *q;
    a->bound += answer_bound(q);
    /* Now, before any snapshot that answers it. */
    a->as_of_ms[a->count] = as_of_get(a->as_of, q->keyspace, q->keyspace_size);
    to = &a->queries[a->count++];
    to->op = op_of(q);
    to->name = q->keyspace;
    to->name_size = q->keyspace_size;
    to->key = q->key;
    to->key_size = q->key_size;
    to->offset = q->offset;
    to->length = (uint64_t)q->length;
    to->prefix = q->prefix;
    to->prefix_size = q->prefix_size;
    to->after = q->key;
    to->after_size = q->key_size;
    return true;
}

static void
report_failure(const struct store_query *q)
{
    char name[NAME_TEXT_SIZE];

    name_escape(q->name, q->name_size, name);
    diag_repeating(&failures, DIAG_ERROR, "cannot read keyspace=%s: %s%s", name,
                   diag_text(q->error),
                   q->error == -EBADMSG ? "; countd check says where" : "");
}

/* Writes the heads before the rows of all answers up to the first that failed;
 * returns the size. */
static size_t
put_heads(struct answer *a, uint8_t *out, bool *failed)
{
    size_t size = 0;

    for (size_t i = 0; i < a->count; i++) {
        const struct store_query *q = &a->queries[i];
        const struct query_reply reply = {.rows = (int64_t)q->rows,
                                          .size = (int64_t)q->size,
                                          .as_of_ms = a->as_of_ms[i]};

        if (q->error < 0 && q->error != -ENOENT) {
            report_failure(q);
            *failed = true;
            return size + answer_error(q->error, out + size);
        }
        query_reply_put(&reply, out + size);
        size += QUERY_REPLY_SIZE;
        assert(q->size == 0 || q->bytes == out + size);
        size += q->size;
    }
    return size;
}

/* A row whose key is a word. */
static void
put_fact(struct query_reply *reply, uint8_t *out, const char *word,
         int64_t value)
{
    reply->size +=
        (int64_t)query_row_put(out + reply->size, value, (const uint8_t *)word,
                               (uint16_t)strlen(word));
    reply->rows++;
}

/* The facts of what has been read, at most three: there is room for a row with
 * the longest key. */
static void
put_facts(const struct store_query *q, bool of_version,
          struct query_reply *reply, uint8_t *out)
{
    const int64_t total = q->op == STORE_TOTAL ? get_le64s(q->bytes) : 0;

    if (q->error < 0)
        return;
    if (of_version) {
        put_fact(reply, out, "nonce", (int64_t)q->totals.nonce);
        put_fact(reply, out, "change", (int64_t)q->totals.change);
    } else if (q->op == STORE_TOTAL) {
        put_fact(reply, out, "total", total);
        put_fact(reply, out, "keys", (int64_t)q->totals.keys);
        put_fact(reply, out, "saturated", (int64_t)q->totals.saturated);
    } else {
        put_fact(reply, out, "count", q->row.count);
        put_fact(reply, out, "rank", (int64_t)q->rank);
        put_fact(reply, out, "saturated", q->row.saturated);
    }
}

/* The rank of the first row, as a row without key, before the rows. */
static void
put_around(const struct store_query *q, struct query_reply *reply, uint8_t *out)
{
    if (q->error < 0)
        return;
    put_fact(reply, out, "", q->offset);
    reply->rows += (int64_t)q->rows;
    reply->size += (int64_t)q->size;
}

/* Writes an answer without rows: the time, facts, or as_of_ms only. */
static size_t
put_alone(struct answer *a, struct store_reads *reads, uint8_t *out,
          bool *failed)
{
    const struct store_query *q = &a->queries[0];
    struct query_reply reply = {.as_of_ms = a->as_of_ms[0]};
    uint8_t *rows = out + QUERY_REPLY_SIZE;

    if (a->one.op == QUERY_NOW)
        put_fact(&reply, rows, "", (int64_t)clock_unix_ms());
    if (a->one.op != QUERY_NOW) {
        reads->head += a->one.op == QUERY_AROUND ? QUERY_ROW_SIZE : 0;
        (void)store_read(a->store, reads); /* there is room for one */
        if (q->error < 0 && q->error != -ENOENT) {
            report_failure(q);
            *failed = true;
            return answer_error(q->error, out);
        }
        if (a->one.op == QUERY_AROUND)
            put_around(q, &reply, rows);
        else
            put_facts(q, a->one.op == QUERY_VERSION, &reply, rows);
    }
    query_reply_put(&reply, out);
    return QUERY_REPLY_SIZE + (size_t)reply.size;
}

/* Repeats store_read(), which answers at least one query, until all are. */
static void
read_all(struct answer *a, struct store_reads *reads)
{
    while (reads->count > 0) {
        const size_t done = store_read(a->store, reads);
        size_t used = 0;

        for (size_t i = 0; i < done; i++)
            used += reads->head + reads->queries[i].size;
        reads->queries += done;
        reads->count -= done;
        reads->at += used;
        reads->capacity -= used;
    }
}

size_t
answer_put(struct answer *a, uint8_t *out, bool *failed)
{
    struct store_reads reads = {.queries = a->queries,
                                .count = a->count,
                                .at = out,
                                .capacity = a->bound,
                                .head = QUERY_REPLY_SIZE};
    size_t size;

    assert(a->count > 0);
    *failed = false;
    if (a->alone) {
        size = put_alone(a, &reads, out, failed);
    } else {
        read_all(a, &reads);
        size = put_heads(a, out, failed);
    }
    a->count = 0;
    a->bound = 0;
    return size;
}

/* ---- in steps ---------------------------------------------------------- */

bool
answer_is_long(const struct query *q)
{
    return query_is_history(q->op) || q->op == QUERY_KEYSPACES;
}

void
answer_long_start(struct answer *a, const struct query *q, uint64_t now_ms)
{
    struct answer_list *l = &a->list;
    int64_t as_of_ms;

    a->is_history = query_is_history(q->op);
    as_of_refresh(a->as_of, now_ms);
    as_of_ms = a->is_history
                   ? as_of_get(a->as_of, q->keyspace, q->keyspace_size)
                   : as_of_get(a->as_of, NULL, 0);
    if (a->is_history) {
        history_query_start(&a->history, q, as_of_ms);
        return;
    }
    l->as_of_ms = as_of_ms;
    l->error = 0;
    l->size = 0;
    l->count = 0;
    l->length = q->length;
    l->has_more = false;
    store_listing_start(l->from, q->keyspace, q->keyspace_size);
}

static bool
list_step(struct answer *a, uint64_t until_ns)
{
    struct answer_list *l = &a->list;
    struct store_listed found;
    int rc;

    do {
        rc = store_listing_next(l->from, until_ns, &found);
        if (rc == 1 && l->count == l->length) {
            l->has_more = true;
        } else if (rc == 1) {
            assert(found.name_size <= QUERY_NAME_SIZE);
            l->size += query_row_put(l->rows + l->size, found.keys, found.name,
                                     (uint16_t)found.name_size);
            l->count++;
        }
    } while (rc == 1 && !l->has_more && clock_ns() < until_ns);
    if (rc == -EAGAIN || (rc == 1 && !l->has_more))
        return false;
    answer_long_stop(a);
    if (rc < 0) {
        diag_repeating(&failures, DIAG_ERROR, "cannot list keyspaces: %s",
                       diag_text(rc));
        l->error = rc;
    }
    return true;
}

bool
answer_long_step(struct answer *a)
{
    const uint64_t until_ns = clock_ns() + a->step_ms * 1000000;
    bool done;

    if (!a->is_history)
        return list_step(a, until_ns);
    done = history_query_step(&a->history, until_ns);
    store_read_end(a->store);
    return done;
}

void
answer_long_stop(struct answer *a)
{
    if (!a->is_history)
        store_listing_stop(a->list.from);
}

size_t
answer_long_size(const struct answer *a)
{
    if (a->is_history)
        return history_query_size(&a->history);
    return QUERY_REPLY_SIZE + (a->list.error < 0 ? 0 : a->list.size);
}

size_t
answer_long_put(const struct answer *a, uint8_t *out, bool *failed)
{
    const struct answer_list *l = &a->list;
    const struct query_reply reply = {
        .rows = l->count, .size = (int64_t)l->size, .as_of_ms = l->as_of_ms};

    if (a->is_history)
        return history_query_put(&a->history, out, failed);
    *failed = l->error < 0;
    if (l->error < 0)
        return answer_error(l->error, out);
    query_reply_put(&reply, out);
    memcpy(out + QUERY_REPLY_SIZE, l->rows, l->size);
    return answer_long_size(a);
}

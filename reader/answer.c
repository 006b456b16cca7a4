/* reader/answer.c - see answer.h: answer_start_turn(), answer_end_turn(),
 * answer_bound(), answer_error(), answer_add(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/answer.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/wire/name.h"

static struct diag_repeat failures;

void
answer_init(struct answer *a, struct store *store, struct as_of *as_of)
{
    *a = (struct answer){.store = store, .as_of = as_of};
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
    return q->op == QUERY_NOW || q->op == QUERY_ABOUT || q->op == QUERY_AROUND;
}

size_t
answer_bound(const struct query *q)
{
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

        if (q->error == -EAGAIN) {
            a->unread = a->count - i;
            return size;
        }
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
put_facts(const struct store_query *q, struct query_reply *reply, uint8_t *out)
{
    const int64_t total = q->op == STORE_TOTAL ? get_le64s(q->bytes) : 0;

    if (q->error < 0)
        return;
    if (q->op == STORE_TOTAL) {
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
        if (q->error == -EAGAIN) {
            a->unread = 1;
            return 0;
        }
        if (q->error < 0 && q->error != -ENOENT) {
            report_failure(q);
            *failed = true;
            return answer_error(q->error, out);
        }
        if (a->one.op == QUERY_AROUND)
            put_around(q, &reply, rows);
        else
            put_facts(q, &reply, rows);
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
    a->unread = 0;
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

/* reader/answer.c - see answer.h: answer_start_turn(), answer_end_turn(),
 * answer_bound(), answer_error(), answer_add(), answer_query(). */
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

size_t
answer_bound(const struct query_range *q)
{
    return QUERY_REPLY_SIZE + (size_t)q->length * ANSWER_ROW_MAX;
}

size_t
answer_error(int error, uint8_t *out)
{
    const struct query_reply reply = {.rows = query_error(error)};

    query_reply_put(&reply, out);
    return QUERY_REPLY_SIZE;
}

/* ---- what is answered together ----------------------------------------- */

bool
answer_add(struct answer *a, const struct query_range *q)
{
    if (a->count == ANSWER_BATCH)
        return false;
    a->bound += answer_bound(q);
    /* Now, before any snapshot that answers it. */
    a->as_of_ms[a->count] = as_of_get(a->as_of, q->keyspace, q->keyspace_size);
    a->queries[a->count++] =
        (struct store_query){.op = STORE_RANGE,
                             .name = q->keyspace,
                             .name_size = q->keyspace_size,
                             .offset = q->offset,
                             .length = (uint64_t)q->length};
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
    read_all(a, &reads);
    size = put_heads(a, out, failed);
    a->count = 0;
    a->bound = 0;
    return size;
}

/* ---- one query ------------------------------------------------------------ */

int
answer_query(struct answer *a, struct store_query *q, uint8_t *rows,
             size_t size, int64_t *as_of_ms)
{
    struct store_reads reads = {
        .queries = q, .count = 1, .at = rows, .capacity = size};

    *as_of_ms = as_of_get(a->as_of, q->name, q->name_size);
    (void)store_read(a->store, &reads); /* one is always answered */
    if (q->error < 0 && q->error != -ENOENT && q->error != -EAGAIN)
        report_failure(q);
    return q->error;
}

/* reader/answer.c - see answer.h. */
#include "reader/answer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/wire/name.h"

/* A snapshot serves so many requests of a turn, then a new one is taken: a
 * turn with many connections is not short. */
#define VIEW_USES_MAX 1024

static struct diag_repeat failures;

int
answer_init(struct answer *a, struct lmdb *store, struct fresh *fresh)
{
    int rc;

    *a = (struct answer){.store = store, .fresh = fresh};
    a->list.step_ms = ANSWER_STEP_MS;
    a->list.rows.room = ANSWER_SIZE_MAX - QUERY_REPLY_SIZE;
    a->list.rows.at = malloc(a->list.rows.room);
    if (!a->list.rows.at)
        return -ENOMEM;
    rc = lmdb_listing_open(store, &a->list.from);
    if (rc < 0)
        free(a->list.rows.at);
    return rc;
}

void
answer_fini(struct answer *a)
{
    answer_end_turn(a);
    lmdb_listing_close(a->list.from);
    free(a->list.rows.at);
}

void
answer_start_turn(struct answer *a, uint64_t now_ms)
{
    assert(!a->view);
    fresh_look(a->fresh, now_ms);
}

void
answer_end_turn(struct answer *a)
{
    if (a->view)
        lmdb_view_close(a->view);
    a->view = NULL;
}

/* Whether it asks for the keyspaces after the last name there can be: for no
 * row, and nothing has to be looked at. */
static bool
is_past_all(const struct query *q)
{
    if (q->op != QUERY_KEYSPACES || q->keyspace_size < QUERY_NAME_SIZE)
        return false;
    for (size_t i = 0; i < QUERY_NAME_SIZE; i++)
        if (q->keyspace[i] != 0xff)
            return false;
    return true;
}

size_t
answer_bound(const struct query *q)
{
    if (is_past_all(q))
        return QUERY_REPLY_SIZE;
    return QUERY_REPLY_SIZE + (size_t)q->length * ANSWER_ROW_MAX;
}

size_t
answer_error(int error, uint8_t *out)
{
    const struct query_reply reply = {.rows = error};

    query_reply_put(&reply, out);
    return QUERY_REPLY_SIZE;
}

/* Has a->view be of this keyspace. */
static int
open_view(struct answer *a, const struct query *q)
{
    int rc;

    if (a->view && a->uses < VIEW_USES_MAX &&
        a->name_size == q->keyspace_size &&
        memcmp(a->name, q->keyspace, a->name_size) == 0) {
        a->uses++;
        return 0;
    }
    answer_end_turn(a);
    rc = lmdb_view_open(a->store, q->keyspace, q->keyspace_size, &a->view);
    if (rc < 0) {
        a->view = NULL;
        return rc;
    }
    a->uses = 1;
    a->name_size = q->keyspace_size;
    memcpy(a->name, q->keyspace, a->name_size);
    return 0;
}

static int
put_row(struct answer_rows *r, int64_t count, const uint8_t *key,
        uint16_t key_size)
{
    assert(r->size + QUERY_ROW_SIZE + key_size <= r->room);
    r->size += query_row_put(r->at + r->size, count, key, key_size);
    r->count++;
    return 0;
}

static int
put_range(struct answer *a, const struct query *q, struct answer_rows *r)
{
    struct store_totals totals;
    uint64_t offset = (uint64_t)q->offset, rows = 0;
    int64_t size;
    int rc;

    if (q->offset < 0) {
        rc = lmdb_view_totals(a->view, &totals);
        if (rc < 0)
            return rc;
        offset = 0;
        if (totals.keys > 0 - (uint64_t)q->offset)
            offset = totals.keys + (uint64_t)q->offset;
    }
    if (q->length == 0)
        return 0;
    size = lmdb_view_range(a->view, offset, (uint64_t)q->length, r->at, r->room,
                           &rows);
    if (size < 0)
        return (int)size;
    r->size = (size_t)size;
    r->count = (int64_t)rows;
    return 0;
}

static int
put_get(struct answer *a, const struct query *q, struct answer_rows *r)
{
    struct store_row row;
    int rc;

    rc = lmdb_view_get(a->view, q->key, q->key_size, &row);
    if (rc < 0)
        return rc;
    return put_row(r, row.count, q->key, q->key_size);
}

static int
put_rank(struct answer *a, const struct query *q, struct answer_rows *r)
{
    uint64_t rank;
    int rc;

    rc = lmdb_view_rank(a->view, q->key, q->key_size, &rank);
    if (rc < 0)
        return rc;
    return put_row(r, (int64_t)rank, q->key, q->key_size);
}

/* The 128-bit sum, cut to what a row can say. */
static int64_t
saturate(const struct store_totals *t)
{
    if (t->sum_high > 0 || (t->sum_high == 0 && t->sum_low > INT64_MAX))
        return INT64_MAX;
    if (t->sum_high < -1 ||
        (t->sum_high == -1 && t->sum_low <= (uint64_t)INT64_MAX))
        return INT64_MIN;
    return (int64_t)t->sum_low;
}

static int
put_total(struct answer *a, struct answer_rows *r)
{
    struct store_totals totals;
    int rc;

    rc = lmdb_view_totals(a->view, &totals);
    if (rc < 0)
        return rc;
    return put_row(r, saturate(&totals), NULL, 0);
}

static int
put_rows(struct answer *a, const struct query *q, struct answer_rows *r)
{
    int rc;

    assert(!answer_is_list(q));
    if (is_past_all(q))
        return 0;
    rc = open_view(a, q);
    if (rc < 0)
        return rc;
    switch (q->op) {
    case QUERY_GET:
        return put_get(a, q, r);
    case QUERY_RANK:
        return put_rank(a, q, r);
    case QUERY_TOTAL:
        return put_total(a, r);
    default:
        return put_range(a, q, r);
    }
}

static void
report(const struct query *q, int error)
{
    char name[NAME_TEXT_SIZE];

    name_escape(q->keyspace, q->keyspace_size, name);
    diag_repeating(&failures, DIAG_ERROR, "cannot read keyspace=%s: %s%s", name,
                   diag_text(error),
                   error == -EBADMSG ? "; countd check says where" : "");
}

size_t
answer_put(struct answer *a, const struct query *q, uint8_t *out, bool *failed)
{
    struct answer_rows r = {.at = out + QUERY_REPLY_SIZE,
                            .room = answer_bound(q) - QUERY_REPLY_SIZE};
    struct query_reply reply;
    int rc;

    rc = put_rows(a, q, &r);
    if (rc < 0 && rc != -ENOENT) {
        report(q, rc);
        answer_end_turn(a);
        *failed = true;
        return answer_error(-EIO, out);
    }
    reply = (struct query_reply){.rows = r.count, .size = (int64_t)r.size};
    if (q->op == QUERY_KEYSPACES)
        reply.as_of_ms = fresh_as_of(a->fresh, NULL, 0);
    else
        reply.as_of_ms = fresh_as_of(a->fresh, q->keyspace, q->keyspace_size);
    query_reply_put(&reply, out);
    *failed = false;
    return QUERY_REPLY_SIZE + r.size;
}

/* ---- listings ---------------------------------------------------------- */

bool
answer_is_list(const struct query *q)
{
    return q->op == QUERY_KEYSPACES && !is_past_all(q);
}

void
answer_list_start(struct answer *a, const struct query *q, uint64_t now_ms)
{
    struct answer_list *l = &a->list;

    assert(!a->view);
    fresh_look(a->fresh, now_ms);
    l->as_of_ms = fresh_as_of(a->fresh, NULL, 0);
    l->error = 0;
    l->rows.size = 0;
    l->rows.count = 0;
    lmdb_listing_start(l->from, q->keyspace, q->keyspace_size);
}

bool
answer_list_step(struct answer *a)
{
    struct answer_list *l = &a->list;
    const uint64_t until_ns = clock_ns() + l->step_ms * 1000000;
    struct store_listed found;
    int rc;

    assert(!a->view);
    do {
        rc = lmdb_listing_next(l->from, until_ns, &found);
        if (rc == 1)
            /* There is room for QUERY_ROWS_MAX. */
            (void)put_row(&l->rows, found.keys, found.name,
                          (uint16_t)found.name_size);
    } while (rc == 1 && l->rows.count < QUERY_ROWS_MAX &&
             clock_ns() < until_ns);
    if (rc == -EAGAIN || (rc == 1 && l->rows.count < QUERY_ROWS_MAX))
        return false;
    answer_list_stop(a);
    if (rc < 0) {
        diag_repeating(&failures, DIAG_ERROR, "cannot list keyspaces: %s",
                       diag_text(rc));
        l->error = -EIO;
    }
    return true;
}

void
answer_list_stop(struct answer *a)
{
    lmdb_listing_stop(a->list.from);
}

size_t
answer_list_size(const struct answer *a)
{
    return QUERY_REPLY_SIZE + (a->list.error < 0 ? 0 : a->list.rows.size);
}

size_t
answer_list_put(const struct answer *a, uint8_t *out, bool *failed)
{
    const struct answer_list *l = &a->list;
    const struct query_reply reply = {.rows = l->rows.count,
                                      .size = (int64_t)l->rows.size,
                                      .as_of_ms = l->as_of_ms};

    *failed = l->error < 0;
    if (l->error < 0)
        return answer_error(l->error, out);
    query_reply_put(&reply, out);
    memcpy(out + QUERY_REPLY_SIZE, l->rows.at, l->rows.size);
    return answer_list_size(a);
}

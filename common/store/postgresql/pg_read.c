/* common/store/postgresql/pg_read.c - store_read(): the queries of a turn, all
 * of one moment.
 *
 * Statements of all queries are sent together: first those that find the
 * keyspaces, then one of each query.  A rank, rows around a key and rows far
 * down the order by count need one or two more, through bands. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <string.h>

#include "common/wire/query.h"

#define NEAR 512 /* rows from the top, which are found by counting */

/* A query on its way. */
struct reading {
    struct pg *s;
    struct store_query *q;
    struct pg_keyspace keyspace;
    size_t size_max;             /* of its rows */
    uint8_t end[STORE_NAME_MAX]; /* KEYS: of what begins with the prefix */
};

/* ---- rows -------------------------------------------------------------- */

/* Adds a row; false: there is no place for it. */
static bool
add_row(struct reading *x, int64_t count, const uint8_t *key, size_t size)
{
    struct store_query *q = x->q;

    if (size > STORE_NAME_MAX || q->size + QUERY_ROW_SIZE + size > x->size_max)
        return false;
    q->size += query_row_put(q->bytes + q->size, count, key, (uint16_t)size);
    q->rows++;
    return true;
}

static int
add_rows(struct reading *x, const PGresult *r)
{
    for (int i = 0; i < PQntuples(r); i++) {
        size_t size;
        const uint8_t *key = pg_bytes(r, i, 0, &size);

        if (!add_row(x, pg_bigint(r, i, 1), key, size))
            return size > STORE_NAME_MAX ? -EBADMSG : 0;
    }
    return 0;
}

/* ---- through bands ----------------------------------------------------- */

/* The band that has the row `offset`, then the rows from there. */
static int
read_far(struct reading *x, int64_t offset)
{
    struct pg_call c[2];
    int rc;

    pg_call(&c[0], PG_BAND_AT);
    pg_add_int(&c[0], x->keyspace.id);
    pg_add_bigint(&c[0], offset);
    rc = pg_run(x->s, &c[0], 1);
    if (rc < 0)
        return rc;
    if (PQntuples(c[0].result) == 1) {
        size_t size;
        const uint8_t *key = pg_bytes(c[0].result, 0, 1, &size);

        pg_call(&c[1], PG_RANGE);
        pg_add_int(&c[1], x->keyspace.id);
        pg_add_bigint(&c[1], pg_bigint(c[0].result, 0, 0));
        pg_add_bytes(&c[1], key, size);
        pg_add_bigint(&c[1], offset - pg_bigint(c[0].result, 0, 2));
        pg_add_bigint(&c[1], (int64_t)x->q->length);
        rc = pg_run(x->s, &c[1], 1);
        if (rc == 0) {
            rc = add_rows(x, c[1].result);
            PQclear(c[1].result);
        }
    } else {
        rc = -EBADMSG;
    }
    PQclear(c[0].result);
    return rc;
}

/* How many rows are between the beginning of a band and the query's row. */
static int
count_in_band(struct reading *x, const PGresult *band, int64_t *out)
{
    const int64_t begins = pg_bigint(band, 0, 0), count = x->q->row.count;
    struct pg_call c;
    size_t size;
    const uint8_t *key = pg_bytes(band, 0, 1, &size);
    int rc;

    pg_call(&c, begins == count ? PG_COUNT_SAME : PG_COUNT_BETWEEN);
    pg_add_int(&c, x->keyspace.id);
    pg_add_bigint(&c, begins);
    pg_add_bytes(&c, key, size);
    if (begins != count)
        pg_add_bigint(&c, count);
    pg_add_bytes(&c, x->q->key, x->q->key_size);
    rc = pg_run(x->s, &c, 1);
    if (rc < 0)
        return rc;
    *out = pg_bigint(c.result, 0, 0);
    PQclear(c.result);
    return 0;
}

static int
find_rank(struct reading *x)
{
    struct pg_call c;
    int64_t within;
    int rc;

    pg_call(&c, PG_BAND_OF);
    pg_add_int(&c, x->keyspace.id);
    pg_add_bigint(&c, x->q->row.count);
    pg_add_bytes(&c, x->q->key, x->q->key_size);
    rc = pg_run(x->s, &c, 1);
    if (rc < 0)
        return rc;
    rc = PQntuples(c.result) == 1 ? count_in_band(x, c.result, &within)
                                  : -EBADMSG;
    if (rc == 0)
        x->q->rank = (uint64_t)(pg_bigint(c.result, 0, 2) + within);
    PQclear(c.result);
    return rc;
}

/* ---- the first statement of a query ------------------------------------- */

/* Where a range begins; below 0 it counts from the end, but not below it. */
static int64_t
range_offset(const struct reading *x)
{
    const int64_t offset = x->q->offset, keys = x->keyspace.keys;

    if (offset >= 0)
        return offset;
    return offset + keys < 0 ? 0 : offset + keys;
}

/* The end of what begins with the prefix: its last byte below 0xff, one more.
 * Size 0: there is none. */
static size_t
prefix_end(const struct store_query *q, uint8_t end[STORE_NAME_MAX])
{
    size_t size =
        q->prefix_size < STORE_NAME_MAX ? q->prefix_size : STORE_NAME_MAX;

    if (size > 0)
        memcpy(end, q->prefix, size);
    while (size > 0 && end[size - 1] == 0xff)
        size--;
    if (size > 0)
        end[size - 1]++;
    return size;
}

/* `from` is a key that the rows do not come before. */
static void
ask_keys(struct reading *x, struct pg_call *c, const uint8_t *from,
         size_t from_size)
{
    const struct store_query *q = x->q;
    const size_t end_size = prefix_end(q, x->end);

    pg_call(c, PG_KEYS);
    pg_add_int(c, x->keyspace.id);
    pg_add_bytes(c, from, from_size);
    pg_add_bytes(c, q->after, q->after_size);
    if (end_size > 0)
        pg_add_bytes(c, x->end, end_size);
    else
        pg_add_null(c);
    pg_add_bigint(c, (int64_t)q->length);
}

/* False: it needs none. */
static bool
first_call(struct reading *x, struct pg_call *c)
{
    struct store_query *q = x->q;

    switch (q->op) {
    case STORE_GET:
    case STORE_RANK:
    case STORE_AROUND:
        pg_call(c, PG_GET);
        pg_add_int(c, x->keyspace.id);
        pg_add_bytes(c, q->key, q->key_size);
        return true;
    case STORE_RANGE:
        if (range_offset(x) >= NEAR || range_offset(x) >= x->keyspace.keys)
            return false;
        pg_call(c, PG_TOP);
        pg_add_int(c, x->keyspace.id);
        pg_add_bigint(c, range_offset(x));
        pg_add_bigint(c, (int64_t)q->length);
        return true;
    case STORE_KEYS:
        if (q->offset > 0) {
            pg_call(c, PG_KEY_AT);
            pg_add_int(c, x->keyspace.id);
            pg_add_bigint(c, q->offset);
        } else {
            ask_keys(x, c, q->prefix, q->prefix_size);
        }
        return true;
    case STORE_TOTAL:
        break;
    }
    return false;
}

/* ---- the rest of it ----------------------------------------------------- */

static int
read_range(struct reading *x, int64_t offset, PGresult *top)
{
    if (offset >= x->keyspace.keys)
        return 0;
    if (top)
        return add_rows(x, top);
    return read_far(x, offset);
}

/* Rows around the key: few from the top are found by counting, too. */
static int
read_around(struct reading *x)
{
    struct store_query *q = x->q;
    struct pg_call c;
    int rc = find_rank(x);

    if (rc < 0)
        return rc;
    q->offset = (int64_t)q->rank - (int64_t)(q->length / 2);
    if (q->offset < 0)
        q->offset = 0;
    if (q->offset >= NEAR)
        return read_far(x, q->offset);
    pg_call(&c, PG_TOP);
    pg_add_int(&c, x->keyspace.id);
    pg_add_bigint(&c, q->offset);
    pg_add_bigint(&c, (int64_t)q->length);
    rc = pg_run(x->s, &c, 1);
    if (rc < 0)
        return rc;
    rc = add_rows(x, c.result);
    PQclear(c.result);
    return rc;
}

static int
read_row(struct reading *x, const PGresult *row)
{
    struct store_query *q = x->q;
    int rc = 0;

    if (PQntuples(row) == 0)
        return -ENOENT;
    q->row = (struct store_row){pg_bigint(row, 0, 0), pg_bool(row, 0, 1)};
    if (q->op == STORE_AROUND)
        return read_around(x);
    if (q->op == STORE_RANK)
        rc = find_rank(x);
    if (rc == 0)
        (void)add_row(x, q->op == STORE_RANK ? (int64_t)q->rank : q->row.count,
                      q->key, q->key_size);
    return rc;
}

/* Keys from a position on: what was asked for is the key there. */
static int
read_keys_from(struct reading *x, const PGresult *at)
{
    struct store_query *q = x->q;
    const uint8_t *from;
    struct pg_call c;
    size_t size;
    int rc;

    if (PQntuples(at) == 0)
        return 0;
    from = pg_bytes(at, 0, 0, &size);
    if (q->prefix_size > 0 &&
        memcmp(q->prefix, from, size < q->prefix_size ? size : q->prefix_size) >
            0) {
        from = q->prefix;
        size = q->prefix_size;
    }
    ask_keys(x, &c, from, size);
    rc = pg_run(x->s, &c, 1);
    if (rc < 0)
        return rc;
    rc = add_rows(x, c.result);
    PQclear(c.result);
    return rc;
}

/* `first` is the result of the first statement; NULL: there was none. */
static int
finish_query(struct reading *x, PGresult *first)
{
    struct store_query *q = x->q;

    switch (q->op) {
    case STORE_GET:
    case STORE_RANK:
    case STORE_AROUND:
        return read_row(x, first);
    case STORE_RANGE:
        return read_range(x, range_offset(x), first);
    case STORE_TOTAL:
        (void)add_row(x, store_total(&q->totals), (const uint8_t *)"", 0);
        return 0;
    case STORE_KEYS:
        break;
    }
    return q->offset > 0 ? read_keys_from(x, first) : add_rows(x, first);
}

/* ---- a turn ------------------------------------------------------------ */

#define QUERIES_MOST 32

static void
take_totals(struct reading *x)
{
    const struct pg_keyspace *k = &x->keyspace;

    x->q->totals = (struct store_totals){
        .keys = (uint64_t)k->keys,
        .sum_high = (int64_t)(k->sum >> 64),
        .sum_low = (uint64_t)k->sum,
        .saturated = (uint64_t)k->saturated,
        .nonce = (uint64_t)k->nonce,
        .change = (uint64_t)k->change,
    };
}

/* How many of the queries from `from` on go together: as many as are sure to
 * fit behind `used` bytes, but the first of all does. */
static size_t
count_fitting(const struct store_reads *reads, size_t from, size_t used)
{
    size_t n;

    for (n = 0; from + n < reads->count && n < QUERIES_MOST; n++) {
        const size_t size =
            reads->head + store_query_size_max(&reads->queries[from + n]);

        if (from + n > 0 && used + size > reads->capacity)
            break;
        used += size;
    }
    return n;
}

static int
find_keyspaces(struct pg *s, struct reading *x, size_t count)
{
    struct pg_call c[QUERIES_MOST];
    int rc;

    for (size_t i = 0; i < count; i++) {
        pg_call(&c[i], PG_FIND);
        pg_add_bytes(&c[i], x[i].q->name, x[i].q->name_size);
    }
    rc = pg_run(s, c, count);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        x[i].q->error = pg_keyspace_get(c[i].result, &x[i].keyspace);
        if (x[i].q->error == 0)
            take_totals(&x[i]);
        PQclear(c[i].result);
    }
    return rc;
}

/* Sends the first statements of all queries, then finishes one after the other
 * behind the rows of those before, *used bytes. */
static int
answer_queries(struct pg *s, struct reading *x, size_t count,
               const struct store_reads *reads, size_t *used)
{
    struct pg_call c[QUERIES_MOST];
    PGresult *first[QUERIES_MOST] = {NULL};
    bool asked[QUERIES_MOST];
    size_t calls = 0, n = 0;
    int rc = 0;

    for (size_t i = 0; i < count; i++) {
        asked[i] = x[i].q->error == 0 && first_call(&x[i], &c[calls]);
        calls += asked[i];
    }
    if (calls > 0)
        rc = pg_run(s, c, calls);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < count; i++)
        first[i] = asked[i] ? c[n++].result : NULL;
    for (size_t i = 0; i < count; i++) {
        struct store_query *q = x[i].q;

        *used += reads->head;
        q->bytes = reads->at + *used;
        x[i].size_max = reads->capacity - *used;
        if (q->error == 0)
            q->error = finish_query(&x[i], first[i]);
        if (q->error < 0)
            q->size = q->rows = 0;
        *used += q->size;
        PQclear(first[i]);
    }
    return 0;
}

static void
fail_queries(const struct store_reads *reads, size_t from, size_t count,
             size_t *used, int rc)
{
    for (size_t i = from; i < from + count; i++) {
        struct store_query *q = &reads->queries[i];

        *used += reads->head;
        q->bytes = reads->at + *used;
        q->size = q->rows = 0;
        q->error = rc;
    }
}

/* Answers queries that go together. */
static void
read_some(struct pg *s, const struct store_reads *reads, size_t from,
          size_t count, size_t *used)
{
    struct reading x[QUERIES_MOST];
    const size_t before = *used;
    int rc = pg_begin_turn(s);

    for (size_t i = 0; i < count; i++) {
        struct store_query *q = &reads->queries[from + i];

        x[i] = (struct reading){.s = s, .q = q};
        q->size = q->rows = 0;
    }
    if (rc == 0)
        rc = find_keyspaces(s, x, count);
    if (rc == 0)
        rc = answer_queries(s, x, count, reads, used);
    if (rc == 0)
        return;
    *used = before;
    fail_queries(reads, from, count, used, rc);
    if (s->in_turn)
        pg_disconnect(s); /* its transaction is of no use */
}

size_t
pg_read(struct store *store, struct store_reads *reads)
{
    size_t done = 0, used = 0, count;

    while ((count = count_fitting(reads, done, used)) > 0) {
        read_some(pg_of(store), reads, done, count, &used);
        done += count;
    }
    return done;
}

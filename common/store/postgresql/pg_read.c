/* common/store/postgresql/pg_read.c - store_read(): the queries of a turn, all
 * of one moment.
 *
 * Two statements are sent together: one that finds the keyspace, and the query's.
 * Rows around a key need one more. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <string.h>

#include "common/wire/query.h"

#define NEAR 512 /* rows from the top, which are found by counting */

/* Adds those rows for which there is place. */
static int
add_rows(struct store_query *q, size_t size_max, const PGresult *r)
{
    for (int i = 0; i < PQntuples(r); i++) {
        size_t size;
        const uint8_t *key = pg_bytes(r, i, 0, &size);

        if (size > STORE_NAME_MAX)
            return -EBADMSG;
        if (q->size + QUERY_ROW_SIZE + size > size_max)
            return 0;
        q->size += query_row_put(q->bytes + q->size, pg_bigint(r, i, 1), key,
                                 (uint16_t)size);
        q->rows++;
    }
    return 0;
}

/* ---- the statement of a query -------------------------------------------- */

/* Rows from a rank on; below 0 it counts from the end, but not below it. */
static void
ask_range(struct pg_call *c, const struct store_query *q, int64_t offset)
{
    pg_call(c, offset >= 0 && offset < NEAR ? PG_TOP : PG_FAR, "bqq", q->name,
            q->name_size, offset, (int64_t)q->length);
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

/* `end` is for the call to point to. */
static void
ask_query(struct pg_call *c, const struct store_query *q,
          uint8_t end[STORE_NAME_MAX])
{
    switch (q->op) {
    case STORE_GET:
    case STORE_RANK:
    case STORE_AROUND:
        pg_call(c, q->op == STORE_GET ? PG_GET : PG_RANK, "bb", q->name,
                q->name_size, q->key, q->key_size);
        break;
    case STORE_RANGE:
        ask_range(c, q, q->offset);
        break;
    case STORE_KEYS:
        pg_call(c, PG_KEYS, "bbbbqq", q->name, q->name_size, q->prefix,
                q->prefix_size, q->after, q->after_size, end,
                prefix_end(q, end), (int64_t)q->length, q->offset);
        break;
    case STORE_TOTAL: /* what finds the keyspace answers it */
        pg_call(c, PG_FIND, "b", q->name, q->name_size);
        break;
    }
}

/* ---- its answer ------------------------------------------------------------ */

static int
read_around(struct pg *s, struct store_query *q, size_t size_max)
{
    struct pg_call c;
    int rc;

    q->offset = (int64_t)q->rank - (int64_t)(q->length / 2);
    if (q->offset < 0)
        q->offset = 0;
    ask_range(&c, q, q->offset);
    rc = pg_run(s, &c, 1);
    if (rc == 0)
        rc = add_rows(q, size_max, c.result);
    return rc;
}

static int
take_row(struct pg *s, struct store_query *q, size_t size_max,
         const PGresult *row)
{
    if (PQntuples(row) == 0)
        return -ENOENT;
    q->row = (struct store_row){pg_bigint(row, 0, 0), pg_bool(row, 0, 1)};
    if (q->op != STORE_GET) {
        if (PQgetisnull(row, 0, 2))
            return -EBADMSG; /* it has no band */
        q->rank = (uint64_t)pg_bigint(row, 0, 2);
    }
    return q->op == STORE_AROUND ? read_around(s, q, size_max) : 0;
}

static int
take_answer(struct pg *s, struct store_query *q, size_t size_max,
            const PGresult *keyspace, const PGresult *rows)
{
    struct pg_keyspace k;
    const int rc = pg_keyspace_get(keyspace, &k);

    if (rc < 0)
        return rc;
    q->totals = (struct store_totals){.keys = (uint64_t)k.keys,
                                      .sum = k.sum,
                                      .saturated = (uint64_t)k.saturated,
                                      .nonce = (uint64_t)k.nonce,
                                      .change = (uint64_t)k.change};
    if (q->op == STORE_GET || q->op == STORE_RANK || q->op == STORE_AROUND)
        return take_row(s, q, size_max, rows);
    return q->op == STORE_TOTAL ? 0 : add_rows(q, size_max, rows);
}

int
pg_read(struct store *store, struct store_query *q, size_t size_max)
{
    struct pg *s = pg_of(store);
    uint8_t end[STORE_NAME_MAX];
    struct pg_call c[2];
    int rc = pg_begin_turn(s);

    pg_call(&c[0], PG_FIND, "b", q->name, q->name_size);
    ask_query(&c[1], q, end);
    if (rc == 0)
        rc = pg_run(s, c, 2);
    return rc < 0 ? rc : take_answer(s, q, size_max, c[0].result, c[1].result);
}

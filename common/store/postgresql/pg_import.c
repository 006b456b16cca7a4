/* common/store/postgresql/pg_import.c - postgresql_store_import(): a keyspace of
 * another store, in one transaction: rows, bands, marks, history as it is.
 *
 * Invariant: the row of the keyspace has the other store's nonce, which names
 * what was imported, until it is dropped here. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <string.h>

#define RANKS_SILENT 100000

/* A statement that is run many times, with arrays of `most` items. */
struct part {
    enum pg_statement statement;
    const char *arrays, *types;
    uint32_t most;
};

static const struct part rows = {PG_PUT, "bqo", "iaaa", PG_CHUNK / 4};
static const struct part marks = {PG_MARK_PUT, "bqq", "iaaa", PG_CHUNK / 4};
static const struct part blocks = {PG_BLOCK_PUT, "bb", "iaa", 256};

struct import {
    struct pg *s;
    const uint8_t *name;
    size_t name_size;
    bool has_begun;           /* the transaction */
    bool has_all;             /* it was committed before */
    struct pg_keyspace k, to; /* as it is; as it will be */
    const struct part *part;  /* what s->arrays are of; NULL: none */
    uint64_t ranks;
    struct pg_keyspace found; /* keys, saturated and sum of the rows */
};

/* Runs the statement of the part. */
static int
send_part(struct import *i)
{
    const struct pg_array *a = i->s->arrays;
    const struct part *part = i->part;
    int rc = 0;

    if (part && (a[0].count > 0 || a[0].failed))
        rc = pg_ask(i->s, NULL, part->statement, part->types, i->k.id, &a[0],
                    &a[1], &a[2]);
    i->part = NULL;
    return rc;
}

/* The arrays of a part, with a place for one more. */
static int
use_part(struct import *i, const struct part *part)
{
    int rc = 0;

    if (i->part != part || i->s->arrays[0].count == part->most)
        rc = send_part(i);
    if (!i->part)
        pg_arrays(i->s, part->arrays);
    i->part = part;
    return rc;
}

/* ---- what is taken ------------------------------------------------------- */

static int
begin_import(void *ctx, const struct store_totals *t, const uint8_t *history,
             size_t history_size)
{
    struct import *i = ctx;
    int rc = pg_begin(i->s, PG_LOCK, i->name, i->name_size, &i->k);

    i->has_begun = rc == 0 || rc == -ENOENT;
    if (rc == -ENOENT)
        rc = pg_keyspace_create(i->s, i->name, i->name_size, &i->k);
    else if (rc == 0 && i->k.nonce == (int64_t)t->nonce)
        i->has_all = true;
    else if (rc == 0 && (i->k.keys > 0 || i->k.history_size > 0))
        rc = -ENOTEMPTY;
    if (rc == 0)
        rc = pg_bands_load(i->s, &i->k);
    if (rc < 0 || history_size > sizeof i->to.history)
        return rc < 0 ? rc : -EBADMSG;
    i->to = i->k;
    i->to.nonce = (int64_t)t->nonce;
    i->to.keys = (int64_t)t->keys;
    i->to.saturated = (int64_t)t->saturated;
    i->to.sum = t->sum;
    i->to.history_size = history_size;
    memcpy(i->to.history, history, history_size);
    return i->has_all;
}

static int
add_row(void *ctx, const uint8_t *key, size_t size, const struct store_row *row)
{
    struct import *i = ctx;
    struct pg_array *a = i->s->arrays;
    const uint8_t flag = row->saturated;
    const int rc = use_part(i, &rows);

    i->found.keys++;
    i->found.saturated += flag;
    i->found.sum += row->count;
    pg_array_add(&a[0], key, size);
    pg_array_add_bigint(&a[1], row->count);
    pg_array_add(&a[2], &flag, 1);
    return rc;
}

/* The server ends a transaction in which nothing comes for long. */
static int
add_rank(void *ctx, const uint8_t *key, size_t size,
         const struct store_row *row)
{
    struct import *i = ctx;
    int rc = pg_bands_append(i->s, row->count, key, size);

    if (rc == 0 && ++i->ranks % RANKS_SILENT == 0)
        rc = pg_ask(i->s, NULL, PG_FIND, "b", i->name, i->name_size);
    return rc;
}

static int
add_mark(void *ctx, const struct log_fill *fill)
{
    struct import *i = ctx;
    struct pg_array *a = i->s->arrays;
    const int rc = use_part(i, &marks);

    pg_array_add(&a[0], fill->uuid, sizeof fill->uuid);
    pg_array_add_bigint(&a[1], (int64_t)fill->epoch);
    pg_array_add_bigint(&a[2], (int64_t)fill->first_ms);
    return rc;
}

static int
add_block(void *ctx, const uint8_t *key, size_t size, const uint8_t *value,
          size_t value_size)
{
    struct import *i = ctx;
    const int rc = use_part(i, &blocks);

    pg_array_add(&i->s->arrays[0], key, size);
    pg_array_add(&i->s->arrays[1], value, value_size);
    return rc;
}

static int
put_all(struct import *i)
{
    int rc = send_part(i);

    if (rc == 0 && (i->found.keys != i->to.keys || i->found.sum != i->to.sum ||
                    i->found.saturated != i->to.saturated))
        rc = -EBADMSG;
    if (rc == 0)
        rc = pg_bands_put(i->s, &i->k);
    return rc < 0 ? rc : pg_put_rest(i->s, &i->to, NULL, 0, true);
}

/* The transaction is committed also if it has found all of it: then that is
 * durable. */
static int
end_import(void *ctx)
{
    struct import *i = ctx;
    int rc = i->has_all ? 0 : put_all(i);

    i->has_begun = false;
    rc = pg_end(i->s, rc);
    return rc < 0 ? rc : pg_settle(&i->s->store);
}

int
postgresql_store_import(struct store *store, struct store *from,
                        const uint8_t *name, size_t name_size, uint64_t *keys)
{
    static const struct store_taker taker = {
        begin_import, add_row, add_rank, add_mark, add_block, end_import};
    struct import i = {.s = pg_of(store), .name = name, .name_size = name_size};
    int rc = store_move(from, name, name_size, &taker, &i);

    if (i.has_begun)
        rc = pg_end(i.s, rc);
    *keys = (uint64_t)i.to.keys;
    return rc;
}

int
postgresql_store_analyze(struct store *store)
{
    return pg_run_script(pg_of(store),
                         "SET statement_timeout = 0; ANALYZE counter");
}

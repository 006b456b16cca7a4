/* common/store/postgresql/pg_edit.c - store_drop(), store_del(): each one
 * transaction.  Other data directories may have increments that are not merged
 * yet; those come after it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int
begin_edit(struct pg *s, const uint8_t *name, size_t size,
           struct pg_keyspace *k)
{
    int rc;

    if (!pg_name_ok(name, size))
        return -EINVAL;
    rc = pg_begin(s, name, size, k);
    return rc == -ENOENT ? pg_rollback(s, rc) : rc;
}

int
pg_drop(struct store *store, const uint8_t *name, size_t size)
{
    struct pg *s = pg_of(store);
    struct pg_keyspace k;
    struct pg_call c;
    int rc = begin_edit(s, name, size, &k);

    if (rc < 0)
        return rc;
    s->bands.keyspace = 0;
    rc = pg_clear(s, PG_DROP, k.id);
    if (rc == 0)
        rc = pg_clear(s, PG_BLOCK_CLEAR, k.id);
    pg_call(&c, PG_BAND_CLEAR);
    pg_add_int(&c, k.id);
    if (rc == 0)
        rc = pg_do(s, &c);
    k.keys = k.saturated = 0;
    k.sum = 0;
    k.history_size = 0;
    if (rc == 0)
        rc = pg_keyspace_put(s, &k, true);
    return rc < 0 ? pg_rollback(s, rc) : pg_commit(s);
}

/* ---- keys -------------------------------------------------------------- */

/* The keys that there were, in the order given: history wants them sorted. */
struct deleted {
    struct history_erasure *list;
    int *rows; /* of each key given; -1: there was none */
    size_t count;
};

static int
order_rows(const PGresult *r, size_t count, int *rows)
{
    for (size_t i = 0; i < count; i++)
        rows[i] = -1;
    for (int row = 0; row < PQntuples(r); row++) {
        const int64_t number = pg_bigint(r, row, 0);

        if (number < 1 || (uint64_t)number > count)
            return -EBADMSG;
        rows[number - 1] = row;
    }
    return 0;
}

static int
delete_chunk(struct pg *s, struct pg_keyspace *k, const struct store_key *keys,
             size_t count, struct deleted *d)
{
    struct pg_array names = {.bytes = NULL};
    struct pg_call c;
    int rc;

    pg_array_begin(&names, PG_TYPE_BYTEA);
    for (size_t i = 0; i < count; i++)
        pg_array_add(&names, keys[i].key, keys[i].key_size);
    pg_call(&c, PG_DEL);
    pg_add_int(&c, k->id);
    rc = pg_add_array(&c, &names);
    if (rc == 0)
        rc = pg_run(s, &c, 1);
    pg_array_free(&names);
    if (rc < 0)
        return rc;
    rc = order_rows(c.result, count, d->rows);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        int64_t n;

        if (d->rows[i] < 0)
            continue;
        n = pg_bigint(c.result, d->rows[i], 1);
        d->list[d->count++] =
            (struct history_erasure){.key = keys[i].key,
                                     .key_size = (uint16_t)keys[i].key_size,
                                     .count = n};
        k->keys--;
        k->sum -= n;
        k->saturated -= pg_bool(c.result, d->rows[i], 2);
        pg_bands_count(s, n, keys[i].key, keys[i].key_size, -1);
    }
    PQclear(c.result);
    return rc;
}

/* Within the transaction. */
static int
delete_keys(struct pg *s, struct pg_keyspace *k,
            struct pg_history_change *history, const struct store_key *keys,
            size_t count, struct deleted *d)
{
    int rc = pg_bands_load(s, k);

    for (size_t i = 0; rc == 0 && i < count; i += PG_CHUNK)
        rc = delete_chunk(s, k, keys + i,
                          count - i < PG_CHUNK ? count - i : PG_CHUNK, d);
    if (rc < 0 || d->count == 0)
        return rc;
    rc = pg_bands_put(s, k);
    history->erased = d->list;
    history->erased_count = d->count;
    if (rc == 0)
        rc = pg_history_change(s, k, history);
    return rc < 0 ? rc : pg_keyspace_put(s, k, true);
}

int
pg_del(struct store *store, const uint8_t *name, size_t size,
       const struct store_key *keys, size_t count, uint64_t *deleted)
{
    struct pg *s = pg_of(store);
    struct pg_history_change history = {.name = name, .name_size = size};
    struct deleted d = {.list = calloc(count + 1, sizeof *d.list),
                        .rows = calloc(count + 1, sizeof *d.rows)};
    struct pg_keyspace k;
    int rc = d.list && d.rows ? 0 : -ENOMEM;

    *deleted = 0;
    if (rc == 0)
        rc = begin_edit(s, name, size, &k);
    if (rc == 0) {
        history.before = k;
        rc = delete_keys(s, &k, &history, keys, count, &d);
        rc = rc < 0 ? pg_rollback(s, rc) : pg_commit(s);
    }
    if (rc == 0)
        *deleted = d.count;
    free(d.list);
    free(d.rows);
    return rc;
}

/* common/store/postgresql/pg_keyspace.c - the row of a keyspace, and marks. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <string.h>

bool
pg_name_ok(const uint8_t *name, size_t size)
{
    return size >= 1 && size <= STORE_NAME_MAX && !memchr(name, 0, size);
}

int
pg_keyspace_get(const PGresult *r, struct pg_keyspace *k)
{
    const uint8_t *history;
    char sum[48];

    if (PQntuples(r) != 1)
        return -ENOENT;
    if (PQgetlength(r, 0, 0) != 4)
        return -EBADMSG;
    k->id = (int32_t)get_be32(PQgetvalue(r, 0, 0));
    k->keys = pg_bigint(r, 0, 1);
    pg_text(r, 0, 2, sum, sizeof sum);
    k->sum = pg_parse_sum(sum);
    k->saturated = pg_bigint(r, 0, 3);
    k->change = pg_bigint(r, 0, 4);
    k->nonce = pg_bigint(r, 0, 5);
    history = pg_bytes(r, 0, 6, &k->history_size);
    if (k->history_size > sizeof k->history)
        return -EBADMSG;
    memcpy(k->history, history, k->history_size);
    return 0;
}

int
pg_keyspace_find(struct pg *s, const uint8_t *name, size_t size,
                 struct pg_keyspace *k)
{
    struct pg_call c;
    int rc;

    pg_call(&c, PG_FIND);
    pg_add_bytes(&c, name, size);
    rc = pg_run(s, &c, 1);
    if (rc < 0)
        return rc;
    rc = pg_keyspace_get(c.result, k);
    PQclear(c.result);
    return rc;
}

/* `changed`: answers differ from now on. */
int
pg_keyspace_put(struct pg *s, const struct pg_keyspace *k, bool changed)
{
    struct pg_call c;
    char sum[48];

    pg_format_sum(k->sum, sum);
    pg_call(&c, PG_KEYSPACE_PUT);
    pg_add_int(&c, k->id);
    pg_add_bigint(&c, k->keys);
    pg_add_text(&c, sum);
    pg_add_bigint(&c, k->saturated);
    pg_add_bigint(&c, k->change + changed);
    if (k->history_size > 0)
        pg_add_bytes(&c, k->history, k->history_size);
    else
        pg_add_null(&c);
    return pg_do(s, &c);
}

/* ---- marks ------------------------------------------------------------- */

/* What a stored mark says of a fill of the same log. */
static enum store_mark_state
state_of_mark(const struct store_fill *fill, uint64_t epoch, uint64_t first_ms)
{
    if (epoch != fill->epoch)
        return epoch > fill->epoch ? STORE_MARK_AHEAD : STORE_MARK_NONE;
    return first_ms == fill->first_ms ? STORE_MARK_DONE : STORE_MARK_OTHER;
}

static void
compare_marks(const PGresult *r, const struct store_fill *marks, size_t count,
              struct store_mark_info *infos)
{
    for (int row = 0; row < PQntuples(r); row++) {
        size_t size;
        const uint8_t *log = pg_bytes(r, row, 0, &size);

        for (size_t i = 0; i < count; i++)
            if (bytes_equal(log, size, marks[i].uuid, sizeof marks[i].uuid))
                infos[i].state =
                    state_of_mark(&marks[i], (uint64_t)pg_bigint(r, row, 1),
                                  (uint64_t)pg_bigint(r, row, 2));
    }
}

int
pg_marks_read(struct pg *s, int32_t id, const struct store_fill *marks,
              size_t count, struct store_mark_info *infos)
{
    struct pg_array logs = {.bytes = NULL};
    struct pg_call c;
    int rc;

    for (size_t i = 0; i < count; i++)
        infos[i] = (struct store_mark_info){.state = STORE_MARK_NONE};
    if (count == 0)
        return 0;
    pg_array_begin(&logs, PG_TYPE_BYTEA);
    for (size_t i = 0; i < count; i++)
        pg_array_add(&logs, marks[i].uuid, sizeof marks[i].uuid);
    pg_call(&c, PG_MARKS);
    pg_add_int(&c, id);
    rc = pg_add_array(&c, &logs);
    if (rc == 0)
        rc = pg_run(s, &c, 1);
    pg_array_free(&logs);
    if (rc < 0)
        return rc;
    compare_marks(c.result, marks, count, infos);
    PQclear(c.result);
    return 0;
}

int
pg_marks_put(struct pg *s, int32_t id, const struct store_fill *marks,
             size_t count)
{
    struct pg_array logs = {.bytes = NULL}, epochs = {.bytes = NULL},
                    firsts = {.bytes = NULL};
    struct pg_call c;
    int rc;

    if (count == 0)
        return 0;
    pg_array_begin(&logs, PG_TYPE_BYTEA);
    pg_array_begin(&epochs, PG_TYPE_BIGINT);
    pg_array_begin(&firsts, PG_TYPE_BIGINT);
    for (size_t i = 0; i < count; i++) {
        pg_array_add(&logs, marks[i].uuid, sizeof marks[i].uuid);
        pg_array_add_bigint(&epochs, (int64_t)marks[i].epoch);
        pg_array_add_bigint(&firsts, (int64_t)marks[i].first_ms);
    }
    pg_call(&c, PG_MARK_PUT);
    pg_add_int(&c, id);
    rc = pg_add_array(&c, &logs);
    if (rc == 0)
        rc = pg_add_array(&c, &epochs);
    if (rc == 0)
        rc = pg_add_array(&c, &firsts);
    if (rc == 0)
        rc = pg_do(s, &c);
    pg_array_free(&logs);
    pg_array_free(&epochs);
    pg_array_free(&firsts);
    return rc;
}

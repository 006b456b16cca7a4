/* common/store/postgresql/pg_keyspace.c - transactions: of a keyspace that is
 * changed, and of a reading turn; a keyspace's row; marks: pg_begin(),
 * pg_end(), pg_begin_turn(), pg_keyspace_find(), pg_marks_read(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <string.h>

#include "common/base/clock.h"

/* ---- transactions -------------------------------------------------------- */

static int
roll_back(struct pg *s, int rc)
{
    s->bands.keyspace = 0;
    if (!s->connection || pg_ask(s, NULL, PG_ROLLBACK, "") < 0 ||
        PQtransactionStatus(s->connection) != PQTRANS_IDLE)
        pg_disconnect(s);
    return rc;
}

static int
commit_now(struct pg *s)
{
    int rc = pg_ask(s, NULL, PG_COMMIT, "");

    if (rc == 0 && strcmp(PQcmdStatus(s->results[0]), "COMMIT") != 0) {
        pg_set_trouble(s, "COMMIT was answered %s", PQcmdStatus(s->results[0]));
        rc = -EIO;
    } else if (rc < 0 || s->warned) {
        rc = -EIO; /* it may have been committed, or is on no standby */
    }
    if (rc < 0) {
        pg_report_trouble(s);
        pg_disconnect(s);
    } else {
        pg_sender_acked(s);
    }
    return rc;
}

int
pg_end(struct pg *s, int rc)
{
    return rc < 0 ? roll_back(s, rc) : commit_now(s);
}

void
pg_read_end(struct store *store)
{
    struct pg *s = pg_of(store);

    if (!s->in_turn)
        return;
    s->in_turn = false;
    if (pg_ask(s, NULL, PG_COMMIT, "") < 0)
        pg_disconnect(s);
}

int
pg_begin(struct pg *s, enum pg_statement lock, const uint8_t *name, size_t size,
         struct pg_keyspace *k)
{
    struct pg_call c[2];
    int rc;

    if (!store_name_ok(name, size))
        return -EINVAL;
    rc = pg_connect(s);
    if (rc < 0)
        return rc;
    pg_read_end(&s->store);
    s->sent = 0;
    pg_call(&c[0], PG_BEGIN, "");
    pg_call(&c[1], lock, "b", name, size);
    rc = pg_run(s, c, 2);
    if (rc < 0)
        return roll_back(s, rc);
    rc = pg_keyspace_get(c[1].result, k);
    return rc == 0 || rc == -ENOENT ? rc : roll_back(s, rc);
}

int
pg_begin_turn(struct pg *s)
{
    const int rc = pg_connect(s);

    if (rc < 0 || s->in_turn)
        return rc;
    if (!s->options.writable && s->options.sender)
        return pg_sender_begin_turn(s);
    s->in_turn = true; /* unless there is an error: pg_run() */
    return pg_ask(s, NULL, PG_BEGIN_READ, "");
}

int
pg_clear(struct pg *s, enum pg_statement statement, int32_t id)
{
    uint8_t after[KV_KEY_MAX];
    const uint8_t *last;
    size_t size = 0;
    const PGresult *r;
    int rc, rows;

    do {
        rc =
            pg_ask(s, &r, statement, "ibq", id, after, size, (int64_t)PG_CHUNK);
        if (rc < 0)
            return rc;
        rows = PQntuples(r);
        last = rows > 0 ? pg_bytes(r, 0, 0, &size) : after;
        if (size > sizeof after)
            rc = -EBADMSG;
        else
            memmove(after, last, size);
    } while (rc == 0 && rows > 0);
    return rc;
}

/* ---- the row of a keyspace ------------------------------------------------ */

int
pg_keyspace_get(const PGresult *r, struct pg_keyspace *k)
{
    const uint8_t *sum, *history;
    size_t sum_size;

    if (PQntuples(r) != 1)
        return -ENOENT;
    if (PQgetlength(r, 0, 0) != 4)
        return -EBADMSG;
    k->id = (int32_t)get_be32(PQgetvalue(r, 0, 0));
    k->keys = pg_bigint(r, 0, 1);
    sum = pg_bytes(r, 0, 2, &sum_size);
    k->saturated = pg_bigint(r, 0, 3);
    k->change = pg_bigint(r, 0, 4);
    k->nonce = pg_bigint(r, 0, 5);
    history = pg_bytes(r, 0, 6, &k->history_size);
    if (!cell_sum_parse(sum, sum_size, &k->sum) ||
        k->history_size > sizeof k->history)
        return -EBADMSG;
    memcpy(k->history, history, k->history_size);
    return 0;
}

int
pg_keyspace_find(struct pg *s, const uint8_t *name, size_t size,
                 struct pg_keyspace *k)
{
    const PGresult *r;
    const int rc = pg_ask(s, &r, PG_FIND, "b", name, size);

    return rc < 0 ? rc : pg_keyspace_get(r, k);
}

int
pg_keyspace_create(struct pg *s, const uint8_t *name, size_t size,
                   struct pg_keyspace *k)
{
    const uint64_t max = s->options.config->keyspace_max;
    struct pg_call c[3];
    int rc;

    pg_call(&c[0], PG_CREATE, "bq", name, size,
            (int64_t)(clock_ns() ^ clock_unix_ms() << 20));
    pg_call(&c[1], PG_LOCK, "b", name, size);
    pg_call(&c[2], PG_COUNT_KEYSPACES, "b", name, size);
    rc = pg_run(s, c, 3);
    if (rc < 0)
        return rc;
    if (max > 0 && (uint64_t)pg_bigint(c[2].result, 0, 0) >= max)
        return -EDQUOT;
    rc = pg_keyspace_get(c[1].result, k);
    return rc == -ENOENT ? -EAGAIN : rc;
}

void
pg_keyspace_call(struct pg_call *c, const struct pg_keyspace *k, bool changed,
                 char sum[CELL_SUM_SIZE])
{
    pg_call(c, PG_KEYSPACE_PUT, "iqtqqbq", k->id, k->keys,
            cell_sum_text(k->sum, sum), k->saturated, k->change + changed,
            k->history, k->history_size, k->nonce);
}

int
pg_keyspace_put(struct pg *s, const struct pg_keyspace *k, bool changed)
{
    char sum[CELL_SUM_SIZE];
    struct pg_call c;

    pg_keyspace_call(&c, k, changed, sum);
    return pg_run(s, &c, 1);
}

struct pg *
pg_lane(struct store *store, const uint8_t *name, size_t size)
{
    return pg_of(store)->lanes[store_lane(store, name, size)];
}

/* ---- marks ------------------------------------------------------------- */

int
pg_marks_read(struct pg *s, int32_t id, const struct log_fill *marks,
              size_t count, struct store_mark_info *infos)
{
    const PGresult *r;
    int rc;

    pg_arrays(s, "b");
    for (size_t i = 0; i < count; i++) {
        infos[i] = (struct store_mark_info){.state = STORE_MARK_NONE};
        pg_array_add(&s->arrays[0], marks[i].uuid, sizeof marks[i].uuid);
    }
    if (count == 0)
        return 0;
    rc = pg_ask(s, &r, PG_MARKS, "ia", id, &s->arrays[0]);
    for (int row = 0; rc == 0 && row < PQntuples(r); row++) {
        const uint64_t i = (uint64_t)pg_bigint(r, row, 0) - 1;

        if (i < count)
            infos[i].state =
                store_mark_compare(&marks[i], (uint64_t)pg_bigint(r, row, 1),
                                   (uint64_t)pg_bigint(r, row, 2));
    }
    return rc;
}

void
pg_marks_call(struct pg *s, struct pg_call *c, int32_t id,
              const struct log_fill *marks, size_t count)
{
    struct pg_array *a = s->arrays;

    pg_arrays(s, "bqq");
    for (size_t i = 0; i < count; i++) {
        pg_array_add(&a[0], marks[i].uuid, sizeof marks[i].uuid);
        pg_array_add_bigint(&a[1], (int64_t)marks[i].epoch);
        pg_array_add_bigint(&a[2], (int64_t)marks[i].first_ms);
    }
    pg_call(c, PG_MARK_PUT, "iaaa", id, &a[0], &a[1], &a[2]);
}

/* Finds a keyspace outside a turn. */
static int
find_now(struct pg *s, const uint8_t *name, size_t size, struct pg_keyspace *k)
{
    const int rc = store_name_ok(name, size) ? pg_connect(s) : -EINVAL;

    return rc < 0 ? rc : pg_keyspace_find(s, name, size, k);
}

int
pg_marks(struct store *store, const struct store_batch *b,
         struct store_mark_info *infos)
{
    struct pg *s = pg_lane(store, b->name, b->name_size);
    struct pg_keyspace k;
    int rc = find_now(s, b->name, b->name_size, &k);

    for (size_t i = 0; i < b->mark_count; i++)
        infos[i] = (struct store_mark_info){.state = STORE_MARK_NONE};
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    return pg_marks_read(s, k.id, b->marks, b->mark_count, infos);
}

int
pg_each_mark(struct store *store, const uint8_t *name, size_t size,
             int (*mark)(void *ctx, const struct log_fill *m,
                         const struct store_mark_info *info),
             void *ctx)
{
    static const struct store_mark_info info = {.state = STORE_MARK_DONE};
    struct pg *s = pg_of(store);
    struct pg_keyspace k;
    const PGresult *r = NULL;
    int rc = find_now(s, name, size, &k);

    if (rc == 0)
        rc = pg_ask(s, &r, PG_EACH_MARK, "i", k.id);
    for (int i = 0; rc == 0 && i < PQntuples(r); i++) {
        struct log_fill m = {.epoch = (uint64_t)pg_bigint(r, i, 1),
                             .first_ms = (uint64_t)pg_bigint(r, i, 2)};
        size_t log_size;
        const uint8_t *log = pg_bytes(r, i, 0, &log_size);

        if (log_size != sizeof m.uuid)
            rc = -EBADMSG;
        else {
            memcpy(m.uuid, log, sizeof m.uuid);
            rc = mark(ctx, &m, &info);
        }
    }
    return rc;
}

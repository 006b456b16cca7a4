/* common/store/postgresql/pg_transaction.c - transactions: of a keyspace that
 * is changed, and of a reading turn. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <string.h>

/* After a wait for a lock: which session has one. */
static void
find_locker(struct pg *s)
{
    struct pg_call c;
    char user[64], program[64];

    pg_call(&c, PG_LOCKERS);
    if (pg_run(s, &c, 1) < 0)
        return;
    if (PQntuples(c.result) == 1) {
        pg_text(c.result, 0, 1, user, sizeof user);
        pg_text(c.result, 0, 2, program, sizeof program);
        pg_set_trouble(s,
                       "waited %llu ms for a lock; the server's process %lld "
                       "has one (user %s, program %s)",
                       (unsigned long long)s->options.timeout_ms / 2,
                       (long long)pg_bigint(c.result, 0, 0), user, program);
    }
    PQclear(c.result);
    pg_report_trouble(s);
}

int
pg_rollback(struct pg *s, int rc)
{
    char why[sizeof s->trouble];
    struct pg_call c;

    s->bands.keyspace = 0;
    memcpy(why, s->trouble, sizeof why);
    pg_call(&c, PG_ROLLBACK);
    if (!s->connection || pg_do(s, &c) < 0 ||
        PQtransactionStatus(s->connection) != PQTRANS_IDLE)
        pg_disconnect(s);
    else if (rc == -EAGAIN)
        find_locker(s);
    if (rc != -EAGAIN)
        memcpy(s->trouble, why, sizeof why);
    return rc;
}

static void
end_turn(struct pg *s)
{
    struct pg_call c;

    if (!s->in_turn)
        return;
    s->in_turn = false;
    pg_call(&c, PG_COMMIT);
    if (pg_do(s, &c) < 0)
        pg_disconnect(s);
}

int
pg_begin(struct pg *s, const uint8_t *name, size_t name_size,
         struct pg_keyspace *k)
{
    struct pg_call c[2];
    int rc;

    rc = pg_connect(s);
    if (rc < 0)
        return rc;
    end_turn(s);
    pg_call(&c[0], PG_BEGIN);
    pg_call(&c[1], PG_LOCK);
    pg_add_bytes(&c[1], name, name_size);
    rc = pg_run(s, c, 2);
    if (rc < 0)
        return pg_rollback(s, rc);
    rc = pg_keyspace_get(c[1].result, k);
    PQclear(c[0].result);
    PQclear(c[1].result);
    return rc == 0 || rc == -ENOENT ? rc : pg_rollback(s, rc);
}

int
pg_commit(struct pg *s)
{
    struct pg_call c;
    int rc;

    pg_call(&c, PG_COMMIT);
    rc = pg_run(s, &c, 1);
#ifdef COUNTD_MUTANT_COMMIT_WARNING
    s->warned = false;
#endif
    if (rc == 0 && strcmp(PQcmdStatus(c.result), "COMMIT") != 0) {
        pg_set_trouble(s, "COMMIT was answered %s", PQcmdStatus(c.result));
        rc = -EIO;
    } else if (rc < 0 || s->warned) {
        rc = -EIO; /* it may have been committed, or is on no standby */
    }
    PQclear(c.result);
    if (rc < 0) {
        pg_report_trouble(s);
        pg_disconnect(s);
    }
    return rc;
}

int
pg_begin_turn(struct pg *s)
{
    struct pg_call c;
    int rc = pg_connect(s);

    if (rc < 0 || s->in_turn)
        return rc;
    pg_call(&c, PG_BEGIN_READ);
    rc = pg_do(s, &c);
    s->in_turn = rc == 0;
    return rc;
}

void
pg_read_end(struct store *store)
{
    end_turn(pg_of(store));
}

int
pg_clear(struct pg *s, enum pg_statement statement, int32_t id)
{
    uint8_t after[KV_KEY_MAX];
    const uint8_t *last;
    size_t size = 0;
    struct pg_call c;
    int rc, rows;

    do {
        pg_call(&c, statement);
        pg_add_int(&c, id);
        pg_add_bytes(&c, after, size);
        pg_add_bigint(&c, PG_CHUNK);
        rc = pg_run(s, &c, 1);
        if (rc < 0)
            return rc;
        rows = PQntuples(c.result);
        if (rows > 0) {
            last = pg_bytes(c.result, 0, 0, &size);
            if (size > sizeof after)
                rc = -EBADMSG;
            else
                memcpy(after, last, size);
        }
        PQclear(c.result);
    } while (rc == 0 && rows > 0);
    return rc;
}

/* common/store/postgresql/pg_check.c - store_check(): totals, bands and history
 * against the rows, in one moment.  The bytes of the tables are PostgreSQL's to
 * check (pg_amcheck, data checksums). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

struct check {
    struct pg *s;
    struct pg_keyspace keyspace;
    struct store_check *result;
    struct history_check history;
    int128 sum;
    uint128 proof;
};

static void
report_fault(void *ctx, const char *text)
{
    struct check *c = ctx;

    c->result->faults++;
    c->result->fault(c->result->ctx, text);
}

/* Counts a row off its band. */
static void
check_row(struct check *c, int64_t count, bool saturated, const uint8_t *key,
          size_t size)
{
    c->result->keys++;
    c->result->saturated += saturated;
    c->sum += count;
    c->proof += history_proof(c->history.hash, key, size, count);
    pg_bands_count(c->s, count, key, size, -1);
}

static int
check_rows(struct check *c, const uint8_t *name, size_t name_size)
{
    uint8_t after[STORE_NAME_MAX];
    size_t size = 0;
    const PGresult *r;
    int rc, rows;

    do {
        rc = pg_ask(c->s, &r, PG_KEYS, "bbbbqq", name, name_size, after,
                    (size_t)0, after, size, after, (size_t)0, (int64_t)PG_CHUNK,
                    (int64_t)0);
        if (rc < 0)
            return rc;
        rows = PQntuples(r);
        for (int i = 0; rc == 0 && i < rows; i++) {
            rc = pg_key(r, i, 0, after, &size);
            if (rc == 0 && size < 1)
                rc = -EBADMSG;
            if (rc == 0)
                check_row(c, pg_bigint(r, i, 1), pg_bool(r, i, 2), after, size);
        }
    } while (rc == 0 && rows > 0);
    return rc;
}

static void
check_totals(struct check *c)
{
    const struct pg_keyspace *k = &c->keyspace;

    if (c->result->keys != (uint64_t)k->keys)
        report_fault(c, "the number of keys is not what the totals say");
    if (c->sum != k->sum)
        report_fault(c, "the sum is not what the totals say");
    if (c->result->saturated != (uint64_t)k->saturated)
        report_fault(c, "the saturated keys are not what the totals say");
    for (size_t i = 0; i < c->s->bands.count; i++)
        if (c->s->bands.bands[i].keys != 0) {
            report_fault(c, "the bands do not hold as many rows as they say");
            break;
        }
}

/* Checks marks and history, which nothing has read before. */
static int
check_rest(struct check *c)
{
    struct history_whole whole = {.saturated = (uint64_t)c->keyspace.saturated,
                                  .sum = c->keyspace.sum,
                                  .proof = c->proof};
    const PGresult *r;
    bool has_bad_mark;
    int rc;

    rc = pg_ask(c->s, &r, PG_COUNTS, "i", c->keyspace.id);
    if (rc < 0)
        return rc;
    c->result->marks = (uint64_t)pg_bigint(r, 0, 1);
    has_bad_mark = pg_bool(r, 0, 2);
    whole.entries = (uint64_t)pg_bigint(r, 0, 0);
    if (c->keyspace.history_size > 0)
        rc = pg_history_check(c->s, &c->keyspace, &whole, &c->history);
    else if (whole.entries > 0)
        report_fault(c, "history: it has entries that belong to no run");
    c->result->blocks = c->history.blocks;
    return rc == 0 && has_bad_mark ? -EBADMSG : rc;
}

int
pg_check(struct store *store, const uint8_t *name, size_t size,
         struct store_check *asked)
{
    struct pg *s = pg_of(store);
    struct check c = {.s = s, .result = asked};
    int rc;

    if (!store_name_ok(name, size))
        return -EINVAL;
    *asked = (struct store_check){.fault = asked->fault, .ctx = asked->ctx};
    c.history.fault = report_fault;
    c.history.ctx = &c;
    /* As with files: a random key makes the proof safe against crafted damage;
     * without it (getrandom fails) it still finds accidental damage. */
    (void)!getrandom(c.history.hash, sizeof c.history.hash, 0);
    pg_read_end(store);
    s->bands.keyspace = 0; /* they are read again */
    rc = pg_begin_turn(s);
    if (rc == 0)
        rc = pg_keyspace_find(s, name, size, &c.keyspace);
    if (rc == 0)
        rc = pg_bands_load(s, &c.keyspace);
    if (rc == 0)
        rc = check_rows(&c, name, size);
    s->bands.keyspace = 0; /* counted down */
    if (rc == 0) {
        check_totals(&c);
        rc = check_rest(&c);
    }
    pg_read_end(store);
    if (rc == -EBADMSG) {
        report_fault(&c, "a record cannot be read");
        rc = 0;
    }
    return rc;
}

/* common/store/postgresql/pg_report.c - what people are told of the database: its
 * facts, the data directories that count into it, what needs an operator. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SILENT_MS 10000
#define SKEW_MS   1000

/* The columns of PG_SENDERS. */
enum {
    SENDER_ID,
    SENDER_HOST,
    SENDER_AS_OF,
    SENDER_SKEW,
    SENDER_SILENT,
    SENDER_SEQ
};

struct sender {
    char id[40], host[80];
    int64_t as_of_ms, skew_ms, silent_ms, seq;
};

static void
read_sender(const PGresult *r, int row, struct sender *x)
{
    pg_text(r, row, SENDER_ID, x->id, sizeof x->id);
    pg_text(r, row, SENDER_HOST, x->host, sizeof x->host);
    x->as_of_ms = pg_bigint(r, row, SENDER_AS_OF);
    x->skew_ms = pg_bigint(r, row, SENDER_SKEW);
    x->silent_ms = pg_bigint(r, row, SENDER_SILENT);
    x->seq = pg_bigint(r, row, SENDER_SEQ);
}

/* ---- facts ------------------------------------------------------------- */

static void
report_sender(const struct sender *x,
              void (*line)(void *ctx, const char *name, const char *value),
              void *ctx)
{
    char value[256];

    (void)snprintf(value, sizeof value,
                   "%s host=%s transactions=%" PRId64 " as_of_ms=%" PRId64
                   " seen_ms_ago=%" PRId64 " clock_ahead_ms=%" PRId64,
                   x->id, x->host, x->seq, x->as_of_ms, x->silent_ms,
                   x->skew_ms);
    line(ctx, "directory", value);
}

int
postgresql_store_report(struct store *store,
                        void (*line)(void *ctx, const char *name,
                                     const char *value),
                        void *ctx)
{
    static const struct {
        int column;
        const char *name;
    } texts[] = {{PG_COLUMN_SERVER, "postgresql"},
                 {PG_COLUMN_SYNCHRONOUS, "synchronous_commit"},
                 {PG_COLUMN_STANDBYS, "synchronous_standby_names"},
                 {PG_COLUMN_CHECKSUMS, "data_checksums"}};
    static const char *const sizes[] = {"keyspaces", "keys", "counter_bytes",
                                        "history_bytes"};
    struct pg *s = pg_of(store);
    struct pg_call c[3];
    struct sender x;
    char value[256];
    int rc = pg_connect(s);

    if (rc < 0)
        return rc;
    pg_call(&c[0], PG_SERVER, "");
    pg_call(&c[1], PG_SIZES, "");
    pg_call(&c[2], PG_SENDERS, "");
    rc = pg_run(s, c, 3);
    if (rc < 0)
        return rc;
    line(ctx, "server", PQhost(s->connection));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pg_text(c[0].result, 0, texts[i].column, value, sizeof value);
        line(ctx, texts[i].name, value);
    }
    for (int i = 0; i < 4; i++) {
        (void)snprintf(value, sizeof value, "%" PRId64,
                       pg_bigint(c[1].result, 0, i));
        line(ctx, sizes[i], value);
    }
    for (int i = 0; i < PQntuples(c[2].result); i++) {
        read_sender(c[2].result, i, &x);
        report_sender(&x, line, ctx);
    }
    for (int i = 0; i < 3; i++)
        PQclear(c[i].result);
    return 0;
}

int
postgresql_store_forget(struct store *store, const char *id)
{
    struct pg *s = pg_of(store);
    PGresult *r;
    int rc = pg_connect(s);

    if (rc == 0)
        rc = pg_ask(s, &r, PG_FORGET, "t", id);
    if (rc < 0)
        return rc;
    rc = pg_bigint(r, 0, 0) > 0 ? 0 : -ENOENT;
    PQclear(r);
    return rc;
}

/* ---- what needs an operator ---------------------------------------------- */

struct troubles {
    void (*each)(void *ctx, const char *text);
    void *ctx;
    int count;
};

static void tell(struct troubles *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
tell(struct troubles *t, const char *format, ...)
{
    char text[640] = "PostgreSQL: ";
    const size_t begin = strlen(text);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text + begin, sizeof text - begin, format, args);
    va_end(args);
    t->each(t->ctx, text);
    t->count++;
}

static void
judge_settings(struct troubles *t, const PGresult *r, bool has_standby)
{
    if (!pg_is_text(r, PG_COLUMN_SYNCHRONOUS, "on") &&
        !pg_is_text(r, PG_COLUMN_SYNCHRONOUS, "remote_apply"))
        tell(t, "synchronous_commit is below on: counts that are merged can be "
                "lost with a crash");
    if (!pg_is_text(r, PG_COLUMN_STANDBYS, "") && !has_standby)
        tell(t, "commits wait for a synchronous standby, and none is there");
    if (pg_is_text(r, PG_COLUMN_AUTOVACUUM, "off"))
        tell(t, "autovacuum is off: the tables grow with every merge");
}

static void
judge_sender(struct troubles *t, const struct sender *x)
{
    if (x->silent_ms > SILENT_MS)
        tell(t,
             "the data directory %s of host %s has said nothing for %" PRId64
             " s, and as_of stays; if it is gone for good: countd store forget "
             "%s",
             x->id, x->host, x->silent_ms / 1000, x->id);
    if (llabs(x->skew_ms) > SKEW_MS)
        tell(t, "the clock of host %s is %" PRId64 " ms %s the server's",
             x->host, (int64_t)llabs(x->skew_ms),
             x->skew_ms > 0 ? "ahead of" : "behind");
}

static int
ask_troubles(struct pg *s, struct troubles *t)
{
    struct pg_call c[4];
    struct sender x;
    char user[64], program[64];
    int rc;

    pg_call(&c[0], PG_SERVER, "");
    pg_call(&c[1], PG_STANDBYS, "");
    pg_call(&c[2], PG_SENDERS, "");
    pg_call(&c[3], PG_BLOCKED, "");
    rc = pg_run(s, c, 4);
    if (rc < 0)
        return rc;
    judge_settings(t, c[0].result, pg_bigint(c[1].result, 0, 0) > 0);
    for (int i = 0; i < PQntuples(c[2].result); i++) {
        read_sender(c[2].result, i, &x);
        judge_sender(t, &x);
    }
    for (int i = 0; i < PQntuples(c[3].result); i++) {
        pg_text(c[3].result, i, 1, user, sizeof user);
        pg_text(c[3].result, i, 2, program, sizeof program);
        tell(t,
             "merges wait for a lock of the server's process %" PRId64
             " (user %s, program %s)",
             pg_bigint(c[3].result, i, 0), user, program);
    }
    for (int i = 0; i < 4; i++)
        PQclear(c[i].result);
    return 0;
}

int
postgresql_store_troubles(struct store *store,
                          void (*each)(void *ctx, const char *text), void *ctx)
{
    struct pg *s = pg_of(store);
    struct troubles t = {.each = each, .ctx = ctx};
    int rc = pg_connect(s);

    if (rc == 0 && s->is_repairing)
        tell(&t, "%s", s->trouble);
    if (rc == 0)
        rc = ask_troubles(s, &t);
    if (rc < 0)
        tell(&t, "%s", s->trouble);
    return t.count;
}

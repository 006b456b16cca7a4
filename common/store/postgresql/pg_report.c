/* common/store/postgresql/pg_report.c - reports about the database: its figures,
 * and for `countd store` its facts, the data directories that count into
 * it and the sessions that merges wait for. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/base/clock.h"

/* A trouble that was seen lasts so long, and `timeout_ms`: what failed is tried
 * again earlier. */
#define SEEN_MS 15000

void
postgresql_store_figures(const struct store *store,
                         int64_t values[STATUS_FIGURES])
{
    const struct pg *s = (const struct pg *)(const void *)store;
    int64_t *to = values + STATUS_M_DB_DOWN, since_ms;

    if (store->engine != &pg_engine)
        return;
    since_ms = (int64_t)(clock_ms() - SEEN_MS - s->options.timeout_ms);
    for (int i = 0; i < PG_FIGURES; i++) {
        to[i] = s->health->values[i];
        if (STATUS_M_DB_DOWN + i < STATUS_M_DB_UNSAFE)
            to[i] = to[i] != 0 && to[i] > since_ms;
    }
}

/* ---- facts ------------------------------------------------------------- */

struct report {
    void (*line)(void *ctx, const char *name, const char *value);
    void *ctx;
};

static void put_line(const struct report *to, const char *name,
                     const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void
put_line(const struct report *to, const char *name, const char *format, ...)
{
    char value[640];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(value, sizeof value, format, args);
    va_end(args);
    to->line(to->ctx, name, value);
}

/* Facts of the server, as texts, and sizes. */
static void
report_facts(const struct report *to, const PGresult *server,
             const PGresult *sizes)
{
    static const char *const texts[] = {"postgresql", "synchronous_commit",
                                        "synchronous_standby_names",
                                        "data_checksums"};
    static const char *const names[] = {"keyspaces", "keys", "counter_bytes",
                                        "history_bytes"};
    char value[256];

    for (int i = 0; i < 4; i++) {
        pg_text(server, 0, PG_COLUMN_SERVER + i, value, sizeof value);
        put_line(to, texts[i], "%s", value);
    }
    for (int i = 0; i < 4; i++)
        put_line(to, names[i], "%" PRId64, pg_bigint(sizes, 0, i));
}

static void
report_senders(const struct report *to, const PGresult *r)
{
    char id[40], host[80], seen[48];

    for (int i = 0; i < PQntuples(r); i++) {
        pg_text(r, i, 0, id, sizeof id);
        pg_text(r, i, 1, host, sizeof host);
        (void)snprintf(seen, sizeof seen, "seen_ms_ago=%" PRId64,
                       pg_bigint(r, i, 4));
        put_line(to, "directory",
                 "%s host=%s as_of_ms=%" PRId64 " clock_ahead_ms=%" PRId64
                 " %s transactions=%" PRId64,
                 id, host, pg_bigint(r, i, 2), pg_bigint(r, i, 3),
                 pg_bigint(r, i, 4) < 0 ? "ended" : seen, pg_bigint(r, i, 5));
    }
}

static void
report_locks(struct pg *s, const struct report *to, const PGresult *r)
{
    char user[64], program[64];

    for (int i = 0; i < PQntuples(r); i++) {
        pg_text(r, i, 1, user, sizeof user);
        pg_text(r, i, 2, program, sizeof program);
        put_line(to, "lock",
                 "merges wait for the server's process %" PRId64
                 " (user %s, program %s)",
                 pg_bigint(r, i, 0), user, program);
        pg_saw(s, STATUS_M_DB_LOCKED);
    }
}

int
postgresql_store_report(struct store *store,
                        void (*line)(void *ctx, const char *name,
                                     const char *value),
                        void *ctx)
{
    static const enum pg_statement statements[] = {PG_SERVER, PG_SIZES,
                                                   PG_SENDERS, PG_BLOCKED};
    const struct report to = {line, ctx};
    struct pg *s = pg_of(store);
    struct pg_call c[4];
    int rc = pg_connect(s);

    if (rc < 0)
        return rc;
    if (s->is_repairing)
        put_line(&to, "behind", "%s", s->trouble);
    for (int i = 0; i < 4; i++)
        pg_call(&c[i], statements[i], "");
    rc = pg_run(s, c, 4);
    if (rc < 0)
        return rc;
    put_line(&to, "server", "%s", PQhost(s->connection));
    report_facts(&to, c[0].result, c[1].result);
    report_senders(&to, c[2].result);
    report_locks(s, &to, c[3].result);
    return 0;
}

int
postgresql_store_forget(struct store *store, const char *id)
{
    struct pg *s = pg_of(store);
    const PGresult *r;
    int rc = pg_connect(s);

    if (rc == 0)
        rc = pg_ask(s, &r, PG_FORGET, "t", id);
    if (rc < 0)
        return rc;
    return pg_bigint(r, 0, 0) > 0 ? 0 : -ENOENT;
}

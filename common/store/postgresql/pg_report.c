/* common/store/postgresql/pg_report.c - reports about the database: its figures,
 * and for `countd store` its facts, the data directories that count into
 * it and the sessions that merges wait for. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>

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
    since_ms =
        (int64_t)(clock_ms() - SEEN_MS - s->options.config->store_timeout_ms);
    for (int i = 0; i < PG_FIGURES; i++) {
        to[i] = s->health[i];
        if (STATUS_M_DB_DOWN + i < STATUS_M_DB_UNSAFE)
            to[i] = to[i] != 0 && to[i] > since_ms;
    }
}

int
postgresql_store_report(struct store *store,
                        void (*line)(void *ctx, const char *name,
                                     const char *value),
                        void *ctx)
{
    static const enum pg_statement statements[] = {PG_FACTS, PG_SENDERS,
                                                   PG_BLOCKED};
    struct pg *s = pg_of(store);
    char name[32], value[640];
    struct pg_call c[3];
    int rc = pg_connect(s);

    if (rc < 0)
        return rc;
    if (s->is_repairing)
        line(ctx, "behind", s->trouble);
    for (int i = 0; i < 3; i++)
        pg_call(&c[i], statements[i], "");
    rc = pg_run(s, c, 3);
    if (rc < 0)
        return rc;
    line(ctx, "server", PQhost(s->connection));
    for (int i = 0; i < 3; i++)
        for (int row = 0; row < PQntuples(c[i].result); row++) {
            pg_text(c[i].result, row, 0, name, sizeof name);
            pg_text(c[i].result, row, 1, value, sizeof value);
            line(ctx, name, value);
        }
    if (PQntuples(c[2].result) > 0)
        pg_saw(s, STATUS_M_DB_LOCKED);
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

/* common/store/postgresql/pg_schema.c - the tables, and what is checked of a
 * server when a connection is made.
 *
 *     keyspace  a row each: totals; its row is the lock of all that it has;
 *               `history` is the record of common/store/history
 *     counter   the counts
 *     band      where a run of at most 2048 rows of the order by count begins,
 *               and how many there are up to the next
 *     mark      the last fill of each log that is merged
 *     block     history: the kv of common/store/history
 *     lane      how many transactions a directory's lane has made
 *     sender    up to when a directory's increments are here, by its clock, and
 *               when it said so (`seen`, by the server's); 0: it has ended
 *     counters  a view, to join with: others read this and write nothing */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/setup/figures.h"

#define PG_SCHEMA 1 /* version of the tables */

/* In a schema that is in the search_path. */
static const char tables_text[] =
    "CREATE TABLE keyspace (\n"
    "    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,\n"
    "    name bytea NOT NULL UNIQUE,\n"
    "    keys bigint NOT NULL DEFAULT 0,\n"
    "    sum numeric(39) NOT NULL DEFAULT 0,\n"
    "    saturated bigint NOT NULL DEFAULT 0,\n"
    "    nonce bigint NOT NULL,\n"
    "    change bigint NOT NULL DEFAULT 0,\n"
    "    history bytea\n"
    ") WITH (fillfactor = 50);\n"
    "CREATE TABLE counter (\n"
    "    keyspace int NOT NULL,\n"
    "    key bytea NOT NULL,\n"
    "    n bigint NOT NULL,\n"
    "    saturated boolean NOT NULL DEFAULT false,\n"
    "    PRIMARY KEY (keyspace, key)\n"
    ") WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);\n"
    "CREATE INDEX counter_rank ON counter (keyspace, n DESC, key);\n"
    "CREATE TABLE band (\n"
    "    keyspace int NOT NULL,\n"
    "    n bigint NOT NULL,\n"
    "    key bytea NOT NULL,\n"
    "    keys bigint NOT NULL,\n"
    "    PRIMARY KEY (keyspace, n, key)\n"
    ") WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.05);\n"
    "CREATE TABLE mark (\n"
    "    keyspace int NOT NULL,\n"
    "    log bytea NOT NULL,\n"
    "    epoch bigint NOT NULL,\n"
    "    first_ms bigint NOT NULL,\n"
    "    PRIMARY KEY (keyspace, log)\n"
    ") WITH (fillfactor = 50);\n"
    "CREATE TABLE block (\n"
    "    keyspace int NOT NULL,\n"
    "    k bytea NOT NULL,\n"
    "    v bytea NOT NULL,\n"
    "    PRIMARY KEY (keyspace, k)\n"
    ");\n"
    "ALTER TABLE block ALTER v SET STORAGE PLAIN;\n"
    "CREATE TABLE lane (\n"
    "    sender bytea NOT NULL,\n"
    "    lane int NOT NULL,\n"
    "    seq bigint NOT NULL,\n"
    "    PRIMARY KEY (sender, lane)\n"
    ") WITH (fillfactor = 50);\n"
    "CREATE TABLE sender (\n"
    "    id bytea PRIMARY KEY,\n"
    "    host text NOT NULL,\n"
    "    as_of bigint NOT NULL,\n"
    "    skew bigint NOT NULL,\n"
    "    seen bigint NOT NULL\n"
    ") WITH (fillfactor = 50);\n"
    "CREATE TABLE meta (version int NOT NULL);\n"
    "CREATE VIEW counters AS\n"
    "    SELECT k.name AS keyspace, c.key, c.n\n"
    "    FROM keyspace k JOIN counter c ON c.keyspace = k.id;\n";

char *
postgresql_schema_text(const char *schema)
{
    char *text;

    return asprintf(&text,
                    "CREATE SCHEMA IF NOT EXISTS %s;\n"
                    "SET search_path = %s;\n%s"
                    "INSERT INTO meta VALUES (%d);\n",
                    schema, schema, tables_text, PG_SCHEMA) < 0
               ? NULL
               : text;
}

int
postgresql_store_init(struct store *store)
{
    struct pg *s = pg_of(store);
    char *text = postgresql_schema_text(s->options.config->store_schema);
    int rc;

    if (!text)
        return -ENOMEM;
    rc = pg_run_script(s, text);
    free(text);
    return rc;
}

/* ---- the server -------------------------------------------------------- */

/* The columns of PG_SERVER; from PG_COLUMN_FIGURES on the figures from
 * STATUS_M_DB_UNSAFE on. */
enum {
    PG_COLUMN_SCHEMA,
    PG_COLUMN_READ_ONLY,
    PG_COLUMN_CLOCK,
    PG_COLUMN_FIGURES
};

/* Takes its figures, and says what countd does without, once for each handle. */
static void
take_figures(struct pg *s, const PGresult *r)
{
    const bool tells = !s->was_told && s->lane == 0 && s->options.writable &&
                       !s->options.quiet;

    for (int i = STATUS_M_DB_UNSAFE; i < STATUS_M_DB_COMMIT_MS; i++) {
        const int64_t value =
            pg_bigint(r, 0, PG_COLUMN_FIGURES + i - STATUS_M_DB_UNSAFE);

        s->health[i - STATUS_M_DB_DOWN] = value;
        if (tells && value == 1 && i > STATUS_M_DB_UNSAFE &&
            i < STATUS_M_DB_WAL_HELD)
            diag(DIAG_WARNING, "PostgreSQL: %s", figures[i].sentence);
    }
    s->was_told = s->was_told || tells;
}

static int
judge_server(struct pg *s, const PGresult *r)
{
    const int64_t version =
        PQntuples(r) == 1 ? pg_bigint(r, 0, PG_COLUMN_SCHEMA) : 0;

    if (version != PG_SCHEMA) {
        pg_set_trouble(s,
                       "the tables of schema %s are of version %lld, this "
                       "countd knows %d",
                       s->options.config->store_schema, (long long)version,
                       PG_SCHEMA);
        pg_saw(s, STATUS_M_DB_REFUSED);
        return -EPERM;
    }
    pg_sender_compare_clocks(s, pg_bigint(r, 0, PG_COLUMN_CLOCK));
    take_figures(s, r);
    if (pg_bigint(r, 0, PG_COLUMN_FIGURES) != 0) {
        pg_set_trouble(s, "%s", figures[STATUS_M_DB_UNSAFE].sentence);
        return -EPERM;
    }
    if (s->options.writable && pg_bool(r, 0, PG_COLUMN_READ_ONLY)) {
        pg_set_trouble(s, "the server is read-only or a standby");
        pg_saw(s, STATUS_M_DB_READ_ONLY);
        return -EHOSTDOWN;
    }
    return 0;
}

int
pg_server_check(struct pg *s)
{
    const PGresult *r;
    const int rc = pg_ask(s, &r, PG_SERVER, "");

    return rc < 0 ? rc : judge_server(s, r);
}

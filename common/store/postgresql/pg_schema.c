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
 *     sender    up to when a directory's increments are here, by its clock
 *     counters  a view, to join with: others read this and write nothing */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PG_SCHEMA      1 /* version of the tables */
#define PG_VERSION_MIN 130000

#define TEXT(x)  TEXT_(x)
#define TEXT_(x) #x

/* @ is the name of the schema. */
static const char schema_text[] =
    "CREATE SCHEMA IF NOT EXISTS @;\n"
    "CREATE TABLE @.keyspace (\n"
    "    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,\n"
    "    name bytea NOT NULL UNIQUE,\n"
    "    keys bigint NOT NULL DEFAULT 0,\n"
    "    sum numeric(39) NOT NULL DEFAULT 0,\n"
    "    saturated bigint NOT NULL DEFAULT 0,\n"
    "    nonce bigint NOT NULL,\n"
    "    change bigint NOT NULL DEFAULT 0,\n"
    "    history bytea\n"
    ") WITH (fillfactor = 50);\n"
    "CREATE TABLE @.counter (\n"
    "    keyspace int NOT NULL,\n"
    "    key bytea NOT NULL,\n"
    "    n bigint NOT NULL,\n"
    "    saturated boolean NOT NULL DEFAULT false,\n"
    "    PRIMARY KEY (keyspace, key)\n"
    ") WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);\n"
    "CREATE INDEX counter_rank ON @.counter (keyspace, n DESC, key);\n"
    "CREATE TABLE @.band (\n"
    "    keyspace int NOT NULL,\n"
    "    n bigint NOT NULL,\n"
    "    key bytea NOT NULL,\n"
    "    keys bigint NOT NULL,\n"
    "    PRIMARY KEY (keyspace, n, key)\n"
    ") WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.05);\n"
    "CREATE TABLE @.mark (\n"
    "    keyspace int NOT NULL,\n"
    "    log bytea NOT NULL,\n"
    "    epoch bigint NOT NULL,\n"
    "    first_ms bigint NOT NULL,\n"
    "    PRIMARY KEY (keyspace, log)\n"
    ") WITH (fillfactor = 50);\n"
    "CREATE TABLE @.block (\n"
    "    keyspace int NOT NULL,\n"
    "    k bytea NOT NULL,\n"
    "    v bytea NOT NULL,\n"
    "    PRIMARY KEY (keyspace, k)\n"
    ");\n"
    "ALTER TABLE @.block ALTER v SET STORAGE PLAIN;\n"
    "CREATE TABLE @.lane (\n"
    "    sender bytea NOT NULL,\n"
    "    lane int NOT NULL,\n"
    "    seq bigint NOT NULL,\n"
    "    PRIMARY KEY (sender, lane)\n"
    ") WITH (fillfactor = 50);\n"
    "CREATE TABLE @.sender (\n"
    "    id bytea PRIMARY KEY,\n"
    "    host text NOT NULL,\n"
    "    as_of bigint NOT NULL,\n"
    "    skew bigint NOT NULL,\n"
    "    seen bigint NOT NULL\n"
    ") WITH (fillfactor = 50);\n"
    "CREATE TABLE @.meta (version int NOT NULL);\n"
    "INSERT INTO @.meta VALUES (" TEXT(
        PG_SCHEMA) ");\n"
                   "CREATE VIEW @.counters AS\n"
                   "    SELECT k.name AS keyspace, c.key, c.n\n"
                   "    FROM @.keyspace k JOIN @.counter c ON c.keyspace = "
                   "k.id;\n";

char *
postgresql_schema_text(const char *schema)
{
    const size_t name_size = strlen(schema);
    size_t size = sizeof schema_text;
    char *text, *to;

    for (const char *at = schema_text; *at != '\0'; at++)
        size += *at == '@' ? name_size : 0;
    text = to = malloc(size);
    if (!text)
        return NULL;
    for (const char *at = schema_text; *at != '\0'; at++) {
        if (*at != '@') {
            *to++ = *at;
            continue;
        }
        memcpy(to, schema, name_size);
        to += name_size;
    }
    *to = '\0';
    return text;
}

int
postgresql_store_init(struct store *store)
{
    struct pg *s = pg_of(store);
    char *text = postgresql_schema_text(s->options.schema);
    int rc;

    if (!text)
        return -ENOMEM;
    rc = pg_run_script(s, text);
    free(text);
    return rc;
}

/* ---- the server -------------------------------------------------------- */

bool
pg_is_text(const PGresult *r, int column, const char *text)
{
    char value[256];

    pg_text(r, 0, column, value, sizeof value);
    return strcmp(value, text) == 0;
}

/* What countd does without, once for each handle. */
static void
warn(struct pg *s, const PGresult *r)
{
    if (s->was_told || !s->options.writable || s->options.quiet)
        return;
    s->was_told = true;
    if (!pg_is_text(r, PG_COLUMN_SYNCHRONOUS, "on") &&
        !pg_is_text(r, PG_COLUMN_SYNCHRONOUS, "remote_apply"))
        diag(DIAG_WARNING, "PostgreSQL: synchronous_commit is below on: "
                           "counts that are merged can be lost with a crash");
    else if (pg_is_text(r, PG_COLUMN_STANDBYS, ""))
        diag(DIAG_WARNING,
             "PostgreSQL: synchronous_standby_names is empty: counts that are "
             "merged can be lost with the database's machine");
    if (pg_is_text(r, PG_COLUMN_AUTOVACUUM, "off"))
        diag(DIAG_WARNING, "PostgreSQL: autovacuum is off: the tables grow "
                           "with every merge");
    if (pg_is_text(r, PG_COLUMN_CHECKSUMS, "off"))
        diag(DIAG_WARNING, "PostgreSQL: it has no data checksums: damage of "
                           "its disk can go unseen");
}

static int
judge_server(struct pg *s, const PGresult *r)
{
    if (PQntuples(r) != 1 || pg_bigint(r, 0, PG_COLUMN_SCHEMA) != PG_SCHEMA) {
        pg_set_trouble(s,
                       "the tables of schema %s are of version %lld, this "
                       "countd knows " TEXT(PG_SCHEMA),
                       s->options.schema,
                       PQntuples(r) == 1
                           ? (long long)pg_bigint(r, 0, PG_COLUMN_SCHEMA)
                           : 0LL);
        return -EPERM;
    }
    if (pg_bigint(r, 0, PG_COLUMN_NUMBER) < PG_VERSION_MIN) {
        pg_set_trouble(s, "the server is older than PostgreSQL 13");
        return -EPERM;
    }
    if (pg_is_text(r, PG_COLUMN_FSYNC, "off") ||
        pg_is_text(r, PG_COLUMN_FULL_PAGES, "off")) {
        pg_set_trouble(s, "fsync or full_page_writes is off: what it commits "
                          "would not survive a crash");
        return -EPERM;
    }
    if (s->options.writable && pg_bool(r, 0, PG_COLUMN_STANDBY)) {
        pg_set_trouble(s, "the server is a standby");
        return -EHOSTDOWN;
    }
    return 0;
}

int
pg_server_check(struct pg *s)
{
    PGresult *r;
    int rc = pg_ask(s, &r, PG_SERVER, "");

    if (rc < 0)
        return rc;
    rc = judge_server(s, r);
    if (rc == 0)
        warn(s, r);
    PQclear(r);
    return rc;
}

/* tests/lib/pg_store.h - a store of PostgreSQL's engine in a schema of its own, and
 * a data directory: a fixture for tests of common/store/postgresql. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_PG_STORE_H
#define COUNTD_TESTS_LIB_PG_STORE_H

#include "tests/lib/engines.h"
#include "tests/lib/pg_proxy.h"
#include "tests/lib/pg_server.h"

struct pg_store {
    struct config settings;
    struct postgresql_options options;
    struct tmpdir tmp; /* folder of `dir` */
    struct datadir dir;
    struct store *s;     /* by both as they were when it was opened */
    struct store *other; /* NULL: none; closed behind the case, too */
    struct config settings_of_s, settings_of_other;
    struct pg_proxy proxy;
};

/* Makes the tables and sets the options; the case's own setup opens the store.
 * NULL: there is no server. */
struct pg_store *pg_store_setup(void **state);
int pg_store_teardown(void **state);

/* Connects now: 0, or why not. */
int pg_store_connect(struct store *s);

/* Opens the store, or its other handle, by settings and options; if it was open,
 * anew. */
void pg_store_open(struct pg_store *x);
struct store *pg_store_open_other(struct pg_store *x);

/* Stores that are opened from now on connect through a proxy, which looks. */
void pg_store_look(struct pg_store *x,
                   bool (*look)(bool from_server, char *bytes, size_t size));

/* A fill of a log that is always the same one. */
struct log_fill pg_store_fill(uint64_t epoch);

#define PG_STORE(name, x, setup)                                               \
    PG_CASE_OF(pg_store, name, x, setup, pg_store_teardown)

#endif

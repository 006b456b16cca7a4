/* tests/lib/pg_server.h - a PostgreSQL server for the tests of a program: made
 * when it is first asked for, in a temporary directory, on a socket in it; gone
 * when the program ends; and a standby of it.
 *
 * A failure to start it fails the test.  As root it runs as another user, for
 * PostgreSQL refuses root. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_PG_SERVER_H
#define COUNTD_TESTS_LIB_PG_SERVER_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tests/lib/test.h"

/* Whether PostgreSQL is installed. */
bool pg_server_is_installed(void);

/* A case whose fixture is a struct `type`; skipped where there is no server. */
#define PG_CASE_OF(type, name, x, setup, teardown)                             \
    static void name(struct type *x);                                          \
    static void name##_run(void **state)                                       \
    {                                                                          \
        if (!pg_server_is_installed())                                         \
            test_skip("PostgreSQL's server is not installed");                 \
        name(*state);                                                          \
    }                                                                          \
    TEST_ADDED(name, #name, name##_run, setup, teardown, NULL)                 \
    static void name(struct type *x)
#define PG_CASE(name, x, setup, teardown)                                      \
    PG_CASE_OF(fixture, name, x, setup, teardown)

/* How to connect to it as its superuser. */
const char *pg_server_conninfo(void);

/* Its directory: the socket is .s.PGSQL.5432 there. */
const char *pg_server_path(void);

/* The schema that @ stands for in SQL. */
void pg_server_use(const char *schema);

/* Runs SQL, made as by printf(), and fails the test when that fails; returns the
 * first value as a text, which lives until the next call. */
const char *pg_server_run(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* The same on the standby. */
const char *pg_server_standby_run(const char *sql);

/* A session that has run SQL, and may hold locks: the caller's, to be ended. */
PGconn *pg_server_session(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Ends a session when the server has released its locks, for which PQfinish()
 * alone does not wait; what it still waits for itself comes first. */
void pg_server_session_end(PGconn *c);

/* Runs SQL until it returns this. */
void pg_server_await(const char *sql, const char *value);

/* Changes a setting of the server, and waits until it has changed. */
void pg_server_set(const char *name, const char *value);

/* Has all of its processes stand still, or go on: it takes connections and
 * requests, and answers none. */
void pg_server_hold(bool holds);

/* Stops the server at once, as a crash does; starts it again; both. */
void pg_server_stop(void);
void pg_server_start(void);
void pg_server_crash(void);

/* Before all else: for a bench, its data is in the temporary directory; it has
 * no data checksums. */
void pg_server_on_disk(void);
void pg_server_without_checksums(void);

/* Keeps a copy of its data, of a server that is stopped for it; puts it back. */
void pg_server_save(void);
void pg_server_restore(void);

/* How to connect to whichever of two servers is the primary one; to the
 * standby. */
const char *pg_server_both(void);
const char *pg_server_standby_conninfo(void);

/* Makes the other server a standby of this one, whose commits wait for it if it
 * is synchronous.  Stops it as a crash does. */
void pg_server_standby_start(bool synchronous);
void pg_server_standby_stop(void);

/* The primary server crashes, and the standby takes its place: what it has.  If
 * it was stopped it is started. */
void pg_server_fail_over(void);

#endif

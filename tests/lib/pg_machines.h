/* tests/lib/pg_machines.h - two machines whose daemons count into one schema of
 * pg_server.h's database, @ in SQL: a fixture, with another schema for each case.
 *
 * The tables are made; the daemons are started by the case, and stopped behind it.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_PG_MACHINES_H
#define COUNTD_TESTS_LIB_PG_MACHINES_H

#include "common/setup/config.h"
#include "tests/lib/expect.h"
#include "tests/lib/fleet.h"
#include "tests/lib/pg_server.h"
#include "tests/lib/service.h"

struct pg_machines {
    struct fleet fleets[2];
    char schema[32];
};

int pg_machines_setup(void **state);
int pg_machines_teardown(void **state);

/* Counts `n`, and waits until the database has it and all before. */
void pg_machines_add(struct fleet *f, const char *keyspace, const char *key,
                     int64_t n);

/* A case of two machines; skipped where there is no server. */
#define PG_MACHINES(name, x)                                                   \
    PG_CASE_OF(pg_machines, name, x, pg_machines_setup, pg_machines_teardown)

#endif

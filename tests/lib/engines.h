/* tests/lib/engines.h - the engines of common/store/store.h for tests: keys and
 * names of up to 256 bytes, for writing, without limits.  A failure fails the
 * test. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_ENGINES_H
#define COUNTD_TESTS_LIB_ENGINES_H

#include "common/store/lmdb/lmdb_store.h"
#include "common/store/postgresql/postgresql_store.h"

/* Its options, with little memory. */
struct lmdb_options engine_lmdb_options(int keyspace_fd);

/* Rules of history, valid until the next call. */
const struct tiers_rules *engine_rules(const char *tiers);

struct store *engine_open(int keyspace_fd);

/* Opens it with history, in the steps and for the times of the default, or in
 * minutes for so long that a test forgets nothing. */
#define ENGINE_TIERS   "1m:2d,1h:90d,1d:10y"
#define ENGINE_MINUTES "1m:10y"
struct store *engine_open_history(int keyspace_fd, const char *tiers,
                                  uint64_t (*now_ms)(void));

/* PostgreSQL's, on the program's server (pg_server.h): options, with these
 * settings, for fresh tables in a schema of their own, @ in SQL, which are made. */
struct postgresql_options engine_postgresql_options(struct config *settings);
struct store *engine_open_postgresql(const char *tiers);

#endif

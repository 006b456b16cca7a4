/* tests/lib/engines.h - the engines of common/store/store.h that there are, so
 * that one table of tests runs against each.
 *
 *     ENGINE_CASES(a_batch_given_twice_counts_once, setup, teardown),
 *
 * makes two rows of the table.  In `setup` *state points to the engine_kind.
 * Tests whose main() calls cluster_engine_stop() may have a third,
 * ENGINE_TEST(ENGINE_CLUSTER, ...): real servers, see cluster_engine.h. */
#ifndef COUNTD_TESTS_LIB_ENGINES_H
#define COUNTD_TESTS_LIB_ENGINES_H

#include "common/store/lmdb/lmdb_store.h"

enum engine_kind { ENGINE_MEMORY, ENGINE_LMDB, ENGINE_CLUSTER };

/* Options of LMDB's engine with keys and names of up to 256 bytes, for writing,
 * with little memory and no limits. */
struct lmdb_options engine_lmdb_options(int keyspace_fd);

/* Opens one for writing.  `keyspace_fd` is the directory of LMDB's files; for
 * keys and names of up to 256 bytes, without limits.  A failure fails the
 * test; ENGINE_CLUSTER is NULL where there are no servers. */
struct store *engine_open(enum engine_kind kind, int keyspace_fd);

/* The same with history, in the steps and for the times of the default.
 * ENGINE_CLUSTER has its own clocks: `now_ms` is NULL. */
struct store *engine_open_history(enum engine_kind kind, int keyspace_fd,
                                  uint64_t (*now_ms)(void));

extern const enum engine_kind engine_kinds[3];

/* See TEST_IN(). */
#define ENGINE_TEST(kind, name, fixture, setup, teardown)                      \
    TEST_OF(name, fixture)                                                     \
    ENGINE_ADDED(kind, name, setup, teardown)                                  \
    static void name(__attribute__((unused)) fixture)
#define ENGINE_TESTS(name, fixture, setup, teardown)                           \
    TEST_OF(name, fixture)                                                     \
    ENGINE_ADDED(ENGINE_MEMORY, name, setup, teardown)                         \
    ENGINE_ADDED(ENGINE_LMDB, name, setup, teardown)                           \
    static void name(__attribute__((unused)) fixture)

#define ENGINE_ADDED(kind, name, setup, teardown)                              \
    TEST_ADDED(name##_##kind,                                                  \
               kind == ENGINE_LMDB      ? #name "_in_lmdb"                     \
               : kind == ENGINE_CLUSTER ? #name "_in_a_cluster"                \
                                        : #name "_in_memory",                  \
               name##_run, setup, teardown,                                    \
               (void *)(uintptr_t)&engine_kinds[kind])

#endif

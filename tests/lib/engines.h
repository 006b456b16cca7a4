/* tests/lib/engines.h - the engines of common/store/store.h that there are, so
 * that one table of tests runs against each.
 *
 *     ENGINE_CASES(a_batch_given_twice_counts_once, setup, teardown),
 *
 * makes two rows of the table.  In `setup` *state points to the engine_kind.
 */
#ifndef COUNTD_TESTS_LIB_ENGINES_H
#define COUNTD_TESTS_LIB_ENGINES_H

#include "common/store/store.h"

enum engine_kind { ENGINE_MEMORY, ENGINE_LMDB };

/* Opens one for writing.  `keyspace_fd` is the directory of LMDB's files; for
 * keys and names of up to 256 bytes, without limits.  A failure fails the
 * test. */
struct store *engine_open(enum engine_kind kind, int keyspace_fd);

/* The same with history, in the steps and for the times of the default. */
struct store *engine_open_history(enum engine_kind kind, int keyspace_fd,
                                  uint64_t (*now_ms)(void));

extern const enum engine_kind engine_kinds[2];

/* A row of a test table. */
#define ENGINE_CASE(kind, test, setup, teardown)                               \
    {                                                                          \
        kind == ENGINE_LMDB ? #test "_in_lmdb" : #test "_in_memory", test,     \
            setup, teardown, (void *)(uintptr_t)&engine_kinds[kind]            \
    }
#define ENGINE_CASES(test, setup, teardown)                                    \
    ENGINE_CASE(ENGINE_MEMORY, test, setup, teardown),                         \
        ENGINE_CASE(ENGINE_LMDB, test, setup, teardown)

#endif

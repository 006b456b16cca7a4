/* tests/unit/cluster_fixture.h - a store on a Redis Cluster of real servers, in
 * one part (CASE) or in eight (PARTS). */
#ifndef COUNTD_TESTS_UNIT_CLUSTER_FIXTURE_H
#define COUNTD_TESTS_UNIT_CLUSTER_FIXTURE_H

#include "tests/unit/cluster_main.h"

#include "common/setup/datadir.h"
#include "common/store/cluster/cluster_store.h"
#include "tests/lib/engines.h"
#include "tests/lib/tmpdir.h"

struct fixture {
    struct tmpdir tmp;
    struct datadir dir;
    struct config config;
    struct store *s, *oracle; /* the other is in LMDB files */
    uint32_t hour;            /* the current one, in minutes */
};

static inline void
open_store(struct fixture *x)
{
    const struct cluster_store_options options = {
        .config = &x->config, .dir = &x->dir, .writable = true, .sends = true};

    assert_rc(cluster_store_open(&x->s, &options), 0);
}

static inline struct fixture *
make_fixture(uint64_t parts)
{
    static struct fixture x;

    set_cluster(&x.config);
    x.config.store_parts = parts;
    x.hour = (uint32_t)(clock_unix_ms() / 60000) / 60 * 60;
    tmpdir_make_in_memory(&x.tmp);
    assert_rc(datadir_open(&x.dir, x.tmp.path, DATADIR_WRITE), 0);
    x.oracle = engine_open_history(x.dir.keyspace_fd, ENGINE_MINUTES, NULL);
    if (has_servers) {
        cluster_servers_flush(&servers);
        open_store(&x);
    }
    return &x;
}

static inline int
setup(void **state)
{
    *state = make_fixture(1);
    return 0;
}

static inline int
setup_parts(void **state)
{
    *state = make_fixture(8);
    return 0;
}

static inline int
teardown(void **state)
{
    struct fixture *x = *state;

    store_close(x->s);
    x->s = NULL;
    store_close(x->oracle);
    datadir_close(&x->dir);
    tmpdir_remove(&x->tmp);
    return 0;
}

#define CASE(name, x) CLUSTER_TEST_IN(name, struct fixture *x, setup, teardown)
#define PARTS(name, x)                                                         \
    CLUSTER_TEST_OF(name, struct fixture *x)                                   \
    IN_PARTS(name)                                                             \
    static void name(struct fixture *x)
#define BOTH(name, x)                                                          \
    CLUSTER_TEST_OF(name, struct fixture *x)                                   \
    TEST_ADDED(name, #name, name##_run, setup, teardown, NULL)                 \
    IN_PARTS(name)                                                             \
    static void name(struct fixture *x)
#define IN_PARTS(name)                                                         \
    TEST_ADDED(name##_in_parts, #name "_in_parts", name##_run, setup_parts,    \
               teardown, NULL)

#endif

/* tests/unit/cluster_fixture.h - a store on a Redis Cluster of real servers, in
 * one part (CASE) or in eight (PARTS), and the main() that starts them. */
#ifndef COUNTD_TESTS_UNIT_CLUSTER_FIXTURE_H
#define COUNTD_TESTS_UNIT_CLUSTER_FIXTURE_H

#include "tests/lib/test.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

#include "common/base/clock.h"
#include "common/setup/datadir.h"
#include "common/store/cluster/cluster_store.h"
#include "tests/lib/cluster_servers.h"
#include "tests/lib/engines.h"
#include "tests/lib/tmpdir.h"

#define WAIT_MS 30000

static struct cluster_servers servers;
static bool has_servers;

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

    config_defaults(&x.config);
    x.config.store_cluster = true;
    (void)snprintf(x.config.store_nodes, sizeof x.config.store_nodes, "%s",
                   servers.nodes);
    x.config.store_parts = parts;
    x.config.store_timeout_ms = 1000;
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

#define NEED_SERVERS()                                                         \
    if (!has_servers)                                                          \
    test_skip("redis-server is not installed")

/* Waits until all that was applied is readable. */
static inline void
await_sent(struct fixture *x)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)WAIT_MS * test_slow();

    while (store_pending(x->s)) {
        if (clock_ms() > end_ms)
            fail_msg("entries still wait");
        (void)poll(NULL, 0, 5);
    }
}

#define CASE(name, x) TEST_IN(name, struct fixture *x, setup, teardown)
#define PARTS(name, x)                                                         \
    TEST_OF(name, struct fixture *x)                                           \
    IN_PARTS(name)                                                             \
    static void name(struct fixture *x)
#define BOTH(name, x)                                                          \
    TEST_OF(name, struct fixture *x)                                           \
    TEST_ADDED(name, #name, name##_run, setup, teardown, NULL)                 \
    IN_PARTS(name)                                                             \
    static void name(struct fixture *x)
#define IN_PARTS(name)                                                         \
    TEST_ADDED(name##_in_parts, #name "_in_parts", name##_run, setup_parts,    \
               teardown, NULL)

int
main(int argc, char **argv)
{
    int failed;

    (void)signal(SIGPIPE, SIG_IGN);
    has_servers = cluster_servers_start(&servers);
    failed = test_main(argc, argv);
    cluster_servers_stop(&servers);
    return failed;
}

#endif

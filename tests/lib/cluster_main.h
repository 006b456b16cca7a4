/* tests/lib/cluster_main.h - the main() of tests that need the real servers of
 * a Redis Cluster, and cases that are skipped where there are none. */
#ifndef COUNTD_TESTS_LIB_CLUSTER_MAIN_H
#define COUNTD_TESTS_LIB_CLUSTER_MAIN_H

#include "tests/lib/test.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

#include "common/base/clock.h"
#include "common/setup/config.h"
#include "common/store/store.h"
#include "tests/lib/cluster_servers.h"

#define WAIT_MS 30000 /* less than a minute, when senders look again anyway */

static struct cluster_servers servers;
static bool has_servers;

/* As TEST_OF(), for TEST_ADDED(). */
#define CLUSTER_TEST_OF(name, fixture)                                         \
    static void name(fixture);                                                 \
    static void name##_run(void **state)                                       \
    {                                                                          \
        if (!has_servers)                                                      \
            test_skip("redis-server is not installed");                        \
        name(*state);                                                          \
    }

/* As TEST_IN(). */
#define CLUSTER_TEST_IN(name, fixture, setup, teardown)                        \
    CLUSTER_TEST_OF(name, fixture)                                             \
    TEST_ADDED(name, #name, name##_run, setup, teardown, NULL)                 \
    static void name(__attribute__((unused)) fixture)

/* Settings for a store on the servers. */
static inline void
set_cluster(struct config *c)
{
    cluster_servers_config(&servers, c);
    c->store_timeout_ms = 1000;
}

/* Waits until all that was applied is readable. */
static inline void
await_sent(struct store *s)
{
    cluster_servers_await_sent(s);
}

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

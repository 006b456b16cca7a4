/* tests/unit/cluster_parts.h - cases with a keyspace in one part of a Redis
 * Cluster (CASE), in eight (PARTS), or first the one and then the other (BOTH).
 */
#ifndef COUNTD_TESTS_UNIT_CLUSTER_PARTS_H
#define COUNTD_TESTS_UNIT_CLUSTER_PARTS_H

#include "tests/unit/cluster_fixture.h"

static inline int
setup(void **state)
{
    static struct site x;

    site_open(&x, 1);
    *state = &x;
    return 0;
}

static inline int
setup_parts(void **state)
{
    static struct site x;

    site_open(&x, 8);
    *state = &x;
    return 0;
}

static inline int
teardown(void **state)
{
    site_close(*state);
    return 0;
}

#define CASE(name, x) CLUSTER_TEST_IN(name, struct site *x, setup, teardown)
#define PARTS(name, x)                                                         \
    CLUSTER_TEST_IN(name, struct site *x, setup_parts, teardown)
#define BOTH(name, x)                                                          \
    CLUSTER_TEST_OF(name, struct site *x)                                      \
    TEST_ADDED(name, #name, name##_run, setup, teardown, NULL)                 \
    TEST_ADDED(name##_in_parts, #name "_in_parts", name##_run, setup_parts,    \
               teardown, NULL)                                                 \
    static void name(struct site *x)

#endif

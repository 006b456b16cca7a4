/* tests/lib/service.h - a writer, a worker and a reader on one directory, and
 * the few things that tests ask of all three.
 *
 *     static void
 *     a_test(void **state)
 *     {
 *         struct fleet *f = *state;
 *
 *         service_start(f);
 *         service_add(f, "words", "the", 3);
 *         expect_text(FLEET_RUN(f, "flush"), 0, "");
 *         assert_int_equal(service_count(f, "words", "the"), 3);
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_SERVICE_H
#define COUNTD_TESTS_LIB_SERVICE_H

#include <stdint.h>

#include "common/setup/datadir.h"
#include "tests/lib/fleet.h"
#include "tests/lib/test.h"

/* cmocka's setup and teardown: *state is a fleet in a fresh directory, on
 * disk or in memory.  No daemon runs yet, so options may be added. */
int service_setup(void **state);
int service_setup_in_memory(void **state);
int service_setup_options(void **state, const char *const *options);
#define service_setup_with(state, ...)                                         \
    service_setup_options(state, (const char *const[]){__VA_ARGS__, NULL})
int service_teardown(void **state);

/* A test in such a directory, with these options. */
#define TEST_SERVICE(name, f, ...)                                             \
    static int name##_set_up(void **state)                                     \
    {                                                                          \
        return service_setup_with(state, __VA_ARGS__);                         \
    }                                                                          \
    TEST_IN(name, struct fleet *f, name##_set_up, service_teardown)

/* The same in memory, for counters and semaphores: windows and sweeps do not
 * end while a test runs, unless it asks for that. */
int service_setup_live(void **state);

/* The same for tests that look at the directory themselves: *state is one of
 * these. */
struct service_site {
    struct fleet fleet;
    struct datadir dir; /* open, as countd-write opens it */
};

int service_site_setup(void **state);
int service_site_teardown(void **state);

/* The file of http.tokens; set once, and changed by a further call. */
void service_set_tokens(struct fleet *f, const char *lines);

/* Starts the writer, a worker and the reader. */
void service_start(struct fleet *f);

/* Adds through the acknowledging port, on a connection of its own. */
void service_add(struct fleet *f, const char *keyspace, const char *key,
                 int64_t increment);

/* What the reader says: the count of a key, INT64_MIN when there is none; and
 * the sum of a keyspace. */
int64_t service_count(struct fleet *f, const char *keyspace, const char *key);
int64_t service_total(struct fleet *f, const char *keyspace);

#endif

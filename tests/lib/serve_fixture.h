/* tests/lib/serve_fixture.h - a data directory under `countd serve`, for tests
 * of the command: as a user has it, with all three daemons as children of one.
 *
 *     static void
 *     a_test(void **state)
 *     {
 *         struct serve_fixture *s = *state;
 *
 *         expect_text(RUN(s, "incr", "words", "the", "3"), 0, "");
 *         expect_text(RUN(s, "flush"), 0, "");
 *         expect_text(RUN(s, "get", "words", "the"), 0, "3\n");
 *     }
 *     ...
 *     WITH_SITE(a_test),
 *
 * Logs are small and handed on after an hour: by flush or SIGUSR2.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_SERVE_FIXTURE_H
#define COUNTD_TESTS_LIB_SERVE_FIXTURE_H

#include <sys/types.h>

#include "tests/lib/daemon.h"
#include "tests/lib/expect.h"
#include "tests/lib/tmpdir.h"

#define SITE_DAEMONS 3

/* A data directory, what serves it, and the options that find it. */
struct serve_fixture {
    struct tmpdir dir;
    struct daemon serve;
    char data[600];
    char silent[64], ack[64], read[64]; /* -o values */
    pid_t children[SITE_DAEMONS];       /* writer, worker, reader */
};

/* cmocka's: *state is a site, served or without daemons. */
int serve_fixture_setup(void **state);
int serve_fixture_setup_empty(void **state);
int serve_fixture_teardown(void **state);

#define WITH_SITE(name, s)                                                     \
    TEST_IN(name, struct serve_fixture *s, serve_fixture_setup,                \
            serve_fixture_teardown)
#define WITH_EMPTY(name, s)                                                    \
    TEST_IN(name, struct serve_fixture *s, serve_fixture_setup_empty,          \
            serve_fixture_teardown)

/* Starts countd serve on it, with a setting more, or NULL. */
void serve_fixture_serve(struct serve_fixture *s, const char *option);

/* Its children, in the order they were started, where a test has started it. */
void serve_fixture_find_children(struct serve_fixture *s);

/* Runs countd on the site and returns its status; its words are left in
 * `text`.  `words` is NULL-terminated. */
int serve_fixture_run(const struct serve_fixture *s, const char *const *words);
#define RUN(s, ...)                                                            \
    serve_fixture_run(s, (const char *const[]){__VA_ARGS__, NULL})

/* A file beside the data directory: its path, until the next call. */
const char *serve_fixture_put(struct serve_fixture *s, const char *name,
                              const char *bytes);

#endif

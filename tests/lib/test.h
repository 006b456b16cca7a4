/* tests/lib/test.h - cmocka's include order, assert_rc and assert_has, and tests
 * that need no table.
 *
 *     TEST(an_empty_log_has_no_slots)
 *     {
 *         ...
 *     }
 *
 *     #define CASE(name, f) TEST_WITH(name, struct fixture, f, open_log, end)
 *
 *     CASE(a_claim_fails_while_the_owner_lives, f)
 *     {
 *         assert_rc(log_claim(&f->log), -EBUSY);
 *     }
 *
 * An argument filters by name: test_log 'a_claim_*'.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_TEST_H
#define COUNTD_TESTS_LIB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <sys/types.h>

/* Names of errno values instead of numbers when a code is not the expected
 * one. */
#define assert_rc(got, expected)                                               \
    test_assert_rc((long long)(got), (long long)(expected), #got, __FILE__,    \
                   __LINE__)

void test_assert_rc(long long got, long long expected, const char *text,
                    const char *file, int line);

/* The words stand in the text, or do not; a failure prints the text. */
#define assert_has(text, words)                                                \
    test_assert_has(text, words, true, #text, __FILE__, __LINE__)
#define assert_lacks(text, words)                                              \
    test_assert_has(text, words, false, #text, __FILE__, __LINE__)

void test_assert_has(const char *text, const char *words, bool wanted,
                     const char *what, const char *file, int line);

/* What malloc() gave; the test fails where that is nothing. */
void *test_memory(void *p);

/* A child process; 0 in it. */
pid_t test_fork(void);

/* The status of a child that has ended, as waitpid() gives it. */
int test_wait(pid_t pid);

/* The text with its control bytes, except line ends, as \r, \t or \x1b: valid
 * until the next call, cut where it is longer than 64 KiB. */
const char *test_visible(const char *text);

/* Says loudly why a test cannot run on this machine, counts it, and skips. */
#define test_skip(why)                                                         \
    do {                                                                       \
        test_say_skip(__func__, why);                                          \
        skip();                                                                \
    } while (0)

void test_say_skip(const char *test, const char *why);

/* A test: it runs where it stands in its file.  One whose name begins with
 * peer_ needs a browser, Prometheus or a client library, which only make check
 * installs: it runs where TEST_PEERS is set, as it is there. */
#define TEST(name)                                                             \
    static void name(void **state);                                            \
    TEST_ADDED(name, #name, name, NULL, NULL, NULL)                            \
    static void name(__attribute__((unused)) void **state)

/* One that gets what `setup` leaves in *state: `fixture` is its parameter. */
#define TEST_IN(name, fixture, setup, teardown)                                \
    static void name(fixture);                                                 \
    static void name##_run(void **state)                                       \
    {                                                                          \
        name(*state);                                                          \
    }                                                                          \
    TEST_ADDED(name, #name, name##_run, setup, teardown, NULL)                 \
    static void name(__attribute__((unused)) fixture)

/* One that gets a fixture of its own, which begins as zeros. */
#define TEST_WITH(name, type, fixture, open, close)                            \
    static int name##_open(void **state)                                       \
    {                                                                          \
        type *made_ = test_memory(calloc(1, sizeof *made_));                   \
                                                                               \
        open(made_);                                                           \
        *state = made_;                                                        \
        return 0;                                                              \
    }                                                                          \
    static int name##_close(void **state)                                      \
    {                                                                          \
        close(*state);                                                         \
        free(*state);                                                          \
        return 0;                                                              \
    }                                                                          \
    TEST_IN(name, type *fixture, name##_open, name##_close)

#define TEST_ADDED(id, text, run, setup, teardown, initial)                    \
    __attribute__((constructor)) static void id##_add(void)                    \
    {                                                                          \
        test_add(__LINE__,                                                     \
                 (struct CMUnitTest){text, run, setup, teardown, initial});    \
    }

/* $BUILD; where it is not set, the folder that this program was built in, and it is
 * set to that, for scripts. */
const char *test_build(void);

/* Adds a test behind those of lower lines. */
void test_add(int line, struct CMUnitTest test);

/* Runs them.  Where a file has no main(), this is all it does. */
int test_main(int argc, char **argv);

#endif

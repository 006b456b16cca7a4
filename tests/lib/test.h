/* tests/lib/test.h - cmocka's include order, assert_rc and TEST_MAIN.
 *
 *     static const struct CMUnitTest tests[] = {
 *         cmocka_unit_test(an_empty_log_has_no_slots),
 *     };
 *     TEST_MAIN(tests)
 *
 * An argument filters by name: test_log 'claim_*'.
 */
#ifndef COUNTD_TESTS_LIB_TEST_H
#define COUNTD_TESTS_LIB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

/* Names of errno values instead of numbers when a code is not the expected
 * one. */
#define assert_rc(got, expected)                                               \
    test_assert_rc((long long)(got), (long long)(expected), #got, __FILE__,    \
                   __LINE__)

void test_assert_rc(long long got, long long expected, const char *text,
                    const char *file, int line);

/* Says loudly why a test cannot run on this machine, counts it, and skips. */
#define test_skip(why)                                                         \
    do {                                                                       \
        test_say_skip(__func__, why);                                          \
        skip();                                                                \
    } while (0)

void test_say_skip(const char *test, const char *why);

int test_main(const char *name, const struct CMUnitTest *tests, size_t count,
              int argc, char **argv);

#define TEST_MAIN(tests)                                                       \
    int main(int argc, char **argv)                                            \
    {                                                                          \
        return test_main(__FILE__, tests, sizeof(tests) / sizeof(tests[0]),    \
                         argc, argv);                                          \
    }

#endif

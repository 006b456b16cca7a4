/* tests/lib/test.c - see test.h. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

static const char *
code_name(long long code)
{
    const char *name;

    if (code >= 0 || code < -4095)
        return "";
    name = strerrorname_np((int)-code);
    return name ? name : "";
}

void
test_assert_rc(long long got, long long expected, const char *text,
               const char *file, int line)
{
    if (got == expected)
        return;
    print_error("%s is %lld %s, not %lld %s\n", text, got, code_name(got),
                expected, code_name(expected));
    _fail(file, line);
}

void
test_say_skip(const char *test, const char *why)
{
    fprintf(stderr, "SKIPPED %s: %s\n", test, why);
}

int
test_main(const char *name, const struct CMUnitTest *tests, size_t count,
          int argc, char **argv)
{
    /* What is set on this machine is not what is tested. */
    if (setenv("COUNTD_CONF", "", 1) != 0)
        return 1;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}

/* tests/lib/expect.c - see expect.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/expect.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

char text[TEXT_SIZE];

int
expect_run(const char *program, const struct daemon_how *how)
{
    return daemon_run_how(text, sizeof text, program, how);
}

int
expect_traced(const char *folder, const char *options, const char *words, ...)
{
    char script[4000], path[700];
    va_list args;
    size_t size;
    int status;

    daemon_path("countd", path, sizeof path);
    /* A sanitizer cannot look for leaks while strace traces. */
    size = (size_t)snprintf(script, sizeof script,
                            "cd '%s' && ASAN_OPTIONS=detect_leaks=0 exec "
                            "strace -qq %s '%s' ",
                            folder, options, path);
    va_start(args, words);
    (void)vsnprintf(script + size, sizeof script - size, words, args);
    va_end(args);
    status = daemon_run(text, sizeof text, "/bin/sh", "-c", script);
    if (status == 127)
        test_skip("needs strace");
    return status;
}

void
expect(int got, int status, const char *words)
{
    if (got != status)
        print_error("%s\n", test_visible(text));
    assert_int_equal(got, status);
    assert_has(text, words);
}

void
expect_text(int got, int status, const char *whole)
{
    if (got != status || strcmp(text, whole) != 0)
        print_error("exit %d, not %d:\n%s\n", got, status, test_visible(text));
    assert_int_equal(got, status);
    assert_string_equal(text, whole);
}

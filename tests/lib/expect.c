/* tests/lib/expect.c - see expect.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/expect.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/lib/test.h"

char text[TEXT_SIZE];

int
expect_run(const char *program, const struct daemon_how *how)
{
    return daemon_run_how(text, sizeof text, program, how);
}

int
expect_terminal(const char *program, const struct daemon_how *how,
                unsigned columns)
{
    const struct winsize size = {.ws_row = 24,
                                 .ws_col = (unsigned short)columns};
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct daemon_how on_terminal = *how;
    struct daemon d;
    size_t got = 0;
    ssize_t n;
    int status;

    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    on_terminal.not_ready = true;
    on_terminal.output = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(on_terminal.output >= 0);
    assert_int_equal(ioctl(on_terminal.output, TIOCSWINSZ, &size), 0);
    (void)daemon_start_how(&d, program,
                           &on_terminal); /* fails the test itself */
    assert_int_equal(close(on_terminal.output), 0);
    /* Ends with an error, when the last user of the terminal has gone. */
    do {
        n = read(master, text + got, sizeof text - 1 - got);
        if (n > 0)
            got += (size_t)n;
    } while (n > 0);
    text[got] = '\0';
    assert_int_equal(close(master), 0);
    status = daemon_wait(&d);
    daemon_fini(&d);
    return status;
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

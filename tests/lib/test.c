/* tests/lib/test.c - see test.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TESTS_MAX 512

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

void *
test_memory(void *p)
{
    if (p == NULL)
        fail_msg("no memory");
    return p;
}

pid_t
test_fork(void)
{
    const pid_t pid = fork();

    assert_true(pid >= 0);
    return pid;
}

int
test_wait(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

const char *
test_visible(const char *text)
{
    static char shown[65536];
    size_t n = 0;

    for (const char *at = text; *at != '\0' && n + 5 < sizeof shown; at++) {
        const unsigned char c = (unsigned char)*at;

        if (c == '\n' || (c >= ' ' && c != 0x7f))
            shown[n++] = *at;
        else if (c == '\r' || c == '\t')
            n += (size_t)sprintf(shown + n, "\\%c", c == '\r' ? 'r' : 't');
        else
            n += (size_t)sprintf(shown + n, "\\x%02x", c);
    }
    shown[n] = '\0';
    return shown;
}

void
test_assert_has(const char *text, const char *words, bool wanted,
                const char *what, const char *file, int line)
{
    if (text != NULL && (strstr(text, words) != NULL) == wanted)
        return;
    print_error("%s %s \"%s\":\n", what, wanted ? "lacks" : "has",
                test_visible(words));
    print_error("%s\n", text != NULL ? test_visible(text) : "(NULL)");
    _fail(file, line);
}

void
test_say_skip(const char *test, const char *why)
{
    fprintf(stderr, "SKIPPED %s: %s\n", test, why);
}

const char *
test_build(void)
{
    const char *given = getenv("BUILD");
    static char path[4096];
    ssize_t size;

    if (given && *given)
        return given;
    size = readlink("/proc/self/exe", path, sizeof path - 1);
    path[size > 0 ? size : 0] = '\0';
    /* BUILD/tests/unit/test_x: the build folder is three up. */
    for (int up = 0; up < 3 && strrchr(path, '/') != NULL; up++)
        *strrchr(path, '/') = '\0';
    (void)setenv("BUILD", path, 1); /* a script that lacks it says so */
    return path;
}

static struct {
    int line;
    struct CMUnitTest test;
} added[TESTS_MAX];
static size_t added_count;

void
test_add(int line, struct CMUnitTest test)
{
    size_t i = added_count++;

    if (i == TESTS_MAX)
        abort();
    for (; i > 0 && added[i - 1].line > line; i--)
        added[i] = added[i - 1];
    added[i].line = line;
    added[i].test = test;
}

/* Whether make test or make check runs it: see test.h. */
static bool
runs_here(const struct CMUnitTest *test)
{
    return strncmp(test->name, "peer_", 5) != 0 || getenv("TEST_PEERS") != NULL;
}

int
test_main(int argc, char **argv)
{
    static struct CMUnitTest tests[TESTS_MAX];
    const char *slash = strrchr(argv[0], '/');
    size_t count = 0;

    /* Settings of this machine are not what is tested. */
    (void)umask(022);
    if (setenv("COUNTD_CONF", "", 1) != 0 ||
        setenv("SYSTEMD_UNIT_PATH", "", 1) != 0)
        return 1;
    (void)test_build(); /* for scripts */
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    for (size_t i = 0; i < added_count; i++)
        if (runs_here(&added[i].test))
            tests[count++] = added[i].test;
    if (count == 0) {
        puts("0 tests without TEST_PEERS");
        return 0;
    }
    return _cmocka_run_group_tests(slash ? slash + 1 : argv[0], tests, count,
                                   NULL, NULL);
}

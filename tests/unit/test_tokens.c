/* tests/unit/test_tokens.c - the file of http.tokens. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/net/tokens.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

#define SHOP  "6f1c0b7e2d9a4c53"
#define CLERK "0123456789012345"
#define BOSS  "a8d20c8b5f3e41f7a8d20c8b5f3e41f7"

static const char good[] = "# who may\n"
                           "\n"
                           "shop\tcount \t" SHOP "\r\n"
                           "clerk quota,read " CLERK "\n"
                           "boss admin " BOSS;

static void
put_file(const struct tmpdir *d, const char *text, mode_t mode)
{
    tmpdir_put(d, "tokens", text, strlen(text), mode);
}

static int
open_file(const struct tmpdir *d, struct tokens **t)
{
    char path[600];

    snprintf(path, sizeof path, "%s/tokens", d->path);
    *t = NULL;
    return tokens_open(t, path, false);
}

static unsigned
check_token(struct tokens *t, const char *token)
{
    return tokens_check(t, token, strlen(token));
}

/* The next check looks at the file again. */
static void
pass_time(void)
{
    fault_pass_ns(UINT64_C(1100000000));
}

static int
teardown(void **state)
{
    fault_clear();
    return tmpdir_teardown(state);
}

#define CASE(name, d) TEST_IN(name, struct tmpdir *d, tmpdir_setup, teardown)

CASE(a_wrong_line_refuses_the_file, d)
{
    static const char *const lines[] = {"shop count\n",
                                        "shop count " SHOP " more\n",
                                        "shop count,write " SHOP "\n",
                                        "shop count, " SHOP "\n",
                                        "shop  " SHOP "\n",
                                        "shop count 6f1c0b7e2d9a4c5\n",
                                        "shop count 6f1c0b7e2d9a4c5\xc3\xa4\n",
                                        "sh\xc3\xb6p count " SHOP "\n",
                                        "shop count " SHOP "\nboss read " SHOP
                                        "\n"};
    struct tokens *t;

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        put_file(d, lines[i], 0600);
        assert_rc(open_file(d, &t), -EINVAL);
        assert_null(t);
    }
    tmpdir_put(d, "tokens", "# who may\0\nboss\n", 16, 0600);
    assert_rc(open_file(d, &t), -EINVAL);
}

CASE(a_file_that_others_may_read_is_refused, d)
{
    static const mode_t modes[] = {0644, 0640, 0604, 0620, 0700};
    struct tokens *t;

    put_file(d, good, 0400);
    assert_rc(open_file(d, &t), 0);
    tokens_close(t);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(fchmodat(d->fd, "tokens", modes[i], 0), 0);
        assert_rc(open_file(d, &t), -EINVAL);
    }
    assert_int_equal(unlinkat(d->fd, "tokens", 0), 0);
    assert_rc(open_file(d, &t), -EINVAL);
    assert_int_equal(mkdirat(d->fd, "tokens", 0700), 0);
    assert_rc(open_file(d, &t), -EINVAL);
    if (geteuid() != 0)
        return;
    assert_int_equal(unlinkat(d->fd, "tokens", AT_REMOVEDIR), 0);
    put_file(d, good, 0600);
    assert_int_equal(fchownat(d->fd, "tokens", 65534, 65534, 0), 0);
    assert_rc(open_file(d, &t), -EINVAL);
}

static int
test_file(const char *path, bool any_user, int error)
{
    struct tokens *t;
    int rc;

    if (error != 0)
        fault_inject("open", 1, error);
    rc = tokens_open(&t, path, any_user);
    fault_clear();
    tokens_close(t);
    return rc;
}

/* Starts by a supervisor are as a user that a check does not know. */
CASE(a_test_of_the_file_reports_what_is_wrong_for_every_user, d)
{
    char path[600];

    snprintf(path, sizeof path, "%s/tokens", d->path);
    assert_rc(test_file("", false, 0), 0);
    assert_rc(test_file(path, true, 0), -EINVAL);
    put_file(d, good, 0644);
    assert_int_equal(fchmodat(d->fd, "tokens", 0644, 0), 0);
    assert_rc(test_file(path, true, 0), -EINVAL);
    assert_rc(test_file(path, true, EACCES), -EINVAL);

    assert_int_equal(fchmodat(d->fd, "tokens", 0600, 0), 0);
    assert_rc(test_file(path, true, 0), 0);
    assert_rc(test_file(path, true, EACCES), 0);
    assert_rc(test_file(path, false, EACCES), -EINVAL);
    put_file(d, "boss\n", 0600);
    assert_rc(test_file(path, true, 0), -EINVAL);
    if (geteuid() != 0)
        return;
    put_file(d, good, 0600);
    assert_int_equal(fchownat(d->fd, "tokens", 65534, 65534, 0), 0);
    assert_rc(test_file(path, true, 0), 0);
    assert_rc(test_file(path, false, 0), -EINVAL);
}

CASE(a_changed_file_that_is_wrong_leaves_the_tokens, d)
{
    struct tokens *t;

    put_file(d, good, 0600);
    assert_rc(open_file(d, &t), 0);

    put_file(d, "boss read " BOSS "\nshop count\n", 0600);
    pass_time();
    assert_int_equal(check_token(t, SHOP), TOKENS_COUNT);
    put_file(d, "boss read " BOSS "\n", 0644);
    assert_int_equal(fchmodat(d->fd, "tokens", 0644, 0), 0);
    pass_time();
    assert_int_equal(check_token(t, SHOP), TOKENS_COUNT);
    assert_int_equal(unlinkat(d->fd, "tokens", 0), 0);
    pass_time();
    assert_int_equal(check_token(t, SHOP), TOKENS_COUNT);

    put_file(d, "boss read " BOSS "\n", 0600);
    pass_time();
    assert_int_equal(check_token(t, SHOP), 0);
    tokens_close(t);
}

CASE(a_failing_call_leaks_nothing, d)
{
    const unsigned fds = fault_open_fds();
    struct tokens *t;
    bool hit = true;

    put_file(d, good, 0600);
    for (unsigned n = 1; hit; n++) {
        int rc;

        fault_inject("disk", n, EIO);
        rc = open_file(d, &t);
        hit = fault_hit();
        fault_clear();
        assert_true(hit ? rc == -EIO && !t : rc == 0);
        tokens_close(t);
        assert_int_equal(fault_open_fds(), fds);
    }
    fault_inject("memory", 1, ENOMEM);
    assert_rc(open_file(d, &t), -ENOMEM);
    fault_clear();
}

/* tests/unit/test_diag.c - messages on stderr, one line each. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "tests/lib/capture.h"

static int
setup(void **state)
{
    (void)state; /* needs none */
    diag_init("countd-test", DIAG_INFO);
    return 0;
}

#define CASE(name) TEST_IN(name, void *unused, setup, NULL)

CASE(a_message_names_program_and_level)
{
    struct capture c;

    capture_start(&c);
    diag(DIAG_ERROR, "seal log=%d", 42);
    diag(DIAG_WARNING, "w");
    diag(DIAG_INFO, "i");
    assert_string_equal(capture_stop(&c), "countd-test: error: seal log=42\n"
                                          "countd-test: warning: w\n"
                                          "countd-test: info: i\n");
}

CASE(an_errno_is_told_in_words_whatever_its_sign_and_damage_as_damage)
{
    struct capture c;

    capture_start(&c);
    diag_errno(DIAG_ERROR, ENOSPC, "seal log=%d", 1);
    diag_errno(DIAG_ERROR, -ENOSPC, "seal log=%d", 2);
    diag_errno(DIAG_ERROR, -EBADMSG, "read held/x");
    diag_errno(DIAG_ERROR, -EPROTONOSUPPORT, "read held/y");
    assert_string_equal(
        capture_stop(&c),
        "countd-test: error: seal log=1: No space left on device\n"
        "countd-test: error: seal log=2: No space left on device\n"
        "countd-test: error: read held/x: it is damaged\n"
        "countd-test: error: read held/y: it is of a newer version of "
        "countd\n");
    assert_string_equal(diag_text(123456), "unknown error");
}

CASE(what_is_below_the_level_is_not_printed)
{
    struct capture c;

    capture_start(&c);
    diag_init("countd-test", DIAG_ERROR);
    diag(DIAG_WARNING, "quiet");
    diag_errno(DIAG_WARNING, EIO, "quiet");
    assert_string_equal(capture_stop(&c), "");
}

CASE(a_message_stays_one_line)
{
    struct capture c;

    capture_start(&c);
    diag(DIAG_ERROR, "open %s", "a\nb\033[2J\177");
    assert_string_equal(capture_stop(&c),
                        "countd-test: error: open a?b?[2J?\n");
}

CASE(a_long_message_is_cut_and_ends_its_line)
{
    static char long_text[6000];
    struct capture c;
    const char *got;

    memset(long_text, 'x', sizeof long_text - 1);
    capture_start(&c);
    diag(DIAG_ERROR, "%s", long_text);
    diag_errno(DIAG_ERROR, EIO, "%s", long_text);
    got = capture_stop(&c);
    assert_int_equal(got[strlen(got) - 1], '\n');
    assert_true(strlen(got) > 2000 && strlen(got) <= 2 * 2048);
    assert_ptr_equal(strchr(strchr(got, '\n') + 1, '\n'),
                     got + strlen(got) - 1);
}

CASE(errno_is_what_it_was)
{
    struct capture c;

    capture_start(&c);
    errno = ENOTTY;
    diag(DIAG_ERROR, "x");
    diag_errno(DIAG_ERROR, EIO, "x");
    assert_int_equal(errno, ENOTTY);
    (void)capture_stop(&c); /* what was printed does not matter here */
}

CASE(a_repeating_fault_is_logged_once_a_minute_with_its_count)
{
    struct diag_repeat repeat = {0};
    struct capture c;

    capture_start(&c);
    for (int i = 0; i < 100; i++)
        diag_repeating(&repeat, DIAG_WARNING, "log=%d full", i);
    assert_int_equal(repeat.count, 99);
    repeat.last_ms = clock_ms() - 60000; /* a minute goes by */
    diag_repeating(&repeat, DIAG_WARNING, "log=%d full", 100);
    diag_repeating(&repeat, DIAG_WARNING, "log=%d full", 101);
    assert_string_equal(capture_stop(&c),
                        "countd-test: warning: log=0 full\n"
                        "countd-test: warning: log=100 full unlogged=99\n");
    assert_int_equal(repeat.count, 1);
}

/* tests/unit/test_progress.c - progress, on a terminal of its own. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/client/cmd/cmd_terminal.h"

#define HIDDEN "\r\033[K" /* before each line, and alone at the end */
#define SECOND ((uint64_t)1000)

static struct {
    int master;
    int saved; /* the stderr of the test */
    char text[4096];
} tty;

/* Makes stderr a terminal of 80 columns. */
static int
setup(void **state)
{
    const struct winsize size = {.ws_row = 24, .ws_col = 80};
    int slave;

    (void)state; /* there is one terminal */
    tty.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(tty.master >= 0);
    assert_int_equal(grantpt(tty.master), 0);
    assert_int_equal(unlockpt(tty.master), 0);
    slave = open(ptsname(tty.master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    assert_int_equal(ioctl(slave, TIOCSWINSZ, &size), 0);
    assert_int_equal(fflush(stderr), 0);
    tty.saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    assert_true(tty.saved >= 0);
    assert_int_equal(dup2(slave, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(close(slave), 0);
    assert_int_equal(fcntl(tty.master, F_SETFL, O_NONBLOCK), 0);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    assert_int_equal(dup2(tty.saved, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(close(tty.saved), 0);
    assert_int_equal(close(tty.master), 0);
    return 0;
}

#define TTY_TEST(name) TEST_IN(name, void *unused, setup, teardown)

/* Reads what was drawn since the last call. */
static const char *
read_drawn(void)
{
    size_t size = 0;
    ssize_t n;

    while ((n = read(tty.master, tty.text + size, sizeof tty.text - 1 - size)) >
           0)
        size += (size_t)n;
    tty.text[size] = '\0';
    return tty.text;
}

/* One that began so long ago. */
static struct progress
begin_progress(uint64_t ago_ms, uint64_t total)
{
    struct progress p;

    progress_init(&p, "loading", total);
    p.start_ms -= ago_ms;
    return p;
}

/* ---- what is drawn ----------------------------------------------------- */

TTY_TEST(it_shows_the_part_that_is_done_and_what_is_known_of_the_rest)
{
    static const struct {
        uint64_t ago_ms, total, done, count;
        const char *line, *lacks;
    } rows[] = {
        {0, 200, 50, 7, "loading 25% 7 lines, ", "left"},
        {0, 200, 200, 1, "loading 100% 1 line, ", "left"},
        /* A file that grew meanwhile is whole, not more. */
        {5 * SECOND, 10, UINT64_MAX, 3, "loading 100% 3 lines, ", "left"},
        /* Without a total there is a count alone. */
        {5 * SECOND, 0, 50, 7, "loading 7 lines, ", "%"},
        {5 * SECOND, 0, 50, 7, "loading 7 lines, ", "left"},
        /* No time is foretold from nothing, or for days. */
        {0, 1000, 0, 0, "loading 0% 0 lines, 0/s", "left"},
        {1000 * SECOND, UINT64_MAX, 1, 1, "loading 0% 1 line, 0/s", "left"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct progress p = begin_progress(rows[i].ago_ms, rows[i].total);

        progress_show(&p, rows[i].done, rows[i].count, "line");
        if (strncmp(read_drawn(), HIDDEN, strlen(HIDDEN)) != 0 ||
            strstr(tty.text, rows[i].line) != tty.text + strlen(HIDDEN) ||
            strstr(tty.text, rows[i].lacks) != NULL)
            fail_msg("row %zu: %s", i, tty.text);
    }
}

TTY_TEST(the_rate_is_of_all_the_time_and_the_time_left_follows_from_it)
{
    struct progress p = begin_progress(100 * SECOND, 3000);
    uint64_t rate = 0, minutes = 0, seconds = 0;

    progress_show(&p, 1000, 50000, "line");
    assert_int_equal(sscanf(read_drawn(),
                            "%*[^%]%% 50000 lines, %" SCNu64 "/s, %" SCNu64
                            " min left",
                            &rate, &minutes),
                     2);
    /* A little more time has passed since. */
    assert_in_range(rate, 250, 500);
    assert_in_range(minutes, 3, 7);

    p = begin_progress(10 * SECOND, 1000);
    progress_show(&p, 900, 9, "line");
    assert_int_equal(
        sscanf(read_drawn(), "%*[^,], 0/s, %" SCNu64 ".", &seconds), 1);
    assert_in_range(seconds, 1, 59);
}

/* ---- where ------------------------------------------------------------- */

/* Draws on a terminal of `columns`, and reads that. */
static const char *
in_columns(unsigned short columns)
{
    const struct winsize size = {.ws_row = 24, .ws_col = columns};
    struct progress p = begin_progress(100 * SECOND, 1000);

    assert_int_equal(ioctl(tty.master, TIOCSWINSZ, &size), 0);
    progress_show(&p, 500, 5, "line");
    assert_ptr_equal(strstr(read_drawn(), HIDDEN), tty.text);
    return tty.text + strlen(HIDDEN);
}

TTY_TEST(a_narrow_terminal_gets_a_part_of_the_line)
{
    static const char whole[] = "loading 50% 5 lines, 0/s, 2 min left";

    assert_has(in_columns(sizeof whole), "left");
    assert_null(strstr(in_columns(sizeof whole - 1), "left"));
    assert_string_equal(in_columns(20), "loading 50% 5 lines");
    assert_string_equal(in_columns(1), "");
    /* One that does not say how wide it is. */
    assert_has(in_columns(0), "left");
}

/* ---- when -------------------------------------------------------------- */

TTY_TEST(it_is_drawn_ten_times_a_second_at_most)
{
    struct progress p = begin_progress(0, 100);
    uint64_t before;

    progress_show(&p, 1, 1, "line");
    assert_has(read_drawn(), "1 line,");

    do { /* until this took less than the tenth of a second */
        (void)read_drawn();
        before = clock_ms();
        p.drawn_ms = before;
        progress_show(&p, 2, 2, "line");
    } while (clock_ms() - before >= 100);
    assert_string_equal(read_drawn(), "");

    p.drawn_ms -= 100;
    progress_show(&p, 4, 4, "line");
    assert_has(read_drawn(), "4 lines,");
}

/* tests/e2e/test_status.c - countd status and countd watch, by what the daemons
 * tell on data/board. */
#include "tests/lib/test.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/setup/status.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/fleet.h"

#define PATIENCE_MS ((uint64_t)20000)

struct fixture {
    struct fleet f;
    char socket[64]; /* of a tmux of its own; empty: none */
};

static int
setup(void **state)
{
    static struct fixture r;

    memset(&r, 0, sizeof r);
    fleet_init(&r.f);
    fleet_option(&r.f, "counter.enable=false");
    fleet_start(&r.f, FLEET_WRITE);
    fleet_start(&r.f, FLEET_WORKER);
    fleet_start(&r.f, FLEET_READ);
    *state = &r;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *r = *state;

    if (r->socket[0] != '\0')
        (void)daemon_run(NULL, 0, "/usr/bin/tmux", "-L", r->socket,
                         "kill-server", NULL);
    fleet_fini(&r->f);
    return 0;
}

#define CASE(name, r) TEST_IN(name, struct fixture *r, setup, teardown)

/* Asks again until the words are there: figures come a few times a second. */
static void
await(struct fixture *r, int status, const char *words)
{
    const uint64_t until = clock_ms() + PATIENCE_MS * test_slow();
    int got;

    do
        got = FLEET_RUN(&r->f, "status");
    while ((got != status || !strstr(text, words)) && clock_ms() < until);
    expect(got, status, words);
}

static void
await_json(struct fixture *r, const char *words)
{
    const uint64_t until = clock_ms() + PATIENCE_MS * test_slow();

    do
        (void)FLEET_RUN(&r->f, "status", "--json");
    while (!strstr(text, words) && clock_ms() < until);
    if (!strstr(text, words))
        fail_msg("no %s in:\n%s", words, text);
}

CASE(figures_of_all_daemons_are_there, r)
{
    const int fd = client_connect(fleet_ack_port(&r->f));

    for (int i = 0; i < 5; i++)
        client_increment(fd, "pages", "index", 1);
    client_wins(fd, 5);
    fleet_await_drained(&r->f, 20000);

    await(r, 0, "nothing needs an operator");
    await_json(r, "\"figure\": \"messages\", \"value\": 5}");
    await_json(r, "\"figure\": \"records\", \"value\": 5}");
    await_json(r, "\"process\": \"reader\"");
    await_json(r, "\"process\": \"port ack\"");
    assert_non_null(strstr(text, "\"writer_alive\": true, \"troubles\": 0"));
    client_close(fd);
}

/* The first log in this state, waiting for one; its values. */
static uint64_t
await_log(struct status *board, enum status_log state, int64_t *values)
{
    const uint64_t until = clock_ms() + PATIENCE_MS * test_slow();

    do
        for (uint64_t i = 0; i < 16; i++) {
            status_get_log(board, i, values);
            if (values[STATUS_LOG_STATE] == (int64_t)state)
                return i;
        }
    while (clock_ms() < until);
    fail_msg("no log is in state %d", (int)state);
    return 0;
}

/* As a worker does that cannot write. */
CASE(a_log_that_a_worker_gives_back_still_counts_as_not_merged, r)
{
    const int fd = client_connect(fleet_ack_port(&r->f));
    int64_t values[STATUS_LOG_VALUES];
    struct status board;
    uint64_t index;

    fleet_stop(&r->f, FLEET_WORKER);
    for (int i = 0; i < 5; i++)
        client_increment(fd, "pages", "index", 1);
    client_wins(fd, 5);
    status_init(&board, r->f.path);
    index = await_log(&board, STATUS_LOG_FULL, values);
    assert_int_equal(values[STATUS_LOG_MESSAGES], 5);

    values[STATUS_LOG_STATE] = STATUS_LOG_MERGING;
    status_put_log(&board, index, values);

    assert_int_equal(await_log(&board, STATUS_LOG_FULL, values), index);
    assert_int_equal(values[STATUS_LOG_MESSAGES], 5);
    await_json(r, "\"unmerged\": 5, \"logs_uncounted\": 0");
    status_close(&board);
    client_close(fd);
}

/* The lines of SIGUSR1 are the rows of the board. */
CASE(a_signal_prints_what_the_board_shows, r)
{
    static char output[65536];
    const uint64_t until = clock_ms() + PATIENCE_MS * test_slow();
    const int fd = client_connect(fleet_ack_port(&r->f));

    client_increment(fd, "pages", "index", 1);
    client_wins(fd, 1);
    await_json(r, "\"figure\": \"messages\", \"value\": 1}");
    daemon_signal(fleet_daemon(&r->f, FLEET_WRITE), SIGUSR1);
    do
        (void)daemon_output(fleet_daemon(&r->f, FLEET_WRITE), output,
                            sizeof output);
    while (!strstr(output, "port=silent") && clock_ms() < until);

    assert_non_null(strstr(output, "info: messages=1 bytes=520 "));
    for (size_t i = STATUS_FIRST; status_name(STATUS_WRITER, i); i++) {
        char wanted[64];

        snprintf(wanted, sizeof wanted, "%s%s=", i > STATUS_FIRST ? " " : "",
                 status_name(STATUS_WRITER, i));
        assert_non_null(strstr(output, wanted));
    }
    client_close(fd);
}

CASE(what_needs_an_operator_is_said_and_exits_with_1, r)
{
    char path[600];
    FILE *bad;

    await(r, 0, "nothing needs an operator");
    daemon_kill(fleet_daemon(&r->f, FLEET_WORKER));
    await(r, 1, "countd-worker died");
    fleet_start(&r->f, FLEET_WORKER);
    await(r, 0, "nothing needs an operator");
    fleet_stop(&r->f, FLEET_READ);
    await(r, 1, "no countd-read runs");
    fleet_start(&r->f, FLEET_READ);
    await(r, 0, "nothing needs an operator");

    snprintf(path, sizeof path, "%s/log/bad-0000000900-1", r->f.path);
    bad = fopen(path, "w");
    assert_non_null(bad);
    assert_int_equal(fclose(bad), 0);
    await(r, 1, "1 damaged log quarantined");
}

CASE(a_dead_writer_is_said_with_what_it_told_last, r)
{
    const int fd = client_connect(fleet_ack_port(&r->f));

    client_increment(fd, "pages", "index", 1);
    client_wins(fd, 1);
    await_json(r, "\"figure\": \"messages\", \"value\": 1}");
    daemon_kill(fleet_daemon(&r->f, FLEET_WRITE));

    await(r, 1, "countd-write is down");
    assert_non_null(strstr(text, "the writer is dead"));
    assert_non_null(strstr(text, ", 1 messages"));
    client_close(fd);

    /* A new one makes a new board, which the others find. */
    fleet_start(&r->f, FLEET_WRITE);
    await_json(r, "\"process\": \"worker\"");
    await(r, 0, "nothing needs an operator");
}

TEST(a_directory_without_a_board_says_so)
{
    struct fleet f;

    fleet_init(&f);
    expect(FLEET_RUN(&f, "status"), 1, "no countd-write has run");
    expect(FLEET_RUN(&f, "watch"), 1, "no countd-write has run");
    fleet_fini(&f);
}

CASE(watch_wants_a_terminal, r)
{
    expect(FLEET_RUN(&r->f, "watch"), 100, "not a terminal");
}

/* ---- in a terminal ----------------------------------------------------- */

static char shown[65536];

#define TMUX(r, ...)                                                           \
    daemon_run(shown, sizeof shown, "/usr/bin/tmux", "-L", (r)->socket, "-f",  \
               "/dev/null", __VA_ARGS__, NULL)

static void
start_watch(struct fixture *r)
{
    char program[600], command[2000];

    daemon_path("countd", program, sizeof program);
    snprintf(r->socket, sizeof r->socket, "countd-test-%d", (int)getpid());
    snprintf(command, sizeof command, "exec %s watch -i 100ms -d %s", program,
             r->f.path);
    assert_int_equal(
        TMUX(r, "new-session", "-d", "-x", "80", "-y", "24", command), 0);
}

/* Numbers are N, and runs of spaces one. */
static void
normalise(const char *from, char *to)
{
    while (*from != '\0') {
        if (isdigit((unsigned char)*from)) {
            from += strspn(from, "0123456789.");
            from += strspn(from, "kMGTPE");
            *to++ = 'N';
        } else if (*from == ' ') {
            from += strspn(from, " ");
            if (*from != '\n' && *from != '\0')
                *to++ = ' ';
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

/* The screen, when these words are on it. */
static void
await_screen(struct fixture *r, const char *words, char *out)
{
    const uint64_t until = clock_ms() + PATIENCE_MS * test_slow();

    do {
        assert_int_equal(TMUX(r, "capture-pane", "-p"), 0);
        normalise(shown, out);
    } while (!strstr(out, words) && clock_ms() < until);
    if (!strstr(out, words))
        fail_msg("no %s on the screen:\n%s", words, shown);
}

static void
expect_line(const char *screen, const char *line)
{
    char wanted[256];

    snprintf(wanted, sizeof wanted, "\n%s\n", line);
    if (!strstr(screen, wanted) &&
        strncmp(screen, wanted + 1, strlen(wanted + 1)) != 0)
        fail_msg("no line \"%s\" on the screen:\n%s", line, screen);
}

static size_t
count_lines(const char *screen)
{
    size_t used = 0, n = 0;

    for (const char *c = screen; *c != '\0'; c++) {
        used += *c != '\n' && *c != ' ';
        n += *c == '\n';
    }
    return used == 0 ? 0 : n;
}

/* What fits, from the top. */
static void
shows_less_when_it_is_smaller(struct fixture *r, char *screen)
{
    const uint64_t until = clock_ms() + PATIENCE_MS * test_slow();

    assert_int_equal(TMUX(r, "resize-window", "-x", "40", "-y", "6"), 0);
    do {
        assert_int_equal(TMUX(r, "capture-pane", "-p"), 0);
        normalise(shown, screen);
    } while ((count_lines(screen) != 6 ||
              strncmp(screen, "countd writer N\n", 16) != 0 ||
              !strstr(screen, "\nlive N objects N refused for memo\n")) &&
             clock_ms() < until);
    expect_line(screen, "live N objects N refused for memo");
    assert_int_equal(count_lines(screen), 6);
}

CASE(watch_shows_it_all_in_a_terminal_of_80_columns, r)
{
    static char screen[sizeof shown];
    const uint64_t until = clock_ms() + PATIENCE_MS * test_slow();

    if (access("/usr/bin/tmux", X_OK) != 0)
        test_skip("there is no tmux here");
    start_watch(r);
    await_screen(r, "well", screen);
    await_screen(r, "\nread N N N N N (N N N)\n", screen);

    expect_line(screen, "countd writer N");
    expect_line(screen, "in N msg/s NB/s N syncs/s N us each");
    expect_line(screen, "total N msg NB N syncs N logs");
    expect_line(screen, "live N objects N refused for memory disk NB free");
    expect_line(screen,
                "logs N empty . N open o N full # N merging m lag none");
    expect_line(screen, "worker pid incr/s keys/s logs busy state");
    expect_line(screen, " N N N N N% well");
    expect_line(screen, "port open new/s in/s out/s rejects (bad cut full)");
    expect_line(screen, "ack N N N N N (N N N)");
    expect_line(screen, "silent N N N N N (N N N)");

    shows_less_when_it_is_smaller(r, screen);
    assert_int_equal(TMUX(r, "resize-window", "-x", "100", "-y", "30"), 0);
    daemon_kill(fleet_daemon(&r->f, FLEET_WRITE));
    await_screen(r, "\n! countd-write is down, pid N was the last\n", screen);
    expect_line(screen, "countd THE WRITER IS DEAD (pid N): what it told last");

    assert_int_equal(TMUX(r, "send-keys", "q"), 0);
    while (TMUX(r, "has-session") == 0 && clock_ms() < until)
        ;
    assert_int_not_equal(TMUX(r, "has-session"), 0);
}

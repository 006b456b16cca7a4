/* tests/e2e/test_live_command.c - countd acquire and countd live with the real
 * countd-write.
 *
 * A command that is to be held goes by two FIFOs of the test's directory: it
 * says "held", and ends when it is told to. */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/daemon.h"
#include "tests/lib/expect.h"
#include "tests/lib/tmpdir.h"

#define WORDS_MAX    24
#define CONTENDERS   4
#define ROUNDS       10
#define HOLD_COMMAND "echo held > \"$0\"/held; read line < \"$0\"/go"

struct site {
    struct tmpdir dir;
    struct daemon writer;
    char path[4096]; /* of countd */
    char data[600];
    char counter[64], semaphore[64]; /* -o values */
    int held, go;                    /* the FIFOs */
};

/* ---- the site ---------------------------------------------------------- */

static int
open_fifo(const struct site *s, const char *name)
{
    int fd;

    assert_int_equal(mkfifoat(s->dir.fd, name, 0600), 0);
    /* For both, so that neither side waits for the other to open it. */
    fd = openat(s->dir.fd, name, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* A directory without a server. */
static int
setup_empty(void **state)
{
    static struct site site;

    memset(&site, 0, sizeof site);
    site.writer.output = -1;
    tmpdir_make(&site.dir);
    daemon_path("countd", site.path, sizeof site.path);
    snprintf(site.data, sizeof site.data, "%s/data", site.dir.path);
    snprintf(site.counter, sizeof site.counter, "counter.port=1");
    snprintf(site.semaphore, sizeof site.semaphore, "semaphore.port=2");
    site.held = open_fifo(&site, "held");
    site.go = open_fifo(&site, "go");
    *state = &site;
    return 0;
}

static int
setup(void **state)
{
    struct site *s;

    (void)setup_empty(state); /* fails the test by itself */
    s = *state;
    daemon_start(&s->writer, "countd-write", "-d", s->data, "-o",
                 "log.size=64K", "-o", "write.listen=127.0.0.1:0", "-o",
                 "write.ack_listen=127.0.0.1:0", "-o", "counter.port=0", "-o",
                 "semaphore.enable=true", "-o", "semaphore.port=0", "-o",
                 "counter.stats_interval=1000000000", "-o",
                 "semaphore.gc_interval=1000000000", NULL);
    snprintf(s->counter, sizeof s->counter, "counter.port=%u",
             daemon_port(&s->writer, "counter"));
    snprintf(s->semaphore, sizeof s->semaphore, "semaphore.port=%u",
             daemon_port(&s->writer, "semaphore"));
    return 0;
}

static int
teardown(void **state)
{
    struct site *s = *state;

    daemon_fini(&s->writer);
    (void)close(s->held);
    (void)close(s->go);
    tmpdir_remove(&s->dir);
    return 0;
}

#define SITE_TEST(name, s)  TEST_IN(name, struct site *s, setup, teardown)
#define EMPTY_TEST(name, s) TEST_IN(name, struct site *s, setup_empty, teardown)

/* ---- running countd ---------------------------------------------------- */

/* The words behind "countd" and the options that find the server. */
static void
put_words(const struct site *s, const char *const *words, const char **argv)
{
    size_t n = 0;

    argv[n++] = "-o";
    argv[n++] = s->counter;
    argv[n++] = "-o";
    argv[n++] = s->semaphore;
    for (size_t i = 0; words[i] != NULL; i++) {
        assert_true(i < WORDS_MAX);
        argv[n++] = words[i];
    }
    argv[n] = NULL;
}

/* Runs countd to its end; its words are left in `text`. */
static int
run_words(const struct site *s, const char *const *words)
{
    const char *argv[WORDS_MAX + 5];
    const struct daemon_how how = {.argv = argv};

    put_words(s, words, argv);
    return expect_run("countd", &how);
}

#define RUN(s, ...) run_words(s, (const char *const[]){__VA_ARGS__, NULL})

/* The same, beside the test. */
static void
start_words(const struct site *s, struct daemon *d, const char *const *words)
{
    const char *argv[WORDS_MAX + 5];
    const struct daemon_how how = {.argv = argv, .not_ready = true};

    put_words(s, words, argv);
    assert_int_equal(daemon_start_how(d, "countd", &how), 0);
}

#define START(s, d, ...)                                                       \
    start_words(s, d, (const char *const[]){__VA_ARGS__, NULL})

/* Waits until a command under HOLD_COMMAND runs. */
static void
await_held(const struct site *s)
{
    struct pollfd p = {.fd = s->held, .events = POLLIN};
    char line[8];

    assert_int_equal(poll(&p, 1, (int)(20000 * test_slow())), 1);
    assert_int_equal(read(s->held, line, 5), 5);
    assert_memory_equal(line, "held\n", 5);
}

/* Lets one such command end. */
static void
let_go(const struct site *s)
{
    assert_int_equal(write(s->go, "go\n", 3), 3);
}

/* ---- exit codes -------------------------------------------------------- */

SITE_TEST(the_exit_code_is_that_of_the_command, s)
{
    expect_text(RUN(s, "acquire", "a", "1", "1", "--", "true"), 0, "");
    expect_text(RUN(s, "acquire", "a", "1", "1", "--", "sh", "-c", "exit 7"), 7,
                "");
    expect_text(
        RUN(s, "acquire", "a", "1", "1", "--", "sh", "-c", "kill -9 $$"),
        128 + 9, "");
    expect(RUN(s, "acquire", "a", "1", "1", "--", "./no-such-command"), 127,
           "no-such-command: No such file");
    expect(RUN(s, "acquire", "a", "1", "1", "--", s->dir.path), 126,
           "Permission denied");
}

SITE_TEST(the_command_gets_its_own_arguments_and_the_connection, s)
{
    expect_text(RUN(s, "acquire", "a", "1", "1", "--", "sh", "-c",
                    "echo \"$1|$2|$#\"", "sh", "--wait", "b c"),
                0, "--wait|b c|2\n");
    expect(RUN(s, "acquire", "a", "1", "1", "--", "sh", "-c",
               "ls -l /proc/$$/fd | grep -c socket:; ls -l /proc/$$/fd"),
           0, "1\n");
    assert_null(strstr(text, "signalfd"));
    expect(RUN(s, "acquire", "--close", "a", "1", "1", "--", "sh", "-c",
               "ls -l /proc/$$/fd; echo end"),
           0, "end\n");
    assert_null(strstr(text, "socket:"));
    assert_null(strstr(text, "signalfd"));
}

EMPTY_TEST(what_can_never_be_had_is_misuse, s)
{
    expect(RUN(s, "acquire", "a", "2", "1", "--", "true"), 100,
           "2 of 1 can never be had");
    expect(RUN(s, "acquire", "a", "0", "1", "--", "true"), 100, "N: ");
    expect(RUN(s, "acquire", "a", "1", "4294967296", "--", "true"), 100,
           "MAX: ");
    expect(RUN(s, "acquire", "", "1", "1", "--", "true"), 100, "empty");
    expect(RUN(s, "acquire", "\\q", "1", "1", "--", "true"), 100, "escape");
    expect(RUN(s, "acquire", "a", "1", "1"), 100, "usage");
    expect(RUN(s, "acquire", "-E", "256", "a", "1", "1", "--", "true"), 100,
           "0 to 255");
    expect(RUN(s, "acquire", "-w", "2d", "a", "1", "1", "--", "true"), 100,
           "duration");
    expect(RUN(s, "live", "look"), 100, "usage");
    expect(RUN(s, "live", "get"), 100, "usage");
    expect(RUN(s, "live", "stats", "x"), 100, "usage");
    expect(RUN(s, "live", "top"), 100, "usage");
    expect(RUN(s, "-o", "counter.port=0", "live", "dump"), 100,
           "no port to connect to");
}

EMPTY_TEST(without_a_server_it_is_the_system_that_failed, s)
{
    expect(RUN(s, "acquire", "-E", "9", "a", "1", "1", "--", "true"), 111,
           "does not answer");
    expect(RUN(s, "acquire", "--semaphore", "a", "1", "1", "--", "true"), 111,
           "semaphore.enable");
    expect(RUN(s, "live", "get", "a"), 111, "127.0.0.1:1 ");
    expect(RUN(s, "live", "dump"), 111, "counter.port");
    expect(RUN(s, "live", "dump", "-o", "live.address=[::1]"), 111,
           "countd-write at [::1]:1");
}

/* ---- locks ------------------------------------------------------------- */

SITE_TEST(whoever_is_refused_does_not_run, s)
{
    struct daemon holder;

    START(s, &holder, "acquire", "a", "1", "1", "--", "sh", "-c", HOLD_COMMAND,
          s->dir.path);
    await_held(s);

    expect_text(RUN(s, "acquire", "a", "1", "1", "--", "echo", "runs"), 1,
                "countd: info: a: 1 of 1 not available\n");
    expect_text(
        RUN(s, "acquire", "-E", "42", "a", "1", "1", "--", "echo", "runs"), 42,
        "countd: info: a: 1 of 1 not available\n");
    expect_text(RUN(s, "acquire", "-E0", "-w", "30ms", "a", "1", "1", "--",
                    "echo", "runs"),
                0, "countd: info: a: 1 of 1 not available in time\n");
    expect_text(RUN(s, "acquire", "a", "1", "2", "--", "echo", "runs"), 0,
                "runs\n");
    expect_text(RUN(s, "acquire", "b", "1", "1", "--", "echo", "runs"), 0,
                "runs\n");

    let_go(s);
    assert_int_equal(daemon_wait(&holder), 0);
    daemon_fini(&holder);
}

SITE_TEST(what_was_held_is_free_at_once_when_the_command_has_ended, s)
{
    for (int i = 0; i < 20; i++)
        expect_text(RUN(s, "acquire", "a", "1", "1", "--", "true"), 0, "");
    expect_text(RUN(s, "live", "get", "a"), 0, "0\n");
    expect(RUN(s, "live", "stats", "--tsv"), 0, "\ncommand:release\t0\n");
    for (int i = 0; i < 20; i++)
        expect_text(RUN(s, "acquire", "--close", "a", "1", "1", "--", "true"),
                    0, "");
    expect(RUN(s, "live", "stats", "--tsv"), 0, "\ncommand:release\t20\n");
}

/* Counts in a file by reading and writing it, which only a lock makes right,
 * and sees by a directory whether it is alone. */
static const char count_once[] = "cd \"$0\" && mkdir alone || exit 90; "
                                 "n=$(cat count); echo $((n + 1)) > count; "
                                 "rmdir alone";

/* $0: the directory; $1 ...: countd and its options. */
static const char count_often[] =
    "d=$0; for i in 1 2 3 4 5 6 7 8 9 10; do "
    "\"$@\" acquire --wait lock 1 1 -- sh -c \"$count_once\" \"$d\" || "
    "exit 91; done";

SITE_TEST(of_many_processes_only_one_is_inside, s)
{
    struct daemon contenders[CONTENDERS];
    char env[512];
    const char *const argv[] = {"-c", count_often, s->dir.path, s->path,
                                "-o", s->counter,  NULL};
    const char *const envp[] = {env, NULL};
    const struct daemon_how how = {
        .argv = argv, .env = envp, .not_ready = true};
    int count;

    tmpdir_put(&s->dir, "count", "0\n", 2, 0600);
    snprintf(env, sizeof env, "count_once=%s", count_once);
    for (int i = 0; i < CONTENDERS; i++)
        assert_int_equal(daemon_start_how(&contenders[i], "/bin/sh", &how), 0);
    for (int i = 0; i < CONTENDERS; i++) {
        assert_int_equal(daemon_wait(&contenders[i]), 0);
        daemon_fini(&contenders[i]);
    }

    assert_int_equal(RUN(s, "acquire", "lock", "1", "1", "--", "sh", "-c",
                         "cat \"$0\"/count", s->dir.path),
                     0);
    assert_int_equal(sscanf(text, "%d", &count), 1);
    assert_int_equal(count, CONTENDERS * ROUNDS);
}

SITE_TEST(a_command_whose_parent_is_killed_still_holds, s)
{
    struct daemon holder;

    START(s, &holder, "acquire", "a", "1", "1", "--", "sh", "-c", HOLD_COMMAND,
          s->dir.path);
    await_held(s);

    daemon_kill(&holder);

    expect(RUN(s, "acquire", "-w", "200ms", "a", "1", "1", "--", "true"), 1,
           "not available");
    let_go(s); /* the command, which has no parent now, ends */
    expect_text(
        RUN(s, "acquire", "-w", "20s", "a", "1", "1", "--", "echo", "mine"), 0,
        "mine\n");
    daemon_fini(&holder);
}

SITE_TEST(a_daemon_that_the_command_leaves_holds_until_it_ends, s)
{
    expect_text(RUN(s, "acquire", "a", "1", "1", "--", "sh", "-c",
                    "(" HOLD_COMMAND ") > /dev/null 2>&1 &", s->dir.path),
                0, "");
    await_held(s);
    expect(RUN(s, "acquire", "a", "1", "1", "--", "true"), 1, "not available");

    let_go(s);
    expect_text(
        RUN(s, "acquire", "-w", "20s", "a", "1", "1", "--", "echo", "mine"), 0,
        "mine\n");
}

SITE_TEST(a_holder_that_closes_holds_nothing_when_it_is_killed, s)
{
    struct daemon holder;

    START(s, &holder, "acquire", "--close", "a", "1", "1", "--", "sh", "-c",
          HOLD_COMMAND, s->dir.path);
    await_held(s);
    expect(RUN(s, "acquire", "a", "1", "1", "--", "true"), 1, "not available");

    daemon_kill(&holder);

    expect_text(
        RUN(s, "acquire", "-w", "20s", "a", "1", "1", "--", "echo", "mine"), 0,
        "mine\n");
    let_go(s); /* its command has no parent now */
    daemon_fini(&holder);
}

SITE_TEST(one_that_waits_gets_it_when_the_holder_ends, s)
{
    struct daemon holder, waiter;

    START(s, &holder, "acquire", "a", "3", "3", "--", "sh", "-c", HOLD_COMMAND,
          s->dir.path);
    await_held(s);
    START(s, &waiter, "acquire", "--wait", "a", "1", "3", "--", "sh", "-c",
          HOLD_COMMAND, s->dir.path);

    let_go(s);
    assert_int_equal(daemon_wait(&holder), 0);
    await_held(s);

    let_go(s);
    assert_int_equal(daemon_wait(&waiter), 0);
    daemon_fini(&holder);
    daemon_fini(&waiter);
}

/* ---- signals ----------------------------------------------------------- */

SITE_TEST(signals_are_passed_on_to_the_command, s)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    struct daemon holder;

    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        START(s, &holder, "acquire", "a", "1", "1", "--", "sh", "-c",
              HOLD_COMMAND, s->dir.path);
        await_held(s);
        daemon_signal(&holder, signals[i]);
        assert_int_equal(daemon_wait(&holder), 128 + signals[i]);
        assert_false(daemon_alive(&holder));
        daemon_fini(&holder);
    }
}

/* The command waits with wait, which no signal passes: one that comes just
 * before a shell reads would be noticed only after it has read. */
SITE_TEST(a_command_that_goes_on_after_a_signal_keeps_what_it_holds, s)
{
    struct daemon holder;

    START(s, &holder, "acquire", "a", "1", "1", "--", "sh", "-c",
          "trap 'echo held > \"$0\"/held' TERM; read line < \"$0\"/go & "
          "echo held > \"$0\"/held; "
          "while wait $!; [ $? -gt 128 ]; do :; done; exit 5",
          s->dir.path);
    await_held(s);
    daemon_signal(&holder, SIGTERM);
    await_held(s);
    expect(RUN(s, "acquire", "a", "1", "1", "--", "true"), 1, "not available");

    let_go(s);
    assert_int_equal(daemon_wait(&holder), 5);
    daemon_fini(&holder);
}

/* ---- loss -------------------------------------------------------------- */

SITE_TEST(a_lost_connection_is_told_and_the_command_runs_on, s)
{
    struct daemon holder;

    START(s, &holder, "acquire", "a", "1", "1", "--", "sh", "-c",
          HOLD_COMMAND "; exit 6", s->dir.path);
    await_held(s);
    daemon_kill(&s->writer);
    let_go(s);

    assert_int_equal(daemon_wait(&holder), 6);
    daemon_output(&holder, text, sizeof text);
    assert_non_null(strstr(text, "a is not held any more"));
    assert_non_null(strstr(text, "runs on"));
    daemon_fini(&holder);
}

SITE_TEST(the_command_ends_on_loss_when_that_is_wanted, s)
{
    struct daemon holder;

    START(s, &holder, "acquire", "--kill-on-loss", "a", "1", "1", "--", "sh",
          "-c", HOLD_COMMAND, s->dir.path);
    await_held(s);
    daemon_kill(&s->writer);

    assert_int_equal(daemon_wait(&holder), 111);
    daemon_output(&holder, text, sizeof text);
    assert_non_null(strstr(text, "gets SIGTERM"));
    assert_non_null(
        strstr(text, "the loss of what it had acquired, status=143"));
    daemon_fini(&holder);
}

SITE_TEST(a_command_that_calls_its_work_done_after_the_loss_did_not_do_it, s)
{
    struct daemon holder;

    START(s, &holder, "acquire", "--kill-on-loss", "a", "1", "1", "--", "sh",
          "-c", "trap 'exit 0' TERM; " HOLD_COMMAND, s->dir.path);
    await_held(s);
    daemon_kill(&s->writer);

    assert_int_equal(daemon_wait(&holder), 111);
    daemon_output(&holder, text, sizeof text);
    assert_non_null(strstr(text, "the loss of what it had acquired, status=0"));
    daemon_fini(&holder);
}

SITE_TEST(one_that_waits_says_when_the_server_goes, s)
{
    struct daemon holder, waiter;

    START(s, &holder, "acquire", "a", "1", "1", "--", "sh", "-c", HOLD_COMMAND,
          s->dir.path);
    await_held(s);
    START(s, &waiter, "acquire", "--wait", "a", "1", "1", "--", "true");
    daemon_kill(&s->writer);

    assert_int_equal(daemon_wait(&waiter), 111);
    let_go(s);
    assert_int_equal(daemon_wait(&holder), 0);
    daemon_fini(&holder);
    daemon_fini(&waiter);
}

/* ---- looking ----------------------------------------------------------- */

SITE_TEST(the_holders_of_a_name_are_told, s)
{
    struct daemon one, two;
    int lines = 0;

    START(s, &one, "acquire", "a", "2", "9", "--", "sh", "-c", HOLD_COMMAND,
          s->dir.path);
    await_held(s);
    expect(RUN(s, "live", "who", "a", "--tsv"), 0, "\t127.0.0.1:");
    assert_int_equal(strncmp(text, "2\t", 2), 0);
    START(s, &two, "acquire", "a", "3", "9", "--", "sh", "-c", HOLD_COMMAND,
          s->dir.path);
    await_held(s);
    expect(RUN(s, "live", "who", "a"), 0, "held  age_s  address\n");
    expect(RUN(s, "live", "who", "a", "--tsv"), 0, "\t127.0.0.1:");
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines, 2);
    assert_non_null(strstr(text, "2\t"));
    assert_non_null(strstr(text, "3\t"));
    expect(RUN(s, "live", "who", "b"), 1, "no such counter");
    expect_text(RUN(s, "acquire", "-q", "a", "5", "9", "--", "true"), 1, "");
    let_go(s);
    let_go(s);
    assert_int_equal(daemon_wait(&one), 0);
    assert_int_equal(daemon_wait(&two), 0);
    expect_text(RUN(s, "live", "who", "a", "--tsv"), 0, "");
    daemon_fini(&one);
    daemon_fini(&two);
}

SITE_TEST(counters_can_be_looked_at, s)
{
    static const char script[] =
        "\"$@\" live get mail && \"$@\" live get mail web none --tsv; "
        "\"$@\" live get mail web --json; "
        "\"$@\" live dump --tsv | sort -rn; \"$@\" live dump --json | wc -l";

    expect(RUN(s, "acquire", "mail", "2", "10", "--", s->path, "-o", s->counter,
               "acquire", "web", "11", "20", "--", "sh", "-c", script, "sh",
               s->path, "-o", s->counter),
           0, "");

    assert_string_equal(text, "2\n"
                              "countd: info: no such counter: none\n"
                              "2\tmail\n11\tweb\n-\tnone\n"
                              "{\"rows\": [\n"
                              " {\"taken\": 2, \"name\": \"mail\"},\n"
                              " {\"taken\": 11, \"name\": \"web\"}]}\n"
                              "11\t11\tweb\n"
                              "2\t2\tmail\n"
                              "3\n");
}

SITE_TEST(what_is_not_there_is_a_negative_answer, s)
{
    expect_text(RUN(s, "live", "get", "a"), 1,
                "countd: info: no such counter: a\n");
    expect(RUN(s, "live", "get", "a", "--json"), 1,
           "{\"rows\": [\n {\"taken\": null, \"name\": \"a\"}]}\n");
    expect(RUN(s, "live", "get", "a", "b", "--semaphore"), 1,
           "no such semaphore: b");
    expect_text(RUN(s, "live", "dump"), 0, "");
    expect_text(RUN(s, "live", "dump", "--json"), 0, "{\"rows\": []}\n");
}

SITE_TEST(any_name_can_be_typed_and_is_shown_as_it_is_typed, s)
{
    static const char name[] = "a\\tb\\x00\\xff \\\\ \xc3\xa9";
    char want[64];

    assert_int_equal(RUN(s, "acquire", name, "1", "2", "--", "true"), 0);
    snprintf(want, sizeof want, "0\t1\t%s\n", name);
    expect_text(RUN(s, "live", "dump", "--tsv"), 0, want);
    expect_text(RUN(s, "live", "get", name), 0, "0\n");
}

SITE_TEST(names_of_65535_bytes_are_taken_and_shown, s)
{
    static char name[65535 + 2];

    memset(name, 'n', sizeof name - 2);
    assert_int_equal(RUN(s, "acquire", name, "7", "7", "--", s->path, "-o",
                         s->counter, "live", "dump", "--tsv"),
                     0);
    assert_int_equal(strlen(text), 4 + 65535 + 1);
    assert_memory_equal(text, "7\t7\tnnn", 7);
    name[sizeof name - 2] = 'n';
    expect(RUN(s, "live", "get", name), 100, "too long");
}

SITE_TEST(statistics_are_shown_in_all_forms, s)
{
    assert_int_equal(RUN(s, "acquire", "a", "1", "1", "--", "true"), 0);
    expect(RUN(s, "live", "stats"), 0, "\ncommand:acquire");
    expect(RUN(s, "live", "stats", "--tsv"), 0, "\ncommand:acquire\t1\n");
    expect(RUN(s, "live", "stats", "--json"), 0, "\"command:acquire\": 1");
    expect(RUN(s, "live", "stats", "--json", "--semaphore"), 0,
           "\"command:acquire\": 0");
}

SITE_TEST(semaphores_are_of_their_own, s)
{
    expect_text(RUN(s, "acquire", "--semaphore", "a", "2", "5", "--", s->path,
                    "-o", s->semaphore, "live", "--semaphore", "get", "a"),
                0, "3\n");
    expect(RUN(s, "live", "get", "a"), 1, "no such counter: a");
    expect(RUN(s, "live", "dump", "--semaphore"), 100, "has no Dump");
}

/* ---- the manual -------------------------------------------------------- */

/* The example of countd.5 that speaks to `port`, as a reader of the page sees
 * it, for another port. */
static void
take_example(unsigned port, unsigned instead, char *script, size_t size)
{
    static char page[128 << 10];
    FILE *f = fopen("common/setup/countd.5", "re");
    char start[64];
    const char *at, *end;
    size_t n;

    assert_non_null(f);
    n = fread(page, 1, sizeof page - 1, f);
    page[n] = '\0';
    assert_int_equal(fclose(f), 0);
    snprintf(start, sizeof start, "exec 3<>/dev/tcp/127.0.0.1/%u\n", port);
    at = strstr(page, start);
    assert_non_null(at);
    end = strstr(at, "\n.Ed");
    assert_non_null(end);
    n = (size_t)snprintf(script, size, "exec 3<>/dev/tcp/127.0.0.1/%u\n",
                         instead);
    for (at += strlen(start); at < end && n + 1 < size; at++) {
        script[n++] = *at;
        if (at[0] == '\\') {
            assert_int_equal(at[1], 'e'); /* the only escape there is */
            at++;
        }
    }
    script[n] = '\0';
}

SITE_TEST(the_examples_of_countd_5_work_as_they_are_written, s)
{
    char script[1024];

    if (access("/bin/bash", X_OK) < 0)
        test_skip("there is no bash");
    take_example(48881, daemon_port(&s->writer, "ack"), script, sizeof script);
    expect_text(daemon_run(text, sizeof text, "/bin/bash", "-c", script, NULL),
                0, "WIN");

    take_example(11215, daemon_port(&s->writer, "counter"), script,
                 sizeof script);
    expect(daemon_run(text, sizeof text, "/bin/bash", "-c", script, NULL), 0,
           "f   o   u   n   d");
    expect(RUN(s, "acquire", "a", "7", "9", "--", "/bin/bash", "-c", script), 0,
           "\\0  \\0  \\0  \\a");
}

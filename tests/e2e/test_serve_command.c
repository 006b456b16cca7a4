/* tests/e2e/test_serve_command.c - countd serve: three daemons as one, their
 * directory, ports and hosts. */
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/net/net.h"
#include "tests/lib/site.h"

/* ---- serve ------------------------------------------------------------- */

/* Waits until serve has printed the words, and leaves all its output in `text`;
 * returns what follows them. */
static const char *
await_words(struct site *s, const char *words)
{
    const uint64_t until = clock_ms() + 20000 * test_slow();
    const char *found;

    do {
        (void)daemon_output(&s->serve, text, sizeof text);
        found = strstr(text, words);
    } while (found == NULL && clock_ms() < until && daemon_alive(&s->serve));
    expect(0, 0, words);
    return found + strlen(words);
}

/* The setting for a port that a daemon which was started again has reported. */
static void
read_address(char *setting, size_t size, const char *key, const char *report,
             const char *name)
{
    const char *line_end = strchr(report, '\n');
    const char *at = strstr(report, name);

    assert_true(at != NULL && line_end != NULL && at < line_end);
    at += strlen(name);
    (void)snprintf(setting, size, "%s=%.*s", key, (int)strcspn(at, " \n"), at);
}

WITH_SITE(a_daemon_that_a_signal_ended_is_started_again, s)
{
    const char *report;

    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    await_words(s, "countd-write: info: starting data_dir=");
    await_words(s, "countd-write: info: serving ");
    await_words(s, "countd-worker: info: starting data_dir=");
    await_words(s, "countd-worker: info: serving\n");

    /* The worker sleeps, else it may be the one that recovers the log. */
    assert_int_equal(kill(s->children[1], SIGSTOP), 0);
    assert_int_equal(kill(s->children[0], SIGKILL), 0);
    await_words(s, "countd-write was killed by signal 9 (Killed); it is "
                   "started again in 100 ms");
    report = await_words(s, "countd-write serves again pid=");
    read_address(s->ack, sizeof s->ack, "write.ack_listen", report, " ack=");
    await_words(s, "countd-write: info: recovered logs=");
    assert_int_equal(kill(s->children[1], SIGCONT), 0);
    assert_int_equal(kill(s->children[1], SIGABRT), 0);
    await_words(s, "countd-worker was killed by signal 6 (Aborted); it is "
                   "started again in 100 ms");
    await_words(s, "countd-worker serves again pid=");
    assert_int_equal(kill(s->children[2], SIGBUS), 0);
    await_words(s, "countd-read was killed by signal 7 (Bus error); it is "
                   "started again in 100 ms");
    report = await_words(s, "countd-read serves again pid=");
    read_address(s->read, sizeof s->read, "read.listen", report, " read=");

    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "get", "a", "b"), 0, "2\n");
    assert_int_equal(daemon_stop(&s->serve), 0);
}

/* The pid in the `number`th report that the worker serves again; 0: there is
 * none yet. */
static pid_t
find_pid(struct site *s, size_t number)
{
    static const char words[] = "countd-worker serves again pid=";
    const char *at = text;

    (void)daemon_output(&s->serve, text, sizeof text);
    for (size_t i = 0; at != NULL && i < number; i++) {
        at = strstr(at, words);
        if (at != NULL)
            at += strlen(words);
    }
    return at == NULL ? 0 : (pid_t)strtol(at, NULL, 10);
}

WITH_SITE(ten_deaths_within_a_minute_end_serve, s)
{
    pid_t pid = s->children[1];

    for (size_t deaths = 1; deaths <= 10; deaths++) {
        const uint64_t until = clock_ms() + 20000 * test_slow();

        assert_int_equal(kill(pid, SIGKILL), 0);
        while (deaths < 10 && (pid = find_pid(s, deaths)) == 0)
            assert_true(clock_ms() < until);
    }
    assert_int_equal(daemon_wait(&s->serve), 111);
    (void)daemon_output(&s->serve, text, sizeof text);
    expect(0, 0, "the 10th time within a minute; stopping the others");
    for (int i = 0; i < SITE_DAEMONS; i++)
        assert_int_equal(kill(s->children[i], 0), -1);
}

WITH_SITE(a_daemon_that_exits_ends_serve, s)
{
    for (int victim = 0; victim < SITE_DAEMONS; victim++) {
        static const char *const words[] = {
            "countd-write exited with status 111; stopping",
            "countd-worker exited with status 111; stopping",
            "countd-read exited with status 111; stopping",
        };

        expect_text(RUN(s, "incr", "a", "b"), 0, "");
        assert_int_equal(kill(s->children[victim], SIGHUP), 0);
        assert_int_equal(daemon_wait(&s->serve), 111);
        (void)daemon_output(&s->serve, text, sizeof text);
        expect(0, 0, words[victim]);
        for (int i = 0; i < SITE_DAEMONS; i++)
            assert_int_equal(kill(s->children[i], 0), -1);
        daemon_fini(&s->serve);
        site_serve(s);
    }
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "get", "a", "b"), 0, "3\n");
}

WITH_SITE(a_sighup_stops_serve_with_111, s)
{
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    daemon_signal(&s->serve, SIGHUP);
    assert_int_equal(daemon_wait(&s->serve), 111);
    expect(RUN(s, "check"), 0, " waiting=0 held=0: 0 faults\n");
}

WITH_EMPTY(a_sighup_that_nohup_ignores_stops_nothing, s)
{
    void (*before)(int) = signal(SIGHUP, SIG_IGN);

    site_serve(s);
    (void)signal(SIGHUP, before);
    daemon_signal(&s->serve, SIGHUP);
    for (int i = 0; i < SITE_DAEMONS; i++)
        assert_int_equal(kill(s->children[i], SIGHUP), 0);
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "get", "a", "b"), 0, "1\n");
    assert_int_equal(daemon_stop(&s->serve), 0);
}

WITH_SITE(a_stop_by_a_signal_prints_one_line, s)
{
    size_t before;
    char *line;

    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    before = daemon_output(&s->serve, text, sizeof text);
    daemon_signal(&s->serve, SIGINT);
    assert_int_equal(daemon_wait(&s->serve), 0);
    (void)daemon_output(&s->serve, text, sizeof text);
    line = text + before;
    assert_string_equal(line, "countd: info: stopping (Interrupt)\n");
}

WITH_SITE(no_daemon_outlives_a_killed_serve, s)
{
    /* Orphans become ours, so that their end can be waited for. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    daemon_kill(&s->serve);
    for (int i = 0; i < SITE_DAEMONS; i++) {
        int status;

        site_await_end(s->children[i]);
        assert_int_equal(waitpid(s->children[i], &status, 0), s->children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

WITH_SITE(a_clean_stop_merges_what_was_received, s)
{
    for (int i = 0; i < 20; i++)
        expect_text(RUN(s, "incr", "a", "b"), 0, "");
    /* The worker sleeps until the writer is gone: serve must give it the time
     * to merge the last log. */
    assert_int_equal(kill(s->children[1], SIGSTOP), 0);
    daemon_signal(&s->serve, SIGTERM);
    site_await_end(s->children[0]);
    assert_int_equal(kill(s->children[1], SIGCONT), 0);
    assert_int_equal(daemon_wait(&s->serve), 0);
    expect(RUN(s, "check"), 0, "keyspaces=1 keys=1 ");
    expect(0, 0, " waiting=0 held=0: 0 faults\n");

    site_serve(s);
    expect_text(RUN(s, "get", "a", "b"), 0, "20\n");
}

WITH_SITE(sigusr2_to_serve_hands_the_log_on, s)
{
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    daemon_signal(&s->serve, SIGUSR2);
    for (int i = 0; i < 1000; i++) /* it would stay for an hour */
        if (RUN(s, "get", "a", "b") == 0)
            break;
    expect_text(RUN(s, "get", "a", "b"), 0, "1\n");
}

WITH_SITE(sigusr1_to_serve_prints_the_figures_of_all_daemons, s)
{
    static const char *const lines[] = {
        "countd-write: info: messages=", "countd-worker: info: figures: ",
        "countd-read: info: requests="};
    const uint64_t until = clock_ms() + 20000 * test_slow();

    daemon_signal(&s->serve, SIGUSR1);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        do
            (void)daemon_output(&s->serve, text, sizeof text);
        while (strstr(text, lines[i]) == NULL && clock_ms() < until);
        expect(0, 0, lines[i]);
    }
}

WITH_SITE(a_second_serve_on_the_same_directory_is_refused, s)
{
    const char *const argv[] = {"serve",
                                "-d",
                                s->data,
                                "-o",
                                "write.listen=127.0.0.1:0",
                                "-o",
                                "write.ack_listen=127.0.0.1:0",
                                "-o",
                                "read.listen=127.0.0.1:0",
                                NULL};
    const struct daemon_how how = {.argv = argv};

    assert_int_equal(daemon_run_how(text, sizeof text, "countd", &how), 111);
    expect(0, 0, "another countd-write has data_dir=");
    expect(0, 0, "countd-write exited with status 111; stopping the others");
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
}

WITH_SITE(other_message_sizes_are_refused_with_100, s)
{
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    assert_int_equal(daemon_stop(&s->serve), 0);
    expect(RUN(s, "serve", "-o", "message.key_size=64", "-o",
               "write.listen=127.0.0.1:0", "-o", "write.ack_listen=127.0.0.1:0",
               "-o", "read.listen=127.0.0.1:0"),
           100, "message.key_size=256");
}

/* By serve and by the first `daemons` of the three, with 100 and a reason. */
static void
expect_refused(const char *data, size_t daemons, const char *words)
{
    static const char *const programs[] = {"countd-write", "countd-worker",
                                           "countd-read"};
    const char *const argv[] = {"-d",    data,
                                "-o",    "write.listen=127.0.0.1:0",
                                "-o",    "write.ack_listen=127.0.0.1:0",
                                "-o",    "read.listen=127.0.0.1:0",
                                "serve", NULL};
    const char *const daemon_argv[] = {"-d", data, NULL};
    const struct daemon_how serve = {.argv = argv};
    const struct daemon_how how = {.argv = daemon_argv};

    expect(daemon_run_how(text, sizeof text, "countd", &serve), 100, words);
    for (size_t i = 0; i < daemons; i++)
        expect(daemon_run_how(text, sizeof text, programs[i], &how), 100,
               words);
}

WITH_EMPTY(a_data_directory_that_cannot_be_is_refused_with_100, s)
{
    char path[700];

    snprintf(path, sizeof path, "%s/no/parent", s->dir.path);
    expect_refused(path, 2, "its parent folder does not exist");

    expect_refused(site_put(s, "file", "text"), 3, "is not a directory");

    snprintf(path, sizeof path, "%s/open", s->dir.path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0777), 0);
    expect_refused(path, 3, "may be written by others");

    snprintf(path, sizeof path, "%s/dangling", s->dir.path);
    assert_int_equal(symlink("nowhere", path), 0);
    expect(RUN(s, "-d", path, "serve"), 100, "a link to what does not exist");

    expect(RUN(s, "-d", "/proc/countd/", "serve"), 100, "/proc/countd/");
    assert_null(strstr(text, "does not exist"));
}

/* A writer makes it: then the same works. */
WITH_EMPTY(a_data_directory_that_is_not_there_yet_may_come, s)
{
    static const char *const commands[][3] = {
        {"check"},
        {"log"},
        {"log", "salvage", "bad-0000000001-1"},
        {"backup", "/tmp/none"}};
    char path[700];

    snprintf(path, sizeof path, "data_dir=%s/later", s->dir.path);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        expect(
            RUN(s, "-o", path, commands[i][0], commands[i][1], commands[i][2]),
            111, "does not exist; start countd-write");
}

WITH_EMPTY(a_port_in_use_is_reported_with_its_setting, s)
{
    struct net_address address, bound;
    char where[NET_ADDRESS_SIZE], setting[NET_ADDRESS_SIZE + 16];
    int fd;

    assert_rc(net_parse("127.0.0.1:0", &address), 0);
    fd = net_listen(&address, 0, &bound);
    assert_true(fd >= 0);
    net_format(&bound, where);
    snprintf(setting, sizeof setting, "read.listen=%s", where);
    expect(RUN(s, "serve", "-o", "write.listen=127.0.0.1:0", "-o",
               "write.ack_listen=127.0.0.1:0", "-o", setting),
           111, "is in use by another process: stop it, or set read.listen");
    assert_non_null(strstr(text, ": error: listen read.listen="));
    assert_int_equal(close(fd), 0);
}

WITH_SITE(a_client_minds_only_the_ports_it_uses, s)
{
    char same[sizeof s->read + 16];

    /* As behind a tunnel whose other ports go elsewhere. */
    snprintf(same, sizeof same, "write.ack_listen=%s",
             strchr(s->read, '=') + 1);

    expect(RUN(s, "keyspaces", "-o", same), 0, "");
    expect(RUN(s, "keyspaces", "-o", "write.listen=nobody.invalid:1", "-o",
               "live.address=nobody.invalid"),
           0, "");
    expect(RUN(s, "serve", "-t", "-o", same), 100,
           "write.ack_listen and read.listen are both");
}

/* No name service has this; one that does not answer may have it later. */
#define NO_HOST "not.a.host.invalid"

static void
expect_no_host(int got)
{
    if (got == 111)
        expect(got, 111, NO_HOST ":0 is a host name that cannot be looked up");
    else
        expect(got, 100, NO_HOST ":0 is a host name that no address is known");
}

WITH_EMPTY(a_host_that_is_none_is_refused_with_100, s)
{
    expect_no_host(RUN(s, "serve", "-o", "write.listen=127.0.0.1:0", "-o",
                       "write.ack_listen=127.0.0.1:0", "-o",
                       "read.listen=" NO_HOST ":0"));
    expect_no_host(RUN(s, "serve", "-o", "write.listen=" NO_HOST ":0", "-o",
                       "write.ack_listen=127.0.0.1:0", "-o", "read.listen="));
    expect(RUN(s, "get", "k", "a", "-o", "read.listen=a b:1"), 100,
           "give an address or host name and a port");
}

WITH_EMPTY(a_host_name_is_one_of_an_address_for_daemons_and_clients, s)
{
    char host[256], ack[300], read[300], live[300], port[32];
    struct net_address address, bound;
    int fd;

    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(ack, sizeof ack, "%s:0", host);
    fd = net_resolve(ack, &address, 1) == 1 ? net_listen(&address, 0, &bound)
                                            : -1;
    if (fd < 0)
        test_skip("the name of this machine is not one of its addresses");
    assert_int_equal(close(fd), 0);

    snprintf(ack, sizeof ack, "write.ack_listen=%s:0", host);
    snprintf(read, sizeof read, "read.listen=%s:0", host);
    snprintf(live, sizeof live, "live.address=%s", host);
    daemon_start(&s->serve, "countd", "serve", "-d", s->data, "-o",
                 "log.size=64K", "-o", "write.listen=", "-o", ack, "-o", read,
                 "-o", live, "-o", "counter.port=0", NULL);
    snprintf(ack, sizeof ack, "write.ack_listen=%s:%u", host,
             daemon_port(&s->serve, "ack"));
    snprintf(read, sizeof read, "read.listen=%s:%u", host,
             daemon_port(&s->serve, "read"));
    snprintf(port, sizeof port, "counter.port=%u",
             daemon_port(&s->serve, "counter"));

    expect(RUN(s, "incr", "k", "a", "3", "-o", ack), 0, "");
    expect(RUN(s, "flush", "-o", read), 0, "");
    expect_text(RUN(s, "get", "k", "a", "--tsv", "-o", read), 0, "3\n");
    expect(RUN(s, "acquire", "-o", live, "-o", port, "x", "1", "1", "--",
               "echo", "held"),
           0, "held");
}

/* The lowest port that anybody may listen on. */
static int
first_free_port(void)
{
    FILE *f = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
    int port = 1024;

    if (f == NULL)
        return port;
    if (fscanf(f, "%d", &port) != 1)
        port = 1024;
    assert_int_equal(fclose(f), 0);
    return port;
}

WITH_EMPTY(a_port_that_this_user_may_not_have_is_refused_with_100, s)
{
    static const char *const ports[][3] = {
        {"write.listen=127.0.0.1:1", "write.ack_listen=127.0.0.1:0",
         "read.listen=127.0.0.1:0"},
        {"write.listen=127.0.0.1:0", "write.ack_listen=127.0.0.1:0",
         "read.listen=127.0.0.1:1"}};
    const uid_t uid = geteuid() == 0 ? 65534 : 0;

    if (first_free_port() <= 1)
        test_skip("here anybody may listen on any port");
    if (uid != 0)
        tmpdir_chown(&s->dir, uid);
    for (size_t i = 0; i < 2; i++)
        expect(site_run(s, uid,
                        (const char *[]){"serve", "-o", ports[i][0], "-o",
                                         ports[i][1], "-o", ports[i][2], NULL}),
               100, "Permission denied");
}

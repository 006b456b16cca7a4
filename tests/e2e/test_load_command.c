/* tests/e2e/test_load_command.c - countd load, and countd export, whose output
 * it takes, with the real daemons under `countd serve`. */
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/client.h"
#include "tests/lib/site.h"

/* ---- load -------------------------------------------------------------- */

WITH_SITE(load_reports_bad_lines_and_counts_the_rest, s)
{
    const char *path = site_put(s, "in.tsv",
                                "a\tx\t5\n"
                                "a\tx\n"
                                "\n"
                                "no tab\n"
                                "a\ty\tmany\n"
                                "a\ty\t9223372036854775808\n"
                                "\tx\t1\n"
                                "a\t\t1\n"
                                "a\tb\\q\t1\n"
                                "a\tx\t1\t2\n"
                                "a\tz\t-7\r\n"
                                "a\t\\x00\t1\n"
                                "a\ttab\\there\t2");

    expect(RUN(s, "load", path), 1, "4 increments acknowledged");
    expect(1, 1, "in.tsv:4: no tab");
    expect(1, 1, "in.tsv:5: the increment is not a whole number");
    expect(1, 1, "in.tsv:6: the increment does not fit 64 bits");
    expect(1, 1, "in.tsv:7: an empty name");
    expect(1, 1, "in.tsv:8: an empty name");
    expect(1, 1, "in.tsv:9: a bad escape");
    expect(1, 1, "in.tsv:10: more than three columns");
    expect(1, 1, "in.tsv:12: a bad escape");
    expect(1, 1, "8 bad lines");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "top", "a", "--tsv"), 0,
                "0\t6\tx\n1\t2\ttab\\there\n2\t-7\tz\n");
}

WITH_SITE(load_stops_at_the_first_bad_line_when_strict, s)
{
    const char *path = site_put(s, "in.tsv", "a\tx\t5\nbad\na\tx\t5\n");

    expect(RUN(s, "load", "--strict", path), 1, "1 increment acknowledged");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "get", "a", "x"), 0, "5\n");
}

WITH_SITE(load_reports_twenty_bad_lines_and_counts_further_ones, s)
{
    char bytes[256] = "";

    for (int i = 0; i < 25; i++)
        strcat(bytes, "bad\n");
    expect(RUN(s, "load", site_put(s, "in.tsv", bytes)), 1,
           "in.tsv:20: no tab");
    expect(1, 1, "further bad lines are only counted");
    expect(1, 1, "25 bad lines");
    assert_null(strstr(text, "in.tsv:21:"));
}

WITH_SITE(load_reads_long_lines_only_as_far_as_they_can_be_right, s)
{
    static char bytes[300000];

    memset(bytes, 'k', sizeof bytes - 1);
    memcpy(bytes, "a\tx\t1\n", 6);
    memcpy(bytes + 290000, "\na\tx\t1\n", 7);
    bytes[290007] = '\0';
    expect(RUN(s, "load", site_put(s, "in.tsv", bytes)), 1,
           "in.tsv:2: the line is too long");
    expect(1, 1, "2 increments acknowledged");
    expect(1, 1, "1 bad line");
}

WITH_SITE(load_reads_gzip_and_either_port_counts_each_line_once, s)
{
    char path[700];

    site_put_gzip(s, "in.tsv.gz", 20000, 100);
    snprintf(path, sizeof path, "%s/in.tsv.gz", s->dir.path);
    expect(RUN(s, "load", path), 0, "20000 increments acknowledged");
    expect(RUN(s, "load", path, "--silent", "--json"), 0,
           "{\"increments\": 20000, \"bad_lines\": 0, \"ms\": ");
    expect(1, 1, "\"acknowledged\": false}");

    /* What was sent without answers is on its way: the flush that finds all
     * of it there comes soon. */
    for (int i = 0; i < 1000; i++) {
        expect_text(RUN(s, "flush"), 0, "");
        if (RUN(s, "total", "words") == 0 && strcmp(text, "40000\n") == 0)
            break;
    }
    expect_text(RUN(s, "total", "words"), 0, "40000\n");
    expect_text(RUN(s, "get", "words", "key 7"), 0, "400\n");
}

WITH_SITE(load_names_a_broken_gzip_file_and_one_that_is_missing, s)
{
    struct stat st;
    char path[700];

    site_put_gzip(s, "in.tsv.gz", 20000, 100);
    snprintf(path, sizeof path, "%s/in.tsv.gz", s->dir.path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 20), 0);
    expect(RUN(s, "load", path), 111,
           "in.tsv.gz: the gzip file ends too early; the lines up to ");
    expect(111, 111, " increments acknowledged");
    site_put_gzip(s, "in.tsv.gz", 20000, 100);
    site_damage_file(path, st.st_size / 4);
    expect(RUN(s, "load", path), 111, "in.tsv.gz: the gzip file is damaged; ");
    expect(RUN(s, "load", "/nowhere/x.tsv"), 100, "open /nowhere/x.tsv");
    expect(RUN(s, "load", s->dir.path), 100, ": Is a directory");
    expect(RUN(s, "load", "/nowhere/x.tsv", path), 111, "is damaged");
}

WITH_SITE(load_reads_a_pipe_and_makes_durable_what_came_before_it_waits, s)
{
    char program[700], script[2048];

    /* The second line comes when the first can be read: load must not keep it
     * until its input ends. */
    daemon_path("countd", program, sizeof program);
    snprintf(script, sizeof script,
             "C='%s -d %s -o %s -o %s'\n"
             "{ printf 'p\\tk\\t1\\n'\n"
             "  i=0; until $C get p k 2>/dev/null | grep -q 1; do\n"
             "    i=$((i + 1)); [ $i -lt 2000 ] || exit; $C flush; done\n"
             "  printf 'p\\tk\\t1\\n'; } | $C load -\n",
             program, s->data, s->ack, s->read);
    assert_int_equal(
        daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL), 0);
    expect(0, 0, "2 increments acknowledged");
}

WITH_SITE(load_shows_a_bar_on_a_terminal_and_takes_it_away, s)
{
    const char *path = site_put(s, "lines", "k\ta\t1\nk\ta\nk\n");
    const char *const argv[] = {"load", "-o", s->ack, path, NULL};
    const struct daemon_how how = {.argv = argv};
    const char *last;

    expect(expect_terminal("countd", &how, 0), 1, "\r\033[Kloading [");
    expect(1, 1, "] 100% 2 increments, ");
    last = strstr(text, "2 increments acknowledged in ");
    assert_non_null(last);
    assert_null(strstr(last, "\033"));
    assert_memory_equal(last - 4, "\r\033[K", 4);
}

WITH_SITE(load_stops_in_good_order_when_it_is_told_to, s)
{
    char path[700];
    const char *const argv[] = {"load", path, "-o", s->ack, NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    struct daemon load;
    int fd;

    snprintf(path, sizeof path, "%s/pipe", s->dir.path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(daemon_start_how(&load, "countd", &how), 0);
    fd = open(path, O_WRONLY | O_CLOEXEC); /* waits for load */
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "p\tk\t1\np\tk\t2\n", 12), 12);
    for (int i = 0; i < 2000; i++) { /* until both have been taken */
        assert_int_equal(RUN(s, "flush"), 0);
        if (RUN(s, "get", "p", "k") == 0 && strcmp(text, "3\n") == 0)
            break;
    }
    daemon_signal(&load, SIGTERM);
    assert_int_equal(daemon_wait(&load), 128 + SIGTERM);
    (void)daemon_output(&load, text, sizeof text);
    expect(0, 0, "2 increments acknowledged");
    expect(0, 0, "stopped by a signal: ");
    expect(0, 0, "/pipe:2 is the last line taken");
    assert_int_equal(close(fd), 0);
    daemon_fini(&load);
}

/* ---- a connection that breaks ------------------------------------------ */

WITH_EMPTY(load_says_that_nothing_was_sent_when_nobody_answers, s)
{
    expect(RUN(s, "load", site_put(s, "in.tsv", "a\tb\t1\na\tb\t1\n")), 111,
           "does not answer");
    expect(1, 1,
           "increments=2: the first 0 are acknowledged, the next 0 may or may "
           "not be counted, the last 2 were not sent");
    assert_null(strstr(text, "is the last line"));
}

#define BREAK_INCREMENTS 5

/* How a server ends that has taken BREAK_INCREMENTS. */
struct ending {
    size_t wins; /* so many it acknowledged before */
    const char *answer;
    void (*end)(int fd);        /* NULL: it stays, and says nothing more */
    const char *words;          /* of the load */
    const char *known, *unsure; /* lines that it names; NULL: not named */
};

static int
listen_anywhere(uint16_t *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

/* Takes the connection of a load and ends as told. */
static void
serve_ending(int listen_fd, const struct ending *e)
{
    uint8_t bytes[BREAK_INCREMENTS * CLIENT_MESSAGE_SIZE];
    struct pollfd p = {.fd = listen_fd, .events = POLLIN};
    int fd;

    assert_int_equal(poll(&p, 1, (int)(20000 * test_slow())), 1);
    fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(client_read(fd, bytes, sizeof bytes), sizeof bytes);
    for (size_t i = 0; i < e->wins; i++)
        client_send(fd, "WIN", 3);
    client_send(fd, e->answer, strlen(e->answer));
    if (e->end)
        e->end(fd);
    else
        client_expect_end(fd);
}

/* The lines of a load of two files, with one that is empty and one that is bad,
 * so that numbers of lines are not numbers of increments. */
static void
load_until(struct site *s, const struct ending *e)
{
    char first[700], second[700], ack[64];
    const char *const argv[] = {"load", "-o",  ack,    "--timeout",
                                "1s",   first, second, NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    struct daemon load;
    uint16_t port;
    const int listen_fd = listen_anywhere(&port);

    snprintf(first, sizeof first, "%s",
             site_put(s, "a.tsv", "k\ta\t1\n\nk\ta\t2\n"));
    snprintf(second, sizeof second, "%s",
             site_put(s, "b.tsv", "k\ta\t1\nk\ta\nbad\nk\ta\t4\n"));
    snprintf(ack, sizeof ack, "write.ack_listen=127.0.0.1:%u", port);
    assert_int_equal(daemon_start_how(&load, "countd", &how), 0);
    serve_ending(listen_fd, e);
    assert_int_equal(daemon_wait(&load), 111);
    (void)daemon_output(&load, text, sizeof text);
    daemon_fini(&load);
    assert_int_equal(close(listen_fd), 0);
}

WITH_EMPTY(load_names_file_and_line_however_the_connection_ends, s)
{
    static const struct ending endings[] = {
        {3, "", client_reset, "ended the connection", "b.tsv:1", "b.tsv:4"},
        {3, "", client_close, "ended the connection", "b.tsv:1", "b.tsv:4"},
        {2, "", client_reset, "ended the connection", "a.tsv:3", "b.tsv:4"},
        {0, "", client_reset, "ended the connection", NULL, "b.tsv:4"},
        {0, "", client_close, "ended the connection", NULL, "b.tsv:4"},
        {4, "WI", client_close, "ended the connection", "b.tsv:2", "b.tsv:4"},
        {1, "FAIL", client_close, "refused a message", "a.tsv:1", "b.tsv:4"},
        {1, "HTTP/1.1", client_close, "is not countd-write", "a.tsv:1",
         "b.tsv:4"},
        {3, "", NULL, "did not answer in time", "b.tsv:1", "b.tsv:4"},
    };

    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const struct ending *e = &endings[i];
        char words[200];

        load_until(s, e);
        expect(0, 0, e->words);
        snprintf(words, sizeof words,
                 "increments=%d: the first %zu are acknowledged, the next %zu "
                 "may or may not be counted, the last 0 were not sent",
                 BREAK_INCREMENTS, e->wins, BREAK_INCREMENTS - e->wins);
        expect(0, 0, words);
        if (e->known) {
            snprintf(words, sizeof words, "/%s is the last line acknowledged",
                     e->known);
            expect(0, 0, words);
        } else {
            assert_null(strstr(text, "is the last line acknowledged"));
        }
        snprintf(words, sizeof words, "/%s is the last line that may be",
                 e->unsure);
        expect(0, 0, words);
    }
}

/* Begins a load and kills the writer amidst it; what it said is in `text`. */
static void
load_and_kill(struct site *s, const char *path)
{
    const char *const argv[] = {"load", path, "-o", s->ack, NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    char merged[700];
    struct daemon load;

    snprintf(merged, sizeof merged, "%s/keyspace/w.mdb", s->data);
    assert_int_equal(daemon_start_how(&load, "countd", &how), 0);
    while (access(merged, F_OK) < 0 && daemon_alive(&load))
        continue; /* one log has been filled by then */
    assert_int_equal(kill(s->children[0], SIGKILL), 0);
    assert_int_equal(daemon_wait(&load), 111);
    /* It may just have started the writer again, on other ports. */
    (void)daemon_stop(&s->serve);
    daemon_fini(&s->serve);
    (void)daemon_output(&load, text, sizeof text);
    daemon_fini(&load);
}

/* A number behind these words of `text`. */
static int64_t
number_behind(const char *words)
{
    const char *at = strstr(text, words);

    if (!at)
        fail_msg("no \"%s\" in:\n%s", words, text);
    return strtoll(at + strlen(words), NULL, 10);
}

WITH_SITE(a_load_whose_server_is_killed_goes_on_behind_the_line_that_it_named,
          s)
{
    enum { LINES = 40000 };
    static char lines[4 * LINES + 1];
    int64_t known, unsure, counted;
    char path[700], from[64], script[900];

    for (int i = 0; i < LINES; i++)
        memcpy(lines + 4 * i, "w\tk\n", 4);
    snprintf(path, sizeof path, "%s", site_put(s, "in.tsv", lines));
    load_and_kill(s, path);
    known = number_behind(": the first ");
    unsure = number_behind(" are acknowledged, the next ");
    assert_in_range(known, 1, LINES - 1);
    assert_int_equal(number_behind("/in.tsv:"), known);
    assert_in_range(unsure, 0, LINES - known);
    snprintf(from, sizeof from, "/in.tsv:%d is the last line that may be",
             (int)(known + unsure));
    expect(0, 0, unsure > 0 ? from : "");

    site_serve(s);
    expect_text(RUN(s, "flush"), 0, "");
    expect(RUN(s, "get", "w", "k"), 0, "");
    counted = strtoll(text, NULL, 10);
    assert_in_range(counted, known, known + unsure);
    snprintf(script, sizeof script,
             "tail -n +%d \"$1\" | \"$BUILD/countd\" load -o \"$2\"",
             (int)(known + unsure + 1));
    expect(daemon_run(text, sizeof text, "/bin/sh", "-c", script, "sh", path,
                      s->ack, NULL),
           0, " acknowledged in ");
    expect_text(RUN(s, "flush"), 0, "");
    expect(RUN(s, "get", "w", "k"), 0, "");
    assert_int_equal(strtoll(text, NULL, 10), counted + LINES - known - unsure);
}

/* ---- out of it and into it --------------------------------------------- */

/* Runs countd with its output in a file of the site. */
static int
run_into(const struct site *s, const char *file, const char *words)
{
    char script[4096];

    snprintf(script, sizeof script,
             "exec \"$BUILD\"/countd -d '%s' -o %s -o %s %s > '%s/%s'", s->data,
             s->ack, s->read, words, s->dir.path, file);
    return daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL);
}

WITH_SITE(what_is_exported_can_be_loaded_elsewhere, s)
{
    char path[700], script[2000];

    /* More rows than one request gives, and names that need escapes. */
    snprintf(
        script, sizeof script,
        "i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); echo \"many\tk$i\t$i\"; "
        "done > '%s/in'; printf 'a b\\tx\\\\ty\\t-7\\n' >> '%s/in'",
        s->dir.path, s->dir.path);
    assert_int_equal(
        daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL), 0);
    snprintf(path, sizeof path, "%s/in", s->dir.path);
    expect(RUN(s, "load", path), 0, "5001 increments acknowledged");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(run_into(s, "out", "export"), 0, "");
    snprintf(script, sizeof script,
             "cd '%s' && sort in > a && sort out > b && cmp a b && wc -l < b",
             s->dir.path);
    expect_text(daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL), 0,
                "5001\n");
    expect_text(RUN(s, "export", "a b"), 0, "a b\tx\\ty\t-7\n");
    expect(RUN(s, "export", "a b", "none"), 1, "no such keyspace");
}

WITH_SITE(load_can_try, s)
{
    char line[700], name[300];

    memset(name, 'n', 257);
    name[257] = '\0';
    snprintf(line, sizeof line, "a\tb\t1\na\t%s\t2\na\tc\t4\n", name);
    expect(RUN(s, "load", "--dry-run", site_put(s, "f", line)), 1,
           "2 increments read, none sent, in");
    expect(0, 0, "f:2: a name of more than 256 bytes");
    expect(RUN(s, "load", "--dry-run", "-o", "write.ack_listen=127.0.0.1:1",
               site_put(s, "g", "a\tb\n")),
           0, "1 increment read");
    expect_text(RUN(s, "flush"), 0, "");
    expect(RUN(s, "get", "a", "b"), 1, "no such");
}

WITH_SITE(load_refuses_what_is_no_text_and_drops_a_byte_order_mark, s)
{
    expect(RUN(s, "load", site_put(s, "x", "\xfd\x37\x7aXZ")), 111,
           "not text but xz");
    expect(RUN(s, "load", site_put(s, "z", "\x28\xb5\x2f\xfd")), 111,
           "not text but zstd");
    expect(RUN(s, "load",
               site_put(s, "u",
                        "\xff\xfe"
                        "a")),
           111, "not text but UTF-16");
    tmpdir_put(&s->dir, "n", "a\tb\n\0\n", 6, 0600);
    expect(RUN(s, "load", site_put(s, "c", "a\x01\tb\n")), 1,
           "a control character in a name");
    expect(RUN(s, "load", site_put(s, "b", "\xef\xbb\xbfw\tx\n")), 0,
           "1 increment acknowledged");
    expect_text(RUN(s, "flush"), 0, "");
    expect_text(RUN(s, "export"), 0, "w\tx\t1\n");
}

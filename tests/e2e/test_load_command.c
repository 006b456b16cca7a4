/* tests/e2e/test_load_command.c - countd load and countd export: the transcript
 * load_command.txt, and what needs a server that ends. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/client.h"
#include "tests/lib/serve_fixture.h"

/* ---- a connection that breaks ------------------------------------------ */

#define BREAK_INCREMENTS 5

/* How a server ends that has taken BREAK_INCREMENTS. */
struct ending {
    size_t wins; /* so many it acknowledged before */
    const char *answer;
    void (*end)(int fd); /* NULL: it stays, and says nothing more */
    const char *words;   /* of the load */
    const char *known;   /* line that it names; NULL: none */
};

/* Takes the connection of a load and ends as told. */
static void
serve_ending(int listen_fd, const struct ending *e)
{
    uint8_t bytes[BREAK_INCREMENTS * CLIENT_MESSAGE_SIZE];
    struct pollfd p = {.fd = listen_fd, .events = POLLIN};
    int fd;

    assert_int_equal(poll(&p, 1, (int)test_patience(20000)), 1);
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
load_until(struct serve_fixture *s, const struct ending *e)
{
    char first[700], second[700], ack[64];
    const char *const argv[] = {"load", "-o",  ack,    "--timeout",
                                "1s",   first, second, NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    struct daemon load;
    uint16_t port;
    const int listen_fd = client_listen(&port);

    snprintf(first, sizeof first, "%s",
             serve_fixture_put(s, "a\n.tsv", "k\ta\t1\n\nk\ta\t2\n"));
    snprintf(second, sizeof second, "%s",
             serve_fixture_put(s, "b.tsv", "k\ta\t1\nk\ta\nbad\nk\ta\t4\n"));
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
        {3, "", client_reset, "ended the connection", "b.tsv:1"},
        {3, "", client_close, "ended the connection", "b.tsv:1"},
        {2, "", client_reset, "ended the connection", "a\\n.tsv:3"},
        {0, "", client_reset, "ended the connection", NULL},
        {0, "", client_close, "ended the connection", NULL},
        {4, "WI", client_close, "ended the connection", "b.tsv:2"},
        {1, "FAIL", client_close, "refused a message", "a\\n.tsv:1"},
        {1, "HTTP/1.1", client_close, "is not countd-write", "a\\n.tsv:1"},
        {3, "", NULL, "did not answer in time", "b.tsv:1"},
    };

    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const struct ending *e = &endings[i];
        char words[200];

        load_until(s, e);
        assert_has(text, e->words);
        snprintf(words, sizeof words,
                 "increments=%d: the first %zu are acknowledged, the next %zu "
                 "may or may not be counted, the last 0 were not sent",
                 BREAK_INCREMENTS, e->wins, BREAK_INCREMENTS - e->wins);
        assert_has(text, words);
        snprintf(words, sizeof words, "/%s is the last line acknowledged",
                 e->known ? e->known : "");
        if (e->known)
            assert_has(text, words);
        else
            assert_lacks(text, "is the last line acknowledged");
        assert_has(text, "/b.tsv:4 is the last line that may be");
    }
}

/* Begins a load and kills the writer amidst it; what it said is in `text`. */
static void
load_and_kill(struct serve_fixture *s, const char *path)
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
    snprintf(path, sizeof path, "%s", serve_fixture_put(s, "in.tsv", lines));
    load_and_kill(s, path);
    known = number_behind(": the first ");
    unsure = number_behind(" are acknowledged, the next ");
    assert_in_range(known, 1, LINES - 1);
    assert_int_equal(number_behind("/in.tsv:"), known);
    assert_in_range(unsure, 0, LINES - known);
    snprintf(from, sizeof from, "/in.tsv:%d is the last line that may be",
             (int)(known + unsure));
    expect(0, 0, unsure > 0 ? from : "");

    serve_fixture_serve(s, NULL);
    expect_text(RUN(s, "flush"), 0, "");
    expect(RUN(s, "get", "w", "k"), 0, "");
    counted = strtoll(text, NULL, 10);
    assert_in_range(counted, known, known + unsure);
    snprintf(script, sizeof script,
             "tail -n +%d \"$1\" | \"$BUILD/countd\" load -o \"$2\"",
             (int)(known + unsure + 1));
    expect(daemon_run(text, sizeof text, "/bin/sh", "-c", script, "sh", path,
                      s->ack),
           0, " acknowledged in ");
    expect_text(RUN(s, "flush"), 0, "");
    expect(RUN(s, "get", "w", "k"), 0, "");
    assert_int_equal(strtoll(text, NULL, 10), counted + LINES - known - unsure);
}

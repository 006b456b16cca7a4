/* tests/e2e/test_statsd_loss.c - limits and losses of StatsD lines: long names,
 * rests, drops of the kernel, floods, SIGTERM, SIGKILL, full logs.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/e2e/statsd_fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/lib/file.h"

/* The client has sent all: so a clean stop counts all. */
static void
end_client(struct fixture *r, int fd)
{
    client_close(fd);
    stop_writer(r);
}

/* ---- names and limits --------------------------------------------------- */

ON_FIXTURE(lengths_have_limits, r)
{
    static char text[65600];
    int fd;

    BEGIN(r, "log.size=1M");
    fd = connect_udp(&r->writer);
    memset(text, 'n', sizeof text);
    strcpy(text + 256, ":1|c"); /* the longest key */
    send_lines(fd, text);
    memset(text, 'n', sizeof text);
    strcpy(text + 257, ":1|c");
    send_lines(fd, text);
    /* A line of 8192 bytes, one of 8193, and a last one that counts. */
    memset(text, 't', sizeof text);
    memcpy(text, "a:1|c|#", 7);
    memcpy(text + 8192, "\nb:1|c|#", 8);
    strcpy(text + 8193 + 8193, "\nc:1|c");
    send_lines(fd, text);
    /* The largest datagram. */
    memset(text, 't', sizeof text);
    memcpy(text, "_e{", 3);
    strcpy(text + 65501, "\nd:1|c");
    assert_int_equal(send(fd, text, 65507, 0), 65507);
    end_client(r, fd);

    assert_int_equal(sum_told(r, "datagrams"), 4);
    assert_int_equal(sum_told(r, "lines"), 7);
    assert_int_equal(sum_told(r, "bad"), 3);
    assert_int_equal(sum_counted(r, C, "a"), 1);
    assert_int_equal(sum_counted(r, C, "b"), 0);
    assert_int_equal(sum_counted(r, C, "c"), 1);
    assert_int_equal(sum_counted(r, C, "d"), 1);
}

ON_FIXTURE(a_line_above_8192_bytes_ends_a_connection, r)
{
    static char text[16500];
    int fd;

    BEGIN(r, "log.size=1M");
    fd = client_connect(daemon_port(&r->writer, "statsd-tcp"));
    memset(text, 't', sizeof text);
    memcpy(text, "a:1|c|#", 7);
    memcpy(text + 8192, "\r\nb:1|c|#", 9);
    strcpy(text + 8194 + 8193, "\nc:1|c\n");
    client_send(fd, text, strlen(text));
    client_expect_end(fd);
    end_client(r, fd);

    assert_int_equal(sum_counted(r, C, "a"), 1);
    assert_int_equal(sum_counted(r, C, "b"), 0);
    assert_int_equal(sum_counted(r, C, "c"), 0);
}

ON_FIXTURE(a_rest_before_a_reset_is_not_a_line, r)
{
    int fd, other;

    BEGIN(r, "log.size=1M");
    fd = client_connect(daemon_port(&r->writer, "statsd-tcp"));
    send_lines(fd, "a:1|c\nb:1|c");
    /* The first line has been read when a gauge of a later one is there. */
    other = client_connect(daemon_port(&r->writer, "ack"));
    client_increment(other, "w", "k", 1);
    client_wins(other, 1);
    client_increment(other, "w", "k", 1);
    client_wins(other, 1);
    client_reset(fd);
    client_close(other);
    stop_writer(r);

    assert_int_equal(sum_counted(r, C, "b"), 0);
}

ON_FIXTURE(figures_about_itself_can_be_off, r)
{
    int fd;

    BEGIN(r, "log.size=1M", "statsd.self=off");
    fd = connect_udp(&r->writer);
    send_lines(fd, "a:1|c\nbad");
    end_client(r, fd);

    assert_int_equal(r->records.count, 1);
    assert_int_equal(sum_counted(r, C, "a"), 1);
}

/* ---- the socket in the directory ---------------------------------------- */

static int
unix_datagrams(const struct fixture *r)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char path[700];
    int fd, folder;

    (void)snprintf(path, sizeof path, "%s/socket", r->data);
    folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    (void)snprintf(to.sun_path, sizeof to.sun_path, "/proc/self/fd/%d/statsd",
                   folder);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    close(folder);
    return fd;
}

ON_FIXTURE(datagrams_come_to_a_socket_with_a_long_path, r)
{
    static char longer[70000];
    const size_t size = strlen(r->data);
    int fd;

    (void)snprintf(r->data + size, sizeof r->data - size, "/%0200d", 1);
    assert_int_equal(mkdir(r->data, 0755), 0);
    BEGIN(r, "log.size=1M", "statsd.listen=socket");
    fd = unix_datagrams(r);
    send_lines(fd, "a:1|c\nb:2|c");
    /* Cut, its last line might count something else. */
    memset(longer, '\n', sizeof longer);
    memcpy(longer + 65530, "c:12345|c", 9);
    assert_int_equal(send(fd, longer, sizeof longer, 0), sizeof longer);
    send_lines(fd, "a:1|c");
    end_client(r, fd);

    assert_int_equal(sum_counted(r, C, "a"), 2);
    assert_int_equal(sum_counted(r, C, "b"), 2);
    assert_int_equal(r->records.count > 0, 1);
    assert_int_equal(sum_counted(r, C, "c"), 0);
    assert_int_equal(sum_told(r, "datagrams"), 2);
    assert_int_equal(sum_told(r, "too_long"), 1);
}

/* ---- names that no record can have --------------------------------------- */

/* Whatever is within a line, the writer goes on. */
ON_FIXTURE(a_nul_anywhere_is_a_malformed_line, r)
{
    static const char *const lines[] = {
        "countd.datagram.a%b:1|g", "a%b:1|c", "a:1|c|#t%:1", "a:1%|c",
        "countd.datagram.%:1|g",   "a:1|c|#%"};
    int fd;

    BEGIN(r, "log.size=1M", "statsd.tags=append");
    fd = connect_udp(&r->writer);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char text[64] = "long.enough.to.be.no.binary:1|g\n";
        const size_t at = strlen(text), size = at + strlen(lines[i]);

        memcpy(text + at, lines[i], strlen(lines[i]));
        *(char *)memchr(text + at, '%', size - at) = '\0';
        assert_int_equal(send(fd, text, size, 0), size);
    }
    send_lines(fd, "a:1|c");
    end_client(r, fd);
    assert_int_equal(sum_told(r, "lines"), 13);
    assert_int_equal(sum_told(r, "bad"), 6);
    assert_int_equal(sum_counted(r, C, "a"), 1);
}

/* A line may have a set of tags for each of its values, and so a long name for
 * every few of its bytes. */
ON_FIXTURE(lines_that_make_many_names_wait_for_memory, r)
{
    static char line[8300];
    size_t size;
    int fd;

    BEGIN(r, "log.size=1M", "statsd.tags=append", "statsd.memory=16M",
          "statsd.flush=1m");
    fd = client_connect(daemon_port(&r->writer, "statsd-tcp"));
    for (unsigned i = 0; i < 100; i++) {
        size = (size_t)snprintf(line, sizeof line, "%08u%0232d:", i, 0);
        for (unsigned t = 0; size < 8150; t++)
            size +=
                (size_t)snprintf(line + size, sizeof line - size,
                                 "1|h|#%c%c|@1:", 'a' + t % 26, 'A' + t / 26);
        line[size - 1] = '\n';
        client_send(fd, line, size);
    }
    client_send(fd, "a:1|c\n", 6);
    end_client(r, fd);
    assert_int_equal(sum_told(r, "lines"), 101);
    assert_int_equal(sum_told(r, "bad"), 0);
    assert_int_equal(sum_told(r, "no_memory"), 0);
    assert_int_equal(sum_counted(r, C, "a"), 1);
}

/* ---- rests --------------------------------------------------------------- */

static off_t
size_of(const struct fixture *r, const char *name)
{
    struct stat st;

    assert_rc(stat(file_path(r->data, "live/%s", name), &st), 0);
    return st.st_size;
}

/* A timing of 0.4 now and then, and a stop after each. */
ON_FIXTURE(rests_survive_stops, r)
{
    for (int i = 0; i < 10; i++) {
        int fd;

        BEGIN(r, "log.size=1M");
        fd = connect_udp(&r->writer);
        send_lines(fd, "slow.q:0.4|h\nb:1|c|@0.7");
        end_client(r, fd);
        daemon_fini(&r->writer);
    }
    assert_int_equal(sum_counted(r, C ".timer.count", "slow.q"), 10);
    assert_int_equal(sum_counted(r, C ".timer.sum", "slow.q"), 4);
    assert_int_equal(sum_counted(r, C, "b"), 14); /* of 14.28571 */
    assert_int_equal(sum_told(r, "rounded"), 0);
}

/* A kill leaves the file of rests empty; on average nothing is lost. */
ON_FIXTURE(rests_that_kills_forget_are_right_on_average, r)
{
    enum { KILLS = 6, NAMES = 50 };
    char text[NAMES * 16];
    size_t size = 0;
    int64_t sum = 0;

    for (int n = 0; n < NAMES; n++)
        size +=
            (size_t)snprintf(text + size, sizeof text - size, "n%d:1.4|c\n", n);
    for (int i = 0; i < KILLS; i++) {
        int fd;

        BEGIN(r, "log.size=1M", "statsd.self=off");
        assert_int_equal(size_of(r, "statsd-rests"), 0);
        fd = connect_udp(&r->writer);
        send_lines(fd, text);
        end_client(r, fd);
        daemon_fini(&r->writer);
        assert_rc(truncate(file_path(r->data, "live/statsd-rests"), 0), 0);
    }
    for (int n = 0; n < NAMES; n++) {
        char name[16];

        (void)snprintf(name, sizeof name, "n%d", n);
        sum += sum_counted(r, C, name);
    }
    /* 420; 20 are lost at the first kill, and in the mean none after it. */
    assert_in_range(sum, 400 - 60, 400 + 60);
    assert_true(sum > NAMES * (KILLS + 1));
}

static void
say_total(const struct fixture *r, const char *value)
{
    const int fd = client_connect(daemon_port(&r->writer, "graphite"));
    char line[64];
    const int size = snprintf(line, sizeof line, "up.t %s 1\n", value);

    client_send(fd, line, (size_t)size);
    client_close(fd);
}

/* Half of a sample before, too.  A kill finds none of them in the file. */
ON_FIXTURE(totals_go_on_after_a_stop, r)
{
    static const char *const values[] = {"10", "15.5", "31", "4"};

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        BEGIN(r, "log.size=1M", "statsd.self=off", "graphite.total=up.*");
        assert_int_equal(size_of(r, "statsd-totals"), 0);
        say_total(r, values[i]);
        stop_writer(r);
        daemon_fini(&r->writer);
    }
    assert_int_equal(sum_counted(r, C, "t"), 25); /* of 5.5, 15.5 and 4 */
}

/* Names that no log has a slot for are not counted; the rests of others stay. */
ON_FIXTURE(rests_survive_a_stop_with_full_logs, r)
{
    char text[4096];
    size_t size;
    int fd;

    BEGIN(r, "log.size=16K", "log.count=2", "log.max=2", "statsd.self=off",
          "statsd.flush=20ms", "write.drain=20ms");
    size = (size_t)snprintf(text, sizeof text, "slow.q:0.4|c\n");
    for (int n = 0; n < 200; n++)
        size +=
            (size_t)snprintf(text + size, sizeof text - size, "n%d:1|c\n", n);
    fd = connect_udp(&r->writer);
    send_lines(fd, text);
    client_close(fd);
    assert_int_equal(daemon_stop(&r->writer), 0);
    daemon_await_words(&r->writer, "statsd: no log has a free slot; names=");
    assert_int_equal(size_of(r, "statsd-rests"),
                     strlen("statsd\tslow.q\t400000\n"));
}

/* ---- loss --------------------------------------------------------------- */

ON_FIXTURE(drops_of_the_kernel_are_told_to_the_number, r)
{
    enum { SENT = 3000 };
    int fd, status;

    BEGIN(r, "log.size=1M", "statsd.rcvbuf=64K");
    fd = connect_udp(&r->writer);
    daemon_signal(&r->writer, SIGSTOP);
    assert_int_equal(waitpid(r->writer.pid, &status, WUNTRACED), r->writer.pid);
    assert_true(WIFSTOPPED(status));
    for (int i = 0; i < SENT; i++)
        send_lines(fd, "a:1|c\na:1|c");
    daemon_signal(&r->writer, SIGCONT);
    end_client(r, fd);

    assert_true(sum_told(r, "dropped") > 0);
    assert_int_equal(sum_told(r, "dropped") + sum_told(r, "datagrams"), SENT);
    assert_int_equal(sum_counted(r, C, "a"), 2 * sum_told(r, "datagrams"));
}

/* Sends until the port is closed, in a process of its own.  Returns when that
 * has sent a thousand datagrams. */
static pid_t
flood_lines(const struct fixture *r)
{
    char text[1024];
    size_t used = 0;
    int fd, begun[2];
    pid_t pid;

    assert_rc(pipe(begun), 0);
    pid = test_fork();
    if (pid > 0) {
        (void)close(begun[1]);
        assert_int_equal(read(begun[0], text, 1), 1);
        (void)close(begun[0]);
        return pid;
    }
    fd = connect_udp(&r->writer);
    for (int i = 0; i < 20; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "flood.%d:1|c\n", i);
    for (uint64_t n = 0; send(fd, text, used, 0) == (ssize_t)used; n++)
        if (n == 1000 && write(begun[1], "", 1) != 1)
            break;
    _exit(0);
}

ON_FIXTURE(sigterm_under_a_flood_loses_nothing_received, r)
{
    int64_t sum = 0;
    pid_t pid;
    int fd;

    BEGIN(r, "log.size=4M", "write.drain=200ms", "statsd.flush=20ms");
    pid = flood_lines(r);
    /* Other ports are served meanwhile. */
    fd = connect_ack(r);
    for (int i = 0; i < 200; i++) {
        client_increment(fd, "other", "k", 1);
        client_wins(fd, 1);
    }
    end_client(r, fd);
    assert_int_equal(waitpid(pid, NULL, 0), pid);

    assert_int_equal(sum_counted(r, "other", "k"), 200);
    assert_true(sum_told(r, "datagrams") > 200);
    assert_int_equal(sum_told(r, "lines"), 20 * sum_told(r, "datagrams"));
    for (size_t i = 0; i < r->records.count; i++)
        if (strcmp(r->records.at[i].keyspace, C) == 0)
            sum += r->records.at[i].increment;
    assert_int_equal(sum, sum_told(r, "lines"));
}

ON_FIXTURE(sigkill_loses_a_flush_at_most, r)
{
    int fd;

    BEGIN(r, "log.size=1M", "log.rotate_after=50ms", "statsd.flush=20ms");
    fd = connect_udp(&r->writer);
    for (int i = 0; i < 100; i++)
        send_lines(fd, "a:1|c");
    /* A flush has put them into the log, which is handed on by its age. */
    await_logs(r, LOG_MODE_FULL, 1);
    for (int i = 0; i < 100; i++)
        send_lines(fd, "b:1|c");
    daemon_kill(&r->writer);
    client_close(fd);
    read_logs(r);

    assert_int_equal(sum_counted(r, C, "a"), 100);
    assert_in_range(sum_counted(r, C, "b"), 0, 100);
}

/* ---- all logs are full -------------------------------------------------- */

#define NAME_LINE   185
#define PATIENCE_MS ((int)test_patience(LIMIT_MS))

/* Sends lines of different names over TCP, from byte `at` of all such lines on,
 * until the writer has not read for `wait_ms`, or to byte `end`.  Returns where
 * the next byte is. */
static size_t
send_names(int fd, size_t at, size_t end, int wait_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    while (at < end && poll(&p, 1, wait_ms) > 0) {
        char line[NAME_LINE + 1];
        ssize_t n;

        (void)snprintf(line, sizeof line, "%0180zu:1|c\n", at / NAME_LINE);
        n = send(fd, line + at % NAME_LINE, NAME_LINE - at % NAME_LINE,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
        assert_true(n > 0 || errno == EAGAIN);
        at += n > 0 ? (size_t)n : 0;
    }
    return at;
}

ON_FIXTURE(full_logs_push_back_and_nothing_is_lost, r)
{
    size_t most = (size_t)400000 * NAME_LINE;
    struct daemon worker, reader;
    size_t sent;
    int fd;

    BEGIN(r, "log.size=2M", "log.count=2", "log.max=2", "statsd.memory=16M",
          "statsd.flush=20ms", "keyspace.max=100");
    fd = client_connect(daemon_port(&r->writer, "statsd-tcp"));
    sent = send_names(fd, 0, most, 500);
    assert_true(sent < most);
    /* Other ports are served, and no connection is closed. */
    assert_true(daemon_alive(&r->writer));
    daemon_start(&worker, "countd-worker", "-d", r->data);
    most = (sent / NAME_LINE + 1000) * NAME_LINE;
    sent = send_names(fd, sent, most, PATIENCE_MS);
    assert_int_equal(sent, most);
    client_close(fd);
    assert_int_equal(daemon_stop(&r->writer), 0);
    daemon_start(&reader, "countd-read", "-d", r->data, "-o",
                 "read.listen=127.0.0.1:0");
    fd = client_connect(daemon_port(&reader, "read"));
    client_await_merge(fd, C, (int64_t)clock_unix_ms(), LIMIT_MS);
    assert_int_equal(client_total(fd, C), sent / NAME_LINE);
    assert_true(client_total(fd, "countd.statsd") > 0);
    client_close(fd);
    assert_int_equal(daemon_stop(&reader), 0);
    assert_int_equal(daemon_stop(&worker), 0);
    daemon_fini(&reader);
    daemon_fini(&worker);
}

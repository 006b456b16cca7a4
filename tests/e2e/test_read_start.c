/* tests/e2e/test_read_start.c - how countd-read starts, refuses to and ends. */
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/net/net.h"
#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/expect.h"
#include "tests/lib/tmpdir.h"

#define ANY_PORT "-o", "read.listen=127.0.0.1:0"

static struct tmpdir dir;
static char data[600], reader[512];

/* A data directory as a writer leaves it. */
static int
setup(void **state)
{
    struct datadir made;

    (void)state; /* there is one directory */
    tmpdir_make(&dir);
    snprintf(data, sizeof data, "%s/data", dir.path);
    daemon_path("countd-read", reader, sizeof reader);
    assert_rc(datadir_open(&made, data, DATADIR_WRITE), 0);
    datadir_close(&made);
    return 0;
}

static int
teardown(void **state)
{
    (void)state; /* as above */
    tmpdir_remove(&dir);
    return 0;
}

#define CASE(name) TEST_IN(name, void *unused, setup, teardown)

/* Runs it, for as long as it does. */
#define READ(...)                                                              \
    daemon_run(text, sizeof text, "countd-read", __VA_ARGS__, NULL)

static bool
said(const struct daemon *d, const char *words)
{
    (void)daemon_output(d, text, sizeof text); /* NUL-terminated */
    return strstr(text, words) != NULL;
}

/* No rows are an answer. */
static void
expect_answer(int fd)
{
    struct client_rows r;

    client_range(fd, "none", 0, 1, &r);
    assert_int_equal(r.rows, 0);
    client_rows_free(&r);
}

/* ---- the command line -------------------------------------------------- */

CASE(settings_are_checked_without_a_directory)
{
    expect(READ("-t", "-d", "/none"), 0, "settings are good");
    expect(READ("-V"), 0, "countd-read 0");
    expect(READ("-h"), 0, "read.listen");
    expect(READ("--frobnicate"), 100, "no such option");
    expect(READ("word"), 100, "no argument was expected");
    expect(READ("-o", "read.lisen=x"), 100, "read.lisen: no such setting");
    expect(READ("-o", "read.listen=nowhere"), 100,
           "give an address or host name and a port");
    expect(READ("-o", "read.listen=127.0.0.1:48879"), 100,
           "write.listen and read.listen are both");
    expect(READ("-o", "read.max_connections=0"), 100, "out of range");
}

CASE(a_check_of_settings_finds_ports_that_others_can_reach)
{
    static const struct {
        const char *listen, *said, *allow;
    } ports[] = {
        {"write.listen=0.0.0.0:0", "write.listen=", "write.allow"},
        {"write.ack_listen=[::]:0", "write.ack_listen=", "write.allow"},
        {"read.listen=192.0.2.1:48880", "read.listen=", "read.allow"},
        {"read.http=0.0.0.0:0", "read.http=", "read.allow"},
        {"resp.listen=0.0.0.0:0", "resp.listen=", "resp.allow"},
        {"live.address=0.0.0.0", "counter.port=", "live.allow"},
        {"http.listen=0.0.0.0:0", "http.listen=", "http.allow"},
        {"statsd.listen=0.0.0.0:0", "statsd.listen=", "statsd.allow"},
        {"statsd.tcp_listen=0.0.0.0:0", "statsd.tcp_listen=", "statsd.allow"},
        {"graphite.listen=0.0.0.0:0", "graphite.listen=", "graphite.allow"},
    };
    char allow[64];

    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        expect(READ("-t", "-o", ports[i].listen), 100,
               "can be reached from other machines");
        assert_non_null(strstr(text, ports[i].said));
        snprintf(allow, sizeof allow, "%s=10.0.0.0/8", ports[i].allow);
        expect(READ("-t", "-o", ports[i].listen, "-o", allow), 0,
               "settings are good");
    }
    expect(READ("-t", "-o", "http.listen=socket"), 0, "settings are good");
    expect(READ("-t", "-o", "statsd.listen=127.0.0.1:8125", "-o",
                "statsd.tcp_listen=127.0.0.1:8125"),
           0, "settings are good");
}

/* Each fault is reported by -t in the words of a start. */
CASE(a_check_of_settings_reads_the_file_of_tokens)
{
    static const char good[] = "boss admin 0123456789012345\n";
    char option[700];

    snprintf(option, sizeof option, "http.tokens=%s/tokens", dir.path);
    expect(READ("-t", "-o", option), 100, "/tokens: No such file or directory");
    expect(READ("-d", data, ANY_PORT, "-o", option), 100,
           "/tokens: No such file or directory");
    tmpdir_put(&dir, "tokens", "boss\n", 5, 0600);
    expect(READ("-t", "-o", option), 100,
           "/tokens: line 1: give NAME RIGHTS TOKEN");
    tmpdir_put(&dir, "tokens", good, strlen(good), 0600);
    expect(READ("-t", "-o", option), 0, "settings are good");
    if (geteuid() == 0) {
        assert_int_equal(chmod(dir.path, 0755), 0);
        expect(READ("-t", "-o", option, "-u", "65534"), 100,
               "/tokens: Permission denied");
        assert_int_equal(fchownat(dir.fd, "tokens", 65534, 65534, 0), 0);
        expect(READ("-t", "-o", option, "-u", "65534"), 0, "settings are good");
        expect(READ("-t", "-o", option), 0, "settings are good");
        expect(READ("-t", "-o", option, "-u", "root"), 100,
               "/tokens: belongs to uid 65534");
    }
    assert_int_equal(fchmodat(dir.fd, "tokens", 0640, 0), 0);
    expect(READ("-t", "-o", option), 100, "/tokens: has mode 0640");
}

/* ---- refusals ---------------------------------------------------------- */

CASE(an_address_of_another_machine_may_be_ours_later)
{
    struct net_address other, bound;
    int fd;

    /* TEST-NET-1, which is nobody's. */
    assert_rc(net_parse("192.0.2.1:0", &other), 0);
    fd = net_listen(&other, 0, &bound);
    if (fd >= 0) {
        assert_int_equal(close(fd), 0);
        test_skip("here any address may be listened on");
    }
    expect(READ("-d", data, "-o", "read.listen=192.0.2.1:0", "-o",
                "read.allow=192.0.2.0/24"),
           111, "listen read.listen=192.0.2.1:0: ");
}

CASE(folders_that_are_missing_or_none_are_named)
{
    char log[700];

    snprintf(log, sizeof log, "%s/log", data);
    assert_int_equal(rmdir(log), 0);
    expect(READ("-d", data, ANY_PORT), 111,
           "/log does not exist yet; start countd-write");

    assert_int_equal(symlink("/tmp", log), 0);
    expect(READ("-d", data, ANY_PORT), 100, "/log is not a folder");
}

/* ---- waiting for the directory ------------------------------------------ */

/* Until it has said so. */
static void
await_words(const struct daemon *d, const char *words)
{
    const uint64_t until = clock_ms() + 20000 * test_slow();

    while (!said(d, words)) {
        assert_true(daemon_alive(d));
        assert_true(clock_ms() < until);
    }
}

/* Starts it on `path`, where it has to wait. */
static void
start_waiting(struct daemon *d, const char *path)
{
    const char *const argv[] = {"-d", path, ANY_PORT, NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};

    assert_int_equal(daemon_start_how(d, "countd-read", &how), 0);
    await_words(d, "folder keyspace yet): start countd-write or countd-worker");
    assert_false(said(d, "serving"));
}

/* Answers at the port that it has told. */
static void
expect_served(const struct daemon *d)
{
    unsigned short port;
    int fd;

    await_words(d, "serving read=127.0.0.1:");
    assert_int_equal(sscanf(strstr(text, "serving read="),
                            "serving read=127.0.0.1:%hu", &port),
                     1);
    fd = client_connect(port);
    expect_answer(fd);
    client_close(fd);
}

CASE(a_port_in_use_is_reported_at_once_and_may_be_free_later)
{
    char where[NET_ADDRESS_SIZE], setting[NET_ADDRESS_SIZE + 16];
    const char *const argv[] = {"-d", data, "-o", setting, NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    struct net_address any, bound;
    struct daemon d;
    int fd;

    assert_rc(net_parse("127.0.0.1:0", &any), 0);
    fd = net_listen(&any, 0, &bound);
    assert_true(fd >= 0);
    net_format(&bound, where);
    snprintf(setting, sizeof setting, "read.listen=%s", where);

    assert_int_equal(daemon_start_how(&d, "countd-read", &how), 0);
    await_words(&d, "is in use by another process: stop it, or set read.listen "
                    "to a free port; trying for 3 s");
    assert_non_null(strstr(text, where));
    assert_int_equal(close(fd), 0);

    expect_served(&d);
    assert_int_equal(daemon_stop(&d), 0);
    daemon_fini(&d);
}

CASE(a_reader_that_starts_first_waits_for_the_writer)
{
    struct daemon reads, writes;
    char path[700];

    snprintf(path, sizeof path, "%s/later", dir.path);
    start_waiting(&reads, path);

    daemon_start(&writes, "countd-write", "-d", path, "-o",
                 "write.listen=", "-o", "write.ack_listen=127.0.0.1:0", "-o",
                 "counter.enable=false", NULL);

    expect_served(&reads);
    assert_int_equal(daemon_stop(&writes), 0);
    assert_int_equal(daemon_stop(&reads), 0);
    daemon_fini(&writes);
    daemon_fini(&reads);
}

CASE(a_directory_that_is_only_half_made_is_waited_for)
{
    static const char *const folders[] = {"", "/log"};
    char path[700], folder[720];
    struct daemon reads;
    struct datadir made;

    snprintf(path, sizeof path, "%s/half", dir.path);
    for (size_t i = 0; i < 2; i++) {
        snprintf(folder, sizeof folder, "%s%s", path, folders[i]);
        assert_int_equal(mkdir(folder, 0700), 0);
        start_waiting(&reads, path);
        if (i < 1) {
            assert_int_equal(daemon_stop(&reads), 0);
            daemon_fini(&reads);
        }
    }
    assert_rc(datadir_open(&made, path, DATADIR_WRITE), 0);
    datadir_close(&made);

    expect_served(&reads);
    assert_int_equal(daemon_stop(&reads), 0);
    daemon_fini(&reads);
}

CASE(each_signal_ends_the_wait)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    char path[700];

    snprintf(path, sizeof path, "%s/never", dir.path);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct daemon d;

        start_waiting(&d, path);
        daemon_signal(&d, SIGUSR1); /* there is nothing to tell */
        daemon_signal(&d, signals[i]);
        assert_int_equal(daemon_wait(&d), signals[i] == SIGHUP ? 111 : 0);
        daemon_fini(&d);
    }
}

/* ---- descriptors ------------------------------------------------------- */

CASE(too_few_descriptors_are_refused)
{
    expect(daemon_run(text, sizeof text, "/bin/sh", "-c",
                      "ulimit -n 255 && exec \"$0\" \"$@\"", reader, "-d", data,
                      ANY_PORT, NULL),
           111, "255 descriptors are allowed and 256 needed");
}

CASE(few_descriptors_mean_fewer_connections)
{
    enum { MAX = 256 - 64 - 3 * (256 / 4 / 3) };
    static int fds[MAX + 1];
    struct daemon d;
    uint8_t bytes[512];

    daemon_start(&d, "/bin/sh", "-c", "ulimit -n 256 && exec \"$0\" \"$@\"",
                 reader, "-d", data, ANY_PORT, NULL);
    snprintf((char *)bytes, sizeof bytes,
             "connections limited to %d by descriptors=256", MAX);
    assert_true(said(&d, (const char *)bytes));

    for (int i = 0; i < MAX; i++) {
        fds[i] = client_connect(daemon_port(&d, "read"));
        expect_answer(fds[i]);
    }
    /* One more waits until another goes. */
    fds[MAX] = client_connect(daemon_port(&d, "read"));
    client_send(fds[MAX], bytes, client_range_request(bytes, "none", 0, 1));
    assert_rc(client_try_read(fds[MAX], bytes, 1, 0), -EAGAIN);
    client_close(fds[0]);
    client_read(fds[MAX], bytes, 24);
    expect_answer(fds[MAX]);

    for (int i = 1; i <= MAX; i++)
        client_close(fds[i]);
    assert_int_equal(daemon_stop(&d), 0);
    daemon_fini(&d);
}

CASE(fewer_connections_than_that_may_be_asked_for)
{
    struct daemon d;
    int fd;

    daemon_start(&d, "/bin/sh", "-c", "ulimit -n 256 && exec \"$0\" \"$@\"",
                 reader, "-d", data, ANY_PORT, "-o", "read.max_connections=5",
                 NULL);
    assert_false(said(&d, "connections limited"));
    fd = client_connect(daemon_port(&d, "read"));
    expect_answer(fd);
    client_close(fd);
    assert_int_equal(daemon_stop(&d), 0);
    daemon_fini(&d);
}

/* ---- serving and stopping ---------------------------------------------- */

CASE(it_may_serve_no_port)
{
    struct daemon d;

    daemon_start(&d, "countd-read", "-d", data, "-o", "read.listen=", NULL);
    assert_int_equal(daemon_stop(&d), 0);
    assert_false(said(&d, "serving"));
    daemon_fini(&d);
}

CASE(each_signal_to_stop_is_a_clean_stop)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};

    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct daemon d;
        int fd;

        daemon_start(&d, "countd-read", "-d", data, ANY_PORT, NULL);
        fd = client_connect(daemon_port(&d, "read"));
        expect_answer(fd);
        daemon_signal(&d, signals[i]);
        client_expect_end(fd);
        client_close(fd);
        /* 111 lets a supervisor start it again. */
        assert_int_equal(daemon_wait(&d), signals[i] == SIGHUP ? 111 : 0);
        assert_true(said(&d, "serving read=127.0.0.1:"));
        daemon_fini(&d);
    }
}

CASE(what_nohup_has_started_goes_on_after_a_hangup)
{
    struct daemon d;
    int fd;

    assert_true(signal(SIGHUP, SIG_IGN) != SIG_ERR);
    daemon_start(&d, "countd-read", "-d", data, ANY_PORT, NULL);
    assert_true(signal(SIGHUP, SIG_DFL) != SIG_ERR);
    daemon_signal(&d, SIGHUP);
    fd = client_connect(daemon_port(&d, "read"));
    expect_answer(fd);
    client_close(fd);
    assert_int_equal(daemon_stop(&d), 0);
    daemon_fini(&d);
}

CASE(figures_are_told_and_who_is_malformed_or_speaks_http)
{
    const char post[600] = "POST / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const uint8_t wrong[272] = {0};
    struct client_rows r;
    struct daemon d;
    uint8_t byte;
    int fd;

    daemon_start(&d, "countd-read", "-d", data, ANY_PORT, NULL);
    fd = client_connect(daemon_port(&d, "read"));
    client_send(fd, post, sizeof post);
    assert_int_equal(client_read(fd, &byte, 1), 0);
    client_close(fd);
    await_words(&d, "read: a connection from 127.0.0.1:");
    fd = client_connect(daemon_port(&d, "read"));
    client_send(fd, wrong, sizeof wrong);
    client_reply(fd, &r);
    assert_int_equal(r.rows, -EINVAL);
    client_expect_end(fd);
    client_close(fd);
    await_words(&d, "read: malformed input from 127.0.0.1:");
    fd = client_connect(daemon_port(&d, "read"));
    expect_answer(fd);
    daemon_signal(&d, SIGUSR1);
    await_words(&d, "requests=1 listings=0 unreadable=0");
    await_words(&d,
                "connections=3 received=1144 sent=48 malformed=1 browsers=1");
    client_close(fd);
    assert_int_equal(daemon_stop(&d), 0);
    daemon_fini(&d);
}

CASE(several_readers_share_a_directory)
{
    struct daemon d[3];

    for (size_t i = 0; i < 3; i++)
        daemon_start(&d[i], "countd-read", "-d", data, ANY_PORT, NULL);
    for (size_t i = 0; i < 3; i++) {
        const int fd = client_connect(daemon_port(&d[i], "read"));

        expect_answer(fd);
        client_close(fd);
        assert_int_equal(daemon_stop(&d[i]), 0);
        daemon_fini(&d[i]);
    }
}

CASE(it_serves_ipv6)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6,
                             .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct daemon d;

    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof a) < 0) {
        if (fd >= 0)
            assert_int_equal(close(fd), 0);
        test_skip("no IPv6 here");
    }
    assert_int_equal(close(fd), 0);
    daemon_start(&d, "countd-read", "-d", data, "-o", "read.listen=[::1]:0",
                 NULL);
    snprintf(text, sizeof text, "read.listen=[::1]:%u",
             daemon_port(&d, "read"));
    assert_int_equal(
        daemon_run(NULL, 0, "countd", "keyspaces", "-o", text, NULL), 0);
    assert_int_equal(daemon_stop(&d), 0);
    daemon_fini(&d);
}

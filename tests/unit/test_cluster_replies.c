/* tests/unit/test_cluster_replies.c - commands to a server of a few lines that
 * answers what the test says: every error, replies that are cut at any byte,
 * and none. */
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/store/cluster/cluster.h"

/* The server: one connection at a time.  Whatever it is sent is one command. */
static struct server {
    int listener, port;
    pthread_t thread;
    pthread_mutex_t mutex;
    char reply[256]; /* to every command but CLUSTER SLOTS; empty: none */
    size_t size;     /* of it; afterwards the connection is closed when it is
                        cut */
    bool cuts;
    unsigned commands;
} server;

static struct cluster *cluster;

/* Sends a reply; false: the connection is to be closed. */
static bool
answer_command(int fd, const char *text)
{
    char map[128];
    bool cuts = false;
    size_t size;

    if (strstr(text, "SLOTS") != NULL) {
        size = (size_t)snprintf(map, sizeof map,
                                "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n"
                                "$9\r\n127.0.0.1\r\n:%d\r\n",
                                server.port);
        return send(fd, map, size, MSG_NOSIGNAL) == (ssize_t)size;
    }
    (void)pthread_mutex_lock(&server.mutex);
    server.commands++;
    size = server.size;
    cuts = server.cuts;
    memcpy(map, server.reply, size < sizeof map ? size : sizeof map);
    (void)pthread_mutex_unlock(&server.mutex);
    return (size == 0 || send(fd, map, size, MSG_NOSIGNAL) == (ssize_t)size) &&
           !cuts;
}

static void
serve_connection(int fd)
{
    char text[1024];
    ssize_t size;

    while ((size = recv(fd, text, sizeof text - 1, 0)) > 0) {
        text[size] = '\0';
        if (!answer_command(fd, text))
            break;
    }
    (void)close(fd);
}

static void *
run_server(void *ctx)
{
    (void)ctx;
    for (;;) {
        const int fd = accept(server.listener, NULL, NULL);

        if (fd < 0)
            return NULL;
        serve_connection(fd);
    }
}

static void
set_reply(const char *text, size_t size, bool cuts)
{
    (void)pthread_mutex_lock(&server.mutex);
    assert_true(size <= 128);
    memcpy(server.reply, text, size);
    server.size = size;
    server.cuts = cuts;
    server.commands = 0;
    (void)pthread_mutex_unlock(&server.mutex);
}

static int
setup(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;

    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)pthread_mutex_init(&server.mutex, NULL);
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(server.listener, 64), 0);
    assert_int_equal(
        getsockname(server.listener, (struct sockaddr *)&at, &size), 0);
    server.port = ntohs(at.sin_port);
    return -pthread_create(&server.thread, NULL, run_server, NULL);
}

static int
teardown(void **state)
{
    (void)state;
    cluster_close(cluster);
    cluster = NULL;
    (void)shutdown(server.listener, SHUT_RDWR);
    (void)pthread_join(server.thread, NULL);
    (void)close(server.listener);
    return 0;
}

#define CASE(name) TEST_IN(name, void *unused, setup, teardown)

/* Runs one command on new connections, and returns its error. */
static int
run_command(uint64_t timeout_ms)
{
    static const char *const argv[2] = {"GET", "a"};
    static const size_t sizes[2] = {3, 1};
    static char nodes[32];
    const struct cluster_options options = {.nodes = nodes,
                                            .timeout_ms = timeout_ms};
    struct cluster_command m = {
        .node = CLUSTER_NO_NODE, .argc = 2, .argv = argv, .sizes = sizes};

    cluster_close(cluster);
    (void)snprintf(nodes, sizeof nodes, "127.0.0.1:%d", server.port);
    assert_rc(cluster_open(&cluster, &options), 0);
    cluster_run(cluster, &m, 1);
    cluster_free_replies(&m, 1);
    return m.error;
}

CASE(each_error_has_its_meaning)
{
    static const struct {
        const char *reply;
        int error;
    } cases[] = {
        {"+OK\r\n", 0},
        {":12\r\n", 0},
        {"$-1\r\n", 0},
        {"-ERR no\r\n", -EPROTO},
        {"-\r\n", -EPROTO},
        {"-OOM command not allowed\r\n", -ENOSPC},
        {"-TRYAGAIN Multiple keys\r\n", -EAGAIN},
        {"-CLUSTERDOWN The cluster is down\r\n", -EAGAIN},
        {"-LOADING Redis\r\n", -EAGAIN},
        {"-MASTERDOWN Link\r\n", -EAGAIN},
        {"-NOREPLICAS Not enough\r\n", -EAGAIN},
        {"-READONLY You\r\n", -EAGAIN},
        {"-BUSY Redis is busy running a script\r\n", -EAGAIN},
        {"-MISCONF Redis is configured to save RDB snapshots\r\n", -ENOSPC},
        {"-WRONGPASS invalid username-password pair\r\n", -EACCES},
        {"-WRONGTYPE Operation against a key\r\n", -EPROTO},
        {"-NOSCRIPT No matching script\r\n", -EPROTO},
        {"-CROSSSLOT Keys in request\r\n", -EPROTO},
        {"-OOMX is another word\r\n", -EPROTO},
        {"-NOAUTH Authentication\r\n", -EACCES},
        {"-NOPERM this user\r\n", -EACCES},
        {"-MOVED\r\n", -EPROTO},
        {"-MOVED \r\n", -EPROTO},
        {"-MOVED x\r\n", -EPROTO},
        {"-MOVED 1\r\n", -EPROTO},
        {"-MOVED 99999 127.0.0.1:1\r\n", -EPROTO},
        {"-MOVED 1 127.0.0.1:0\r\n", -EPROTO},
        {"-MOVED 1 127.0.0.1:99999\r\n", -EPROTO},
        {"-MOVED 1 127.0.0.1\r\n", -EPROTO},
        {"-ASK\r\n", -EPROTO},
        {"-ASK 1 :\r\n", -EPROTO},
        {"-ASK 16384 127.0.0.1:1\r\n", -EPROTO},
        {"-ASK 1 127.0.0.1:1\r\n", -EHOSTDOWN},
        {"?\r\n", -EIO},
        {"$x\r\n", -EIO},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc;

        set_reply(cases[i].reply, strlen(cases[i].reply), false);
        rc = run_command(2000);
        if (rc != cases[i].error)
            fail_msg("%s: %d, not %d", cases[i].reply, rc, cases[i].error);
    }
}

CASE(redirects_without_an_end_end)
{
    char text[64];

    (void)snprintf(text, sizeof text, "-MOVED 0 127.0.0.1:%d\r\n", server.port);
    set_reply(text, strlen(text), false);
    assert_rc(run_command(2000), -EPROTO);
    assert_true(server.commands > 1 && server.commands < 10);
    set_reply("-ERR Function not found\r\n", 25, false);
    assert_rc(run_command(2000), -EPROTO);
}

CASE(a_reply_that_is_cut_is_a_broken_connection)
{
    static const char reply[] = "*2\r\n$3\r\nabc\r\n*2\r\n:1\r\n$-1\r\n";

    for (size_t size = 1; size < sizeof reply - 1; size++) {
        set_reply(reply, size, true);
        assert_rc(run_command(2000), -EIO);
        assert_int_equal(server.commands, 2);
    }
    set_reply(reply, sizeof reply - 1, true);
    assert_rc(run_command(2000), 0);
}

CASE(silence_is_a_timeout)
{
    set_reply("", 0, false);
    assert_rc(run_command(50), -ETIMEDOUT);
    set_reply("*2\r\n$3\r\n", 8, false);
    assert_rc(run_command(50), -ETIMEDOUT);
}

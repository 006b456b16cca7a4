/* tests/e2e/test_statsd_clients.c - StatsD clients that people have, against
 * countd-write: python3-statsd (Debian), hot-shots and node-statsd (npm); and
 * npm's statsd, which repeats to it and flushes to it.
 *
 * npm packages are looked for in $NODE_PATH, or where .ci/setup check puts
 * them; a client that is not installed is skipped. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/e2e/statsd_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Runs a program that sends; its exit status. */
static int
run_client(const struct fixture *r, const char *program, const char *option,
           const char *script)
{
    char port[16];
    int status;
    pid_t pid;

    (void)snprintf(port, sizeof port, "%u",
                   (unsigned)daemon_port(&r->writer, "statsd"));
    pid = test_fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(111);
        (void)execlp(program, program, option, script, port, NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool
is_installed(const char *program, const char *option, const char *script)
{
    char command[256];

    (void)snprintf(command, sizeof command, "%s %s \"%s\" >/dev/null 2>&1",
                   program, option, script);
    return system(command) == 0;
}

/* What each client is to send: the same calls of its interface. */
static void
count_with(struct fixture *r, const char *name, const char *program,
           const char *option, const char *probe, const char *script)
{
    if (!is_installed(program, option, probe)) {
        test_say_skip(name, "the client is not installed");
        skip();
    }
    BEGIN(r, "log.size=1M");
    assert_int_equal(run_client(r, program, option, script), 0);
    stop_writer(r);
    assert_int_equal(sum_counted(r, C, "p.hits"), 6);
    assert_int_equal(sum_counted(r, C, "p.down"), -2);
    assert_int_equal(sum_counted(r, C ".timer.count", "p.time"), 1);
    assert_int_equal(sum_counted(r, C ".timer.sum", "p.time"), 12);
    assert_int_equal(sum_told(r, "ignored.gauge"), 1);
    assert_int_equal(sum_told(r, "ignored.set"), 1);
    assert_int_equal(sum_told(r, "bad"), 0);
}

ON_FIXTURE(peer_python3_statsd, r)
{
    count_with(r, __func__, "/usr/bin/python3", "-c", "import statsd",
               "import statsd, sys\n"
               "c = statsd.StatsClient('127.0.0.1', int(sys.argv[1]), "
               "prefix='p')\n"
               "c.incr('hits')\n"
               "with c.pipeline() as p:\n"
               "    p.incr('hits', 5)\n"
               "    p.decr('down', 2)\n"
               "    p.timing('time', 12)\n"
               "    p.gauge('g', 3)\n"
               "c.set('s', 'bob')\n");
}

ON_FIXTURE(peer_hot_shots, r)
{
    count_with(r, __func__, "node", "-e", "require('hot-shots')",
               "const S = require('hot-shots');"
               "const c = new S({host: '127.0.0.1', prefix: 'p.',"
               " port: +process.argv[1], maxBufferSize: 1000});"
               "c.increment('hits'); c.increment('hits', 5);"
               "c.decrement('down', 2); c.timing('time', 12);"
               "c.gauge('g', 3); c.unique('s', 'bob');"
               "c.close(() => process.exit(0));");
}

ON_FIXTURE(peer_node_statsd, r)
{
    count_with(r, __func__, "node", "-e", "require('node-statsd')",
               "const S = require('node-statsd');"
               "const c = new S({host: '127.0.0.1', prefix: 'p.',"
               " port: +process.argv[1]});"
               "let left = 6; const end = () => { if (--left == 0)"
               " c.close(); };"
               "c.increment('hits', 1, end); c.increment('hits', 5, end);"
               "c.decrement('down', 2, end); c.timing('time', 12, end);"
               "c.gauge('g', 3, end); c.unique('s', 'bob', end);");
}

/* ---- npm's statsd ------------------------------------------------------- */

static uint16_t
free_port(int type)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof a;
    const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    close(fd);
    return ntohs(a.sin_port);
}

/* Starts statsd, which repeats what it gets to the writer's port of StatsD, and
 * flushes to that of Graphite.  Returns once it serves. */
static pid_t
start_statsd(const struct fixture *r, const struct tmpdir *dir, uint16_t port)
{
    const uint16_t console = free_port(SOCK_STREAM);
    const uint64_t until_ms = test_deadline(LIMIT_MS);
    char text[1024], path[600];
    pid_t pid;
    int fd;

    (void)snprintf(text, sizeof text,
                   "{port: %u, mgmt_port: %u, address: '127.0.0.1',"
                   " mgmt_address: '127.0.0.1', flushInterval: 100,"
                   " backends: ['./backends/graphite', './backends/repeater'],"
                   " graphiteHost: '127.0.0.1', graphitePort: %u,"
                   " repeater: [{host: '127.0.0.1', port: %u}]}\n",
                   port, console, daemon_port(&r->writer, "graphite"),
                   daemon_port(&r->writer, "statsd"));
    tmpdir_put(dir, "config.js", text, strlen(text), 0600);
    (void)snprintf(path, sizeof path, "%s/config.js", dir->path);
    pid = test_fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
            !freopen("/dev/null", "w", stdout))
            _exit(111);
        (void)execlp("node", "node", "-e",
                     "process.argv.splice(1, 0, 'stats.js');"
                     "require('statsd/stats.js');",
                     path, NULL);
        _exit(127);
    }
    while ((fd = client_try_connect(console)) < 0) {
        assert_true(clock_ms() < until_ms);
        (void)poll(NULL, 0, 10);
    }
    client_close(fd);
    return pid;
}

ON_FIXTURE(peer_statsd_repeats_and_flushes_to_graphite, r)
{
    const uint16_t port = free_port(SOCK_DGRAM);
    const uint64_t until_ms = test_deadline(LIMIT_MS);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct tmpdir dir;
    uint64_t lines;
    pid_t pid;
    int fd;

    if (!is_installed("node", "-e", "require.resolve('statsd/stats.js')"))
        test_skip("npm's statsd is not installed");
    BEGIN(r, "log.size=1M");
    tmpdir_make(&dir);
    pid = start_statsd(r, &dir, port);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    send_lines(fd, "hits:3|c\nhits:4|c");
    /* A flush has them when two have come: each has more than 10 lines. */
    lines = ask_figure(r, "graphite_lines=");
    while (ask_figure(r, "graphite_lines=") < lines + 200) {
        assert_true(clock_ms() < until_ms);
        (void)poll(NULL, 0, 10);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    client_close(fd);
    tmpdir_remove(&dir);
    stop_writer(r);

    assert_int_equal(sum_told(r, "lines"), 2);
    assert_int_equal(sum_counted(r, C, "hits"), 7 + 7);
    assert_int_equal(sum_counted(r, "countd.graphite", "bad"), 0);
}

int
main(int argc, char **argv)
{
    if (setenv("NODE_PATH", "build/npm/node_modules", 0) < 0)
        return 1;
    return test_main(argc, argv);
}

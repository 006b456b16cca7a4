/* tests/e2e/test_statsd_clients.c - StatsD clients that people have, against
 * countd-write: python3-statsd (Debian), hot-shots and node-statsd (npm).
 *
 * npm packages are looked for in $NODE_PATH, or where .ci/setup check puts
 * them; a client that is not installed is skipped. */
#include "tests/e2e/statsd_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* Runs a program that sends; its exit status. */
static int
run_client(const struct rig *r, const char *program, const char *option,
           const char *script)
{
    char port[16];
    int status;
    pid_t pid;

    (void)snprintf(port, sizeof port, "%u",
                   (unsigned)daemon_port(&r->writer, "statsd")); /* fits */
    pid = fork();
    assert_true(pid >= 0);
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
                   program, option, script); /* fits */
    return system(command) == 0;
}

static void
check_counts(struct rig *r)
{
    stop(r);
    assert_int_equal(counted(r, C, "p.hits"), 6);
    assert_int_equal(counted(r, C, "p.down"), -2);
    assert_int_equal(counted(r, C ".timer.count", "p.time"), 1);
    assert_int_equal(counted(r, C ".timer.sum", "p.time"), 12);
    assert_int_equal(told(r, "ignored.gauge"), 1);
    assert_int_equal(told(r, "ignored.set"), 1);
    assert_int_equal(told(r, "bad"), 0);
}

static void
python3_statsd(void **state)
{
    struct rig *r = *state;

    if (!is_installed("/usr/bin/python3", "-c", "import statsd"))
        test_skip("python3-statsd is not installed");
    BEGIN(r, "log.size=1M");
    assert_int_equal(
        run_client(r, "/usr/bin/python3", "-c",
                   "import statsd, sys\n"
                   "c = statsd.StatsClient('127.0.0.1', int(sys.argv[1]), "
                   "prefix='p')\n"
                   "c.incr('hits')\n"
                   "with c.pipeline() as p:\n"
                   "    p.incr('hits', 5)\n"
                   "    p.decr('down', 2)\n"
                   "    p.timing('time', 12)\n"
                   "    p.gauge('g', 3)\n"
                   "c.set('s', 'bob')\n"),
        0);
    check_counts(r);
}

/* What both clients of npm know; `close` ends the program. */
#define NODE_CALLS                                                             \
    "c.increment('hits'); c.increment('hits', 5); c.decrement('down', 2);"     \
    "c.timing('time', 12); c.gauge('g', 3); c.unique('s', 'bob');"

static void
hot_shots(void **state)
{
    struct rig *r = *state;

    if (!is_installed("node", "-e", "require('hot-shots')"))
        test_skip("npm's hot-shots is not installed");
    BEGIN(r, "log.size=1M");
    assert_int_equal(
        run_client(r, "node", "-e",
                   "const S = require('hot-shots');"
                   "const c = new S({host: '127.0.0.1', prefix: 'p.',"
                   " port: +process.argv[1], maxBufferSize: 1000});" NODE_CALLS
                   "c.close(() => process.exit(0));"),
        0);
    check_counts(r);
}

static void
node_statsd(void **state)
{
    struct rig *r = *state;

    if (!is_installed("node", "-e", "require('node-statsd')"))
        test_skip("npm's node-statsd is not installed");
    BEGIN(r, "log.size=1M");
    assert_int_equal(
        run_client(r, "node", "-e",
                   "const S = require('node-statsd');"
                   "const c = new S({host: '127.0.0.1', prefix: 'p.',"
                   " port: +process.argv[1]});"
                   "let left = 6; const end = () => { if (--left == 0)"
                   " c.close(); };"
                   "c.increment('hits', 1, end); c.increment('hits', 5, end);"
                   "c.decrement('down', 2, end); c.timing('time', 12, end);"
                   "c.gauge('g', 3, end); c.unique('s', 'bob', end);"),
        0);
    check_counts(r);
}

static const struct CMUnitTest tests[] = {
    ON_RIG(python3_statsd),
    ON_RIG(hot_shots),
    ON_RIG(node_statsd),
};

int
main(int argc, char **argv)
{
    if (setenv("NODE_PATH", "build/npm/node_modules", 0) < 0)
        return 1;
    return test_main(__FILE__, tests, sizeof tests / sizeof tests[0], argc,
                     argv);
}

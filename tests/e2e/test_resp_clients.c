/* tests/e2e/test_resp_clients.c - the client libraries of Redis, as they are
 * installed, count and read at countd-read's RESP port.
 *
 * Each script increments, waits for the merge and reads; it prints "good" at
 * its end.  Those of .ci/setup check run where TEST_PEERS is set. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/fleet.h"

#define TEXT_SIZE 8192

struct fixture {
    struct fleet fleet;
    char port[8];
};

static void
set_up(struct fixture *x)
{
    fleet_init(&x->fleet);
    fleet_option(&x->fleet, "resp.listen=127.0.0.1:0");
    fleet_start(&x->fleet, FLEET_WRITE);
    fleet_start(&x->fleet, FLEET_WORKER);
    fleet_start(&x->fleet, FLEET_READ);
    (void)snprintf(x->port, sizeof x->port, "%u",
                   daemon_port(fleet_daemon(&x->fleet, FLEET_READ), "resp"));
}

static void
tear_down(struct fixture *x)
{
    fleet_fini(&x->fleet);
}

#define CASE(name, x) TEST_WITH(name, struct fixture, x, set_up, tear_down)

/* Whether `program`, an absolute path, ends with 0 for `probe`. */
static bool
is_installed(const char *program, const char *option, const char *probe)
{
    char text[TEXT_SIZE];

    return access(program, X_OK) == 0 &&
           daemon_run(text, sizeof text, program, option, probe) == 0;
}

/* Runs a script that gets the port as its last argument. */
static void
expect_good(struct fixture *x, const char *program, const char *option,
            const char *script)
{
    char text[TEXT_SIZE];
    const int status =
        daemon_run(text, sizeof text, program, option, script, x->port);

    if (status != 0 || !strstr(text, "good"))
        fail_msg("%s: status %d:\n%s", program, status, text);
}

CASE(redis_cli_counts_and_reads, x)
{
    static const struct {
        const char *words[6];
        const char *answer;
    } cases[] = {
        {{"INCR", "k"}, "1\n"},
        {{"ZINCRBY", "b", "2", "m"}, "\"2\"\n"},
        {{"-3", "ZINCRBY", "b", "1", "m"}, "(double) 3\n"},
        {{"ZSCORE", "b", "m"}, "\"3\"\n"},
    };
    char text[TEXT_SIZE];

    if (access("/usr/bin/redis-cli", X_OK) < 0)
        test_skip("redis-cli is not installed");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const *w = cases[i].words;

        assert_int_equal(daemon_run(text, sizeof text, "/usr/bin/redis-cli",
                                    "--no-raw", "-p", x->port, w[0], w[1], w[2],
                                    w[3], w[4], w[5]),
                         0);
        if (!strstr(text, cases[i].answer))
            fail_msg("%s %s: %s", w[0], w[1], text);
    }
}

CASE(redis_benchmark_runs, x)
{
    char text[TEXT_SIZE * 16];

    if (access("/usr/bin/redis-benchmark", X_OK) < 0)
        test_skip("redis-benchmark is not installed");
    assert_int_equal(daemon_run(text, sizeof text, "/usr/bin/redis-benchmark",
                                "-p", x->port, "-n", "5000", "-t", "incr,ping",
                                "--csv"),
                     0);
    assert_has(text, "\"INCR\"");
    assert_int_equal(daemon_run(text, sizeof text, "/usr/bin/redis-benchmark",
                                "-p", x->port, "-n", "4800", "-P", "16", "-q",
                                "ZINCRBY", "b", "1", "m"),
                     0);
    assert_lacks(text, "rror");
    assert_int_equal(daemon_run(text, sizeof text, "/usr/bin/redis-cli", "-p",
                                x->port, "ZSCORE", "b", "m"),
                     0);
    assert_string_equal(text, "4800\n");
}

CASE(peer_redis_py_counts_and_reads, x)
{
    if (!is_installed("/usr/bin/python3", "-c", "import redis"))
        test_skip("python3-redis is not installed");
    expect_good(
        x, "/usr/bin/python3", "-c",
        "import redis, sys\n"
        "r = redis.Redis(port=int(sys.argv[1]))\n"
        "p = r.pipeline(); p.incr('k'); p.zincrby('b', 2.0, 'm')\n"
        "assert p.execute() == [1, 2.0]\n"
        "assert [r.incr('k') for i in range(1000)] == list(range(2, 1002))\n"
        "assert r.hincrby('h', 'f', 3) == 3 and r.get('k') == b'1001'\n"
        "assert r.wait(1, 60000) == 1\n"
        "assert r.zrevrange('b', 0, -1, withscores=True) == [(b'm', 2.0)]\n"
        "assert r.hgetall('h') == {b'f': b'3'}\n"
        "assert list(r.scan_iter()) == [b'b', b'h'] and r.dbsize() == 3\n"
        "assert r.info()['redis_version'] == '7.0.0'\n"
        "try: r.set('x', 1); sys.exit(1)\n"
        "except redis.ResponseError as e: assert 'SET' in str(e)\n"
        "print('good')\n");
}

CASE(peer_php_redis_counts_and_reads, x)
{
    if (!is_installed("/usr/bin/php", "-r", "exit(!class_exists('Redis'));"))
        test_skip("php-redis is not installed");
    expect_good(x, "/usr/bin/php", "-r",
                "$r = new Redis(); $r->connect('127.0.0.1', (int)$argv[1]);"
                "$r->incr('k') === 1 or die('incr');"
                "$r->zIncrBy('b', 2, 'm') == 2 or die('zincrby');"
                "$r->rawCommand('WAIT', 1, 60000) === 1 or die('wait');"
                "$r->zRevRange('b', 0, -1, true) == ['m' => 2] or die('range');"
                "$r->multi(); $r->incr('k'); $r->hIncrBy('h', 'f', 2);"
                "$r->exec() == [2, 2] or die('exec'); echo 'good';");
}

CASE(peer_ruby_redis_counts_and_reads, x)
{
    if (!is_installed("/usr/bin/ruby", "-e", "require 'redis'"))
        test_skip("ruby-redis is not installed");
    expect_good(x, "/usr/bin/ruby", "-e",
                "require 'redis'\n"
                "r = Redis.new(port: ARGV[0].to_i)\n"
                "raise 'incr' unless r.incr('k') == 1\n"
                "raise 'zincrby' unless r.zincrby('b', 2, 'm') == 2.0\n"
                "raise 'wait' unless r.call(['WAIT', '1', '60000']) == 1\n"
                "raise 'range' unless r.zrevrange('b', 0, -1, "
                "with_scores: true) == [['m', 2.0]]\n"
                "m = r.multi { |t| t.incr('k'); t.hincrby('h', 'f', 3) }\n"
                "raise 'multi' unless m == [2, 3]\n"
                "puts 'good'\n");
}

/* Modules of build/npm, in the folder of the sources. */
static bool
has_node_module(const char *name)
{
    static const char modules[] = "/build/npm/node_modules";
    char script[64], folder[4096];

    if (!getcwd(folder, sizeof folder - sizeof modules))
        return false;
    memcpy(folder + strlen(folder), modules, sizeof modules);
    if (setenv("NODE_PATH", folder, 1) < 0)
        return false;
    (void)snprintf(script, sizeof script, "require('%s')", name);
    return is_installed("/usr/bin/node", "-e", script);
}

CASE(peer_ioredis_counts_and_reads, x)
{
    if (!has_node_module("ioredis"))
        test_skip("the module ioredis of node is not installed");
    expect_good(
        x, "/usr/bin/node", "-e",
        "const assert = require('assert');\n"
        "const Redis = require('ioredis');\n"
        "(async () => {\n"
        "  const r = new Redis({port: Number(process.argv[1])});\n"
        "  assert.equal(await r.incr('k'), 1);\n"
        "  assert.equal(await r.zincrby('b', 2, 'm'), '2');\n"
        "  const m = await r.multi().incr('k').hincrby('h', 'f', 3).exec();\n"
        "  assert.deepEqual(m, [[null, 2], [null, 3]]);\n"
        "  assert.equal(await r.wait(1, 60000), 1);\n"
        "  assert.deepEqual(await r.zrevrange('b', 0, -1), ['m']);\n"
        "  await assert.rejects(r.set('x', 1), /set/i);\n"
        "  console.log('good'); await r.quit();\n"
        "})().catch(e => { console.log(e); process.exit(1); });\n");
}

static void
run_node_redis(struct fixture *x, const char *options)
{
    char script[2048];

    if (!has_node_module("redis"))
        test_skip("the module redis of node is not installed");
    (void)snprintf(
        script, sizeof script,
        "const assert = require('assert');\n"
        "const {createClient} = require('redis');\n"
        "(async () => {\n"
        "  const r = createClient({socket: {port: Number(process.argv[1])}%s});"
        "\n"
        "  await r.connect();\n"
        "  assert.equal(await r.incr('k'), 1);\n"
        "  assert.equal(await r.zIncrBy('b', 2, 'm'), 2);\n"
        "  assert.equal(await r.zScore('b', 'n'), null);\n"
        "  const m = await r.multi().incr('k').hIncrBy('h', 'f', 3).exec();\n"
        "  assert.deepEqual(m, [2, 3]);\n"
        "  assert.equal(await r.wait(1, 60000), 1);\n"
        "  assert.deepEqual(await r.zRangeWithScores('b', 0, -1),\n"
        "                   [{value: 'm', score: 2}]);\n"
        "  assert.equal((await r.hGetAll('h')).f, '3');\n"
        "  await assert.rejects(r.set('x', '1'), /set/i);\n"
        "  console.log('good'); await r.quit();\n"
        "})().catch(e => { console.log(e); process.exit(1); });\n",
        options);
    expect_good(x, "/usr/bin/node", "-e", script);
}

CASE(peer_node_redis_counts_and_reads, x)
{
    run_node_redis(x, ", RESP: 2");
}

CASE(peer_node_redis_counts_and_reads_with_resp3, x)
{
    run_node_redis(x, ", RESP: 3");
}

/* A library of leaderboards that was written for Redis.  Its own tests need
 * what countd does not have: SELECT, FLUSHDB, setting and removing, and reads
 * that see a write at once. */
CASE(peer_a_library_of_leaderboards_counts_and_reads, x)
{
    if (!has_node_module("leaderboard"))
        test_skip("the module leaderboard of node is not installed");
    expect_good(
        x, "/usr/bin/node", "-e",
        "const assert = require('assert');\n"
        "const Leaderboard = require('leaderboard');\n"
        "const at = {host: '127.0.0.1', port: Number(process.argv[1])};\n"
        "const b = new Leaderboard('b', {pageSize: 2}, at);\n"
        "const r = new Leaderboard('b', {reverse: true}, at);\n"
        "const call = (o, name, ...args) => new Promise((done, failed) =>\n"
        "  o[name](...args, (e, v) => e ? failed(e) : done(v)));\n"
        "(async () => {\n"
        "  await call(b, 'incr', 'ann', 30);\n"
        "  await call(b, 'incr', 'bob', 20);\n"
        "  await call(b, 'incr', 'cid', 50);\n"
        "  await call(b, 'incr', 'cid', -40);\n"
        "  assert.equal(await call(b, 'score', 'cid'), 10);\n"
        "  assert.equal(await call(b.redis, 'send_command', 'wait',\n"
        "                          [1, 60000]), 1);\n"
        "  assert.equal(await call(b, 'rank', 'bob'), 1);\n"
        "  assert.equal(await call(b, 'rank', 'dan'), -1);\n"
        "  assert.equal(await call(r, 'rank', 'ann'), 2);\n"
        "  assert.deepEqual(await call(b, 'list', 0),\n"
        "    [{member: 'ann', score: '30'}, {member: 'bob', score: '20'}]);\n"
        "  assert.deepEqual(await call(b, 'list', 1),\n"
        "                   [{member: 'cid', score: '10'}]);\n"
        "  assert.deepEqual(await call(b, 'at', 0),\n"
        "                   {member: 'ann', score: 30});\n"
        "  assert.equal(await call(b, 'at', 3), null);\n"
        "  assert.equal(await call(b, 'total'), 3);\n"
        "  await assert.rejects(call(b, 'add', 'eve', 1), /ZADD/);\n"
        "  await assert.rejects(call(b, 'rm', 'ann'), /zrem/i);\n"
        "  console.log('good'); process.exit(0);\n"
        "})().catch(e => { console.log(e); process.exit(1); });\n");
}

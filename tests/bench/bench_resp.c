/* tests/bench/bench_resp.c - countd's RESP port beside redis-server, which
 * appends to a file and syncs it always, or each second.
 *
 *     bench_resp [--quick]
 *
 * A sorted set of 100,000 members at each server, then rounds in turn, 50
 * connections each:
 *
 *     ZINCRBY of random members, 1 and 64 commands ahead on each
 *     ZREVRANGE 0 9 and ZSCORE of random members, 16 ahead
 *
 * Where redis-server is not installed, countd alone. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/bench/load.h"
#include "tests/bench/redis.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"

#define CONNS   50
#define MEMBERS 100000

enum { COUNTD, ALWAYS, EVERYSEC, SERVERS };

static const char *const names[SERVERS] = {"countd", "redis, always",
                                           "redis, everysec"};

enum command { ZINCRBY, ZREVRANGE, ZSCORE };

static const struct job {
    const char *row;
    enum command command;
    unsigned ahead;
    unsigned lines; /* of an answer */
} jobs[] = {
    {"ZINCRBY, 1 ahead", ZINCRBY, 1, 2},
    {"ZINCRBY, 64 ahead", ZINCRBY, 64, 2},
    {"ZREVRANGE 0 9, 16 ahead", ZREVRANGE, 16, 21},
    {"ZSCORE, 16 ahead", ZSCORE, 16, 2},
};

#define JOBS (sizeof jobs / sizeof jobs[0])

/* Members in no order; to fill a server, each once. */
static size_t
put_command(const struct load *l, unsigned conn, uint64_t sent, uint8_t *to)
{
    static uint64_t number;
    const struct job *job = l->ctx;
    const uint64_t step = l->count > 0 ? 1 : 61803;
    char *at = (char *)to, member[24];
    int size;

    (void)conn; /* all are alike */
    (void)sent;
    number = (number + step) % MEMBERS;
    size = snprintf(member, sizeof member, "member:%06llu",
                    (unsigned long long)number);
    switch (job->command) {
    case ZINCRBY:
        return (size_t)sprintf(
            at,
            "*4\r\n$7\r\nZINCRBY\r\n$5\r\nboard\r\n$1\r\n1\r\n$%d\r\n%s\r\n",
            size, member);
    case ZREVRANGE:
        return (size_t)sprintf(
            at, "*4\r\n$9\r\nZREVRANGE\r\n$5\r\nboard\r\n$1\r\n0\r\n$1\r\n9"
                "\r\n");
    default:
        return (size_t)sprintf(
            at, "*3\r\n$6\r\nZSCORE\r\n$5\r\nboard\r\n$%d\r\n%s\r\n", size,
            member);
    }
}

/* All answers of a command have as many lines. */
static size_t
take_answers(const struct load *l, const uint8_t *in, size_t have,
             uint64_t *answers)
{
    const struct job *job = l->ctx;
    const uint8_t *at = in, *whole = in;
    unsigned lines = 0;

    if (in[0] == '-')
        fail_msg("answered: %.*s", (int)have, (const char *)in);
    while ((at = memchr(at, '\n', have - (size_t)(at - in)))) {
        at++;
        if (++lines % job->lines == 0) {
            whole = at;
            (*answers)++;
        }
    }
    return (size_t)(whole - in);
}

/* Commands a second: `count` of them, or for a time. */
static double
run_job(const struct job *job, uint16_t port, uint64_t count, uint64_t ms)
{
    static struct times times;
    const struct load load = {.conns = CONNS,
                              .depth = job->ahead,
                              .whole = true,
                              .count = count,
                              .ms = ms,
                              .put = put_command,
                              .request_max = 96,
                              .take = take_answers,
                              .ctx = job};

    return load_run(&load, port, &times);
}

int
main(int argc, char **argv)
{
    static const struct table table = {names, SERVERS, "k/s", 1e-3};
    static struct figures f[JOBS][SERVERS];
    const bool is_quick = bench_begin(argc, argv);
    uint16_t ports[SERVERS];
    struct redis redis[SERVERS];
    struct fleet fleet;
    char answer[64];
    int fd;

    fleet_init(&fleet);
    fleet_start_with(&fleet, FLEET_WRITE, "resp.listen=127.0.0.1:0",
                     "log.size=32M");
    fleet_start(&fleet, FLEET_WORKER);
    fleet_start(&fleet, FLEET_READ);
    await_logs(fleet.path, 4);
    ports[COUNTD] = daemon_port(fleet_daemon(&fleet, FLEET_READ), "resp");
    for (int s = ALWAYS; s < SERVERS; s++) {
        (void)redis_open(&redis[s], fleet.path,
                         s == ALWAYS ? "always" : "everysec");
        ports[s] = redis[s].port;
    }
    for (int s = 0; s < SERVERS; s++)
        if (ports[s] != 0)
            (void)run_job(&jobs[1], ports[s], MEMBERS, 0);
    fd = client_connect(ports[COUNTD]);
    client_send(fd, "WAIT 1 60000\r\n", 14);
    assert_true(client_try_read(fd, answer, sizeof answer, 60000) > 0);
    client_close(fd);
    for (size_t round = 0; round < (is_quick ? 1 : 5); round++)
        for (size_t j = 0; j < JOBS; j++)
            for (int s = 0; s < SERVERS; s++)
                if (ports[s] != 0)
                    figures_add(
                        &f[j][s],
                        run_job(&jobs[j], ports[s], 0, is_quick ? 300 : 1000),
                        NULL);
    for (size_t j = 0; j < JOBS; j++)
        figures_report(jobs[j].row, &table, f[j]);
    for (int s = ALWAYS; s < SERVERS; s++)
        redis_close(&redis[s]);
    fleet_fini(&fleet);
    return 0;
}

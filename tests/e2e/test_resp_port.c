/* tests/e2e/test_resp_port.c - Redis clients count and read: countd-read's RESP
 * port, with the daemons; resp_port.txt has the answers of the commands.
 *
 *     talk_to()     commands, and their answers as text
 *     struct load   increments on a connection, counted */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"

#define ANSWER_MAX 8192
#define MERGED_MS  20000

struct fixture {
    struct fleet fleet;
    int fd;
};

static uint16_t
resp_port(struct fixture *x)
{
    return daemon_port(fleet_daemon(&x->fleet, FLEET_READ), "resp");
}

static int
setup_with(void **state, const char *option)
{
    static struct fixture x;

    fleet_init(&x.fleet);
    fleet_option(&x.fleet, "resp.listen=127.0.0.1:0");
    fleet_option(&x.fleet, option);
    fleet_start(&x.fleet, FLEET_WRITE);
    fleet_start(&x.fleet, FLEET_WORKER);
    fleet_start(&x.fleet, FLEET_READ);
    x.fd = client_connect(resp_port(&x));
    *state = &x;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *x = *state;

    client_close(x->fd);
    fleet_fini(&x->fleet);
    return 0;
}

/* A test with a setting. */
#define CASE_WITH(name, option, x)                                             \
    static int name##_setup(void **state)                                      \
    {                                                                          \
        return setup_with(state, option);                                      \
    }                                                                          \
    TEST_IN(name, struct fixture *x, name##_setup, teardown)

/* A merge may be slow beside other tests. */
#define CASE(name, x) CASE_WITH(name, "resp.own_wait=1m", x)

/* Reads one answer that is a line. */
static void
read_line(int fd, char *line, size_t size)
{
    size_t at = 0;

    do {
        assert_true(at + 1 < size);
        assert_int_equal(client_read(fd, line + at, 1), 1);
    } while (line[at++] != '\n');
    line[at] = '\0';
}

/* Reads an answer as text: [an array], bulks as they are, nil, and what is a line
 * with its type: +OK :1 -ERR ... */
static char *
read_answer(int fd, char *at)
{
    char line[512];
    long count;

    read_line(fd, line, sizeof line);
    line[strcspn(line, "\r")] = '\0';
    count = strtol(line + 1, NULL, 10);
    if (line[0] == '$' && count >= 0) {
        assert_int_equal(client_read(fd, at, (size_t)count + 2), count + 2);
        return at + count;
    }
    if (line[0] == '$')
        return stpcpy(at, "nil");
    if (line[0] != '*' || count < 0)
        return stpcpy(at, line);
    at = stpcpy(at, "[");
    for (long i = 0; i < count; i++)
        at = read_answer(fd, i > 0 ? stpcpy(at, " ") : at);
    return stpcpy(at, "]");
}

/* The next `count` answers, to what was sent before. */
static void
hear_answers(int fd, unsigned count, const char *sent, const char *want)
{
    char got[ANSWER_MAX], *at = got;

    *at = '\0';
    for (unsigned i = 0; i < count; i++)
        at = read_answer(fd, i > 0 ? stpcpy(at, " ") : at);
    *at = '\0';
    if (strcmp(got, want) != 0)
        fail_msg("sent:\n%s\nanswered:\n%s\nexpected:\n%s", sent, got, want);
}

/* Sends commands, parted by "; ", and hears their answers. */
static void
talk_to(int fd, const char *commands, const char *answers)
{
    const char *at = commands;
    unsigned count = 0;

    for (size_t size; *at != '\0'; at += size + strspn(at + size, "; ")) {
        size = strcspn(at, ";");
        client_send(fd, at, size);
        client_send(fd, "\r\n", 2);
        count++;
    }
    hear_answers(fd, count, commands, answers);
}

static void
await_merge(int fd)
{
    char command[64];

    (void)snprintf(command, sizeof command, "WAIT 1 %" PRIu64,
                   test_patience(MERGED_MS));
    talk_to(fd, command, ":1");
}

/* ---- commands ------------------------------------------------------------ */

CASE_WITH(options_may_be_longer_than_keys, "message.key_size=8", x)
{
    talk_to(x->fd, "ZRANK b x WITHSCORE; ZRANK b 123456789",
            "*-1 -ERR a name is longer than message.keyspace_size or "
            "message.key_size");
}

CASE(a_transaction_of_thousands_is_answered_whole, x)
{
    enum { COUNT = 10000 };
    char line[64], want[32];

    talk_to(x->fd, "MULTI", "+OK");
    for (int i = 0; i < COUNT; i++)
        client_send(x->fd, "INCR k\r\n", 8);
    client_send(x->fd, "EXEC\r\n", 6);
    for (int i = 0; i < COUNT; i++)
        hear_answers(x->fd, 1, "INCR k", "+QUEUED");
    read_line(x->fd, line, sizeof line);
    assert_string_equal(line, "*10000\r\n");
    for (int i = 1; i <= COUNT; i++) {
        (void)snprintf(want, sizeof want, ":%d", i);
        hear_answers(x->fd, 1, "EXEC", want);
    }
    talk_to(x->fd, "MULTI", "+OK");
    for (int i = 0; i < COUNT; i++)
        client_send(x->fd, "GET k\r\n", 7);
    for (int i = 0; i < COUNT; i++)
        hear_answers(x->fd, 1, "GET k", "+QUEUED");
    talk_to(
        x->fd, "GET k; EXEC",
        "-ERR transaction too long: more than 10000 commands or 1048576 "
        "bytes -EXECABORT Transaction discarded because of previous errors.");
}

CASE(malformed_frames_and_browsers_are_closed, x)
{
    static const struct {
        const char *send, *answer;
        unsigned answers;
    } cases[] = {
        {"PING\r\n*x\r\n",
         "+PONG -ERR Protocol error: invalid multibulk length", 2},
        {"INCR k\r\n*1\r\n$4\r\nPINGxx",
         ":1 -ERR Protocol error: expected CRLF after bulk", 2},
        {"POST / HTTP/1.1\r\nHost: x\r\n\r\nINCR k\r\n", "", 0},
        {"\x16\x03\x01\x02\x01\x01\r\nINCR k\r\n",
         "-ERR Protocol error: control byte in an inline command", 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int fd = client_connect(resp_port(x));

        client_send(fd, cases[i].send, strlen(cases[i].send));
        hear_answers(fd, cases[i].answers, cases[i].send, cases[i].answer);
        client_expect_end(fd);
        client_close(fd);
    }
    talk_to(x->fd, "GET k", "1");
}

CASE(a_request_longer_than_the_buffer_is_refused, x)
{
    static char bulk[65536 + 1];

    memset(bulk, 'x', sizeof bulk - 1);
    client_send(x->fd, "*5\r\n$4\r\nMGET\r\n", 14);
    for (int i = 0; i < 3; i++) {
        client_send(x->fd, "$65536\r\n", 8);
        client_send(x->fd, bulk, 65536);
        client_send(x->fd, "\r\n", 2);
    }
    client_send(x->fd, "$65536\r\n", 8);
    hear_answers(x->fd, 1, "MGET xxx",
                 "-ERR Protocol error: request longer than 200704 bytes");
    client_expect_end(x->fd);
}

/* Clients may connect anew for each read. */
CASE_WITH(reads_do_not_wait_again_while_merges_stand_still, "resp.own_wait=1s",
          x)
{
    uint64_t since_ms;
    char answers[64];

    fleet_stop(&x->fleet, FLEET_WORKER);
    since_ms = clock_ms();
    talk_to(x->fd, "ZINCRBY b 1 a; ZCARD b", "1 :0");
    assert_true(clock_ms() - since_ms >= 1000);
    since_ms = clock_ms();
    for (unsigned i = 0; i < 20; i++) {
        const int fd = client_connect(resp_port(x));

        (void)snprintf(answers, sizeof answers, ":%u :0 +OK +QUEUED [:0]",
                       i + 1);
        talk_to(fd, "INCR k; ZCARD b; MULTI; ZCARD b; EXEC", answers);
        client_close(fd);
    }
    assert_true(clock_ms() - since_ms < 20 * 1000);
    fleet_start(&x->fleet, FLEET_WORKER);
    await_merge(x->fd);
    talk_to(x->fd, "ZINCRBY b 1 c; ZCARD b", "1 :2");
}

CASE_WITH(reads_wait_for_nothing_where_that_is_off, "resp.own_wait=0", x)
{
    fleet_stop(&x->fleet, FLEET_WORKER);
    talk_to(x->fd, "ZINCRBY b 1 a; ZCARD b; ZREVRANK b a", "1 :0 nil");
}

/* Such answers are made in steps, and what is behind them is not forgotten;
 * the last bytes from the client are RESET, and then none. */
CASE(a_transaction_goes_on_behind_its_periods, x)
{
    static const char ask[] = "MULTI\r\nZREVRANGE b@7d 0 -1\r\nINCR k\r\n"
                              "DBSIZE\r\nZREVRANGE b@7d 0 0\r\nPING\r\n"
                              "EXEC\r\nRESET\r\n";

    talk_to(x->fd, "ZINCRBY b 3 a", "3");
    await_merge(x->fd);
    client_send(x->fd, ask, sizeof ask - 1);
    assert_int_equal(shutdown(x->fd, SHUT_WR), 0);
    hear_answers(x->fd, 8, ask,
                 "+OK +QUEUED +QUEUED +QUEUED +QUEUED +QUEUED "
                 "[[a] :1 :1 [a] +PONG] +RESET");
    client_expect_end(x->fd);
}

/* ---- load ---------------------------------------------------------------- */

struct load {
    uint16_t port;
    unsigned pipeline, count;
    int64_t *values;        /* answered, in order */
    _Atomic uint64_t acked; /* read meanwhile by the one that kills */
    uint64_t unsure, down, open;
    _Atomic bool ended;
    pthread_t thread;
};

/* Reads an answer; 0, or a negative errno: the connection broke. */
static int
count_answer(int fd, struct load *l)
{
    char line[128];
    size_t at = 0;

    do {
        if (client_read(fd, line + at, 1) != 1)
            return -ECONNRESET;
    } while (line[at++] != '\n' && at + 1 < sizeof line);
    line[at] = '\0';
    l->open--;
    if (line[0] == ':') {
        if (l->values)
            l->values[l->acked] = strtoll(line + 1, NULL, 10);
        l->acked++;
    } else if (strncmp(line, "-UNSURE ", 8) == 0) {
        l->unsure++;
    } else if (strncmp(line, "-MASTERDOWN ", 12) == 0) {
        l->down++;
    } else {
        return -EPROTO;
    }
    return 0;
}

/* Sends `count` times INCR k, `pipeline` at a time. */
static void *
run_load(void *arg)
{
    struct load *l = arg;
    const int fd = client_try_connect(l->port);
    unsigned sent = 0;

    while (fd >= 0 && sent < l->count) {
        unsigned n = l->count - sent;

        n = n < l->pipeline ? n : l->pipeline;
        for (unsigned i = 0; i < n; i++) {
            if (client_try_send(fd, "INCR k\r\n", 8) < 0)
                goto close_fd;
            l->open++;
        }
        sent += n;
        while (l->open > 0)
            if (count_answer(fd, l) < 0)
                goto close_fd;
    }
close_fd:
    if (fd >= 0)
        client_close(fd);
    l->ended = true;
    return NULL;
}

static int
compare_values(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

CASE(many_connections_get_each_number_once, x)
{
    static const unsigned pipelines[] = {1, 1, 7, 64, 64, 1000};
    enum { LOADS = 6, COUNT = 1000 };
    static int64_t values[LOADS][COUNT];
    struct load loads[LOADS];

    for (size_t i = 0; i < LOADS; i++) {
        loads[i] = (struct load){.port = resp_port(x),
                                 .pipeline = pipelines[i],
                                 .count = COUNT,
                                 .values = values[i]};
        assert_int_equal(
            pthread_create(&loads[i].thread, NULL, run_load, &loads[i]), 0);
    }
    for (size_t i = 0; i < LOADS; i++) {
        assert_int_equal(pthread_join(loads[i].thread, NULL), 0);
        assert_int_equal(loads[i].acked, COUNT);
        for (size_t n = 1; n < COUNT; n++)
            assert_true(values[i][n] > values[i][n - 1]);
    }
    qsort(values, (size_t)LOADS * COUNT, sizeof values[0][0], compare_values);
    for (size_t n = 0; n < (size_t)LOADS * COUNT; n++)
        assert_int_equal(values[n / COUNT][n % COUNT], n + 1);
    await_merge(x->fd);
    talk_to(x->fd, "GET k", "6000");
}

/* Waits until one load has `count` more acknowledged increments, or all have
 * ended. */
static void
await_acked(const struct load *loads, size_t size, uint64_t count)
{
    uint64_t before = 0;

    for (bool first = true;; first = false) {
        uint64_t acked = 0;
        bool ended = true;

        for (size_t i = 0; i < size; i++) {
            acked += loads[i].acked;
            ended = ended && loads[i].ended;
        }
        if (first)
            before = acked;
        if (ended || acked >= before + count)
            return;
        (void)poll(NULL, 0, 1);
    }
}

/* Runs increments on several connections, and kills the daemon in the middle of
 * them.  The loads' sums are in *sum. */
static void
run_loads(struct fixture *x, enum fleet_role role, unsigned kills,
          struct load *sum)
{
    enum { LOADS = 4 };
    struct load loads[LOADS];

    *sum = (struct load){.count = 0};
    for (size_t i = 0; i < LOADS; i++) {
        loads[i] = (struct load){
            .port = resp_port(x), .pipeline = 100, .count = 20000};
        assert_int_equal(
            pthread_create(&loads[i].thread, NULL, run_load, &loads[i]), 0);
    }
    for (unsigned i = 0; i < kills; i++) {
        await_acked(loads, LOADS, 500);
        daemon_kill(fleet_daemon(&x->fleet, role));
        fleet_start(&x->fleet, role);
    }
    for (size_t i = 0; i < LOADS; i++) {
        assert_int_equal(pthread_join(loads[i].thread, NULL), 0);
        sum->acked += loads[i].acked;
        sum->unsure += loads[i].unsure + loads[i].open;
        sum->down += loads[i].down;
    }
}

static void
check_count(struct fixture *x, const struct load *sum)
{
    int64_t counted;
    int fd;

    fleet_await_drained(&x->fleet, MERGED_MS);
    fd = client_connect(fleet_read_port(&x->fleet));
    client_await_merge(fd, "default", (int64_t)clock_unix_ms(), MERGED_MS);
    assert_true(client_get(fd, "default", "k", &counted));
    client_close(fd);
    printf("acknowledged %llu, unsure %llu, counted %lld, not counted %llu\n",
           (unsigned long long)sum->acked, (unsigned long long)sum->unsure,
           (long long)counted, (unsigned long long)sum->down);
    assert_true((uint64_t)counted >= sum->acked);
    assert_true((uint64_t)counted <= sum->acked + sum->unsure);
    assert_true(sum->acked > 0);
}

CASE(a_killed_writer_loses_no_acknowledged_increment, x)
{
    struct load sum;

    run_loads(x, FLEET_WRITE, 3, &sum);
    check_count(x, &sum);
    /* The connections went on. */
    assert_true(sum.acked + sum.unsure + sum.down == 80000);
}

CASE(a_killed_reader_loses_no_acknowledged_increment, x)
{
    struct load sum;

    run_loads(x, FLEET_READ, 1, &sum);
    client_close(x->fd);
    x->fd = client_connect(resp_port(x));
    check_count(x, &sum);
}

CASE(without_a_writer_increments_are_refused, x)
{
    uint64_t until_ms;
    char line[128];

    talk_to(x->fd, "INCR k", ":1");
    daemon_kill(fleet_daemon(&x->fleet, FLEET_WRITE));
    do {
        client_send(x->fd, "INCR k\r\n", 8);
        read_line(x->fd, line, sizeof line);
    } while (strncmp(line, "-UNSURE", 7) == 0);
    assert_string_equal(
        line,
        "-MASTERDOWN countd-write cannot be reached: nothing was counted\r\n");
    talk_to(x->fd, "PING; MULTI; INCR k; EXEC",
            "+PONG +OK +QUEUED [-MASTERDOWN countd-write cannot be reached: "
            "nothing was counted]");
    fleet_start(&x->fleet, FLEET_WRITE);
    until_ms = test_deadline(MERGED_MS);
    do {
        client_send(x->fd, "INCR k\r\n", 8);
        read_line(x->fd, line, sizeof line);
    } while (line[0] != ':' && clock_ms() < until_ms);
    await_merge(x->fd);
    talk_to(x->fd, "GET k", "2");
}

/* A process of its own at the same directory. */
CASE(two_readers_count_together, x)
{
    enum { COUNT = 500 };
    struct daemon second;
    char line[64];
    int fd;

    daemon_start(&second, "countd-read", "-d", x->fleet.path, "-o",
                 "read.listen=127.0.0.1:0", "-o", "resp.listen=127.0.0.1:0",
                 "-o", "log.size=64K");
    fd = client_connect(daemon_port(&second, "resp"));
    for (int i = 0; i < COUNT; i++) {
        client_send(x->fd, "INCR k\r\n", 8);
        client_send(fd, "INCR k\r\n", 8);
        for (int n = 0; n < 2; n++) {
            read_line(n == 0 ? x->fd : fd, line, sizeof line);
            assert_in_range(strtoll(line + 1, NULL, 10), i + 1, 2 * i + 2);
        }
    }
    await_merge(x->fd);
    await_merge(fd);
    talk_to(x->fd, "GET k", "1000");
    talk_to(fd, "GET k", "1000");
    client_close(fd);
    assert_int_equal(daemon_stop(&second), 0);
    daemon_fini(&second);
}

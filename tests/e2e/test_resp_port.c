/* tests/e2e/test_resp_port.c - Redis clients count and read: countd-read's RESP
 * port, with the daemons.
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

/* Reads an answer as text: [an array], {a map}, bulks as they are, nil, and
 * what is a line with its type: +OK :1 ,1 -ERR ... */
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
        return count > 0 ? at + count : stpcpy(at, "''");
    }
    if (line[0] == '$')
        return stpcpy(at, "nil");
    if ((line[0] != '*' && line[0] != '%') || count < 0)
        return stpcpy(at, line);
    count *= line[0] == '%' ? 2 : 1;
    at = stpcpy(at, line[0] == '%' ? "{" : "[");
    for (long i = 0; i < count; i++)
        at = read_answer(fd, i > 0 ? stpcpy(at, " ") : at);
    return stpcpy(at, line[0] == '%' ? "}" : "]");
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

#define NOT_INTEGER "-ERR value is not an integer or out of range"
#define SYNTAX      "-ERR syntax error"
#define ABORTED     "-EXECABORT Transaction discarded because of previous errors."

/* ---- commands ------------------------------------------------------------ */

CASE(increments_answer_the_new_value, x)
{
    talk_to(x->fd, "GET k; INCR k; INCR k; INCRBY k 40; GET k",
            "nil :1 :2 :42 42");
    talk_to(x->fd, "DECR k; DECRBY k 50; GET k", ":41 :-9 -9");
    talk_to(x->fd, "ZINCRBY z 2 m; HINCRBY z m 3; zadd z incr 1e1 m",
            "2 :5 15");
    talk_to(x->fd, "ZSCORE z m; HGET z m; HEXISTS z m; HEXISTS z n",
            "15 15 :1 :0");
    talk_to(x->fd, "MGET k none; HMGET z m n", "[-9 nil] [15 nil]");
    await_merge(x->fd);
    talk_to(x->fd, "GET k; INCR k", "-9 :-8");
}

CASE(an_increment_of_0_makes_no_key, x)
{
    talk_to(x->fd, "INCRBY k 0; GET k; ZINCRBY z 0.0 m; ZSCORE z m; WAIT 0 0",
            ":0 nil 0 nil :1");
}

CASE(bad_values_and_names_are_errors, x)
{
    char command[400], answer[200], name[258];

    talk_to(x->fd, "INCRBY k 1.0; INCRBY k +1; HINCRBY z m 01",
            NOT_INTEGER " " NOT_INTEGER " " NOT_INTEGER);
    talk_to(x->fd, "DECRBY k -9223372036854775808",
            "-ERR decrement would overflow");
    talk_to(x->fd, "ZINCRBY z 1.5 m; ZINCRBY z inf m; ZINCRBY z 1e400 m",
            NOT_INTEGER " -ERR value is not a valid float " NOT_INTEGER);
    talk_to(x->fd, "ZADD z 5 m",
            "-ERR countd adds and does not set: ZADD is only ZADD key INCR "
            "increment member");
    talk_to(x->fd, "incr; SET a 1",
            "-ERR wrong number of arguments for 'incr' command "
            "-ERR unknown command 'SET'");
    talk_to(x->fd, "\xe2\x80\xae", "-ERR unknown command '\\xe2\\x80\\xae'");
    client_send(x->fd, "*2\r\n$4\r\nINCR\r\n$0\r\n\r\n", 20);
    hear_answers(x->fd, 1, "INCR ''", "-ERR an empty name");
    client_send(x->fd, "*2\r\n$4\r\nINCR\r\n$3\r\na\0b\r\n", 23);
    hear_answers(x->fd, 1, "INCR a\\0b", "-ERR a zero byte in a name");
    memset(name, 'n', 257);
    name[257] = '\0';
    (void)snprintf(command, sizeof command, "INCR %s", name);
    talk_to(x->fd, command, "-ERR a name is longer than 256 bytes");
    (void)snprintf(answer, sizeof answer, "-ERR unknown command '%.64s...' :0",
                   name);
    (void)snprintf(command, sizeof command, "%s; DBSIZE", name);
    talk_to(x->fd, command, answer);
}

CASE(a_name_that_cannot_be_is_not_there, x)
{
    char command[300] = "MGET ";

    talk_to(x->fd, "INCR k; ZINCRBY z 15 m", ":1 15");
    client_send(x->fd, "*4\r\n$5\r\nHMGET\r\n$1\r\nz\r\n$0\r\n\r\n$1\r\nm\r\n",
                35);
    hear_answers(x->fd, 1, "HMGET z '' m", "[nil 15]");
    client_send(x->fd,
                "*4\r\n$4\r\nMGET\r\n$1\r\nk\r\n$3\r\na\0b\r\n$0\r\n\r\n", 36);
    hear_answers(x->fd, 1, "MGET k a\\0b ''", "[1 nil nil]");
    client_send(x->fd, "*2\r\n$3\r\nGET\r\n$0\r\n\r\n", 19);
    hear_answers(x->fd, 1, "GET ''", "nil");
    memset(command + 5, 'n', 257);
    talk_to(x->fd, command, "[nil]");
}

CASE(ranges_and_ranks_are_those_of_the_merge, x)
{
    talk_to(x->fd, "ZINCRBY b 6 ann; ZINCRBY b 3 bob; ZINCRBY b 9 cid",
            "6 3 9");
    talk_to(x->fd, "ZINCRBY b 3 abe", "3");
    await_merge(x->fd);
    talk_to(x->fd, "ZREVRANGE b 0 1 WITHSCORES", "[cid 9 ann 6]");
    talk_to(x->fd, "ZRANGE b 0 -1", "[bob abe ann cid]");
    talk_to(x->fd, "ZRANGE b -2 9 REV; ZREVRANGE b 4 9; ZRANGE c 0 9",
            "[abe bob] [] []");
    talk_to(x->fd, "ZREVRANK b bob; ZRANK b bob; ZRANK b x; ZCARD b",
            ":3 :0 nil :4");
    talk_to(x->fd, "ZREVRANK b ann WITHSCORE; ZRANK b ann withscore",
            "[:1 6] [:2 6]");
    talk_to(x->fd, "ZRANK b x WITHSCORE; ZRANK none x WITHSCORE", "*-1 *-1");
    talk_to(x->fd, "ZRANK b ann SCORE; ZRANK b ann WITHSCORE 1",
            SYNTAX " " SYNTAX);
    talk_to(
        x->fd, "ZRANGE b 0 1 LIMIT 0 1; ZREVRANGE b a 1",
        SYNTAX
        ", LIMIT is only supported in combination with BYSCORE " NOT_INTEGER);
    talk_to(x->fd, "HGETALL b", "[cid 9 ann 6 abe 3 bob 3]");
}

CASE_WITH(options_may_be_longer_than_keys, "message.key_size=8", x)
{
    talk_to(x->fd, "ZRANK b x WITHSCORE; ZRANK b 123456789",
            "*-1 -ERR a name is longer than message.keyspace_size or "
            "message.key_size");
}

CASE(scores_bound_ranges, x)
{
    talk_to(x->fd, "ZINCRBY b 3 a; ZINCRBY b 5 b; ZINCRBY b -2 c", "3 5 -2");
    await_merge(x->fd);
    talk_to(x->fd, "ZCOUNT b -inf +inf; ZCOUNT b (3 5; ZCOUNT b 3 (5",
            ":3 :1 :1");
    talk_to(x->fd, "ZCOUNT b 2.5 4.5; ZCOUNT b 6 9; ZCOUNT b 5 3", ":1 :0 :0");
    talk_to(x->fd, "ZCOUNT b -1e30 -2; ZCOUNT none 0 1", ":1 :0");
    talk_to(x->fd, "ZCOUNT b -1e19 1e19; ZCOUNT b 1e19 1e30", ":3 :0");
    talk_to(x->fd, "ZCOUNT b x 1", "-ERR min or max is not a float");
    talk_to(x->fd, "ZRANGEBYSCORE b -inf 4 WITHSCORES", "[c -2 a 3]");
    talk_to(x->fd, "ZREVRANGEBYSCORE b +inf -inf LIMIT 1 1", "[a]");
    talk_to(x->fd, "ZRANGEBYSCORE b -inf +inf LIMIT 2 9", "[b]");
    talk_to(x->fd, "ZRANGEBYSCORE b -inf +inf LIMIT 3 9", "[]");
    talk_to(x->fd, "ZRANGE b -inf +inf BYSCORE LIMIT 0 2 WITHSCORES",
            "[c -2 a 3]");
    talk_to(x->fd, "ZRANGE b +inf (-2 BYSCORE REV LIMIT 1 -1", "[a]");
    talk_to(x->fd, "ZREVRANGE b 0 1 BYSCORE; ZRANGE b 0 1 LIMIT 1 x",
            SYNTAX " " NOT_INTEGER);
    talk_to(x->fd, "ZRANGE b [a [b BYLEX",
            "-ERR BYLEX is not supported: ZSCAN gives members in the order of "
            "their names");
}

CASE(keyspaces_are_listed_by_position, x)
{
    talk_to(x->fd, "ZINCRBY a:1 1 m; ZINCRBY a:2 1 m; ZINCRBY b 1 m", "1 1 1");
    talk_to(x->fd, "INCR k; INCR l", ":1 :1");
    await_merge(x->fd);
    talk_to(x->fd, "SCAN 0", "[0 [a:1 a:2 b]]");
    talk_to(x->fd, "SCAN 0 COUNT 1; SCAN 1 COUNT 1", "[1 [a:1]] [2 [a:2]]");
    talk_to(x->fd, "SCAN 0 MATCH a:* COUNT 100; SCAN 0 TYPE string",
            "[0 [a:1 a:2]] [0 []]");
    talk_to(x->fd, "DBSIZE; TYPE b; TYPE k; TYPE x; EXISTS b k x k",
            ":5 +zset +string +none :3");
    talk_to(x->fd, "SCAN x; SCAN 0 COUNT 0; SCAN 0 FOO",
            "-ERR invalid cursor " SYNTAX " " SYNTAX);
}

CASE(members_are_listed_by_position, x)
{
    talk_to(x->fd, "ZINCRBY b -1 u:2; ZINCRBY b 9 u:1; ZINCRBY b 5 a; INCR k",
            "-1 9 5 :1");
    await_merge(x->fd);
    talk_to(x->fd, "ZSCAN b 0", "[0 [a 5 u:1 9 u:2 -1]]");
    talk_to(x->fd, "HSCAN b 0 COUNT 2; HSCAN b 2 COUNT 2",
            "[2 [a 5 u:1 9]] [0 [u:2 -1]]");
    talk_to(x->fd, "ZSCAN b 2 COUNT 9223372036854775807", "[0 [u:2 -1]]");
    talk_to(x->fd, "ZSCAN b 0 MATCH u:* COUNT 2", "[3 [u:1 9 u:2 -1]]");
    talk_to(x->fd, "ZSCAN b 3; ZSCAN b 9223372036854775807", "[0 []] [0 []]");
    talk_to(x->fd, "ZSCAN none 0; ZSCAN default 0", "[0 []] [0 [k 1]]");
    talk_to(x->fd, "ZSCAN b 0 COUNT 0; ZSCAN b 0 TYPE zset; ZSCAN b 0 MATCH",
            SYNTAX " " SYNTAX " " SYNTAX);
    talk_to(x->fd, "ZSCAN b x; ZSCAN b -1",
            "-ERR invalid cursor -ERR invalid cursor");
}

/* A COUNT of 1 looks at one key: those before the pattern's literal beginning
 * are not among them. */
CASE(a_pattern_is_sought_by_its_beginning, x)
{
    char line[64];

    for (int i = 0; i < 300; i++) {
        (void)snprintf(line, sizeof line, "ZINCRBY b 1 a%03d", i);
        talk_to(x->fd, line, "1");
    }
    talk_to(x->fd, "ZINCRBY b 2 u:1; ZINCRBY b 3 u:2; ZINCRBY b 4 v", "2 3 4");
    await_merge(x->fd);
    talk_to(x->fd, "ZSCAN b 0 MATCH u:* COUNT 1", "[301 [u:1 2]]");
    talk_to(x->fd, "ZSCAN b 301 MATCH u:* COUNT 1", "[302 [u:2 3]]");
    talk_to(x->fd, "ZSCAN b 302 MATCH u:* COUNT 1", "[0 []]");
    talk_to(x->fd, "ZSCAN b 0 MATCH u:?", "[0 [u:1 2 u:2 3]]");
    talk_to(x->fd, "ZSCAN b 0 MATCH u:2 COUNT 2", "[0 [u:2 3]]");
    talk_to(x->fd, "ZSCAN b 0 MATCH [u]* COUNT 1", "[1 []]");
    talk_to(x->fd, "ZSCAN b 0 MATCH w*; ZSCAN b 0 MATCH A* COUNT 1",
            "[0 []] [0 []]");
    talk_to(x->fd, "ZSCAN none 0 MATCH u*", "[0 []]");
}

CASE(resp3_has_doubles_maps_pairs_and_nulls, x)
{
    talk_to(x->fd, "HELLO 3",
            "{server redis version 7.0.0 proto :3 id :1 mode standalone role "
            "master modules []}");
    talk_to(x->fd, "ZINCRBY b 9007199254740993 m; ZSCORE b m; ZSCORE b n",
            ",9007199254740993 ,9007199254740993 _");
    talk_to(x->fd, "GET x; ZREVRANK b n", "_ _");
    await_merge(x->fd);
    talk_to(x->fd, "ZRANGE b 0 -1 WITHSCORES; HGETALL b",
            "[[m ,9007199254740993]] {m 9007199254740993}");
    talk_to(x->fd, "RESET; ZSCORE b m", "+RESET 9007199254740993");
}

CASE(what_libraries_send_first_is_answered, x)
{
    talk_to(x->fd, "PING; PING hi; ECHO hi; SELECT 0; SELECT 1",
            "+PONG hi hi +OK -ERR DB index is out of range");
    talk_to(x->fd, "COMMAND DOCS; CONFIG GET save appendonly",
            "[] [save '' appendonly yes]");
    talk_to(x->fd, "COMMAND; COMMAND INFO get; COMMAND NOSUCH",
            "[] [] -ERR unknown subcommand 'NOSUCH'. Try COMMAND HELP.");
    talk_to(x->fd,
            "CLIENT SETINFO LIB-NAME x; CLIENT GETNAME; CLIENT SETNAME n; "
            "CLIENT GETNAME; CLIENT NOSUCH",
            "+OK nil +OK n -ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.");
    talk_to(
        x->fd, "HELLO 4; AUTH secret",
        "-NOPROTO unsupported protocol version -ERR AUTH <password> called "
        "without any password configured for the default user. Are you sure "
        "your configuration is correct?");
    talk_to(x->fd, "CLUSTER INFO; QUIT",
            "-ERR This instance has cluster support disabled +OK");
    client_expect_end(x->fd);
}

CASE(a_transaction_is_done_at_exec, x)
{
    talk_to(x->fd, "MULTI; INCR k; ZINCRBY z 2 m; GET k; EXEC",
            "+OK +QUEUED +QUEUED +QUEUED [:1 2 1]");
    talk_to(x->fd, "MULTI; INCR k; FOO; EXEC; GET k",
            "+OK +QUEUED -ERR unknown command 'FOO' " ABORTED " 1");
    talk_to(x->fd, "MULTI; INCR k; MULTI; DISCARD; GET k",
            "+OK +QUEUED -ERR MULTI calls can not be nested +OK 1");
    talk_to(x->fd, "MULTI; INCRBY k x; INCR k; DBSIZE; EXEC; PING",
            "+OK +QUEUED +QUEUED +QUEUED [" NOT_INTEGER " :2 :2] +PONG");
    talk_to(x->fd, "EXEC; DISCARD; MULTI; EXEC",
            "-ERR EXEC without MULTI -ERR DISCARD without MULTI +OK []");
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
    talk_to(x->fd, "GET k; EXEC",
            "-ERR transaction too long: more than 10000 commands or 1048576 "
            "bytes " ABORTED);
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

CASE(wait_ends_at_its_time, x)
{
    fleet_stop(&x->fleet, FLEET_WORKER); /* nothing is merged any more */
    talk_to(x->fd, "INCR k; WAIT 1 20; WAIT 0 0; WAIT 1 -1",
            ":1 :0 :0 -ERR timeout is negative");
}

CASE(a_connection_reads_what_it_has_counted, x)
{
    talk_to(x->fd, "ZINCRBY b 1 a; ZREVRANK b a; ZCARD b", "1 :0 :1");
    talk_to(x->fd, "ZINCRBY b 3 b; ZREVRANGE b 0 -1 WITHSCORES", "3 [b 3 a 1]");
    talk_to(x->fd, "ZINCRBY c 1 a; EXISTS c; ZINCRBY c 1 b; ZCOUNT c 1 1",
            "1 :1 1 :2");
    /* A transaction has what was counted before it, and not its own. */
    talk_to(x->fd,
            "ZINCRBY c 1 d; MULTI; ZINCRBY c 1 e; ZCARD c; EXEC; ZCARD c",
            "1 +OK +QUEUED +QUEUED [1 :3] :4");
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

CASE(a_period_is_a_keyspace_of_its_sums, x)
{
    talk_to(x->fd, "ZINCRBY b 3 a; ZINCRBY b 5 b", "3 5");
    await_merge(x->fd);
    talk_to(x->fd, "ZREVRANGE b@7d 0 -1 WITHSCORES", "[b 5 a 3]");
    talk_to(x->fd, "ZREVRANGE b@1h 1 1; ZREVRANGE b@2001-01-01 0 9", "[a] []");
    talk_to(x->fd, "ZREVRANGE x@7d 0 -1; ZREVRANGE b@7x 0 -1", "[] []");
    talk_to(x->fd, "ZRANGE b@1h 1 1 REV; TYPE b@1h", "[a] +none");
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

CASE(other_commands_of_a_period_are_errors, x)
{
    static const char *const commands[] = {
        "ZSCORE b@7d a",          "ZMSCORE b@7d a b",
        "ZREVRANK b@7d a",        "HGET b@7d a",
        "HEXISTS b@7d a",         "ZCARD b@7d",
        "HGETALL b@7d",           "ZRANGE b@7d 0 -1",
        "ZCOUNT b@7d 0 9",        "ZSCAN b@7d 0",
        "ZINCRBY b@7d 1 a",       "HINCRBY b@7d a 1",
        "ZRANGEBYSCORE b@7d 0 9", "ZRANGE b@7d 0 9 BYSCORE"};

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        talk_to(
            x->fd, commands[i],
            "-ERR a period of a keyspace is only read by ZREVRANGE, or ZRANGE "
            "with REV");
    talk_to(x->fd, "ZSCORE b@7x a; ZCARD b@", "nil :0");
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

/* tests/e2e/test_resp_port.c - Redis clients count and read: countd-read's RESP
 * port, with the daemons.
 *
 *     exchange(), expect_answer()   whole commands and answers, by hand
 *     struct load                   increments on a connection, counted */
#include "tests/lib/test.h"

#include <errno.h>
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
setup(void **state)
{
    static struct fixture x;

    fleet_init(&x.fleet);
    fleet_option(&x.fleet, "resp.listen=127.0.0.1:0");
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

#define CASE(name, x) TEST_IN(name, struct fixture *x, setup, teardown)

/* Sends bytes and reads as many as the answer has. */
static void
exchange(int fd, const char *send, const char *answer)
{
    const size_t size = strlen(answer);
    static char got[ANSWER_MAX];
    size_t n;

    assert_true(size < sizeof got);
    client_send(fd, send, strlen(send));
    n = client_read(fd, got, size);
    got[n] = '\0';
    if (strcmp(got, answer) != 0)
        fail_msg("sent:\n%s\nanswered:\n%s\nexpected:\n%s", send, got, answer);
}

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

static void
await_merge(int fd)
{
    char command[64];

    (void)snprintf(command, sizeof command, "WAIT 1 %u\r\n",
                   MERGED_MS * test_slow());
    exchange(fd, command, ":1\r\n");
}

/* ---- commands ------------------------------------------------------------ */

CASE(increments_answer_the_new_value, x)
{
    exchange(x->fd, "GET k\r\n", "$-1\r\n");
    exchange(x->fd, "INCR k\r\nINCR k\r\nINCRBY k 40\r\nGET k\r\n",
             ":1\r\n:2\r\n:42\r\n$2\r\n42\r\n");
    exchange(x->fd, "DECR k\r\nDECRBY k 50\r\nGET k\r\n",
             ":41\r\n:-9\r\n$2\r\n-9\r\n");
    exchange(x->fd, "ZINCRBY z 2 m\r\nHINCRBY z m 3\r\nzadd z incr 1e1 m\r\n",
             "$1\r\n2\r\n:5\r\n$2\r\n15\r\n");
    exchange(x->fd, "ZSCORE z m\r\nHGET z m\r\nHEXISTS z m\r\nHEXISTS z n\r\n",
             "$2\r\n15\r\n$2\r\n15\r\n:1\r\n:0\r\n");
    exchange(x->fd, "MGET k none\r\nHMGET z m n\r\n",
             "*2\r\n$2\r\n-9\r\n$-1\r\n*2\r\n$2\r\n15\r\n$-1\r\n");
    await_merge(x->fd);
    exchange(x->fd, "GET k\r\nINCR k\r\n", "$2\r\n-9\r\n:-8\r\n");
}

CASE(an_increment_of_0_makes_no_key, x)
{
    exchange(x->fd, "INCRBY k 0\r\nGET k\r\nZINCRBY z 0.0 m\r\nZSCORE z m\r\n",
             ":0\r\n$-1\r\n$1\r\n0\r\n$-1\r\n");
    exchange(x->fd, "WAIT 0 0\r\n", ":1\r\n");
}

CASE(bad_values_and_names_are_errors, x)
{
    char command[400], answer[200], name[258];

    exchange(x->fd, "INCRBY k 1.0\r\nINCRBY k +1\r\nHINCRBY z m 01\r\n",
             "-ERR value is not an integer or out of range\r\n"
             "-ERR value is not an integer or out of range\r\n"
             "-ERR value is not an integer or out of range\r\n");
    exchange(x->fd, "DECRBY k -9223372036854775808\r\n",
             "-ERR decrement would overflow\r\n");
    exchange(x->fd,
             "ZINCRBY z 1.5 m\r\nZINCRBY z inf m\r\nZINCRBY z 1e400 m\r\n",
             "-ERR value is not an integer or out of range\r\n"
             "-ERR value is not a valid float\r\n"
             "-ERR value is not an integer or out of range\r\n");
    exchange(x->fd, "*2\r\n$4\r\nINCR\r\n$0\r\n\r\n",
             "-ERR a name is empty\r\n");
    client_send(x->fd, "*2\r\n$4\r\nINCR\r\n$3\r\na\0b\r\n", 23);
    exchange(x->fd, "", "-ERR a name has a NUL byte\r\n");
    memset(name, 'n', 257);
    name[257] = '\0';
    (void)snprintf(command, sizeof command, "INCR %s\r\n", name);
    exchange(x->fd, command, "-ERR a name is longer than 256 bytes\r\n");
    exchange(x->fd, "ZADD z 5 m\r\n",
             "-ERR countd adds and does not set: ZADD is only ZADD key INCR "
             "increment member\r\n");
    exchange(x->fd, "incr\r\nSET a 1\r\n",
             "-ERR wrong number of arguments for 'incr' command\r\n"
             "-ERR unknown command 'SET'\r\n");
    (void)snprintf(answer, sizeof answer, "-ERR unknown command '%.128s'\r\n",
                   name);
    (void)snprintf(command, sizeof command, "%s\r\nDBSIZE\r\n", name);
    client_send(x->fd, command, strlen(command));
    exchange(x->fd, "", answer);
    exchange(x->fd, "", ":0\r\n");
}

CASE(ranges_and_ranks_are_those_of_the_merge, x)
{
    exchange(x->fd,
             "ZINCRBY b 6 ann\r\nZINCRBY b 3 bob\r\nZINCRBY b 9 cid\r\n"
             "ZINCRBY b 3 abe\r\n",
             "$1\r\n6\r\n$1\r\n3\r\n$1\r\n9\r\n$1\r\n3\r\n");
    await_merge(x->fd);
    exchange(x->fd, "ZREVRANGE b 0 1 WITHSCORES\r\n",
             "*4\r\n$3\r\ncid\r\n$1\r\n9\r\n$3\r\nann\r\n$1\r\n6\r\n");
    exchange(x->fd, "ZRANGE b 0 -1\r\n",
             "*4\r\n$3\r\nbob\r\n$3\r\nabe\r\n$3\r\nann\r\n$3\r\ncid\r\n");
    exchange(x->fd, "ZRANGE b -2 9 REV\r\nZREVRANGE b 4 9\r\nZRANGE c 0 9\r\n",
             "*2\r\n$3\r\nabe\r\n$3\r\nbob\r\n*0\r\n*0\r\n");
    exchange(x->fd, "ZREVRANK b bob\r\nZRANK b bob\r\nZRANK b x\r\nZCARD b\r\n",
             ":3\r\n:0\r\n$-1\r\n:4\r\n");
    exchange(x->fd,
             "ZREVRANK b ann WITHSCORE\r\nZRANK b ann withscore\r\n"
             "ZRANK b x WITHSCORE\r\nZRANK none x WITHSCORE\r\n"
             "ZRANK b ann SCORE\r\nZRANK b ann WITHSCORE 1\r\n",
             "*2\r\n:1\r\n$1\r\n6\r\n*2\r\n:2\r\n$1\r\n6\r\n"
             "*-1\r\n*-1\r\n"
             "-ERR syntax error\r\n-ERR syntax error\r\n");
    exchange(x->fd, "ZRANGE b 0 1 LIMIT 0 1\r\nZREVRANGE b a 1\r\n",
             "-ERR syntax error, LIMIT is only supported in combination with "
             "BYSCORE\r\n"
             "-ERR value is not an integer or out of range\r\n");
    exchange(x->fd, "HGETALL b\r\n",
             "*8\r\n$3\r\ncid\r\n$1\r\n9\r\n$3\r\nann\r\n$1\r\n6\r\n"
             "$3\r\nabe\r\n$1\r\n3\r\n$3\r\nbob\r\n$1\r\n3\r\n");
}

CASE(scores_bound_ranges, x)
{
    exchange(x->fd, "ZINCRBY b 3 a\r\nZINCRBY b 5 b\r\nZINCRBY b -2 c\r\n",
             "$1\r\n3\r\n$1\r\n5\r\n$2\r\n-2\r\n");
    await_merge(x->fd);
    exchange(x->fd,
             "ZCOUNT b -inf +inf\r\nZCOUNT b (3 5\r\nZCOUNT b 3 (5\r\n"
             "ZCOUNT b 2.5 4.5\r\nZCOUNT b 6 9\r\nZCOUNT b 5 3\r\n"
             "ZCOUNT b -1e30 -2\r\nZCOUNT none 0 1\r\n"
             "ZCOUNT b -1e19 1e19\r\nZCOUNT b 1e19 1e30\r\n"
             "ZCOUNT b x 1\r\n",
             ":3\r\n:1\r\n:1\r\n:1\r\n:0\r\n:0\r\n:1\r\n:0\r\n"
             ":3\r\n:0\r\n"
             "-ERR min or max is not a float\r\n");
    exchange(x->fd, "ZRANGEBYSCORE b -inf 4 WITHSCORES\r\n",
             "*4\r\n$1\r\nc\r\n$2\r\n-2\r\n$1\r\na\r\n$1\r\n3\r\n");
    exchange(x->fd, "ZREVRANGEBYSCORE b +inf -inf LIMIT 1 1\r\n",
             "*1\r\n$1\r\na\r\n");
    exchange(x->fd, "ZRANGEBYSCORE b -inf +inf LIMIT 2 9\r\n",
             "*1\r\n$1\r\nb\r\n");
    exchange(x->fd, "ZRANGEBYSCORE b -inf +inf LIMIT 3 9\r\n", "*0\r\n");
    exchange(x->fd,
             "ZRANGE b -inf +inf BYSCORE LIMIT 0 2 WITHSCORES\r\n"
             "ZRANGE b +inf (-2 BYSCORE REV LIMIT 1 -1\r\n",
             "*4\r\n$1\r\nc\r\n$2\r\n-2\r\n$1\r\na\r\n$1\r\n3\r\n"
             "*1\r\n$1\r\na\r\n");
    exchange(x->fd,
             "ZREVRANGE b 0 1 BYSCORE\r\nZRANGE b 0 1 LIMIT 1 x\r\n"
             "ZRANGE b [a [b BYLEX\r\n",
             "-ERR syntax error\r\n"
             "-ERR value is not an integer or out of range\r\n"
             "-ERR BYLEX is not supported: ZSCAN gives members in the order of "
             "their names\r\n");
}

CASE(keyspaces_are_listed_by_position, x)
{
    exchange(x->fd, "ZINCRBY a:1 1 m\r\nZINCRBY a:2 1 m\r\nZINCRBY b 1 m\r\n",
             "$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n");
    exchange(x->fd, "INCR k\r\nINCR l\r\n", ":1\r\n:1\r\n");
    await_merge(x->fd);
    exchange(x->fd, "SCAN 0\r\n",
             "*2\r\n$1\r\n0\r\n*3\r\n$3\r\na:1\r\n$3\r\na:2\r\n$1\r\nb\r\n");
    exchange(x->fd, "SCAN 0 COUNT 1\r\nSCAN 1 COUNT 1\r\n",
             "*2\r\n$1\r\n1\r\n*1\r\n$3\r\na:1\r\n"
             "*2\r\n$1\r\n2\r\n*1\r\n$3\r\na:2\r\n");
    exchange(x->fd, "SCAN 0 MATCH a:* COUNT 100\r\nSCAN 0 TYPE string\r\n",
             "*2\r\n$1\r\n0\r\n*2\r\n$3\r\na:1\r\n$3\r\na:2\r\n"
             "*2\r\n$1\r\n0\r\n*0\r\n");
    exchange(x->fd,
             "DBSIZE\r\nTYPE b\r\nTYPE k\r\nTYPE x\r\nEXISTS b k x k\r\n",
             ":5\r\n+zset\r\n+string\r\n+none\r\n:3\r\n");
    exchange(x->fd, "SCAN x\r\nSCAN 0 COUNT 0\r\nSCAN 0 FOO\r\n",
             "-ERR invalid cursor\r\n-ERR syntax error\r\n"
             "-ERR syntax error\r\n");
}

CASE(members_are_listed_by_position, x)
{
    exchange(x->fd,
             "ZINCRBY b -1 u:2\r\nZINCRBY b 9 u:1\r\nZINCRBY b 5 a\r\n"
             "INCR k\r\n",
             "$2\r\n-1\r\n$1\r\n9\r\n$1\r\n5\r\n:1\r\n");
    await_merge(x->fd);
    exchange(x->fd, "ZSCAN b 0\r\n",
             "*2\r\n$1\r\n0\r\n*6\r\n$1\r\na\r\n$1\r\n5\r\n"
             "$3\r\nu:1\r\n$1\r\n9\r\n$3\r\nu:2\r\n$2\r\n-1\r\n");
    exchange(x->fd, "HSCAN b 0 COUNT 2\r\nHSCAN b 2 COUNT 2\r\n",
             "*2\r\n$1\r\n2\r\n*4\r\n$1\r\na\r\n$1\r\n5\r\n"
             "$3\r\nu:1\r\n$1\r\n9\r\n"
             "*2\r\n$1\r\n0\r\n*2\r\n$3\r\nu:2\r\n$2\r\n-1\r\n");
    exchange(x->fd,
             "ZSCAN b 2 COUNT 9223372036854775807\r\n"
             "ZSCAN b 0 MATCH u:* COUNT 2\r\nZSCAN b 3\r\nZSCAN b "
             "9223372036854775807\r\nZSCAN none 0\r\nZSCAN default 0\r\n",
             "*2\r\n$1\r\n0\r\n*2\r\n$3\r\nu:2\r\n$2\r\n-1\r\n"
             "*2\r\n$1\r\n3\r\n*4\r\n$3\r\nu:1\r\n$1\r\n9\r\n"
             "$3\r\nu:2\r\n$2\r\n-1\r\n"
             "*2\r\n$1\r\n0\r\n*0\r\n*2\r\n$1\r\n0\r\n*0\r\n"
             "*2\r\n$1\r\n0\r\n*0\r\n"
             "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nk\r\n$1\r\n1\r\n");
    exchange(x->fd,
             "ZSCAN b x\r\nZSCAN b 0 COUNT 0\r\nZSCAN b 0 TYPE zset\r\n"
             "ZSCAN b 0 MATCH\r\nZSCAN b -1\r\n",
             "-ERR invalid cursor\r\n-ERR syntax error\r\n"
             "-ERR syntax error\r\n-ERR syntax error\r\n"
             "-ERR invalid cursor\r\n");
}

/* A COUNT of 1 looks at one key: those before the pattern's literal beginning
 * are not among them. */
CASE(a_pattern_is_sought_by_its_beginning, x)
{
    char line[64];

    for (int i = 0; i < 300; i++) {
        (void)snprintf(line, sizeof line, "ZINCRBY b 1 a%03d\r\n", i);
        exchange(x->fd, line, "$1\r\n1\r\n");
    }
    exchange(x->fd, "ZINCRBY b 2 u:1\r\nZINCRBY b 3 u:2\r\nZINCRBY b 4 v\r\n",
             "$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n");
    await_merge(x->fd);
    exchange(x->fd,
             "ZSCAN b 0 MATCH u:* COUNT 1\r\nZSCAN b 301 MATCH u:* COUNT 1\r\n"
             "ZSCAN b 302 MATCH u:* COUNT 1\r\n",
             "*2\r\n$3\r\n301\r\n*2\r\n$3\r\nu:1\r\n$1\r\n2\r\n"
             "*2\r\n$3\r\n302\r\n*2\r\n$3\r\nu:2\r\n$1\r\n3\r\n"
             "*2\r\n$1\r\n0\r\n*0\r\n");
    exchange(x->fd,
             "ZSCAN b 0 MATCH u:?\r\nZSCAN b 0 MATCH u:2 COUNT 2\r\n"
             "ZSCAN b 0 MATCH [u]* COUNT 1\r\nZSCAN b 0 MATCH w*\r\n"
             "ZSCAN b 0 MATCH A* COUNT 1\r\nZSCAN none 0 MATCH u*\r\n",
             "*2\r\n$1\r\n0\r\n*4\r\n$3\r\nu:1\r\n$1\r\n2\r\n"
             "$3\r\nu:2\r\n$1\r\n3\r\n"
             "*2\r\n$1\r\n0\r\n*2\r\n$3\r\nu:2\r\n$1\r\n3\r\n"
             "*2\r\n$1\r\n1\r\n*0\r\n*2\r\n$1\r\n0\r\n*0\r\n"
             "*2\r\n$1\r\n0\r\n*0\r\n*2\r\n$1\r\n0\r\n*0\r\n");
}

CASE(resp3_has_doubles_maps_pairs_and_nulls, x)
{
    char line[64];

    client_send(x->fd, "HELLO 3\r\n", 9);
    do
        read_line(x->fd, line, sizeof line);
    while (strcmp(line, "*0\r\n") != 0);
    exchange(x->fd,
             "ZINCRBY b 9007199254740993 m\r\nZSCORE b m\r\nZSCORE b n\r\n",
             ",9007199254740993\r\n,9007199254740993\r\n_\r\n");
    exchange(x->fd, "GET x\r\nZREVRANK b n\r\n", "_\r\n_\r\n");
    await_merge(x->fd);
    exchange(x->fd, "ZRANGE b 0 -1 WITHSCORES\r\nHGETALL b\r\n",
             "*1\r\n*2\r\n$1\r\nm\r\n,9007199254740993\r\n"
             "%1\r\n$1\r\nm\r\n$16\r\n9007199254740993\r\n");
    exchange(x->fd, "RESET\r\nZSCORE b m\r\n",
             "+RESET\r\n$16\r\n9007199254740993\r\n");
}

CASE(what_libraries_send_first_is_answered, x)
{
    exchange(x->fd, "PING\r\nPING hi\r\nECHO hi\r\nSELECT 0\r\nSELECT 1\r\n",
             "+PONG\r\n$2\r\nhi\r\n$2\r\nhi\r\n+OK\r\n"
             "-ERR DB index is out of range\r\n");
    exchange(x->fd, "COMMAND DOCS\r\nCONFIG GET save appendonly\r\n",
             "*0\r\n*4\r\n$4\r\nsave\r\n$0\r\n\r\n$10\r\nappendonly\r\n"
             "$3\r\nyes\r\n");
    exchange(x->fd,
             "CLIENT SETINFO LIB-NAME x\r\nCLIENT GETNAME\r\n"
             "CLIENT SETNAME n\r\nCLIENT GETNAME\r\nCLIENT NOSUCH\r\n",
             "+OK\r\n$-1\r\n+OK\r\n$1\r\nn\r\n"
             "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.\r\n");
    exchange(x->fd, "HELLO 4\r\nAUTH secret\r\n",
             "-NOPROTO unsupported protocol version\r\n"
             "-ERR AUTH <password> called without any password configured for "
             "the default user. Are you sure your configuration is "
             "correct?\r\n");
    exchange(x->fd, "CLUSTER INFO\r\n",
             "-ERR This instance has cluster support disabled\r\n");
    exchange(x->fd, "QUIT\r\n", "+OK\r\n");
    client_expect_end(x->fd);
}

CASE(a_transaction_is_done_at_exec, x)
{
    exchange(x->fd, "MULTI\r\nINCR k\r\nZINCRBY z 2 m\r\nGET k\r\nEXEC\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
             "*3\r\n:1\r\n$1\r\n2\r\n$1\r\n1\r\n");
    exchange(x->fd, "MULTI\r\nINCR k\r\nFOO\r\nEXEC\r\nGET k\r\n",
             "+OK\r\n+QUEUED\r\n-ERR unknown command 'FOO'\r\n-EXECABORT "
             "Transaction discarded because of previous errors.\r\n"
             "$1\r\n1\r\n");
    exchange(x->fd, "MULTI\r\nINCR k\r\nMULTI\r\nDISCARD\r\nGET k\r\n",
             "+OK\r\n+QUEUED\r\n-ERR MULTI calls can not be nested\r\n+OK\r\n"
             "$1\r\n1\r\n");
    exchange(
        x->fd, "MULTI\r\nINCRBY k x\r\nINCR k\r\nDBSIZE\r\nEXEC\r\nPING\r\n",
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
        "*3\r\n-ERR value is not an integer or out of range\r\n:2\r\n:0\r\n"
        "+PONG\r\n");
    exchange(x->fd, "EXEC\r\nDISCARD\r\nMULTI\r\nEXEC\r\n",
             "-ERR EXEC without MULTI\r\n-ERR DISCARD without MULTI\r\n"
             "+OK\r\n*0\r\n");
}

CASE(a_transaction_of_thousands_is_answered_whole, x)
{
    enum { COUNT = 10000 };
    char line[64];

    for (int i = 0; i < COUNT; i++)
        client_send(x->fd, i == 0 ? "MULTI\r\nINCR k\r\n" : "INCR k\r\n",
                    i == 0 ? 15 : 8);
    client_send(x->fd, "EXEC\r\n", 6);
    read_line(x->fd, line, sizeof line);
    for (int i = 0; i < COUNT; i++)
        read_line(x->fd, line, sizeof line);
    exchange(x->fd, "", "*10000\r\n");
    for (int i = 1; i <= COUNT; i++) {
        char want[32];

        (void)snprintf(want, sizeof want, ":%d\r\n", i);
        exchange(x->fd, "", want);
    }
    client_send(x->fd, "MULTI\r\n", 7);
    for (int i = 0; i < COUNT; i++)
        client_send(x->fd, "GET k\r\n", 7);
    exchange(x->fd, "", "+OK\r\n");
    for (int i = 0; i < COUNT; i++)
        exchange(x->fd, "", "+QUEUED\r\n");
    exchange(x->fd, "GET k\r\nEXEC\r\n",
             "-ERR transaction too long\r\n-EXECABORT Transaction discarded "
             "because of previous errors.\r\n");
}

CASE(malformed_frames_and_browsers_are_closed, x)
{
    static const struct {
        const char *send, *answer;
    } cases[] = {
        {"PING\r\n*x\r\n",
         "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n"},
        {"*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
        {"*1\r\n+OK\r\n", "-ERR Protocol error: expected '$', got '+'\r\n"},
        {"INCR k\r\n*1\r\n$4\r\nPINGxx",
         ":1\r\n-ERR Protocol error: expected CRLF after bulk\r\n"},
        {"POST / HTTP/1.1\r\nHost: x\r\n\r\nINCR k\r\n", ""},
        {"\x16\x03\x01\x02\x01\x01\r\nINCR k\r\n",
         "-ERR Protocol error: control byte in an inline command\r\n"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int fd = client_connect(resp_port(x));

        exchange(fd, cases[i].send, cases[i].answer);
        client_expect_end(fd);
        client_close(fd);
    }
    exchange(x->fd, "GET k\r\n", "$1\r\n1\r\n");
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
    exchange(x->fd, "",
             "-ERR Protocol error: request longer than 200704 bytes\r\n");
    client_expect_end(x->fd);
}

CASE(wait_ends_at_its_time, x)
{
    fleet_stop(&x->fleet, FLEET_WORKER); /* nothing is merged any more */
    exchange(x->fd, "INCR k\r\nWAIT 1 20\r\nWAIT 0 0\r\nWAIT 1 -1\r\n",
             ":1\r\n:0\r\n:0\r\n-ERR timeout is negative\r\n");
}

CASE(a_period_is_a_keyspace_of_its_sums, x)
{
    exchange(x->fd, "ZINCRBY b 3 a\r\nZINCRBY b 5 b\r\n",
             "$1\r\n3\r\n$1\r\n5\r\n");
    await_merge(x->fd);
    exchange(x->fd, "ZREVRANGE b@7d 0 -1 WITHSCORES\r\n",
             "*4\r\n$1\r\nb\r\n$1\r\n5\r\n$1\r\na\r\n$1\r\n3\r\n");
    exchange(x->fd, "ZREVRANGE b@1h 1 1\r\nZREVRANGE b@2001-01-01 0 9\r\n",
             "*1\r\n$1\r\na\r\n*0\r\n");
    exchange(x->fd, "ZREVRANGE x@7d 0 -1\r\nZREVRANGE b@7x 0 -1\r\n",
             "*0\r\n*0\r\n");
    exchange(x->fd, "ZRANGE b@1h 1 1 REV\r\nTYPE b@1h\r\n",
             "*1\r\n$1\r\na\r\n+none\r\n");
}

/* Such answers are made in steps, and what is behind them is not forgotten;
 * the last bytes from the client are RESET, and then none. */
CASE(a_transaction_goes_on_behind_its_periods, x)
{
    static const char ask[] = "MULTI\r\nZREVRANGE b@7d 0 -1\r\nINCR k\r\n"
                              "DBSIZE\r\nZREVRANGE b@7d 0 0\r\nPING\r\n"
                              "EXEC\r\n";
    static const char answer[] =
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
        "*5\r\n*1\r\n$1\r\na\r\n:1\r\n:1\r\n*1\r\n$1\r\na\r\n+PONG\r\n";

    exchange(x->fd, "ZINCRBY b 3 a\r\n", "$1\r\n3\r\n");
    await_merge(x->fd);
    client_send(x->fd, ask, sizeof ask - 1);
    client_send(x->fd, "RESET\r\n", 7);
    assert_int_equal(shutdown(x->fd, SHUT_WR), 0);
    exchange(x->fd, "", answer);
    exchange(x->fd, "", "+RESET\r\n");
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

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char line[64];

        (void)snprintf(line, sizeof line, "%s\r\n", commands[i]);
        exchange(x->fd, line,
                 "-ERR a period of a keyspace is only read by ZREVRANGE, or "
                 "ZRANGE with REV\r\n");
    }
    exchange(x->fd, "ZSCORE b@7x a\r\nZCARD b@\r\n", "$-1\r\n:0\r\n");
}

/* ---- load ---------------------------------------------------------------- */

struct load {
    uint16_t port;
    unsigned pipeline, count;
    int64_t *values; /* answered, in order */
    uint64_t acked, unsure, down, open;
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
    exchange(x->fd, "GET k\r\n", "$4\r\n6000\r\n");
}

/* Runs increments on several connections, and `kill` meanwhile, until all have
 * ended.  The loads' sums are in *sum. */
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
        (void)poll(NULL, 0, 50); /* under load: any moment is one */
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

    exchange(x->fd, "INCR k\r\n", ":1\r\n");
    daemon_kill(fleet_daemon(&x->fleet, FLEET_WRITE));
    do {
        client_send(x->fd, "INCR k\r\n", 8);
        read_line(x->fd, line, sizeof line);
    } while (strncmp(line, "-UNSURE", 7) == 0);
    assert_string_equal(
        line,
        "-MASTERDOWN countd-write cannot be reached: nothing was counted\r\n");
    exchange(x->fd, "PING\r\nMULTI\r\nINCR k\r\nEXEC\r\n",
             "+PONG\r\n+OK\r\n+QUEUED\r\n*1\r\n-MASTERDOWN countd-write cannot "
             "be reached: nothing was counted\r\n");
    fleet_start(&x->fleet, FLEET_WRITE);
    until_ms = clock_ms() + (uint64_t)MERGED_MS * test_slow();
    do {
        client_send(x->fd, "INCR k\r\n", 8);
        read_line(x->fd, line, sizeof line);
    } while (line[0] != ':' && clock_ms() < until_ms);
    await_merge(x->fd);
    client_send(x->fd, "GET k\r\n", 7);
    read_line(x->fd, line, sizeof line);
    assert_string_equal(line, "$1\r\n");
    exchange(x->fd, "", "2\r\n");
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
                 "-o", "log.size=64K", NULL);
    fd = client_connect(daemon_port(&second, "resp"));
    for (int i = 0; i < COUNT; i++) {
        client_send(x->fd, "INCR k\r\n", 8);
        client_send(fd, "INCR k\r\n", 8);
        read_line(x->fd, line, sizeof line);
        assert_true(strtoll(line + 1, NULL, 10) >= i + 1);
        assert_true(strtoll(line + 1, NULL, 10) <= 2 * i + 2);
        read_line(fd, line, sizeof line);
        assert_true(strtoll(line + 1, NULL, 10) >= i + 1);
        assert_true(strtoll(line + 1, NULL, 10) <= 2 * i + 2);
    }
    await_merge(x->fd);
    await_merge(fd);
    exchange(x->fd, "GET k\r\n", "$4\r\n1000\r\n");
    exchange(fd, "GET k\r\n", "$4\r\n1000\r\n");
    client_close(fd);
    assert_int_equal(daemon_stop(&second), 0);
    daemon_fini(&second);
}

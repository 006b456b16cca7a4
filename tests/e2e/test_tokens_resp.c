/* tests/e2e/test_tokens_resp.c - http.tokens at the RESP port of the built
 * reader: what a connection may do before AUTH, and with the rights of its
 * token. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/service.h"

#define SHOP "6f1c0b7e2d9a4c53"
#define DESK "clerk-0123456789"
#define BOSS "a8d20c8b5f3e41f7"

#define NOAUTH "-NOAUTH Authentication required.\r\n"
#define UNKNOWN                                                                \
    "-WRONGPASS this token is not known; http.tokens has those that are\r\n"

static int
set_up(void **state)
{
    struct fleet *f;

    assert_int_equal(service_setup(state), 0);
    f = *state;
    service_set_tokens(f, "shop count " SHOP "\ndesk read " DESK
                          "\nboss admin " BOSS "\n");
    fleet_option(f, "resp.listen=127.0.0.1:0");
    service_start(f);
    return 0;
}

#define CASE(name, f) TEST_IN(name, struct fleet *f, set_up, service_teardown)

static int
dial(struct fleet *f)
{
    return client_connect(daemon_port(fleet_daemon(f, FLEET_READ), "resp"));
}

/* Sends bytes and reads as many as the answer has. */
static void
exchange(int fd, const char *send, const char *answer)
{
    static char got[8192];
    size_t n;

    client_send(fd, send, strlen(send));
    n = client_read(fd, got, strlen(answer));
    got[n] = '\0';
    assert_string_equal(got, answer);
}

CASE(without_a_token_nothing_is_counted_or_read, f)
{
    const int fd = dial(f);

    exchange(fd, "PING\r\nINCR k\r\nGET k\r\nSELECT 0\r\nINFO\r\nNOSUCH\r\n",
             "+PONG\r\n" NOAUTH NOAUTH NOAUTH NOAUTH
             "-ERR unknown command 'NOSUCH'\r\n");
    exchange(fd,
             "MULTI\r\nAUTH x\r\nAUTH a b c\r\nHELLO 3 AUTH u " DESK "x\r\n",
             NOAUTH UNKNOWN "-ERR syntax error\r\n" UNKNOWN);
    exchange(fd, "AUTH " BOSS "\r\nGET k\r\nRESET\r\nGET k\r\nQUIT\r\n",
             "+OK\r\n$-1\r\n+RESET\r\n" NOAUTH "+OK\r\n");
    client_expect_end(fd);
    client_close(fd);
}

CASE(a_token_has_its_rights, f)
{
    const int fd = dial(f);

    exchange(fd,
             "AUTH " SHOP "\r\nINCR k\r\nGET k\r\nMULTI\r\nINCR k\r\nEXEC\r\n",
             "+OK\r\n:1\r\n-NOPERM this token lacks the right read\r\n"
             "+OK\r\n+QUEUED\r\n*1\r\n:2\r\n");
    exchange(fd, "MULTI\r\nZCARD b\r\nEXEC\r\n",
             "+OK\r\n-NOPERM this token lacks the right read\r\n"
             "-EXECABORT Transaction discarded because of previous "
             "errors.\r\n");
    exchange(fd, "AUTH desk " DESK "\r\nGET k\r\nZINCRBY b 1 m\r\n",
             "+OK\r\n$1\r\n2\r\n-NOPERM this token lacks the right count\r\n");
    exchange(fd, "HELLO 2 AUTH boss " BOSS " SETNAME n\r\n",
             "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n"
             "$5\r\n7.0.0\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n"
             "$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
             "$7\r\nmodules\r\n*0\r\n");
    exchange(fd, "INCR k\r\nGET k\r\n", ":3\r\n$1\r\n3\r\n");
    /* A token that is not known changes nothing. */
    exchange(fd, "AUTH x\r\nINCR k\r\n", UNKNOWN ":4\r\n");
    client_close(fd);
}

CASE(a_token_that_is_taken_back_ends_its_rights, f)
{
    const int fd = dial(f);
    const uint64_t until_ms = clock_ms() + 20000;
    char got[64] = "";

    exchange(fd, "AUTH " SHOP "\r\nINCR k\r\n", "+OK\r\n:1\r\n");
    service_set_tokens(f, "desk read " DESK "\n");
    while (strncmp(got, "-NOAUTH", 7) != 0) {
        assert_true(clock_ms() < until_ms);
        client_send(fd, "INCR k\r\n", 8);
        assert_true(client_try_read(fd, got, sizeof got, 10000) > 0);
    }
    client_close(fd);
}

/* The mode of the socket says who may connect. */
CASE(the_socket_of_the_directory_needs_no_token, f)
{
    struct net_address a = {.local = {.sun_family = AF_UNIX},
                            .size = sizeof a.local};
    int fd;

    assert_in_range(snprintf(a.local.sun_path, sizeof a.local.sun_path,
                             "%s/socket/resp", f->path),
                    1, sizeof a.local.sun_path - 1);
    fd = client_connect_to(&a);
    assert_true(fd >= 0);
    exchange(fd, "INCR k\r\nRESET\r\nGET k\r\n", ":1\r\n+RESET\r\n$1\r\n1\r\n");
    client_close(fd);
}

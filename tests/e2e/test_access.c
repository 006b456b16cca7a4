/* tests/e2e/test_access.c - http.tokens and read.cors at the HTTP and RESP
 * ports of the built daemons: which requests are refused, and which need no
 * token. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define SHOP  "6f1c0b7e2d9a4c53"
#define CLERK "clerk-0123456789"
#define BOSS  "a8d20c8b5f3e41f7"

static int
set_up(void **state)
{
    assert_int_equal(
        service_setup_with(state, "counter.enable=off",
                           "http.listen=127.0.0.1:0", "read.http=127.0.0.1:0",
                           "sequence.enable=on", "quota.enable=on",
                           "quota.limit=100", "resp.listen=127.0.0.1:0", NULL),
        0);
    service_set_tokens(*state, "shop count " SHOP "\nclerk read,quota " CLERK
                               "\nboss admin " BOSS "\n");
    service_start(*state);
    return 0;
}

#define CASE(name, f) TEST_IN(name, struct fleet *f, set_up, service_teardown)

/* The status of a request; head and body are in `text`. */
static int
ask_with_token(struct fleet *f, enum fleet_role role, const char *token,
               const char *target, const char *options)
{
    const char *port = role == FLEET_WRITE ? "http" : "read-http";
    char command[1024];
    FILE *from;
    size_t size;
    int status;

    snprintf(command, sizeof command,
             "curl -si %s %s%s%s %s 'http://127.0.0.1:%u%s'", options,
             token ? "-H 'Authorization: Bearer " : "", token ? token : "",
             token ? "'" : "", "--max-time 60",
             (unsigned)daemon_port(fleet_daemon(f, role), port), target);
    from = popen(command, "r");
    assert_non_null(from);
    size = fread(text, 1, sizeof text - 1, from);
    text[size] = '\0';
    assert_int_equal(pclose(from), 0);
    assert_int_equal(sscanf(text, "HTTP/1.1 %d", &status), 1);
    return status;
}

#define COUNT "-H 'Content-Type: text/tab-separated-values' -d 'k\tx'"

CASE(a_request_without_a_good_token_is_refused, f)
{
    assert_int_equal(ask_with_token(f, FLEET_READ, NULL, "/v1/keyspaces", ""),
                     401);
    assert_has(text, "WWW-Authenticate: Bearer realm=\"countd\"\r\n");
    assert_has(text, "\"code\": \"no-token\"");
    assert_int_equal(
        ask_with_token(f, FLEET_READ, NULL, "/v1/keyspaces", "-u boss:" BOSS),
        401);
    assert_int_equal(
        ask_with_token(f, FLEET_READ, BOSS "0", "/v1/keyspaces", ""), 401);
    assert_has(text, "\"code\": \"bad-token\"");
    assert_int_equal(ask_with_token(f, FLEET_READ, NULL, "/metrics", ""), 401);
    assert_int_equal(ask_with_token(f, FLEET_READ, NULL, "/nosuch", ""), 401);
    assert_int_equal(ask_with_token(f, FLEET_WRITE, NULL, "/v1/count", COUNT),
                     401);
    assert_int_equal(ask_with_token(f, FLEET_WRITE, NULL, "/v1/count",
                                    COUNT " -H 'Expect: 100-continue'"),
                     401);
    assert_int_equal(ask_with_token(f, FLEET_WRITE, NULL, "/fetch", ""), 401);
    assert_int_equal(ask_with_token(f, FLEET_WRITE, NULL, "/apply?amt=1", ""),
                     401);
    assert_int_equal(ask_with_token(f, FLEET_READ, NULL, "/healthz", ""), 200);
    assert_int_equal(ask_with_token(f, FLEET_WRITE, NULL, "/readyz", ""), 200);
}

CASE(a_token_opens_what_it_has_the_right_to, f)
{
    assert_int_equal(ask_with_token(f, FLEET_WRITE, SHOP, "/v1/count", COUNT),
                     200);
    assert_int_equal(ask_with_token(f, FLEET_WRITE, BOSS, "/v1/count", COUNT),
                     200);
    assert_int_equal(ask_with_token(f, FLEET_WRITE, CLERK, "/v1/count", COUNT),
                     403);
    assert_has(text, "\"code\": \"no-right\"");
    expect(FLEET_RUN(f, "flush"), 111, "COUNTD_TOKEN");
    assert_int_equal(setenv("COUNTD_TOKEN", CLERK, 1), 0);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(unsetenv("COUNTD_TOKEN"), 0);
    assert_int_equal(
        ask_with_token(f, FLEET_READ, CLERK, "/v1/total?keyspace=k", ""), 200);
    assert_has(text, "\"total\": 2");
    assert_int_equal(
        ask_with_token(f, FLEET_READ, SHOP, "/v1/total?keyspace=k", ""), 403);

    assert_int_equal(ask_with_token(f, FLEET_WRITE, CLERK, "/fetch", ""), 200);
    assert_int_equal(ask_with_token(f, FLEET_WRITE, SHOP, "/fetch", ""), 403);
    assert_int_equal(ask_with_token(f, FLEET_WRITE, CLERK, "/apply?amt=1", ""),
                     200);
    assert_int_equal(
        ask_with_token(f, FLEET_WRITE, CLERK, "/increase?amt=1", ""), 403);
    assert_int_equal(
        ask_with_token(f, FLEET_WRITE, CLERK, "/quota/new?limit=5", "-X POST"),
        403);
    assert_int_equal(
        ask_with_token(f, FLEET_WRITE, BOSS, "/quota/new?limit=5", "-X POST"),
        201);
    assert_int_equal(
        ask_with_token(f, FLEET_WRITE, CLERK, "/quota/new", "-X DELETE"), 403);
    assert_int_equal(
        ask_with_token(f, FLEET_WRITE, CLERK, "/quota/new/query", ""), 200);
}

/* The mode of a socket says who may connect. */
CASE(a_unix_socket_needs_no_token, f)
{
    char options[700];

    snprintf(options, sizeof options, "--unix-socket %s/socket/http", f->path);
    assert_int_equal(ask_with_token(f, FLEET_WRITE, NULL, "/fetch", options),
                     200);
}

/* Runs `countd seq` at the port; its status. */
static int
run_seq(struct fleet *f, const char *token)
{
    char listen[64], variable[160];
    const char *const argv[] = {"seq", "-o", listen, NULL};
    const char *const env[] = {"COUNTD_CONF=", variable, NULL};
    const struct daemon_how how = {.argv = argv, .env = env};

    snprintf(listen, sizeof listen, "http.listen=127.0.0.1:%u",
             (unsigned)fleet_writer_port(f, "http"));
    snprintf(variable, sizeof variable, "COUNTD_TOKEN=%s", token);
    return expect_run("countd", &how);
}

CASE(commands_send_the_token_of_their_environment, f)
{
    assert_int_equal(run_seq(f, CLERK), 0);
    expect(run_seq(f, SHOP), 111, "COUNTD_TOKEN");
    expect(run_seq(f, "a\nHost: evil"), 100, "COUNTD_TOKEN");
}

#define SITE  "-H 'Origin: https://dash.example' "
#define SHOWN "Access-Control-Allow-Origin: https://dash.example\r\n"

CASE(pages_of_listed_sites_may_ask, f)
{
    static const char total[] = "/v1/total?keyspace=k";

    fleet_stop(f, FLEET_READ);
    fleet_option(f, "read.cors=http://a.b https://Dash.example");
    fleet_start(f, FLEET_READ);
    assert_int_equal(ask_with_token(f, FLEET_READ, CLERK, total,
                                    SITE "-H 'Sec-Fetch-Site: cross-site'"),
                     404);
    assert_has(text, SHOWN "Access-Control-Expose-Headers: ETag, "
                           "Link, X-Countd-As-Of\r\n");
    assert_int_equal(ask_with_token(f, FLEET_READ, NULL, total, SITE), 401);
    assert_has(text, SHOWN);
    assert_int_equal(
        ask_with_token(f, FLEET_READ, NULL, total, SITE "-X OPTIONS"), 204);
    assert_has(text, SHOWN "Access-Control-Allow-Methods: GET, HEAD\r\n"
                           "Access-Control-Allow-Headers: Authorization, "
                           "If-None-Match\r\n"
                           "Access-Control-Max-Age: 600\r\n");
    assert_int_equal(ask_with_token(f, FLEET_READ, CLERK, "/v1/keyspaces", ""),
                     200);
    assert_has(text, "Vary: Origin\r\n");
    assert_lacks(text, "Access-Control");
    assert_int_equal(ask_with_token(f, FLEET_READ, CLERK, "/v1/keyspaces",
                                    "-H 'Origin: https://dash.example.org'"),
                     403);
    assert_lacks(text, "Access-Control");
    assert_int_equal(
        ask_with_token(f, FLEET_WRITE, SHOP, "/v1/count", SITE COUNT), 403);
    assert_int_equal(
        ask_with_token(f, FLEET_WRITE, SHOP, "/v1/count", SITE "-X OPTIONS"),
        403);
}

/* ---- RESP ---------------------------------------------------------------- */

#define NOAUTH "-NOAUTH Authentication required.\r\n"
#define UNKNOWN                                                                \
    "-WRONGPASS this token is not known; http.tokens has those that are\r\n"

/* Sends bytes and reads as many as the answer has. */
static void
expect_exchange(int fd, const char *send, const char *answer)
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
    const int fd = fleet_resp(f);

    expect_exchange(fd,
                    "PING\r\nINCR k\r\nGET k\r\nSELECT 0\r\nINFO\r\nNOSUCH\r\n",
                    "+PONG\r\n" NOAUTH NOAUTH NOAUTH NOAUTH
                    "-ERR unknown command 'NOSUCH'\r\n");
    expect_exchange(
        fd, "MULTI\r\nAUTH x\r\nAUTH a b c\r\nHELLO 3 AUTH u " CLERK "x\r\n",
        NOAUTH UNKNOWN "-ERR syntax error\r\n" UNKNOWN);
    expect_exchange(fd, "AUTH " BOSS "\r\nGET k\r\nRESET\r\nGET k\r\nQUIT\r\n",
                    "+OK\r\n$-1\r\n+RESET\r\n" NOAUTH "+OK\r\n");
    client_expect_end(fd);
    client_close(fd);
}

CASE(a_token_has_its_rights, f)
{
    const int fd = fleet_resp(f);

    expect_exchange(
        fd, "AUTH " SHOP "\r\nINCR k\r\nGET k\r\nMULTI\r\nINCR k\r\nEXEC\r\n",
        "+OK\r\n:1\r\n-NOPERM this token lacks the right read\r\n"
        "+OK\r\n+QUEUED\r\n*1\r\n:2\r\n");
    expect_exchange(fd, "MULTI\r\nZCARD b\r\nEXEC\r\n",
                    "+OK\r\n-NOPERM this token lacks the right read\r\n"
                    "-EXECABORT Transaction discarded because of previous "
                    "errors.\r\n");
    expect_exchange(
        fd, "AUTH clerk " CLERK "\r\nGET k\r\nZINCRBY b 1 m\r\n",
        "+OK\r\n$1\r\n2\r\n-NOPERM this token lacks the right count\r\n");
    expect_exchange(
        fd, "HELLO 2 AUTH boss " BOSS " SETNAME n\r\n",
        "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n"
        "$5\r\n7.0.0\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n"
        "$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
        "$7\r\nmodules\r\n*0\r\n");
    expect_exchange(fd, "INCR k\r\nGET k\r\n", ":3\r\n$1\r\n3\r\n");
    /* A token that is not known changes nothing. */
    expect_exchange(fd, "AUTH x\r\nINCR k\r\n", UNKNOWN ":4\r\n");
    client_close(fd);
}

CASE(a_token_that_is_taken_back_ends_its_rights, f)
{
    const int fd = fleet_resp(f);
    const uint64_t until_ms = clock_ms() + 20000;
    char got[64] = "";

    expect_exchange(fd, "AUTH " SHOP "\r\nINCR k\r\n", "+OK\r\n:1\r\n");
    service_set_tokens(f, "clerk read " CLERK "\n");
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
    expect_exchange(fd, "INCR k\r\nRESET\r\nGET k\r\n",
                    ":1\r\n+RESET\r\n$1\r\n1\r\n");
    client_close(fd);
}

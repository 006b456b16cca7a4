/* tests/e2e/test_http_access.c - http.tokens and read.cors at the HTTP ports of
 * the built daemons: which requests get 401 or 403, and which need no token. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define SHOP  "6f1c0b7e2d9a4c53"
#define CLERK "clerk-0123456789"
#define BOSS  "a8d20c8b5f3e41f7"

static int
set_up(void **state)
{
    assert_int_equal(service_setup_with(
                         state, "counter.enable=off", "http.listen=127.0.0.1:0",
                         "read.http=127.0.0.1:0", "sequence.enable=on",
                         "quota.enable=on", "quota.limit=100", NULL),
                     0);
    service_set_tokens(*state, "shop count " SHOP "\nclerk read,quota " CLERK
                               "\nboss admin " BOSS "\n");
    service_start(*state);
    return 0;
}

#define CASE(name, f) TEST_IN(name, struct fleet *f, set_up, service_teardown)

/* The status of a request; head and body are in `text`. */
static int
ask(struct fleet *f, enum fleet_role role, const char *token,
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
    assert_int_equal(ask(f, FLEET_READ, NULL, "/v1/keyspaces", ""), 401);
    assert_non_null(
        strstr(text, "WWW-Authenticate: Bearer realm=\"countd\"\r\n"));
    assert_non_null(strstr(text, "\"code\": \"no-token\""));
    assert_int_equal(ask(f, FLEET_READ, NULL, "/v1/keyspaces", "-u boss:" BOSS),
                     401);
    assert_int_equal(ask(f, FLEET_READ, BOSS "0", "/v1/keyspaces", ""), 401);
    assert_non_null(strstr(text, "\"code\": \"bad-token\""));
    assert_int_equal(ask(f, FLEET_READ, NULL, "/metrics", ""), 401);
    assert_int_equal(ask(f, FLEET_READ, NULL, "/nosuch", ""), 401);
    assert_int_equal(ask(f, FLEET_WRITE, NULL, "/v1/count", COUNT), 401);
    assert_int_equal(ask(f, FLEET_WRITE, NULL, "/v1/count",
                         COUNT " -H 'Expect: 100-continue'"),
                     401);
    assert_int_equal(ask(f, FLEET_WRITE, NULL, "/fetch", ""), 401);
    assert_int_equal(ask(f, FLEET_WRITE, NULL, "/apply?amt=1", ""), 401);
    assert_int_equal(ask(f, FLEET_READ, NULL, "/healthz", ""), 200);
    assert_int_equal(ask(f, FLEET_WRITE, NULL, "/readyz", ""), 200);
}

CASE(a_token_opens_what_it_has_the_right_to, f)
{
    assert_int_equal(ask(f, FLEET_WRITE, SHOP, "/v1/count", COUNT), 200);
    assert_int_equal(ask(f, FLEET_WRITE, BOSS, "/v1/count", COUNT), 200);
    assert_int_equal(ask(f, FLEET_WRITE, CLERK, "/v1/count", COUNT), 403);
    assert_non_null(strstr(text, "\"code\": \"no-right\""));
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(ask(f, FLEET_READ, CLERK, "/v1/total?keyspace=k", ""),
                     200);
    assert_non_null(strstr(text, "\"total\": 2"));
    assert_int_equal(ask(f, FLEET_READ, SHOP, "/v1/total?keyspace=k", ""), 403);

    assert_int_equal(ask(f, FLEET_WRITE, CLERK, "/fetch", ""), 200);
    assert_int_equal(ask(f, FLEET_WRITE, SHOP, "/fetch", ""), 403);
    assert_int_equal(ask(f, FLEET_WRITE, CLERK, "/apply?amt=1", ""), 200);
    assert_int_equal(ask(f, FLEET_WRITE, CLERK, "/increase?amt=1", ""), 403);
    assert_int_equal(
        ask(f, FLEET_WRITE, CLERK, "/quota/new?limit=5", "-X POST"), 403);
    assert_int_equal(ask(f, FLEET_WRITE, BOSS, "/quota/new?limit=5", "-X POST"),
                     201);
    assert_int_equal(ask(f, FLEET_WRITE, CLERK, "/quota/new", "-X DELETE"),
                     403);
    assert_int_equal(ask(f, FLEET_WRITE, CLERK, "/quota/new/query", ""), 200);
}

/* The mode of a socket says who may connect. */
CASE(a_unix_socket_needs_no_token, f)
{
    char options[700];

    snprintf(options, sizeof options, "--unix-socket %s/socket/http", f->path);
    assert_int_equal(ask(f, FLEET_WRITE, NULL, "/fetch", options), 200);
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
             (unsigned)daemon_port(fleet_daemon(f, FLEET_WRITE), "http"));
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
    fleet_option(f, "read.cors=http://a.b https://dash.example");
    fleet_start(f, FLEET_READ);
    assert_int_equal(ask(f, FLEET_READ, CLERK, total,
                         SITE "-H 'Sec-Fetch-Site: cross-site'"),
                     404);
    assert_non_null(strstr(text, SHOWN "Access-Control-Expose-Headers: ETag, "
                                       "Link, X-Countd-As-Of\r\n"));
    assert_int_equal(ask(f, FLEET_READ, NULL, total, SITE), 401);
    assert_non_null(strstr(text, SHOWN));
    assert_int_equal(ask(f, FLEET_READ, NULL, total, SITE "-X OPTIONS"), 204);
    assert_non_null(strstr(text,
                           SHOWN "Access-Control-Allow-Methods: GET, HEAD\r\n"
                                 "Access-Control-Allow-Headers: Authorization, "
                                 "If-None-Match\r\n"
                                 "Access-Control-Max-Age: 600\r\n"));
    assert_int_equal(ask(f, FLEET_READ, CLERK, "/v1/keyspaces", ""), 200);
    assert_non_null(strstr(text, "Vary: Origin\r\n"));
    assert_null(strstr(text, "Access-Control"));
    assert_int_equal(ask(f, FLEET_READ, CLERK, "/v1/keyspaces",
                         "-H 'Origin: https://dash.example.org'"),
                     403);
    assert_null(strstr(text, "Access-Control"));
    assert_int_equal(ask(f, FLEET_WRITE, SHOP, "/v1/count", SITE COUNT), 403);
    assert_int_equal(ask(f, FLEET_WRITE, SHOP, "/v1/count", SITE "-X OPTIONS"),
                     403);
}

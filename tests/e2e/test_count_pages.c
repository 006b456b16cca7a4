/* tests/e2e/test_count_pages.c - count.cors: pages of sites that are named count,
 * into the keyspaces that are named, and those of others can neither count nor
 * read; by plain exchanges, and in Debian's chromium. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/answer.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define BROWSER   "/usr/bin/chromium"
#define BROWSE_MS 60000
#define SHOP      "Origin: https://shop.example\r\n"
#define OTHER     "Origin: https://other.example\r\n"
#define PLAIN     "Content-Type: text/plain;charset=UTF-8\r\n"
#define JSON      "Content-Type: application/json\r\n"
#define VIEW      "{\"keyspace\":\"views\",\"key\":\"/a\"}"
#define SHOWN     "\r\nAccess-Control-Allow-Origin: https://shop.example\r\n"

static struct answer got;

#define CASE(name, f)                                                          \
    TEST_SERVICE(name, f, "counter.enable=off", "http.listen=127.0.0.1:0",     \
                 "count.cors=https://shop.example http://127.0.0.1:1",         \
                 "count.cors_keyspaces=views clicks.*")
#define OFF(name, f)                                                           \
    TEST_SERVICE(name, f, "counter.enable=off", "http.listen=127.0.0.1:0")

/* A request on a connection of its own; its status. */
static int
ask_writer(struct fleet *f, const char *method, const char *target,
           const char *more, const char *body)
{
    const int fd = fleet_http(f);
    char request[2048];
    const int size = snprintf(request, sizeof request,
                              "%s %s HTTP/1.1\r\nHost: localhost\r\n%s"
                              "Content-Length: %zu\r\n\r\n%s",
                              method, target, more, strlen(body), body);

    client_send(fd, request, (size_t)size);
    /* The answer to a preflight has no length. */
    if (strcmp(method, "OPTIONS") == 0)
        answer_read_head(fd, &got);
    else
        answer_read(fd, &got);
    client_close(fd);
    return got.status;
}

static int
post_counts(struct fleet *f, const char *more, const char *body)
{
    return ask_writer(f, "POST", "/v1/count", more, body);
}

static void
expect_count(struct fleet *f, const char *keyspace, const char *key,
             int64_t count)
{
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(service_count(f, keyspace, key), count);
}

/* ---- exchanges ----------------------------------------------------------- */

CASE(a_page_of_a_named_site_counts_and_reads_its_answer, f)
{
    service_start(f);
    assert_int_equal(
        post_counts(f, SHOP PLAIN "Sec-Fetch-Site: cross-site\r\n", VIEW), 200);
    assert_has(got.head, SHOWN);
    assert_has(got.head, "\r\nVary: Origin\r\n");
    assert_lacks(got.head, "Credentials");
    assert_int_equal(post_counts(f, SHOP JSON,
                                 "[" VIEW
                                 ",{\"keyspace\":\"clicks.a\",\"key\":\"b\","
                                 "\"n\":7}]"),
                     200);
    expect_count(f, "views", "/a", 2);
    expect_count(f, "clicks.a", "b", 7);
    assert_int_equal(post_counts(f, JSON, VIEW), 200);
    assert_lacks(got.head, "Access-Control");
}

CASE(its_preflight_is_answered_and_may_be_cached, f)
{
    service_start(f);
    assert_int_equal(
        ask_writer(f, "OPTIONS", "/v1/count",
                   SHOP "Access-Control-Request-Method: POST\r\n"
                        "Access-Control-Request-Headers: content-type\r\n",
                   ""),
        204);
    assert_has(got.head, SHOWN "Access-Control-Allow-Methods: POST\r\n"
                               "Access-Control-Allow-Headers: Content-Type, "
                               "Idempotency-Key\r\n"
                               "Access-Control-Max-Age: 7200\r\n");
    assert_int_equal(ask_writer(f, "OPTIONS", "/v1/count", OTHER, ""), 403);
    assert_lacks(got.head, "Access-Control");
}

CASE(a_page_counts_into_the_keyspaces_that_are_named_and_little_at_a_time, f)
{
    static const char *const bodies[] = {
        "{\"keyspace\":\"money\",\"key\":\"k\"}",
        "{\"keyspace\":\"clicks\",\"key\":\"k\"}",
        "[" VIEW ",{\"keyspace\":\"money\",\"key\":\"k\"}]",
        "{\"keyspace\":\"views\",\"key\":\"k\",\"n\":-1}",
        "{\"keyspace\":\"views\",\"key\":\"k\",\"n\":1001}",
    };

    service_start(f);
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        assert_int_equal(post_counts(f, SHOP PLAIN, bodies[i]), 403);
        assert_has(got.body, "\"not-for-pages\"");
        assert_has(got.head, SHOWN);
        assert_int_equal(
            post_counts(f, SHOP JSON "Idempotency-Key: k\r\n", bodies[i]), 403);
    }
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    expect_text(FLEET_RUN(f, "export"), 0, "");
}

CASE(a_page_can_do_nothing_but_count, f)
{
    service_start(f);
    assert_int_equal(ask_writer(f, "GET", "/v1/count", SHOP, ""), 405);
    assert_int_equal(ask_writer(f, "GET", "/healthz", SHOP, ""), 200);
    assert_lacks(got.head, "Access-Control");
    assert_int_equal(ask_writer(f, "GET", "/v1/none", SHOP, ""), 403);
    assert_int_equal(post_counts(f, SHOP "Host: evil.example\r\n" PLAIN, VIEW),
                     400);
}

/* In the headers of a browser, and in those that others may forge. */
CASE(a_foreign_page_can_not_count, f)
{
    static const char *const heads[] = {
        OTHER PLAIN,
        OTHER JSON,
        "Origin: null\r\n" PLAIN,
        "Sec-Fetch-Site: cross-site\r\n" PLAIN,
        "Referer: https://shop.example/\r\n" PLAIN,
        "Origin: https://shop.example.org\r\n" PLAIN,
        "Origin: http://shop.example\r\n" PLAIN};

    service_start(f);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        assert_int_equal(post_counts(f, heads[i], VIEW), 403);
        assert_has(got.body, "count.cors");
        assert_lacks(got.head, "Access-Control");
    }
    /* Without a page that is not a type of increments. */
    assert_int_equal(post_counts(f, PLAIN, VIEW), 415);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    expect_text(FLEET_RUN(f, "export"), 0, "");
}

#define LOCAL "Origin: http://127.0.0.1:1\r\n"
#define MANY  40

CASE(the_pages_of_each_site_have_a_rate, f)
{
    char many[MANY * sizeof VIEW + 2] = "[" VIEW;
    int counted = 0, refused = 0;

    fleet_option(f, "count.cors_rate=3");
    service_start(f);
    while (refused == 0) {
        const int status = post_counts(f, SHOP PLAIN, VIEW);

        counted += status == 200;
        refused += status == 429;
        assert_true(status == 200 || status == 429);
    }
    assert_has(got.head, "\r\nRetry-After: 1\r\n");
    assert_true(counted >= 3);
    /* Those of another site have one of their own, which is used up for ten
     * seconds then: no body is looked at. */
    for (int i = 1; i < MANY; i++)
        (void)strcat(many, "," VIEW);
    assert_int_equal(post_counts(f, LOCAL PLAIN, strcat(many, "]")), 200);
    assert_int_equal(post_counts(f, LOCAL PLAIN, "no JSON"), 429);
    assert_int_equal(post_counts(f, JSON, VIEW), 200);
    expect_count(f, "views", "/a", counted + MANY + 1);
}

CASE(a_page_needs_no_token, f)
{
    service_set_tokens(f, "clerk read 0123456789abcdef0123456789abcdef\n");
    service_start(f);
    assert_int_equal(post_counts(f, SHOP PLAIN, VIEW), 200);
    assert_int_equal(post_counts(f, JSON, VIEW), 401);
}

OFF(no_page_counts_by_default, f)
{
    service_start(f);
    assert_int_equal(post_counts(f, SHOP PLAIN, VIEW), 403);
    assert_int_equal(post_counts(f, SHOP JSON, VIEW), 403);
    assert_int_equal(ask_writer(f, "OPTIONS", "/v1/count", SHOP, ""), 403);
    assert_lacks(got.head, "Access-Control");
    assert_int_equal(post_counts(f, JSON, VIEW), 200);
    assert_lacks(got.head, "Vary");
}

/* ---- a browser ----------------------------------------------------------- */

/* Counts in each way that a page has, and writes what came of it into the
 * document; the page that loads it waits until all have ended. */
static const char page[] =
    "<!doctype html><body>begun<script>\n"
    "const site = new URLSearchParams(location.search);\n"
    "const url = 'http://127.0.0.1:' + site.get('port') + '/v1/count';\n"
    "const body = how => JSON.stringify({keyspace: 'views', key:\n"
    "  site.get('who') + ' ' + how});\n"
    "const ask = (how, init) => fetch(url, {method: 'POST', body: body(how),\n"
    "  ...init}).then(a => a.type == 'opaque' ? 'opaque' : a.status,\n"
    "  () => 'error');\n"
    "const json = {headers: {'content-type': 'application/json'}};\n"
    "(async () => {\n"
    "  const said = [await ask('json', json), await ask('json', json),\n"
    "    await ask('plain', {}), await ask('opaque', {mode: 'no-cors'}),\n"
    "    navigator.sendBeacon(url, body('beacon')),\n"
    "    await fetch(url.replace('/v1/count', '/healthz')).then(a => "
    "a.status,\n"
    "      () => 'error')];\n"
    "  document.body.textContent = 'said ' + said.join(' ');\n"
    "})();\n"
    "</script>\n";

/* What the page says, from a site of its own. */
static void
browse_site(struct fleet *f, struct tmpdir *home, unsigned site,
            const char *who, const char *want)
{
    char profile[600], url[200], variable[600];
    const char *const argv[] = {"--headless",
                                "--no-sandbox",
                                "--disable-gpu",
                                "--disable-dev-shm-usage",
                                "--disable-background-networking",
                                "--disable-component-update",
                                "--disable-breakpad",
                                "--no-first-run",
                                "--no-proxy-server",
                                "--virtual-time-budget=20000",
                                "--dump-dom",
                                profile,
                                url,
                                NULL};
    const char *const env[] = {variable, NULL};
    const struct daemon_how how = {.argv = argv, .env = env};

    (void)snprintf(profile, sizeof profile, "--user-data-dir=%s/%s", home->path,
                   who);
    (void)snprintf(variable, sizeof variable, "HOME=%s", home->path);
    (void)snprintf(url, sizeof url,
                   "http://127.0.0.1:%u/page.html?port=%u&who=%s", site,
                   fleet_writer_port(f, "http"), who);
    (void)daemon_run_how(text, sizeof text, BROWSER, &how);
    assert_has(text, want);
}

/* Serves the page at a port, as python3 does. */
static void
serve_page(struct daemon *d, const struct tmpdir *dir, unsigned port)
{
    char number[8];
    const char *const argv[] = {"-m", "http.server", "--bind", "127.0.0.1",
                                "-d", dir->path,     number,   NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    const uint64_t until_ms = clock_ms() + BROWSE_MS;
    int fd;

    (void)snprintf(number, sizeof number, "%u", port);
    (void)daemon_start_how(d, "/usr/bin/python3", &how); /* fails itself */
    while ((fd = client_try_connect((uint16_t)port)) < 0) {
        assert_true(clock_ms() < until_ms);
        (void)poll(NULL, 0, 10); /* paces the looking */
    }
    client_close(fd);
}

OFF(peer_pages_of_a_named_site_count_in_a_browser_and_foreign_ones_do_not, f)
{
    static const char *const ways[] = {"json", "plain", "opaque", "beacon"};
    const unsigned ours = daemon_free_port(), theirs = daemon_free_port();
    struct daemon sites[2];
    struct tmpdir home;
    char option[64], key[32];

    if (access(BROWSER, X_OK) != 0 || access("/usr/bin/python3", X_OK) != 0)
        test_skip("no " BROWSER " or no python3");
    (void)snprintf(option, sizeof option, "count.cors=http://127.0.0.1:%u",
                   ours);
    fleet_option(f, option);
    fleet_option(f, "count.cors_keyspaces=views");
    service_start(f);
    tmpdir_make(&home);
    tmpdir_put(&home, "page.html", page, sizeof page - 1, 0644);
    serve_page(&sites[0], &home, ours);
    serve_page(&sites[1], &home, theirs);

    browse_site(f, &home, ours, "ours", "said 200 200 200 opaque true error");
    browse_site(f, &home, theirs, "theirs",
                "said error error error opaque true error");

    expect_text(FLEET_RUN(f, "flush"), 0, "");
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        (void)snprintf(key, sizeof key, "ours %s", ways[i]);
        assert_int_equal(service_count(f, "views", key), i == 0 ? 2 : 1);
    }
    assert_int_equal(service_total(f, "views"), 5);
    for (size_t i = 0; i < 2; i++)
        daemon_fini(&sites[i]);
    tmpdir_remove(&home);
}

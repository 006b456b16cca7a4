/* tests/e2e/test_count_pages.c - count.cors in Debian's chromium: the transcript
 * count_pages.txt has what is exchanged. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define BROWSER   "/usr/bin/chromium"
#define BROWSE_MS 60000

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

TEST_SERVICE(
    peer_pages_of_a_named_site_count_in_a_browser_and_foreign_ones_do_not, f,
    "counter.enable=off", "http.listen=127.0.0.1:0")
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

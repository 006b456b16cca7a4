/* tests/e2e/test_metrics.c - /metrics of countd-read before a real Prometheus:
 * it is scraped, the rules of the alerts are evaluated, each fires where it has
 * to (alerts_test.yml), and each panel of the dashboard has a value.  Where
 * TEST_PEERS is set.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/answer.h"
#include "tests/lib/expect.h"
#include "tests/lib/file.h"
#include "tests/lib/service.h"

#define PROMETHEUS "/usr/bin/prometheus"
#define PROMTOOL   "/usr/bin/promtool"
#define WAIT_MS    60000
#define PANELS     10
#define ALERTS     26

static struct daemon prometheus;

static int
set_up(void **state)
{
    prometheus.output = -1;
    assert_int_equal(service_setup_with(state, "counter.enable=off",
                                        "http.listen=127.0.0.1:0",
                                        "read.http=127.0.0.1:0", NULL),
                     0);
    service_start(*state);
    return 0;
}

static int
tear_down(void **state)
{
    if (prometheus.output >= 0) {
        daemon_kill(&prometheus);
        daemon_fini(&prometheus);
    }
    return service_teardown(state);
}

#define CASE(name, f) TEST_IN(name, struct fleet *f, set_up, tear_down)

/* ---- prometheus ---------------------------------------------------------- */

static void
put_settings(struct fleet *f)
{
    char folder[512], settings[1024];
    int n;

    assert_non_null(getcwd(folder, sizeof folder));
    n = snprintf(
        settings, sizeof settings,
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        "rule_files: ['%s/reader/alerts.yml']\n"
        "scrape_configs:\n"
        "- job_name: countd\n"
        "  static_configs: [{targets: ['127.0.0.1:%u']}]\n",
        folder,
        (unsigned)daemon_port(fleet_daemon(f, FLEET_READ), "read-http"));
    assert_in_range(n, 1, sizeof settings - 1);
    tmpdir_put(&f->dir, "prometheus.yml", settings, (size_t)n, 0600);
}

/* Starts it on a free port, and returns that. */
static unsigned
start_prometheus(struct fleet *f)
{
    static const char said[] = "msg=\"Listening on\" address=127.0.0.1:";
    const uint64_t deadline = test_deadline(WAIT_MS);
    char config[700], storage[700];
    const char *const argv[] = {config, storage,
                                "--web.listen-address=127.0.0.1:0", NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    const char *at = NULL;

    put_settings(f);
    (void)snprintf(config, sizeof config, "--config.file=%s/prometheus.yml",
                   f->dir.path);
    (void)snprintf(storage, sizeof storage, "--storage.tsdb.path=%s/tsdb",
                   f->dir.path);
    (void)daemon_start_how(&prometheus, PROMETHEUS, &how); /* fails itself */
    while (!at) {
        (void)daemon_output(&prometheus, text, sizeof text);
        at = strstr(text, said);
        if (!at && (clock_ms() > deadline || !daemon_alive(&prometheus)))
            fail_msg("prometheus does not listen: %s", text);
    }
    return (unsigned)strtoul(at + sizeof said - 1, NULL, 10);
}

/* Asks until the answer has these words; counts meanwhile, so that rates are
 * above 0. */
static void
await_answer(struct fleet *f, unsigned port, const char *request,
             const char *words)
{
    const uint64_t deadline = test_deadline(WAIT_MS);
    char command[1024];

    (void)snprintf(command, sizeof command,
                   "curl -sSG 'http://127.0.0.1:%u/api/v1/'%s 2>&1; true", port,
                   request);
    do {
        service_add(f, "pages", "/index", 1);
        answer_shell(f, command);
        if (clock_ms() > deadline)
            fail_msg("%s has no %s: %s", request, words, text);
    } while (!strstr(text, words));
}

static void
await_value(struct fleet *f, unsigned port, const char *expression)
{
    char request[800];

    (void)snprintf(request, sizeof request, "query --data-urlencode 'query=%s'",
                   expression);
    await_answer(f, port, request, "\"result\":[{");
}

/* ---- tests --------------------------------------------------------------- */

CASE(peer_each_panel_of_the_dashboard_has_a_value, f)
{
    static char board[65536];
    unsigned port, panels = 0;
    const char *at = board;
    char expression[512];

    if (access(PROMETHEUS, X_OK) != 0)
        test_skip("no prometheus (Debian's package prometheus)");
    (void)file_read("reader/grafana.json", board, sizeof board);
    port = start_prometheus(f);

    await_value(f, port, "up{job=\"countd\"} == 1");
    for (; (at = strstr(at, "\"expr\": \"")) != NULL; panels++) {
        at += 9;
        (void)snprintf(expression, sizeof expression, "%.*s",
                       (int)strcspn(at, "\""), at);
        await_value(f, port, expression);
    }
    assert_int_equal(panels, PANELS);
}

CASE(peer_the_rules_of_the_alerts_are_evaluated_and_none_fires, f)
{
    const uint64_t deadline = test_deadline(WAIT_MS);
    unsigned port, good = 0;

    if (access(PROMETHEUS, X_OK) != 0)
        test_skip("no prometheus (Debian's package prometheus)");
    port = start_prometheus(f);

    await_value(f, port, "countd_process_up{process=\"worker\"} == 1");
    while (good < ALERTS && clock_ms() < deadline) {
        good = 0;
        await_answer(f, port, "rules", "CountdPortFull");
        for (const char *at = text; (at = strstr(at, "\"health\":\"ok\""));
             at++)
            good++;
    }
    assert_int_equal(good, ALERTS);
    assert_lacks(text, "\"state\":\"firing\"");
}

CASE(peer_each_alert_fires_beyond_its_limit_and_is_silent_at_it, f)
{
    if (access(PROMTOOL, X_OK) != 0)
        test_skip("no promtool (Debian's package prometheus)");
    answer_shell(f, PROMTOOL " test rules tests/e2e/alerts_test.yml 2>&1");
    assert_has(text, "SUCCESS");
}

CASE(peer_promtool_finds_no_fault_in_the_metrics, f)
{
    if (access(PROMTOOL, X_OK) != 0)
        test_skip("no promtool (Debian's package prometheus)");
    answer_shell(f, "curl -sSf $U/metrics | " PROMTOOL " check metrics 2>&1");
    assert_string_equal(text, "");
}

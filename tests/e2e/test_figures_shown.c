/* tests/e2e/test_figures_shown.c - every figure of the table is in countd status
 * --json, /v1/status, /metrics, the lines of SIGUSR1 and countd-metrics(7); a
 * life that cannot be seen is unknown in all of them; and a writer that hangs
 * is reported in time. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/board/board_internal.h"
#include "common/setup/figures.h"
#include "tests/lib/answer.h"
#include "tests/lib/expect.h"
#include "tests/lib/file.h"
#include "tests/lib/service.h"

#define REPORTED_MS 10000 /* a writer that hangs is reported before */
#define WAIT_MS     60000

static int
set_up(void **state)
{
    if (service_setup_with(state, "semaphore.enable=on",
                           "http.listen=127.0.0.1:0", "quota.enable=on",
                           "sequence.enable=on", "resp.listen=127.0.0.1:0",
                           "read.http=127.0.0.1:0", "metrics.keyspaces=*",
                           "metrics.top=1", NULL) < 0)
        return -1;
    service_start(*state);
    service_add(*state, "pages", "/index", 1);
    expect_text(FLEET_RUN(*state, "flush"), 0, "");
    return 0;
}

#define CASE(name, f) TEST_IN(name, struct fleet *f, set_up, service_teardown)

/* ---- where a figure has to be --------------------------------------------- */

/* Rows of the kind are for one of several, or in the document itself. */
static const char *
row_of(enum status_kind kind)
{
    return kind == STATUS_LISTENER  ? "port ack"
           : kind == STATUS_LIVE    ? "live semaphore"
           : kind == STATUS_PROCESS ? "worker"
                                    : status_kind_name(kind);
}

static void
check_in_document(const char *document, const struct figure *f)
{
    const char *const unit = f->unit == FIGURE_BYTES ? "\"unit\": \"bytes\""
                             : f->unit == FIGURE_MS  ? "\"unit\": \"ms\""
                             : f->unit == FIGURE_US  ? "\"unit\": \"us\""
                                                     : "\"unit\": \"\"";
    char wanted[160], row[160];
    const char *at = document;

    if (f->kind == STATUS_DIRECTORY || f->unit == FIGURE_BOOL) {
        (void)snprintf(wanted, sizeof wanted, "\"%s\": ", f->name);
        if (!strstr(document, wanted))
            fail_msg("no %s in %s", wanted, document);
        return;
    }
    (void)snprintf(row, sizeof row, "\n {\"process\": \"%s\", ",
                   row_of(f->kind));
    (void)snprintf(wanted, sizeof wanted,
                   "\"figure\": \"%s\", \"value\": ", f->name);
    while ((at = strstr(at, row))) {
        const char *figure = strstr(at, wanted), *end = strchr(at + 1, '\n');

        if (figure && (!end || figure < end)) {
            figure = strstr(figure, unit);
            if (!figure || (end && figure > end))
                fail_msg("%s has another unit in %s", f->name, document);
            return;
        }
        at++;
    }
    fail_msg("no %s of %s in %s", f->name, row_of(f->kind), document);
}

/* A label stands last. */
static void
check_in_metrics(const char *metrics, const struct figure *f)
{
    static const char *const types[] = {"counter", "gauge", "gauge"};
    const char *equal = f->label ? strchr(f->label, '=') : NULL;
    char wanted[160], label[96] = "";
    const char *at = metrics;

    (void)snprintf(wanted, sizeof wanted, "\n# TYPE %s %s\n", f->metric,
                   types[f->type]);
    if (!strstr(metrics, wanted))
        fail_msg("no %s in %s", wanted, metrics);
    (void)snprintf(wanted, sizeof wanted, "\n%s", f->metric);
    if (equal)
        (void)snprintf(label, sizeof label, "%.*s=\"%s\"} ",
                       (int)(equal - f->label), f->label, equal + 1);
    while ((at = strstr(at, wanted))) {
        const char *rest = at + strlen(wanted), *end = strchr(rest, '\n');
        const char *found = strstr(rest, label);

        if ((*rest == ' ' || *rest == '{') && found && found < end)
            return;
        at++;
    }
    fail_msg("no sample of %s %s in %s", f->metric, label, metrics);
}

/* The figure of the row in a document of status. */
static int64_t
status_value(const char *document, const char *row, const char *figure)
{
    char wanted[96];
    const char *at;

    (void)snprintf(wanted, sizeof wanted, "\n {\"process\": \"%s\", ", row);
    at = strstr(document, wanted);
    (void)snprintf(wanted, sizeof wanted,
                   "\"figure\": \"%s\", \"value\": ", figure);
    at = at ? strstr(at, wanted) : NULL;
    if (!at)
        fail_msg("no %s of %s in %s", figure, row, document);
    return strtoll(at + strlen(wanted), NULL, 10);
}

/* The first sample that begins so, in units of 1 / `scale`. */
static int64_t
metric_value(const char *metrics, const char *sample, double scale)
{
    const char *at = strstr(metrics, sample);

    if (!at || !(at = strstr(at, " ")))
        fail_msg("no %s in %s", sample, metrics);
    return (int64_t)(strtod(at, NULL) * scale + 0.5);
}

static char *
copy_text(void)
{
    char *copy = test_memory(strdup(text));

    return copy;
}

static char *
ask_reader(struct fleet *f, const char *path)
{
    char command[64];

    (void)snprintf(command, sizeof command, "curl -sSf $U%s", path);
    answer_shell(f, command);
    return copy_text();
}

/* Waits for all rows: daemons put theirs a few times a second. */
static void
await_rows(struct fleet *f)
{
    const uint64_t deadline = test_deadline(WAIT_MS);

    do {
        (void)FLEET_RUN(f, "status", "--json");
        if (clock_ms() > deadline)
            fail_msg("rows are missing: %s", text);
    } while (!strstr(text, "\"process\": \"reader\"") ||
             !strstr(text, "\"process\": \"worker\""));
}

CASE(every_figure_is_in_status_and_over_http_and_in_metrics, f)
{
    char *status, *answer, *metrics;

    await_rows(f);
    status = copy_text();
    answer = ask_reader(f, "/v1/status");
    metrics = ask_reader(f, "/metrics");

    for (size_t i = 0; i < STATUS_FIGURES; i++) {
        if (figures[i].kind != STATUS_SCRAPE) {
            check_in_document(status, &figures[i]);
            check_in_document(answer, &figures[i]);
        }
        check_in_metrics(metrics, &figures[i]);
    }
    free(status);
    free(answer);
    free(metrics);
}

CASE(a_time_is_in_seconds_in_metrics, f)
{
    char *before, *metrics, *after;
    int64_t sync_us;

    await_rows(f);
    before = ask_reader(f, "/v1/status");
    /* A sync of a file in memory may take no microsecond. */
    while (status_value(before, "writer", "sync_us") == 0) {
        service_add(f, "w", "k", 1);
        free(before);
        before = ask_reader(f, "/v1/status");
    }
    metrics = ask_reader(f, "/metrics");
    after = ask_reader(f, "/v1/status");

    assert_int_equal(
        metric_value(metrics,
                     "\ncountd_process_start_time_seconds{process=\"worker\"",
                     1e3),
        status_value(before, "worker", "started_ms"));
    sync_us = metric_value(metrics, "\ncountd_log_sync_seconds_total{", 1e6);
    assert_true(sync_us > 0);
    assert_in_range(sync_us, status_value(before, "writer", "sync_us"),
                    status_value(after, "writer", "sync_us"));
    free(before);
    free(metrics);
    free(after);
}

/* Waits for a line of SIGUSR1 with all figures of the kind. */
static void
check_printed(struct daemon *d, const char *begin, enum status_kind kind)
{
    const uint64_t deadline = test_deadline(WAIT_MS);
    static char output[1 << 16];
    char wanted[64];
    size_t count;
    const struct figure *figure = figures_of(kind, &count);
    const char *line;

    daemon_signal(d, SIGUSR1);
    do {
        (void)daemon_output(d, output, sizeof output);
        if (clock_ms() > deadline)
            fail_msg("no %s in %s", begin, output);
    } while (!(line = strstr(output, begin)) || !strchr(line, '\n'));
    *strchr(line, '\n') = '\0';
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(wanted, sizeof wanted, " %s=", figure[i].name);
        if (!strstr(line, wanted))
            fail_msg("no%s in %s", wanted, line);
    }
}

CASE(a_signal_prints_every_figure_of_the_process, f)
{
    struct daemon *writer = fleet_daemon(f, FLEET_WRITE);

    check_printed(writer, "info: messages=", STATUS_WRITER);
    check_printed(writer, "info: port=http", STATUS_LISTENER);
    check_printed(writer, "info: live=semaphore", STATUS_LIVE);
    check_printed(fleet_daemon(f, FLEET_WORKER),
                  "info: figures: logs=", STATUS_WORKER);
    check_printed(fleet_daemon(f, FLEET_READ),
                  "info: requests=", STATUS_READER);
}

TEST(every_figure_is_in_its_manual)
{
    static char page[1 << 16];
    char path[512], wanted[256];
    size_t items = 0;

    daemon_path("countd-metrics.7", path, sizeof path);
    (void)file_read(path, page, sizeof page);
    for (size_t i = 0; i < STATUS_FIGURES; i++) {
        const struct figure *f = &figures[i];
        const char *equal = f->label ? strchr(f->label, '=') : NULL;
        const char *at;

        (void)snprintf(wanted, sizeof wanted, "\n.It Ql %s%s%s",
                       f->kind == STATUS_SCRAPE ? "" : f->name,
                       f->kind == STATUS_SCRAPE ? "" : " , Ql ", f->metric);
        if (equal)
            (void)snprintf(wanted + strlen(wanted),
                           sizeof wanted - strlen(wanted),
                           "{%.*s=\\(dq%s\\(dq}", (int)(equal - f->label),
                           f->label, equal + 1);
        at = strstr(page, wanted);
        if (!at)
            fail_msg("%s is not in %s", wanted, path);
        at += strlen(wanted) + 1;
        assert_memory_equal(at, f->help, strlen(f->help));
        if (f->alert && !strstr(at, f->alert))
            fail_msg("%s: %s is not in %s", f->name, f->alert, path);
    }
    for (const char *at = page; (at = strstr(at, "\n.It Ql ")); at++)
        items++;
    assert_int_equal(items, STATUS_FIGURES);
}

/* ---- lives --------------------------------------------------------------- */

/* As on a file system whose locks another machine holds. */
static void
hide_lives(struct fleet *f)
{
    struct countd_board *board;
    char error[COUNTD_BOARD_ERROR_SIZE];

    assert_rc(countd_board_attach(&board, file_path(f->path, STATUS_FILE), NULL,
                                  0, error),
              0);
    for (size_t i = 0; i < BOARD_PROCESSES; i++)
        atomic_store(&board->header->table[i].locked, 0);
    countd_board_close(board);
}

CASE(a_life_that_cannot_be_seen_is_neither_alive_nor_dead, f)
{
    char *metrics;

    await_rows(f);
    hide_lives(f);

    assert_int_equal(FLEET_RUN(f, "status"), 0);
    assert_has(text, " cannot be seen, began ");
    assert_lacks(text, "runs for");
    assert_lacks(text, "died");
    (void)FLEET_RUN(f, "status", "--json");
    assert_has(text, "\"alive\": null");
    assert_lacks(text, "\"alive\": true");
    assert_lacks(text, "\"alive\": false");
    metrics = ask_reader(f, "/metrics");
    assert_lacks(metrics, "\ncountd_process_up{process=\"worker\"");
    assert_has(metrics, "\ncountd_process_silent_seconds{process="
                        "\"worker\"");
    assert_has(metrics, "\ncountd_workers 1\n");
    free(metrics);
}

/* ---- a writer that hangs -------------------------------------------------- */

/* Asks until the answer has the words; returns when, since `began_ms`. */
static uint64_t
await_shell(struct fleet *f, const char *command, const char *words,
            uint64_t began_ms)
{
    const uint64_t deadline = test_deadline(WAIT_MS);

    do {
        answer_shell(f, command);
        if (clock_ms() > deadline)
            fail_msg("%s has no %s: %s", command, words, text);
    } while (!strstr(text, words));
    return clock_ms() - began_ms;
}

CASE(a_writer_that_is_stopped_is_reported_within_ten_seconds, f)
{
    const char *const ready = "curl -sSw '%{http_code}' $U/readyz";
    const char *const status = "curl -sSf $U/v1/status";
    uint64_t began_ms, ready_ms, sentence_ms;

    await_rows(f);
    (void)await_shell(f, ready, "ok\n200", clock_ms());
    began_ms = clock_ms();
    daemon_signal(fleet_daemon(f, FLEET_WRITE), SIGSTOP);
    ready_ms = await_shell(f, ready, "503", began_ms);
    assert_has(text, "countd-write is down, stopped or hangs\n");
    sentence_ms = await_shell(
        f, status, "\"sentence\": \"countd-write says nothing for ", began_ms);
    assert_int_equal(FLEET_RUN(f, "status"), 1);
    assert_has(text, "! countd-write says nothing for ");
    daemon_signal(fleet_daemon(f, FLEET_WRITE), SIGCONT);
    (void)await_shell(f, ready, "ok\n200", began_ms);

    print_message("reported after %llu ms by /readyz, %llu ms by status\n",
                  (unsigned long long)ready_ms,
                  (unsigned long long)sentence_ms);
    assert_true(ready_ms < REPORTED_MS * (uint64_t)test_slow());
    assert_true(sentence_ms < REPORTED_MS * (uint64_t)test_slow());
}

/* tests/unit/test_figures.c - the table of figures: its names, the sentences on
 * both sides of their limits, and the alerts and the dashboard beside it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/setup/figures.h"
#include "common/setup/overview.h"
#include "tests/lib/file.h"

#define NOW_MS INT64_C(1800000000000)

static bool
ends_with(const char *text, const char *end)
{
    const size_t size = strlen(text), n = strlen(end);

    return size >= n && strcmp(text + size - n, end) == 0;
}

/* ---- names --------------------------------------------------------------- */

TEST(a_name_is_there_once_for_each_publisher)
{
    for (size_t i = 0; i < STATUS_FIGURES; i++)
        for (size_t k = 0; k < i; k++)
            if (figures[i].kind == figures[k].kind &&
                strcmp(figures[i].name, figures[k].name) == 0)
                fail_msg("%s is there twice", figures[i].name);
}

TEST(a_kind_stands_together_and_its_figures_fit_its_cell)
{
    size_t count, sum = 0;

    for (int kind = STATUS_WRITER; kind <= STATUS_SCRAPE; kind++) {
        (void)figures_of((enum status_kind)kind, &count);
        assert_in_range(count, 1, STATUS_CELL_VALUES - STATUS_CELL_FIGURES);
        sum += count;
    }
    assert_int_equal(sum, STATUS_FIGURES);
}

TEST(a_metric_says_its_type_and_unit)
{
    for (size_t i = 0; i < STATUS_FIGURES; i++) {
        const struct figure *f = &figures[i];
        const bool total = ends_with(f->metric, "_total");
        const bool time = f->unit == FIGURE_MS || f->unit == FIGURE_US;
        char end[32];

        if (total != (f->type == FIGURE_COUNTER) ||
            ends_with(f->metric, "_info") != (f->type == FIGURE_INFO))
            fail_msg("%s is of another type", f->metric);
        (void)snprintf(end, sizeof end, "_%s%s",
                       time                      ? "seconds"
                       : f->unit == FIGURE_BYTES ? "bytes"
                                                 : "",
                       total ? "_total" : "");
        if ((time || f->unit == FIGURE_BYTES) && !ends_with(f->metric, end))
            fail_msg("%s has no unit in its name", f->metric);
        if (ends_with(f->name, "_ms") != (f->unit == FIGURE_MS) ||
            ends_with(f->name, "_us") != (f->unit == FIGURE_US))
            fail_msg("%s is of another unit", f->name);
    }
}

/* Else a scrape would have the head of a family twice. */
TEST(figures_of_a_metric_stand_together_and_differ_in_a_label)
{
    for (size_t i = 0; i < STATUS_FIGURES; i++)
        for (size_t k = 0; k < i; k++) {
            const struct figure *a = &figures[k], *b = &figures[i];

            if (strcmp(a->metric, b->metric) != 0)
                continue;
            if (strcmp(figures[i - 1].metric, b->metric) != 0)
                fail_msg("%s: not together", b->metric);
            if (!a->label || !b->label || strcmp(a->label, b->label) == 0)
                fail_msg("%s, %s: no label", b->metric, b->name);
        }
}

/* ---- what needs an operator ---------------------------------------------- */

static struct overview o;
static char said[OVERVIEW_TEXT];
static size_t said_count;

static void
keep_sentence(void *ctx, const char *text)
{
    (void)ctx;
    said_count++;
    (void)snprintf(said, sizeof said, "%s", text);
}

enum { DIRECTORY_ROW, WRITER_ROW, WORKER_ROW, READER_ROW, ROWS };

/* A directory, a writer, a worker and a reader, all well. */
static void
be_well(void)
{
    static const enum status_kind kinds[ROWS] = {
        STATUS_DIRECTORY, STATUS_WRITER, STATUS_WORKER, STATUS_READER};

    memset(&o, 0, sizeof o);
    o.now_ms = (uint64_t)NOW_MS;
    o.count = ROWS;
    for (size_t i = 0; i < ROWS; i++) {
        o.rows[i].kind = kinds[i];
        o.rows[i].pid = 7;
        o.rows[i].values[STATUS_ALIVE] = 1;
    }
    o.rows[DIRECTORY_ROW].values[STATUS_D_WRITER_ALIVE] = 1;
    o.rows[DIRECTORY_ROW].values[STATUS_D_WORKERS] =
        o.rows[DIRECTORY_ROW].values[STATUS_D_READERS] = 1;
    o.rows[WRITER_ROW].values[STATUS_W_DISK_FREE] = 1000;
    o.rows[WRITER_ROW].values[STATUS_W_DISK_SIZE] = 1000;
    o.rows[READER_ROW].values[STATUS_R_AS_OF_MS] = NOW_MS;
}

/* The value of the figure, and that of the one behind it, so that it is at its
 * limit and needs no operator, or beyond it by one. */
static void
set_value(const struct figure *f, int64_t *v, int64_t limit, int beyond)
{
    if (f->needs == FIGURE_ZERO)
        v[0] = !beyond;
    else if (f->needs == FIGURE_ABOVE || f->needs == FIGURE_NOTED)
        v[0] = limit + beyond;
    else if (f->needs == FIGURE_OLD)
        v[0] = NOW_MS - limit - beyond;
    else if (f->needs == FIGURE_RECENT)
        v[1] = NOW_MS - limit + beyond;
    else
        v[0] = v[1] / limit - beyond;
}

static size_t
count_sentences(void)
{
    int count;

    said_count = 0;
    said[0] = '\0';
    count = overview_troubles(&o, keep_sentence, NULL);
    if (strncmp(said, "note: ", 6) != 0)
        assert_int_equal(count, said_count);
    return said_count;
}

TEST(a_figure_has_its_sentence_beyond_its_limit_and_only_there)
{
    size_t count = 0;

    be_well();
    assert_int_equal(count_sentences(), 0);
    for (size_t i = 0; i < STATUS_FIGURES; i++) {
        const struct figure *f = &figures[i];
        const size_t row = f->kind == STATUS_DIRECTORY ? DIRECTORY_ROW
                           : f->kind == STATUS_WRITER  ? WRITER_ROW
                           : f->kind == STATUS_READER  ? READER_ROW
                                                       : WORKER_ROW;

        if (f->needs == FIGURE_NEVER)
            continue;
        for (int beyond = 0; beyond < 2; beyond++) {
            be_well();
            set_value(f, &o.rows[row].values[i], f->limit, beyond);
            if (count_sentences() != (size_t)beyond)
                fail_msg("%s: beyond=%d, said %zu", f->name, beyond,
                         said_count);
        }
        /* Its first word, and nothing that is not filled in. */
        if (f->sentence[0] != '#' && f->needs != FIGURE_NOTED)
            assert_memory_equal(said, f->sentence, strcspn(f->sentence, " @"));
        assert_null(strpbrk(said, "#~&@"));
        count++;
    }
    assert_true(count > 10);
}

TEST(a_sentence_has_values_and_plurals)
{
    be_well();
    o.rows[WORKER_ROW].values[STATUS_M_HELD_BAD] = 1;
    (void)count_sentences();
    assert_string_equal(said, "1 file in log/waiting/ damaged: countd check; "
                              "remove log/waiting/bad-* afterwards");
    be_well();
    o.rows[WRITER_ROW].values[STATUS_W_QUARANTINED] = 2;
    (void)count_sentences();
    assert_string_equal(said, "2 damaged logs quarantined: countd log");
    be_well();
    o.rows[READER_ROW].values[STATUS_SILENT_MS] = 61999;
    (void)count_sentences();
    assert_string_equal(said, "countd-read says nothing for 61 s, pid 7: it is "
                              "stopped or hangs");
}

TEST(a_note_is_said_and_needs_no_operator)
{
    be_well();
    o.rows[WORKER_ROW].values[STATUS_M_DB_NO_CHECKSUMS] = 1;
    assert_int_equal(overview_troubles(&o, keep_sentence, NULL), 0);
    assert_string_equal(said, "note: the database has no data checksums: "
                              "damage of its disk can go unseen");
}

TEST(a_writer_is_silent_for_five_seconds_at_most)
{
    be_well();
    o.rows[WRITER_ROW].values[STATUS_SILENT_MS] = OVERVIEW_HUNG_MS;
    assert_int_equal(count_sentences(), 0);
    assert_true(overview_writer_works(&o));
    o.rows[WRITER_ROW].values[STATUS_SILENT_MS]++;
    assert_int_equal(count_sentences(), 1);
    assert_false(overview_writer_works(&o));
}

TEST(an_unknown_life_is_neither_dead_nor_well_but_its_silence_is_said)
{
    be_well();
    o.rows[DIRECTORY_ROW].values[STATUS_D_WRITER_ALIVE] = FIGURE_UNKNOWN;
    for (size_t i = WRITER_ROW; i < ROWS; i++) {
        o.rows[i].values[STATUS_ALIVE] = FIGURE_UNKNOWN;
        assert_false(overview_is_dead(&o.rows[i]));
    }
    assert_int_equal(count_sentences(), 0);
    assert_true(overview_writer_works(&o));

    for (size_t i = WRITER_ROW; i < ROWS; i++)
        o.rows[i].values[STATUS_SILENT_MS] = OVERVIEW_SILENT_MS + 1;
    assert_int_equal(count_sentences(), 3);
    assert_false(overview_writer_works(&o));
}

TEST(what_the_dead_put_last_is_not_judged_but_that_of_the_writer)
{
    be_well();
    o.rows[WORKER_ROW].values[STATUS_ALIVE] = 0;
    o.rows[WORKER_ROW].values[STATUS_SILENT_MS] = OVERVIEW_SILENT_MS + 1;
    o.rows[WORKER_ROW].values[STATUS_M_WAITING] = 1;
    assert_int_equal(count_sentences(), 1);
    assert_string_equal(said, "countd-worker died, pid 7");

    be_well();
    o.rows[WRITER_ROW].values[STATUS_ALIVE] =
        o.rows[DIRECTORY_ROW].values[STATUS_D_WRITER_ALIVE] = 0;
    o.rows[WRITER_ROW].values[STATUS_W_QUARANTINED] = 1;
    assert_int_equal(count_sentences(), 2);
    assert_string_equal(said, "1 damaged log quarantined: countd log");
}

/* ---- alerts and dashboard ------------------------------------------------ */

static char text[1 << 16];

/* Every word in the file that begins like a metric is one. */
static size_t
check_metrics(const char *path)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
    size_t count = 0;

    (void)file_read(path, text, sizeof text);
    for (const char *at = text; (at = strstr(at, "countd_")); count++) {
        const size_t size = strspn(at, letters);
        size_t i = 0;

        while (i < STATUS_FIGURES &&
               (strlen(figures[i].metric) != size ||
                strncmp(figures[i].metric, at, size) != 0))
            i++;
        if (i == STATUS_FIGURES)
            fail_msg("%s: there is no metric %.*s", path, (int)size, at);
        at += size;
    }
    return count;
}

TEST(alerts_and_dashboard_use_metrics_that_there_are)
{
    assert_true(check_metrics("reader/alerts.yml") >= 15);
    assert_true(check_metrics("reader/grafana.json") >= 10);
}

/* The expression of an alert; NULL: there is none of this name. */
static const char *
find_expression(const char *alert, char expression[512])
{
    char head[128];
    const char *at;

    (void)snprintf(head, sizeof head, "- alert: %s\n    expr: ", alert);
    at = strstr(text, head);
    if (!at)
        return NULL;
    at += strlen(head);
    (void)snprintf(expression, 512, "%.*s", (int)strcspn(at, "\n"), at);
    return expression;
}

/* The comparison that the alert has to have. */
static void
put_comparison(const struct figure *f, char comparison[64])
{
    const int64_t limit = f->unit == FIGURE_MS ? f->limit / 1000 : f->limit;

    if (f->needs == FIGURE_ZERO)
        (void)snprintf(comparison, 64, "%s == 0", f->metric);
    else if (f->needs == FIGURE_RECENT)
        (void)snprintf(comparison, 64, "%s[%dm]", f->metric,
                       (int)(f->limit / 60000));
    else if (f->needs == FIGURE_SHARE)
        (void)snprintf(comparison, 64, " < %.2f", 1.0 / (double)f->limit);
    else
        (void)snprintf(comparison, 64, " > %d", (int)limit);
}

/* A flag is compared with 1 as well. */
TEST(every_alert_of_the_table_is_there_with_its_limit)
{
    char expression[512], comparison[64];

    (void)file_read("reader/alerts.yml", text, sizeof text);
    for (size_t i = 0; i < STATUS_FIGURES; i++) {
        const struct figure *f = &figures[i];

        if (!f->alert) {
            if (f->needs != FIGURE_NEVER)
                fail_msg("%s has a sentence and no alert", f->name);
            continue;
        }
        if (!find_expression(f->alert, expression))
            fail_msg("%s: there is no alert %s", f->name, f->alert);
        put_comparison(f, comparison);
        if (f->needs != FIGURE_NEVER && strstr(expression, f->metric) &&
            !strstr(expression, comparison) &&
            (f->limit != 0 || !strstr(expression, " == 1")))
            fail_msg("%s: no \"%s\" in %s", f->alert, comparison, expression);
    }
}

/* So that none stays behind when its figure goes.  Those in alerts_test.yml are
 * fired and kept silent by test_metrics.c. */
TEST(every_alert_is_of_a_figure_and_has_a_test)
{
    static char tests[sizeof text];
    char name[64], wanted[96];
    size_t count = 0;

    (void)file_read("tests/e2e/alerts_test.yml", text, sizeof text);
    memcpy(tests, text, sizeof tests);
    (void)file_read("reader/alerts.yml", text, sizeof text);
    for (const char *at = text; (at = strstr(at, "- alert: ")); count++) {
        size_t i = 0;

        at += strlen("- alert: ");
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "\n"), at);
        while (i < STATUS_FIGURES &&
               (!figures[i].alert || strcmp(figures[i].alert, name) != 0))
            i++;
        if (i == STATUS_FIGURES && strcmp(name, "CountdDiskFullSoon") != 0)
            fail_msg("no figure has the alert %s", name);
        (void)snprintf(wanted, sizeof wanted, "- alertname: %s\n", name);
        if (!strstr(tests, wanted))
            fail_msg("%s has no test", name);
    }
    assert_true(count > 15);
}

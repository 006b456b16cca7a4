/* common/client/cmd/history.c - countd history: what came when. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/client/cmd/chart.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/output.h"
#include "common/client/cmd/time_range.h"
#include "common/client/cmd/time_text.h"

#define STEP_MS  ((uint64_t)3600000)
#define STEP_MAX ((uint64_t)366 * 86400000)

/* Bars are for terminals only. */
static const struct table_column columns[] = {
    {"from", "from", false},
    {"sum", "sum", true},
    {"", "bar", false},
};

struct history_command {
    const struct cmd_line *line;
    struct cmd_name keyspace, key;
    struct time_range span;
    int64_t step;
    bool utc;
};

static double
largest_value(const struct countd_buckets *b)
{
    double most = 0;

    for (size_t i = 0; i < b->count; i++) {
        const double value = chart_value(&b->buckets[i].sum);
        const double size = value < 0 ? -value : value;

        most = size > most ? size : most;
    }
    return most;
}

static void
print_rows(const struct history_command *h, struct output *out,
           const struct countd_buckets *b)
{
    const double most = largest_value(b);
    char from[TIME_TEXT_SIZE], sum[TABLE_SUM_SIZE], bar[CHART_BAR_MAX + 1];

    for (size_t i = 0; i < b->count; i++) {
        const struct countd_sum *s = &b->buckets[i].sum;
        struct cell cells[] = {
            time_range_cell(out, b->buckets[i].start, h->utc, from),
            s->any ? cell_sum(s->high, s->low, sum) : cell_none(),
            cell_text(bar),
        };

        chart_bar(chart_value(s), most, CHART_BAR_MAX, bar);
        output_row(out, cells);
    }
}

/* Prints the history as one line; output_fini() reports errors of stdout. */
static void
print_spark(const struct countd_buckets *b, unsigned width)
{
    char line[CHART_LINE_SIZE];

    chart_spark(b->buckets, b->count, width, chart_is_utf8(), line);
    (void)puts(line);
}

static int
print_history(const struct history_command *h, const struct countd_buckets *b)
{
    struct output out;
    unsigned width;

    output_init(&out, h->line, columns, 2);
    width = chart_width(&out);
    if (width > 0)
        out.column_count = 3;
    output_fact(&out, "keyspace",
                cell_name(h->keyspace.bytes, h->keyspace.size));
    if (h->key.size > 0)
        output_fact(&out, "key", cell_name(h->key.bytes, h->key.size));
    output_fact(&out, "step", cell_number(h->step));
    output_fact(&out, "since", cell_number(b->since));
    print_rows(h, &out, b);
    output_rows_end(&out);
    if (width > 0 && b->count > 1)
        print_spark(b, width);
    time_range_report_since(&out, b->since, h->span.from, h->utc);
    output_as_of(&out, b->as_of_ms);
    return output_fini(&out);
}

static int
read_options(struct history_command *h)
{
    const struct cmd_line *line = h->line;
    const char *step = cmd_value(line, "step");
    uint64_t step_ms;
    int status;

    status = cmd_name(line, line->args[0], "keyspace", &h->keyspace);
    if (status == 0 && line->arg_count > 1)
        status = cmd_name(line, line->args[1], "key", &h->key);
    if (status == 0)
        status = time_range_read(line, &h->span);
    if (status == 0)
        status = cmd_option_ms(line, "step", STEP_MS, &step_ms);
    if (status != 0)
        return status;
    if (step_ms == 0 || step_ms % 60000 != 0 || step_ms > STEP_MAX)
        return cmd_misuse(
            line, step, "a step is whole minutes, a year at most: 5m, 1h, 1d");
    h->utc = cmd_value(line, "utc") != NULL;
    h->step = (int64_t)(step_ms / 1000);
    h->span = time_range_widen(&h->span, h->step, h->utc);
    return 0;
}

int
cmd_history(struct cmd_line *line)
{
    struct history_command h = {.line = line};
    struct countd_buckets *buckets;
    struct countd *c;
    int rc, status;

    status = read_options(&h);
    if (status == 0)
        status = cmd_connect(line, CMD_READER, 0, &c);
    if (status != 0)
        return status;
    rc = countd_history(c, h.keyspace.bytes, h.keyspace.size, h.key.bytes,
                        h.key.size, h.span.from, h.span.to, h.step, &buckets);
    (void)countd_close(c); /* nothing was sent to be counted */
    if (rc < 0)
        return time_range_failed(line, rc);
    status = print_history(&h, buckets);
    countd_buckets_free(buckets);
    return status;
}

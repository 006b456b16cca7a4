/* common/client/cmd/history.c - countd history, and top and rank of a period:
 * what came when.
 *
 * History consists of whole steps, so a time range is widened to some: -2h at
 * 10:07:12 by minutes begins at 08:07.  Read from the end: cmd_history(),
 * lookup_period_top(), lookup_period_rank(), cmd_distinct(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd_terminal.h"
#include "common/wire/query.h"

#define DAY_MS    ((uint64_t)86400000)
#define STEP_MS   ((uint64_t)3600000)
#define STEP_MAX  (366 * DAY_MS)
#define LAST_MS   ((uint64_t)UINT32_MAX * 60000) /* of what a store can keep */
#define BAR_WIDTH 20

struct history_command {
    struct lookup l;
    struct time_range span;
    int64_t step; /* of countd history */
    bool utc;
};

/* ---- the time range ----------------------------------------------------- */

/* Reads --from (default: a day ago), --to (now) and --utc.  Says what is wrong;
 * an exit status. */
static int
read_span(const struct cmd_line *line, struct history_command *h)
{
    const uint64_t now = clock_unix_ms();
    const uint64_t from = cmd_time_option(line, "from", now, now - DAY_MS);
    const uint64_t to = cmd_time_option(line, "to", now, now);

    if (*line->status != 0)
        return *line->status;
    if (to <= from)
        return cmd_misuse(line, "--from --to",
                          "the end is not after the start");
    if (to >= LAST_MS)
        return cmd_misuse(line, "--to", "there is no time so late");
    /* Include the current second. */
    h->span = (struct time_range){(int64_t)(from / 1000),
                                  (int64_t)((to + 999) / 1000)};
    h->utc = cmd_value(line, "utc") != NULL;
    return 0;
}

/* For people: what came before `since` may be missing; 0: nothing is said. */
static void
report_since(const struct history_command *h, int64_t since)
{
    char text[TIME_TEXT_SIZE];

    if (since <= h->span.from || h->l.out.format != OUTPUT_PEOPLE)
        return;
    cmd_time_format((uint64_t)since * 1000, h->utc, text);
    diag(DIAG_INFO,
         "history before %s may be incomplete: steps this short are not "
         "retained longer",
         text);
}

/* ---- history ------------------------------------------------------------ */

/* Bars are for terminals only. */
static const struct table_column columns[] = {
    {"from", "from", false},
    {"sum", "sum", true},
    {"", "bar", false},
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
print_rows(struct history_command *h, const struct countd_buckets *b)
{
    const double most = largest_value(b);
    const bool people = h->l.out.format == OUTPUT_PEOPLE;
    char from[TIME_TEXT_SIZE], sum[CELL_SUM_SIZE], bar[CHART_BAR_MAX + 1];

    for (size_t i = 0; i < b->count; i++) {
        const struct countd_sum *s = &b->buckets[i].sum;
        const struct cell cells[] = {
            people ? cell_text(from) : cell_number(b->buckets[i].start),
            s->any ? cell_sum(int128_of(s->high, s->low), sum) : cell_none(),
            cell_text(bar),
        };

        cmd_time_format((uint64_t)b->buckets[i].start * 1000, h->utc, from);
        chart_bar(chart_value(s), most, CHART_BAR_MAX, bar);
        output_row(&h->l.out, cells);
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
print_history(struct history_command *h, const struct countd_buckets *b)
{
    struct output *out = &h->l.out;
    unsigned width;

    lookup_begin(&h->l, columns, 2);
    width = chart_width(out);
    if (width > 0)
        out->column_count = 3;
    output_fact(out, "step", cell_number(h->step));
    output_fact(out, "since", cell_number(b->since));
    print_rows(h, b);
    output_rows_end(out);
    if (width > 0 && b->count > 1)
        print_spark(b, width);
    report_since(h, b->since);
    output_as_of(out, b->as_of_ms);
    return output_fini(out);
}

static int
read_step(const struct cmd_line *line, struct history_command *h)
{
    const uint64_t step_ms = cmd_option_ms(line, "step", STEP_MS);

    if (*line->status != 0)
        return *line->status;
    if (step_ms == 0 || step_ms % 60000 != 0 || step_ms > STEP_MAX)
        return cmd_misuse(
            line, cmd_value(line, "step"),
            "a step is whole minutes, a year at most: 5m, 1h, 1d");
    h->step = (int64_t)(step_ms / 1000);
    h->span = time_range_widen(&h->span, h->step, h->utc);
    return 0;
}

static bool
has_increments(const struct countd_buckets *b)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->buckets[i].sum.any)
            return true;
    return false;
}

/* A key without history may be a key that does not exist: -ENOENT. */
static int
find_key(const struct lookup *l)
{
    struct countd_facts facts;

    return countd_about(l->c, l->keyspace.bytes, l->keyspace.size, l->key.bytes,
                        l->key.size, &facts);
}

int
cmd_history(struct cmd_line *line)
{
    struct history_command h;
    struct countd_buckets *buckets = NULL;
    int rc, status;

    status = read_span(line, &h);
    if (status == 0)
        status = read_step(line, &h);
    if (status == 0)
        status = lookup_open(&h.l, line, line->arg_count);
    if (status != 0)
        return status;
    rc = countd_history(h.l.c, h.l.keyspace.bytes, h.l.keyspace.size,
                        h.l.key.bytes, h.l.key.size, h.span.from, h.span.to,
                        h.step, &buckets);
    if (rc == 0 && h.l.key.size > 0 && !has_increments(buckets))
        rc = find_key(&h.l);
    if (rc == 0)
        status = print_history(&h, buckets);
    countd_buckets_free(buckets);
    return lookup_close(&h.l, CMD_HISTORY, rc, status);
}

/* ---- a period ----------------------------------------------------------- */

static const struct table_column top_columns[] = {
    {"rank", "rank", true},     {"sum", "sum", true},
    {"before", "before", true}, {"change", "change", true},
    {"key", "key", false},      {"", "bar", false},
};

static const struct table_column rank_columns[] = {
    {"rank", "rank", true},
    {"sum", "sum", true},
    {"of keys", "keys", true},
};

static const struct table_column distinct_columns[] = {
    {"keys", "keys", true},
    {"sum", "sum", true},
};

bool
lookup_is_period(const struct cmd_line *line)
{
    return cmd_value(line, "from") != NULL || cmd_value(line, "to") != NULL ||
           cmd_value(line, "utc") != NULL;
}

static void
print_row(struct output *out, int64_t rank, const struct countd_top_row *row,
          const struct countd_top *top)
{
    const double value = chart_value(&row->sum);
    const double most = chart_value(&top->rows[0].sum);
    const bool known = top->before_known;
    const int128 sum = int128_of(row->sum.high, row->sum.low);
    const int128 before = int128_of(row->before.high, row->before.low);
    char texts[3][CELL_SUM_SIZE];
    char bar[CHART_BAR_MAX + 1] = "";
    const struct cell cells[] = {
        cell_rank(rank),
        cell_sum(sum, texts[0]),
        known ? cell_sum(before, texts[1]) : cell_none(),
        known ? cell_sum(sum - before, texts[2]) : cell_none(),
        cell_name(row->key, row->key_size),
        cell_text(bar),
    };

    if (value > 0)
        chart_bar(value, most, BAR_WIDTH, bar);
    output_row(out, cells);
}

static void
begin_period(struct history_command *h, const struct table_column *c,
             size_t count, int64_t since)
{
    lookup_begin(&h->l, c, count);
    output_fact(&h->l.out, "from", cell_number(h->span.from));
    output_fact(&h->l.out, "to", cell_number(h->span.to));
    output_fact(&h->l.out, "since", cell_number(since));
}

static int
end_period(struct history_command *h, int64_t since, int64_t as_of_ms)
{
    char from[TIME_TEXT_SIZE], to[TIME_TEXT_SIZE];

    if (h->l.out.format == OUTPUT_PEOPLE) {
        cmd_time_format((uint64_t)h->span.from * 1000, h->utc, from);
        cmd_time_format((uint64_t)h->span.to * 1000, h->utc, to);
        (void)printf("from %s to %s\n", from, to);
    }
    report_since(h, since);
    output_as_of(&h->l.out, as_of_ms);
    return output_fini(&h->l.out);
}

static int
print_top(struct history_command *h, const struct countd_top *top)
{
    struct output *out = &h->l.out;

    begin_period(h, top_columns, 5, top->since);
    if (chart_width(out) > 0)
        out->column_count = 6;
    for (size_t i = 0; i < top->count; i++)
        print_row(out, (int64_t)i, &top->rows[i], top);
    output_rows_end(out);
    return end_period(h, top->since, top->as_of_ms);
}

/* Prints a row of numbers; JSON has them as facts, without rows. */
static int
print_numbers(struct history_command *h, const struct countd_period *r,
              const struct table_column *c, const struct cell *cells,
              size_t count, bool has_row)
{
    begin_period(h, c, count, r->since);
    for (size_t i = 0; i < count; i++)
        output_fact(&h->l.out, c[i].key, cells[i]);
    if (has_row && h->l.out.format != OUTPUT_JSON) {
        output_row(&h->l.out, cells);
        output_rows_end(&h->l.out);
    }
    return end_period(h, r->since, r->as_of_ms);
}

static int
print_period(struct history_command *h, const struct countd_period *r)
{
    const bool any = r->sum.any != 0;
    char text[CELL_SUM_SIZE];
    const struct cell sum = cell_sum(int128_of(r->sum.high, r->sum.low), text);
    const struct cell keys = cell_number(r->keys);

    if (h->l.key.size == 0)
        return print_numbers(h, r, distinct_columns,
                             (const struct cell[]){keys, sum}, 2, true);
    return print_numbers(
        h, r, rank_columns,
        (const struct cell[]){any ? cell_rank(r->rank) : cell_none(),
                              any ? sum : cell_none(), keys},
        3, any);
}

int
lookup_period_top(const struct cmd_line *line, int64_t length)
{
    struct history_command h;
    struct countd_top *top;
    int rc, status;

    if (length > QUERY_ROWS_MAX)
        return cmd_misuse(line, "--from --to",
                          "the top of a period has 4096 rows at most");
    status = read_span(line, &h);
    if (status == 0)
        status = lookup_open(&h.l, line, 1);
    if (status != 0)
        return status;
    rc = countd_period_top(h.l.c, h.l.keyspace.bytes, h.l.keyspace.size,
                           h.span.from, h.span.to, length, &top);
    if (rc == 0) {
        h.span = (struct time_range){top->from, top->to};
        status = print_top(&h, top);
        countd_top_free(top);
    }
    return lookup_close(&h.l, CMD_HISTORY, rc, status);
}

/* Asks about one key, or about all if only the keyspace is named. */
static int
run_period(const struct cmd_line *line, int names)
{
    struct history_command h;
    struct countd_period r;
    int rc, status;

    status = read_span(line, &h);
    if (status == 0)
        status = lookup_open(&h.l, line, names);
    if (status != 0)
        return status;
    rc = countd_period_rank(h.l.c, h.l.keyspace.bytes, h.l.keyspace.size,
                            h.l.key.bytes, h.l.key.size, h.span.from, h.span.to,
                            &r);
    if (rc == 0) {
        h.span = (struct time_range){r.from, r.to};
        status = print_period(&h, &r);
    }
    if (rc == 0 && status == 0 && names > 1 && !r.sum.any) {
        diag(DIAG_INFO, "nothing came to the key in that time");
        status = CONFIG_EXIT_NEGATIVE;
    }
    return lookup_close(&h.l, CMD_HISTORY, rc, status);
}

int
lookup_period_rank(const struct cmd_line *line)
{
    return run_period(line, 2);
}

int
cmd_distinct(struct cmd_line *line)
{
    return run_period(line, 1);
}

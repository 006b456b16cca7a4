/* common/client/cmd/period.c - see period.h: period_top() prints the largest
 * keys of a time range, period_rank() one key. */
#include "common/client/cmd/period.h"

#include <errno.h>
#include <stdio.h>

#include "common/base/bytes.h"
#include "common/base/diag.h"
#include "common/client/cmd/chart.h"
#include "common/client/cmd/output.h"
#include "common/client/cmd/time_range.h"
#include "common/client/cmd/time_text.h"
#include "common/wire/query.h"

#define BAR_WIDTH 20

/* Bars are for terminals only. */
static const struct table_column columns[] = {
    {"rank", "rank", true},     {"sum", "sum", true},
    {"before", "before", true}, {"change", "change", true},
    {"key", "key", false},      {"", "bar", false},
};

static const struct table_column rank_columns[] = {
    {"rank", "rank", true},
    {"sum", "sum", true},
    {"of keys", "keys", true},
};

struct period_command {
    const struct cmd_line *line;
    struct cmd_name keyspace, key;
    struct time_range span;
    int64_t length;
    bool utc;
};

bool
period_is_asked(const struct cmd_line *line)
{
    return cmd_value(line, "from") != NULL || cmd_value(line, "to") != NULL ||
           cmd_value(line, "utc") != NULL;
}

static int
request_top(struct countd *c, const struct period_command *p,
            const struct time_range *s, int64_t length, struct countd_top **out)
{
    return countd_period_top(c, p->keyspace.bytes, p->keyspace.size, s->from,
                             s->to, length, out);
}

/* Widens the time range to the finest steps for which history is complete, or
 * else least incomplete. A request of length 0 returns `since` without rows. */
static int
widen_to_steps(struct countd *c, struct period_command *p)
{
    static const int64_t steps[] = {60, 3600, 86400};
    struct time_range best = p->span;
    int64_t best_since = INT64_MAX;
    int rc = 0;

    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        /* Days of the coarsest tier are those of UTC. */
        const struct time_range s = time_range_widen(&p->span, steps[i], true);
        struct countd_top *top;

        rc = request_top(c, p, &s, 0, &top);
        if (rc == -EINVAL)
            continue;
        if (rc < 0)
            return rc;
        if (top->since < best_since) {
            best = s;
            best_since = top->since;
        }
        countd_top_free(top);
        if (best_since <= s.from)
            break;
    }
    p->span = best;
    return best_since == INT64_MAX ? rc : 0;
}

static int128
sum_to_int128(const struct countd_sum *s)
{
    return (int128)s->high * ((int128)1 << 64) + (int128)s->low;
}

static void
print_row(struct output *out, int64_t rank, const struct countd_top_row *row,
          const struct countd_top *top)
{
    const double value = chart_value(&row->sum);
    const double most = chart_value(&top->rows[0].sum);
    const bool known = top->before_known;
    const int128 change =
        sum_to_int128(&row->sum) - sum_to_int128(&row->before);
    char sum[TABLE_SUM_SIZE], before[TABLE_SUM_SIZE], text[TABLE_SUM_SIZE];
    char bar[CHART_BAR_MAX + 1] = "";
    const struct cell cells[] = {
        cell_number(rank),
        cell_sum(row->sum.high, row->sum.low, sum),
        known ? cell_sum(row->before.high, row->before.low, before)
              : cell_none(),
        known ? cell_sum((int64_t)(change >> 64), (uint64_t)change, text)
              : cell_none(),
        cell_name(row->key, row->key_size),
        cell_text(bar),
    };

    if (value > 0)
        chart_bar(value, most, BAR_WIDTH, bar);
    output_row(out, cells);
}

static void
print_scope(struct output *out, const struct period_command *p, int64_t since)
{
    output_fact(out, "keyspace",
                cell_name(p->keyspace.bytes, p->keyspace.size));
    if (p->key.size > 0)
        output_fact(out, "key", cell_name(p->key.bytes, p->key.size));
    output_fact(out, "from", cell_number(p->span.from));
    output_fact(out, "to", cell_number(p->span.to));
    output_fact(out, "since", cell_number(since));
}

static int
print_end(struct output *out, const struct period_command *p, int64_t since,
          int64_t as_of_ms)
{
    char from[TIME_TEXT_SIZE], to[TIME_TEXT_SIZE];

    if (out->format == OUTPUT_PEOPLE) {
        time_text_format((uint64_t)p->span.from * 1000, p->utc, from);
        time_text_format((uint64_t)p->span.to * 1000, p->utc, to);
        (void)printf("from %s to %s\n", from, to);
    }
    time_range_report_since(out, since, p->span.from, p->utc);
    output_as_of(out, as_of_ms);
    return output_fini(out);
}

static int
print_top(const struct period_command *p, const struct countd_top *top)
{
    struct output out;

    output_init(&out, p->line, columns, 5);
    if (chart_width(&out) > 0)
        out.column_count = 6;
    print_scope(&out, p, top->since);
    for (size_t i = 0; i < top->count; i++)
        print_row(&out, (int64_t)i, &top->rows[i], top);
    output_rows_end(&out);
    return print_end(&out, p, top->since, top->as_of_ms);
}

/* Prints the rank of one key; JSON has it as facts, without rows. */
static int
print_rank(const struct period_command *p, const struct countd_period *r)
{
    const bool any = r->sum.any != 0;
    char text[TABLE_SUM_SIZE];
    const struct cell cells[] = {
        any ? cell_number(r->rank) : cell_none(),
        any ? cell_sum(r->sum.high, r->sum.low, text) : cell_none(),
        cell_number(r->keys),
    };
    struct output out;

    output_init(&out, p->line, rank_columns, 3);
    print_scope(&out, p, r->since);
    for (size_t i = 0; i < 3; i++)
        output_fact(&out, rank_columns[i].key, cells[i]);
    if (any && out.format != OUTPUT_JSON) {
        output_row(&out, cells);
        output_rows_end(&out);
    }
    return print_end(&out, p, r->since, r->as_of_ms);
}

/* A handle, and what is asked about; an exit status. */
static int
open_period(struct period_command *p, struct countd **c)
{
    const struct cmd_line *line = p->line;
    int status;

    p->utc = cmd_value(line, "utc") != NULL;
    status = cmd_name(line, line->args[0], "keyspace", &p->keyspace);
    if (status == 0)
        status = time_range_read(line, &p->span);
    return status == 0 ? cmd_connect(line, CMD_READER, 0, c) : status;
}

int
period_top(const struct cmd_line *line, int64_t length)
{
    struct period_command p = {.line = line, .length = length};
    struct countd_top *top;
    struct countd *c;
    int rc, status;

    if (length > QUERY_ROWS_MAX)
        return cmd_misuse(line, "--from --to",
                          "the top of a period has 4096 rows at most");
    status = open_period(&p, &c);
    if (status != 0)
        return status;
    rc = widen_to_steps(c, &p);
    if (rc == 0)
        rc = request_top(c, &p, &p.span, p.length, &top);
    (void)countd_close(c); /* nothing was sent to be counted */
    if (rc < 0)
        return time_range_failed(line, rc);
    status = print_top(&p, top);
    countd_top_free(top);
    return status;
}

int
period_rank(const struct cmd_line *line)
{
    struct period_command p = {.line = line};
    struct countd_period r;
    struct countd *c;
    int rc, status;

    status = cmd_name(line, line->args[1], "key", &p.key);
    if (status == 0)
        status = open_period(&p, &c);
    if (status != 0)
        return status;
    rc = widen_to_steps(c, &p);
    if (rc == 0)
        rc = countd_period_rank(c, p.keyspace.bytes, p.keyspace.size,
                                p.key.bytes, p.key.size, p.span.from, p.span.to,
                                &r);
    (void)countd_close(c); /* nothing was sent to be counted */
    if (rc < 0)
        return time_range_failed(line, rc);
    status = print_rank(&p, &r);
    if (status != 0 || r.sum.any)
        return status;
    diag(DIAG_INFO, "nothing came to the key in that time");
    return CONFIG_EXIT_NEGATIVE;
}

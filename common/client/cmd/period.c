/* common/client/cmd/period.c - see period.h. */
#include "common/client/cmd/period.h"

#include <errno.h>
#include <stdio.h>

#include "common/base/diag.h"
#include "common/client/cmd/output.h"
#include "common/client/cmd/span.h"
#include "common/client/cmd/when.h"
#include "common/wire/query.h"

__extension__ typedef __int128 int128;

static const struct output_column columns[] = {
    {"rank", "rank", true},     {"sum", "sum", true},
    {"before", "before", true}, {"change", "change", true},
    {"key", "key", false},
};

struct period {
    const struct cmd_line *line;
    struct cmd_name keyspace;
    struct span span;
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
ask(struct countd *c, const struct period *p, const struct span *s,
    int64_t length, struct countd_top **out)
{
    return countd_period_top(c, p->keyspace.bytes, p->keyspace.size, s->from,
                             s->to, length, out);
}

/* Widens the span to the finest steps that nothing is missing from, or that
 * least is missing from.  A length of 0 asks for no more than that. */
static int
fit(struct countd *c, struct period *p)
{
    static const int64_t steps[] = {60, 3600, 86400};
    struct span best = p->span;
    int64_t best_since = INT64_MAX;
    int rc = 0;

    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        /* Days of the coarsest tier are those of UTC. */
        const struct span s = span_widen(&p->span, steps[i], true);
        struct countd_top *top;

        rc = ask(c, p, &s, 0, &top);
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
whole(const struct countd_sum *s)
{
    return (int128)s->high * ((int128)1 << 64) + (int128)s->low;
}

static void
print_row(struct output *out, int64_t rank, const struct countd_top_row *row,
          bool known)
{
    const int128 change = whole(&row->sum) - whole(&row->before);
    char sum[OUTPUT_SUM_SIZE], before[OUTPUT_SUM_SIZE], text[OUTPUT_SUM_SIZE];
    const struct cell cells[] = {
        cell_number(rank),
        cell_sum(row->sum.high, row->sum.low, sum),
        known ? cell_sum(row->before.high, row->before.low, before)
              : cell_none(),
        known ? cell_sum((int64_t)(change >> 64), (uint64_t)change, text)
              : cell_none(),
        cell_name(row->key, row->key_size),
    };

    output_row(out, cells);
}

static int
print(const struct period *p, const struct countd_top *top)
{
    char from[WHEN_SIZE], to[WHEN_SIZE];
    struct output out;

    output_init(&out, p->line, columns, sizeof columns / sizeof columns[0]);
    output_fact(&out, "keyspace",
                cell_name(p->keyspace.bytes, p->keyspace.size));
    output_fact(&out, "from", cell_number(p->span.from));
    output_fact(&out, "to", cell_number(p->span.to));
    output_fact(&out, "since", cell_number(top->since));
    for (size_t i = 0; i < top->count; i++)
        print_row(&out, (int64_t)i, &top->rows[i], top->before_known);
    output_rows_end(&out);
    if (out.format == OUTPUT_PEOPLE) {
        when_format((uint64_t)p->span.from * 1000, p->utc, from);
        when_format((uint64_t)p->span.to * 1000, p->utc, to);
        (void)printf("from %s to %s\n", from, to); /* output_fini() tells */
    }
    span_tell_since(&out, top->since, p->span.from, p->utc);
    output_as_of(&out, top->as_of_ms);
    return output_fini(&out);
}

int
period_top(const struct cmd_line *line, int64_t length)
{
    struct period p = {
        .line = line, .length = length, .utc = cmd_value(line, "utc") != NULL};
    struct countd_top *top;
    struct countd *c;
    int rc, status;

    if (length > QUERY_ROWS_MAX)
        return cmd_misuse(line, "--from --to",
                          "the top of a period has 4096 rows at most");
    status = cmd_name(line, line->args[0], "keyspace", &p.keyspace);
    if (status == 0)
        status = span_read(line, &p.span);
    if (status == 0)
        status = cmd_connect(line, CMD_READER, 0, &c);
    if (status != 0)
        return status;
    rc = fit(c, &p);
    if (rc == 0)
        rc = ask(c, &p, &p.span, p.length, &top);
    (void)countd_close(c); /* nothing was sent to be counted */
    if (rc < 0)
        return span_failed(line, rc);
    status = print(&p, top);
    countd_top_free(top);
    return status;
}

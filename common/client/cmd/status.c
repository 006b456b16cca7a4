/* common/client/cmd/status.c - countd status: once, for people and scripts. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/setup/overview.h"

static void
print_trouble(void *ctx, const char *text)
{
    (void)ctx; /* needs none */
    (void)printf("! %s\n", text);
}

static void
put_fact(void *ctx, const char *key, struct cell value)
{
    output_fact(ctx, key, value);
}

static void
put_row(void *ctx, const struct cell *cells)
{
    output_row(ctx, cells);
}

static void
put_sentence(void *ctx, const char *text)
{
    const struct cell cell = cell_text(text);

    output_row(ctx, &cell);
}

static void
print_machine(struct output *out, const struct overview *o)
{
    const struct overview_sink sink = {put_fact, put_row, out};

    overview_report(o, &sink);
    output_rows_end(out);
    if (out->format != OUTPUT_JSON)
        return;
    output_next_rows(out, "sentences", overview_sentences, 1);
    (void)overview_troubles(o, put_sentence, out); /* a fact has their number */
    output_rows_end(out);
}

static void
print_statsd(const int64_t *v)
{
    (void)printf("statsd  %" PRId64 " datagrams, %" PRId64
                 " dropped by the kernel; %" PRId64 " lines, %" PRId64
                 " malformed, %" PRId64 " ignored, %" PRId64
                 " without memory\n",
                 v[STATUS_W_STATSD_DATAGRAMS], v[STATUS_W_STATSD_DROPPED],
                 v[STATUS_W_STATSD_LINES], v[STATUS_W_STATSD_BAD],
                 v[STATUS_W_STATSD_IGNORED], v[STATUS_W_STATSD_NO_MEMORY]);
}

static void
print_daemon(const struct overview *o, const struct overview_row *r)
{
    char age[32];

    output_age((int64_t)o->now_ms - r->values[STATUS_STARTED_MS], age);
    (void)printf("%-7s pid %-7ld %s %s", status_kind_name(r->kind),
                 (long)r->pid,
                 overview_is_dead(r)            ? "died, began"
                 : r->values[STATUS_ALIVE] == 1 ? "runs for"
                                                : "cannot be seen, began",
                 age);
    if (r->kind == STATUS_WRITER)
        (void)printf(", %" PRId64 " messages, %" PRId64 " syncs, %" PRId64
                     " logs handed on",
                     r->values[STATUS_W_MESSAGES], r->values[STATUS_W_SYNCS],
                     r->values[STATUS_W_LOGS]);
    else if (r->kind == STATUS_WORKER)
        (void)printf(", %" PRId64 " increments of %" PRId64 " logs merged",
                     r->values[STATUS_M_RECORDS], r->values[STATUS_M_LOGS]);
    else
        (void)printf(", %" PRId64 " requests", r->values[STATUS_R_REQUESTS]);
    (void)putchar('\n');
    if (r->kind == STATUS_WRITER && (r->values[STATUS_W_STATSD_DATAGRAMS] > 0 ||
                                     r->values[STATUS_W_STATSD_LINES] > 0 ||
                                     r->values[STATUS_W_STATSD_DROPPED] > 0))
        print_statsd(r->values);
}

static void
print_people(const struct overview *o)
{
    const int64_t *facts = o->rows[0].values;
    char lag[32];

    if (facts[STATUS_D_WRITER_ALIVE] == 0)
        (void)printf("the writer is dead: this is what it told last\n");
    for (size_t i = 0; i < o->count; i++)
        if (status_is_daemon(o->rows[i].kind))
            print_daemon(o, &o->rows[i]);
    output_age(facts[STATUS_D_LAG_MS], lag);
    (void)printf("logs    %" PRId64 " empty, %" PRId64 " open, %" PRId64
                 " full, %" PRId64 " merging; %s%" PRId64
                 " increments not merged, the oldest is %s old\n",
                 facts[STATUS_D_LOGS_EMPTY], facts[STATUS_D_LOGS_OPEN],
                 facts[STATUS_D_LOGS_FULL], facts[STATUS_D_LOGS_MERGING],
                 facts[STATUS_D_LOGS_UNCOUNTED] > 0 ? "at least " : "",
                 facts[STATUS_D_UNMERGED], lag);
    if (overview_troubles(o, print_trouble, NULL) == 0)
        (void)printf("nothing needs an operator\n");
}

int
cmd_status(struct cmd_line *line)
{
    static struct overview o;
    struct output out;
    int rc, status;

    status = overview_open(&o, line->config.data_dir);
    if (status != 0)
        return status;
    rc = overview_read(&o);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "read %s", o.path);
        overview_close(&o);
        return CONFIG_EXIT_SYSTEM;
    }
    output_init(&out, line, overview_columns, OVERVIEW_COLUMNS);
    if (out.format == OUTPUT_PEOPLE)
        print_people(&o);
    else
        print_machine(&out, &o);
    status = output_fini(&out);
    overview_close(&o);
    return status == 0 && overview_fact(&o, STATUS_D_TROUBLES) > 0
               ? CONFIG_EXIT_NEGATIVE
               : status;
}

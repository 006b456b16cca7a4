/* common/client/cmd/status.c - countd status, once for people and scripts, and
 * countd watch, the same in a terminal again and again, with what has grown.
 * Entry points: cmd_status(), cmd_watch(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/client/cmd/cmd_terminal.h"
#include "common/setup/figures.h"
#include "common/setup/overview.h"

#define LEAST_MS 300 /* between two looks; daemons write more often */

/* Bytes of what is printed for programs: more than all figures of all rows. */
#define DOCUMENT_MAX ((size_t)4 << 20)

/* ---- for programs -------------------------------------------------------- */

static void
print_machine(const struct overview *o, enum table_format format)
{
    static char buffer[DOCUMENT_MAX];
    struct table_writer table;

    table_begin(&table, format, buffer, sizeof buffer);
    overview_write(o, &table);
    assert(!table.out.is_full);
    (void)fwrite(buffer, 1, table_size(&table), stdout);
}

/* ---- for people ---------------------------------------------------------- */

static void
print_trouble(void *ctx, const char *text)
{
    (void)fprintf(ctx, "! %s\n", text);
}

static void
print_daemon(FILE *out, const struct overview *o, const struct overview_row *r)
{
    char age[32];

    output_age((int64_t)o->now_ms - r->values[STATUS_STARTED_MS], age);
    (void)fprintf(out, "%-7s pid %-7ld %s %s", status_kind_name(r->kind),
                  (long)r->pid,
                  overview_is_dead(r)            ? "died, began"
                  : r->values[STATUS_ALIVE] == 1 ? "runs for"
                                                 : "cannot be seen, began",
                  age);
    if (r->kind == STATUS_WRITER)
        (void)fprintf(out,
                      ", %" PRId64 " messages, %" PRId64 " syncs, %" PRId64
                      " logs handed on",
                      r->values[STATUS_W_MESSAGES], r->values[STATUS_W_SYNCS],
                      r->values[STATUS_W_LOGS]);
    else if (r->kind == STATUS_WORKER)
        (void)fprintf(out,
                      ", %" PRId64 " increments of %" PRId64 " logs merged",
                      r->values[STATUS_M_RECORDS], r->values[STATUS_M_LOGS]);
    else
        (void)fprintf(out, ", %" PRId64 " requests",
                      r->values[STATUS_R_REQUESTS]);
    (void)fputc('\n', out);
}

static void
print_people(FILE *out, const struct overview *o)
{
    const int64_t *facts = o->rows[0].values;
    char lag[32];

    if (facts[STATUS_D_WRITER_ALIVE] == 0)
        (void)fprintf(out, "the writer is dead: these are the last figures "
                           "that it published\n");
    for (size_t i = 0; i < o->count; i++)
        if (status_is_daemon(o->rows[i].kind))
            print_daemon(out, o, &o->rows[i]);
    output_age(facts[STATUS_D_LAG_MS], lag);
    (void)fprintf(out,
                  "logs    %" PRId64 " empty, %" PRId64 " open, %" PRId64
                  " full, %" PRId64 " merging; %s%" PRId64
                  " increments not merged, the oldest is %s old\n",
                  facts[STATUS_D_LOGS_EMPTY], facts[STATUS_D_LOGS_OPEN],
                  facts[STATUS_D_LOGS_FULL], facts[STATUS_D_LOGS_MERGING],
                  facts[STATUS_D_LOGS_UNCOUNTED] > 0 ? "at least " : "",
                  facts[STATUS_D_UNMERGED], lag);
    if (overview_troubles(o, print_trouble, out) == 0)
        (void)fprintf(out, "nothing needs an operator\n");
}

int
cmd_status(struct cmd_line *line)
{
    static struct overview o;
    int rc, status;

    status = overview_open(&o, line->config.data_dir);
    if (status != 0)
        return status;
    rc = overview_read(&o);
    if (rc < 0) {
        overview_close(&o);
        return cmd_failed(rc, "read %s", o.path);
    }
    if (cmd_value(line, "json"))
        print_machine(&o, TABLE_JSON);
    else if (cmd_value(line, "tsv"))
        print_machine(&o, TABLE_TSV);
    else
        print_people(stdout, &o);
    overview_close(&o);
    return overview_fact(&o, STATUS_D_TROUBLES) > 0 ? CONFIG_EXIT_NEGATIVE
                                                    : CONFIG_EXIT_OK;
}

/* ---- watch --------------------------------------------------------------- */

/* "1.2k", "34M": 5 columns at most. */
static const char *
brief_number(double n, char text[32])
{
    static const char units[] = " kMGTPE";
    size_t i = 0;

    for (; n >= 999.5 && i + 2 < sizeof units; i++)
        n /= 1000;
    if (i == 0)
        (void)snprintf(text, 32, "%.0f", n);
    else
        (void)snprintf(text, 32, n < 9.95 ? "%.1f%c" : "%.0f%c", n, units[i]);
    return text;
}

static const struct overview_row *
row_before(const struct overview *before, const struct overview_row *r)
{
    for (size_t i = 0; i < before->count; i++) {
        const struct overview_row *b = &before->rows[i];

        if (b->kind == r->kind && b->pid == r->pid &&
            strcmp(b->name, r->name) == 0)
            return b;
    }
    return NULL;
}

/* The figures of a row that have grown since, per second by its process's own
 * clock. */
static void
print_growth(FILE *out, const struct overview_row *r,
             const struct overview_row *before)
{
    const int64_t ms =
        r->values[STATUS_BEAT_MS] - before->values[STATUS_BEAT_MS];
    char value[32], rate[32];
    size_t count;
    const struct figure *f = figures_of(r->kind, &count);

    for (const struct figure *end = f + count; ms > 0 && f < end; f++) {
        const int64_t now = r->values[f - figures];
        const int64_t more = now - before->values[f - figures];

        if (f->type == FIGURE_COUNTER && more > 0)
            (void)fprintf(
                out, "%-7s%-15s %7ld  %-24s %6s %6s\n",
                status_kind_name(r->kind), r->name, (long)r->pid, f->name,
                brief_number((double)now, value),
                brief_number(1000.0 * (double)more / (double)ms, rate));
    }
}

static void
draw_page(const struct overview *now, const struct overview *before)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return; /* the next look may have memory */
    print_people(out, now);
    (void)fprintf(out, "\n%-22s %7s  %-24s %6s %6s\n", "process", "pid",
                  "figure", "value", "a second");
    for (size_t i = 1; i < now->count; i++) {
        const struct overview_row *b = row_before(before, &now->rows[i]);

        if (b)
            print_growth(out, &now->rows[i], b);
    }
    if (fclose(out) == 0)
        screen_draw(text);
    free(text);
}

int
cmd_watch(struct cmd_line *line)
{
    static struct overview now, before;
    struct screen s;
    uint64_t ms = cmd_option_ms(line, "i", 1000);
    int status = *line->status;

    if (status == 0 && ms < LEAST_MS)
        status = cmd_misuse(line, cmd_value(line, "i"),
                            "give a duration of at least 300ms");
    if (status == 0)
        status = overview_open(&now, line->config.data_dir);
    if (status != 0)
        return status;
    status = screen_open(&s);
    if (status == 0) {
        do {
            /* If the board cannot be read, the screen keeps its content. */
            if (overview_read(&now) == 0)
                draw_page(&now, &before);
            before = now;
        } while (screen_wait(&s, (int)ms));
        screen_close(&s);
    }
    overview_close(&now);
    return status;
}

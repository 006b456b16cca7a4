/* common/client/cmd/watch.c - countd watch: the daemons, live in a terminal.
 * Read from the end: cmd_watch(), draw_page(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/client/cmd/cmd_terminal.h"
#include "common/setup/overview.h"

#define LEAST_MS 100

/* Two readings of the board; rates are computed from their difference. */
struct watched {
    struct overview now, before;
    bool rates; /* `before` is valid */
};

/* "1.2k", "34M": 6 columns at most. */
static const char *
brief_number(double n, char text[32])
{
    static const char units[] = " kMGTPE";
    size_t i = 0;

    if (n < 0)
        n = 0;
    for (; n >= 999.5 && i + 2 < sizeof units; i++)
        n /= 1000;
    if (i == 0)
        (void)snprintf(text, 32, "%.0f", n);
    else
        (void)snprintf(text, 32, n < 9.95 ? "%.1f%c" : "%.0f%c", n, units[i]);
    return text;
}

static const struct overview_row *
row_before(const struct watched *w, const struct overview_row *r)
{
    for (size_t i = 0; i < w->before.count; i++) {
        const struct overview_row *b = &w->before.rows[i];

        if (b->kind == r->kind && b->pid == r->pid &&
            strcmp(b->name, r->name) == 0)
            return b;
    }
    return NULL;
}

/* Per second, by the process's own clock. */
static double
rate_of(const struct watched *w, const struct overview_row *r, size_t value)
{
    const struct overview_row *b = w->rates ? row_before(w, r) : NULL;
    const int64_t ms =
        b ? r->values[STATUS_BEAT_MS] - b->values[STATUS_BEAT_MS] : 0;

    if (ms <= 0)
        return 0;
    return 1000.0 * (double)(r->values[value] - b->values[value]) / (double)ms;
}

/* ---- parts of the page ------------------------------------------------- */

static void
draw_writer(struct screen *s, const struct watched *w)
{
    const struct overview_row *r = overview_writer(&w->now);
    char a[32], b[32], c[32], d[32];
    double syncs;

    if (!r)
        return;
    syncs = rate_of(w, r, STATUS_W_SYNCS);
    screen_line(
        s, "in    %6s msg/s  %6sB/s  %6s syncs/s  %6s us each",
        brief_number(rate_of(w, r, STATUS_W_MESSAGES), a),
        brief_number(rate_of(w, r, STATUS_W_BYTES), b), brief_number(syncs, c),
        brief_number(syncs > 0 ? rate_of(w, r, STATUS_W_SYNC_US) / syncs : 0,
                     d));
    screen_line(s, "total %6s msg    %6sB    %6s syncs    %6s logs",
                brief_number((double)r->values[STATUS_W_MESSAGES], a),
                brief_number((double)r->values[STATUS_W_BYTES], b),
                brief_number((double)r->values[STATUS_W_SYNCS], c),
                brief_number((double)r->values[STATUS_W_LOGS], d));
    screen_line(s, "live  %6s objects  %s refused for memory  disk %sB free",
                brief_number((double)r->values[STATUS_W_OBJECTS], a),
                brief_number((double)r->values[STATUS_W_NO_MEMORY], b),
                brief_number((double)r->values[STATUS_W_DISK_FREE], c));
}

/* One sign for each log: its place in the ring. */
static void
draw_ring(struct screen *s, const struct overview *o)
{
    static const char signs[STATUS_LOG_STATES] = {' ', '.', 'o', '#', 'm'};
    const unsigned wide = s->width > 8 ? s->width - 8 : 1;
    const int64_t *facts = o->rows[0].values;
    char text[SCREEN_WIDTH_MAX + 1], lag[32];
    size_t at = 0;

    output_age(facts[STATUS_D_LAG_MS], lag);
    screen_line(s,
                "logs  %" PRId64 " empty . %" PRId64 " open o %" PRId64
                " full # %" PRId64 " merging m  lag %s",
                facts[STATUS_D_LOGS_EMPTY], facts[STATUS_D_LOGS_OPEN],
                facts[STATUS_D_LOGS_FULL], facts[STATUS_D_LOGS_MERGING],
                facts[STATUS_D_LAG_MS] > 0 ? lag : "none");
    for (; at < o->log_end && at < wide; at++) {
        const int64_t state = o->logs[at][STATUS_LOG_STATE];

        text[at] = state >= 0 && state < STATUS_LOG_STATES ? signs[state] : '?';
    }
    text[at] = '\0';
    screen_line(s, "      %s%s", text, at < o->log_end ? "+" : "");
}

static void
draw_workers(struct screen *s, const struct watched *w)
{
    char a[32], b[32], c[32];

    screen_title(s, "worker       pid  incr/s  keys/s    logs  busy  state");
    for (size_t i = 0; i < w->now.count; i++) {
        const struct overview_row *r = &w->now.rows[i];
        const int64_t *v = r->values;

        if (r->kind != STATUS_WORKER)
            continue;
        screen_line(s, "%16ld  %6s  %6s  %6s  %3.0f%%  %s", (long)r->pid,
                    brief_number(rate_of(w, r, STATUS_M_RECORDS), a),
                    brief_number(rate_of(w, r, STATUS_M_KEYS), b),
                    brief_number((double)v[STATUS_M_LOGS], c),
                    rate_of(w, r, STATUS_M_MERGE_US) / 10000,
                    overview_is_dead(r)    ? "died"
                    : v[STATUS_M_WAITING]  ? "cannot write"
                    : v[STATUS_M_HELD_NOW] ? "holds records"
                                           : "well");
    }
}

static void
draw_ports(struct screen *s, const struct watched *w)
{
    char a[32], b[32], c[32], d[32], e[32];

    screen_title(s, "port              open   new/s    in/s   out/s  "
                    "rejects  (bad cut full)");
    for (size_t i = 0; i < w->now.count; i++) {
        const struct overview_row *r = &w->now.rows[i];
        const int64_t *v = r->values;

        if (r->kind != STATUS_LISTENER || overview_is_dead(r))
            continue;
        screen_line(s,
                    "%-16s  %4s  %6s  %6s  %6s  %7s  (%" PRId64 " %" PRId64
                    " %" PRId64 ")",
                    r->name, brief_number((double)v[STATUS_L_OPEN], a),
                    brief_number(rate_of(w, r, STATUS_L_CONNECTIONS), b),
                    brief_number(rate_of(w, r, STATUS_L_RECEIVED), c),
                    brief_number(rate_of(w, r, STATUS_L_SENT), d),
                    brief_number(
                        (double)(v[STATUS_L_MALFORMED] + v[STATUS_L_BROWSERS] +
                                 v[STATUS_L_CUT_OFF] + v[STATUS_L_LATE] +
                                 v[STATUS_L_TURNED_AWAY] +
                                 v[STATUS_L_NOT_ALLOWED] + v[STATUS_L_EVICTED]),
                        e),
                    v[STATUS_L_MALFORMED] + v[STATUS_L_BROWSERS],
                    v[STATUS_L_CUT_OFF] + v[STATUS_L_LATE],
                    v[STATUS_L_TURNED_AWAY] + v[STATUS_L_NOT_ALLOWED] +
                        v[STATUS_L_EVICTED]);
    }
}

static void
draw_readers(struct screen *s, const struct watched *w)
{
    char a[32], b[32], age[32];

    for (size_t i = 0; i < w->now.count; i++) {
        const struct overview_row *r = &w->now.rows[i];

        if (r->kind != STATUS_READER)
            continue;
        output_age((int64_t)w->now.now_ms - r->values[STATUS_R_AS_OF_MS], age);
        screen_line(s, "read  pid %ld%s  %s requests/s  %s in all  as of %s",
                    (long)r->pid, overview_is_dead(r) ? " died" : "",
                    brief_number(rate_of(w, r, STATUS_R_REQUESTS), a),
                    brief_number((double)r->values[STATUS_R_REQUESTS], b), age);
    }
}

static void
draw_trouble(void *ctx, const char *text)
{
    screen_line(ctx, "! %s", text);
}

static void
draw_page(struct screen *s, const struct watched *w)
{
    const struct overview *o = &w->now;

    screen_begin(s);
    screen_title(s,
                 overview_fact(o, STATUS_D_WRITER_ALIVE) == 0
                     ? "countd  THE WRITER IS DEAD (pid %ld): what it told last"
                     : "countd  writer %ld",
                 (long)o->rows[0].pid);
    draw_writer(s, w);
    draw_ring(s, o);
    draw_workers(s, w);
    draw_readers(s, w);
    draw_ports(s, w);
    /* Its count is not needed: all of them are on the page. */
    (void)overview_troubles(o, draw_trouble, s);
    screen_end();
}

int
cmd_watch(struct cmd_line *line)
{
    static struct watched w;
    struct screen s;
    uint64_t ms = cmd_option_ms(line, "i", 1000);
    int status = *line->status;

    if (ms < LEAST_MS)
        ms = LEAST_MS;
    if (status == 0)
        status = overview_open(&w.now, line->config.data_dir);
    if (status != 0)
        return status;
    status = screen_open(&s);
    if (status != 0) {
        overview_close(&w.now);
        return status;
    }
    do {
        /* If the board cannot be read, the screen keeps its last content. */
        if (overview_read(&w.now) == 0 || !w.rates)
            draw_page(&s, &w);
        w.before = w.now;
        w.rates = true;
    } while (screen_wait(&s, ms > INT32_MAX ? INT32_MAX : (int)ms));
    screen_close(&s);
    overview_close(&w.now);
    return CONFIG_EXIT_OK;
}

/* reader/metrics.c - GET /metrics: the figures of all processes of the data
 * directory, from data/board, and counters of users, for Prometheus:
 * read_metrics().
 *
 * The text format 0.0.4 or OpenMetrics 1.0.0.  No sample has a timestamp.  A
 * label `slot` is the place on the board, which a restart does not change,
 * unlike the pid.  The job of a scrape reads the counters of users
 * (user_metrics.h).
 *
 * put_all() writes family after family: those of the board in the order of
 * figures.def, then put_users(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/read_commands.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/version.h"
#include "common/setup/figures.h"

/* The longest answer: a row for each place of the board, and the counters of
 * users. */
static_assert(READ_HTTP_TEXT_MAX >= ((size_t)1 << 20) + USER_METRICS_TEXT,
              "the buffer is that of texts");

struct sink {
    struct json_writer *out; /* of the table, for its buffer */
    bool is_open;
};

__attribute__((format(printf, 2, 3))) static void
put_text(struct sink *s, const char *format, ...)
{
    const size_t left = (size_t)(s->out->end - s->out->at);
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf((char *)s->out->at, left, format, args);
    va_end(args);
    assert(n >= 0 && (size_t)n < left);
    s->out->at += n;
}

/* ---- families ----------------------------------------------------------- */

/* In OpenMetrics a family's name has no _total and no _info, and has a
 * unit. */
static void
begin_family(struct sink *s, const struct figure *f)
{
    static const char *const types[] = {"counter", "gauge", "gauge"};
    static const char *const units[] = {[FIGURE_BYTES] = "bytes",
                                        [FIGURE_MS] = "seconds",
                                        [FIGURE_US] = "seconds",
                                        [FIGURE_BOOL] = NULL};
    const char *type = types[f->type];
    size_t size = strlen(f->metric);

    if (s->is_open && f->type == FIGURE_COUNTER)
        size -= sizeof "_total" - 1;
    if (s->is_open && f->type == FIGURE_INFO) {
        size -= sizeof "_info" - 1;
        type = "info";
    }
    put_text(s, "# HELP %.*s %s.\n# TYPE %.*s %s\n", (int)size, f->metric,
             f->family ? f->family : f->help, (int)size, f->metric, type);
    if (s->is_open && units[f->unit])
        put_text(s, "# UNIT %.*s %s\n", (int)size, f->metric, units[f->unit]);
}

/* A time is in seconds. */
static void
put_value(struct sink *s, const struct figure *f, int64_t value)
{
    if (f->unit == FIGURE_MS)
        put_text(s, " %.3f\n", (double)value / 1e3);
    else if (f->unit == FIGURE_US)
        put_text(s, " %.6f\n", (double)value / 1e6);
    else
        put_text(s, " %" PRId64 "\n", value);
}

/* A family without labels. */
static void
put_one(struct sink *s, enum status_figure figure, int64_t value)
{
    const struct figure *f = &figures[figure];

    begin_family(s, f);
    put_text(s, "%s", f->metric);
    put_value(s, f, value);
}

/* ---- figures of the board ----------------------------------------------- */

/* A sample, behind the head of its family unless *family is that; none if the
 * value is unknown. */
static void
put_sample(struct sink *s, const struct figure *f, const struct overview_row *r,
           int64_t value, const char **family)
{
    const bool is_alone = f->label && f->label[0] == '\0';
    const bool has_slot = r->kind != STATUS_DIRECTORY && !is_alone;
    const char *equal = f->label ? strchr(f->label, '=') : NULL;

    if (value == FIGURE_UNKNOWN)
        return;
    if (!*family || strcmp(*family, f->metric) != 0)
        begin_family(s, f);
    *family = f->metric;
    put_text(s, "%s%s", f->metric, has_slot || equal ? "{" : "");
    if (r->name[0] != '\0')
        put_text(s, "%s=\"%s\",", status_kind_name(r->kind), r->name);
    if (f->kind == STATUS_PROCESS)
        put_text(s, "process=\"%s\",", status_kind_name(r->kind));
    if (has_slot)
        put_text(s, "slot=\"%u\"%s", r->slot, equal ? "," : "");
    if (equal)
        put_text(s, "%.*s=\"%s\"", (int)(equal - f->label), f->label,
                 equal + 1);
    put_text(s, "%s", has_slot || equal ? "}" : "");
    put_value(s, f, value);
}

/* Ports of other protocols have no responses of HTTP. */
static bool
has_figure(const struct overview_row *r, const struct figure *f)
{
    if (f->kind == STATUS_PROCESS)
        return status_is_daemon(r->kind);
    return f->kind == r->kind &&
           (f < &figures[STATUS_L_HTTP_2XX] ||
            f > &figures[STATUS_L_HTTP_5XX] || strstr(r->name, "http"));
}

/* The samples of a figure: one for each row, or the largest of them alone. */
static void
put_figure(struct sink *s, const struct overview *o, const struct figure *f,
           const char **family)
{
    const bool is_alone = f->label && f->label[0] == '\0';
    const struct overview_row *r, *most = NULL;
    const size_t i = (size_t)(f - figures);

    for (r = o->rows; r < o->rows + o->count; r++) {
        if (!has_figure(r, f))
            continue;
        if (!is_alone)
            put_sample(s, f, r, r->values[i], family);
        else if (!most || r->values[i] > most->values[i])
            most = r;
    }
    if (most)
        put_sample(s, f, most, most->values[i], family);
}

/* ---- figures of a scrape ------------------------------------------------ */

/* The counters of users. */
static void
put_users(struct sink *s, const struct user_metrics *u)
{
    char label[USER_METRICS_LABEL];

    if (u->keyspaces >= 0)
        put_one(s, STATUS_S_KEYSPACES, u->keyspaces);
    for (size_t v = STATUS_S_KEYS; u->count > 0 && v <= STATUS_S_VALUE; v++) {
        const struct figure *f = &figures[v];

        begin_family(s, f);
        for (size_t i = 0; i < u->count; i++) {
            const struct user_keyspace *k = &u->rows[i];

            put_text(s, "%s{keyspace=\"%s\"} %" PRId64 "\n", f->metric,
                     user_metrics_label(k->name, k->size, label),
                     v == STATUS_S_KEYS ? k->keys : k->value);
        }
    }
    if (u->text_size > 0) {
        begin_family(s, &figures[STATUS_S_KEY]);
        put_text(s, "%.*s", (int)u->text_size, u->text);
    }
    if (u->site->patterns.count > 0)
        put_one(s, STATUS_S_LEFT_OUT, (int64_t)u->left_out);
}

/* NULL: there is no board, and only what is known without it is written. */
static void
put_all(struct sink *s, const struct overview *o, const struct user_metrics *u)
{
    const struct figure *build = &figures[STATUS_S_BUILD];
    const char *family = NULL;

    begin_family(s, build);
    put_text(s, "%s{version=\"%s\"} 1\n", build->metric, VERSION);
    for (size_t i = 0; o && i < STATUS_FIGURES; i++)
        if (figures[i].kind != STATUS_SCRAPE)
            put_figure(s, o, &figures[i], &family);
    put_users(s, u);
    if (s->is_open)
        put_text(s, "# EOF\n");
}

/* ---- scrapes ------------------------------------------------------------ */

const struct read_problem *
read_metrics(struct read_request *a)
{
    struct read_http *h = a->http;
    struct sink s = {.out = &a->table.out, .is_open = a->wants_open_metrics};

    a->type = s.is_open ? "application/openmetrics-text; version=1.0.0; "
                          "charset=utf-8"
                        : "text/plain; version=0.0.4; charset=utf-8";
    put_all(&s, read_board(h) ? &h->overview : NULL, &a->job->users);
    return NULL;
}

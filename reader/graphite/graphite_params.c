/* reader/graphite/graphite_params.c - the parameters of a request, which the
 * URL and a form give: see graphite.h; graphite_read_parameters(),
 * graphite_check_parameters(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "common/net/http_query.h"
#include "common/wire/name.h"
#include "reader/graphite/graphite.h"
#include "reader/graphite/moment.h"

struct parameter {
    char name[HTTP_QUERY_NAME_SIZE];
    struct target_text value;
};

static int
fail_parameter(struct graphite_job *g, const struct parameter *p,
               const char *what)
{
    return render_fail(&g->render, HTTP_BAD_REQUEST, "%s: %s", p->name, what);
}

/* A number whose decimals are cut off; none and 0 are no limit. */
static int
read_data_points(struct graphite_job *g, const struct parameter *p)
{
    const char *at = p->value.at, *const end = at + p->value.size;
    int64_t points = 0;

    for (; at < end && isdigit((unsigned char)*at); at++)
        if (points <= INT32_MAX)
            points = 10 * points + (*at - '0');
    if (at > p->value.at && at < end && *at == '.')
        while (++at < end && isdigit((unsigned char)*at))
            continue;
    if (at < end)
        return fail_parameter(g, p, "not a number of points");
    g->render.max_data_points = points;
    return 0;
}

static int
read_render_format(struct graphite_job *g, const struct parameter *p)
{
    static const char *const names[] = {
        [RENDER_JSON] = "json", [RENDER_RAW] = "raw", [RENDER_CSV] = "csv"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (target_text_is(p->value, names[i])) {
            g->render.format = (enum render_format)i;
            return 0;
        }
    return fail_parameter(g, p, "json, raw or csv");
}

static int
read_find_format(struct graphite_job *g, const struct parameter *p)
{
    g->is_completer = target_text_is(p->value, "completer");
    return g->is_completer || target_text_is(p->value, "treejson")
               ? 0
               : fail_parameter(g, p, "treejson or completer");
}

static int
read_target(struct graphite_job *g, const struct parameter *p)
{
    return p->value.size == 0
               ? 0
               : render_add_target(&g->render, p->value.at, p->value.size);
}

static int
read_leaves_only(struct graphite_job *g, const struct parameter *p)
{
    g->wanted =
        target_text_is(p->value, "0") || target_text_is(p->value, "false")
            ? PATH_SEARCH_NODES
            : PATH_SEARCH_LEAVES;
    return 0;
}

#define RENDER (1u << GRAPHITE_RENDER)
#define FIND   (1u << GRAPHITE_FIND)
#define EXPAND (1u << GRAPHITE_EXPAND)

/* The parameters of requests.  Without `read` the value is copied to the text at
 * `text`, until all are read.  Some clients write lists as target[]=a&target[]=b. */
static const struct {
    const char *name;
    unsigned kinds;
    int (*read)(struct graphite_job *g, const struct parameter *p);
    size_t text;
} parameters[] = {
    {"target", RENDER, read_target, 0},
    {"target[]", RENDER, read_target, 0},
    {"from", RENDER, NULL, offsetof(struct graphite_job, from)},
    {"until", RENDER, NULL, offsetof(struct graphite_job, until)},
    {"tz", RENDER, NULL, offsetof(struct graphite_job, tz)},
    {"maxDataPoints", RENDER, read_data_points, 0},
    {"format", RENDER, read_render_format, 0},
    {"format", FIND, read_find_format, 0},
    {"query", FIND | EXPAND, NULL, offsetof(struct graphite_job, query)},
    {"leavesOnly", EXPAND, read_leaves_only, 0}};

static int
keep_text(struct graphite_job *g, const struct parameter *p,
          struct target_text *out)
{
    out->at = scratch_copy(&g->scratch, p->value.at, p->value.size);
    out->size = p->value.size;
    return out->at ? 0 : render_fail_memory(&g->render);
}

/* Unknown parameters are ignored. */
static int
read_parameter(struct graphite_job *g, const struct parameter *p, bool is_long)
{
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
        if ((parameters[i].kinds >> g->kind & 1) == 0 ||
            strcmp(p->name, parameters[i].name) != 0)
            continue;
        if (is_long)
            return fail_parameter(g, p, "more than 65536 bytes");
        return parameters[i].read
                   ? parameters[i].read(g, p)
                   : keep_text(g, p, (void *)((char *)g + parameters[i].text));
    }
    return 0;
}

int
graphite_read_parameters(struct graphite_job *g, struct http_text text)
{
    struct parameter p = {.value.at = g->site->value};
    int rc;

    do {
        rc = http_query_next(&text, p.name, (uint8_t *)g->site->value,
                             TARGET_SIZE_MAX, &p.value.size);
        if (rc == -EINVAL)
            return render_fail(&g->render, HTTP_BAD_REQUEST,
                               "%% without two hexadecimal digits in the "
                               "parameters");
        if (rc != 0 && read_parameter(g, &p, rc < 0) < 0)
            return -1;
    } while (rc != 0);
    return 0;
}

static int
read_time(struct graphite_job *g, const char *name, struct target_text text,
          int64_t *out)
{
    if (text.size == 0 ||
        moment_parse(text.at, text.size, g->render.now, &g->zone, out) == 0)
        return 0;
    return render_fail(&g->render, HTTP_BAD_REQUEST,
                       "%s: not a time: -6h, -1mon, now, midnight, yesterday, "
                       "monday, HH:MM_YYYYMMDD, YYYYMMDD or Unix seconds",
                       name);
}

/* Reads `from` and `until`, which are of the time zone. */
static int
read_times(struct graphite_job *g)
{
    struct function_times *t = &g->render.times;
    char shown[NAME_SHOWN_SIZE];
    int rc = zone_open(&g->zone, g->tz.at, g->tz.size);

    if (rc < 0)
        return render_fail(&g->render, HTTP_BAD_REQUEST,
                           rc == -ENOENT
                               ? "tz: no time zone %s in " ZONE_DIRECTORY
                               : "tz: the file of %s in " ZONE_DIRECTORY
                                 " cannot be read",
                           name_show(g->tz.at, g->tz.size, shown));
    rc = read_time(g, "from", g->from, &t->from);
    return rc < 0 ? rc : read_time(g, "until", g->until, &t->until);
}

/* Completes what is typed, as Graphite does: any bytes may follow it, and a node
 * that two dots end.  NULL: no memory. */
static const char *
complete_query(struct graphite_job *g, struct target_text *query)
{
    char *text = scratch_take(&g->scratch, 2 * query->size + 2);
    size_t n = 0;

    for (size_t i = 0; text && i < query->size; i++) {
        if (query->at[i] == '.' && i + 1 < query->size &&
            query->at[i + 1] == '.') {
            text[n++] = '*';
            i++;
        }
        text[n++] = query->at[i];
    }
    if (text && (n == 0 || text[n - 1] != '*'))
        text[n++] = '*';
    *query = (struct target_text){text, n};
    return text;
}

static int
read_query(struct graphite_job *g)
{
    int rc = 0;

    if (!g->query.at)
        return render_fail(&g->render, HTTP_BAD_REQUEST, "query is missing");
    if (g->is_completer && !complete_query(g, &g->query))
        rc = -ENOMEM;
    if (rc == 0)
        rc = pattern_parse(&g->scratch, g->query, &g->pattern, g->render.why);
    if (rc == -ENOMEM)
        return render_fail_memory(&g->render);
    if (rc < 0)
        g->render.status = HTTP_BAD_REQUEST;
    return rc;
}

int
graphite_check_parameters(struct graphite_job *g)
{
    struct function_times *t = &g->render.times;
    int64_t from;

    if (g->kind != GRAPHITE_RENDER)
        return read_query(g);
    if (read_times(g) < 0)
        return -1;
    from = t->from;
    if (from == t->until)
        return render_fail(&g->render, HTTP_BAD_REQUEST,
                           "from and until are the same time");
    if (from > t->until) { /* as Graphite has it */
        t->from = t->until;
        t->until = from;
    }
    return 0;
}

/* reader/graphite/graphite_params.c - the parameters of a request, which the
 * URL and a form give: see graphite.h; graphite_read_parameters(),
 * graphite_check_parameters(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "common/net/http_query.h"
#include "common/wire/increment_line.h"
#include "common/wire/name.h"
#include "reader/graphite/graphite.h"
#include "reader/graphite/moment.h"

struct parameter {
    char name[HTTP_QUERY_NAME_SIZE];
    const char *text;
    size_t size;
};

static bool
is_value(const struct parameter *p, const char *what)
{
    return p->size == strlen(what) && memcmp(p->text, what, p->size) == 0;
}

static int
fail_parameter(struct graphite *g, const struct parameter *p, const char *what)
{
    return render_fail(&g->render, HTTP_BAD_REQUEST, "%s: %s", p->name, what);
}

/* Keeps a value until all parameters are read. */
static int
keep_text(struct graphite *g, const struct parameter *p,
          struct target_text *out)
{
    out->at = scratch_copy(&g->scratch, p->text, p->size);
    out->size = p->size;
    return out->at ? 0 : render_fail_memory(&g->render);
}

static int
read_data_points(struct graphite *g, const struct parameter *p)
{
    int64_t *out = &g->render.max_data_points;

    if (increment_number_parse(p->text, p->size, out) == 0 && *out >= 1 &&
        *out <= INT32_MAX)
        return 0;
    return fail_parameter(g, p, "not a number of points");
}

static int
read_format(struct graphite *g, const struct parameter *p)
{
    if (g->kind == GRAPHITE_RENDER)
        return is_value(p, "json") ? 0 : fail_parameter(g, p, "only json");
    g->is_completer = is_value(p, "completer");
    return g->is_completer || is_value(p, "treejson")
               ? 0
               : fail_parameter(g, p, "treejson or completer");
}

static int
read_query(struct graphite *g, const struct parameter *p)
{
    const char *copy = scratch_copy(&g->scratch, p->text, p->size);
    int rc;

    if (!copy)
        return render_fail_memory(&g->render);
    rc = pattern_parse(&g->scratch, (struct target_text){copy, p->size},
                       &g->pattern, g->render.why);
    if (rc == -ENOMEM)
        return render_fail_memory(&g->render);
    g->has_query = true;
    g->render.status = HTTP_BAD_REQUEST;
    return rc;
}

/* Unknown parameters are ignored. */
static int
read_parameter(struct graphite *g, const struct parameter *p)
{
    struct render *r = &g->render;
    const bool renders = g->kind == GRAPHITE_RENDER;

    if (strcmp(p->name, "format") == 0 && g->kind != GRAPHITE_EXPAND)
        return read_format(g, p);
    if (renders && strcmp(p->name, "target") == 0)
        return p->size == 0 || render_add_target(r, p->text, p->size) ? 0 : -1;
    if (renders && strcmp(p->name, "from") == 0)
        return keep_text(g, p, &g->from);
    if (renders && strcmp(p->name, "until") == 0)
        return keep_text(g, p, &g->until);
    if (renders && strcmp(p->name, "tz") == 0)
        return keep_text(g, p, &g->tz);
    if (renders && strcmp(p->name, "maxDataPoints") == 0)
        return read_data_points(g, p);
    if (!renders && strcmp(p->name, "query") == 0)
        return read_query(g, p);
    if (g->kind == GRAPHITE_EXPAND && strcmp(p->name, "leavesOnly") == 0)
        g->only_leaves = !is_value(p, "0") && !is_value(p, "false");
    return 0;
}

int
graphite_read_parameters(struct graphite *g, struct http_text text)
{
    struct parameter p = {.text = g->value};
    int rc;

    for (;;) {
        rc = http_query_next(&text, p.name, (uint8_t *)g->value,
                             TARGET_SIZE_MAX, &p.size);
        if (rc == 0)
            return 0;
        if (rc == -ENAMETOOLONG &&
            (strcmp(p.name, "target") == 0 || strcmp(p.name, "query") == 0))
            return fail_parameter(g, &p, "more than 65536 bytes");
        if (rc == -ENAMETOOLONG)
            continue; /* an unknown parameter */
        if (rc < 0)
            return render_fail(&g->render, HTTP_BAD_REQUEST,
                               "%% without two hexadecimal digits in the "
                               "parameters");
        rc = read_parameter(g, &p);
        if (rc < 0)
            return rc;
    }
}

static int
read_time(struct graphite *g, const char *name, struct target_text text,
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
read_times(struct graphite *g)
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

int
graphite_check_parameters(struct graphite *g)
{
    const struct function_times *t = &g->render.times;

    if (g->kind == GRAPHITE_RENDER && read_times(g) < 0)
        return -1;
    if (g->kind == GRAPHITE_RENDER && t->from >= t->until)
        return render_fail(&g->render, HTTP_BAD_REQUEST,
                           "from is not before until");
    if (g->kind != GRAPHITE_RENDER && !g->has_query)
        return render_fail(&g->render, HTTP_BAD_REQUEST, "query is missing");
    return 0;
}

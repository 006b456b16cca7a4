/* reader/graphite/render_write.c - the answer of /render: render_write_step(), by
 * the functions of `formats`; see render.h.
 *
 *     json   [{"target":"web.a","tags":{"name":"web.a"},"datapoints":[[1,60]]}]
 *     raw    web.a,1795219200,1795219500,60|1,2,None,4,5
 *     csv    web.a,2026-11-21 00:00:00,1
 *
 * raw has the first time, the one after the last, and the step.  Names in lines
 * are in text form, and in CSV one that a spreadsheet would take for a formula has
 * its first byte as \xHH. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/wire/name.h"
#include "common/wire/table_write.h"
#include "reader/graphite/render.h"

#define POINT_MAX    128 /* bytes of a point, or around points, beside a name */
#define POINTS_ATIME 256 /* between looks at the clock */

/* Sees to it that `size` bytes of the answer fit.  Below 0: there is no memory,
 * or the answer is too long. */
static int
reserve_bytes(struct render *r, size_t size)
{
    const int rc = chunks_reserve(r->answer, size);

    if (rc == -E2BIG)
        return render_fail(r, HTTP_BAD_REQUEST,
                           "an answer of more than %zu MiB: give a shorter "
                           "time, fewer series or maxDataPoints",
                           (r->limits.max_bytes + ((1u << 20) - 1)) >> 20);
    return rc == 0 ? 0 : render_fail_memory(r);
}

static int
begin_json(struct render *r, const struct series *s)
{
    struct json_writer *w = &r->answer->json;

    /* Each byte of a name may become six. */
    if (reserve_bytes(r, 6 * (s->name.size + s->path.size) + 128) < 0)
        return -1;
    json_begin(w, '{');
    json_member(w, "target");
    json_string(w, s->name.at, s->name.size);
    json_member(w, "tags");
    json_begin(w, '{');
    json_member(w, "name");
    json_string(w, s->path.at, s->path.size);
    json_end(w, '}');
    json_member(w, "datapoints");
    json_begin(w, '[');
    return 0;
}

static void
put_json_point(struct render *r, const struct series *s, size_t i)
{
    struct json_writer *w = &r->answer->json;
    char text[SERIES_TEXT_SIZE];
    const char *value = series_text(s->points[i], text);

    json_begin(w, '[');
    json_literal(w, value ? value : "null");
    json_integer(w, series_time(s, i));
    json_end(w, ']');
}

/* ---- lines ---------------------------------------------------------------- */

/* Puts a value, or what stands for none. */
static void
put_value(struct render *r, const struct series *s, size_t i, const char *none)
{
    char text[SERIES_TEXT_SIZE];
    const char *value = series_text(s->points[i], text);

    json_chars(&r->answer->json, value ? value : none);
}

static int
begin_raw(struct render *r, const struct series *s)
{
    char *name = scratch_take(r->scratch, 4 * s->name.size + 1);
    char times[80];

    if (!name)
        return render_fail_memory(r);
    if (reserve_bytes(
            r, name_escape((const uint8_t *)s->name.at, s->name.size, name) +
                   POINT_MAX) < 0)
        return -1;
    (void)snprintf(times, sizeof times, ",%" PRId64 ",%" PRId64 ",%" PRId64 "|",
                   s->start, s->start + (int64_t)s->count * s->step,
                   s->step); /* 63 bytes fit */
    json_chars(&r->answer->json, name);
    json_chars(&r->answer->json, times);
    return 0;
}

static void
put_raw(struct render *r, const struct series *s, size_t i)
{
    json_chars(&r->answer->json, i > 0 ? "," : "");
    put_value(r, s, i, "None");
}

/* Makes the text that each line begins with. */
static int
begin_csv(struct render *r, const struct series *s)
{
    r->csv_name = scratch_take(r->scratch, 4 * s->name.size + 4);
    if (!r->csv_name)
        return render_fail_memory(r);
    (void)name_escape((const uint8_t *)s->name.at, s->name.size, r->csv_name);
    table_guard_name(r->csv_name);
    r->csv_size = 2 * strlen(r->csv_name) + 2;
    return 0;
}

static void
put_csv(struct render *r, const struct series *s, size_t i)
{
    const time_t local =
        (time_t)(series_time(s, i) + zone_ahead(r->zone, series_time(s, i)));
    char time[32] = "";
    struct tm day;

    if (gmtime_r(&local, &day))
        (void)strftime(time, sizeof time, ",%Y-%m-%d %H:%M:%S,", &day);
    table_put_field(&r->answer->json, r->csv_name);
    json_chars(&r->answer->json, time);
    put_value(r, s, i, "");
    json_chars(&r->answer->json, "\r\n");
}

/* ---- the answer ----------------------------------------------------------- */

static const struct {
    const char *type;
    int (*begin)(struct render *r, const struct series *s);
    void (*put)(struct render *r, const struct series *s, size_t i);
    const char *end; /* of a series; NULL: the brackets of JSON */
} formats[] = {
    [RENDER_JSON] = {"application/json", begin_json, put_json_point, NULL},
    [RENDER_RAW] = {"text/plain; charset=utf-8", begin_raw, put_raw, "\n"},
    [RENDER_CSV] = {"text/csv; charset=utf-8; header=absent", begin_csv,
                    put_csv, ""}};

const char *
render_type(const struct render *r)
{
    return formats[r->format].type;
}

/* Writes points of a series.  1: all of them; 0: some; -1: it failed. */
static int
put_points(struct render *r, const struct series *s, uint64_t until_ns)
{
    struct json_writer *w = &r->answer->json;

    while (r->points < s->count) {
        if (reserve_bytes(r, r->csv_size + POINT_MAX) < 0)
            return -1;
        formats[r->format].put(r, s, r->points++);
        if (r->points % POINTS_ATIME == 0 && clock_ns() >= until_ns)
            return 0;
    }
    if (reserve_bytes(r, POINT_MAX) < 0)
        return -1;
    if (formats[r->format].end) {
        json_chars(w, formats[r->format].end);
        return 1;
    }
    json_end(w, ']');
    json_end(w, '}');
    return 1;
}

/* The end of the answer. */
static int
end_answer(struct render *r)
{
    if (reserve_bytes(r, POINT_MAX) < 0)
        return -1;
    if (r->format == RENDER_JSON)
        json_end(&r->answer->json, ']');
    chunks_end(r->answer);
    return 1;
}

int
render_write_step(struct render *r, uint64_t until_ns)
{
    const struct series_list *list;
    int rc;

    if (!r->answer->last) {
        if (reserve_bytes(r, POINT_MAX) < 0)
            return -1;
        if (r->format == RENDER_JSON)
            json_begin(&r->answer->json, '[');
    }
    while (r->node && r->node->parent) /* only the root of a target is shown */
        r->node = r->node->after;
    if (!r->node)
        return end_answer(r);
    list = r->node->result;
    if (r->written == list->count) {
        r->node = r->node->after;
        r->written = 0;
        return 0;
    }
    if (!r->has_begun &&
        formats[r->format].begin(r, list->items[r->written]) < 0)
        return -1;
    r->has_begun = true;
    rc = put_points(r, list->items[r->written], until_ns);
    if (rc == 1) {
        r->written++;
        r->points = 0;
        r->has_begun = false;
    }
    return rc < 0 ? -1 : 0;
}

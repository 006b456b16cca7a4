/* reader/graphite/render_write.c - the answer of /render; see render.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "common/base/clock.h"
#include "reader/graphite/render.h"

#define POINT_MAX    96  /* bytes of a point, with what follows the last one */
#define POINTS_ATIME 256 /* between looks at the clock */

bool
render_reserve(struct render *r, size_t size)
{
    const int rc = chunks_reserve(r->answer, size);

    if (rc == -E2BIG)
        return render_fail(r, HTTP_BAD_REQUEST,
                           "an answer of more than %zu MiB: give a shorter "
                           "time, fewer series or maxDataPoints",
                           r->limits.max_bytes >> 20) == 0;
    return rc == 0 || render_fail_memory(r) == 0;
}

static bool
begin_json(struct render *r, const struct series *s)
{
    struct json_writer *w = &r->answer->json;

    /* Each byte of a name may become six. */
    if (!render_reserve(r, 6 * (s->name.size + s->path.size) + 128))
        return false;
    json_object_begin(w);
    json_member(w, "target");
    json_string(w, s->name.at, s->name.size);
    json_member(w, "tags");
    json_object_begin(w);
    json_member(w, "name");
    json_string(w, s->path.at, s->path.size);
    json_object_end(w);
    json_member(w, "datapoints");
    json_array_begin(w);
    return true;
}

static bool
put_json_point(struct render *r, const struct series *s, size_t i)
{
    struct json_writer *w = &r->answer->json;
    char text[SERIES_TEXT_SIZE];
    const char *value = series_text(s->points[i], text);

    if (!render_reserve(r, POINT_MAX))
        return false;
    json_array_begin(w);
    json_digits(w, value ? value : "null");
    json_integer(w, series_time(s, i));
    json_array_end(w);
    return true;
}

static bool
end_json(struct render *r)
{
    if (!render_reserve(r, POINT_MAX))
        return false;
    json_array_end(&r->answer->json);
    json_object_end(&r->answer->json);
    return true;
}

static const struct {
    const char *type;
    bool (*begin)(struct render *r, const struct series *s);
    bool (*put)(struct render *r, const struct series *s, size_t i);
    bool (*end)(struct render *r); /* NULL: nothing is at the end */
} formats[] = {
    [RENDER_JSON] = {"application/json", begin_json, put_json_point, end_json},
    [RENDER_RAW] = {"text/plain; charset=utf-8", render_begin_raw,
                    render_put_raw, render_end_raw},
    [RENDER_CSV] = {"text/csv; charset=utf-8; header=absent", render_begin_csv,
                    render_put_csv, NULL}};

const char *
render_type(const struct render *r)
{
    return formats[r->format].type;
}

/* Writes points of a series.  1: all of them; 0: some; -1: it failed. */
static int
put_points(struct render *r, const struct series *s, uint64_t until_ns)
{
    while (r->points < s->count) {
        if (!formats[r->format].put(r, s, r->points++))
            return -1;
        if (r->points % POINTS_ATIME == 0 && clock_ns() >= until_ns)
            return 0;
    }
    return !formats[r->format].end || formats[r->format].end(r) ? 1 : -1;
}

/* The end of the answer. */
static int
end_answer(struct render *r)
{
    if (!render_reserve(r, POINT_MAX))
        return -1;
    if (r->format == RENDER_JSON)
        json_array_end(&r->answer->json);
    chunks_end(r->answer);
    return 1;
}

int
render_write_step(struct render *r, uint64_t until_ns)
{
    const struct series_list *list;
    int rc;

    if (!r->answer->last) {
        if (!render_reserve(r, POINT_MAX))
            return -1;
        if (r->format == RENDER_JSON)
            json_array_begin(&r->answer->json);
    }
    if (!r->target)
        return end_answer(r);
    list = r->target->target.root->result;
    if (r->written == list->count) {
        r->target = r->target->next;
        r->written = 0;
        return 0;
    }
    if (!r->has_begun && !formats[r->format].begin(r, list->items[r->written]))
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

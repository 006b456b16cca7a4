/* reader/graphite/render_lines.c - the answer of /render as lines; see render.h.
 *
 *     raw    web.a,1795219200,1795219500,60|1,2,None,4,5
 *     csv    web.a,2026-11-21 00:00:00,1
 *
 * raw has the first time, the one after the last, and the step.  Names are in
 * text form, and in CSV one that a spreadsheet would take for a formula has its
 * first byte as \xHH. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/wire/name.h"
#include "reader/graphite/render.h"

#define LINE_MAX_BEHIND 128 /* bytes of a line behind the name */

static void
put_text(struct render *r, const char *text)
{
    json_bytes(&r->answer->json, text, strlen(text));
}

/* Puts a value, or what stands for none. */
static void
put_value(struct render *r, const struct series *s, size_t i, const char *none)
{
    char text[SERIES_TEXT_SIZE];
    const char *value = series_text(s->points[i], text);

    put_text(r, value ? value : none);
}

/* ---- raw ------------------------------------------------------------------ */

bool
render_begin_raw(struct render *r, const struct series *s)
{
    char *name = scratch_take(r->scratch, 4 * s->name.size + 1);
    char times[80];

    if (!name)
        return render_fail_memory(r) == 0;
    if (!render_reserve(
            r, name_escape((const uint8_t *)s->name.at, s->name.size, name) +
                   LINE_MAX_BEHIND))
        return false;
    (void)snprintf(times, sizeof times, ",%" PRId64 ",%" PRId64 ",%" PRId64 "|",
                   s->start, s->start + (int64_t)s->count * s->step,
                   s->step); /* 63 bytes fit */
    put_text(r, name);
    put_text(r, times);
    return true;
}

bool
render_put_raw(struct render *r, const struct series *s, size_t i)
{
    if (!render_reserve(r, LINE_MAX_BEHIND))
        return false;
    put_text(r, i > 0 ? "," : "");
    put_value(r, s, i, "None");
    return true;
}

bool
render_end_raw(struct render *r)
{
    if (!render_reserve(r, LINE_MAX_BEHIND))
        return false;
    put_text(r, "\n");
    return true;
}

/* ---- CSV ------------------------------------------------------------------ */

/* Makes the name a field, which each line begins with. */
bool
render_begin_csv(struct render *r, const struct series *s)
{
    char *text = scratch_take(r->scratch, 4 * s->name.size + 1);
    char *field = scratch_take(r->scratch, 8 * s->name.size + 8), *at = field;

    if (!text || !field)
        return render_fail_memory(r) == 0;
    (void)name_escape((const uint8_t *)s->name.at, s->name.size, text);
    r->csv_name = field;
    *at++ = '"';
    if (text[0] != '\0' && strchr("=+-@", text[0]))
        at += sprintf(at, "\\x%02x", (unsigned)(uint8_t)*text++);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            *at++ = '"';
        *at++ = *text;
    }
    *at = '\0';
    if (strpbrk(field + 1, ",\""))
        *at++ = '"';
    else
        r->csv_name = field + 1; /* without quotes */
    *at = '\0';
    return true;
}

bool
render_put_csv(struct render *r, const struct series *s, size_t i)
{
    const time_t local =
        (time_t)(series_time(s, i) + zone_ahead(r->zone, series_time(s, i)));
    char time[32] = "";
    struct tm day;

    if (!render_reserve(r, strlen(r->csv_name) + LINE_MAX_BEHIND))
        return false;
    if (gmtime_r(&local, &day))
        (void)strftime(time, sizeof time, ",%Y-%m-%d %H:%M:%S,", &day);
    put_text(r, r->csv_name);
    put_text(r, time);
    put_value(r, s, i, "");
    put_text(r, "\r\n");
    return true;
}

/* reader/graphite/functions_times.c - functions that change the times of points;
 * see functions_internal.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

#include <errno.h>

/* An interval that is shorter than the step is the step. */
static int64_t
summary_interval(const struct function_call *call, const struct series *s)
{
    return call->interval > s->step ? call->interval : s->step;
}

int
functions_summarize(struct function_call *call, struct series *s)
{
    const enum series_aggregate how =
        functions_aggregate(call->values[2], SERIES_SUM);
    const struct target_text interval = call->values[1]->text;
    const struct target_node *from_start = call->values[3];
    const bool is_from_start = from_start && from_start->truth;
    const struct target_text word = call->values[2]
                                        ? call->values[2]->text
                                        : (struct target_text){"sum", 3};

    series_summarize(s, summary_interval(call, s), how, is_from_start);
    return functions_name_call(call, s, ", \"%.*s\", \"%.*s\"%s",
                               (int)interval.size, interval.at, (int)word.size,
                               word.at, is_from_start ? ", true" : "");
}

/* The sum of values times the seconds of their steps that lie in each interval.
 */
static int
sum_hits(struct function_call *call, struct series *s, int64_t first,
         int64_t interval)
{
    const int64_t end = s->start + (int64_t)s->count * s->step;
    const size_t count = (size_t)((end - first + interval - 1) / interval);
    struct series *sums = series_new(call->scratch, count);

    if (!sums)
        return -ENOMEM;
    for (size_t i = 0; i < s->count; i++) {
        int64_t at = series_time(s, i);
        const int64_t until = at + s->step;

        while (series_has(s, i) && at < until) {
            const size_t n = (size_t)((at - first) / interval);
            const int64_t next = first + (int64_t)(n + 1) * interval;
            const int64_t part = (next < until ? next : until) - at;

            sums->points[n] =
                series_add(sums->points[n], s->points[i] * (long double)part);
            at += part;
        }
    }
    s->points = sums->points;
    s->count = count;
    s->start = first;
    s->step = interval;
    s->last = 0;
    return 0;
}

int
functions_hitcount(struct function_call *call, struct series *s)
{
    const struct target_text text = call->values[1]->text;
    const bool is_aligned = call->values[2] && call->values[2]->truth;
    const int64_t interval = summary_interval(call, s);
    const int64_t end = s->start + (int64_t)s->count * s->step;
    const int64_t intervals = (end - s->start + interval - 1) / interval;
    const int64_t first = is_aligned ? s->start / interval * interval
                                     : end - intervals * interval;
    const int rc = sum_hits(call, s, first, interval);

    return rc < 0 ? rc
                  : functions_name_call(call, s, ",'%.*s'%s", (int)text.size,
                                        text.at, is_aligned ? ",true" : "");
}

int
functions_time_shift(struct function_call *call, struct series *s)
{
    const struct target_text text = call->values[1]->text;
    const bool has_sign = text.at[0] == '+' || text.at[0] == '-';

    return functions_name_call(call, s, ", \"%s%.*s\"", has_sign ? "" : "-",
                               (int)text.size, text.at);
}

int64_t
functions_window(const struct function_call *call, int64_t step)
{
    const int64_t points =
        call->interval > 0 ? call->interval / step : call->values[1]->whole;

    return points < 1                      ? 1
           : points > FUNCTIONS_WINDOW_MAX ? FUNCTIONS_WINDOW_MAX
                                           : points;
}

/* The average of the values among the `window` points before each one, and with
 * them the first points go. */
static void
average_window(struct series *s, const struct series *from, size_t window)
{
    long double sum = 0;
    size_t values = 0;

    for (size_t i = 0; i < from->count; i++) {
        if (i >= window && values > 0)
            s->points[i - window] = sum / (long double)values;
        if (series_has(from, i)) {
            values++;
            sum += from->points[i];
        }
        if (i >= window && series_has(from, i - window)) {
            values--;
            sum -= from->points[i - window];
        }
    }
}

int
functions_moving_average(struct function_call *call, struct series *s)
{
    const struct target_text text = call->values[1]->text;
    const size_t window = (size_t)functions_window(call, s->step);
    const size_t count = s->count > window ? s->count - window : 0;
    struct series *made = series_new(call->scratch, count);

    if (!made)
        return -ENOMEM;
    if (s->last == 0) { /* a constant line is its own average */
        average_window(made, s, window);
        s->points = made->points;
        s->count = count;
        s->start += (int64_t)window * s->step;
    }
    return functions_name_call(call, s, ",%s%.*s%s",
                               call->interval > 0 ? "\"" : "", (int)text.size,
                               text.at, call->interval > 0 ? "\"" : "");
}

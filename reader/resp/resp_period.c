/* reader/resp/resp_period.c - ranges of periods; see resp_internal.h.
 *
 *     resp_period_range()   begins the job
 *     answer_period()       ... which answers so */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/wire/event_time.h"

#define DAY_S INT64_C(86400)

/* ---- names --------------------------------------------------------------- */

bool
resp_period_parse(const struct resp_arg *name, int64_t now_s,
                  struct resp_period *out)
{
    static const int64_t units[] = {60, 3600, DAY_S, 7 * DAY_S};
    static const char letters[] = "mhdw";
    const uint8_t *at = memrchr(name->at, '@', name->size);
    const char *letter;
    char text[sizeof "2026-11-20"] = "";
    size_t size, digits;
    int64_t unit;

    if (!at || at == name->at)
        return false;
    out->name_size = (size_t)(at - name->at);
    size = name->size - out->name_size - 1;
    if (size < 2 || size >= sizeof text)
        return false;
    memcpy(text, at + 1, size);
    if (size == sizeof text - 1 && text[4] == '-' &&
        event_time_parse(text, size, &out->from) == 0 && out->from >= 0) {
        out->to = out->from + DAY_S;
        return true;
    }
    digits = strspn(text, "0123456789");
    letter = memchr(letters, text[digits], sizeof units / sizeof units[0]);
    if (!letter || digits + 1 != size)
        return false;
    unit = units[letter - letters] * strtoll(text, NULL, 10);
    out->to = now_s + 1; /* the current second is in it */
    out->from = now_s - unit;
    return unit > 0 && unit <= now_s;
}

static int64_t
now_seconds(void)
{
    return (int64_t)(clock_unix_ms() / 1000);
}

bool
resp_period_is_name(const struct resp_arg *name)
{
    struct resp_period period;

    return memchr(name->at, '@', name->size) &&
           resp_period_parse(name, now_seconds(), &period);
}

/* ---- the job ------------------------------------------------------------- */

static enum conn_next
answer_rows(struct resp_call *call, const struct resp_job *job)
{
    const int64_t rows = (int64_t)job->period.q.rows;
    int64_t from, count;
    uint8_t *out;
    size_t size;

    if (rows == RESP_ROWS_MAX &&
        (job->first < 0 || job->last < 0 || job->last >= rows))
        return resp_too_many_rows(call);
    resp_range_cut(job->first, job->last, rows, &from, &count);
    out = conn_space(call->conn, RESP_ROWS_SIZE(count));
    if (!out)
        return CONN_FULL;
    size = resp_put_rows(call, out, job->form, count);
    for (int64_t i = from; i < from + count; i++) {
        const struct store_top *top = &job->period.q.top[i];
        const struct store_totals sum = {.sum = top->sum.sum};
        const struct query_row row = {store_total(&sum), top->key,
                                      top->key_size};

        size += resp_put_row(call, out + size, job->form, &row);
    }
    resp_put(call, size);
    return CONN_ANSWERED;
}

static enum conn_next
answer_period(struct resp_call *call, struct resp_job *job)
{
    switch (job->period.error) {
    case 0:
        return answer_rows(call, job);
    case -ENOENT:
        return resp_answer(call, "*0\r\n");
    case -ENODATA:
        return resp_error(call, "the keyspace has no history");
    case -EINVAL:
    case -E2BIG:
        return resp_error(call, "no step of the history divides this period");
    default:
        call->service->read_error = job->period.error;
        return resp_unreadable(call);
    }
}

static bool
step_period(struct job *job, uint64_t until_ns)
{
    return history_query_step(&LOOP_OWNER(job, struct resp_job, job)->period,
                              until_ns);
}

enum conn_next
resp_period_range(struct resp_call *call, int64_t first, int64_t last,
                  enum resp_form form)
{
    const struct resp_arg *name = &call->args[1];
    struct store_history_query q = {.op = STORE_HISTORY_TOP,
                                    .length = RESP_ROWS_MAX};
    struct resp_period period;
    struct resp_job *j = resp_job_enter(call, HISTORY_QUERY_MEMORY);

    if (!j)
        return call->next;
    j->period.store = call->service->jobs->store;
    j->period.memory = j->rows;
    (void)resp_period_parse(name, now_seconds(), &period);
    j->form = form;
    j->first = first;
    j->last = last;
    memcpy(j->keyspace, name->at, period.name_size);
    q.name = j->keyspace;
    q.name_size = period.name_size;
    history_query_start(&j->period, &q,
                        (struct time_range){period.from, period.to}, 0);
    return resp_job_run(j, step_period, answer_period);
}

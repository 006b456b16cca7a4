/* reader/resp/resp_period.c - see resp_period.h.
 *
 *     resp_period_range()   asks for the rows
 *     resp_period_step()    ... reads on, then answers */
#include "reader/resp/resp_period.h"

#include <errno.h>
#include <string.h>

#include "common/base/clock.h"

#define STEP_NS    UINT64_C(1000000)
#define DAY_S      86400
#define DIGITS_MAX 6
#define DATE_SIZE  10 /* 2026-11-20 */

/* ---- names --------------------------------------------------------------- */

/* `count` digits; false: something else is among them. */
static bool
parse_digits(const uint8_t *text, size_t count, int64_t *out)
{
    int64_t value = 0;

    for (size_t i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + text[i] - '0';
    }
    *out = value;
    return count > 0;
}

/* Days since 1970-01-01; false: there is no such day (Hinnant's algorithm). */
static bool
parse_date(const uint8_t *text, int64_t *days)
{
    static const int8_t lengths[] = {31, 28, 31, 30, 31, 30,
                                     31, 31, 30, 31, 30, 31};
    int64_t year, month, day, shifted, of_era;
    bool is_leap;

    if (text[4] != '-' || text[7] != '-' || !parse_digits(text, 4, &year) ||
        !parse_digits(text + 5, 2, &month) || !parse_digits(text + 8, 2, &day))
        return false;
    is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (year < 1970 || month < 1 || month > 12 || day < 1 ||
        day > lengths[month - 1] + (month == 2 && is_leap))
        return false;
    shifted = year - (month <= 2);
    of_era = shifted % 400;
    *days = shifted / 400 * 146097 + of_era * 365 + of_era / 4 - of_era / 100 +
            (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1 - 719468;
    return true;
}

static int64_t
unit_seconds(uint8_t unit)
{
    switch (unit) {
    case 'm':
        return 60;
    case 'h':
        return 3600;
    case 'd':
        return DAY_S;
    case 'w':
        return 7 * (int64_t)DAY_S;
    default:
        return 0;
    }
}

bool
resp_period_parse(const uint8_t *name, size_t size, int64_t now_s,
                  struct resp_period *out)
{
    const uint8_t *at = memrchr(name, '@', size);
    size_t left;
    int64_t value, unit;

    if (!at || at == name)
        return false;
    out->name_size = (size_t)(at - name);
    left = size - out->name_size - 1;
    at++;
    if (left == DATE_SIZE && parse_date(at, &value)) {
        out->from = value * DAY_S;
        out->to = out->from + DAY_S;
        return true;
    }
    if (left < 2 || left > DIGITS_MAX + 1 ||
        !parse_digits(at, left - 1, &value) || value == 0)
        return false;
    unit = unit_seconds(at[left - 1]);
    if (unit == 0 || value > now_s / unit)
        return false;
    out->to = now_s + 1; /* the current second is in it */
    out->from = now_s - value * unit;
    return true;
}

static int64_t
now_seconds(void)
{
    return (int64_t)(clock_unix_ms() / 1000);
}

bool
resp_period_is_name(const struct resp_call *call, const struct resp_name *name)
{
    struct resp_period period;

    (void)call;
    return resp_period_parse(name->at, name->size, now_seconds(), &period);
}

/* ---- the job ------------------------------------------------------------- */

enum conn_next
resp_period_range(struct resp_call *call, const struct resp_name *name,
                  int64_t first, int64_t last, bool with_scores)
{
    struct resp_service *r = call->service;
    struct query q = {
        .op = QUERY_PERIOD_TOP, .length = RESP_ROWS_MAX, .keyspace = name->at};
    struct resp_period period;

    if (!waiting_line_enter(&r->line, call->conn, &call->state->line))
        return CONN_PAUSE;
    (void)resp_period_parse(name->at, name->size, now_seconds(), &period);
    r->job = (struct resp_job){.kind = RESP_JOB_PERIOD,
                               .with_scores = with_scores,
                               .first = first,
                               .last = last};
    q.from = period.from;
    q.to = period.to;
    q.keyspace_size = (uint16_t)period.name_size;
    history_query_start(&r->period, &q, 0);
    return CONN_LONG;
}

static int64_t
cut_sum(const struct store_bucket *sum)
{
    const struct store_totals totals = {.sum_high = sum->sum_high,
                                        .sum_low = sum->sum_low};

    return store_total(&totals);
}

static enum conn_next
answer_rows(struct resp_call *call)
{
    const struct resp_service *r = call->service;
    const struct resp_job *job = &r->job;
    const int64_t rows = (int64_t)r->period.q.rows;
    int64_t from, count;
    uint8_t *out;
    size_t size;

    if (rows == RESP_ROWS_MAX &&
        (job->first < 0 || job->last < 0 || job->last >= rows))
        return resp_error(call, "more than %d rows: ask for fewer at a time",
                          RESP_ROWS_MAX);
    (void)resp_range_cut(job->first, job->last, rows, &from, &count);
    out = resp_space(call, RESP_NUMBER_SIZE +
                               (size_t)count *
                                   (QUERY_NAME_SIZE + 4 * RESP_NUMBER_SIZE));
    if (!out)
        return CONN_FULL;
    size = resp_put_number(
        out, '*', job->with_scores && !resp_is_3(call) ? 2 * count : count);
    for (int64_t i = from; i < from + count; i++) {
        const struct store_top *top = &r->period.q.top[i];

        if (job->with_scores && resp_is_3(call))
            size += resp_put_number(out + size, '*', 2);
        size += resp_put_bulk(out + size, top->key, top->key_size);
        if (job->with_scores)
            size += resp_put_score(call, out + size, cut_sum(&top->sum));
    }
    resp_put(call, size);
    return CONN_MORE;
}

static enum conn_next
answer_error(struct resp_call *call)
{
    switch (call->service->period.error) {
    case -ENOENT:
        return resp_answer(call, "*0\r\n");
    case -ENODATA:
        return resp_error(call, "the keyspace has no history");
    case -EINVAL:
    case -E2BIG:
        return resp_error(call, "no step of the history divides this period");
    default:
        call->service->read_error = call->service->period.error;
        return resp_unreadable(call);
    }
}

enum conn_next
resp_period_step(struct resp_call *call)
{
    struct resp_service *r = call->service;
    struct resp_job *job = &r->job;

    if (!job->is_done) {
        job->is_done = history_query_step(&r->period, clock_ns() + STEP_NS);
        store_read_end(r->store);
        if (!job->is_done)
            return CONN_LONG;
    }
    return r->period.error < 0 ? answer_error(call) : answer_rows(call);
}

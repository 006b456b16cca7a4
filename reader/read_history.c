/* reader/read_history.c - commands about history, which are answered in steps:
 * see read_commands.h; read_history(), read_period_top(), read_period_rank(),
 * read_distinct(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/read_commands.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"

#define STEP_MS ((uint64_t)3600000)

/* An answer about history: what is true of all its rows, and the rows. */
struct history_reply {
    struct read_reply reply;
    struct query_history_head facts;
};

static bool
next_row(struct history_reply *r, struct query_history_row *row)
{
    int size;

    if (r->reply.rows == 0)
        return false;
    size = query_history_row_get(r->reply.at,
                                 (size_t)(r->reply.end - r->reply.at), row);
    assert(size > 0); /* countd-read wrote them */
    r->reply.at += size;
    r->reply.rows--;
    return true;
}

static const struct read_problem *
find_problem(const struct read_request *a, int64_t error)
{
    static const struct read_problem
        no_history = {HTTP_NOT_FOUND, "no-history",
                      "the keyspace has no history; the setting history says "
                      "what is kept"},
        no_steps = {HTTP_BAD_REQUEST, "bad-time",
                    "the keyspace has no history of such steps: a step is a "
                    "multiple of one in the setting history"},
        too_many = {HTTP_BAD_REQUEST, "too-many-rows",
                    "more than 4096 steps; give a longer step or a shorter "
                    "time"};

    switch (error) {
    case 0:
        return NULL;
    case -ENOENT:
        return &read_no_keyspace;
    case -ENODATA:
        return &no_history;
    case -EINVAL:
        return &no_steps;
    case -E2BIG:
        return &too_many;
    default:
        return read_failure(a);
    }
}

static const struct read_problem *
take_history(struct read_request *a, struct history_reply *r)
{
    a->as_of_ms = 0; /* of the last query, whose answer is sent */
    if (!read_take(a, &r->reply))
        return read_failure(a);
    query_history_get(r->reply.at, &r->facts);
    r->reply.at += QUERY_HISTORY_HEAD;
    return find_problem(a, r->facts.error);
}

/* An increment of this very second is before now, too. */
static struct time_range
span_of(const struct http_params *p)
{
    return (struct time_range){(int64_t)(p->from_ms / 1000),
                               (int64_t)((p->to_ms + 999) / 1000)};
}

/* ---- buckets ------------------------------------------------------------ */

static int64_t
step_of(const struct http_params *p)
{
    return (int64_t)((p->step_ms > 0 ? p->step_ms : STEP_MS) / 1000);
}

enum read_next
read_history_next(struct read_request *a, struct query *q)
{
    if (a->phase++ > 0)
        return READ_READY;
    a->span = span_of(&a->params);
    a->span = time_range_widen(&a->span, step_of(&a->params), true);
    *q = read_query(a, QUERY_HISTORY);
    q->step = step_of(&a->params);
    return READ_QUERY;
}

const struct read_problem *
read_history(struct read_request *a)
{
    static const struct table_column columns[] = {{"from", "from", false},
                                                  {"sum", "sum", true}};
    const struct read_problem *problem;
    struct query_history_row row;
    struct history_reply r;
    int64_t from = a->span.from;

    problem = take_history(a, &r);
    if (problem)
        return problem;
    read_begin_facts(a);
    table_fact(&a->table, "step", cell_number(step_of(&a->params)));
    table_fact(&a->table, "since", cell_number(r.facts.since));
    table_next_rows(&a->table, "rows", columns, 2);
    for (; next_row(&r, &row); from += step_of(&a->params)) {
        char text[CELL_SUM_SIZE];
        const struct cell cells[] = {
            cell_number(from),
            (row.flags & QUERY_HISTORY_ANY) != 0
                ? cell_sum(int128_of(row.sum_high, row.sum_low), text)
                : cell_none()};

        table_row(&a->table, cells);
    }
    table_rows_end(&a->table);
    read_end_facts(a);
    return NULL;
}

/* ---- periods ------------------------------------------------------------ */

bool
read_is_period(const struct read_request *a)
{
    return http_params_has(&a->params, PARAM_FROM) ||
           http_params_has(&a->params, PARAM_TO);
}

enum read_next
read_period_next(struct read_request *a, struct query *q)
{
    const bool is_top =
        a->params.key_count == 0 && a->command->answer != read_distinct;

    if (a->phase++ > 0)
        return READ_READY;
    a->span = span_of(&a->params);
    *q = read_query(a, is_top ? QUERY_PERIOD_TOP : QUERY_PERIOD_RANK);
    q->length = is_top ? a->params.n : 0;
    return READ_QUERY;
}

static void
begin_period(struct read_request *a, const struct query_history_head *facts)
{
    const struct time_range span =
        time_range_widen(&a->span, facts->step, true);

    read_begin_facts(a);
    table_fact(&a->table, "from", cell_number(span.from));
    table_fact(&a->table, "to", cell_number(span.to));
    table_fact(&a->table, "since", cell_number(facts->since));
}

static void
put_top_row(struct read_request *a, int64_t rank,
            const struct query_history_row *r, bool known)
{
    const int128 sum = int128_of(r->sum_high, r->sum_low);
    const int128 before = int128_of(r->before_high, r->before_low);
    char texts[3][CELL_SUM_SIZE];
    const struct cell cells[] = {
        cell_number(rank), cell_sum(sum, texts[0]),
        known ? cell_sum(before, texts[1]) : cell_none(),
        known ? cell_sum(sum - before, texts[2]) : cell_none(),
        cell_name(r->key, r->key_size)};

    table_row(&a->table, cells);
}

const struct read_problem *
read_period_top(struct read_request *a)
{
    static const struct table_column columns[] = {{"rank", "rank", true},
                                                  {"sum", "sum", true},
                                                  {"before", "before", true},
                                                  {"change", "change", true},
                                                  {"key", "key", false}};
    const struct read_problem *problem;
    struct query_history_row row;
    struct history_reply r;
    int64_t rank = 0;

    problem = take_history(a, &r);
    if (problem)
        return problem;
    begin_period(a, &r.facts);
    table_next_rows(&a->table, "rows", columns, 5);
    while (next_row(&r, &row))
        put_top_row(a, rank++, &row, r.facts.known != 0);
    table_rows_end(&a->table);
    read_end_facts(a);
    return NULL;
}

const struct read_problem *
read_period_rank(struct read_request *a)
{
    static const struct read_problem nothing = {
        HTTP_NOT_FOUND, "nothing-came", "nothing came to the key in that time"};
    static const struct table_column columns[] = {
        {"rank", "rank", true}, {"sum", "sum", true}, {"keys", "keys", true}};
    const struct read_problem *problem;
    char text[CELL_SUM_SIZE];
    struct query_history_row row;
    struct history_reply r;
    struct cell cells[3];

    problem = take_history(a, &r);
    if (problem)
        return problem;
    if (!next_row(&r, &row) || (row.flags & QUERY_HISTORY_ANY) == 0)
        return &nothing;
    cells[0] = cell_number(r.facts.rank);
    cells[1] = cell_sum(int128_of(row.sum_high, row.sum_low), text);
    cells[2] = cell_number(r.facts.keys);
    begin_period(a, &r.facts);
    read_put_numbers(a, columns, cells, 3);
    read_end_facts(a);
    return NULL;
}

const struct read_problem *
read_distinct(struct read_request *a)
{
    static const struct table_column columns[] = {{"keys", "keys", true},
                                                  {"sum", "sum", true}};
    const struct read_problem *problem;
    char text[CELL_SUM_SIZE];
    struct query_history_row row;
    struct history_reply r;
    struct cell cells[2];

    problem = take_history(a, &r);
    if (problem)
        return problem;
    if (!next_row(&r, &row))
        return read_failure(a);
    cells[0] = cell_number(r.facts.keys);
    cells[1] = cell_sum(int128_of(row.sum_high, row.sum_low), text);
    begin_period(a, &r.facts);
    read_put_numbers(a, columns, cells, 2);
    read_end_facts(a);
    return NULL;
}

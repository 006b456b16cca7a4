/* reader/read_history.c - commands about history, which are answered in steps:
 * see read_commands.h; read_history(), read_period_top(), read_period_rank(),
 * read_distinct(), read_sums(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/read_commands.h"

#include <errno.h>
#include <string.h>

#define STEP_MS ((uint64_t)3600000)

static const struct read_problem *
find_problem(struct read_request *a)
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

    a->error = a->job->history.error;
    switch (a->error) {
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

/* An increment of this very second is before now, too. */
static struct time_range
span_of(const struct http_params *p)
{
    return (struct time_range){(int64_t)(p->from_ms / 1000),
                               (int64_t)((p->to_ms + 999) / 1000)};
}

/* Begins with what the request asks about a span. */
static void
start_query(struct read_request *a, enum store_history_op op,
            struct time_range span, int64_t step)
{
    const struct http_params *p = &a->params;
    struct store_history_query q = {.op = op,
                                    .name = p->keyspace.bytes,
                                    .name_size = p->keyspace.size,
                                    .key = p->keys[0].bytes,
                                    .prefix = p->prefix.bytes,
                                    .prefix_size = p->prefix.size,
                                    .group = p->group,
                                    .length = (uint64_t)p->n};

    if (op == STORE_HISTORY_STEP) {
        q.key = p->after.bytes;
        q.key_size = p->after.size;
    } else if (p->key_count > 0)
        q.key_size = p->keys[0].size;
    a->as_of_ms = as_of_get(a->http->jobs->as_of, q.name, q.name_size);
    history_query_start(&a->job->history, &q, span, step);
}

/* Goes on with the query that is in the job; as_of was refreshed before. */
static bool
step_query(struct read_request *a, enum store_history_op op,
           struct time_range span, int64_t step, uint64_t until_ns)
{
    if (a->phase++ == 0)
        start_query(a, op, span, step);
    if (!history_query_step(&a->job->history, until_ns))
        return false;
    a->as_of_ms = as_of_bound(a->http->jobs->as_of, a->as_of_ms);
    return true;
}

static struct cell
cell_bucket(const struct store_bucket *b, char text[CELL_SUM_SIZE])
{
    return cell_sum(b->sum, text);
}

/* ---- buckets ------------------------------------------------------------ */

static int64_t
step_of(const struct http_params *p)
{
    return (int64_t)((p->step_ms > 0 ? p->step_ms : STEP_MS) / 1000);
}

bool
read_history_step(struct read_request *a, uint64_t until_ns)
{
    const int64_t step = step_of(&a->params);
    const struct time_range span = span_of(&a->params);

    return step_query(a, STORE_HISTORY_KEY, time_range_widen(&span, step, true),
                      step, until_ns);
}

const struct read_problem *
read_history(struct read_request *a)
{
    static const struct table_column columns[] = {{"from", "from", false},
                                                  {"sum", "sum", true}};
    const struct read_problem *problem = find_problem(a);
    const struct history_query *h = &a->job->history;

    if (problem)
        return problem;
    read_begin_facts(a);
    table_fact(&a->table, "step", cell_number(h->step));
    table_fact(&a->table, "since", cell_number(history_query_since(h)));
    table_next_rows(&a->table, "rows", columns, 2);
    for (size_t i = 0; i < history_query_rows(h); i++) {
        const struct store_bucket *b = &h->q.buckets[i];
        char text[CELL_SUM_SIZE];
        const struct cell cells[] = {
            cell_number(h->span.from + (int64_t)i * h->step),
            b->any ? cell_bucket(b, text) : cell_none()};

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

bool
read_is_long(const struct read_request *a)
{
    return read_is_period(a) || a->params.prefix.size > 0 ||
           a->params.group != 0;
}

bool
read_is_of_all_time(const struct read_request *a)
{
    return a->command->is_long && !read_is_period(a);
}

bool
read_period_step(struct read_request *a, uint64_t until_ns)
{
    const struct time_range all = {0, 0};

    return step_query(a, a->command->op,
                      read_is_of_all_time(a) ? all : span_of(&a->params), 0,
                      until_ns);
}

static void
begin_period(struct read_request *a)
{
    const struct history_query *h = &a->job->history;
    struct time_range span;

    read_begin_facts(a);
    if (h->is_all_time)
        return;
    span = time_range_widen(&h->span, h->step, true);
    table_fact(&a->table, "from", cell_number(span.from));
    table_fact(&a->table, "to", cell_number(span.to));
    table_fact(&a->table, "since", cell_number(history_query_since(h)));
}

const struct read_problem *
read_period_top(struct read_request *a)
{
    static const struct table_column sums[] = {{"rank", "rank", true},
                                               {"sum", "sum", true},
                                               {"before", "before", true},
                                               {"change", "change", true},
                                               {"key", "key", false}};
    static const struct table_column counts[] = {{"rank", "rank", true},
                                                 {"count", "count", true},
                                                 {"key", "key", false}};
    const bool is_counts = a->job->history.is_all_time;
    const struct read_problem *problem = find_problem(a);
    const struct history_query *h = &a->job->history;

    if (problem)
        return problem;
    begin_period(a);
    table_next_rows(&a->table, "rows", is_counts ? counts : sums,
                    is_counts ? 3 : 5);
    for (size_t i = 0; i < history_query_rows(h); i++) {
        const struct store_top *t = &h->q.top[i];
        const int128 sum = t->sum.sum;
        const int128 before = t->before.sum;
        char texts[3][CELL_SUM_SIZE];
        struct cell cells[5] = {cell_number((int64_t)i),
                                cell_sum(sum, texts[0])};

        if (!is_counts && h->q.before_known) {
            cells[2] = cell_sum(before, texts[1]);
            cells[3] = cell_sum(sum - before, texts[2]);
        }
        cells[is_counts ? 2 : 4] = cell_name(t->key, t->key_size);
        table_row(&a->table, cells);
    }
    table_rows_end(&a->table);
    read_end_facts(a);
    return NULL;
}

/* Answers with numbers of the query, of which the first are columns, too. */
static const struct read_problem *
answer_numbers(struct read_request *a, const struct read_number *numbers,
               size_t columns, size_t count)
{
    const struct read_problem *problem = find_problem(a);

    if (problem)
        return problem;
    begin_period(a);
    read_put_numbers(a, numbers, columns, count);
    return NULL;
}

const struct read_problem *
read_period_rank(struct read_request *a)
{
    static const struct read_problem nothing = {
        HTTP_NOT_FOUND, "nothing-came", "nothing came to the key in that time"};
    const struct history_query *h = &a->job->history;
    char text[CELL_SUM_SIZE];
    const struct read_number numbers[] = {
        {"rank", cell_number((int64_t)h->q.rank)},
        {"sum", cell_bucket(&h->q.sum, text)},
        {"keys", cell_number((int64_t)h->q.keys)}};

    return h->error == 0 && !h->q.sum.any ? &nothing
                                          : answer_numbers(a, numbers, 3, 3);
}

/* How many keys there are, or groups of keys. */
static struct read_number
number_of_keys(const struct read_request *a)
{
    return (struct read_number){a->params.group != 0 ? "groups" : "keys",
                                cell_number((int64_t)a->job->history.q.keys)};
}

const struct read_problem *
read_total_of_keys(struct read_request *a)
{
    char text[CELL_SUM_SIZE];
    const struct read_number numbers[] = {
        {"total", cell_bucket(&a->job->history.q.sum, text)},
        number_of_keys(a)};

    return answer_numbers(a, numbers, 1, 2);
}

const struct read_problem *
read_distinct(struct read_request *a)
{
    char text[CELL_SUM_SIZE];
    const struct read_number numbers[] = {
        number_of_keys(a), {"sum", cell_bucket(&a->job->history.q.sum, text)}};

    return answer_numbers(a, numbers, 2, 2);
}

/* ---- all of it ---------------------------------------------------------- */

bool
read_sums_step(struct read_request *a, uint64_t until_ns)
{
    const struct time_range from = {(int64_t)(a->params.from_ms / 1000),
                                    http_params_has(&a->params, PARAM_FROM)};

    return step_query(a, STORE_HISTORY_STEP, from, 0, until_ns);
}

const struct read_problem *
read_sums(struct read_request *a)
{
    static const struct table_column columns[] = {{"sum", "sum", true},
                                                  {"key", "key", false}};
    const struct read_problem *problem = find_problem(a);
    const struct history_query *h = &a->job->history;

    if (problem)
        return problem;
    read_begin_facts(a);
    if (http_params_has(&a->params, PARAM_FROM)) {
        table_fact(&a->table, "from", cell_number((int64_t)h->q.from * 60));
        table_fact(&a->table, "to", cell_number((int64_t)h->q.to * 60));
    }
    table_next_rows(&a->table, "rows", columns, 2);
    for (size_t i = 0; i < history_query_rows(h); i++) {
        const struct store_top *t = &h->q.top[i];
        char text[CELL_SUM_SIZE];
        const struct cell cells[] = {cell_bucket(&t->sum, text),
                                     cell_name(t->key, t->key_size)};

        table_row(&a->table, cells);
    }
    table_rows_end(&a->table);
    read_end_facts(a);
    return NULL;
}

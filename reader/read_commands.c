/* reader/read_commands.c - the commands that read counts; see read_commands.h.
 * read_run_query() and the facts of answers are for all commands;
 * read_commands[] at the end is their table. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/read_commands.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/clock.h"

const struct read_problem read_no_keyspace = {
    HTTP_NOT_FOUND, "no-such-keyspace", "no such keyspace"};
static const struct read_problem read_no_key = {HTTP_NOT_FOUND, "no-such-key",
                                                "no such key"};

/* ---- queries ------------------------------------------------------------ */

bool
read_run_query(struct read_request *a, struct store_query *q)
{
    int64_t as_of_ms;
    int rc;

    if (q->name_size == 0) {
        q->name = a->params.keyspace.bytes;
        q->name_size = a->params.keyspace.size;
    }
    as_of_ms = as_of_get(a->http->jobs->as_of, q->name, q->name_size);
    rc =
        answer_query(a->http->jobs->store, q, a->http->binary, ANSWER_SIZE_MAX);
    a->error = rc == -ENOENT ? 0 : rc;
    if (a->error == 0 && a->as_of_ms == 0)
        a->as_of_ms = as_of_ms;
    return a->error == 0;
}

const struct read_problem *
read_failure(const struct read_request *a)
{
    static const struct read_problem unreadable = {
        HTTP_INTERNAL_ERROR, "unreadable",
        "the keyspace cannot be read; the log of countd-read says why"};
    static struct read_problem unavailable = {HTTP_UNAVAILABLE, "unavailable",
                                              NULL};

    if (a->error != -EHOSTDOWN) {
        a->http->unreadable += a->error != -EAGAIN;
        return &unreadable;
    }
    unavailable.detail = store_trouble(a->http->jobs->store);
    return &unavailable;
}

bool
read_state(struct read_request *a)
{
    struct store_query q = {.op = STORE_TOTAL};

    a->has_state = read_run_query(a, &q) && q.error == 0;
    a->state = q.totals;
    return a->has_state;
}

const struct read_problem *
read_need_keyspace(struct read_request *a)
{
    if (a->has_state || read_state(a))
        return NULL;
    return a->error < 0 ? read_failure(a) : &read_no_keyspace;
}

/* The key was not found: determines whether its keyspace exists. */
static const struct read_problem *
explain_missing(struct read_request *a)
{
    const struct read_problem *problem = read_need_keyspace(a);

    return problem ? problem : &read_no_key;
}

/* ---- facts -------------------------------------------------------------- */

void
read_begin_facts(struct read_request *a)
{
    const struct http_params *p = &a->params;

    if (p->keyspace.size > 0)
        table_fact(&a->table, "keyspace",
                   cell_name(p->keyspace.bytes, p->keyspace.size));
    if (p->key_count == 1)
        table_fact(&a->table, "key",
                   cell_name(p->keys[0].bytes, p->keys[0].size));
    if (p->prefix.size > 0 || a->command->has_prefix)
        table_fact(&a->table, "prefix",
                   cell_name(p->prefix.bytes, p->prefix.size));
    if (p->group != 0)
        table_fact(&a->table, "group", cell_name(&p->group, 1));
}

void
read_end_facts(struct read_request *a)
{
    table_fact(&a->table, "as_of_ms", cell_number(a->as_of_ms));
    table_end(&a->table);
}

void
read_put_numbers(struct read_request *a, const struct read_number *numbers,
                 size_t columns, size_t count)
{
    struct table_column heads[READ_NUMBERS];
    struct cell cells[READ_NUMBERS];

    for (size_t i = 0; i < count; i++)
        table_fact(&a->table, numbers[i].name, numbers[i].value);
    for (size_t i = 0; i < columns && a->table.format != TABLE_JSON; i++) {
        heads[i] =
            (struct table_column){numbers[i].name, numbers[i].name, true};
        cells[i] = numbers[i].value;
    }
    if (a->table.format != TABLE_JSON) {
        table_next_rows(&a->table, "rows", heads, columns);
        table_row(&a->table, cells);
    }
    read_end_facts(a);
}

static void
put_key(struct read_request *a, const struct store_query *q, bool has_rank)
{
    const struct read_number numbers[] = {
        {"rank", cell_number((int64_t)q->rank)},
        {"count", cell_number(q->row.count)},
        {"saturated", cell_number(q->row.saturated)}};

    read_begin_facts(a);
    read_put_numbers(a, has_rank ? numbers : numbers + 1, 1, has_rank ? 3 : 2);
}

/* An answer about a key: its count, and before that its rank. */
static const struct read_problem *
answer_key(struct read_request *a, bool has_rank)
{
    struct store_query q = {.op = STORE_RANK,
                            .key = a->params.keys[0].bytes,
                            .key_size = a->params.keys[0].size};

    if (!read_run_query(a, &q))
        return read_failure(a);
    if (q.error < 0)
        return explain_missing(a);
    put_key(a, &q, has_rank);
    return NULL;
}

static void
put_total(struct read_request *a)
{
    const struct read_number numbers[] = {
        {"total", cell_number(store_total(&a->state))},
        {"keys", cell_number((int64_t)a->state.keys)},
        {"saturated", cell_number((int64_t)a->state.saturated)}};

    read_begin_facts(a);
    read_put_numbers(a, numbers, 1, 3);
}

static const struct read_problem *
answer_total(struct read_request *a)
{
    const struct read_problem *problem;

    if (read_is_long(a))
        return read_total_of_keys(a);
    problem = read_need_keyspace(a);
    if (!problem)
        put_total(a);
    return problem;
}

static const struct read_problem *
answer_gets(struct read_request *a)
{
    static const struct table_column columns[] = {{"count", "count", true},
                                                  {"key", "key", false}};
    const struct http_params *p = &a->params;
    const struct read_problem *problem = read_need_keyspace(a);

    if (problem)
        return problem;
    read_begin_facts(a);
    table_next_rows(&a->table, "rows", columns, 2);
    for (size_t i = 0; i < p->key_count; i++) {
        struct store_query q = {.op = STORE_GET,
                                .key = p->keys[i].bytes,
                                .key_size = p->keys[i].size};
        struct cell cells[2];

        if (!read_run_query(a, &q) && a->error != -EAGAIN)
            return read_failure(a);
        cells[0] = q.error == 0 ? cell_number(q.row.count) : cell_none();
        cells[1] = cell_name(q.key, q.key_size);
        table_row(&a->table, cells);
    }
    table_rows_end(&a->table);
    read_end_facts(a);
    return NULL;
}

static const struct read_problem *
answer_get(struct read_request *a)
{
    return a->params.key_count > 1 ? answer_gets(a) : answer_key(a, false);
}

static const struct read_problem *
answer_rank(struct read_request *a)
{
    return read_is_period(a) ? read_period_rank(a) : answer_key(a, true);
}

/* Clients use this to wait for their own counts.  Only a query to a store that
 * is not local, about any keyspace, shows what that store has. */
static const struct read_problem *
answer_now(struct read_request *a)
{
    const struct http_params *p = &a->params;
    struct as_of *f = a->http->jobs->as_of;
    struct store_query q = {.op = STORE_TOTAL};
    const struct read_number now = {"now_ms",
                                    cell_number((int64_t)clock_unix_ms())};
    int64_t had;

    if (f->answered && p->keyspace.size == 0) {
        q.name = (const uint8_t *)"any";
        q.name_size = 3;
    }
    if (f->answered && !read_run_query(a, &q) && a->error != -EHOSTDOWN)
        return read_failure(a);
    had = as_of_own(f, q.name, q.name_size);
    a->as_of_ms = as_of_own(f, p->keyspace.bytes, p->keyspace.size);
    if (a->error == -EHOSTDOWN) /* what is readable is not known */
        a->as_of_ms = 0;
    else if (f->answered && had < a->as_of_ms)
        a->as_of_ms = had;
    a->error = 0;
    read_begin_facts(a);
    read_put_numbers(a, &now, 1, 1);
    return NULL;
}

/* ---- rows by count ------------------------------------------------------ */

static const struct table_column rows_columns[] = {
    {"rank", "rank", true},
    {"count", "count", true},
    {"key", "key", false},
    {"", "at_limit", false}, /* in JSON, where it is */
};

/* How many of rows_columns a row has. */
enum rows_form { ROWS_BY_KEY = 2, ROWS_RANKED = 3, ROWS_WITH_LIMIT = 4 };

static void
put_row(struct read_request *a, size_t first, int64_t rank,
        const struct query_row *row)
{
    const bool is_at_limit = row->count == INT64_MIN || row->count == INT64_MAX;
    const struct cell cells[] = {cell_number(rank), cell_number(row->count),
                                 cell_name(row->key, row->key_size),
                                 is_at_limit ? cell_bool(true) : cell_absent()};

    table_row(&a->table, cells + first);
}

/* In the order of keys, *row is the last row afterwards, if there is any. */
static void
put_rows(struct read_request *a, enum rows_form form, int64_t rank,
         const struct store_query *q, struct query_row *row)
{
    const size_t first = form == ROWS_BY_KEY;
    const uint8_t *at = q->bytes;
    int64_t left = (int64_t)q->rows;

    if (form == ROWS_WITH_LIMIT && a->table.format != TABLE_JSON)
        form = ROWS_RANKED;
    table_next_rows(&a->table, "rows", rows_columns + first, form);
    while (left > 0) {
        const int64_t plain = table_plain_counts(&a->table, first == 0, rank,
                                                 &at, left - (int64_t)first);

        rank += plain;
        left -= plain;
        if (left-- > 0) {
            at = query_row_get(at, row);
            put_row(a, first, rank++, row);
        }
    }
    table_rows_end(&a->table);
}

static const struct read_problem *
answer_rows(struct read_request *a, int64_t offset, int64_t length)
{
    struct store_query q = {
        .op = STORE_RANGE, .offset = offset, .length = (uint64_t)length};
    const struct read_problem *problem = read_need_keyspace(a);
    const int64_t keys = (int64_t)a->state.keys;
    struct query_row last;

    if (problem)
        return problem;
    if (offset < 0) /* the rank of the first existing row */
        offset = offset + keys > 0 ? offset + keys : 0;
    if (!read_run_query(a, &q))
        return read_failure(a);
    a->next_page.has_offset = true;
    a->next_page.offset = offset + (int64_t)q.rows;
    a->next_page.is_there = q.rows > 0 && a->next_page.offset < keys;
    read_begin_facts(a);
    put_rows(a, ROWS_WITH_LIMIT, offset, &q, &last);
    table_fact(&a->table, "saturated",
               cell_number((int64_t)a->state.saturated));
    read_end_facts(a);
    return NULL;
}

void
read_set_next(struct read_request *a, const struct query_row *last)
{
    a->next_page.is_there = true;
    a->next_page.has_offset = false;
    a->next_page.after.size = last->key_size;
    memcpy(a->next_page.after.bytes, last->key, last->key_size);
}

static const struct read_problem *
answer_keys(struct read_request *a)
{
    const struct http_params *p = &a->params;
    struct store_query q = {.op = STORE_KEYS,
                            .prefix = p->prefix.bytes,
                            .prefix_size = p->prefix.size,
                            .after = p->after.bytes,
                            .after_size = p->after.size,
                            .length = (uint64_t)p->n + 1};
    const struct read_problem *problem = read_need_keyspace(a);
    struct query_row last;
    bool has_more;

    if (problem)
        return problem;
    if (!read_run_query(a, &q))
        return read_failure(a);
    has_more = q.rows == q.length; /* its last row is the next page's */
    q.rows -= has_more;
    read_begin_facts(a);
    put_rows(a, ROWS_BY_KEY, 0, &q, &last);
    read_end_facts(a);
    if (has_more)
        read_set_next(a, &last);
    return NULL;
}

static const struct read_problem *
answer_top(struct read_request *a)
{
    const struct read_problem *problem;

    if (read_is_long(a))
        return read_period_top(a);
    problem = answer_rows(a, 0, a->params.n);
    a->next_page.is_there = false; /* a top has no pages */
    return problem;
}

static const struct read_problem *
answer_range(struct read_request *a)
{
    return answer_rows(a, a->params.offset, a->params.length);
}

static const struct read_problem *
answer_around(struct read_request *a)
{
    struct store_query q = {.op = STORE_AROUND,
                            .key = a->params.keys[0].bytes,
                            .key_size = a->params.keys[0].size,
                            .length = (uint64_t)a->params.n};
    struct query_row last;

    if (!read_run_query(a, &q))
        return read_failure(a);
    if (q.error < 0)
        return explain_missing(a);
    read_begin_facts(a);
    put_rows(a, ROWS_RANKED, q.offset, &q, &last);
    read_end_facts(a);
    return NULL;
}

/* ---- the table ---------------------------------------------------------- */

#define AROUND_MAX (QUERY_ROWS_MAX - 1) /* as countd(1) says */

#define BIT(name) PARAM_BIT(PARAM_##name)
#define COMMON                                                                 \
    (BIT(AS_OF) | BIT(WAIT) | BIT(FORMAT) | BIT(NUMBERS) | BIT(NAMES))
#define OF_ONE  (COMMON | BIT(KEYSPACE) | BIT(VERSION)) /* keyspace */
#define OF_KEYS (BIT(PREFIX) | BIT(GROUP))
#define PERIOD  (BIT(FROM) | BIT(TO))

const struct read_command read_commands[] = {
    {.path = "/v1/total",
     .spec = {OF_ONE | OF_KEYS, BIT(KEYSPACE), 0, 0, 0},
     .op = STORE_HISTORY_RANK,
     .step = read_period_step,
     .is_long = read_is_long,
     .answer = answer_total},
    {.path = "/v1/get",
     .spec = {OF_ONE | BIT(KEY), BIT(KEYSPACE) | BIT(KEY), HTTP_PARAMS_KEYS, 0,
              0},
     .answer = answer_get},
    {.path = "/v1/top",
     .spec = {OF_ONE | OF_KEYS | BIT(N) | PERIOD, BIT(KEYSPACE), 0, 0,
              QUERY_ROWS_MAX},
     .n = 20,
     .op = STORE_HISTORY_TOP,
     .step = read_period_step,
     .is_long = read_is_long,
     .answer = answer_top},
    {.path = "/v1/range",
     .spec = {OF_ONE | BIT(OFFSET) | BIT(LENGTH), BIT(KEYSPACE) | BIT(OFFSET),
              0, 0, 0},
     .length = 20,
     .answer = answer_range},
    {.path = "/v1/rank",
     .spec = {OF_ONE | BIT(KEY) | PERIOD, BIT(KEYSPACE) | BIT(KEY), 1, 0, 0},
     .op = STORE_HISTORY_RANK,
     .step = read_period_step,
     .is_long = read_is_period,
     .answer = answer_rank},
    {.path = "/v1/around",
     .spec = {OF_ONE | BIT(KEY) | BIT(N), BIT(KEYSPACE) | BIT(KEY), 1, 1,
              AROUND_MAX},
     .n = 11,
     .answer = answer_around},
    {.path = "/v1/history",
     .spec = {OF_ONE | BIT(KEY) | BIT(PREFIX) | PERIOD | BIT(STEP),
              BIT(KEYSPACE), 1, 0, 0},
     .step = read_history_step,
     .answer = read_history},
    {.path = "/v1/distinct",
     .spec = {OF_ONE | OF_KEYS | PERIOD, BIT(KEYSPACE), 0, 0, 0},
     .op = STORE_HISTORY_RANK,
     .step = read_period_step,
     .answer = read_distinct},
    {.path = "/v1/sums",
     .spec = {OF_ONE | BIT(AFTER) | BIT(N) | BIT(FROM), BIT(KEYSPACE), 0, 1,
              QUERY_ROWS_MAX},
     .n = 100,
     .step = read_sums_step,
     .answer = read_sums},
    {.path = "/v1/keys",
     .spec = {OF_ONE | BIT(PREFIX) | BIT(AFTER) | BIT(N), BIT(KEYSPACE), 0, 1,
              QUERY_ROWS_MAX},
     .n = 100,
     .has_prefix = true,
     .answer = answer_keys},
    {.path = "/v1/keyspaces",
     .spec = {COMMON | BIT(AFTER) | BIT(N) | BIT(SORT), 0, 0, 1,
              QUERY_ROWS_MAX},
     .n = QUERY_ROWS_MAX,
     .step = read_keyspaces_step,
     .answer = read_keyspaces},
    {.path = "/v1/status",
     .spec = {COMMON, 0, 0, 0, 0},
     .is_plain = true,
     .answer = read_status},
    {.path = "/v1/held",
     .spec = {COMMON, 0, 0, 0, 0},
     .is_plain = true,
     .answer = read_held},
    {.path = "/v1/logs",
     .spec = {COMMON, 0, 0, 0, 0},
     .is_plain = true,
     .step = read_logs_step,
     .answer = read_logs},
    {.path = "/v1/now",
     .spec = {COMMON | BIT(KEYSPACE), 0, 0, 0, 0},
     .answer = answer_now},
    {.path = "/metrics",
     .is_plain = true,
     .step = user_metrics_step,
     .answer = read_metrics},
};

static_assert(sizeof read_commands / sizeof read_commands[0] == READ_COMMANDS,
              "each has a route");

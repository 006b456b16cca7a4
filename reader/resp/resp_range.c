/* reader/resp/resp_range.c - ranges by rank and by score.
 *
 * The store's order is by count descending, ties by key ascending; ascending
 * ranges are its exact reverse.  Bounds of scores are found by binary search in
 * that order.
 *
 *     resp_do_range() -> parse_options(), then resp_range_cut() or find_rows(),
 *     and answer_rows() */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include "common/base/bytes.h"
#include "common/wire/decimal.h"

/* What a command asks for. */
struct row_range {
    enum resp_form form;
    bool is_reversed; /* largest first, as the store has them */
    bool by_score;    /* the bounds are scores */
    bool has_limit;
    int64_t offset, limit; /* negative limit: all */
    uint64_t first, count; /* the rows, in the store's order */
};

/* ---- answering ----------------------------------------------------------- */

size_t
resp_put_rows(const struct resp_call *call, uint8_t *out, enum resp_form form,
              int64_t count)
{
    if (form == RESP_MAP)
        return resp_put_map(call, out, (size_t)count);
    return resp_put_number(
        out, '*', form == RESP_SCORES && !resp_is_3(call) ? 2 * count : count);
}

size_t
resp_put_row(const struct resp_call *call, uint8_t *out, enum resp_form form,
             const struct query_row *row)
{
    size_t size = 0;

    if (form == RESP_MEMBERS)
        return resp_put_bulk(out, row->key, row->key_size);
    if (form == RESP_SCORES && resp_is_3(call))
        size = resp_put_number(out, '*', 2);
    if (form != RESP_VALUES)
        size += resp_put_bulk(out + size, row->key, row->key_size);
    return size + (form == RESP_SCORES
                       ? resp_put_score(call, out + size, row->count)
                       : resp_put_number_bulk(out + size, row->count));
}

/* Writes the rows that the store gave. */
static size_t
put_rows(struct resp_call *call, uint8_t *out, const struct row_range *range,
         const struct store_query *q)
{
    struct query_row all[RESP_ROWS_MAX];
    size_t size = resp_put_rows(call, out, range->form, (int64_t)q->rows);
    const uint8_t *at = q->bytes;

    for (uint64_t i = 0; i < q->rows; i++)
        at = query_row_get(at, &all[i]);
    for (uint64_t i = 0; i < q->rows; i++)
        size += resp_put_row(call, out + size, range->form,
                             &all[range->is_reversed ? i : q->rows - 1 - i]);
    return size;
}

static enum conn_next
answer_rows(struct resp_call *call, const struct resp_arg *keyspace,
            const struct row_range *range)
{
    struct resp_service *r = call->service;
    struct store_query q = {.op = STORE_RANGE,
                            .name = keyspace->at,
                            .name_size = keyspace->size,
                            .offset = (int64_t)range->first,
                            .length = range->count};
    uint8_t *out;
    int rc = 0;

    if (range->count > RESP_ROWS_MAX)
        return resp_too_many_rows(call);
    out = conn_space(call->conn, RESP_ROWS_SIZE(range->count));
    if (!out)
        return CONN_FULL;
    if (range->count > 0)
        rc = resp_query(call, &q, r->rows, RESP_ROWS_BYTES);
    if (rc < 0)
        return resp_unreadable(call);
    resp_put(call, put_rows(call, out, range, &q));
    return CONN_ANSWERED;
}

/* ---- by rank ------------------------------------------------------------- */

void
resp_range_cut(int64_t first, int64_t last, int64_t keys, int64_t *from,
               int64_t *count)
{
    if (first < 0)
        first = first < -keys ? 0 : first + keys;
    if (last < 0)
        last = last < -keys ? -1 : last + keys;
    if (last >= keys)
        last = keys - 1;
    *from = first > last ? 0 : first;
    *count = first > last ? 0 : last - first + 1;
}

/* The options after the bounds.  False: call->next. */
static bool
parse_options(struct resp_call *call, struct row_range *o)
{
    const bool is_any = call->command->option == RESP_ANY_RANGE;

    for (size_t i = 4; i < call->count; i++) {
        const struct resp_arg *arg = &call->args[i];

        if (resp_is_word(arg, "withscores")) {
            o->form = RESP_SCORES;
        } else if (is_any && resp_is_word(arg, "rev")) {
            o->is_reversed = true;
        } else if (is_any && resp_is_word(arg, "byscore")) {
            o->by_score = true;
        } else if (is_any && resp_is_word(arg, "bylex")) {
            return resp_stop(
                call, resp_error(call, "BYLEX is not supported: ZSCAN gives "
                                       "members in the order of their names"));
        } else if ((is_any || o->by_score) && resp_is_word(arg, "limit") &&
                   i + 2 < call->count) {
            if (!resp_integer(&arg[1], &o->offset) ||
                !resp_integer(&arg[2], &o->limit))
                return resp_stop(call, resp_not_integer(call));
            o->has_limit = true;
            i += 2;
        } else
            return resp_stop(call, resp_syntax_error(call));
    }
    return true;
}

static enum conn_next
answer_rank_range(struct resp_call *call, struct row_range *o)
{
    const struct resp_arg *args = call->args, *keyspace = &args[1];
    int64_t first, last, keys, from, count;

    if (o->has_limit)
        return resp_error(call, "syntax error, LIMIT is only supported in "
                                "combination with BYSCORE");
    if (!resp_integer(&args[2], &first) || !resp_integer(&args[3], &last))
        return resp_not_integer(call);
    keys = resp_count_keys(call, keyspace);
    if (keys < 0)
        return resp_unreadable(call);
    if (keys == 0 && resp_period_is_name(keyspace))
        return resp_period_range(call, first, last, o->form);
    resp_range_cut(first, last, keys, &from, &count);
    o->count = (uint64_t)count;
    o->first = (uint64_t)(o->is_reversed ? from : keys - from - count);
    return answer_rows(call, keyspace, o);
}

enum conn_next
resp_do_getall(struct resp_call *call)
{
    const struct resp_arg *keyspace = &call->args[1];
    struct row_range all = {.is_reversed = true,
                            .form = (enum resp_form)call->command->option};
    const int64_t keys = resp_count_keys(call, keyspace);

    if (keys < 0)
        return resp_unreadable(call);
    all.count = (uint64_t)keys;
    return answer_rows(call, keyspace, &all);
}

/* ---- by score ------------------------------------------------------------ */

/* Reads a bound; *value is the least number that is not below it (lowest), or the
 * greatest that is not above it.  False: it is not a number.  The infinite is as
 * strtod() has it, in any case, and beyond all counts. */
static bool
parse_bound(const struct resp_arg *arg, bool is_low, int128 *value)
{
    const bool is_open = arg->size > 0 && arg->at[0] == '(';
    const uint8_t *at = arg->at + is_open;
    const size_t size = arg->size - is_open;
    const bool has_sign = size > 0 && (*at == '-' || *at == '+');
    const struct resp_arg word = {at + has_sign, (uint32_t)(size - has_sign)};
    struct decimal d = {.negative = has_sign && *at == '-',
                        .digits = UINT64_MAX};

    if (!resp_is_word(&word, "inf") && !resp_is_word(&word, "infinity") &&
        decimal_parse(at, size, &d) < 0)
        return false;
    for (int e = d.exponent; e > 0 && d.digits <= INT64_MAX; e--)
        d.digits *= 10;
    for (int e = d.exponent; e < 0 && d.digits > 0; e++)
        d.digits /= 10;
    *value = d.negative ? -(int128)d.digits : (int128)d.digits;
    if (d.exponent < 0) /* there is a fraction, which was cut off */
        *value += is_low ? !d.negative : -(int)d.negative;
    else if (is_open)
        *value += is_low ? 1 : -1;
    return true;
}

static bool
has_at_least(const struct query_row *row, const void *bound)
{
    return row->count >= *(const int64_t *)bound;
}

/* Of `keys` those whose count is at least `value`; negative: the keyspace cannot
 * be read. */
static int64_t
count_at_least(struct resp_call *call, int64_t keys, int128 value)
{
    const int64_t bound = (int64_t)value;

    if (value > INT64_MAX)
        return 0;
    return value <= INT64_MIN ? keys
                              : resp_count_before(call, STORE_RANGE, keys,
                                                  has_at_least, &bound);
}

/* The rows of args[low] to args[high]; false: call->next. */
static bool
find_rows(struct resp_call *call, size_t low, size_t high, struct row_range *o)
{
    int128 least, most;
    int64_t keys, above, within;

    if (!parse_bound(&call->args[low], true, &least) ||
        !parse_bound(&call->args[high], false, &most))
        return resp_stop(call, resp_error(call, "min or max is not a float"));
    keys = resp_count_keys(call, &call->args[1]);
    above = count_at_least(call, keys, most + 1);
    within = count_at_least(call, keys, least);
    if (above < 0 || within < 0)
        return resp_stop(call, resp_unreadable(call));
    o->first = (uint64_t)above;
    o->count = within > above ? (uint64_t)(within - above) : 0;
    return true;
}

enum conn_next
resp_do_count(struct resp_call *call)
{
    struct row_range o = {.by_score = true};

    return find_rows(call, 2, 3, &o)
               ? resp_answer_number(call, (int64_t)o.count)
               : call->next;
}

static enum conn_next
answer_score_range(struct resp_call *call, struct row_range *o)
{
    uint64_t left;

    if (!find_rows(call, o->is_reversed ? 3 : 2, o->is_reversed ? 2 : 3, o))
        return call->next;
    left = o->offset < 0 || (uint64_t)o->offset >= o->count
               ? 0
               : o->count - (uint64_t)o->offset;
    if (o->limit >= 0 && (uint64_t)o->limit < left)
        left = (uint64_t)o->limit;
    if (o->is_reversed)
        o->first += (uint64_t)o->offset;
    else
        o->first += o->count - (uint64_t)o->offset - left;
    o->count = left;
    return answer_rows(call, &call->args[1], o);
}

/* ---- commands ------------------------------------------------------------ */

enum conn_next
resp_do_range(struct resp_call *call)
{
    const int range = call->command->option;
    struct row_range o = {
        .is_reversed = range == RESP_BY_RANK || range == RESP_BY_SCORE_REVERSED,
        .by_score = range == RESP_BY_SCORE || range == RESP_BY_SCORE_REVERSED,
        .limit = -1};

    if (!parse_options(call, &o) ||
        ((o.by_score || !o.is_reversed) && !resp_check_no_period(call)))
        return call->next;
    return o.by_score ? answer_score_range(call, &o)
                      : answer_rank_range(call, &o);
}

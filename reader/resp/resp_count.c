/* reader/resp/resp_count.c - increments: INCR, HINCRBY, ZINCRBY and their kin.
 *
 * An increment is forwarded to countd-write and answered from the last answer
 * of its key; see last_answers.h and forward.h.
 *
 *     resp_do_incr() ... -> increment_key() -> forward_increment() */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include "common/wire/decimal.h"

static size_t
put_value(const struct resp_call *call, uint8_t *out, int64_t value)
{
    return call->command->option == RESP_ADD_SCORE
               ? resp_put_score(call, out, value)
               : resp_put_number(out, ':', value);
}

/* An increment of 0 makes no key, and is not forwarded. */
static enum conn_next
answer_zero(struct resp_call *call, const struct resp_arg *keyspace,
            const struct resp_arg *key)
{
    struct last_answers_read read;
    uint8_t out[2 * RESP_NUMBER_SIZE];

    if (resp_read_count(call, keyspace, key, &read) < 0)
        return resp_unreadable(call);
    return resp_answer_bytes(call, out, put_value(call, out, read.count));
}

static enum conn_next
forward_increment(struct resp_call *call, const struct message *m, uint8_t *out,
                  const struct last_answers_read *read)
{
    struct resp_service *r = call->service;
    const struct hash_wide hash = last_answers_hash(
        &r->answers, m->keyspace, m->keyspace_size, m->key, m->key_size);
    uint32_t entry;
    int64_t value;
    size_t size;

    value = last_answers_add(&r->answers, &hash, m->increment, read, &entry);
    size = put_value(call, out, value);
    forward_add(&r->forward, call->conn, m, entry, (uint32_t)size);
    resp_put(call, size);
    return CONN_ANSWERED;
}

static enum conn_next
increment_key(struct resp_call *call, int64_t by)
{
    struct resp_service *r = call->service;
    const struct resp_arg *key = &call->args[call->command->key];
    const struct resp_arg *keyspace = resp_keyspace(call);
    const struct message m = {.increment = by,
                              .keyspace = keyspace->at,
                              .key = key->at,
                              .keyspace_size = (uint16_t)keyspace->size,
                              .key_size = (uint16_t)key->size};
    struct last_answers_read read;
    enum forward_now now;
    uint8_t *out;

    if (by == 0)
        return answer_zero(call, keyspace, key);
    if (message_check(r->forward.layout, &m) < 0)
        return resp_error(call, "a name that no record can have");
    out = conn_space(call->conn, 2 * RESP_NUMBER_SIZE);
    if (!out)
        return CONN_FULL;
    now = forward_now(&r->forward);
    if (now == FORWARD_REFUSES)
        return resp_answer(call, forward_refusal);
    if (now == FORWARD_WAITS) {
        (void)conn_gate(call->conn, &r->forward.gate);
        return CONN_FULL;
    }
    if (resp_read_key(call, keyspace, key, &read) < 0)
        return resp_unreadable(call);
    return forward_increment(call, &m, out, &read);
}

/* INCR, DECR, INCRBY, DECRBY, HINCRBY: an integer behind the key, or 1. */
enum conn_next
resp_do_incr(struct resp_call *call)
{
    const size_t at = (size_t)call->command->key + 1;
    const bool subtracts = call->command->option == RESP_SUBTRACT;
    int64_t by = 1;

    if (call->count > at && !resp_integer(&call->args[at], &by))
        return resp_not_integer(call);
    if (subtracts && by == INT64_MIN)
        return resp_error(call, "decrement would overflow");
    return increment_key(call, subtracts ? -by : by);
}

/* An increment of a score: a decimal that is a whole number. */
enum conn_next
resp_do_zincrby(struct resp_call *call)
{
    const struct resp_arg *arg = &call->args[call->command->key - 1];
    struct decimal d;
    int64_t by;

    if (decimal_parse(arg->at, arg->size, &d) < 0)
        return resp_error(call, "value is not a valid float");
    if (decimal_whole(&d, &by) < 0)
        return resp_not_integer(call);
    return increment_key(call, by);
}

enum conn_next
resp_do_zadd(struct resp_call *call)
{
    if (call->count != 5 || !resp_is_word(&call->args[2], "incr"))
        return resp_error(call, "countd adds and does not set: ZADD is only "
                                "ZADD key INCR increment member");
    return resp_do_zincrby(call);
}

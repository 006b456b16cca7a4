/* reader/resp/resp_read.c - reads of single keys and of what a keyspace is.
 *
 *     resp_read_count()   resp_read_key() and the last answers */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/wire/name.h"
#include "reader/resp/resp_period.h"

#define ASKED_AHEAD 64 /* keys of one command */

/* ---- names --------------------------------------------------------------- */

/* Whether an argument may name a keyspace, or a key. */
static bool
is_name(const struct resp_call *call, const struct resp_arg *arg, bool is_key)
{
    const struct config *c = call->service->config;

    return arg->size > 0 &&
           arg->size <= (is_key ? c->key_size : c->keyspace_size) &&
           !memchr(arg->at, '\0', arg->size);
}

static bool
check_name(struct resp_call *call, const struct resp_arg *arg, bool is_key,
           enum conn_next *answer)
{
    const struct config *c = call->service->config;

    if (is_name(call, arg, is_key))
        return true;
    if (arg->size == 0)
        *answer = resp_error(call, "a name is empty");
    else if (memchr(arg->at, '\0', arg->size))
        *answer = resp_error(call, "a name has a NUL byte");
    else
        *answer =
            resp_error(call, "a name is longer than %u bytes",
                       (unsigned)(is_key ? c->key_size : c->keyspace_size));
    return false;
}

bool
resp_check_keyspace(struct resp_call *call, bool takes_period,
                    enum conn_next *answer)
{
    const struct resp_arg *name = &call->args[1];
    int64_t keys;

    if (!check_name(call, name, false, answer))
        return false;
    if (takes_period || !resp_period_is_name(name))
        return true;
    keys = resp_count_keys(call, name);
    if (keys == -EAGAIN)
        *answer = CONN_PAUSE;
    if (keys != 0)
        return keys != -EAGAIN;
    *answer = resp_error(call, "a period of a keyspace is only read by "
                               "ZREVRANGE, or ZRANGE with REV");
    return false;
}

bool
resp_check_keys(struct resp_call *call, size_t first, size_t end,
                enum conn_next *answer)
{
    for (size_t i = first; i < end; i++)
        if (!check_name(call, &call->args[i], true, answer))
            return false;
    return true;
}

struct resp_arg
resp_strings(const struct resp_call *call)
{
    const struct resp_service *r = call->service;

    return (struct resp_arg){.at = (const uint8_t *)r->config->resp_keyspace,
                             .size = r->keyspace_size};
}

/* ---- the store ----------------------------------------------------------- */

int
resp_query(struct resp_call *call, struct store_query *q, uint8_t *rows,
           size_t size)
{
    static struct diag_repeat failures;
    struct store_reads reads = {
        .queries = q, .count = 1, .at = rows, .capacity = size};
    char name[NAME_TEXT_SIZE];

    (void)store_read(call->service->store, &reads); /* one is always answered */
    if (q->error == 0 || q->error == -ENOENT)
        return q->error;
    call->service->read_error = q->error;
    if (q->error == -EAGAIN) /* it is being read */
        return q->error;
    name_escape(q->name, q->name_size, name);
    diag_repeating(&failures, DIAG_ERROR, "cannot read keyspace=%s: %s%s", name,
                   diag_text(q->error),
                   q->error == -EBADMSG ? "; countd check says where" : "");
    return q->error;
}

int
resp_read_key(struct resp_call *call, const struct resp_arg *keyspace,
              const struct resp_arg *key, struct last_answers_read *out)
{
    uint8_t row[QUERY_ROW_SIZE + STORE_NAME_MAX];
    struct store_query q = {.op = STORE_GET,
                            .name = keyspace->at,
                            .name_size = keyspace->size,
                            .key = key->at,
                            .key_size = key->size};
    /* Before the snapshot: what it claims is in the snapshot then. */
    const int64_t as_of =
        as_of_own(call->service->as_of, keyspace->at, keyspace->size);
    const int rc = resp_query(call, &q, row, sizeof row);

    if (rc < 0 && rc != -ENOENT)
        return rc;
    out->as_of_ms = (uint64_t)as_of;
    out->exists = rc == 0;
    out->count = rc == 0 ? q.row.count : 0;
    return 0;
}

int
resp_read_count(struct resp_call *call, const struct resp_arg *keyspace,
                const struct resp_arg *key, struct last_answers_read *out)
{
    const struct last_answers *a = &call->service->answers;
    struct hash_wide hash;
    int rc;

    rc = resp_read_key(call, keyspace, key, out);
    if (rc < 0 || !last_answers_any_holds(a, out->as_of_ms))
        return rc;
    hash =
        last_answers_hash(a, keyspace->at, keyspace->size, key->at, key->size);
    last_answers_apply(a, last_answers_find(a, &hash), out);
    return 0;
}

int64_t
resp_count_keys(struct resp_call *call, const struct resp_arg *keyspace)
{
    uint8_t row[QUERY_ROW_SIZE + STORE_NAME_MAX];
    struct store_query q = {
        .op = STORE_TOTAL, .name = keyspace->at, .name_size = keyspace->size};
    const int rc = resp_query(call, &q, row, sizeof row);

    if (rc == -ENOENT)
        return 0;
    return rc < 0 ? rc : (int64_t)q.totals.keys;
}

int64_t
resp_count_before(struct resp_call *call, enum store_op op,
                  const struct resp_arg *keyspace, int64_t count,
                  bool (*is_before)(const uint8_t *row, const void *bound),
                  const void *bound)
{
    uint8_t row[QUERY_ROW_SIZE + STORE_NAME_MAX];
    int64_t from = 0, to = count;

    if (count < 0)
        return count;
    while (from < to) {
        const int64_t middle = from + (to - from) / 2;
        struct store_query q = {.op = op,
                                .name = keyspace->at,
                                .name_size = keyspace->size,
                                .offset = middle,
                                .length = 1};
        const int rc = resp_query(call, &q, row, sizeof row);

        if (rc < 0 && rc != -ENOENT)
            return rc;
        if (q.rows == 1 && is_before(q.bytes, bound))
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* ---- GET, HGET, ZSCORE ... ----------------------------------------------- */

static size_t
put_member(const struct resp_call *call, uint8_t *out,
           const struct last_answers_read *read)
{
    if (call->command->option == RESP_MEMBER_EXISTS)
        return resp_put_number(out, ':', read->exists);
    if (!read->exists)
        return resp_put_nil(call, out);
    if (call->command->option == RESP_MEMBER_SCORE)
        return resp_put_score(call, out, read->count);
    return resp_put_number_bulk(out, read->count);
}

/* A store that is not local is asked for the keys from args[i] on together. */
static enum conn_next
ask_ahead(struct resp_call *call, const struct resp_arg *keyspace, size_t i)
{
    const size_t end = i + ASKED_AHEAD;
    struct last_answers_read read;

    while (++i < call->count && i < end)
        (void)resp_read_count(call, keyspace, &call->args[i],
                              &read); /* its answer comes later */
    return CONN_PAUSE;
}

/* The keys args[first] and later: one alone, or an array of them, which gives
 * way between two. */
static enum conn_next
answer_members(struct resp_call *call, const struct resp_arg *keyspace,
               size_t first, bool is_array)
{
    struct resp_state *s = call->state;
    struct last_answers_read read;
    enum conn_next next = CONN_ANSWERED;
    uint8_t *out;

    if (s->progress == 0 &&
        ((first > 1 && !resp_check_keyspace(call, false, &next)) ||
         !resp_check_keys(call, first, call->count, &next)))
        return next;
    for (size_t i = first + s->progress; i < call->count; i++) {
        const bool begins = is_array && i == first;
        const int rc = resp_read_count(call, keyspace, &call->args[i], &read);
        size_t size = 0;

        if (rc == -EAGAIN)
            return ask_ahead(call, keyspace, i);
        /* A later one that cannot be read has the error in its place. */
        if (rc < 0 && i == first)
            return resp_unreadable(call);
        out = rc < 0 ? NULL : resp_space(call, 3 * RESP_NUMBER_SIZE);
        next = rc < 0 ? resp_unreadable(call) : out ? CONN_ANSWERED : CONN_FULL;
        if (next != CONN_ANSWERED)
            return next;
        if (begins)
            size = resp_put_number(out, '*', (int64_t)(call->count - first));
        if (rc == 0)
            resp_put(call, size + put_member(call, out + size, &read));
        s->progress++;
        if (i + 1 < call->count && resp_is_late(call))
            return CONN_YIELD;
    }
    s->progress = 0;
    return CONN_ANSWERED;
}

enum conn_next
resp_do_get(struct resp_call *call)
{
    const struct resp_arg strings = resp_strings(call);

    return answer_members(call, &strings, 1, false);
}

enum conn_next
resp_do_mget(struct resp_call *call)
{
    const struct resp_arg strings = resp_strings(call);

    return answer_members(call, &strings, 1, true);
}

enum conn_next
resp_do_member(struct resp_call *call)
{
    return answer_members(call, &call->args[1], 2, false);
}

enum conn_next
resp_do_members(struct resp_call *call)
{
    return answer_members(call, &call->args[1], 2, true);
}

/* ---- of a keyspace ------------------------------------------------------- */

enum conn_next
resp_do_card(struct resp_call *call)
{
    enum conn_next answer;
    int64_t keys;

    if (!resp_check_keyspace(call, false, &answer))
        return answer;
    keys = resp_count_keys(call, &call->args[1]);
    return keys < 0 ? resp_unreadable(call) : resp_answer_number(call, keys);
}

/* A rank, with the score if it is asked for. */
static enum conn_next
answer_rank(struct resp_call *call, bool with_score, int64_t rank,
            int64_t score)
{
    uint8_t *out = resp_space(call, 4 * RESP_NUMBER_SIZE);
    size_t size = 0;

    if (!out)
        return CONN_FULL;
    if (with_score)
        size += resp_put_number(out, '*', 2);
    size += resp_put_number(out + size, ':', rank);
    if (with_score)
        size += resp_put_score(call, out + size, score);
    resp_put(call, size);
    return CONN_ANSWERED;
}

/* ZREVRANK and ZRANK: the rank by count descending, or from the other end. */
enum conn_next
resp_do_rank(struct resp_call *call)
{
    const struct resp_arg *keyspace = &call->args[1];
    struct store_query q = {.op = STORE_RANK,
                            .name = keyspace->at,
                            .name_size = keyspace->size,
                            .key = call->args[2].at,
                            .key_size = call->args[2].size};
    const bool with_score = call->count > 3;
    uint8_t row[QUERY_ROW_SIZE + STORE_NAME_MAX];
    enum conn_next answer;
    int64_t keys = 0;
    int rc;

    if (with_score &&
        (call->count > 4 || !resp_is_word(&call->args[3], "withscore")))
        return resp_syntax_error(call);
    if (!resp_check_keyspace(call, false, &answer) ||
        !resp_check_keys(call, 2, 3, &answer))
        return answer;
    rc = resp_query(call, &q, row, sizeof row);
    if (rc == -ENOENT && with_score && !resp_is_3(call))
        return resp_answer(call, "*-1\r\n");
    if (rc == -ENOENT)
        return resp_answer_nil(call);
    if (rc == 0 && call->command->option == 0)
        keys = resp_count_keys(call, keyspace);
    if (rc < 0 || keys < 0)
        return resp_unreadable(call);
    return answer_rank(call, with_score,
                       call->command->option != 0 ? (int64_t)q.rank
                                                  : keys - 1 - (int64_t)q.rank,
                       q.row.count);
}

enum kind { KIND_NONE, KIND_KEYSPACE, KIND_STRING };

/* A keyspace comes first, then a key of the strings.  Negative: it cannot be
 * read. */
static int
find_kind(struct resp_call *call, const struct resp_arg *arg)
{
    const struct resp_arg strings = resp_strings(call);
    struct last_answers_read read;
    int64_t keys = 0;
    int rc;

    if (is_name(call, arg, false))
        keys = resp_count_keys(call, arg);
    if (keys != 0)
        return keys < 0 ? (int)keys : KIND_KEYSPACE;
    if (!is_name(call, arg, true))
        return KIND_NONE;
    rc = resp_read_count(call, &strings, arg, &read);
    if (rc < 0)
        return rc;
    return read.exists ? KIND_STRING : KIND_NONE;
}

enum conn_next
resp_do_type(struct resp_call *call)
{
    static const char *const words[] = {[KIND_NONE] = "+none\r\n",
                                        [KIND_KEYSPACE] = "+zset\r\n",
                                        [KIND_STRING] = "+string\r\n"};
    const int kind = find_kind(call, &call->args[1]);

    return kind < 0 ? resp_unreadable(call) : resp_answer(call, words[kind]);
}

/* What exists has no time to live. */
enum conn_next
resp_do_ttl(struct resp_call *call)
{
    const int kind = find_kind(call, &call->args[1]);

    return kind < 0 ? resp_unreadable(call)
                    : resp_answer_number(call, kind == KIND_NONE ? -2 : -1);
}

/* Gives way between two names. */
enum conn_next
resp_do_exists(struct resp_call *call)
{
    struct resp_state *s = call->state;
    enum conn_next next;

    for (size_t i = 1 + s->progress; i < call->count; i++) {
        const int kind = find_kind(call, &call->args[i]);

        if (kind < 0) {
            next = resp_unreadable(call);
            goto reset;
        }
        s->found += kind != KIND_NONE;
        s->progress++;
        if (i + 1 < call->count && resp_is_late(call))
            return CONN_YIELD;
    }
    next = resp_answer_number(call, s->found);
reset:
    if (next == CONN_ANSWERED)
        s->progress = s->found = 0;
    return next;
}

/* reader/resp/resp_read.c - reads of single keys and of what a keyspace is; see
 * resp_internal.h.
 *
 * Commands: resp_do_members() to resp_do_exists().  For all commands:
 * resp_check_names(), and resp_read_count(), which is resp_read_key() and the
 * last answers. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <errno.h>
#include <string.h>

#include "reader/answer.h"

#define ASKED_AHEAD 64 /* keys of one command */

/* ---- names --------------------------------------------------------------- */

/* Why an argument cannot name a keyspace, or a key; NULL: it can. */
static const struct increment_fault *
find_fault(const struct resp_call *call, const struct resp_arg *arg,
           bool is_key)
{
    static const struct increment_form raw = {.raw = true};
    const struct config *c = call->service->config;
    struct increment_name name;

    return increment_name_read(&raw, (const char *)arg->at, arg->size,
                               is_key ? c->key_size : c->keyspace_size, &name);
}

bool
resp_check_no_period(struct resp_call *call)
{
    int64_t keys;

    if (!resp_period_is_name(&call->args[1]))
        return true;
    keys = resp_count_keys(call, &call->args[1]);
    if (keys == -EAGAIN)
        return resp_stop(call, CONN_PAUSE);
    return keys != 0 ||
           resp_stop(call,
                     resp_error(call, "a period of a keyspace is only read by "
                                      "ZREVRANGE, or ZRANGE with REV"));
}

bool
resp_check_names(struct resp_call *call)
{
    const struct resp_command *c = call->command;
    const size_t first = (size_t)(c->key < 0 ? -c->key : c->key);
    const size_t end =
        c->key >= 0 && first + 1 < call->count ? first + 1 : call->count;
    const struct increment_fault *fault = NULL;

    if ((c->flags & RESP_KEYSPACE) != 0) {
        fault = find_fault(call, &call->args[1], false);
        if (!fault && (c->flags & RESP_PERIOD) == 0 &&
            !resp_check_no_period(call))
            return false;
    }
    /* These answer that there is no such key. */
    if (first > 0 && c->run != resp_do_members)
        for (size_t i = first; i < end && !fault; i++)
            fault = find_fault(call, &call->args[i], true);
    return !fault || resp_stop(call, resp_error(call, "%s", fault->text));
}

/* ---- the store ----------------------------------------------------------- */

int
resp_query(struct resp_call *call, struct store_query *q, uint8_t *rows,
           size_t size)
{
    const int rc = answer_query(call->service->jobs->store, q, rows, size);

    if (rc == 0)
        return 1;
    if (rc == -ENOENT)
        return 0;
    call->service->read_error = rc;
    return rc;
}

int
resp_read_key(struct resp_call *call, const struct resp_arg *keyspace,
              const struct resp_arg *key, struct last_answers_read *out)
{
    struct store_query q = {.op = STORE_GET,
                            .name = keyspace->at,
                            .name_size = keyspace->size,
                            .key = key->at,
                            .key_size = key->size};
    /* Before the snapshot: what it claims is in the snapshot then. */
    const int64_t as_of =
        as_of_own(call->service->jobs->as_of, keyspace->at, keyspace->size);
    const int rc = resp_query(call, &q, NULL, 0);

    if (rc < 0)
        return rc;
    out->as_of_ms = (uint64_t)as_of;
    out->exists = rc == 1;
    out->count = rc == 1 ? q.row.count : 0;
    return 0;
}

int
resp_read_count(struct resp_call *call, const struct resp_arg *keyspace,
                const struct resp_arg *key, struct last_answers_read *out)
{
    const struct last_answers *a = &call->service->answers;
    struct hash_wide hash;
    int rc;

    if (find_fault(call, key, true)) { /* there is no such key */
        *out = (struct last_answers_read){.exists = false};
        return 0;
    }
    rc = resp_read_key(call, keyspace, key, out);
    if (rc < 0 || !last_answers_any_holds(a, out->as_of_ms))
        return rc;
    hash =
        last_answers_hash(a, keyspace->at, keyspace->size, key->at, key->size);
    last_answers_apply(a, &hash, out);
    return 0;
}

int64_t
resp_count_keys(struct resp_call *call, const struct resp_arg *keyspace)
{
    struct store_query q = {
        .op = STORE_TOTAL, .name = keyspace->at, .name_size = keyspace->size};
    const int rc = resp_query(call, &q, NULL, 0);

    return rc == 1 ? (int64_t)q.totals.keys : rc;
}

int64_t
resp_count_before(struct resp_call *call, enum store_op op, int64_t count,
                  bool (*is_before)(const struct query_row *row,
                                    const void *bound),
                  const void *bound)
{
    const struct resp_arg *keyspace = &call->args[1];
    uint8_t row[QUERY_ROW_SIZE + STORE_NAME_MAX];
    struct query_row found;
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

        if (rc < 0)
            return rc;
        if (q.rows == 1)
            (void)query_row_get(q.bytes, &found);
        if (q.rows == 1 && is_before(&found, bound))
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

/* The key that the command's row names, or an array of those from there on,
 * which gives way between two. */
enum conn_next
resp_do_members(struct resp_call *call)
{
    const int key = call->command->key;
    const size_t first = (size_t)(key < 0 ? -key : key);
    const struct resp_arg *keyspace = resp_keyspace(call);
    struct resp_state *s = call->state;
    struct last_answers_read read;

    for (size_t i = first + s->progress; i < call->count; i++) {
        const int rc = resp_read_count(call, keyspace, &call->args[i], &read);
        uint8_t *out =
            rc < 0 ? NULL : conn_space(call->conn, 3 * RESP_NUMBER_SIZE);
        enum conn_next next = out ? CONN_ANSWERED : CONN_FULL;
        size_t size = 0;

        if (rc == -EAGAIN)
            return ask_ahead(call, keyspace, i);
        if (rc < 0)
            next = resp_unreadable(call);
        /* A later one that cannot be read has the error in its place. */
        if (next != CONN_ANSWERED || (rc < 0 && i == first))
            return next;
        if (out && key < 0 && i == first)
            size = resp_put_number(out, '*', (int64_t)(call->count - first));
        if (out)
            resp_put(call, size + put_member(call, out + size, &read));
        s->progress++;
        if (i + 1 < call->count && resp_is_late(call))
            return CONN_YIELD;
    }
    s->progress = 0;
    return CONN_ANSWERED;
}

/* ---- of a keyspace ------------------------------------------------------- */

enum conn_next
resp_do_card(struct resp_call *call)
{
    const int64_t keys = resp_count_keys(call, &call->args[1]);

    return keys < 0 ? resp_unreadable(call) : resp_answer_number(call, keys);
}

/* A rank, with the score if it is asked for. */
static enum conn_next
answer_rank(struct resp_call *call, bool with_score, int64_t rank,
            int64_t score)
{
    uint8_t out[4 * RESP_NUMBER_SIZE];
    size_t size = 0;

    if (with_score)
        size += resp_put_number(out, '*', 2);
    size += resp_put_number(out + size, ':', rank);
    if (with_score)
        size += resp_put_score(call, out + size, score);
    return resp_answer_bytes(call, out, size);
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
    int64_t keys = 0;
    int rc;

    if (with_score &&
        (call->count > 4 || !resp_is_word(&call->args[3], "withscore")))
        return resp_syntax_error(call);
    rc = resp_query(call, &q, NULL, 0);
    if (rc == 0 && with_score && !resp_is_3(call))
        return resp_answer(call, "*-1\r\n");
    if (rc == 0)
        return resp_answer_nil(call);
    if (rc == 1 && call->command->option == RESP_SMALLEST_FIRST)
        keys = resp_count_keys(call, keyspace);
    if (rc < 0 || keys < 0)
        return resp_unreadable(call);
    return answer_rank(call, with_score,
                       call->command->option == RESP_LARGEST_FIRST
                           ? (int64_t)q.rank
                           : keys - 1 - (int64_t)q.rank,
                       q.row.count);
}

enum kind { KIND_NONE, KIND_KEYSPACE, KIND_STRING };

/* A keyspace comes first, then a key of the strings.  Negative: it cannot be
 * read. */
static int
find_kind(struct resp_call *call, const struct resp_arg *arg)
{
    struct last_answers_read read;
    int64_t keys = 0;
    int rc;

    if (!find_fault(call, arg, false))
        keys = resp_count_keys(call, arg);
    if (keys != 0)
        return keys < 0 ? (int)keys : KIND_KEYSPACE;
    rc = resp_read_count(call, &call->service->strings, arg, &read);
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
    int kind = KIND_NONE;

    for (size_t i = 1 + s->progress; i < call->count; i++) {
        kind = find_kind(call, &call->args[i]);
        if (kind < 0)
            break;
        s->found += kind != KIND_NONE;
        s->progress++;
        if (i + 1 < call->count && resp_is_late(call))
            return CONN_YIELD;
    }
    next =
        kind < 0 ? resp_unreadable(call) : resp_answer_number(call, s->found);
    if (next == CONN_ANSWERED)
        s->progress = s->found = 0;
    return next;
}

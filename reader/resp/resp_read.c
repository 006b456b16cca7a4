/* reader/resp/resp_read.c - reads of single keys and of what a keyspace is.
 *
 *     resp_read_count()   resp_read_key() and the last answers */
#include "reader/resp/resp_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/wire/name.h"
#include "reader/resp/resp_period.h"

/* ---- names --------------------------------------------------------------- */

const char *
resp_name_error(const struct resp_call *call, const struct resp_arg *arg,
                bool is_key, char *text, size_t text_size)
{
    const struct config *c = call->service->config;
    const unsigned max = (unsigned)(is_key ? c->key_size : c->keyspace_size);

    if (arg->size == 0)
        return "a name is empty";
    if (memchr(arg->at, '\0', arg->size))
        return "a name has a NUL byte";
    if (arg->size <= max)
        return NULL;
    (void)snprintf(text, text_size, "a name is longer than %u bytes", max);
    return text;
}

/* The names of arguments: of a keyspace, or of a key of the strings. */
static bool
is_name(const struct resp_call *call, const struct resp_arg *arg, bool is_key)
{
    char text[RESP_ERROR_MAX];

    return resp_name_error(call, arg, is_key, text, sizeof text) == NULL;
}

const char *
resp_keyspace_error(struct resp_call *call, const struct resp_arg *arg,
                    char *text, size_t text_size)
{
    const struct resp_name name = {.at = arg->at, .size = arg->size};
    const char *error = resp_name_error(call, arg, false, text, text_size);

    if (error || !resp_period_is_name(call, &name) ||
        resp_count_keys(call, name.at, name.size) != 0)
        return error;
    return "a period of a keyspace is only read by ZREVRANGE, or ZRANGE with "
           "REV";
}

struct resp_name
resp_strings(const struct resp_call *call)
{
    const struct resp_service *r = call->service;

    return (struct resp_name){.at = (const uint8_t *)r->config->resp_keyspace,
                              .size = r->keyspace_size};
}

static struct resp_name
name_of(const struct resp_arg *arg)
{
    return (struct resp_name){.at = arg->at, .size = arg->size};
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
    if (q->error == 0 || q->error == -ENOENT || q->error == -EOPNOTSUPP)
        return q->error;
    call->service->read_error = q->error;
    name_escape(q->name, q->name_size, name);
    diag_repeating(&failures, DIAG_ERROR, "cannot read keyspace=%s: %s%s", name,
                   diag_text(q->error),
                   q->error == -EBADMSG ? "; countd check says where" : "");
    return q->error;
}

int
resp_read_key(struct resp_call *call, const struct resp_name *keyspace,
              const struct resp_name *key, struct last_answers_read *out)
{
    uint8_t row[QUERY_ROW_SIZE + STORE_NAME_MAX];
    struct store_query q = {.op = STORE_GET,
                            .name = keyspace->at,
                            .name_size = keyspace->size,
                            .key = key->at,
                            .key_size = key->size};
    /* Before the snapshot: what it claims is in the snapshot then. */
    const int64_t as_of =
        as_of_get(call->service->as_of, keyspace->at, keyspace->size);
    const int rc = resp_query(call, &q, row, sizeof row);

    if (rc < 0 && rc != -ENOENT)
        return rc;
    out->as_of_ms = (uint64_t)as_of;
    out->exists = rc == 0;
    out->count = rc == 0 ? q.row.count : 0;
    return 0;
}

int
resp_read_count(struct resp_call *call, const struct resp_name *keyspace,
                const struct resp_name *key, struct last_answers_read *out)
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
resp_count_keys(struct resp_call *call, const uint8_t *name, size_t size)
{
    uint8_t row[QUERY_ROW_SIZE + STORE_NAME_MAX];
    struct store_query q = {.op = STORE_TOTAL, .name = name, .name_size = size};
    const int rc = resp_query(call, &q, row, sizeof row);

    if (rc == -ENOENT)
        return 0;
    return rc < 0 ? rc : (int64_t)q.totals.keys;
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

/* The first error of the names args[first] and later, of which one may be of a
 * keyspace; CONN_MORE with *bad: it was answered. */
static enum conn_next
check_names(struct resp_call *call, size_t first_key, bool *bad)
{
    char text[RESP_ERROR_MAX];
    const char *error = NULL;

    for (size_t i = 1; i < call->count && !error; i++)
        error = i < first_key ? resp_keyspace_error(call, &call->args[i], text,
                                                    sizeof text)
                              : resp_name_error(call, &call->args[i], true,
                                                text, sizeof text);
    *bad = error != NULL;
    return error ? resp_error(call, "%s", error) : CONN_MORE;
}

/* The keys args[first] and later: one alone, or an array of them. */
static enum conn_next
answer_members(struct resp_call *call, const struct resp_name *keyspace,
               size_t first, bool is_array)
{
    const size_t keys = call->count - first;
    struct last_answers_read read;
    enum conn_next next;
    size_t size = 0;
    uint8_t *out;
    bool bad;

    next = check_names(call, first, &bad);
    if (bad)
        return next;
    out = resp_space(call, (keys + is_array) * 2 * RESP_NUMBER_SIZE);
    if (!out)
        return CONN_FULL;
    if (is_array)
        size = resp_put_number(out, '*', (int64_t)keys);
    for (size_t i = first; i < call->count; i++) {
        const struct resp_name key = name_of(&call->args[i]);

        if (resp_read_count(call, keyspace, &key, &read) < 0)
            return resp_unreadable(call);
        size += put_member(call, out + size, &read);
    }
    resp_put(call, size);
    return CONN_MORE;
}

enum conn_next
resp_do_get(struct resp_call *call)
{
    const struct resp_name strings = resp_strings(call);

    return answer_members(call, &strings, 1, false);
}

enum conn_next
resp_do_mget(struct resp_call *call)
{
    const struct resp_name strings = resp_strings(call);

    return answer_members(call, &strings, 1, true);
}

enum conn_next
resp_do_member(struct resp_call *call)
{
    const struct resp_name keyspace = name_of(&call->args[1]);

    return answer_members(call, &keyspace, 2, false);
}

enum conn_next
resp_do_members(struct resp_call *call)
{
    const struct resp_name keyspace = name_of(&call->args[1]);

    return answer_members(call, &keyspace, 2, true);
}

/* ---- of a keyspace ------------------------------------------------------- */

enum conn_next
resp_do_card(struct resp_call *call)
{
    enum conn_next next;
    int64_t keys;
    bool bad;

    next = check_names(call, 2, &bad);
    if (bad)
        return next;
    keys = resp_count_keys(call, call->args[1].at, call->args[1].size);
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
    return CONN_MORE;
}

/* ZREVRANK and ZRANK: the rank by count descending, or from the other end. */
enum conn_next
resp_do_rank(struct resp_call *call)
{
    const struct resp_name keyspace = name_of(&call->args[1]);
    struct store_query q = {.op = STORE_RANK,
                            .name = keyspace.at,
                            .name_size = keyspace.size,
                            .key = call->args[2].at,
                            .key_size = call->args[2].size};
    const bool with_score = call->count > 3;
    uint8_t row[QUERY_ROW_SIZE + STORE_NAME_MAX];
    enum conn_next next;
    int64_t keys = 0;
    bool bad;
    int rc;

    if (with_score &&
        (call->count > 4 || !resp_is_word(&call->args[3], "withscore")))
        return resp_syntax_error(call);
    next = check_names(call, 2, &bad);
    if (bad)
        return next;
    rc = resp_query(call, &q, row, sizeof row);
    if (rc == -ENOENT && with_score && !resp_is_3(call))
        return resp_answer(call, "*-1\r\n");
    if (rc == -ENOENT)
        return resp_answer_nil(call);
    if (rc == 0 && call->command->option == 0)
        keys = resp_count_keys(call, keyspace.at, keyspace.size);
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
    const struct resp_name strings = resp_strings(call);
    const struct resp_name name = name_of(arg);
    struct last_answers_read read;
    int64_t keys = 0;
    int rc;

    if (is_name(call, arg, false))
        keys = resp_count_keys(call, name.at, name.size);
    if (keys != 0)
        return keys < 0 ? (int)keys : KIND_KEYSPACE;
    if (!is_name(call, arg, true))
        return KIND_NONE;
    rc = resp_read_count(call, &strings, &name, &read);
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

enum conn_next
resp_do_exists(struct resp_call *call)
{
    int64_t count = 0;

    for (size_t i = 1; i < call->count; i++) {
        const int kind = find_kind(call, &call->args[i]);

        if (kind < 0)
            return resp_unreadable(call);
        count += kind != KIND_NONE;
    }
    return resp_answer_number(call, count);
}

/* common/client/lib/document.c - see document.h: document_begin(),
 * document_ask(), document_next(), document_end(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/lib/document.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/hex.h"
#include "common/wire/cell.h"
#include "common/wire/increment_line.h"
#include "common/wire/json_plain.h"
#include "common/wire/name.h"

#define PARAMETER_MAX 16 /* bytes of its name */
#define NUMBER_ROOM   (PARAMETER_MAX + 24)
#define ENDING        " HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
#define ENDING_MAX    (sizeof ENDING + HTTP_TOKEN_MAX + 32)

/* Keeps the first error. */
static void
note_error(struct document *d, int error)
{
    if (d->error == 0)
        d->error = error;
}

/* ---- the question -------------------------------------------------------- */

bool
document_has_room(const struct document *d, size_t size)
{
    const size_t used = (size_t)(d->at - d->a->question);

    return used + 2 * size + NUMBER_ROOM + ENDING_MAX <= QUESTION_MAX;
}

void
document_begin(struct handle_asking *a, struct document *d, const char *command)
{
    /* A normal mutex, locked and unlocked in pairs: neither can fail. */
    (void)pthread_mutex_lock(&a->http.lock);
    *d = (struct document){.a = a};
    d->at = a->question +
            snprintf(a->question, sizeof a->question, "GET /v1/%s?", command);
}

void
document_about(struct countd *c, struct document *d, const char *command,
               const struct countd_query *q)
{
    document_begin(&c->asking, d, command);
    if (q->keyspace.data)
        document_put_name(d, "keyspace", q->keyspace);
    if (q->key.size > 0)
        document_put_name(d, "key", q->key);
    if (q->prefix.size > 0)
        document_put_name(d, "prefix", q->prefix);
    if (q->after.size > 0)
        document_put_name(d, "after", q->after);
    if (q->group != 0)
        document_put_name(d, "group", countd_bytes(&q->group, 1));
}

void
document_put_period(struct document *d, const struct countd_query *q)
{
    if (q->from < 0 || q->to < q->from)
        note_error(d, -EINVAL);
    if (q->from == 0 && q->to == 0)
        return; /* of all time */
    document_put_number(d, "from", q->from);
    document_put_number(d, "to", q->to);
}

/* Bytes that stand for themselves in a query. */
static bool
is_plain(struct countd_name name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";

    for (size_t i = 0; i < name.size; i++)
        if (!memchr(plain, name.data[i], sizeof plain - 1))
            return false;
    return true;
}

void
document_put_name(struct document *d, const char *parameter,
                  struct countd_name name)
{
    const bool is_as_it_is = is_plain(name);

    if (name.size > NAME_MAX_SIZE)
        note_error(d, -ENAMETOOLONG);
    else if (!document_has_room(d,
                                is_as_it_is ? (name.size + 1) / 2 : name.size))
        note_error(d, -E2BIG);
    else if (is_as_it_is)
        d->at +=
            sprintf(d->at, "&%s=%.*s", parameter, (int)name.size, name.data);
    else {
        d->at += sprintf(d->at, "&%s_hex=", parameter);
        for (size_t i = 0; i < name.size; i++)
            d->at += sprintf(d->at, "%02x", (uint8_t)name.data[i]);
    }
}

void
document_put_number(struct document *d, const char *parameter, int64_t number)
{
    if (!document_has_room(d, 0))
        note_error(d, -E2BIG);
    else
        d->at += sprintf(d->at, "&%s=%" PRId64, parameter, number);
}

void
document_put_text(struct document *d, const char *parameters)
{
    if (!document_has_room(d, strlen(parameters)))
        note_error(d, -E2BIG);
    else
        d->at += sprintf(d->at, "&%s", parameters);
}

/* Why there is no answer, by the code of the problem. */
static int
problem_error(struct document *d, int rc)
{
    static const struct {
        const char *code;
        int error;
    } codes[] = {
        {"no-such-keyspace", -ENOENT}, {"no-such-key", -ENOENT},
        {"nothing-came", -ENOMSG},     {"no-history", -ENODATA},
        {"too-many-rows", -E2BIG},     {"unreadable", -EIO},
        {"unavailable", -EHOSTDOWN},   {"too-long", -ETIME},
    };

    document_rewind(d);
    while (document_next(d))
        for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
            if (document_is(d, "code") && json_is(&d->r, codes[i].code))
                rc = codes[i].error;
    d->error = 0;
    return rc;
}

int
document_ask(struct document *d)
{
    int rc = d->error;

    if (rc == 0) {
        /* There is room for it. */
        (void)sprintf(d->at, ENDING, d->a->http.authorization);
        rc = http_ask(&d->a->http, d->a->question, &d->answer);
        if (rc < 0 && d->answer.body)
            rc = problem_error(d, rc);
        document_rewind(d);
    }
    note_error(d, rc);
    return rc;
}

/* ---- the document -------------------------------------------------------- */

void
document_rewind(struct document *d)
{
    json_read_init(&d->r, d->answer.body, d->answer.size);
    d->in_rows = false;
    d->row = 0;
    d->rows = d->rows_end = NULL;
}

/* Passes over a list or an object that is not read here. */
static void
skip_value(struct document *d)
{
    const unsigned depth = d->r.depth;

    while (d->r.depth >= depth && json_next(&d->r) != JSON_BAD)
        continue;
}

/* The value behind a name.  False: it is none that is read here. */
static bool
take_member(struct document *d)
{
    d->name = d->r.text;
    d->name_size = d->r.size;
    d->token = json_next(&d->r);
    if (d->token == JSON_ARRAY && d->r.depth == 2 && document_is(d, "rows")) {
        d->in_rows = true;
        d->rows = (const char *)d->r.at;
    } else if (d->token == JSON_ARRAY || d->token == JSON_OBJECT)
        skip_value(d);
    else
        return d->token != JSON_BAD;
    return false;
}

bool
document_next(struct document *d)
{
    for (;;) {
        switch (json_next(&d->r)) {
        case JSON_MEMBER:
            if (d->in_rows && d->row >= document_rows_max(d)) {
                note_error(d, -EPROTO);
                return false;
            }
            if (take_member(d))
                return true;
            break;
        case JSON_OBJECT_END:
            d->row += d->in_rows;
            break;
        case JSON_ARRAY_END:
            d->in_rows = false;
            d->rows_end = (const char *)d->r.at - 1;
            break;
        case JSON_END:
            return false;
        case JSON_BAD:
            note_error(d, -EPROTO);
            return false;
        default:
            break;
        }
    }
}

/* Whether the value is not null: then it is to be a `type`. */
static bool
has_value(struct document *d, enum json_token type)
{
    if (d->token == JSON_NULL)
        return false;
    if (d->token != type)
        note_error(d, -EPROTO);
    return d->token == type;
}

void
document_number(struct document *d, const char *name, int64_t *out)
{
    if (document_is(d, name) && has_value(d, JSON_NUMBER) &&
        increment_number_parse((const char *)d->r.text, d->r.size, out) < 0)
        note_error(d, -EPROTO);
}

static struct countd_sum
sum_of(int128 sum)
{
    return (struct countd_sum){.value = sum > INT64_MAX   ? INT64_MAX
                                        : sum < INT64_MIN ? INT64_MIN
                                                          : (int64_t)sum,
                               .high = (int64_t)(sum >> 64),
                               .low = (uint64_t)sum,
                               .any = 1};
}

void
document_sum(struct document *d, const char *name, struct countd_sum *out)
{
    int128 sum;

    if (!document_is(d, name) || !has_value(d, JSON_NUMBER))
        return;
    if (cell_sum_parse(d->r.text, d->r.size, &sum))
        *out = sum_of(sum);
    else
        note_error(d, -EPROTO);
}

void
document_count(struct document *d, const char *name, int64_t *count,
               struct countd_sum *sum)
{
    document_sum(d, name, sum);
    if (document_is(d, name) && d->token == JSON_NUMBER)
        *count = sum->value;
}

/* Whether the member is the name in hexadecimal digits. */
static bool
is_hex_of(const struct document *d, const char *name)
{
    const size_t size = strlen(name);

    return d->name_size == size + 4 && memcmp(d->name, name, size) == 0 &&
           memcmp(d->name + size, "_hex", 4) == 0;
}

int
document_name(struct document *d, const char *name, uint8_t *to)
{
    const uint8_t *text = d->r.text;
    const size_t size = d->r.size;
    int rc;

    if (document_is(d, name)) {
        if (!has_value(d, JSON_STRING))
            return -ENOENT;
        rc = json_unescape(text, size, to, NAME_MAX_SIZE);
    } else if (is_hex_of(d, name) && d->token == JSON_STRING) {
        rc = size % 2 == 0 && size / 2 <= NAME_MAX_SIZE &&
                     hex_get(text, to, size / 2)
                 ? (int)(size / 2)
                 : -EPROTO;
    } else {
        return -ENOENT;
    }
    if (rc < 0)
        note_error(d, -EPROTO);
    return rc;
}

/* ---- many rows ----------------------------------------------------------- */

#define ROW_MIN    16 /* bytes, of any row; they have at least two members */
#define PLAIN_MAX  (NAME_MAX_SIZE + 128) /* of one that is taken here */
#define DIGITS_MAX 18                    /* below 2^63 whatever they are */

size_t
document_rows_max(const struct document *d)
{
    const size_t rows = d->answer.size / ROW_MIN;

    return rows < COUNTD_ROWS_MAX ? rows : COUNTD_ROWS_MAX;
}

/* Behind the text, which stands at `at`, or NULL. */
static inline const uint8_t *
pass_text(const uint8_t *at, const char *text)
{
    return at && memcmp(at, text, strlen(text)) == 0 ? at + strlen(text) : NULL;
}

static inline const uint8_t *
pass_number(const uint8_t *at, int64_t *out)
{
    bool is_negative;
    size_t n = 0;

    if (!at)
        return NULL;
    is_negative = *at == '-';
    at += is_negative;
    *out = 0;
    for (unsigned digit; n < DIGITS_MAX && (digit = at[n] - 48u) < 10; n++)
        *out = *out * 10 + digit;
    if (is_negative)
        *out = -*out;
    return n > 0 ? at + n : NULL;
}

/* Copies a string without escapes up to its quote; *size is how long it is. */
static inline const uint8_t *
pass_name(const uint8_t *at, uint8_t *to, size_t *size)
{
    for (size_t n = 0; at && n <= NAME_MAX_SIZE; n += 8) {
        const uint64_t word = get_le64(at + n);
        const uint64_t special = json_find_special(word);

        put_le64(to + n, word);
        if (special == 0)
            continue;
        *size = n + (size_t)__builtin_ctzll(special) / 8;
        return *size <= NAME_MAX_SIZE && at[*size] == '"' ? at + *size + 1
                                                          : NULL;
    }
    return NULL;
}

/* Behind the key of a row by count or sum: takes the rows that follow, up to one
 * that has an escape, an extreme count or another form, which document_next()
 * takes.  They go behind rows[d->row], and their keys to *at, each with a NUL. */
static void
take_plain_rows(struct document *d, struct countd_row *rows, uint8_t **at)
{
    const size_t max = document_rows_max(d);
    uint8_t *to = *at;

    while (d->r.end - d->r.at > PLAIN_MAX && d->row + 1 < max) {
        const uint8_t *from = d->r.at;
        const bool has_rank = from[6] == 'r', is_sum = from[6] == 's';
        struct countd_row row = {.key.data = (const char *)to};
        int64_t rank;

        if (has_rank)
            from = pass_number(pass_text(from, "},\n {\"rank\": "), &rank);
        from = has_rank ? pass_text(from, ", \"count\": ")
               : is_sum ? pass_text(from, "},\n {\"sum\": ")
                        : pass_text(from, "},\n {\"count\": ");
        from = pass_number(from, &row.count);
        from = pass_text(from, ", \"key\": \"");
        from = pass_name(from, to, &row.key.size);
        if (!from)
            break;
        row.sum = sum_of(row.count);
        to += row.key.size;
        *to++ = '\0';
        rows[++d->row] = row;
        d->r.at = from;
    }
    *at = to;
}

/* A member of a row. */
static void
take_row_member(struct document *d, struct countd_rows *r, uint8_t **at)
{
    struct countd_row *row = &r->rows[d->row];
    int size;

    if (d->row == r->count) { /* it begins */
        *row = (struct countd_row){.count = -1, .key = countd_name("")};
        r->count++;
    }
    document_count(d, "count", &row->count, &row->sum);
    document_number(d, "keys", &row->count);
    document_number(d, "from", &row->start);
    document_sum(d, "sum", &row->sum);
    document_sum(d, "before", &row->before);
    if (document_is(d, "before")) {
        r->before_known = d->token != JSON_NULL;
        row->before.any = row->before.high != 0 || row->before.low != 0;
    }
    if (d->row == 0)
        document_number(d, "rank", &r->first);
    size = document_name(d, "key", *at);
    if (size < 0)
        size = document_name(d, "keyspace", *at);
    if (size < 0)
        return;
    row->key = countd_bytes(*at, (size_t)size);
    *at += size;
    *(*at)++ = '\0';
    take_plain_rows(d, r->rows, at);
    r->count = d->row + 1;
}

/* The rows of a document in one piece. */
static struct countd_rows *
take_rows(struct document *d)
{
    const size_t rows = document_rows_max(d);
    struct countd_rows *r =
        malloc(sizeof *r + rows * sizeof *r->rows + d->answer.size + 1);
    uint8_t *at;

    if (!r) {
        note_error(d, -ENOMEM);
        return NULL;
    }
    *r = (struct countd_rows){.rows = (struct countd_row *)(r + 1)};
    at = (uint8_t *)(r->rows + rows);
    while (document_next(d))
        if (d->in_rows) {
            take_row_member(d, r, &at);
        } else {
            document_number(d, "as_of_ms", &r->as_of_ms);
            document_number(d, "since", &r->since);
            document_number(d, "from", &r->from);
            document_number(d, "to", &r->to);
        }
    r->count = d->row;
    return r;
}

int
document_rows(struct countd *c, const char *command, unsigned puts,
              const struct countd_query *q, struct countd_rows **out)
{
    const int64_t length =
        q->length > COUNTD_ROWS_MAX ? COUNTD_ROWS_MAX : q->length;
    struct countd_rows *rows = NULL;
    struct document d;
    int rc;

    document_about(c, &d, command, q);
    if (puts & DOCUMENT_RANGE) {
        document_put_number(&d, "offset", q->offset);
        document_put_number(&d, "length", length);
    }
    if (puts & DOCUMENT_N)
        document_put_number(&d, "n", length);
    if (puts & DOCUMENT_PERIOD)
        document_put_period(&d, q);
    if (puts & DOCUMENT_STEP)
        document_put_number(&d, "step", q->step);
    if (puts & DOCUMENT_FROM && q->from >= 0)
        document_put_number(&d, "from", q->from);
    rc = document_ask(&d);
    if (rc == -ENOENT && puts & DOCUMENT_MAY_LACK)
        rc = d.error = 0;
    if (rc == 0)
        rows = take_rows(&d);
    rc = document_end(&d);
    if (rc == 0)
        *out = rows;
    else
        free(rows);
    return rc;
}

int
document_end(struct document *d)
{
    (void)pthread_mutex_unlock(&d->a->http.lock); /* as in document_begin() */
    return d->error;
}

/* common/client/lib/document.h - a question to countd-read, and the JSON
 * document that answers it, member by member.
 *
 *     document_begin(&c->asking, &d, "rank");
 *     document_put_name(&d, "keyspace", name);
 *     if (document_ask(&d) == 0)
 *         while (document_next(&d))
 *             document_number(&d, "rank", &rank);
 *     return document_end(&d);
 *
 * What a member means is countd(7)'s to say, under /v1.  An answer that is not a
 * document, or has another type where one is read, is -EPROTO.
 *
 * Ownership: the handle's, which is locked from begin to end.  Names that are
 * taken are the caller's memory.
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_LIB_DOCUMENT_H
#define COUNTD_COMMON_CLIENT_LIB_DOCUMENT_H

#include <string.h>

#include "common/client/lib/handle.h"
#include "common/wire/json_read.h"

struct document {
    struct handle_asking *a;
    int error; /* of the question, or of the document */
    char *at;  /* where the next parameter goes */

    struct http_answer answer;
    struct json_reader r;
    enum json_token token; /* the value of the member */
    const uint8_t *name;   /* of the member, as it stands */
    size_t name_size;
    bool in_rows;
    size_t row; /* of the member, from 0; then how many there were */
    const char *rows, *rows_end; /* where they stand; NULL: none were read */
};

void document_begin(struct handle_asking *a, struct document *d,
                    const char *command);

/* The same about the names of a question: those that are not empty, and the
 * keyspace unless its data is NULL. */
void document_about(struct countd *c, struct document *d, const char *command,
                    const struct countd_query *q);

void document_put_name(struct document *d, const char *parameter,
                       struct countd_name name);
void document_put_number(struct document *d, const char *parameter,
                         int64_t number);

/* Its time. */
void document_put_period(struct document *d, const struct countd_query *q);

/* Parameters as they stand in a query. */
void document_put_text(struct document *d, const char *parameters);

/* Whether one more name of that size fits. */
bool document_has_room(const struct document *d, size_t size);

/* Asks.
 *   -EINVAL, -ENAMETOOLONG, -E2BIG  no such question
 *   -ENOENT  no such keyspace or key; the document has as_of_ms then, too
 *   -ENODATA  no history;  -ENOMSG  nothing came to the key in that time
 *   -EIO, -EHOSTDOWN, and as http_ask() */
int document_ask(struct document *d);

/* The next member, of the document or of a row.  False: there is none, or the
 * document is bad. */
bool document_next(struct document *d);

/* To the beginning of the answer. */
void document_rewind(struct document *d);

/* Whether the member has this name. */
static inline bool
document_is(const struct document *d, const char *name)
{
    return strlen(name) == d->name_size &&
           memcmp(name, d->name, strlen(name)) == 0;
}

/* Takes the value of the member if it has this name; a null changes nothing. */
void document_number(struct document *d, const char *name, int64_t *out);

void document_sum(struct document *d, const char *name, struct countd_sum *out);

/* The same of a count, of keys together perhaps, and what it is when cut. */
void document_count(struct document *d, const char *name, int64_t *count,
                    struct countd_sum *sum);

/* Takes a name, which with _hex behind its own is in digits, to `to`, which has
 * room for NAME_MAX_SIZE bytes.  Its size; below 0: it is another member, or
 * null.
 */
int document_name(struct document *d, const char *name, uint8_t *to);

/* Rows that an answer of this size has at most; one with more is bad. */
size_t document_rows_max(const struct document *d);

/* The first error of all; unlocks the handle. */
int document_end(struct document *d);

/* Which parameters a question for rows has beside names. */
enum {
    DOCUMENT_RANGE = 1, /* offset and length */
    DOCUMENT_N = 2,
    DOCUMENT_PERIOD = 4,
    DOCUMENT_STEP = 8,
    DOCUMENT_FROM = 16,     /* unless it is below 0 */
    DOCUMENT_MAY_LACK = 32, /* a keyspace that is not there has no rows */
};

/* Asks for rows and takes them. */
int document_rows(struct countd *c, const char *command, unsigned puts,
                  const struct countd_query *q, struct countd_rows **out);

#endif

/* reader/answer.c - see answer.h: answer_query(), answer_bytes(),
 * answer_refuse(), answer_report(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/answer.h"

#include <errno.h>

#include "common/base/diag.h"
#include "common/wire/name.h"

void
answer_report(const uint8_t *keyspace, size_t size, int error)
{
    static struct diag_repeat failures, listing_failures;
    char name[NAME_TEXT_SIZE];

    if (size == 0) {
        diag_repeating(&listing_failures, DIAG_ERROR,
                       "cannot list keyspaces: %s", diag_text(error));
        return;
    }
    (void)name_escape(keyspace, size, name);
    diag_repeating(&failures, DIAG_ERROR, "cannot read keyspace=%s: %s%s", name,
                   diag_text(error),
                   error == -EBADMSG ? "; countd check says where" : "");
}

int
answer_query(struct store *s, struct store_query *q, uint8_t *rows, size_t size)
{
    const int rc = store_read(s, q, rows, size);

    if (rc < 0 && rc != -ENOENT && rc != -EAGAIN)
        answer_report(q->name, q->name_size, rc);
    return rc;
}

enum conn_next
answer_bytes(struct http_call *x, const void *bytes, size_t size)
{
    uint8_t *body = http_body(x, size);

    if (!body)
        return CONN_FULL;
    (void)bytes_append(body, bytes, size);
    return http_end(x, HTTP_OK, size);
}

enum conn_next
answer_refuse(struct http_call *x, enum http_status status, const char *code,
              const char *detail)
{
    const struct http_problem problem = {.code = code, .detail = detail};

    x->headers = status == HTTP_GATEWAY_TIMEOUT || status == HTTP_UNAVAILABLE
                     ? "Retry-After: 1\r\n"
                     : NULL;
    return http_refuse(x, status, &problem);
}

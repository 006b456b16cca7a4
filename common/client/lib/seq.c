/* common/client/lib/seq.c - libcountd: sequence numbers. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/client/lib/handle.h"
#include "common/client/lib/http_client.h"
#include "common/wire/sequence.h"

#define AT_ONCE 4096 /* numbers of a request */
#define LINE    (SEQUENCE_SIZE + 1)

static_assert(sizeof(struct countd_number) == LINE, "a line, with NUL for LF");

static int
take_numbers(const struct http_answer *a, struct countd_number *out,
             size_t count)
{
    struct sequence_parts parts;

    if (a->size != count * LINE)
        return -EPROTO;
    memcpy(out, a->body, a->size);
    for (size_t i = 0; i < count; i++) {
        if (out[i].text[SEQUENCE_SIZE] != '\n' ||
            !sequence_parse(out[i].text, SEQUENCE_SIZE, &parts))
            return -EPROTO;
        out[i].text[SEQUENCE_SIZE] = '\0';
    }
    return 0;
}

static int
fetch_number(struct countd_http *h, struct countd_number *out, size_t count)
{
    char request[HTTP_TOKEN_MAX + 128];
    struct http_answer a;
    int rc;

    (void)snprintf(request, sizeof request,
                   "GET /fetch?n=%zu HTTP/1.1\r\n%s\r\n", count,
                   h->authorization);
    rc = http_ask(h, request, &a); /* numbers that are lost do no harm */
    return rc < 0 ? rc : take_numbers(&a, out, count);
}

PUBLIC int
countd_seq(struct countd_http *h, struct countd_number *out, size_t count)
{
    int rc = 0;

    (void)pthread_mutex_lock(&h->lock);
    while (rc == 0 && count > 0) {
        const size_t some = count < AT_ONCE ? count : AT_ONCE;

        rc = fetch_number(h, out, some);
        out += some;
        count -= some;
    }
    (void)pthread_mutex_unlock(&h->lock);
    return rc;
}

PUBLIC int
countd_seq_explain(const char *text, struct countd_seq_parts *out)
{
    struct sequence_parts p;

    if (!sequence_parse(text, strlen(text), &p))
        return -EINVAL;
    *out =
        (struct countd_seq_parts){p.reserve, p.server_no, p.second, p.serial};
    return 0;
}

/* tests/bench/http_load.c - see http_load.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/http_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

#define REQUEST_MAX 512

struct request {
    char bytes[REQUEST_MAX];
    size_t size;
};

static size_t
put_request(const struct load *l, unsigned conn, uint64_t sent, uint8_t *to)
{
    const struct request *request = l->ctx;

    (void)conn; /* all are alike */
    (void)sent;
    memcpy(to, request->bytes, request->size);
    return request->size;
}

size_t
http_load_take(const struct load *l, const uint8_t *in, size_t have,
               uint64_t *answers)
{
    static const char length[] = "Content-length: ";
    size_t at = 0;

    (void)l; /* all are alike */
    for (;;) {
        const char *head = (const char *)in + at, *value;
        const char *end = memmem(head, have - at, "\r\n\r\n", 4);
        size_t size;

        if (!end)
            return at;
        if (memcmp(head, "HTTP/1.1 200 ", 13) != 0 &&
            memcmp(head, "HTTP/1.1 304 ", 13) != 0)
            fail_msg("an answer that is not a success: %.*s", (int)(end - head),
                     head);
        size = (size_t)(end + 4 - head);
        value = memmem(head, size, length, sizeof length - 1);
        if (value)
            size += strtoul(value + sizeof length - 1, NULL, 10);
        if (have - at < size)
            return at;
        at += size;
        (*answers)++;
    }
}

static void
format_request(const struct http_load *l, uint16_t port, struct request *r)
{
    char length[64] = "";
    int size;

    if (l->body)
        (void)snprintf(length, sizeof length, "Content-Length: %zu\r\n",
                       strlen(l->body));
    size =
        snprintf(r->bytes, sizeof r->bytes,
                 "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s%s%s\r\n%s",
                 l->body ? "POST" : "GET", l->target, port,
                 l->close ? "Connection: close\r\n" : "",
                 l->headers ? l->headers : "", length, l->body ? l->body : "");
    assert_true(size > 0 && (size_t)size < sizeof r->bytes);
    r->size = (size_t)size;
}

void
http_load_run(const struct http_load *l, uint16_t port, struct figures *out)
{
    static struct times times;
    struct request request;
    const struct load load = {.conns = l->conns,
                              .depth = l->depth,
                              .ms = l->ms,
                              .close = l->close,
                              .put = put_request,
                              .take = http_load_take,
                              .request_max = REQUEST_MAX,
                              .ctx = &request};

    format_request(l, port, &request);
    figures_add(out, load_run(&load, port, &times), &times);
}

/* tests/bench/http_load.c - see http_load.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/http_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/client.h"
#include "tests/lib/test.h"

#define REQUEST_MAX 65536
#define KEY         "Idempotency-Key: "

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

static size_t
format_request(const struct http_load *l, uint16_t port, char *to, size_t room)
{
    char length[64] = "";
    int size;

    if (l->body)
        (void)snprintf(length, sizeof length, "Content-Length: %zu\r\n",
                       strlen(l->body));
    size = snprintf(
        to, room, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s%s%s%s\r\n%s",
        l->body ? "POST" : "GET", l->target, port,
        l->close ? "Connection: close\r\n" : "",
        l->keyed ? KEY "00000000000000000000\r\n" : "",
        l->headers ? l->headers : "", length, l->body ? l->body : "");
    assert_in_range(size, 1, room - 1);
    return (size_t)size;
}

void
http_load_send(const struct http_load *l, uint16_t port, int fd)
{
    static char request[REQUEST_MAX];

    client_send(fd, request, format_request(l, port, request, sizeof request));
}

static size_t
put_keyed(const struct load *l, unsigned conn, uint64_t sent, uint8_t *to)
{
    static uint64_t number;
    const size_t size = load_put_same(l, conn, sent, to);
    char digits[21];

    (void)snprintf(digits, sizeof digits, "%020llu",
                   (unsigned long long)++number);
    memcpy((char *)memmem(to, size, KEY, sizeof KEY - 1) + sizeof KEY - 1,
           digits, sizeof digits - 1);
    return size;
}

void
http_load_run(const struct http_load *l, uint16_t port, struct figures *out)
{
    static struct times times;
    static char request[REQUEST_MAX];
    const struct load load = {
        .conns = l->conns,
        .depth = l->depth,
        .ms = l->ms,
        .close = l->close,
        .put = l->keyed ? put_keyed : load_put_same,
        .take = http_load_take,
        .request = request,
        .request_max = format_request(l, port, request, sizeof request)};

    figures_add(out, load_run(&load, port, &times), &times);
}

/* tests/crash/count_fixture.h - clients that count over HTTP, one request after
 * the other.  Each request is of one key of keyspace "http", its number, which no
 * other has, on many lines: its count is how many of these counted. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_CRASH_COUNT_FIXTURE_H
#define COUNTD_TESTS_CRASH_COUNT_FIXTURE_H

#include "tests/lib/test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/fleet.h"

#define LINES_MOST 100

struct sender {
    int fd;      /* -1: its connection broke */
    int request; /* that it waits for; -1: none */
    char heard[1024];
    size_t size;
};

/* Sends request `number`; whether the connection stands shows its answer. */
static inline void
send_lines(struct sender *s, int number, int lines, bool keyed)
{
    char request[320 + LINES_MOST * 24], body[LINES_MOST * 24], key[64] = "";
    size_t size = 0;
    int n;

    s->size = 0;
    for (int i = 0; i < lines; i++)
        size += (size_t)sprintf(body + size, "http\t%d\n", number);
    if (keyed)
        snprintf(key, sizeof key, "Idempotency-Key: request-%d\r\n", number);
    n = snprintf(request, sizeof request,
                 "POST /v1/count HTTP/1.1\r\nHost: localhost\r\n"
                 "Content-Type: text/tab-separated-values\r\n"
                 "%sContent-Length: %zu\r\n\r\n%s",
                 key, size, body);
    (void)client_try_send(s->fd, request, (size_t)n);
}

/* Reads what has come.  1: s->heard is a whole answer, which says that it was
 * counted; 0: not yet; -EPIPE: the connection broke. */
static inline int
hear_answer(struct sender *s)
{
    const long n = client_try_read(s->fd, s->heard + s->size,
                                   sizeof s->heard - 1 - s->size, 0);
    const char *body;

    if (n == -EAGAIN)
        return 0;
    if (n <= 0)
        return -EPIPE;
    s->size += (size_t)n;
    s->heard[s->size] = '\0';
    body = strstr(s->heard, "\r\n\r\n");
    if (body == NULL || strchr(body + 4, '\n') == NULL)
        return 0;
    if (strncmp(s->heard, "HTTP/1.1 200 OK\r\n", 17) != 0)
        fail_msg("request %d: %s", s->request, s->heard);
    return 1;
}

/* What the reader of a fleet has of the first `count` requests; nothing if there
 * is no keyspace yet. */
static inline void
read_counts(struct fleet *f, int64_t *got, int count)
{
    char *line = text;

    memset(got, 0, (size_t)count * sizeof *got);
    if (FLEET_RUN(f, "export", "http") != 0)
        text[0] = '\0';
    for (; *line != '\0'; line = strchr(line, '\n') + 1) {
        long long n;
        int request;

        assert_int_equal(sscanf(line, "http\t%d\t%lld", &request, &n), 2);
        assert_in_range(request, 0, count - 1);
        got[request] = n;
    }
}

#endif

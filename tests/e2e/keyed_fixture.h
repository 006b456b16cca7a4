/* tests/e2e/keyed_fixture.h - requests with an Idempotency-Key to a writer, and
 * what came of them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_E2E_KEYED_FIXTURE_H
#define COUNTD_TESTS_E2E_KEYED_FIXTURE_H

#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/answer.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define MERGE_MS 20000

#define CASE(name, f)                                                          \
    TEST_SERVICE(name, f, "counter.enable=off", "http.listen=127.0.0.1:0")

/* ---- requests ------------------------------------------------------------ */

struct reply {
    int status, counted;
    bool replayed;
    char text[8192]; /* head and body */
};

static inline size_t
format_request(char *to, size_t size, const char *key, const char *body)
{
    return (size_t)snprintf(to, size,
                            "POST /v1/count HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Type: text/tab-separated-values\r\n"
                            "Idempotency-Key: %s\r\n"
                            "Content-Length: %zu\r\n\r\n%s",
                            key, strlen(body), body);
}

static inline struct reply
read_reply(int fd)
{
    struct reply r = {.counted = -1};
    static struct answer a;

    answer_read(fd, &a);
    r.status = a.status;
    r.replayed = strstr(a.head, "\r\nIdempotency-Replayed: true\r\n") != NULL;
    (void)sscanf(a.body, "{\"counted\": %d,", &r.counted);
    (void)snprintf(r.text, sizeof r.text, "%s%.4000s", a.head, a.body);
    return r;
}

static inline struct reply
send_keyed(int fd, const char *key, const char *body)
{
    static char request[65536];

    client_send(fd, request,
                format_request(request, sizeof request, key, body));
    return read_reply(fd);
}

/* Sends it on a connection of its own and expects 200. */
static inline void
expect_counted(struct fleet *f, const char *key, const char *body, int counted,
               bool replayed)
{
    const int fd = fleet_http(f);
    const struct reply r = send_keyed(fd, key, body);

    if (r.status != 200 || r.counted != counted || r.replayed != replayed)
        fail_msg("%s: %s", key, r.text);
    client_close(fd);
}

static inline void
expect_export(struct fleet *f, const char *keyspace, const char *want)
{
    fleet_await_drained(f, MERGE_MS);
    fleet_start(f, FLEET_READ);
    expect(FLEET_RUN(f, "export", keyspace), 0, want);
}

#endif

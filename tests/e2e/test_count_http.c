/* tests/e2e/test_count_http.c - POST /v1/count of the built daemons: what is
 * answered with 200 is counted, all of it and once, through kills; what is not
 * is not counted at all. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/answer.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define MERGE_MS 20000
#define TSV      "text/tab-separated-values"
#define JSON     "application/json"
#define NDJSON   "application/x-ndjson"
#define NAMED    "Host: localhost\r\n"

#define CASE(name, f)                                                          \
    TEST_SERVICE(name, f, "counter.enable=off", "http.listen=127.0.0.1:0")

/* ---- requests ----------------------------------------------------------- */

static void
send_body(int fd, const char *type, const void *body, size_t size)
{
    char head[256];
    const int n = snprintf(head, sizeof head,
                           "POST /v1/count HTTP/1.1\r\nHost: localhost\r\n"
                           "Content-Type: %s\r\nContent-Length: %zu\r\n\r\n",
                           type, size);

    client_send(fd, head, (size_t)n);
    client_send(fd, body, size);
}

/* Counts; the answer's readable_ms. */
static int64_t
count_body(int fd, const char *type, const char *body, int counted)
{
    static struct answer a;
    long long readable;
    int n;

    send_body(fd, type, body, strlen(body));
    answer_read(fd, &a);
    if (a.status != 200)
        fail_msg("%d: %s", a.status, a.body);
    assert_int_equal(sscanf(a.body,
                            "{\"counted\": %d, \"readable_ms\": %lld}\n", &n,
                            &readable),
                     2);
    assert_int_equal(n, counted);
    return readable;
}

/* The next answer has this status, and this in its head or body. */
static void
expect_answer(int fd, int status, const char *has)
{
    static struct answer a;

    answer_read(fd, &a);
    if (a.status != status || (!strstr(a.body, has) && !strstr(a.head, has)))
        fail_msg("%d, not %d with %s: %s%s", a.status, status, has, a.head,
                 a.body);
}

/* Waits until the reader's answers have what was readable at that time. */
static void
expect_count(struct fleet *f, int64_t readable_ms, const char *keyspace,
             const char *key, int64_t want)
{
    const int fd = client_connect(fleet_read_port(f));
    int64_t got = 0;

    client_await_merge(fd, keyspace, readable_ms - 1, MERGE_MS);
    if (!client_get(fd, keyspace, key, &got))
        got = 0;
    if (got != want)
        fail_msg("%s %s: %lld, not %lld", keyspace, key, (long long)got,
                 (long long)want);
    client_close(fd);
}

/* ---- what counts -------------------------------------------------------- */

CASE(each_format_counts_and_is_readable_when_it_says, f)
{
    int64_t ms;
    int fd;

    service_start(f);
    fd = fleet_http(f);
    ms = count_body(fd, JSON, "{\"keyspace\":\"p\",\"key\":\"/a\",\"n\":5}", 1);
    expect_count(f, ms, "p", "/a", 5);
    ms = count_body(fd, JSON "; charset=utf-8",
                    "[{\"keyspace\":\"p\",\"key\":\"/a\"},"
                    "{\"keyspace\":\"p\",\"key\":\"/b\",\"n\":\"-2\"}]",
                    2);
    expect_count(f, ms, "p", "/a", 6);
    expect_count(f, ms, "p", "/b", -2);
    ms = count_body(fd, NDJSON,
                    "{\"keyspace\":\"q\",\"key_hex\":\"ff09\"}\n"
                    "{\"keyspace\":\"q\",\"key\":\"\\\\xff\\\\t\"}\n"
                    "{\"keyspace\":\"q\",\"key\":\"\\u00e9\"}\n",
                    3);
    expect_count(f, ms, "q", "\xff\t", 1);
    expect_count(f, ms, "q", "\\xff\\t", 1);
    expect_count(f, ms, "q", "\xc3\xa9", 1);
    ms = count_body(fd, TSV, "p\t/a\r\n\np\t/b\t2\nq\t\\xff\\t\t9", 3);
    expect_count(f, ms, "p", "/a", 7);
    expect_count(f, ms, "p", "/b", 0);
    expect_count(f, ms, "q", "\xff\t", 10);
    (void)count_body(fd, TSV, "", 0);
    (void)count_body(fd, JSON, "[]", 0);
    client_close(fd);
    fleet_stop_all(f);
    fleet_check(f);
}

/* A request of 4096 lines over the end of a log, and what was answered just
 * before a kill. */
CASE(what_is_answered_is_on_disk_all_of_it_and_once, f)
{
    static char body[65536];
    int64_t ms;
    int fd;

    fleet_option(f, "log.size=3M"); /* 5782 slots */
    fleet_start(f, FLEET_WRITE);
    for (size_t i = 0; i < 4096; i++)
        memcpy(body + 4 * i, i % 2 == 0 ? "k\ta\n" : "k\tb\n", 4);
    body[4 * 4096] = '\0';
    fd = fleet_http(f);
    for (int i = 0; i < 3; i++) {
        (void)count_body(fd, TSV, body, 4096);
        daemon_kill(fleet_daemon(f, FLEET_WRITE));
        client_close(fd);
        fleet_start(f, FLEET_WRITE);
        fd = fleet_http(f);
    }
    fleet_start(f, FLEET_WORKER);
    fleet_start(f, FLEET_READ);
    ms = count_body(fd, TSV, "k\tc\n", 1);
    expect_count(f, ms, "k", "a", 3 * 2048);
    expect_count(f, ms, "k", "b", 3 * 2048);
    client_close(fd);
    fleet_stop_all(f);
    fleet_check(f);
}

/* ---- what does not ------------------------------------------------------ */

/* Requests with what their head has behind the first line, their body, and the
 * answer: its status, code, line, and whether the connection ends. */
static const struct {
    const char *line, *head, *body;
    int status;
    const char *has; /* of the answer */
    bool ends;
} rules[] = {
    {"POST /v1/count", NAMED "Content-Type: " TSV, "p\ta\np\tb\tmany\n", 400,
     "\"code\": \"bad-number\", \"detail\": \"the increment is not a whole "
     "number\", \"line\": 2}\n",
     false},
    {"POST /v1/count", NAMED "Content-Type: " NDJSON,
     "{\"keyspace\":\"p\",\"key\":\"a\"}\n"
     "{\"keyspace\":\"p\",\"key\":\"a\",\"count\":3}\n",
     400,
     "{\"title\": \"Bad Request\", \"status\": 400, \"code\": "
     "\"unknown-member\", \"detail\": \"unknown member \\\"count\\\"; there "
     "are "
     "keyspace, key, n and at\", \"line\": 2}\n",
     false},
    {"POST /v1/count", NAMED "Content-Type: " JSON,
     "{\"keyspace\":\"p\",\"key\":\"a\",\"n\":1.0}", 400,
     "{\"title\": \"Bad Request\", \"status\": 400, \"code\": \"bad-number\", "
     "\"detail\": \"n must be a whole number\", \"line\": 1}\n",
     false},
    {"POST /v1/count", NAMED "Content-Type: " JSON,
     "{\"keyspace\":\"p\",\"key\":\"a\",\"n\":9223372036854775808}", 400,
     "\"detail\": \"n: not a whole number of 64 bits: 9223372036854775808\", "
     "\"line\": 1}\n",
     false},
    {"POST /v1/count", NAMED "Content-Type: " JSON,
     "[{\"keyspace\":\"p\",\"key\":\"a\"},{\"keyspace\":\"p\"}]", 400,
     "\"code\": \"bad-member\", \"detail\": \"key is missing\", "
     "\"line\": 2}\n",
     false},
    {"POST /v1/count?at=yesterday", NAMED "Content-Type: " TSV, "p\ta\n", 400,
     "\"code\": \"bad-time\"", false},
    {"POST /v1/count?at=59", NAMED "Content-Type: " TSV, "p\ta\n", 400,
     "\"code\": \"old\", \"detail\": \"a time before 1970-01-01T00:01Z\"}",
     false},
    {"POST /v1/count?at=2999-01-01", NAMED "Content-Type: " TSV, "p\ta\n", 400,
     "\"code\": \"future\"", false},
    {"POST /v1/count?at=60&at=now", NAMED "Content-Type: " TSV, "p\ta\n", 400,
     "\"code\": \"twice\", \"detail\": \"at is there twice\"", false},
    {"POST /v1/count", NAMED "Content-Type: " JSON,
     "[{\"keyspace\":\"p\",\"key\":\"a\",\"at\":60},"
     "{\"keyspace\":\"p\",\"key\":\"a\",\"at\":\"2999-01-01\"}]",
     400,
     "\"code\": \"future\", \"detail\": \"a time more than a day ahead of "
     "the clock\", \"line\": 2}",
     false},
    {"POST /v1/count?names=bytes", NAMED "Content-Type: " TSV, "p\ta\n", 400,
     "\"code\": \"bad-names\"", false},
    {"POST /v1/count?names=raw&names=text", NAMED "Content-Type: " TSV,
     "p\ta\n", 400, "\"code\": \"twice\"", false},
    {"POST /v1/count?names=raw&x%09=1", NAMED "Content-Type: " TSV, "p\ta\n",
     400, "\"detail\": \"unknown parameter: x\\\\t\"", false},
    {"POST /v1/count?names=text", NAMED "Content-Type: " JSON,
     "{\"keyspace\":\"p\",\"key\":\"C:\\\\u\"}", 400,
     "\"code\": \"bad-escape\"", false},
    {"POST /v1/count", NAMED "Content-Type: " JSON,
     "{\"keyspace\":\"p\",\"key\":null}", 400, "\"code\": \"bad-member\"",
     false},
    {"POST /v1/count", NAMED "Content-Type: application/x-www-form-urlencoded",
     "a=b", 415, "\"code\": \"media-type\"", false},
    {"POST /v1/count", NAMED "Content-Type: text/plain", "p\ta\n", 415,
     "\"code\": \"media-type\"", false},
    {"POST /v1/count", NAMED "X: y", "p\ta\n", 415, "\"code\": \"media-type\"",
     false},
    {"POST /v1/count", NAMED "Content-Type: " TSV "\r\nContent-Encoding: br",
     "p\ta\n", 415, "\"code\": \"encoding\"", false},
    {"POST /v1/count", NAMED "Content-Type: " TSV "\r\nContent-Encoding: gzip",
     "p\ta\n", 400, "\"code\": \"bad-gzip\"", false},
    {"POST /v1/count", NAMED "Content-Type: " TSV, NULL, 411,
     "\"code\": \"length\"", false},
    {"POST /v1/count", "Content-Type: " TSV, "p\ta\n", 400,
     "\"code\": \"bad-request\"", true},
    {"GET /v1/count", NAMED "X: y", NULL, 405, "\"code\": \"method\"", false},
    {"OPTIONS /v1/count", NAMED "X: y", NULL, 405, "\"code\": \"method\"",
     false},
    {"PUT /v1/count", NAMED "Content-Type: " TSV, "p\ta\n", 405,
     "\"code\": \"method\"", false},
    {"GET /v1/top", NAMED "X: y", NULL, 404,
     "no such path here; counting is POST /v1/count, and countd-read "
     "answers at read.http",
     false},
    {"POST /v1/count/", NAMED "Content-Type: " TSV, "p\ta\n", 404,
     "\"code\": \"no-such-path\"", false},
    /* A web page: test_http has all of its headers. */
    {"POST /v1/count",
     NAMED "Origin: http://evil.example\r\nContent-Type: " TSV, "p\ta\n", 403,
     "\"code\": \"foreign-page\"", true},
    {"OPTIONS /v1/count",
     NAMED "Origin: http://a.b\r\nAccess-Control-Request-Method: POST", NULL,
     403, "\"code\": \"foreign-page\"", true},
};

CASE(a_request_that_is_refused_counts_nothing, f)
{
    static struct answer a;
    char head[512];
    int64_t ms;
    int fd, n;

    service_start(f);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        fd = fleet_http(f);
        n = snprintf(head, sizeof head, "%s HTTP/1.1\r\n%s\r\n", rules[i].line,
                     rules[i].head);
        if (rules[i].body)
            n += snprintf(head + n, sizeof head - (size_t)n,
                          "Content-Length: %zu\r\n\r\n%s",
                          strlen(rules[i].body), rules[i].body);
        else
            n += snprintf(head + n, sizeof head - (size_t)n, "\r\n");
        client_send(fd, head, (size_t)n);
        answer_read(fd, &a);
        if (a.status != rules[i].status || !strstr(a.body, rules[i].has))
            fail_msg("%s\n%s: %d, %s", head, rules[i].has, a.status, a.body);
        assert_has(a.head, "Content-Type: application/problem+json\r\n");
        assert_has(a.head, "X-Content-Type-Options: nosniff\r\n");
        assert_has(a.head, "\r\nDate: ");
        assert_int_equal(strstr(a.head, "Allow: POST\r\n") != NULL,
                         a.status == 405);
        if (rules[i].ends)
            client_expect_end(fd);
        else
            (void)count_body(fd, TSV, "good\tafter\n", 1);
        client_close(fd);
    }
    fd = fleet_http(f);
    ms = count_body(fd, TSV, "p\tthe only one\n", 1);
    expect_count(f, ms, "p", "a", 0);
    expect_count(f, ms, "p", "the only one", 1);
    client_close(fd);
    fleet_stop_all(f);
}

CASE(a_body_has_64_kib_and_4096_increments, f)
{
    static char body[70000];
    int fd;

    fleet_start_with(f, FLEET_WRITE, "log.size=3M");
    memset(body, '\n', sizeof body);
    fd = fleet_http(f);
    send_body(fd, TSV, body, 65536);
    expect_answer(fd, 200, "\"counted\": 0");
    for (size_t i = 0; i < 4097; i++)
        memcpy(body + 4 * i, "k\ta\n", 4);
    send_body(fd, TSV, body, 4 * 4097);
    expect_answer(fd, 413, "\"code\": \"too-many\"");
    send_body(fd, TSV, body, 65537);
    expect_answer(fd, 413, "\"code\": \"too-large\"");
    client_close(fd);
    fleet_stop(f, FLEET_WRITE);
}

/* ---- back-pressure ------------------------------------------------------ */

/* Fills the two logs there may be, of 64 KiB and 105 to 119 slots each, so that
 * there is room for some, and not for a hundred. */
static void
fill_logs(int fd)
{
    char body[1024];
    size_t size = 0;

    for (int i = 0; i < 100; i++)
        size += (size_t)sprintf(body + size, "fill\ta\n");
    (void)count_body(fd, TSV, body, 100);
    (void)count_body(fd, TSV, body, 100);
}

CASE(without_a_log_it_is_asked_to_come_again_and_nothing_counts, f)
{
    static struct answer a;
    char body[1024];
    uint64_t began;
    size_t size = 0;
    int fd, other;
    int64_t ms;

    fleet_start_with(f, FLEET_WRITE, "log.count=2", "log.max=2",
                     "log.rotate_after=1h", "log.merge_share=0",
                     "count.wait=3s");
    fd = fleet_http(f);
    fill_logs(fd);
    for (int i = 0; i < 100; i++)
        size += (size_t)sprintf(body + size, "late\ta\n");
    began = clock_ms();
    send_body(fd, TSV, body, size);
    answer_read(fd, &a);
    assert_true(clock_ms() - began >= 2999);
    assert_int_equal(a.status, 503);
    assert_has(a.head, "Retry-After: 1\r\n");
    assert_has(a.body, "\"code\": \"no-log\"");
    /* The connection goes on, and small ones still fit. */
    ms = count_body(fd, TSV, "late\tb\n", 1);
    /* Two that wait get their turn when there is a log again. */
    fleet_stop(f, FLEET_WRITE);
    client_close(fd);
    fleet_start_with(f, FLEET_WORKER, "count.wait=60s",
                     "log.rotate_after=100ms");
    fleet_start(f, FLEET_READ);
    fleet_start(f, FLEET_WRITE);
    fd = fleet_http(f);
    other = fleet_http(f);
    for (int i = 0; i < 3; i++) {
        send_body(fd, TSV, body, size);
        send_body(other, TSV, body, size);
    }
    for (int i = 0; i < 3; i++) {
        expect_answer(fd, 200, "\"counted\": 100");
        expect_answer(other, 200, "\"counted\": 100");
    }
    ms = count_body(fd, TSV, "late\tc\n", 1);
    expect_count(f, ms, "late", "a", 600);
    expect_count(f, ms, "late", "b", 1);
    client_close(fd);
    client_close(other);
    fleet_stop_all(f);
}

CASE(health_is_answered_to_every_client, f)
{
    const char *health = "GET /healthz HTTP/1.1\r\n\r\n",
               *probe = "GET /readyz HTTP/1.1\r\nHost: probe.example.com\r\n"
                        "Origin: http://a.b\r\n\r\n";
    static struct answer a;
    int fd;

    fleet_start_with(f, FLEET_WRITE, "log.count=2", "log.max=2",
                     "log.rotate_after=1h", "log.merge_share=0",
                     "count.wait=3s");
    fd = fleet_http(f);
    client_say(fd, health);
    expect_answer(fd, 200, "ok\n");
    client_say(fd, probe);
    expect_answer(fd, 200, "ok\n");
    fill_logs(fd);
    do {
        send_body(fd, TSV, "fill\ta\n", 7);
        answer_read(fd, &a);
    } while (a.status == 200);
    assert_int_equal(a.status, 503);
    do {
        client_say(fd, probe);
        answer_read(fd, &a);
    } while (a.status == 200);
    assert_int_equal(a.status, 503);
    assert_has(a.body, "no log to write to");
    client_say(fd, health);
    expect_answer(fd, 200, "ok\n");
    client_close(fd);
    fleet_stop(f, FLEET_WRITE);
}

/* ---- clients as they are ------------------------------------------------ */

CASE(curl_counts_each_kind_of_body, f)
{
    char script[2048], output[4096];
    int64_t ms;
    int fd;

    if (access("/usr/bin/curl", X_OK) < 0)
        test_skip("no curl");
    service_start(f);
    (void)snprintf(
        script, sizeof script,
        "set -e; u=http://127.0.0.1:%u/v1/count; t='Content-Type: " TSV "'\n"
        "j='Content-Type: " JSON "'\n"
        "curl -sSf -H \"$j\" -d '{\"keyspace\":\"c\",\"key\":\"a\"}' $u\n"
        "printf 'c\\ta\\t10\\n' | curl -sSf -H \"$t\" --data-binary @- $u\n"
        "printf 'c\\ta\\t100\\n' | gzip | curl -sSf -H \"$t\" -H "
        "'Content-Encoding: gzip' --data-binary @- $u\n"
        "printf 'c\\ta\\t1000\\n' | curl -sSf -X POST -H \"$t\" -T - $u\n"
        "printf 'c\\ta\\t10000\\n' | curl -sSf -H \"$t\" -H "
        "'Expect: 100-continue' --data-binary @- $u\n"
        "curl -sSf --unix-socket %s/socket/http -H \"$j\" -d "
        "'{\"keyspace\":\"c\",\"key\":\"a\",\"n\":100000}' "
        "http://localhost/v1/count\n"
        "curl -sSf -H \"$j\" -d '{\"keyspace\":\"c\",\"key\":null,"
        "\"key_hex\":\"c328\"}' $u\n"
        "! curl -sSf -d a=b $u 2>&1\n",
        fleet_writer_port(f, "http"), f->path);
    expect(daemon_run(output, sizeof output, "/bin/sh", "-c", script), 0, "");
    assert_has(output, "415");
    fd = fleet_http(f);
    ms = count_body(fd, TSV, "c\tb\n", 1);
    expect_count(f, ms, "c", "a", 111111);
    expect_count(f, ms, "c", "\xc3\x28", 1);
    client_close(fd);
    fleet_stop_all(f);
}

/* tests/e2e/test_read_http.c - GET /v1/COMMAND of the built countd-read: the
 * bytes of `countd COMMAND --json`, and what is no question. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/local.h"
#include "tests/lib/answer.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define BODY_MAX 65536

static struct answer got;

static int
set_up_as(void **state, const char *option)
{
    struct fleet *f;

    assert_int_equal(service_setup(state), 0);
    f = *state;
    fleet_options(f, "log.merge_share=0", "counter.enable=off",
                  "read.http=127.0.0.1:0", option, NULL);
    service_start(f);
    service_add(f, "pages", "/index", 27);
    service_add(f, "pages", "/about", 9);
    service_add(f, "pages", "\xffraw \"q\"\t\\", 12);
    service_add(f, "pages", "x", INT64_MAX);
    service_add(f, "pages", "caf\xc3\xa9, 1", -3);
    service_add(f, "z", "..", -2);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    return 0;
}

#define CASE_WITH(name, f, option)                                             \
    static int name##_set_up(void **state)                                     \
    {                                                                          \
        return set_up_as(state, option);                                       \
    }                                                                          \
    TEST_IN(name, struct fleet *f, name##_set_up, service_teardown)

#define CASE(name, f) CASE_WITH(name, f, NULL)

/* There is no place for a third keyspace. */
#define CASE_WITH_TWO(name, f) CASE_WITH(name, f, "keyspace.max=2")

/* The log with the first increments is merged, the next one stays open. */
#define CASE_WITH_ONE_LOG(name, f) CASE_WITH(name, f, "log.rotate_after=1h")

#define CASE_WITH_FEW_PLACES(name, f)                                          \
    CASE_WITH(name, f, "read.max_connections=12")

/* ---- requests ----------------------------------------------------------- */

/* Asks on a connection of its own. */
static void
ask_reader(struct fleet *f, const char *target, const char *more)
{
    const int fd = answer_join(f);

    answer_request(fd, "GET", target, more);
    answer_read(fd, &got);
    client_close(fd);
}

static int
join_from(struct fleet *f, const char *host)
{
    struct net_address a;
    char where[NET_ADDRESS_SIZE];
    int fd;

    snprintf(where, sizeof where, "127.0.0.1:%u",
             (unsigned)daemon_port(fleet_daemon(f, FLEET_READ), "read-http"));
    assert_rc(net_parse(where, &a), 0);
    fd = client_connect_from(host, &a);
    assert_true(fd >= 0);
    return fd;
}

static void
expect_problem(struct fleet *f, const char *target, int status,
               const char *words)
{
    ask_reader(f, target, "");
    if (got.status != status || !strstr(got.body, words) ||
        !strstr(got.head, "application/problem+json"))
        fail_msg("%s: %d %s", target, got.status, got.body);
}

/* The next answer of a connection has these words in its head. */
static void
expect_next(int fd, int status, const char *words)
{
    answer_read(fd, &got);
    if (got.status != status || !strstr(got.head, words))
        fail_msg("%d, not %d with %s:\n%s", got.status, status, words,
                 got.head);
}

/* ---- the same bytes ----------------------------------------------------- */

/* The numbers behind each `member` become 0: those of two moments differ. */
static void
forget_member(char *bytes, const char *member)
{
    char *at = bytes;

    while ((at = strstr(at, member)) != NULL) {
        char *end = at += strlen(member);

        end += strspn(at, "-0123456789");
        *at++ = '0';
        memmove(at, end, strlen(end) + 1);
    }
}

#define MOMENT "\"as_of_ms\": "

static void
expect_same(struct fleet *f, const char *target, const char *const *words)
{
    ask_reader(f, target, "");
    if (got.status != 200)
        fail_msg("%s: %d %s", target, got.status, got.body);
    assert_has(got.head, "Content-Type: application/json\r\n");
    assert_int_equal(fleet_run(f, words), 0);
    forget_member(got.body, MOMENT);
    forget_member(text, MOMENT);
    assert_string_equal(got.body, text);
}

#define SAME(f, target, ...)                                                   \
    expect_same(f, target, (const char *const[]){__VA_ARGS__, "--json", NULL})

CASE(answers_are_the_bytes_of_the_commands, f)
{
    SAME(f, "/v1/get?keyspace=pages&key=/index", "get", "pages", "/index");
    SAME(f, "/v1/get?key=..&keyspace=z", "get", "z", "..");
    SAME(f, "/v1/get?keyspace=pages&key=%ffraw+%22q%22%09%5c", "get", "pages",
         "\\xffraw \"q\"\\t\\\\");
    SAME(f, "/v1/get?keyspace=pages&key=%ffraw+%22q%22%09%5c", "get", "--raw",
         "pages", "\xffraw \"q\"\t\\");
    SAME(f, "/v1/total?keyspace=pages", "total", "pages");
    SAME(f, "/v1/top?keyspace=pages", "top", "pages");
    SAME(f, "/v1/top?keyspace=pages&n=2", "top", "pages", "2");
    SAME(f, "/v1/range?keyspace=pages&offset=1&length=2", "range", "pages", "1",
         "2");
    SAME(f, "/v1/range?keyspace=pages&offset=-2", "range", "pages", "-2", "20");
    SAME(f, "/v1/range?keyspace=pages&offset=-200", "range", "pages", "-200",
         "20");
    SAME(f, "/v1/range?keyspace=pages&offset=99", "range", "pages", "99", "20");
    SAME(f, "/v1/rank?keyspace=pages&key=/about", "rank", "pages", "/about");
    SAME(f, "/v1/around?keyspace=pages&key=/about&n=3", "around", "pages",
         "/about", "3");
    SAME(f, "/v1/keyspaces", "keyspaces");
    SAME(f, "/v1/keys?keyspace=pages", "keys", "pages");
    SAME(f, "/v1/keys?keyspace=pages&prefix=/&n=1", "keys", "pages", "/", "-n",
         "1");
    SAME(f, "/v1/keys?keyspace=pages&after=/index", "keys", "pages",
         "--after=/index");
    SAME(f, "/v1/keys?keyspace=pages&prefix=none", "keys", "pages", "none");
    SAME(f, "/v1/get?keyspace=pages&key=x&key=/no&key=/index", "get", "pages",
         "x", "/no", "/index");
}

/* Usage per customer, by keys CUSTOMER/METRIC. */
CASE(prefixes_and_groups_are_sums_of_keys, f)
{
    service_add(f, "usage", "acme/api_calls", 30);
    service_add(f, "usage", "acme/storage", 12);
    service_add(f, "usage", "acmeology", 5);
    service_add(f, "usage", "globex/api_calls", INT64_MAX);
    service_add(f, "usage", "globex/storage", 8);
    expect_text(FLEET_RUN(f, "flush"), 0, "");

    ask_reader(f, "/v1/total?keyspace=usage&prefix=acme/", "");
    forget_member(got.body, MOMENT);
    assert_string_equal(got.body, "{\"keyspace\": \"usage\", "
                                  "\"prefix\": \"acme/\", \"total\": 42, "
                                  "\"keys\": 2, \"as_of_ms\": 0}\n");
    ask_reader(f, "/v1/top?keyspace=usage&group=/", "");
    forget_member(got.body, MOMENT);
    assert_string_equal(
        got.body,
        "{\"keyspace\": \"usage\", \"group\": \"/\", \"rows\": [\n"
        " {\"rank\": 0, \"count\": 9223372036854775815, \"key\": \"globex/\"},"
        "\n {\"rank\": 1, \"count\": 42, \"key\": \"acme/\"},\n"
        " {\"rank\": 2, \"count\": 5, \"key\": \"acmeology\"}], "
        "\"as_of_ms\": 0}\n");
    ask_reader(f, "/v1/top?keyspace=usage&group=/&from=-1h&n=2&format=tsv", "");
    assert_string_equal(got.body,
                        "0\t9223372036854775815\t0\t9223372036854775815\t"
                        "globex/\n1\t42\t0\t42\tacme/\n");
    ask_reader(f, "/v1/top?keyspace=usage&prefix=acme&n=1&format=tsv", "");
    assert_string_equal(got.body, "0\t30\tacme/api_calls\n");
    ask_reader(f, "/v1/distinct?keyspace=usage&group=/&format=tsv", "");
    assert_string_equal(got.body, "3\t9223372036854775862\n");
    ask_reader(f, "/v1/total?keyspace=usage&prefix=acme/&group=/", "");
    assert_non_null(strstr(got.body, "\"total\": 42, \"groups\": 2, "));
    ask_reader(
        f,
        "/v1/history?keyspace=usage&prefix=acme/&step=1d&from=-1d&format=tsv",
        "");
    assert_non_null(strstr(got.body, "\t42\n"));

    expect_problem(f, "/v1/total?keyspace=no&prefix=a", 404,
                   "no-such-keyspace");
    expect_problem(f, "/v1/top?keyspace=usage&group=//", 400, "\"bad-group\"");
    expect_problem(f, "/v1/history?keyspace=usage&key=a&prefix=a", 400,
                   "\"bad-prefix\"");
}

/* ---- forms --------------------------------------------------------------- */

CASE(rows_are_columns_where_they_are_asked_for, f)
{
    ask_reader(f, "/v1/top?keyspace=pages&n=3&format=csv", "");
    assert_string_equal(got.body, "rank,count,key\r\n"
                                  "0,9223372036854775807,x\r\n"
                                  "1,27,/index\r\n"
                                  "2,12,\"\\xffraw \"\"q\"\"\\t\\\\\"\r\n");
    assert_has(got.head, "text/csv; charset=utf-8; header=");
    ask_reader(f, "/v1/top?keyspace=pages&n=2",
               "Accept: text/tab-separated-values\r\n");
    assert_string_equal(got.body, "0\t9223372036854775807\tx\n1\t27\t/index\n");
    ask_reader(f, "/v1/get?keyspace=pages&key=x&format=tsv", "");
    assert_string_equal(got.body, "9223372036854775807\n");
    ask_reader(f, "/v1/get?keyspace=pages&key=x&numbers=string", "");
    assert_has(got.body, "\"count\": \"9223372036854775807\"");
    ask_reader(f, "/v1/total?keyspace=z", "Accept: image/png\r\n");
    assert_int_equal(got.status, 406);
    ask_reader(f, "/v1/total?keyspace=z", "Accept: application/*;q=0\r\n");
    assert_int_equal(got.status, 406);
    ask_reader(f, "/v1/get?keyspace=pages&key=x",
               "Accept: application/json;q=0.5, TEXT/CSV;q=0.7, */*;q=0.1\r\n");
    assert_has(got.head, "text/csv; charset=utf-8; header=");
    ask_reader(f, "/v1/get?keyspace=pages&key=x",
               "Accept: text/html, */*;q=0.8\r\n");
    assert_has(got.head, "Content-Type: application/json\r\n");
}

CASE(several_keys_are_rows_in_the_order_asked, f)
{
    ask_reader(f, "/v1/get?keyspace=pages&key=/index&key=/no&key=/about", "");
    assert_int_equal(got.status, 200);
    forget_member(got.body, MOMENT);
    assert_string_equal(got.body, "{\"keyspace\": \"pages\", \"rows\": [\n"
                                  " {\"count\": 27, \"key\": \"/index\"},\n"
                                  " {\"count\": null, \"key\": \"/no\"},\n"
                                  " {\"count\": 9, \"key\": \"/about\"}], "
                                  "\"as_of_ms\": 0}\n");
}

/* What the ETag of the last answer has between its quotes. */
static void
put_tag(char *tag, size_t size)
{
    const char *at = strstr(got.head, "ETag: W/\"");

    assert_non_null(at);
    at += strlen("ETag: W/\"");
    (void)snprintf(tag, size, "%.*s", (int)strcspn(at, "\""), at);
}

CASE(an_answer_that_the_client_has_is_not_sent_again, f)
{
    char tag[128], more[256];
    int fd;

    ask_reader(f, "/v1/top?keyspace=pages", "");
    put_tag(tag, sizeof tag);
    /* Weak and strong tags are compared alike. */
    (void)snprintf(more, sizeof more, "If-None-Match: \"x\", \"%s\"\r\n", tag);
    fd = answer_join(f);
    answer_request(fd, "GET", "/v1/total?keyspace=pages", more);
    answer_request(fd, "GET", "/v1/total?keyspace=z", more);
    answer_read_head(fd, &got);
    assert_int_equal(got.status, 304);
    answer_read(fd, &got); /* of another keyspace, right behind that head */
    assert_int_equal(got.status, 200);
    client_close(fd);
    service_add(f, "pages", "/index", 1);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    ask_reader(f, "/v1/total?keyspace=pages", more);
    assert_int_equal(got.status, 200);
}

CASE(long_answers_are_packed_for_who_takes_that, f)
{
    for (int i = 0; i < 300; i++) {
        char key[32];

        (void)snprintf(key, sizeof key, "key number %d", i);
        service_add(f, "many", key, 1000 - i);
    }
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    ask_reader(f, "/v1/top?keyspace=many&n=300",
               "Accept-Encoding: gzip; q=0.0\r\n");
    assert_lacks(got.head, "Content-Encoding");
    assert_true(strlen(got.body) > 8192);
    answer_shell(
        f, "u=\"$U/v1/range?keyspace=many&offset=0&length=300&format=tsv\"; "
           "curl -sSfD /dev/stderr --compressed \"$u\" 2>&1 >/dev/null |"
           " grep -q 'Content-Encoding: gzip' && "
           "test \"$(curl -sSf --compressed \"$u\")\" = "
           "\"$(curl -sSf \"$u\")\"");
}

/* The target of `Link: <...>; rel="next"` of the last answer. */
static bool
find_next(char *target, size_t size)
{
    const char *at = strstr(got.head, "Link: <");

    if (!at)
        return false;
    assert_has(at, ">; rel=\"next\"\r\n");
    (void)snprintf(target, size, "%.*s", (int)strcspn(at + 7, ">"), at + 7);
    return true;
}

/* Follows the links from a page on; all pages joined are the whole answer. */
static void
expect_pages(struct fleet *f, const char *first, const char *whole, int pages)
{
    char target[1024], joined[BODY_MAX] = "";
    int count = 0;

    (void)snprintf(target, sizeof target, "%s", first);
    do {
        ask_reader(f, target, "");
        if (got.status != 200)
            fail_msg("%s: %d %s", target, got.status, got.body);
        strcat(joined, got.body);
        count++;
    } while (find_next(target, sizeof target));
    ask_reader(f, whole, "");
    assert_string_equal(joined, got.body);
    assert_false(find_next(target, sizeof target));
    assert_int_equal(count, pages);
}

CASE(pages_are_linked_until_the_last, f)
{
    expect_pages(f, "/v1/keys?keyspace=pages&n=2&format=tsv",
                 "/v1/keys?keyspace=pages&n=5&format=tsv", 3);
    expect_pages(f, "/v1/keys?keyspace=pages&prefix=/&n=1&format=tsv",
                 "/v1/keys?keyspace=pages&prefix=/&format=tsv", 2);
    expect_pages(f, "/v1/keyspaces?n=1&format=tsv", "/v1/keyspaces?format=tsv",
                 2);
    expect_pages(f, "/v1/keys?names=raw&keyspace=pages&n=1&format=tsv",
                 "/v1/keys?names=raw&keyspace=pages&format=tsv", 5);
    expect_pages(f, "/v1/range?keyspace=pages&offset=0&length=2&format=tsv",
                 "/v1/range?keyspace=pages&offset=0&format=tsv", 3);
    expect_pages(f, "/v1/range?keyspace=pages&offset=-3&length=2&format=tsv",
                 "/v1/range?keyspace=pages&offset=2&format=tsv", 2);
}

/* The names of a list of keyspaces, as text. */
static void
expect_names(struct fleet *f, const char *target, const char *want)
{
    char names[256] = "";
    const char *at;

    ask_reader(f, target, "");
    assert_int_equal(got.status, 200);
    for (at = got.body; (at = strstr(at, "\"keyspace\": \"")) != NULL;) {
        at += strlen("\"keyspace\": \"");
        (void)snprintf(names + strlen(names), sizeof names - strlen(names),
                       "%.*s ", (int)strcspn(at, "\""), at);
    }
    assert_string_equal(names, want);
    assert_lacks(got.head, "Link: ");
}

CASE(keyspaces_are_sorted_by_what_is_asked_for, f)
{
    service_add(f, "a", "one", 5);
    service_add(f, "a", "two", -9);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    expect_names(f, "/v1/keyspaces", "a pages z ");
    expect_names(f, "/v1/keyspaces?sort=name", "a pages z ");
    expect_names(f, "/v1/keyspaces?sort=keys", "pages a z ");
    expect_names(f, "/v1/keyspaces?sort=total", "pages z a ");
    expect_names(f, "/v1/keyspaces?sort=total&n=2", "pages z ");
    ask_reader(f, "/v1/keyspaces?sort=size", "");
    assert_int_equal(got.status, 200);
    expect_problem(f, "/v1/keyspaces?sort=keys&after=a", 400, "\"bad-sort\"");
}

CASE(pages_of_one_version_end_when_the_keyspace_changes, f)
{
    static const struct {
        const char *first, *next;
    } pages[] = {
        {"/v1/keys?keyspace=pages&n=2", "/v1/range?keyspace=pages&offset=1"},
        {"/v1/keys?keyspace=pages&n=2", "/v1/distinct?keyspace=pages"},
        /* The version of a period has its minutes, too. */
        {"/v1/top?keyspace=pages&from=-1h", "/v1/top?keyspace=pages&from=-1h"}};
    char version[64], target[256];

    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        ask_reader(f, pages[i].first, "");
        put_tag(version, sizeof version);
        (void)snprintf(target, sizeof target, "%s&version=%s", pages[i].next,
                       version);
        ask_reader(f, target, "");
        if (got.status != 200)
            fail_msg("%s: %d %s", target, got.status, got.body);
    }
    service_add(f, "pages", "/index", 1);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    expect_problem(f, target, 412, "\"code\": \"changed\"");
    (void)snprintf(target, sizeof target, "/v1/total?keyspace=none&version=%s",
                   version);
    expect_problem(f, target, 404, "\"no-such-keyspace\"");
}

CASE(names_are_bytes_both_ways, f)
{
    ask_reader(f, "/v1/keys?keyspace=pages", "");
    forget_member(got.body, MOMENT);
    assert_string_equal(
        got.body, "{\"keyspace\": \"pages\", \"prefix\": \"\", \"rows\": [\n"
                  " {\"count\": 9, \"key\": \"/about\"},\n"
                  " {\"count\": 27, \"key\": \"/index\"},\n"
                  " {\"count\": -3, \"key\": \"caf\xc3\xa9, 1\"},\n"
                  " {\"count\": 9223372036854775807, \"key\": \"x\"},\n"
                  " {\"count\": 12, \"key\": null, \"key_hex\": "
                  "\"ff72617720227122095c\"}], \"as_of_ms\": 0}\n");
    ask_reader(f,
               "/v1/get?keyspace=pages&key_hex=ff72617720227122095c&format=tsv",
               "");
    assert_string_equal(got.body, "12\n");
    ask_reader(f,
               "/v1/get?names=raw&keyspace=pages&key=%ffraw+%22q%22%09%5c&"
               "format=tsv",
               "");
    assert_string_equal(got.body, "12\n");
    ask_reader(f,
               "/v1/around?names=text&keyspace=pages&n=1&"
               "key=%5cxffraw+%22q%22%5ct%5c%5c",
               "");
    assert_has(got.body, "\"key\": \"\\\\xffraw \\\"q\\\"\\\\t\\\\\\\\\"");
}

/* ---- processes ----------------------------------------------------------- */

CASE(status_has_the_members_of_the_command, f)
{
    char answered[BODY_MAX];

    ask_reader(f, "/v1/status", "");
    assert_int_equal(got.status, 200);
    assert_has(got.head, "Cache-Control: no-store\r\n");
    memcpy(answered, got.body, strlen(got.body) + 1);
    assert_int_equal(FLEET_RUN(f, "status", "--json"), 0);
    forget_member(answered, "\"value\": ");
    forget_member(text, "\"value\": ");
    /* The facts before the rows, such as the number of open logs, may differ.
     */
    assert_has(answered, "\"rows\": [");
    assert_string_equal(strstr(answered, "\"rows\": ["),
                        strstr(text, "\"rows\": ["));
    ask_reader(f, "/v1/status", "Accept-Encoding: gzip\r\n");
    assert_has(got.head, "Content-Encoding: gzip\r\n");
    assert_memory_equal(got.body, "\x1f\x8b", 2);
}

/* Asks both; the two are of two moments, between which a log may be merged or
 * a spare one made. */
static bool
has_same_logs(struct fleet *f)
{
    char answered[BODY_MAX];

    ask_reader(f, "/v1/logs", "");
    assert_int_equal(got.status, 200);
    memcpy(answered, got.body, strlen(got.body) + 1);
    assert_int_equal(FLEET_RUN(f, "log", "list", "--json"), 0);
    forget_member(answered, "\"age_ms\": ");
    forget_member(text, "\"age_ms\": ");
    return strcmp(answered, text) == 0;
}

CASE_WITH_ONE_LOG(logs_are_those_of_the_command, f)
{
    const uint64_t deadline_ms = clock_ms() + 20000;

    service_add(f, "pages", "/index", 1);
    service_add(f, "pages", "/index", 2);
    while (!has_same_logs(f))
        assert_true(clock_ms() < deadline_ms);
    assert_has(got.head, "Cache-Control: no-store\r\n");
    assert_has(got.body, "{\"rows\": [\n {\"log\": \"00000000");
    assert_has(
        text,
        "\"state\": \"open\", \"mode\": \"0600\", \"used\": 2, \"slots\": ");
    expect_problem(f, "/v1/logs?n=1", 400, "\"unknown-parameter\"");
}

CASE_WITH_TWO(held_records_are_those_of_the_command, f)
{
    const uint64_t deadline_ms = clock_ms() + 20000;

    ask_reader(f, "/v1/held", "");
    assert_string_equal(got.body, "{\"rows\": []}\n");
    service_add(f, "one", "key", 1);
    service_add(f, "two", "key", 1);
    (void)FLEET_RUN(f, "flush", "--timeout", "1s");
    do
        ask_reader(f, "/v1/held", "");
    while (!strstr(got.body, "\"two\"") && clock_ms() < deadline_ms);
    assert_int_equal(FLEET_RUN(f, "held", "--json"), 1);
    assert_has(got.body, "\"why\": \"over keyspace.max=2\"");
    *strchr(text, '}') = '\0'; /* what follows says that it is not merged */
    *strchr(got.body, '}') = '\0';
    assert_string_equal(got.body, text);
}

CASE(metrics_are_of_all_processes, f)
{
    static const char *const lines[] = {
        "countd_process_up{process=\"writer\",slot=\"0\"} 1\n",
        "countd_troubles 0\n",
        "countd_increments_total{slot=\"0\"} 6\n",
        "# TYPE countd_log_sync_seconds_total counter\n",
        "countd_logs{state=\"merging\"} ",
        "countd_port_connections{port=\"read-http\",slot=\"",
        "reason=\"malformed\"} 0\n",
        "countd_sequence_numbers_total{slot=\"0\"} 0\n",
        "countd_quota_requests_total{slot=\"0\",result=\"applied\"} 0\n",
        "countd_http_requests_deduplicated_total{slot=\"0\"} 0\n",
        ",code=\"2xx\"} ",
        "countd_as_of_time_seconds{slot=\""};
    const uint64_t deadline_ms = clock_ms() + 20000;
    char *eof;

    do /* the writer tells the board some times a second */
        ask_reader(f, "/metrics", "");
    while (!strstr(got.body, lines[2]) && clock_ms() < deadline_ms);
    assert_int_equal(got.status, 200);
    assert_has(got.head, "text/plain; version=0.0.4");
    assert_lacks(got.body, "# EOF");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!strstr(got.body, lines[i]))
            fail_msg("no %s in:\n%s", lines[i], got.body);
    ask_reader(f, "/metrics",
               "Accept: application/openmetrics-text;version=1.0.0\r\n");
    assert_has(got.head, "application/openmetrics-text");
    assert_has(got.body, "# TYPE countd_log_sync_seconds counter\n"
                         "# UNIT countd_log_sync_seconds seconds\n"
                         "countd_log_sync_seconds_total{");
    eof = strstr(got.body, "# EOF\n");
    assert_non_null(eof);
    assert_string_equal(eof, "# EOF\n");
}

CASE(peer_promtool_finds_nothing_to_say, f)
{
    if (system("command -v promtool >/dev/null 2>&1") != 0)
        test_skip("no promtool");
    answer_shell(f, "curl -sSf $U/metrics | promtool check metrics");
}

/* ---- what is no question ------------------------------------------------- */

/* The host of the target counts, not the one beside it. */
CASE(a_target_may_be_in_absolute_form, f)
{
    static const struct {
        const char *target;
        int status;
    } rows[] = {{"http://LOCALHOST:1/v1/total?keyspace=z", 200},
                {"HTTP://127.0.0.1/metrics", 200},
                {"http:///v1/total?keyspace=z", 404},
                {"http://evil.example/v1/total?keyspace=z", 403}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ask_reader(f, rows[i].target, "");
        if (got.status != rows[i].status)
            fail_msg("%s: %d", rows[i].target, got.status);
    }
}

CASE(any_version_will_do_where_there_is_an_answer, f)
{
    static const char any[] = "If-None-Match: *\r\n";
    static const char *const there[] = {"/v1/total?keyspace=z",
                                        "/v1/top?keyspace=pages&from=-1h", "/"};
    static const char *const missing[] = {"/v1/get?keyspace=z&key=no",
                                          "/v1/total?keyspace=no",
                                          "/v1/history?keyspace=no"};

    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++) {
        const int fd = answer_join(f);

        answer_request(fd, "GET", there[i], any);
        answer_read_head(fd, &got);
        assert_int_equal(got.status, 304);
        client_close(fd);
    }
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        ask_reader(f, missing[i], any);
        assert_int_equal(got.status, 404);
    }
}

CASE(a_problem_has_its_status_and_code, f)
{
    expect_problem(f, "/v1/get?keyspace=pages&key=/no", 404,
                   "\"code\": \"no-such-key\", \"detail\": \"no such key\", "
                   "\"as_of_ms\": ");
    expect_problem(f, "/v1/get?keyspace=no&key=/no", 404, "no-such-keyspace");
    expect_problem(f, "/v1/history?keyspace=no", 404, "no-such-keyspace");
    expect_problem(f, "/v1/rank?keyspace=pages&key=/no&from=-1h", 404,
                   "nothing-came");
    expect_problem(f, "/v1/top?keyspace=pages&nn=5", 400,
                   "\"unknown-parameter\", \"detail\": \"unknown parameter: "
                   "nn\"");
    expect_problem(f, "/v1/history?keyspace=z&step=61s", 400,
                   "\"bad-duration\"");
    expect_problem(f, "/v1/history?keyspace=z&step=1m&from=-30d", 400,
                   "\"too-many-rows\"");
    expect_problem(f, "/v1/keys?keyspace=no", 404, "\"no-such-keyspace\"");
    expect_problem(f, "/v1/distinct?keyspace=no", 404, "no-such-keyspace");
    expect_problem(f, "/v1/now?version=1-2", 400, "\"unknown-parameter\"");
    expect_problem(f, "/v1/nosuch", 404, "no-such-path");
    expect_problem(f, "/metrics?keyspace=z", 400,
                   "\"unknown-parameter\", \"detail\": \"unknown parameter: "
                   "keyspace\"");
    expect_problem(f, "/v1/get?keyspace=z&key=..&as_of=9999999999999&wait=1",
                   504, "\"not-readable-yet\"");
}

CASE(nothing_is_changed_here, f)
{
    const int fd = answer_join(f);

    answer_request(fd, "POST", "/v1/count", "Content-Length: 0\r\n");
    expect_next(fd, 405, "Allow: GET, HEAD\r\n");
    assert_has(got.body, "POST /v1/count at http.listen");
    answer_request(fd, "DELETE", "/v1/top?keyspace=pages", "");
    expect_next(fd, 405, "Allow: ");
    answer_request(fd, "OPTIONS", "/v1/top?keyspace=pages", "");
    expect_next(fd, 200, "Allow: GET, HEAD, OPTIONS\r\n");
    answer_request(fd, "GET", "/readyz", "");
    expect_next(fd, 200, "");
    assert_string_equal(got.body, "ok\n");
    answer_request(fd, "HEAD", "/v1/top?keyspace=pages", "");
    answer_read_head(fd, &got);
    assert_has(got.head, "Content-length: ");
    assert_int_equal(got.status, 200);
    client_close(fd);
}

CASE(only_its_own_pages_may_ask, f)
{
    static const struct {
        const char *more;
        int status;
    } asked[] = {
        {"Origin: http://localhost\r\n", 200},
        {"Origin: http://evil.example\r\n", 403},
        {"Origin: null\r\n", 403},
        {"Referer: http://evil.example/\r\n", 200},
        {"Sec-Fetch-Site: cross-site\r\n", 403},
        {"Sec-Fetch-Site: same-origin\r\n", 200},
        {"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", 403}};

    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        ask_reader(f, "/v1/total?keyspace=z", asked[i].more);
        if (got.status != asked[i].status)
            fail_msg("%s: %d", asked[i].more, got.status);
    }
    ask_reader(f, "/", asked[6].more); /* a link to the page */
    assert_int_equal(got.status, 200);
}

/* The same bytes, first on the unix socket and then at the port. */
CASE(a_socket_asks_for_no_known_host, f)
{
    static const char question[] =
        "GET /v1/now HTTP/1.1\r\nHost: rebound.example\r\n\r\n";

    for (int i = 0; i < 2; i++) {
        const int fd =
            i == 0 ? local_connect(f->path, "read-http") : answer_join(f);

        assert_true(fd >= 0);
        client_send(fd, question, sizeof question - 1);
        answer_read(fd, &got);
        assert_int_equal(got.status, i == 0 ? 200 : 403);
        client_close(fd);
    }
}

/* Neither the port nor the socket of another listener has all places. */
CASE_WITH_FEW_PLACES(idle_connections_of_one_port_leave_places_to_the_others, f)
{
    int fds[24];

    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        assert_true((fds[i] = local_connect(f->path, "read")) >= 0);
    ask_reader(f, "/healthz", "");
    assert_int_equal(got.status, 200);
    ask_reader(f, "/metrics", "");
    assert_int_equal(got.status, 200);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        client_close(fds[i]);
}

/* The status of a question that waits for a second, from an address. */
static int
status_of_wait(struct fleet *f, const char *host)
{
    const int fd = join_from(f, host);

    answer_request(fd, "GET", "/v1/now?as_of=9999999999999&wait=1", "");
    answer_read(fd, &got);
    client_close(fd);
    return got.status;
}

/* One more of a host than may wait, each on a connection of its own; then of
 * another host, and of a third. */
CASE(only_so_many_wait, f)
{
    enum { MANY = 1024 };
    static int fds[MANY];
    const char *question = "/v1/now?as_of=9999999999999&wait=60";

    if (client_descriptors(MANY + 256) < MANY + 256)
        test_skip("fewer than 1280 descriptors allowed");
    for (int i = 0; i < MANY; i++) {
        const char *host = i < MANY / 2 ? "127.0.0.1" : "127.0.0.2";

        fds[i] = join_from(f, host);
        answer_request(fds[i], "GET", question, "");
        if (i % (MANY / 2) < MANY / 2 - 1)
            continue;
        while (status_of_wait(f, host) == 504)
            ; /* until all have arrived */
        assert_int_equal(got.status, 503);
        assert_has(got.head, "Retry-After: 1\r\n");
        assert_has(got.body, "\"too-many-waiting\"");
        assert_int_equal(status_of_wait(f, "127.0.0.3"),
                         i < MANY - 1 ? 504 : 503);
    }
    client_reset(fds[0]);
    while (status_of_wait(f, "127.0.0.1") == 503)
        ;
    assert_int_equal(got.status, 504);
    for (int i = 1; i < MANY; i++)
        client_close(fds[i]);
}

/* Two askers whose answers are made in steps, the first of whom goes away, and
 * pipelined questions of both kinds. */
CASE(answers_in_steps_wait_for_each_other_and_for_nobody_who_has_gone, f)
{
    for (int i = 0; i < 20; i++) {
        const int gone = answer_join(f), fd = answer_join(f);

        answer_request(gone, "GET", "/v1/history?keyspace=pages", "");
        answer_request(fd, "GET", "/v1/keyspaces", "");
        answer_request(fd, "GET", "/v1/total?keyspace=z", "");
        answer_request(fd, "GET", "/v1/top?keyspace=pages&from=-1h", "");
        client_close(gone);
        answer_read(fd, &got);
        assert_has(got.body, "\"file\"");
        answer_read(fd, &got);
        assert_has(got.body, "\"total\": -2");
        answer_read(fd, &got);
        assert_has(got.body, "\"change\"");
        client_close(fd);
    }
}

/* What a cache, a browser and a clock need is in each answer, errors and those
 * without a body included. */
CASE(each_answer_has_a_date_and_is_for_its_own_site, f)
{
    static const struct {
        const char *target, *more;
        int status;
        const char *type;
    } cases[] = {
        {"/v1/total?keyspace=z", "", 200, "application/json\r\n"},
        {"/v1/total?keyspace=no", "", 404, "application/problem+json\r\n"},
        {"/v1/total", "Origin: http://evil\r\n", 403,
         "application/problem+json\r\n"},
        {"/v1/total?keyspace=z", "If-None-Match: *\r\n", 304, NULL},
        {"/", "If-None-Match: *\r\n", 304, NULL},
        {"/nosuch", "", 404, "text/plain; charset=utf-8\r\n"},
        {"/healthz?x", "", 404, "text/plain; charset=utf-8\r\n"},
        {"/metrics", "", 200, "text/plain; version=0.0.4; charset=utf-8\r\n"},
        {"/render?target=no", "", 200, "application/json\r\n"},
        {"/render", "Origin: http://evil\r\n", 403, "application/json\r\n"},
        {"/version", "", 200, "text/plain; charset=utf-8\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int fd = answer_join(f);
        const char *type;

        answer_request(fd, "GET", cases[i].target, cases[i].more);
        answer_read_head(fd, &got);
        type = strstr(got.head, "\r\nContent-Type: ");
        if (got.status != cases[i].status || !strstr(got.head, "\r\nDate: ") ||
            !strstr(got.head,
                    "\r\nCross-Origin-Resource-Policy: same-origin\r\n") ||
            (cases[i].type != NULL) != (type != NULL) ||
            (type &&
             strncmp(type + 16, cases[i].type, strlen(cases[i].type)) != 0) ||
            (type && !strstr(got.head, "\r\nX-Content-Type-Options: nosniff")))
            fail_msg("%s: %s", cases[i].target, got.head);
        if (got.status == 304)
            assert_has(got.head, "\r\nCache-Control: no-cache\r\n");
        client_close(fd);
    }
    ask_reader(f, "/v1/now", "Origin: http://evil\r\n");
    assert_has(got.body, "read.cors");
    ask_reader(f, "/render", "Origin: http://evil\r\n");
    assert_has(got.body, "{\"message\":\"a web page of another");
}

/* A request that waits is answered when the reader stops, and that is why. */
CASE(a_stop_answers_those_who_wait, f)
{
    static const char requests[] =
        "GET /v1/now HTTP/1.1\r\nHost: x\r\n\r\n"
        "GET /v1/now?as_of=9223372036854775807&wait=60 HTTP/1.1\r\n"
        "Host: x\r\n\r\n";
    const int fd = answer_join(f);

    client_send(fd, requests, sizeof requests - 1);
    answer_read(fd, &got); /* the other one waits now */
    assert_int_equal(got.status, 200);
    fleet_stop(f, FLEET_READ);
    answer_read(fd, &got);
    assert_int_equal(got.status, 503);
    assert_has(got.head, "\r\nRetry-After: 1\r\n");
    assert_has(got.body, "\"code\": \"stopping\"");
    client_close(fd);
}

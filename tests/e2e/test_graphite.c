/* tests/e2e/test_graphite.c - what Grafana sends, and what the built
 * countd-read answers.
 *
 * The requests and the shape of answers were recorded from Grafana's two
 * clients and from graphite-web; where that is wrong, the answers are ours. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/base/clock.h"
#include "tests/lib/answer.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

static struct answer got;

/* Four counters. */
static int
set_up_without_limits(void **state)
{
    struct fleet *f;

    assert_int_equal(service_setup_with(state, "counter.enable=off",
                                        "history=1m:60d",
                                        "read.http=127.0.0.1:0", NULL),
                     0);
    f = *state;
    service_start(f);
    service_add(f, "web", "hits.home", 7);
    service_add(f, "web", "hits.about", 14);
    service_add(f, "web", "err", 1);
    service_add(f, "pages", "/index.html", 3);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    return 0;
}

static int
set_up(void **state)
{
    struct fleet *f;

    assert_int_equal(set_up_without_limits(state), 0);
    f = *state;
    fleet_stop(f, FLEET_READ);
    fleet_option(f, "graphite.max_series=5");
    fleet_option(f, "graphite.max_nodes=8");
    fleet_option(f, "graphite.max_points=2000");
    fleet_start(f, FLEET_READ);
    return 0;
}

#define CASE(name, f) TEST_IN(name, struct fleet *f, set_up, service_teardown)
#define CASE_WITHOUT_LIMITS(name, f)                                           \
    TEST_IN(name, struct fleet *f, set_up_without_limits, service_teardown)

/* ---- requests ----------------------------------------------------------- */

/* METHOD TARGET, or FORM behind a blank: "POST /render target=a". */
static void
say_text(int fd, const char *request)
{
    const char *const target = strchr(request, ' ') + 1;
    const char *form = strchr(target, ' ');
    char head[512];
    int size;

    form = form ? form + 1 : target + strlen(target);
    size = snprintf(head, sizeof head,
                    "%.*s HTTP/1.1\r\nHost: x\r\nContent-Type: "
                    "application/x-www-form-urlencoded\r\n"
                    "Content-Length: %zu\r\n\r\n",
                    (int)(*form ? form - 1 - request : form - request), request,
                    strlen(form));
    client_send(fd, head, (size_t)size);
    client_send(fd, form, strlen(form));
}

static void
ask_reader(struct fleet *f, const char *request)
{
    const int fd = answer_join(f);

    say_text(fd, request);
    answer_read(fd, &got);
    client_close(fd);
}

/* Makes of each list of points the sum of the values: when a minute begins is
 * not the test's. */
static void
sum_points(char *body)
{
    static const char member[] = "\"datapoints\":[";
    char *at = body;

    while ((at = strstr(at, member)) != NULL) {
        char *end = at += sizeof member - 1, sum[32];
        double total = 0;

        while (*end == '[' || *end == ',') {
            end += *end == ',' ? 2 : 1;
            total += strncmp(end, "null", 4) == 0 ? 0 : strtod(end, NULL);
            end = strchr(end, ']') + 1;
        }
        (void)snprintf(sum, sizeof sum, "%g", total);
        memmove(at + strlen(sum), end, strlen(end) + 1);
        memcpy(at, sum, strlen(sum));
    }
}

/* ---- as recorded -------------------------------------------------------- */

#define AGO "&from=-5min&until=now&format=json&maxDataPoints=100"
#define SERIES(name, path, sum)                                                \
    "{\"target\":\"" name "\",\"tags\":{\"name\":\"" path                      \
    "\"},\"datapoints\":[" sum "]}"

static const struct {
    const char *request;
    int status;
    const char *body; /* with sums as points; NULL: {"message":"..."} */
} recorded[] = {
    {"GET /version", 200, "1.1.8"},
    {"GET /version/", 200, "1.1.8"},
    {"GET /tags/autoComplete/tags?expr=a%3Db", 200, "[]"},
    {"GET /tags/autoComplete/values?tag=a", 200, "[]"},
    {"GET /tags", 200, "[]"},
    {"GET /events/get_data?from=-1h&until=now", 200, "[]"},
    {"POST /render target=constantLine%28100%29&from=1795301460&"
     "until=1795301760&format=json&maxDataPoints=100",
     200, "[" SERIES("100", "100", "300") "]"},
    {"POST /render target=constantLine%28100%29&until=1795301460&" /* swapped */
     "from=1795301760&format=json&maxDataPoints=100",
     200, "[" SERIES("100", "100", "300") "]"},
    {"POST /render target=constantLine%28100%29&from=now&until=now", 400, NULL},
    {"POST /render/ target=aliasSub%28constantLine%28100%29%2C+%22%28%5E.%2A%24"
     "%29%22%2C+%22%5C1+A%22%29&from=-1h&until=now&format=json&maxDataPoints="
     "300",
     200, "[" SERIES("100 A", "100", "300") "]"},
    {"GET /metrics/find", 400, NULL},
    {"POST /metrics/find?from=1&until=2 query=%2A", 200,
     "[{\"text\":\"pages\",\"id\":\"pages\",\"allowChildren\":1,"
     "\"expandable\":1,\"leaf\":0},{\"text\":\"web\",\"id\":\"web\","
     "\"allowChildren\":1,\"expandable\":1,\"leaf\":0}]"},
    {"GET /metrics/find?query=web.*", 200,
     "[{\"text\":\"err\",\"id\":\"web.err\",\"allowChildren\":0,"
     "\"expandable\":0,\"leaf\":1},{\"text\":\"hits\",\"id\":\"web.hits\","
     "\"allowChildren\":1,\"expandable\":1,\"leaf\":0}]"},
    {"GET /metrics/find?query=web.*&format=completer", 200,
     "{\"metrics\":[{\"path\":\"web.err\",\"name\":\"err\",\"is_leaf\":\"1\"},"
     "{\"path\":\"web.hits.\",\"name\":\"hits\",\"is_leaf\":\"0\"}]}"},
    {"GET /metrics/find?query=web.h&format=completer", 200,
     "{\"metrics\":[{\"path\":\"web.hits.\",\"name\":\"hits\","
     "\"is_leaf\":\"0\"}]}"},
    {"GET /metrics/find?format=completer&query=w..hits.a", 200,
     "{\"metrics\":[{\"path\":\"web.hits.about\",\"name\":\"about\","
     "\"is_leaf\":\"1\"}]}"},
    {"GET /metrics/find?format=completer&query=w...", 400, NULL},
    {"GET /metrics/find?format=completer&query=", 200,
     "{\"metrics\":[{\"path\":\"pages.\",\"name\":\"pages\","
     "\"is_leaf\":\"0\"},{\"path\":\"web.\",\"name\":\"web\","
     "\"is_leaf\":\"0\"}]}"},
    {"GET /metrics/find?query=nosuch.*", 200, "[]"},
    {"GET /metrics/find?query=a..b", 400, NULL},
    {"GET /metrics/expand?query=web.*", 200,
     "{\"results\":[\"web.err\",\"web.hits\"]}"},
    {"GET /metrics/expand?query=web.*&leavesOnly=1", 200,
     "{\"results\":[\"web.err\"]}"},
    {"GET /metrics/expand/?query=web.*.*", 200,
     "{\"results\":[\"web.hits.about\",\"web.hits.home\"]}"},
    {"POST /render target=sumSeries%28web.hits.%2A" AGO, 400, NULL},
    {"POST /render target=nosuch%28web.err%29" AGO, 400,
     "{\"message\":\"unknown function: nosuch\"}"},
    {"POST /render target=web.err&from=yesterday-ish&until=now", 400, NULL},
    {"POST /render target=web.err&from=-1h&until=-1h", 400, NULL},
    {"POST /render target=web.err&from=-1M", 400, NULL},
    {"POST /render tz=Mars%2FOlympus&target=web.err", 400,
     "{\"message\":\"tz: no time zone Mars/Olympus in "
     "/usr/share/zoneinfo\"}"},
    {"GET /render?from=yesterday&until=tomorrow&target=web.err"
     "&maxDataPoints=100&tz=America/New_York",
     200, "[" SERIES("web.err", "web.err", "1") "]"},
    {"POST /render target=web.err&format=png", 400, NULL},
    {"POST /render target=constantLine%281.5%29&from=1795301460&"
     "until=1795301760&format=raw",
     200, "1.5,1795301460,1795301910,150|1.5,1.5,1.5\n"},
    {"POST /render target=constantLine%282%29&from=1795301460&"
     "until=1795301760&format=csv&tz=America/New_York",
     200,
     "2,2026-11-21 17:51:00,2\r\n2,2026-11-21 17:53:30,2\r\n"
     "2,2026-11-21 17:56:00,2\r\n"},
    {"POST /render target=nope.x&format=csv", 200, ""},
    {"POST /render target=nope.x&format=raw", 200, ""},
    {"POST /render target=web.err&maxDataPoints=-1", 400, NULL},
    {"POST /render target=web.err&maxDataPoints=1x", 400, NULL},
    {"POST /render target=web.err&maxDataPoints=.", 400, NULL},
    {"POST /render "
     "from=-5min&target[]=web.err&target%5B%5D=web.err&maxDataPoints=",
     200,
     "[" SERIES("web.err", "web.err", "1") "," SERIES("web.err", "web.err",
                                                      "1") "]"},
    {"POST /render target=%zz", 400, NULL},
    {"POST /render target=nope.x" AGO, 200, "[]"},
    {"POST /render from=-1h&until=now&format=json", 200, "[]"},
    {"POST /render target=sumSeries%28web.hits.%2A%29" AGO, 200,
     "[" SERIES("sumSeries(web.hits.*)", "sumSeries(web.hits.*)", "21") "]"},
    {"POST /render target=alias%28web.err%2C+%27errs%27%29" AGO, 200,
     "[" SERIES("errs", "web.err", "1") "]"},
    {"POST /render target=aliasSub%28sumSeries%28web.hits.%2A%29%2C+%22%28%5E."
     "%2A%24%29%22%2C+%22%5C1+B%22%29" AGO,
     200,
     "[" SERIES("sumSeries(web.hits.*) B", "sumSeries(web.hits.*)", "21") "]"},
    {"POST /render target=summarize%28web.hits.home%2C+%2710min%27%2C+%27sum%27"
     "%2C+false%29&from=-30min&until=now&format=json&maxDataPoints=100",
     200,
     "[" SERIES("summarize(web.hits.home, \\\"10min\\\", \\\"sum\\\")",
                "web.hits.home", "7") "]"},
    {"GET /render?target=topKeys('web',2)" AGO, 200,
     "[" SERIES("web.hits.about", "web.hits.about",
                "14") "," SERIES("web.hits.home", "web.hits.home", "7") "]"},
    {"GET /render?target=web.err&target=pages.*.html&cacheTimeout=60" AGO, 200,
     "[" SERIES("web.err", "web.err", "1") "," SERIES(
         "pages./index.html", "pages./index.html", "3") "]"},
    {"GET /nope", 404, "Not Found"},
    {"GET /render/nope", 404, "Not Found"},
    {"DELETE /render", 405, "Method Not Allowed"}};

CASE(requests_are_answered_as_recorded, f)
{
    for (size_t i = 0; i < sizeof recorded / sizeof recorded[0]; i++) {
        const char *body = recorded[i].body;

        ask_reader(f, recorded[i].request);
        sum_points(got.body);
        if (got.status != recorded[i].status ||
            (body && strcmp(got.body, body) != 0) ||
            (!body && strncmp(got.body, "{\"message\":\"", 12) != 0))
            fail_msg("%s:\n %d %s, not\n %d %s", recorded[i].request,
                     got.status, got.body, recorded[i].status,
                     body ? body : "{\"message\":...}");
        if (recorded[i].status == 400)
            assert_has(got.head, "Content-Type: application/json\r\n");
    }
}

/* A line never has more than it says, whatever a name has. */
CASE(names_in_lines_are_in_text_form, f)
{
    ask_reader(
        f, "POST /render target=alias%28constantLine%281%29,%27=1,%22%0A%27%29"
           "&from=1795301460&until=1795301760&format=csv");
    assert_string_equal(got.body,
                        "\"\\x3d1,\"\"\\n\",2026-11-21 22:51:00,1\r\n"
                        "\"\\x3d1,\"\"\\n\",2026-11-21 22:53:30,1\r\n"
                        "\"\\x3d1,\"\"\\n\",2026-11-21 22:56:00,1\r\n");
    assert_has(got.head, "Content-Type: text/csv; charset=utf-8");
    ask_reader(
        f, "POST /render target=alias%28divideSeries%28web.err,no.x%29,%27a%0A"
           "%27%29&from=1795301460&until=1795301580&format=raw");
    assert_string_equal(got.body, "a\\n,1795301520,1795301640,60|None,None\n");
    assert_has(got.head, "Content-Type: text/plain");
}

CASE(the_functions_are_listed_for_the_editor, f)
{
    ask_reader(f, "GET /functions");
    assert_int_equal(got.status, 200);
    assert_has(got.body, "\"sumSeries\":{");
}

CASE(an_answer_says_of_which_moment_it_is, f)
{
    const int64_t before_ms = (int64_t)clock_unix_ms();
    const char *as_of;

    service_add(f, "web", "err", 1);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    do { /* logs are looked at again and again */
        ask_reader(f, "GET /render?target=web.err" AGO);
        as_of = strstr(got.head, "X-Countd-As-Of: ");
        assert_non_null(as_of);
        assert_true((int64_t)clock_unix_ms() < before_ms + 60000);
    } while (strtoll(as_of + 16, NULL, 10) < before_ms);
    sum_points(got.body);
    assert_string_equal(got.body, "[" SERIES("web.err", "web.err", "2") "]");
}

CASE(a_counter_with_others_below_it_is_listed_as_both, f)
{
    service_add(f, "both", "x", 1);
    service_add(f, "both", "x.y", 2);
    service_add(f, "both.x", "y", 4);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    ask_reader(f, "GET /metrics/find?query=both.*&format=completer");
    assert_string_equal(
        got.body,
        "{\"metrics\":[{\"path\":\"both.x\",\"name\":\"x\",\"is_leaf\":\"1\"},"
        "{\"path\":\"both.x.\",\"name\":\"x\",\"is_leaf\":\"0\"}]}");
    /* Two keyspaces and keys of one path are one series. */
    ask_reader(f, "GET /render?target=both.x.*" AGO);
    sum_points(got.body);
    assert_string_equal(got.body, "[" SERIES("both.x.y", "both.x.y", "6") "]");
}

static size_t
count_points(const char *body)
{
    size_t points = strstr(body, "\"datapoints\":[[") != NULL;

    for (const char *at = body; (at = strstr(at, "],[")) != NULL; at++)
        points++;
    return points;
}

/* As Graphite: decimals are cut off, and no number and 0 are no limit. */
CASE(at_most_so_many_points_as_asked_for, f)
{
    static const struct {
        const char *limit;
        size_t points;
    } rows[] = {
        {"60", 60},  {"59.9", 30}, {"59.", 30}, {"0", 60},
        {"0.5", 60}, {"", 60},     {"1", 1},    {"99999999999999999999", 60}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char request[160];

        (void)snprintf(request, sizeof request,
                       "GET /render?target=web.err&from=1795298400&"
                       "until=1795302000&maxDataPoints=%s",
                       rows[i].limit);
        ask_reader(f, request);
        if (count_points(got.body) != rows[i].points)
            fail_msg("%s: %zu points: %s", rows[i].limit,
                     count_points(got.body), got.body);
    }
}

/* ---- limits ------------------------------------------------------------- */

CASE(more_than_the_settings_allow_is_refused, f)
{
    static const struct {
        const char *request;
        int status;
        const char *words;
    } rows[] = {
        {"GET /render?target=many.*" AGO, 400, "more than 5 series"},
        {"GET /metrics/find?query=many.*", 400, "more than 8 nodes"},
        {"GET /render?target=many.k[0-3]&from=-600min", 400,
         "2400 points, and 2000 are the limit"},
        {"GET /render?target=many.k[0-3]&from=-600min&maxDataPoints=300", 200,
         ""}};

    for (int i = 0; i < 9; i++) {
        char key[8];

        (void)snprintf(key, sizeof key, "k%d", i);
        service_add(f, "many", key, 1);
    }
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ask_reader(f, rows[i].request);
        if (got.status != rows[i].status || !strstr(got.body, rows[i].words))
            fail_msg("%s: %d %s", rows[i].request, got.status, got.body);
    }
}

/* A form of `size` bytes, whose target is at its end. */
static void
send_form(int fd, size_t size)
{
    static const char target[] = "&target=web.err" AGO;
    char head[256];
    char *body = malloc(size);
    const int n = snprintf(head, sizeof head,
                           "POST /render HTTP/1.1\r\nHost: x\r\nContent-Type: "
                           "application/x-www-form-urlencoded; charset=UTF-8"
                           "\r\nContent-Length: %zu\r\n\r\n",
                           size);

    assert_non_null(body);
    memset(body, 'x', size);
    memcpy(body + size - (sizeof target - 1), target, sizeof target - 1);
    client_send(fd, head, (size_t)n);
    (void)client_try_send(fd, body, size); /* it may be refused before */
    free(body);
}

/* What was not read as parameters must not answer an empty graph. */
CASE(a_body_that_is_no_plain_form_is_refused, f)
{
    static const char *const heads[] = {
        "Content-Type: application/json",
        "Content-Type: application/x-www-form-urlencoded\r\n"
        "Content-Encoding: gzip"};
    const int fd = answer_join(f);
    char request[256];

    for (size_t i = 0; i < 2; i++) {
        const int n = snprintf(request, sizeof request,
                               "POST /render HTTP/1.1\r\nHost: x\r\n%s\r\n"
                               "Content-Length: 4\r\n\r\na=b&",
                               heads[i]);

        client_send(fd, request, (size_t)n);
        answer_read(fd, &got);
        assert_int_equal(got.status, 400);
        assert_has(got.body, "without Content-Encoding");
    }
    client_close(fd);
}

CASE(a_form_has_at_most_1_mib, f)
{
    int fd = answer_join(f);

    send_form(fd, 1 << 20);
    answer_read(fd, &got);
    assert_int_equal(got.status, 200);
    sum_points(got.body);
    assert_string_equal(got.body, "[" SERIES("web.err", "web.err", "1") "]");
    say_text(fd, "GET /version"); /* the connection stays */
    answer_read(fd, &got);
    assert_string_equal(got.body, "1.1.8");
    client_close(fd);
    fd = answer_join(f);
    send_form(fd, (1 << 20) + 1);
    answer_read(fd, &got);
    assert_int_equal(got.status, 413);
    assert_string_equal(got.body, "{\"message\":\"a body of more than 1048576 "
                                  "bytes, or 65536 in chunks\"}");
    client_close(fd);
    fd = answer_join(f); /* of other routes 64 KiB as before */
    client_send(fd, "GET /healthz HTTP/1.1\r\nContent-Length: 65537\r\n\r\n",
                49);
    answer_read(fd, &got);
    assert_int_equal(got.status, 413);
    client_close(fd);
    ask_reader(f, "POST /render target=web.err" AGO);
    assert_int_equal(got.status, 200);
}

/* ---- many at a time ----------------------------------------------------- */

CASE(many_clients_get_each_their_own_answer, f)
{
    static const char *const requests[] = {
        "GET /render?target=web.err" AGO, "GET /render?target=pages.*.*" AGO,
        "GET /metrics/expand?query=web.*",
        "POST /render target=sum(web.*.*)" AGO};
    static const char *const words[] = {"\"web.err\"", "\"pages./index.html\"",
                                        "[\"web.err\",\"web.hits\"]",
                                        "\"sumSeries(web.*.*)\""};
    int fds[40];

    for (int i = 0; i < 40; i++) {
        fds[i] = answer_join(f);
        say_text(fds[i], requests[i % 4]);
        say_text(fds[i], requests[(i + 1) % 4]); /* in a pipeline */
    }
    for (int i = 0; i < 40; i += 5) /* some go away */
        client_reset(fds[i]);
    for (int i = 0; i < 40; i++) {
        if (i % 5 == 0)
            continue;
        for (int n = 0; n < 2; n++) {
            answer_read(fds[i], &got);
            assert_int_equal(got.status, 200);
            assert_has(got.body, words[(i + n) % 4]);
        }
        client_close(fds[i]);
    }
}

/* ---- long answers -------------------------------------------------------- */

#define LONG_DAYS   "26"
#define LONG_POINTS (26 * 1440) /* of 15 bytes: above GRAPHITE_STREAM_MIN */

static void
expect_long_answer(void)
{
    assert_int_equal(got.status, 200);
    assert_int_equal(count_points(got.body), LONG_POINTS);
    assert_string_equal(got.body + strlen(got.body) - 4, "]]}]");
    sum_points(got.body);
    assert_string_equal(got.body, "[" SERIES("web.err", "web.err", "1") "]");
}

CASE_WITHOUT_LIMITS(an_expansion_lists_a_leaf_with_nodes_below_it_once, f)
{
    service_add(f, "twice", "a", 1);
    service_add(f, "twice", "a.b", 1);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    ask_reader(f, "GET /metrics/expand?query=twice.*");
    assert_string_equal(got.body, "{\"results\":[\"twice.a\"]}");
}

/* Who does not read one does not keep others from theirs. */
CASE_WITHOUT_LIMITS(a_long_answer_goes_in_pieces, f)
{
    static const char request[] =
        "GET /render?target=web.err&from=-" LONG_DAYS "d";
    int fds[12];

    for (int i = 0; i < 12; i++) {
        fds[i] = answer_join(f);
        say_text(fds[i], request);
        if (i < 3)
            say_text(fds[i], request);
        say_text(fds[i], "GET /version");
    }
    ask_reader(f, "GET /render?target=web.err" AGO);
    assert_int_equal(got.status, 200);
    for (int i = 0; i < 12; i++) {
        if (i % 3 == 1) {
            client_reset(fds[i]);
            continue;
        }
        answer_read(fds[i], &got);
        expect_long_answer();
        answer_read(fds[i], &got);
        if (i < 3) {
            expect_long_answer();
            answer_read(fds[i], &got);
        }
        assert_string_equal(got.body, "1.1.8");
        client_close(fds[i]);
    }
}

/* Inflates the body of the answer. */
static void
unpack_body(size_t size)
{
    static char packed[sizeof got.body];
    z_stream z = {.next_in = (uint8_t *)packed,
                  .avail_in = (uInt)size,
                  .next_out = (uint8_t *)got.body,
                  .avail_out = (uInt)(sizeof got.body - 1)};

    memcpy(packed, got.body, size);
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.avail_in, 0);
    got.body[z.total_out] = '\0';
    assert_int_equal(inflateEnd(&z), Z_OK);
}

CASE_WITHOUT_LIMITS(answers_are_packed_for_clients_that_take_gzip, f)
{
    static const char *const long_ones[] = {"1", LONG_DAYS};
    char request[512];
    int fd = answer_join(f);

    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(request, sizeof request,
                       "GET /render?target=web.err&from=-%sd HTTP/1.1\r\n"
                       "Host: x\r\nAccept-Encoding: gzip\r\n\r\n",
                       long_ones[i]);
        client_send(fd, request, strlen(request));
        answer_read(fd, &got);
        assert_has(got.head, "Content-Encoding: gzip\r\n");
        assert_has(got.head, "Vary: Accept-Encoding\r\n");
        unpack_body(
            strtoul(strstr(got.head, "Content-length: ") + 16, NULL, 10));
        sum_points(got.body);
        assert_string_equal(got.body,
                            "[" SERIES("web.err", "web.err", "1") "]");
    }
    client_send(fd,
                "GET /render?target=web.err&from=-10min HTTP/1.1\r\n"
                "Host: x\r\nAccept-Encoding: gzip\r\n\r\n",
                83);
    answer_read(fd, &got); /* short: as it is */
    assert_lacks(got.head, "Content-Encoding");
    say_text(fd, "GET /render?target=web.err&from=-1d"); /* does not take it */
    answer_read(fd, &got);
    assert_lacks(got.head, "Content-Encoding");
    client_close(fd);
}

/* tests/e2e/test_graphite.c - many connections and long answers for Grafana, of
 * the built countd-read.  graphite.txt has the answers. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <string.h>

#include "tests/lib/answer.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

static struct answer got;

/* Four counters. */
static int
set_up(void **state)
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

#define CASE(name, f) TEST_IN(name, struct fleet *f, set_up, service_teardown)

static void
ask_on(int fd, const char *target)
{
    answer_request(fd, "GET", target);
}

#define AGO "&from=-5min&until=now&format=json&maxDataPoints=100"

CASE(many_clients_get_each_their_own_answer, f)
{
    static const char *const requests[] = {
        "/render?target=web.err" AGO, "/render?target=pages.*.*" AGO,
        "/metrics/expand?query=web.*", "/render?target=sum(web.*.*)" AGO};
    static const char *const words[] = {"\"web.err\"", "\"pages./index.html\"",
                                        "[\"web.err\",\"web.hits\"]",
                                        "\"sumSeries(web.*.*)\""};
    int fds[40];

    for (int i = 0; i < 40; i++) {
        fds[i] = answer_join(f);
        ask_on(fds[i], requests[i % 4]);
        ask_on(fds[i], requests[(i + 1) % 4]); /* in a pipeline */
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
    size_t points = 1, counts = 0;

    assert_int_equal(got.status, 200);
    for (const char *at = got.body; (at = strstr(at, "],[")) != NULL; at++) {
        points++;
        counts += at[3] == '1';
    }
    assert_int_equal(points, LONG_POINTS);
    assert_int_equal(counts, 1);
    assert_string_equal(got.body + strlen(got.body) - 4, "]]}]");
}

/* A client that does not read one does not keep others from theirs. */
CASE(a_long_answer_goes_in_pieces, f)
{
    static const char request[] = "/render?target=web.err&from=-" LONG_DAYS "d";
    int fds[12];

    for (int i = 0; i < 12; i++) {
        fds[i] = answer_join(f);
        ask_on(fds[i], request);
        if (i < 3)
            ask_on(fds[i], request);
        ask_on(fds[i], "/version");
    }
    answer_shell(f, "curl -sSf $U/render?target=web.err");
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

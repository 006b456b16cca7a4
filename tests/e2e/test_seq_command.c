/* tests/e2e/test_seq_command.c - countd seq, and libcountd behind it, against
 * the built daemon. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/client/lib/countd.h"
#include "tests/lib/http_fixture.h"

static int
run(const struct http_fixture *r, const char *argument, const char *option,
    char *text, size_t size)
{
    char where[64];

    (void)snprintf(where, sizeof where, "http.listen=127.0.0.1:%u", r->port);
    return daemon_run(text, size, "countd", "-o", where, "seq", argument,
                      option, NULL);
}

#define CASE(name, r)                                                          \
    TEST_IN(name, struct http_fixture *r, http_fixture_setup,                  \
            http_fixture_teardown)

CASE(it_prints_as_many_as_are_asked_for, r)
{
    static char text[10000 * HTTP_FIXTURE_LINE + 1];
    struct sequence_parts before = {0}, n;

    http_fixture_start(r, NULL, NULL);
    assert_int_equal(run(r, NULL, NULL, text, sizeof text), 0);
    assert_int_equal(strlen(text), HTTP_FIXTURE_LINE);
    assert_int_equal(run(r, "10000", NULL, text, sizeof text), 0);
    assert_int_equal(strlen(text), 10000 * HTTP_FIXTURE_LINE);
    for (size_t i = 0; i < 10000; i++) {
        assert_true(
            sequence_parse(text + i * HTTP_FIXTURE_LINE, SEQUENCE_SIZE, &n));
        assert_int_equal(n.serial, i + 2);
        assert_true(http_order(&before, &n) < 0);
        before = n;
    }
    assert_int_equal(run(r, "2", "--json", text, sizeof text), 0);
    assert_non_null(strstr(text, "\"number\":"));
    http_fixture_stop(r);
}

CASE(it_explains_without_a_server, r)
{
    const char *const env[] = {"TZ=CST-8", NULL};
    const char *const good[] = {"seq", "explain", "aR2011o_cWG00002", NULL};
    const char *const bad[] = {"seq", "explain", "aR2011o_cWG0000", NULL};
    const struct daemon_how how = {.argv = good, .env = env};
    const struct daemon_how no = {.argv = bad, .env = env};
    char text[1024];

    assert_int_equal(daemon_run_how(text, sizeof text, "countd", &how), 0);
    assert_string_equal(text, "reserve: 2  server_no: 1  secondstamp: "
                              "1492962986 (2017-04-23 23:56:26)  serial_no: "
                              "2\n");
    assert_int_equal(daemon_run_how(text, sizeof text, "countd", &no), 1);
}

CASE(what_is_wrong_is_told, r)
{
    char text[4096];

    http_fixture_start(r, NULL, NULL);
    assert_int_equal(run(r, "0", NULL, text, sizeof text), 100);
    assert_int_equal(run(r, "many", NULL, text, sizeof text), 100);
    assert_int_equal(run(r, "explain", NULL, text, sizeof text), 100);
    assert_int_equal(run(r, "1", "2", text, sizeof text), 100);
    http_fixture_stop(r);
    assert_int_equal(run(r, NULL, NULL, text, sizeof text), 111);
    assert_non_null(strstr(text, "does not answer"));
}

CASE(a_handle_outlives_a_restart_of_the_server, r)
{
    struct countd_http_options o = {.size = sizeof o};
    struct countd_seq_parts a, b;
    struct countd_number n[3];
    struct countd_http *h;
    char where[40], again[64];

    http_fixture_start(r, NULL, NULL);
    (void)snprintf(where, sizeof where, "127.0.0.1:%u", r->port);
    (void)snprintf(again, sizeof again, "http.listen=%s", where);
    o.address = where;
    assert_rc(countd_http_open(&h, &o), 0);
    assert_rc(countd_seq(h, n, 3), 0);
    assert_rc(countd_seq_explain(n[2].text, &a), 0);
    assert_int_equal(a.serial, 3);
    assert_int_equal(a.reserve, 2);
    assert_int_equal(a.server_no, 1);
    daemon_kill(&r->writer);
    daemon_fini(&r->writer);
    assert_rc(countd_seq(h, n, 1), -ECONNREFUSED);
    http_fixture_start(r, NULL, again, NULL);
    assert_rc(countd_seq(h, n, 1), 0);
    assert_rc(countd_seq_explain(n[0].text, &b), 0);
    assert_true(b.second > a.second);
    countd_http_close(h);
    assert_rc(countd_seq_explain("aR", &b), -EINVAL);
    http_fixture_stop(r);
}

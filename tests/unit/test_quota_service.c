/* tests/unit/test_quota_service.c - what quotas answer over HTTP, their keys,
 * and the export. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/fault.h"
#include "tests/lib/quota_server.h"

/* ---- answers ----------------------------------------------------- */

#define LONGEST                                                                \
    "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz-is.a_name_of-all-the-64-bytes.z"

static const struct {
    const char *method, *target;
    int status;
    const char *body;
} cases[] = {
    {"GET", "/query", 200, "1000000\n"},
    {"GET", "/apply?amt=1", 200, "1 999999\n"},
    {"POST", "/apply?amt=2&x=y", 200, "2 999997\n"},
    {"POST", "/apply?amt=0", 200, "3 999997\n"},
    {"POST", "/apply?amt=1000000", 200, "0\n"},
    {"POST", "/apply?amt=", 200, "-1\n"},
    {"POST", "/apply?amt=-1", 200, "-1\n"},
    {"POST", "/apply?amt=+1", 200, "-1\n"},
    {"POST", "/apply?amt=1z", 200, "-1\n"},
    {"POST", "/apply?amt=9223372036854775808", 200, "-1\n"},
    {"POST", "/apply?amt=00000000000000000001", 200, "-1\n"},
    {"POST", "/apply?x=1&amt=1", 404, "Not Found"},
    {"POST", "/apply", 404, "Not Found"},
    {"POST", "/cancel?jnlsno=0", 200, "-1\n"},
    {"POST", "/cancel?jnlsno=9", 200, "0\n"},
    {"POST", "/cancel?jnlsno=2", 200, "4 999999\n"},
    {"POST", "/cancel?jnlsno=2", 200, "0\n"},
    {"POST", "/cancel?jnlsno=4", 200, "0\n"},
    {"POST", "/increase?amt=9223372036854775807", 200, "-1\n"},
    {"POST", "/increase?amt=1", 200, "1000000\n"},
    {"POST", "/decrease?amt=999990", 200, "10\n"},
    {"GET", "/query?x", 404, "Not Found"},
    {"DELETE", "/apply?amt=1", 405, "Method Not Allowed"},
    {"POST", "/decrease?amt=11", 200, "0\n"},
    {"POST", "/apply?amt=0", 200, "0\n"},
    {"POST", "/increase?amt=7", 200, "7\n"},
    {"POST", "/empty", 200, "0\n"},
    {"POST", "/quota/tea?limit=5", 201, "5\n"},
    {"POST", "/quota/tea?limit=5", 409, "Conflict"},
    {"POST", "/quota/tea", 400, "Bad Request"},
    {"POST", "/quota/.tea?limit=5", 400, "Bad Request"},
    {"POST", "/quota/?limit=5", 400, "Bad Request"},
    {"POST", "/quota/cup?limit=-5", 400, "Bad Request"},
    {"GET", "/quota/tea", 405, "Method Not Allowed"},
    {"GET", "/quota/tea/query", 200, "5\n"},
    {"POST", "/quota/tea/apply?amt=3", 200, "1 2\n"},
    {"POST", "/quota/tea/apply?amt=3", 200, "0\n"},
    {"POST", "/quota/tea/apply?amt=x", 200, "-1\n"},
    {"POST", "/quota/tea/apply", 404, "Not Found"},
    {"POST", "/quota/tea/apply?x=1&amt=1", 404, "Not Found"},
    {"POST", "/quota/tea/cancel?jnlsno=1", 200, "2 5\n"},
    {"POST", "/quota/tea/increase?amt=5", 200, "10\n"},
    {"POST", "/quota/tea/decrease?amt=1", 200, "9\n"},
    {"DELETE", "/quota/tea/empty", 405, "Method Not Allowed"},
    {"POST", "/quota/tea/brew", 404, "Not Found"},
    {"POST", "/quota/cup/apply?amt=1", 404, "Not Found"},
    {"GET", "/quota/cup/query", 404, "Not Found"},
    {"GET", "/quota", 200, "-\t1000000\t0\ntea\t5\t9\n"},
    {"POST", "/quota/tea/empty", 200, "0\n"},
    {"DELETE", "/quota/tea?limit=5", 404, "Not Found"},
    {"DELETE", "/quota/tea", 200, "0\n"},
    {"DELETE", "/quota/tea", 404, "Not Found"},
    {"GET", "/quota", 200, "-\t1000000\t0\n"},
    {"POST", "/increase?amt=9223372036854775807", 200, "9223372036854775807\n"},
    {"POST", "/cancel?jnlsno=1", 200, "-1\n"},
    {"POST", "/empty", 200, "0\n"},
    /* Made anew it begins anew. */
    {"POST", "/quota/tea?limit=2", 201, "2\n"},
    {"POST", "/quota/tea/apply?amt=2", 200, "1 0\n"},
    {"POST", "/quota/" LONGEST "?limit=3", 201, "3\n"},
    {"POST", "/quota/" LONGEST "x?limit=3", 400, "Bad Request"},
    {"POST", "/quota/bag?limit=4", 201, "4\n"},
};

#define CASE(name, r)                                                          \
    TEST_IN(name, struct quota_server *r, fixture_setup, fixture_teardown)

CASE(every_path_answers_as_documented, r)
{
    fixture_start(r);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        fixture_expect_keyed(r, cases[i].method, cases[i].target, NULL,
                             cases[i].status, cases[i].body);
    fixture_restart(r);
    fixture_expect(r, "/query", 200, "0\n");
    fixture_expect(r, "/cancel?jnlsno=2", 200, "0\n");
    fixture_expect(r, "/cancel?jnlsno=1", 200, "5 1\n");
    fixture_expect_keyed(r, "GET", "/quota/" LONGEST "/query", NULL, 200,
                         "3\n");
    fixture_expect_keyed(r, "GET", "/quota/tea/query", NULL, 200, "0\n");
    fixture_stop(r);
}

CASE(there_are_as_many_quotas_as_allowed_and_all_that_there_were, r)
{
    r->config.quota_max = 2;
    fixture_start(r);
    fixture_expect(r, "/quota/b?limit=1", 201, "1\n");
    fixture_expect(r, "/quota/a?limit=1", 201, "1\n");
    fixture_expect(r, "/quota/c?limit=1", 507, "Insufficient Storage");
    fixture_expect_keyed(r, "DELETE", "/quota/a", NULL, 200, "1\n");
    fixture_expect(r, "/quota/c?limit=1", 201, "1\n");
    r->config.quota_max = 1;
    fixture_restart(r);
    fixture_expect_keyed(r, "GET", "/quota", NULL, 200,
                         "-\t1000000\t1000000\nb\t1\t1\nc\t1\t1\n");
    fixture_expect(r, "/quota/d?limit=1", 507, "Insufficient Storage");
    fixture_stop(r);
}

/* ---- keys -------------------------------------------------------- */

CASE(a_key_repeats_the_first_answer, r)
{
    fixture_start(r);
    for (int i = 0; i < 3; i++) {
        fixture_expect_keyed(r, "POST", "/apply?amt=5", "k1", 200,
                             "1 999995\n");
        fixture_expect_keyed(r, "GET", "/apply?amt=5", "k1", 200, "1 999995\n");
        fixture_expect_keyed(r, "POST", "/apply?amt=6", "k1", 422,
                             "Unprocessable Content");
        fixture_expect_keyed(r, "POST", "/increase?amt=5", "k1", 422,
                             "Unprocessable Content");
        fixture_expect_keyed(r, "POST", "/cancel?jnlsno=1", "k2", 200,
                             "2 1000000\n");
        fixture_expect_keyed(r, "POST", "/apply?amt=5000000", "k3", 200, "0\n");
        fixture_expect_keyed(r, "POST", "/increase?amt=5000000", "k4", 200,
                             "6000000\n");
        fixture_expect_keyed(r, "POST", "/increase?amt=9223372036854775807",
                             "k5", 200, "-1\n");
        fixture_expect_keyed(r, "POST", "/decrease?amt=9000000", "k6", 200,
                             "0\n");
        fixture_expect_keyed(r, "POST", "/empty", "k7", 200, "0\n");
        fixture_expect_keyed(r, "POST", "/quota/tea?limit=7", "k8", 201, "7\n");
        fixture_expect_keyed(r, "POST", "/quota/tea/apply?amt=7", "k9", 200,
                             "1 0\n");
        fixture_expect_keyed(r, "POST", "/quota/cup/apply?amt=7", "k9", 422,
                             "Unprocessable Content");
        fixture_expect(r, "/query", 200, "0\n");
        fixture_restart(r);
    }
    /* A request that was refused unseen does not use its key up. */
    fixture_expect_keyed(r, "POST", "/apply?amt=x", "k10", 200, "-1\n");
    fixture_expect_keyed(r, "POST", "/quota/cup/apply?amt=1", "k10", 404,
                         "Not Found");
    fixture_expect_keyed(r, "POST", "/increase?amt=3", "k10", 200, "3\n");
    fixture_expect_keyed(r, "DELETE", "/quota/tea", "k11", 200, "0\n");
    fixture_expect_keyed(r, "DELETE", "/quota/tea", "k11", 200, "0\n");
    fixture_expect_keyed(r, "DELETE", "/quota/tea", "k12", 404, "Not Found");
    fixture_stop(r);
}

CASE(a_step_of_the_clock_does_not_forget_a_key, r)
{
    fixture_start(r);
    fixture_expect_keyed(r, "POST", "/apply?amt=5", "k", 200, "1 999995\n");
    fault_clock(2 * (int64_t)IDEMPOTENCY_MS);
    fixture_expect_keyed(r, "POST", "/apply?amt=5", "k", 200, "1 999995\n");
    fixture_expect_keyed(r, "POST", "/apply?amt=5", "l", 200, "2 999990\n");
    fault_clock(0);
    fixture_expect_keyed(r, "POST", "/apply?amt=5", "k", 200, "1 999995\n");
    fixture_stop(r);
    fixture_start(r);
    fixture_expect_keyed(r, "POST", "/apply?amt=5", "k", 200, "1 999995\n");
    fixture_expect_keyed(r, "POST", "/apply?amt=5", "l", 200, "2 999990\n");
    fixture_stop(r);
}

CASE(a_repeat_waits_for_the_first, r)
{
    struct quota_peer *a, *b;
    char body[64];

    fixture_start(r);
    a = fixture_join(r, 1);
    b = fixture_join(r, 2);
    fixture_ask(a, "POST", "/apply?amt=5", "k");
    fixture_ask(b, "POST", "/apply?amt=5", "k");
    r->waits = b;
    r->want = 1;
    fixture_run(r, fixture_is_heard);
    /* One of them was first; the other one's answer came with it or after. */
    assert_int_equal(fixture_answer(a, 0, body), 200);
    assert_string_equal(body, "1 999995\n");
    assert_int_equal(fixture_answer(b, 0, body), 200);
    assert_string_equal(body, "1 999995\n");
    fixture_expect(r, "/query", 200, "999995\n");
    fixture_stop(r);
}

CASE(a_bad_key_is_refused, r)
{
    char key[QUOTA_KEY_SIZE + 2];

    fixture_start(r);
    memset(key, 'k', sizeof key);
    key[QUOTA_KEY_SIZE + 1] = '\0';
    fixture_expect_keyed(r, "POST", "/apply?amt=5", key, 400, "Bad Request");
    key[QUOTA_KEY_SIZE] = '\0';
    fixture_expect_keyed(r, "POST", "/apply?amt=5", key, 200, "1 999995\n");
    fixture_stop(r);
}

/* ---- the export -------------------------------------------------- */

static struct {
    char path[600];
    const char *text; /* what is to be in it */
} export;

static bool
is_exported(struct quota_server *r)
{
    char text[256];
    const int fd = open(export.path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    (void)r;
    if (fd >= 0)
        assert_int_equal(close(fd), 0);
    if (n < 0)
        return false;
    text[n] = '\0';
    return strcmp(text, export.text) == 0;
}

static void
await_export(struct quota_server *r, const char *text)
{
    export.text = text;
    fixture_run(r, is_exported);
}

/* Sets quota.export to this file of the directory. */
static void
set_export(struct quota_server *r, const char *name)
{
    (void)snprintf(export.path, sizeof export.path, "%s/%s", r->dir.path, name);
    (void)snprintf(r->config.quota_export, sizeof r->config.quota_export, "%s",
                   export.path);
}

CASE(what_was_applied_is_exported_when_it_runs_out, r)
{
    static const char first[] = "1 1 3\n2 2\n4 999998\n";

    set_export(r, "export");
    tmpdir_put(&r->dir, "export", "of before\n", 10, 0600);
    fixture_start(r);
    await_export(r, ""); /* it was of another journal */
    fixture_expect(r, "/apply?amt=1", 200, "1 999999\n");
    fixture_expect(r, "/apply?amt=2", 200, "2 999997\n");
    fixture_expect(r, "/cancel?jnlsno=1", 200, "3 999998\n");
    assert_true(is_exported(r));
    fixture_expect(r, "/apply?amt=999998", 200, "4 0\n");
    await_export(r, first);
    /* The next one comes a second later, and has all until then. */
    fixture_expect(r, "/cancel?jnlsno=2", 200, "5 2\n");
    fixture_expect(r, "/empty", 200, "0\n");
    fixture_expect(r, "/cancel?jnlsno=4", 200, "6 999998\n");
    fixture_expect(r, "/empty", 200, "0\n");
    assert_true(is_exported(r));
    await_export(r, "1 1 3\n2 2 5\n4 999998 6\n");
    fixture_stop(r);
    assert_int_equal(tmpdir_count(&r->dir, "."), 3); /* with the journal's */
}

CASE(an_export_that_failed_is_written_when_it_can_be, r)
{
    set_export(r, "nowhere/export");
    fixture_start(r);
    fixture_expect(r, "/empty", 200, "0\n");
    fixture_expect(r, "/increase?amt=5", 200, "5\n");
    fixture_expect(r, "/apply?amt=5", 200, "1 0\n");
    assert_int_equal(mkdirat(r->dir.fd, "nowhere", 0700), 0);
    await_export(r, "1 5\n");
    fixture_stop(r);
}

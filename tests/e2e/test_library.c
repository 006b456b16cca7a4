/* tests/e2e/test_library.c - libcountd as its users meet it: waiting for the real
 * daemons, and the transcript library.txt.  Its manual's examples run in
 * test_words.c. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "common/client/lib/countd.h"
#include "tests/lib/service.h"

#define WAIT_MS 20000

static int
setup(void **state)
{
    assert_int_equal(service_setup(state), 0);
    fleet_option(*state, "log.rotate_after=20ms");
    service_start(*state);
    return 0;
}

#define CASE(name, f) TEST_IN(name, struct fleet *f, setup, service_teardown)

static void
open_client(struct fleet *f, struct countd **out)
{
    char write[64], ask[64];
    struct countd_options o = {.size = sizeof o, .write = write, .read = ask};

    snprintf(write, sizeof write, "127.0.0.1:%u", fleet_ack_port(f));
    snprintf(ask, sizeof ask, "127.0.0.1:%u", fleet_ask_port(f));
    assert_rc(countd_open(out, &o), 0);
}

CASE(what_was_waited_for_is_readable, f)
{
    struct countd *c;
    int64_t count;

    open_client(f, &c);
    for (int i = 1; i <= 5; i++) {
        assert_rc(countd_incr(c, countd_name("pages"), countd_name("/a"), 1),
                  0);
        assert_rc(countd_wait_readable(c, countd_name("pages"), WAIT_MS), 0);
        assert_rc(
            countd_get(c, countd_name("pages"), countd_name("/a"), &count), 0);
        assert_int_equal(count, i);
    }
    assert_rc(countd_incr(c, countd_name("other"), countd_name("/b"), 1), 0);
    assert_rc(countd_wait_readable(c, countd_name(""), WAIT_MS), 0);
    assert_rc(countd_get(c, countd_name("other"), countd_name("/b"), &count),
              0);
    assert_int_equal(countd_close(c), 0);
}

CASE(without_a_worker_waiting_ends_at_its_timeout, f)
{
    struct countd *c;

    open_client(f, &c);
    fleet_stop(f, FLEET_WORKER);
    assert_rc(countd_incr(c, countd_name("pages"), countd_name("/a"), 1), 0);
    assert_rc(countd_wait_readable(c, countd_name("pages"), 100), -ETIMEDOUT);
    fleet_start(f, FLEET_WORKER);
    assert_rc(countd_wait_readable(c, countd_name("pages"), WAIT_MS), 0);
    assert_int_equal(countd_close(c), 0);
}

/* ---- quotas -------------------------------------------------------------- */

static int
change_quota(struct countd_http *h, const char *name, enum countd_quota_op op,
             int64_t value, struct countd_quota_answer *a)
{
    const struct countd_quota_request r = {
        .op = op, .value = value, .name = name};

    return countd_quota(h, &r, a);
}

TEST_SERVICE(refusals_of_a_quota_are_told_apart, f, "counter.enable=off",
             "http.listen=127.0.0.1:0", "quota.enable=on", "quota.limit=1000")
{
    struct countd_http_options o = {.size = sizeof o};
    struct countd_quota_request once = {
        .op = COUNTD_QUOTA_APPLY, .value = 1, .key = "k"};
    struct countd_quota_answer a;
    struct countd_http *h;
    char where[64];

    fleet_start(f, FLEET_WRITE);
    (void)snprintf(where, sizeof where, "127.0.0.1:%u",
                   fleet_writer_port(f, "http"));
    o.address = where;
    assert_rc(countd_http_open(&h, &o), 0);
    assert_rc(change_quota(h, NULL, COUNTD_QUOTA_APPLY, 10, &a), 0);
    assert_int_equal(a.number, 1);
    assert_int_equal(a.remaining, 990);
    assert_rc(change_quota(h, NULL, COUNTD_QUOTA_APPLY, 991, &a), -EDQUOT);
    assert_rc(change_quota(h, NULL, COUNTD_QUOTA_CANCEL, 9, &a), -ENOENT);
    assert_rc(change_quota(h, NULL, COUNTD_QUOTA_CANCEL, 0, &a), -ERANGE);
    assert_rc(change_quota(h, "tea", COUNTD_QUOTA_APPLY, 1, &a), -ENODATA);
    assert_rc(change_quota(h, ".", COUNTD_QUOTA_CREATE, 1, &a), -EINVAL);
    assert_rc(change_quota(h, "a b", COUNTD_QUOTA_CREATE, 1, &a), -EINVAL);
    assert_rc(change_quota(h, NULL, COUNTD_QUOTA_REMOVE, 0, &a), -EINVAL);
    assert_rc(countd_quota(h, &once, &a), 0);
    once.value = 2;
    assert_rc(countd_quota(h, &once, &a), -EKEYREJECTED);
    countd_http_close(h);
    fleet_stop(f, FLEET_WRITE);
}

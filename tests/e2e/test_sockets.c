/* tests/e2e/test_sockets.c - the data directory as the address: the handles of
 * libcountd, and the transcript sockets.txt. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/client/lib/countd.h"
#include "tests/lib/daemon.h"
#include "tests/lib/tmpdir.h"

#define WAIT_MS 20000

struct fixture {
    struct tmpdir dir;
    struct daemon serve;
    char data[1024]; /* below folders of 120 letters each */
};

static void
set_up(struct fixture *f)
{
    char part[128];

    tmpdir_make(&f->dir);
    f->serve.output = -1;
    snprintf(f->data, sizeof f->data, "%s", f->dir.path);
    snprintf(part, sizeof part, "/%0120d", 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mkdir(strcat(f->data, part), 0755), 0);
    strcat(f->data, "/store");
}

static void
tear_down(struct fixture *f)
{
    daemon_fini(&f->serve);
    tmpdir_remove(&f->dir);
}

#define CASE(name, f) TEST_WITH(name, struct fixture, f, set_up, tear_down)

/* Every handle of the library; -ENOENT stays what it says of a key. */
CASE(the_library_takes_the_directory_for_the_address, f)
{
    struct countd_options o = {.size = sizeof o, .directory = f->data};
    struct countd_live_options lo = {.size = sizeof lo, .directory = f->data};
    struct countd_http_options ho = {.size = sizeof ho, .directory = f->data};
    const struct countd_quota_request query = {.op = COUNTD_QUOTA_QUERY};
    struct countd_quota_answer answer;
    struct countd_live *live;
    struct countd_http *http;
    struct countd *c;
    int64_t count;

    assert_rc(countd_open(&c, &o), 0);
    assert_rc(countd_get(c, countd_name("k"), countd_name("x"), &count),
              -ECONNREFUSED);
    assert_rc(countd_live_open(&live, &lo), -ECONNREFUSED);
    daemon_start(&f->serve, "countd", "serve", "-d", f->data, "-o",
                 "write.listen=socket", "-o", "write.ack_listen=socket", "-o",
                 "read.listen=socket", "-o", "read.http=socket", "-o",
                 "counter.port=socket", "-o", "http.listen=socket", "-o",
                 "quota.enable=on", "-o", "log.rotate_after=20ms");
    assert_rc(countd_incr(c, countd_name("k"), countd_name("x"), 7), 0);
    assert_rc(countd_wait_readable(c, countd_name("k"), WAIT_MS), 0);
    assert_rc(countd_get(c, countd_name("k"), countd_name("x"), &count), 0);
    assert_int_equal(count, 7);
    assert_rc(countd_get(c, countd_name("k"), countd_name("y"), &count),
              -ENOENT);
    assert_rc(countd_finish(c, WAIT_MS), 0);

    o.silent = 1;
    assert_rc(countd_open(&c, &o), 0);
    assert_rc(countd_incr(c, countd_name("k"), countd_name("x"), 1), 0);
    assert_rc(countd_finish(c, WAIT_MS), 0);

    assert_rc(countd_live_open(&live, &lo), 0);
    assert_rc(countd_acquire(live, countd_name("n"), 1, 1), 0);
    countd_live_close(live);
    assert_rc(countd_http_open(&http, &ho), 0);
    assert_rc(countd_quota(http, &query, &answer), 0);
    countd_http_close(http);

    o.directory = "";
    assert_rc(countd_open(&c, &o), -EINVAL);
}

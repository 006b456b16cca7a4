/* tests/e2e/test_backup.c - what a backup counts and which requests with an
 * Idempotency-Key it knows, whatever is counted, dropped and deleted while it is
 * made. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/e2e/keyed_fixture.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/setup/datadir.h"

static void
open_copy(struct fleet *copy, const char *path)
{
    fleet_init_at(copy, path);
    fleet_start_with(copy, FLEET_WRITE, "counter.enable=off",
                     "http.listen=127.0.0.1:0");
}

/* ---- what is done while one runs ------------------------------------------- */

/* A slow backup of 13 keyspaces, and requests meanwhile. */
struct slow {
    struct fleet *f, copy;
    struct tmpdir other;
    char path[600]; /* of the copy */
    FILE *from;     /* what the command prints */
    char said[4000];
    int requests; /* "during-0", ..., each adds 1 to "k" of "a" and of "z" */
    int replayed; /* by the copy */
};

#define REQUEST "a\tk\nz\tk\n"

/* Daemons that merge all the time, keyspaces "a" to "k", "y" and "z", and a backup of
 * which the first keyspace is copied. */
static void
begin_slow(struct slow *s, struct fleet *f)
{
    const uint64_t until_ms = test_deadline(MERGE_MS);
    char script[2000], program[700], first[700];

    *s = (struct slow){.f = f};
    if (system("strace -V >/dev/null 2>&1") != 0)
        test_skip("needs strace");
    fleet_start_with(f, FLEET_WRITE, "log.rotate_after=20ms");
    fleet_start(f, FLEET_WORKER);
    fleet_start(f, FLEET_WORKER2);
    expect_counted(f, "before", REQUEST "y\tk\ny\told\n", 4, false);
    fleet_await_drained(f, MERGE_MS);
    expect_counted(f, "more",
                   "b\tk\nc\tk\nd\tk\ne\tk\nf\tk\ng\tk\nh\tk\ni\tk\nj\tk\n"
                   "k\tk\nk\tother\ny\tsecond\n",
                   12, false);
    tmpdir_make(&s->other);
    (void)snprintf(s->path, sizeof s->path, "%s/copy", s->other.path);
    daemon_path("countd", program, sizeof program);
    (void)snprintf(script, sizeof script,
                   "ASAN_OPTIONS=detect_leaks=0 exec strace -qq -o /dev/null "
                   "-e inject=fsync:delay_enter=20000 '%s' -d '%s' backup '%s' "
                   "2>&1",
                   program, f->path, s->path);
    s->from = popen(script, "r");
    assert_non_null(s->from);
    (void)snprintf(first, sizeof first, "%s/" DATADIR_PARTIAL "/keyspace/a.mdb",
                   s->path);
    while (access(first, F_OK) < 0) {
        assert_true(clock_ms() < until_ms);
        (void)poll(NULL, 0, 1); /* paces the looking */
    }
}

static void
count_one(struct slow *s)
{
    const int fd = fleet_http(s->f);
    struct reply r;
    char key[24];

    (void)snprintf(key, sizeof key, "during-%d", s->requests++);
    do
        r = send_keyed(fd, key, REQUEST);
    while (r.status == 503); /* workers are behind; nothing was counted */
    if (r.status != 200 || r.counted != 2 || r.replayed)
        fail_msg("%s: %s", key, r.text);
    client_close(fd);
}

/* Counts until the backup ends. */
static void
end_slow(struct slow *s)
{
    struct pollfd end = {.fd = fileno(s->from), .events = POLLIN};
    size_t size;

    while (poll(&end, 1, 0) == 0)
        count_one(s);
    size = fread(s->said, 1, sizeof s->said - 1, s->from);
    s->said[size] = '\0';
    assert_int_equal(pclose(s->from), 0);
    assert_true(s->requests > 10);
}

/* What a worker was still writing to log/kept/ when the backup ended, the next
 * merge removes. */
static void
stop_source(struct slow *s)
{
    expect_counted(s->f, "after", "after\ta\n", 1, false);
    fleet_await_drained(s->f, MERGE_MS);
    fleet_stop_all(s->f);
    assert_false(tmpdir_has(&s->f->dir, "log/kept"));
}

/* Sends all requests to the copy and has it merge. */
static void
send_to_copy(struct slow *s, bool knows)
{
    open_copy(&s->copy, s->path);
    expect_counted(&s->copy, "before", REQUEST "y\tk\ny\told\n", 4, knows);
    for (int i = 0; i < s->requests; i++) {
        const int fd = fleet_http(&s->copy);
        struct reply r;
        char key[24];

        (void)snprintf(key, sizeof key, "during-%d", i);
        r = send_keyed(fd, key, REQUEST);
        assert_int_equal(r.status, 200);
        s->replayed += r.replayed;
        client_close(fd);
    }
    fleet_start(&s->copy, FLEET_WORKER);
    fleet_await_drained(&s->copy, MERGE_MS);
    fleet_start(&s->copy, FLEET_READ);
}

static void
remove_slow(struct slow *s)
{
    fleet_stop_all(&s->copy);
    fleet_check(&s->copy);
    fleet_fini(&s->copy);
    tmpdir_remove(&s->other);
}

/* Each request once in the copy, in each keyspace. */
static void
expect_each_once(struct slow *s)
{
    assert_true(s->replayed > 0);
    assert_int_equal(service_total(&s->copy, "a"), s->requests + 1);
    assert_int_equal(service_count(&s->copy, "z", "k"), s->requests + 1);
}

/* A fill that is merged while keyspaces are copied is in some copies only. */
CASE(a_request_during_a_backup_counts_once_in_the_copy, f)
{
    struct slow s;

    begin_slow(&s, f);
    end_slow(&s);
    stop_source(&s);
    send_to_copy(&s, true);
    expect_each_once(&s);
    remove_slow(&s);
}

/* A key is in the copy as it was before it was deleted, or after. */
CASE(keys_that_are_deleted_during_a_backup_are_whole_in_the_copy_or_gone, f)
{
    struct slow s;
    int64_t count;

    begin_slow(&s, f);
    count_one(&s);
    expect(FLEET_RUN(f, "del", "--purge", "k", "k"), 1,
           "left log/kept: a backup is running, and removes it");
    expect(FLEET_RUN(f, "del", "z", "k"), 0, "deleted keyspace=z keys=1 of 1");
    end_slow(&s);
    expect(FLEET_RUN(f, "del", "--purge", "k", "k"), 0, "left=0");
    stop_source(&s);
    send_to_copy(&s, true);
    assert_true(s.replayed > 0);
    assert_int_equal(service_total(&s.copy, "a"), s.requests + 1);
    count = service_count(&s.copy, "z", "k"); /* two requests came before */
    assert_true(count == s.requests + 1 || count == s.requests - 1);
    count = service_count(&s.copy, "k", "k");
    assert_true(count == 1 || count == INT64_MIN);
    assert_int_equal(service_count(&s.copy, "k", "other"), 1);
    remove_slow(&s);
}

/* So is a keyspace that is dropped, and what waited for it does not come back
 * alone.  As the drop may be in the copy in part, that knows no requests. */
CASE(a_keyspace_that_is_dropped_during_a_backup_does_not_come_back_in_part, f)
{
    struct slow s;
    bool old, second;

    fleet_option(f, "keyspace.max_keys=2");
    begin_slow(&s, f);
    count_one(&s);
    expect(FLEET_RUN(f, "held"), 1, "over keyspace.max_keys=2");
    expect(FLEET_RUN(f, "drop", "y"), 0, "dropped keyspace=y");
    end_slow(&s);
    if (!strstr(s.said, "live/requests is not in the copy"))
        fail_msg("%s", s.said);
    stop_source(&s);
    fleet_init_at(&s.copy, s.path);
    fleet_start(&s.copy, FLEET_WORKER);
    fleet_await_drained(&s.copy, MERGE_MS);
    fleet_start(&s.copy, FLEET_READ);
    old = service_count(&s.copy, "y", "old") == 1;
    second = service_count(&s.copy, "y", "second") == 1;
    assert_true(old || !second);
    fleet_stop_all(&s.copy);
    fleet_fini(&s.copy);
    send_to_copy(&s, false);
    assert_int_equal(s.replayed, 0);
    assert_in_range(service_count(&s.copy, "a", "k"), s.requests + 1,
                    2 * (s.requests + 1));
    remove_slow(&s);
}

/* Neither does what was set aside while the backup ran, and dropped. */
CASE(what_is_held_and_dropped_during_a_backup_is_not_in_the_copy, f)
{
    const uint64_t until_ms = test_deadline(MERGE_MS);
    struct slow s;

    fleet_option(f, "keyspace.max_keys=2");
    begin_slow(&s, f);
    expect_counted(f, "third", "y\tthird\n", 1, false);
    while (FLEET_RUN(f, "held", "--tsv") != 1 || text[0] != '2')
        assert_true(clock_ms() < until_ms);
    expect(FLEET_RUN(f, "held", "drop", "y"), 0, "held=2");
    end_slow(&s);
    stop_source(&s);
    fleet_init_at(&s.copy, s.path);
    fleet_start(&s.copy, FLEET_WORKER);
    fleet_await_drained(&s.copy, MERGE_MS);
    fleet_start(&s.copy, FLEET_READ);
    assert_int_equal(service_total(&s.copy, "y"), 2);
    remove_slow(&s);
}

/* tests/unit/test_quota_disk.c - quotas over a disk that fails: what was
 * answered holds, what was refused does not count, and it goes on by itself. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/lib/capture.h"
#include "tests/lib/fault.h"
#include "tests/lib/file.h"
#include "tests/lib/quota_server.h"

/* ---- a failing disk ---------------------------------------------- */

static long
ask_remaining(struct quota_server *r)
{
    char body[64];

    assert_int_equal(fixture_once(r, "/query", body), 200);
    return strtol(body, NULL, 10);
}

/* Asks while the nth call fails; whatever the answer says must hold, then and
 * after a restart.  False: the fault was not met. */
static bool
ask_with_fault(struct quota_server *r, const char *call, unsigned n, int error,
               bool lasting)
{
    long before, after;
    char body[64];
    bool hit;
    int status;

    fixture_start(r);
    before = ask_remaining(r);
    if (lasting)
        fault_inject_from(call, n, error);
    else
        fault_inject(call, n, error);
    status = fixture_once(r, "/apply?amt=7", body);
    hit = fault_hit();
    fault_clear();
    assert_int_equal(status, r->has_failed ? FIXTURE_CLOSED : 200);
    if (r->has_failed) {
        fixture_restart(r);
        after = ask_remaining(r);
        assert_true(after == before || after == before - 7);
    } else {
        after = ask_remaining(r);
        assert_int_equal(after, before - 7);
    }
    assert_int_equal(fixture_once(r, "/apply?amt=1", body), 200);
    fixture_restart(r);
    assert_int_equal(ask_remaining(r), after - 1);
    fixture_stop(r);
    return hit;
}

#define CASE(name, r)                                                          \
    TEST_IN(name, struct quota_server *r, fixture_setup, fixture_teardown)

CASE(whatever_call_fails_the_answer_is_true, r)
{
    static const char *const calls[] = {"pwrite", "fdatasync", "fsync",
                                        "openat", "pread",     "unlinkat"};
    static const int errors[] = {EIO, ENOSPC};
    unsigned hits = 0;

    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++)
        for (int e = 0; e < 2; e++)
            for (unsigned n = 1; n < 5; n++)
                hits += ask_with_fault(r, calls[c], n, errors[e], false);
    for (int e = 0; e < 2; e++) {
        hits += ask_with_fault(r, "pwrite", 1, errors[e], true);
        hits += ask_with_fault(r, "fdatasync", 1, errors[e], true);
    }
    assert_true(hits >= 6);
}

/* No request that waits behind a sync that failed gets an answer. */
CASE(a_failed_sync_answers_nobody_that_waited, r)
{
    char body[64];

    fixture_start(r);
    fixture_expect(r, "/apply?amt=1", 200, "1 999999\n");
    for (size_t i = 1; i < FIXTURE_PEERS; i++) {
        struct quota_peer *p = fixture_join(r, i);

        for (int k = 0; k < 10; k++)
            fixture_ask(p, "POST", k == 5 ? "/query" : "/apply?amt=1", NULL);
    }
    /* One turn takes all of them: no time passes in it. */
    fault_stop_clock();
    fault_inject("fdatasync", 1, EIO);
    r->waits = &r->peers[1];
    r->want = 1;
    fixture_run(r, fixture_is_heard);
    assert_true(r->has_failed);
    for (size_t i = 1; i < FIXTURE_PEERS; i++)
        assert_int_equal(fixture_answer(&r->peers[i], 0, body), FIXTURE_CLOSED);
    fault_clear();
    fixture_restart(r);
    assert_int_equal(fixture_once(r, "/apply?amt=1", body), 200);
    fixture_stop(r);
}

/* Makes the journal, and leaves it `size` bytes for records. */
static void
shorten_journal(struct quota_server *r, off_t size)
{
    fixture_start(r);
    fixture_stop(r);
    assert_int_equal(truncate(file_path(r->dir.path, JOURNAL_NAME),
                              (off_t)RECORDS_AT + size),
                     0);
}

/* A full disk: what is asked is answered, changes are refused, and all goes on
 * when there is room. */
CASE(a_full_disk_refuses_changes_only, r)
{
    long left = FIXTURE_LIMIT;
    char body[64], key[24];
    int status = 200;

    shorten_journal(r, 90000);
    fault_inject_from("fsync", 3, ENOSPC); /* behind those of the start */
    fixture_start(r);
    assert_true(fault_hit());
    while (status == 200) {
        /* With a key: three records. */
        (void)snprintf(key, sizeof key, "%ld", left);
        status = fixture_once_keyed(r, "POST", "/apply?amt=1", key, body);
        left -= status == 200;
    }
    assert_int_equal(status, 503);
    assert_true(left < FIXTURE_LIMIT - 500);
    fixture_expect(r, "/query", 200,
                   (snprintf(body, sizeof body, "%ld\n", left), body));
    fixture_expect(r, "/apply?amt=1", 503, "Service Unavailable");
    fixture_expect(r, "/apply?amt=x", 200, "-1\n");
    assert_true(r->service.stats.failures > 0);
    assert_false(r->has_failed);
    fault_clear();
    r->service.retry_ms = 0; /* a second later */
    assert_int_equal(fixture_once(r, "/apply?amt=1", body), 200);
    assert_int_equal(ask_remaining(r), left - 1);
    assert_int_equal(r->service.journal.head.generation, 1);
    fixture_restart(r);
    assert_int_equal(ask_remaining(r), left - 1);
    fixture_stop(r);
}

static bool
has_exported(struct quota_server *r)
{
    return !r->service.wants_export;
}

/* The group that the export comes with uses nearly all of it up. */
CASE(a_checkpoint_that_was_not_due_yet_has_not_failed, r)
{
    shorten_journal(r, (2 * JOURNAL_GROUP + 1) * JOURNAL_RECORD_SIZE);
    (void)snprintf(r->config.quota_export, sizeof r->config.quota_export, "%s",
                   file_path(r->dir.path, "export"));
    fixture_start(r);
    fixture_run(r, has_exported);
    r->service.retry_ms = 0; /* a second after the export of the start */
    fixture_expect(r, "/empty", 200, "0\n");
    assert_int_equal(r->service.stats.failures, 0);
    fixture_stop(r);
}

/* A journal of an earlier version has fewer zeros. */
CASE(a_short_journal_is_replaced_at_the_start, r)
{
    shorten_journal(r, 300000);
    fixture_start(r);
    assert_int_equal(r->service.journal.head.generation, 1);
    fixture_expect(r, "/apply?amt=1", 200, "1 999999\n");
    fixture_restart(r);
    fixture_expect(r, "/query", 200, "999999\n");
    fixture_stop(r);
}

/* ---- an older copy ------------------------------------------------------ */

/* What a start says. */
static const char *
start_and_hear(struct quota_server *r)
{
    static struct capture c;

    capture_start(&c);
    fixture_start(r);
    return capture_stop(&c);
}

CASE(an_older_copy_of_the_journal_is_reported, r)
{
    static uint8_t bytes[1 << 24];
    size_t size;

    fixture_start(r);
    fixture_expect(r, "/apply?amt=1", 200, "1 999999\n");
    fixture_stop(r);
    size = file_read(file_path(r->dir.path, JOURNAL_NAME), bytes, sizeof bytes);
    assert_string_equal(start_and_hear(r), "");
    fixture_expect(r, "/apply?amt=1", 200, "2 999998\n");
    fixture_stop(r);

    file_put(file_path(r->dir.path, JOURNAL_NAME), bytes, size);
    assert_has(start_and_hear(r), "or is an older copy");
    fixture_expect(r, "/apply?amt=1", 503, "Service Unavailable");
    fixture_expect_keyed(r, "GET", "/quota", NULL, 503, "Service Unavailable");
    fixture_stop(r);
    assert_int_equal(unlinkat(r->dir.fd, JOURNAL_NOTE_NAME, 0), 0);
    assert_string_equal(start_and_hear(r), "");
    fixture_expect(r, "/apply?amt=1", 200, "2 999998\n");
    fixture_stop(r);
}

CASE(a_journal_that_is_gone_is_not_begun_anew, r)
{
    fixture_start(r);
    fixture_expect(r, "/apply?amt=1", 200, "1 999999\n");
    fixture_stop(r);
    assert_int_equal(unlinkat(r->dir.fd, JOURNAL_NAME, 0), 0);
    assert_has(start_and_hear(r), "does not exist");
    fixture_expect(r, "/apply?amt=1", 503, "Service Unavailable");
    fixture_stop(r);
    assert_int_equal(unlinkat(r->dir.fd, JOURNAL_NOTE_NAME, 0), 0);
    assert_string_equal(start_and_hear(r), "");
    fixture_expect(r, "/apply?amt=1", 200, "1 999999\n");
    fixture_stop(r);
}

/* Quotas are served without an intact note. */
CASE(a_damaged_note_is_reported_and_made_anew, r)
{
    fixture_start(r);
    fixture_stop(r);
    for (off_t at = 0; at < JOURNAL_NOTE_SIZE; at += 5) {
        file_flip(file_path(r->dir.path, JOURNAL_NOTE_NAME), at,
                  (uint8_t)(1u << at % 8));
        assert_has(start_and_hear(r), JOURNAL_NOTE_NAME " is damaged");
        assert_true(r->service.is_open);
        fixture_stop(r);
    }
    assert_string_equal(start_and_hear(r), "");
    fixture_stop(r);
}

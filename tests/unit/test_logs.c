/* tests/unit/test_logs.c - rotation, syncs and the spare; real logs and real
 * I/O threads. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/logs_fixture.h"

#define ON_FIXTURE(name, r)                                                    \
    TEST_WITH(name, struct fixture, r, set_up, tear_down)

/* Starts a sync; false: there is nothing to sync, or one is in flight. */
static bool
begin_sync(struct fixture *r)
{
    if (r->commit.in_flight)
        return false;
    commit_go(&r->commit);
    return r->commit.in_flight;
}

static uint64_t
count_syncs(const struct fixture *r)
{
    return r->commit.syncs - (r->commit.in_flight || r->commit.failed);
}

static bool
has_synced(struct fixture *r)
{
    return count_syncs(r) >= r->want;
}

static bool
has_failed(struct fixture *r)
{
    return r->failed > 0;
}

static bool
has_finished(struct fixture *r)
{
    return r->finished > 0;
}

static bool
has_ended(struct fixture *r)
{
    return r->finished + r->failed > 0;
}

static bool
has_room(struct fixture *r)
{
    return logs_free_slots(&r->logs) > 0;
}

static bool
has_tried(struct fixture *r)
{
    return !r->logs.making;
}

static bool
is_due(struct fixture *r)
{
    return logs_file.is_due(&r->logs);
}

static bool
has_turned(struct fixture *r)
{
    (void)r;
    return true;
}

static void
read_records(struct fixture *r)
{
    records_free(&r->records);
    records_read(&r->records, r->data.log_fd);
}

static void
finish_logs(struct fixture *r)
{
    logs_finish(&r->logs);
    run_until(r, has_finished, 0);
    logs_close(&r->logs);
    read_records(r);
    assert_int_equal(r->records.states[LOG_OPEN], 0);
    assert_int_equal(r->records.damaged, 0);
}

static void
put_messages(struct fixture *r, int count)
{
    for (int i = 0; i < count; i++) {
        run_until(r, has_room, 0);
        put_one(r);
    }
    logs_flush(&r->logs);
}

/* ---- stale slots -------------------------------------------------------- */

#define STALE "a name of an earlier fill"

/* Writes a slot of an earlier fill into a log that is at rest, or says whether
 * its last slot still has it. */
static bool
stale_slot(struct fixture *r, uint64_t index, bool write)
{
    const off_t at = LOG_SLOTS_AT + (SLOTS - 1) * 544 + 8;
    char name[LOG_NAME_SIZE], text[sizeof STALE];
    int fd;

    log_name(index, name);
    if (write)
        assert_int_equal(fchmodat(r->data.log_fd, name, 0600, 0), 0);
    fd = openat(r->data.log_fd, name, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    if (write) {
        assert_int_equal(pwrite(fd, STALE, sizeof STALE, at), sizeof STALE);
        assert_int_equal(fchmod(fd, LOG_MODE_EMPTY), 0);
    }
    assert_int_equal(pread(fd, text, sizeof text, at), sizeof text);
    assert_int_equal(close(fd), 0);
    return memcmp(text, STALE, sizeof STALE) == 0;
}

/* Two logs: the current one and the spare. */
ON_FIXTURE(logs_with_nothing_in_them_are_cleared_on_request, r)
{
    start_logs(r);
    finish_logs(r);
    assert_true(stale_slot(r, 0, true));
    assert_true(stale_slot(r, 1, true));
    r->finished = 0;
    start_logs(r);

    logs_clear(&r->logs); /* the current one, as the spare replaces it */
    run_until(r, has_spare, 0);
    logs_clear(&r->logs);
    run_until(r, has_spare, 0);

    assert_false(stale_slot(r, 0, false));
    assert_false(stale_slot(r, 1, false));
    put_messages(r, 1); /* they still take increments */
    logs_clear(&r->logs);
    finish_logs(r);
    assert_int_equal(r->records.count, 1);
}

/* ---- slots ------------------------------------------------------------- */

static void
put_letters(uint8_t *field, size_t size, size_t field_size)
{
    memset(field, 'a' + (int)(size % 26), size);
    memset(field + size, 0, field_size - size);
}

static void
expect_letters(const char *name, size_t size)
{
    size_t i;

    assert_int_equal(strlen(name), size);
    for (i = 0; i < size; i++)
        assert_int_equal(name[i], 'a' + (int)(size % 26));
}

/* Names of many lengths into the same few slots of the stage, over and over. */
static void
put_names(struct fixture *r, unsigned keyspace_size, unsigned key_size)
{
    uint8_t bytes[CLIENT_MESSAGE_SIZE];
    struct message m;
    size_t i;

    r->config.log_size = LOG_SLOTS_AT + 400 * 544;
    r->config.keyspace_size = keyspace_size;
    r->config.key_size = key_size;
    start_logs(r);
    for (i = 0; i < 400; i++) {
        put_le64s(bytes, (int64_t)i);
        put_letters(bytes + 8, 1 + i * 37 % keyspace_size, keyspace_size);
        put_letters(bytes + 8 + keyspace_size, 1 + i * 53 % key_size, key_size);
        assert_rc(message_parse(&r->logs.layout, bytes, &m), 0);
        logs_put(&r->logs, &m);
        if (i % 7 == 0)
            logs_flush(&r->logs);
    }
    finish_logs(r);

    assert_int_equal(r->records.count, 400);
    for (i = 0; i < 400; i++) {
        assert_int_equal(r->records.at[i].increment, i);
        expect_letters(r->records.at[i].keyspace, 1 + i * 37 % keyspace_size);
        expect_letters(r->records.at[i].key, 1 + i * 53 % key_size);
    }
}

ON_FIXTURE(a_slot_is_its_message_whatever_it_was_before, r)
{
    static const unsigned sizes[][2] = {{256, 256}, {1, 1}, {70, 41}, {100, 3}};

    for (size_t i = 0; i < 4; i++) {
        put_names(r, sizes[i][0], sizes[i][1]);
        tear_down(r); /* a directory has logs of one size */
        *r = (struct fixture){.want = 0};
        set_up(r);
    }
}

/* ---- syncs ------------------------------------------------------------- */

ON_FIXTURE(a_sync_covers_the_log_before_the_rotation_first, r)
{
    int old_fd, fd;

    start_logs(r);
    put_messages(r, SLOTS);
    old_fd = r->logs.current.fd;
    put_messages(r, 1);
    fd = r->logs.current.fd;
    assert_int_not_equal(old_fd, fd);

    assert_true(begin_sync(r));
    assert_int_equal(r->logs.sync.count, 2);
    assert_int_equal(r->logs.sync.items[0].fd, old_fd);
    assert_int_equal(r->logs.sync.items[1].fd, fd);
    assert_false(begin_sync(r));
    run_until(r, has_synced, 1);
    finish_logs(r);

    assert_int_equal(r->records.count, SLOTS + 1);
}

ON_FIXTURE(a_group_is_full_only_while_a_sync_runs, r)
{
    const int most = (int)(LOGS_GROUP / 544);

    r->config.log_size = LOG_SLOTS_AT + LOGS_GROUP + 10 * 544;
    start_logs(r);
    put_messages(r, 1);
    assert_false(logs_group_is_full(&r->logs));
    assert_true(begin_sync(r));
    put_at_once(r, most);
    assert_false(logs_group_is_full(&r->logs));
    put_at_once(r, 1);
    assert_true(logs_group_is_full(&r->logs));
    assert_int_equal(r->ready, 0);
    run_until(r, has_synced, 1);
    assert_int_equal(r->ready, 1);
    assert_false(logs_group_is_full(&r->logs));
    assert_true(begin_sync(r));
    run_until(r, has_synced, 2);
    assert_int_equal(r->ready, 1);
    finish_logs(r);
}

ON_FIXTURE(either_half_of_a_sync_failing_fails_it_all, r)
{
    unsigned n;

    for (n = 1; n <= 2; n++) {
        r->failed = 0;
        start_logs(r);
        put_messages(r, SLOTS + 1);
        run_until(r, has_spare, 0);
        fault_inject("fdatasync", n, EIO);
        assert_true(begin_sync(r));
        run_until(r, has_failed, 0);
        fault_clear();
        assert_int_equal(count_syncs(r), 0);
        assert_int_equal(logs_free_slots(&r->logs), 0);
        logs_close(&r->logs);
    }
}

ON_FIXTURE(a_log_is_sealed_only_after_a_sync, r)
{
    int i;

    start_logs(r);
    put_messages(r, SLOTS + 1);
    assert_true(logs_file.is_due(&r->logs));
    for (i = 0; i < 20; i++)
        run_until(r, has_turned, 0);
    read_records(r);
    assert_int_equal(r->records.states[LOG_SEALED], 0);

    assert_true(begin_sync(r));
    run_until(r, has_sealed, 1);
    read_records(r);
    assert_int_equal(r->records.states[LOG_SEALED], 1);
    finish_logs(r);
}

/* Sealing costs one sync then, that of the header. */
ON_FIXTURE(a_log_that_is_durable_is_sealed_without_another_sync, r)
{
    start_logs(r);
    put_messages(r, 3);
    assert_true(begin_sync(r));
    run_until(r, has_synced, 1);
    run_until(r, has_spare, 0);
    fault_clear();
    r->logs.finishing = true; /* no spare is made meanwhile */
    logs_rotate(&r->logs);
    r->logs.finishing = false;
    assert_false(logs_file.is_due(&r->logs));
    run_until(r, has_sealed, 1);
    assert_int_equal(fault_calls("fdatasync"), 1);
    finish_logs(r);
    assert_int_equal(r->records.count, 3);
}

/* An answer waits for the sync of a log that has nothing new. */
ON_FIXTURE(a_durable_log_that_a_sync_is_wanted_of_waits_for_it, r)
{
    start_logs(r);
    put_messages(r, 3);
    assert_true(begin_sync(r));
    run_until(r, has_synced, 1);
    run_until(r, has_spare, 0);
    assert_true(logs_want_sync(&r->logs));
    logs_rotate(&r->logs);
    assert_true(logs_file.is_due(&r->logs));
    assert_true(begin_sync(r));
    run_until(r, has_sealed, 1);

    /* Nor is it closed while a sync has its descriptor. */
    run_until(r, has_spare, 0);
    put_messages(r, 3);
    assert_true(begin_sync(r));
    run_until(r, has_synced, 3);
    assert_true(logs_want_sync(&r->logs));
    assert_true(begin_sync(r));
    logs_rotate(&r->logs);
    assert_int_equal(r->logs.retired[0].state, RETIRED_DIRTY);
    run_until(r, has_sealed, 2);
    finish_logs(r);
    assert_int_equal(r->records.count, 6);
}

ON_FIXTURE(a_failing_seal_ends_the_writer_and_recovery_mends_it, r)
{
    start_logs(r);
    put_messages(r, 5);
    run_until(r, has_spare, 0);
    logs_rotate(&r->logs);
    run_until(r, has_spare, 0);
    /* The group's sync is the first, the seal is behind it. */
    fault_inject("fdatasync", 2, EIO);
    assert_true(begin_sync(r));
    run_until(r, has_failed, 0);
    fault_clear();
    logs_close(&r->logs);

    start_logs(r);
    finish_logs(r);
    assert_int_equal(r->records.count, 5);
}

ON_FIXTURE(slots_say_how_many_before_them_are_durable, r)
{
    int i;

    start_logs(r);
    put_messages(r, 3);
    assert_true(begin_sync(r));
    put_messages(r, 2); /* the sync is not known to be done */
    run_until(r, has_synced, 1);
    put_messages(r, 1);
    assert_true(begin_sync(r));
    run_until(r, has_synced, 2);
    put_messages(r, SLOTS);
    finish_logs(r);

    for (i = 0; i < 3; i++)
        assert_int_equal(r->records.at[i].stamp.synced, 0);
    assert_in_range(r->records.at[4].stamp.synced, 0, 3);
    assert_int_equal(r->records.at[5].stamp.synced, 3);
    assert_int_equal(r->records.at[6].stamp.synced, 6);
    /* The next log begins anew. */
    assert_int_equal(r->records.at[SLOTS].stamp.synced, 0);
}

ON_FIXTURE(the_interval_makes_a_sync_due, r)
{
    r->config.log_sync_ms = 20;
    start_logs(r);
    assert_false(logs_file.is_due(&r->logs));
    put_messages(r, 1);
    assert_false(logs_file.is_due(&r->logs));
    run_until(r, is_due, 0);
    assert_true(begin_sync(r));
    assert_false(logs_file.is_due(&r->logs));
    run_until(r, has_synced, 1);
    assert_false(logs_file.is_due(&r->logs));
    finish_logs(r);
}

ON_FIXTURE(with_always_a_sync_is_due_at_once_and_with_never_not, r)
{
    r->config.log_sync_ms = CONFIG_SYNC_ALWAYS;
    start_logs(r);
    assert_false(logs_file.is_due(&r->logs));
    put_messages(r, 1);
    assert_true(logs_file.is_due(&r->logs));
    r->config.log_sync_ms = CONFIG_SYNC_NEVER;
    assert_false(logs_file.is_due(&r->logs));
    finish_logs(r);
    assert_int_equal(r->records.count, 1);
}

/* ---- time -------------------------------------------------------------- */

ON_FIXTURE(received_ms_never_goes_back_in_a_log, r)
{
    const struct record *at;
    int i;

    start_logs(r);
    put_messages(r, 2);
    fault_clock(-3600000);
    put_messages(r, SLOTS);
    fault_clock(3600000);
    put_messages(r, 2);
    fault_clear();
    put_messages(r, 2);
    finish_logs(r);

    assert_int_equal(r->records.count, SLOTS + 6);
    at = r->records.at;
    for (i = 1; i < SLOTS + 6; i++)
        assert_true(at[i].log != at[i - 1].log ||
                    at[i].stamp.received_ms >= at[i - 1].stamp.received_ms);
}

ON_FIXTURE(a_clock_that_is_set_back_begins_a_log_of_its_own, r)
{
    const struct record *at;
    uint64_t after;

    start_logs(r);
    put_messages(r, 2);
    run_until(r, has_spare, 0);
    fault_clock(-3600000);
    run_until(r, has_turned, 0); /* the loop reads the clock once a turn */
    put_messages(r, 2);
    after = clock_unix_ms();
    finish_logs(r);

    assert_int_equal(r->records.count, 4);
    at = r->records.at;
    assert_true(at[0].log == at[1].log && at[2].log == at[3].log);
    assert_true(at[1].log != at[2].log);
    assert_true(at[0].stamp.received_ms > after);
    assert_true(at[2].stamp.received_ms <= after);
    assert_true(at[3].stamp.received_ms <= after);
}

/* ---- rotation ---------------------------------------------------------- */

ON_FIXTURE(an_old_log_is_handed_on_however_steady_the_trickle, r)
{
    r->config.log_rotate_after_ms = 30;
    start_logs(r);
    while (r->logs.fill == 1) {
        put_messages(r, 1);
        assert_true(r->logs.current.header.count < SLOTS);
        run_until(r, has_turned, 0);
        if (r->logs.current.header.count == SLOTS - 1)
            break;
        usleep(2000);
    }
    assert_int_equal(r->logs.fill, 2);
    finish_logs(r);
}

ON_FIXTURE(an_empty_log_is_not_handed_on, r)
{
    start_logs(r);
    logs_rotate(&r->logs);
    assert_int_equal(r->logs.fill, 1);
    finish_logs(r);
    assert_int_equal(r->records.states[LOG_SEALED], 0);
}

/* log.max=1 is refused by the settings, but a full disk comes to the same. */
ON_FIXTURE(without_a_spare_an_old_log_is_handed_on_all_the_same, r)
{
    const uint64_t begin_ms = clock_ms();
    struct log log;

    r->config.log_max = 1;
    r->config.log_count = 1;
    assert_rc(open_logs(r), 0);
    put_messages(r, 1);
    logs_rotate(&r->logs);
    assert_true(r->logs.has_current); /* it waits for a spare a while */
    put_messages(r, 1);
    while (r->logs.has_current)
        run_until(r, has_turned, 0);
    assert_true(clock_ms() - begin_ms >= 1000);
    assert_int_equal(logs_free_slots(&r->logs), 0);
    assert_true(begin_sync(r));
    run_until(r, has_sealed, 1);

    assert_rc(log_claim(&log, r->data.log_fd, 0, LOG_MODE_FULL), 0);
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
    run_until(r, has_room, 0);
    put_messages(r, 1);
    finish_logs(r);
    assert_int_equal(r->records.count, 1);
}

static bool
has_eighth_log(struct fixture *r)
{
    return tmpdir_has(&r->dir, "log/0000000007");
}

/* The others are filled with zeros while it serves. */
ON_FIXTURE(a_new_directory_serves_with_its_first_log, r)
{
    r->config.log_count = 8;
    assert_rc(open_logs(r), 0);
    assert_false(has_eighth_log(r));
    put_messages(r, 1);
    run_until(r, has_eighth_log, 0);
    put_messages(r, SLOTS + 1);
    finish_logs(r);
    assert_int_equal(r->records.count, SLOTS + 2);
    assert_false(tmpdir_has(&r->dir, "log/0000000008"));
}

ON_FIXTURE(creating_that_fails_is_tried_again, r)
{
    start_logs(r);
    /* Two logs: one in use, one spare; the third has to be made. */
    fault_inject_from("posix_fallocate", 1, ENOSPC);
    fault_inject_from("fsync", 1, ENOSPC);
    put_messages(r, SLOTS + 1);
    run_until(r, has_tried, 0);
    assert_int_equal(r->logs.spare_count, 0);
    assert_int_equal(r->failed, 0);
    fault_clear();
    run_until(r, has_spare, 0);
    finish_logs(r);
    assert_int_equal(r->records.count, SLOTS + 1);
}

ON_FIXTURE(every_failing_call_of_the_start_is_an_error_or_harmless, r)
{
    static const int errors[] = {EIO, ENOSPC, EMFILE};
    const unsigned fds = fault_open_fds();
    unsigned n, e;
    bool hit;
    int rc;

    diag_init("test_logs", DIAG_ERROR);
    for (e = 0; e < sizeof errors / sizeof errors[0]; e++) {
        for (n = 1;; n++) {
            r->finished = r->failed = 0;
            fault_inject("disk", n, errors[e]);
            rc = open_logs(r);
            hit = fault_hit();
            fault_clear();
            if (rc == 0) {
                /* The fault may still hit the file thread. */
                logs_finish(&r->logs);
                run_until(r, has_ended, 0);
                logs_close(&r->logs);
            }
            assert_int_equal(fault_open_fds(), fds);
            if (!hit)
                break;
        }
        assert_true(n > 10);
    }
}

ON_FIXTURE(a_hundred_rotations_keep_every_message, r)
{
    int i;

    r->config.log_max = 1000;
    start_logs(r);
    for (i = 0; i < 100; i++) {
        put_messages(r, SLOTS);
        (void)begin_sync(r); /* false while one is in flight */
    }
    finish_logs(r);
    assert_int_equal(r->records.count, 100 * SLOTS);
    assert_int_equal(r->records.states[LOG_SEALED], 100);
}

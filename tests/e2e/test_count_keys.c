/* tests/e2e/test_count_keys.c - POST /v1/count with an Idempotency-Key: a
 * request that is sent again is answered again and counts once, through stops,
 * kills, merges and a restored backup. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/e2e/keyed_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/answer.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/file.h"
#include "tests/lib/service.h"

#define SLOT_AT(n) (8192 + 544 * (off_t)(n)) /* in a log */

static void
expect_reply(struct reply r, int status, const char *has)
{
    if (r.status != status || !strstr(r.text, has))
        fail_msg("%d, not %d with %s: %s", r.status, status, has, r.text);
}

/* Sends it on a connection of its own. */
static void
expect_refused(struct fleet *f, const char *key, int status, const char *has)
{
    const int fd = fleet_http(f);

    expect_reply(send_keyed(fd, key, "p\ta\n"), status, has);
    client_close(fd);
}

static void
expect_reused(int fd, const char *request, size_t size)
{
    client_send(fd, request, size);
    expect_reply(read_reply(fd), 422, "\"code\": \"key-reused\"");
}

static void
expect_no_keys(struct fleet *f)
{
    fleet_start(f, FLEET_WRITE);
    expect_refused(f, "one", 400, "\"code\": \"no-keys\"");
    fleet_stop(f, FLEET_WRITE);
}

/* Sends it until it is known whether it counts. */
static void
await_counted(struct fleet *f, const char *key, bool replayed)
{
    const int fd = fleet_http(f);
    struct reply r;

    do
        r = send_keyed(fd, key, "p\ta\n");
    while (r.status == 503);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.replayed, replayed);
    client_close(fd);
}

/* ---- tests --------------------------------------------------------------- */

/* The same line names another counter with names=raw: an answer from the key
 * would say that this one was counted. */
CASE(a_key_is_of_one_reading_of_names, f)
{
    static const char line[] = "POST /v1/count HTTP/1.1\r\n",
                      raw_line[] = "POST /v1/count?names=raw HTTP/1.1\r\n";
    char request[1024], raw_request[sizeof request + sizeof raw_line];
    size_t size;
    int fd;

    fleet_start(f, FLEET_WRITE);
    fd = fleet_http(f);
    size = format_request(request, sizeof request, "one", "p\ta\\tb\n");
    (void)snprintf(raw_request, sizeof raw_request, "%s%s", raw_line,
                   request + sizeof line - 1);
    client_send(fd, request, size);
    expect_reply(read_reply(fd), 200, "\"counted\": 1,");
    expect_reused(fd, raw_request, strlen(raw_request));
    client_send(fd, request, size);
    expect_reply(read_reply(fd), 200, "\r\nIdempotency-Replayed: true\r\n");
    client_close(fd);
}

CASE(a_request_counts_once_through_stops_and_kills, f)
{
    const char *body = "p\ta\t5\np\tb\n";
    char request[1024];
    size_t size;
    int fd;

    fleet_start(f, FLEET_WRITE);
    expect_counted(f, "one", body, 2, false);
    expect_counted(f, "one", body, 2, true);
    expect_counted(f, "two", body, 2, false);
    expect_counted(f, "none", "", 0, false);
    expect_counted(f, "none", "", 0, true);
    fd = fleet_http(f);
    size = format_request(request, sizeof request, "one", "p\ta\t6\np\tb\n");
    expect_reused(fd, request, size);
    client_close(fd);
    daemon_kill(fleet_daemon(f, FLEET_WRITE));
    fleet_start(f, FLEET_WRITE); /* recovers */
    expect_counted(f, "one", body, 2, true);
    fleet_stop(f, FLEET_WRITE); /* seals */
    fleet_start(f, FLEET_WORKER);
    fleet_await_drained(f, MERGE_MS);
    fleet_start(f, FLEET_WRITE);
    expect_counted(f, "one", body, 2, true);
    expect_counted(f, "none", "", 0, true);
    expect_counted(f, "three", body, 2, false);
    daemon_kill(fleet_daemon(f, FLEET_WRITE));
    fleet_await_drained(f, MERGE_MS); /* the worker recovers it */
    fleet_start(f, FLEET_WRITE);
    expect_counted(f, "three", body, 2, true);
    expect_export(f, "p", "p\ta\t15\np\tb\t3\n");
    fleet_stop_all(f);
    fleet_check(f);
}

CASE(the_second_waits_with_the_first_and_both_are_answered, f)
{
    static char two[2][512], both[4096];
    size_t size = 0;
    int fd, other;

    fleet_start(f, FLEET_WRITE);
    fd = fleet_http(f);
    other = fleet_http(f);
    for (int i = 0; i < 50; i++) {
        char key[16];
        struct reply r[3];

        (void)snprintf(key, sizeof key, "key-%d", i);
        size = format_request(two[0], sizeof two[0], key, "p\ta\n");
        memcpy(both, two[0], size);
        memcpy(both + size, two[0], size);
        client_send(fd, both, 2 * size);
        client_send(other, two[0], size);
        r[0] = read_reply(fd);
        r[1] = read_reply(fd);
        r[2] = read_reply(other);
        for (int j = 0; j < 3; j++) {
            assert_int_equal(r[j].status, 200);
            assert_int_equal(r[j].counted, 1);
        }
        assert_true(r[1].replayed);
        assert_int_equal(r[0].replayed + r[2].replayed, 1);
    }
    client_close(fd);
    client_close(other);
    fleet_stop(f, FLEET_WRITE);
    fleet_start(f, FLEET_WORKER);
    expect_export(f, "p", "p\ta\t50\n");
    fleet_stop_all(f);
}

CASE(a_key_is_refused_where_it_cannot_be_kept, f)
{
    static char key[300], body[40000];
    size_t size = 0;
    int fd;

    fleet_option(f, "log.size=1M"); /* 1912 slots */
    fleet_start(f, FLEET_WRITE);
    memset(key, 'k', 256);
    expect_refused(f, key, 400, "\"code\": \"bad-key\"");
    key[255] = '\0';
    expect_counted(f, key, "p\ta\n", 1, false);
    expect_refused(f, "", 400, "\"code\": \"bad-key\"");
    for (int i = 0; i < 956; i++)
        size += (size_t)sprintf(body + size, "p\tmany\n");
    fd = fleet_http(f);
    expect_reply(send_keyed(fd, "many", body), 413, "\"code\": \"too-many\"");
    client_close(fd);
    body[size - 7] = '\0';
    expect_counted(f, "many", body, 955, false);
    fleet_stop(f, FLEET_WRITE);
    fleet_start(f, FLEET_WORKER);
    fleet_await_drained(f, MERGE_MS);
    fleet_stop(f, FLEET_WORKER);
    fleet_option(f, "count.keys=0");
    expect_no_keys(f);
}

CASE(keys_below_48_bytes_leave_no_space_for_marks, f)
{
    fleet_option(f, "message.key_size=47");
    expect_no_keys(f);
}

CASE(salvage_leaves_out_what_was_sent_again, f)
{
    const char *body = "p\ta\np\tb\n";

    fleet_start_with(f, FLEET_WRITE, "log.rotate_after=1h",
                     "log.merge_share=0");
    expect_counted(f, "one", body, 2, false);
    expect_counted(f, "two", body, 2, false);
    expect_counted(f, "three", body, 2, false);
    daemon_kill(fleet_daemon(f, FLEET_WRITE));
    /* A slot of the third: the log is set aside. */
    file_flip(file_path(f->path, "log/0000000000"), SLOT_AT(7) + 264, 1);
    fleet_start(f, FLEET_WRITE);
    expect_counted(f, "one", body, 2, false);
    /* Only the writer knows that "one" counts, and it does not look again for
     * "two". */
    expect(FLEET_RUN(f, "log", "salvage", "bad-0000000000-1"), 111,
           "may be sent again: stop countd-write pid=");
    daemon_kill(fleet_daemon(f, FLEET_WRITE));
    expect(FLEET_RUN(f, "log", "salvage", "--dry-run", "bad-0000000000-1"), 0,
           "requests=3 with an Idempotency-Key may have been sent again");
    expect(FLEET_RUN(f, "log", "salvage", "bad-0000000000-1"), 0,
           "3 increments merged, 0 merged already, 0 damaged and lost, 2 left "
           "out: their requests were sent again and count");
    fleet_start(f, FLEET_WRITE);
    expect_counted(f, "two", body, 2, true);
    fleet_stop(f, FLEET_WRITE);
    fleet_start(f, FLEET_WORKER);
    expect_export(f, "p", "p\tb\t3\np\ta\t2\n");
    fleet_stop_all(f);
}

/* Sets aside, by hand, the log that a killed writer had marks in. */
static void
set_aside_open_log(struct fleet *f, char bad[64])
{
    static const uint8_t none[8];

    for (unsigned i = 0; i < 10; i++) {
        const char *path = file_path(f->path, "log/%010u", i);
        uint8_t key[8] = {0};
        struct stat st;
        const int fd = open(path, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
            continue;
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(pread(fd, key, sizeof key, SLOT_AT(0) + 264),
                         sizeof key);
        (void)close(fd);
        if ((st.st_mode & 0777) != 0600 || memcmp(key, none, sizeof key) == 0)
            continue;
        (void)snprintf(bad, 64, "bad-%010u-1", i);
        assert_int_equal(rename(path, file_path(f->path, "log/%s", bad)), 0);
        return;
    }
    fail_msg("no log was open");
}

/* Locks a file of the data directory, as a process that lives does. */
static int
lock_file(struct fleet *f, const char *name)
{
    const int fd = open(file_path(f->path, "%s", name),
                        O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    return fd;
}

static void
move_file(const struct fleet *f, const char *from, const char *to)
{
    assert_int_equal(
        rename(file_path(f->path, "%s", from), file_path(f->path, "%s", to)),
        0);
}

CASE(a_lost_secret_waits_until_it_is_accepted, f)
{
    char bad[64];

    fleet_start_with(f, FLEET_WRITE, "log.rotate_after=1h",
                     "log.merge_share=0");
    expect_counted(f, "one", "p\ta\n", 1, false);
    daemon_kill(fleet_daemon(f, FLEET_WRITE));
    move_file(f, "live/requests", "live/away");
    fleet_start(f, FLEET_WRITE);
    fleet_start(f, FLEET_WORKER);
    expect_refused(f, "one", 503, "\"code\": \"not-ready\"");
    /* When the worker has come to it. */
    do
        expect(FLEET_RUN(f, "status"), 1, "live/requests/secret is lost");
    while (strstr(text, "1 log cannot be recovered") == NULL);
    /* It is found again. */
    move_file(f, "live/away", "live/requests");
    await_counted(f, "one", true);
    fleet_await_drained(f, MERGE_MS);
    do
        (void)FLEET_RUN(f, "status"); /* no reader runs: 1 */
    while (strstr(text, "cannot be recovered") || strstr(text, "is lost"));
    expect(FLEET_RUN(f, "log", "accept"), 0, "nothing to accept");
    expect_counted(f, "two", "p\ta\n", 1, false);
    expect_counted(f, "three", "p\ta\n", 1, false);
    fleet_stop(f, FLEET_WORKER);
    daemon_kill(fleet_daemon(f, FLEET_WRITE));
    /* It is lost for good. */
    move_file(f, "live/requests", "live/away");
    fleet_start(f, FLEET_WRITE);
    fleet_start(f, FLEET_WORKER);
    expect(FLEET_RUN(f, "log", "accept"), 0, "keys forgotten=2:");
    fleet_await_drained(f, MERGE_MS);
    await_counted(f, "three", false); /* it counts again, as was said */
    fleet_stop(f, FLEET_WORKER);
    daemon_kill(fleet_daemon(f, FLEET_WRITE));
    set_aside_open_log(f, bad);
    expect(FLEET_RUN(f, "log", "salvage", bad), 0, "1 increment merged");
    expect_export(f, "p", "p\ta\t4\n");
    fleet_stop_all(f);
}

CASE(salvage_says_what_a_damaged_mark_may_count_twice, f)
{
    char bad[64];

    fleet_option(f, "log.rotate_after=1h");
    fleet_option(f, "log.merge_share=0"); /* all in one log */
    fleet_start(f, FLEET_WRITE);
    expect_counted(f, "one", "p\ta\np\tb\n", 2, false);
    expect_counted(f, "two", "p\ta\np\tc\n", 2, false);
    expect_counted(f, "three", "p\td\n", 1, false);
    daemon_kill(fleet_daemon(f, FLEET_WRITE));
    set_aside_open_log(f, bad);
    expect(FLEET_RUN(f, "log", "salvage", bad, "--dry-run", "--json"), 0,
           "\"unsure\": 0");
    /* An increment of "one" is damaged: that is not a mark. */
    file_flip(file_path(f->path, "log/%s", bad), SLOT_AT(2) + 300, 1);
    expect(FLEET_RUN(f, "log", "salvage", bad, "--dry-run", "--json"), 0,
           "\"unsure\": 0");
    /* The mark of "two" is damaged, too; that of "three" is not. */
    file_flip(file_path(f->path, "log/%s", bad), SLOT_AT(3) + 300, 1);
    expect(FLEET_RUN(f, "log", "salvage", bad, "--json"), 0, "\"unsure\": 2");
    expect_export(f, "p", "p\ta\t2\np\tc\t1\np\td\t1\n");
}

CASE(live_requests_of_an_earlier_version_are_refused, f)
{
    const char *argv[] = {"-d", NULL,
                          "-o", "write.listen=",
                          "-o", "write.ack_listen=",
                          "-o", "http.listen=127.0.0.1:0",
                          "-o", "counter.enable=off",
                          NULL};
    struct daemon d = {0};

    argv[1] = f->path;
    fleet_start(f, FLEET_WRITE);
    fleet_stop(f, FLEET_WRITE);
    assert_int_equal(unlink(file_path(f->path, "live/requests/secret")), 0);
    file_put(file_path(f->path, "live/requests/lock"), "", 0);
    assert_int_equal(
        daemon_start_how(&d, "countd-write",
                         &(struct daemon_how){.argv = argv, .may_fail = true}),
        111);
    expect(FLEET_RUN(f, "log", "accept"), 111, "is of an earlier version");
}

/* All that is stored goes to the newest file: this one, whatever the hour. */
#define NEWEST "live/requests/4000000000"

CASE(check_finds_damage_of_what_is_recorded, f)
{
    fleet_start(f, FLEET_WRITE);
    fleet_start(f, FLEET_WORKER);
    (void)close(lock_file(f, NEWEST));
    expect_counted(f, "one", "p\ta\n", 1, false);
    daemon_signal(fleet_daemon(f, FLEET_WRITE), SIGUSR2); /* rotates */
    fleet_await_drained(f, MERGE_MS);
    expect_counted(f, "two", "p\ta\n", 1, false);
    fleet_stop(f, FLEET_WRITE);
    expect(FLEET_RUN(f, "check"), 0, "0 faults");
    file_flip(file_path(f->path, NEWEST), 0, 1);
    expect(FLEET_RUN(f, "check"), 1, "requests live/requests");
    fleet_start(f, FLEET_WRITE);
    expect_counted(f, "one", "p\ta\n", 1, false);
    expect_counted(f, "two", "p\ta\n", 1, true);
    fleet_stop(f, FLEET_WRITE);
    assert_int_equal(unlink(file_path(f->path, "live/requests/secret")), 0);
    expect(FLEET_RUN(f, "check"), 1, "secret, which its keys");
    /* "one" was damaged, and recorded again. */
    expect(FLEET_RUN(f, "log", "accept"), 0, "keys forgotten=2:");
    expect(FLEET_RUN(f, "log", "accept"), 0, "nothing to accept");
}

CASE(while_another_recovers_a_log_keys_wait, f)
{
    int lock;

    fleet_start_with(f, FLEET_WRITE, "count.wait=50ms");
    expect_counted(f, "one", "p\ta\n", 1, false);
    daemon_kill(fleet_daemon(f, FLEET_WRITE));
    lock = lock_file(f, "log/0000000000");
    fleet_start(f, FLEET_WRITE);
    expect_refused(f, "one", 503, "\"code\": \"not-ready\"");
    expect_refused(f, "one", 503, "\r\nRetry-After: 1\r\n");
    (void)close(lock);
    await_counted(f, "one", true);
    fleet_stop_all(f);
}

CASE(a_log_whose_marks_cannot_be_stored_is_not_handed_on, f)
{
    int lock;

    fleet_start_with(f, FLEET_WRITE, "log.rotate_after=1h",
                     "log.merge_share=0");
    fleet_start(f, FLEET_WORKER);
    expect_counted(f, "one", "p\ta\n", 1, false);
    lock = lock_file(f, NEWEST);
    daemon_signal(fleet_daemon(f, FLEET_WRITE), SIGUSR2); /* rotates */
    expect_counted(f, "one", "p\ta\n", 1, true);
    /* At a stop it is left to recovery, which cannot, either. */
    fleet_stop(f, FLEET_WRITE);
    assert_false(fleet_logs_are_drained(f));
    (void)close(lock);
    fleet_await_drained(f, MERGE_MS); /* the worker recovers it */
    fleet_start(f, FLEET_WRITE);
    expect_counted(f, "one", "p\ta\n", 1, true);
    lock = lock_file(f, NEWEST);
    expect_counted(f, "two", "p\ta\n", 1, false);
    daemon_signal(fleet_daemon(f, FLEET_WRITE), SIGUSR2);
    expect_counted(f, "two", "p\ta\n", 1, true);
    (void)close(lock);
    fleet_await_drained(f, MERGE_MS); /* the writer tries it again */
    fleet_stop(f, FLEET_WRITE);
    expect_export(f, "p", "p\ta\t2\n");
    fleet_stop_all(f);
}

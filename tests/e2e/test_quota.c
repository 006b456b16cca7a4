/* tests/e2e/test_quota.c - quotas of the built daemons: kept across kill and
 * restart, refused with another limit, set aside when damaged, and read as
 * counts. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/client/lib/countd.h"
#include "tests/lib/answer.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/file.h"
#include "tests/lib/service.h"

#define CASE(name, f)                                                          \
    TEST_SERVICE(name, f, "counter.enable=off", "http.listen=127.0.0.1:0",     \
                 "quota.enable=on", "quota.limit=1000")

/* One request of a connection of its own; its body. */
static const char *
ask_writer(struct fleet *f, const char *method, const char *target, int status)
{
    static struct answer a;
    const int fd = fleet_http(f);

    answer_request(fd, method, target);
    answer_read(fd, &a);
    client_close(fd);
    assert_int_equal(a.status, status);
    return a.body;
}

#define expect_body(f, target, body)                                           \
    assert_string_equal(ask_writer(f, "POST", target, 200), body)

CASE(another_limit_is_refused_with_what_to_do, f)
{
    char data[600];

    fleet_start(f, FLEET_WRITE);
    fleet_stop(f, FLEET_WRITE);
    (void)snprintf(data, sizeof data, "data_dir=%s", f->path);
    assert_int_equal(daemon_run(text, sizeof text, "countd-write", "-o", data,
                                "-o", "http.listen=127.0.0.1:0", "-o",
                                "quota.enable=on", "-o", "write.listen=", "-o",
                                "write.ack_listen=127.0.0.1:0", "-o",
                                "counter.enable=off", "-o", "log.size=64K",
                                "-o", "quota.limit=5"),
                     100);
    assert_has(text, "give quota.limit = 1000");
}

CASE(a_damaged_journal_refuses_quotas_alone_and_is_reported, f)
{
    int fd;

    fleet_start(f, FLEET_WRITE);
    expect_body(f, "/apply?amt=10", "1 990\n");
    expect_body(f, "/apply?amt=10", "2 980\n");
    fleet_stop(f, FLEET_WRITE);
    file_flip(file_path(f->path, "live/quota"), 4096 + 32, 1);
    fleet_start(f, FLEET_WRITE);
    (void)ask_writer(f, "GET", "/query", 503);
    (void)ask_writer(f, "POST", "/apply?amt=1", 503);
    assert_has(daemon_text(fleet_daemon(f, FLEET_WRITE)),
               "live/quota record=1 byte=4120");
    fd = client_connect(fleet_ack_port(f));
    client_increment(fd, "ks", "key", 1);
    client_wins(fd, 1);
    client_close(fd);
    fleet_stop(f, FLEET_WRITE);
}

/* Changes that come between the backup's read of the note and that of the
 * journal are not in the copy, which is served.  Without a worker: nothing is
 * to be merged. */
CASE(a_backup_has_the_quotas_of_one_moment, f)
{
    struct fleet copy;
    char path[600];
    uint8_t note[72 + 1];

    fleet_start(f, FLEET_WRITE);
    expect_body(f, "/apply?amt=10", "1 990\n");
    assert_int_equal(
        file_read(file_path(f->path, "live/quota-end"), note, sizeof note), 72);
    expect_body(f, "/apply?amt=20", "2 970\n");
    expect_body(f, "/apply?amt=30", "3 940\n");
    file_write(file_path(f->path, "live/quota-end"), 0, note, 72);
    (void)snprintf(path, sizeof path, "%s/copy", f->path);
    assert_int_equal(FLEET_RUN(f, "backup", "--no-flush", path), 0);
    fleet_init_at(&copy, path);
    for (size_t i = 0; i < f->option_count; i++)
        fleet_option(&copy, f->options[i]);
    fleet_start(&copy, FLEET_WRITE);
    expect_body(&copy, "/apply?amt=1", "2 989\n");
    fleet_stop(&copy, FLEET_WRITE);
    fleet_fini(&copy);
    expect_body(f, "/apply?amt=1", "4 939\n");
    fleet_stop(f, FLEET_WRITE);
}

/* ---- the command, and the library behind it ---------------------- */

#define QUOTA(...) FLEET_RUN(f, "quota", __VA_ARGS__)

CASE(the_command_does_what_http_does, f)
{
    fleet_start(f, FLEET_WRITE);
    expect_text(QUOTA("query"), 0, "1000\n");
    expect_text(QUOTA("apply", "10"), 0, "1 990\n");
    expect_text(QUOTA("apply", "10", "--tsv"), 0, "2\t980\n");
    expect_text(QUOTA("cancel", "1"), 0, "3 990\n");
    expect(QUOTA("cancel", "1"), 1, "");
    expect(QUOTA("apply", "5000"), 1, "");
    expect_text(QUOTA("increase", "5"), 0, "995\n");
    expect(QUOTA("increase", "9223372036854775807"), 1, "");
    expect_text(QUOTA("decrease", "95"), 0, "900\n");
    expect_text(QUOTA("create", "50", "--name", "tea"), 0, "50\n");
    expect(QUOTA("create", "50", "--name", "tea"), 1, "");
    expect_text(QUOTA("apply", "7", "--name", "tea", "--key", "k"), 0,
                "1 43\n");
    expect_text(QUOTA("apply", "7", "--name", "tea", "--key", "k"), 0,
                "1 43\n");
    expect(QUOTA("apply", "8", "--name", "tea", "--key", "k"), 1, "");
    expect_text(QUOTA("list", "--tsv"), 0, "-\t1000\t900\ntea\t50\t43\n");
    expect(QUOTA("query", "--name", "cup"), 1, "");
    expect_text(QUOTA("empty"), 0, "0\n");
    expect_text(QUOTA("remove", "--name", "tea"), 0, "43\n");
    expect(QUOTA("create", "5"), 100, "");
    expect(QUOTA("apply"), 100, "");
    expect(QUOTA("apply", "-5"), 100, "");
    expect(QUOTA("query", "5"), 100, "");
    expect(QUOTA("brew"), 100, "");
    expect(QUOTA("query", "--name", "a/b"), 100, "");
    fleet_stop(f, FLEET_WRITE);
}

static int
change_quota(struct countd_http *h, const char *name, enum countd_quota_op op,
             int64_t value, struct countd_quota_answer *a)
{
    const struct countd_quota_request r = {
        .op = op, .value = value, .name = name};

    return countd_quota(h, &r, a);
}

CASE(the_library_tells_refusals_apart, f)
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

/* tests/e2e/test_sockets.c - the data directory as the address: stores beside
 * each other, without ports, behind long names, for a group. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/client/lib/countd.h"
#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/expect.h"
#include "tests/lib/tmpdir.h"

#define WAIT_MS  20000
#define USER     "65534"
#define MEMBER   "54321" /* a user of the group */
#define GROUP    "54322"
#define STRANGER "54323"

#define NO_PORTS                                                               \
    "-o", "write.listen=socket", "-o", "write.ack_listen=socket", "-o",        \
        "read.listen=socket", "-o", "counter.port=socket", "-o",               \
        "http.listen=socket", "-o", "read.http=socket", "-o",                  \
        "quota.enable=on", "-o", "quota.limit=1000", "-o", "log.size=64K"

struct fixture {
    struct tmpdir dir;
    struct daemon first, second;
    char a[1024], b[1024]; /* data directories */
};

static void
set_up(struct fixture *f)
{
    tmpdir_make(&f->dir);
    assert_int_equal(fchmod(f->dir.fd, 0711), 0);
    f->first.output = f->second.output = -1;
    snprintf(f->a, sizeof f->a, "%s/a", f->dir.path);
    snprintf(f->b, sizeof f->b, "%s/b", f->dir.path);
}

static void
tear_down(struct fixture *f)
{
    daemon_fini(&f->first);
    daemon_fini(&f->second);
    tmpdir_remove(&f->dir);
}

#define CASE(name, f) TEST_WITH(name, struct fixture, f, set_up, tear_down)

/* Puts the directory below folders of 120 letters each. */
static void
make_long(struct fixture *f, char *path, size_t size)
{
    char part[128];

    snprintf(path, size, "%s", f->dir.path);
    memset(part, 'x', sizeof part);
    part[0] = '/';
    part[121] = '\0';
    for (int i = 0; i < 3; i++) {
        strcat(path, part);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    strcat(path, "/store");
}

#define COUNTD(...) daemon_run(text, sizeof text, "countd", __VA_ARGS__, NULL)

/* Settings that name the user make a command of root warn of nothing. */
static const char *
user_setting(void)
{
    return geteuid() == 0 ? "user=" USER : "user=";
}

static void
serve_data(struct daemon *d, const char *data, const char *setting)
{
    char user[32];

    snprintf(user, sizeof user, "%s", user_setting());
    daemon_start(d, "countd", "serve", "-d", data, NO_PORTS, "-o", user, "-o",
                 setting, NULL);
}

/* What does anything with a store, by its directory alone. */
static void
use_store(const char *data, const char *count)
{
    char want[64];

    expect_text(COUNTD("incr", "-d", data, "k", "x", count), 0, "");
    expect_text(COUNTD("flush", "-d", data, "-o", user_setting()), 0, "");
    snprintf(want, sizeof want, "%s\n", count);
    expect_text(COUNTD("get", "-d", data, "k", "x"), 0, want);
    snprintf(want, sizeof want, "0\t%s\tx\n", count);
    expect_text(COUNTD("top", "-d", data, "k", "--tsv"), 0, want);
    expect_text(
        COUNTD("acquire", "-d", data, "n", "1", "1", "--", "echo", "held"), 0,
        "held\n");
    expect_text(COUNTD("live", "-d", data, "get", "n"), 0, "0\n");
    snprintf(want, sizeof want, " %d\n", 1000 - atoi(count));
    expect(COUNTD("quota", "-d", data, "apply", count), 0, want);
}

CASE(two_stores_stand_beside_each_other_without_a_port, f)
{
    make_long(f, f->b, sizeof f->b);
    serve_data(&f->first, f->a, "log.count=2");
    serve_data(&f->second, f->b, "log.count=2");
    assert_int_equal(f->first.port_count, 0);
    use_store(f->a, "3");
    use_store(f->b, "40");
    expect_text(COUNTD("get", "-d", f->a, "k", "x"), 0, "3\n");

    assert_int_equal(daemon_stop(&f->first), 0);
    expect(COUNTD("get", "-d", f->a, "k", "x"), 111,
           "countd-read does not serve ");
    expect(COUNTD("incr", "-d", f->a, "k", "x"), 111,
           "/a/socket/ack; does it run on this directory");
    expect_text(COUNTD("get", "-d", f->b, "k", "x"), 0, "40\n");
}

/* Every handle of the library; -ENOENT stays what it says of a key. */
CASE(the_library_takes_the_directory_for_the_address, f)
{
    struct countd_options o = {.size = sizeof o, .directory = f->b};
    struct countd_live_options lo = {.size = sizeof lo, .directory = f->b};
    struct countd_http_options ho = {.size = sizeof ho, .directory = f->b};
    struct countd_quota_answer answer;
    struct countd_live *live;
    struct countd_http *http;
    struct countd *c;
    int64_t count;

    make_long(f, f->b, sizeof f->b);
    assert_rc(countd_open(&c, &o), 0);
    assert_rc(countd_get(c, "k", 1, "x", 1, &count), -ECONNREFUSED);
    assert_rc(countd_live_open(&live, &lo), -ECONNREFUSED);
    serve_data(&f->first, f->b, "log.rotate_after=20ms");
    assert_rc(countd_incr(c, "k", 1, "x", 1, 7), 0);
    assert_rc(countd_wait_readable(c, "k", 1, WAIT_MS), 0);
    assert_rc(countd_get(c, "k", 1, "x", 1, &count), 0);
    assert_int_equal(count, 7);
    assert_rc(countd_get(c, "k", 1, "y", 1, &count), -ENOENT);
    assert_rc(countd_finish(c, WAIT_MS), 0);

    o.silent = 1;
    assert_rc(countd_open(&c, &o), 0);
    assert_rc(countd_incr(c, "k", 1, "x", 1, 1), 0);
    assert_rc(countd_finish(c, WAIT_MS), 0);

    assert_rc(countd_live_open(&live, &lo), 0);
    assert_rc(countd_acquire(live, "n", 1, 1, 1), 0);
    countd_live_close(live);
    assert_rc(countd_http_open(&http, &ho), 0);
    assert_rc(countd_quota(http, NULL, COUNTD_QUOTA_QUERY, 0, NULL, &answer),
              0);
    countd_http_close(http);

    o.directory = "";
    assert_rc(countd_open(&c, &o), -EINVAL);
}

/* ---- which place -------------------------------------------------------- */

CASE(a_squatter_on_the_port_gets_nothing, f)
{
    char conf[2048], path[700], setting[128];
    uint16_t port;
    const int squatter = client_listen(&port);

    snprintf(conf, sizeof conf,
             "data_dir = %s\nwrite.ack_listen = 127.0.0.1:%u\n", f->a, port);
    tmpdir_put(&f->dir, "countd.conf", conf, strlen(conf), 0644);
    snprintf(path, sizeof path, "%s/countd.conf", f->dir.path);
    serve_data(&f->first, f->a, "log.count=2");
    expect_text(COUNTD("-f", path, "incr", "k", "x", "2"), 0, "");
    assert_int_equal(daemon_stop(&f->first), 0);
    expect(COUNTD("-f", path, "incr", "k", "x"), 111, "does not serve ");
    expect(COUNTD("-d", f->a, "incr", "k", "x"), 111, "does not serve ");
    assert_int_equal(accept4(squatter, NULL, NULL, SOCK_CLOEXEC), -1);
    assert_int_equal(errno, EAGAIN);

    /* It is asked by who names it. */
    snprintf(setting, sizeof setting, "write.ack_listen=127.0.0.1:%u", port);
    expect(COUNTD("-d", f->a, "-o", setting, "incr", "k", "x", "--timeout",
                  "10ms"),
           111, strchr(setting, '=') + 1);
    assert_true(accept4(squatter, NULL, NULL, SOCK_CLOEXEC) >= 0);
    assert_int_equal(close(squatter), 0);
}

/* No option, no settings: ./data, if its sockets are of this user. */
CASE(without_options_the_store_of_the_current_folder_is_used, f)
{
    char program[600], data[1100];

    if (geteuid() == 0)
        assert_int_equal(fchown(f->dir.fd, 65534, 65534), 0);
    daemon_path("countd", program, sizeof program);
    snprintf(data, sizeof data, "%s/data", f->dir.path);
    serve_data(&f->first, data, "log.count=2");
    expect_text(COUNTD("-d", data, "incr", "k", "x", "6"), 0, "");
    expect_text(COUNTD("-d", data, "-o", user_setting(), "flush"), 0, "");
#define UNSERVED "read.http = 127.0.0.1:1\n"
#define HERE(...)                                                              \
    daemon_run(text, sizeof text, "/usr/bin/env", "-C", f->dir.path,           \
               "COUNTD_CONF=", __VA_ARGS__, NULL)
    if (geteuid() != 0) {
        expect_text(HERE(program, "get", "k", "x"), 0, "6\n");
        return;
    }
    expect_text(HERE("setpriv", "--reuid", USER, "--regid", USER,
                     "--clear-groups", program, "get", "k", "x"),
                0, "6\n");
    /* Root would be answered by whoever made the folder it stands in.  The
     * port is one that nothing serves: the default may be another store's. */
    tmpdir_put(&f->dir, "conf", UNSERVED, strlen(UNSERVED), 0644);
    expect(HERE("COUNTD_CONF=conf", program, "get", "k", "x"), 111,
           "countd-read at 127.0.0.1:1 does not answer");
#undef HERE
#undef UNSERVED
}

/* ---- who serves --------------------------------------------------------- */

CASE(a_second_reader_serves_its_port_only, f)
{
    char read[64];

    serve_data(&f->first, f->a, "log.count=2");
    use_store(f->a, "5");
    daemon_start(&f->second, "countd-read", "-d", f->a, "-o",
                 "read.listen=127.0.0.1:0", "-o", user_setting(), NULL);
    assert_has(daemon_text(&f->second),
               "/a/socket/read is served by another process; "
               "this one serves its port alone");
    snprintf(read, sizeof read, "read.http=127.0.0.1:%u",
             daemon_port(&f->second, "read-http"));
    expect_text(COUNTD("-o", read, "get", "k", "x"), 0, "5\n");
    assert_int_equal(daemon_stop(&f->second), 0);
    expect_text(COUNTD("-d", f->a, "get", "k", "x"), 0, "5\n");

    expect(daemon_run(text, sizeof text, "countd-read", "-d", f->a, "-o",
                      "read.listen=socket", "-o", user_setting(), NULL),
           111, "/a/socket/read is served by another process: stop that one");
}

/* ---- who may connect ---------------------------------------------------- */

static void
expect_mode(const char *data, const char *name, mode_t mode)
{
    char path[1200];
    struct stat st;

    snprintf(path, sizeof path, "%s%s", data, name);
    assert_int_equal(stat(path, &st), 0);
    if ((st.st_mode & 0777) != mode)
        print_error("%s: mode %04o\n", path, (unsigned)st.st_mode & 0777);
    assert_int_equal(st.st_mode & 0777, mode);
}

CASE(the_owner_alone_may_use_the_sockets, f)
{
    serve_data(&f->first, f->a, "socket.group=");
    expect_mode(f->a, "", 0700);
    expect_mode(f->a, "/socket", 0700);
    expect_mode(f->a, "/socket/ack", 0600);
    expect_mode(f->a, "/socket/read", 0600);
}

/* As another user, who is a member of this group. */
#define AS(user, group, ...)                                                   \
    daemon_run(text, sizeof text, "/usr/bin/env", "setpriv", "--reuid", user,  \
               "--regid", user, "--groups", group, program, __VA_ARGS__, NULL)

CASE(members_of_the_group_may_use_the_sockets, f)
{
    char program[600];

    if (geteuid() != 0)
        test_skip("needs root to become another user");
    if (daemon_run(NULL, 0, "/usr/bin/env", "setpriv", "--version", NULL) != 0)
        test_skip("needs setpriv to become a member of a group");
    daemon_path("countd", program, sizeof program);
    if (daemon_run(NULL, 0, "/usr/bin/env", "setpriv", "--reuid", MEMBER,
                   "--regid", MEMBER, "--clear-groups", program, "-V",
                   NULL) != 0)
        test_skip("another user may not run the programs here");
    serve_data(&f->first, f->a, "socket.group=" GROUP);
    expect_mode(f->a, "", 0710);
    expect_mode(f->a, "/socket", 0750);
    expect_mode(f->a, "/socket/ack", 0660);

    expect_text(AS(MEMBER, GROUP, "-d", f->a, "incr", "k", "x", "9"), 0, "");
    expect_text(AS(MEMBER, GROUP, "-d", f->a, "flush"), 0, "");
    expect_text(AS(MEMBER, GROUP, "-d", f->a, "get", "k", "x"), 0, "9\n");
    expect(AS(MEMBER, GROUP, "-d", f->a, "drop", "k"), 100,
           " belongs to user ");
    expect(AS(MEMBER, STRANGER, "-d", f->a, "incr", "k", "x"), 111,
           "user id " MEMBER " may not use ");
    expect(AS(MEMBER, STRANGER, "-d", f->a, "get", "k", "x"), 111,
           "or set socket.group");
}

CASE(a_group_that_cannot_be_given_is_refused, f)
{
    expect(daemon_run(text, sizeof text, "countd-write", "-d", f->a, NO_PORTS,
                      "-o", user_setting(), "-o", "socket.group=no-such-group",
                      NULL),
           100, "socket.group=no-such-group: there is no such group");
    if (geteuid() == 0)
        return; /* who may give anything to any group */
    expect(daemon_run(text, sizeof text, "countd-write", "-d", f->a, NO_PORTS,
                      "-o", user_setting(), "-o", "socket.group=" GROUP, NULL),
           100, "must be a member of it");
}

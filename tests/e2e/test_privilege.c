/* tests/e2e/test_privilege.c - daemons that root starts become another user:
 * what the kernel says of them, whose their files are, what is refused. */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/setup/config.h"
#include "tests/lib/client.h"
#include "tests/lib/service.h"

#define NOBODY      65534
#define NOBODY_TEXT "65534"
#define WAIT_MS     20000

struct site {
    struct tmpdir dir; /* may be entered by all, is root's */
    char data[600];    /* below it; not there yet */
};

static int
setup(void **state)
{
    static struct site s;

    tmpdir_make(&s.dir);
    assert_int_equal(fchmod(s.dir.fd, 0711), 0);
    snprintf(s.data, sizeof s.data, "%s/data", s.dir.path);
    *state = &s;
    return 0;
}

static int
teardown(void **state)
{
    tmpdir_remove(&((struct site *)*state)->dir);
    return 0;
}

#define AT_SITE(name, s) TEST_IN(name, struct site *s, setup, teardown)

#define NEEDS_ROOT()                                                           \
    do {                                                                       \
        if (geteuid() != 0)                                                    \
            test_skip("needs root to become another user");                    \
    } while (0)

/* ---- what the kernel says ---------------------------------------------- */

static void
assert_line(const char *status, const char *line)
{
    if (strstr(status, line) == NULL)
        print_error("no \"%s\" in:\n%s\n", line, status);
    assert_non_null(strstr(status, line));
}

/* Each thread: user and group are nobody's four times over, no other groups,
 * no capability of any sort, and no way to get one. */
static void
assert_has_nothing(pid_t pid)
{
    static const char *const lines[] = {
        "\nUid:\t" NOBODY_TEXT "\t" NOBODY_TEXT "\t" NOBODY_TEXT
        "\t" NOBODY_TEXT "\n",
        "\nGid:\t" NOBODY_TEXT "\t" NOBODY_TEXT "\t" NOBODY_TEXT
        "\t" NOBODY_TEXT "\n",
        "\nGroups:\t \n",
        "\nCapInh:\t0000000000000000\n",
        "\nCapPrm:\t0000000000000000\n",
        "\nCapEff:\t0000000000000000\n",
        "\nCapAmb:\t0000000000000000\n",
        "\nNoNewPrivs:\t1\n",
    };
    char pattern[64], status[4096];
    glob_t found;

    snprintf(pattern, sizeof pattern, "/proc/%d/task/*/status", (int)pid);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *f = fopen(found.gl_pathv[i], "re");
        size_t size;

        assert_non_null(f);
        size = fread(status, 1, sizeof status - 1, f);
        status[size] = '\0';
        assert_int_equal(fclose(f), 0);
        for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++)
            assert_line(status, lines[k]);
    }
    globfree(&found);
}

static size_t files_seen;

static int
check_owner(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)type; /* all the same */
    (void)ftw;  /* not needed */
    files_seen++;
    if (st->st_uid != NOBODY || st->st_gid != NOBODY)
        print_error("%s is %u:%u's\n", path, (unsigned)st->st_uid,
                    (unsigned)st->st_gid);
    return st->st_uid != NOBODY || st->st_gid != NOBODY;
}

static void
assert_all_is_nobodys(const char *path, size_t least)
{
    files_seen = 0;
    assert_int_equal(nftw(path, check_owner, 16, FTW_PHYS), 0);
    assert_true(files_seen >= least);
}

/* ---- becoming the user ------------------------------------------------- */

static void
begin(struct fleet *f, const struct site *s)
{
    fleet_init_at(f, s->data);
    fleet_option(f, "user=" NOBODY_TEXT);
}

static void
count(struct fleet *f, unsigned times)
{
    const int fd = client_connect(fleet_ack_port(f));

    for (unsigned i = 0; i < times; i++)
        client_increment(fd, "pages", "/index", 1);
    client_wins(fd, times);
    client_close(fd);
}

static void
expect_count(struct fleet *f, int64_t wanted)
{
    const int64_t now = (int64_t)clock_unix_ms();
    const int fd = client_connect(fleet_read_port(f));
    int64_t got = 0;

    client_await_merge(fd, "pages", now, WAIT_MS);
    assert_true(client_get(fd, "pages", "/index", &got));
    assert_int_equal(got, wanted);
    client_close(fd);
}

AT_SITE(all_three_serve_as_the_user_and_all_files_are_the_users, s)
{
    struct fleet f;
    char said[8192];

    NEEDS_ROOT();
    begin(&f, s);
    service_start(&f);
    count(&f, 100);
    expect_count(&f, 100);

    assert_has_nothing(fleet_daemon(&f, FLEET_WRITE)->pid);
    assert_has_nothing(fleet_daemon(&f, FLEET_WORKER)->pid);
    assert_has_nothing(fleet_daemon(&f, FLEET_READ)->pid);
    fleet_stop_all(&f);
    assert_all_is_nobodys(s->data, 10);
    (void)daemon_output(fleet_daemon(&f, FLEET_WRITE), said, sizeof said);
    assert_non_null(strstr(said, "messages=100")); /* it may still say things */
    assert_null(strstr(said, "root"));
    fleet_fini(&f);
}

/* A port below 1024 that is free now; another test may be faster. */
static uint16_t
low_port(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    for (unsigned i = 0; i < 400; i++) {
        const uint16_t port = (uint16_t)(600 + ((unsigned)getpid() + i) % 400);
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int rc;

        assert_true(fd >= 0);
        in.sin_port = htons(port);
        rc = bind(fd, (const struct sockaddr *)&in, sizeof in);
        assert_int_equal(close(fd), 0);
        if (rc == 0)
            return port;
    }
    fail_msg("no port below 1024 is free");
    return 0;
}

AT_SITE(ports_that_only_root_may_have_are_bound_first, s)
{
    char option[64];
    struct fleet f;

    NEEDS_ROOT();
    begin(&f, s);
    snprintf(option, sizeof option, "write.ack_listen=127.0.0.1:%u",
             low_port());
    fleet_option(&f, option);
    fleet_start(&f, FLEET_WRITE);
    fleet_start(&f, FLEET_WORKER);
    snprintf(option, sizeof option, "read.listen=127.0.0.1:%u", low_port());
    fleet_option(&f, option);
    fleet_start(&f, FLEET_READ);

    assert_true(fleet_ack_port(&f) < 1024 && fleet_read_port(&f) < 1024);
    assert_has_nothing(fleet_daemon(&f, FLEET_WRITE)->pid);
    assert_has_nothing(fleet_daemon(&f, FLEET_READ)->pid);
    count(&f, 3);
    expect_count(&f, 3);
    fleet_stop_all(&f);
    fleet_fini(&f);
}

AT_SITE(what_was_killed_is_started_by_root_again_and_recovers, s)
{
    struct fleet f;

    NEEDS_ROOT();
    begin(&f, s);
    service_start(&f);
    for (unsigned round = 1; round <= 3; round++) {
        count(&f, 500);
        daemon_kill(fleet_daemon(&f, FLEET_WORKER));
        daemon_kill(fleet_daemon(&f, FLEET_WRITE));
        fleet_start(&f, FLEET_WORKER);
        fleet_start(&f, FLEET_WRITE);
        expect_count(&f, 500 * (int64_t)round);
    }
    assert_has_nothing(fleet_daemon(&f, FLEET_WORKER)->pid);
    fleet_stop_all(&f);
    assert_all_is_nobodys(s->data, 10);
    tmpdir_chown(&s->dir, 0); /* so that we may look */
    fleet_check(&f);
    fleet_fini(&f);
}

AT_SITE(a_directory_that_is_the_users_already_is_used, s)
{
    struct fleet f;

    NEEDS_ROOT();
    assert_int_equal(mkdir(s->data, 0700), 0);
    assert_int_equal(chown(s->data, NOBODY, NOBODY), 0);
    begin(&f, s);
    fleet_start(&f, FLEET_WORKER); /* the worker makes the folders, too */
    fleet_start(&f, FLEET_WRITE);
    fleet_start(&f, FLEET_READ);
    count(&f, 2);
    expect_count(&f, 2);
    fleet_stop_all(&f);
    assert_all_is_nobodys(s->data, 10);
    fleet_fini(&f);
}

/* ---- what is refused --------------------------------------------------- */

static char text[8192];

/* Starts a daemon that is to refuse, with 100 and these words. */
static void
expect_refusal(const struct site *s, const char *program, uid_t uid,
               const char *user, const char *words)
{
    const char *const argv[] = {"-d", s->data, "--user", user, NULL};
    const struct daemon_how how = {.argv = argv, .uid = uid};

    assert_int_equal(daemon_run_how(text, sizeof text, program, &how),
                     CONFIG_EXIT_USAGE);
    if (strstr(text, words) == NULL)
        print_error("%s does not say \"%s\" but:\n%s\n", program, words, text);
    assert_non_null(strstr(text, words));
}

AT_SITE(a_user_that_is_none_is_refused, s)
{
    static const char *const none[] = {"no-such-user", "65534x", "-1",
                                       "4294967295", "99999999999999999999"};

    NEEDS_ROOT();
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        expect_refusal(s, "countd-write", 0, none[i],
                       ": there is no such user; make one (useradd ");
    expect_refusal(s, "countd-worker", 0, "no-such-user", "no such user");
    expect_refusal(s, "countd-read", 0, "no-such-user", "no such user");
    assert_int_equal(access(s->data, F_OK), -1); /* nothing was made */
}

AT_SITE(a_directory_of_another_owner_is_refused_with_what_to_do, s)
{
    static const char *const programs[] = {"countd-write", "countd-worker",
                                           "countd-read"};
    char words[1000];

    NEEDS_ROOT();
    assert_int_equal(mkdir(s->data, 0700), 0);
    for (size_t i = 0; i < 3; i++) {
        snprintf(words, sizeof words,
                 "%s belongs to user root and this process runs as nobody; run "
                 "it as that user: sudo -u 'root' %s ... (daemons: set user)\n",
                 s->data, programs[i]);
        expect_refusal(s, programs[i], 0, NOBODY_TEXT, words);
    }
    assert_int_equal(chown(s->data, NOBODY, NOBODY), 0);
    for (size_t i = 0; i < 3; i++)
        expect_refusal(s, programs[i], 0, "root",
                       "run it as that user: sudo -u 'nobody' ");
}

AT_SITE(a_directory_that_the_user_cannot_get_to_is_refused, s)
{
    NEEDS_ROOT();
    assert_int_equal(fchmod(s->dir.fd, 0700), 0);
    expect_refusal(s, "countd-write", 0, NOBODY_TEXT,
                   "let that user through each folder above");
    expect_refusal(s, "countd-read", 0, NOBODY_TEXT,
                   "each folder above it must let user id 65534 through");
}

AT_SITE(who_is_not_root_may_name_only_himself, s)
{
    const uid_t uid = geteuid() == 0 ? NOBODY : 0; /* 0: as we are */
    struct fleet f;
    char option[64];

    if (uid != 0)
        tmpdir_chown(&s->dir, uid);
    expect_refusal(s, "countd-write", uid, "root",
                   "only root can become another");
    expect_refusal(s, "countd-worker", uid, "0",
                   "only root can become another");
    expect_refusal(s, "countd-read", uid, "0", "only root can become another");

    fleet_init_at(&f, s->data);
    f.uid = uid;
    snprintf(option, sizeof option, "user=%u",
             uid != 0 ? (unsigned)uid : (unsigned)geteuid());
    fleet_option(&f, option);
    service_start(&f);
    count(&f, 2);
    expect_count(&f, 2);
    if (uid == NOBODY)
        assert_has_nothing(fleet_daemon(&f, FLEET_WRITE)->pid);
    fleet_stop_all(&f);
    fleet_fini(&f);
}

/* ---- root that stays root ---------------------------------------------- */

static size_t
warnings(const struct daemon *d)
{
    size_t times = 0;

    (void)daemon_output(d, text, sizeof text);
    for (const char *at = text; (at = strstr(at, "runs as root")) != NULL; at++)
        times++;
    return times;
}

AT_SITE(root_is_warned_once_unless_it_is_meant, s)
{
    struct daemon d;

    NEEDS_ROOT();
    daemon_start(&d, "countd-worker", "-d", s->data, NULL);
    assert_int_equal(daemon_stop(&d), 0);
    assert_int_equal(warnings(&d), 1);
    assert_non_null(strstr(text, "set user"));
    daemon_fini(&d);

    daemon_start(&d, "countd-worker", "-d", s->data, "-u", "root", NULL);
    assert_int_equal(daemon_stop(&d), 0);
    assert_int_equal(warnings(&d), 0);
    daemon_fini(&d);
}

/* ---- countd serve ------------------------------------------------------ */

#define CHILDREN 3

static void
serve(struct daemon *d, const struct site *s, const char *option,
      const char *value, pid_t children[CHILDREN])
{
    char path[64], line[256];
    FILE *f;

    daemon_start(d, "countd", "serve", "-d", s->data, "-o",
                 "write.listen=127.0.0.1:0", "-o",
                 "write.ack_listen=127.0.0.1:0", "-o",
                 "read.listen=127.0.0.1:0", option, value, NULL);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)d->pid,
             (int)d->pid);
    f = fopen(path, "re");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_int_equal(fclose(f), 0);
    assert_int_equal(
        sscanf(line, "%d %d %d", &children[0], &children[1], &children[2]),
        CHILDREN);
}

AT_SITE(serve_passes_the_user_on_and_warns_once_without, s)
{
    pid_t children[CHILDREN];
    struct daemon d;

    NEEDS_ROOT();
    serve(&d, s, "-u", NOBODY_TEXT, children);
    for (size_t i = 0; i < CHILDREN; i++)
        assert_has_nothing(children[i]);
    assert_int_equal(daemon_stop(&d), 0);
    assert_int_equal(warnings(&d), 0);
    assert_all_is_nobodys(s->data, 10);
    daemon_fini(&d);

    serve(&d, s, "-o", "user=" NOBODY_TEXT, children);
    assert_has_nothing(children[0]);
    assert_int_equal(daemon_stop(&d), 0);
    daemon_fini(&d);

    tmpdir_chown(&s->dir, 0);
    serve(&d, s, "-o", "log.count=4", children);
    assert_int_equal(daemon_stop(&d), 0);
    assert_int_equal(warnings(&d), 1);
    daemon_fini(&d);
}

/* Else what root makes there would be in the daemons' way, or root would be
 * told to take the directory from them. */
AT_SITE(commands_of_root_on_the_directory_become_its_user, s)
{
    char read[64], ack[64], copy[700];
    pid_t children[CHILDREN];
    struct daemon d;

    NEEDS_ROOT();
    serve(&d, s, "-u", NOBODY_TEXT, children);
    snprintf(read, sizeof read, "read.listen=127.0.0.1:%u",
             daemon_port(&d, "read"));
    snprintf(ack, sizeof ack, "write.ack_listen=127.0.0.1:%u",
             daemon_port(&d, "ack"));
    snprintf(copy, sizeof copy, "%s/copy", s->dir.path);
#define ROOT(...)                                                              \
    do {                                                                       \
        const int status = daemon_run(text, sizeof text, "countd", "-d",       \
                                      s->data, "-o", read, "-o", ack, "-o",    \
                                      "user=" NOBODY_TEXT, __VA_ARGS__, NULL); \
                                                                               \
        if (status != 0)                                                       \
            print_error("%s\n", text);                                         \
        assert_int_equal(status, 0);                                           \
    } while (0)
    ROOT("incr", "a", "b");
    ROOT("flush");
    ROOT("check");
    ROOT("backup", copy);
    ROOT("del", "a", "b");
#undef ROOT
    assert_int_equal(daemon_stop(&d), 0);
    assert_all_is_nobodys(s->data, 10);
    assert_all_is_nobodys(copy, 2);
    daemon_fini(&d);
}

/* The kernel forgets that wish when the user changes. */
AT_SITE(daemons_of_a_killed_serve_end_though_they_are_another_user, s)
{
    pid_t children[CHILDREN];
    struct daemon d;

    NEEDS_ROOT();
    serve(&d, s, "-u", NOBODY_TEXT, children);
    /* Orphans become ours, so that their end can be waited for. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    daemon_kill(&d);
    for (size_t i = 0; i < CHILDREN; i++) {
        const int fd = pidfd_open(children[i], 0);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int status;

        assert_true(fd >= 0);
        assert_int_equal(poll(&p, 1, (int)(WAIT_MS * test_slow())), 1);
        assert_int_equal(close(fd), 0);
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    daemon_fini(&d);
}

/* tests/unit/test_postgresql_trouble.c - troubles of a PostgreSQL server: each has
 * its error, its words and its figure, and nothing counts twice through it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/setup/figures.h"
#include "tests/lib/counted.h"
#include "tests/lib/daemon.h"
#include "tests/lib/pg_store.h"
#include "tests/lib/stored.h"

static bool mounts; /* file systems can be mounted */

/* The first server of the program sees what is mounted later. */
static int
setup(void **state)
{
    struct pg_store *x;

    mounts = mounts || (geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
                        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    pg_server_without_checksums();
    x = pg_store_setup(state);
    if (!x)
        return 0;
    x->options.quiet = true;
    pg_store_open(x);
    return 0;
}

#define CASE(name, x) PG_STORE(name, x, setup)

/* As another role, or with other options, if `more` is not "". */
static void
open_with(struct pg_store *x, const char *more)
{
    (void)snprintf(x->settings.store_conninfo,
                   sizeof x->settings.store_conninfo, "%s %s",
                   pg_server_conninfo(), more);
    pg_store_open(x);
}

static int64_t
figure_of(struct pg_store *x, enum status_figure figure)
{
    int64_t values[STATUS_FIGURES];

    postgresql_store_figures(x->s, values);
    return values[figure];
}

/* ---- what ends a merge ------------------------------------------------------ */

#define TRIGGER(when, body)                                                    \
    "CREATE FUNCTION @.f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN " body  \
    "; RETURN NEW; END$$; CREATE " when " ON @.counter " TRIGGER_END
#define TRIGGER_END "FOR EACH ROW EXECUTE FUNCTION @.f()"
#define NO_TRIGGER  "DROP FUNCTION @.f CASCADE"
#define LIMITED     "user=limited"
#define NO_FIGURE   STATUS_M_LAST_ERROR

/* `end` NULL: `begin` is a setting of the server, and off is the trouble. */
static const struct trouble {
    const char *begin, *end, *role;
    int rc;
    const char *words;
    enum status_figure figure;
} troubles[] = {
    {"ALTER ROLE limited CONNECTION LIMIT 0",
     "ALTER ROLE limited CONNECTION LIMIT -1", LIMITED, -EHOSTDOWN,
     "too many connections", STATUS_M_DB_DOWN},
    {"", "", "host=/nowhere", -EHOSTDOWN, "/nowhere", STATUS_M_DB_DOWN},
    {"", "", "dbname=nothing", -EHOSTDOWN, "does not exist", STATUS_M_DB_DOWN},
    {"", "", "nonsense=1", -EPERM, "nonsense", STATUS_M_DB_REFUSED},
    {"ALTER ROLE limited NOLOGIN", "ALTER ROLE limited LOGIN", LIMITED,
     -EHOSTDOWN, "not permitted to log in", STATUS_M_DB_DOWN},
    {"REVOKE ALL ON @.meta FROM limited", "GRANT SELECT ON @.meta TO limited",
     LIMITED, -EPERM, "permission denied", STATUS_M_DB_REFUSED},
    {"REVOKE UPDATE ON @.mark FROM limited",
     "GRANT UPDATE ON @.mark TO limited", LIMITED, -EPERM, "permission denied",
     STATUS_M_DB_REFUSED},
    {"ALTER TABLE @.band RENAME TO gone", "ALTER TABLE @.gone RENAME TO band",
     LIMITED, -EPERM, "run countd store init", STATUS_M_DB_REFUSED},
    {"UPDATE @.meta SET version = 999", "UPDATE @.meta SET version = 1",
     LIMITED, -EPERM, "are of version 999", STATUS_M_DB_REFUSED},
    {"ALTER ROLE limited SET default_transaction_read_only = on",
     "ALTER ROLE limited RESET default_transaction_read_only", LIMITED,
     -EHOSTDOWN, "read-only", STATUS_M_DB_READ_ONLY},
    {"ALTER ROLE limited SET default_transaction_read_only = on",
     "ALTER ROLE limited RESET default_transaction_read_only",
     LIMITED " target_session_attrs=any", -EHOSTDOWN, "the server is read-only",
     STATUS_M_DB_READ_ONLY},
    {"fsync", NULL, "", -EPERM, "fsync or full_page_writes",
     STATUS_M_DB_UNSAFE},
    {"full_page_writes", NULL, "", -EPERM, "fsync or full_page_writes",
     STATUS_M_DB_UNSAFE},
    {TRIGGER("TRIGGER t BEFORE INSERT",
             "RAISE 'a page is bad' USING errcode = 'XX001'"),
     NO_TRIGGER, LIMITED, -EIO, "a page is bad", STATUS_M_DB_DAMAGED},
    {TRIGGER("TRIGGER t BEFORE INSERT", "PERFORM pg_sleep(60)"), NO_TRIGGER,
     LIMITED, -EHOSTDOWN, "statement timeout", NO_FIGURE},
    {TRIGGER("TRIGGER t BEFORE INSERT", "PERFORM pg_terminate_backend("
                                        "pg_backend_pid())"),
     NO_TRIGGER, LIMITED, -EHOSTDOWN, "connection", NO_FIGURE},
    {"CREATE FUNCTION @.f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE "
     "'not at the end'; END$$; CREATE CONSTRAINT TRIGGER t AFTER INSERT ON "
     "@.counter INITIALLY DEFERRED " TRIGGER_END,
     NO_TRIGGER, LIMITED, -EIO, "not at the end", NO_FIGURE},
};

static void
set_trouble(const struct trouble *t, bool is_there)
{
    if (!t->end)
        pg_server_set(t->begin, is_there ? "off" : "on");
    else if (t->begin[0] != '\0')
        (void)pg_server_run("%s", is_there ? t->begin : t->end);
}

static void
go_through(struct pg_store *x, const struct trouble *t, uint64_t number)
{
    const struct log_fill fill = pg_store_fill(number);
    char key[16];

    (void)snprintf(key, sizeof key, "k%d", (int)number);
    set_trouble(t, true);
    open_with(x, t->role);
    assert_rc(stored_add(x->s, KS_NAME, &fill, key, 5), t->rc);
    assert_has(store_trouble(x->s), t->words);
    for (int i = STATUS_M_DB_DOWN; i <= STATUS_M_DB_UNSAFE; i++)
        if (figure_of(x, (enum status_figure)i) != (i == (int)t->figure))
            fail_msg("%s: %s is %d", t->words, figures[i].name,
                     i != (int)t->figure);
    set_trouble(t, false);
    open_with(x, t->begin[0] != '\0' ? t->role : "");
    assert_rc(stored_add(x->s, KS_NAME, &fill, key, 5), 0);
    assert_rc(stored_add(x->s, KS_NAME, &fill, key, 5), 0);
    assert_int_equal(get_one(x->s, KS_NAME, key), 5);
}

CASE(each_trouble_has_its_error_words_and_figure, x)
{
    const size_t count = sizeof troubles / sizeof troubles[0];

    (void)pg_server_run("CREATE ROLE limited LOGIN");
    (void)pg_server_run("GRANT USAGE ON SCHEMA @ TO limited; GRANT ALL ON ALL "
                        "TABLES IN SCHEMA @ TO limited");
    x->settings.store_timeout_ms = 600 * test_slow();
    for (size_t i = 0; i < count; i++)
        go_through(x, &troubles[i], i + 1);
    check_clean(x->s);
}

/* ---- a disk that is full ------------------------------------------------------ */

static void
chown_to_server(const char *path)
{
    struct stat st;

    assert_int_equal(stat(pg_server_path(), &st), 0);
    assert_int_equal(chown(path, st.st_uid, st.st_gid), 0);
}

/* Merges until the disk is full; returns the fill that it happened to. */
static struct log_fill
fill_disk(struct store *s, struct store_delta *deltas, char (*keys)[8])
{
    for (int n = 1; n < 100; n++) {
        const struct log_fill fill = pg_store_fill((uint64_t)n);
        int rc;

        for (int i = 0; i < 1000; i++) {
            (void)snprintf(keys[i], sizeof keys[i], "%03d%04d", n, i);
            deltas[i] = stored_delta(keys[i], 7, 0, 1);
        }
        rc = stored_apply(s, KS_NAME, &fill, deltas, 1000);
        if (rc == 0)
            continue;
        assert_rc(rc, -ENOSPC);
        return fill;
    }
    fail_msg("the disk is never full");
    return pg_store_fill(0);
}

CASE(a_database_whose_disk_is_full_takes_the_merge_later, x)
{
    static struct store_delta deltas[1000];
    static char keys[1000][8];
    struct tmpdir dir;
    struct log_fill fill;
    char path[600];

    if (!mounts)
        test_skip("only root can mount a small file system");
    tmpdir_make_in_memory(&dir);
    (void)snprintf(path, sizeof path, "%s/small", dir.path);
    assert_int_equal(chmod(dir.path, 0755), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mount("countd", path, "tmpfs", 0, "size=1m"), 0);
    chown_to_server(path);
    (void)pg_server_run("CREATE TABLESPACE small LOCATION '%s'", path);
    (void)pg_server_run("ALTER TABLE @.counter SET TABLESPACE small");

    fill = fill_disk(x->s, deltas, keys);
    assert_int_equal(figure_of(x, STATUS_M_DB_FULL), 1);
    assert_has(store_trouble(x->s), "No space left");
    assert_rc(stored_apply(x->s, KS_NAME, &fill, deltas, 1000), -ENOSPC);
    assert_int_equal(mount("countd", path, "tmpfs", MS_REMOUNT, "size=64m"), 0);
    assert_rc(stored_apply(x->s, KS_NAME, &fill, deltas, 1000), 0);
    assert_int_equal(get_one(x->s, KS_NAME, keys[999]), 1);
    check_clean(x->s);

    (void)pg_server_run("ALTER TABLE @.counter SET TABLESPACE pg_default");
    (void)pg_server_run("DROP TABLESPACE small");
    assert_int_equal(umount2(path, MNT_DETACH), 0);
    tmpdir_remove(&dir);
}

CASE(a_session_is_set_up_whatever_options_the_user_has, x)
{
    char options[1300] = "options='";

    for (int i = 0; i < 90; i++)
        (void)strcat(options, " -c geqo=off");
    (void)strcat(options, " -c search_path=nowhere'");
    open_with(x, options);
    assert_rc(stored_add(x->s, KS_NAME, NULL, "the", 1), 0);
}

/* Connections to the first host are taken by its kernel alone. */
CASE(a_host_that_is_silent_is_passed_over, x)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct tmpdir dir;
    char hosts[700];

    tmpdir_make_in_memory(&dir);
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%.80s/.s.PGSQL.5432",
                   dir.path);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 4), 0);
    (void)snprintf(hosts, sizeof hosts, "host=%s,%s", dir.path,
                   pg_server_path());
    open_with(x, hosts);
    assert_rc(pg_store_connect(x->s), 0);
    assert_rc(stored_add(x->s, KS_NAME, NULL, "the", 1), 0);
    assert_int_equal(close(fd), 0);
    tmpdir_remove(&dir);
}

/* ---- a deadlock --------------------------------------------------------------- */

static PGconn *other;
static _Atomic int other_at; /* the worker's message at which it goes on */

/* The worker has the keyspace's row then, and wants the mark later. */
static bool
want_keyspace(bool from_server, char *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    if (!from_server && other_at > 0 && --other_at == 0)
        (void)PQsendQuery(other, "SELECT FROM keyspace FOR UPDATE");
    return true;
}

CASE(the_victim_of_a_deadlock_merges_again, x)
{
    const struct log_fill first = pg_store_fill(1), second = pg_store_fill(2);
    char through[700];

    assert_rc(stored_add(x->s, KS_NAME, &first, "the", 1), 0);
    other = pg_server_session("SET deadlock_timeout = '60s'; SET search_path = "
                              "@; BEGIN; SELECT FROM mark FOR UPDATE");
    pg_store_look(x, want_keyspace);
    (void)snprintf(through, sizeof through,
                   "host=%s options='-c deadlock_timeout=100ms'",
                   x->proxy.dir.path);
    open_with(x, through);
    assert_rc(pg_store_connect(x->s), 0);
    other_at = 2;
    assert_rc(stored_add(x->s, KS_NAME, &second, "the", 2), -EAGAIN);
    pg_server_session_end(other);
    assert_rc(stored_add(x->s, KS_NAME, &second, "the", 2), 0);
    assert_int_equal(get_one(x->s, KS_NAME, "the"), 3);
}

/* ---- what is looked at -------------------------------------------------------- */

static void
expect_level(struct pg_store *x, enum status_figure figure, int64_t value)
{
    open_with(x, "");
    assert_rc(pg_store_connect(x->s), 0);
    if (figure_of(x, figure) != value)
        fail_msg("%s is not %d", figures[figure].name, (int)value);
}

CASE(settings_that_lose_counts_are_figures, x)
{
    static const struct {
        const char *name, *value, *usual;
        enum status_figure figure;
        int64_t usually;
    } rows[] = {
        {"synchronous_commit", "off", "on", STATUS_M_DB_LOSSY, 0},
        {"autovacuum", "off", "on", STATUS_M_DB_NO_VACUUM, 0},
        {"synchronous_standby_names", "nobody", "", STATUS_M_DB_NO_STANDBY, 0},
        {"synchronous_standby_names", "nobody", "", STATUS_M_DB_NO_REPLICA, 1},
    };
    expect_level(x, STATUS_M_DB_NO_CHECKSUMS, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_level(x, rows[i].figure, rows[i].usually);
        pg_server_set(rows[i].name, rows[i].value);
        expect_level(x, rows[i].figure, !rows[i].usually);
        pg_server_set(rows[i].name, rows[i].usual);
    }
}

CASE(wal_that_a_slot_keeps_is_a_figure, x)
{
    pg_server_set("max_wal_size", "32MB");
    (void)pg_server_run(
        "SELECT pg_create_physical_replication_slot('gone', true)");
    expect_level(x, STATUS_M_DB_WAL_HELD, 0);
    for (int i = 0; i < 5; i++) {
        (void)pg_server_run("SELECT pg_logical_emit_message(false, 'a', 'b')");
        (void)pg_server_run("SELECT pg_switch_wal()");
    }
    (void)pg_server_run("CHECKPOINT");
    open_with(x, "");
    assert_rc(pg_store_connect(x->s), 0);
    assert_in_range(figure_of(x, STATUS_M_DB_WAL_HELD), 32 << 20, 256 << 20);
    (void)pg_server_run("SELECT pg_drop_replication_slot('gone')");
    expect_level(x, STATUS_M_DB_WAL_HELD, 0);
}

static uint64_t
applied_ms(void *ctx)
{
    (void)ctx; /* nothing is applied here */
    return 1;
}

CASE(directories_clocks_and_slow_commits_are_figures, x)
{
    const struct store_maintenance t = {.until_ns = UINT64_MAX,
                                        .applied_ms = applied_ms};
    expect_level(x, STATUS_M_DB_SILENT, 0);
    expect_level(x, STATUS_M_DB_CLOCK_MS, 0);
    (void)pg_server_run("INSERT INTO @.sender VALUES ('a', 'a', 1, -5000, 1), "
                        "('b', 'b', 1, 3000, 9000000000000)");
    expect_level(x, STATUS_M_DB_SILENT, 1);
    expect_level(x, STATUS_M_DB_CLOCK_MS, 5000);

    (void)pg_server_run(
        "CREATE FUNCTION @.f() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END$$; CREATE "
        "TRIGGER t BEFORE INSERT ON @.sender " TRIGGER_END);
    x->options.sender = &x->dir;
    open_with(x, "");
    (void)store_maintain(x->s, &t);
    assert_in_range(figure_of(x, STATUS_M_DB_COMMIT_MS), 100, 60000);
}

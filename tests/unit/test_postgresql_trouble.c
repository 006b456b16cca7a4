/* tests/unit/test_postgresql_trouble.c - troubles of a PostgreSQL server: each has
 * its error, its words and its figure, and nothing counts twice through it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <libpq-fe.h>
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
#include "tests/lib/engines.h"
#include "tests/lib/pg_server.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

struct fixture {
    struct postgresql_options options;
    char conninfo[700];
    struct store *s; /* NULL: there is no server */
    int64_t figures[STATUS_FIGURES];
    bool mounts; /* file systems can be mounted */
};

/* The first server of the program sees what is mounted later. */
static int
setup(void **state)
{
    static struct fixture x;
    const bool mounts =
        x.mounts || (geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
                     mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);

    x = (struct fixture){.mounts = mounts};
    *state = &x;
    if (!pg_server_is_installed())
        return 0;
    pg_server_without_checksums();
    x.options = engine_postgresql_options();
    x.options.quiet = true;
    assert_rc(postgresql_store_open(&x.s, &x.options), 0);
    return 0;
}

static int
teardown(void **state)
{
    store_close(((struct fixture *)*state)->s);
    return 0;
}

#define CASE(name, x) PG_CASE(name, x, setup, teardown)

/* As another role, or with other options, if `more` is not "". */
static void
open_again(struct fixture *x, const char *more)
{
    store_close(x->s);
    (void)snprintf(x->conninfo, sizeof x->conninfo, "%s %s",
                   pg_server_conninfo(), more);
    x->options.conninfo = x->conninfo;
    assert_rc(postgresql_store_open(&x->s, &x->options), 0);
}

/* Runs SQL in which @ is the schema; if it is ALTER SYSTEM, waits until it is so.
 */
static void
run_sql(const struct fixture *x, const char *sql)
{
    char whole[1024], show[64], value[64];
    size_t at = 0;

    for (; *sql != '\0' && at + 64 < sizeof whole; sql++)
        if (*sql == '@')
            at += (size_t)snprintf(whole + at, 64, "%s", x->options.schema);
        else
            whole[at++] = *sql;
    whole[at] = '\0';
    if (whole[0] == '\0')
        return;
    (void)pg_server_run(whole);
    if (sscanf(whole, "ALTER SYSTEM SET %63[a-z_] = '%63[^']'", show + 0,
               value) != 2)
        return;
    (void)pg_server_run("SELECT pg_reload_conf()");
    (void)snprintf(whole, sizeof whole, "SHOW %s", show);
    pg_server_await(whole, value);
}

static int64_t
figure_of(struct fixture *x, enum status_figure figure)
{
    postgresql_store_figures(x->s, x->figures);
    return x->figures[figure];
}

static struct log_fill
fill_of(uint64_t epoch)
{
    return (struct log_fill){.uuid = {9}, .epoch = epoch, .first_ms = epoch};
}

/* ---- what ends a merge ------------------------------------------------------ */

#define TRIGGER(when, body)                                                    \
    "CREATE FUNCTION @.f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN " body  \
    "; RETURN NEW; END$$; CREATE " when " ON @.counter " TRIGGER_END
#define TRIGGER_END "FOR EACH ROW EXECUTE FUNCTION @.f()"
#define NO_TRIGGER  "DROP FUNCTION @.f CASCADE"
#define LIMITED     "user=limited"
#define NO_FIGURE   STATUS_M_LAST_ERROR

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
    {"ALTER SYSTEM SET fsync = 'off'", "ALTER SYSTEM SET fsync = 'on'", "",
     -EPERM, "fsync or full_page_writes", STATUS_M_DB_UNSAFE},
    {"ALTER SYSTEM SET full_page_writes = 'off'",
     "ALTER SYSTEM SET full_page_writes = 'on'", "", -EPERM,
     "fsync or full_page_writes", STATUS_M_DB_UNSAFE},
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
go_through(struct fixture *x, const struct trouble *t, uint64_t number)
{
    const struct log_fill fill = fill_of(number);
    char key[16];

    (void)snprintf(key, sizeof key, "k%d", (int)number);
    run_sql(x, t->begin);
    open_again(x, t->role);
    assert_rc(stored_add(x->s, KS_NAME, &fill, key, 5), t->rc);
    assert_has(store_trouble(x->s), t->words);
    for (int i = STATUS_M_DB_DOWN; i <= STATUS_M_DB_UNSAFE; i++)
        if (figure_of(x, (enum status_figure)i) != (i == (int)t->figure))
            fail_msg("%s: %s is %d", t->words, figures[i].name,
                     i != (int)t->figure);
    run_sql(x, t->end);
    open_again(x, t->begin[0] != '\0' ? t->role : "");
    assert_rc(stored_add(x->s, KS_NAME, &fill, key, 5), 0);
    assert_rc(stored_add(x->s, KS_NAME, &fill, key, 5), 0);
    assert_int_equal(get_one(x->s, KS_NAME, key), 5);
}

CASE(each_trouble_has_its_error_words_and_figure, x)
{
    const size_t count = sizeof troubles / sizeof troubles[0];

    (void)pg_server_run("CREATE ROLE limited LOGIN");
    run_sql(x, "GRANT USAGE ON SCHEMA @ TO limited; GRANT ALL ON ALL TABLES IN "
               "SCHEMA @ TO limited");
    x->options.timeout_ms = 600 * test_slow();
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
        const struct log_fill fill = fill_of((uint64_t)n);
        int rc;

        for (int i = 0; i < 1000; i++) {
            (void)snprintf(keys[i], sizeof keys[i], "%03d%04d", n, i);
            deltas[i] = (struct store_delta){
                .key = (const uint8_t *)keys[i], .key_size = 7, .sum_low = 1};
        }
        rc = stored_apply(s, KS_NAME, &fill, deltas, 1000);
        if (rc == 0)
            continue;
        assert_rc(rc, -ENOSPC);
        return fill;
    }
    fail_msg("the disk is never full");
    return fill_of(0);
}

CASE(a_database_whose_disk_is_full_takes_the_merge_later, x)
{
    static struct store_delta deltas[1000];
    static char keys[1000][8];
    struct tmpdir dir;
    struct log_fill fill;
    char path[600], sql[700];

    if (!x->mounts)
        test_skip("only root can mount a small file system");
    tmpdir_make_in_memory(&dir);
    (void)snprintf(path, sizeof path, "%s/small", dir.path);
    assert_int_equal(chmod(dir.path, 0755), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mount("countd", path, "tmpfs", 0, "size=1m"), 0);
    chown_to_server(path);
    (void)snprintf(sql, sizeof sql, "CREATE TABLESPACE small LOCATION '%s'",
                   path);
    (void)pg_server_run(sql);
    run_sql(x, "ALTER TABLE @.counter SET TABLESPACE small");

    fill = fill_disk(x->s, deltas, keys);
    assert_int_equal(figure_of(x, STATUS_M_DB_FULL), 1);
    assert_has(store_trouble(x->s), "No space left");
    assert_rc(stored_apply(x->s, KS_NAME, &fill, deltas, 1000), -ENOSPC);
    assert_int_equal(mount("countd", path, "tmpfs", MS_REMOUNT, "size=64m"), 0);
    assert_rc(stored_apply(x->s, KS_NAME, &fill, deltas, 1000), 0);
    assert_int_equal(get_one(x->s, KS_NAME, keys[999]), 1);
    check_clean(x->s);

    run_sql(x, "ALTER TABLE @.counter SET TABLESPACE pg_default");
    (void)pg_server_run("DROP TABLESPACE small");
    assert_int_equal(umount2(path, MNT_DETACH), 0);
    tmpdir_remove(&dir);
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
    open_again(x, hosts);
    assert_rc(postgresql_store_connect(x->s), 0);
    assert_rc(stored_add(x->s, KS_NAME, NULL, "the", 1), 0);
    assert_int_equal(close(fd), 0);
    tmpdir_remove(&dir);
}

/* ---- a deadlock --------------------------------------------------------------- */

static struct {
    PGconn *session;
    char sql[128];
} other;

/* The worker has the keyspace's row now, and wants the mark next. */
static void
want_keyspace(unsigned at)
{
    if (at == 5)
        assert_int_equal(PQsendQuery(other.session, other.sql), 1);
}

CASE(the_victim_of_a_deadlock_merges_again, x)
{
    const struct log_fill first = fill_of(1), second = fill_of(2);
    char sql[128];

    assert_rc(stored_add(x->s, KS_NAME, &first, "the", 1), 0);
    (void)snprintf(other.sql, sizeof other.sql,
                   "SELECT FROM %s.keyspace FOR UPDATE", x->options.schema);
    other.session = PQconnectdb(pg_server_conninfo());
    PQclear(PQexec(other.session, "SET deadlock_timeout = '60s'"));
    (void)snprintf(sql, sizeof sql, "BEGIN; SELECT FROM %s.mark FOR UPDATE",
                   x->options.schema);
    PQclear(PQexec(other.session, sql));
    x->options.step = want_keyspace;
    open_again(x, "options='-c deadlock_timeout=100ms'");
    assert_rc(stored_add(x->s, KS_NAME, &second, "the", 2), -EAGAIN);
    PQfinish(other.session);
    x->options.step = NULL;
    open_again(x, "");
    assert_rc(stored_add(x->s, KS_NAME, &second, "the", 2), 0);
    assert_int_equal(get_one(x->s, KS_NAME, "the"), 3);
}

/* ---- what is looked at -------------------------------------------------------- */

static void
expect_level(struct fixture *x, enum status_figure figure, int64_t value)
{
    open_again(x, "");
    assert_rc(postgresql_store_connect(x->s), 0);
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
    char sql[128];

    expect_level(x, STATUS_M_DB_NO_CHECKSUMS, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_level(x, rows[i].figure, rows[i].usually);
        (void)snprintf(sql, sizeof sql, "ALTER SYSTEM SET %s = '%s'",
                       rows[i].name, rows[i].value);
        run_sql(x, sql);
        expect_level(x, rows[i].figure, !rows[i].usually);
        (void)snprintf(sql, sizeof sql, "ALTER SYSTEM SET %s = '%s'",
                       rows[i].name, rows[i].usual);
        run_sql(x, sql);
        (void)pg_server_run("SELECT pg_reload_conf()");
        (void)snprintf(sql, sizeof sql, "SHOW %s", rows[i].name);
        pg_server_await(sql, rows[i].usual);
    }
}

CASE(wal_that_a_slot_keeps_is_a_figure, x)
{
    run_sql(x, "ALTER SYSTEM SET max_wal_size = '32MB'");
    (void)pg_server_run(
        "SELECT pg_create_physical_replication_slot('gone', true)");
    expect_level(x, STATUS_M_DB_WAL_HELD, 0);
    for (int i = 0; i < 5; i++) {
        (void)pg_server_run("SELECT pg_logical_emit_message(false, 'a', 'b')");
        (void)pg_server_run("SELECT pg_switch_wal()");
    }
    (void)pg_server_run("CHECKPOINT");
    open_again(x, "");
    assert_rc(postgresql_store_connect(x->s), 0);
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
    struct datadir dir;
    struct tmpdir tmp;

    expect_level(x, STATUS_M_DB_SILENT, 0);
    expect_level(x, STATUS_M_DB_CLOCK_MS, 0);
    run_sql(x, "INSERT INTO @.sender VALUES ('a', 'a', 1, -5000, 1), "
               "('b', 'b', 1, 3000, 9000000000000)");
    expect_level(x, STATUS_M_DB_SILENT, 1);
    expect_level(x, STATUS_M_DB_CLOCK_MS, 5000);

    run_sql(x, "CREATE FUNCTION @.f() RETURNS trigger LANGUAGE plpgsql AS "
               "$$BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END$$; CREATE "
               "TRIGGER t BEFORE INSERT ON @.sender " TRIGGER_END);
    tmpdir_make_in_memory(&tmp);
    dir.fd = tmp.fd;
    x->options.sender = &dir;
    open_again(x, "");
    (void)store_maintain(x->s, &t);
    assert_in_range(figure_of(x, STATUS_M_DB_COMMIT_MS), 100, 60000);
    tmpdir_remove(&tmp);
}

/* tests/lib/pg_server.c - see pg_server.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/pg_server.h"

#include <errno.h>
#include <glob.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/daemon.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

#define START_MS 30000
#define SQL_SIZE 2048

struct node {
    struct tmpdir dir;
    struct daemon daemon;
    char data[600], conninfo[600];
};

static struct {
    pid_t owner; /* a child of the program does not end the servers; 0: none */
    uid_t uid;
    struct node nodes[2]; /* the second one is made when it is asked for */
    char both[1200];
    int primary; /* which of them */
    bool on_disk, no_checksums;
    char schema[64];
} servers;

static struct node *
primary_node(void)
{
    return &servers.nodes[servers.primary];
}

static struct node *
other_node(void)
{
    return &servers.nodes[1 - servers.primary];
}

/* The path of a program of the newest version that is installed. */
static bool
find_program(const char *name, char *path, size_t size)
{
    char pattern[128];
    glob_t found;
    bool any;

    (void)snprintf(pattern, sizeof pattern, "/usr/lib/postgresql/*/bin/%s",
                   name);
    any = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0;
    if (any)
        (void)snprintf(path, size, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    return any;
}

bool
pg_server_is_installed(void)
{
    char path[512];

    return find_program("postgres", path, sizeof path) &&
           find_program("initdb", path, sizeof path);
}

static uid_t
choose_user(void)
{
    const struct passwd *p;

    if (geteuid() != 0)
        return 0;
    p = getpwnam("nobody");
    if (!p)
        fail_msg("there is no user nobody");
    return p->pw_uid;
}

/* Runs a program as the servers' user. */
static void
run_program(const char *program, const char *const *argv)
{
    const struct daemon_how how = {.argv = argv, .uid = servers.uid};
    char path[512], text[4096];

    if (!find_program(program, path, sizeof path))
        (void)snprintf(path, sizeof path, "/bin/%s", program);
    if (daemon_run_how(text, sizeof text, path, &how) != 0)
        fail_msg("%s: %s", program, text);
}

static void
make_node(struct node *n)
{
    if (servers.on_disk)
        tmpdir_make(&n->dir);
    else
        tmpdir_make_in_memory(&n->dir);
    if (servers.uid != 0)
        tmpdir_chown(&n->dir, servers.uid);
    (void)snprintf(n->data, sizeof n->data, "%s/data", n->dir.path);
    (void)snprintf(n->conninfo, sizeof n->conninfo,
                   "host=%s user=postgres dbname=postgres", n->dir.path);
}

static void
await_server(struct node *n)
{
    const uint64_t deadline = test_deadline(START_MS);
    const struct timespec pause = {.tv_nsec = 10000000};
    char text[4096];

    while (PQping(n->conninfo) != PQPING_OK) {
        if (clock_ms() >= deadline || !daemon_alive(&n->daemon)) {
            (void)daemon_output(&n->daemon, text, sizeof text);
            fail_msg("postgres does not start: %s", text);
        }
        (void)nanosleep(&pause, NULL);
    }
}

static void
start_node(struct node *n)
{
    const char *const argv[] = {"-D", n->data,
                                "-k", n->dir.path,
                                "-c", "listen_addresses=",
                                "-c", "shared_buffers=16MB",
                                "-c", "max_connections=40",
                                "-c", "wal_receiver_status_interval=1s",
                                "-c", "wal_retrieve_retry_interval=100ms",
                                NULL};
    const struct daemon_how how = {
        .argv = argv, .uid = servers.uid, .not_ready = true};
    char path[512];

    assert_true(find_program("postgres", path, sizeof path));
    (void)daemon_start_how(&n->daemon, path, &how);
    await_server(n);
}

/* As a crash does. */
static void
stop_node(struct node *n)
{
    if (n->daemon.pid == 0)
        return;
    daemon_signal(&n->daemon, SIGQUIT);
    (void)daemon_wait(&n->daemon); /* its status is that of a crash */
    daemon_fini(&n->daemon);
    n->daemon.pid = 0;
}

/* An orderly stop: a killed one would leave its shared memory. */
static void
end_servers(void)
{
    if (getpid() != servers.owner)
        return;
    for (struct node *n = servers.nodes; n < servers.nodes + 2; n++) {
        if (n->daemon.pid != 0 && daemon_alive(&n->daemon)) {
            daemon_signal(&n->daemon, SIGCONT);
            daemon_signal(&n->daemon, SIGINT);
            (void)daemon_wait(&n->daemon); /* however it ends */
            daemon_fini(&n->daemon);
        }
        if (n->data[0] != '\0')
            tmpdir_remove(&n->dir);
    }
}

static void
need_server(void)
{
    const char *const argv[] = {"-D",
                                primary_node()->data,
                                "-U",
                                "postgres",
                                "-A",
                                "trust",
                                "-E",
                                "UTF8",
                                "--locale=C",
                                "--no-sync",
                                servers.no_checksums ? NULL : "-k",
                                NULL};

    if (servers.owner != 0)
        return;
    servers.owner = getpid();
    servers.uid = choose_user();
    make_node(primary_node());
    run_program("initdb", argv);
    start_node(primary_node());
    (void)atexit(end_servers); /* else the directories stay */
}

void
pg_server_on_disk(void)
{
    servers.on_disk = true;
}

void
pg_server_without_checksums(void)
{
    servers.no_checksums = true;
}

const char *
pg_server_conninfo(void)
{
    need_server();
    return primary_node()->conninfo;
}

const char *
pg_server_path(void)
{
    need_server();
    return primary_node()->dir.path;
}

void
pg_server_hold(bool holds)
{
    const int signo = holds ? SIGSTOP : SIGCONT;
    char path[64];
    FILE *children;
    pid_t pid;
    int child;

    need_server();
    pid = primary_node()->daemon.pid;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid,
                   (int)pid);
    assert_int_equal(kill(pid, signo), 0); /* first: no more are made */
    children = fopen(path, "r");
    assert_non_null(children);
    while (fscanf(children, "%d", &child) == 1)
        if (kill(child, signo) < 0)
            assert_int_equal(errno, ESRCH); /* it ends just now */
    assert_int_equal(fclose(children), 0);
}

void
pg_server_use(const char *schema)
{
    (void)snprintf(servers.schema, sizeof servers.schema, "%s", schema);
}

static void make_sql(char sql[SQL_SIZE], const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static void
make_sql(char sql[SQL_SIZE], const char *format, va_list args)
{
    char text[SQL_SIZE];
    size_t at = 0;

    assert_in_range(vsnprintf(text, sizeof text, format, args), 1,
                    sizeof text - 1);
    for (const char *c = text; *c != '\0'; c++) {
        assert_true(at + sizeof servers.schema < SQL_SIZE);
        if (*c == '@')
            at += (size_t)sprintf(sql + at, "%s", servers.schema);
        else
            sql[at++] = *c;
    }
    sql[at] = '\0';
}

/* Opens a session and runs SQL in it. */
static PGconn *
run_session(const char *conninfo, const char *sql, PGresult **out)
{
    PGconn *c = PQconnectdb(conninfo);
    ExecStatusType status;
    char error[512];

    *out = PQexec(c, sql);
    status = PQresultStatus(*out);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return c;
    (void)snprintf(error, sizeof error, "%s", PQerrorMessage(c));
    PQclear(*out);
    PQfinish(c);
    fail_msg("%s: %s", sql, error);
    return NULL;
}

static const char *
run_sql(const char *conninfo, const char *sql)
{
    static char value[512];
    PGresult *r;
    PGconn *c = run_session(conninfo, sql, &r);

    (void)snprintf(value, sizeof value, "%s",
                   PQntuples(r) > 0 ? PQgetvalue(r, 0, 0) : "");
    PQclear(r);
    PQfinish(c);
    return value;
}

const char *
pg_server_run(const char *format, ...)
{
    char sql[SQL_SIZE];
    va_list args;

    va_start(args, format);
    make_sql(sql, format, args);
    va_end(args);
    return run_sql(pg_server_conninfo(), sql);
}

const char *
pg_server_standby_run(const char *sql)
{
    return run_sql(pg_server_standby_conninfo(), sql);
}

PGconn *
pg_server_session(const char *format, ...)
{
    char sql[SQL_SIZE];
    va_list args;
    PGresult *r;
    PGconn *c;

    va_start(args, format);
    make_sql(sql, format, args);
    va_end(args);
    c = run_session(pg_server_conninfo(), sql, &r);
    PQclear(r);
    return c;
}

void
pg_server_session_end(PGconn *c)
{
    PQclear(PQexec(c, "ROLLBACK"));
    PQfinish(c);
}

void
pg_server_await(const char *sql, const char *value)
{
    const uint64_t deadline = clock_ms() + START_MS * (uint64_t)test_slow();
    const struct timespec pause = {.tv_nsec = 10000000};

    while (strcmp(pg_server_run("%s", sql), value) != 0) {
        if (clock_ms() >= deadline)
            fail_msg("%s: not %s in time", sql, value);
        (void)nanosleep(&pause, NULL);
    }
}

void
pg_server_set(const char *name, const char *value)
{
    char sql[80];

    (void)pg_server_run("ALTER SYSTEM SET %s = '%s'", name, value);
    (void)pg_server_run("SELECT pg_reload_conf()");
    (void)snprintf(sql, sizeof sql, "SHOW %s", name);
    pg_server_await(sql, value);
}

void
pg_server_start(void)
{
    start_node(primary_node());
}

void
pg_server_stop(void)
{
    need_server();
    stop_node(primary_node());
}

void
pg_server_crash(void)
{
    pg_server_stop();
    pg_server_start();
}

/* ---- copies ---------------------------------------------------------------- */

static void
copy_data(const char *from, const char *to)
{
    const char *const clear[] = {"-rf", to, NULL};
    const char *const copy[] = {"-a", from, to, NULL};

    run_program("rm", clear);
    run_program("cp", copy);
}

void
pg_server_save(void)
{
    char saved[700];

    pg_server_stop();
    (void)snprintf(saved, sizeof saved, "%s.saved", primary_node()->data);
    copy_data(primary_node()->data, saved);
    pg_server_start();
}

void
pg_server_restore(void)
{
    char saved[700];

    pg_server_stop();
    (void)snprintf(saved, sizeof saved, "%s.saved", primary_node()->data);
    copy_data(saved, primary_node()->data);
    pg_server_start();
}

/* ---- a standby --------------------------------------------------------------- */

const char *
pg_server_both(void)
{
    if (other_node()->data[0] == '\0')
        make_node(other_node());
    (void)snprintf(servers.both, sizeof servers.both,
                   "host=%s,%s user=postgres dbname=postgres",
                   servers.nodes[0].dir.path, servers.nodes[1].dir.path);
    return servers.both;
}

const char *
pg_server_standby_conninfo(void)
{
    return other_node()->conninfo;
}

void
pg_server_standby_start(bool synchronous)
{
    struct node *n = other_node();
    const char *const clear[] = {"-rf", n->data, NULL};
    const char *const argv[] = {"-D", n->data, "-d",   pg_server_conninfo(),
                                "-R", "-c",    "fast", "--no-sync",
                                NULL};

    (void)pg_server_both();
    run_program("rm", clear);
    run_program("pg_basebackup", argv);
    start_node(n);
    pg_server_await("SELECT count(*) FROM pg_stat_replication WHERE state = "
                    "'streaming'",
                    "1");
    if (!synchronous)
        return;
    pg_server_set("synchronous_standby_names", "*");
    pg_server_await("SELECT sync_state FROM pg_stat_replication", "sync");
}

void
pg_server_standby_stop(void)
{
    stop_node(other_node());
}

void
pg_server_fail_over(void)
{
    stop_node(primary_node());
    if (other_node()->daemon.pid == 0)
        start_node(other_node());
    servers.primary = 1 - servers.primary;
    (void)pg_server_run("SELECT pg_promote()");
    pg_server_await("SELECT pg_is_in_recovery()", "f");
}

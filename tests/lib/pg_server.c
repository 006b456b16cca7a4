/* tests/lib/pg_server.c - see pg_server.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/pg_server.h"

#include <glob.h>
#include <libpq-fe.h>
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

static struct {
    bool is_made;
    pid_t owner; /* a child of the program does not end the server */
    uid_t uid;
    struct tmpdir dir;
    struct daemon daemon;
    char data[600], conninfo[600];
} server;

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

static void
make_data(void)
{
    const char *const argv[] = {
        "-D", server.data, "-U",         "postgres", "-A",        "trust",
        "-E", "UTF8",      "--locale=C", "-k",       "--no-sync", NULL};
    const struct daemon_how how = {.argv = argv, .uid = server.uid};
    char path[512], text[4096];

    assert_true(find_program("initdb", path, sizeof path));
    if (daemon_run_how(text, sizeof text, path, &how) != 0)
        fail_msg("initdb: %s", text);
}

static void
await_server(void)
{
    const uint64_t deadline = test_deadline(START_MS);
    const struct timespec pause = {.tv_nsec = 10000000};
    char text[4096];

    while (PQping(server.conninfo) != PQPING_OK) {
        if (clock_ms() >= deadline || !daemon_alive(&server.daemon)) {
            (void)daemon_output(&server.daemon, text, sizeof text);
            fail_msg("postgres does not start: %s", text);
        }
        (void)nanosleep(&pause, NULL);
    }
}

void
pg_server_start(void)
{
    const char *const argv[] = {
        "-D", server.data,          "-k", server.dir.path,
        "-c", "listen_addresses=",  "-c", "shared_buffers=16MB",
        "-c", "max_connections=40", NULL};
    const struct daemon_how how = {
        .argv = argv, .uid = server.uid, .not_ready = true};
    char path[512];

    assert_true(find_program("postgres", path, sizeof path));
    (void)daemon_start_how(&server.daemon, path, &how);
    await_server();
}

/* An orderly stop: a killed one would leave its shared memory. */
static void
end_server(void)
{
    if (getpid() != server.owner)
        return;
    if (server.daemon.pid != 0 && daemon_alive(&server.daemon)) {
        daemon_signal(&server.daemon, SIGCONT);
        daemon_signal(&server.daemon, SIGINT);
        (void)daemon_wait(&server.daemon); /* nothing depends on how it ends */
    }
    daemon_fini(&server.daemon);
    tmpdir_remove(&server.dir);
}

static void
need_server(void)
{
    if (server.is_made)
        return;
    server.is_made = true;
    server.owner = getpid();
    server.uid = choose_user();
    tmpdir_make_in_memory(&server.dir);
    if (server.uid != 0)
        tmpdir_chown(&server.dir, server.uid);
    (void)snprintf(server.data, sizeof server.data, "%s/data", server.dir.path);
    (void)snprintf(server.conninfo, sizeof server.conninfo,
                   "host=%s user=postgres dbname=postgres", server.dir.path);
    make_data();
    pg_server_start();
    (void)atexit(end_server); /* else the directory stays */
}

const char *
pg_server_conninfo(void)
{
    need_server();
    return server.conninfo;
}

const char *
pg_server_path(void)
{
    need_server();
    return server.dir.path;
}

pid_t
pg_server_pid(void)
{
    need_server();
    return server.daemon.pid;
}

const char *
pg_server_run(const char *sql)
{
    static char value[512];
    PGconn *c = PQconnectdb(pg_server_conninfo());
    PGresult *r = PQexec(c, sql);
    const ExecStatusType status = PQresultStatus(r);

    value[0] = '\0';
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        (void)snprintf(value, sizeof value, "%s", PQerrorMessage(c));
        PQclear(r);
        PQfinish(c);
        fail_msg("%s: %s", sql, value);
    }
    if (PQntuples(r) > 0)
        (void)snprintf(value, sizeof value, "%s", PQgetvalue(r, 0, 0));
    PQclear(r);
    PQfinish(c);
    return value;
}

void
pg_server_stop(void)
{
    need_server();
    daemon_signal(&server.daemon, SIGQUIT);
    (void)daemon_wait(&server.daemon); /* its status is that of a crash */
    daemon_fini(&server.daemon);
}

void
pg_server_crash(void)
{
    pg_server_stop();
    pg_server_start();
}

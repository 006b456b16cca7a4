/* tests/lib/fleet.c - see fleet.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/fleet.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/log/inspect.h"
#include "common/log/logfile.h"
#include "common/log/waiting.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/file.h"
#include "tests/lib/stored.h"
#include "tests/lib/test.h"

static const char *const programs[FLEET_ROLES] = {
    "countd-write", "countd-read", "countd-worker", "countd-worker",
    "countd-worker"};

void
fleet_init_at(struct fleet *f, const char *path)
{
    memset(f, 0, sizeof *f);
    for (size_t i = 0; i < FLEET_ROLES; i++)
        f->daemons[i].output = -1;
    if (strlen(path) >= sizeof f->path)
        fail_msg("a path is too long");
    strcpy(f->path, path);
    fleet_option(f, "log.size=64K");
    fleet_option(f, "log.rotate_after=100ms");
    fleet_option(f, "write.listen=127.0.0.1:0");
    fleet_option(f, "write.ack_listen=127.0.0.1:0");
    fleet_option(f, "read.listen=127.0.0.1:0");
}

/* On a directory that goes with it. */
static void
init_on(struct fleet *f, const struct tmpdir *dir)
{
    fleet_init_at(f, dir->path);
    f->dir = *dir;
    f->owns_dir = true;
}

void
fleet_init(struct fleet *f)
{
    struct tmpdir dir;

    tmpdir_make(&dir);
    init_on(f, &dir);
}

void
fleet_init_in_memory(struct fleet *f)
{
    struct tmpdir dir;

    tmpdir_make_in_memory(&dir);
    init_on(f, &dir);
}

void
fleet_fini(struct fleet *f)
{
    for (size_t i = 0; i < FLEET_ROLES; i++)
        if (f->daemons[i].output >= 0)
            daemon_fini(&f->daemons[i]);
    if (f->owns_dir)
        tmpdir_remove(&f->dir);
}

void
fleet_option(struct fleet *f, const char *option)
{
    if (f->option_count == FLEET_OPTIONS_MAX ||
        strlen(option) >= FLEET_OPTION_SIZE)
        fail_msg("too many or too long options");
    strcpy(f->options[f->option_count++], option);
}

void
fleet_put_option(struct fleet *f, const char *key, const char *value)
{
    char option[FLEET_OPTION_SIZE];

    assert_in_range(snprintf(option, sizeof option, "%s=%s", key, value), 1,
                    sizeof option - 1);
    fleet_option(f, option);
}

struct daemon *
fleet_daemon(struct fleet *f, enum fleet_role role)
{
    return &f->daemons[role];
}

void
fleet_start(struct fleet *f, enum fleet_role role)
{
    const char *argv[2 * FLEET_OPTIONS_MAX + 3];
    struct daemon_how how = {.argv = argv, .env = f->env, .uid = f->uid};
    size_t n = 0;

    argv[n++] = "-d";
    argv[n++] = f->path;
    for (size_t i = 0; i < f->option_count; i++) {
        argv[n++] = "-o";
        argv[n++] = f->options[i];
    }
    argv[n] = NULL;
    if (f->daemons[role].output >= 0)
        daemon_fini(&f->daemons[role]);
    (void)daemon_start_how(&f->daemons[role], programs[role],
                           &how); /* fails the test itself */
}

void
fleet_add_options(struct fleet *f, const char *const *options)
{
    for (size_t i = 0; options[i] != NULL; i++)
        fleet_option(f, options[i]);
}

void
fleet_stop(struct fleet *f, enum fleet_role role)
{
    int status = daemon_stop(&f->daemons[role]);

    if (status != 0)
        fail_msg("%s ended with %d on SIGTERM", programs[role], status);
}

void
fleet_stop_all(struct fleet *f)
{
    static const enum fleet_role order[] = {
        FLEET_WRITE, FLEET_WORKER, FLEET_WORKER2, FLEET_WORKER3, FLEET_READ};

    for (size_t i = 0; i < FLEET_ROLES; i++)
        fleet_stop(f, order[i]);
}

/* The port whose ready line has this name, as in `ack=127.0.0.1:40001`. */
uint16_t
fleet_writer_port(struct fleet *f, const char *name)
{
    return daemon_port(&f->daemons[FLEET_WRITE], name);
}

int
fleet_http(struct fleet *f)
{
    return client_connect(fleet_writer_port(f, "http"));
}

int
fleet_resp(struct fleet *f)
{
    return client_connect(daemon_port(fleet_daemon(f, FLEET_READ), "resp"));
}

uint16_t
fleet_silent_port(struct fleet *f)
{
    return fleet_writer_port(f, "silent");
}

uint16_t
fleet_ack_port(struct fleet *f)
{
    return fleet_writer_port(f, "ack");
}

uint16_t
fleet_ask_port(struct fleet *f)
{
    return daemon_port(&f->daemons[FLEET_READ], "read-http");
}

uint16_t
fleet_read_port(struct fleet *f)
{
    return daemon_port(&f->daemons[FLEET_READ], "read");
}

/* ---- the command --------------------------------------------------------- */

#define WORDS_MAX 300

/* Where the daemons listen, as options of a command. */
static const struct {
    enum fleet_role role;
    const char *name, *option; /* in the ready line; before the number */
} ports[] = {
    {FLEET_READ, "read", "read.listen=127.0.0.1:"},
    {FLEET_READ, "read-http", "read.http=127.0.0.1:"},
    {FLEET_READ, "resp", "resp.listen=127.0.0.1:"},
    {FLEET_WRITE, "ack", "write.ack_listen=127.0.0.1:"},
    {FLEET_WRITE, "silent", "write.listen=127.0.0.1:"},
    {FLEET_WRITE, "counter", "counter.port="},
    {FLEET_WRITE, "semaphore", "semaphore.port="},
    {FLEET_WRITE, "http", "http.listen=127.0.0.1:"},
};
#define PORTS (sizeof ports / sizeof ports[0])

/* The line of a command: the options of the daemons, and where they listen. */
struct command {
    const char *argv[WORDS_MAX];
    size_t count;
    char ports[PORTS][64];
};

static void
add_option(struct command *c, const char *option)
{
    assert_true(c->count + 3 < WORDS_MAX);
    c->argv[c->count++] = "-o";
    c->argv[c->count++] = option;
}

static void
add_ports(struct fleet *f, struct command *c)
{
    for (size_t i = 0; i < PORTS; i++) {
        const struct daemon *d = &f->daemons[ports[i].role];

        if (d->pid <= 0 || !daemon_has_port(d, ports[i].name))
            continue;
        (void)snprintf(c->ports[i], sizeof c->ports[i], "%s%u", ports[i].option,
                       daemon_port(d, ports[i].name));
        add_option(c, c->ports[i]);
    }
}

static void
make_command(struct fleet *f, struct command *c, const char *const *words)
{
    c->count = 0;
    c->argv[c->count++] = "-d";
    c->argv[c->count++] = f->path;
    for (size_t i = 0; i < f->option_count; i++)
        add_option(c, f->options[i]);
    add_ports(f, c);
    for (size_t i = 0; words[i]; i++) {
        assert_true(c->count + 1 < WORDS_MAX);
        c->argv[c->count++] = words[i];
    }
    c->argv[c->count] = NULL;
}

void
fleet_put_options(struct fleet *f, char *line, size_t size)
{
    static const char *const none[] = {NULL};
    struct command c;
    size_t at = 0;

    make_command(f, &c, none);
    line[0] = '\0';
    for (size_t i = 2; i < c.count; i++) { /* without the directory */
        at += (size_t)snprintf(line + at, size - at, "%s ", c.argv[i]);
        assert_true(at < size);
    }
}

int
fleet_run(struct fleet *f, const char *const *words)
{
    struct command c;
    const struct daemon_how how = {
        .argv = c.argv, .env = f->env, .uid = f->uid};

    make_command(f, &c, words);
    return expect_run("countd", &how);
}

void
fleet_begin(struct fleet *f, struct daemon *d, const char *const *words)
{
    struct command c;
    const struct daemon_how how = {
        .argv = c.argv, .env = f->env, .uid = f->uid, .not_ready = true};

    make_command(f, &c, words);
    assert_int_equal(daemon_start_how(d, "countd", &how), 0);
}

/* ---- looking at the directory ------------------------------------------- */

/* Writes what is not merged yet into `what`; false when everything is. */
static bool
has_work(int log_fd, const char *name, char *what, size_t size)
{
    struct inspect report;
    uint64_t index;
    int fd, rc;

    if (logfile_parse(name, &index) != LOGFILE_LOG)
        return false;
    fd = openat(log_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        (void)snprintf(what, size, "%s: %s", name,
                       strerror(errno)); /* for people */
        return errno != ENOENT;
    }
    rc = log_inspect(fd, index, &report);
    (void)close(fd); /* read only */
    (void)snprintf(what, size, "%s: rc %d, headers %d, state %d, %u valid",
                   name, rc, report.headers_rc, (int)report.header.state,
                   report.valid); /* for people */
    if (rc < 0 || report.headers_rc < 0)
        return true;
    return report.header.state == LOG_SEALED ||
           (report.header.state == LOG_OPEN && report.valid > 0);
}

/* A log with work, if there is one. */
static bool
find_log(const struct fleet *f, char *what, size_t size)
{
    DIR *dir = opendir(file_path(f->path, "log"));
    struct dirent *e;
    bool work = false;

    while (dir && !work && (e = readdir(dir)))
        work = has_work(dirfd(dir), e->d_name, what, size);
    if (dir)
        (void)closedir(dir); /* read only */
    return work;
}

/* Whether fills wait; also where that cannot be read now. */
static bool
is_waiting(const struct fleet *f, char *what, size_t size)
{
    const int fd =
        open(file_path(f->path, "log"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct waiting w;
    bool any = true;

    if (fd < 0)
        return false;
    assert_rc(waiting_open(&w, fd, false, false, 0), 0);
    if (waiting_list(&w) == 0)
        any = w.file_count > 0;
    waiting_close(&w);
    (void)close(fd);
    if (any)
        (void)snprintf(what, size, "log/" WAITING_FOLDER); /* for people */
    return any;
}

static bool
find_work(const struct fleet *f, char *what, size_t size)
{
    return find_log(f, what, size) || is_waiting(f, what, size);
}

bool
fleet_is_drained(const struct fleet *f)
{
    char what[512];

    return !find_work(f, what, sizeof what);
}

bool
fleet_logs_are_drained(const struct fleet *f)
{
    char what[512];

    return !find_log(f, what, sizeof what);
}

void
fleet_await_drained(struct fleet *f, int timeout_ms)
{
    uint64_t deadline = test_deadline((uint64_t)timeout_ms);
    static char said[8192];
    char what[512];

    while (find_work(f, what, sizeof what)) {
        if (clock_ms() >= deadline) {
            for (size_t i = 0; i < FLEET_ROLES; i++)
                if (daemon_output(&f->daemons[i], said, sizeof said) > 0)
                    print_error("%s printed:\n%s\n", programs[i], said);
            fail_msg("not merged in time: %s", what);
        }
        /* Paces the looking; no test relies on its length. */
        (void)poll(NULL, 0, 1);
    }
}

static void
open_store(const struct fleet *f, struct stored_dir *s)
{
    /* That a test's directory may be in memory need not be said each time. */
    diag_init("test", DIAG_ERROR);
    stored_open(s, f->path, NULL);
}

static int
check_keyspace(void *ctx, const uint8_t *name, size_t size, int64_t keys)
{
    struct store_check result = {.fault = print_fault};
    int rc;

    (void)keys; /* found again by the check */
    rc = store_check(ctx, name, size, &result);
    if (rc < 0 || result.faults > 0)
        fail_msg("keyspace %.*s: rc %d, %llu faults", (int)size,
                 (const char *)name, rc, (unsigned long long)result.faults);
    return 0;
}

void
fleet_check(const struct fleet *f)
{
    struct stored_dir s;
    struct dirent *e;
    DIR *logs = opendir(file_path(f->path, "log"));
    int rc;

    while (logs && (e = readdir(logs)))
        if (strncmp(e->d_name, "bad-", 4) == 0)
            fail_msg("a log was quarantined: %s", e->d_name);
    if (logs)
        (void)closedir(logs); /* read only */
    open_store(f, &s);
    rc = store_list(s.store, (const uint8_t *)"", 0, check_keyspace, s.store);
    if (rc < 0)
        fail_msg("list keyspaces: %s", strerror(-rc));
    stored_close(&s);
}

struct look {
    struct model *model;
    struct stored_dir s;
    char names[256][MODEL_NAME_SIZE];
    size_t count;
    const char *keyspace;
};

static int
take_keyspace(void *ctx, const uint8_t *name, size_t size, int64_t keys)
{
    struct look *l = ctx;

    (void)keys; /* counted again by the scan */
    if (size >= MODEL_NAME_SIZE || l->count == 256)
        fail_msg("an invented keyspace: %.*s", (int)size, (const char *)name);
    memcpy(l->names[l->count], name, size);
    l->names[l->count++][size] = '\0';
    return 0;
}

static int
take_row(void *ctx, const uint8_t *key, size_t size,
         const struct store_row *row)
{
    struct look *l = ctx;
    char name[MODEL_NAME_SIZE] = "";

    if (size >= sizeof name)
        fail_msg("an invented key: %.*s", (int)size, (const char *)key);
    memcpy(name, key, size);
    model_found(l->model, l->keyspace, name, row->count);
    return 0;
}

void
fleet_look(const struct fleet *f, struct model *m)
{
    struct look *l = test_memory(calloc(1, sizeof *l));
    int rc;

    model_look(m);
    l->model = m;
    open_store(f, &l->s);
    rc = store_list(l->s.store, (const uint8_t *)"", 0, take_keyspace, l);
    for (size_t i = 0; rc == 0 && i < l->count; i++) {
        l->keyspace = l->names[i];
        rc = stored_each(l->s.store, l->names[i], take_row, l);
    }
    if (rc < 0)
        fail_msg("read the counts: %s", strerror(-rc));
    stored_close(&l->s);
    free(l);
}

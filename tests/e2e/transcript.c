/* tests/e2e/transcript.c - commands of a user and what they print, as a text:
 * test_x plays x.txt behind the tests in C of that name, where there are some.
 * Read the code from the end.
 *
 *     == drop empties a keyspace, and what comes after counts
 *     $ start
 *     $ countd incr words the 3
 *     $ countd drop words
 *     dropped keyspace=words keys=1 total=3 held=0
 *     $ countd get words the
 *     countd: info: no such ...
 *     [1]
 *
 * A case begins with ==; its sentence, with _ between its words, names the
 * test.  A command is a line of /bin/sh after "$ ", continued by "> ".  Below
 * it stands what it prints on stdout and stderr: `...` is any text within a
 * line and, alone, any lines; a failure shows control bytes as \x1b.  [N] is
 * its exit status, else 0.  Lines that begin with "# " and empty ones are for
 * readers.
 *
 * Each case has a directory of its own, where its commands run, after those
 * that stand before the first case.  bin/ in it is first in $PATH.  The data
 * directory is data/ in it.  countd is given it, the options and the ports of
 * the daemons; $write, $worker and $read are the pids of those that run, $PG is
 * how to connect to a PostgreSQL, where one is installed.  The runner itself
 * does these:
 *
 *     option KEY=VALUE    a setting of daemons that start from now on; $PWD at
 *                         the beginning of VALUE is the directory of the case
 *     start [ROLE ...]    write, worker, worker2, read; or the three, with one
 *                         worker
 *     stop [ROLE ...]     SIGTERM, and 0 is its status
 *     crash ROLE          SIGKILL
 *     drained             waits until all is merged and nothing is held
 *     needs COMMAND       skips the case, and says so, unless it succeeds
 *     begin NAME COMMAND  runs it beside: $NAME is its pid
 *     end NAME            its end: what it printed, and its status
 *     await COMMAND       until it prints what stands there, with a deadline
 *
 * With TRANSCRIPT_UPDATE=FILE a whole run leaves the text there as it was
 * heard: for a reader to compare, when messages have changed.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <limits.h>
#include <poll.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "tests/lib/expect.h"
#include "tests/lib/fleet.h"
#include "tests/lib/pg_server.h"
#include "tests/lib/test.h"

#define CASES_MAX   128
#define STEP_SIZE   8192
#define BESIDE_MAX  6
#define DEADLINE_MS 60000

static struct {
    const char *path;
    char bytes[256 << 10];
    FILE *update; /* or NULL */
} file;

struct transcript_case {
    char name[160];
    const char *at; /* its first line */
    unsigned line;
};

/* A command beside. */
struct beside {
    char name[32];
    struct daemon daemon;
};

struct transcript {
    struct tmpdir dir;
    struct fleet fleet;
    struct beside beside[BESIDE_MAX];
    const char *name;
    const char *at; /* the next line of the case */
    unsigned line;  /* the number of the one before */
};

/* A command, and what is to come of it. */
struct step {
    char command[STEP_SIZE], want[STEP_SIZE];
    unsigned line;
    int status;
};

/* ---- text --------------------------------------------------------------- */

static void
append_bytes(char *to, const char *bytes, size_t size)
{
    const size_t at = strlen(to);

    assert_true(at + size < STEP_SIZE);
    memcpy(to + at, bytes, size);
    to[at + size] = '\0';
}

/* Whether `got` is as `want` says: `...` is any text within a line and, alone
 * on one, any lines. */
static bool
is_heard(const char *got, const char *want)
{
    static char pattern[3 * STEP_SIZE];
    size_t n = 0;
    regex_t regex;
    bool matches;

    pattern[n++] = '^';
    for (const char *at = want; *at != '\0'; at++) {
        const bool begins = at == want || at[-1] == '\n';

        assert_true(n + 16 < sizeof pattern);
        if (begins && strncmp(at, "...\n", 4) == 0) {
            n += (size_t)sprintf(pattern + n, "([^\n]*\n)*");
            at += 3;
        } else if (strncmp(at, "...", 3) == 0) {
            n += (size_t)sprintf(pattern + n, "[^\n]*");
            at += 2;
        } else {
            if (strchr("\\^$.[]|()*+?{}", *at) != NULL)
                pattern[n++] = '\\';
            pattern[n++] = *at;
        }
    }
    (void)snprintf(pattern + n, sizeof pattern - n, "$");
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    matches = regexec(&regex, got, 0, NULL, 0) == 0;
    regfree(&regex);
    return matches;
}

/* Passes a line and returns it. */
static const char *
next_line(struct transcript *t)
{
    const char *line = t->at;

    t->at = strchr(line, '\n') + 1;
    t->line++;
    return line;
}

static bool
is_at_end(const struct transcript *t)
{
    return *t->at == '\0' || strncmp(t->at, "== ", 3) == 0;
}

static bool
is_remark(const char *line)
{
    return *line == '\n' || strncmp(line, "# ", 2) == 0;
}

/* A line that is an exit status, as [1]. */
static bool
is_status(const char *line, int *status)
{
    int number, size = 0;

    if (sscanf(line, "[%d]%n", &number, &size) != 1 || line[size] != '\n')
        return false;
    *status = number;
    return true;
}

static void
update_line(const char *line)
{
    if (file.update != NULL)
        (void)fprintf(file.update, "%.*s\n", (int)strcspn(line, "\n"), line);
}

/* Takes the next command with what is to come of it. */
static bool
next_step(struct transcript *t, struct step *s)
{
    const char *line;

    *s = (struct step){.status = 0};
    do {
        if (is_at_end(t))
            return false;
        line = next_line(t);
        if (is_remark(line))
            update_line(line);
    } while (is_remark(line));
    s->line = t->line;
    if (strncmp(line, "$ ", 2) != 0)
        fail_msg("%s:%u: not a command", file.path, t->line);
    append_bytes(s->command, line + 2, (size_t)(t->at - line - 2));
    update_line(line);
    while (strncmp(t->at, "> ", 2) == 0) {
        line = next_line(t);
        append_bytes(s->command, line + 2, (size_t)(t->at - line - 2));
        update_line(line);
    }
    while (*t->at != '\0' && strncmp(t->at, "$ ", 2) != 0 &&
           !is_remark(t->at)) {
        line = next_line(t);
        if (!is_status(line, &s->status))
            append_bytes(s->want, line, (size_t)(t->at - line));
    }
    s->command[strlen(s->command) - 1] = '\0';
    return true;
}

/* ---- commands ----------------------------------------------------------- */

static const char *const roles[FLEET_ROLES] = {
    [FLEET_WRITE] = "write",     [FLEET_READ] = "read",
    [FLEET_WORKER] = "worker",   [FLEET_WORKER2] = "worker2",
    [FLEET_WORKER3] = "worker3",
};

/* Calls `act` for each role in `names`, in their order. */
static void
each_role(struct fleet *f, char *names,
          void (*act)(struct fleet *f, enum fleet_role role))
{
    char *rest;

    for (char *name = strtok_r(names, " ", &rest); name != NULL;
         name = strtok_r(NULL, " ", &rest)) {
        size_t role = 0;

        while (role < FLEET_ROLES && strcmp(roles[role], name) != 0)
            role++;
        if (role == FLEET_ROLES)
            fail_msg("%s is not a daemon", name);
        act(f, (enum fleet_role)role);
    }
}

static void
crash_role(struct fleet *f, enum fleet_role role)
{
    daemon_kill(fleet_daemon(f, role));
}

static struct beside *
find_beside(struct transcript *t, const char *name)
{
    for (size_t i = 0; i < BESIDE_MAX; i++)
        if (strcmp(t->beside[i].name, name) == 0)
            return &t->beside[i];
    fail_msg("there is no room for, or no command %s", name);
    return NULL;
}

/* Puts a line of shell behind what it needs: the directory, and what it may
 * use. */
static void
put_script(struct transcript *t, const char *command, char *script, size_t size)
{
    char options[2048];
    size_t n;

    fleet_put_options(&t->fleet, options, sizeof options);
    n = (size_t)snprintf(script, size,
                         "cd '%s'; export OPTIONS='-o data_dir=data %s' "
                         "PATH=\"$PWD/bin:$BUILD:$PATH\"\n",
                         t->dir.path, options);
    for (size_t i = 0; i < FLEET_ROLES; i++)
        if (t->fleet.daemons[i].pid > 0)
            n += (size_t)snprintf(script + n, size - n, "%s=%d\n", roles[i],
                                  t->fleet.daemons[i].pid);
    for (size_t i = 0; i < BESIDE_MAX; i++)
        if (t->beside[i].name[0] != '\0')
            n += (size_t)snprintf(script + n, size - n, "%s=%d\n",
                                  t->beside[i].name, t->beside[i].daemon.pid);
    n += (size_t)snprintf(script + n, size - n, "%s", command);
    assert_true(n < size);
}

static int
run_shell(struct transcript *t, const char *command)
{
    static char script[2 * STEP_SIZE];
    const char *const argv[] = {"-c", script, NULL};
    const struct daemon_how how = {.argv = argv};

    put_script(t, command, script, sizeof script);
    return expect_run("/bin/sh", &how);
}

static void
begin_beside(struct transcript *t, const char *words)
{
    static char script[2 * STEP_SIZE], command[STEP_SIZE];
    const char *const argv[] = {"-c", script, NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    const size_t size = strcspn(words, " ");
    struct beside *b = find_beside(t, "");

    (void)snprintf(command, sizeof command, "exec%s", words + size);
    put_script(t, command, script, sizeof script);
    assert_int_equal(daemon_start_how(&b->daemon, "/bin/sh", &how), 0);
    (void)snprintf(b->name, sizeof b->name, "%.*s", (int)size, words);
}

static int
end_beside(struct transcript *t, const char *name)
{
    struct beside *b = find_beside(t, name);
    const int status = daemon_wait(&b->daemon);

    (void)daemon_output(&b->daemon, text, sizeof text);
    daemon_fini(&b->daemon);
    b->name[0] = '\0';
    return status;
}

static void
need_command(struct transcript *t, const char *command)
{
    if (run_shell(t, command) == 0) {
        text[0] = '\0';
        return;
    }
    while (file.update != NULL && !is_at_end(t))
        update_line(next_line(t));
    test_say_skip(t->name, command);
    skip();
}

static int
await_output(struct transcript *t, const char *command, const struct step *s)
{
    const uint64_t end_ms = test_deadline(DEADLINE_MS);
    int status;

    while ((status = run_shell(t, command)) != s->status ||
           !is_heard(text, s->want)) {
        if (clock_ms() > end_ms)
            break;
        (void)poll(NULL, 0, 10); /* paces the looking */
    }
    return status;
}

static void
set_option(struct transcript *t, const char *setting)
{
    static const char here[] = "=$PWD";
    const char *at = strstr(setting, here);
    char option[FLEET_OPTION_SIZE];

    if (at != NULL) {
        assert_in_range(snprintf(option, sizeof option, "%.*s=%s%s",
                                 (int)(at - setting), setting, t->dir.path,
                                 at + sizeof here - 1),
                        1, sizeof option - 1);
        setting = option;
    }
    fleet_option(&t->fleet, setting);
}

/* Does a command: its status, and what it printed in `text`. */
static int
run_step(struct transcript *t, const struct step *s)
{
    char word[16] = "", names[64];
    const char *rest = s->command;
    int size = 0;

    (void)sscanf(s->command, "%15[a-z]%n", word, &size);
    rest += size + (rest[size] == ' ');
    (void)snprintf(names, sizeof names, "%.63s", rest);
    text[0] = '\0';
    if (strcmp(word, "option") == 0)
        set_option(t, rest);
    else if (strcmp(word, "start") == 0)
        each_role(&t->fleet, *rest ? names : strcpy(names, "write worker read"),
                  fleet_start);
    else if (strcmp(word, "stop") == 0 && *rest == '\0')
        fleet_stop_all(&t->fleet);
    else if (strcmp(word, "stop") == 0)
        each_role(&t->fleet, names, fleet_stop);
    else if (strcmp(word, "crash") == 0)
        each_role(&t->fleet, names, crash_role);
    else if (strcmp(word, "drained") == 0)
        fleet_await_drained(&t->fleet, DEADLINE_MS);
    else if (strcmp(word, "needs") == 0)
        need_command(t, rest);
    else if (strcmp(word, "begin") == 0)
        begin_beside(t, rest);
    else if (strcmp(word, "end") == 0)
        return end_beside(t, rest);
    else if (strcmp(word, "await") == 0)
        return await_output(t, rest, s);
    else
        return run_shell(t, s->command);
    return 0;
}

/* ---- cases -------------------------------------------------------------- */

/* Does the commands up to the next case. */
static void
play_steps(struct transcript *t)
{
    static struct step s;

    while (next_step(t, &s)) {
        const int status = run_step(t, &s);
        const size_t size = strlen(text);
        bool heard;

        if (size > 0 && text[size - 1] != '\n') /* a last line without end */
            (void)snprintf(text + size, sizeof text - size, "\n");
        heard = status == s.status && is_heard(text, s.want);

        if (file.update != NULL) {
            (void)fputs(heard ? s.want : text, file.update);
            if (status != 0)
                (void)fprintf(file.update, "[%d]\n", status);
        } else if (!heard) {
            fail_msg("%s:%u: %s\nprinted, with status %d:\n%s"
                     "expected, with status %d:\n%s",
                     file.path, s.line, s.command, status, test_visible(text),
                     s.status, s.want);
        }
    }
}

static void
play_case(void **state)
{
    struct transcript *t = *state;
    FILE *update_file = file.update;
    const char *at = t->at;
    const unsigned line = t->line;

    file.update = NULL; /* find_cases() writes what is before the first case */
    t->at = file.bytes;
    t->line = 0;
    play_steps(t);
    file.update = update_file;
    t->at = at;
    t->line = line;
    update_line(next_line(t)); /* its name */
    play_steps(t);
}

static int
setup(void **state)
{
    static const char wrapper[] =
        "#!/bin/sh\nexec \"$BUILD/countd\" $OPTIONS \"$@\"\n";
    static struct transcript t;
    const struct transcript_case *c = *state;
    char path[600];

    memset(&t, 0, sizeof t);
    tmpdir_make_in_memory(&t.dir);
    assert_int_equal(mkdirat(t.dir.fd, "bin", 0700), 0);
    tmpdir_put(&t.dir, "bin/countd", wrapper, sizeof wrapper - 1, 0700);
    (void)snprintf(path, sizeof path, "%s/data", t.dir.path);
    fleet_init_at(&t.fleet, path);
    fleet_options(&t.fleet, "log.rotate_after=1h", "log.merge_share=0");
    t.name = c->name;
    t.at = c->at;
    t.line = c->line;
    *state = &t;
    return 0;
}

static int
teardown(void **state)
{
    struct transcript *t = *state;

    for (size_t i = 0; i < BESIDE_MAX; i++)
        if (t->beside[i].name[0] != '\0')
            daemon_fini(&t->beside[i].daemon);
    fleet_fini(&t->fleet);
    tmpdir_remove(&t->dir);
    return 0;
}

/* Finds the cases in the bytes of the file. */
static size_t
find_cases(struct transcript_case cases[CASES_MAX])
{
    unsigned line = 0;
    size_t count = 0;

    for (const char *at = file.bytes; *at != '\0'; at = strchr(at, '\n') + 1) {
        struct transcript_case *c = &cases[count];

        if (strncmp(at, "== ", 3) == 0) {
            if (++count == CASES_MAX)
                abort();
            c->at = at;
            c->line = line;
            (void)snprintf(c->name, sizeof c->name, "%.*s",
                           (int)strcspn(at + 3, "\n"), at + 3);
            for (char *p = c->name; *p != '\0'; p++)
                if (!isalnum((unsigned char)*p))
                    *p = '_';
        } else if (count == 0) {
            update_line(at);
        }
        line++;
    }
    return count;
}

int
main(int argc, char **argv)
{
    static struct transcript_case cases[CASES_MAX];
    const char *to = getenv("TRANSCRIPT_UPDATE");
    char path[256];
    size_t count;
    FILE *in;
    int rc;

    (void)snprintf(path, sizeof path, "tests/e2e/%s.txt",
                   strstr(argv[0], "/test_") + strlen("/test_"));
    file.path = path;
    in = fopen(path, "re");
    if (in == NULL || fread(file.bytes, 1, sizeof file.bytes - 1, in) == 0)
        abort();
    (void)fclose(in);
    if (to != NULL && (file.update = fopen(to, "we")) == NULL)
        abort();
    if (strstr(file.bytes, "$PG") != NULL && pg_server_is_installed() &&
        setenv("PG", pg_server_conninfo(), 1) < 0)
        abort();
    count = find_cases(cases);
    for (size_t i = 0; i < count; i++)
        test_add(INT_MAX, (struct CMUnitTest){cases[i].name, play_case, setup,
                                              teardown, &cases[i]});
    rc = test_main(argc, argv);
    if (file.update != NULL && fclose(file.update) != 0)
        abort();
    return rc;
}

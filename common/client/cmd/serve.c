/* common/client/cmd/serve.c - countd serve: the three daemons as one.
 *
 * Start: the writer first, because it makes the data directory; then the
 * others.  A daemon that a signal has ended (a page of a keyspace file that is
 * damaged while it is mapped ends a process so) is started again, later each
 * time; DEATHS_MAX of them in DEATHS_MS end serve.  One that exits with 0 was
 * stopped by SIGTERM: it is started again at once, with the program that is
 * installed by then.
 * Stop, on a signal or because a daemon failed: the writer first,
 * because it seals its log; then, when the workers have merged that log (or
 * DRAIN_MS later), the others; all by SIGINT, at which daemons print no
 * figures.  A daemon that does not stop within INTERRUPT_MS more than the
 * writer may take to drain is killed; that loses nothing.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/folder.h"
#include "common/client/cmd/child.h"
#include "common/client/cmd/cmd_data.h"
#include "common/client/cmd/cmd_terminal.h"
#include "common/setup/privilege.h"
#include "common/setup/signals.h"

#define DRAIN_MS      5000
#define DRAIN_POLL_MS 20
#define INTERRUPT_MS  30000
#define DEATHS_MAX    10
#define DEATHS_MS     60000
#define BACK_OFF_MS   100
#define BACK_OFF_MAX  2000
#define CHILDREN_MAX  (WORKERS_MAX + 2)

/* ---- all of them --------------------------------------------------------- */

static const char writer[] = "countd-write";
static const char worker[] = "countd-worker";
static const char reader[] = "countd-read";

enum phase {
    PHASE_SERVING,  /* or starting, while `announced` is false */
    PHASE_SEALING,  /* the writer stops */
    PHASE_DRAINING, /* the workers merge what is left */
    PHASE_STOPPING, /* the others stop */
};

struct serve {
    const struct cmd_line *line;
    struct child_keeper keeper;
    struct child children[CHILDREN_MAX]; /* the first is the writer */
    size_t count;
    enum phase phase;
    uint64_t deadline_ms; /* of the phase, monotonic; behind PHASE_SERVING */
    int signal_fd;
    int ready_fd; /* ours; -1 */
    bool announced;
    int stop_signal; /* the first that asked for a stop; 0 */
    unsigned stops;  /* signals that asked for it */
    int status;      /* to exit with */
};

/* ---- the table of children --------------------------------------------- */

static void
add_child(struct serve *s, const char *program)
{
    s->children[s->count++] =
        (struct child){.program = program, .ready_fd = -1};
}

/* True while a child with this program runs; NULL: any child. */
static bool
has_running(const struct serve *s, const char *program)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].pid > 0 &&
            (program == NULL || s->children[i].program == program))
            return true;
    return false;
}

/* Signals the children that run; `program` NULL: all of them.  A pid stays
 * the child's until it is waited for. */
static void
signal_children(const struct serve *s, const char *program, int signo)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct child *c = &s->children[i];
        /* Before a child is ready these two would end it. */
        const bool can_take =
            c->is_ready || (signo != SIGUSR1 && signo != SIGUSR2);

        if (c->pid > 0 && can_take &&
            (program == NULL || c->program == program))
            (void)kill(c->pid, signo);
    }
}

/* ---- stopping ---------------------------------------------------------- */

static void
enter_phase(struct serve *s, enum phase phase, uint64_t limit_ms)
{
    s->phase = phase;
    s->deadline_ms = clock_ms() + limit_ms;
}

static void
begin_stop(struct serve *s)
{
    if (s->phase != PHASE_SERVING)
        return;
    /* As long as the writer may take, with no log free: see countd(5). */
    enter_phase(s, PHASE_SEALING,
                4 * s->line->config.write_drain_ms + INTERRUPT_MS);
    for (size_t i = 0; i < s->count; i++)
        child_drop_sockets(&s->children[i]);
    signal_children(s, writer, SIGINT);
}

/* The first failure decides the status to exit with. */
static void
fail_with(struct serve *s, int status)
{
    if (s->status == 0)
        s->status = status;
    begin_stop(s);
}

/* True when no log is left that a worker could merge. */
static bool
is_drained(const struct serve *s)
{
    char path[CONFIG_TEXT_SIZE + 8];
    int fd, rc;

    /* Logs that cannot be read are not waited for. */
    (void)snprintf(path, sizeof path, "%s/log", s->line->config.data_dir);
    fd = folder_open(AT_FDCWD, path);
    if (fd < 0)
        return true;
    rc = wait_is_pending(s->line, fd);
    (void)close(fd);
    return rc <= 0;
}

static void
kill_late(struct serve *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].pid > 0)
            diag(DIAG_ERROR, "%s pid=%d does not stop and is killed",
                 s->children[i].program, (int)s->children[i].pid);
    s->status = CONFIG_EXIT_SYSTEM;
    signal_children(s, NULL, SIGKILL);
    s->deadline_ms = clock_ms() + INTERRUPT_MS;
}

/* Enters each phase whose time has come. */
static void
advance_phase(struct serve *s)
{
    const bool is_late = clock_ms() >= s->deadline_ms;

    if (s->phase == PHASE_SEALING && !has_running(s, writer))
        enter_phase(s, PHASE_DRAINING, DRAIN_MS);
    else if (s->phase != PHASE_SERVING && s->phase != PHASE_DRAINING && is_late)
        kill_late(s);

    if (s->phase == PHASE_DRAINING &&
        (s->stops > 1 || clock_ms() >= s->deadline_ms ||
         !has_running(s, worker) || is_drained(s))) {
        enter_phase(s, PHASE_STOPPING, INTERRUPT_MS);
        signal_children(s, NULL, SIGINT);
    }
}

/* ---- starting ---------------------------------------------------------- */

/* Starts the children that are due. */
static void
start_due(struct serve *s)
{
    const uint64_t now_ms = clock_ms();

    for (size_t i = 0; i < s->count && s->phase == PHASE_SERVING; i++) {
        struct child *c = &s->children[i];
        int rc;

        if (c->start_ms == 0 || c->start_ms > now_ms)
            continue;
        c->start_ms = 0;
        rc = child_start(c, &s->line->sources, &s->keeper);
        if (rc < 0) {
            diag_errno(DIAG_ERROR, rc, "start %s", c->program);
            fail_with(s, CONFIG_EXIT_SYSTEM);
        }
    }
}

/* Appends the ready lines of a child to a message. */
static void
append_lines(const struct child *c, char *text, size_t text_size)
{
    const size_t size = strlen(text);

    if (c->lines[0] == '\0')
        return;
    (void)snprintf(text + size, text_size - size, " %s", c->lines);
    for (char *at = text + size; (at = strchr(at, '\n')); at++)
        *at = ' ';
}

/* Reports on stderr and on our own ready descriptor that all serve. */
static void
announce_all(struct serve *s)
{
    const char *lines[CHILDREN_MAX];
    char text[1024] = "";
    size_t count = 0;

    for (size_t i = 0; i < s->count; i++) {
        append_lines(&s->children[i], text, sizeof text);
        if (s->children[i].lines[0] != '\0')
            lines[count++] = s->children[i].lines;
    }
    diag(DIAG_INFO, "serving data_dir=%s%s", s->line->config.data_dir, text);
    config_ready(s->ready_fd, lines, count);
    s->ready_fd = -1;
    s->announced = true;
}

static void
take_ready_child(struct serve *s, struct child *c)
{
    char text[1024] = "";

    if (s->announced) {
        append_lines(c, text, sizeof text);
        diag(DIAG_INFO, "%s serves again pid=%d%s", c->program, (int)c->pid,
             text);
        return;
    }
    for (size_t i = 1; c == &s->children[0] && i < s->count; i++)
        if (s->children[i].pid == 0 && s->children[i].start_ms == 0)
            s->children[i].start_ms = clock_ms();
    for (size_t i = 0; i < s->count; i++)
        if (!s->children[i].is_ready)
            return;
    announce_all(s);
}

/* ---- events ------------------------------------------------------------ */

static void
read_ready_line(struct serve *s, struct child *c)
{
    const int rc = child_read_lines(c);

    if (rc == 0 || s->phase != PHASE_SERVING)
        return; /* not yet; or it ended, which SIGCHLD reports */
    if (rc > 0) {
        take_ready_child(s, c);
        return;
    }
    diag_errno(DIAG_ERROR, rc, "%s: its ready line cannot be read", c->program);
    fail_with(s, CONFIG_EXIT_SYSTEM);
}

/* Starts a child again that a signal has ended, after a pause that doubles.
 * One that ends so again and again meets the same damage each time. */
static void
restart_child(struct serve *s, struct child *c, const char *how)
{
    const uint64_t now_ms = clock_ms();
    uint64_t pause_ms;

    if (c->deaths == 0 || now_ms - c->deaths_since_ms >= DEATHS_MS) {
        c->deaths_since_ms = now_ms;
        c->deaths = 0;
    }
    if (++c->deaths == DEATHS_MAX) {
        diag(DIAG_ERROR,
             "%s %s, the %dth time within a minute; stopping the others: what "
             "it reported before says why, and countd check finds damage",
             c->program, how, DEATHS_MAX);
        fail_with(s, CONFIG_EXIT_SYSTEM);
        return;
    }
    pause_ms = (uint64_t)BACK_OFF_MS << (c->deaths - 1);
    if (pause_ms > BACK_OFF_MAX)
        pause_ms = BACK_OFF_MAX;
    diag(DIAG_ERROR, "%s %s; it is started again in %u ms", c->program, how,
         (unsigned)pause_ms);
    c->start_ms = now_ms + pause_ms;
}

static void
take_end(struct serve *s, struct child *c)
{
    const bool was_signalled = WIFSIGNALED(c->status);
    const bool was_ready = c->is_ready;
    char how[128];

    c->is_ready = false;
    child_describe(c, how, sizeof how);
    if (s->phase == PHASE_SERVING && was_signalled) {
        restart_child(s, c, how);
        return;
    }
    if (s->phase == PHASE_SERVING && was_ready && WEXITSTATUS(c->status) == 0) {
        /* It was stopped, to upgrade it. */
        diag(DIAG_INFO, "%s has stopped and is started again", c->program);
        c->start_ms = clock_ms();
        return;
    }
    if (s->phase != PHASE_SERVING &&
        (was_signalled ? WTERMSIG(c->status) == SIGINT
                       : WEXITSTATUS(c->status) == 0))
        return;
    diag(DIAG_ERROR, "%s %s%s", c->program, how,
         s->phase == PHASE_SERVING ? "; stopping the others" : "");

    /* Settings that are refused before it serves will be refused again. */
    fail_with(s, !was_ready && !was_signalled &&
                         WEXITSTATUS(c->status) == CONFIG_EXIT_USAGE
                     ? CONFIG_EXIT_USAGE
                     : CONFIG_EXIT_SYSTEM);
}

static void
take_signal(struct serve *s)
{
    struct signalfd_siginfo info;
    int signo;

    if (read(s->signal_fd, &info, sizeof info) != sizeof info)
        return; /* poll() will report it again */
    signo = (int)info.ssi_signo;
    if (signo == SIGCHLD) {
        for (size_t i = 0; i < s->count; i++)
            if (child_has_ended(&s->children[i]))
                take_end(s, &s->children[i]);
    } else if (signo == SIGUSR1) {
        signal_children(s, NULL, signo);
    } else if (signo == SIGUSR2) {
        signal_children(s, writer, signo);
    } else {
        s->stops++;
        if (s->stop_signal == 0) {
            s->stop_signal = signo;
            diag(DIAG_INFO, "stopping (%s)", strsignal(signo));
        }
        begin_stop(s);
    }
}

static int
poll_timeout(const struct serve *s)
{
    const uint64_t now_ms = clock_ms();
    uint64_t next_ms = UINT64_MAX;

    if (s->phase == PHASE_DRAINING)
        return DRAIN_POLL_MS;
    if (s->phase != PHASE_SERVING)
        next_ms = s->deadline_ms;
    for (size_t i = 0; i < s->count && s->phase == PHASE_SERVING; i++)
        if (s->children[i].start_ms != 0 && s->children[i].start_ms < next_ms)
            next_ms = s->children[i].start_ms;
    if (next_ms == UINT64_MAX)
        return -1;
    return next_ms <= now_ms ? 0 : (int)(next_ms - now_ms);
}

static void
run_loop(struct serve *s)
{
    struct pollfd fds[2 + CHILDREN_MAX];

    s->children[0].start_ms = clock_ms();
    while (s->phase == PHASE_SERVING || has_running(s, NULL)) {
        start_due(s);
        fds[0] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = s->keeper.fd, .events = POLLIN};
        for (size_t i = 0; i < s->count; i++)
            fds[2 + i] = (struct pollfd){.fd = s->children[i].ready_fd,
                                         .events = POLLIN};
        if (poll(fds, 2 + s->count, poll_timeout(s)) < 0)
            continue; /* a signal that is not ours, such as SIGCONT */
        /* Before the end of who sent it is seen. */
        child_keeper_take(&s->keeper, s->children, s->count);
        for (size_t i = 0; i < s->count; i++)
            if (fds[2 + i].revents != 0)
                read_ready_line(s, &s->children[i]);
        if (fds[0].revents != 0)
            take_signal(s);
        advance_phase(s);
    }
}

static int
open_signals(struct serve *s)
{
    sigset_t mask;

    signals_take(&mask);
    (void)sigaddset(&mask, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
        return -errno;
    s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signal_fd < 0 ? -errno : 0;
}

/* ---- the subcommand ---------------------------------------------------- */

/* Sets the user that the daemons become.  As root without `user` this warns once
 * and gives the daemons user=root, so that they do not warn as well. */
static int
set_user(struct cmd_line *line)
{
    const char *user = cmd_value(line, "u");
    char why[CONFIG_WHY_SIZE];

    if (user == NULL && line->config.user[0] == '\0' && geteuid() == 0 &&
        cmd_value(line, "t") == NULL) {
        diag(DIAG_WARNING, PRIVILEGE_ROOT_WARNING);
        user = "root";
    }
    if (user == NULL)
        return 0;
    if (config_set(&line->config, "user", user, why) < 0)
        return cmd_fail(CONFIG_EXIT_USAGE, "%s", why);
    return config_source_add(&line->sources, 'u', user);
}

static int
read_options(struct serve *s, int64_t *workers)
{
    const char *text = cmd_value(s->line, "ready-fd");
    const int *status = s->line->status;

    s->ready_fd = -1;
    *workers = cmd_option_number(s->line, "workers", 1, WORKERS_MAX, 1);
    return *status == 0 && text != NULL ? config_ready_fd(text, &s->ready_fd)
                                        : *status;
}

int
cmd_serve(struct cmd_line *line)
{
    struct serve s = {.line = line, .signal_fd = -1};
    char why[CONFIG_WHY_SIZE];
    int64_t workers;
    int status, rc;

    status = read_options(&s, &workers);
    if (status == 0 && config_check(&line->config, why) < 0)
        status = cmd_fail(CONFIG_EXIT_USAGE, "%s", why);
    if (status == 0)
        status = set_user(line);
    if (status != 0)
        return status;
    if (cmd_value(line, "t") != NULL)
        return config_test(&line->config);
    rc = open_signals(&s);
    if (rc == 0)
        rc = child_keeper_open(&s.keeper);
    if (rc < 0)
        return cmd_failed(rc, "take signals and sockets of the daemons");

    add_child(&s, writer);
    for (int64_t i = 0; i < workers; i++)
        add_child(&s, worker);
    add_child(&s, reader);
    run_loop(&s);
    (void)close(s.signal_fd);
    return s.status != 0 ? s.status : signals_exit_status(s.stop_signal);
}

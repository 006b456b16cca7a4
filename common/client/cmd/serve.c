/* common/client/cmd/serve.c - countd serve: the three daemons as one.
 *
 * Start: the writer first, as it makes the data directory; then the others.
 * Stop, on a signal or because one of them died: the writer first, so that it
 * hands its log on; then, when the workers have merged it (or DRAIN_MS
 * later), the rest.  Whoever does not stop within INTERRUPT_MS more than
 * write.drain is killed, which by design costs nothing but the wait.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/children.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/wait_merged.h"
#include "common/log/pending.h"
#include "common/net/net.h"
#include "common/setup/privilege.h"

#define DRAIN_MS      5000
#define DRAIN_LOOK_MS 20
#define INTERRUPT_MS  30000
#define BIND_WAIT_MS  3000 /* as the daemons */
#define WORKERS_MAX   (CHILDREN_MAX - 2)
#define READY_LINES   8

static const char writer[] = "countd-write";
static const char worker[] = "countd-worker";
static const char reader[] = "countd-read";

enum phase {
    PHASE_WRITER, /* starts */
    PHASE_OTHERS, /* start */
    PHASE_SERVING,
    PHASE_SEALING, /* the writer stops */
    PHASE_DRAINING,
    PHASE_STOPPING, /* the others stop */
};

struct serve {
    const struct cmd_line *line;
    struct children children;
    enum phase phase;
    uint64_t deadline_ms; /* of this phase, monotonic; 0: none */
    int signal_fd;
    int ready_fd;   /* ours; -1 */
    unsigned stops; /* signals that asked for it */
    int status;     /* to exit with */
};

/* ---- starting ---------------------------------------------------------- */

static int
start_child(struct serve *s, size_t index)
{
    const int rc = children_start(&s->children, index);

    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "start %s",
                   s->children.child[index].program);
    return rc;
}

static bool
all_ready(const struct serve *s)
{
    for (size_t i = 0; i < s->children.count; i++)
        if (!s->children.child[i].ready)
            return false;
    return true;
}

/* Says on stderr and to our own ready descriptor what the daemons said. */
static void
announce(struct serve *s)
{
    const char *lines[READY_LINES];
    char text[1024] = "";
    size_t count = 0;

    for (size_t i = 0; i < s->children.count; i++) {
        char *at = s->children.child[i].lines;
        char *save, *line;

        for (line = strtok_r(at, "\n", &save);
             line != NULL && count < READY_LINES;
             line = strtok_r(NULL, "\n", &save)) {
            const size_t size = strlen(text);

            lines[count++] = line;
            (void)snprintf(text + size, sizeof text - size, " %s",
                           line); /* a cut text still helps */
        }
    }
    diag(DIAG_INFO, "serving data_dir=%s%s", s->line->config.data_dir, text);
    config_ready(s->ready_fd, lines, count);
    s->ready_fd = -1;
}

static int
child_ready(struct serve *s)
{
    int rc = 0;

    if (s->phase == PHASE_WRITER) {
        s->phase = PHASE_OTHERS;
        for (size_t i = 1; rc == 0 && i < s->children.count; i++)
            rc = start_child(s, i);
    } else if (s->phase == PHASE_OTHERS && all_ready(s)) {
        s->phase = PHASE_SERVING;
        announce(s);
    }
    return rc;
}

/* ---- stopping ---------------------------------------------------------- */

static void
enter(struct serve *s, enum phase phase, uint64_t limit_ms)
{
    s->phase = phase;
    s->deadline_ms = clock_ms() + limit_ms;
}

static void
begin_stop(struct serve *s)
{
    if (s->phase >= PHASE_SEALING)
        return;
    enter(s, PHASE_SEALING, s->line->config.write_drain_ms + INTERRUPT_MS);
    children_signal(&s->children, writer, SIGTERM);
}

/* True when no log is left that a worker could merge. */
static bool
is_drained(const struct serve *s)
{
    char path[CONFIG_TEXT_SIZE + 8];
    struct logdir logs;
    uint64_t oldest_ms;
    bool drained = true;
    int fd;

    /* What cannot be looked at is not waited for. */
    (void)snprintf(path, sizeof path, "%s/log",
                   s->line->config.data_dir); /* has room */
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return true;
    if (wait_logs_open(s->line, fd, &logs) < 0) {
        (void)close(fd); /* only read */
        return true;
    }
    if (pending_oldest_ms(&logs, &oldest_ms) == 0)
        drained = oldest_ms == UINT64_MAX;
    logdir_close(&logs);
    (void)close(fd); /* only read */
    return drained;
}

static void
kill_late(struct serve *s)
{
    for (size_t i = 0; i < s->children.count; i++)
        if (s->children.child[i].pid > 0)
            diag(DIAG_ERROR, "%s pid=%d does not stop and is killed",
                 s->children.child[i].program, (int)s->children.child[i].pid);
    s->status = CONFIG_EXIT_SYSTEM;
    children_signal(&s->children, NULL, SIGKILL);
    s->deadline_ms = clock_ms() + INTERRUPT_MS;
}

/* Goes from phase to phase as far as it can now. */
static void
advance_stop(struct serve *s)
{
    const bool late = clock_ms() >= s->deadline_ms;

    if (s->phase == PHASE_SEALING &&
        !children_program_runs(&s->children, writer))
        enter(s, PHASE_DRAINING, DRAIN_MS);
    else if (s->phase >= PHASE_SEALING && s->phase != PHASE_DRAINING && late)
        kill_late(s);

    if (s->phase == PHASE_DRAINING &&
        (s->stops > 1 || clock_ms() >= s->deadline_ms ||
         !children_program_runs(&s->children, worker) || is_drained(s))) {
        enter(s, PHASE_STOPPING, INTERRUPT_MS);
        children_signal(&s->children, NULL, SIGTERM);
    }
}

/* ---- events ------------------------------------------------------------ */

static void
child_ended(struct serve *s, const struct child *child)
{
    const bool clean = WIFEXITED(child->status) && !WEXITSTATUS(child->status);
    const bool asked = s->phase >= PHASE_SEALING &&
                       WIFSIGNALED(child->status) &&
                       WTERMSIG(child->status) == SIGTERM;
    char text[128];

    if (s->phase >= PHASE_SEALING && (clean || asked))
        return;
    children_describe(child, text, sizeof text);
    diag(DIAG_ERROR, "%s %s%s", child->program, text,
         s->phase < PHASE_SEALING ? "; stopping the others" : "");

    /* Before it was ready, bad settings are bad settings; the first reason
     * is the one that counts. */
    if (s->status == 0)
        s->status = !child->ready && WIFEXITED(child->status) &&
                            WEXITSTATUS(child->status) == CONFIG_EXIT_USAGE
                        ? CONFIG_EXIT_USAGE
                        : CONFIG_EXIT_SYSTEM;
    begin_stop(s);
}

static void
take_signal(struct serve *s)
{
    struct signalfd_siginfo info;
    int index;

    if (read(s->signal_fd, &info, sizeof info) != sizeof info)
        return; /* poll() will tell again */
    switch (info.ssi_signo) {
    case SIGCHLD:
        while ((index = children_reap(&s->children)) >= 0)
            child_ended(s, &s->children.child[index]);
        break;
    case SIGUSR1:
        for (size_t i = 0; i < s->children.count; i++)
            /* Before it is ready the signal would end it.  One that has just
             * ended does not mind. */
            if (s->children.child[i].ready && s->children.child[i].pid > 0)
                (void)kill(s->children.child[i].pid, SIGUSR1);
        break;
    case SIGUSR2:
        /* Before it is ready the signal would end it. */
        if (s->children.child[0].ready)
            children_signal(&s->children, writer, SIGUSR2);
        break;
    default:
        s->stops++;
        begin_stop(s);
        break;
    }
}

static void
take_ready(struct serve *s, size_t index)
{
    const char *program = s->children.child[index].program;
    const int rc = children_read(&s->children, index);

    if (rc == 0 || s->phase >= PHASE_SEALING)
        return; /* not yet; or it ended, which SIGCHLD tells */
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "%s: what it says is no ready line",
                   program);
    if (rc > 0 && child_ready(s) == 0)
        return;
    s->status = CONFIG_EXIT_SYSTEM;
    begin_stop(s);
}

static int
poll_timeout(const struct serve *s)
{
    const uint64_t now = clock_ms();

    if (s->phase < PHASE_SEALING)
        return -1;
    if (s->phase == PHASE_DRAINING)
        return DRAIN_LOOK_MS;
    return now >= s->deadline_ms ? 0 : (int)(s->deadline_ms - now);
}

static void
run(struct serve *s)
{
    struct pollfd fds[1 + CHILDREN_MAX];
    const size_t count = s->children.count;

    while (s->phase < PHASE_SEALING || children_run(&s->children)) {
        fds[0] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
        for (size_t i = 0; i < count; i++)
            fds[1 + i] = (struct pollfd){.fd = s->children.child[i].ready_fd,
                                         .events = POLLIN};
        if (poll(fds, 1 + count, poll_timeout(s)) < 0)
            continue; /* a signal that is not ours, such as SIGCONT */
        for (size_t i = 0; i < count; i++)
            if (fds[1 + i].revents != 0)
                take_ready(s, i);
        if (fds[0].revents != 0)
            take_signal(s);
        if (s->phase >= PHASE_SEALING)
            advance_stop(s);
    }
}

static int
open_signals(struct serve *s)
{
    sigset_t mask;

    /* sigset calls fail for bad signal numbers only. */
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGINT);
    (void)sigaddset(&mask, SIGHUP);
    (void)sigaddset(&mask, SIGUSR1);
    (void)sigaddset(&mask, SIGUSR2);
    (void)sigaddset(&mask, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
        return -errno;
    s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signal_fd < 0 ? -errno : 0;
}

/* A port that is taken is found out before a data directory is made for
 * nothing.  One that is there has what it needs; its writer's lock then comes
 * first, which tells more.  All else the daemons say. */
static int
check_ports(const struct cmd_line *line)
{
    const struct config *c = &line->config;
    char counter[CONFIG_TEXT_SIZE + 24] = "", semaphore[sizeof counter] = "";
    const struct {
        const char *key, *address;
    } ports[] = {
        {"write.listen", c->write_listen},
        {"write.ack_listen", c->write_ack_listen},
        {"read.listen", c->read_listen},
        {"counter.port", counter},
        {"semaphore.port", semaphore},
    };
    char path[CONFIG_TEXT_SIZE + 8];
    struct net_address address;

    /* Both have room. */
    if (c->counter_enable && c->counter_port != CONFIG_PORT_SOCKET)
        (void)snprintf(counter, sizeof counter, "%s:%" PRIu64, c->live_address,
                       c->counter_port);
    if (c->semaphore_enable && c->semaphore_port != CONFIG_PORT_SOCKET)
        (void)snprintf(semaphore, sizeof semaphore, "%s:%" PRIu64,
                       c->live_address, c->semaphore_port);
    (void)snprintf(path, sizeof path, "%s/log", c->data_dir); /* has room */
    if (access(path, F_OK) == 0)
        return 0;
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        if (ports[i].address[0] == '\0' ||
            net_resolve(ports[i].address, &address, 1) < 0 ||
            net_probe(&address, BIND_WAIT_MS) != -EADDRINUSE)
            continue;
        diag(DIAG_ERROR,
             "%s=%s is in use by another process: stop it, or set %s to a "
             "free port",
             ports[i].key, ports[i].address, ports[i].key);
        return CONFIG_EXIT_SYSTEM;
    }
    return 0;
}

/* ---- the subcommand ---------------------------------------------------- */

/* Whom the daemons become.  As root without `user` one warning does, not one
 * of each: that they get to hear is what is meant by user=root. */
static int
set_user(struct cmd_line *line)
{
    const char *user = cmd_value(line, "u");
    char why[512];

    if (user == NULL && line->config.user[0] == '\0' && geteuid() == 0 &&
        cmd_value(line, "t") == NULL) {
        diag(DIAG_WARNING, PRIVILEGE_ROOT_WARNING);
        user = "root";
    }
    if (user == NULL)
        return 0;
    if (config_set(&line->config, "user", user, why, sizeof why) < 0) {
        diag(DIAG_ERROR, "%s", why);
        return CONFIG_EXIT_USAGE;
    }
    if (config_source_add(&line->sources, 'u', user) == 0)
        return 0;
    diag(DIAG_ERROR, "more than %d -o, -d and -u; put them into a file",
         CONFIG_SOURCES_MAX);
    return CONFIG_EXIT_USAGE;
}

static int
read_options(struct serve *s, int64_t *workers)
{
    const char *text = cmd_value(s->line, "ready-fd");
    int64_t fd;
    int status;

    s->ready_fd = -1;
    status = cmd_option_number(s->line, "workers", 1, WORKERS_MAX, 1, workers);
    if (status != 0 || text == NULL)
        return status;
    status = cmd_number(text, "--ready-fd", 0, 1 << 20, &fd);
    if (status != 0)
        return status;
    if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0) {
        diag(DIAG_ERROR,
             "--ready-fd %s: give the number of an open "
             "descriptor",
             text);
        return CONFIG_EXIT_USAGE;
    }
    s->ready_fd = (int)fd;
    return 0;
}

static int
check_settings(const struct cmd_line *line)
{
    char why[512];

    if (config_check(&line->config, why, sizeof why) == 0)
        return 0;
    diag(DIAG_ERROR, "%s", why);
    return CONFIG_EXIT_USAGE;
}

int
cmd_serve(struct cmd_line *line)
{
    struct serve s = {.line = line, .signal_fd = -1};
    int64_t workers;
    int status, rc;

    status = read_options(&s, &workers);
    if (status == 0)
        status = check_settings(line);
    if (status == 0)
        status = set_user(line);
    if (status != 0)
        return status;
    if (cmd_value(line, "t") != NULL)
        return puts("settings are good") < 0 || fflush(stdout) != 0
                   ? CONFIG_EXIT_SYSTEM
                   : CONFIG_EXIT_OK;
    status = check_ports(line);
    if (status != 0)
        return status;
    rc = open_signals(&s);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "block signals");
        return CONFIG_EXIT_SYSTEM;
    }

    children_init(&s.children, &line->sources);
    (void)children_add(&s.children, writer); /* the first is the writer */
    for (int64_t i = 0; i < workers; i++)
        (void)children_add(&s.children, worker); /* any order */
    (void)children_add(&s.children, reader);     /* likewise */
    if (start_child(&s, 0) < 0) {
        s.status = CONFIG_EXIT_SYSTEM;
        s.phase = PHASE_SEALING;
    }
    run(&s);
    children_fini(&s.children);
    (void)close(s.signal_fd); /* nothing is written to it */
    return s.status;
}

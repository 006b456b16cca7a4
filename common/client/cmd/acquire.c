/* common/client/cmd/acquire.c - countd acquire: hold a live resource while a
 * command runs.
 *
 * The command is a child in our process group, so the terminal sends both of
 * us its signals, and Ctrl-Z stops both.  Signals that others send to us are
 * passed on.
 *
 * As with flock(1) the command inherits the connection.  The server releases
 * what is held when the last process that has it open ends or closes it, so a
 * command whose parent was killed still holds it.  This process therefore
 * neither releases nor shuts the connection down: its copy is closed when it
 * ends.  With --close the command gets no copy, and this process releases. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"

/* The pause between two attempts, which doubles after each. */
#define PAUSE_FIRST_MS 10
#define PAUSE_LAST_MS  250

/* --kill-on-loss: time between SIGTERM and SIGKILL. */
#define KILL_AFTER_MS 10000

#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND      127
#define EXIT_SIGNAL         128 /* and its number */

struct acquire_holding {
    const struct cmd_line *line;
    struct cmd_live_name name;
    uint32_t resources;
    uint32_t bound;
    uint64_t wait_ms; /* UINT64_MAX: for ever */
    int refused;      /* exit status if it is not available */
    bool kill_on_loss;
    bool inherited; /* the command inherits the connection */
    struct countd_live *l;
    bool lost;
    pid_t pid;
    int signal_fd;
    uint64_t kill_at_ms; /* UINT64_MAX: not to be killed */
};

/* ---- the line ---------------------------------------------------------- */

static int
parse_numbers(struct acquire_holding *h)
{
    const struct cmd_line *line = h->line;
    const int64_t resources =
        cmd_number(line, line->args[1], "N", 1, UINT32_MAX);
    const int64_t max = cmd_number(line, line->args[2], "MAX", 1, UINT32_MAX);

    h->resources = (uint32_t)resources;
    h->bound = (uint32_t)max;
    h->refused =
        (int)cmd_option_number(line, "E", 0, 255, CONFIG_EXIT_NEGATIVE);
    h->wait_ms =
        cmd_option_ms(line, "w", cmd_value(line, "wait") ? UINT64_MAX : 0);
    h->kill_on_loss = cmd_value(line, "kill-on-loss") != NULL;
    h->inherited = cmd_value(line, "close") == NULL;
    if (*line->status == 0 && resources > max)
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "%" PRId64 " of %" PRId64
                        " can never be had; N is at most MAX",
                        resources, max);
    return *line->status;
}

/* ---- acquire ----------------------------------------------------------- */

/* 0: acquired; -EBUSY: not available in time; else another error. */
static int
acquire_in_time(struct acquire_holding *h)
{
    struct pollfd p = {.fd = countd_live_fd(h->l), .events = POLLIN};
    const uint64_t start = clock_ms();
    const uint64_t end =
        h->wait_ms == UINT64_MAX ? UINT64_MAX : start + h->wait_ms;
    uint64_t pause_ms = PAUSE_FIRST_MS;

    for (;;) {
        const int rc =
            countd_acquire(h->l, countd_bytes(h->name.bytes, h->name.size),
                           h->resources, h->bound);
        const uint64_t now = clock_ms();

        if (rc != -EBUSY || now >= end)
            return rc;
        /* The last attempt is at the deadline; after EINTR it only comes
         * earlier. */
        if (poll(&p, 1, (int)(pause_ms < end - now ? pause_ms : end - now)) >
                0 &&
            countd_live_alive(h->l) < 0)
            return -ENOTCONN;
        pause_ms = 2 * pause_ms < PAUSE_LAST_MS ? 2 * pause_ms : PAUSE_LAST_MS;
    }
}

/* ---- the command ------------------------------------------------------- */

/* Runs in the child and never returns. */
static void
exec_command(struct acquire_holding *h, const sigset_t *mask, pid_t parent)
{
    char **argv = &h->line->args[3];
    int error;

    /* --kill-on-loss covers our own death: the kernel sends the command SIGTERM
     * when this process dies. */
    if (h->kill_on_loss)
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (h->kill_on_loss && getppid() != parent)
        _exit(EXIT_SIGNAL + SIGTERM);
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    if (h->inherited && fcntl(countd_live_fd(h->l), F_SETFD, 0) < 0) {
        diag_errno(DIAG_ERROR, -errno, "pass the connection to %s", argv[0]);
        _exit(EXIT_NOT_EXECUTABLE);
    }
    (void)execvp(argv[0], argv); /* returns to fail only */
    error = errno;
    diag_errno(DIAG_ERROR, error, "%s", argv[0]);
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

/* Starts the command. From then on signals, SIGCHLD included, are read from
 * signal_fd. */
static int
start_command(struct acquire_holding *h)
{
    static const int passed[] = {SIGTERM, SIGINT,  SIGHUP,
                                 SIGQUIT, SIGUSR1, SIGUSR2};
    const pid_t self = getpid();
    sigset_t set, before;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++)
        (void)sigaddset(&set, passed[i]);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, &before);
    /* If SIGCHLD were ignored, the kernel would discard the exit status. */
    (void)signal(SIGCHLD, SIG_DFL);
    h->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (h->signal_fd < 0)
        return -errno;
    h->pid = fork();
    if (h->pid < 0)
        return -errno;
    if (h->pid == 0)
        exec_command(h, &before, self);
    return 0;
}

static void
report_loss(struct acquire_holding *h)
{
    h->lost = true;
    diag(DIAG_WARNING,
         "the connection to countd-write is lost: %s is not held any more, "
         "%s",
         cmd_text(h->name.bytes, h->name.size),
         h->kill_on_loss ? "the command gets SIGTERM"
                         : "while the command runs on");
    if (!h->kill_on_loss)
        return;
    /* The child is not reaped yet, so the pid is its own. A stopped process
     * handles SIGTERM only after SIGCONT. */
    (void)kill(h->pid, SIGTERM);
    (void)kill(h->pid, SIGCONT);
    h->kill_at_ms = clock_ms() + KILL_AFTER_MS;
}

/* Forwards signals to the command. Signals of the terminal (si_code > 0), and
 * those that the command sends to its process group, have reached it already.
 * */
static void
forward_signals(const struct acquire_holding *h)
{
    struct signalfd_siginfo s;

    while (read(h->signal_fd, &s, sizeof s) == (ssize_t)sizeof s) {
        if (s.ssi_signo == SIGCHLD || s.ssi_code > 0 ||
            s.ssi_pid == (uint32_t)h->pid)
            continue;
        /* The child is not reaped yet, so the pid is its own. */
        (void)kill(h->pid, (int)s.ssi_signo);
    }
}

/* Waits until the command ends. Returns its status as waitpid() gives it. */
static int
await_command(struct acquire_holding *h)
{
    struct pollfd p[] = {{.fd = h->signal_fd, .events = POLLIN},
                         {.fd = countd_live_fd(h->l), .events = POLLIN}};
    int status;
    pid_t ended;

    for (;;) {
        const uint64_t now = clock_ms();
        int timeout_ms = -1;

        if (h->kill_at_ms != UINT64_MAX)
            timeout_ms = h->kill_at_ms > now ? (int)(h->kill_at_ms - now) : 0;
        if (timeout_ms == 0) {
            (void)kill(h->pid, SIGKILL); /* not reaped yet */
            h->kill_at_ms = UINT64_MAX;
            timeout_ms = -1;
        }
        /* After EINTR the loop only checks earlier. */
        (void)poll(p, 2, timeout_ms);
        if (p[1].revents != 0 && countd_live_alive(h->l) < 0) {
            p[1].fd = -1;
            report_loss(h);
        }
        forward_signals(h);
        ended = waitpid(h->pid, &status, WNOHANG);
        if (ended == h->pid)
            return status;
        assert(ended == 0); /* no other thread reaps it */
    }
}

static int
run_command(struct acquire_holding *h)
{
    int status;
    int rc;

    rc = start_command(h);
    if (rc < 0)
        return cmd_failed(rc, "start %s", h->line->args[3]);
    status = await_command(h);
    status = WIFEXITED(status) ? WEXITSTATUS(status)
                               : EXIT_SIGNAL + WTERMSIG(status);
    /* An error means that the resource is released already. */
    if (!h->lost && !h->inherited)
        (void)countd_release(h->l, countd_bytes(h->name.bytes, h->name.size),
                             h->resources);
    if (!h->lost || !h->kill_on_loss)
        return status;
    /* The command may have caught SIGTERM and still exit with 0. */
    return cmd_fail(
        CONFIG_EXIT_SYSTEM,
        "the command ended after the loss of what it had acquired, status=%d",
        status);
}

/* ---- the subcommand ---------------------------------------------------- */

static int
acquire_and_run(struct acquire_holding *h)
{
    int rc;

    rc = acquire_in_time(h);
    if (rc == 0)
        return run_command(h);
    if (rc != -EBUSY)
        return cmd_peer_failed(h->line, cmd_live_peer(h->line), rc);
    if (cmd_value(h->line, "q") != NULL)
        return h->refused;
    diag(DIAG_INFO, "%s: %" PRIu32 " of %" PRIu32 " not available%s",
         cmd_text(h->name.bytes, h->name.size), h->resources, h->bound,
         h->wait_ms > 0 ? " in time" : "");
    return h->refused;
}

int
cmd_acquire(struct cmd_line *line)
{
    static struct acquire_holding h = {.signal_fd = -1,
                                       .kill_at_ms = UINT64_MAX};
    int status;

    h.line = line;
    line->args[line->arg_count] = NULL; /* for execvp(); argv has room */
    status = parse_numbers(&h);
    h.name = cmd_live_name(line, line->args[0]);
    if (status == 0)
        status = cmd_live_open(line, &h.l);
    if (status == 0)
        status = acquire_and_run(&h);
    if (h.pid == 0 || !h.inherited)
        countd_live_close(h.l);
    if (h.signal_fd >= 0)
        (void)close(h.signal_fd);
    return status;
}

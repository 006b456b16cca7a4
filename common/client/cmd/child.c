/* common/client/cmd/child.c - see cmd_terminal.h. */
#include "common/client/cmd/cmd_terminal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Program, -f FILE, -o, -d or -u with its value, --ready-fd N, NULL. */
#define ARGS_MAX (1 + 2 + 2 * CONFIG_SOURCES_MAX + 2 + 1)

/* Programs that were built or installed together run together.  Falls back to
 * the bare name, which execvp() looks for in $PATH. */
static void
find_program(const char *program, char path[PATH_MAX])
{
    const ssize_t size = readlink("/proc/self/exe", path, PATH_MAX - 1);
    char *slash;

    if (size > 0) {
        path[size] = '\0';
        slash = strrchr(path, '/');
        if (slash != NULL &&
            (size_t)(slash - path) + strlen(program) + 2 <= PATH_MAX) {
            memcpy(slash + 1, program, strlen(program) + 1);
            if (access(path, X_OK) == 0)
                return;
        }
    }
    (void)snprintf(path, PATH_MAX, "%s", program);
}

/* The command line of a daemon has the sources of our own. */
static void
format_args(const struct config_sources *s, const char *program,
            const char *ready_fd, const char *args[ARGS_MAX])
{
    size_t n = 0;

    args[n++] = program;
    if (s->file != NULL) {
        args[n++] = "-f";
        args[n++] = s->file;
    }
    for (size_t i = 0; i < s->count; i++) {
        args[n++] = s->letters[i] == 'u'   ? "-u"
                    : s->letters[i] == 'd' ? "-d"
                                           : "-o";
        args[n++] = s->texts[i];
    }
    args[n++] = "--ready-fd";
    args[n++] = ready_fd;
    args[n] = NULL;
    assert(n < ARGS_MAX);
}

/* Between fork and exec: async-signal-safe calls only. */
static _Noreturn void
exec_program(const char *path, const char *const *args, int ready_fd,
             pid_t parent)
{
    sigset_t none;

    /* None of these can fail with valid arguments of our own. */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    /* serve itself notifies the service manager, once all are ready.
     * unsetenv() only moves pointers. */
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("STATE_DIRECTORY"); /* serve itself does not go by it */
    (void)fcntl(ready_fd, F_SETFD, 0);

    /* The parent may have died before prctl(). */
    if (getppid() == parent)
        (void)execvp(path,
                     (char *const *)(uintptr_t)args); /* returns: failed */
    _exit(127);
}

int
child_start(struct child *c, const struct config_sources *sources)
{
    const char *args[ARGS_MAX];
    char path[PATH_MAX], number[16];
    const pid_t parent = getpid();
    int fds[2];
    pid_t pid;
    int rc;

    assert(c->pid == 0 && c->ready_fd < 0);
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    (void)snprintf(number, sizeof number, "%d", fds[1]);
    find_program(c->program, path);
    format_args(sources, c->program, number, args);
    pid = fork();
    rc = -errno;
    if (pid == 0)
        exec_program(path, args, fds[1], parent);
    (void)close(fds[1]);
    if (pid < 0) {
        (void)close(fds[0]);
        return rc;
    }
    c->pid = pid;
    c->ready_fd = fds[0];
    c->is_ready = false;
    c->lines[0] = '\0';
    c->lines_size = 0;
    return 0;
}

int
child_read_lines(struct child *c)
{
    const size_t free_size = sizeof c->lines - 1 - c->lines_size;
    ssize_t n;

    assert(c->ready_fd >= 0);
    do
        n = read(c->ready_fd, c->lines + c->lines_size, free_size);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        c->lines_size += (size_t)n;
        c->lines[c->lines_size] = '\0';
    }
    /* An empty line ends them, or stands alone. */
    c->is_ready = c->lines[0] == '\n' || strstr(c->lines, "\n\n") != NULL;
    if (n > 0 && !c->is_ready)
        return free_size == (size_t)n ? -EMSGSIZE : 0;
    (void)close(c->ready_fd);
    c->ready_fd = -1;
    return c->is_ready;
}

bool
child_has_ended(struct child *c)
{
    if (c->pid == 0 || waitpid(c->pid, &c->status, WNOHANG) != c->pid)
        return false;
    c->pid = 0;
    if (c->ready_fd >= 0)
        (void)close(c->ready_fd);
    c->ready_fd = -1;
    return true;
}

void
child_describe(const struct child *c, char *text, size_t size)
{
    const int status = c->status;

    if (WIFSIGNALED(status))
        (void)snprintf(text, size, "was killed by signal %d (%s)",
                       WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == 127)
        (void)snprintf(text, size,
                       "could not be started: not found beside "
                       "countd nor in PATH");
    else
        (void)snprintf(text, size, "exited with status %d",
                       WEXITSTATUS(status));
}

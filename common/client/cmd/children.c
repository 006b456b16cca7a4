/* common/client/cmd/children.c - see children.h. */
#include "common/client/cmd/children.h"

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

void
children_init(struct children *c, const struct config_sources *sources)
{
    memset(c, 0, sizeof *c);
    c->sources = sources;
}

size_t
children_add(struct children *c, const char *program)
{
    assert(c->count < CHILDREN_MAX);
    c->child[c->count] = (struct child){.program = program, .ready_fd = -1};
    return c->count++;
}

/* What is built, or installed, together runs together.  Falls back to the
 * bare name, which execvp() looks for in $PATH. */
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
    (void)snprintf(path, PATH_MAX, "%s", program); /* names are short */
}

static const char *
flag(char letter)
{
    if (letter == 'u')
        return "-u";
    return letter == 'd' ? "-d" : "-o";
}

/* The command line of a daemon: the same sources as ours. */
static void
make_args(const struct config_sources *s, const char *program,
          const char *ready_fd, const char *args[ARGS_MAX])
{
    size_t n = 0;

    args[n++] = program;
    if (s->file != NULL) {
        args[n++] = "-f";
        args[n++] = s->file;
    }
    for (size_t i = 0; i < s->count; i++) {
        args[n++] = flag(s->letters[i]);
        args[n++] = s->texts[i];
    }
    args[n++] = "--ready-fd";
    args[n++] = ready_fd;
    args[n] = NULL;
    assert(n < ARGS_MAX);
}

/* Between fork and exec: async-signal-safe calls only. */
static _Noreturn void
become(const char *path, const char *const *args, int ready_fd, pid_t parent)
{
    sigset_t none;

    /* None of these can fail with valid arguments of our own. */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    /* When all serve, we tell the service manager.  Only moves pointers. */
    (void)unsetenv("NOTIFY_SOCKET");
    (void)fcntl(ready_fd, F_SETFD, 0);

    /* The parent may have died before prctl() asked to be told. */
    if (getppid() == parent)
        (void)execvp(path,
                     (char *const *)(uintptr_t)args); /* returns: failed */
    _exit(127);
}

int
children_start(struct children *c, size_t index)
{
    struct child *child = &c->child[index];
    const char *args[ARGS_MAX];
    char path[PATH_MAX], number[16];
    const pid_t parent = getpid();
    int fds[2];
    pid_t pid;
    int rc;

    assert(!child->started);
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    (void)snprintf(number, sizeof number, "%d", fds[1]); /* fits an int */
    find_program(child->program, path);
    make_args(c->sources, child->program, number, args);
    pid = fork();
    if (pid < 0) {
        rc = -errno;
        (void)close(fds[0]); /* an unused pipe */
        (void)close(fds[1]); /* likewise */
        return rc;
    }
    if (pid == 0)
        become(path, args, fds[1], parent);
    (void)close(fds[1]); /* the child's end */
    child->pid = pid;
    child->ready_fd = fds[0];
    child->started = true;
    return 0;
}

int
children_read(struct children *c, size_t index)
{
    struct child *child = &c->child[index];
    const size_t room = sizeof child->lines - 1 - child->lines_size;
    ssize_t n;

    assert(child->ready_fd >= 0);
    do
        n = read(child->ready_fd, child->lines + child->lines_size, room);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        child->lines_size += (size_t)n;
        child->lines[child->lines_size] = '\0';
    }
    /* An empty line ends it: alone, or after the others. */
    child->ready =
        child->lines[0] == '\n' || strstr(child->lines, "\n\n") != NULL;
    if (n > 0 && !child->ready)
        return room == (size_t)n ? -EMSGSIZE : 0;
    (void)close(child->ready_fd); /* a pipe that was read */
    child->ready_fd = -1;
    return child->ready;
}

int
children_reap(struct children *c)
{
    for (size_t i = 0; i < c->count; i++) {
        struct child *child = &c->child[i];

        if (child->pid == 0 ||
            waitpid(child->pid, &child->status, WNOHANG) != child->pid)
            continue;
        child->pid = 0;
        return (int)i;
    }
    return -1;
}

bool
children_run(const struct children *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->child[i].pid > 0)
            return true;
    return false;
}

bool
children_program_runs(const struct children *c, const char *program)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->child[i].pid > 0 && strcmp(c->child[i].program, program) == 0)
            return true;
    return false;
}

void
children_signal(const struct children *c, const char *program, int signo)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct child *child = &c->child[i];

        /* Not waited for yet, so the number is still its own; one that has
         * just ended does not mind. */
        if (child->pid > 0 &&
            (program == NULL || strcmp(child->program, program) == 0))
            (void)kill(child->pid, signo);
    }
}

void
children_describe(const struct child *child, char *text, size_t size)
{
    const int status = child->status;

    /* A cut text still helps. */
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

void
children_fini(struct children *c)
{
    children_signal(c, NULL, SIGKILL);
    for (size_t i = 0; i < c->count; i++) {
        struct child *child = &c->child[i];

        if (child->pid > 0)
            (void)waitpid(child->pid, &child->status, 0); /* it is dying */
        if (child->ready_fd >= 0)
            (void)close(child->ready_fd); /* a pipe we only read */
    }
}

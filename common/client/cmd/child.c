/* common/client/cmd/child.c - see child.h.
 *
 *     child_start() -> prepare_exec() -> give_sockets()
 *     child_keeper_take() -> take_request() */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/client/cmd/cmd_data.h"

#define FIRST_FD 3 /* as sd_listen_fds(3) has it */
#define FREE_FD  (FIRST_FD + KEEPER_MAX)

void
cmd_daemon_path(const char *program, char *path)
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

void
cmd_daemon_args(const struct config_sources *s, const char *program,
                const char *option, const char *value,
                const char *args[CMD_DAEMON_ARGS])
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
    args[n++] = option;
    if (value)
        args[n++] = value;
    args[n] = NULL;
    assert(n < CMD_DAEMON_ARGS);
}

/* Gives the program its sockets, from descriptor FIRST_FD on: copied behind that
 * range first, so that none is overwritten. */
static void
give_sockets(const struct child *c, const char *manager)
{
    char names[KEEPER_MAX * (KEEPER_NAME_SIZE + 1)] = "", number[24];
    int above[KEEPER_MAX];
    size_t size = 0;

    for (size_t i = 0; i < c->kept_count; i++)
        above[i] = fcntl(c->kept[i].fd, F_DUPFD_CLOEXEC, FREE_FD);
    for (size_t i = 0; i < c->kept_count; i++) {
        (void)dup2(above[i], FIRST_FD + (int)i);
        size += (size_t)snprintf(names + size, sizeof names - size, "%s%s",
                                 i > 0 ? ":" : "", c->kept[i].name);
    }
    (void)snprintf(number, sizeof number, "%d", (int)getpid());
    (void)setenv("LISTEN_PID", number, 1);
    (void)snprintf(number, sizeof number, "%zu", c->kept_count);
    (void)setenv("LISTEN_FDS", number, 1);
    (void)setenv("LISTEN_FDNAMES", names, 1);
    (void)setenv("NOTIFY_SOCKET", manager, 1);
}

/* Between fork and exec; the process has one thread. */
static void
prepare_exec(const struct child *c, const struct child_keeper *keeper,
             int ready_fd)
{
    sigset_t none;

    /* None of these can fail with valid arguments of our own. */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)unsetenv("STATE_DIRECTORY"); /* serve itself does not go by it */
    give_sockets(c, keeper->name);
    (void)fcntl(ready_fd, F_SETFD, 0);
}

/* A pipe whose end for the child is where no socket goes. */
static int
open_pipe(int fds[2])
{
    int fd;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    fd = fcntl(fds[1], F_DUPFD_CLOEXEC, FREE_FD);
    if (fd < 0) {
        fd = -errno;
        (void)close(fds[0]);
    }
    (void)close(fds[1]);
    fds[1] = fd;
    return fd < 0 ? fd : 0;
}

int
child_start(struct child *c, const struct config_sources *sources,
            const struct child_keeper *keeper)
{
    const char *args[CMD_DAEMON_ARGS];
    char path[PATH_MAX], number[16];
    const pid_t parent = getpid();
    int fds[2];
    pid_t pid;
    int rc;

    assert(c->pid == 0 && c->ready_fd < 0);
    rc = open_pipe(fds);
    if (rc < 0)
        return rc;
    (void)snprintf(number, sizeof number, "%d", fds[1]);
    cmd_daemon_path(c->program, path);
    cmd_daemon_args(sources, c->program, "--ready-fd", number, args);
    pid = fork();
    rc = -errno;
    if (pid == 0) {
        prepare_exec(c, keeper, fds[1]);
        /* The parent may have died before prctl(). */
        if (getppid() == parent)
            (void)execvp(path,
                         (char *const *)(uintptr_t)args); /* returns: failed */
        _exit(127);
    }
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
    char *end;
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
    end = c->lines[0] == '\n' ? c->lines : strstr(c->lines, "\n\n");
    if (n > 0 && end == NULL)
        return free_size == (size_t)n ? -EMSGSIZE : 0;
    c->is_ready = end != NULL;
    if (end != NULL)
        *end = '\0';
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

/* ---- sockets that are kept ----------------------------------------------- */

int
child_keeper_open(struct child_keeper *k)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t size = offsetof(struct sockaddr_un, sun_path);
    const int one = 1;

    k->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* The kernel chooses an abstract name. */
    if (k->fd < 0 ||
        setsockopt(k->fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof one) < 0 ||
        bind(k->fd, (struct sockaddr *)&a, size) < 0)
        return -errno;
    size = sizeof a;
    if (getsockname(k->fd, (struct sockaddr *)&a, &size) < 0)
        return -errno;
    size -= (socklen_t)offsetof(struct sockaddr_un, sun_path);
    (void)snprintf(k->name, sizeof k->name, "@%.*s", (int)size - 1,
                   a.sun_path + 1);
    return 0;
}

static void
drop_socket(struct child *c, size_t i)
{
    (void)close(c->kept[i].fd);
    c->kept[i] = c->kept[--c->kept_count];
}

void
child_drop_sockets(struct child *c)
{
    while (c->kept_count > 0)
        drop_socket(c, c->kept_count - 1);
}

/* "FDSTORE=1" with a descriptor or "FDSTOREREMOVE=1", and "FDNAME=". */
static void
take_request(struct child *c, const char *text, int fd)
{
    static const char key[] = "FDNAME=";
    const char *at = strstr(text, key);
    char name[KEEPER_NAME_SIZE] = "";

    (void)snprintf(name, sizeof name, "%.*s",
                   at ? (int)strcspn(at + strlen(key), "\n") : 0,
                   at ? at + strlen(key) : "");
    if (strncmp(text, "FDSTOREREMOVE=1\n", 16) == 0)
        for (size_t i = c->kept_count; i-- > 0;)
            if (strcmp(c->kept[i].name, name) == 0)
                drop_socket(c, i);
    if (fd >= 0 && c->kept_count < KEEPER_MAX &&
        strncmp(text, "FDSTORE=1\n", 10) == 0) {
        c->kept[c->kept_count].fd = fd;
        memcpy(c->kept[c->kept_count++].name, name, sizeof name);
    } else if (fd >= 0) {
        (void)close(fd);
    }
}

/* Who sent a datagram, and the descriptor in it or -1. */
static pid_t
read_control(struct msghdr *message, int *fd)
{
    struct ucred who = {.pid = 0};

    *fd = -1;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h != NULL;
         h = CMSG_NXTHDR(message, h)) {
        if (h->cmsg_level != SOL_SOCKET)
            continue;
        if (h->cmsg_type == SCM_CREDENTIALS)
            memcpy(&who, CMSG_DATA(h), sizeof who);
        else if (h->cmsg_type == SCM_RIGHTS)
            memcpy(fd, CMSG_DATA(h), sizeof *fd);
    }
    return who.pid;
}

void
child_keeper_take(const struct child_keeper *k, struct child *children,
                  size_t count)
{
    for (;;) {
        union {
            struct cmsghdr head; /* for its alignment */
            char bytes[CMSG_SPACE(sizeof(int)) +
                       CMSG_SPACE(sizeof(struct ucred))];
        } control;
        char text[256];
        struct iovec vector = {text, sizeof text - 1};
        struct msghdr message = {.msg_iov = &vector,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof control.bytes};
        const ssize_t size = recvmsg(k->fd, &message, MSG_CMSG_CLOEXEC);
        struct child *child = NULL;
        pid_t from;
        int fd;

        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return;
        text[size] = '\0';
        from = read_control(&message, &fd);
        for (size_t i = 0; i < count && from > 0; i++)
            if (children[i].pid == from)
                child = &children[i];
        if (child)
            take_request(child, text, fd);
        else if (fd >= 0)
            (void)close(fd);
    }
}

/* tests/lib/daemon.c - see daemon.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/test.h"

#define READY_FD  3     /* of the child */
#define START_MS  60000 /* until ready */
#define WAIT_MS   60000 /* until ended, after a signal to end */
#define SHOWN_MAX 65536 /* bytes of messages that are looked at or shown */

unsigned
test_slow(void)
{
    const char *text = getenv("TEST_SLOW");
    int value = text ? atoi(text) : 1;

    return value > 0 ? (unsigned)value : 1;
}

uint64_t
test_patience(uint64_t ms)
{
    return 8 * ms * test_slow();
}

uint64_t
test_deadline(uint64_t ms)
{
    return clock_ms() + test_patience(ms);
}

void
daemon_path(const char *program, char *path, size_t size)
{
    const bool is_ours = program[0] != '/';
    const int written =
        snprintf(path, size, "%s%s%s", is_ours ? test_build() : "",
                 is_ours ? "/" : "", program);

    if (written < 0 || (size_t)written >= size)
        fail_msg("the path of %s is too long", program);
}

uint16_t
daemon_free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, size) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &size) < 0)
        fail_msg("a free port: %s", strerror(errno));
    (void)close(fd); /* never listened */
    return ntohs(a.sin_port);
}

size_t
daemon_output(const struct daemon *d, char *text, size_t size)
{
    ssize_t length = 0;

    if (d->output >= 0)
        length = pread(d->output, text, size - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

const char *
daemon_text(const struct daemon *d)
{
    static char text[SHOWN_MAX];

    (void)daemon_output(d, text, sizeof text); /* NUL-terminated */
    return text;
}

/* Prints what the daemon said; called just before a failure. */
static void
show_output(const struct daemon *d)
{
    const char *text = daemon_text(d);

    print_error("%s printed%s\n%s\n", d->program, *text ? ":" : " nothing",
                test_visible(text));
}

/* In the child, between fork and exec: only async-signal-safe calls. */
static void
become_program(const char *path, const char *const *words, char *const envp[],
               const struct daemon_how *how, int output, int ready,
               pid_t parent)
{
    char *const *argv;
    sigset_t none;
    int fd;

    memcpy(&argv, &words, sizeof argv); /* execve() takes no const */
    /* Output first: it may sit where the ready descriptor goes. */
    if (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)
        _exit(125);
    /* dup2 onto itself would leave close-on-exec set. */
    if (ready == READY_FD ? fcntl(ready, F_SETFD, 0) < 0
                          : ready >= 0 && dup2(ready, READY_FD) < 0)
        _exit(125);
    /* Everything else of the test stays with the test. */
    if (close_range(ready >= 0 ? READY_FD + 1 : READY_FD, ~0U,
                    CLOSE_RANGE_CLOEXEC) < 0)
        _exit(125);
    /* Opened first: another user may not reach into the build folder. */
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        _exit(127);
    if (how->uid != 0 &&
        (setgroups(0, NULL) < 0 ||
         setresgid((gid_t)how->uid, (gid_t)how->uid, (gid_t)how->uid) < 0 ||
         setresuid(how->uid, how->uid, how->uid) < 0))
        _exit(126);
    /* After setresuid, which clears it. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(125);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    if (how->uid == 0)
        (void)execve(path, argv, envp); /* returns only to fall through */
    (void)fexecve(fd, argv, envp);
    _exit(127);
}

/* True when how->env has a value for the same name as `text`. */
static bool
is_replaced(const struct daemon_how *how, const char *text)
{
    const size_t name = strcspn(text, "=") + 1;

    for (size_t i = 0; how->env && how->env[i]; i++)
        if (strncmp(how->env[i], text, name) == 0)
            return true;
    return false;
}

/* environ, but what how->env says rules: the dynamic loader, for one, takes
 * the last value of a name and getenv() the first. */
static char **
make_env(const struct daemon_how *how)
{
    size_t have = 0, more = 0, count;
    char **env;

    while (environ[have])
        have++;
    while (how->env && how->env[more])
        more++;
    env = test_memory(calloc(have + more + 1, sizeof *env));
    for (count = 0; count < more; count++)
        memcpy(&env[count], &how->env[count], sizeof env[count]);
    for (size_t i = 0; i < have; i++)
        if (!is_replaced(how, environ[i]))
            env[count++] = environ[i];
    return env;
}

static bool
ends_with(const char *text, const char *end)
{
    const size_t size = strlen(text), end_size = strlen(end);

    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

/* Such a daemon, also one behind strace or countd serve. */
static bool
is_daemon(const char *name, const char *program, const char *const *argv)
{
    bool is = ends_with(program, name);

    for (size_t i = 0; argv[i]; i++)
        is |= ends_with(argv[i], name) || strcmp(argv[i], "serve") == 0;
    return is;
}

static bool
says_something_about(const char *const *argv, const char *start)
{
    for (size_t i = 0; argv[i]; i++)
        if (strncmp(argv[i], start, strlen(start)) == 0)
            return true;
    return false;
}

/* Options that a daemon gets unless its arguments say something about `key`: free
 * ports, as tests run side by side.  With write.drain a stop reads all that was
 * sent before it, however slow the machine; but clients that go on meanwhile keep
 * the daemons of `serve` from ending, so that is only for one started itself. */
static const struct {
    const char *daemon, *key, *option;
    bool itself;
} defaults[] = {
    {"countd-read", "read.http", "read.http=127.0.0.1:0", false},
    {"countd-write", "counter.", "counter.port=0", false},
    {"countd-write", "http.listen", "count.http=off", false},
    {"countd-write", "http.listen", "http.listen=127.0.0.1:0", false},
    {"countd-write", "write.drain", "write.drain=1m", true},
    {"countd-write", "semaphore.port", "semaphore.port=0", false},
};

#define DEFAULTS (sizeof defaults / sizeof defaults[0])

static void
spawn_child(struct daemon *d, const char *program, const struct daemon_how *how,
            int ready)
{
    const char *argv[DAEMON_ARGS_MAX + 2 * DEFAULTS + 4];
    char path[4096], **env;
    pid_t parent = getpid();
    size_t n = 0;

    daemon_path(program, path, sizeof path);
    argv[n++] = path;
    for (size_t i = 0; how->argv[i]; i++) {
        if (i == DAEMON_ARGS_MAX)
            fail_msg("too many arguments");
        argv[n++] = how->argv[i];
    }
    for (size_t i = 0; i < DEFAULTS; i++) {
        const bool is = defaults[i].itself
                            ? strcmp(program, defaults[i].daemon) == 0
                            : is_daemon(defaults[i].daemon, program, how->argv);

        if (is && !says_something_about(how->argv, defaults[i].key)) {
            argv[n++] = "-o";
            argv[n++] = defaults[i].option;
        }
    }
    if (ready >= 0) {
        argv[n++] = "--ready-fd";
        argv[n++] = "3"; /* READY_FD */
    }
    argv[n] = NULL;
    env = make_env(how);
    d->pid = fork();
    if (d->pid == 0)
        become_program(path, argv, env, how, d->output, ready, parent);
    free(env);
    if (d->pid < 0)
        fail_msg("fork: %s", strerror(errno));
}

/* One line of the ready pipe: name=address:port. */
static void
take_port(struct daemon *d, char *line)
{
    struct daemon_port *p = &d->ports[d->port_count];
    char *equals = strchr(line, '='), *colon = strrchr(line, ':');

    if (!equals || !colon || colon < equals ||
        d->port_count == DAEMON_PORTS_MAX ||
        (size_t)(equals - line) >= sizeof p->name ||
        strlen(equals + 1) >= sizeof p->address) {
        show_output(d);
        fail_msg("%s: ready line '%s' is not name=address:port", d->program,
                 line);
    }
    *equals = '\0';
    strcpy(p->name, line);
    strcpy(p->address, equals + 1);
    p->port = (uint16_t)atoi(colon + 1);
    d->port_count++;
}

/* Reads the ready lines.  0 ready, -EPIPE ended before, -ETIMEDOUT. */
static int
read_ready(struct daemon *d, int fd)
{
    uint64_t deadline = test_deadline(START_MS);
    char line[256], c;
    size_t length = 0;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = clock_ms();

        if (now >= deadline || poll(&p, 1, (int)(deadline - now)) == 0)
            return -ETIMEDOUT;
        if (read(fd, &c, 1) != 1)
            return -EPIPE;
        if (c != '\n') {
            if (length + 1 < sizeof line)
                line[length++] = c;
            continue;
        }
        line[length] = '\0';
        if (length == 0)
            return 0;
        length = 0;
        take_port(d, line);
    }
}

static void
init_daemon(struct daemon *d, const char *program)
{
    const char *slash = strrchr(program, '/');

    memset(d, 0, sizeof *d);
    (void)snprintf(d->program, sizeof d->program, "%s",
                   slash ? slash + 1 : program); /* may be cut: a label */
    /* O_APPEND is what lets several writers share it. */
    d->output = memfd_create("output", MFD_CLOEXEC);
    if (d->output < 0 || fcntl(d->output, F_SETFL, O_APPEND) < 0)
        fail_msg("memfd: %s", strerror(errno));
}

int
daemon_start_how(struct daemon *d, const char *program,
                 const struct daemon_how *how)
{
    int ready[2] = {-1, -1};
    int rc, status;

    init_daemon(d, program);
    if (!how->not_ready && pipe2(ready, O_CLOEXEC) < 0)
        fail_msg("pipe: %s", strerror(errno));
    spawn_child(d, program, how, ready[1]);
    if (how->not_ready)
        return 0;
    (void)close(ready[1]); /* the child's end */
    rc = read_ready(d, ready[0]);
    (void)close(ready[0]); /* read only */
    if (rc == 0)
        return 0;
    if (rc == -ETIMEDOUT) {
        daemon_kill(d);
        show_output(d);
        fail_msg("%s was not ready in time", d->program);
    }
    status = daemon_wait(d);
    if (how->may_fail && status != 0)
        return status;
    show_output(d);
    fail_msg("%s ended with %d before it was ready", d->program, status);
    return status;
}

static const struct daemon_port *
find_port(const struct daemon *d, const char *name)
{
    for (size_t i = 0; i < d->port_count; i++)
        if (strcmp(d->ports[i].name, name) == 0)
            return &d->ports[i];
    return NULL;
}

bool
daemon_has_port(const struct daemon *d, const char *name)
{
    return find_port(d, name) != NULL;
}

uint16_t
daemon_port(const struct daemon *d, const char *name)
{
    const struct daemon_port *port = find_port(d, name);

    if (port != NULL)
        return port->port;
    show_output(d);
    fail_msg("%s has no port named %s", d->program, name);
    return 0;
}

void
daemon_signal(const struct daemon *d, int signo)
{
    if (d->pid > 0 && kill(d->pid, signo) < 0)
        fail_msg("kill %s: %s", d->program, strerror(errno));
}

/* waitpid with a deadline: waits on the pidfd, since waitpid has none. */
static int
wait_until(struct daemon *d, uint64_t timeout_ms, int *status)
{
    struct pollfd p = {.fd = pidfd_open(d->pid, 0), .events = POLLIN};
    int rc;

    if (p.fd < 0)
        return -errno;
    do
        rc = poll(&p, 1, (int)timeout_ms);
    while (rc < 0 && errno == EINTR);
    (void)close(p.fd); /* read only */
    if (rc == 0)
        return -ETIMEDOUT;
    if (waitpid(d->pid, status, 0) != d->pid)
        return -errno;
    d->pid = 0;
    return 0;
}

int
daemon_wait(struct daemon *d)
{
    int status = 0, rc;

    if (d->pid <= 0)
        return 0;
    rc = wait_until(d, test_patience(WAIT_MS), &status);
    if (rc < 0) {
        pid_t pid = d->pid;

        /* Gone or not, it may not outlive the test. */
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        d->pid = 0;
        show_output(d);
        fail_msg("%s (pid %ld) did not end: %s", d->program, (long)pid,
                 strerror(-rc));
    }
    if (WIFSIGNALED(status))
        return 128 + WTERMSIG(status);
    return WEXITSTATUS(status);
}

int
daemon_stop(struct daemon *d)
{
    int status;

    if (d->pid <= 0)
        return 0;
    daemon_signal(d, SIGTERM);
    status = daemon_wait(d);
    if (status != 0)
        show_output(d);
    return status;
}

void
daemon_kill(struct daemon *d)
{
    int status;

    if (d->pid <= 0)
        return;
    daemon_signal(d, SIGKILL);
    status = daemon_wait(d);
    (void)status; /* it was killed; how it ended says nothing */
}

bool
daemon_alive(const struct daemon *d)
{
    siginfo_t info = {.si_pid = 0};

    return d->pid > 0 &&
           waitid(P_PID, (id_t)d->pid, &info, WEXITED | WNOHANG | WNOWAIT) ==
               0 &&
           info.si_pid == 0;
}

uint64_t
daemon_memory(const struct daemon *d)
{
    char path[64], line[256];
    unsigned long kib = 0;
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%ld/status",
                   (long)d->pid); /* always fits */
    f = fopen(path, "re");
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %lu kB", &kib) == 1)
            break;
    (void)fclose(f); /* read only */
    return (uint64_t)kib * 1024;
}

/* A process that is killed leaves no record of what it ran. */
static void
end_by_itself(struct daemon *d)
{
    struct pollfd end = {.events = POLLIN};

    if (d->pid <= 0 || (end.fd = pidfd_open(d->pid, 0)) < 0)
        return;
    daemon_signal(d, SIGCONT);
    daemon_signal(d, SIGTERM);
    (void)poll(&end, 1, 5000);
    (void)close(end.fd);
}

void
daemon_await_words(const struct daemon *d, const char *words)
{
    const uint64_t end_ms = test_deadline(30000);

    while (!strstr(daemon_text(d), words)) {
        if (clock_ms() > end_ms || !daemon_alive(d)) {
            assert_has(daemon_text(d), words);
            return; /* its last words */
        }
        (void)poll(NULL, 0, 1); /* paces the looking */
    }
}

void
daemon_fini(struct daemon *d)
{
    if (getenv("TEST_COVER") != NULL)
        end_by_itself(d);
    daemon_kill(d);
    if (d->output >= 0)
        (void)close(d->output); /* nothing is kept of it */
    d->output = -1;
}

int
daemon_run_how(char *text, size_t size, const char *program,
               const struct daemon_how *how)
{
    struct daemon_how plain = *how;
    struct daemon d;
    int status;

    plain.not_ready = true;
    (void)daemon_start_how(&d, program, &plain); /* fails the test itself */
    status = daemon_wait(&d);
    if (text)
        (void)daemon_output(&d, text, size); /* may be cut */
    daemon_fini(&d);
    return status;
}

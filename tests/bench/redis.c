/* tests/bench/redis.c - see redis.h. */
#include "tests/bench/redis.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"

#define AHEAD     10000u /* commands that are sent before answers are read */
#define TEXT_SIZE ((size_t)AHEAD * 128)
#define WAIT_MS   10000

static void
fail(const char *what)
{
    (void)fprintf(stderr, "redis: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- the server -------------------------------------------------------- */

static pid_t
spawn(const char *const *argv)
{
    const pid_t pid = fork();
    int null;

    if (pid < 0)
        fail("fork");
    if (pid > 0)
        return pid;
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || dup2(null, 1) < 0 ||
        dup2(null, 2) < 0)
        _exit(111);
    /* exec takes strings that it does not change. */
    (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static int
connect_to(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        fail("socket");
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", path); /* fits */
    if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    (void)close(fd); /* a socket */
    return -1;
}

bool
redis_open(struct redis *r, const char *dir)
{
    const uint64_t end_ms = clock_ms() + WAIT_MS;
    char path[100];
    const char *const argv[] = {"redis-server",
                                "--port",
                                "0",
                                "--unixsocket",
                                path,
                                "--dir",
                                dir,
                                "--save",
                                "",
                                "--appendonly",
                                "yes",
                                "--appendfsync",
                                "always",
                                "--auto-aof-rewrite-percentage",
                                "0",
                                NULL};
    const int size = snprintf(path, sizeof path, "%s/redis.sock", dir);

    assert(size > 0 && (size_t)size < sizeof path);
    r->pid = spawn(argv);
    while ((r->fd = connect_to(path)) < 0) {
        if (waitpid(r->pid, NULL, WNOHANG) == r->pid)
            return false;
        if (clock_ms() > end_ms)
            fail("it does not listen");
        (void)poll(NULL, 0, 5); /* paces the trying */
    }
    r->text = malloc(TEXT_SIZE);
    if (!r->text)
        fail("malloc");
    return true;
}

void
redis_close(struct redis *r)
{
    (void)close(r->fd); /* a socket */
    free(r->text);
    if (kill(r->pid, SIGKILL) < 0 || waitpid(r->pid, NULL, 0) < 0)
        fail("end it");
}

/* ---- commands ---------------------------------------------------------- */

static void
send_all(const struct redis *r, size_t size)
{
    for (size_t at = 0; at < size;) {
        const ssize_t n = send(r->fd, r->text + at, size - at, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            fail("send");
        at += n > 0 ? (size_t)n : 0;
    }
}

/* Receives some of an answer. */
static size_t
receive(const struct redis *r, char *at, size_t room)
{
    ssize_t n;

    do
        n = recv(r->fd, at, room, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        fail("receive");
    return (size_t)n;
}

/* Each answer is a number on a line. */
static void
await(const struct redis *r, size_t count)
{
    while (count > 0) {
        const size_t n = receive(r, r->text, TEXT_SIZE);

        if (memchr(r->text, '-', n))
            fail("HINCRBY");
        for (size_t i = 0; i < n; i++)
            count -= r->text[i] == '\n';
    }
}

static size_t
put(char *at, const struct store_delta *d)
{
    char key[STORE_NAME_MAX + 16], hour[8], sum[24];
    const int key_size = snprintf(key, sizeof key, "%.*s:%u", d->key_size,
                                  (const char *)d->key, d->minute / 1440);
    const int hour_size =
        snprintf(hour, sizeof hour, "%u", d->minute / 60 % 24);
    const int sum_size =
        snprintf(sum, sizeof sum, "%lld", (long long)d->sum_low);

    return (size_t)sprintf(
        at, "*4\r\n$7\r\nHINCRBY\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n",
        key_size, key, hour_size, hour, sum_size, sum);
}

double
redis_apply(struct redis *r, const struct store_delta *deltas, size_t count)
{
    const uint64_t start = clock_ns();

    for (size_t at = 0, n; at < count; at += n) {
        size_t size = 0;

        n = count - at < AHEAD ? count - at : AHEAD;
        for (size_t i = 0; i < n; i++) {
            assert(deltas[at + i].key_size <= 32); /* TEXT_SIZE */
            size += put(r->text + size, &deltas[at + i]);
        }
        send_all(r, size);
        await(r, n);
    }
    return (double)(clock_ns() - start) / 1e6;
}

double
redis_size(struct redis *r)
{
    static const char ask[] = "*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n";
    static const char name[] = "used_memory_dataset:";
    size_t have = 0;
    const char *at;

    memcpy(r->text, ask, sizeof ask);
    send_all(r, sizeof ask - 1);
    do {
        have += receive(r, r->text + have, TEXT_SIZE - 1 - have);
        r->text[have] = '\0';
        at = strstr(r->text, name);
    } while (have < 3 || strcmp(r->text + have - 2, "\r\n") != 0 || !at);
    return strtod(at + sizeof name - 1, NULL);
}

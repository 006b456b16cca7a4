/* tests/bench/http_ceiling.c - a server that answers every request alike; see
 * http_load.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/net.h"
#include "tests/bench/http_load.h"

#define IN_SIZE       ((size_t)64 << 10)
#define UNMERGED_SIZE (sizeof kept - 1)
#define EVENTS        1024
#define FILE_SIZE     ((size_t)64 << 20)
#define ROUND_MAX     4096 /* requests of a round that syncs */

static const char kept[] =
    "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-length: 17\r\n\r\n"
    "aR2011o_cWG00002\n";
static const char last[] =
    "HTTP/1.1 200 OK\r\nContent-length: 17\r\n\r\naR2011o_cWG00002\n";

static const char *reply = kept;
static size_t reply_size = UNMERGED_SIZE;
static char in[IN_SIZE];
static char out[IN_SIZE / 16 * UNMERGED_SIZE];
static int epoll_fd;

/* The state of a server that syncs: its file, which is written from the
 * beginning again when it is full, and the answers that wait for the end of a
 * round. */
static struct {
    int fd; /* -1: it does not sync */
    size_t slot;
    uint8_t *slots; /* of a round */
    off_t at;
    size_t owed[EVENTS]; /* answers, by descriptor */
} file = {.fd = -1};

static void
die(const char *what)
{
    (void)fprintf(stderr, "ceiling: %s: %s\n", what, strerror(errno));
    _exit(111);
}

/* Answers that were promised to the descriptors of a round. */
static void
send_owed(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const size_t n = file.owed[fds[i]];

        file.owed[fds[i]] = 0;
        for (size_t k = 0; k < n; k++)
            memcpy(out + k * reply_size, reply, reply_size);
        if (n > 0 && send(fds[i], out, n * reply_size, MSG_NOSIGNAL) !=
                         (ssize_t)(n * reply_size))
            (void)close(fds[i]); /* a socket */
    }
}

/* Receives whole requests of which one ends in each empty line and its body. */
static size_t
count_requests(int fd)
{
    const ssize_t n = recv(fd, in, sizeof in, MSG_DONTWAIT);
    size_t count = 0;
    char *at = in;

    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0) {
        (void)close(fd); /* a socket */
        return 0;
    }
    while ((at = memmem(at, (size_t)(in + n - at), "\r\n\r\n", 4))) {
        count++;
        at += 4;
    }
    file.owed[fd] += count;
    return count;
}

/* One write and one sync for all requests of a round. */
static void
make_durable(size_t count)
{
    const size_t size = count * file.slot;

    if (count == 0)
        return;
    if ((size_t)file.at + size > FILE_SIZE)
        file.at = 0;
    if (pwrite(file.fd, file.slots, size, file.at) != (ssize_t)size ||
        fdatasync(file.fd) < 0)
        die("write");
    file.at += (off_t)size;
}

/* Requests end in an empty line; what is cut is of the next call, which the
 * load never makes: it sends whole requests, and they fit. */
static void
serve(int fd)
{
    const ssize_t n = recv(fd, in, sizeof in, MSG_DONTWAIT);
    size_t size = 0;
    char *at = in;
    bool ends;

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        (void)close(fd); /* a socket */
        return;
    }
    ends = memmem(in, (size_t)n, "close", 5) != NULL;
    if (ends) {
        memcpy(out, last, sizeof last - 1);
        size = sizeof last - 1;
    }
    while (!ends && (at = memmem(at, (size_t)(in + n - at), "\r\n\r\n", 4))) {
        memcpy(out + size, reply, reply_size);
        size += reply_size;
        at += 4;
    }
    /* The generator reads all the time: no socket is ever full. */
    if (send(fd, out, size, MSG_NOSIGNAL) != (ssize_t)size || ends)
        (void)close(fd); /* a socket */
}

static void
take(int listen_fd)
{
    struct epoll_event e = {.events = EPOLLIN};
    int fd;

    while ((fd = accept4(listen_fd, NULL, NULL,
                         SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        e.data.fd = fd;
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
            die("accept");
    }
}

/* One round of a server that syncs: `n` events. */
static void
serve_round(const struct epoll_event *events, int n, int listen_fd)
{
    static int fds[EVENTS];
    size_t count = 0, came = 0;

    for (int i = 0; i < n; i++) {
        if (events[i].data.fd == listen_fd) {
            take(listen_fd);
            continue;
        }
        fds[count++] = events[i].data.fd;
        came += count_requests(events[i].data.fd);
    }
    if (came > ROUND_MAX)
        die("a round is too large");
    make_durable(came);
    send_owed(fds, count);
}

static void
run(int listen_fd)
{
    struct epoll_event events[EVENTS], e = {.events = EPOLLIN};

    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    e.data.fd = listen_fd;
    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &e) < 0)
        die("epoll");
    for (;;) {
        const int n = epoll_wait(epoll_fd, events, EVENTS, -1);

        if (file.fd >= 0) {
            serve_round(events, n, listen_fd);
            continue;
        }
        for (int i = 0; i < n; i++)
            if (events[i].data.fd == listen_fd)
                take(listen_fd);
            else
                serve(events[i].data.fd);
    }
}

/* As of countd-write's logs, there are zeros ahead of what is written. */
static void
open_file(const char *folder)
{
    static uint8_t zeros[1 << 20];
    char path[600];

    (void)snprintf(path, sizeof path, "%s/file", folder);
    file.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file.fd < 0)
        die("open");
    for (size_t i = 0; i < FILE_SIZE / sizeof zeros; i++)
        if (write(file.fd, zeros, sizeof zeros) != (ssize_t)sizeof zeros)
            die("write");
    file.slots = calloc(ROUND_MAX, file.slot);
    if (!file.slots || fsync(file.fd) < 0)
        die("fsync");
}

static pid_t
start(uint16_t *port, const char *answer, size_t size, const char *folder,
      size_t slot)
{
    struct net_address any, bound;
    char text[NET_ADDRESS_SIZE];
    pid_t pid;
    int fd;

    if (net_parse("127.0.0.1:0", &any) < 0)
        die("address");
    fd = net_listen(&any, 0, &bound);
    if (fd < 0)
        die("listen");
    net_format(&bound, text);
    *port = (uint16_t)strtoul(strrchr(text, ':') + 1, NULL, 10);
    pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        if (answer) { /* a copy: this process is another one */
            reply = answer;
            reply_size = size;
        }
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* then it must be killed */
        file.slot = slot;
        if (folder)
            open_file(folder);
        run(fd);
    }
    (void)close(fd); /* the child's */
    return pid;
}

pid_t
http_ceiling_start(uint16_t *port, const char *answer, size_t size)
{
    return start(port, answer, size, NULL, 0);
}

pid_t
http_ceiling_start_durable(uint16_t *port, const char *answer, size_t size,
                           const char *folder, size_t slot)
{
    return start(port, answer, size, folder, slot);
}

/* common/net/keeper.c - see keeper.h: keeper_take(), keeper_put(), keeper_end();
 * keeper_ready(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/diag.h"

#define FIRST_FD 3 /* as sd_listen_fds(3) has it */

static struct {
    bool loaded;
    size_t count;
    struct {
        int fd; /* -1: taken */
        char name[KEEPER_NAME_SIZE];
    } sockets[KEEPER_MAX];
} kept;

/* ---- messages to the manager -------------------------------------------- */

/* An absolute path, or @ and an abstract name. */
static int
parse_address(const char *name, struct sockaddr_un *to, socklen_t *size)
{
    const size_t length = strlen(name);

    if ((name[0] != '/' && name[0] != '@') || length < 2 ||
        length >= sizeof to->sun_path)
        return -EINVAL;
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(to->sun_path, name, length);
    if (name[0] == '@')
        to->sun_path[0] = '\0';
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    return 0;
}

/* Sends assignments, and a descriptor where `fd` is not negative; waits while the
 * manager's queue is full, as sd_notify(3) does.  -ENOTCONN: no manager. */
static int
send_text(const char *text, int fd)
{
    const char *name = getenv("NOTIFY_SOCKET");
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof fd)];
    } control = {.bytes = {0}};
    struct sockaddr_un to;
    struct iovec vector = {(char *)(uintptr_t)text, strlen(text)};
    struct msghdr message = {
        .msg_name = &to, .msg_iov = &vector, .msg_iovlen = 1};
    int rc, from;

    if (name == NULL || name[0] == '\0')
        return -ENOTCONN;
    rc = parse_address(name, &to, &message.msg_namelen);
    if (rc < 0)
        return rc;
    from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (from < 0)
        return -errno;
    if (fd >= 0) {
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd),
                                        .cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
    }
    do
        rc = sendmsg(from, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
    while (rc == -EINTR);
    (void)close(from);
    return rc;
}

void
keeper_ready(void)
{
    const int rc = send_text("READY=1\n", -1);

    if (rc == -ENOTCONN)
        return;
    if (rc < 0)
        diag_errno(DIAG_WARNING, rc,
                   "report to NOTIFY_SOCKET that this daemon is ready");
    (void)unsetenv("NOTIFY_SOCKET");
}

/* ---- sockets --------------------------------------------------------------- */

static size_t
given_count(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    unsigned long n;

    if (!pid || !count || strtol(pid, NULL, 10) != getpid())
        return 0;
    n = strtoul(count, NULL, 10);
    return n < KEEPER_MAX ? (size_t)n : KEEPER_MAX;
}

/* Reads the environment, which is not for children of this process. */
static void
load_given(void)
{
    const char *names = getenv("LISTEN_FDNAMES");
    const size_t count = names ? given_count() : 0;

    for (; !kept.loaded && kept.count < count; kept.count++) {
        const size_t size = strcspn(names, ":");
        const int fd = FIRST_FD + (int)kept.count;

        (void)snprintf(kept.sockets[kept.count].name, KEEPER_NAME_SIZE, "%.*s",
                       (int)size, names);
        kept.sockets[kept.count].fd =
            fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
                    fcntl(fd, F_SETFL, O_NONBLOCK) == 0
                ? fd
                : -1;
        names += names[size] == ':' ? size + 1 : size;
    }
    kept.loaded = true;
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
}

static bool
is_port(int fd, int type, const struct net_address *want,
        struct net_address *bound)
{
    struct net_address a = *want;
    socklen_t size = sizeof a.sa, type_size = sizeof(int);
    int has_type = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &has_type, &type_size) < 0 ||
        getsockname(fd, (struct sockaddr *)&bound->sa, &size) < 0 ||
        has_type != type || bound->sa.ss_family != a.sa.ss_family)
        return false;
    bound->size = size;
    /* The port is at the same place in both families. */
    if (a.v4.sin_port == 0)
        a.v4.sin_port = bound->v4.sin_port;
    return a.size == size && memcmp(&a.sa, &bound->sa, size) == 0;
}

/* The manager forgets all of that name. */
static void
drop_socket(size_t i)
{
    char text[KEEPER_NAME_SIZE + 64];

    (void)close(kept.sockets[i].fd);
    kept.sockets[i].fd = -1;
    (void)snprintf(text, sizeof text, "FDSTOREREMOVE=1\nFDNAME=%s\n",
                   kept.sockets[i].name);
    (void)send_text(text, -1);
}

/* A port of that name at another address is dropped now: later the new one of
 * the same name would go with it. */
int
keeper_take(const char *name, int type, const struct net_address *want,
            struct net_address *bound)
{
    load_given();
    for (size_t i = 0; i < kept.count; i++) {
        const int fd = kept.sockets[i].fd;

        if (fd < 0 || strcmp(kept.sockets[i].name, name) != 0)
            continue;
        if (want && !is_port(fd, type, want, bound)) {
            drop_socket(i);
            continue;
        }
        kept.sockets[i].fd = -1;
        return fd;
    }
    return -ENOENT;
}

bool
keeper_put(const char *name, int fd)
{
    char text[KEEPER_NAME_SIZE + 64];

    /* FDPOLL=0: a socket is kept whatever happens to it. */
    (void)snprintf(text, sizeof text, "FDSTORE=1\nFDPOLL=0\nFDNAME=%s\n", name);
    return send_text(text, fd) == 0;
}

void
keeper_end(void)
{
    load_given();
    for (size_t i = 0; i < kept.count; i++)
        if (kept.sockets[i].fd >= 0)
            drop_socket(i);
}

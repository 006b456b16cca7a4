/* common/net/notify.c - see notify.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/diag.h"

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

int
notify_send(const char *text, int fd)
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
notify_ready(void)
{
    const int rc = notify_send("READY=1\n", -1);

    if (rc == -ENOTCONN)
        return;
    if (rc < 0)
        diag_errno(DIAG_WARNING, rc,
                   "report to NOTIFY_SOCKET that this daemon is ready");
    (void)unsetenv("NOTIFY_SOCKET");
}

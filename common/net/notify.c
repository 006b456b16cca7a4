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

/* Waits while the manager's queue is full, as sd_notify(3) does. */
static int
send_text(const char *name, const char *text)
{
    const ssize_t size = (ssize_t)strlen(text);
    struct sockaddr_un to;
    socklen_t to_size;
    ssize_t sent;
    int fd, rc;

    rc = parse_address(name, &to, &to_size);
    if (rc < 0)
        return rc;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    do
        sent = sendto(fd, text, (size_t)size, MSG_NOSIGNAL,
                      (const struct sockaddr *)&to, to_size);
    while (sent < 0 && errno == EINTR);
    rc = sent < 0 ? -errno : 0;
    (void)close(fd);
    return rc;
}

void
notify_ready(void)
{
    const char *name = getenv("NOTIFY_SOCKET");
    int rc;

    if (name == NULL || name[0] == '\0')
        return;
    rc = send_text(name, "READY=1\n");
    if (rc < 0)
        diag_errno(DIAG_WARNING, rc,
                   "report to NOTIFY_SOCKET that this daemon is ready");
    (void)unsetenv("NOTIFY_SOCKET");
}

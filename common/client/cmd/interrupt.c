/* common/client/cmd/interrupt.c - see cmd_terminal.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_terminal.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

int
interrupt_init(struct interrupt *s)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;
    int rc;

    *s = (struct interrupt){.fd = -1};
    /* These calls fail for bad signal numbers only. */
    (void)sigemptyset(&s->mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        (void)sigaction(signals[i], NULL, &now);
        if (now.sa_handler == SIG_DFL)
            (void)sigaddset(&s->mask, signals[i]);
    }
    if (sigprocmask(SIG_BLOCK, &s->mask, NULL) < 0)
        return -errno;
    s->fd = signalfd(-1, &s->mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd >= 0)
        return 0;
    rc = -errno;
    (void)sigprocmask(SIG_UNBLOCK, &s->mask, NULL);
    return rc;
}

bool
interrupt_asked(struct interrupt *s)
{
    struct signalfd_siginfo info;

    if (s->signo == 0 && read(s->fd, &info, sizeof info) == sizeof info) {
        s->signo = (int)info.ssi_signo;
        /* Cannot fail: the set is our own. */
        (void)sigprocmask(SIG_UNBLOCK, &s->mask, NULL);
    }
    return s->signo != 0;
}

bool
interrupt_wait(struct interrupt *s, int fd)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
                            {.fd = s->fd, .events = POLLIN}};
    int n;

    if (interrupt_asked(s))
        return true;
    do
        n = poll(fds, 2, -1);
    while (n < 0 && errno == EINTR);
    /* A failed poll: let read() say what is wrong. */
    return n > 0 && fds[1].revents != 0 && interrupt_asked(s);
}

void
interrupt_fini(struct interrupt *s)
{
    const int signo = s->signo;

    (void)close(s->fd);
    /* One that came just now ends us here. */
    (void)sigprocmask(SIG_UNBLOCK, &s->mask, NULL);
    if (signo != 0)
        (void)raise(signo); /* its action is the default one: we end */
}

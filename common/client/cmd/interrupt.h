/* common/client/cmd/interrupt.h - a ^C that ends a long subcommand in good
 * order.
 *
 * From init on SIGINT, SIGTERM and SIGHUP wait to be looked at.  Once one was
 * seen the next one ends the process as usual, so nothing that hangs can
 * hold it up.  A signal that is ignored (nohup) stays so.
 *
 * Ownership: one struct interrupt, init to fini.  Threads: one.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_INTERRUPT_H
#define COUNTD_COMMON_CLIENT_CMD_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

struct interrupt {
    sigset_t mask; /* what was blocked */
    int fd;
    int signo; /* that was seen; 0 */
};

/* 0 or -errno: nothing has changed. */
int interrupt_init(struct interrupt *s);

/* True when a signal has come; does not wait. */
bool interrupt_asked(struct interrupt *s);

/* Waits until `fd` can be read or a signal comes: true for the latter. */
bool interrupt_wait(struct interrupt *s, int fd);

/* Ends the process by the signal that was seen, if there was one. */
void interrupt_fini(struct interrupt *s);

#endif

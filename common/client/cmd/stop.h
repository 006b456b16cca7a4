/* common/client/cmd/stop.h - a ^C that ends a long subcommand in good order.
 *
 * From init on SIGINT, SIGTERM and SIGHUP wait to be looked at.  Once one was
 * seen the next one ends the process as usual, so nothing that hangs can
 * hold it up.  A signal that is ignored (nohup) stays so.
 *
 * Ownership: one struct stop, init to fini.  Threads: one.
 */
#ifndef COUNTD_STOP_H
#define COUNTD_STOP_H

#include <signal.h>
#include <stdbool.h>

struct stop {
    sigset_t mask; /* what was blocked */
    int fd;
    int signo; /* that was seen; 0 */
};

/* 0 or -errno: nothing has changed. */
int stop_init(struct stop *s);

/* True when a signal has come; does not wait. */
bool stop_asked(struct stop *s);

/* Waits until `fd` can be read or a signal comes: true for the latter. */
bool stop_wait(struct stop *s, int fd);

/* Ends the process by the signal that was seen, if there was one. */
void stop_fini(struct stop *s);

#endif

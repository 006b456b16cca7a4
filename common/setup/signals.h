/* common/setup/signals.h - the signals of a daemon.
 *
 * SIGTERM, SIGINT and SIGHUP stop it cleanly, SIGUSR1 and SIGUSR2 are its own.
 * A terminal that goes away sends SIGHUP: what nohup started has it ignored,
 * and goes on.  Else it stops and exits as if the system had failed, so that a
 * supervisor starts it again, with the settings as they are then. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_SIGNALS_H
#define COUNTD_COMMON_SETUP_SIGNALS_H

#include <signal.h>

/* Which signals are to be blocked and taken as events (loop_signals); ignores
 * those that would end the process for a write that fails.  Once, before there
 * are threads. */
void signals_take(sigset_t *mask);

/* The value of a SIGUSR2 (sigqueue(3)) that has countd-write not only hand on
 * its log but clear the unused slots of all its logs, too. */
#define SIGNALS_CLEAR 1

/* How a daemon ends that this signal has stopped, or 0: none has. */
int signals_exit_status(int signo);

#endif

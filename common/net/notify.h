/* common/net/notify.h - reports to the service manager that a daemon serves.
 *
 * The protocol of sd_notify(3): a datagram to the Unix socket that is named
 * in $NOTIFY_SOCKET.  Without that variable there is no service manager, which
 * is usual and not an error.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_NOTIFY_H
#define COUNTD_COMMON_NET_NOTIFY_H

/* Sends assignments, and a descriptor where `fd` is not negative; waits while the
 * manager's queue is full, as sd_notify(3) does.  -ENOTCONN: no manager. */
int notify_send(const char *text, int fd);

/* Sends READY=1 once: the variable is removed.  A failure is reported, and the
 * daemon serves nevertheless. */
void notify_ready(void);

#endif

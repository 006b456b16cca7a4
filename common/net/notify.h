/* common/net/notify.h - tells the service manager that we serve.
 *
 * The protocol of sd_notify(3): a datagram to the Unix socket that is named
 * in $NOTIFY_SOCKET.  Nobody to tell is the usual case and no error.
 */
#ifndef COUNTD_COMMON_NET_NOTIFY_H
#define COUNTD_COMMON_NET_NOTIFY_H

/* Sends READY=1, once: the variable is removed.  One who cannot be told is
 * warned about; we serve all the same. */
void notify_ready(void);

#endif

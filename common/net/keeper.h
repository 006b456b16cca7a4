/* common/net/keeper.h - the service manager: listening sockets that outlive their
 * process, and the message that a daemon serves.
 *
 * The service manager keeps a duplicate of each listening socket, and gives all
 * of them to the next process of the service: systemd does, where
 * FileDescriptorStoreMax= of the unit allows it, and so does countd serve.
 * Clients that connect or send a datagram while no process serves wait in the
 * socket, so a restart refuses none of them.
 *
 *     $LISTEN_PID, $LISTEN_FDS, $LISTEN_FDNAMES   what this process is given
 *     FDSTORE=1, FDSTOREREMOVE=1, FDNAME=         what it sends to $NOTIFY_SOCKET,
 *     READY=1                                     as sd_notify(3) does
 *
 * A socket is found by its name, a port by its address, too: keeper_end() closes
 * those that no setting asks for any more.
 *
 * The state is one of the process, as its environment is.  Errors: a negative
 * errno; without a manager nothing is kept, which is usual and not an error. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_KEEPER_H
#define COUNTD_COMMON_NET_KEEPER_H

#include "common/net/net.h"

#define KEEPER_MAX       24
#define KEEPER_NAME_SIZE 64

/* Takes the socket of that name.  With an address, `want`, it is of that type
 * and listens there, or at any port of that host where its port is 0: *bound is
 * its address.  NULL: the name says enough.  -ENOENT: there is none. */
int keeper_take(const char *name, int type, const struct net_address *want,
                struct net_address *bound);

/* Has a socket kept from now on.  False: there is no manager. */
bool keeper_put(const char *name, int fd);

/* Sends READY=1 once: the variable is removed.  A failure is reported, and the
 * daemon serves nevertheless. */
void keeper_ready(void);

/* Closes what was not taken, and has the manager close it: once all sockets are
 * bound. */
void keeper_end(void);

#endif

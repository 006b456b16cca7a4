/* common/net/local.h - listening sockets in a directory, and their addresses.
 *
 *     DIR/socket/ack        what clients connect to
 *     DIR/socket/ack.lock   the flock of the process that serves it
 *
 * A socket gets its mode and listens under another name, ack.new, and is then
 * renamed: so a client never meets one that is not ready, and what a process
 * that died has left is replaced by the next one that gets the flock.
 *
 * A socket that the service manager keeps stays where it is at a stop, and so do
 * the clients that wait in it, for the next process of the service.
 *
 * A process that can reach the directory and write the socket may connect.  A
 * path that is longer than an address of a socket can be goes through a
 * descriptor of its directory.
 *
 * Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_LOCAL_H
#define COUNTD_COMMON_NET_LOCAL_H

#include <sys/types.h>

#include "common/net/net.h"

#define LOCAL_FOLDER    "socket" /* in the data directory */
#define LOCAL_COUNT     "count"  /* the silent port */
#define LOCAL_ACK       "ack"
#define LOCAL_READ      "read"
#define LOCAL_READ_HTTP "read-http"
#define LOCAL_COUNTER   "counter"
#define LOCAL_SEMAPHORE "semaphore"
#define LOCAL_HTTP      "http"
#define LOCAL_STATSD    "statsd" /* datagrams */
#define LOCAL_GRAPHITE  "graphite"
#define LOCAL_RESP      "resp"
#define LOCAL_NAME_SIZE 24 /* of the longest, with .lock and NUL */

/* Where a daemon's sockets are, and who may connect. */
struct local_folder {
    int fd;           /* descriptor of DIR/socket; -1: no sockets */
    const char *path; /* path of DIR, for messages and addresses */
    mode_t mode;      /* mode of the sockets */
    gid_t gid;        /* group of the sockets; LOCAL_ANY_GROUP: any */
};

#define LOCAL_ANY_GROUP ((gid_t)-1)

struct local {
    int fd;       /* listens; -1: none, or handed over */
    int lock_fd;  /* -1: none */
    bool is_kept; /* for the next process of the service (keeper.h) */
    char name[LOCAL_NAME_SIZE];
};

/* The address of DIR/socket/NAME; `fd` is that folder. */
void local_address(int fd, const char *dir, const char *name,
                   struct net_address *out);

/* Makes a socket that listens (SOCK_STREAM) or takes datagrams (SOCK_DGRAM).
 * -EBUSY: another process serves it. */
int local_open(const struct local_folder *f, const char *name, int type,
               struct local *out);

/* Removes a socket that is not kept, so that clients know that no process serves
 * it, and gives up its flock; closes what was not handed over. */
void local_close(const struct local_folder *f, struct local *l);

/* Connects without waiting to DIR/socket/NAME; the descriptor does not block.
 *   -ENOENT, -ECONNREFUSED  no process serves it, -EACCES
 *   -EAGAIN  as many clients as the kernel allows wait to be accepted */
int local_connect(const char *dir, const char *name);

#endif

/* common/net/net.h - addresses and listening sockets.
 *
 * Errors: 0 or a negative errno.  Descriptors are non-blocking and
 * close-on-exec.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_NET_H
#define COUNTD_COMMON_NET_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define NET_ADDRESS_SIZE 64   /* "[v6]:port" and NUL */
#define NET_HOST_SIZE    256  /* longest host name and NUL */
#define NET_BACKLOG      4096 /* the kernel cuts it to net.core.somaxconn */

struct net_address {
    union {
        struct sockaddr_storage sa;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    };
    socklen_t size;
};

/* "127.0.0.1:48879", "[::1]:0", "localhost:1" (which is 127.0.0.1); -EINVAL,
 * for host names too. */
int net_parse(const char *text, struct net_address *out);

/* Whether the text has the form of an address, or of a host name, and a port;
 * looks nothing up.  0 or -EINVAL. */
int net_check(const char *text);

/* As net_parse(), for host names too: those are looked up, which may take
 * seconds.  Returns how many addresses there are, at most `max`.
 *   -EINVAL         no such form
 *   -EADDRNOTAVAIL  no address is known for the name
 *   -EAGAIN, -ENOMEM ...  it cannot be looked up now */
int net_resolve(const char *text, struct net_address *out, size_t max);

/* What such an error means: "is a host name that ...". */
const char *net_resolve_error(int rc);

/* Digits and nothing else, of a number up to `max`; or -EINVAL. */
int net_parse_number(const char *text, int max);

void net_format(const struct net_address *a, char text[NET_ADDRESS_SIZE]);
bool net_is_loopback(const struct net_address *a);

/* Binds (EADDRINUSE retried with back-off up to `wait_ms`) and, if SOCK_STREAM,
 * listens (SO_REUSEADDR).  Returns the descriptor; *bound is the address with its
 * port. */
int net_bind(const struct net_address *a, int type, uint64_t wait_ms,
             struct net_address *bound);

/* Whether both ends of a connection are this socket.  A client that tries a
 * port of the ephemeral range again and again can meet itself, and would be
 * answered what it sends. */
bool net_is_self(int fd);

#endif

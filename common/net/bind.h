/* common/net/bind.h - the listening sockets of a table of listeners: of each
 * its port, and its socket in the data directory.
 *
 * Sockets are bound before a daemon has threads and while it may still bind low
 * ports; who connects meanwhile is accepted when the listeners are open.
 *
 * Errors: 0 or a negative errno, said through diag. */
#ifndef COUNTD_COMMON_NET_BIND_H
#define COUNTD_COMMON_NET_BIND_H

#include "common/net/conn.h"
#include "common/net/local.h"

#define BIND_LISTENERS_MAX 16
#define BIND_LINE_SIZE     (NET_ADDRESS_SIZE + 32)

struct binding {
    size_t count;
    int fds[BIND_LISTENERS_MAX]; /* -1: off, or handed over */
    struct local_folder folder;  /* of the sockets */
    struct local sockets[BIND_LISTENERS_MAX];
    char lines[BIND_LISTENERS_MAX][BIND_LINE_SIZE]; /* "name=address:port" */
    size_t line_count;
    size_t on; /* listeners */
};

/* Binds all listeners that are on, sockets in `folder`, whose descriptor
 * is the binding's from now on.  A socket that cannot be had is reported, and
 * its port serves alone.  -EINVAL: no listener is on, and no `other` port of
 * the daemon either, or an address is wrong;
 * -EADDRINUSE, -EACCES, ... */
int bind_listeners(struct binding *b, const struct listener_config *rows,
                   size_t count, const struct local_folder *folder, bool other);

/* The address of a setting, which must be of loopback or have networks that may
 * use it. */
int bind_resolve(const char *listen, const char *listen_key, const char *allow,
                 const char *allow_key, struct net_address *out);

/* Makes the socket of a setting in the data directory; *out stays as it is
 * where the port serves alone.  Below 0: the setting wants no port, and has
 * none. */
int bind_socket(const struct local_folder *f, const char *name,
                const char *listen, int type, struct local *out);

/* Gives the sockets to the listeners. */
int bind_serve(struct binding *b, struct conns *cs);

/* Closes what was not handed over, and removes the sockets. */
void bind_close(struct binding *b);

#endif

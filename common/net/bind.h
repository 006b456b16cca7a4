/* common/net/bind.h - the listening sockets of a table of listeners: of each
 * its port, and its socket in the data directory.
 *
 * Sockets are bound before a daemon has threads; who connects meanwhile is
 * accepted when the listeners are open.  Only root may bind a port below 1024:
 * a daemon that is about to become another user binds those first.
 *
 * Errors: 0 or a negative errno, said through diag. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_BIND_H
#define COUNTD_COMMON_NET_BIND_H

#include "common/net/conn.h"
#include "common/net/local.h"

#define BIND_LISTENERS_MAX 16
#define BIND_LINE_SIZE     (NET_ADDRESS_SIZE + 32)

struct binding {
    const struct listener_config *rows;
    size_t count;
    int fds[BIND_LISTENERS_MAX]; /* -1: off, or handed over */
    struct local_folder folder;  /* of the sockets */
    struct local sockets[BIND_LISTENERS_MAX];
    char lines[BIND_LISTENERS_MAX][BIND_LINE_SIZE]; /* "name=address:port" */
    size_t line_count;
    size_t on; /* listeners */
};

/* Whether the port of a setting has to be bound now: it is below 1024, and this
 * process is root. */
bool bind_is_now(const char *listen);

/* Begins a binding, and binds what bind_is_now().  The rows are borrowed.
 * -EINVAL: an address is wrong; -EADDRINUSE, ... */
int bind_begin(struct binding *b, const struct listener_config *rows,
               size_t count);

/* Binds all else that is on, sockets in `folder`, whose descriptor is the
 * binding's from now on.  A socket that cannot be had is reported, and its port
 * serves alone.  -EINVAL: no listener is on, and no `other` port of the daemon
 * either, or an address is wrong; -EADDRINUSE, -EACCES, ... */
int bind_listeners(struct binding *b, const struct local_folder *folder,
                   bool other);

/* The first address of a setting.  -EINVAL: there is none. */
int bind_look_up(const char *text, const char *key, struct net_address *out);

/* The address of a setting, which must be of loopback or have networks that may
 * use it. */
int bind_resolve(const char *listen, const char *listen_key, const char *allow,
                 const char *allow_key, struct net_address *out);

/* Binds the port of a row, or takes the one that the service manager keeps: the
 * descriptor, and in *bound the address it got. */
int bind_at(const struct listener_config *row, int type,
            struct net_address *bound);

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

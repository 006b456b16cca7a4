/* common/net/bind.h - the listening sockets of a table of doors.
 *
 * Sockets are bound before a daemon has threads and while it may still bind low
 * ports; who connects meanwhile is accepted when the doors are open.
 *
 * Errors: 0 or a negative errno, said through diag. */
#ifndef COUNTD_COMMON_NET_BIND_H
#define COUNTD_COMMON_NET_BIND_H

#include "common/net/conn.h"

#define BIND_DOORS_MAX 16
#define BIND_LINE_SIZE (NET_ADDRESS_SIZE + 32)

struct binding {
    size_t count;
    int fds[BIND_DOORS_MAX];                    /* -1: off, or handed over */
    char lines[BIND_DOORS_MAX][BIND_LINE_SIZE]; /* "name=address:port" */
    size_t line_count;
};

/* Binds all doors that are on.  -EINVAL: none is, or an address is wrong;
 * -EADDRINUSE, -EACCES, ... */
int bind_doors(struct binding *b, const struct listener_config *rows,
               size_t count);

/* Gives the sockets to the doors. */
int bind_serve(struct binding *b, struct conns *cs);

/* Closes what was not handed over. */
void bind_close(struct binding *b);

#endif

/* common/net/bind.c - see bind.h. */
#include "common/net/bind.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BIND_WAIT_MS 3000 /* for a port that an outgoing connection has */

static bool
is_off(const struct listener_config *row)
{
    return !row->listen || row->listen[0] == '\0';
}

/* Listens: the descriptor, and in *bound the address it got. */
static int
listen_at(const struct listener_config *row, struct net_address *bound)
{
    struct net_address address;
    char where[NET_ADDRESS_SIZE];
    int fd, rc;

    rc = net_resolve(row->listen, &address, 1);
    if (rc < 0) {
        diag(DIAG_ERROR, "%s=%s %s", row->listen_key, row->listen,
             net_resolve_error(rc));
        return rc == -EADDRNOTAVAIL ? -EINVAL : rc; /* of the setting */
    }
    net_format(&address, where);
    if (strcmp(row->listen, where) != 0)
        diag(DIAG_INFO, "%s=%s is %s", row->listen_key, row->listen, where);
    if (!net_is_loopback(&address) &&
        (row->allow == NULL || row->allow[0] == '\0')) {
        diag(DIAG_ERROR,
             "%s=%s can be reached from other machines: say which networks "
             "may connect, with a line such as %s = 10.0.0.0/8, or listen at "
             "127.0.0.1",
             row->listen_key, row->listen, row->allow_key);
        return -EINVAL;
    }
    fd = net_listen(&address, BIND_WAIT_MS, bound);
    if (fd == -EADDRINUSE)
        diag(DIAG_ERROR,
             "%s=%s is in use by another process: stop it, or set %s to a free "
             "port%s%s%s",
             row->listen_key, row->listen, row->listen_key,
             row->enable_key == row->listen_key ? "" : ", or ",
             row->enable_key == row->listen_key ? "" : row->enable_key,
             row->enable_key == row->listen_key ? "" : " to false");
    else if (fd < 0)
        diag_errno(DIAG_ERROR, fd, "listen %s=%s", row->listen_key,
                   row->listen);
    return fd;
}

static int
bind_door(struct binding *b, size_t i, const struct listener_config *row)
{
    struct net_address bound;
    char where[NET_ADDRESS_SIZE];
    int fd;

    fd = listen_at(row, &bound);
    if (fd < 0)
        return fd;
    b->fds[i] = fd;
    net_format(&bound, where);
    (void)snprintf(b->lines[b->line_count++], BIND_LINE_SIZE, "%s=%s",
                   row->name, where); /* fits */
    return 0;
}

static void
nothing_to_do(const struct listener_config *rows, size_t count)
{
    char keys[256];
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        const int n = snprintf(keys + used, sizeof keys - used, "%s%s",
                               i > 0 ? ", " : "", rows[i].enable_key);

        used += n > 0 && (size_t)n < sizeof keys - used ? (size_t)n : 0;
    }
    diag(DIAG_ERROR, "there is nothing to do: all of %s are off", keys);
}

int
bind_doors(struct binding *b, const struct listener_config *rows, size_t count)
{
    int rc = 0;

    assert(count <= BIND_DOORS_MAX);
    *b = (struct binding){.count = count};
    for (size_t i = 0; i < count; i++)
        b->fds[i] = -1;
    for (size_t i = 0; rc == 0 && i < count; i++)
        if (!is_off(&rows[i]))
            rc = bind_door(b, i, &rows[i]);
    if (rc < 0 || b->line_count > 0)
        return rc;
    nothing_to_do(rows, count);
    return -EINVAL;
}

int
bind_serve(struct binding *b, struct conns *cs)
{
    for (size_t i = 0; i < b->count; i++) {
        int rc;

        if (b->fds[i] < 0)
            continue;
        rc = conns_listen(cs, i, b->fds[i]);
        if (rc < 0) {
            diag_errno(DIAG_ERROR, rc, "listen %s",
                       conns_door(cs, i)->row->listen_key);
            return rc;
        }
        b->fds[i] = -1;
    }
    return 0;
}

void
bind_close(struct binding *b)
{
    for (size_t i = 0; i < b->count; i++) {
        if (b->fds[i] >= 0)
            (void)close(b->fds[i]); /* nobody was accepted */
        b->fds[i] = -1;
    }
}

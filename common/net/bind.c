/* common/net/bind.c - see bind.h: bind_begin(), bind_listeners(),
 * bind_serve(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/bind.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/net/keeper.h"

#define BIND_WAIT_MS 3000 /* for a port that an outgoing connection has */
#define LOW_PORTS    1024 /* those below are root's */

static bool
is_off(const struct listener_config *row)
{
    return !row->listen || row->listen[0] == '\0';
}

int
bind_look_up(const char *text, const char *key, struct net_address *out)
{
    const int rc = net_resolve(text, out, 1);

    if (rc >= 0)
        return 0;
    diag(DIAG_ERROR, "%s=%s %s", key, text, net_resolve_error(rc));
    return rc == -EADDRNOTAVAIL ? -EINVAL : rc; /* of the setting */
}

int
bind_resolve(const char *listen, const char *listen_key, const char *allow,
             const char *allow_key, struct net_address *out)
{
    char where[NET_ADDRESS_SIZE];
    const int rc = bind_look_up(listen, listen_key, out);

    if (rc < 0)
        return rc;
    net_format(out, where);
    if (strcmp(listen, where) != 0)
        diag(DIAG_INFO, "%s=%s is %s", listen_key, listen, where);
    if (net_is_loopback(out) || (allow && allow[0] != '\0'))
        return 0;
    diag(DIAG_ERROR,
         "%s=%s can be reached from other machines: say which networks "
         "may connect, with a line such as %s = 10.0.0.0/8, or listen at "
         "127.0.0.1",
         listen_key, listen, allow_key);
    return -EINVAL;
}

int
bind_at(const struct listener_config *row, int type, struct net_address *bound)
{
    struct net_address address;
    int fd, rc;

    rc = bind_resolve(row->listen, row->listen_key, row->allow, row->allow_key,
                      &address);
    if (rc < 0)
        return rc;
    fd = keeper_take(row->name, type, &address, bound);
    if (fd >= 0)
        return fd;
    fd = net_bind(&address, type, 0, bound);
    if (fd == -EADDRINUSE) {
        diag(DIAG_WARNING,
             "%s=%s is in use by another process: stop it, or set %s to a free "
             "port%s%s%s; trying for %d s",
             row->listen_key, row->listen, row->listen_key,
             row->enable_key == row->listen_key ? "" : ", or ",
             row->enable_key == row->listen_key ? "" : row->enable_key,
             row->enable_key == row->listen_key ? "" : " to false",
             BIND_WAIT_MS / 1000);
        fd = net_bind(&address, type, BIND_WAIT_MS, bound);
    }
    if (fd < 0)
        diag_errno(DIAG_ERROR, fd, "listen %s=%s", row->listen_key,
                   row->listen);
    else
        (void)keeper_put(row->name, fd);
    return fd;
}

int
bind_socket(const struct local_folder *f, const char *name, const char *listen,
            int type, struct local *out)
{
    const bool alone = strcmp(listen, LISTENER_NO_PORT) == 0;
    int rc = -ENOENT;

    if (f->fd >= 0 && name)
        rc = local_open(f, name, type, out);
    if (rc == 0 || (!alone && (f->fd < 0 || !name)))
        return 0;
    if (rc == -EBUSY)
        diag(alone ? DIAG_ERROR : DIAG_INFO,
             "%s/" LOCAL_FOLDER "/%s is served by another process%s", f->path,
             name,
             alone ? ": stop that one" : "; this one serves its port alone");
    else
        diag_errno(alone ? DIAG_ERROR : DIAG_WARNING, rc,
                   "listen at %s/" LOCAL_FOLDER "/%s%s", f->path, name,
                   alone ? "" : "; its port serves alone");
    return alone ? rc : 0;
}

bool
bind_is_now(const char *listen)
{
    const char *colon = strrchr(listen, ':');
    const unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;

    return port > 0 && port < LOW_PORTS && geteuid() == 0;
}

static int
bind_port(struct binding *b, size_t i)
{
    struct net_address bound;
    char where[NET_ADDRESS_SIZE];

    b->fds[i] = bind_at(&b->rows[i], SOCK_STREAM, &bound);
    if (b->fds[i] < 0)
        return b->fds[i];
    net_format(&bound, where);
    (void)snprintf(b->lines[b->line_count++], BIND_LINE_SIZE, "%s=%s",
                   b->rows[i].name, where);
    return 0;
}

static int
bind_listener(struct binding *b, size_t i)
{
    const struct listener_config *row = &b->rows[i];
    const int rc = bind_socket(&b->folder, row->socket, row->listen,
                               SOCK_STREAM, &b->sockets[i]);

    if (rc < 0)
        return rc;
    b->on++;
    return b->fds[i] >= 0 || strcmp(row->listen, LISTENER_NO_PORT) == 0
               ? 0
               : bind_port(b, i);
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
bind_begin(struct binding *b, const struct listener_config *rows, size_t count)
{
    int rc = 0;

    assert(count <= BIND_LISTENERS_MAX);
    *b = (struct binding){.rows = rows, .count = count, .folder = {.fd = -1}};
    for (size_t i = 0; i < count; i++)
        b->fds[i] = b->sockets[i].fd = b->sockets[i].lock_fd = -1;
    for (size_t i = 0; rc == 0 && i < count; i++)
        if (!is_off(&rows[i]) && bind_is_now(rows[i].listen))
            rc = bind_port(b, i);
    return rc;
}

int
bind_listeners(struct binding *b, const struct local_folder *folder, bool other)
{
    int rc = 0;

    b->folder = *folder;
    for (size_t i = 0; rc == 0 && i < b->count; i++)
        if (!is_off(&b->rows[i]))
            rc = bind_listener(b, i);
    if (rc < 0 || b->on > 0 || other)
        return rc;
    nothing_to_do(b->rows, b->count);
    return -EINVAL;
}

static int
serve_one(struct conns *cs, size_t i, int *fd)
{
    const int rc = *fd < 0 ? 0 : conns_listen(cs, i, *fd);

    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "listen %s",
                   conns_listener(cs, i)->row->listen_key);
    else
        *fd = -1;
    return rc;
}

int
bind_serve(struct binding *b, struct conns *cs)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < b->count; i++) {
        rc = serve_one(cs, i, &b->fds[i]);
        if (rc == 0)
            rc = serve_one(cs, i, &b->sockets[i].fd);
    }
    return rc;
}

void
bind_close(struct binding *b)
{
    for (size_t i = 0; i < b->count; i++) {
        if (b->fds[i] >= 0)
            (void)close(b->fds[i]);
        b->fds[i] = -1;
        local_close(&b->folder, &b->sockets[i]);
    }
    if (b->count > 0 && b->folder.fd >= 0)
        (void)close(b->folder.fd); /* only led to the sockets */
    b->count = 0;
}

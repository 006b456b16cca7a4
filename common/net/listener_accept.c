/* common/net/listener_accept.c - which connections a listener accepts: places,
 * networks, keepalive.
 *
 * conns_listen() and conns_take() begin connections; conns_note_closed() and
 * conns_go_on_accepting() let others in when a place is free. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/conn_internal.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#define KEEP_PROBES  9
#define ACCEPT_BATCH 64 /* connections taken per event */
#define YIELD_LOOKS  64
#define ANY_CLIENT   (-1)

/* ---- places ------------------------------------------------------------ */

/* Connections that are open, or that no other listener can have. */
static size_t
count_committed(const struct conns *cs)
{
    size_t n = 0;

    for (size_t i = 0; i < cs->count; i++) {
        const struct listener *d = &cs->listeners[i];

        n += d->open > d->row->reserved ? d->open : d->row->reserved;
    }
    return n;
}

static bool
has_place(const struct listener *d)
{
    if (d->used >= d->row->max)
        return false;
    return d->open < d->row->reserved ||
           count_committed(d->conns) < d->conns->shared;
}

static bool
client_has_place(const struct listener *d, int client)
{
    return client == ANY_CLIENT || d->clients[client] < d->client_max;
}

static bool
can_yield(const struct conn *c)
{
    const struct listener *d = c->listener;
    const uint32_t idle_ms = conns_now(d->conns) - c->moved_ms;
    const uint32_t least_ms = d->row->yield_s * 1000;

    return (c->flags & F_GATES) == 0 &&
           idle_ms >= ((c->flags & F_FRESH) != 0 ? least_ms / 10 : least_ms);
}

/* Of the connections that have been idle longest, YIELD_LOOKS at most, the
 * first that makes way for a new one: of that client, if it has no place, else
 * of any.  NULL: none does. */
static struct conn *
find_yielding(const struct listener *d, int client)
{
    const struct list_link *idle = &d->lists[CONN_IDLE];
    struct list_link *link = idle->next;
    const bool of_any = client_has_place(d, client);

    if (d->row->yield_s == 0 || d->used > d->open)
        return NULL;
    for (int i = 0; i < YIELD_LOOKS && link != idle; i++, link = link->next) {
        struct conn *c = LOOP_OWNER(link, struct conn, link);

        if ((of_any || c->client == client) && can_yield(c))
            return c;
    }
    return NULL;
}

static void
pause_accepting(struct acceptor *a, bool paused)
{
    a->paused = paused;
    /* Cannot fail: the descriptor is registered and no memory is needed. */
    (void)loop_change(a->listener->conns->loop, &a->source,
                      paused ? 0 : EPOLLIN);
}

/* Whether there is a place, or a connection that yields one, or no place is
 * waited for. */
static bool
is_open(const struct listener *d)
{
    return d->row->close_over || has_place(d) || find_yielding(d, ANY_CLIENT);
}

void
conns_go_on_accepting(struct listener *d)
{
    for (size_t i = 0; i < LISTENER_ACCEPTORS; i++)
        if (d->acceptors[i].paused && is_open(d))
            pause_accepting(&d->acceptors[i], false);
}

void
conns_note_closed(struct listener *d)
{
    struct conns *cs = d->conns;

    if (cs->stopping)
        return;
    for (size_t i = 0; i < cs->count; i++)
        conns_go_on_accepting(&cs->listeners[i]);
}

static struct conn *
free_conn(struct listener *d)
{
    struct list_link *link = &d->lists[CONN_FREE];

    if (!list_alone(link)) {
        /* The one freed last: few connections touch little memory. */
        link = link->prev;
        list_remove(link);
        return LOOP_OWNER(link, struct conn, link);
    }
    return d->touched < d->row->max ? listener_conn(d, d->touched++) : NULL;
}

static int
begin_conn(struct listener *d, int fd, const struct net_address *peer)
{
    struct conn *c = free_conn(d);
    int rc;

    if (!c)
        return -EMFILE;
    rc = conn_begin(c, d, fd, peer);
    if (rc < 0) {
        list_add(&d->lists[CONN_FREE], &c->link);
        return rc;
    }
    d->clients[c->client]++;
    d->open++;
    d->used++;
    d->stats.accepted++;
    return 0;
}

int
conns_take(struct conns *cs, size_t listener, int fd)
{
    struct listener *d = conns_listener(cs, listener);
    struct net_address peer = {.size = sizeof peer.sa};

    if (getpeername(fd, (struct sockaddr *)&peer.sa, &peer.size) < 0)
        return -errno;
    return has_place(d) ? begin_conn(d, fd, &peer) : -EMFILE;
}

/* Whether the peer is of a network that may connect; says when not.  Who may
 * use a socket of the data directory its mode says. */
static bool
is_allowed(struct listener *d, const struct acceptor *a,
           const struct net_address *peer)
{
    char where[NET_ADDRESS_SIZE];

    if (d->allow.count == 0 || a == &d->acceptors[LISTENER_SOCKET] ||
        networks_contain(&d->allow, peer))
        return true;
    net_format(peer, where);
    d->stats.not_allowed++;
    diag_repeating(&d->allow_warning, DIAG_WARNING,
                   "%s: a connection from %s is closed: %s does not have its "
                   "network",
                   d->row->name, where, d->row->allow_key);
    return false;
}

/* Says whose bound it is: a second line of the same client says nothing new. */
static void
turn_away(struct listener *d, const struct net_address *peer, uint16_t client)
{
    char where[NET_ADDRESS_SIZE] = "its socket";

    d->stats.turned_away++;
    if (peer->sa.ss_family != AF_UNIX)
        net_format(peer, where);
    if (!has_place(d) || client_has_place(d, client))
        diag_repeating(&d->full_warning, DIAG_WARNING,
                       "%s: a connection is turned away, connections=%zu: %s, "
                       "or the limit of descriptors, allows no more",
                       d->row->name, d->open, d->row->max_key);
    else
        diag_repeating(&d->full_warning, DIAG_WARNING,
                       "%s: a connection from %s is turned away: its host has "
                       "%u, and none may have more of %s",
                       d->row->name, where, (unsigned)d->clients[client],
                       d->row->max_key);
}

static void
take_accepted(struct acceptor *a, int fd, const struct net_address *peer)
{
    struct listener *d = a->listener;
    const uint16_t client = networks_client(peer);
    struct conn *c;
    int rc = -EMFILE;

    if (!is_allowed(d, a, peer)) {
        (void)close(fd);
        return;
    }
    if (!has_place(d) || !client_has_place(d, client)) {
        c = find_yielding(d, client);
        if (c) {
            d->stats.yielded++;
            conn_close(c);
        }
    }
    if (has_place(d) && client_has_place(d, client))
        rc = begin_conn(d, fd, peer);
    if (rc < 0) {
        turn_away(d, peer, client);
        (void)close(fd);
    }
}

static void
accept_ready(struct loop_source *source, uint32_t events)
{
    struct acceptor *a = LOOP_OWNER(source, struct acceptor, source);
    struct listener *d = a->listener;

    (void)events; /* accept4() reports errors, too */
    for (int i = 0; i < ACCEPT_BATCH && source->fd >= 0; i++) {
        struct net_address peer = {.size = sizeof peer.sa};
        int fd;

        if (!is_open(d)) {
            pause_accepting(a, true);
            diag_repeating(&d->full_warning, DIAG_WARNING,
                           "%s: full with connections=%zu, more wait: %s, or "
                           "the limit of descriptors, allows no more",
                           d->row->name, d->open, d->row->max_key);
            return;
        }
        fd = accept4(source->fd, (struct sockaddr *)&peer.sa, &peer.size,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take_accepted(a, fd, &peer);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
                   errno == ENOBUFS) {
            pause_accepting(a, true); /* the tick looks again */
            return;
        } /* else it is an error of the one connection that was in the queue */
    }
}

/* Accepted sockets inherit all of it: one call fewer for each. */
static int
keep_alive(const struct listener_config *row, int fd)
{
    const int one = 1, probes = KEEP_PROBES;
    const int interval =
        row->keep_alive_s < 120 ? 1 : (int)row->keep_alive_s / 60;
    const int idle = (int)row->keep_alive_s - KEEP_PROBES * interval;
    const unsigned timeout = row->keep_alive_s * 1000;

    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) < 0)
        return -errno;
    if (row->keep_alive_s == 0)
        return 0;
    if (setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval) <
            0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout,
                   sizeof timeout) < 0)
        return -errno;
    return 0;
}

int
conns_listen(struct conns *cs, size_t listener, int fd)
{
    struct listener *d = conns_listener(cs, listener);
    struct net_address at = {.size = sizeof at.sa};
    struct acceptor *a;
    bool is_local;
    int rc;

    if (getsockname(fd, (struct sockaddr *)&at.sa, &at.size) < 0)
        return -errno;
    is_local = at.sa.ss_family == AF_UNIX;
    a = &d->acceptors[is_local ? LISTENER_SOCKET : LISTENER_PORT];
    rc = is_local ? 0 : keep_alive(d->row, fd);
    if (!is_local) /* it stands at one place in an address of either kind */
        d->port = ntohs(at.v4.sin_port);
    if (rc < 0)
        return rc;
    a->listener = d;
    a->source.ready = accept_ready;
    return loop_add(cs->loop, &a->source, fd, EPOLLIN);
}

void
conns_stop_accepting(struct listener *d)
{
    for (size_t i = 0; i < LISTENER_ACCEPTORS; i++) {
        struct acceptor *a = &d->acceptors[i];
        const int fd = a->source.fd;

        loop_remove(d->conns->loop, &a->source);
        a->paused = false;
        if (fd >= 0)
            (void)close(fd); /* a listening socket has nothing to lose */
    }
}

/* writer/statsd/datagram.c - see datagram.h.
 *
 *     datagram_begin()    a port that only root may bind; datagram_bind() all else
 *     datagram_first()    receives a batch; datagram_pop() takes one of it
 *     find_next()         skips empty datagrams and those of other networks */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/statsd/datagram.h"

#include <assert.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/setup/ports.h"
#include "writer/map.h"

#define SKIPPED_BATCHES 16

struct datagram_slots {
    struct mmsghdr headers[DATAGRAM_BATCH];
    struct iovec vectors[DATAGRAM_BATCH];
    struct sockaddr_storage peers[DATAGRAM_BATCH];
    uint8_t bytes[DATAGRAM_BATCH][DATAGRAM_MAX]; /* memory where touched */
};

/* ---- binding ------------------------------------------------------------ */

/* Bytes that the kernel queues after `option` has asked for `wanted`. */
static int
ask_buffer(int fd, int option, int wanted)
{
    int got = 0;
    socklen_t size = sizeof got;

    /* What could not be set is seen in what is got. */
    (void)setsockopt(fd, SOL_SOCKET, option, &wanted, sizeof wanted);
    if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &got, &size) < 0)
        return 0;
    return got / 2; /* the kernel doubles what is asked for */
}

/* A daemon that was started as root still may pass net.core.rmem_max. */
static void
set_buffer(const struct datagrams *d, int fd)
{
    const int wanted = (int)d->config->statsd_rcvbuf;
    int got = ask_buffer(fd, SO_RCVBUF, wanted);

    if (got < wanted)
        got = ask_buffer(fd, SO_RCVBUFFORCE, wanted);
    if (got < wanted)
        diag(DIAG_WARNING,
             "statsd: the kernel queues at most %d of statsd.rcvbuf=%d bytes; "
             "raise "
             "net.core.rmem_max (sysctl) to queue longer bursts",
             got, wanted);
}

static int
bind_port(struct datagrams *d)
{
    const struct listener_config row =
        ports_listener(d->config, PORT_DATAGRAMS, NULL);
    struct net_address bound;
    char where[NET_ADDRESS_SIZE];
    const int fd = bind_at(&row, SOCK_DGRAM, &bound);

    if (fd < 0)
        return fd;
    d->sources[LISTENER_PORT].fd = fd;
    set_buffer(d, fd);
    net_format(&bound, where);
    (void)snprintf(d->line, sizeof d->line, "%s=%s", row.name, where);
    return 0;
}

static int
bind_local(struct datagrams *d, const struct local_folder *folder)
{
    int rc;

    d->folder = *folder;
    rc = bind_socket(&d->folder, LOCAL_STATSD, d->config->statsd_listen,
                     SOCK_DGRAM, &d->local);
    d->sources[LISTENER_SOCKET].fd = d->local.fd;
    if (d->local.fd >= 0)
        set_buffer(d, d->local.fd);
    return rc;
}

void
datagram_init(struct datagrams *d)
{
    *d = (struct datagrams){.folder = {.fd = -1}};
    d->local = (struct local){.fd = -1, .lock_fd = -1};
    for (int i = 0; i < LISTENER_ACCEPTORS; i++) {
        d->sources[i].owner = d;
        d->sources[i].fd = d->sources[i].source.fd = -1;
    }
}

int
datagram_begin(struct datagrams *d, const struct config *config)
{
    datagram_init(d);
    d->config = config;
    return bind_is_now(config->statsd_listen) ? bind_port(d) : 0;
}

int
datagram_bind(struct datagrams *d, const struct local_folder *folder)
{
    const struct config *c = d->config;
    const char *wrong;
    size_t size;
    int rc;

    if (c->statsd_listen[0] == '\0')
        return 0;
    rc = networks_parse(c->statsd_allow, &d->allow, &wrong, &size);
    if (rc == 0)
        rc = bind_local(d, folder);
    if (rc == 0 && d->sources[LISTENER_PORT].fd < 0 &&
        strcmp(c->statsd_listen, LISTENER_NO_PORT) != 0)
        rc = bind_port(d);
    if (rc < 0)
        datagram_close(d);
    return rc;
}

bool
datagram_is_on(const struct datagrams *d)
{
    return d->sources[LISTENER_PORT].fd >= 0 ||
           d->sources[LISTENER_SOCKET].fd >= 0;
}

/* ---- receiving ---------------------------------------------------------- */

static void
note_readable(struct loop_source *source, uint32_t events)
{
    (void)events;
    LOOP_OWNER(source, struct datagram_source, source)->owner->readable = true;
}

int
datagram_serve(struct datagrams *d, struct loop *loop)
{
    d->loop = loop;
    if (!datagram_is_on(d))
        return 0;
    d->slots = map_bytes(sizeof *d->slots);
    if (!d->slots)
        return -ENOMEM;
    for (int i = 0; i < LISTENER_ACCEPTORS; i++) {
        struct datagram_source *s = &d->sources[i];
        int rc;

        if (s->fd < 0)
            continue;
        s->source.ready = note_readable;
        rc = loop_add(loop, &s->source, s->fd, EPOLLIN);
        if (rc < 0)
            return rc;
    }
    d->readable = true;
    return 0;
}

/* Receives from one socket.  Returns the number of datagrams. */
static int
receive_batch(struct datagrams *d, int fd)
{
    struct datagram_slots *s = d->slots;

    for (size_t i = 0; i < DATAGRAM_BATCH; i++) {
        s->vectors[i] = (struct iovec){s->bytes[i], DATAGRAM_MAX};
        s->headers[i].msg_hdr =
            (struct msghdr){.msg_name = &s->peers[i],
                            .msg_namelen = sizeof s->peers[i],
                            .msg_iov = &s->vectors[i],
                            .msg_iovlen = 1};
    }
    return recvmmsg(fd, s->headers, DATAGRAM_BATCH, MSG_DONTWAIT, NULL);
}

static bool
is_allowed(struct datagrams *d, size_t i)
{
    const struct msghdr *h = &d->slots->headers[i].msg_hdr;
    struct net_address peer = {.size = h->msg_namelen};
    char where[NET_ADDRESS_SIZE];

    /* A sender to the socket in the directory has no address, or a path. */
    if (d->allow.count == 0 || h->msg_namelen < sizeof(struct sockaddr_in) ||
        d->slots->peers[i].ss_family == AF_UNIX)
        return true;
    peer.sa = d->slots->peers[i];
    if (networks_contain(&d->allow, &peer))
        return true;
    d->stats.not_allowed++;
    net_format(&peer, where);
    diag_repeating(&d->allow_warning, DIAG_WARNING,
                   "statsd: ignored datagrams from %s, which is not in "
                   "statsd.allow",
                   where);
    return false;
}

/* Skips what is not taken: empty datagrams, those of other networks, and what
 * is longer than a buffer: the rest of its last line is lost. */
static bool
find_next(struct datagrams *d)
{
    for (; d->next < d->count; d->next++) {
        const struct mmsghdr *h = &d->slots->headers[d->next];

        if (!is_allowed(d, d->next))
            continue;
        if ((h->msg_hdr.msg_flags & MSG_TRUNC) != 0)
            d->stats.too_long++;
        else if (h->msg_len > 0)
            return true;
        else
            d->stats.received++;
    }
    return false;
}

/* Receives a batch, in which there is one to take. */
static bool
receive_next(struct datagrams *d)
{
    int idle = 0, batches = 0;

    if (d->paused || !d->readable)
        return false;
    /* Datagrams that are skipped must not keep the loop from others for long.
     */
    while (idle < LISTENER_ACCEPTORS && batches++ < SKIPPED_BATCHES) {
        int n;

        /* In turns, so that neither socket starves the other. */
        d->last = (d->last + 1) % LISTENER_ACCEPTORS;
        n = d->sources[d->last].fd < 0
                ? 0
                : receive_batch(d, d->sources[d->last].fd);
        idle = n > 0 ? 0 : idle + 1;
        d->next = 0;
        d->count = n > 0 ? (size_t)n : 0;
        if (find_next(d))
            return true;
    }
    d->readable = idle < LISTENER_ACCEPTORS;
    return false;
}

const uint8_t *
datagram_first(struct datagrams *d, size_t *size)
{
    if (!find_next(d) && !receive_next(d))
        return NULL;
    *size = d->slots->headers[d->next].msg_len;
    return d->slots->bytes[d->next];
}

void
datagram_pop(struct datagrams *d)
{
    assert(d->next < d->count);
    d->stats.received++;
    d->next++;
}

void
datagram_pause(struct datagrams *d, bool paused)
{
    if (d->paused == paused)
        return;
    d->paused = paused;
    for (int i = 0; i < LISTENER_ACCEPTORS; i++)
        if (d->sources[i].source.fd >= 0)
            /* Registered already, so no memory is needed. */
            (void)loop_change(d->loop, &d->sources[i].source,
                              paused ? 0 : EPOLLIN);
    d->readable = !paused;
}

void
datagram_count_dropped(struct datagrams *d)
{
    for (int i = 0; i < LISTENER_ACCEPTORS; i++) {
        uint32_t info[SK_MEMINFO_VARS];
        socklen_t size = sizeof info;

        if (d->sources[i].fd < 0 ||
            getsockopt(d->sources[i].fd, SOL_SOCKET, SO_MEMINFO, info, &size) <
                0 ||
            size <= SK_MEMINFO_DROPS * sizeof info[0])
            continue;
        d->stats.dropped += info[SK_MEMINFO_DROPS] - d->sources[i].drops;
        d->sources[i].drops = info[SK_MEMINFO_DROPS];
    }
}

void
datagram_close(struct datagrams *d)
{
    for (int i = 0; i < LISTENER_ACCEPTORS; i++) {
        if (d->sources[i].source.fd >= 0)
            loop_remove(d->loop, &d->sources[i].source);
        if (i == LISTENER_PORT && d->sources[i].fd >= 0)
            (void)close(d->sources[i].fd); /* what is queued is dropped */
        d->sources[i].fd = -1;
    }
    local_close(&d->folder, &d->local);
    d->folder.fd = -1;
    if (d->slots)
        (void)munmap(d->slots, sizeof *d->slots); /* mapped: cannot fail */
    d->slots = NULL;
    d->next = d->count = 0;
}

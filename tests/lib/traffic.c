/* tests/lib/traffic.c - see traffic.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/traffic.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/test.h"

static uint64_t
draw_moment(struct traffic *t)
{
    return atomic_fetch_add(t->moments, 1) + 1;
}

void
traffic_init(struct traffic *t, struct model *m, _Atomic uint64_t *moments,
             unsigned peers, unsigned window)
{
    if (peers > TRAFFIC_MAX || window > TRAFFIC_WINDOW)
        fail_msg("too much traffic");
    memset(t, 0, sizeof *t);
    t->model = m;
    t->moments = moments;
    t->peer_count = peers;
    t->window = window;
    t->peers = test_memory(calloc(peers, sizeof *t->peers));
    for (unsigned i = 0; i < peers; i++) {
        t->peers[i].fd = -1;
        t->peers[i].out =
            test_memory(malloc((size_t)window * CLIENT_MESSAGE_SIZE));
    }
}

static void
hang_up(struct traffic_peer *p)
{
    if (p->fd >= 0)
        (void)close(p->fd); /* its answers are given up already */
    p->fd = -1;
    p->first = p->count = 0;
    p->phase = 0;
    p->out_at = p->out_size = 0;
}

void
traffic_fini(struct traffic *t)
{
    for (unsigned i = 0; i < t->peer_count; i++) {
        hang_up(&t->peers[i]);
        free(t->peers[i].out);
    }
    free(t->peers);
    memset(t, 0, sizeof *t);
}

void
traffic_port(struct traffic *t, uint16_t port)
{
    t->port = port;
}

void
traffic_silent(struct traffic *t, unsigned peers, uint16_t port)
{
    t->silent_port = port;
    for (unsigned i = t->peer_count - peers; i < t->peer_count; i++)
        t->peers[i].silent = true;
}

/* Makes up messages until the window is full. */
static void
fill_window(struct traffic *t, struct traffic_peer *p)
{
    char keyspace[MODEL_NAME_SIZE], key[MODEL_NAME_SIZE];
    size_t n;

    if (p->out_at == p->out_size)
        p->out_at = p->out_size = 0;
    while (p->count < t->window &&
           p->out_size + CLIENT_MESSAGE_SIZE <=
               (size_t)t->window * CLIENT_MESSAGE_SIZE) {
        n = model_next(t->model);
        model_names(t->model, n, keyspace, key);
        client_message(p->out + p->out_size, keyspace, key,
                       t->model->messages[n].increment);
        p->out_size += CLIENT_MESSAGE_SIZE;
        if (!p->silent)
            p->waiting[(p->first + p->count++) % TRAFFIC_WINDOW] = n;
        /* From here on it may arrive. */
        t->model->messages[n].sent = draw_moment(t);
        /* Mixed sizes of groups. */
        if (random_chance(&t->model->random, p->silent ? 50 : 10))
            break;
    }
}

static bool
push_bytes(struct traffic_peer *p)
{
    ssize_t n;

    while (p->out_at < p->out_size) {
        n = send(p->fd, p->out + p->out_at, p->out_size - p->out_at,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN;
        p->out_at += (size_t)n;
    }
    return true;
}

static void
take_answer(struct traffic *t, struct traffic_peer *p, uint8_t byte)
{
    if (p->count == 0)
        fail_msg("an answer to nothing: byte %02x", byte);
    if (byte != (uint8_t) "WIN"[p->phase])
        fail_msg("byte %02x where WIN was expected", byte);
    if (++p->phase < 3)
        return;
    p->phase = 0;
    t->model->messages[p->waiting[p->first]].acked = draw_moment(t);
    p->first = (p->first + 1) % TRAFFIC_WINDOW;
    p->count--;
}

static bool
pull_answers(struct traffic *t, struct traffic_peer *p)
{
    uint8_t bytes[3 * TRAFFIC_WINDOW];
    ssize_t n;

    n = recv(p->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN;
    for (ssize_t i = 0; i < n; i++)
        take_answer(t, p, bytes[i]);
    return n > 0;
}

static void
serve_peer(struct traffic *t, struct traffic_peer *p, short events)
{
    bool good = true;

    if (events & (POLLIN | POLLERR | POLLHUP))
        good = pull_answers(t, p);
    if (good && !t->quiet)
        fill_window(t, p);
    if (good)
        good = push_bytes(p);
    if (!good) {
        t->breaks++;
        hang_up(p);
    }
}

void
traffic_turn(struct traffic *t, int wait_ms)
{
    struct pollfd polls[TRAFFIC_MAX];

    for (unsigned i = 0; i < t->peer_count; i++) {
        struct traffic_peer *p = &t->peers[i];

        uint16_t port = p->silent ? t->silent_port : t->port;

        if (p->fd < 0 && port != 0 && !t->quiet)
            p->fd = client_try_connect(port);
        /* Also those that a drain left with nothing on its way. */
        if (p->fd >= 0 && !t->quiet && p->count <= t->window / 2)
            serve_peer(t, p, 0);
        polls[i].fd = p->fd;
        polls[i].events =
            (short)(POLLIN | (p->out_at < p->out_size ? POLLOUT : 0));
        polls[i].revents = 0;
    }
    if (poll(polls, t->peer_count, wait_ms) < 0 && errno != EINTR)
        fail_msg("poll: %s", strerror(errno));
    for (unsigned i = 0; i < t->peer_count; i++)
        if (t->peers[i].fd >= 0 && polls[i].revents)
            serve_peer(t, &t->peers[i], polls[i].revents);
}

static bool
is_waiting(const struct traffic *t)
{
    for (unsigned i = 0; i < t->peer_count; i++)
        if (t->peers[i].fd >= 0 && t->peers[i].count > 0)
            return true;
    return false;
}

bool
traffic_drain(struct traffic *t, int timeout_ms)
{
    uint64_t deadline = test_deadline((uint64_t)timeout_ms);

    t->quiet = true;
    while (is_waiting(t) && clock_ms() < deadline)
        traffic_turn(t, 10);
    t->quiet = false;
    return !is_waiting(t);
}

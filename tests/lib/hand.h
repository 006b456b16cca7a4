/* tests/lib/hand.h - a server whose connections a test serves by hand.
 *
 * A thread calls `serve` for each connection in turn.  Its reads and writes give
 * up after 20 seconds, so that a test that hangs fails.  Its calls are
 * read() and write(): faults of recv() and send() hit the client alone. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_HAND_H
#define COUNTD_TESTS_LIB_HAND_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The test's own, which begins with a struct hand. */
struct server;

struct hand {
    int listen_fd;
    uint16_t port; /* of 127.0.0.1 */
    char address[32];
    pthread_t thread;
    bool running;
    unsigned connections; /* to serve */
    unsigned number;      /* of the one that is served, from 0 */
    void (*serve)(struct server *s, int fd);
    int go[2]; /* the test lets the server go on */
};

/* Listens; a port that was its own before, or 0. */
void hand_listen(struct hand *h, uint16_t port);

/* As listening on port 0, and the rest. */
void hand_init(struct hand *h);
void hand_fini(struct hand *h);

/* Its port is closed. */
void hand_close(struct hand *h);

void hand_start(struct hand *h, unsigned connections,
                void (*serve)(struct server *s, int fd));

/* Waits until all its connections are served. */
void hand_join(struct hand *h);

/* One lets the other go on. */
void hand_let_go(struct hand *h);
void hand_await(struct hand *h);

/* Bytes read; fewer than asked for at the end. */
size_t hand_get(int fd, void *bytes, size_t size);

/* False when the peer has gone, which is part of some cases. */
bool hand_put(int fd, const void *bytes, size_t size);

#endif

/* tests/lib/pg_proxy.h - something between a client and pg_server.h's server: it
 * can look at what goes through, end a connection, and be slow.
 *
 * A thread serves each connection. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_PG_PROXY_H
#define COUNTD_TESTS_LIB_PG_PROXY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tests/lib/tmpdir.h"

struct pg_proxy {
    char conninfo[600];    /* how to connect through it */
    _Atomic long delay_ms; /* of all that a client sends */

    /* Sees, and may change, what goes through; false ends the connection
     * without it.  NULL: all goes through. */
    bool (*look)(bool from_server, char *bytes, size_t size);

    struct tmpdir dir;
    pthread_t thread;
    int listener;
    _Atomic int clients;
};

/* `look` and `delay_ms` are set; the server is there. */
void pg_proxy_start(struct pg_proxy *p);

/* When no client is left, which it waits for. */
void pg_proxy_stop(struct pg_proxy *p);

#endif

/* tests/bench/ceiling.h - servers that do what sockets and disk need, and know
 * nothing: what a server of their shape could do at most.
 *
 * One thread receives all that is ready, makes it durable at once, if at all,
 * and then answers each request with the same bytes. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_BENCH_CEILING_H
#define COUNTD_TESTS_BENCH_CEILING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CEILING_IN_SIZE ((size_t)512 * 520) /* received at once, at most */

struct ceiling_conn {
    int fd;
    bool is_silent; /* of the second port */
    bool ends;      /* closed after its answers */
    uint64_t owed;  /* answers */
    size_t have;
    uint8_t in[CEILING_IN_SIZE + 1]; /* `have` bytes, a NUL */
};

struct ceiling {
    /* Takes whole requests of a connection: returns their bytes, and adds to
     * what it is owed. */
    size_t (*take)(const struct ceiling *c, struct ceiling_conn *conn);

    /* What a child does before it serves, and after it has received what was
     * ready: `count` requests.  Without it answers are sent at once. */
    void (*open)(const struct ceiling *c);
    void (*sync)(const struct ceiling *c, uint64_t count);

    const void *answer; /* NULL: nothing is answered */
    size_t answer_size;
    const void *ctx; /* of the three */
};

/* A child that ends with this process, or by bench_kill(); the ports that it
 * listens on, the second if `silent_port` is not NULL. */
pid_t ceiling_start(const struct ceiling *c, uint16_t *port,
                    uint16_t *silent_port);

#endif

/* tests/bench/messages.c - see messages.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/messages.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/lib/client.h"
#include "tests/lib/random.h"

#define RING  16384 /* messages made ahead, sent again and again */
#define CHUNK 128   /* messages of one send */

static uint8_t *ring;

static void
make_ring(void)
{
    struct random random = {1};
    char keyspace[32], key[32];

    if (ring)
        return;
    ring = need(RING, CLIENT_MESSAGE_SIZE);
    for (size_t i = 0; i < RING; i++) {
        (void)snprintf(keyspace, sizeof keyspace, "keyspace-%010u",
                       (unsigned)random_below(&random, 100));
        (void)snprintf(key, sizeof key, "key-%07u",
                       (unsigned)random_below(&random, 1000000));
        client_message(ring + i * CLIENT_MESSAGE_SIZE, keyspace, key, 1);
    }
}

static size_t
put_message(const struct load *l, unsigned conn, uint64_t sent, uint8_t *to)
{
    (void)l; /* all are alike */
    memcpy(to, ring + (conn * 257 + sent) % RING * CLIENT_MESSAGE_SIZE,
           CLIENT_MESSAGE_SIZE);
    return CLIENT_MESSAGE_SIZE;
}

double
messages_acked(uint16_t port, unsigned conns, unsigned depth, uint64_t ms,
               struct times *t)
{
    const struct load l = {.conns = conns,
                           .depth = depth,
                           .ms = ms,
                           .put = put_message,
                           .request_max = CLIENT_MESSAGE_SIZE,
                           .take = load_take_same,
                           .reply_size = strlen("WIN")};

    make_ring();
    return load_run(&l, port, t);
}

double
messages_silent(uint16_t port, unsigned conns, int until)
{
    static struct times times;
    const struct load l = {.conns = conns,
                           .depth = CHUNK,
                           .until = until,
                           .put = put_message,
                           .request_max = CLIENT_MESSAGE_SIZE};

    make_ring();
    return load_run(&l, port, &times);
}

double
messages_blast(uint16_t port, uint64_t count)
{
    uint64_t begin_ns, sent;
    int fd;

    make_ring();
    fd = client_connect(port);
    begin_ns = clock_ns();
    for (sent = 0; sent < count; sent += CHUNK)
        client_send(fd, ring + sent % RING * CLIENT_MESSAGE_SIZE,
                    (size_t)CHUNK * CLIENT_MESSAGE_SIZE);
    must(shutdown(fd, SHUT_WR), "shutdown");
    client_expect_end(fd);
    client_close(fd);
    return (double)sent * 1e9 / (double)(clock_ns() - begin_ns);
}

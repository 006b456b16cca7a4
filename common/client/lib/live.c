/* common/client/lib/live.c - libcountd: live resources, from countd_live_open()
 * to countd_live_close(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/lib/countd.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/client/lib/handle.h"
#include "common/client/lib/live_exchange.h"

#define COUNTER_ADDRESS    "127.0.0.1:11215"
#define SEMAPHORE_ADDRESS  "127.0.0.1:11216"
#define CONNECT_TIMEOUT_MS 5000
#define ANSWER_TIMEOUT_MS  5000

/* A server that vanished is noticed after 30 s + 3 * 5 s of silence. */
#define KEEPALIVE_IDLE_S     30
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_COUNT      3

/* ---- open and close ---------------------------------------------------- */

static int
take_options(const struct countd_live_options *from,
             struct countd_live_options *o)
{
    const int rc = handle_take_options(o, sizeof *o, from);

    if (rc < 0)
        return rc;
    if (!o->address && !o->directory)
        o->address = o->semaphore ? SEMAPHORE_ADDRESS : COUNTER_ADDRESS;
    if (o->connect_timeout_ms == 0)
        o->connect_timeout_ms = CONNECT_TIMEOUT_MS;
    if (o->timeout_ms == 0)
        o->timeout_ms = ANSWER_TIMEOUT_MS;
    return o->timeout_ms > INT32_MAX ? -EINVAL : 0;
}

/* A holder that is silent for hours must notice that the server has vanished.
 */
static void
keep_alive(int fd)
{
    const int on = 1, idle = KEEPALIVE_IDLE_S;
    const int interval = KEEPALIVE_INTERVAL_S, count = KEEPALIVE_COUNT;

    /* A kernel without it only notices later. */
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval,
                     sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

PUBLIC int
countd_live_open(struct countd_live **out,
                 const struct countd_live_options *options)
{
    struct countd_live_options o;
    struct countd_live *l;
    int rc;

    rc = take_options(options, &o);
    if (rc < 0)
        return rc;
    l = calloc(1, sizeof *l);
    if (!l)
        return -ENOMEM;
    l->timeout_ms = (int)o.timeout_ms;
    l->send = malloc(2 * LIVE_BUFFER_SIZE);
    if (!l->send) {
        rc = -ENOMEM;
        goto free_handle;
    }
    l->receive = l->send + LIVE_BUFFER_SIZE;
    rc = link_init(&l->link, o.address, o.directory,
                   o.semaphore ? LOCAL_SEMAPHORE : LOCAL_COUNTER,
                   o.connect_timeout_ms);
    if (rc == 0)
        rc = link_connect_until(&l->link, UINT64_MAX);
    if (rc < 0)
        goto free_buffers;
    keep_alive(l->link.fd);
    rc = -pthread_mutex_init(&l->lock, NULL);
    if (rc < 0)
        goto drop_link;
    *out = l;
    return 0;

drop_link:
    link_drop(&l->link);
free_buffers:
    free(l->send);
free_handle:
    free(l);
    return rc;
}

void
live_close(struct countd_live *l)
{
    link_drop(&l->link);
    (void)pthread_mutex_destroy(&l->lock); /* the caller's last use */
    free(l->send);
    free(l);
}

PUBLIC void
countd_live_close(struct countd_live *l)
{
    if (!l)
        return;
    /* A forked child may have a copy of the descriptor: closing this one would
     * release nothing. */
    live_end(l);
    live_close(l);
}

/* ---- what users call --------------------------------------------------- */

PUBLIC int
countd_live_fd(const struct countd_live *l)
{
    return l->link.fd;
}

PUBLIC int
countd_live_alive(struct countd_live *l)
{
    char byte;
    ssize_t n;
    int error;

    /* A call that is under way finds out by itself. */
    if (pthread_mutex_trylock(&l->lock) == 0) {
        n = recv(l->link.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        error = errno;
        /* No request is open, so a byte is as wrong as the end. */
        if (n >= 0 || (error != EAGAIN && error != EINTR))
            live_end(l);
        (void)pthread_mutex_unlock(&l->lock); /* as in live_exchange() */
    }
    return atomic_load(&l->ended) ? -ENOTCONN : 0;
}

PUBLIC int
countd_live_batch(struct countd_live *l, struct countd_live_op *ops,
                  size_t count)
{
    struct live_exchange x = {.l = l, .ops = ops, .count = count};
    int rc;

    for (size_t i = 0; i < count; i++)
        ops[i].result = live_is_proper(&ops[i]) ? LIVE_PENDING : -EINVAL;
    rc = live_exchange(&x);
    for (size_t i = x.done; i < count; i++)
        if (ops[i].result == LIVE_PENDING)
            ops[i].result = rc;
    return rc;
}

static int
batch_one(struct countd_live *l, struct countd_live_op *op)
{
    const int rc = countd_live_batch(l, op, 1);

    return rc < 0 ? rc : op->result;
}

PUBLIC int
countd_acquire(struct countd_live *l, const void *name, size_t size,
               uint32_t resources, uint32_t bound)
{
    struct countd_live_op op = {.what = COUNTD_ACQUIRE,
                                .name = name,
                                .size = size,
                                .resources = resources,
                                .bound = bound};

    return batch_one(l, &op);
}

PUBLIC int
countd_release(struct countd_live *l, const void *name, size_t size,
               uint32_t resources)
{
    struct countd_live_op op = {.what = COUNTD_RELEASE,
                                .name = name,
                                .size = size,
                                .resources = resources};

    return batch_one(l, &op);
}

PUBLIC int
countd_live_get(struct countd_live *l, const void *name, size_t size,
                uint32_t *value)
{
    struct countd_live_op op = {.what = COUNTD_GET, .name = name, .size = size};
    const int rc = batch_one(l, &op);

    if (rc == 0)
        *value = op.value;
    return rc;
}

PUBLIC int
countd_live_dump(struct countd_live *l,
                 int (*each)(void *ctx, const void *name, size_t size,
                             uint32_t current, uint32_t maximum),
                 void *ctx)
{
    struct live_exchange x = {
        .l = l, .opcode = FRAME_DUMP, .count = 1, .dump = each, .ctx = ctx};

    return live_exchange_one(&x);
}

PUBLIC int
countd_live_who(struct countd_live *l, const void *name, size_t size,
                int (*each)(void *ctx, const char *address, uint32_t amount,
                            uint32_t age_s),
                void *ctx)
{
    uint32_t from = 0;
    int rc = 0;

    if (size == 0 || size > FRAME_NAME_MAX)
        return -EINVAL;
    do {
        struct live_exchange x = {.l = l,
                                  .opcode = FRAME_WHO,
                                  .name = name,
                                  .name_size = size,
                                  .from = from,
                                  .count = 1,
                                  .who = each,
                                  .ctx = ctx};

        rc = live_exchange_one(&x);
        if (rc == 0 && x.from != 0 && x.from <= from)
            rc = -EPROTO; /* it would never end */
        from = x.from;
    } while (rc == 0 && from != 0);
    return rc;
}

PUBLIC int
countd_live_stats(struct countd_live *l,
                  int (*each)(void *ctx, const char *name, const char *value),
                  void *ctx)
{
    struct live_exchange x = {
        .l = l, .opcode = FRAME_STATS, .count = 1, .stats = each, .ctx = ctx};

    return live_exchange_one(&x);
}

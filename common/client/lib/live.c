/* common/client/lib/live.c - libcountd: live resources, from countd_live_open()
 * to countd_live_close().
 *
 * A call is one request and its answers, on the one connection of a handle.  It
 * carries the next number as its opaque bytes, and an answer must have it.
 *
 * Nothing is sent again: when anything goes wrong the connection is shut down,
 * which releases what it holds, and stays so.  Its descriptor is closed with
 * the handle only, for others poll it.
 *
 * Read from the end: the calls, run_request(), take_answers(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/lib/countd.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/client/lib/handle.h"
#include "common/wire/frame.h"

#define COUNTER_ADDRESS    "127.0.0.1:11215"
#define SEMAPHORE_ADDRESS  "127.0.0.1:11216"
#define CONNECT_TIMEOUT_MS 5000
#define ANSWER_TIMEOUT_MS  5000
#define BUFFER_SIZE        ((size_t)128 * 1024)

/* A server that vanished is noticed after 30 s + 3 * 5 s of silence. */
#define KEEPALIVE_IDLE_S     30
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_COUNT      3

/* Any request and any answer fit: the largest is a record of Dump. */
static_assert(BUFFER_SIZE >= FRAME_NEED_MAX, "the longest name fits");

struct countd_live {
    pthread_mutex_t lock;
    struct link link;
    int timeout_ms;
    atomic_bool ended; /* and shut down */
    uint32_t serial;   /* number of the next request */
    uint8_t send[FRAME_NEED_MAX];
    uint8_t receive[BUFFER_SIZE];
};

struct live_request {
    struct countd_live *l;
    enum frame_opcode opcode;
    struct countd_name name;
    uint32_t resources; /* of Acquire and Release */
    uint32_t bound;     /* of Acquire */
    uint32_t from;      /* of Who, in and out; 0: the end */
    int (*who)(void *ctx, const char *address, uint32_t amount, uint32_t age_s);
    int (*dump)(void *ctx, struct countd_name name, uint32_t current,
                uint32_t maximum);
    int (*stats)(void *ctx, const char *name, const char *value);
    void *ctx;

    uint32_t value; /* of Get and Acquire */
    int result;     /* what the server says */
    int stopped;    /* what the function said; 0: go on */
    uint32_t serial;
    struct link_exchange exchange; /* deadline: of the next whole answer */
};

/* ---- one request --------------------------------------------------------- */

/* Dump and Stats are about all. */
static bool
has_name(const struct live_request *q)
{
    return !q->dump && !q->stats;
}

/* Puts the request at `bytes`, where FRAME_NEED_MAX are; returns its size. */
static size_t
put_request(const struct live_request *q, uint8_t *bytes)
{
    struct frame_header h = {.magic = FRAME_REQUEST,
                             .opcode = (uint8_t)q->opcode};
    uint8_t *at = bytes + FRAME_HEADER;
    uint32_t numbers[2];
    int count = 0;

    if (q->opcode == FRAME_ACQUIRE || q->opcode == FRAME_RELEASE)
        numbers[count++] = q->resources;
    if (q->opcode == FRAME_ACQUIRE)
        numbers[count++] = q->bound;
    if (q->opcode == FRAME_WHO) {
        numbers[count++] = q->from;
        h.status = FRAME_WHO_FLAGS;
    }
    for (int i = 0; i < count; i++, at += 4)
        put_be32(at, numbers[i]);
    if (has_name(q)) {
        put_be16(at, (uint16_t)q->name.size);
        memcpy(at + 2, q->name.data, q->name.size);
        at += 2 + q->name.size;
    }
    put_be32(h.opaque, q->serial);
    h.body_size = (uint32_t)(at - bytes - FRAME_HEADER);
    frame_put_header(bytes, &h);
    return (size_t)(at - bytes);
}

/* ---- answers ------------------------------------------------------------- */

/* What a status means here; -EPROTO for one that does not exist. */
static int
status_error(uint8_t status)
{
    switch (status) {
    case FRAME_OK:
        return 0;
    case FRAME_NOT_FOUND:
        return -ENOENT;
    case FRAME_INVALID:
        return -EINVAL;
    case FRAME_NOT_AVAILABLE:
        return -EBUSY;
    case FRAME_NOT_ACQUIRED:
        return -EPERM;
    case FRAME_UNKNOWN:
        return -EOPNOTSUPP;
    case FRAME_NO_MEMORY:
        return -ENOMEM;
    }
    return -EPROTO;
}

/* One answer to Dump; the last has no body. */
static int
take_record(struct live_request *q, const uint8_t *body, size_t size)
{
    size_t name_size;

    q->exchange.done = size == 0;
    if (size == 0)
        return 0;
    if (size < 10)
        return -EPROTO;
    name_size = get_be16(body + 8);
    if (name_size == 0 || name_size > size - 10)
        return -EPROTO;
    q->stopped = q->dump(q->ctx, countd_bytes(body + 10, name_size),
                         get_be32(body), get_be32(body + 4));
    return q->stopped ? -ECANCELED : 0;
}

/* One answer to Who: where to go on, then the holders. */
static int
take_holders(struct live_request *q, const uint8_t *body, size_t size)
{
    char address[256];
    size_t length;

    if (size < 4)
        return -EPROTO;
    q->from = get_be32(body);
    for (body += 4, size -= 4; size > 0 && !q->stopped;
         body += 10 + length, size -= 10 + length) {
        length = size < 10 ? sizeof address : get_be16(body + 8);
        if (length >= sizeof address || length > size - 10)
            return -EPROTO;
        memcpy(address, body + 10, length);
        address[length] = '\0';
        q->stopped =
            q->who(q->ctx, address, get_be32(body), get_be32(body + 4));
    }
    q->exchange.done = true;
    return 0;
}

/* The answer to Stats.  Texts move into the room of the sizes before them, so
 * that each gets its NUL. */
static int
take_stats(struct live_request *q, uint8_t *body, size_t size)
{
    size_t name_size, value_size;

    while (size > 0) {
        if (size < 4)
            return -EPROTO;
        name_size = get_be16(body);
        value_size = get_be16(body + 2);
        if (name_size + value_size > size - 4)
            return -EPROTO;
        memmove(body, body + 4, name_size);
        body[name_size] = '\0';
        memmove(body + name_size + 1, body + 4 + name_size, value_size);
        body[name_size + 1 + value_size] = '\0';
        q->stopped = q->stats(q->ctx, (const char *)body,
                              (const char *)body + name_size + 1);
        if (q->stopped)
            return -ECANCELED;
        body += 4 + name_size + value_size;
        size -= 4 + name_size + value_size;
    }
    q->exchange.done = true;
    return 0;
}

static int
take_value(struct live_request *q, const uint8_t *body, size_t size)
{
    q->exchange.done = true;
    if (q->opcode == FRAME_RELEASE)
        return 0;
    if (size < 4)
        return -EPROTO;
    q->value = get_be32(body);
    return 0;
}

/* Takes one whole answer: 0, or what ends the exchange. */
static int
take_answer(struct live_request *q, const struct frame_header *h, uint8_t *body)
{
    const int error = status_error(h->status);

    if (get_be32(h->opaque) != q->serial)
        return -EPROTO;
    /* Some servers do not repeat an opcode that they do not know. */
    if (h->opcode != q->opcode && error != -EOPNOTSUPP)
        return -EPROTO;
    if (error == -EPROTO)
        return error;
    if (error < 0) {
        q->result = error;
        q->exchange.done = true;
        return 0;
    }
    if (q->who)
        return take_holders(q, body, h->body_size);
    if (q->dump)
        return take_record(q, body, h->body_size);
    return q->stats ? take_stats(q, body, h->body_size)
                    : take_value(q, body, h->body_size);
}

static ssize_t
take_answers(void *ctx, uint8_t *bytes, size_t size)
{
    struct live_request *q = ctx;
    struct frame_header h;
    size_t at = 0;
    int rc;

    while (!q->exchange.done && size - at >= FRAME_HEADER) {
        frame_get_header(bytes + at, &h);
        if (h.magic != FRAME_ANSWER || h.body_size > BUFFER_SIZE - FRAME_HEADER)
            return -EPROTO;
        if (size - at - FRAME_HEADER < h.body_size)
            break;
        rc = take_answer(q, &h, bytes + at + FRAME_HEADER);
        if (rc < 0)
            return rc;
        at += FRAME_HEADER + h.body_size;
    }
    if (at > 0)
        q->exchange.deadline_ms = link_deadline(q->l->timeout_ms);
    return (ssize_t)at;
}

/* The end: what is held is released, and a poll of the descriptor returns. */
static void
end_connection(struct countd_live *l)
{
    atomic_store(&l->ended, true);
    /* Fails when the other side was faster: then it has ended as well. */
    (void)shutdown(l->link.fd, SHUT_RDWR);
}

/* Sends a request and takes its answers: what the server said of it, what the
 * function that took the answers returned, or why the connection has ended. */
static int
run_request(struct live_request *q)
{
    struct countd_live *l = q->l;
    int rc;

    if (has_name(q) && (q->name.size == 0 || q->name.size > FRAME_NAME_MAX))
        return -EINVAL;
    /* A normal mutex, locked and unlocked in pairs: neither can fail. */
    (void)pthread_mutex_lock(&l->lock);
    rc = atomic_load(&l->ended) ? -ENOTCONN : 0;
    q->serial = l->serial++;
    q->exchange =
        (struct link_exchange){.link = &l->link,
                               .deadline_ms = link_deadline(l->timeout_ms),
                               .ctx = q,
                               .take = take_answers,
                               .send = l->send,
                               .send_size = put_request(q, l->send),
                               .receive = l->receive,
                               .receive_size = BUFFER_SIZE};
    if (rc == 0)
        rc = link_run(&q->exchange);
    if (rc < 0)
        end_connection(l);
    (void)pthread_mutex_unlock(&l->lock);
    if (q->stopped)
        return q->stopped;
    return rc < 0 ? rc : q->result;
}

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
    rc = link_init(&l->link, o.address, o.directory,
                   o.semaphore ? LOCAL_SEMAPHORE : LOCAL_COUNTER,
                   o.connect_timeout_ms);
    if (rc == 0)
        rc = link_connect_until(&l->link, UINT64_MAX);
    if (rc < 0)
        goto free_handle;
    keep_alive(l->link.fd);
    rc = -pthread_mutex_init(&l->lock, NULL);
    if (rc < 0)
        goto drop_link;
    *out = l;
    return 0;

drop_link:
    link_drop(&l->link);
free_handle:
    free(l);
    return rc;
}

PUBLIC void
countd_live_close(struct countd_live *l)
{
    if (!l)
        return;
    /* A forked child may have a copy of the descriptor: closing this one would
     * release nothing. */
    end_connection(l);
    link_drop(&l->link);
    (void)pthread_mutex_destroy(&l->lock); /* the caller's last use */
    free(l);
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
            end_connection(l);
        (void)pthread_mutex_unlock(&l->lock); /* as in run_request() */
    }
    return atomic_load(&l->ended) ? -ENOTCONN : 0;
}

PUBLIC int
countd_acquire(struct countd_live *l, struct countd_name name,
               uint32_t resources, uint32_t bound)
{
    struct live_request q = {.l = l,
                             .opcode = FRAME_ACQUIRE,
                             .name = name,
                             .resources = resources,
                             .bound = bound};

    return resources > 0 && resources <= bound ? run_request(&q) : -EINVAL;
}

PUBLIC int
countd_release(struct countd_live *l, struct countd_name name,
               uint32_t resources)
{
    struct live_request q = {
        .l = l, .opcode = FRAME_RELEASE, .name = name, .resources = resources};

    return run_request(&q);
}

PUBLIC int
countd_live_get(struct countd_live *l, struct countd_name name, uint32_t *value)
{
    struct live_request q = {.l = l, .opcode = FRAME_GET, .name = name};
    const int rc = run_request(&q);

    if (rc == 0)
        *value = q.value;
    return rc;
}

PUBLIC int
countd_live_dump(struct countd_live *l,
                 int (*each)(void *ctx, struct countd_name name,
                             uint32_t current, uint32_t maximum),
                 void *ctx)
{
    struct live_request q = {
        .l = l, .opcode = FRAME_DUMP, .dump = each, .ctx = ctx};

    return run_request(&q);
}

PUBLIC int
countd_live_who(struct countd_live *l, struct countd_name name,
                int (*each)(void *ctx, const char *address, uint32_t amount,
                            uint32_t age_s),
                void *ctx)
{
    uint32_t from = 0;
    int rc = 0;

    do {
        struct live_request q = {.l = l,
                                 .opcode = FRAME_WHO,
                                 .name = name,
                                 .from = from,
                                 .who = each,
                                 .ctx = ctx};

        rc = run_request(&q);
        if (rc == 0 && q.from != 0 && q.from <= from)
            rc = -EPROTO; /* it would never end */
        from = q.from;
    } while (rc == 0 && from != 0);
    return rc;
}

PUBLIC int
countd_live_stats(struct countd_live *l,
                  int (*each)(void *ctx, const char *name, const char *value),
                  void *ctx)
{
    struct live_request q = {
        .l = l, .opcode = FRAME_STATS, .stats = each, .ctx = ctx};

    return run_request(&q);
}

/* common/client/lib/live.c - libcountd: live resources.
 *
 * One exchange is any number of requests and their answers, in order, on the
 * one connection of the handle.  Requests are sent while answers are taken, so
 * neither side can fill the other's buffers and stop both; not more than
 * UNANSWERED_MAX are on their way.  Each carries the next number as its opaque
 * bytes, and an answer must be to the oldest of them.
 *
 * Nothing is sent again: when anything goes wrong the connection is shut down,
 * which releases what it holds, and stays so.  Its descriptor is closed with
 * the handle only, for others poll it.
 */
#include "common/client/lib/countd.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/client/lib/forks.h"
#include "common/client/lib/handle.h"
#include "common/wire/frame.h"

#define COUNTER_ADDRESS    "127.0.0.1:11215"
#define SEMAPHORE_ADDRESS  "127.0.0.1:11216"
#define BUFFER_SIZE        ((size_t)128 * 1024)
#define UNANSWERED_MAX     4096
#define CONNECT_TIMEOUT_MS 5000
#define ANSWER_TIMEOUT_MS  5000

/* A server that vanished is noticed after 30 s + 3 * 5 s of silence. */
#define KEEPALIVE_IDLE_S     30
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_COUNT      3

#define PENDING 1 /* result of an op that has no answer yet */

/* Any request and any answer fit: the largest is a record of Dump. */
static_assert(BUFFER_SIZE >= FRAME_NEED_MAX, "the longest name fits");

struct countd_live {
    pthread_mutex_t lock;
    struct link link;
    unsigned forks; /* before it was opened: see forks.h */
    int timeout_ms;
    atomic_bool ended; /* and shut down */
    uint32_t serial;   /* number of the next request */
    uint8_t *send;     /* two buffers in one piece */
    uint8_t *receive;
};

struct exchange {
    struct countd_live *l;
    struct countd_live_op *ops; /* or, when NULL, one request: */
    enum frame_opcode opcode;   /* without a body */
    int result;
    int (*dump)(void *ctx, const void *name, size_t size, uint32_t current,
                uint32_t maximum);
    int (*stats)(void *ctx, const char *name, const char *value);
    void *ctx;
    int stopped; /* what the function said; 0: go on */

    size_t count;
    size_t put;  /* requests put into the send buffer, or not proper */
    size_t done; /* requests answered, or not proper */
    uint32_t serial;
    uint64_t deadline_ms; /* for the next whole answer */
    bool mute;            /* sending failed: the end is to be received */
    size_t send_at, send_size;
    size_t received; /* bytes in the receive buffer */
};

/* ---- requests ---------------------------------------------------------- */

static bool
is_proper(const struct countd_live_op *op)
{
    if (op->size == 0 || op->size > FRAME_NAME_MAX)
        return false;
    switch (op->what) {
    case COUNTD_ACQUIRE:
        return op->resources > 0 && op->resources <= op->bound;
    case COUNTD_GET:
    case COUNTD_RELEASE:
        return true;
    }
    return false;
}

static enum frame_opcode
opcode_of(const struct exchange *x, size_t index)
{
    if (!x->ops)
        return x->opcode;
    switch (x->ops[index].what) {
    case COUNTD_GET:
        break;
    case COUNTD_ACQUIRE:
        return FRAME_ACQUIRE;
    case COUNTD_RELEASE:
        return FRAME_RELEASE;
    }
    return FRAME_GET;
}

/* Request `index` at `bytes`, where FRAME_NEED_MAX are; returns its size. */
static size_t
put_request(const struct exchange *x, size_t index, uint8_t *bytes)
{
    const struct countd_live_op *op = x->ops ? &x->ops[index] : NULL;
    struct frame_header h = {.magic = FRAME_REQUEST};
    uint8_t *at = bytes + FRAME_HEADER;

    h.opcode = (uint8_t)opcode_of(x, index);
    put_be32(h.opaque, x->serial + (uint32_t)index);
    if (op) {
        if (op->what != COUNTD_GET) {
            put_be32(at, op->resources);
            at += 4;
        }
        if (op->what == COUNTD_ACQUIRE) {
            put_be32(at, op->bound);
            at += 4;
        }
        put_be16(at, (uint16_t)op->size);
        memcpy(at + 2, op->name, op->size);
        at += 2 + op->size;
    }
    h.body_size = (uint32_t)(at - bytes - FRAME_HEADER);
    frame_put_header(bytes, &h);
    return (size_t)(at - bytes);
}

static bool
is_pending(const struct exchange *x, size_t index)
{
    return !x->ops || x->ops[index].result == PENDING;
}

/* Fills the empty send buffer with as many requests as fit. */
static void
fill_send(struct exchange *x)
{
    if (x->send_at < x->send_size)
        return;
    x->send_at = 0;
    x->send_size = 0;
    while (x->put < x->count && x->put - x->done < UNANSWERED_MAX &&
           x->send_size + FRAME_NEED_MAX <= BUFFER_SIZE) {
        if (is_pending(x, x->put))
            x->send_size += put_request(x, x->put, x->l->send + x->send_size);
        x->put++;
    }
}

static void
send_some(struct exchange *x)
{
    ssize_t n;
    int rc;

    for (;;) {
        fill_send(x);
        if (x->send_at == x->send_size || x->mute)
            return;
        n = send(x->l->link.fd, x->l->send + x->send_at,
                 x->send_size - x->send_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            rc = -errno;
            if (rc == -EINTR)
                continue;
            /* Answers may be waiting before the end of the connection:
             * receive_some() finds both. */
            x->mute = rc != -EAGAIN;
            return;
        }
        x->send_at += (size_t)n;
    }
}

/* ---- answers ----------------------------------------------------------- */

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

/* Passes over ops that are not proper. */
static void
skip_refused(struct exchange *x)
{
    while (x->done < x->count && !is_pending(x, x->done))
        x->done++;
    if (x->put < x->done)
        x->put = x->done;
}

static int
take_op(struct exchange *x, const struct frame_header *h, const uint8_t *body)
{
    struct countd_live_op *op = &x->ops[x->done];

    if (h->status == FRAME_OK && op->what != COUNTD_RELEASE) {
        if (h->body_size < 4)
            return -EPROTO;
        op->value = get_be32(body);
    }
    op->result = status_error(h->status);
    x->done++;
    return 0;
}

/* One answer to Dump; the last has no body. */
static int
take_record(struct exchange *x, const uint8_t *body, size_t size)
{
    size_t name_size;

    if (size == 0) {
        x->done++;
        return 0;
    }
    if (size < 10)
        return -EPROTO;
    name_size = get_be16(body + 8);
    if (name_size == 0 || name_size > size - 10)
        return -EPROTO;
    x->stopped = x->dump(x->ctx, body + 10, name_size, get_be32(body),
                         get_be32(body + 4));
    return x->stopped ? -ECANCELED : 0;
}

/* The answer to Stats.  Texts move into the room of the sizes before them, so
 * that each gets its NUL. */
static int
take_stats(struct exchange *x, uint8_t *body, size_t size)
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
        x->stopped = x->stats(x->ctx, (const char *)body,
                              (const char *)body + name_size + 1);
        if (x->stopped)
            return -ECANCELED;
        body += 4 + name_size + value_size;
        size -= 4 + name_size + value_size;
    }
    x->done++;
    return 0;
}

/* Takes one whole answer: 0, or what ends the exchange. */
static int
take_answer(struct exchange *x, const struct frame_header *h, uint8_t *body)
{
    const int error = status_error(h->status);

    if (get_be32(h->opaque) != x->serial + (uint32_t)x->done)
        return -EPROTO;
    /* Some servers do not repeat an opcode that they do not know. */
    if (h->opcode != opcode_of(x, x->done) && error != -EOPNOTSUPP)
        return -EPROTO;
    if (error == -EPROTO)
        return error;
    if (x->ops)
        return take_op(x, h, body);
    if (error < 0) {
        x->result = error;
        x->done++;
        return 0;
    }
    if (x->dump)
        return take_record(x, body, h->body_size);
    return take_stats(x, body, h->body_size);
}

/* Takes the whole answers in the receive buffer and moves the rest to its
 * front. */
static int
take_answers(struct exchange *x)
{
    uint8_t *at = x->l->receive;
    size_t left = x->received;
    struct frame_header h;
    int rc;

    while (left >= FRAME_HEADER) {
        frame_get_header(at, &h);
        if (h.magic != FRAME_ANSWER || h.body_size > BUFFER_SIZE - FRAME_HEADER)
            return -EPROTO;
        if (left - FRAME_HEADER < h.body_size)
            break;
        skip_refused(x);
        if (x->done == x->put)
            return -EPROTO; /* nothing was asked */
        rc = take_answer(x, &h, at + FRAME_HEADER);
        if (rc < 0)
            return rc;
        at += FRAME_HEADER + h.body_size;
        left -= FRAME_HEADER + h.body_size;
    }
    if (at > x->l->receive) {
        memmove(x->l->receive, at, left);
        x->deadline_ms = link_deadline(x->l->timeout_ms);
    }
    x->received = left;
    return 0;
}

static int
receive_some(struct exchange *x)
{
    ssize_t n;
    int rc;

    n = recv(x->l->link.fd, x->l->receive + x->received,
             BUFFER_SIZE - x->received, MSG_DONTWAIT);
    if (n < 0) {
        rc = -errno;
        return rc == -EAGAIN || rc == -EINTR ? 0 : -ENOTCONN;
    }
    if (n == 0)
        return -ENOTCONN;
    x->received += (size_t)n;
    return take_answers(x);
}

/* ---- the exchange ------------------------------------------------------ */

/* The end: what is held is released, and whoever polls the descriptor wakes. */
static void
end(struct countd_live *l)
{
    atomic_store(&l->ended, true);
    /* Fails when the other side was faster: then it has ended as well. */
    (void)shutdown(l->link.fd, SHUT_RDWR);
}

/* One turn: send, wait, take. */
static int
turn(struct exchange *x)
{
    short events = POLLIN;
    int rc;

    send_some(x);
    if (x->send_at < x->send_size && !x->mute)
        events |= POLLOUT;
    rc = link_wait(x->l->link.fd, events, -1, x->deadline_ms);
    return rc < 0 ? rc : receive_some(x);
}

/* 0 when all is answered; else the connection has ended and says why. */
static int
exchange(struct exchange *x)
{
    struct countd_live *l = x->l;
    int rc;

    if (forks_since(l->forks))
        return -ECHILD;
    /* A normal mutex, locked and unlocked in pairs: neither can fail. */
    (void)pthread_mutex_lock(&l->lock);
    rc = atomic_load(&l->ended) ? -ENOTCONN : 0;
    x->serial = l->serial;
    l->serial += (uint32_t)x->count;
    x->deadline_ms = link_deadline(l->timeout_ms);
    skip_refused(x);
    while (rc == 0 && x->done < x->count) {
        rc = turn(x);
        skip_refused(x);
    }
    if (rc == 0 && x->received > 0)
        rc = -EPROTO; /* more than was asked for */
    if (rc < 0)
        end(l);
    (void)pthread_mutex_unlock(&l->lock);
    return rc;
}

/* One request without a body. */
static int
exchange_one(struct exchange *x)
{
    const int rc = exchange(x);

    if (x->stopped)
        return x->stopped;
    return rc < 0 ? rc : x->result;
}

/* ---- open and close ---------------------------------------------------- */

static int
take_options(const struct countd_live_options *from,
             struct countd_live_options *o)
{
    const int rc = options_take(o, sizeof *o, from);

    if (rc < 0)
        return rc;
    if (!o->address)
        o->address = o->semaphore ? SEMAPHORE_ADDRESS : COUNTER_ADDRESS;
    if (o->connect_timeout_ms == 0)
        o->connect_timeout_ms = CONNECT_TIMEOUT_MS;
    if (o->timeout_ms == 0)
        o->timeout_ms = ANSWER_TIMEOUT_MS;
    return o->timeout_ms > INT32_MAX ? -EINVAL : 0;
}

static int
connect_now(struct link *l)
{
    int rc;

    for (;;) {
        rc = link_connect(l);
        if (rc != -EINPROGRESS)
            return rc;
        /* Whatever it says, link_connect() finds out. */
        (void)link_wait(l->fd, POLLOUT, -1, l->deadline_ms);
    }
}

/* Whoever holds something and is silent for hours wants to know when the
 * server has vanished. */
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
    l->send = malloc(2 * BUFFER_SIZE);
    if (!l->send) {
        rc = -ENOMEM;
        goto free_handle;
    }
    l->receive = l->send + BUFFER_SIZE;
    rc = forks_watch(&l->forks);
    if (rc == 0)
        rc = link_init(&l->link, o.address, o.connect_timeout_ms);
    if (rc == 0)
        rc = connect_now(&l->link);
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

PUBLIC void
countd_live_close(struct countd_live *l)
{
    if (!l)
        return;
    if (forks_since(l->forks)) {
        link_leave(&l->link);
    } else {
        /* A forked child may have a copy of the descriptor: closing this one
         * would release nothing. */
        end(l);
        link_drop(&l->link);
        (void)pthread_mutex_destroy(&l->lock); /* the caller's last use */
    }
    free(l->send);
    free(l);
}

/* ---- what users call --------------------------------------------------- */

PUBLIC int
countd_live_fd(const struct countd_live *l)
{
    return forks_since(l->forks) ? -ECHILD : l->link.fd;
}

PUBLIC int
countd_live_alive(struct countd_live *l)
{
    char byte;
    ssize_t n;
    int error;

    if (forks_since(l->forks))
        return -ECHILD;
    /* A call that is under way finds out by itself. */
    if (pthread_mutex_trylock(&l->lock) == 0) {
        n = recv(l->link.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        error = errno;
        /* Nobody asked, so a byte is as wrong as the end. */
        if (n >= 0 || (error != EAGAIN && error != EINTR))
            end(l);
        (void)pthread_mutex_unlock(&l->lock); /* as in exchange() */
    }
    return atomic_load(&l->ended) ? -ENOTCONN : 0;
}

PUBLIC int
countd_live_batch(struct countd_live *l, struct countd_live_op *ops,
                  size_t count)
{
    struct exchange x = {.l = l, .ops = ops, .count = count};
    int rc;

    for (size_t i = 0; i < count; i++)
        ops[i].result = is_proper(&ops[i]) ? PENDING : -EINVAL;
    rc = exchange(&x);
    for (size_t i = x.done; i < count; i++)
        if (ops[i].result == PENDING)
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
    struct exchange x = {
        .l = l, .opcode = FRAME_DUMP, .count = 1, .dump = each, .ctx = ctx};

    return exchange_one(&x);
}

PUBLIC int
countd_live_stats(struct countd_live *l,
                  int (*each)(void *ctx, const char *name, const char *value),
                  void *ctx)
{
    struct exchange x = {
        .l = l, .opcode = FRAME_STATS, .count = 1, .stats = each, .ctx = ctx};

    return exchange_one(&x);
}

/* common/client/lib/live_exchange.c - see live_exchange.h: live_exchange() is
 * at the end. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/lib/live_exchange.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define UNANSWERED_MAX 4096

/* Any request and any answer fit: the largest is a record of Dump. */
static_assert(LIVE_BUFFER_SIZE >= FRAME_NEED_MAX, "the longest name fits");

/* ---- requests ---------------------------------------------------------- */

bool
live_is_proper(const struct countd_live_op *op)
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
opcode_of(const struct live_exchange *x, size_t index)
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

static uint8_t *
put_name(uint8_t *at, const void *name, size_t size)
{
    put_be16(at, (uint16_t)size);
    memcpy(at + 2, name, size);
    return at + 2 + size;
}

/* Request `index` at `bytes`, where FRAME_NEED_MAX are; returns its size. */
static size_t
put_request(const struct live_exchange *x, size_t index, uint8_t *bytes)
{
    const struct countd_live_op *op = x->ops ? &x->ops[index] : NULL;
    struct frame_header h = {.magic = FRAME_REQUEST};
    uint8_t *at = bytes + FRAME_HEADER;

    h.opcode = (uint8_t)opcode_of(x, index);
    h.status = h.opcode == FRAME_WHO ? FRAME_WHO_FLAGS : 0;
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
        at = put_name(at, op->name, op->size);
    } else if (x->who) {
        put_be32(at, x->from);
        at = put_name(at + 4, x->name, x->name_size);
    }
    h.body_size = (uint32_t)(at - bytes - FRAME_HEADER);
    frame_put_header(bytes, &h);
    return (size_t)(at - bytes);
}

static bool
is_pending(const struct live_exchange *x, size_t index)
{
    return !x->ops || x->ops[index].result == LIVE_PENDING;
}

/* Fills the send buffer with as many requests as fit. */
static size_t
fill_send(void *ctx)
{
    struct live_exchange *x = ctx;
    size_t size = 0;

    while (x->put < x->count && x->put - x->done < UNANSWERED_MAX &&
           size + FRAME_NEED_MAX <= LIVE_BUFFER_SIZE) {
        if (is_pending(x, x->put))
            size += put_request(x, x->put, x->l->send + size);
        x->put++;
    }
    return size;
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
skip_refused(struct live_exchange *x)
{
    while (x->done < x->count && !is_pending(x, x->done))
        x->done++;
    if (x->put < x->done)
        x->put = x->done;
    x->transport.done = x->done == x->count;
}

static int
take_op(struct live_exchange *x, const struct frame_header *h,
        const uint8_t *body)
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
take_record(struct live_exchange *x, const uint8_t *body, size_t size)
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

/* One answer to Who: where to go on, then the holders. */
static int
take_holders(struct live_exchange *x, const uint8_t *body, size_t size)
{
    char address[256];
    size_t length;

    if (size < 4)
        return -EPROTO;
    x->from = get_be32(body);
    for (body += 4, size -= 4; size > 0 && !x->stopped;
         body += 10 + length, size -= 10 + length) {
        length = size < 10 ? sizeof address : get_be16(body + 8);
        if (length >= sizeof address || length > size - 10)
            return -EPROTO;
        memcpy(address, body + 10, length);
        address[length] = '\0';
        x->stopped =
            x->who(x->ctx, address, get_be32(body), get_be32(body + 4));
    }
    x->done++;
    return 0;
}

/* The answer to Stats.  Texts move into the room of the sizes before them, so
 * that each gets its NUL. */
static int
take_stats(struct live_exchange *x, uint8_t *body, size_t size)
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
take_answer(struct live_exchange *x, const struct frame_header *h,
            uint8_t *body)
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
    if (x->who)
        return take_holders(x, body, h->body_size);
    if (x->dump)
        return take_record(x, body, h->body_size);
    return take_stats(x, body, h->body_size);
}

static ssize_t
take_answers(void *ctx, uint8_t *bytes, size_t size)
{
    struct live_exchange *x = ctx;
    struct frame_header h;
    size_t at = 0;
    int rc;

    while (size - at >= FRAME_HEADER) {
        frame_get_header(bytes + at, &h);
        if (h.magic != FRAME_ANSWER ||
            h.body_size > LIVE_BUFFER_SIZE - FRAME_HEADER)
            return -EPROTO;
        if (size - at - FRAME_HEADER < h.body_size)
            break;
        if (x->done == x->put)
            return -EPROTO; /* nothing was asked */
        rc = take_answer(x, &h, bytes + at + FRAME_HEADER);
        if (rc < 0)
            return rc;
        skip_refused(x);
        at += FRAME_HEADER + h.body_size;
    }
    if (at > 0)
        x->transport.deadline_ms = link_deadline(x->l->timeout_ms);
    return (ssize_t)at;
}

/* ---- the exchange ------------------------------------------------------ */

void
live_end(struct countd_live *l)
{
    atomic_store(&l->ended, true);
    /* Fails when the other side was faster: then it has ended as well. */
    (void)shutdown(l->link.fd, SHUT_RDWR);
}

int
live_exchange(struct live_exchange *x)
{
    struct countd_live *l = x->l;
    int rc;

    /* A normal mutex, locked and unlocked in pairs: neither can fail. */
    (void)pthread_mutex_lock(&l->lock);
    rc = atomic_load(&l->ended) ? -ENOTCONN : 0;
    x->serial = l->serial;
    l->serial += (uint32_t)x->count;
    x->transport =
        (struct transport){.link = &l->link,
                           .deadline_ms = link_deadline(l->timeout_ms),
                           .ctx = x,
                           .fill = fill_send,
                           .take = take_answers,
                           .send = l->send,
                           .receive = l->receive,
                           .receive_size = LIVE_BUFFER_SIZE};
    skip_refused(x);
    if (rc == 0)
        rc = transport_run(&x->transport);
    if (rc < 0)
        live_end(l);
    (void)pthread_mutex_unlock(&l->lock);
    return rc;
}

int
live_exchange_one(struct live_exchange *x)
{
    const int rc = live_exchange(x);

    if (x->stopped)
        return x->stopped;
    return rc < 0 ? rc : x->result;
}

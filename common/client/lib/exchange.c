/* common/client/lib/exchange.c - see exchange.h: exchange_run() is at the end;
 * take_answers() is the main part. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/lib/exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"

#define SEND_SIZE    ((size_t)64 * 1024)
#define RECEIVE_SIZE ((size_t)64 * 1024)

/* Request `index` as bytes: its size, or -EINVAL, -ENAMETOOLONG. */
static int
put_ask(const struct exchange *x, size_t index, uint8_t *bytes)
{
    const struct countd_ask *a = &x->asks[index];

    if (a->keyspace_size > QUERY_NAME_SIZE)
        return -ENAMETOOLONG;
    return query_put(
        &(struct query_range){.offset = a->offset,
                              .length = a->length,
                              .keyspace = a->keyspace,
                              .keyspace_size = (uint16_t)a->keyspace_size},
        bytes);
}

/* Of the ask that is next to be answered. */
static void
note_error(struct exchange *x, int error)
{
    if (x->error == 0)
        x->error = error;
}

/* Fills the send buffer with as many requests as fit. */
static size_t
fill_send(void *ctx)
{
    struct exchange *x = ctx;
    size_t size = 0;
    int n;

    while (x->put < x->count && size + QUERY_SIZE <= SEND_SIZE) {
        n = put_ask(x, x->put, x->r->send + size);
        if (n > 0)
            size += (size_t)n;
        x->put++;
    }
    return size;
}

/* Passes over asks that were never sent because they are none. */
static void
skip_refused(struct exchange *x)
{
    uint8_t bytes[QUERY_SIZE];
    int n;

    while (x->answered < x->count) {
        n = put_ask(x, x->answered, bytes);
        if (n > 0)
            return;
        note_error(x, n);
        x->answered++;
    }
    if (x->put < x->answered)
        x->put = x->answered;
    x->transport.done = x->answered == x->count;
}

/* The next ask goes out first on whatever connection comes next. */
static void
start_again(struct exchange *x)
{
    link_drop(&x->r->link);
    transport_reset(&x->transport);
    free(x->rows);
    x->rows = NULL;
    x->put = x->answered;
    x->again = false;
}

/* Whether the number of bytes is possible for the number of rows. */
static bool
is_possible(const struct query_reply *reply)
{
    return reply->rows <= QUERY_ROWS_MAX &&
           reply->size >= reply->rows * QUERY_ROW_SIZE &&
           reply->size <= reply->rows * (QUERY_ROW_SIZE + QUERY_NAME_SIZE);
}

/* Rows, their array and their bytes in one piece. */
static int
take_head(struct exchange *x, const struct query_reply *reply)
{
    const size_t count = (size_t)reply->rows;
    size_t total;

    if (!is_possible(reply))
        return -EPROTO;
    total = sizeof *x->rows + count * sizeof *x->rows->rows;
    x->rows = malloc(total + (size_t)reply->size);
    if (!x->rows)
        return -ENOMEM;
    x->rows->as_of_ms = reply->as_of_ms;
    x->rows->count = count;
    x->rows->rows = (struct countd_row *)(x->rows + 1);
    x->bytes = (uint8_t *)x->rows + total;
    x->size = (size_t)reply->size;
    x->have = 0;
    return 0;
}

/* Points the rows into the bytes.  -EPROTO when they do not fit. */
static int
cut_rows(struct exchange *x)
{
    const uint8_t *at = x->bytes;
    size_t left = x->size;
    struct countd_row *row;

    for (size_t i = 0; i < x->rows->count; i++) {
        row = &x->rows->rows[i];
        if (left < QUERY_ROW_SIZE)
            return -EPROTO;
        row->count = get_le64s(at);
        row->key_size = get_le16(at + 8);
        row->key = (const char *)at + QUERY_ROW_SIZE;
        if (row->key_size > QUERY_NAME_SIZE ||
            left - QUERY_ROW_SIZE < row->key_size)
            return -EPROTO;
        at += QUERY_ROW_SIZE + row->key_size;
        left -= QUERY_ROW_SIZE + row->key_size;
    }
    return left == 0 ? 0 : -EPROTO;
}

/* A server's error ends its connection: the asks behind it go out again. */
static int
take_refusal(struct exchange *x, int64_t rows)
{
    if (rows != -EINVAL && rows != -EIO && rows != -EHOSTDOWN)
        return -EPROTO;
    note_error(x, (int)rows);
    x->answered++;
    x->again = true;
    return -ENOTCONN;
}

static int
take_reply(struct exchange *x, const uint8_t *bytes)
{
    struct query_reply reply;

    query_reply_get(bytes, &reply);
    return reply.rows < 0 ? take_refusal(x, reply.rows) : take_head(x, &reply);
}

/* Takes bytes of rows; *size is how many. */
static int
take_rows(struct exchange *x, const uint8_t *bytes, size_t *size)
{
    const size_t lack = x->size - x->have;
    int rc;

    if (*size > lack)
        *size = lack;
    if (*size > 0)
        memcpy(x->bytes + x->have, bytes, *size);
    x->have += *size;
    if (x->have < x->size)
        return 0;
    rc = cut_rows(x);
    if (rc < 0)
        return rc;
    x->out[x->answered++] = x->rows;
    x->rows = NULL;
    skip_refused(x);
    return 0;
}

static ssize_t
take_answers(void *ctx, uint8_t *bytes, size_t size)
{
    struct exchange *x = ctx;
    size_t at = 0, piece;
    int rc;

    x->again = false;
    while (at < size) {
        if (x->answered == x->put)
            return -EPROTO; /* nothing was asked */
        if (!x->rows) {
            if (size - at < QUERY_REPLY_SIZE)
                break;
            rc = take_reply(x, bytes + at);
            if (rc < 0)
                return rc;
            at += QUERY_REPLY_SIZE;
        }
        piece = size - at;
        rc = take_rows(x, bytes + at, &piece);
        if (rc < 0)
            return rc;
        at += piece;
    }
    return (ssize_t)at;
}

static int
buffers_init(struct handle_reading *r)
{
    if (r->send)
        return 0;
    r->send = malloc(SEND_SIZE + RECEIVE_SIZE);
    if (!r->send)
        return -ENOMEM;
    r->receive = r->send + SEND_SIZE;
    return 0;
}

int
exchange_run(struct exchange *x)
{
    struct handle_reading *r = x->r;
    int rc;

    /* A normal mutex, locked and unlocked in pairs: neither can fail. */
    (void)pthread_mutex_lock(&r->lock);
    rc = buffers_init(r);
    x->transport =
        (struct transport){.link = &r->link,
                           .deadline_ms = link_deadline(r->timeout_ms),
                           .ctx = x,
                           .fill = fill_send,
                           .take = take_answers,
                           .send = r->send,
                           .receive = r->receive,
                           .receive_size = RECEIVE_SIZE};
    x->again = r->link.fd >= 0;
    skip_refused(x);
    while (rc == 0 && !x->transport.done) {
        rc = transport_run(&x->transport);
        if (rc == -ENOTCONN && x->again) {
            start_again(x);
            skip_refused(x);
            rc = 0;
        }
    }
    if (rc < 0) {
        start_again(x); /* answers that are not awaited may arrive */
        x->error = rc;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return x->error;
}

void
handle_reading_fini(struct handle_reading *r)
{
    link_drop(&r->link);
    free(r->send);
    (void)pthread_mutex_destroy(&r->lock); /* the caller's last use */
}

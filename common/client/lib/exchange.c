/* common/client/lib/exchange.c - see exchange.h: exchange_run() and
 * exchange_one() are at the end; run_turn() is one step of them. */
#include "common/client/lib/exchange.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"

#define SEND_SIZE    ((size_t)64 * 1024)
#define RECEIVE_SIZE ((size_t)64 * 1024)

/* Request `index` as bytes: its size, or -EINVAL, -ENAMETOOLONG. */
static int
put_ask(const struct exchange *x, size_t index, uint8_t *bytes)
{
    struct query q = {.op = QUERY_RANGE};
    const int rc = x->ask(x, index, &q);

    return rc < 0 ? rc : query_put(&q, bytes);
}

/* Of the ask that is next to be answered. */
static void
note_error(struct exchange *x, int error)
{
    if (x->error == 0)
        x->error = error;
    if (x->errors)
        x->errors[x->answered] = error;
}

/* Fills the send buffer with as many requests as fit. */
static void
fill_send(struct exchange *x)
{
    int n;

    if (x->send_at < x->send_size)
        return;
    x->send_at = 0;
    x->send_size = 0;
    while (x->put < x->count && x->send_size + QUERY_SIZE_MAX <= SEND_SIZE) {
        n = put_ask(x, x->put, x->r->send + x->send_size);
        if (n > 0)
            x->send_size += (size_t)n;
        x->put++;
    }
}

/* Passes over asks that were never sent because they are none. */
static void
skip_refused(struct exchange *x)
{
    uint8_t bytes[QUERY_SIZE_MAX];
    int n;

    while (x->answered < x->count) {
        n = put_ask(x, x->answered, bytes);
        if (n > 0)
            return;
        note_error(x, n);
        x->answered++;
    }
}

/* The next ask goes out first on whatever connection comes next. */
static void
start_again(struct exchange *x)
{
    link_drop(&x->r->link);
    free(x->rows);
    x->rows = NULL;
    x->head_size = 0;
    x->send_at = 0;
    x->send_size = 0;
    x->put = x->answered;
    x->kept = false;
}

/* Whether the number of bytes is possible for the number of rows. */
static bool
is_possible(const struct exchange *x, const struct query_reply *reply)
{
    const int64_t head = x->past ? QUERY_PAST_HEAD : 0;
    const int64_t row = x->past ? QUERY_PAST_ROW_SIZE : QUERY_ROW_SIZE;

    return reply->rows <= QUERY_ROWS_MAX &&
           reply->size >= head + reply->rows * row &&
           reply->size <= head + reply->rows * (row + QUERY_NAME_SIZE);
}

/* Rows, their array and their bytes in one piece. */
static int
take_head(struct exchange *x, const struct query_reply *reply)
{
    const size_t count = x->past ? 1 : (size_t)reply->rows;
    size_t total;

    if (!is_possible(x, reply))
        return -EPROTO;
    total = sizeof *x->rows + count * sizeof *x->rows->rows;
    x->rows = malloc(total + (size_t)reply->size);
    if (!x->rows)
        return -ENOMEM;
    x->rows->as_of_ms = reply->as_of_ms;
    x->rows->count = count;
    x->rows->rows = (struct countd_row *)(x->rows + 1);
    x->bytes = (uint8_t *)x->rows + total;
    if (x->past)
        x->rows->rows[0] = (struct countd_row){
            reply->rows, (const char *)x->bytes, (size_t)reply->size};
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

/* Copies up to `want - *have` bytes to `to + *have`; true when it is whole. */
static bool
copy_piece(uint8_t *to, size_t want, size_t *have, const uint8_t **at,
           size_t *left)
{
    const size_t lack = want - *have;
    const size_t n = lack < *left ? lack : *left;

    if (n > 0)
        memcpy(to + *have, *at, n);
    *have += n;
    *at += n;
    *left -= n;
    return *have == want;
}

/* A server's error: ends its connection. */
static int
take_refusal(struct exchange *x, int64_t rows)
{
    if (rows != -EINVAL && rows != -EIO)
        return -EPROTO;
    note_error(x, (int)rows);
    x->answered++;
    start_again(x);
    return 0;
}

/* Takes answer bytes: 0, or what ends the exchange. */
static int
take_bytes(struct exchange *x, const uint8_t *at, size_t left)
{
    struct query_reply reply;
    int rc;

    while (left > 0) {
        skip_refused(x);
        if (x->answered == x->put)
            return -EPROTO; /* nothing was asked */
        if (!x->rows) {
            if (!copy_piece(x->head, sizeof x->head, &x->head_size, &at, &left))
                return 0;
            query_reply_get(x->head, &reply);
            if (reply.rows < 0)
                return take_refusal(x, reply.rows);
            rc = take_head(x, &reply);
            if (rc < 0)
                return rc;
        }
        if (!copy_piece(x->bytes, x->size, &x->have, &at, &left))
            return 0;
        rc = x->past ? 0 : cut_rows(x);
        if (rc < 0)
            return rc;
        x->out[x->answered++] = x->rows;
        x->rows = NULL;
        x->head_size = 0;
    }
    return 0;
}

/* The connection ended.  0 when another may be tried. */
static int
handle_end(struct exchange *x)
{
    if (!x->kept)
        return -ENOTCONN;
    start_again(x);
    return 0;
}

static int
send_some(struct exchange *x)
{
    ssize_t n;
    int rc;

    for (;;) {
        fill_send(x);
        if (x->send_at == x->send_size)
            return 0;
        n = send(x->r->link.fd, x->r->send + x->send_at,
                 x->send_size - x->send_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            rc = -errno;
            if (rc == -EINTR)
                continue;
            /* The reason, an error answer say, may be waiting: receive_some
             * finds that and the end. */
            return 0;
        }
        x->send_at += (size_t)n;
    }
}

static int
receive_some(struct exchange *x)
{
    ssize_t n;
    int rc;

    n = recv(x->r->link.fd, x->r->receive, RECEIVE_SIZE, MSG_DONTWAIT);
    if (n < 0) {
        rc = -errno;
        return rc == -EAGAIN || rc == -EINTR ? 0 : handle_end(x);
    }
    if (n == 0)
        return handle_end(x);
    x->kept = false;
    return take_bytes(x, x->r->receive, (size_t)n);
}

/* One turn: connect, send, wait, take. */
static int
run_turn(struct exchange *x)
{
    struct link *l = &x->r->link;
    uint64_t deadline_ms = x->deadline_ms;
    short events = POLLIN;
    int rc;

    rc = link_connect(l);
    if (rc < 0 && rc != -EINPROGRESS)
        return rc;
    if (rc == 0) {
        rc = send_some(x);
        if (rc < 0)
            return rc;
        if (x->send_at < x->send_size)
            events |= POLLOUT;
    } else {
        events = POLLOUT;
        if (l->deadline_ms < deadline_ms)
            deadline_ms = l->deadline_ms;
    }
    rc = link_wait(l->fd, events, -1, deadline_ms);
    if (rc < 0 || l->connecting)
        return rc;
    return receive_some(x);
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
    x->deadline_ms = link_deadline(r->timeout_ms);
    x->kept = r->link.fd >= 0;
    rc = buffers_init(r);
    while (rc == 0) {
        skip_refused(x);
        if (x->answered == x->count)
            break;
        if (x->put < x->answered)
            x->put = x->answered;
        rc = run_turn(x);
    }
    if (rc < 0) {
        start_again(x); /* answers that are not awaited may arrive */
        x->error = rc;
        for (size_t i = x->answered; x->errors && i < x->count; i++)
            x->errors[i] = rc;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return x->error;
}

static int
get_query(const struct exchange *x, size_t index, struct query *q)
{
    *q = ((const struct query *)x->asks)[index];
    return 0;
}

int
exchange_one(struct handle_reading *r, struct query *q, size_t keyspace_size,
             size_t key_size, bool past, struct countd_rows **out)
{
    struct countd_rows *rows = NULL;
    struct exchange x = {.r = r,
                         .ask = get_query,
                         .asks = q,
                         .count = 1,
                         .out = &rows,
                         .past = past};
    int rc;

    if (keyspace_size > QUERY_NAME_SIZE || key_size > QUERY_NAME_SIZE)
        return -ENAMETOOLONG;
    q->keyspace_size = (uint16_t)keyspace_size;
    q->key_size = (uint16_t)key_size;
    rc = exchange_run(&x);
    if (rc < 0)
        free(rows);
    else
        *out = rows;
    return rc;
}

void
handle_reading_fini(struct handle_reading *r)
{
    link_drop(&r->link);
    free(r->send);
    (void)pthread_mutex_destroy(&r->lock); /* the caller's last use */
}

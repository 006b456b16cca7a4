/* reader/resp/forward.c - see forward.h.
 *
 *     connect_writer() -> on_ready() -> finish_connecting() -> begin_serving()
 *     forward_add(), forward_send() -> close_group(), send_or_end()
 *     on_ready() -> receive_acks() -> count_acks() -> release_groups()
 *     fail_connection() -> drop_queued() -> gate_replace() -> next_lost() */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/forward.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/net/bind.h"
#include "common/net/local.h"

#define ACK_SIZE 3
#define IN_SIZE  ((size_t)16384)

static const uint8_t ack_bytes[ACK_SIZE] = {'W', 'I', 'N'};

const char forward_refusal[] =
    "-MASTERDOWN countd-write cannot be reached: nothing was counted\r\n";
static const char unsure_words[] =
    "-UNSURE countd-write went away: counted once or not at all\r\n";

static struct diag_repeat failures;

static void on_ready(struct loop_source *source, uint32_t events);
static void connect_writer(struct forward *f);

static struct forward_record *
record_at(const struct forward *f, uint64_t number)
{
    return &f->records[number % FORWARD_MAX];
}

/* ---- groups ------------------------------------------------------------- */

/* Makes the collecting group the one in flight, if none is in flight. */
static void
close_group(struct forward *f)
{
    if (f->in_flight || !gate_has_waiters(&f->gate))
        return;
    gate_close_group(&f->gate);
    f->group_end = f->added;
    f->in_flight = true;
}

static void
release_groups(struct forward *f)
{
    while (f->in_flight && f->acked >= f->group_end) {
        f->in_flight = false;
        gate_release(&f->gate);
        close_group(f);
    }
}

/* ---- failing ------------------------------------------------------------ */

/* The next answer that is lost with the connection, for gate_replace(). */
static bool
next_lost(struct conn *c, uint32_t gated, struct gate_answer *out)
{
    struct forward_place *place = conn_state(c);
    const struct forward *f = place->forward;
    const struct forward_record *record;
    uint64_t number;

    if (!f || place->owed == 0)
        return false;
    record = &f->records[place->first];
    /* Fewer than FORWARD_MAX wait, so the index determines the number. */
    number = f->acked + (place->first + FORWARD_MAX - f->acked % FORWARD_MAX) %
                            FORWARD_MAX;
    out->at = record->at - (place->put - gated);
    out->size = record->size;
    out->words = number < f->lost ? unsure_words : forward_refusal;
    place->first = record->next;
    place->owed--;
    return true;
}

/* Whether connections with increments still pause. */
static bool
is_patient(const struct forward *f)
{
    return loop_now_ms(f->loop) < f->down_ms + f->wait_ms;
}

static void
arm_retry(struct forward *f)
{
    loop_arm(f->loop, &f->retry, loop_now_ms(f->loop) + FORWARD_RETRY_MS);
}

static void
close_socket(struct forward *f)
{
    const int fd = f->source.fd;

    if (fd < 0)
        return;
    loop_remove(f->loop, &f->source);
    (void)close(fd);
}

static void
retry_later(struct forward *f)
{
    close_socket(f);
    f->state = FORWARD_DOWN;
    arm_retry(f);
}

/* Answers everything queued with an error, and releases all that wait. */
static void
drop_queued(struct forward *f)
{
    assert(f->acked <= f->lost && f->lost <= f->added);
    f->stats.unsure += f->lost - f->acked;
    f->stats.refused += f->added - f->lost;
    for (uint64_t n = f->acked; n < f->added; n++)
        last_answers_forget(f->answers, record_at(f, n)->entry);
    gate_replace(&f->gate, next_lost);
    f->acked = f->added;
    f->in_flight = false;
}

/* There is no connection.  Unsent messages stay queued while connections pause,
 * unless some sent messages are not acknowledged. */
static void
keep_unsent(struct forward *f)
{
    /* A message of which a part was sent is never counted. */
    f->lost = f->sent / f->layout->message_size;
    if (f->lost > f->acked || !is_patient(f))
        drop_queued(f);
    f->sent = f->acked * f->layout->message_size;
}

/* The connection broke, or could not be made. */
static void
fail_connection(struct forward *f, const char *why)
{
    diag_repeating(&failures, DIAG_WARNING,
                   "resp: the connection to countd-write %s; increments wait "
                   "for %llu ms (resp.wait), and are then answered with "
                   "-MASTERDOWN until it is made again",
                   why, (unsigned long long)f->wait_ms);
    if (f->state == FORWARD_UP)
        f->down_ms = loop_now_ms(f->loop);
    keep_unsent(f);
    f->ack_phase = 0;
    retry_later(f);
}

/* ---- connecting --------------------------------------------------------- */

/* Sends an increment of 0, for which a new socket always has space. */
static int
send_greeting(struct forward *f)
{
    static const uint8_t name[] = {'-'};
    const struct message m = {.keyspace = name,
                              .key = name,
                              .keyspace_size = sizeof name,
                              .key_size = sizeof name};
    const size_t size = f->layout->message_size;
    uint8_t bytes[MESSAGE_SIZE_MAX];

    (void)message_put(f->layout, &m, bytes); /* names of a byte fit */
    if (send(f->source.fd, bytes, size, MSG_NOSIGNAL) != (ssize_t)size)
        return -ECONNRESET;
    return loop_change(f->loop, &f->source, EPOLLIN);
}

static void
finish_connecting(struct forward *f)
{
    int error = 0;
    socklen_t size = sizeof error;

    f->wants_output = false;
    if (getsockopt(f->source.fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error == 0 && f->writer.size > 0 && net_is_self(f->source.fd))
        error = ECONNREFUSED;
    if (error != 0 || send_greeting(f) < 0)
        fail_connection(f, error == ECONNREFUSED ? "was refused" : "failed");
}

/* A connecting or connected socket, or a negative errno. */
static int
open_socket(struct forward *f)
{
    int fd, rc;

    if (f->writer.size == 0)
        return local_connect(f->data_dir, LOCAL_ACK);
    fd = socket(f->writer.sa.ss_family,
                SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&f->writer.sa, f->writer.size) <
            0 &&
        errno != EINPROGRESS) {
        rc = -errno;
        (void)close(fd);
        return rc;
    }
    return fd;
}

static void
connect_writer(struct forward *f)
{
    const int fd = open_socket(f);
    int rc = fd;

    if (fd >= 0) {
        f->source = (struct loop_source){.fd = -1, .ready = on_ready};
        rc = loop_add(f->loop, &f->source, fd, EPOLLIN | EPOLLOUT);
        if (rc < 0)
            (void)close(fd);
    }
    if (rc < 0) {
        retry_later(f);
        return;
    }
    f->state = FORWARD_CONNECTING;
    f->wants_output = true;
    arm_retry(f);
}

/* It is time to connect again, or to look whether the paused have waited for
 * resp.wait. */
static void
on_retry(struct loop_timer *timer)
{
    struct forward *f = LOOP_OWNER(timer, struct forward, retry);

    assert(f->state == FORWARD_DOWN || f->state == FORWARD_CONNECTING);
    keep_unsent(f);
    if (f->state == FORWARD_DOWN)
        connect_writer(f);
    else if (is_patient(f))
        arm_retry(f);
}

/* ---- sending ------------------------------------------------------------ */

/* 0, or a negative errno: the connection is broken. */
static int
send_messages(struct forward *f)
{
    const size_t size = f->layout->message_size;
    const uint64_t end = f->added * size, ring = (uint64_t)FORWARD_MAX * size;

    while (f->sent < end) {
        const uint64_t at = f->sent % ring;
        const uint64_t most = end - f->sent;
        ssize_t n;

        n = send(f->source.fd, f->messages + at,
                 (size_t)(most < ring - at ? most : ring - at),
                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            return -errno;
        if (n < 0) {
            f->wants_output = true;
            return loop_change(f->loop, &f->source, EPOLLIN | EPOLLOUT);
        }
        f->sent += (uint64_t)n;
    }
    if (!f->wants_output)
        return 0;
    f->wants_output = false;
    return loop_change(f->loop, &f->source, EPOLLIN);
}

/* ---- acknowledgements --------------------------------------------------- */

static void
count_acks(struct forward *f, uint64_t count)
{
    const uint64_t now_ms = clock_unix_ms();

    for (; count > 0; count--) {
        const struct forward_record *r = record_at(f, f->acked++);
        struct forward_place *place;

        last_answers_ack(f->answers, r->entry, now_ms);
        place = conn_state(r->conn);
        place->first = r->next;
        place->owed--;
        place->acked_ms = now_ms;
    }
}

/* Has the paused connections served again. */
static void
begin_serving(struct forward *f)
{
    loop_disarm(&f->retry);
    f->state = FORWARD_UP;
    close_group(f);
}

/* 1: bytes came; 0: there are none; or a negative errno. */
static int
receive_acks(struct forward *f)
{
    uint8_t bytes[IN_SIZE];
    uint64_t count = 0;
    ssize_t n;

    n = recv(f->source.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (n == 0)
        return -ECONNRESET;
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] != ack_bytes[f->ack_phase])
            return -EPROTO;
        f->ack_phase = (uint8_t)((f->ack_phase + 1) % ACK_SIZE);
        count += f->ack_phase == 0;
    }
    if (f->state == FORWARD_CONNECTING && count > 0) {
        begin_serving(f);
        count--;
    }
    if (f->acked + count > f->sent / f->layout->message_size)
        return -EPROTO;
    count_acks(f, count);
    release_groups(f);
    return 1;
}

/* Sends what was added.  After a failed send, acknowledgements can still be
 * read: the connection ends when all of them have come. */
static void
send_or_end(struct forward *f)
{
    if (f->state != FORWARD_UP || send_messages(f) == 0)
        return;
    f->down_ms = loop_now_ms(f->loop);
    f->state = FORWARD_ENDING;
    if (loop_change(f->loop, &f->source, EPOLLIN) < 0)
        fail_connection(f, "broke");
}

void
forward_send(struct forward *f)
{
    close_group(f);
    send_or_end(f);
}

static void
on_ready(struct loop_source *source, uint32_t events)
{
    struct forward *f = LOOP_OWNER(source, struct forward, source);
    int rc = 0;

    if (f->state == FORWARD_CONNECTING && f->wants_output &&
        (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
        finish_connecting(f);
    if (f->state == FORWARD_DOWN)
        return;
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
        rc = receive_acks(f);
    if (rc < 0)
        fail_connection(f,
                        rc == -EPROTO ? "is not one to countd-write" : "broke");
    else
        send_or_end(f);
}

/* ---- adding ------------------------------------------------------------- */

enum forward_now
forward_now(struct forward *f)
{
    if (f->state == FORWARD_UP)
        return f->added - f->acked < FORWARD_MAX ? FORWARD_TAKES
                                                 : FORWARD_WAITS;
    if (f->state == FORWARD_ENDING || is_patient(f))
        return FORWARD_WAITS;
    f->stats.refused++;
    return FORWARD_REFUSES;
}

void
forward_add(struct forward *f, struct conn *c, const struct message *m,
            uint32_t entry, uint32_t size)
{
    struct forward_place *place = conn_state(c);
    const uint32_t index = (uint32_t)(f->added % FORWARD_MAX);

    assert(f->added - f->acked < FORWARD_MAX);
    (void)conn_gate(c, &f->gate); /* the only gate of this process */
    /* Cannot fail: message_check() has passed it. */
    (void)message_put(f->layout, m,
                      f->messages + (size_t)index * f->layout->message_size);
    f->added++;
    f->records[index] = (struct forward_record){
        .conn = c, .entry = entry, .at = place->put, .size = size};
    if (place->owed++ > 0)
        f->records[place->last].next = index;
    else
        place->first = index;
    place->last = index;
    place->forward = f;
    f->stats.forwarded++;
}

int
forward_init(struct forward *f, struct loop *loop, const struct layout *layout,
             const struct config *config, size_t connections)
{
    int rc;

    *f = (struct forward){.loop = loop,
                          .layout = layout,
                          .answers = f->answers,
                          .data_dir = config->data_dir,
                          .wait_ms = config->resp_wait_ms,
                          .down_ms = loop_now_ms(loop),
                          .state = FORWARD_DOWN};
    f->source.fd = -1;
    f->retry = (struct loop_timer){.due = on_retry};
    if (config->resp_writer[0] != '\0') {
        rc = bind_look_up(config->resp_writer, "resp.writer", &f->writer);
        if (rc < 0)
            return rc;
    }
    f->records = calloc(FORWARD_MAX, sizeof *f->records);
    f->messages = malloc((size_t)FORWARD_MAX * f->layout->message_size);
    rc = f->records && f->messages ? gate_init(&f->gate, connections, 0)
                                   : -ENOMEM;
    if (rc == 0)
        connect_writer(f);
    return rc;
}

void
forward_fini(struct forward *f)
{
    if (!f->loop)
        return;
    loop_disarm(&f->retry);
    close_socket(f);
    gate_fini(&f->gate);
    free(f->records);
    free(f->messages);
}

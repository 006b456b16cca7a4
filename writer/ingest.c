/* writer/ingest.c - see ingest.h.
 *
 * One receive takes what a socket has into a buffer that all connections
 * share; the messages in it go to slots, and what is left of an unfinished one
 * to the connection's part of `partials`, from where it is put back in front
 * of the next receive.
 */
#include "writer/ingest.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/diag.h"

#define RECEIVE_MAX 512  /* messages from one connection in one turn */
#define WIN_REPEATS 4096 /* WINs that one send can carry */
#define SENDS_MAX   4    /* sends to one connection in one turn */

#define DRAIN_MS     5000
#define DRAIN_MAX    (UINT64_C(16) << 20) /* bytes */
#define DISCARD_SIZE 65536                /* bytes of one receive */
#define DISCARDS_MAX 16                   /* receives in one turn */

/* Stopping: nothing came for so long.  TCP tries again after 200 ms what did
 * not get through at once, so less would cut off what a sender has sent. */
#define QUIET_MS 250
#define LOOK_MS  10   /* stopping: between looks whether it is quiet */
#define REPLY_MS 1000 /* stopping: for the replies after the reading */

enum conn_state { CONN_FREE, CONN_OPEN, CONN_ENDING, CONN_DRAINING };

struct conn {
    struct loop_source source;
    struct ingest *ingest;
    struct list_link all;   /* free or open */
    struct list_link queue; /* waiting or draining */
    struct list_link earned;
    struct list_link group[2];
    uint64_t pending[2];  /* messages in the groups */
    uint64_t reply_bytes; /* of WINs, earned and not sent */
    uint64_t deadline_ms; /* when DRAINING */
    uint64_t discarded;
    int fd;
    uint16_t partial; /* bytes of an unfinished message */
    uint8_t state;
    uint8_t port;
    uint8_t phase;     /* bytes sent of the first WIN: 0 to 2 */
    uint8_t fail_left; /* bytes of FAIL to send */
    bool malformed;
    bool full; /* the socket takes no more for now */
};

static const char FAIL_TEXT[4] = "FAIL";
static char win_text[3 * WIN_REPEATS];

/* ---- connections ------------------------------------------------------- */

static uint8_t *
partial_of(const struct conn *c)
{
    return c->ingest->partials +
           (size_t)(c - c->ingest->conns) * MESSAGE_SIZE_MAX;
}

/* Both ports draw on one pool: what one has is what the other may not. */
static void
share_connections(struct ingest *in)
{
    struct listener *silent = &in->ports[INGEST_SILENT].listener;
    struct listener *ack = &in->ports[INGEST_ACK].listener;

    silent->max = in->max - ack->open;
    ack->max = in->max - silent->open;
}

static void
close_conn(struct conn *c)
{
    struct ingest *in = c->ingest;
    int i;

    assert(c->state != CONN_FREE);
    loop_remove(in->loop, &c->source);
    (void)close(c->fd); /* what it could tell is about bytes to the peer */
    for (i = 0; i < 2; i++)
        list_remove(&c->group[i]);
    list_remove(&c->queue);
    list_remove(&c->earned);
    list_remove(&c->all);
    c->state = CONN_FREE;
    list_add(&in->free, &c->all);

    if (in->ports[c->port].listener.open > 0) {
        listener_closed(&in->ports[c->port].listener);
        share_connections(in);
        for (i = 0; i < INGEST_PORTS; i++)
            if (in->ports[i].on)
                listener_resume(&in->ports[i].listener);
    }
}

/* Asks the loop for the events this connection can use now. */
static void
update_events(struct conn *c)
{
    const bool waiting = c->state == CONN_OPEN && !list_alone(&c->queue);
    uint32_t events = c->full ? EPOLLOUT : 0;
    int rc;

    if (c->state == CONN_DRAINING || (c->state == CONN_OPEN && !waiting))
        events |= EPOLLIN;
    if (c->source.fd < 0)
        rc = loop_add(c->ingest->loop, &c->source, c->fd, events);
    else
        rc = loop_change(c->ingest->loop, &c->source, events);
    if (rc < 0) {
        diag_errno(DIAG_WARNING, rc, "cannot watch a connection");
        close_conn(c);
    }
}

static void
drop_partial(struct conn *c)
{
    if (c->partial > 0)
        c->ingest->figures.partial_disconnects++;
    c->partial = 0;
}

/* ---- replies ----------------------------------------------------------- */

/* Sends up to `size` bytes: the number sent, 0 when the socket is full, or
 * -errno. */
static ssize_t
send_some(struct conn *c, const char *bytes, size_t size)
{
    ssize_t n;

    do
        n = send(c->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        n = errno == EAGAIN ? 0 : -errno;
    c->full = n >= 0 && (size_t)n < size;
    return n;
}

static void
start_draining(struct conn *c)
{
    struct ingest *in = c->ingest;

    if (shutdown(c->fd, SHUT_WR) < 0) {
        close_conn(c); /* the peer has gone */
        return;
    }
    c->state = CONN_DRAINING;
    c->deadline_ms = loop_now_ms(in->loop) + DRAIN_MS;
    list_add(&in->draining, &c->queue);
    if (!in->drain_timer.deadline_ms &&
        loop_arm(in->loop, &in->drain_timer, c->deadline_ms) < 0) {
        close_conn(c); /* no timer to end it, so do not start it */
        return;
    }
    update_events(c);
}

/* ENDING: goes on when nothing is pending and everything earned is out. */
static void
settle(struct conn *c)
{
    ssize_t n;

    assert(c->state == CONN_ENDING);
    if (c->pending[0] + c->pending[1] + c->reply_bytes > 0) {
        update_events(c);
        return;
    }
    if (c->fail_left > 0) {
        n = send_some(c, FAIL_TEXT + sizeof FAIL_TEXT - c->fail_left,
                      c->fail_left);
        if (n < 0) {
            close_conn(c);
            return;
        }
        c->fail_left = (uint8_t)(c->fail_left - n);
        if (c->fail_left > 0) {
            update_events(c);
            return;
        }
    }
    if (c->malformed)
        start_draining(c);
    else
        close_conn(c);
}

static void
send_replies(struct conn *c)
{
    size_t size;
    ssize_t n;
    int i;

    c->full = false;
    for (i = 0; i < SENDS_MAX && c->reply_bytes > 0 && !c->full; i++) {
        size = sizeof win_text - c->phase;
        if (size > c->reply_bytes)
            size = (size_t)c->reply_bytes;
        n = send_some(c, win_text + c->phase, size);
        if (n < 0) {
            drop_partial(c);
            close_conn(c);
            return;
        }
        c->reply_bytes -= (uint64_t)n;
        c->ingest->figures.replies += ((uint64_t)c->phase + (uint64_t)n) / 3;
        c->phase = (uint8_t)((c->phase + n) % 3);
    }
    /* The rest of a long list waits its turn like a full socket. */
    c->full = c->reply_bytes > 0;
    if (c->state == CONN_ENDING)
        settle(c);
    else
        update_events(c);
}

/* ---- receiving --------------------------------------------------------- */

/* Nothing more comes from this connection, or is wanted. */
static void
end_input(struct conn *c)
{
    assert(c->state == CONN_OPEN);
    list_remove(&c->queue);
    if (c->port == INGEST_SILENT) {
        close_conn(c);
        return;
    }
    c->state = CONN_ENDING;
    settle(c);
}

static void
refuse(struct conn *c)
{
    c->ingest->figures.malformed++;
    c->malformed = true;
    c->fail_left = sizeof FAIL_TEXT;
    c->partial = 0;
    end_input(c);
}

static void
add_to_group(struct conn *c, uint32_t count)
{
    struct ingest *in = c->ingest;

    in->figures.messages += count;
    if (c->port == INGEST_SILENT || count == 0)
        return;
    if (c->pending[in->collecting] == 0)
        list_add(&in->groups[in->collecting], &c->group[in->collecting]);
    c->pending[in->collecting] += count;
}

/* Takes the complete messages of the first `size` bytes in the buffer and
 * keeps the rest.  False after a malformed one. */
static bool
take_messages(struct conn *c, size_t size)
{
    struct ingest *in = c->ingest;
    const size_t message_size = in->layout.message_size;
    const uint8_t *at = in->buffer;
    struct message m;
    uint32_t count = 0;

    for (; size >= message_size; at += message_size, size -= message_size) {
        if (message_parse(&in->layout, at, &m) < 0) {
            add_to_group(c, count);
            return false;
        }
        logs_put(in->logs, at, &m);
        count++;
    }
    if (size > 0)
        memcpy(partial_of(c), at, size);
    c->partial = (uint16_t)size;
    add_to_group(c, count);
    return true;
}

static void
input_failed(struct conn *c, ssize_t error)
{
    if (error == -EAGAIN || error == -EINTR)
        return;
    drop_partial(c);
    if (error == 0)
        end_input(c);
    else
        close_conn(c);
}

/* There is no log to put messages into.  An end of input needs none. */
static void
wait_for_log(struct conn *c)
{
    uint8_t byte;
    ssize_t n;

    n = recv(c->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    if (n <= 0) {
        input_failed(c, n < 0 ? -errno : 0);
        return;
    }
    if (list_alone(&c->ingest->waiting))
        c->ingest->waiting_since_ms = loop_now_ms(c->ingest->loop);
    if (list_alone(&c->queue))
        list_add(&c->ingest->waiting, &c->queue);
    update_events(c);
}

static void
receive(struct conn *c)
{
    struct ingest *in = c->ingest;
    uint32_t room, taken;
    size_t asked;
    ssize_t n;

    for (taken = 0; taken < RECEIVE_MAX; taken += room) {
        room = logs_room(in->logs);
        if (room == 0) {
            wait_for_log(c);
            return;
        }
        if (room > RECEIVE_MAX)
            room = RECEIVE_MAX;
        asked = (size_t)room * in->layout.message_size - c->partial;
        memcpy(in->buffer, partial_of(c), c->partial);
        n = recv(c->fd, in->buffer + c->partial, asked, MSG_DONTWAIT);
        if (n <= 0) {
            input_failed(c, n < 0 ? -errno : 0);
            return;
        }
        in->figures.bytes += (uint64_t)n;
        in->quiet_since_ms = loop_now_ms(in->loop);
        if (!take_messages(c, (size_t)n + c->partial)) {
            refuse(c);
            return;
        }
        if ((size_t)n < asked)
            return; /* that was all */
    }
}

static void
discard(struct conn *c)
{
    static uint8_t nowhere[DISCARD_SIZE];
    ssize_t n;
    int i;

    for (i = 0; i < DISCARDS_MAX; i++) {
        /* MSG_TRUNC: TCP need not even copy it. */
        n = recv(c->fd, nowhere, sizeof nowhere, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            close_conn(c);
            return;
        }
        c->discarded += (uint64_t)n;
        if (c->discarded > DRAIN_MAX) {
            close_conn(c);
            return;
        }
    }
}

static void
drain_due(struct loop_timer *timer)
{
    struct ingest *in = LOOP_OWNER(timer, struct ingest, drain_timer);
    struct conn *c;

    while (!list_alone(&in->draining)) {
        c = LOOP_OWNER(in->draining.next, struct conn, queue);
        if (c->deadline_ms > loop_now_ms(in->loop)) {
            /* One timer fired, so there is room for one. */
            (void)loop_arm(in->loop, timer, c->deadline_ms);
            return;
        }
        close_conn(c);
    }
}

/* ---- events ------------------------------------------------------------ */

static void
open_ready(struct conn *c, uint32_t events)
{
    if (!list_alone(&c->queue)) {
        /* Waiting for a log: the socket's end is reported again and again
         * and can be looked at only when there is one. */
        if (events & (EPOLLERR | EPOLLHUP)) {
            loop_remove(c->ingest->loop, &c->source);
            return;
        }
    } else if (events & ~(uint32_t)EPOLLOUT) {
        receive(c);
    }
    if ((events & EPOLLOUT) && c->state != CONN_FREE && c->full)
        send_replies(c);
}

static void
conn_ready(struct loop_source *source, uint32_t events)
{
    struct conn *c = LOOP_OWNER(source, struct conn, source);

    switch ((enum conn_state)c->state) {
    case CONN_OPEN:
        open_ready(c, events);
        break;
    case CONN_ENDING:
        if (events & (EPOLLERR | EPOLLHUP))
            close_conn(c); /* nobody is left to reply to */
        else if (events & EPOLLOUT)
            send_replies(c);
        break;
    case CONN_DRAINING:
        discard(c);
        break;
    case CONN_FREE:
        assert(c->state != CONN_FREE);
        break;
    }
}

int
ingest_take(struct ingest *in, enum ingest_port port, int fd)
{
    struct conn *c;
    int i, rc;

    if (list_alone(&in->free))
        return -EMFILE;
    /* The one freed last: few connections touch little memory. */
    c = LOOP_OWNER(in->free.prev, struct conn, all);
    list_remove(&c->all);
    *c = (struct conn){.ingest = in,
                       .fd = fd,
                       .source = {.fd = -1, .ready = conn_ready},
                       .state = CONN_OPEN,
                       .port = (uint8_t)port};
    for (i = 0; i < 2; i++)
        list_init(&c->group[i]);
    list_init(&c->queue);
    list_init(&c->earned);
    list_init(&c->all);
    rc = loop_add(in->loop, &c->source, fd, EPOLLIN);
    if (rc < 0) {
        c->state = CONN_FREE;
        list_add(&in->free, &c->all);
        return rc;
    }
    list_add(&in->open, &c->all);
    in->figures.connections++;
    return 0;
}

static void
accepted(struct listener *l, int fd)
{
    struct ingest_listener *p = LOOP_OWNER(l, struct ingest_listener, listener);
    int rc;

    rc = ingest_take(p->ingest, p->port, fd);
    if (rc < 0) {
        diag_errno(DIAG_WARNING, rc, "cannot take a connection");
        (void)close(fd); /* nothing was read from it */
        l->open--;
    }
    share_connections(p->ingest);
}

int
ingest_listen(struct ingest *in, enum ingest_port port, int fd)
{
    struct ingest_listener *p = &in->ports[port];
    const int one = 1;
    int rc;

    /* Accepted sockets inherit it: a peer that vanished frees its place. */
    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) < 0)
        return -errno;
    rc = listener_start(&p->listener, in->loop, fd, in->max);
    if (rc < 0)
        return rc;
    p->on = true;
    share_connections(in);
    return 0;
}

/* ---- groups ------------------------------------------------------------ */

/* What the group holds is earned. */
static void
credit(struct ingest *in, int group)
{
    struct conn *c;

    while (!list_alone(&in->groups[group])) {
        c = LOOP_OWNER(in->groups[group].next, struct conn, group[group]);
        list_remove(&c->group[group]);
        c->reply_bytes += 3 * c->pending[group];
        c->pending[group] = 0;
        if (list_alone(&c->earned))
            list_add(&in->earned, &c->earned);
    }
}

/* Starts a sync if somebody waits for it: the collecting group takes off and
 * the next one, which is empty, begins to collect. */
static void
take_off(struct ingest *in)
{
    if (list_alone(&in->groups[in->collecting]) && !logs_sync_due(in->logs))
        return;
    if (!logs_sync(in->logs))
        return;
    in->collecting = 1 - in->collecting;
    assert(list_alone(&in->groups[in->collecting]));
#ifdef COUNTD_MUTANT_REPLY_BEFORE_SYNC
    credit(in, 1 - in->collecting);
#endif
}

static void
send_earned(struct ingest *in)
{
    struct conn *c;

    while (!list_alone(&in->earned)) {
        c = LOOP_OWNER(in->earned.next, struct conn, earned);
        list_remove(&c->earned);
        if (!c->full)
            send_replies(c);
    }
}

void
ingest_synced(struct ingest *in)
{
    credit(in, 1 - in->collecting);
    take_off(in); /* before the replies: the disk need not wait for them */
    send_earned(in);
}

/* The collecting group, in this thread. */
static void
sync_here(struct ingest *in)
{
#ifdef COUNTD_MUTANT_REPLY_BEFORE_SYNC
    credit(in, in->collecting);
    send_earned(in);
#endif
    if (!logs_sync_here(in->logs))
        return; /* nobody of the group gets a reply */
    credit(in, in->collecting);
    send_earned(in);
}

bool
ingest_turn(struct ingest *in, bool alone)
{
    logs_flush(in->logs);
    if (alone && !list_alone(&in->groups[in->collecting]) &&
        logs_sync_is_brief(in->logs)) {
        sync_here(in);
        return false;
    }
    take_off(in);
#ifdef COUNTD_MUTANT_REPLY_BEFORE_SYNC
    send_earned(in);
#endif
    return false;
}

void
ingest_ready(struct ingest *in)
{
    const uint64_t now_ms = loop_now_ms(in->loop);
    struct conn *c;

    /* What they have is still to be read: a stop must not take the time they
     * waited for silence, nor for theirs.  Where a log never comes, it ends. */
    in->quiet_since_ms = now_ms;
    if (in->stopping && !in->replying && !list_alone(&in->waiting))
        in->stop_deadline_ms += now_ms - in->waiting_since_ms;
    while (!list_alone(&in->waiting)) {
        c = LOOP_OWNER(in->waiting.next, struct conn, queue);
        list_remove(&c->queue);
        update_events(c);
    }
}

/* ---- stopping ---------------------------------------------------------- */

/* Connections that the kernel has taken are ours to serve. */
static void
accept_rest(struct listener *l)
{
    size_t before;

    do {
        before = l->open;
        if (l->paused)
            break;
        l->source.ready(&l->source, EPOLLIN);
    } while (l->open > before);
    listener_stop(l);
}

static void
stop_reading(struct ingest *in)
{
    struct list_link *link, *next;
    struct conn *c;

    in->replying = true;
    in->stop_deadline_ms = loop_now_ms(in->loop) + REPLY_MS;
    for (link = in->open.next; link != &in->open; link = next) {
        next = link->next;
        c = LOOP_OWNER(link, struct conn, all);
        if (c->state != CONN_OPEN)
            continue;
        drop_partial(c);
        end_input(c);
    }
}

/* Too late for those who do not read; a disk that is slow is waited for. */
static void
close_deaf(struct ingest *in)
{
    struct list_link *link, *next;
    struct conn *c;

    for (link = in->open.next; link != &in->open; link = next) {
        next = link->next;
        c = LOOP_OWNER(link, struct conn, all);
        if (c->pending[0] + c->pending[1] == 0)
            close_conn(c);
    }
}

static void
stop_due(struct loop_timer *timer)
{
    struct ingest *in = LOOP_OWNER(timer, struct ingest, stop_timer);
    const uint64_t now_ms = loop_now_ms(in->loop);

    if (!in->replying &&
        (now_ms >= in->stop_deadline_ms ||
         (now_ms >= in->quiet_since_ms + QUIET_MS && list_alone(&in->waiting))))
        stop_reading(in);
    if (in->replying && now_ms >= in->stop_deadline_ms)
        close_deaf(in);
    if (list_alone(&in->open)) {
        in->stopped(in->ctx);
        return;
    }
    /* The timer has just fired, so there is room for it. */
    (void)loop_arm(in->loop, timer, now_ms + (in->replying ? 1 : LOOK_MS));
}

void
ingest_stop(struct ingest *in, uint64_t drain_ms)
{
    const uint64_t now_ms = loop_now_ms(in->loop);
    int i, rc;

    if (in->stopping)
        return;
    in->stopping = true;
    for (i = 0; i < INGEST_PORTS; i++) {
        if (!in->ports[i].on)
            continue;
        accept_rest(&in->ports[i].listener);
        in->ports[i].on = false;
    }
    in->quiet_since_ms = now_ms;
    in->waiting_since_ms = now_ms; /* what they waited before is not of it */
    in->stop_deadline_ms = now_ms + drain_ms;
    rc = loop_arm(in->loop, &in->stop_timer, now_ms + LOOK_MS);
    assert(rc == 0);
}

/* ---- open and close ---------------------------------------------------- */

int
ingest_init(struct ingest *in, struct loop *loop, struct logs *logs, size_t max,
            void (*stopped)(void *ctx), void *ctx)
{
    size_t i;

    assert(max > 0);
    *in = (struct ingest){.loop = loop,
                          .logs = logs,
                          .layout = logs->layout,
                          .max = max,
                          .stopped = stopped,
                          .ctx = ctx};
    in->conns = calloc(max, sizeof *in->conns);
    in->partials = calloc(max, MESSAGE_SIZE_MAX);
    in->buffer = calloc(1, (size_t)RECEIVE_MAX * MESSAGE_SIZE_MAX + LOGS_WORD);
    if (!in->conns || !in->partials || !in->buffer) {
        free(in->conns);
        free(in->partials);
        free(in->buffer);
        return -ENOMEM;
    }
    for (i = 0; i < sizeof win_text; i++)
        win_text[i] = "WIN"[i % 3];
    list_init(&in->free);
    list_init(&in->open);
    list_init(&in->waiting);
    list_init(&in->draining);
    list_init(&in->groups[0]);
    list_init(&in->groups[1]);
    list_init(&in->earned);
    for (i = 0; i < max; i++)
        list_add(&in->free, &in->conns[i].all);
    for (i = 0; i < INGEST_PORTS; i++) {
        in->ports[i].ingest = in;
        in->ports[i].port = (enum ingest_port)i;
        in->ports[i].listener.accepted = accepted;
    }
    in->drain_timer = (struct loop_timer){.slot = -1, .due = drain_due};
    in->stop_timer = (struct loop_timer){.slot = -1, .due = stop_due};
    return 0;
}

void
ingest_fini(struct ingest *in)
{
    int i;

    for (i = 0; i < INGEST_PORTS; i++) {
        if (in->ports[i].on)
            listener_stop(&in->ports[i].listener);
        in->ports[i].on = false;
    }
    while (!list_alone(&in->open))
        close_conn(LOOP_OWNER(in->open.next, struct conn, all));
    loop_disarm(in->loop, &in->drain_timer);
    loop_disarm(in->loop, &in->stop_timer);
    free(in->conns);
    free(in->partials);
    free(in->buffer);
}

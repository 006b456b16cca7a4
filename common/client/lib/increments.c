/* common/client/lib/increments.c - libcountd: increments.
 *
 * Entry points: countd_incr(), countd_poll(), countd_sync().  A broken
 * connection means for an increment:
 *
 *   sent whole, no WIN    unknown: counted in `lost`, never sent again
 *   sent in part          not counted (the server drops a fragment): kept
 *   not sent              kept; it goes out on the next connection
 *
 * A silent server answers nothing, so there `lost` is what its kernel had not
 * confirmed.  After a FAIL the server took nothing more: all that was sent
 * without a WIN and all that waits is dropped and counted in `lost`, since a
 * message that cannot be parsed means that the two sides disagree on sizes.
 *
 * A normal mutex, locked and unlocked in pairs, protects the handle: neither
 * call can fail.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/lib/countd.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "common/base/hash.h"
#include "common/client/lib/handle.h"
#include "common/client/lib/outgoing.h"
#include "common/wire/first_bytes.h"

#define ANSWER_SIZE  3 /* WIN */
#define RECEIVE_SIZE ((size_t)4096 * ANSWER_SIZE)
#define WAIT_MS      20

/* ---- the connection ---------------------------------------------------- */

/* Silent: how many whole messages the peer's kernel had not confirmed. */
static uint64_t
count_unconfirmed(const struct handle_writing *w)
{
    const size_t part = w->part + w->times.part;
    int bytes = 0;
    uint64_t whole, messages;

    if (ioctl(w->link.fd, SIOCOUTQ, &bytes) < 0 || bytes <= (int)part)
        return 0;
    whole = (uint64_t)bytes - part; /* what is not whole is kept */
    messages = outgoing_increments(w, (whole + w->layout.message_size - 1) /
                                          w->layout.message_size);
    return messages < w->fresh ? messages : w->fresh;
}

/* The connection is gone, `error` says how.  Returns 0 when that took no
 * increment with it: then a new connection simply goes on. */
static int
end_connection(struct handle_writing *w, int error)
{
    uint64_t lost = w->silent ? count_unconfirmed(w) : w->flight;

    w->done += w->flight;
    if (error == -EBADMSG || error == -EPROTONOSUPPORT) {
        lost += w->buffered;
        w->done += w->buffered;
        w->buffered = 0;
        w->head = 0;
    }
    w->flight = 0;
    w->fresh = 0;
    w->part = 0;
    w->phase = 0;
    w->failing = false;
    outgoing_reset(w);
    link_drop(&w->link);
    if (lost == 0 && error == -ENOTCONN)
        return 0;
    w->lost += lost;
    w->error = error;
    w->breaks++;
    return error;
}

/* Takes answer bytes.  -EBADMSG after FAIL, -EPROTONOSUPPORT if that is for a
 * time message, -EPROTO for anything else that is not WIN, or for more of them
 * than messages. */
static int
take_answers(struct handle_writing *w, const uint8_t *bytes, size_t size)
{
    static const char win[] = "WIN", fail[] = "FAIL";

    for (size_t i = 0; i < size; i++) {
        if (w->phase == 0 && bytes[i] == (uint8_t)fail[0])
            w->failing = true;
        if (!w->failing && w->flight == 0 && w->times.count == 0)
            return -EPROTO;
        if (bytes[i] != (uint8_t)(w->failing ? fail : win)[w->phase])
            return -EPROTO;
        w->phase++;
        if (w->failing && w->phase == sizeof fail - 1)
            return outgoing_expects_time(w) ? -EPROTONOSUPPORT : -EBADMSG;
        if (w->failing || w->phase < ANSWER_SIZE)
            continue;
        w->phase = 0;
        if (outgoing_take_answer(w))
            continue;
        w->flight--;
        w->done++;
    }
    return 0;
}

/* Takes all that has arrived.  0, or what end_connection() said. */
static int
receive_some(struct handle_writing *w)
{
    uint8_t bytes[RECEIVE_SIZE];
    ssize_t n;
    int rc;

    for (;;) {
        n = recv(w->link.fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0) {
            rc = -errno;
            if (rc == -EINTR)
                continue;
            return rc == -EAGAIN ? 0 : end_connection(w, -ENOTCONN);
        }
        if (n == 0)
            return end_connection(w, -ENOTCONN);
        rc = take_answers(w, bytes, (size_t)n);
        if (rc < 0)
            return end_connection(w, rc);
    }
}

/* Sends what the kernel takes.  0, or what end_connection() said. */
static int
send_some(struct handle_writing *w)
{
    struct outgoing out;
    struct msghdr m = {.msg_iov = out.piece};
    ssize_t n;
    int rc;

    while (outgoing_waits(w)) {
        outgoing_gather(w, &out);
        m.msg_iovlen = out.count;
        n = sendmsg(w->link.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0) {
            outgoing_sent(w, (size_t)n);
            continue;
        }
        rc = -errno;
        if (rc == -EAGAIN)
            return 0;
        if (rc == -EINTR)
            continue;
        /* Answers that came before the break still count. */
        rc = receive_some(w);
        if (rc < 0 || w->link.fd < 0)
            return rc;
        return end_connection(w, -ENOTCONN);
    }
    return 0;
}

/* Sets the events for which countd_fd() becomes readable. */
static void
update_poll_events(struct handle_writing *w)
{
    struct epoll_event e = {.events = EPOLLIN};

    if (w->poll_fd < 0 || w->link.fd < 0)
        return;
    if (w->link.connecting || outgoing_waits(w))
        e.events |= EPOLLOUT;
    /* A new connection is not known yet; one that was closed is forgotten. */
    if (epoll_ctl(w->poll_fd, EPOLL_CTL_MOD, w->link.fd, &e) < 0)
        (void)epoll_ctl(w->poll_fd, EPOLL_CTL_ADD, w->link.fd,
                        &e); /* without memory the next call tries again */
}

/* One round without blocking: connect, take answers, send.  0 also while the
 * connect is under way. */
static int
try_progress(struct handle_writing *w)
{
    int rc;

    if (w->buffered == 0 && w->link.fd < 0)
        return 0;
    rc = link_connect(&w->link);
    if (rc < 0)
        return rc == -EINPROGRESS ? 0 : rc;
    rc = receive_some(w);
    if (rc < 0 || w->link.fd < 0)
        return rc;
    return send_some(w);
}

static int
make_progress(struct handle_writing *w)
{
    const int rc = try_progress(w);

    update_poll_events(w);
    return rc;
}

/* Waits, unlocked, until make_progress() may get further.  Another thread may
 * take what this one waits for, or close the connection, between its unlocking
 * and its poll(): so it looks again after WAIT_MS. */
static int
wait_unlocked(struct handle_writing *w, uint64_t deadline_ms)
{
    const uint64_t soon_ms = link_deadline(WAIT_MS);
    const int fd = w->link.fd;
    short events = POLLIN;

    if (fd >= 0) {
        if (w->link.connecting || outgoing_waits(w))
            events |= POLLOUT;
        (void)pthread_mutex_unlock(&w->lock);
        /* The next make_progress() meets the error. */
        (void)link_wait(fd, events,
                        soon_ms < deadline_ms ? soon_ms : deadline_ms);
        (void)pthread_mutex_lock(&w->lock);
    }
    /* After the end of a connection the next round makes another. */
    return link_passed(deadline_ms) ? -ETIMEDOUT : 0;
}

/* ---- what users call --------------------------------------------------- */

PUBLIC int
countd_fd(struct countd *c)
{
    struct handle_writing *w = &c->writing;
    int fd;

    (void)pthread_mutex_lock(&w->lock);
    if (w->poll_fd < 0)
        w->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    fd = w->poll_fd < 0 ? -errno : w->poll_fd;
    update_poll_events(w);
    (void)pthread_mutex_unlock(&w->lock);
    return fd;
}

/* The number of the first message that no byte has been sent of. */
static uint64_t
first_whole(const struct handle_writing *w)
{
    return w->taken - w->buffered + (w->part > 0 ? 1 : 0);
}

/* A server refuses a connection that begins with such an increment, and any
 * message may become the first one of a new connection. */
static bool
needs_two_messages(int64_t increment)
{
    uint8_t bytes[FIRST_BYTES_SIZE];

    put_le64s(bytes, increment);
    return first_bytes_browser(bytes) != NULL;
}

/* The place of the names of a message in `sums`: who floods one only wastes own
 * messages. */
static uint64_t *
find_place(const struct handle_writing *w, const struct message *m)
{
    static const struct hash_key zeros;
    const uint64_t h =
        hash_name(&zeros, m->minute, m->keyspace, m->keyspace_size);

    return &w->sums[hash_name(&zeros, h, m->key, m->key_size) & w->sums_mask];
}

/* Adds to a message with the same names and minute that waits to be sent:
 * true. */
static bool
add_to_equal(struct handle_writing *w, const struct message *m)
{
    const size_t size = w->layout.message_size;
    const uint64_t place = *find_place(w, m), number = place - 1;
    uint8_t *bytes;
    struct message found;
    size_t behind, slot;

    if (place == 0 || number < first_whole(w))
        return false;
    behind = (size_t)(number - (w->taken - w->buffered));
    slot = (w->head + behind) % w->capacity;
    bytes = w->ring + slot * size;
    if ((w->times.minutes && w->times.minutes[slot] != m->minute) ||
        message_parse(&w->layout, bytes, &found) < 0 ||
        !bytes_equal(found.keyspace, found.keyspace_size, m->keyspace,
                     m->keyspace_size) ||
        !bytes_equal(found.key, found.key_size, m->key, m->key_size) ||
        __builtin_add_overflow(found.increment, m->increment,
                               &found.increment) ||
        needs_two_messages(found.increment))
        return false;
    put_le64s(bytes, found.increment);
    return true;
}

/* Sends until the ring has room for `count` messages. */
static int
wait_for_space(struct handle_writing *w, size_t count)
{
    assert(count <= w->capacity);
    while (w->capacity - w->buffered < count) {
        const int rc = make_progress(w);

        if (rc < 0)
            return rc;
        if (w->capacity - w->buffered >= count)
            break;
        if (w->nonblocking)
            return -EAGAIN;
        (void)wait_unlocked(w, UINT64_MAX); /* it has no end */
    }
    return 0;
}

/* Puts a message into the ring. */
static int
buffer_message(struct handle_writing *w, const struct message *m)
{
    size_t slot;
    int rc;

    if (w->sums && add_to_equal(w, m))
        return 0;
    rc = wait_for_space(w, 1);
    if (rc < 0)
        return rc;
    slot = (w->head + w->buffered) % w->capacity;
    rc = message_put(&w->layout, m, w->ring + slot * w->layout.message_size);
    if (rc < 0)
        return rc;
    if (w->times.minutes)
        w->times.minutes[slot] = m->minute;
    if (w->sums)
        *find_place(w, m) = w->taken + 1;
    w->buffered++;
    w->taken++;
    return 0;
}

/* Puts an increment into the ring, as two messages if one could be refused:
 * both, or none. */
static int
buffer_increment(struct handle_writing *w, const struct message *m)
{
    struct message part = *m;
    int rc;

    if (!needs_two_messages(m->increment))
        return buffer_message(w, m);
    rc = wait_for_space(w, 2);
    if (rc < 0)
        return rc;
    part.increment = m->increment & FIRST_BYTES_HIGH_PART;
    rc = buffer_message(w, &part);
    if (rc < 0)
        return rc;
    part.increment = m->increment & ~FIRST_BYTES_HIGH_PART;
    return buffer_message(w, &part);
}

PUBLIC int
countd_incr_at(struct countd *c, struct countd_name keyspace,
               struct countd_name key, int64_t increment, int64_t at)
{
    struct handle_writing *w = &c->writing;
    const struct message m = {.increment = increment,
                              .keyspace = (const uint8_t *)keyspace.data,
                              .key = (const uint8_t *)key.data,
                              .keyspace_size = (uint16_t)keyspace.size,
                              .key_size = (uint16_t)key.size,
                              .minute = (uint32_t)(at / 60)};
    int rc = 0;

    (void)pthread_mutex_lock(&w->lock);
    if (keyspace.size > MESSAGE_NAME_MAX || key.size > MESSAGE_NAME_MAX)
        rc = -ENAMETOOLONG;
    else if (at != 0 && (at < 60 || at / 60 >= MESSAGE_TIME_END))
        rc = -ERANGE;
    else if (at != 0)
        rc = outgoing_want_times(w);
    if (rc == 0)
        rc = buffer_increment(w, &m);
    if (rc < 0 && w->refused++ == 0)
        w->refusal = rc;
    (void)pthread_mutex_unlock(&w->lock);
    return rc;
}

PUBLIC int
countd_incr(struct countd *c, struct countd_name keyspace,
            struct countd_name key, int64_t increment)
{
    return countd_incr_at(c, keyspace, key, increment, 0);
}

/* Returns a number of increments and forgets it and the error of the first. */
static uint64_t
fetch_count(struct handle_writing *w, uint64_t *count, int *error)
{
    uint64_t fetched;

    (void)pthread_mutex_lock(&w->lock);
    fetched = *count;
    *count = 0;
    *error = 0;
    (void)pthread_mutex_unlock(&w->lock);
    return fetched;
}

PUBLIC uint64_t
countd_refused(struct countd *c)
{
    return fetch_count(&c->writing, &c->writing.refused, &c->writing.refusal);
}

PUBLIC int64_t
countd_poll(struct countd *c)
{
    struct handle_writing *w = &c->writing;
    int64_t rc;

    (void)pthread_mutex_lock(&w->lock);
    rc = make_progress(w);
    if (rc == 0)
        rc = (int64_t)(w->buffered + w->flight);
    (void)pthread_mutex_unlock(&w->lock);
    return rc;
}

PUBLIC void
countd_pending(struct countd *c, uint64_t *unsent, uint64_t *unanswered)
{
    struct handle_writing *w = &c->writing;

    (void)pthread_mutex_lock(&w->lock);
    *unsent = w->buffered;
    *unanswered = w->flight;
    (void)pthread_mutex_unlock(&w->lock);
}

/* Until all that has been taken is done, an error, or the deadline. */
static int
sync_locked(struct handle_writing *w, uint64_t deadline_ms)
{
    const uint64_t target = w->taken, breaks = w->breaks;
    int rc = 0;

    /* Reports also an error of another call, unless countd_lost() was called
     * since: 0 must mean that every increment is safe. */
    while (w->error == 0 && w->breaks == breaks) {
        rc = make_progress(w);
        if (rc < 0 || w->done >= target)
            break;
        rc = wait_unlocked(w, deadline_ms);
        if (rc == -ETIMEDOUT)
            break;
    }
    if (w->error != 0 || w->breaks != breaks) {
        rc = w->error != 0 ? w->error : -ENOTCONN;
        w->error = 0;
    }
    return rc;
}

PUBLIC int
countd_sync(struct countd *c, int timeout_ms)
{
    const uint64_t deadline_ms = link_deadline(timeout_ms);
    struct handle_writing *w = &c->writing;
    int rc = -EBUSY;

    (void)pthread_mutex_lock(&w->lock);
    if (!w->syncing) {
        w->syncing = true;
        rc = sync_locked(w, deadline_ms);
        w->syncing = false;
    }
    (void)pthread_mutex_unlock(&w->lock);
    return rc;
}

PUBLIC uint64_t
countd_lost(struct countd *c)
{
    return fetch_count(&c->writing, &c->writing.lost, &c->writing.error);
}

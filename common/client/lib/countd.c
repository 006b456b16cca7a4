/* common/client/lib/countd.c - libcountd: the handle and its increments.
 *
 * What a broken connection means for an increment:
 *
 *   sent whole, no WIN    unknown: counted in `lost`, never sent again
 *   sent in part          not counted (the server drops a fragment): kept
 *   not sent              kept; it goes out on the next connection
 *
 * A silent server tells nothing, so there `lost` is what its kernel had not
 * confirmed.  After a FAIL the server took nothing more: all that was sent
 * without a WIN and all that waits is dropped and counted in `lost`, since a
 * message that cannot be parsed means that the two sides disagree on sizes.
 */
#include "common/client/lib/countd.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "common/client/lib/handle.h"

#define BUFFER_SIZE        ((size_t)256 * 1024)
#define CONNECT_TIMEOUT_MS 5000
#define READ_TIMEOUT_MS    5000
#define ANSWER_SIZE        3 /* WIN */
#define RECEIVE_SIZE       ((size_t)4096 * ANSWER_SIZE)

#define WRITE_ADDRESS  "127.0.0.1:48881"
#define SILENT_ADDRESS "127.0.0.1:48879"
#define READ_ADDRESS   "127.0.0.1:48880"

/* ---- opening ----------------------------------------------------------- */

int
options_take(void *to, size_t size, const void *from)
{
    const uint8_t *bytes = from;
    size_t given;

    memset(to, 0, size);
    memcpy(to, &size, sizeof size);
    if (!from)
        return 0;
    memcpy(&given, from, sizeof given);
    if (given < sizeof given)
        return -EINVAL;
    for (size_t i = size; i < given; i++)
        if (bytes[i])
            return -EINVAL; /* asks for what this version cannot do */
    memcpy(to, from, given < size ? given : size);
    return 0;
}

static int
take_options(const struct countd_options *from, struct countd_options *o)
{
    const int rc = options_take(o, sizeof *o, from);

    if (rc < 0)
        return rc;
    if (!o->write)
        o->write = o->silent ? SILENT_ADDRESS : WRITE_ADDRESS;
    if (!o->read)
        o->read = READ_ADDRESS;
    if (o->buffer_size == 0)
        o->buffer_size = BUFFER_SIZE;
    if (o->keyspace_size == 0)
        o->keyspace_size = MESSAGE_NAME_MAX;
    if (o->key_size == 0)
        o->key_size = MESSAGE_NAME_MAX;
    if (o->connect_timeout_ms == 0)
        o->connect_timeout_ms = CONNECT_TIMEOUT_MS;
    return 0;
}

/* A lock and a condition whose deadlines are those of clock_ms(). */
static int
locks_init(pthread_mutex_t *lock, pthread_cond_t *changed)
{
    pthread_condattr_t monotonic;
    int rc;

    rc = -pthread_mutex_init(lock, NULL);
    if (rc < 0)
        return rc;
    rc = -pthread_condattr_init(&monotonic);
    if (rc < 0)
        goto destroy_lock;
    rc = -pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = -pthread_cond_init(changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic); /* has been copied */
    if (rc == 0)
        return 0;

destroy_lock:
    (void)pthread_mutex_destroy(lock); /* nobody holds it */
    return rc;
}

static int
writing_init(struct writing *w, const struct countd_options *o)
{
    int rc;

    w->silent = o->silent != 0;
    if (layout_init(&w->layout, o->keyspace_size, o->key_size) < 0)
        return -EINVAL;
    w->capacity = o->buffer_size / w->layout.message_size;
    if (w->capacity == 0)
        w->capacity = 1;
    rc = link_init(&w->link, o->write, o->connect_timeout_ms);
    if (rc < 0)
        return rc;
    w->ring = calloc(w->capacity, w->layout.message_size);
    if (!w->ring)
        return -ENOMEM;
    w->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (w->wake_fd < 0) {
        rc = -errno;
        goto free_ring;
    }
    rc = locks_init(&w->lock, &w->changed);
    if (rc < 0)
        goto close_wake;
    return 0;

close_wake:
    (void)close(w->wake_fd); /* unused */
free_ring:
    free(w->ring);
    return rc;
}

static void
writing_fini(struct writing *w)
{
    link_drop(&w->link);
    free(w->ring);
    (void)close(w->wake_fd); /* holds nothing */
    /* The caller's last use: nobody holds or waits for them. */
    (void)pthread_cond_destroy(&w->changed);
    (void)pthread_mutex_destroy(&w->lock);
}

/* In a forked child, whose copies of the locks may be held by threads that it
 * does not have: destroying them may wait for ever. */
static void
writing_leave(struct writing *w)
{
    link_leave(&w->link);
    free(w->ring);
    (void)close(w->wake_fd); /* holds nothing */
}

PUBLIC int
countd_open(struct countd **out, const struct countd_options *options)
{
    struct countd_options o;
    struct countd *c;
    int rc;

    rc = take_options(options, &o);
    if (rc < 0)
        return rc;
    c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    rc = forks_watch(&c->forks);
    if (rc == 0)
        rc = writing_init(&c->writing, &o);
    if (rc < 0)
        goto free_handle;
    rc = link_init(&c->reading.link, o.read, o.connect_timeout_ms);
    if (rc < 0)
        goto fini_writing;
    c->reading.timeout_ms = READ_TIMEOUT_MS;
    rc = -pthread_mutex_init(&c->reading.lock, NULL);
    if (rc < 0)
        goto fini_writing;
    *out = c;
    return 0;

fini_writing:
    writing_fini(&c->writing);
free_handle:
    free(c);
    return rc;
}

PUBLIC void
countd_close(struct countd *c)
{
    if (!c)
        return;
    if (forks_since(c->forks)) {
        writing_leave(&c->writing);
        reading_leave(&c->reading);
    } else {
        writing_fini(&c->writing);
        reading_fini(&c->reading);
    }
    free(c);
}

PUBLIC const char *
countd_version(void)
{
    return COUNTD_VERSION;
}

/* A normal mutex, locked and unlocked in pairs: neither call can fail. */
static void
lock(struct writing *w)
{
    (void)pthread_mutex_lock(&w->lock);
}

static void
unlock(struct writing *w)
{
    (void)pthread_mutex_unlock(&w->lock);
}

/* ---- the connection ---------------------------------------------------- */

/* Silent: how many whole messages the peer's kernel had not confirmed. */
static uint64_t
unconfirmed(const struct writing *w)
{
    int bytes = 0;
    uint64_t whole, messages;

    if (ioctl(w->link.fd, SIOCOUTQ, &bytes) < 0 || bytes <= (int)w->part)
        return 0;
    whole = (uint64_t)bytes - w->part; /* what is not whole is kept */
    messages = (whole + w->layout.message_size - 1) / w->layout.message_size;
    return messages < w->fresh ? messages : w->fresh;
}

/* The connection is gone, `error` says how.  Returns 0 when that took no
 * increment with it: then a new connection simply goes on. */
static int
broke(struct writing *w, int error)
{
    uint64_t lost = w->silent ? unconfirmed(w) : w->flight;

    w->done += w->flight;
    if (error == -EBADMSG) {
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
    link_drop(&w->link);
    if (lost == 0 && error == -ENOTCONN)
        return 0;
    w->lost += lost;
    w->error = error;
    w->breaks++;
    return error;
}

/* Takes answer bytes.  -EBADMSG after FAIL, -EPROTO for anything else that is
 * not WIN, or for more of them than messages. */
static int
take_answers(struct writing *w, const uint8_t *bytes, size_t size)
{
    static const char win[] = "WIN", fail[] = "FAIL";

    for (size_t i = 0; i < size; i++) {
        if (w->phase == 0 && bytes[i] == (uint8_t)fail[0])
            w->failing = true;
        if (!w->failing && w->flight == 0)
            return -EPROTO;
        if (bytes[i] != (uint8_t)(w->failing ? fail : win)[w->phase])
            return -EPROTO;
        w->phase++;
        if (w->failing && w->phase == sizeof fail - 1)
            return -EBADMSG;
        if (!w->failing && w->phase == ANSWER_SIZE) {
            w->phase = 0;
            w->flight--;
            w->done++;
        }
    }
    return 0;
}

/* Takes all that has arrived.  0, or what broke() said. */
static int
receive_some(struct writing *w)
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
            return rc == -EAGAIN ? 0 : broke(w, -ENOTCONN);
        }
        if (n == 0)
            return broke(w, -ENOTCONN);
        rc = take_answers(w, bytes, (size_t)n);
        if (rc < 0)
            return broke(w, rc);
    }
}

/* The unsent bytes of the ring, in one or two pieces. */
static size_t
unsent(const struct writing *w, struct iovec piece[2])
{
    const size_t until_end = w->capacity - w->head;
    const size_t first = w->buffered < until_end ? w->buffered : until_end;
    const size_t rest = w->buffered - first;

    piece[0].iov_base = w->ring + w->head * w->layout.message_size + w->part;
    piece[0].iov_len = first * w->layout.message_size - w->part;
    piece[1].iov_base = w->ring;
    piece[1].iov_len = rest * w->layout.message_size;
    return rest > 0 ? 2 : 1;
}

static void
count_sent(struct writing *w, size_t bytes)
{
    const size_t whole = (w->part + bytes) / w->layout.message_size;

    assert(whole <= w->buffered);
    w->part = (w->part + bytes) % w->layout.message_size;
    w->head = (w->head + whole) % w->capacity;
    w->buffered -= whole;
    if (w->silent) {
        w->fresh += whole;
        w->done += whole;
    } else {
        w->flight += whole;
    }
}

/* Sends what the kernel takes.  0, or what broke() said. */
static int
send_some(struct writing *w)
{
    struct iovec piece[2];
    struct msghdr m = {.msg_iov = piece};
    ssize_t n;
    int rc;

    while (w->buffered > 0) {
        m.msg_iovlen = unsent(w, piece);
        n = sendmsg(w->link.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0) {
            count_sent(w, (size_t)n);
            continue;
        }
        rc = -errno;
        if (rc == -EAGAIN)
            return 0;
        if (rc == -EINTR)
            continue;
        /* Answers that came before the break still count. */
        rc = receive_some(w);
        if (rc < 0 || w->link.fd < 0 || w->link.doomed)
            return rc;
        return broke(w, -ENOTCONN);
    }
    return 0;
}

/* One round without blocking: connect, take answers, send.  0 also while the
 * connect is under way. */
static int
progress(struct writing *w)
{
    const uint64_t one = 1;
    int rc;

    if (w->buffered == 0 && w->link.fd < 0)
        return 0;
    /* What it waits for may be taken here, or there is more to wait for.  A
     * full counter has woken it already. */
    if (w->waiting)
        (void)!write(w->wake_fd, &one, sizeof one);
    rc = link_connect(&w->link);
    if (rc < 0)
        return rc == -EINPROGRESS ? 0 : rc;
    rc = receive_some(w);
    if (rc < 0 || w->link.fd < 0 || w->link.doomed)
        return rc;
    return send_some(w);
}

/* ---- what users call --------------------------------------------------- */

PUBLIC int
countd_incr(struct countd *c, const void *keyspace, size_t keyspace_size,
            const void *key, size_t key_size, int64_t increment)
{
    struct writing *w = &c->writing;
    const struct message m = {.increment = increment,
                              .keyspace = keyspace,
                              .key = key,
                              .keyspace_size = (uint16_t)keyspace_size,
                              .key_size = (uint16_t)key_size};
    size_t slot;
    int rc = 0;

    if (forks_since(c->forks))
        return -ECHILD;
    if (keyspace_size > MESSAGE_NAME_MAX || key_size > MESSAGE_NAME_MAX)
        return -ENAMETOOLONG;
    lock(w);
    if (w->buffered == w->capacity) {
        rc = progress(w);
        if (rc == 0 && w->buffered == w->capacity)
            rc = -EAGAIN;
    }
    if (rc == 0) {
        slot = (w->head + w->buffered) % w->capacity;
        rc = message_put(&w->layout, &m,
                         w->ring + slot * w->layout.message_size);
    }
    if (rc == 0) {
        w->buffered++;
        w->taken++;
    }
    unlock(w);
    return rc;
}

PUBLIC int64_t
countd_poll(struct countd *c)
{
    struct writing *w = &c->writing;
    int64_t rc;

    if (forks_since(c->forks))
        return -ECHILD;
    lock(w);
    rc = progress(w);
    if (rc == 0)
        rc = (int64_t)(w->buffered + w->flight);
    unlock(w);
    return rc;
}

PUBLIC void
countd_pending(struct countd *c, uint64_t *unsent, uint64_t *unanswered)
{
    struct writing *w = &c->writing;

    *unsent = 0;
    *unanswered = 0;
    if (forks_since(c->forks))
        return;
    lock(w);
    *unsent = w->buffered;
    *unanswered = w->flight;
    unlock(w);
}

/* Waits on the connection, alone. */
static int
wait_for_link(struct writing *w, uint64_t deadline_ms)
{
    const int fd = w->link.fd;
    const bool write = w->link.connecting || w->buffered > 0;
    uint64_t count;
    int rc;

    if (w->link.connecting && w->link.deadline_ms < deadline_ms)
        deadline_ms = w->link.deadline_ms;
    w->waiting = true;
    link_hold(&w->link);
    unlock(w);
    rc = link_wait(fd, (short)(write ? POLLIN | POLLOUT : POLLIN), w->wake_fd,
                   deadline_ms);
    lock(w);
    link_let(&w->link);
    w->waiting = false;
    (void)!read(w->wake_fd, &count, sizeof count); /* 0 when it is empty */
    /* Fails for no initialised condition. */
    (void)pthread_cond_broadcast(&w->changed);
    return rc;
}

/* Waits until progress() may get further; others may use the handle.  Only
 * one thread waits on the connection: of several in poll(), those that come
 * late to an event would sleep on. */
static int
wait_unlocked(struct writing *w, uint64_t deadline_ms)
{
    const struct timespec t = {
        .tv_sec = (time_t)(deadline_ms / 1000),
        .tv_nsec = (long)(deadline_ms % 1000) * 1000000,
    };

    /* A connection ended and will be replaced: go round again. */
    if (w->link.fd < 0)
        return link_passed(deadline_ms) ? -ETIMEDOUT : 0;
    if (!w->waiting)
        return wait_for_link(w, deadline_ms);
    if (deadline_ms == UINT64_MAX)
        return -pthread_cond_wait(&w->changed, &w->lock);
    return -pthread_cond_timedwait(&w->changed, &w->lock, &t);
}

PUBLIC int
countd_flush(struct countd *c, int timeout_ms)
{
    const uint64_t deadline_ms = link_deadline(timeout_ms);
    struct writing *w = &c->writing;
    uint64_t target, breaks;
    int rc = 0;

    if (forks_since(c->forks))
        return -ECHILD;
    lock(w);
    target = w->taken;
    breaks = w->breaks;
    /* An error another call met, and nobody asked countd_lost() about, is
     * told here: 0 must mean that every increment is safe. */
    while (w->error == 0 && w->breaks == breaks) {
        rc = progress(w);
        if (rc < 0 || w->done >= target)
            break;
        rc = wait_unlocked(w, deadline_ms);
        if (rc == -ETIMEDOUT && link_passed(deadline_ms))
            break;
    }
    if (w->error != 0 || w->breaks != breaks) {
        rc = w->error != 0 ? w->error : -ENOTCONN;
        w->error = 0;
    }
    unlock(w);
    return rc;
}

PUBLIC uint64_t
countd_lost(struct countd *c)
{
    struct writing *w = &c->writing;
    uint64_t lost;

    if (forks_since(c->forks))
        return 0;
    lock(w);
    lost = w->lost;
    w->lost = 0;
    w->error = 0;
    unlock(w);
    return lost;
}

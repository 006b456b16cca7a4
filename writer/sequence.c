/* writer/sequence.c - see sequence.h.
 *
 * Entry points: sequence_open(), the answer_*() of the routes, second_due(),
 * mark_moved(), sequence_close().
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/sequence.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/state_file.h"

#define MAGIC     "COUNTDS2"
#define MARK_SIZE 44

/* ---- the file of the mark ------------------------------------------------ */

int
sequence_mark_move(struct sequence_mark *m, uint64_t until)
{
    uint8_t bytes[MARK_SIZE] = {0};
    int rc;

    assert(until >= m->until);
    put_le32(bytes + 8, m->reserve);
    put_le32(bytes + 12, m->server_no);
    put_le64(bytes + 16, until);
    rc = state_write(m->fd, bytes, sizeof bytes, MAGIC);
    if (rc == 0 && fdatasync(m->fd) < 0)
        rc = -errno;
    if (rc == 0)
        m->until = until;
    return rc;
}

static int
read_mark(struct sequence_mark *m)
{
    uint8_t bytes[MARK_SIZE];
    const int rc = state_read(m->fd, bytes, sizeof bytes, MAGIC);

    if (rc < 0 && rc != -EBADMSG)
        return rc == -ENOENT ? 0 : rc; /* a new one */
    if (rc == 0 && get_le32(bytes + 8) == m->reserve &&
        get_le32(bytes + 12) == m->server_no) {
        m->until = get_le64(bytes + 16);
        return 0;
    }
    diag(DIAG_ERROR,
         "live/%s is damaged: no sequence number is given; when the clock is "
         "right and past the second of the last number that was given (countd "
         "seq explain), remove the file and start again",
         m->name);
    return -EBADMSG;
}

int
sequence_mark_open(struct sequence_mark *m, int dirfd, uint32_t reserve,
                   uint32_t server_no)
{
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    int rc;

    *m = (struct sequence_mark){.reserve = reserve, .server_no = server_no};
    (void)snprintf(m->name, sizeof m->name, "sequence-%u-%u", reserve,
                   server_no);
    m->fd = openat(dirfd, m->name, flags, 0600);
    /* The name is durable before a number is given. */
    rc = m->fd < 0 || fsync(dirfd) < 0 ? -errno : 0;
    if (rc == 0)
        rc = read_mark(m);
    if (rc < 0 && rc != -EBADMSG)
        diag_errno(DIAG_ERROR, rc, "open live/%s", m->name);
    return rc;
}

void
sequence_mark_close(struct sequence_mark *m)
{
    if (m->fd >= 0)
        (void)close(m->fd);
    m->fd = -1;
}

/* ---- the mark ------------------------------------------------------------ */

static void
set_second(struct sequence *s, uint64_t second)
{
    s->second = second;
    sequence_digits(s->text + SEQUENCE_SECOND_AT, second, 6);
}

static uint64_t
clock_second(const struct sequence *s)
{
    return loop_unix_ms(s->loop) / 1000;
}

static void
arm_next_second(struct sequence *s)
{
    const uint64_t left_ms = 1000 - loop_unix_ms(s->loop) % 1000;

    loop_arm(s->loop, &s->timer, loop_now_ms(s->loop) + left_ms);
}

/* Whether numbers of this second may be given now, as far as the clock has a
 * say in it. */
static bool
is_reached(const struct sequence *s, uint64_t second)
{
    const uint64_t now = clock_second(s);

    return second <= now || second == s->given ||
           second > now + SEQUENCE_WAIT_S;
}

/* Whether the mark has to move for the second that comes next. */
static bool
needs_move(const struct sequence *s)
{
    const uint64_t soon = clock_second(s) + 1;

    if (s->second > soon)
        return s->until <= s->second && is_reached(s, s->second);
    return s->until <= soon;
}

/* In the I/O thread. */
static void
move_mark(struct io_job *job)
{
    struct sequence *s = LOOP_OWNER(job, struct sequence, job);

    s->rc = sequence_mark_move(&s->mark, s->want);
}

static void
mark_moved(struct io_job *job)
{
    struct sequence *s = LOOP_OWNER(job, struct sequence, job);

    s->moving = false;
    s->failing = s->rc < 0;
    s->took_s = (clock_ms() - s->began_ms + 999) / 1000;
    if (s->failing)
        diag_repeating(&s->failing_warning, DIAG_ERROR,
                       "write live/%s: %s; sequence numbers are refused until "
                       "it works",
                       s->mark.name, diag_text(s->rc));
    else
        s->until = s->want;
    s->stats.moves += !s->failing;
    http_wake(&s->line);
    arm_next_second(s);
}

/* Moves the mark above `second` and ahead of the clock, further ahead where the
 * disk is slow. The mark stays below what SEQUENCE_WAIT_S allows: a start must
 * not take its own mark for that of a clock that was set back. */
static void
begin_move(struct sequence *s, uint64_t second)
{
    const uint64_t now = clock_second(s);
    const uint64_t slow =
        s->took_s < SEQUENCE_SLOW_S ? s->took_s : SEQUENCE_SLOW_S;
    uint64_t want = now + SEQUENCE_AHEAD_S + (s->took_s > 1 ? slow : 0);

    if (want <= second)
        want = second + 1;
    s->want = want > s->until ? want : s->until;
    s->moving = true;
    s->began_ms = clock_ms();
    if (second > now + SEQUENCE_WAIT_S)
        diag_repeating(&s->behind_warning, DIAG_ERROR,
                       "the clock is %llu seconds behind the sequence numbers "
                       "that were given; they go on from there",
                       (unsigned long long)(second - now));
    io_push(&s->io, &s->job);
}

static void
second_due(struct loop_timer *timer)
{
    struct sequence *s = LOOP_OWNER(timer, struct sequence, timer);

    http_wake(&s->line);
    if (s->refuses || loop_now_ms(s->loop) - s->used_ms > SEQUENCE_IDLE_MS)
        return;
    if (!s->moving && !s->failing && needs_move(s))
        begin_move(s, s->second);
    arm_next_second(s);
}

/* ---- numbers ------------------------------------------------------------ */

/* Whether numbers of this second may be given now. Otherwise *next says whether
 * the request waits or is refused. */
static bool
may_give(struct http_call *x, uint64_t second, enum conn_next *next)
{
    struct sequence *s = x->ctx;
    const bool reached = is_reached(s, second);

    s->used_ms = loop_now_ms(s->loop);
    if (reached && second < s->until)
        return true;
    if (s->refuses || second > SEQUENCE_SECOND_MAX ||
        (s->failing && !s->moving &&
         clock_ms() - s->began_ms < SEQUENCE_RETRY_MS)) {
        *next = http_fail(x, HTTP_UNAVAILABLE);
        return false;
    }
    if (!reached)
        arm_next_second(s);
    else if (!s->moving)
        begin_move(s, second);
    s->stats.waited++;
    *next = http_hold(x, &s->line);
    return false;
}

static uint8_t *
put_number(struct sequence *s, uint8_t *to)
{
    s->serial++;
    sequence_digits(s->text + SEQUENCE_SERIAL_AT, s->serial, 5);
    memcpy(to, s->text, SEQUENCE_LINE_SIZE);
    return to + SEQUENCE_LINE_SIZE;
}

static enum conn_next
give_numbers(struct http_call *x, uint32_t count)
{
    struct sequence *s = x->ctx;
    const uint64_t now = clock_second(s);
    const bool ends = s->serial + count > SEQUENCE_SERIAL_MAX;
    uint64_t second = now > s->second ? now : s->second;
    enum conn_next next;
    uint8_t *body;

    if (!http_may_change(x, &next))
        return next;
    /* Serials begin again only in a second without numbers. */
    if (ends && second == s->given)
        second++;
    if (!may_give(x, second, &next))
        return next;
    body = http_body(x, (size_t)count * SEQUENCE_LINE_SIZE);
    if (!body)
        return CONN_FULL;
    if (ends)
        s->serial = 0;
    if (second > s->second)
        set_second(s, second);
    s->given = second;
    for (uint32_t i = 0; i < count; i++)
        body = put_number(s, body);
    s->stats.given += count;
    return http_end(x, HTTP_OK, (size_t)count * SEQUENCE_LINE_SIZE);
}

static enum conn_next
answer_fetch(struct http_call *x)
{
    int64_t count = 1;

    if (x->value.at && (!http_number(x->value, &count) || count < 1 ||
                        count > SEQUENCE_COUNT_MAX))
        return http_fail(x, HTTP_BAD_REQUEST);
    return give_numbers(x, (uint32_t)count);
}

static enum conn_next
answer_explain(struct http_call *x)
{
    uint8_t *body = http_body(x, SEQUENCE_TEXT_SIZE);
    struct sequence_parts parts;
    size_t size = 0;

    if (!body)
        return CONN_FULL;
    if (sequence_parse((const char *)x->value.at, x->value.size, &parts))
        size = sequence_explain(&parts, (char *)body);
    return size > 0 ? http_end(x, HTTP_OK, size)
                    : http_fail(x, HTTP_BAD_REQUEST);
}

const struct http_route sequence_routes[] = {
    {"/fetch", NULL, HTTP_GET | HTTP_POST, answer_fetch, 0, NULL},
    {"/fetch", "n", HTTP_GET | HTTP_POST, answer_fetch, 0, NULL},
    {"/explain", "sequence", HTTP_GET | HTTP_HEAD | HTTP_POST, answer_explain,
     0, NULL},
};
const size_t sequence_route_count =
    sizeof sequence_routes / sizeof sequence_routes[0];

/* ---- open and close ----------------------------------------------------- */

/* The second after the current one is above all numbers of earlier runs, and
 * the mark is where the clock was set back. */
static void
begin_numbers(struct sequence *s)
{
    const uint64_t soon = clock_second(s) + 1;
    uint64_t wait_s;

    s->until = s->mark.until;
    set_second(s, soon > s->until ? soon : s->until);
    wait_s = s->second - soon + 1;
    if (s->second > soon + SEQUENCE_AHEAD_S && !is_reached(s, s->second))
        diag(DIAG_WARNING,
             "sequence numbers wait %llu seconds: the clock is behind those "
             "that may have been given",
             (unsigned long long)wait_s);
    if (needs_move(s))
        begin_move(s, s->second);
    arm_next_second(s);
}

int
sequence_open(struct sequence *s, struct loop *loop, int live_fd,
              uint32_t reserve, uint32_t server_no)
{
    int rc;

    *s = (struct sequence){.loop = loop,
                           .job = {.run = move_mark, .done = mark_moved},
                           .timer = {.due = second_due},
                           .used_ms = loop_now_ms(loop)};
    tzset();
    list_init(&s->line);
    sequence_prefix(s->text, reserve, server_no);
    s->text[SEQUENCE_SIZE] = '\n';
    rc = sequence_mark_open(&s->mark, live_fd, reserve, server_no);
    s->refuses = rc == -EBADMSG; /* all else is served */
    if (rc == 0 || s->refuses)
        rc = io_start(&s->io, loop);
    if (rc < 0) {
        sequence_mark_close(&s->mark);
        return rc;
    }
    if (!s->refuses)
        begin_numbers(s);
    return 0;
}

void
sequence_close(struct sequence *s)
{
    loop_disarm(&s->timer);
    io_stop(&s->io);
    sequence_mark_close(&s->mark);
}

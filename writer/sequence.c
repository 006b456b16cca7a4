/* writer/sequence.c - see sequence.h. */
#include "writer/sequence.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"

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

/* ---- the mark ----------------------------------------------------------- */

static void
say_behind(struct sequence *s)
{
    const uint64_t now = clock_second(s);

    if (s->second > now + SEQUENCE_BEHIND_S)
        diag_repeating(&s->said_behind, DIAG_ERROR,
                       "the clock is %llu seconds behind the sequence numbers "
                       "that were given; they go on from there",
                       (unsigned long long)(s->second - now));
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
        diag_repeating(&s->said_failing, DIAG_ERROR,
                       "write live/%s: %s; sequence numbers are refused until "
                       "it works",
                       s->mark.name, diag_text(s->rc));
    else
        s->until = s->want;
    s->figures.moves += !s->failing;
    http_wake(&s->line);
    /* There is room for it: it has fired, or was armed once. */
    (void)loop_arm(s->loop, &s->timer,
                   loop_now_ms(s->loop) + SEQUENCE_RENEW_MS);
}

/* Moves the mark above `second`, and as far ahead of the clock as it is to be;
 * further where the disk takes long.  Not further ahead of a second which is
 * ahead itself: crash after crash would add up. */
static void
begin_move(struct sequence *s, uint64_t second)
{
    const uint64_t now = clock_second(s);
    uint64_t want = now + SEQUENCE_AHEAD_S;

    if (s->took_s > 1)
        want += s->took_s;
    if (want <= second)
        want = second + 1;
    s->want = want > s->until ? want : s->until;
    s->moving = true;
    s->began_ms = clock_ms();
    say_behind(s);
    io_push(&s->io, &s->job);
}

/* Half of what it was ahead is over. */
static void
renew_due(struct loop_timer *timer)
{
    struct sequence *s = LOOP_OWNER(timer, struct sequence, timer);
    const uint64_t now = loop_now_ms(s->loop);
    const uint64_t half = clock_second(s) + SEQUENCE_AHEAD_S / 2 + 1;

    if (s->moving || s->failing || now - s->used_ms > SEQUENCE_IDLE_MS)
        return;
    if (s->until <= half || s->until <= s->second)
        begin_move(s, s->second);
    else
        (void)loop_arm(s->loop, timer, now + SEQUENCE_RENEW_MS); /* it fired */
}

/* ---- numbers ------------------------------------------------------------ */

/* Whether numbers may be given up to this second; else the request waits for
 * it, or is refused, and *next says which. */
static bool
may_give(struct http_call *x, uint64_t second, enum conn_next *next)
{
    struct sequence *s = x->ctx;

    s->used_ms = loop_now_ms(s->loop);
    if (second < s->until)
        return true;
    if (s->refuses || second > SEQUENCE_SECOND_MAX ||
        (s->failing && !s->moving &&
         clock_ms() - s->began_ms < SEQUENCE_RETRY_MS)) {
        *next = http_fail(x, HTTP_UNAVAILABLE);
        return false;
    }
    if (!s->moving)
        begin_move(s, second);
    s->figures.waited++;
    *next = http_hold(x, &s->line);
    return false;
}

static uint8_t *
put_number(struct sequence *s, uint8_t *to)
{
    if (s->serial == SEQUENCE_SERIAL_MAX) {
        s->serial = 0;
        set_second(s, s->second + 1);
    }
    s->serial++;
    sequence_digits(s->text + SEQUENCE_SERIAL_AT, s->serial, 5);
    memcpy(to, s->text, SEQUENCE_LINE_SIZE);
    return to + SEQUENCE_LINE_SIZE;
}

static enum conn_next
give(struct http_call *x, uint32_t count)
{
    struct sequence *s = x->ctx;
    const uint64_t now = clock_second(s);
    const bool ends = s->serial + count > SEQUENCE_SERIAL_MAX;
    enum conn_next next;
    uint8_t *body;

    if (!http_may_change(x, &next))
        return next;
    if (now > s->second)
        set_second(s, now);
    if (!may_give(x, s->second + ends, &next))
        return next;
    body = http_body(x, (size_t)count * SEQUENCE_LINE_SIZE);
    if (!body)
        return CONN_FULL;
    for (uint32_t i = 0; i < count; i++)
        body = put_number(s, body);
    s->figures.given += count;
    return http_end(x, HTTP_OK, (size_t)count * SEQUENCE_LINE_SIZE);
}

static enum conn_next
fetch(struct http_call *x)
{
    return give(x, 1);
}

static enum conn_next
fetch_many(struct http_call *x)
{
    int64_t count;

    if (!http_number(x->value, &count) || count < 1 ||
        count > SEQUENCE_COUNT_MAX)
        return http_fail(x, HTTP_BAD_REQUEST);
    return give(x, (uint32_t)count);
}

static enum conn_next
explain(struct http_call *x)
{
    const char *text = (const char *)x->value.at;
    struct sequence_parts parts;
    char line[SEQUENCE_TEXT_SIZE];
    size_t size = 0;
    uint8_t *body;

    if (sequence_parse(text, x->value.size, &parts))
        size = sequence_explain(&parts, line);
    if (size == 0)
        return http_fail(x, HTTP_BAD_REQUEST);
    body = http_body(x, size);
    if (!body)
        return CONN_FULL;
    memcpy(body, line, size);
    return http_end(x, HTTP_OK, size);
}

const struct http_route sequence_routes[] = {
    {"/fetch", NULL, HTTP_GET | HTTP_POST, fetch},
    {"/fetch", "n", HTTP_GET | HTTP_POST, fetch_many},
    {"/explain", "sequence", HTTP_GET | HTTP_HEAD | HTTP_POST, explain},
};
const size_t sequence_route_count =
    sizeof sequence_routes / sizeof sequence_routes[0];

/* ---- open and close ----------------------------------------------------- */

/* Where numbers begin. */
static void
begin_at(struct sequence *s)
{
    uint64_t now = clock_second(s);

    /* Who was replaced may have promised as much. */
    if (s->mark.replaced)
        now += SEQUENCE_AHEAD_S;
    set_second(s, now > s->mark.until ? now : s->mark.until);
    s->until = s->mark.until;
}

int
sequence_open(struct sequence *s, struct loop *loop, int live_fd,
              uint32_t reserve, uint32_t server_no)
{
    int rc;

    *s = (struct sequence){.loop = loop,
                           .mark = {.fd = -1},
                           .job = {.run = move_mark, .done = mark_moved},
                           .timer = {.slot = -1, .due = renew_due},
                           .used_ms = loop_now_ms(loop)};
    tzset();
    http_line_init(&s->line);
    sequence_prefix(s->text, reserve, server_no);
    s->text[SEQUENCE_SIZE] = '\n';
    rc = io_start(&s->io, loop);
    if (rc < 0)
        return rc;
    rc = sequence_mark_open(&s->mark, live_fd, reserve, server_no);
    if (rc == -EBADMSG || rc == -ESTALE) {
        s->refuses = true; /* it was said; all else goes on */
        return 0;
    }
    if (rc < 0) {
        io_stop(&s->io);
        return rc;
    }
    begin_at(s);
    begin_move(s, s->second);
    return 0;
}

void
sequence_close(struct sequence *s)
{
    loop_disarm(s->loop, &s->timer);
    io_stop(&s->io);
    sequence_mark_close(&s->mark);
}

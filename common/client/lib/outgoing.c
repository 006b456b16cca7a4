/* common/client/lib/outgoing.c - see outgoing.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/lib/outgoing.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/client/lib/handle.h"

int
outgoing_want_times(struct handle_writing *w)
{
    if (w->times.minutes)
        return 0;
    w->times.minutes =
        calloc(w->capacity + OUTGOING_TIMES, sizeof *w->times.minutes);
    if (!w->times.minutes)
        return -ENOMEM;
    w->times.sent = w->times.minutes + w->capacity;
    return 0;
}

bool
outgoing_waits(const struct handle_writing *w)
{
    return w->buffered > 0 &&
           (w->silent || w->times.count + OUTGOING_PIECES <= OUTGOING_TIMES);
}

/* Of the message at a place behind `head`. */
static uint32_t
minute_of(const struct handle_writing *w, size_t behind)
{
    return w->times.minutes ? w->times.minutes[(w->head + behind) % w->capacity]
                            : 0;
}

/* How many messages from `behind` on, up to `end`, are of this minute. */
static size_t
count_equal(const struct handle_writing *w, size_t behind, size_t end,
            uint32_t minute)
{
    size_t at = behind;

    if (!w->times.minutes)
        return end - behind;
    while (at < end && minute_of(w, at) == minute)
        at++;
    return at - behind;
}

static void
add_piece(struct outgoing *out, uint8_t *bytes, size_t size, size_t *part)
{
    out->piece[out->count++] =
        (struct iovec){.iov_base = bytes + *part, .iov_len = size - *part};
    *part = 0;
}

void
outgoing_gather(const struct handle_writing *w, struct outgoing *out)
{
    const size_t size = w->layout.message_size;
    size_t part = w->part, time_part = w->times.part, at = 0, count;
    uint32_t minute = w->times.minute;

    for (out->count = 0; at < w->buffered && out->count + 2 <= OUTGOING_PIECES;
         at += count) {
        const size_t place = (w->head + at) % w->capacity;
        const size_t until_end = w->capacity - place;
        uint8_t *bytes = out->times[out->count];

        if (minute_of(w, at) != minute) {
            minute = minute_of(w, at);
            message_put_time(&w->layout, minute, bytes);
            add_piece(out, bytes, size, &time_part);
        }
        count = w->buffered - at < until_end ? w->buffered - at : until_end;
        count = count_equal(w, at, at + count, minute);
        add_piece(out, w->ring + place * size, count * size, &part);
    }
}

/* A whole time message is sent.  Only the last ones of a silent connection
 * matter. */
static void
count_time(struct handle_writing *w)
{
    struct outgoing_times *t = &w->times;

    if (t->count == OUTGOING_TIMES) {
        assert(w->silent);
        t->first = (t->first + 1) % OUTGOING_TIMES;
        t->count--;
    }
    t->sent[(t->first + t->count) % OUTGOING_TIMES] = t->number++;
    t->count++;
    t->minute = minute_of(w, 0);
    t->part = 0;
}

/* So many bytes of the ring are sent. */
static void
count_messages(struct handle_writing *w, size_t bytes)
{
    const size_t whole = (w->part + bytes) / w->layout.message_size;

    assert(whole <= w->buffered);
    w->part = (w->part + bytes) % w->layout.message_size;
    w->head = (w->head + whole) % w->capacity;
    w->buffered -= whole;
    w->times.number += (uint32_t)whole;
    if (w->silent) {
        w->fresh += whole;
        w->done += whole;
    } else {
        w->flight += whole;
    }
}

void
outgoing_sent(struct handle_writing *w, size_t bytes)
{
    const size_t size = w->layout.message_size;

    while (bytes > 0) {
        const bool is_time = minute_of(w, 0) != w->times.minute;
        size_t most =
            is_time ? size - w->times.part
                    : size * count_equal(w, 0, w->buffered, w->times.minute) -
                          w->part;

        if (most > bytes)
            most = bytes;
        bytes -= most;
        if (!is_time)
            count_messages(w, most);
        else if ((w->times.part += most) == size)
            count_time(w);
    }
}

bool
outgoing_expects_time(const struct handle_writing *w)
{
    return w->times.count > 0 &&
           w->times.sent[w->times.first] == w->times.answers;
}

bool
outgoing_take_answer(struct handle_writing *w)
{
    const bool is_time = outgoing_expects_time(w);

    w->times.answers++;
    if (is_time) {
        w->times.first = (w->times.first + 1) % OUTGOING_TIMES;
        w->times.count--;
    }
    return is_time;
}

uint64_t
outgoing_increments(const struct handle_writing *w, uint64_t messages)
{
    const struct outgoing_times *t = &w->times;
    uint64_t times = 0;

    while (
        times < t->count &&
        t->number -
                t->sent[(t->first + t->count - 1 - times) % OUTGOING_TIMES] <=
            messages)
        times++;
    return messages - times;
}

void
outgoing_reset(struct handle_writing *w)
{
    w->times.first = w->times.count = w->times.part = 0;
    w->times.minute = w->times.number = w->times.answers = 0;
}

/* common/client/lib/outgoing.h - libcountd: the messages that leave a handle, and
 * the time messages between them.
 *
 * Each place of the ring has the minute that its message is of, 0 for that in
 * which the server gets it.  A message whose minute is not the connection's is
 * preceded by a time message, which is made when it is sent: so each new
 * connection begins with the right one, and what waits in the ring is increments
 * only.  The server answers a time message as any other; `sent` has the numbers,
 * on their connection, of those that it has not answered, so that they are in no
 * count of increments.  A handle that was never given a time has neither.
 *
 * Called with the handle's lock held.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_LIB_OUTGOING_H
#define COUNTD_COMMON_CLIENT_LIB_OUTGOING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/wire/message.h"

#define OUTGOING_TIMES  16384 /* unanswered; more wait for answers */
#define OUTGOING_PIECES 32

struct handle_writing;

struct outgoing_times {
    uint32_t *minutes; /* of each place of the ring; NULL: no time was given */
    uint32_t *sent;    /* OUTGOING_TIMES numbers, from `first` on, `count` */
    size_t first, count;
    uint32_t minute;  /* minute that the connection is at */
    size_t part;      /* bytes sent of the time message before `head` */
    uint32_t number;  /* number of the connection's next message */
    uint32_t answers; /* on this connection; acknowledged only */
};

struct outgoing {
    struct iovec piece[OUTGOING_PIECES];
    size_t count;
    uint8_t times[OUTGOING_PIECES][MESSAGE_SIZE_MAX];
};

/* Makes room for minutes.  -ENOMEM */
int outgoing_want_times(struct handle_writing *w);

/* Something is to be sent, and may be. */
bool outgoing_waits(const struct handle_writing *w);

/* The unsent bytes, or the first of them. */
void outgoing_gather(const struct handle_writing *w, struct outgoing *out);

/* So many of these bytes were sent. */
void outgoing_sent(struct handle_writing *w, size_t bytes);

/* Takes an answer, if it is one to a time message; false: to an increment. */
bool outgoing_take_answer(struct handle_writing *w);

/* The next answer is one to a time message. */
bool outgoing_expects_time(const struct handle_writing *w);

/* Silent: how many of the last `messages` on this connection were
 * increments. */
uint64_t outgoing_increments(const struct handle_writing *w, uint64_t messages);

/* The connection is gone. */
void outgoing_reset(struct handle_writing *w);

#endif

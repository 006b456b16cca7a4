/* common/client/lib/handle.h - the inside of libcountd's handle.
 *
 * Two parts, each with its connection and lock, so that a long answer never
 * makes an increment wait: increments (increments.c), and questions that a
 * document answers (questions.c, document.c).
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_LIB_HANDLE_H
#define COUNTD_COMMON_CLIENT_LIB_HANDLE_H

#include <pthread.h>

#include "common/client/lib/countd.h"
#include "common/client/lib/http_client.h"
#include "common/client/lib/link.h"
#include "common/client/lib/outgoing.h"
#include "common/wire/message.h"

/* The only symbols a user of the library sees. */
#define PUBLIC __attribute__((visibility("default")))

#define QUESTION_MAX 61440 /* bytes of a request; countd-read takes more */

struct handle_asking {
    struct countd_http http;
    char question[QUESTION_MAX];
};

/* Increments wait in a ring of whole messages, from `head` on. */
struct handle_writing {
    pthread_mutex_t lock;
    struct link link;
    bool syncing; /* a call of countd_sync() is under way */
    bool nonblocking;
    int poll_fd; /* epoll of the connection, for countd_fd(); -1 */
    bool silent;
    uint64_t *sums; /* where the latest message of a name is: its number in the
                       handle's life + 1, in the one place of that name, which
                       another may take; NULL: equal keys are not summed */
    size_t sums_mask; /* places - 1, a power of two */
    struct layout layout;
    uint8_t *ring;
    size_t capacity; /* messages */
    size_t head;
    size_t buffered; /* messages not sent whole */
    size_t part;     /* bytes of `head` sent */
    struct outgoing_times times;
    uint64_t flight;  /* messages sent and not acknowledged; 0 if silent */
    uint64_t fresh;   /* silent: messages sent on this connection */
    uint64_t taken;   /* messages ever buffered */
    uint64_t done;    /* of `taken`: acknowledged, sent (silent) or lost */
    unsigned phase;   /* bytes of an answer that have come: 0 to 2 */
    bool failing;     /* the answer is FAIL */
    uint64_t lost;    /* increments lost and not fetched by countd_lost() */
    uint64_t breaks;  /* connections that took increments with them */
    int error;        /* errno of the last break, until sync or lost has it */
    uint64_t refused; /* increments refused, not fetched by countd_refused() */
    int refusal;      /* the error of the first of these */
};

struct countd {
    struct handle_writing writing;
    struct handle_asking asking;
};

/* Takes the options of an older or newer caller: structs whose first member is
 * their size.  `to` is `size` bytes; what `from` (may be NULL) does not have
 * is zero.  -EINVAL: it asks for what this version does not have. */
int handle_take_options(void *to, size_t size, const void *from);

#endif

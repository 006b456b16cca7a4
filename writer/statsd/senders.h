/* writer/statsd/senders.h - datagrams that their senders number.
 *
 * A sender may begin each datagram with the line countd.datagram.SENDER:N|g,
 * with N one more each time; any other StatsD server takes that for a gauge.
 * Gaps in the numbers are datagrams that the network lost; a number that comes
 * twice is one that it doubled.  One that comes late, within the last 64, fills
 * its gap.  A number far behind the last one is a sender that was restarted.
 *
 * Ownership: the caller's; no memory is allocated.  At most SENDERS_MAX senders
 * are followed; datagrams of further ones count and have no gaps. */
#ifndef COUNTD_WRITER_STATSD_SENDERS_H
#define COUNTD_WRITER_STATSD_SENDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/hash.h"

#define SENDERS_MAX     1024
#define SENDER_NAME_MAX 64 /* bytes; a longer name is not followed */
#define SENDER_WINDOW   64 /* numbers that may come out of order */

enum sender_count {
    SENDER_NUMBERED,
    SENDER_MISSING,
    SENDER_REPEATED,
    SENDER_COUNTS
};

struct sender {
    uint64_t last;                  /* highest number */
    uint64_t window;                /* bit i: last - i has arrived */
    int64_t changes[SENDER_COUNTS]; /* since they were last taken */
    uint8_t name_size;              /* 0: free */
    bool changed;
    uint8_t name[SENDER_NAME_MAX];
};

struct senders {
    struct hash_key hash_key;
    struct sender places[2 * SENDERS_MAX];
    size_t count;
    size_t changed; /* senders with changes */
    size_t next;    /* place that senders_take() goes on from */
};

void senders_note(struct senders *s, const uint8_t *name, size_t name_size,
                  uint64_t number);

/* A sender with changes, which the caller sets to 0 and marks as unchanged;
 * NULL: none has any. */
struct sender *senders_take(struct senders *s);

#endif

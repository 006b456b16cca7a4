/* writer/ingest.h - increments from sockets into the logs.
 *
 * Two ports.  The silent one never sends a byte: a client that sends and
 * closes has nothing unread that would turn its close into a reset.  The
 * acknowledging one sends WIN for each message once it is on disk.
 *
 * Messages that came since the last sync began are the collecting group;
 * those it covers are the group in flight.  A group of a few may be synced in
 * the loop, before it takes more: nobody is there whom that delays.  Replies
 * are all the same and in order, so a connection needs only its number of
 * messages in each of the two groups and the reply bytes earned and not sent:
 * no buffer, and a client that never reads costs nothing.
 *
 * A connection:
 *
 *   OPEN      reads.  End of input or a malformed message: ENDING
 *   ENDING    reads nothing; waits for its groups and sends what is owed, and
 *             FAIL after a malformed message.  Then it closes, or: DRAINING
 *   DRAINING  has shut down its side and discards what still comes, so that
 *             no reset overtakes FAIL; bounded in bytes and time
 *
 * On the silent port the last two are skipped.
 *
 * Ownership: struct ingest is the caller's; all memory is taken in
 * ingest_init().  It runs in the loop's thread.
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_INGEST_H
#define COUNTD_INGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/net/loop.h"
#include "common/net/net.h"
#include "common/wire/message.h"
#include "writer/logs.h"

enum ingest_port { INGEST_SILENT, INGEST_ACK, INGEST_PORTS };

struct ingest_figures {
    uint64_t connections;
    uint64_t messages;
    uint64_t bytes;
    uint64_t replies; /* WINs sent */
    uint64_t malformed;
    uint64_t partial_disconnects;
};

struct ingest_listener {
    struct listener listener;
    struct ingest *ingest;
    enum ingest_port port;
    bool on;
};

struct ingest {
    struct loop *loop;
    struct logs *logs;
    struct layout layout;
    struct ingest_listener ports[INGEST_PORTS];

    size_t max; /* connections of both ports */
    struct conn *conns;
    uint8_t *partials; /* one unfinished message per connection */
    uint8_t *buffer;   /* what one receive takes */

    struct list_link free;
    struct list_link open;      /* all that are not free */
    struct list_link waiting;   /* for an empty log */
    struct list_link draining;  /* by deadline */
    struct list_link groups[2]; /* connections with messages in them */
    int collecting;             /* which of the two */
    struct list_link earned;    /* connections to send replies to */

    struct loop_timer drain_timer;
    struct ingest_figures figures;

    bool stopping;
    bool replying; /* stopping, and nothing more is read */
    uint64_t quiet_since_ms;
    uint64_t waiting_since_ms; /* that somebody does, for a log */
    uint64_t stop_deadline_ms;
    struct loop_timer stop_timer;
    void (*stopped)(void *ctx);
    void *ctx;
};

/* Takes the memory for `max` connections.  `stopped` is called, with `ctx`,
 * when ingest_stop() is through. */
int ingest_init(struct ingest *in, struct loop *loop, struct logs *logs,
                size_t max, void (*stopped)(void *ctx), void *ctx);

/* Closes every connection as it stands. */
void ingest_fini(struct ingest *in);

/* Serves a listening socket, and owns it from now on. */
int ingest_listen(struct ingest *in, enum ingest_port port, int fd);

/* Takes a connected non-blocking socket, as if it had been accepted.  -EMFILE
 * when there are `max` already. */
int ingest_take(struct ingest *in, enum ingest_port port, int fd);

/* At the end of each turn of the loop: writes what came and has it synced when
 * somebody waits for it.  `alone`: the loop serves nobody else, so that a brief
 * sync may be done in it.  True: the next turn should not wait. */
bool ingest_turn(struct ingest *in, bool alone);

/* The events of struct logs that are ingest's. */
void ingest_ready(struct ingest *in);
void ingest_synced(struct ingest *in);

/* Stops accepting, takes in what has arrived for up to `drain_ms`, without the
 * time that it waits for logs, replies, closes all connections, calls
 * `stopped`. */
void ingest_stop(struct ingest *in, uint64_t drain_ms);

#endif

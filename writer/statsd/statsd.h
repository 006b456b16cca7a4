/* writer/statsd/statsd.h - StatsD and Graphite lines into the logs.
 *
 * Datagrams (statsd.listen), StatsD lines over TCP (statsd.tcp_listen) and
 * Graphite's plaintext lines (graphite.listen) are summed by name in memory and
 * flushed to the log as ordinary increments every `statsd.flush`:
 *
 *     lines -> sums (aggregate.h) -> flush: one slot for each name -> logs
 *
 * Of a total that grows what it has grown by is added (totals.h).
 *
 * Nothing is acknowledged.  SIGKILL loses at most one flush interval, of a total
 * up to its next sample; a clean stop reads what the sockets have queued, flushes
 * all of it, and leaves what the sums have below one, and the last samples of
 * totals, in live/statsd-rests and live/statsd-totals for the next start.
 *
 * Back-pressure: while no log has a free slot, sums go on.  When their memory
 * is used up, too, no socket is read: the kernel then drops datagrams, which
 * are counted, and TCP senders wait.
 *
 * Each flush also writes how many lines were received, ignored, malformed and
 * dropped, to the keyspaces countd.statsd and countd.graphite.
 *
 * Ownership: the caller's, from statsd_open() until statsd_close().  The
 * loop's thread.  Errors: 0 or a negative errno, reported through diag. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_STATSD_H
#define COUNTD_WRITER_STATSD_H

#include "common/net/conn.h"
#include "common/setup/config.h"
#include "common/wire/message.h"
#include "writer/logs.h"
#include "writer/statsd/aggregate.h"
#include "writer/statsd/datagram.h"
#include "writer/statsd/statsd_line.h"
#include "writer/statsd/totals.h"

#define STATSD_KEYSPACE   "countd.statsd"
#define GRAPHITE_KEYSPACE "countd.graphite"

#define STATSD_PATIENCE_MS 1000

/* Figures about the lines of one protocol; each protocol writes them into a
 * keyspace of its own. */
enum statsd_stat {
    STATSD_DATAGRAMS,
    STATSD_CONNECTIONS,
    STATSD_LINES, /* without empty ones */
    STATSD_BAD,
    STATSD_NO_MEMORY, /* lines that statsd.memory had no room for */
    STATSD_DROPPED,   /* datagrams, by the kernel */
    STATSD_NOT_ALLOWED,
    STATSD_TOO_LONG, /* datagrams above DATAGRAM_MAX */
    STATSD_ROUNDED,  /* names that left with a rest */
    STATSD_IGNORED,  /* of Graphite: no pattern matches */
    STATSD_IGNORED_GAUGE,
    STATSD_IGNORED_SET,
    STATSD_IGNORED_EVENT,
    STATSD_IGNORED_CHECK,
    STATSD_IGNORED_TIMER,
    STATSD_STATS
};

enum statsd_protocol {
    STATSD_LINE_PROTOCOL,
    GRAPHITE_LINE_PROTOCOL,
    STATSD_PROTOCOLS
};

/* Context of a listener for lines. */
struct statsd_port {
    struct statsd *statsd;
    enum statsd_protocol protocol;
};

struct statsd {
    struct loop *loop;
    struct logs *logs;
    const struct config *config;
    int live_fd; /* live/, borrowed; -1: rests are lost at a stop */
    struct datagrams datagrams;
    struct statsd_port ports[STATSD_PROTOCOLS];
    struct listener *listeners[STATSD_PROTOCOLS];
    struct aggregate sums;
    struct totals totals; /* on if a setting has patterns of them */
    bool on;

    uint64_t counts[STATSD_PROTOCOLS][STATSD_STATS];
    /* Of `counts`: written into the log. */
    uint64_t reported[STATSD_PROTOCOLS][STATSD_STATS];
    struct diag_repeat bad_warning, drop_warning, memory_warning;
    uint64_t warned_drops;
    enum statsd_protocol taken; /* of the line that is taken */

    struct loop_timer flush_timer;
    uint64_t flush_left; /* names of this flush that are not in the log yet */
    bool flushing;       /* names, then counts about them */
    bool pressed;        /* memory is short: sockets are not read */
    uint64_t age_ms;     /* clock: names idle since the last age leave */

    bool stopping;
    bool drained; /* stopping, and the sockets are empty */
    uint64_t stop_ms, give_up_ms;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

extern const struct protocol statsd_lines;

/* Begins, as datagram_begin(); datagram_bind() follows.  `config` must outlive
 * it. */
int statsd_begin(struct statsd *s, const struct config *config);

/* Begins to serve; the listeners for lines are those of the table.  `live_fd` is
 * borrowed until statsd_close(). */
int statsd_open(struct statsd *s, struct loop *loop, struct logs *logs,
                int live_fd, struct listener *const lines[STATSD_PROTOCOLS]);
void statsd_close(struct statsd *s);

/* At the end of each turn of the loop, before the commit.  True: do not wait
 * before the next one. */
bool statsd_turn(struct statsd *s);

/* Puts what has arrived into the log, as far as there are free slots. */
void statsd_flush(struct statsd *s);

/* Forgets all names and their rests, but those that wait for a flush. */
void statsd_forget(struct statsd *s);

/* Reads what the sockets have queued, for write.drain at most, flushes it, for
 * which it waits as long again and STATSD_PATIENCE_MS for free slots at most,
 * and calls `stopped`. */
void statsd_stop(struct statsd *s, void (*stopped)(void *ctx), void *ctx);

/* Lines that were ignored, of the counts of a protocol. */
uint64_t statsd_ignored(const uint64_t counts[STATSD_STATS]);

/* Reads the counts that the kernel and others keep. */
void statsd_read_counts(struct statsd *s);

/* ---- statsd_take.c ------------------------------------------------------ */

/* Takes one line, without its LF. */
void statsd_take_line(struct statsd *s, enum statsd_protocol protocol,
                      const uint8_t *line, size_t size);
void statsd_take_datagram(struct statsd *s, const uint8_t *bytes, size_t size);

/* Whether sums have memory for lines in `bytes` bytes, or as much as a flush
 * can free; if not, a flush begins and the sockets wait.  Names that need more
 * than there is then are lost, and counted. */
bool statsd_has_memory(struct statsd *s, size_t bytes);

/* ---- statsd_rests.c ----------------------------------------------------- */

/* Stores the rests of all sums, and the last samples of totals, for the next
 * start; reports why not. */
void statsd_rests_write(const struct statsd *s);

/* Takes what the last stop left, and empties the files. */
void statsd_rests_read(struct statsd *s);

#endif

/* common/setup/status.h - the statistics of the daemons on data/board: their
 * names, owners and places.
 *
 * The writer is master of the board.  Slots 0 to STATUS_SLOTS - 1 are for
 * daemons: each claims the one cell of a free slot, and one more for each of
 * its listeners.  The slots behind them are for the logs, by index, and use the
 * shared part.  A table of names for each kind of row says what its values are;
 * SIGUSR1 prints the same row.
 *
 * Daemons put their statistics a few times a second; nothing here is called per
 * message or request.  Daemons run without a board, too: status_put() then
 * does nothing.
 *
 * Ownership: struct status is the caller's.  One thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_STATUS_H
#define COUNTD_COMMON_SETUP_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/board/countd_board.h"
#include "common/net/conn.h"

#define STATUS_FILE     "board"
#define STATUS_SLOTS    96
#define STATUS_LOGS     1024 /* of further ones nothing is shown */
#define STATUS_VALUES   40   /* of a row */
#define STATUS_TICK_MS  250  /* a daemon puts its statistics so often */
#define STATUS_PATH_MAX 4096

enum status_kind {
    STATUS_NONE,
    STATUS_WRITER,
    STATUS_WORKER,
    STATUS_READER,
    STATUS_LISTENER,
    STATUS_KINDS
};

/* The first values of every row; its own follow. */
enum { STATUS_KIND, STATUS_STARTED_MS, STATUS_BEAT_MS, STATUS_FIRST };

#define STATUS_NAME_VALUES 2 /* of a listener, which begin with its name */

/* Values of a log's shared part. */
enum {
    STATUS_LOG_STATE, /* enum status_log */
    STATUS_LOG_EPOCH,
    STATUS_LOG_MESSAGES, /* -1: not known */
    STATUS_LOG_OWNER,    /* pid; 0: none, or unknown */
    STATUS_LOG_SINCE_MS, /* Unix time of the first message; 0: none */
    STATUS_LOG_VALUES
};

enum status_log {
    STATUS_LOG_NONE,
    STATUS_LOG_EMPTY,
    STATUS_LOG_OPEN,
    STATUS_LOG_FULL,
    STATUS_LOG_MERGING,
    STATUS_LOG_STATES
};

/* The values of each kind of row, after those that all begin with: what the
 * source calls one, and the name under which users and programs see it.
 * "http_replayed" counts answers to a repeated Idempotency-Key, "commands"
 * those of Redis clients, "http_2xx" responses by class of status.  "waiting"
 * is 1 while the machine cannot take a merge (full disk), "held_now" while
 * something is held; "held_bad" counts damaged files of held records; "older"
 * is 1 while keyspace/ is older than log/; "last_error" is the errno that the
 * worker waited for last, or 0.  The name of a listener is bytes, NUL-padded.
 */
#define STATUS_WRITER_VALUES(X)                                                \
    X(STATUS_W_MESSAGES, "messages")                                           \
    X(STATUS_W_BYTES, "bytes")                                                 \
    X(STATUS_W_CONNECTIONS, "connections")                                     \
    X(STATUS_W_REPLIES, "replies")                                             \
    X(STATUS_W_MALFORMED, "malformed")                                         \
    X(STATUS_W_PARTIAL, "partial_disconnects")                                 \
    X(STATUS_W_APPENDS, "appends")                                             \
    X(STATUS_W_SYNCS, "syncs")                                                 \
    X(STATUS_W_SYNCS_HERE, "syncs_here")                                       \
    X(STATUS_W_LOGS, "logs")                                                   \
    X(STATUS_W_PUSHED_BACK, "pushed_back")                                     \
    X(STATUS_W_SYNC_US, "sync_us")                                             \
    X(STATUS_W_OBJECTS, "objects")                                             \
    X(STATUS_W_NO_MEMORY, "no_memory")                                         \
    X(STATUS_W_QUARANTINED, "quarantined")                                     \
    X(STATUS_W_DISK_FREE, "disk_free")                                         \
    X(STATUS_W_DISK_SIZE, "disk_size")                                         \
    X(STATUS_W_STATSD_DATAGRAMS, "statsd_datagrams")                           \
    X(STATUS_W_STATSD_DROPPED, "statsd_dropped")                               \
    X(STATUS_W_STATSD_DROPPED_MS, "statsd_dropped_ms")                         \
    X(STATUS_W_STATSD_LINES, "statsd_lines")                                   \
    X(STATUS_W_STATSD_BAD, "statsd_bad")                                       \
    X(STATUS_W_STATSD_IGNORED, "statsd_ignored")                               \
    X(STATUS_W_STATSD_NO_MEMORY, "statsd_no_memory")                           \
    X(STATUS_W_GRAPHITE_LINES, "graphite_lines")                               \
    X(STATUS_W_GRAPHITE_BAD, "graphite_bad")                                   \
    X(STATUS_W_GRAPHITE_IGNORED, "graphite_ignored")                           \
    X(STATUS_W_HTTP_REPLAYED, "http_replayed")                                 \
    X(STATUS_W_SEQUENCE_GIVEN, "sequence_given")                               \
    X(STATUS_W_SEQUENCE_WAITED, "sequence_waited")                             \
    X(STATUS_W_QUOTA_APPLIED, "quota_applied")                                 \
    X(STATUS_W_QUOTA_CANCELLED, "quota_cancelled")                             \
    X(STATUS_W_QUOTA_REFUSED, "quota_refused")                                 \
    X(STATUS_W_QUOTA_OTHER, "quota_other")                                     \
    X(STATUS_W_QUOTA_REPEATED, "quota_repeated")                               \
    X(STATUS_W_QUOTA_UNAVAILABLE, "quota_unavailable")                         \
    X(STATUS_W_QUOTA_FAILURES, "quota_failures")

#define STATUS_WORKER_VALUES(X)                                                \
    X(STATUS_M_LOGS, "logs")                                                   \
    X(STATUS_M_RECORDS, "records")                                             \
    X(STATUS_M_ZEROS, "zeros")                                                 \
    X(STATUS_M_KEYSPACES, "keyspaces")                                         \
    X(STATUS_M_KEYS, "keys")                                                   \
    X(STATUS_M_CREATED, "created")                                             \
    X(STATUS_M_SATURATED, "saturated")                                         \
    X(STATUS_M_HELD, "held")                                                   \
    X(STATUS_M_UNHELD, "unheld")                                               \
    X(STATUS_M_HELD_DAMAGED, "held_damaged")                                   \
    X(STATUS_M_QUARANTINED, "quarantined")                                     \
    X(STATUS_M_RECOVERED, "recovered")                                         \
    X(STATUS_M_ARCHIVED, "archived")                                           \
    X(STATUS_M_MERGE_US, "merge_us")                                           \
    X(STATUS_M_WAITING, "waiting")                                             \
    X(STATUS_M_HELD_NOW, "held_now")                                           \
    X(STATUS_M_HELD_BAD, "held_bad")                                           \
    X(STATUS_M_OLDER, "older")                                                 \
    X(STATUS_M_LAST_ERROR, "last_error")

#define STATUS_READER_VALUES(X)                                                \
    X(STATUS_R_REQUESTS, "requests")                                           \
    X(STATUS_R_LISTINGS, "listings")                                           \
    X(STATUS_R_UNREADABLE, "unreadable")                                       \
    X(STATUS_R_AS_OF_MS, "as_of_ms")                                           \
    X(STATUS_R_COMMANDS, "commands")                                           \
    X(STATUS_R_FORWARDED, "forwarded")                                         \
    X(STATUS_R_ACKS_DUE, "acks_due")                                           \
    X(STATUS_R_REFUSED, "refused")                                             \
    X(STATUS_R_UNSURE, "unsure")                                               \
    X(STATUS_R_LAST_ANSWERS, "last_answers")

#define STATUS_LISTENER_VALUES(X)                                              \
    X(STATUS_L_NAME, "name")                                                   \
    X(STATUS_L_NAME_REST, "name_rest")                                         \
    X(STATUS_L_OPEN, "open")                                                   \
    X(STATUS_L_CONNECTIONS, "connections")                                     \
    X(STATUS_L_RECEIVED, "received")                                           \
    X(STATUS_L_SENT, "sent")                                                   \
    X(STATUS_L_MALFORMED, "malformed")                                         \
    X(STATUS_L_BROWSERS, "browsers")                                           \
    X(STATUS_L_TURNED_AWAY, "turned_away")                                     \
    X(STATUS_L_NOT_ALLOWED, "not_allowed")                                     \
    X(STATUS_L_YIELDED, "yielded")                                             \
    X(STATUS_L_EVICTED, "evicted")                                             \
    X(STATUS_L_LATE, "late")                                                   \
    X(STATUS_L_CUT_OFF, "cut_off")                                             \
    X(STATUS_L_HTTP_2XX, "http_2xx")                                           \
    X(STATUS_L_HTTP_3XX, "http_3xx")                                           \
    X(STATUS_L_HTTP_4XX, "http_4xx")                                           \
    X(STATUS_L_HTTP_5XX, "http_5xx")

/* STATUS_W_MESSAGES = STATUS_FIRST, ..., STATUS_W_END. */
#define STATUS_CONSTANT(constant, name) constant,
#define STATUS_ENUM(letter, VALUES)                                            \
    enum {                                                                     \
        STATUS_##letter##_BEFORE = STATUS_FIRST - 1,                           \
        VALUES(STATUS_CONSTANT) STATUS_##letter##_END                          \
    }

STATUS_ENUM(W, STATUS_WRITER_VALUES);
STATUS_ENUM(M, STATUS_WORKER_VALUES);
STATUS_ENUM(R, STATUS_READER_VALUES);
STATUS_ENUM(L, STATUS_LISTENER_VALUES);

/* Name of a value of a row, NULL behind the last one. */
const char *status_name(enum status_kind kind, size_t value);
const char *status_kind_name(enum status_kind kind);
const char *status_log_name(int64_t state);

/* A row of this process. */
struct status_row {
    enum status_kind kind;
    uint32_t slot;
    uint64_t epoch; /* of the board it is claimed on; 0: none */
    int64_t values[STATUS_VALUES];
};

struct status {
    char path[STATUS_PATH_MAX];
    struct countd_board *board; /* NULL: none */
    uint64_t epoch;             /* of it */
    bool master;
    bool reported; /* that there is none */
    uint64_t started_ms;
};

/* For the writer: makes the board.  A directory without one is served as well:
 * the reason is said. */
void status_create(struct status *s, const char *data_dir);

/* For the others: they attach when there is one. */
void status_init(struct status *s, const char *data_dir);
void status_close(struct status *s);

/* Puts a row; row->values from STATUS_FIRST on are the caller's.  Claims a slot
 * at the first call, and after the board was made anew. */
void status_put(struct status *s, struct status_row *row);

/* Sets the values of a log (STATUS_LOG_VALUES), if they are others than
 * there. */
void status_put_log(struct status *s, uint64_t index, const int64_t *values);

/* Reads the values of a log; all zero if they cannot be read. */
void status_get_log(struct status *s, uint64_t index, int64_t *values);

/* Prints a row as SIGUSR1 does: `before`, then NAME=VALUE ... */
void status_print(const char *before, const struct status_row *row);

/* Fills the row of a listener. */
void status_fill_listener(struct status_row *row, const struct listener *d);

/* The shape of the board, for those who make or read it. */
void status_shape(struct countd_board_shape *out);

#endif

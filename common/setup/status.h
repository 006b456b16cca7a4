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
#define STATUS_TICK_MS  250  /* a daemon puts its figures so often */
#define STATUS_PATH_MAX 4096

enum status_kind {
    STATUS_NONE,
    STATUS_WRITER,
    STATUS_WORKER,
    STATUS_READER,
    STATUS_LISTENER,
    STATUS_KINDS
};

/* The first values of every row; its own figures follow. */
enum { STATUS_KIND, STATUS_STARTED_MS, STATUS_BEAT_MS, STATUS_FIRST };

/* The first two values of a listener are its name, as bytes, NUL-padded. */
#define STATUS_NAME_VALUES 2

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

/* Figures of the writer that others look for. */
enum {
    STATUS_W_MESSAGES = STATUS_FIRST,
    STATUS_W_BYTES,
    STATUS_W_CONNECTIONS,
    STATUS_W_REPLIES,
    STATUS_W_MALFORMED,
    STATUS_W_PARTIAL,
    STATUS_W_APPENDS,
    STATUS_W_SYNCS,
    STATUS_W_SYNCS_HERE,
    STATUS_W_LOGS,
    STATUS_W_PUSHED_BACK,
    STATUS_W_SYNC_US,
    STATUS_W_OBJECTS,
    STATUS_W_NO_MEMORY,
    STATUS_W_QUARANTINED,
    STATUS_W_DISK_FREE,
    STATUS_W_DISK_SIZE,
    STATUS_W_STATSD_DATAGRAMS,
    STATUS_W_STATSD_DROPPED,
    STATUS_W_STATSD_LINES,
    STATUS_W_STATSD_BAD,
    STATUS_W_STATSD_IGNORED,
    STATUS_W_GRAPHITE_LINES,
    STATUS_W_GRAPHITE_BAD,
    STATUS_W_GRAPHITE_IGNORED,
    STATUS_W_HTTP_REPLAYED, /* from their Idempotency-Key */
    STATUS_W_SEQUENCE_GIVEN,
    STATUS_W_SEQUENCE_WAITED,
    STATUS_W_QUOTA_APPLIED, /* this and those up to FAILURES are of quotas */
    STATUS_W_QUOTA_CANCELLED,
    STATUS_W_QUOTA_REFUSED,
    STATUS_W_QUOTA_OTHER,
    STATUS_W_QUOTA_REPEATED,
    STATUS_W_QUOTA_UNAVAILABLE,
    STATUS_W_QUOTA_FAILURES,
    STATUS_W_END
};

/* Values of a worker. */
enum {
    STATUS_M_LOGS = STATUS_FIRST,
    STATUS_M_RECORDS,
    STATUS_M_ZEROS,
    STATUS_M_KEYSPACES,
    STATUS_M_KEYS,
    STATUS_M_CREATED,
    STATUS_M_SATURATED,
    STATUS_M_HELD,
    STATUS_M_UNHELD,
    STATUS_M_HELD_DAMAGED,
    STATUS_M_QUARANTINED,
    STATUS_M_RECOVERED,
    STATUS_M_ARCHIVED,
    STATUS_M_MERGE_US,
    STATUS_M_WAITING,    /* 1: the machine cannot now (full disk) */
    STATUS_M_HELD_NOW,   /* 1: something is held */
    STATUS_M_HELD_BAD,   /* files of held records that have damage */
    STATUS_M_LAST_ERROR, /* errno of what it had to wait for last; 0 */
    STATUS_M_END
};

/* Values of a reader. */
enum {
    STATUS_R_REQUESTS = STATUS_FIRST,
    STATUS_R_LISTINGS,
    STATUS_R_UNREADABLE,
    STATUS_R_AS_OF_MS,
    STATUS_R_COMMANDS, /* of Redis clients */
    STATUS_R_FORWARDED,
    STATUS_R_ACKS_DUE,
    STATUS_R_REFUSED,
    STATUS_R_UNSURE,
    STATUS_R_LAST_ANSWERS,
    STATUS_R_END
};

/* Values of a listener, after its name. */
enum {
    STATUS_L_OPEN = STATUS_FIRST + STATUS_NAME_VALUES,
    STATUS_L_CONNECTIONS,
    STATUS_L_RECEIVED,
    STATUS_L_SENT,
    STATUS_L_MALFORMED,
    STATUS_L_BROWSERS,
    STATUS_L_TURNED_AWAY,
    STATUS_L_NOT_ALLOWED,
    STATUS_L_YIELDED,
    STATUS_L_EVICTED,
    STATUS_L_LATE,
    STATUS_L_CUT_OFF,
    STATUS_L_HTTP_2XX, /* responses by class of status; of HTTP alone */
    STATUS_L_HTTP_3XX,
    STATUS_L_HTTP_4XX,
    STATUS_L_HTTP_5XX,
    STATUS_L_END
};

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
    bool said; /* that there is none */
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

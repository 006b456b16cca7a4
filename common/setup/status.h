/* common/setup/status.h - the figures of the daemons on data/board: their
 * names, owners and places.
 *
 * The writer is master of the board.  Slots 0 to STATUS_SLOTS - 1 are for
 * daemons: each claims the one cell of a free slot, and one more for each of
 * its listeners and kinds of live names.  The slots behind them are for the
 * logs, by index, and use the shared part.  The values of a row are figures
 * (figures.h); SIGUSR1 prints the same row.
 *
 * Daemons put their figures a few times a second; nothing here is called per
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
#define STATUS_NAME     16   /* bytes of the name of a row, or fewer */
#define STATUS_TICK_MS  250  /* writer and worker put figures so often */
#define STATUS_PATH_MAX 4096

enum status_kind {
    STATUS_NONE,
    STATUS_WRITER,
    STATUS_WORKER,
    STATUS_READER,
    STATUS_LISTENER,
    STATUS_LIVE,
    STATUS_KINDS, /* on the board; behind them those of figures without one */
    STATUS_DIRECTORY = STATUS_KINDS,
    STATUS_PROCESS,
    STATUS_SCRAPE
};

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

/* The figures by number: STATUS_ALIVE, STATUS_W_MESSAGES, ... */
enum status_figure {
#define FIGURE(kind, constant, ...) STATUS_##constant,
#include "common/setup/figures.def"
    STATUS_FIGURES
};

/* A cell: the kind of the row, the times of its process's start and of the last
 * put, that of the put by clock_ms(), a name of 16 bytes, then the figures of its
 * kind in their order. */
enum {
    STATUS_CELL_KIND,
    STATUS_CELL_STARTED_MS,
    STATUS_CELL_BEAT_MS,
    STATUS_CELL_STEADY_MS, /* 0: an earlier version put it */
    STATUS_CELL_NAME,
    STATUS_CELL_FIGURES = 6,
    STATUS_CELL_VALUES = 56
};

const char *status_kind_name(enum status_kind kind);

static inline bool
status_is_daemon(enum status_kind kind)
{
    return kind >= STATUS_WRITER && kind <= STATUS_READER;
}

/* A row of this process. */
struct status_row {
    enum status_kind kind;
    uint32_t slot;
    uint64_t epoch; /* epoch of the board it is claimed on; 0: none */
    char name[STATUS_NAME + 1];     /* name of a port or a kind of live names */
    int64_t values[STATUS_FIGURES]; /* figures of its kind */
};

struct status {
    char path[STATUS_PATH_MAX];
    struct countd_board *board; /* NULL: none */
    uint64_t epoch;             /* epoch of the board */
    bool master;
    bool reported; /* it was reported that there is no board */
    uint64_t started_ms;
};

/* For the writer: makes the board.  A directory without one is served as well:
 * the reason is said. */
void status_create(struct status *s, const char *data_dir);

/* For the others: they attach when there is one. */
void status_init(struct status *s, const char *data_dir);
void status_close(struct status *s);

/* Puts a row; its kind, name and values are the caller's.  Claims a slot at the
 * first call, and after the board was made anew. */
void status_put(struct status *s, struct status_row *row);

/* Sets the values of a log (STATUS_LOG_VALUES) if they have changed. */
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

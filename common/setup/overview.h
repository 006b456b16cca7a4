/* common/setup/overview.h - state of the daemons of a data directory, as read
 * from data/board.
 *
 * Only the board is read: no daemon is contacted, and nothing is written.  The
 * board is readable after the writer has died; `alive` is then false.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_OVERVIEW_H
#define COUNTD_COMMON_SETUP_OVERVIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/setup/status.h"
#include "common/wire/table_write.h"

#define OVERVIEW_LAG_MS     60000  /* more needs an operator */
#define OVERVIEW_SILENT_MS  60000  /* a silent daemon needs one, too */
#define OVERVIEW_HUNG_MS    5000   /* countd-write, which never waits as long */
#define OVERVIEW_RECENT_MS  600000 /* a loss so recent needs one, too */
#define OVERVIEW_COMMIT_MS  1000   /* a slower database needs one, too */
#define OVERVIEW_CLOCK_MS   1000   /* as does a clock that is off more */
#define OVERVIEW_GRACE_MS   3000   /* for daemons to find a new board */
#define OVERVIEW_DISK_SHARE 20     /* a twentieth free is nearly full */
#define OVERVIEW_TEXT       200

/* A row of the board, or the first one: of the directory.  Of the process's
 * figures STATUS_ALIVE may be FIGURE_UNKNOWN: then it is neither dead nor
 * healthy, and only its silence is judged. */
struct overview_row {
    enum status_kind kind;
    pid_t pid;                  /* pid; in the directory's row the writer's */
    uint32_t slot;              /* its place on the board */
    char name[STATUS_NAME + 1]; /* printable; or empty */
    int64_t values[STATUS_FIGURES];
};

struct overview {
    struct countd_board *board;
    char path[STATUS_PATH_MAX];
    uint64_t created_ms;
    uint64_t now_ms;
    struct overview_row rows[1 + STATUS_SLOTS];
    size_t count;
};

/* Says why there is nothing to see and returns an exit status. */
int overview_open(struct overview *o, const char *data_dir);

/* The same, but says nothing: overview_read() tells whether there is a board,
 * also one that is made later. */
void overview_init(struct overview *o, const char *data_dir);
void overview_close(struct overview *o);

/* Reads it all; opens the board anew when the writer has made another.  0 or
 * -errno. */
int overview_read(struct overview *o);

/* A figure of the directory: STATUS_D_LAG_MS, ... */
static inline int64_t
overview_fact(const struct overview *o, enum status_figure figure)
{
    return o->rows[0].values[figure];
}

/* Whether the process of a row has died, as far as it can be seen. */
static inline bool
overview_is_dead(const struct overview_row *r)
{
    return r->values[STATUS_ALIVE] == 0;
}

/* Whether countd-write is there and at work. */
bool overview_writer_works(const struct overview *o);

/* What needs an operator, or is worth knowing: calls `each` for every such thing,
 * in words.  Returns how many need one. */
int overview_troubles(const struct overview *o,
                      void (*each)(void *ctx, const char *text), void *ctx);

/* Writes all of it for programs, as `countd status --json` and /v1/status have
 * it: facts, a row for each figure of a process, and in JSON a list "sentences"
 * with a row for each trouble. */
void overview_write(const struct overview *o, struct table_writer *t);

#endif

/* common/client/cmd/key_history.h - for countd explain: all that history has
 * of a key, beside what archived logs have of it.
 *
 * There is a row for each step in which there is either.  The step is the longest
 * of a day, an hour and a minute that the keyspace has, of UTC, as it is kept.
 * An increment from a clock far ahead may be in another step of history than its
 * time says (countd-raw(7)): the caller adds it at the time of its receipt.
 *
 * Ownership: the caller's, all zero at first.  Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_CMD_KEY_HISTORY_H
#define COUNTD_COMMON_CLIENT_CMD_KEY_HISTORY_H

#include "common/client/cmd/cmd_data.h"
#include "common/client/cmd/cmd_terminal.h"

struct key_history_row {
    int64_t start; /* Unix seconds */
    bool any;      /* history has increments */
    int128 sum;    /* sum of these */
    int128 logged; /* sum of increments in archived logs */
};

struct key_history {
    bool kept;     /* the keyspace has history */
    int64_t step;  /* seconds */
    int64_t since; /* what came before is not in it; 0: all is */
    int128 sum;
    struct key_history_row *rows; /* which the caller frees */
    size_t count, capacity;
    size_t found; /* by key_history_add() last */
};

/* Reads what history has, in the caller's turn; errors as of store_history(). */
int key_history_read(struct key_history *p, struct store *store,
                     const struct increment_name *keyspace,
                     const struct increment_name *key, uint64_t now_ms);

/* Adds an increment of an archived log.  -ENOMEM */
int key_history_add(struct key_history *p, uint64_t received_ms,
                    int64_t increment);

/* Rows by time, facts, and sentences for people. */
void key_history_print(struct key_history *p, struct output *o, bool utc);
void key_history_facts(const struct key_history *p, struct output *o,
                       int64_t count);
void key_history_summarize(const struct key_history *p, int64_t count,
                           bool utc);

#endif

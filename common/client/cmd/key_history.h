/* common/client/cmd/key_history.h - all that history has of a key, beside what
 * archived logs have of it: a row for each step in which there is either.
 *
 *     key_history_read(&p, store, &keyspace, &key, now_ms);
 *     key_history_add(&p, received_ms, increment);      for each archived one
 *     key_history_sort(&p);
 *
 * The step is the longest of a day, an hour and a minute that the keyspace has,
 * of UTC, as it is kept.  An increment of a clock far ahead may be in another
 * step of history than its time says (countd.conf.5).
 *
 * Ownership: struct key_history is the caller's; all zeros is an empty one.
 * Errors: 0 or a negative errno. */
#ifndef COUNTD_COMMON_CLIENT_CMD_KEY_HISTORY_H
#define COUNTD_COMMON_CLIENT_CMD_KEY_HISTORY_H

#include "common/base/bytes.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/output.h"
#include "common/store/store.h"

struct key_history_row {
    int64_t start; /* Unix seconds */
    bool any;      /* history has increments */
    int128 sum;    /* of them */
    int128 logged; /* of those in archived logs */
};

struct key_history {
    bool kept;     /* the keyspace has history */
    int64_t step;  /* seconds */
    int64_t since; /* what came before is not in it; 0: all is */
    int128 sum;
    struct key_history_row *rows;
    size_t count, room;
    size_t found; /* by key_history_add() last */
};

/* Reads anew.  No such keyspace, or one without history: !p->kept.
 *   -ENOMEM, -EBADMSG, ... as of store_history() */
int key_history_read(struct key_history *p, struct store *store,
                     const struct cmd_name *keyspace,
                     const struct cmd_name *key, uint64_t now_ms);
void key_history_free(struct key_history *p);

/* -ENOMEM */
int key_history_add(struct key_history *p, uint64_t received_ms,
                    int64_t increment);

/* By time, when all are added. */
void key_history_sort(struct key_history *p);

/* The rows as a table of their own, or as the list `history`; not as TSV, which
 * has one table, and countd history --tsv the other. */
void key_history_print(const struct key_history *p, struct output *o, bool utc);

/* Print what history contains of `count`: facts for programs, sentences for
 * people. */
void key_history_facts(const struct key_history *p, struct output *o,
                       int64_t count);
void key_history_summarize(const struct key_history *p, int64_t count,
                           bool utc);

#endif

/* reader/read_commands.h - the commands of GET /v1/COMMAND, for read_http.c
 * and the files that implement them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_READ_COMMANDS_H
#define COUNTD_READER_READ_COMMANDS_H

#include "reader/read_job.h"

/* Why there is no answer. */
struct read_problem {
    enum http_status status;
    const char *code, *detail;
};

struct read_command {
    const char *path;
    struct http_params_spec spec;
    int64_t n, length;        /* where they are not given */
    enum store_history_op op; /* of read_period_step() */
    bool has_prefix;          /* an answer says it, also if it is empty */

    /* A step of the job that makes the answer: true when `answer` can write it.
     * NULL: it is answered at once. */
    bool (*step)(struct read_request *a, uint64_t until_ns);

    /* Whether this request is, if `step` is there; NULL: each. */
    bool (*is_long)(const struct read_request *a);

    bool is_plain; /* of no keyspace's state: it has no version */

    /* Writes the answer; NULL, or why there is none. */
    const struct read_problem *(*answer)(struct read_request *a);
};

extern const struct read_command read_commands[READ_COMMANDS];

/* ---- for the commands ---------------------------------------------------- */

/* Reads the state of the keyspace that is asked about.  False: there is none, or
 * it cannot be read: the answer will say so. */
bool read_state(struct read_request *a);

/* Has that state, which may have been read for the version just now.  NULL, or
 * why there is no answer about the keyspace. */
const struct read_problem *read_need_keyspace(struct read_request *a);

/* Runs a query about the keyspace of the request, unless it names another, which
 * is answered at once.  False: read_failure() says why.  A keyspace that is not
 * there has no rows. */
bool read_run_query(struct read_request *a, struct store_query *q);

/* Why the last query was not answered: the keyspace is damaged (500), or a
 * server of an engine elsewhere does not answer (503).  Valid until the next
 * query. */
const struct read_problem *read_failure(const struct read_request *a);

extern const struct read_problem read_no_keyspace;

/* The facts that answers begin with, which are the names of the request, and
 * end with. */
void read_begin_facts(struct read_request *a);
void read_end_facts(struct read_request *a);

/* A number of an answer, and its name. */
struct read_number {
    const char *name;
    struct cell value;
};

/* Puts the numbers of an answer that has no rows, and its end: they are facts,
 * and the first `columns` of them, READ_NUMBERS at most, are a row of columns. */
#define READ_NUMBERS 3
void read_put_numbers(struct read_request *a, const struct read_number *numbers,
                      size_t columns, size_t count);

/* The next page begins behind the name of this row. */
void read_set_next(struct read_request *a, const struct query_row *last);

/* Reads the board.  False: there is none. */
bool read_board(struct read_http *h);

/* Commands about history, and the list of keyspaces. */
bool read_history_step(struct read_request *a, uint64_t until_ns);
const struct read_problem *read_history(struct read_request *a);
bool read_period_step(struct read_request *a, uint64_t until_ns);
/* Whether a time is given; whether that, or some of the keys; and whether none is
 * where one need not be, so that the answer is about counts of all time. */
bool read_is_period(const struct read_request *a);
bool read_is_long(const struct read_request *a);
bool read_is_of_all_time(const struct read_request *a);
const struct read_problem *read_total_of_keys(struct read_request *a);
const struct read_problem *read_period_top(struct read_request *a);
const struct read_problem *read_period_rank(struct read_request *a);
const struct read_problem *read_distinct(struct read_request *a);
bool read_sums_step(struct read_request *a, uint64_t until_ns);
const struct read_problem *read_sums(struct read_request *a);
bool read_keyspaces_step(struct read_request *a, uint64_t until_ns);
const struct read_problem *read_keyspaces(struct read_request *a);

/* Commands about the state of the data directory. */
const struct read_problem *read_status(struct read_request *a);
const struct read_problem *read_held(struct read_request *a);
bool read_logs_step(struct read_request *a, uint64_t until_ns);
const struct read_problem *read_logs(struct read_request *a);

/* /metrics, of which the steps are those of user_metrics.h. */
const struct read_problem *read_metrics(struct read_request *a);

#endif

/* reader/graphite/functions.h - the functions of targets, as one table: what
 * arguments they take, what /functions says of them, and what computes them.
 *
 * A call is checked before anything is read (functions_bind); it is computed
 * series by series, so that a turn of the loop does as much as it likes
 * (functions_step).
 *
 * Ownership: calls are pieces of a scratch and point into their target.  Pure.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_FUNCTIONS_H
#define COUNTD_READER_GRAPHITE_FUNCTIONS_H

#include "common/wire/json_write.h"
#include "reader/graphite/series.h"

#define FUNCTIONS_PARAMS     4
#define FUNCTIONS_JSON_MAX   32768  /* bytes of what /functions says */
#define FUNCTIONS_TOP_MAX    100    /* keys of topKeys */
#define FUNCTIONS_WINDOW_MAX 100000 /* points */

enum function_type {
    FUNCTION_SERIES,
    FUNCTION_DIVISOR, /* a series that is not one of the call's */
    FUNCTION_TOTAL,   /* the same, or a number */
    FUNCTION_STRING,
    FUNCTION_NODE,
    FUNCTION_COUNT, /* an integer of at least 0 */
    FUNCTION_NUMBER,
    FUNCTION_INTERVAL,
    FUNCTION_SHIFT,  /* an interval with a sign, usually - */
    FUNCTION_WINDOW, /* an interval or a number of points */
    FUNCTION_AGGREGATE,
    FUNCTION_BOOL
};

struct function_param {
    const char *name;
    enum function_type type;
    bool is_optional;
    bool is_multiple;           /* the last one: one or more of it */
    const char *const *options; /* of an aggregate, the default first; ends
                                   with NULL */
    int fallback;               /* value of a number that is not given */
};

/* What a target is about. */
struct function_times {
    int64_t from, until; /* seconds */
};

struct function_call {
    struct series_list list; /* first: its arguments' series, then its own */
    const struct function *function;
    const struct target_node *values[FUNCTIONS_PARAMS]; /* NULL: not given */
    int64_t interval; /* seconds of an argument that is an interval; or 0 */
    struct function_times times;
    struct scratch *scratch;
    bool has_begun, is_finished; /* after `finish` */
    size_t at; /* series that `each`, and then `again`, is done with */
    struct series_list made; /* series of its own, which replace the others */
    struct target_text made_path; /* that all of them have */
    struct series *total;         /* series that all are divided by */
    struct regular *regular;      /* argument that is a regular expression */
    char *why;
};

/* What a function does to the times of what is below it. */
enum function_scope {
    FUNCTION_KEEPS_TIMES,
    FUNCTION_SUMMARIZES, /* points become those of call->interval */
    FUNCTION_SHIFTS,     /* points of call->interval ago are shown */
    FUNCTION_LOOKS_BACK  /* functions_window() points before are needed, too */
};

typedef int function_each(struct function_call *call, struct series *s);
typedef int function_all(struct function_call *call);

struct function {
    const char *name, *group, *description;
    const struct function_param *const *params; /* NULL behind the last */
    /* Computes for each series, then for all, and again for each, or for each that
     * was made.  NULL: nothing to do.  -EINVAL with call->why, -ENOMEM. */
    function_each *each;
    function_all *finish;
    function_each *again;
    /* Checks values that have the right types.  Errors: as of the others. */
    function_all *check;
    enum function_scope scope;
    enum series_aggregate how; /* it chooses series by, or combines them */
    const char *synonym;       /* another name that it is called by */
};

extern const struct function functions_table[];
extern const size_t functions_count;

/* Finds the function of a call and gives its arguments to its parameters.
 *   -EINVAL  `why` says what is wrong
 *   -ENOMEM */
int functions_bind(struct scratch *scratch, struct target_node *node,
                   char why[TARGET_WHY_SIZE]);

/* The call that functions_bind() made. */
static inline struct function_call *
functions_call(const struct target_node *node)
{
    return node->result;
}

/* Points before each one that a function needs of series of a step. */
int64_t functions_window(const struct function_call *call, int64_t step);

bool functions_is(const struct target_node *node, const char *name);

/* Begins to compute, when all arguments are computed; then computes for one more
 * series.  1: it is done; 0: there is more to do; else as functions_bind(), with
 * its `why`. */
int functions_step(struct target_node *node,
                   const struct function_times *times);

/* Writes the object of all functions. */
void functions_describe(struct json_writer *w);

#endif

/* reader/graphite/functions_internal.h - what the parts of functions_table.c
 * share: the slots of the table, and how names are made.
 *
 * A slot `each` gets one series after the other, `finish` all of them.  Errors:
 * -EINVAL with call->why, -ENOMEM. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_FUNCTIONS_INTERNAL_H
#define COUNTD_READER_GRAPHITE_FUNCTIONS_INTERNAL_H

#include "reader/graphite/functions.h"

/* Returns -EINVAL, with FUNCTION: and the text in call->why. */
__attribute__((format(printf, 2, 3))) int
functions_refuse(struct function_call *call, const char *format, ...);

/* ---- names (functions_names.c) ------------------------------------------- */

/* A text that grows; its older pieces stay in the scratch.  The first failure
 * stays in `rc`, and then nothing more is appended. */
struct function_text {
    struct function_call *call;
    char *at;
    size_t size, capacity;
    int rc; /* 0; -ENOMEM, or -EINVAL: too long for a name */
};

void functions_append(struct function_text *t, const char *bytes, size_t size);

/* FUNCTION(NAME and what printf makes of the format) */
__attribute__((format(printf, 3, 4))) int
functions_name_call(struct function_call *call, struct series *s,
                    const char *format, ...);

/* Names a series by a path, or a part of one. */
int functions_show_name(struct function_call *call, struct series *s,
                        struct target_text path);

/* FUNCTION(NAME) */
int functions_wrap_name(struct function_call *call, struct series *s);

/* FUNCTION(ARGUMENTS AS WRITTEN), of the first argument or of all. */
int functions_name_combined(struct function_call *call, const char *function,
                            bool all, struct target_text *name);

/* The path within the name of what was computed: the first argument of its
 * innermost function. */
struct target_text functions_path(const struct series *s);

/* A node of a path, from its end for one below 0; empty if there is none. */
struct target_text functions_node(struct target_text path, int64_t number);

/* Joins the nodes of a path that an argument, and numbers behind it, number. */
int functions_join_nodes(struct function_call *call, struct target_text path,
                         const struct target_node *first,
                         struct target_text *out);

function_each functions_alias, functions_alias_by_node,
    functions_alias_by_metric;

/* ---- combining (functions_combine.c) ------------------------------------- */

/* What the word of an argument means; `usual` if it is not given. */
enum series_aggregate functions_aggregate(const struct target_node *v,
                                          enum series_aggregate usual);

/* Combine all into one, or by nodes, by function->how. */
function_each functions_combine_each, functions_group_each,
    functions_wildcards_each, functions_combine_again;

/* Divide by a series. */
function_each functions_divide, functions_percent_each, functions_percent_again;

/* ---- choosing (functions_choose.c) --------------------------------------- */

/* Rates a series by function->how: -INFINITY if it has no value.
 * functions_choose() sorts by that, and the first n stay if there is such a
 * parameter; functions_keep_rated() keeps those above -INFINITY. */
function_each functions_rate;
function_all functions_choose, functions_keep_rated, functions_limit,
    functions_sort_names, functions_check_top;

/* ---- regular expressions (functions_regular.c) --------------------------- */

/* functions_grep() and functions_exclude() rate a series -INFINITY if its name has
 * no match, or one. */
function_each functions_grep, functions_exclude, functions_alias_sub;
function_all functions_check_regular, functions_check_alias_sub;

/* ---- values (functions_values.c), times (functions_times.c) -------------- */

function_each functions_scale, functions_scale_to_seconds, functions_absolute,
    functions_integral, functions_derivative, functions_transform_null,
    functions_keep_last, functions_non_negative, functions_per_second,
    functions_summarize, functions_time_shift, functions_moving_average,
    functions_hitcount;
function_all functions_constant_line;

#endif

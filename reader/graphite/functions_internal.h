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

/* Sets *name as printf does.  -ENOMEM. */
__attribute__((format(printf, 3, 4))) int
functions_set_name(struct function_call *call, struct target_text *name,
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

/* Joins the nodes of a path that an argument and those behind it number. */
int functions_join_nodes(struct function_call *call, struct target_text path,
                         const struct target_node *first,
                         struct target_text *out);

int functions_alias(struct function_call *call, struct series *s);
int functions_alias_by_node(struct function_call *call, struct series *s);
int functions_alias_by_metric(struct function_call *call, struct series *s);

/* ---- combining (functions_combine.c) ------------------------------------- */

/* What the word of an argument means; `usual` if it is not given. */
enum series_aggregate functions_aggregate(const struct target_node *v,
                                          enum series_aggregate usual);

/* Whether both have points at the same times: 0 or -EINVAL. */
int functions_check_aligned(struct function_call *call, const struct series *a,
                            const struct series *b);

/* Combines all into one, by function->how. */
int functions_combine_each(struct function_call *call, struct series *s);
int functions_combine_finish(struct function_call *call);

int functions_group_each(struct function_call *call, struct series *s);
int functions_group_nodes(struct function_call *call, struct series *s);
int functions_group_finish(struct function_call *call);
int functions_wildcards_each(struct function_call *call, struct series *s);
int functions_wildcards_finish(struct function_call *call);

/* ---- dividing (functions_ratio.c) ---------------------------------------- */

int functions_divide(struct function_call *call, struct series *s);
int functions_divide_finish(struct function_call *call);
int functions_percent_each(struct function_call *call, struct series *s);
int functions_percent_again(struct function_call *call, struct series *s);

/* ---- choosing (functions_choose.c) --------------------------------------- */

int functions_limit(struct function_call *call);

/* Rates a series by function->how; functions_choose() sorts by that, and
 * the first n stay if there is such a parameter. */
int functions_rate(struct function_call *call, struct series *s);
int functions_choose(struct function_call *call);
int functions_sort_names(struct function_call *call);

/* Rates a series by whether it has a value; functions_keep_rated() keeps those
 * that were rated above 0. */
int functions_rate_values(struct function_call *call, struct series *s);
int functions_keep_rated(struct function_call *call);
int functions_check_top(struct function_call *call);

/* ---- regular expressions (functions_regular.c) ---------------------------- */

int functions_check_regular(struct function_call *call);
int functions_check_alias_sub(struct function_call *call);
int functions_alias_sub(struct function_call *call, struct series *s);

/* Rates a series by whether its name has a match, or none. */
int functions_grep(struct function_call *call, struct series *s);
int functions_exclude(struct function_call *call, struct series *s);

/* ---- values (functions_values.c) ----------------------------------------- */

int functions_scale(struct function_call *call, struct series *s);
int functions_scale_to_seconds(struct function_call *call, struct series *s);
int functions_absolute(struct function_call *call, struct series *s);
int functions_integral(struct function_call *call, struct series *s);
int functions_derivative(struct function_call *call, struct series *s);
int functions_transform_null(struct function_call *call, struct series *s);
int functions_keep_last(struct function_call *call, struct series *s);
int functions_derive(struct function_call *call, struct series *s);
int functions_per_second(struct function_call *call, struct series *s);
int functions_summarize(struct function_call *call, struct series *s);
int functions_time_shift(struct function_call *call, struct series *s);
int functions_moving_average(struct function_call *call, struct series *s);
int functions_hitcount(struct function_call *call, struct series *s);
int functions_constant_line(struct function_call *call);

#endif

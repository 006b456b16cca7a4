/* reader/graphite/functions_internal.h - what the files of functions.h share;
 * no other file includes it.
 *
 *     functions.c          calls and their arguments, /functions
 *     functions_table.c    which functions there are
 *     functions_alias.c    names
 *     functions_combine.c  one series of several, some of many
 *     functions_values.c   values
 */
#ifndef COUNTD_READER_GRAPHITE_FUNCTIONS_INTERNAL_H
#define COUNTD_READER_GRAPHITE_FUNCTIONS_INTERNAL_H

#include "reader/graphite/functions.h"

extern const struct function functions_table[];
extern const size_t functions_count;

/* ---- names -------------------------------------------------------------- */

/* Sets *name as printf does.  -ENOMEM. */
int functions_set_name(struct function_call *call, struct target_text *name,
                       const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* FUNCTION(NAME), FUNCTION(NAME,NUMBER) */
int functions_wrap_name(struct function_call *call, struct series *s);
int functions_wrap_number(struct function_call *call, struct series *s,
                          double number);

/* FUNCTION(ARGUMENTS AS WRITTEN): those of the first parameter; `all`: all. */
int functions_name_combined(struct function_call *call, const char *function,
                            bool all, struct target_text *name);

/* The path within the name of what was computed: the first argument of its
 * innermost function. */
struct target_text functions_path_of(const struct series *s);

/* A node of a path, from its end for one below 0; empty if there is none. */
struct target_text functions_node_of(struct target_text path, int64_t number);

/* What an argument names; `usual` if it is not given. */
enum series_aggregate functions_aggregate_of(const struct target_node *v,
                                             enum series_aggregate usual);

/* ---- slots of the table -------------------------------------------------- */

int functions_alias(struct function_call *call, struct series *s);
int functions_alias_by_node(struct function_call *call, struct series *s);
int functions_alias_by_metric(struct function_call *call, struct series *s);
const char *functions_check_alias_sub(const struct function_call *call);
int functions_alias_sub(struct function_call *call, struct series *s);
int functions_sum_each(struct function_call *call, struct series *s);
int functions_sum_finish(struct function_call *call);
int functions_group_each(struct function_call *call, struct series *s);
int functions_group_finish(struct function_call *call);
int functions_scale(struct function_call *call, struct series *s);
int functions_scale_to_seconds(struct function_call *call, struct series *s);
int functions_absolute(struct function_call *call, struct series *s);
int functions_integral(struct function_call *call, struct series *s);
int functions_derive(struct function_call *call, struct series *s);
int functions_per_second(struct function_call *call, struct series *s);
int functions_summarize(struct function_call *call, struct series *s);
int functions_constant_line(struct function_call *call);
int functions_choose_some(struct function_call *call);
int functions_choose_all(struct function_call *call);
int functions_limit(struct function_call *call);
int functions_rate_max(struct function_call *call, struct series *s);
int functions_rate_current(struct function_call *call, struct series *s);
int functions_rate_average(struct function_call *call, struct series *s);
int functions_rate_total(struct function_call *call, struct series *s);
const char *functions_check_top(const struct function_call *call);

#endif

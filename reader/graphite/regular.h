/* reader/graphite/regular.h - regular expressions, for names of series.
 *
 *     a . [a-z] [^a] \d \w \s \D \W \S \.     one character
 *     x* x+ x? x{2} x{2,} x{2,5}              as many as can be, with ? behind
 *                                             it as few
 *     x|y  (x)  (?:x)  ^  $  \b  (?i)         as in Python; (?i) at the begin
 *
 * All ways to match are followed at once, character by character, so that
 * nothing is tried twice.  A search ends when it has taken REGULAR_WORK_MAX
 * steps, some milliseconds.
 *
 * Ownership: a piece of a scratch.  Pure.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_REGULAR_H
#define COUNTD_READER_GRAPHITE_REGULAR_H

#include <stdbool.h>

#include "reader/graphite/scratch.h"
#include "reader/graphite/target.h"

#define REGULAR_STEPS_MAX  512 /* of a compiled one */
#define REGULAR_GROUPS     10  /* with the whole, group 0 */
#define REGULAR_WORK_MAX   100000
#define REGULAR_DEPTH_MAX  32
#define REGULAR_REPEAT_MAX 255

struct regular;

/* Where groups were found, from their begins to before their ends; SIZE_MAX:
 * the group has none. */
struct regular_found {
    size_t begin[REGULAR_GROUPS], end[REGULAR_GROUPS];
};

/*   -EINVAL  *why says what is wrong
 *   -ENOMEM */
int regular_compile(struct scratch *scratch, struct target_text text,
                    struct regular **out, const char **why);

/* How many groups there are, with group 0. */
unsigned regular_groups(const struct regular *r);

/* Finds the first match that begins at `from` or later in a text that is valid
 * UTF-8.  *work is what may be used, and is reduced.
 *   1       found
 *   0       there is none
 *   -E2BIG  the work was used up */
int regular_search(struct regular *r, struct target_text text, size_t from,
                   size_t *work, struct regular_found *found);

#endif

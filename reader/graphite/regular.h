/* reader/graphite/regular.h - regular expressions for names of series, by PCRE2:
 * nearly what Python has.
 *
 * libc's may take seconds and gigabytes for a few bytes; PCRE2 counts what a
 * search does, and gives up at a limit.
 *
 * Ownership: a piece of a scratch, which bounds its memory.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_REGULAR_H
#define COUNTD_READER_GRAPHITE_REGULAR_H

#include <stdbool.h>

#include "reader/graphite/scratch.h"
#include "reader/graphite/target.h"

#define REGULAR_GROUPS 10 /* with the whole, group 0 */

struct regular;

/* Where groups were found, from their begins to before their ends; SIZE_MAX:
 * the group has none. */
struct regular_found {
    size_t begin[REGULAR_GROUPS], end[REGULAR_GROUPS];
};

/*   -EINVAL  *why says what is wrong, in the scratch
 *   -ENOMEM */
int regular_compile(struct scratch *scratch, struct target_text text,
                    struct regular **out, const char **why);

/* How many groups there are, with group 0; at most REGULAR_GROUPS. */
unsigned regular_groups(const struct regular *r);

/* Finds the first match that begins at `from` or later.
 *   1       found
 *   0       there is none, or the text is not UTF-8
 *   -E2BIG  it takes too long
 *   -ENOMEM */
int regular_search(struct regular *r, struct target_text text, size_t from,
                   struct regular_found *found);

#endif

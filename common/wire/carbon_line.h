/* common/wire/carbon_line.h - one line of Graphite's plaintext protocol.
 *
 *     PATH VALUE TIME
 *
 * with white space between and around.  Such a line is a sample of a value, not
 * an increment, so only paths that are said to be counts are counted: a pattern
 * of `graphite.count` has exactly one *, which stands for one byte or more,
 * dots included, and the part it stands for is the name that is counted.  The
 * first pattern that matches decides.  So it is with those of `graphite.total`,
 * whose samples are of totals that grow.
 *
 * Everything here is pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_CARBON_LINE_H
#define COUNTD_COMMON_WIRE_CARBON_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/decimal.h"

enum carbon_result { CARBON_IGNORED, CARBON_COUNTED };

struct carbon_sample {
    const uint8_t *name; /* a part of the line */
    size_t name_size;
    const uint8_t *path; /* all of it, in the line, too */
    size_t path_size;
    int128 millionths;
    int64_t at; /* Unix seconds; -1: now, or not a time */
};

/* Takes a line without its LF.  Returns CARBON_COUNTED, or CARBON_IGNORED if no
 * pattern matches.  -EBADMSG: malformed; *why says what is wrong. */
int carbon_line(const char *patterns, const uint8_t *line, size_t size,
                struct carbon_sample *out, const char **why);

/* Whether a name that stands alone, not in a line, fits one of the patterns. */
bool carbon_is_match(const char *patterns, const uint8_t *path, size_t size);

/* Checks patterns with blanks between: each must have exactly one *.  On
 * failure *wrong is the first that has not, *size its bytes.  0 or -EINVAL. */
int carbon_check_patterns(const char *patterns, const char **wrong,
                          size_t *size);

#endif

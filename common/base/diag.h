/* common/base/diag.h - one line to stderr per message, for people and for
 * scripts.
 *
 *     countd-write: error: seal log=42: No space left on device
 *
 * Lower case, no full stop, facts as key=value, bytes from outside only
 * through name_escape().  Hot paths count and do not log.  Safe from threads
 * (one write(2) per line).
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_DIAG_H
#define COUNTD_COMMON_BASE_DIAG_H

#include <stdint.h>

enum diag_level { DIAG_ERROR, DIAG_WARNING, DIAG_INFO };

/* `program` is borrowed for ever.  Before this call the name is "countd". */
void diag_init(const char *program, enum diag_level max);

void diag(enum diag_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What an errno (positive or negative) means here: as strerror(), but damage
 * is called damage, not a bad message. */
const char *diag_text(int error);

/* As diag, with ": " and diag_text(). */
void diag_errno(enum diag_level level, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The errno (positive) of the last error that was said with one, or 0. */
int diag_last_error(void);

/* A fault that repeats: logged at once, then at most once per minute with
 * the number of times it happened since.  Zero-initialised, static. */
struct diag_repeat {
    uint64_t last_ms;
    uint64_t count; /* not logged yet */
};

void diag_repeating(struct diag_repeat *repeat, enum diag_level level,
                    const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

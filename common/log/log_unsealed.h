/* common/log/log_unsealed.h - whether a log may have marks that are stored
 * nowhere else: for a writer that starts.
 *
 * Only a header says so.  After a power loss a mode is a hint: a log with the
 * mode of a full one may be OPEN. */
#ifndef COUNTD_COMMON_LOG_LOG_UNSEALED_H
#define COUNTD_COMMON_LOG_LOG_UNSEALED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/log/mark.h"

struct log_unsealed {
    uint64_t epoch; /* of the fill; 0: not known */
    bool has_marks; /* or may have, SEALED or not */
};

/* Recovers the log, if its owner is dead.
 *   1  it may be OPEN: another process owns it, or it cannot be recovered now
 *   0  its header says SEALED or EMPTY, or there is no such log (any more)
 * *out is written in both cases. */
int log_unsealed(int dirfd, uint64_t index, struct mark_store *marks,
                 struct log_unsealed *out);

#endif

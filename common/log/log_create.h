/* common/log/log_create.h - a new commit log.
 *
 * Nothing here prints; log_create() maps a buffer of 1 MiB while it runs.
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_COMMON_LOG_LOG_CREATE_H
#define COUNTD_COMMON_LOG_LOG_CREATE_H

#include <stdint.h>

#include "common/wire/message.h"

/* Creates log `index` EMPTY: zeros and headers are written and synced before
 * the name appears, because only then may a record in it be acknowledged.
 *   -EEXIST  the log or its lock exists (log_recover() removes a dead creator's
 *             lock)
 *   -EAGAIN  another process interfered: try again
 *   -ENOSPC  the disk is full; the partial file was removed */
int log_create(int dirfd, uint64_t index, const struct layout *l,
               uint32_t slots);

#endif

/* common/log/log_create.h - a new commit log.
 *
 * Nothing here prints; creation maps a buffer of 1 MiB while it runs.
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_COMMON_LOG_LOG_CREATE_H
#define COUNTD_COMMON_LOG_LOG_CREATE_H

#include <stdint.h>

#include "common/wire/message.h"

/* Creates log `index` EMPTY: zeros and headers written and synced before the
 * name appears (reliability: only then may a record in it be acknowledged).
 *   -EEXIST  log or lock is there already (a dead creator's is cleaned by
 *            log_recover)
 *   -EAGAIN  others got in the way: try again
 *   -ENOSPC  disk full; the partial file is gone again */
int log_create(int dirfd, uint64_t index, const struct layout *l,
               uint32_t slots);

#endif

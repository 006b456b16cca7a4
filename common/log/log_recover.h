/* common/log/log_recover.h - recovery of a commit log whose owner died.
 *
 * Nothing here prints; log_recover() maps a buffer of 1 MiB while it runs, and
 * allocates the marks of the log.  Errors: 0 or a negative errno. */
#ifndef COUNTD_COMMON_LOG_LOG_RECOVER_H
#define COUNTD_COMMON_LOG_LOG_RECOVER_H

#include <stdint.h>

#include "common/log/mark.h"

/* Recovers log `index` if its owner is dead: cuts off the torn tail and a
 * request with a key that is not whole, makes the rest durable, stores its
 * marks in `marks`, seals it (or marks it EMPTY), repairs the mode, unlinks the
 * stale lock.  Idempotent; any process may call it at any time.  A lock without
 * its log is removed once it is a second old; before that its creator may not
 * have the flock yet.
 *   0        nothing to do, or recovered
 *   above 0  recovered; that many records, the first of them torn or of a
 *             request that is not whole, were cut off: power was lost or the
 *             writer was killed while writing
 *   -ENOKEY  the log has marks and `marks` is NULL: it stays as it is, as after
 *             any error of storing them
 *   -EBUSY   owned by a live process, or being created
 *   -EBADMSG damaged: quarantined as bad-N-EPOCH.  Within the boot in which the
 *             fill began, every invalid slot but the last is damage
 *   -EPROTONOSUPPORT, -EPERM, -ENOENT as log_claim() */
int log_recover(int dirfd, uint64_t index, struct mark_store *marks);

#endif

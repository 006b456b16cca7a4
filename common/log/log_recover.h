/* common/log/log_recover.h - a commit log whose owner died goes round again.
 *
 * Nothing here prints; recovery maps a buffer of 1 MiB while it runs.
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_COMMON_LOG_LOG_RECOVER_H
#define COUNTD_COMMON_LOG_LOG_RECOVER_H

#include <stdint.h>

/* Recovers log `index` when its owner is dead: cuts the torn tail, makes the
 * rest durable, seals it (or marks it EMPTY), mends the mode, unlinks the
 * stale lock.  Idempotent; any process may call it at any time.
 * A lock without its log is removed once it is a second old, since before
 * that its creator may not have the flock yet.
 *   0        nothing to do, or recovered
 *   above 0  recovered, and that many records, from a torn one on, were cut
 *            off: power was lost, or their owner killed, while it wrote them
 *   -EBUSY   owned by someone alive, or just being created
 *   -EBADMSG damaged: quarantined as bad-N-EPOCH.  In the boot that the log was
 *            begun in each slot but the last that is not whole is damage
 *   -EPROTONOSUPPORT, -EPERM, -ENOENT as log_claim() */
int log_recover(int dirfd, uint64_t index);

#endif

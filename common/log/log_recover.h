/* common/log/log_recover.h - recovery of a commit log whose owner died.
 *
 * Nothing here prints; log_recover() allocates a buffer while it runs, and the
 * marks of the log.  Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_LOG_RECOVER_H
#define COUNTD_COMMON_LOG_LOG_RECOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/log/requests.h"

/* Recovers log `index` if its owner is dead: cuts off the torn tail and a
 * request with a key that is not whole, makes the rest durable, stores its
 * marks in `requests`, seals it (or marks it EMPTY), repairs the mode, unlinks the
 * stale lock.  Idempotent; any process may call it at any time.  A lock without
 * its log is removed once it is a second old; before that its creator may not
 * have the flock yet.
 *   0        nothing to do, or recovered
 *   above 0  recovered; that many records, the first of them torn or of a
 *             request that is not whole, were cut off: power was lost or the
 *             writer was killed while writing
 *   -ENOKEY  the log has marks and `requests` is NULL: it stays as it is, as
 *             after any error of storing them
 *   -EBUSY   owned by a live process, or being created
 *   -EBADMSG damaged: quarantined as bad-N-EPOCH.  Within the boot in which the
 *             fill began, every invalid slot but the last is damage
 *   -EPROTONOSUPPORT, -EPERM, -ENOENT as log_claim() */
int log_recover(int dirfd, uint64_t index, struct requests *requests);

/* The same; *was_owned is true if a process that died owned the log, and false if
 * the log is at rest or a living process was about to claim it. */
int log_recover_dead(int dirfd, uint64_t index, struct requests *requests,
                     bool *was_owned);

/* Whether a log may have marks that are stored nowhere else: for a writer that
 * starts.  Only a header says so.  After a power loss a mode is a hint: a log
 * with the mode of a full one may be OPEN. */
struct log_unsealed {
    uint64_t epoch; /* epoch of the fill; 0: not known */
    bool has_marks; /* or may have, SEALED or not */
};

/* Recovers the log, if its owner is dead.
 *   1  it may be OPEN: another process owns it, or it cannot be recovered now
 *   0  its header says SEALED or EMPTY, or there is no such log (any more)
 * *out is written in both cases. */
int log_unsealed(int dirfd, uint64_t index, struct requests *requests,
                 struct log_unsealed *out);

#endif

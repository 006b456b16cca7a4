/* worker/set_aside.h - what keyspaces did not take of the logs of a batch goes
 * into one file of log/waiting/, a fill for each log. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_SET_ASIDE_H
#define COUNTD_WORKER_SET_ASIDE_H

#include "worker/merge.h"

/* Sets aside what keyspaces in state KEYSPACE_REFUSED have in logs that are
 * whole (R4 of common/log/waiting.h).  0: durable.
 *   -EDQUOT     held.max would be passed
 *   -ECANCELED  the worker must stop
 *   -EBADMSG    a slot that was good is not any more; -ENOSPC, -EIO, ... */
int set_aside(struct merge *m);

#endif

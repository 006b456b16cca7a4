/* writer/quota/quota_store.h - a journal, and the quotas that were read from
 * it; and quota.export, the applications of the quota without a name as text:
 *
 *     NUMBER AMOUNT LF                of an application
 *     NUMBER AMOUNT CANCELLED_BY LF   of one that was cancelled
 *
 * Ownership: the caller's, until quota_store_free().  Any thread, one at a
 * time. Errors: 0 or a negative errno; text goes to diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_QUOTA_QUOTA_STORE_H
#define COUNTD_WRITER_QUOTA_QUOTA_STORE_H

#include "common/setup/config.h"
#include "writer/quota/journal.h"
#include "writer/quota/quotas.h"

struct quota_store {
    struct journal journal;
    struct quotas quotas;
};

/* Reads the journal, or makes one when there is none.
 *   -EINVAL   quota.limit is not what it was made with
 *   -EBADMSG  it is damaged, -EPROTO  of a later version */
int quota_store_open(int dirfd, const struct config *c,
                     struct quota_store **out);

/* Writes a checkpoint of the quotas as they are after the first `end` records:
 * see journal_checkpoint(). */
int quota_store_checkpoint(struct quota_store *store, uint64_t end);

/* Replaces the file as a whole. */
int quota_store_export(const struct quota_store *store, const char *path);

/* NULL: does nothing. */
void quota_store_free(struct quota_store *store);

#endif

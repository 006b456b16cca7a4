/* common/client/cmd/unmerged.h - records that countd received and
 * no keyspace contains: quarantined because they are damaged (log/bad-*,
 * held/bad-*), or held because their keyspace cannot take them now.
 *
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_UNMERGED_H
#define COUNTD_COMMON_CLIENT_CMD_UNMERGED_H

#include "common/setup/datadir.h"
#include "common/store/held.h"
#include "common/wire/name.h"

struct unmerged {
    size_t logs;              /* log/bad-N-EPOCH */
    uint64_t held;            /* records, to be applied when they can be */
    size_t damaged;           /* held/bad-N */
    char log[NAME_TEXT_SIZE]; /* one of each, in text form */
    char keyspace[NAME_TEXT_SIZE];
    char file[NAME_TEXT_SIZE]; /* the damaged one */
};

int unmerged_read(const struct datadir *d, struct held *h,
                  struct unmerged *out);

/* Calls held_refresh(), and waits for a process that is writing, at most
 * LOOK_MS. */
int unmerged_snapshot_begin(struct held *h);

/* Whether anything is held, in a snapshot of its own. */
int unmerged_any_held(struct held *h, bool *any);

/* Calls `file` for each held/bad-N; stops on non-zero and returns that. */
int unmerged_each_damaged(const struct datadir *d,
                          int (*file)(void *ctx, const char *file), void *ctx);

/* A warning for each kind there is; `what` begins it: "not readable". */
void unmerged_warn(const struct unmerged *k, const char *what);

#endif

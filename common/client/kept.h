/* common/client/kept.h - what is on disk, was acknowledged, and cannot be
 * read: quarantined logs, and records held for a keyspace that cannot take
 * them.
 *
 * Ownership: struct kept is plain data.  Errors: 0 or a negative errno.
 */
#ifndef COUNTD_KEPT_H
#define COUNTD_KEPT_H

#include <stddef.h>
#include <stdint.h>

#include "common/client/logfile.h"
#include "common/setup/datadir.h"
#include "common/wire/name.h"

struct kept {
    size_t logs;              /* log/bad-N-EPOCH */
    size_t held;              /* held files, to be merged when they can be */
    size_t damaged;           /* held/bad-... */
    uint64_t oldest_ms;       /* first_ms of what is held; UINT64_MAX: none */
    char log[NAME_TEXT_SIZE]; /* one of each, in text form */
    char keyspace[NAME_TEXT_SIZE];
    char file[NAME_TEXT_SIZE]; /* the damaged one */
};

int kept_read(const struct datadir *d, struct kept *out);

/* Calls `file` for each held/bad-...; stops on non-zero and returns that. */
int kept_each_damaged(const struct datadir *d,
                      int (*file)(void *ctx, const char *file), void *ctx);

/* A warning for each kind there is; `what` begins it: "not readable". */
void kept_warn(const struct kept *k, const char *what);

#endif

/* common/client/cmd/kept.h - what was received and is in no keyspace: set aside
 * as damaged, or held because its keyspace cannot take it.
 *
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_KEPT_H
#define COUNTD_KEPT_H

#include "common/setup/datadir.h"
#include "common/store/lmdb/held.h"
#include "common/wire/name.h"

#define KEPT_BAD_HELD "bad-held-" /* N.mdb: what held.mdb is renamed to */

struct kept {
    size_t logs;              /* log/bad-N-EPOCH */
    uint64_t held;            /* records, to be applied when they can be */
    size_t damaged;           /* bad-held-N.mdb */
    char log[NAME_TEXT_SIZE]; /* one of each, in text form */
    char keyspace[NAME_TEXT_SIZE];
    char file[NAME_TEXT_SIZE]; /* the damaged one */
};

int kept_read(const struct datadir *d, struct held *h, struct kept *out);

/* held_look(), which waits a little for who has a replaced file open. */
int kept_look(struct held *h);

/* Whether anything is held, in a snapshot of its own. */
int kept_any_held(struct held *h, bool *any);

/* Calls `file` for each bad-held-N.mdb; stops on non-zero and returns that. */
int kept_each_damaged(const struct datadir *d,
                      int (*file)(void *ctx, const char *file), void *ctx);

/* A warning for each kind there is; `what` begins it: "not readable". */
void kept_warn(const struct kept *k, const char *what);

#endif

/* tests/lib/memstore.h - a second engine of common/store/store.h, in memory:
 * for tests of the worker and the reader that need no file and want faults.
 *
 *     memstore_open(&s);
 *     memstore_fault(s, "words", (struct memstore_fault){.error = -EBADMSG,
 *                                                        .times = 1});
 *     ... anything that takes a struct store ...
 *     store_close(s);
 *
 * It keeps the promise of store.h exactly and plainly: one array of rows per
 * keyspace, sorted by key, and one of what came for each key and minute, kept
 * for ever.  Traits: STORE_SNAPSHOT.  Its memory is shared with
 * the children of fork(), so that several processes can be its users, one at a
 * time; nothing is freed before store_close().
 *
 * store_check() and store_copy() are -EOPNOTSUPP.
 */
#ifndef COUNTD_TESTS_LIB_MEMSTORE_H
#define COUNTD_TESTS_LIB_MEMSTORE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/store/store.h"

#define MEMSTORE_ALWAYS (~0u)

/* What a keyspace says instead.  The error of an apply comes after `commits`
 * commits of it, so that with memstore_cut() marks are PARTIAL then. */
struct memstore_fault {
    int error;        /* of store_apply(); 0: none */
    unsigned times;   /* of so many calls; MEMSTORE_ALWAYS: of all */
    unsigned commits; /* made before it */
    int marks;        /* error of store_marks() and reads; 0: none */
    long holder;      /* for -EAGAIN */
};

/* What was asked of a keyspace. */
struct memstore_calls {
    unsigned marks;
    unsigned applies;  /* all of them */
    unsigned deltas;   /* that these came with */
    unsigned longest;  /* marks that one of these came with, at most */
    unsigned refusals; /* applies that did not return 0 */
};

/* Opens an empty one.  -ENOMEM. */
int memstore_open(struct store **out);

/* A commit takes at most so many deltas; 0: all of a batch. */
void memstore_cut(struct store *s, size_t deltas);

/* Makes the keyspace sick, or with {0} well; makes it when there is none. */
void memstore_fault(struct store *s, const char *name, struct memstore_fault f);

struct memstore_calls memstore_calls(struct store *s, const char *name);

/* Has `hook` called at the start of store_marks() and store_apply() and after
 * each commit but the last: where others may come in between.  NULL: no more.
 */
void memstore_hook(struct store *s, void (*hook)(void *ctx), void *ctx);

/* The clock by which increments of the future are counted now; NULL: all are
 * counted in their minute. */
void memstore_now(struct store *s, uint64_t (*now_ms)(void));

/* Whether the keyspace is there: made by an apply and not removed. */
bool memstore_has(struct store *s, const char *name);

#endif

/* tests/lib/mempager.h - the values of a tree in memory, with transactions,
 * damage and calls that fail.
 *
 * It holds its caller to the contract of common/store/tree/tree.h: at each put
 * and remove all bytes that were handed out move, and what was in their place
 * is scribbled over and freed.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_MEMPAGER_H
#define COUNTD_TESTS_LIB_MEMPAGER_H

#include <stdbool.h>

#include "common/store/tree/tree.h"

#define MEMPAGER_SLOTS 65536

struct mempager_value {
    uint64_t key;   /* 0: none was ever here */
    uint8_t *bytes; /* NULL: there is none */
    size_t size;
    bool lent; /* its bytes were handed out since the last put */
};

struct mempager {
    struct mempager_value *slots; /* by hash, then the next free one */
    size_t used;
    size_t count;               /* values that are there */
    struct mempager_value *old; /* what the transaction has replaced */
    size_t old_count, old_room;
    size_t *lent; /* slots */
    size_t lent_count, lent_room;
    unsigned calls;   /* since mempager_begin() */
    unsigned fail_at; /* the nth of them fails; 0: none */
    int error;        /* so */
};

void mempager_init(struct mempager *m);
void mempager_fini(struct mempager *m);
struct pager mempager_pager(struct mempager *m);

/* All changes between these two stay or are undone together. */
void mempager_begin(struct mempager *m);
void mempager_end(struct mempager *m, bool commit);

/* Of the values that are there, the nth in no order; its bytes may be changed
 * in place. */
struct mempager_value *mempager_nth(struct mempager *m, size_t n);

/* NULL: there is none. */
struct mempager_value *mempager_find(struct mempager *m, uint64_t key);

#endif

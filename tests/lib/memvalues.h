/* tests/lib/memvalues.h - the values of a tree in memory, with transactions,
 * damage and calls that fail.
 *
 * It holds its caller to the contract of common/store/kv.h: at each put
 * and del all bytes that were handed out move, and what was in their place
 * is scribbled over and freed.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_MEMVALUES_H
#define COUNTD_TESTS_LIB_MEMVALUES_H

#include <stdbool.h>

#include "common/store/tree/tree.h"

#define MEMVALUES_SLOTS 65536

struct memvalues_value {
    uint64_t key;   /* 0: none was ever here */
    uint8_t *bytes; /* NULL: there is none */
    size_t size;
    bool lent; /* its bytes were handed out since the last put */
};

struct memvalues {
    struct memvalues_value *slots; /* by hash, then the next free one */
    size_t used;
    size_t count;                /* values that are there */
    struct memvalues_value *old; /* what the transaction has replaced */
    size_t old_count, old_room;
    size_t *lent; /* slots */
    size_t lent_count, lent_room;
    unsigned calls;   /* since memvalues_begin() */
    unsigned fail_at; /* the nth of them fails; 0: none */
    int error;        /* so */
};

void memvalues_init(struct memvalues *m);
void memvalues_fini(struct memvalues *m);
struct kv memvalues_kv(struct memvalues *m);

/* All changes between these two stay or are undone together. */
void memvalues_begin(struct memvalues *m);
void memvalues_end(struct memvalues *m, bool commit);

/* Of the values that are there, the nth in no order; its bytes may be changed
 * in place. */
struct memvalues_value *memvalues_nth(struct memvalues *m, size_t n);

/* NULL: there is none. */
struct memvalues_value *memvalues_find(struct memvalues *m, uint64_t key);

/* As the kv's put and del. */
int memvalues_put(struct memvalues *m, uint64_t key, const uint8_t *bytes,
                  size_t size);
int memvalues_del(struct memvalues *m, uint64_t key);

#endif

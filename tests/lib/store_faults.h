/* tests/lib/store_faults.h - keyspaces of a store that refuse what a test has
 * them refuse.
 *
 *     store_faults_begin();
 *     store_faults_wrap(s);
 *     store_faults_set("words", (struct store_fault){.error = -EBADMSG,
 *                                                    .times = 1});
 *
 * Faults and counts are shared with the children of fork(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_STORE_FAULTS_H
#define COUNTD_TESTS_LIB_STORE_FAULTS_H

#include <stdbool.h>

#include "common/store/store.h"

#define STORE_FAULTS_ALWAYS (~0u)

struct store_fault {
    int error;      /* of store_apply(), which does nothing then; 0: none */
    unsigned times; /* calls that return it */
    int marks;      /* error of store_marks(); 0: none */
    long holder;    /* for -EAGAIN */
};

/* Forgets all faults and counts. */
void store_faults_begin(void);

/* Has the store, the only one of this process, answer as is set. */
void store_faults_wrap(struct store *s);

/* Makes the keyspace sick, or with {0} well. */
void store_faults_set(const char *name, struct store_fault f);

/* Calls of store_apply() for the keyspace, whatever they returned. */
unsigned store_faults_applies(const char *name);

/* True while the engine itself applies a batch. */
bool store_faults_is_applying(void);

#endif

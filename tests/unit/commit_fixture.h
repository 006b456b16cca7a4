/* tests/unit/commit_fixture.h - commits to keyspaces that fail or are cut, in
 * place of LMDB's, while store_faults.h applies a batch. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_UNIT_COMMIT_FIXTURE_H
#define COUNTD_TESTS_UNIT_COMMIT_FIXTURE_H

#include <dlfcn.h>
#include <lmdb.h>

#include "tests/unit/worker_fixture.h"

/* Returns what the next commit returns instead; 0: it commits. */
static int (*commit_code)(void);

int
mdb_txn_commit(MDB_txn *txn)
{
    static int (*commit)(MDB_txn *);
    const int code =
        commit_code != NULL && store_faults_is_applying() ? commit_code() : 0;

    if (commit == NULL)
        *(void **)&commit = dlsym(RTLD_NEXT, "mdb_txn_commit");
    if (code == 0)
        return commit(txn);
    mdb_txn_abort(txn);
    return code;
}

/* The first commit has both keys, and is too large; what follows the one with
 * the first key fails. */
static inline int
code_after_one_key(void)
{
    static unsigned commits;
    static const int codes[] = {MDB_TXN_FULL, 0, EIO};

    return codes[commits++ % 3];
}

/* Applies the first of the two keys of full_log(), as a worker does that died
 * then. */
static inline void
had_one_key(struct fixture *x, const struct log_fill *mark)
{
    const struct log_fill other = {.uuid = {99}, .epoch = 1, .first_ms = 1};
    int rc;

    assert_rc(stored_add(x->store, "a", &other, "one", 0), 0); /* it exists */
    commit_code = code_after_one_key;
    rc = apply_as_dead(x, "a", mark);
    commit_code = NULL;
    assert_rc(rc, -EIO);
    assert_int_equal(count_of(x, "a", "one"), 1);
    assert_int_equal(count_of(x, "a", "two"), INT64_MIN);
}

#endif

/* common/store/lmdb/write.c - keyspace_change(): write transactions, their
 * flock, and what follows a failed commit.
 *
 * After a failed commit its outcome is unknown: a meta page that contains it
 * may be in the page cache only, and the kernel may have marked it clean.  So
 * the environment is closed, and when this process opens the keyspace again it
 * first commits a change of nothing, which writes the other meta page
 * (keyspace_resolve_commit()). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace.h"

#include <assert.h>
#include <errno.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/files.h"

#define CHECK_EVERY_MS 60000
#define PAGES_MANY     2048 /* beside them a commit of nothing is little */

int
keyspace_disk_error(const struct lmdb *s, int rc, uint64_t size)
{
    struct statvfs fs;

    if (rc != -EIO || fstatvfs(s->options.keyspace_fd, &fs) < 0)
        return rc;
    return (uint64_t)fs.f_bavail * fs.f_frsize < size + KEYSPACE_MAP_FIRST
               ? -ENOSPC
               : rc;
}

void
keyspace_unlock(const struct keyspace *k)
{
    (void)flock(k->fd, LOCK_UN);
}

/* Whether a write transaction continues from the newest commit of the file that
 * has this name.  No other process can commit meanwhile. */
static bool
is_current(const struct lmdb *s, const struct keyspace *k, MDB_txn *txn)
{
    MDB_envinfo info;

    return !keyspace_replaced(s, k) && mdb_env_info(k->env, &info) == 0 &&
           mdb_txn_id(txn) == info.me_last_txnid + 1;
}

int
keyspace_write(struct lmdb *s, struct keyspace *k, MDB_txn **out)
{
    const uint64_t now = clock_ms();
    int dead, rc;

    assert(s->options.writable);
    assert(!k->reading); /* the map may move */
    s->holder = 0;
    /* Take the flock without waiting before LMDB's writer mutex: a process
     * blocked in LMDB could neither stop nor report the holder's pid. */
    rc = lock_take(k->fd, &s->holder);
    if (rc < 0)
        return rc;
    if (now - k->checked_ms > CHECK_EVERY_MS) {
        (void)mdb_reader_check(k->env, &dead); /* repeated every minute */
        k->checked_ms = now;
    }
    *out = NULL;
    rc = keyspace_begin(k, 0, out);
    if (rc == 0 && !is_current(s, k, *out)) {
        mdb_txn_abort(*out);
        k->stale = true;
        rc = -ESTALE;
    }
    if (rc < 0)
        keyspace_unlock(k);
    return rc;
}

void
keyspace_abort(struct keyspace *k, MDB_txn *txn)
{
    mdb_txn_abort(txn);
    keyspace_unlock(k);
}

/* Commits durably.  -EXFULL, -E2BIG: nothing happened; -ESTALE: the file was
 * replaced meanwhile, and the commit is lost. */
static int
commit_change(struct lmdb *s, struct keyspace *k, MDB_txn *txn)
{
    const uint64_t id = mdb_txn_id(txn);
    const int code = mdb_txn_commit(txn);
    int rc = lmdb_error(code);

    /* LMDB returns these before it writes to the disk. */
    if (code == MDB_MAP_FULL || code == MDB_TXN_FULL) {
        keyspace_unlock(k);
        return rc;
    }
    if (code != 0) {
        rc = keyspace_disk_error(s, rc, 0);
        (void)keyspace_report(s, k->name, k->name_size, "commit", rc);
        s->failed = k->hash;

        /* If this fails, the next commit repairs the file. */
        (void)pages_undo_commit(k->fd, id);
        keyspace_close(k); /* which also releases the flock */
        return rc;
    }

    /* A commit to a file that has lost its name is lost. */
    k->stale = keyspace_replaced(s, k);
    keyspace_unlock(k);
    return k->stale ? -ESTALE : 0;
}

/* Tries a change once. */
static int
try_change(struct lmdb *s, struct keyspace *k, struct work *w)
{
    struct keyspace_state state;
    MDB_txn *txn;
    int rc;

    rc = keyspace_write(s, k, &txn);
    if (rc < 0)
        return rc;
    w->map_least = 0;
    rc = keyspace_state_get(txn, k->dbis[KEYSPACE_META], &state);
    state.change++;

    /* Without changes the nonce stays: it says who made them. */
    if (rc == 0 && w->make != NULL) {
        state.nonce = ++s->nonce;
        rc = w->make(w, txn, &state);
    }

    /* The file's name may not be durable: its creator may have died before it
     * synced the directory.  Logs are emptied once their increments are
     * committed to the file, so sync the directory first.  The creator's own
     * commit was change 1. */
    if (rc == 0 && state.change == 2 && fsync(s->options.keyspace_fd) < 0)
        rc = -errno;
    if (rc == 0)
        rc = keyspace_state_put(txn, k->dbis[KEYSPACE_META], &state);
    if (rc == 0)
        return commit_change(s, k, txn);
    keyspace_abort(k, txn);
    return rc;
}

int
keyspace_change(struct lmdb *s, struct keyspace *k, struct work *w)
{
    int rc;

    do {
        rc = try_change(s, k, w);
        if (rc == -EXFULL) {
            rc = keyspace_grow(k, w->map_least);
            if (rc == 0)
                rc = -EXFULL;
        }
    } while (rc == -EXFULL);
    return rc;
}

int
keyspace_resolve_commit(struct lmdb *s, struct keyspace *k)
{
    struct work nothing = {.make = NULL};
    const int rc = lmdb_error(mdb_env_sync(k->env, 1));

    return rc < 0 ? rc : try_change(s, k, &nothing);
}

/* LMDB uses no page again that either of the last two commits freed.  So behind
 * a large commit comes one of nothing: else the file would have twice the pages
 * that a change replaces.  If that fails, only the pages are lost, and not for
 * long. */
void
keyspace_free_pages(struct lmdb *s, struct keyspace *k, uint64_t pages,
                    bool done)
{
    if (pages >= PAGES_MANY)
        (void)keyspace_resolve_commit(s, k); /* as said above */
    if (k->env != NULL)
        keyspace_retain(s, k, pages, done);
}

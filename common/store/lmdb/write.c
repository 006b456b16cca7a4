/* common/store/lmdb/write.c - write transactions: the flock that says who is
 * writing, and what becomes of a commit that fails.
 *
 * After a failed commit nobody knows whether it happened: a meta page that says
 * so may be in the page cache only, and the kernel may think it is clean.  So
 * the environment is closed, and when this process opens the keyspace again it
 * commits a change of nothing, which writes the other meta page, before it
 * believes anything (keyspace_resolve_commit). */
#include "common/store/lmdb/env.h"

#include <assert.h>
#include <errno.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/files.h"

#define CHECK_EVERY_MS 60000

int
keyspace_disk_error(const struct lmdb *s, int rc, uint64_t size)
{
    return env_disk_error(s->options.keyspace_fd, rc, size);
}

void
keyspace_unlock(const struct keyspace *k)
{
    (void)flock(k->fd, LOCK_UN); /* cannot fail: it is held */
}

/* Whether a write transaction goes on from the newest commit of the file that
 * has the name.  Nobody else can commit now. */
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
    /* Nobody waits in LMDB: who would have to is told so, and for whom. */
    rc = lock_take(k->fd, &s->holder);
    if (rc < 0)
        return rc;
    if (now - k->checked_ms > CHECK_EVERY_MS) {
        (void)mdb_reader_check(k->env, &dead); /* again in a minute */
        k->checked_ms = now;
    }
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

/* Ends the transaction, durably.  -EXFULL, -E2BIG: nothing happened; -ESTALE:
 * the file was replaced meanwhile, and the commit is lost. */
static int
commit(struct lmdb *s, struct keyspace *k, MDB_txn *txn)
{
    const int code = mdb_txn_commit(txn);
    int rc = lmdb_error(code);

    /* These come before LMDB touches the disk. */
    if (code == MDB_MAP_FULL || code == MDB_TXN_FULL) {
        keyspace_unlock(k);
        return rc;
    }
    if (code != 0) {
        rc = keyspace_disk_error(s, rc, 0);
        (void)keyspace_trouble(s, k->name, k->name_size, "commit", rc);
        s->failed = k->hash;
        keyspace_close(k); /* and with it the flock */
        return rc;
    }

    /* A commit to a file that has just lost its name is none. */
    k->stale = keyspace_replaced(s, k);
    keyspace_unlock(k);
    return k->stale ? -ESTALE : 0;
}

/* One try at a change. */
static int
try_change(struct lmdb *s, struct keyspace *k, struct work *w)
{
    struct keyspace_state state;
    MDB_txn *txn;
    int rc;

    rc = keyspace_write(s, k, &txn);
    if (rc < 0)
        return rc;
    w->least = 0;
    rc = keyspace_state_get(txn, k->meta, &state);
    if (rc == 0) {
        state.change++;
        state.nonce = ++s->nonce;
        rc = w->make(w->ctx, txn, &state, &w->least);
    }

    /* The file may owe its name to a creator that died before it synced the
     * directory, and logs are emptied for what is committed under it.  The
     * creator's own commit was change 1. */
    if (rc == 0 && state.change == 2 && fsync(s->options.keyspace_fd) < 0)
        rc = -errno;
    if (rc == 0)
        rc = keyspace_state_put(txn, k->meta, &state);
    if (rc == 0)
        return commit(s, k, txn);
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
            rc = keyspace_grow(k, w->least);
            if (rc == 0)
                rc = -EXFULL;
        }
    } while (rc == -EXFULL);
    return rc;
}

int
keyspace_resolve_commit(struct lmdb *s, struct keyspace *k)
{
    struct keyspace_state state;
    MDB_txn *txn;
    int rc;

    rc = lmdb_error(mdb_env_sync(k->env, 1));
    if (rc == 0)
        rc = keyspace_write(s, k, &txn);
    if (rc < 0)
        return rc;
    rc = keyspace_state_get(txn, k->meta, &state);

    /* With the nonce as it was: by that the commit that failed is known. */
    state.change++;
    if (rc == 0)
        rc = keyspace_state_put(txn, k->meta, &state);
    if (rc == 0)
        return commit(s, k, txn);
    keyspace_abort(k, txn);
    return rc;
}

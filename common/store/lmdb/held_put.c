/* common/store/lmdb/held_put.c - holding: steps that write to data/held.mdb.
 *
 * A step goes on under one flock from held_begin() to its end.  It is a commit
 * for each 64 MiB or so of dirty pages; LMDB would keep more in memory. Records
 * are whole in every commit: of one that is cut, the head comes last.
 */
#include "common/store/lmdb/held_internal.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "common/base/clock.h"

/* ---- steps ------------------------------------------------------------- */

/* The transaction, once the flock is held.  Pages that a process saw which was
 * killed in its look may be used again. */
static int
begin_locked(struct held *h)
{
    int rc, dead;

    (void)mdb_reader_check(h->file.env, &dead); /* or with the next step */
    rc = held_begin_write(h, 0, &h->write);
    if (rc < 0) {
        h->write = NULL;
        return rc;
    }
    h->pages = 0;
    return held_sums_get(h, h->write, &h->sums);
}

int
held_step_begin(struct held *h, bool make)
{
    int rc;

    assert(h->options.writable && h->write == NULL);
    held_snapshot_end(h);
    h->holder = 0;
    rc = held_file_get(h);
    if (rc == -ENOENT && h->look_inode != 0)
        return -ESTALE;
    if (rc == -ENOENT && make) {
        rc = held_file_make(h);
        if (rc == 0)
            rc = held_file_get(h);
    }
    if (rc < 0)
        return rc;
    /* What was looked at before must be of this file. */
    if (h->look_inode != 0 &&
        (h->look_inode != h->file.inode || h->look_device != h->file.device))
        return -ESTALE;
    rc = held_file_flock(h);
    if (rc == 0)
        rc = begin_locked(h);
    if (rc < 0)
        held_abort(h);
    return rc;
}

void
held_abort(struct held *h)
{
    if (h->write != NULL)
        mdb_txn_abort(h->write);
    h->write = NULL;
    held_file_unlock(h);
    if (h->file.stale || h->file.dirtied > HELD_KEEP)
        if (h->look == NULL)
            held_file_close(h);
}

/* Commits the state, its number raised, and what else was written. */
static int
commit_once(struct held *h)
{
    int rc;

    /* The file may owe its name to a creator that died before it synced the
     * directory.  The creator's own commit was change 1. */
    h->sums.change++;
    if (h->sums.change == 2 && fsync(h->options.data_fd) < 0)
        return -errno;
    rc = held_sums_put(h, h->write, &h->sums);
    if (rc < 0)
        return rc;
    rc = held_error(h, mdb_txn_commit(h->write));
    h->write = NULL;
    return rc;
}

/* After a commit that failed nobody knows what is in the file, and its newest
 * root may be there under the number of an older commit: who opens it would
 * find it damaged.  While nobody else can write, another commit mends that. */
static void
mend(struct held *h)
{
    const char *why;
    int rc;

    rc = held_file_reopen(h, &why);
    if (rc == 0)
        rc = begin_locked(h);
    if (rc == 0)
        rc = commit_once(h);
    h->failed = rc < 0;
    h->file.stale = true; /* open it without an exception the next time */
}

/* One commit; the step goes on or ends. */
static int
commit(struct held *h)
{
    int rc;

    if (h->pages > h->file.dirtied)
        h->file.dirtied = h->pages;
    rc = commit_once(h);
    if (rc == 0) {
        h->failed = false;
    } else if (h->write == NULL) {
        h->failed = true;
        mend(h);
    }
    return rc;
}

int
held_commit(struct held *h)
{
    int rc;

    assert(h->write != NULL);
    rc = commit(h);
    if (rc < 0)
        rc = held_trouble(h, "commit", rc);
    /* A commit to a file that has just lost its name is none. */
    else if (!held_file_is_named(h))
        rc = -ESTALE;
    held_abort(h); /* nothing is left but the flock */
    return rc;
}

/* Commits in the middle of a step when that would become large with one record
 * more. */
static int
cut(struct held *h, const struct store_batch *batch, uint64_t size)
{
    /* Each key may be in a page of its own. */
    const uint64_t pages = size / HELD_PAGE + 6 + batch->mark_count;
    int rc;

    if (h->pages + pages < HELD_CUT_PAGES) {
        h->pages += pages;
        return 0;
    }
    rc = commit(h);
    if (rc < 0)
        return rc; /* held_abort() ends what is left */
    rc = held_begin_write(h, size, &h->write);
    if (rc < 0)
        h->write = NULL;
    h->pages = pages;
    return rc;
}

/* ---- the caller's steps ------------------------------------------------ */

int
held_begin(struct held *h)
{
    return held_step_begin(h, true);
}

int
held_make_durable(struct held *h)
{
    int rc;

    rc = held_step_begin(h, false);
    if (rc == -ENOENT)
        return -ESTALE; /* there was something to make durable */
    return rc < 0 ? rc : held_commit(h);
}

static int
put_record(struct held *h, const struct store_batch *batch, uint64_t size,
           int error)
{
    MDB_val value = {.mv_size = size};
    int rc;

    rc = cut(h, batch, size);
    if (rc == 0)
        rc = held_index_add(h, batch, h->sums.next_id, &value);
    if (rc < 0)
        return rc;
    held_encode(batch, h->sums.next_id, clock_unix_ms(), error, value.mv_data);
    h->sums.next_id++;
    h->sums.records++;
    h->sums.bytes += size;
    return 0;
}

int
held_put(struct held *h, const struct store_batch *batch, int error)
{
    uint64_t size;
    int rc;

    assert(h->write != NULL);
    if (!held_batch_ok(batch))
        return -EINVAL;
    size = held_batch_size(batch);
    if (h->options.max > 0 && h->sums.bytes + size > h->options.max)
        return -EDQUOT;
    rc = size > UINT32_MAX ? -EFBIG : put_record(h, batch, size, error);
    return rc < 0 && rc != -ESTALE ? held_trouble(h, "hold", rc) : rc;
}

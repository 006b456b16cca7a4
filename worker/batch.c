/* worker/batch.c - see batch.h: batch_release(), batch_quarantine(),
 * batch_fold(), batch_take(), batch_release_unmerged(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/batch.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"

int
batch_open(struct log_batch *b, int log_fd, const struct layout *l,
           const struct config *config, size_t memory)
{
    const unsigned max = (unsigned)config->worker_batch;
    int rc;

    assert(max > 0);
    *b = (struct log_batch){.max = max, .retry_most_ms = BATCH_RETRY_MOST_MS};
    rc = logdir_open(&b->dir, log_fd, l, config->log_size);
    if (rc < 0)
        return rc;
    b->logs = calloc(max, sizeof *b->logs);
    rc = b->logs ? fold_open(&b->fold, memory, max) : -ENOMEM;
    if (rc < 0)
        batch_close(b);
    return rc;
}

void
batch_close(struct log_batch *b)
{
    if (!b->dir.stream)
        return; /* it is not open */
    if (b->logs)
        batch_release_unmerged(b, false);
    free(b->logs);
    fold_close(&b->fold);
    logdir_close(&b->dir);
}

/* ---- which logs -------------------------------------------------------- */

static int
by_age(const void *a, const void *b)
{
    const struct logfile *x = a, *y = b;

    if (x->mtime_ms != y->mtime_ms)
        return x->mtime_ms < y->mtime_ms ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static bool
have_uuid(const struct log_batch *b, const uint8_t *uuid)
{
    unsigned i;

    for (i = 0; i < b->count; i++)
        if (log_fill_is_of_log(&b->logs[i].mark, uuid))
            return true;
    return false;
}

/* ---- releasing one log --------------------------------------------------- */

static void
note_due(struct log_batch *b, uint64_t due_ms)
{
    if (due_ms < b->retry_ms)
        b->retry_ms = due_ms;
}

/* A log that should be ready is locked: its owner is between the chmod and the
 * end of its flock, or has died there.  The end of a flock wakes no process,
 * and log_recover() may repair only a log that no process holds: so it is tried
 * again soon. */
static void
look_again_soon(struct log_batch *b)
{
    b->recover_ms = 0;
    note_due(b, clock_ms() + BATCH_BUSY_MS);
}

/* Defers the next attempt with this log, which failed, and with others that
 * fail. */
static void
defer_log(struct log_batch *b, uint64_t index)
{
    if (b->retry_most_ms == 0)
        return;
    if (!b->any_deferred)
        retry_failed(&b->failed, clock_ms(), BATCH_RETRY_FIRST_MS,
                     b->retry_most_ms);
    b->any_deferred = true;
    fold_set_bit(b->deferred, index % BATCH_PLACES);
    note_due(b, b->failed.due_ms);
}

/* Whether a log that failed is still deferred. */
static bool
is_deferred(struct log_batch *b, uint64_t index)
{
    if (!fold_bit(b->deferred, index % BATCH_PLACES))
        return false;
    note_due(b, b->failed.due_ms);
    return true;
}

/* When it is time, all may be tried again; if none fails, the next wait is the
 * shortest again. */
static void
end_deferral(struct log_batch *b)
{
    if (!retry_is_due(&b->failed, clock_ms()))
        return;
    if (!b->any_deferred)
        retry_succeeded(&b->failed);
    b->any_deferred = false;
    memset(b->deferred, 0, sizeof b->deferred);
}

void
batch_release(struct log_batch *b, struct batch_log *l)
{
    const uint64_t index = l->log.header.index;
    int rc;

    assert(l->claimed);
    l->claimed = false;
    if (l->fill)
        return; /* the pass has its lock */
    rc = log_release(&l->log);
    if (rc == 0)
        return;
    defer_log(b, index);
    diag_errno(DIAG_ERROR, rc, "release log=%" PRIu64, index);
}

void
batch_quarantine(struct log_batch *b, struct batch_log *l, const char *why)
{
    const uint64_t index = l->log.header.index;
    const uint64_t epoch = l->log.header.epoch;
    int rc;

    assert(l->claimed);
    l->claimed = false;
    rc = log_quarantine(&l->log);
    if (rc < 0) {
        defer_log(b, index);
        diag_errno(DIAG_ERROR, rc, "quarantine log=%" PRIu64, index);
        return;
    }
    b->stats->quarantined++;
    diag(DIAG_ERROR,
         "log=%" PRIu64 " epoch=%" PRIu64
         " is quarantined and kept as bad-%010" PRIu64 "-%" PRIu64 ": %s",
         index, epoch, index, epoch, why);
}

/* ---- folding ----------------------------------------------------------- */

static int
fold_source(struct log_batch *b, unsigned number)
{
    const struct batch_log *l = &b->logs[number];

    return l->fill ? fold_add_waiting(&b->fold, l->fill, number)
                   : fold_add(&b->fold, &l->log, number);
}

/* Adds log `number`; a log that does not fit even alone takes the memory that
 * it needs. */
static int
add_log(struct log_batch *b, unsigned number)
{
    int rc;

    rc = b->fold.wide ? -ENOBUFS : fold_source(b, number);
    if (rc == 0 && b->keyspaces_max > 0 && b->fold.keyspaces > b->keyspaces_max)
        return -ENOBUFS;
    if (rc != -ENOBUFS || number > 0 || b->keyspaces_max > 0)
        return rc;
    rc = fold_clear(&b->fold);
    if (rc == 0)
        rc = fold_widen(&b->fold, b->logs[number].count);
    if (rc == 0)
        rc = fold_source(b, 0);
    return rc == -ENOBUFS ? -EFBIG : rc; /* what it takes was estimated */
}

/* Folds a log into the sums of those before it, and counts its increments. */
static int
fold_log(struct log_batch *b, unsigned number)
{
    const uint64_t records = number > 0 ? b->fold.records : 0;
    const uint64_t zeros = number > 0 ? b->fold.zeros : 0;
    struct batch_log *l = &b->logs[number];
    const int rc = add_log(b, number);

    if (rc == 0) {
        l->records = b->fold.records - records;
        l->zeros = b->fold.zeros - zeros;
    }
    return rc;
}

/* Removes a log that could not be folded from the batch. */
static void
drop_log(struct log_batch *b, struct batch_log *l, int rc)
{
    if (l->fill) {
        l->fill->file->damaged |= rc == -EBADMSG || rc == -EIO;
        batch_release(b, l);
        return;
    }
    switch (rc) {
    case -ENOBUFS: /* does not fit beside the others; a later batch takes it */
        batch_release(b, l);
        break;
    case -EBADMSG:
        batch_quarantine(b, l,
                         "it has fewer valid slots than its header counts");
        break;
    case -EIO:
        batch_quarantine(b, l, "it cannot be read");
        break;
    default:
        diag_errno(DIAG_ERROR, rc, "fold log=%" PRIu64, l->log.header.index);
        defer_log(b, l->log.header.index);
        batch_release(b, l);
        break;
    }
}

/* Removes the unclaimed logs from the array. */
static void
compact_logs(struct log_batch *b)
{
    unsigned i, kept = 0;

    for (i = 0; i < b->count; i++)
        if (b->logs[i].claimed)
            b->logs[kept++] = b->logs[i];
    b->count = kept;
}

int
batch_fold(struct log_batch *b)
{
    unsigned i = 0;
    int rc;

    do { /* each iteration removes a log */
        compact_logs(b);
        rc = fold_clear(&b->fold);
        if (rc < 0)
            return rc;
        for (i = 0; i < b->count; i++) {
            rc = fold_log(b, i);
            if (rc == 0)
                continue;
            drop_log(b, &b->logs[i], rc);
            break;
        }
    } while (i < b->count);
    return 0;
}

/* ---- claiming ------------------------------------------------------------ */

/* A log could not be claimed because of `rc`, which is reported. */
static void
heed_failure(struct log_batch *b, uint64_t index, int rc)
{
    switch (rc) {
    case -ESTALE: /* another process had it just now */
    case -ENOENT:
        break;
    case -EBUSY:
        look_again_soon(b);
        break;
    case -EBADMSG:
        b->stats->quarantined++;
        break;
    case -EPROTO:
        b->other_sizes = true;
        break;
    default:
        defer_log(b, index);
    }
}

/* Claims one log and makes it number b->count.  False if another process has
 * it, or it must not be merged. */
static bool
claim_log(struct log_batch *b, uint64_t index)
{
    struct batch_log *l = &b->logs[b->count];
    int rc;

    *l = (struct batch_log){.claimed = false};
    rc = logdir_claim_log(&b->dir, index, LOG_MODE_FULL, &l->log);
    if (rc < 0) {
        heed_failure(b, index, rc);
        return false;
    }
    l->claimed = true;
    l->mark = LOG_FILL_OF(&l->log.header);
    l->count = l->log.header.count;
    if (have_uuid(b, l->mark.uuid)) {
        /* A copy of a log of this batch: the marks show when the other copy is
         * merged. */
        batch_release(b, l);
        return false;
    }
    return true;
}

/* Folds log b->count, which is claimed.  1: more may be added, 0: no more. */
static int
fold_next(struct log_batch *b)
{
    int rc, again;

    rc = fold_log(b, b->count);
    b->count++;
    if (rc == 0)
        return b->count < b->max && fold_expects_fit(&b->fold);
    b->limited = b->keyspaces_max > 0 && rc == -ENOBUFS;
    drop_log(b, &b->logs[b->count - 1], rc);
    again = batch_fold(b);
    if (again < 0)
        return again;
    return rc != -ENOBUFS;
}

/* Adds one log to the batch; returns what fold_next() does. */
static int
take_log(struct log_batch *b, uint64_t index)
{
    return claim_log(b, index) ? fold_next(b) : !b->other_sizes;
}

int
batch_add_waiting(struct log_batch *b, struct waiting_fill *f)
{
    struct batch_log *l = &b->logs[b->count];

    *l = (struct batch_log){
        .claimed = true, .fill = f, .count = f->count, .mark = f->id};
    return fold_next(b);
}

/* Whether a log of the last scan is full, and may be tried now. */
static bool
is_ready(struct log_batch *b, const struct logfile *e)
{
    if (e->mode != LOG_MODE_FULL)
        return false;
    if (e->locked && e->ours)
        look_again_soon(b);
    return !e->locked && !is_deferred(b, e->index);
}

int
batch_take(struct log_batch *b)
{
    const uint64_t recovered = b->dir.recovered;
    int rc, more = 1;

    assert(b->count == 0);
    b->retry_ms = UINT64_MAX;
    end_deferral(b);
    b->other_sizes = false;
    b->limited = false;
    rc = fold_clear(&b->fold);
    if (rc < 0)
        return rc;
    /* A dead owner wakes no process, and each log that is owned costs some
     * system calls. */
    if (clock_ms() >= b->recover_ms || b->retry_most_ms == 0) {
        b->recover_ms = clock_ms() + BATCH_RECOVER_MS;
        rc = logdir_recover(&b->dir);
    } else {
        rc = logdir_scan(&b->dir);
    }
    if (rc < 0)
        return rc;
    /* After the first time, recovered logs may be those that a clean stop of
     * the writer leaves to recovery. */
    if (b->dir.recovered > 0 && !b->has_recovered)
        diag(DIAG_INFO, "recovered logs=%" PRIu64, b->dir.recovered);
    b->has_recovered = true;
    b->stats->recovered += b->dir.recovered - recovered;
    if (b->dir.count > 1)
        qsort(b->dir.entries, b->dir.count, sizeof *b->dir.entries, by_age);
    for (size_t i = 0; i < b->dir.count && more > 0; i++)
        if (is_ready(b, &b->dir.entries[i]))
            more = take_log(b, b->dir.entries[i].index);
    return more < 0 ? more : (int)b->count;
}

/* ---- releasing ---------------------------------------------------------- */

void
batch_release_unmerged(struct log_batch *b, bool failed)
{
    unsigned i;

    for (i = 0; i < b->count; i++) {
        struct batch_log *l = &b->logs[i];

        if (!l->claimed)
            continue;
        if (failed && !l->fill)
            defer_log(b, l->log.header.index);
        batch_release(b, l);
    }
    b->count = 0;
}

/* Empties a merged log.  False: the log was abandoned. */
static bool
empty_log(struct log_batch *b, struct batch_log *l)
{
    int rc;

    rc = log_empty(&l->log);
    if (rc == 0) {
        batch_release(b, l);
        return true;
    }
    /* Recovery reads whether it is full or empty; the marks are right for
     * both. */
    diag_errno(DIAG_ERROR, rc, "empty log=%" PRIu64, l->log.header.index);
    defer_log(b, l->log.header.index);
    log_abandon(&l->log);
    l->claimed = false;
    return false;
}

unsigned
batch_end(struct log_batch *b, bool stopped)
{
    unsigned i, emptied = 0;

    for (i = 0; i < b->count; i++) {
        struct batch_log *l = &b->logs[i];

        if (!l->claimed || !l->whole || !empty_log(b, l))
            continue;
        emptied++;
        b->stats->records += l->records;
        b->stats->zeros += l->zeros;
    }
    batch_release_unmerged(b, !stopped);
    return emptied;
}

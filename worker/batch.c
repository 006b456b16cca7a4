/* worker/batch.c - see batch.h. */
#include "worker/batch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"

int
batch_open(struct batch *b, int log_fd, int scratch_fd, const struct layout *l,
           uint64_t log_size, unsigned max, size_t memory)
{
    int rc;

    assert(max > 0);
    *b = (struct batch){
        .scratch_fd = scratch_fd, .max = max, .later.first_ms = LATER_FIRST_MS};
    rc = logdir_open(&b->dir, log_fd, l, log_size);
    if (rc < 0)
        return rc;
    rc = fold_open(&b->fold, memory, max);
    if (rc < 0)
        goto close_dir;
    b->logs = calloc(max, sizeof *b->logs);
    if (!b->logs) {
        rc = -ENOMEM;
        goto close_fold;
    }
    return 0;

close_fold:
    fold_close(&b->fold);
close_dir:
    logdir_close(&b->dir);
    return rc;
}

void
batch_close(struct batch *b)
{
    batch_give_back(b, false);
    free(b->ready);
    free(b->logs);
    fold_close(&b->fold);
    logdir_close(&b->dir);
}

/* ---- which logs -------------------------------------------------------- */

static int
by_age(const void *a, const void *b)
{
    const struct logdir_entry *x = a, *y = b;

    if (x->mtime_ms != y->mtime_ms)
        return x->mtime_ms < y->mtime_ms ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Copies the full logs of the last scan, oldest first: the scan's own order
 * is by index.  Returns their number or -ENOMEM. */
static int
find_ready(struct batch *b)
{
    struct logdir_entry *more;
    size_t i, n = 0;

    if (b->dir.count > b->ready_max) {
        more = realloc(b->ready, b->dir.count * sizeof *more);
        if (!more)
            return -ENOMEM;
        b->ready = more;
        b->ready_max = b->dir.count;
    }
    for (i = 0; i < b->dir.count; i++) {
        const struct logdir_entry *e = &b->dir.entries[i];

        if (e->present && !e->locked && e->mode == LOG_MODE_FULL)
            b->ready[n++] = *e;
    }
    if (n > 1)
        qsort(b->ready, n, sizeof *b->ready, by_age);
    return (int)n;
}

static bool
have_uuid(const struct batch *b, const uint8_t *uuid)
{
    unsigned i;

    for (i = 0; i < b->count; i++)
        if (memcmp(b->logs[i].mark.uuid, uuid, MESSAGE_UUID_SIZE) == 0)
            return true;
    return false;
}

/* ---- giving up one log ------------------------------------------------- */

/* It is left alone for a while. */
static void
defer(struct batch *b, uint64_t index, uint64_t inode)
{
    uint64_t now = clock_ms(), until = UINT64_MAX;

    later_note(&b->later, index, inode, now);
    if (later_waits(&b->later, index, inode, now, &until) &&
        until < b->retry_ms)
        b->retry_ms = until;
}

static void
release(struct batch *b, struct batch_log *l)
{
    const uint64_t index = l->log.header.index;
    int rc;

    assert(l->claimed);
    l->claimed = false;
    rc = log_release(&l->log);
    if (rc == 0)
        return;
    defer(b, index, l->inode);
    diag_errno(DIAG_ERROR, rc, "release log=%" PRIu64, index);
}

static void
quarantine(struct batch *b, struct batch_log *l, const char *why)
{
    const uint64_t index = l->log.header.index;
    const uint64_t epoch = l->log.header.epoch;
    int rc;

    assert(l->claimed);
    l->claimed = false;
    rc = log_quarantine(&l->log);
    if (rc < 0) {
        defer(b, index, l->inode);
        diag_errno(DIAG_ERROR, rc, "quarantine log=%" PRIu64, index);
        return;
    }
    b->stats.quarantined++;
    diag(DIAG_ERROR,
         "log=%" PRIu64 " epoch=%" PRIu64
         " is quarantined and kept as bad-%010" PRIu64 "-%" PRIu64 ": %s",
         index, epoch, index, epoch, why);
}

void
batch_quarantine(struct batch *b, unsigned number, const char *why)
{
    assert(number < b->count);
    quarantine(b, &b->logs[number], why);
}

/* Makes sure that what will be read is on the disk.  When that fails nothing
 * in the page cache can be believed any more: it is dropped, and recovery
 * reads the disk. */
static int
make_durable(struct batch *b, struct batch_log *l)
{
    int rc;

    rc = log_sync(&l->log);
    if (rc == 0)
        return 0;
    diag_errno(DIAG_ERROR, rc, "sync log=%" PRIu64, l->log.header.index);
    /* Only advice: pages that stay are clean and checked by their crc. */
    (void)posix_fadvise(l->log.fd, 0, 0, POSIX_FADV_DONTNEED);
    defer(b, l->log.header.index, l->inode);
    log_abandon(&l->log);
    l->claimed = false;
    return rc;
}

/* ---- taking ------------------------------------------------------------ */

/* Adds the log as number b->count; one that does not even fit alone is folded
 * in a file. */
static int
add(struct batch *b, const struct batch_log *l)
{
    int rc;

    rc = fold_add(&b->fold, &l->log, b->count);
    if (rc != -ENOBUFS || b->count > 0)
        return rc;
    rc = fold_clear(&b->fold);
    if (rc == 0)
        rc = fold_widen(&b->fold, b->scratch_fd, (uint32_t)l->log.header.count);
    if (rc == 0)
        rc = fold_add(&b->fold, &l->log, 0);
    assert(rc != -ENOBUFS);
    return rc;
}

/* Folds the log just claimed.  0: it is in.  -ENOBUFS: it does not fit beside
 * the others and was given back.  Else it is gone, and the fold is as before
 * but after -ENOTRECOVERABLE. */
static int
fold_log(struct batch *b, struct batch_log *l)
{
    int rc;

    rc = add(b, l);
    switch (rc) {
    case 0:
        break;
    case -ENOBUFS:
        release(b, l);
        break;
    case -EBADMSG:
        quarantine(b, l, "it has fewer valid slots than its header counts");
        break;
    case -EIO:
        quarantine(b, l, "it cannot be read");
        break;
    case -ENOTRECOVERABLE:
        quarantine(b, l, "it cannot be read twice");
        break;
    default:
        diag_errno(DIAG_ERROR, rc, "fold log=%" PRIu64, l->log.header.index);
        defer(b, l->log.header.index, l->inode);
        release(b, l);
        break;
    }
    return rc;
}

static void
claim_failed(struct batch *b, const struct logdir_entry *entry, int rc)
{
    static struct diag_repeat repeat;

    if (rc == -EBUSY || rc == -ESTALE || rc == -ENOENT)
        return; /* somebody else's by now */
    if (rc == -EBADMSG) {
        b->stats.quarantined++;
        diag(DIAG_ERROR, "log=%" PRIu64 " is quarantined: no valid header",
             entry->index);
        return;
    }
    defer(b, entry->index, entry->inode);
    diag_repeating(&repeat, DIAG_ERROR, "claim log=%" PRIu64 ": %s",
                   entry->index, diag_text(rc));
}

/* A log that does not fit the settings: the names would be cut. */
static bool
has_other_sizes(const struct batch *b, const struct log *log)
{
    return log->header.keyspace_size != b->dir.layout.keyspace_size ||
           log->header.key_size != b->dir.layout.key_size;
}

/* Claims one log and makes it number b->count.  False when it is not ours, or
 * not to be merged. */
static bool
claim(struct batch *b, const struct logdir_entry *entry)
{
    struct batch_log *l = &b->logs[b->count];
    int rc;

    *l = (struct batch_log){.inode = entry->inode};
    rc = log_claim(&l->log, b->dir.fd, entry->index, LOG_MODE_FULL);
    if (rc < 0) {
        claim_failed(b, entry, rc);
        return false;
    }
    l->claimed = true;
    memcpy(l->mark.uuid, l->log.header.uuid, sizeof l->mark.uuid);
    l->mark.epoch = l->log.header.epoch;
    l->mark.first_ms = l->log.header.first_ms;
    if (has_other_sizes(b, &l->log)) {
        diag(DIAG_ERROR,
             "log=%" PRIu64 " was written with message.keyspace_size=%u and "
             "message.key_size=%u: set these, or use another data_dir",
             entry->index, l->log.header.keyspace_size, l->log.header.key_size);
        b->other_sizes = true;
        release(b, l);
        return false;
    }
    if (have_uuid(b, l->mark.uuid)) {
        /* A copy of a log we have: the mark tells when that one is in. */
        release(b, l);
        return false;
    }
    return make_durable(b, l) == 0;
}

/* Takes one log.  False when no more are to be taken. */
static bool
take(struct batch *b, const struct logdir_entry *entry)
{
    int rc;

    if (!claim(b, entry))
        return !b->other_sizes;
    rc = fold_log(b, &b->logs[b->count]);
    if (rc == 0) {
        b->count++;
        return b->count < b->max && !b->fold.wide;
    }
    if (rc == -ENOTRECOVERABLE) {
        /* What is folded cannot be told from what is not. */
        batch_give_back(b, false);
        b->again = true;
    }
    return rc == -EBADMSG || rc == -EIO;
}

int
batch_take(struct batch *b)
{
    int rc, ready, i;
    bool more = true;

    assert(b->count == 0);
    b->again = false;
    b->retry_ms = UINT64_MAX;
    rc = fold_clear(&b->fold);
    if (rc < 0)
        return rc;
    rc = logdir_recover(&b->dir);
    if (rc < 0)
        return rc;
    b->stats.recovered += (uint64_t)rc;
    ready = find_ready(b);
    if (ready < 0)
        return ready;
    for (i = 0; i < ready && more; i++) {
        const struct logdir_entry *entry = &b->ready[i];

        if (!later_waits(&b->later, entry->index, entry->inode, clock_ms(),
                         &b->retry_ms))
            more = take(b, entry);
    }
    return (int)b->count;
}

/* ---- giving back ------------------------------------------------------- */

void
batch_give_back(struct batch *b, bool failed)
{
    unsigned i;

    for (i = 0; i < b->count; i++) {
        struct batch_log *l = &b->logs[i];

        if (!l->claimed)
            continue;
        if (failed)
            defer(b, l->log.header.index, l->inode);
        release(b, l);
    }
    b->count = 0;
}

/* True when it is empty. */
static bool
empty(struct batch *b, struct batch_log *l)
{
    int rc;

    rc = log_empty(&l->log);
    if (rc == 0) {
        later_forget(&b->later, l->log.header.index, l->inode);
        release(b, l);
        return true;
    }
    /* Full or empty, recovery reads which; the marks make both right. */
    diag_errno(DIAG_ERROR, rc, "empty log=%" PRIu64, l->log.header.index);
    defer(b, l->log.header.index, l->inode);
    log_abandon(&l->log);
    l->claimed = false;
    return false;
}

unsigned
batch_free(struct batch *b, bool stopped)
{
    unsigned i, emptied = 0;

    for (i = 0; i < b->count; i++) {
        struct batch_log *l = &b->logs[i];

        if (l->claimed && l->whole)
            emptied += empty(b, l);
    }
    batch_give_back(b, !stopped);
    return emptied;
}

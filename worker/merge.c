/* worker/merge.c - see merge.h: merge_run(), merge_waiting(),
 * merge_maintain(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/merge.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/log/kept.h"
#include "common/setup/reserve.h"
#include "worker/apply_batch.h"

#define OLDER_AGAIN_MS 1000

/* ---- opening, memory --------------------------------------------------- */

/* Half of worker.memory is for the sums: the more logs they cover, the cheaper
 * each increment is.  An eighth of that half is for quick batches. */
static size_t
fold_memory_of(uint64_t worker_memory, unsigned eighths)
{
    const size_t share = (size_t)(worker_memory / 16 * eighths);

    return share < FOLD_MEMORY_MIN ? FOLD_MEMORY_MIN : share;
}

int
merge_open(struct merge *m, const struct config *config,
           const struct datadir *dir, struct store *store)
{
    struct layout layout;
    int rc;

    *m = (struct merge){.store = store,
                        .dir = dir,
                        .keyspace_max = config->keyspace_max,
                        .keys_max = config->keyspace_max_keys,
                        .current = &m->batch,
                        .slice_ns = MERGE_SLICE_NS};
    waiting_pass_init(&m->pass, &m->folder);
    requests_init(&m->requests, dir->fd);
    dead_fills_init(&m->dead_fills, dir->log_fd);
    rc = waiting_open(&m->folder, dir->log_fd, true, true, config->held_max);
    if (rc == 0)
        rc = layout_init(&layout, (unsigned)config->keyspace_size,
                         (unsigned)config->key_size);
    if (rc == 0)
        rc = batch_open(&m->batch, dir->log_fd, &layout, config,
                        fold_memory_of(config->worker_memory, 7));
    if (rc == 0)
        rc = batch_open(&m->quick, dir->log_fd, &layout, config,
                        fold_memory_of(config->worker_memory, 1));
    m->quick.keyspaces_max = MERGE_QUICK_NAMES;
    m->batch.stats = m->quick.stats = &m->stats;
    m->batch.dir.requests = m->quick.dir.requests = &m->requests;
    /* If something else serves malloc(), as AddressSanitizer does, the first
     * call sets libc's heap up, which two threads cannot do at once. */
    (void)mallinfo2();
    if (rc == 0)
        rc = log_select_open(&m->select, store, &m->folder,
                             (unsigned)config->worker_batch);
    if (rc == 0 && !store_is_local(m->store))
        rc = as_of_init(&m->as_of, store, dir, &layout, config->log_size);
    if (rc < 0)
        merge_close(m);
    return rc;
}

void
merge_close(struct merge *m)
{
    if (m->as_of.store)
        as_of_fini(&m->as_of);
    archive_close(&m->archive);
    log_select_close(&m->select);
    dead_fills_fini(&m->dead_fills);
    batch_close(&m->quick);
    batch_close(&m->batch);
    waiting_close(&m->folder);
}

/* ---- the merge note ------------------------------------------------------ */

static void
report_note(struct diag_repeat *repeat, const char *what, int rc)
{
    diag_repeating(repeat, DIAG_WARNING,
                   "%s keyspace/" MERGE_NOTE_FILE " and log/" MERGE_NOTE_FILE
                   ": %s; an older keyspace/ may go undetected",
                   what, diag_text(rc));
}

/* Reads the notes.  If they cannot be read, the worker merges: an error of the
 * disk shows elsewhere, too. */
static void
read_note(struct merge *m)
{
    static struct diag_repeat repeat, moved, older;
    char text[MERGE_NOTE_TEXT];
    struct merge_note n;
    int rc;

    m->is_older = false;
    if (!store_is_local(m->store))
        return; /* its counters are not in this directory */
    if (!merge_note_is_in_place(m->dir)) {
        m->is_older = true;
        diag_repeating(&moved, DIAG_ERROR,
                       "keyspace/ was replaced while it was in use: nothing is "
                       "merged; restart the daemons");
        return;
    }
    rc = merge_note_read(m->dir, &n);
    m->is_older = rc >= 0 && merge_note_is_older(&n);
    if (rc < 0)
        report_note(&repeat, "read", rc);
    if (!m->is_older)
        return;
    merge_note_explain(&n, text);
    diag_repeating(&older, DIAG_ERROR, "%s", text);
}

static void
write_note(struct merge *m)
{
    static struct diag_repeat repeat;
    int rc;

    rc = merge_note_write(m->dir, clock_unix_ms(), false);
    m->is_older = rc == -ESTALE;
    if (rc == 0)
        m->note_ms = clock_ms() + MERGE_NOTE_EVERY_MS;
    else if (rc != -ESTALE && rc != -EAGAIN)
        report_note(&repeat, "write", rc);
}

/* Called before records go into the store: reads the merge notes, and writes
 * them when it is time.  False: keyspace/ is older than log/, which is
 * reported; only what a command placed may be merged (R11). */
static bool
begin_merge(struct merge *m)
{
    read_note(m);
    if (!m->is_older && store_is_local(m->store) && clock_ms() >= m->note_ms)
        write_note(m);
    return !m->is_older;
}

/* ---- the batch --------------------------------------------------------- */

/* Archives the logs that are about to be emptied.  A failure does not stop the
 * merge: the archive itself shows which logs are missing. */
static void
archive_logs(struct merge *m)
{
    static struct diag_repeat repeat, early, sync;
    const uint64_t removed_early = m->archive.removed_early;
    bool any = false;
    unsigned i;
    int rc;

    for (i = 0; i < m->current->count; i++) {
        const struct batch_log *l = &m->current->logs[i];

        if (!l->whole)
            continue;
        any = true;
        rc = archive_add(&m->archive, &l->log);
        if (rc == 0)
            m->stats.archived++;
        else
            diag_repeating(&repeat, DIAG_WARNING,
                           "archive log=%" PRIu64 ": %s; it is merged and "
                           "not archived",
                           l->log.header.index, diag_text(rc));
    }
    rc = any ? archive_sync(&m->archive) : 0;
    if (rc < 0)
        diag_repeating(&sync, DIAG_WARNING,
                       "sync archive/: %s; after a power loss logs may be "
                       "missing there",
                       diag_text(rc));
    if (m->archive.removed_early > removed_early)
        diag_repeating(&early, DIAG_WARNING,
                       "disk full: archived logs removed before "
                       "archive.keep=%" PRIu64,
                       m->archive.removed_early);
}

/* Copies the logs that are about to be emptied to where a running backup looks
 * for them.  If one cannot be copied, the backup is marked as incomplete. */
static void
keep_logs(struct merge *m)
{
    const int fd = kept_open(m->dir->log_fd);
    struct archive kept;
    int rc;

    if (fd == -ENOENT)
        return;
    rc = fd < 0 ? fd : archive_open(&kept, fd, 0);
    for (unsigned i = 0; rc == 0 && i < m->current->count; i++)
        if (m->current->logs[i].whole)
            rc = archive_add(&kept, &m->current->logs[i].log);
    if (rc < 0 || kept.removed_early > 0)
        kept_spoil(m->dir->log_fd);
    if (fd < 0)
        return;
    archive_close(&kept);
    (void)close(fd); /* a backup has no use for it after a power loss */
}

static void
report_saturation(const struct merge *m, uint64_t before)
{
    static struct diag_repeat repeat;

    if (m->stats.saturated > before)
        diag_repeating(&repeat, DIAG_WARNING,
                       "counters reached the limit of int64 and stay "
                       "flagged: %" PRIu64 " so far",
                       m->stats.saturated);
}

/* Frees the memory cached for the next batch. */
static void
release_idle_memory(struct merge *m)
{
    if (!m->worked)
        return;
    m->worked = false;

    /* A last scan that found nothing but a damaged log leaves names in the
     * fold. If clearing fails, the next batch begins with it. */
    if (fold_clear(&m->batch.fold) == 0)
        fold_trim(&m->batch.fold);
    (void)malloc_trim(0); /* whether anything was free does not matter */
}

/* The outcome of a scan that claimed no log. */
static enum merge_outcome
nothing_taken(struct merge *m)
{
    if (m->batch.other_sizes)
        return MERGE_REFUSED;
    release_idle_memory(m);
    return m->batch.retry_ms == UINT64_MAX ? MERGE_IDLE : MERGE_LATER;
}

/* After the batch is applied: archives and empties its logs.  Returns how many
 * were emptied. */
static unsigned
end_batch(struct merge *m, bool *halted)
{
    unsigned emptied;

    apply_batch_end(m);
    if (archive_is_on(&m->archive))
        archive_logs(m);
    keep_logs(m);
    *halted = apply_batch_stopped(m);
    emptied = batch_end(m->current, *halted);
    m->stats.logs += emptied;
    return emptied;
}

/* Takes the logs that may be merged together, chosen by log_select_sort();
 * after an error none are taken.
 *   -ENODATA  there are none   -ESTALE  keyspace/ is older than log/ */
static int
prepare_batch(struct merge *m, struct log_batch *b)
{
    int rc;

    rc = batch_take(b);
    if (rc == 0)
        return -ENODATA;
    m->worked = true;
    if (rc > 0)
        rc = begin_merge(m) ? log_select_sort(&m->select, b) : -ESTALE;
    if (rc < 0)
        batch_release_unmerged(b, false);
    return rc;
}

/* Merges the logs of m->quick, which have few keyspaces.  Returns whether that
 * succeeded. */
static bool
merge_quick_batch(struct merge *m)
{
    const int rc = prepare_batch(m, &m->quick);
    bool halted;

    if (rc < 0)
        return rc == -ENODATA && !m->quick.limited; /* reported by the next */
    apply_batch_begin(m);
    while (apply_batch_slice(m))
        continue;
    (void)end_batch(m, &halted);
    return !halted && !m->waiting && !m->quick.limited;
}

/* Merges the logs that became full since the last slice, if they have few
 * keyspaces.  Returns whether to do so again. */
static bool
merge_quick(struct merge *m)
{
    bool again;

    m->quick.has_recovered =
        true; /* only logs found at the start are reported */
    m->current = &m->quick;
    again = merge_quick_batch(m);
    m->current = &m->batch;
    if (fold_clear(&m->quick.fold) == 0)
        fold_trim(&m->quick.fold);
    return again;
}

/* Applies the batch and, between its slices, quick batches, until one returns
 * false. */
static void
apply_batch(struct merge *m, bool quick)
{
    apply_batch_begin(m);
    while (apply_batch_slice(m))
        quick = quick && merge_quick(m);
}

/* Merges the logs of the batch; `others`: some were released for the next
 * batch. */
static enum merge_outcome
merge_batch(struct merge *m, bool others)
{
    const uint64_t saturated = m->stats.saturated;
    unsigned emptied;
    bool halted;

    m->waiting = false;
    apply_batch(m, true);
    emptied = end_batch(m, &halted);
    report_saturation(m, saturated);
    if (halted)
        return MERGE_STOPPED;
    if (m->waiting)
        return MERGE_WAIT;
    return emptied > 0 || others || m->batch.retry_ms == UINT64_MAX
               ? MERGE_DONE
               : MERGE_LATER;
}

/* ---- one batch ----------------------------------------------------------- */

enum merge_outcome
merge_run(struct merge *m)
{
    static struct diag_repeat repeat;
    int rc;

    read_note(m);
    if (m->is_older)
        return MERGE_OLDER;
    rc = prepare_batch(m, &m->batch);
    if (rc >= 0)
        return merge_batch(m, rc > 0);
    if (rc == -ENODATA)
        return nothing_taken(m);
    if (m->is_older)
        return MERGE_OLDER;
    if (rc == -EAGAIN) { /* files of log/waiting/ are being replaced */
        m->batch.retry_ms = clock_ms() + BATCH_BUSY_MS;
        return MERGE_LATER;
    }
    diag_repeating(&repeat, DIAG_ERROR, "prepare a merge: %s", diag_text(rc));
    return MERGE_WAIT;
}

/* ---- what waits ---------------------------------------------------------- */

/* Merges the fills of the batch, which were taken. */
static void
merge_waiting_batch(struct merge *m)
{
    const uint64_t saturated = m->stats.saturated;
    const bool waiting = m->waiting;

    m->worked = true;
    m->select.pass = m->pass.number;
    if (log_select_sort(&m->select, &m->batch) >= 0) {
        apply_batch(m, !m->pass.placed_only);
        apply_batch_end(m);
    }
    waiting_pass_end_batch(&m->pass, &m->batch);
    batch_release_unmerged(&m->batch, false);
    report_saturation(m, saturated);
    m->waiting = waiting; /* of logs */
}

uint64_t
merge_waiting(struct merge *m)
{
    struct waiting_pass *p = &m->pass;
    int taken;

    if (!p->passing && p->due_ms != UINT64_MAX && p->now_ms() < p->due_ms)
        return p->due_ms;
    if (!p->placed_only)
        read_note(m);
    if (m->is_older) {
        p->due_ms = p->now_ms() + OLDER_AGAIN_MS;
        return p->due_ms;
    }
    taken = waiting_pass_take(p, &m->batch);
    if (taken > 0 && (p->placed_only || begin_merge(m))) {
        merge_waiting_batch(m);
    } else if (taken != 0) {
        batch_release_unmerged(&m->batch, false);
        taken = taken > 0 ? -EAGAIN : taken;
    }
    waiting_pass_ended(p, taken);
    return p->due_ms;
}

static bool
is_dead_fill(void *ctx, const struct log_fill *mark)
{
    struct merge *m = ctx;

    return dead_fills_contain(&m->dead_fills, mark);
}

/* A running backup looks in a keyspace's marks for the logs that were kept for
 * it. */
static bool
is_backed_up(const struct merge *m)
{
    const int fd = kept_open(m->dir->log_fd);

    if (fd >= 0)
        (void)close(fd);
    return fd != -ENOENT;
}

/* Whether the file of an empty keyspace must stay (R8); true also if that is
 * not known. */
static bool
is_named(void *ctx, const uint8_t *name, size_t name_size)
{
    struct merge *m = ctx;

    return is_backed_up(m) || waiting_sync(&m->folder) < 0 ||
           waiting_list(&m->folder) < 0 ||
           waiting_find(&m->folder, name, name_size) != WAITING_NONE;
}

static int
remove_expired(struct merge *m)
{
    const int rc = archive_remove_expired(&m->archive, clock_unix_ms());

    if (rc == ARCHIVE_STEP) /* there may be more */
        m->due_ms[MERGE_EXPIRE] = clock_ms() + 1000;
    return rc;
}

/* Without a reserve `countd drop` cannot free space once the disk is full. */
static int
maintain_reserve(struct merge *m)
{
    const int rc = reserve_make(m->dir->fd);

    return rc == -EBUSY || rc == -ENOSPC ? 0 : rc;
}

static int
join_waiting(struct merge *m)
{
    const int rc = waiting_join(&m->folder);

    return rc == -ENOSPC ? 0 : rc;
}

/* Does the periodic work that is due. */
static void
run_chores(struct merge *m)
{
    static const struct {
        uint64_t every_ms;
        int (*run)(struct merge *m);
        const char *what;
    } chores[MERGE_CHORES] = {
        [MERGE_JOIN] = {1000, join_waiting, "join files of log/waiting/"},
        [MERGE_EXPIRE] = {240000, remove_expired, "remove archived logs"},
        [MERGE_RESERVE] = {10000, maintain_reserve, "make " RESERVE_FILE},
    };
    static struct diag_repeat repeats[MERGE_CHORES];

    for (unsigned i = 0; i < MERGE_CHORES; i++) {
        const uint64_t now = clock_ms();
        int rc;

        if (now < m->due_ms[i])
            continue;
        m->due_ms[i] = now + chores[i].every_ms;
        rc = chores[i].run(m);
        if (rc < 0)
            diag_repeating(&repeats[i], DIAG_WARNING, "%s: %s", chores[i].what,
                           diag_text(rc));
    }
}

static uint64_t
applied_ms(void *ctx)
{
    struct merge *m = ctx;

    as_of_refresh(&m->as_of, clock_ms());
    return (uint64_t)as_of_claim(&m->as_of, NULL, 0);
}

bool
merge_has_ended(struct merge *m)
{
    struct waiting *waiting = &m->as_of.waiting;
    uint64_t oldest_ms;

    return !store_is_local(m->store) && datadir_writer_pid(m->dir) == 0 &&
           pending_oldest_ms(&m->as_of.logs, &oldest_ms) == 0 &&
           oldest_ms == UINT64_MAX && waiting_list(waiting) >= 0 &&
           waiting->held_files == 0;
}

bool
merge_maintain(struct merge *m, uint64_t until_ns)
{
    const struct store_maintenance t = {.until_ns = until_ns,
                                        .is_dead_fill = is_dead_fill,
                                        .is_named = is_named,
                                        .applied_ms = applied_ms,
                                        .ctx = m};
    bool more;

    /* Marks and archived logs stay: an operator may need them. */
    if (m->is_older)
        return false;
    more = store_maintain(m->store, &t);
    if (!more)
        dead_fills_forget(&m->dead_fills);
    run_chores(m);
    return more;
}

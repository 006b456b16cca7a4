/* worker/merge.c - see merge.h. */
#include "worker/merge.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/wire/name.h"

/* While another process writes to a keyspace it is looked at that often. */
#define PATIENT_FIRST_MS 1
#define PATIENT_MOST_MS  32
#define PATIENT_SAY_MS   1000

/* ---- opening, memory --------------------------------------------------- */

/* How worker.memory is shared.  Half at most is for the sums: the more logs
 * they cover, the cheaper each increment is.  An eighth the store may keep
 * between commits.  A commit may have all that is free when it is made, and
 * some of the 64 MB on top: the more it has, the fewer commits a large merge
 * is cut into. */
static size_t
fold_memory_of(uint64_t worker_memory)
{
    const size_t share = (size_t)(worker_memory / 2);

    return share < FOLD_MEMORY_MIN ? FOLD_MEMORY_MIN : share;
}

#define ON_TOP ((size_t)32 << 20)

size_t
merge_commit_least(uint64_t worker_memory)
{
    return (size_t)(worker_memory / 8);
}

size_t
merge_spare(void *ctx)
{
    const struct merge *m = ctx;
    size_t used = memory_in_use(&m->memory);

    if (used == 0)
        used = fold_memory(&m->batch.fold) + m->commit_least + ON_TOP;
    return used < m->memory_most ? m->memory_most - used : 0;
}

int
merge_open(struct merge *m, const struct config *config,
           const struct datadir *dir, struct store *store, struct held *held)
{
    const unsigned max = config->worker_batch < FOLD_LOGS_MAX
                             ? (unsigned)config->worker_batch
                             : FOLD_LOGS_MAX;
    struct layout layout;
    int rc;

    *m = (struct merge){.store = store,
                        .held = held,
                        .dir = dir,
                        .keyspace_max = config->keyspace_max,
                        .keys_max = config->keyspace_max_keys,
                        .memory.fd = -1,
                        .memory_most = (size_t)config->worker_memory + ON_TOP,
                        .commit_least =
                            merge_commit_least(config->worker_memory)};
    archive_init(&m->archive);
    rc = layout_init(&layout, (unsigned)config->keyspace_size,
                     (unsigned)config->key_size);
    if (rc < 0)
        return rc;
    rc = batch_open(&m->batch, dir->log_fd, dir->fd, &layout, config->log_size,
                    max, fold_memory_of(config->worker_memory));
    if (rc < 0)
        return rc;
    memory_open(&m->memory);
    spent_init(&m->spent, dir->log_fd);
    rc = agree_open(&m->agree, store, held, max);
    if (rc < 0)
        merge_close(m);
    return rc;
}

static void
archive_begins(void *ctx, const struct log *log)
{
    archive_begin(ctx, log);
}

static void
archive_sees(void *ctx, const struct message *messages,
             const struct slot_stamp *stamps, const struct packed_marks *marks,
             unsigned count)
{
    archive_see(ctx, messages, stamps, marks, count);
}

static void
archive_ends(void *ctx, const struct log *log, int rc)
{
    archive_end(ctx, log, rc);
}

static void
archive_restarts(void *ctx)
{
    archive_restart(ctx);
}

int
merge_archive(struct merge *m, uint64_t keep_ms)
{
    const int rc = archive_open(&m->archive, m->dir->archive_fd, keep_ms);

    if (rc < 0)
        return rc;
    m->watch = (struct fold_watch){.begin = archive_begins,
                                   .see = archive_sees,
                                   .end = archive_ends,
                                   .clear = archive_restarts,
                                   .ctx = &m->archive};
    m->batch.fold.watch = &m->watch;
    return 0;
}

void
merge_close(struct merge *m)
{
    archive_close(&m->archive);
    agree_close(&m->agree);
    spent_fini(&m->spent);
    batch_close(&m->batch);
    memory_close(&m->memory);
}

static bool
stopped(const struct merge *m)
{
    return m->stop && m->stop(m->stop_ctx);
}

static void
keyspace_text(const struct fold_keyspace *k, char text[NAME_TEXT_SIZE])
{
    (void)name_escape(k->name, k->name_size, text); /* its length: unused */
}

/* ---- waiting for another process --------------------------------------- */

/* Nobody is waited for any more. */
static void
be_served(struct merge *m)
{
    m->patient_ms = 0;
}

/* Waits a little for the process that is writing to `what`; longer each time,
 * and says so once a second at most.  False: told to stop. */
static bool
wait_for(struct merge *m, const char *what, long holder, uint64_t *wait_ms)
{
    const uint64_t now = clock_ms();
    struct timespec t = {.tv_nsec = (long)*wait_ms * 1000000};

    if (m->patient_ms == 0)
        m->patient_ms = m->told_ms = now;
    if (now - m->told_ms >= PATIENT_SAY_MS) {
        m->told_ms = now;
        diag(
            DIAG_WARNING,
            "%s: waiting for pid=%ld, which is writing to it; seconds=%" PRIu64,
            what, holder, (now - m->patient_ms) / 1000);
    }
    if (stopped(m))
        return false;
    (void)nanosleep(&t, NULL); /* a signal may end it early */
    *wait_ms = *wait_ms < PATIENT_MOST_MS ? 2 * *wait_ms : PATIENT_MOST_MS;
    return true;
}

/* ---- applying ---------------------------------------------------------- */

/* True when the machine is the trouble, not the keyspace. */
static bool
machine_cannot(int rc)
{
    return rc == -ENOSPC || rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE ||
           rc == -EROFS;
}

static enum keyspace_state
state_after(int rc)
{
    if (rc == 0)
        return KEYSPACE_IN;
    if (rc == -EAGAIN)
        return KEYSPACE_PUT_OFF;
    if (rc == -ESTALE || rc == -EOVERFLOW || machine_cannot(rc))
        return KEYSPACE_NOT;
    return KEYSPACE_HOLD;
}

/* Says why a keyspace did not take its records.  A limit is called by the name
 * of its setting. */
static void
tell_failure(const struct merge *m, const struct fold_keyspace *k, bool no_room)
{
    static struct diag_repeat holds, waits;
    char text[NAME_TEXT_SIZE];

    keyspace_text(k, text);
    if (k->state == KEYSPACE_NOT)
        diag_repeating(&waits, DIAG_ERROR,
                       "keyspace=%s: %s; its logs stay full, trying again",
                       text, diag_text(k->error));
    else if (k->error == -EDQUOT)
        diag_repeating(&holds, DIAG_ERROR,
                       "keyspace=%s cannot take its records, they are held: "
                       "%s=%" PRIu64 " would be passed",
                       text, no_room ? "keyspace.max" : "keyspace.max_keys",
                       no_room ? m->keyspace_max : m->keys_max);
    else if (k->state == KEYSPACE_HOLD)
        diag_repeating(&holds, DIAG_ERROR,
                       "keyspace=%s cannot take its records, they are held: "
                       "%s",
                       text, diag_text(k->error));
}

/* The batch of a keyspace; its deltas live until the next call. */
static struct store_batch
batch_of(struct merge *m, const struct fold_keyspace *k)
{
    struct store_batch b = {.name = k->name, .name_size = k->name_size};
    struct store_delta *deltas;

    b.mark_count = agree_touching(&m->agree, &m->batch, k);
    b.marks = m->agree.marks;
    fold_deltas(&m->batch.fold, k, &deltas, &b.delta_count);
    b.deltas = deltas;
    return b;
}

/* Has the store apply a keyspace's records; the pid of who is in the way. */
static long
apply(struct merge *m, struct fold_keyspace *k)
{
    const struct store_batch b = batch_of(m, k);
    struct store_applied applied = {0};

    k->error = store_apply(m->store, &b, &applied);
    k->state = (int8_t)state_after(k->error);
    m->stats.keys += applied.keys;
    m->stats.created += applied.created;
    m->stats.saturated += applied.saturated;
    m->stats.keyspaces += k->state == KEYSPACE_IN;
    m->waiting = m->waiting || machine_cannot(k->error);
    tell_failure(m, k, applied.no_room);
    return applied.holder;
}

/* Applies what was put off, when a wait is over; how many are still in the
 * way, and one of them. */
static size_t
apply_put_off(struct merge *m, struct fold_keyspace **behind, long *holder)
{
    struct fold_keyspace *k;
    size_t left = 0;
    long pid;

    for (k = m->batch.fold.first; k && !stopped(m); k = k->next) {
        if (k->state != KEYSPACE_PUT_OFF)
            continue;
        pid = apply(m, k);
        if (k->state != KEYSPACE_PUT_OFF)
            continue;
        left++;
        *behind = k;
        *holder = pid;
    }
    return left;
}

/* Applies to every keyspace that is to be applied to. */
static void
apply_all(struct merge *m)
{
    struct fold_keyspace *k, *behind = NULL;
    uint64_t wait_ms = PATIENT_FIRST_MS;
    char text[NAME_TEXT_SIZE + sizeof "keyspace="] = "keyspace=";
    size_t left = 0;
    long holder = 0;

    for (k = m->batch.fold.first; k && !stopped(m); k = k->next) {
        if (k->state != KEYSPACE_TODO)
            continue;
        holder = apply(m, k);
        if (k->state == KEYSPACE_PUT_OFF) {
            behind = k;
            left++;
        }
    }
    while (left > 0) {
        keyspace_text(behind, text + sizeof "keyspace=" - 1);
        if (!wait_for(m, text, holder, &wait_ms))
            break;
        left = apply_put_off(m, &behind, &holder);
    }
    be_served(m);
    /* Told to stop: what was not come to stays where it is. */
    for (k = m->batch.fold.first; k; k = k->next)
        if (k->state == KEYSPACE_TODO || k->state == KEYSPACE_PUT_OFF)
            k->state = KEYSPACE_NOT;
}

/* ---- holding ----------------------------------------------------------- */

/* The logs with records for the keyspace stay full. */
static void
not_whole(struct merge *m, const struct fold_keyspace *k)
{
    unsigned i;

    for (i = 0; i < m->batch.count; i++)
        if (fold_bit(k->touched, i))
            m->batch.logs[i].whole = false;
}

/* Whether a log with records for the keyspace can be emptied if these are
 * safe.  If not, they will be met again: nothing is to be done for them. */
static bool
any_whole(const struct merge *m, const struct fold_keyspace *k)
{
    unsigned i;

    for (i = 0; i < m->batch.count; i++)
        if (fold_bit(k->touched, i) && m->batch.logs[i].whole)
            return true;
    return false;
}

/* How many keyspaces in this state matter. */
static size_t
count_in(const struct merge *m, enum keyspace_state state)
{
    const struct fold_keyspace *k;
    size_t n = 0;

    for (k = m->batch.fold.first; k; k = k->next)
        n += k->state == (int8_t)state && any_whole(m, k);
    return n;
}

static int
put_all(struct merge *m)
{
    const struct fold_keyspace *k;
    int rc = 0;

    for (k = m->batch.fold.first; rc == 0 && k; k = k->next) {
        struct store_batch b;

        if (k->state != KEYSPACE_HOLD || !any_whole(m, k))
            continue;
        if (stopped(m))
            return -ECANCELED;
        b = batch_of(m, k);
        rc = held_put(m->held, &b, k->error);
    }
    return rc;
}

static int
hold_once(struct merge *m)
{
    int rc;

    rc = held_begin(m->held);
    if (rc < 0)
        return rc;
    rc = put_all(m);
    if (rc == 0)
        return held_commit(m->held);
    held_abort(m->held);
    return rc;
}

/* Holds what is to be held; has what is held already, perhaps by a process that
 * died, be durable. */
static int
hold(struct merge *m)
{
    const size_t count = count_in(m, KEYSPACE_HOLD);
    uint64_t wait_ms = PATIENT_FIRST_MS;
    int rc = 0;

    if (count == 0 && count_in(m, KEYSPACE_SAME) == 0)
        return 0;
    do
        rc = count > 0 ? hold_once(m) : held_fence(m->held);
    while (rc == -EAGAIN &&
           wait_for(m, "data/" HELD_FILE, held_holder(m->held), &wait_ms));
    be_served(m);
    if (rc == 0)
        m->stats.held += count;
    return rc;
}

static void
tell_cannot_hold(struct merge *m, int error)
{
    static struct diag_repeat repeat;

    if (error == -EAGAIN || error == -ECANCELED)
        return; /* told to stop */
    m->waiting = m->waiting || error != -ESTALE;
    diag_repeating(&repeat, DIAG_ERROR,
                   "hold records: %s; their logs stay full, trying again",
                   error == -EDQUOT ? "held.max would be passed"
                                    : diag_text(error));
}

/* Sees to every keyspace; then each log is whole or not. */
static void
settle_all(struct merge *m)
{
    struct fold_keyspace *k;
    unsigned i;
    int rc;

    for (i = 0; i < m->batch.count; i++)
        m->batch.logs[i].whole = true;
    apply_all(m);
    for (k = m->batch.fold.first; k; k = k->next)
        if (k->state == KEYSPACE_NOT)
            not_whole(m, k);
    rc = hold(m);
    if (rc == 0)
        return;
    tell_cannot_hold(m, rc);
    for (k = m->batch.fold.first; k; k = k->next)
        if (k->state == KEYSPACE_HOLD || k->state == KEYSPACE_SAME)
            not_whole(m, k);
}

/* ---- the batch --------------------------------------------------------- */

/* Archives the logs that are about to be emptied.  What cannot be archived
 * stops no merge: the folder itself says what is missing. */
static void
archive(struct merge *m)
{
    static struct diag_repeat repeat, early, sync;
    const uint64_t made_room = m->archive.made_room;
    bool any = false;
    unsigned i;
    int rc;

    for (i = 0; i < m->batch.count; i++) {
        const struct batch_log *l = &m->batch.logs[i];

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
    if (m->archive.made_room > made_room)
        diag_repeating(&early, DIAG_WARNING,
                       "disk full: archived logs removed before "
                       "archive.keep=%" PRIu64,
                       m->archive.made_room);
}

static void
report_batch(const struct merge *m, uint64_t since_ms)
{
    unsigned i, whole = 0;

    for (i = 0; i < m->batch.count; i++)
        whole += m->batch.logs[i].whole;
    diag(DIAG_DEBUG,
         "merged logs=%u of=%u records=%" PRIu64 " keyspaces=%zu ms=%" PRIu64,
         whole, m->batch.count, m->batch.fold.records, m->batch.fold.keyspaces,
         clock_ms() - since_ms);
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

/* Nothing to do: memory kept for the next batch goes back. */
static void
rest(struct merge *m)
{
    if (!m->worked)
        return;
    m->worked = false;

    /* A last look that found nothing but a damaged log leaves names behind.
     * When this fails the next batch begins with it. */
    if (fold_clear(&m->batch.fold) == 0)
        fold_trim(&m->batch.fold);
    memory_trim();
}

uint64_t
merge_retry_ms(const struct merge *m)
{
    return m->batch.retry_ms;
}

/* What a look at the directory that took no log means. */
static enum merge_outcome
nothing_taken(struct merge *m)
{
    if (m->batch.other_sizes)
        return MERGE_REFUSED;
    rest(m);
    return m->batch.retry_ms == UINT64_MAX ? MERGE_IDLE : MERGE_LATER;
}

/* Merges the logs of the batch; `others`: some were given back for the next. */
static enum merge_outcome
merge_batch(struct merge *m, bool others)
{
    const uint64_t saturated = m->stats.saturated;
    const uint64_t since_ms = clock_ms();
    unsigned emptied;
    bool halted;

    m->waiting = false;
    settle_all(m);
    if (archive_is_on(&m->archive))
        archive(m);
    halted = stopped(m);
    m->stats.records += m->batch.fold.records;
    m->stats.zeros += m->batch.fold.zeros;
    report_batch(m, since_ms);
    report_saturation(m, saturated);
    emptied = batch_end(&m->batch, halted);
    m->stats.logs += emptied;
    if (halted)
        return MERGE_STOPPED;
    if (m->waiting)
        return MERGE_WAIT;
    return emptied > 0 || others || m->batch.retry_ms == UINT64_MAX
               ? MERGE_DONE
               : MERGE_LATER;
}

static enum merge_outcome
run(struct merge *m)
{
    static struct diag_repeat looks, prepares;
    int rc;

    rc = batch_take(&m->batch);
    if (rc < 0) {
        diag_repeating(&looks, DIAG_ERROR, "look for full logs: %s",
                       diag_text(rc));
        batch_give_back(&m->batch, false);
        return MERGE_WAIT;
    }
    if (rc == 0)
        return nothing_taken(m);
    m->worked = true;
    rc = agree_sort(&m->agree, &m->batch);
    if (rc >= 0)
        return merge_batch(m, rc > 0);
    diag_repeating(&prepares, DIAG_ERROR, "prepare a merge: %s", diag_text(rc));
    batch_give_back(&m->batch, false);
    return MERGE_WAIT;
}

enum merge_outcome
merge_run(struct merge *m)
{
    const enum merge_outcome outcome = run(m);

    archive_forget(&m->archive);
    return outcome;
}

static bool
is_spent(void *ctx, const struct store_mark *mark)
{
    struct merge *m = ctx;

    return spent_is(&m->spent, mark);
}

/* Also when nobody can tell. */
static bool
is_awaited(void *ctx, const uint8_t *name, size_t name_size)
{
    struct merge *m = ctx;
    uint64_t oldest = 0, newest;
    int rc;

    rc = held_look(m->held);
    if (rc == 0)
        rc = held_span(m->held, name, name_size, &oldest, &newest);
    held_look_end(m->held);
    return rc < 0 || oldest != UINT64_MAX;
}

static void
tend_archive(struct merge *m)
{
    static struct diag_repeat repeat;
    const int rc = archive_tend(&m->archive, clock_unix_ms());

    if (rc < 0)
        diag_repeating(&repeat, DIAG_WARNING, "remove archived logs: %s",
                       diag_text(rc));
}

bool
merge_tend(struct merge *m, uint64_t until_ns)
{
    const struct store_tending t = {.until_ns = until_ns,
                                    .is_spent = is_spent,
                                    .is_awaited = is_awaited,
                                    .ctx = m};
    bool more;

    more = store_tend(m->store, &t);
    spent_forget(&m->spent);
    tend_archive(m);
    return more;
}

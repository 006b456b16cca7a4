/* worker/merge.c - see merge.h. */
#include "worker/merge.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/files.h"
#include "common/log/archive.h"
#include "common/store/lmdb/held_files.h"
#include "common/wire/name.h"
#include "worker/fate.h"

/* No living worker writes this long on one held file. */
#define HELD_UNFINISHED_MS 600000

/* Keyspace files are looked at that often: were they replaced? */
#define KEYSPACES_LOOK_MS 1000

/* More held files than this are synced all at once. */
#define HELD_SYNCED_ALONE 16

/* What became of a keyspace's records. */
enum settled { SETTLED_IN, SETTLED_HOLD, SETTLED_NOT };

/* ---- opening ----------------------------------------------------------- */

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

static void
options_of(struct lmdb_options *o, const struct config *config,
           const struct datadir *dir)
{
    *o = (struct lmdb_options){
        .keyspace_fd = dir->keyspace_fd,
        .hash_key = dir->hash_key,
        .keyspace_size = (uint16_t)config->keyspace_size,
        .key_size = (uint16_t)config->key_size,
        .writable = true,
        .open_max = files_keyspaces(),
        .txn_memory = (size_t)(config->worker_memory / 8),
        .keyspace_max = config->keyspace_max,
        .keys_max = config->keyspace_max_keys,
    };
}

/* Opens the store unless it is. */
static int
open_store(struct merge *m)
{
    int rc;

    if (m->store)
        return 0;
    rc = lmdb_open(&m->store, &m->store_options);
    if (rc < 0)
        m->store = NULL;
    m->aside.store = m->store;
    return rc;
}

/* What a commit may take now. */
static size_t
spare_memory(const struct merge *m)
{
    size_t used = memory_in_use(&m->memory);

    if (used == 0)
        used = fold_memory(&m->batch.fold) + m->commit_least + ON_TOP;
    return used < m->memory_most ? m->memory_most - used : 0;
}

/* Tells the store how much the next commit may take.  What its engine and
 * malloc keep for later is in the way when that is too little. */
static int
share_memory(struct merge *m)
{
    size_t spare = spare_memory(m);
    int rc;

    if (spare < m->commit_least) {
        lmdb_close(m->store);
        m->store = NULL;
        memory_trim();
        rc = open_store(m);
        if (rc < 0)
            return rc;
        spare = spare_memory(m);
    }
    if (spare < m->commit_least)
        spare = m->commit_least;
    lmdb_txn_memory(m->store, spare);
    return 0;
}

int
merge_open(struct merge *m, const struct config *config,
           const struct datadir *dir)
{
    const unsigned max = config->worker_batch < FOLD_LOGS_MAX
                             ? (unsigned)config->worker_batch
                             : FOLD_LOGS_MAX;
    struct layout layout;
    int rc;

    *m = (struct merge){.dir = dir,
                        .archive_keep = config->archive_keep,
                        .memory.fd = -1,
                        .memory_most = (size_t)config->worker_memory + ON_TOP,
                        .commit_least = (size_t)(config->worker_memory / 8)};
    m->aside = (struct aside){.held_fd = dir->held_fd,
                              .keyspace_fd = dir->keyspace_fd,
                              .hash_key = dir->hash_key};
    options_of(&m->store_options, config, dir);
    rc = layout_init(&layout, (unsigned)config->keyspace_size,
                     (unsigned)config->key_size);
    if (rc < 0)
        return rc;
    rc = batch_open(&m->batch, dir->log_fd, dir->held_fd, &layout,
                    config->log_size, max,
                    fold_memory_of(config->worker_memory));
    if (rc < 0)
        return rc;
    memory_open(&m->memory);
    m->marks = calloc(max, sizeof *m->marks);
    m->infos = calloc(max, sizeof *m->infos);
    m->numbers = calloc(max, sizeof *m->numbers);
    rc = m->marks && m->infos && m->numbers ? open_store(m) : -ENOMEM;
    if (rc < 0)
        merge_close(m);
    return rc;
}

void
merge_close(struct merge *m)
{
    batch_close(&m->batch);
    if (m->store)
        lmdb_close(m->store);
    memory_close(&m->memory);
    free(m->marks);
    free(m->infos);
    free(m->numbers);
}

static bool
stopped(const struct merge *m)
{
    return m->stop && m->stop(m->stop_ctx);
}

/* ---- keyspaces that fail ----------------------------------------------- */

static struct merge_failing *
find_failing(struct merge *m, const struct fold_keyspace *k)
{
    unsigned i;

    for (i = 0; i < MERGE_FAILING; i++)
        if (m->failing[i].name_size == k->name_size &&
            memcmp(m->failing[i].name, k->name, k->name_size) == 0)
            return &m->failing[i];
    return NULL;
}

static struct merge_failing *
free_failing(struct merge *m)
{
    unsigned i;

    for (i = 0; i < MERGE_FAILING; i++)
        if (m->failing[i].name_size == 0)
            return &m->failing[i];
    return NULL;
}

/* Counts one more failure.  True when it has failed too often to wait, or
 * when so many fail that there is no place to count: those must not take
 * their places from each other and keep their logs for ever. */
static bool
fails_for_good(struct merge *m, const struct fold_keyspace *k)
{
    struct merge_failing *f = find_failing(m, k);

    if (!f) {
        f = free_failing(m);
        if (!f)
            return true;
        f->name_size = k->name_size;
        memcpy(f->name, k->name, k->name_size);
    }
    f->tries++;
    return f->tries >= MERGE_TRIES_MAX;
}

static void
works_again(struct merge *m, const struct fold_keyspace *k)
{
    struct merge_failing *f = find_failing(m, k);

    if (f)
        *f = (struct merge_failing){.name_size = 0};
}

/* ---- which logs a keyspace has already --------------------------------- */

/* Lists the logs with records for this keyspace.  Returns their number. */
static unsigned
touching(struct merge *m, const struct fold_keyspace *k)
{
    unsigned i, n = 0;

    for (i = 0; i < m->batch.count; i++) {
        if (!fold_bit(k->touched, i))
            continue;
        assert(m->batch.logs[i].claimed);
        m->marks[n] = m->batch.logs[i].mark;
        m->numbers[n] = i;
        n++;
    }
    return n;
}

static void
keyspace_text(const struct fold_keyspace *k, char text[NAME_TEXT_SIZE])
{
    (void)name_escape(k->name, k->name_size, text); /* its length: unused */
}

/* Quarantines a log that is older than what a keyspace says: its records are
 * left out everywhere. */
static void
refuse_log(struct merge *m, unsigned number, const struct fold_keyspace *where)
{
    char text[NAME_TEXT_SIZE];
    struct fold_keyspace *k;

    if (m->batch.logs[number].refused)
        return;
    keyspace_text(where, text);
    m->batch.logs[number].refused = true;
    m->batch.logs[number].leaves = true;
    for (k = m->batch.fold.first; k; k = k->next)
        if (fold_bit(k->touched, number))
            fold_set_bit(k->leave, number);
    diag(DIAG_ERROR,
         "log=%" PRIu64 ": keyspace=%s holds a later epoch of it: the "
         "directory was restored from a backup",
         m->batch.logs[number].log.header.index, text);
}

/* Nothing is lost: what the keyspace has is not what is in this log.  But
 * whoever copied the directory while it was in use should know. */
static void
tell_other_fill(const struct merge *m, unsigned number,
                const struct fold_keyspace *where)
{
    static struct diag_repeat repeat;
    char text[NAME_TEXT_SIZE];

    keyspace_text(where, text);
    diag_repeating(&repeat, DIAG_WARNING,
                   "log=%" PRIu64 ": keyspace=%s has merged another fill of "
                   "this epoch: the directory was put together from copies of "
                   "different times; what is new is merged",
                   m->batch.logs[number].log.header.index, text);
}

/* Asks one keyspace.  An error is met again when it is settled. */
static void
ask_keyspace(struct merge *m, struct fold_keyspace *k)
{
    const unsigned n = touching(m, k);
    unsigned i;

    if (n == 0 ||
        lmdb_marks(m->store, k->name, k->name_size, m->marks, n, m->infos) < 0)
        return;
    for (i = 0; i < n; i++) {
        if (m->infos[i].state == STORE_MARK_DONE) {
            fold_set_bit(k->leave, m->numbers[i]);
            m->batch.logs[m->numbers[i]].leaves = true;
        } else if (m->infos[i].state == STORE_MARK_AHEAD) {
            refuse_log(m, m->numbers[i], k);
        } else if (m->infos[i].state == STORE_MARK_OTHER) {
            tell_other_fill(m, m->numbers[i], k);
        }
    }
}

/* Takes out of the sums what keyspaces have already. */
static int
leave_out(struct merge *m)
{
    struct fold_keyspace *k;
    unsigned i;
    int rc;

    for (k = m->batch.fold.first; k; k = k->next)
        ask_keyspace(m, k);
    for (i = 0; i < m->batch.count; i++) {
        struct batch_log *l = &m->batch.logs[i];

        if (!l->leaves)
            continue;
        rc = fold_leave(&m->batch.fold, &l->log, i);
        if (rc < 0) {
            batch_quarantine(&m->batch, i, "it cannot be read twice");
            return rc;
        }
        if (l->refused) {
            fold_forget(&m->batch.fold, i);
            batch_quarantine(&m->batch, i, "it is older than the keyspaces");
        }
    }
    return 0;
}

/* ---- settling one keyspace --------------------------------------------- */

/* Sums the keyspace again, as m->infos says. */
static int
sum_again(struct merge *m, struct fold_keyspace *k, unsigned n)
{
    unsigned i;
    int rc;

    fold_empty_keyspace(&m->batch.fold, k);
    for (i = 0; i < n; i++) {
        const struct lmdb_mark_info *info = &m->infos[i];
        const bool partial = info->state == STORE_MARK_PARTIAL;

        if (info->state == STORE_MARK_DONE)
            continue;
        rc = fold_add_keyspace(
            &m->batch.fold, k, &m->batch.logs[m->numbers[i]].log,
            partial ? info->last_key : NULL, partial ? info->last_key_size : 0);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* True when the sums hold exactly the logs the keyspace does not have. */
static bool
sums_agree(const struct merge *m, const struct fold_keyspace *k, unsigned n)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        const bool left = fold_bit(k->leave, m->numbers[i]);

        if (left != (m->infos[i].state == STORE_MARK_DONE))
            return false;
        if (!left && m->infos[i].state == STORE_MARK_PARTIAL)
            return false;
    }
    return true;
}

/* Drops the logs that are in from marks, infos and numbers. */
static unsigned
drop_done(struct merge *m, unsigned n)
{
    unsigned i, kept = 0;

    for (i = 0; i < n; i++) {
        if (m->infos[i].state == STORE_MARK_DONE)
            continue;
        m->marks[kept] = m->marks[i];
        m->infos[kept] = m->infos[i];
        m->numbers[kept] = m->numbers[i];
        kept++;
    }
    return kept;
}

/* Applies a keyspace's sums as they are wanted now.  `summed` says whether
 * they are no longer what the fold made.
 *   -ESTALE  once more   -EOVERFLOW  a mark is ahead (ask again)
 *   -ENOTRECOVERABLE  a log cannot be read again */
static int
apply_once(struct merge *m, struct fold_keyspace *k, bool *summed)
{
    struct store_applied applied = {0};
    struct store_delta *deltas;
    unsigned n = touching(m, k), i;
    size_t count;
    int rc;

    rc = lmdb_marks(m->store, k->name, k->name_size, m->marks, n, m->infos);
    if (rc < 0)
        return rc;
    for (i = 0; i < n; i++)
        if (m->infos[i].state == STORE_MARK_AHEAD)
            return -EOVERFLOW;
    if (*summed || !sums_agree(m, k, n)) {
        *summed = true;
        if (sum_again(m, k, n) < 0)
            return -ENOTRECOVERABLE;
    }
    n = drop_done(m, n);
    if (n == 0) /* all by others: durable before the logs are emptied */
        return lmdb_fence(m->store, k->name, k->name_size);
    fold_deltas(&m->batch.fold, k, &deltas, &count);
    rc = lmdb_apply(m->store, k->name, k->name_size, m->marks, m->infos, n,
                    deltas, count, &applied);
    k->many = applied.no_room;
    m->stats.keys += applied.keys;
    m->stats.created += applied.created;
    m->stats.saturated += applied.saturated;
    return rc;
}

static int
apply(struct merge *m, struct fold_keyspace *k)
{
    bool summed = false;
    unsigned tries;
    int rc = -ESTALE;

    for (tries = 0; tries < MERGE_SUMS_MAX && rc == -ESTALE; tries++) {
        rc = apply_once(m, k, &summed);
        summed = summed || rc == -ESTALE;
    }
    return rc;
}

static void
report_failure(const struct fold_keyspace *k, int error, enum fate fate)
{
    static struct diag_repeat waits, holds;
    char text[NAME_TEXT_SIZE];

    keyspace_text(k, text);
    if (fate == FATE_HOLD)
        diag_repeating(&holds, DIAG_ERROR,
                       "keyspace=%s cannot take its records, they are held: "
                       "%s",
                       text, diag_text(error));
    else
        diag_repeating(&waits, DIAG_ERROR,
                       "keyspace=%s: %s; its logs stay full, trying again",
                       text, diag_text(error));
}

static enum settled
settle(struct merge *m, struct fold_keyspace *k)
{
    enum fate fate;
    int rc = -EDQUOT;

    if (!k->behind)
        rc = share_memory(m);
    if (rc == 0)
        rc = apply(m, k);
    if (rc == 0) {
        works_again(m, k);
        m->stats.keyspaces++;
        return SETTLED_IN;
    }
    fate = k->behind ? FATE_HOLD : fate_of(rc);
    if (fate == FATE_TRY && fails_for_good(m, k))
        fate = FATE_HOLD;
    if (!k->behind)
        report_failure(k, rc, fate);
    if (fate == FATE_HOLD)
        return SETTLED_HOLD;
    m->waiting = m->waiting || fate == FATE_WAIT;
    return SETTLED_NOT;
}

/* ---- what is held already ---------------------------------------------- */

static bool
in_batch(void *ctx, const struct store_mark *mark)
{
    const struct merge *m = ctx;
    unsigned i;

    for (i = 0; i < m->batch.count; i++)
        if (memcmp(m->batch.logs[i].mark.uuid, mark->uuid, sizeof mark->uuid) ==
            0)
            return true;
    return false;
}

static bool
is_in_batch(void *ctx, const uint8_t *name, size_t name_size)
{
    const struct merge *m = ctx;

    return fold_find(&m->batch.fold, name, name_size) != NULL;
}

/* True when `file` is held for this keyspace, by its name alone, or may be. */
static bool
is_for(const struct merge *m, const char *file, const struct fold_keyspace *k)
{
    char name[NAME_FILE_SIZE];
    size_t size;

    if (heldfile_is_many(file))
        return true;
    name_to_file(k->name, k->name_size, m->dir->hash_key, name);
    size = strlen(name);
    return strncmp(file, name, size) == 0 && file[size] == ',';
}

/* What waits behind a file for many goes to such a file, too: names that come
 * again and again must not get files of their own.  But not what waits behind
 * one of its own: that for many may begin with an earlier epoch, and would be
 * taken first. */
static void
wait_behind(struct fold_keyspace *k, const char *file)
{
    k->behind = true;
    k->own = k->own || !heldfile_is_many(file);
    k->many = !k->own;
}

/* Records of an earlier fill are still held: those of this one must wait
 * behind them. */
static void
stays_held(void *ctx, const char *file, const struct heldfile *h)
{
    struct merge *m = ctx;
    struct fold_keyspace *k;

    if (h) {
        k = fold_find(&m->batch.fold, h->name, h->name_size);
        if (k)
            wait_behind(k, file);
        return;
    }
    for (k = m->batch.fold.first; k; k = k->next)
        if (is_for(m, file, k))
            wait_behind(k, file);
}

/* Merges what is held of earlier fills of these logs.  It is complete: only
 * the owner of a log adds to it, and that is us. */
static int
merge_earlier(struct merge *m)
{
    m->aside.wanted = in_batch;
    m->aside.wanted_name = is_in_batch;
    m->aside.stop = NULL; /* what it leaves out would be taken for merged */
    m->aside.stays = stays_held;
    m->aside.ctx = m;
    return aside_merge(&m->aside);
}

void
merge_held(struct merge *m)
{
    int rc;

    m->aside.wanted = NULL;
    m->aside.stays = NULL;
    m->aside.stop = m->stop;
    m->aside.stop_ctx = m->stop_ctx;
    rc = open_store(m);
    if (rc == 0)
        rc = aside_merge(&m->aside);
    if (rc == 0)
        rc = heldfile_tidy(m->dir->held_fd, HELD_UNFINISHED_MS);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "read data/held");
}

bool
merge_held_is_busy(const struct merge *m)
{
    return m->aside.busy;
}

/* ---- holding ----------------------------------------------------------- */

/* Writes what one log has for a chosen keyspace. */
static int
hold_one(struct merge *m, const struct fold_keyspace *k,
         const struct batch_log *l)
{
    const bool sync = m->written < HELD_SYNCED_ALONE;
    struct store_delta *deltas;
    size_t count;
    int rc;

    fold_deltas(&m->batch.fold, k, &deltas, &count);
    rc = heldfile_write(m->dir->held_fd, m->dir->hash_key, k->name,
                        k->name_size, &l->mark, deltas, count, sync);
    if (rc == 0)
        m->written++;
    return rc;
}

/* How many keyspaces the log's file for many is to have. */
static uint64_t
count_many(const struct merge *m, unsigned number)
{
    const struct fold_keyspace *k;
    uint64_t n = 0;

    for (k = m->batch.fold.first; k; k = k->next)
        n += k->chosen && k->many && fold_bit(k->touched, number);
    return n;
}

/* Writes what one log has for the keyspaces there is no room for. */
static int
hold_many(struct merge *m, unsigned number)
{
    struct batch_log *l = &m->batch.logs[number];
    const struct store_mark *mark = &l->mark;
    const bool sync = m->written < HELD_SYNCED_ALONE;
    const uint64_t keyspaces = count_many(m, number);
    const struct fold_keyspace *k;
    struct store_delta *deltas;
    struct held_out *out;
    size_t count;
    int rc;

    if (keyspaces == 0)
        return 0;
    rc = heldfile_many_begin(&out, m->dir->held_fd, mark, keyspaces, &l->base);
    if (rc < 0)
        return rc;
    for (k = m->batch.fold.first; rc == 0 && k; k = k->next) {
        if (!k->chosen || !k->many || !fold_bit(k->touched, number))
            continue;
        fold_deltas(&m->batch.fold, k, &deltas, &count);
        rc = stopped(m)
                 ? -ECANCELED
                 : heldfile_many_add(out, k->name, k->name_size, deltas, count);
    }
    rc = heldfile_many_end(out, m->dir->held_fd, mark, rc, sync);
    if (rc == 0)
        m->written++;
    return rc;
}

/* Writes what one log has for all chosen keyspaces. */
static int
hold_log(struct merge *m, unsigned number)
{
    const struct batch_log *l = &m->batch.logs[number];
    const struct fold_keyspace *k;
    int rc;

    rc = fold_add_chosen(&m->batch.fold, &l->log);
    if (rc == 0)
        rc = hold_many(m, number);
    for (k = m->batch.fold.first; rc == 0 && k; k = k->next) {
        if (!k->chosen || k->many || !fold_bit(k->touched, number))
            continue;
        rc = stopped(m) ? -ECANCELED : hold_one(m, k, l);
    }
    return rc;
}

static int
publish_log(struct merge *m, unsigned number)
{
    const struct batch_log *l = &m->batch.logs[number];
    const struct fold_keyspace *k;
    int rc = 0;

    if (count_many(m, number) > 0) {
        rc = heldfile_many_publish(m->dir->held_fd, &l->mark, &l->base);
        if (rc == 0)
            m->stats.held++;
    }
    for (k = m->batch.fold.first; rc == 0 && k; k = k->next) {
        if (!k->chosen || k->many || !fold_bit(k->touched, number))
            continue;
        rc = heldfile_publish(m->dir->held_fd, m->dir->hash_key, k->name,
                              k->name_size, &l->mark);
        if (rc == 0)
            m->stats.held++;
    }
    return rc;
}

/* Takes back what was written for a log that stays full. */
static void
discard_log(struct merge *m, unsigned number)
{
    const struct batch_log *l = &m->batch.logs[number];
    const struct fold_keyspace *k;

    heldfile_many_discard(m->dir->held_fd, &l->mark);
    for (k = m->batch.fold.first; k; k = k->next)
        if (k->chosen && !k->many && fold_bit(k->touched, number))
            heldfile_discard(m->dir->held_fd, m->dir->hash_key, k->name,
                             k->name_size, &l->mark);
}

static void
cannot_hold(struct merge *m, int error)
{
    static struct diag_repeat repeat;

    m->waiting = true;
    if (error != -ECANCELED)
        diag_repeating(&repeat, DIAG_ERROR,
                       "hold records: %s; their logs stay full, trying again",
                       diag_text(error));
}

/* Holds the records of the chosen keyspaces, each log's on their own under
 * the marks they would have had: also those of logs that are in partly or,
 * for all we can tell, wholly.  The mark decides when they are merged.  Of a
 * log that stays full anyway nothing is held: it will be met again. */
static void
hold_chosen(struct merge *m)
{
    unsigned i;
    int rc = 0;

    if (m->holding == 0)
        return;
    m->written = 0;
    for (i = 0; i < m->batch.count; i++) {
        struct batch_log *l = &m->batch.logs[i];

        rc = l->whole ? hold_log(m, i) : 0;
        l->whole = l->whole && rc == 0;
        if (rc < 0)
            cannot_hold(m, rc);
    }
    rc = m->written > HELD_SYNCED_ALONE ? heldfile_sync(m->dir->held_fd) : 0;
    for (i = 0; rc == 0 && i < m->batch.count; i++) {
        rc = m->batch.logs[i].whole ? publish_log(m, i) : 0;
        if (rc != -EEXIST)
            continue;
        /* What another fill of this epoch left is to be merged first. */
        m->batch.logs[i].whole = false;
        cannot_hold(m, rc);
        rc = 0;
    }
    if (rc == 0)
        rc = heldfile_settle(m->dir->held_fd);
    if (rc < 0)
        cannot_hold(m, rc);
    for (i = 0; i < m->batch.count; i++) {
        struct batch_log *l = &m->batch.logs[i];

        l->whole = l->whole && rc == 0;
        if (!l->whole && m->written > 0)
            discard_log(m, i);
    }
}

/* ---- the batch --------------------------------------------------------- */

/* This keyspace's records are not all safe: its logs stay full. */
static void
not_whole(struct merge *m, const struct fold_keyspace *k)
{
    unsigned i;

    for (i = 0; i < m->batch.count; i++)
        if (fold_bit(k->touched, i))
            m->batch.logs[i].whole = false;
}

/* Settles every keyspace; chooses those whose records are to be held. */
static void
settle_all(struct merge *m)
{
    struct fold_keyspace *k;
    unsigned i;

    m->holding = 0;
    for (i = 0; i < m->batch.count; i++)
        m->batch.logs[i].whole = m->batch.logs[i].claimed;
    for (k = m->batch.fold.first; k; k = k->next) {
        const bool goes_on = m->store && !stopped(m);

        if (touching(m, k) == 0)
            continue; /* nothing of it is in a log we still have */
        switch (goes_on ? settle(m, k) : SETTLED_NOT) {
        case SETTLED_IN:
            break;
        case SETTLED_HOLD:
            k->chosen = true;
            m->holding++;
            break;
        case SETTLED_NOT:
            not_whole(m, k);
            break;
        }
    }
}

static void
archive(struct merge *m)
{
    static struct diag_repeat repeat;
    unsigned i;
    int rc;

    for (i = 0; i < m->batch.count; i++) {
        const struct batch_log *l = &m->batch.logs[i];

        if (!l->claimed || !l->whole)
            continue;
        rc = archive_put(m->dir->archive_fd, &l->log, m->archive_keep);
        if (rc == 0)
            m->stats.archived++;
        else
            diag_repeating(&repeat, DIAG_WARNING,
                           "archive log=%" PRIu64 ": %s; it is merged and "
                           "not archived",
                           l->log.header.index, diag_text(rc));
    }
}

static void
report_batch(const struct merge *m, uint64_t since_ms)
{
    unsigned i, whole = 0;

    for (i = 0; i < m->batch.count; i++)
        whole += m->batch.logs[i].claimed && m->batch.logs[i].whole;
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
    if (m->batch.again)
        return MERGE_DONE;
    rest(m);
    return m->batch.retry_ms == UINT64_MAX ? MERGE_IDLE : MERGE_LATER;
}

/* Merges the logs of the batch. */
static enum merge_outcome
merge_batch(struct merge *m)
{
    const uint64_t saturated = m->stats.saturated;
    const uint64_t since_ms = clock_ms();
    unsigned emptied;
    bool halted;

    m->waiting = false;
    settle_all(m);
    hold_chosen(m);
    if (m->archive_keep > 0)
        archive(m);
    halted = stopped(m);
    m->stats.records += m->batch.fold.records;
    m->stats.zeros += m->batch.fold.zeros;
    report_batch(m, since_ms);
    report_saturation(m, saturated);
    emptied = batch_free(&m->batch, halted);
    m->stats.logs += emptied;
    if (halted)
        return MERGE_STOPPED;
    if (m->waiting)
        return MERGE_WAIT;
    return emptied > 0 || m->batch.retry_ms == UINT64_MAX ? MERGE_DONE
                                                          : MERGE_LATER;
}

static void
look_at_keyspaces(struct merge *m)
{
    const uint64_t now = clock_ms();

    if (now - m->looked_ms < KEYSPACES_LOOK_MS)
        return;
    m->looked_ms = now;
    lmdb_look(m->store);
}

enum merge_outcome
merge_run(struct merge *m)
{
    static struct diag_repeat looks, prepares;
    int rc;

    rc = open_store(m);
    if (rc == 0)
        look_at_keyspaces(m);
    if (rc == 0)
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
    rc = merge_earlier(m);
    if (rc == 0)
        rc = leave_out(m);
    if (rc == 0)
        return merge_batch(m);
    diag_repeating(&prepares, DIAG_ERROR, "prepare a merge: %s", diag_text(rc));
    batch_give_back(&m->batch, true);
    return MERGE_LATER;
}

void
merge_report(const struct merge *m)
{
    const struct merge_stats *s = &m->stats;

    diag(DIAG_INFO,
         "figures: logs=%" PRIu64 " records=%" PRIu64 " zeros=%" PRIu64
         " keyspaces=%" PRIu64 " keys=%" PRIu64 " created=%" PRIu64
         " saturated=%" PRIu64 " held=%" PRIu64 " unheld=%" PRIu64
         " held_damaged=%" PRIu64 " quarantined=%" PRIu64 " recovered=%" PRIu64
         " archived=%" PRIu64,
         s->logs, s->records, s->zeros, s->keyspaces, s->keys, s->created,
         s->saturated, s->held, m->aside.stats.merged, m->aside.stats.damaged,
         m->batch.stats.quarantined, m->batch.stats.recovered, s->archived);
}

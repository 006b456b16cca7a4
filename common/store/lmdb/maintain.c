/* common/store/lmdb/maintain.c - work of the engine's own: replaced files, what
 * was read long ago, history of keyspaces that no merge comes to, and the files
 * of empty keyspaces.
 *
 * A keyspace without keys whose marks are all of logs that can bring nothing
 * more, and for which nothing is held, is as good as none, and its file is
 * removed: under its write transaction, so nobody is committing to it, and with
 * the directory's flock, so nobody is opening it.  Who has it open finds it
 * gone, and makes a new one when there is something to put in.  After a power
 * cut it may be back, as it was. */
#include "common/store/lmdb/keyspace_history.h"
#include "common/store/lmdb/keyspace_peek.h"

#include <errno.h>
#include <stdio.h>

#include "common/base/clock.h"
#include "common/base/dirstream.h"

#define PASS_EVERY_MS 60000

/* What was found good is looked at again after this time: a disk may have
 * given other bytes for the same page since. */
#define TRUST_MS 60000

/* Stops at a mark that is needed: the fill can come again, or was cut off in
 * the middle. */
static int
stop_at_needed(void *ctx, const uint8_t uuid[16],
               const struct keyspace_mark *mark, uint64_t hash)
{
    const struct store_maintenance *t = ctx;
    struct store_fill m = {.epoch = mark->epoch, .first_ms = mark->first_ms};

    (void)hash;
    memcpy(m.uuid, uuid, sizeof m.uuid);
    return mark->done && t->is_dead_fill(t->ctx, &m) ? 0 : 1;
}

/* Removes the file of a keyspace that is still empty and needs no mark.  Marks
 * go only together with their file: the state record proves that all are there.
 * Held records are looked for after the marks: a worker holds the records of a
 * fill before it empties the log, so where the log is past the fill they are
 * seen. */
static void
remove_empty(struct lmdb *s, struct store_maintenance *t, struct keyspace *k)
{
    struct keyspace_state state;
    MDB_txn *txn;
    int rc;

    /* A process that is writing to it has something to put in. */
    if (keyspace_write(s, k, &txn) < 0)
        return;
    rc = keyspace_state_get(txn, k->meta, &state);
    if (rc == 0 && state.roots[TREE_KEYS].count > 0)
        rc = -EEXIST;
    if (rc == 0)
        rc = marks_each(txn, k->meta, &state, stop_at_needed, t);
    if (rc == 0 && t->has_held_records != NULL &&
        t->has_held_records(t->ctx, k->name, k->name_size))
        rc = -EEXIST;
    if (rc == 0)
        rc = keyspace_file_remove(s, k->file);
    keyspace_abort(k, txn);
    if (rc != 0)
        return;
    keyspace_close(k);
    s->known = 0; /* there is room for another: count again */
    s->full_until_ms = 0;
}

/* Sees to history that waits, or removes an empty file.  True: there is more to
 * do for this file. */
static bool
look_at(struct lmdb *s, struct store_maintenance *t, const char *entry)
{
    struct keyspace peek = {.env = NULL};
    struct keyspace_state state;
    struct keyspace *k;
    char stem[NAME_FILE_SIZE];
    const char *why; /* who needs it is told */
    bool more = false;

    if (!keyspace_file_stem(entry, stem))
        return false;
    (void)snprintf(peek.file, sizeof peek.file, "%s" KEYSPACE_SUFFIX,
                   stem); /* sized for the longest */
    if (keyspace_peek(&s->options, &peek, &state, &why) < 0)
        return false;
    if (state.roots[TREE_KEYS].count > 0 &&
        state.history_due > keyspace_history_now(s))
        return false;
    if (keyspace_get(s, peek.name, peek.name_size, KEYSPACE_FIND, &k) != 0 ||
        strcmp(k->file, peek.file) != 0)
        return false;
    if (state.history_due <= keyspace_history_now(s) &&
        keyspace_history_tend(s, k, &more) == 0 && more)
        return true;
    if (state.roots[TREE_KEYS].count == 0 && t->is_dead_fill != NULL &&
        k->env != NULL)
        remove_empty(s, t, k);
    return false;
}

/* Forgets now and then which values were good. */
static void
trust_no_longer(struct lmdb *s)
{
    const uint64_t now = clock_ms();

    if (now - s->forgot_ms < TRUST_MS)
        return;
    s->forgot_ms = now;
    tree_cache_forget(&s->cache);
}

static bool
pass_begin(struct lmdb *s)
{
    struct tending *pass = &s->tending;

    return clock_ms() >= pass->next_ms &&
           dirstream_open(s->options.keyspace_fd, ".", &pass->dir) == 0;
}

bool
lmdb_tend(struct store *store, const struct store_maintenance *tending)
{
    struct lmdb *s = lmdb_of(store);
    struct tending *pass = &s->tending;
    struct store_maintenance t = *tending;
    const char *entry;

    lmdb_read_end(store);
    keyspace_look(s);
    trust_no_longer(s);
    if (!s->options.writable)
        return false;
    if (pass->dir == NULL && !pass_begin(s)) {
        pass->dir = NULL;
        return false;
    }
    while (pass->again[0] != '\0') {
        if (!look_at(s, &t, pass->again))
            pass->again[0] = '\0';
        else if (clock_ns() >= t.until_ns)
            return true;
    }
    do {
        if (dirstream_next(pass->dir, &entry) <= 0) {
            (void)closedir(pass->dir); /* only read */
            pass->dir = NULL;
            pass->next_ms = clock_ms() + PASS_EVERY_MS;
            return false;
        }
        while (look_at(s, &t, entry))
            if (clock_ns() >= t.until_ns) {
                (void)snprintf(pass->again, sizeof pass->again, "%s",
                               entry); /* fits: a keyspace's */
                return true;
            }
    } while (clock_ns() < t.until_ns);
    return true;
}

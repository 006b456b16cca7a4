/* common/store/lmdb/maintain.c - lmdb_maintain(): closing replaced files,
 * clearing the cache of verified blocks, compacting history of keyspaces that
 * no merge changes, and removing the files of empty keyspaces.
 *
 * The file of a keyspace without keys is removed if no mark in it can be needed
 * again (its fills are dead) and no fill that waits names it: under its write
 * transaction, so no process is committing to it, and with the directory's
 * flock, so none is opening it.  A process that has it open finds it gone, and
 * creates a new one when increments arrive.  After a power loss the old file
 * may be back, unchanged. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_file.h"
#include "common/store/lmdb/keyspace_history.h"
#include "common/store/lmdb/keyspace_peek.h"

#include <errno.h>
#include <stdio.h>

#include "common/base/clock.h"
#include "common/base/dirstream.h"

#define PASS_EVERY_MS 60000

/* Verified blocks are verified again after this time, because a disk may return
 * different bytes for a page later. */
#define TRUST_MS 60000

/* Stops at a mark that is needed: its fill can be merged again, or was merged
 * in part. */
static int
stop_at_needed(void *ctx, const struct keyspace_mark *mark)
{
    const struct store_maintenance *t = ctx;

    return mark->done && t->is_dead_fill(t->ctx, &mark->fill) ? 0 : 1;
}

/* Removes the file of a keyspace that is still empty and needs no mark.  Marks
 * are only removed together with their file, because the state record proves
 * that all are there.  What waits is checked after the marks: a worker sets a
 * fill aside before it empties the log, so if the fill is dead, what was set
 * aside is visible. */
static void
remove_empty(struct lmdb *s, struct store_maintenance *t, struct keyspace *k)
{
    struct keyspace_state state;
    MDB_txn *txn;
    int rc;

    /* A process that is writing is about to add keys. */
    if (keyspace_write(s, k, &txn) < 0)
        return;
    rc = keyspace_state_get(txn, k->dbis[KEYSPACE_META], &state);
    if (rc == 0 && state.roots[TREE_KEYS].count > 0)
        rc = -EEXIST;
    if (rc == 0)
        rc = marks_each(txn, k->dbis[KEYSPACE_META], &state, stop_at_needed, t);
    if (rc == 0 && t->is_named != NULL &&
        t->is_named(t->ctx, k->name, k->name_size))
        rc = -EEXIST;
    if (rc == 0)
        rc = keyspace_file_put(s, -1, NULL, k->file);
    keyspace_abort(k, txn);
    if (rc != 0)
        return;
    keyspace_close(k);
    s->known = 0; /* another keyspace fits: count again */
    s->full_until_ms = 0;
}

/* Compacts history that is due, or removes an empty file.  True: there is more
 * to do for this file. */
static bool
maintain_file(struct lmdb *s, struct store_maintenance *t, const char *entry)
{
    struct keyspace peek = {.env = NULL};
    struct keyspace_state state;
    struct keyspace *k;
    char stem[NAME_FILE_SIZE];
    /* keyspace_get() reports it to the process that needs the file. */
    const char *why;
    const uint32_t now = history_minute(s->options.now_ms);
    bool more = false;

    if (!keyspace_file_stem(entry, stem) || !lmdb_lane_has(s, stem))
        return false;
    (void)snprintf(peek.file, sizeof peek.file, "%s" KEYSPACE_SUFFIX, stem);
    if (keyspace_peek(&s->options, &peek, &state, NULL, &why) < 0)
        return false;
    if (state.roots[TREE_KEYS].count > 0 && state.history_due > now)
        return false;
    if (keyspace_get(s, peek.name, peek.name_size, KEYSPACE_FIND, &k) != 0 ||
        strcmp(k->file, peek.file) != 0)
        return false;
    if (state.history_due <= now &&
        keyspace_history_compact(s, k, &more) == 0 && more)
        return true;
    keyspace_repair(s, peek.name, peek.name_size);
    if (state.roots[TREE_KEYS].count == 0 && t->is_dead_fill != NULL &&
        k->env != NULL)
        remove_empty(s, t, k);
    return false;
}

/* Clears the cache of verified blocks now and then. */
static void
expire_cache(struct lmdb *s)
{
    const uint64_t now = clock_ms();

    if (now - s->forgot_ms < TRUST_MS)
        return;
    s->forgot_ms = now;
    tree_cache_forget(&s->cache);
}

static bool
maintain_lane(struct lmdb *s, struct store_maintenance *t)
{
    struct maintenance *pass = &s->maintenance;
    const char *entry;

    lmdb_read_end(&s->store);
    keyspace_close_replaced(s);
    expire_cache(s);
    if (!s->options.writable)
        return false;
    if (pass->dir == NULL &&
        (clock_ms() < pass->next_ms ||
         dirstream_open(s->options.keyspace_fd, ".", &pass->dir) < 0)) {
        pass->dir = NULL;
        return false;
    }
    do {
        if (pass->file[0] == '\0') {
            if (dirstream_next(pass->dir, &entry) <= 0) {
                (void)closedir(pass->dir);
                pass->dir = NULL;
                pass->next_ms = clock_ms() + PASS_EVERY_MS;
                return false;
            }
            (void)snprintf(pass->file, sizeof pass->file, "%s", entry);
        }
        if (!maintain_file(s, t, pass->file))
            pass->file[0] = '\0';
    } while (clock_ns() < t->until_ns);
    return true;
}

bool
lmdb_maintain(struct store *store, const struct store_maintenance *asked)
{
    struct store_maintenance t = *asked;
    bool more = false;

    for (unsigned i = 0; i < store->lanes; i++)
        more |= maintain_lane(lmdb_of(store)->lanes[i], &t);
    return more;
}

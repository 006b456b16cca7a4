/* common/store/lmdb/drop.c - emptying a keyspace: lmdb_drop().
 *
 * A dropped increment stays dropped: the marks stay, so a merged log is not
 * counted again; but for those of imports, which a user may want again.  A file
 * that cannot be opened does not show which logs were merged; it is replaced by
 * an empty one without marks (store_drop()).
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_file.h"
#include "common/store/lmdb/keyspace_history.h"
#include "common/store/lmdb/keyspace_peek.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/files.h"

/* Marks of imports: what is dropped may be imported again. */
struct imports {
    uint8_t (*uuids)[16];
    size_t count, capacity;
    uint64_t hash;
};

static int
note_import(void *ctx, const struct keyspace_mark *mark)
{
    struct imports *l = ctx;

    if (!log_fill_is_import(mark->fill.uuid))
        return 0;
    if (array_grow(&l->uuids, &l->capacity, l->count + 1, sizeof *l->uuids) < 0)
        return -ENOMEM;
    memcpy(l->uuids[l->count++], mark->fill.uuid, sizeof *l->uuids);
    l->hash += mark->hash;
    return 0;
}

static int
forget_imports(const struct imports *l, MDB_txn *txn, MDB_dbi meta,
               struct keyspace_state *state)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < l->count; i++)
        rc = keyspace_mark_del(txn, meta, l->uuids[i]);
    state->marks -= l->count;
    state->marks_hash -= l->hash;
    return rc;
}

static int
make_empty(struct work *w, MDB_txn *txn, struct keyspace_state *state)
{
    const struct keyspace *k = w->ctx;
    struct imports imports = {.count = 0};
    struct pages_map map;
    int rc;

    rc = marks_each(txn, k->dbis[KEYSPACE_META], state, note_import, &imports);
    if (rc == 0)
        rc = keyspace_map_find(txn, k, &map);
    /* Freeing pages by a damaged one would spread the damage. */
    for (int i = 0; rc == 0 && i < KEYSPACE_META; i++)
        rc = lmdb_each(txn, k->dbis[i], &map, NULL, NULL);
    if (rc == 0)
        rc = keyspace_history_clear(k, txn, state);
    for (int i = 0; rc == 0 && i < KEYSPACE_TREES; i++) {
        rc = lmdb_error(mdb_drop(txn, k->dbis[i], 0));
        state->roots[i].id = 0;
        state->roots[i].level = 0;
        state->roots[i].count = 0;
    }
    state->sum = 0;
    state->saturated = 0;
    if (rc == 0)
        rc = forget_imports(&imports, txn, k->dbis[KEYSPACE_META], state);
    free(imports.uuids);
    return rc;
}

/* Whether a file that cannot be opened is another keyspace's, renamed to this
 * name by mistake. */
static bool
is_of_another(struct lmdb *s, const struct keyspace *named)
{
    struct keyspace found = *named;
    struct keyspace_state state;
    const char *why; /* keyspace_file_check() has reported it */

    found.name_size = 0;
    return keyspace_peek(&s->options, &found, &state, NULL, &why) == 0 &&
           (found.name_size != named->name_size ||
            memcmp(found.name, named->name, found.name_size) != 0);
}

/* Takes the flock of the file that has this name; returns its descriptor. */
static int
lock_file(struct lmdb *s, const char *file)
{
    const int dir_fd = s->options.keyspace_fd;
    struct stat st, now;
    const char *why; /* keyspace_file_check() has reported it */
    int fd, rc;

    fd = keyspace_file_open(dir_fd, file, &st, &why);
    if (fd < 0)
        return fd;
    s->holder = 0;
    rc = lock_take(fd, &s->holder);
    if (rc == 0 && fstatat(dir_fd, file, &now, AT_SYMLINK_NOFOLLOW) < 0)
        rc = -errno;
    if (rc == 0 && (st.st_ino != now.st_ino || st.st_dev != now.st_dev))
        rc = -ESTALE;
    if (rc == 0)
        return fd;
    (void)close(fd);
    return rc;
}

/* Replaces a file that cannot be used by an empty one, and returns 1. */
static int
replace_damaged(struct lmdb *s, const uint8_t *name, size_t name_size)
{
    struct keyspace named = {.env = NULL};
    int fd, rc;

    keyspace_name(&named, name, name_size);
    if (is_of_another(s, &named))
        return -EBADMSG;
    fd = lock_file(s, named.file);
    if (fd < 0)
        return fd;
    rc = keyspace_file_make_empty(s, name, name_size, named.file, true);
    (void)close(fd);
    return rc == 0 ? 1 : rc;
}

/* Empties the keyspace.  -EBADMSG: it is damaged and no longer open. */
static int
empty_keyspace(struct lmdb *s, const uint8_t *name, size_t name_size)
{
    struct work w = {.make = make_empty};
    struct keyspace *k;
    MDB_envinfo info;
    int rc;

    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
    if (rc < 0)
        return rc;
    w.ctx = k;
    rc = keyspace_change(s, k, &w);
    if (rc == 0 && mdb_env_info(k->env, &info) == 0)
        keyspace_free_pages(s, k, info.me_last_pgno, true);
    if (rc == -EBADMSG)
        keyspace_close(k);
    return rc;
}

int
lmdb_drop(struct store *store, const uint8_t *name, size_t name_size)
{
    struct lmdb *s = lmdb_of(store);
    int rc = -ESTALE;

    lmdb_read_end(store);

    /* If the file was replaced meanwhile, try once more with the new one. */
    for (int i = 0; i < 2 && rc == -ESTALE; i++) {
        rc = empty_keyspace(s, name, name_size);
        if (rc == -EBADMSG) {
            rc = replace_damaged(s, name, name_size);
            if (rc == 0)
                return 1;
        }
    }
    keyspace_repair(s, name, name_size);
    return keyspace_report(s, name, name_size, "drop", rc);
}

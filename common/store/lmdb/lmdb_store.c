/* common/store/lmdb/lmdb_store.c - lmdb_store_open(): the handle, and the
 * engine's table of functions. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

void
keyspace_file_name(const uint8_t *name, size_t name_size,
                   char file[KEYSPACE_FILE_SIZE])
{
    name_to_file(name, name_size, file);
    memcpy(file + strlen(file), KEYSPACE_SUFFIX, sizeof KEYSPACE_SUFFIX);
}

static void
engine_close(struct store *store)
{
    struct lmdb *s = lmdb_of(store);

    lmdb_read_end(store);
    for (unsigned i = 0; i < s->touched; i++)
        keyspace_close(&s->slots[i]);
    if (s->maintenance.dir != NULL)
        (void)closedir(s->maintenance.dir);
    if (s->lock_fd >= 0)
        (void)close(s->lock_fd);
    free(s->slots);
    tree_work_free(s->work);
    slice_free(&s->slice);
    history_compact_free(s->compact);
    free(s);
}

static const struct store_engine engine = {
    .is_local = true,
    .close = engine_close,
    .marks = lmdb_marks,
    .apply = lmdb_apply,
    .read = lmdb_read,
    .read_end = lmdb_read_end,
    .history = lmdb_history,
    .maintain = lmdb_maintain,
    .listing_open = lmdb_listing_open,
    .listing_close = lmdb_listing_close,
    .listing_start = lmdb_listing_start,
    .listing_next = lmdb_listing_next,
    .count = lmdb_count,
    .check = lmdb_check,
    .each_mark = lmdb_each_mark,
    .copy = lmdb_copy,
    .move = lmdb_move,
    .drop = lmdb_drop,
    .vacate = lmdb_vacate,
    .purge = lmdb_purge,
    .del = lmdb_del,
};

long
lmdb_store_holder(struct store *store)
{
    return lmdb_of(store)->holder;
}

/* Files are read as LMDB 0.9 writes them on 64-bit machines, and
 * pages_check_newest() relies on how that version numbers transactions. */
static_assert(sizeof(size_t) == 8, "a machine of 64 bits");

static int
check_lmdb_version(void)
{
    int major, minor, patch;
    const char *version = mdb_version(&major, &minor, &patch);

    if (major != 0 || minor != 9) {
        diag(DIAG_ERROR,
             "%s is installed: countd needs LMDB 0.9, whose files it reads",
             version);
        return -EPROTONOSUPPORT;
    }
    return 0;
}

static int
make_handle(struct lmdb *s)
{
    s->lock_fd =
        openat(s->options.keyspace_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock_fd < 0)
        return -errno;
    s->slots = calloc(s->options.open_max, sizeof *s->slots);
    if (s->slots == NULL)
        return -ENOMEM;
    if (getrandom(&s->progress_key, sizeof s->progress_key, 0) < 0)
        return -errno;
    if (!s->options.writable)
        return 0;
    s->work = tree_work_new();
    s->compact = history_compact_new();
    if (s->work == NULL || s->compact == NULL)
        return -ENOMEM;
    if (getrandom(&s->nonce, sizeof s->nonce, 0) < 0)
        return -errno;
    keyspace_file_clean(s->options.keyspace_fd, KEYSPACE_TEMP_AGE_MS);
    return 0;
}

int
lmdb_store_open(struct store **out, const struct lmdb_options *options)
{
    struct lmdb *s;
    int rc;

    rc = check_lmdb_version();
    if (rc < 0)
        return rc;
    s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->store.engine = &engine;
    s->options = *options;
    if (s->options.retain_memory == 0)
        s->options.retain_memory = options->txn_memory;

    /* Two at least: one for a view, one for a keyspace that is opened
     * meanwhile. */
    if (s->options.open_max < 2)
        s->options.open_max = 2;
    rc = make_handle(s);
    if (rc < 0) {
        engine_close(&s->store);
        return rc;
    }
    *out = &s->store;
    return 0;
}

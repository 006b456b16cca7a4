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
keyspace_name(struct keyspace *k, const uint8_t *name, size_t name_size)
{
    k->name_size = name_size;
    memcpy(k->name, name, name_size);
    name_to_file(name, name_size, k->file);
    memcpy(k->file + strlen(k->file), KEYSPACE_SUFFIX, sizeof KEYSPACE_SUFFIX);
}

/* ---- lanes ------------------------------------------------------------- */

static unsigned
lane_of_stem(const char *stem, unsigned lanes)
{
    static const struct hash_key zeros;
    const uint64_t hash =
        hash_name(&zeros, 0, (const uint8_t *)stem, strlen(stem));

    return (unsigned)(hash % lanes);
}

bool
lmdb_lane_has(const struct lmdb *s, const char *stem)
{
    return lane_of_stem(stem, s->options.lanes) == s->lane;
}

/* A name that no keyspace can have is refused by every lane. */
static unsigned
lane_of_name(const struct store *store, const uint8_t *name, size_t name_size)
{
    char stem[NAME_FILE_SIZE];

    if (store->lanes == 1 || !store_name_ok(name, name_size))
        return 0;
    name_to_file(name, name_size, stem);
    return lane_of_stem(stem, store->lanes);
}

/* ---- the handle -------------------------------------------------------- */

static void
close_lane(struct lmdb *s)
{
    lmdb_read_end(&s->store);
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

static void
engine_close(struct store *store)
{
    struct lmdb *first = lmdb_of(store);

    for (unsigned i = 1; i < store->lanes; i++)
        close_lane(first->lanes[i]);
    close_lane(first);
}

static const struct store_engine engine = {
    .is_local = true,
    .close = engine_close,
    .lane = lane_of_name,
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

static int
open_lane(struct lmdb **out, const struct lmdb_options *options, unsigned lane)
{
    struct lmdb *s = calloc(1, sizeof *s);
    int rc;

    if (s == NULL)
        return -ENOMEM;
    s->store = (struct store){.engine = &engine, .lanes = 1};
    s->options = *options;
    s->lanes[0] = s;
    s->lane = lane;
    rc = make_handle(s);
    if (rc < 0)
        close_lane(s);
    else
        *out = s;
    return rc;
}

int
lmdb_store_open(struct store **out, const struct lmdb_options *options)
{
    const unsigned lanes = options->lanes > 1 ? options->lanes : 1;
    struct lmdb_options one = *options;
    struct lmdb *s;
    int rc;

    assert(lanes <= LMDB_LANES_MAX);
    one.lanes = lanes;
    one.retain_memory = (options->retain_memory > 0 ? options->retain_memory
                                                    : options->txn_memory) /
                        lanes;

    /* Two at least: one for a view, one for a keyspace that is opened
     * meanwhile. */
    one.open_max =
        options->open_max / lanes > 2 ? options->open_max / lanes : 2;
    rc = check_lmdb_version();
    if (rc == 0)
        rc = open_lane(&s, &one, 0);
    if (rc < 0)
        return rc;
    for (unsigned i = 1; rc == 0 && i < lanes; i++) {
        rc = open_lane(&s->lanes[i], &one, i);
        s->store.lanes += rc == 0;
    }
    if (rc < 0)
        engine_close(&s->store);
    else
        *out = &s->store;
    return rc;
}

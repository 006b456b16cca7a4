/* common/store/lmdb/lanes.c - lmdb_lanes_open(): several handles behind one,
 * for a worker with several threads.
 *
 * Invariant: a keyspace file is only ever opened through the handle of its
 * lane, which its file name determines.  Each handle is used by one thread at a
 * time; what the handles share are files of the directory, and those they share
 * as processes do (flock). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct lanes {
    struct store store; /* first: the handle */
    struct store *lanes[LMDB_LANES_MAX];
};

static unsigned
lane_of_stem(const char *stem, unsigned lanes)
{
    static const struct hash_key zeros;

    return (
        unsigned)(hash_name(&zeros, 0, (const uint8_t *)stem, strlen(stem)) %
                  lanes);
}

bool
lmdb_lane_has(const struct lmdb_options *options, const char *stem)
{
    return options->lanes == 0 ||
           lane_of_stem(stem, options->lanes) == options->lane;
}

static const struct lanes *
lanes_of(const struct store *store)
{
    return (const struct lanes *)(const void *)store;
}

/* A name that no keyspace can have is refused by every lane. */
static unsigned
lane_of_name(const struct store *store, const uint8_t *name, size_t name_size)
{
    char stem[NAME_FILE_SIZE];

    if (!store_name_ok(name, name_size))
        return 0;
    name_to_file(name, name_size, stem);
    return lane_of_stem(stem, store->lanes);
}

static struct store *
lane_with(const struct store *store, const uint8_t *name, size_t name_size)
{
    return lanes_of(store)->lanes[lane_of_name(store, name, name_size)];
}

static void
close_lanes(struct store *store)
{
    for (unsigned i = 0; i < store->lanes; i++)
        store_close(lanes_of(store)->lanes[i]);
    free(store);
}

static int
lanes_marks(struct store *store, const struct store_batch *given,
            struct store_mark_info *infos)
{
    return store_marks(lane_with(store, given->name, given->name_size), given,
                       infos);
}

static int
lanes_apply(struct store *store, const struct store_batch *given,
            struct store_applied *applied)
{
    return store_apply(lane_with(store, given->name, given->name_size), given,
                       applied);
}

static bool
lanes_maintain(struct store *store, const struct store_maintenance *t)
{
    bool more = false;

    for (unsigned i = 0; i < store->lanes; i++)
        more |= store_maintain(lanes_of(store)->lanes[i], t);
    return more;
}

static const struct store_engine engine = {
    .is_local = true,
    .close = close_lanes,
    .lane = lane_of_name,
    .marks = lanes_marks,
    .apply = lanes_apply,
    .maintain = lanes_maintain,
};

int
lmdb_lanes_open(struct store **out, const struct lmdb_options *options,
                unsigned lanes)
{
    struct lmdb_options one = *options;
    struct lanes *l;
    int rc = 0;

    assert(lanes >= 1 && lanes <= LMDB_LANES_MAX);
    l = calloc(1, sizeof *l);
    if (l == NULL)
        return -ENOMEM;
    l->store.engine = &engine;
    one.open_max = options->open_max / lanes;
    one.retain_memory = options->retain_memory / lanes;
    one.lanes = lanes;
    for (unsigned i = 0; rc == 0 && i < lanes; i++) {
        one.lane = i;
        rc = lmdb_store_open(&l->lanes[i], &one);
        l->store.lanes += rc == 0;
    }
    if (rc < 0)
        close_lanes(&l->store);
    else
        *out = &l->store;
    return rc;
}

/* common/store/postgresql/postgresql_store.c - postgresql_store_open(): the
 * handle, its lanes and the table of the engine's functions.
 *
 * Each lane has a connection; a keyspace is always of the same lane.  Lane 0 is
 * the handle itself. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/postgresql_store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/hash.h"
#include "common/store/postgresql/pg.h"

static void
close_lane(struct pg *s)
{
    pg_disconnect(s);
    pg_clear_results(s);
    history_compact_free(s->compact);
    free(s->bands.bands);
    for (int i = 0; i < PG_ARRAYS; i++)
        free(s->arrays[i].bytes);
    free(s->blocks[0].bytes);
    free(s->blocks[1].bytes);
    free(s);
}

static void
close_store(struct store *store)
{
    struct pg *s = pg_of(store);

    for (unsigned i = 1; i < store->lanes; i++)
        close_lane(s->lanes[i]);
    pg_sender_close(s->sender);
    free(s->health);
    close_lane(s);
}

static unsigned
lane_of_name(const struct store *store, const uint8_t *name, size_t size)
{
    static const struct hash_key zeros;

    return store->lanes > 1
               ? (unsigned)(hash_name(&zeros, 0, name, size) % store->lanes)
               : 0;
}

static const char *
trouble(const struct store *store)
{
    return ((const struct pg *)(const void *)store)->trouble;
}

/* What is deleted stays in dead rows until they are vacuumed, and longer in the
 * database's own log and copies of it. */
static int
purge(struct store *store, const uint8_t *name, size_t size)
{
    (void)store;
    (void)name;
    (void)size;
    return -EOPNOTSUPP;
}

const struct store_engine pg_engine = {
    .close = close_store,
    .lane = lane_of_name,
    .marks = pg_marks,
    .apply = pg_apply,
    .settle = pg_settle,
    .read = pg_read,
    .read_end = pg_read_end,
    .history = pg_history,
    .maintain = pg_maintain,
    .listing_open = pg_listing_open,
    .listing_close = pg_listing_close,
    .listing_start = pg_listing_start,
    .listing_stop = pg_listing_stop,
    .listing_next = pg_listing_next,
    .check = pg_check,
    .each_mark = pg_each_mark,
    .drop = pg_drop,
    .purge = purge,
    .del = pg_del,
    .as_of = pg_as_of,
    .trouble = trouble,
};

static struct pg *
open_lane(const struct postgresql_options *options)
{
    struct pg *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->store.engine = &pg_engine;
    s->options = *options;
    s->chunk = PG_CHUNK;
    s->compact = history_compact_new();
    if (s->compact)
        return s;
    free(s);
    return NULL;
}

int
postgresql_store_open(struct store **out,
                      const struct postgresql_options *options)
{
    const unsigned lanes = options->lanes > 1 ? options->lanes : 1;
    struct pg *s = open_lane(options);
    int rc = 0;

    assert(lanes <= POSTGRESQL_LANES_MAX);
    if (!s)
        return -ENOMEM;
    s->lanes[0] = s;
    s->store.lanes = 1;
    s->health = calloc(1, sizeof *s->health);
    if (!s->health)
        rc = -ENOMEM;
    else if (options->sender && options->writable)
        rc = pg_sender_open(&s->sender, options->sender);
    for (; rc == 0 && s->store.lanes < lanes; s->store.lanes++) {
        struct pg *lane = open_lane(options);

        if (!lane) {
            rc = -ENOMEM;
            break;
        }
        lane->lane = s->store.lanes;
        lane->sender = s->sender;
        lane->health = s->health;
        lane->was_told = true; /* by lane 0 */
        s->lanes[s->store.lanes] = lane;
    }
    if (rc < 0)
        close_store(&s->store);
    else
        *out = &s->store;
    return rc;
}

int
postgresql_store_connect(struct store *store)
{
    return pg_connect(pg_of(store));
}

int
postgresql_store_open_configured(struct store **out,
                                 const struct config *config,
                                 const struct postgresql_options *options)
{
    struct postgresql_options o = *options;
    int rc;

    o.conninfo = o.writable || config->store_read_conninfo[0] == '\0'
                     ? config->store_conninfo
                     : config->store_read_conninfo;
    o.schema = config->store_schema;
    o.timeout_ms = config->store_timeout_ms;
    o.keyspace_max = config->keyspace_max;
    o.keys_max = config->keyspace_max_keys;
    o.history = &config->history;
    o.history_max = config->history_max;
    rc = postgresql_store_open(out, &o);
    if (rc < 0)
        return rc;
    pg_of(*out)->was_told = options->connects_later;
    if (options->connects_later)
        return 0;
    rc = pg_connect(pg_of(*out));
    if (rc == 0 || rc == -EHOSTDOWN)
        return 0;
    store_close(*out);
    return rc;
}

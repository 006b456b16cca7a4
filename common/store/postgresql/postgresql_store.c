/* common/store/postgresql/postgresql_store.c - postgresql_store_open(): the
 * handle, its lanes, the list and the table of the engine's functions.
 *
 * Each lane has a connection; a keyspace is always of the same lane.  Lane 0 is
 * the handle itself. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/postgresql_store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- the list, some hundred a statement ------------------------------------ */

struct listing {
    struct store_listing listing; /* first: the handle */
    struct pg *s;
    PGresult *rows; /* NULL: none were asked for yet */
    int next;
    uint8_t after[STORE_NAME_MAX];
    size_t after_size;
};

static struct listing *
listing_of(struct store_listing *l)
{
    return (struct listing *)(void *)l;
}

static int
open_listing(struct store *store, struct store_listing **out)
{
    struct listing *l = calloc(1, sizeof *l);

    if (!l)
        return -ENOMEM;
    l->listing.engine = &pg_engine;
    l->s = pg_of(store);
    *out = &l->listing;
    return 0;
}

static void
close_listing(struct store_listing *listing)
{
    PQclear(listing_of(listing)->rows);
    free(listing);
}

static void
start_listing(struct store_listing *listing, const uint8_t *after, size_t size)
{
    struct listing *l = listing_of(listing);

    PQclear(l->rows);
    l->rows = NULL;
    l->after_size = size < sizeof l->after ? size : sizeof l->after;
    if (l->after_size > 0)
        memcpy(l->after, after, l->after_size);
}

static int
next_listed(struct store_listing *listing, uint64_t until_ns,
            struct store_listed *out)
{
    struct listing *l = listing_of(listing);
    int rc = 0;

    (void)until_ns; /* a statement is a step */
    if (!l->rows || l->next == PQntuples(l->rows)) {
        PQclear(l->rows);
        l->rows = NULL;
        l->next = 0;
        rc = pg_connect(l->s);
        if (rc == 0)
            rc = pg_ask(l->s, NULL, PG_LIST, "bq", l->after, l->after_size,
                        (int64_t)listing->with_empty);
        if (rc == 0)
            l->rows = pg_keep(l->s);
    }
    if (rc < 0 || PQntuples(l->rows) == 0)
        return rc;
    out->name = pg_bytes(l->rows, l->next, 0, &out->name_size);
    out->keys = pg_bigint(l->rows, l->next, 1);
    rc = pg_key(l->rows, l->next++, 0, l->after, &l->after_size);
    return rc < 0 ? rc : 1;
}

/* Those with keys. */
static int
count_keyspaces(struct store *store, uint64_t *count)
{
    struct pg *s = pg_of(store);
    const PGresult *r;
    int rc = pg_connect(s);

    if (rc == 0)
        rc = pg_ask(s, &r, PG_COUNT_KEYSPACES, "b", "", (size_t)0);
    if (rc == 0)
        *count = (uint64_t)pg_bigint(r, 0, 0);
    return rc;
}

/* ---- the engine ------------------------------------------------------------ */

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
    .listing_open = open_listing,
    .listing_close = close_listing,
    .listing_start = start_listing,
    .listing_next = next_listed,
    .count = count_keyspaces,
    .check = pg_check,
    .each_mark = pg_each_mark,
    .drop = pg_drop, /* no purge: dead rows keep what is deleted, and the
                        database's own log and copies of it do */
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
    s->health = s->figures;
    if (options->sender && options->writable)
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
        s->lanes[s->store.lanes] = lane;
    }
    if (rc == 0 && !options->connects_later)
        rc = pg_connect(s);
    if (rc < 0 && rc != -EHOSTDOWN) {
        close_store(&s->store);
        return rc;
    }
    *out = &s->store;
    return 0;
}

/* common/store/postgresql/pg_list.c - the list of keyspaces, some hundred a
 * statement. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

int
pg_listing_open(struct store *store, struct store_listing **out)
{
    struct listing *l = calloc(1, sizeof *l);

    if (!l)
        return -ENOMEM;
    l->listing.engine = &pg_engine;
    l->s = pg_of(store);
    *out = &l->listing;
    return 0;
}

void
pg_listing_close(struct store_listing *listing)
{
    PQclear(listing_of(listing)->rows);
    free(listing);
}

void
pg_listing_start(struct store_listing *listing, const uint8_t *after,
                 size_t size)
{
    struct listing *l = listing_of(listing);

    PQclear(l->rows);
    l->rows = NULL;
    l->next = 0;
    l->after_size = size < sizeof l->after ? size : sizeof l->after;
    if (l->after_size > 0)
        memcpy(l->after, after, l->after_size);
}

void
pg_listing_stop(struct store_listing *listing)
{
    pg_listing_start(listing, NULL, 0);
}

static int
read_more(struct listing *l)
{
    struct pg_call c;
    int rc = pg_connect(l->s);

    PQclear(l->rows);
    l->rows = NULL;
    l->next = 0;
    pg_call(&c, PG_LIST);
    pg_add_bytes(&c, l->after, l->after_size);
    if (rc == 0)
        rc = pg_run(l->s, &c, 1);
    l->rows = c.result;
    return rc;
}

int
pg_listing_next(struct store_listing *listing, uint64_t until_ns,
                struct store_listed *out)
{
    struct listing *l = listing_of(listing);
    int rc = 0;

    (void)until_ns; /* a statement is a step */
    if (!l->rows || l->next == PQntuples(l->rows))
        rc = read_more(l);
    if (rc < 0)
        return rc;
    if (PQntuples(l->rows) == 0)
        return 0;
    out->name = pg_bytes(l->rows, l->next, 0, &out->name_size);
    out->keys = pg_bigint(l->rows, l->next++, 1);
    if (out->name_size > sizeof l->after)
        return -EBADMSG;
    memcpy(l->after, out->name, out->name_size);
    l->after_size = out->name_size;
    return 1;
}

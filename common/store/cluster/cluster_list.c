/* common/store/cluster/cluster_list.c - the list of keyspaces, and up to when
 * everything is readable; see cluster_store.h.
 *
 * Names come from {countd}k in pieces; each piece's numbers of keys are asked
 * for in one round. */
#include "common/store/cluster/cluster_store_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"

#define PIECE 32

struct cluster_listing {
    struct store_listing listing; /* first: the handle */
    struct cluster_store *store;
    uint8_t
        after[1 + STORE_NAME_MAX]; /* '(' and the name; "-": from the start */
    size_t after_size;
    size_t count, at;
    bool is_last;
    struct cluster_known names[PIECE];
    int64_t keys[PIECE];
};

int
cluster_listing_open(struct store *store, struct store_listing **out)
{
    struct cluster_listing *l = calloc(1, sizeof *l);

    if (l == NULL)
        return -ENOMEM;
    l->listing.engine = store->engine;
    l->store = cluster_store_of(store);
    *out = &l->listing;
    return 0;
}

void
cluster_listing_close(struct store_listing *l)
{
    free(l);
}

static void
set_after(struct cluster_listing *l, const uint8_t *name, size_t size)
{
    l->after[0] = size > 0 ? '(' : '-';
    if (size > 0) /* `name` may be NULL then */
        memcpy(l->after + 1, name, size);
    l->after_size = 1 + size;
}

void
cluster_listing_start(struct store_listing *listing, const uint8_t *after,
                      size_t after_size)
{
    struct cluster_listing *l = (struct cluster_listing *)(void *)listing;

    set_after(l, after, after_size);
    l->count = l->at = 0;
    l->is_last = false;
}

void
cluster_listing_stop(struct store_listing *listing)
{
    struct cluster_listing *l = (struct cluster_listing *)(void *)listing;

    l->count = l->at = 0;
    l->is_last = true;
}

static int
read_names(struct cluster_listing *l)
{
    struct cluster_store *s = l->store;
    struct cluster_command *m =
        cluster_call_lists(s, "ZRANGEBYLEX " CLUSTER_NAMES);
    const redisReply *reply;
    int rc;

    cluster_add_word(m, l->after, l->after_size);
    cluster_add_text(m, "+");
    cluster_add_text(m, "LIMIT");
    cluster_add_number(m, 0);
    cluster_add_number(m, PIECE);
    cluster_call_run(s);
    reply = cluster_call_reply(s, m, 0, &rc);
    l->count = l->at = 0;
    for (size_t i = 0; reply != NULL && i < reply->elements && i < PIECE; i++) {
        const redisReply *name = reply->element[i];

        if (name->type != REDIS_REPLY_STRING || name->len < 1 ||
            name->len > STORE_NAME_MAX)
            continue;
        memcpy(l->names[l->count].name, name->str, (size_t)name->len);
        l->names[l->count++].size = (uint16_t)name->len;
    }
    l->is_last = reply == NULL || reply->elements < PIECE;
    cluster_call_end(s);
    if (l->count > 0)
        set_after(l, l->names[l->count - 1].name, l->names[l->count - 1].size);
    return rc;
}

/* The number of keys of a keyspace; -1 when it cannot be read. */
static int64_t
read_keys(struct cluster_store *s, const struct cluster_known *name)
{
    struct store_totals totals = {.keys = 0};
    struct cluster_known k;
    int rc = -ESTALE;

    for (int i = 0; rc == -ESTALE && i < 2; i++) {
        rc = cluster_find_parts(s, name->name, name->size, &k);
        if (rc == 0)
            rc = cluster_read_totals(s, &k, &totals, NULL);
        if (rc == -ESTALE)
            cluster_forget_parts(s, name->name, name->size);
    }
    if (rc == -ENOENT)
        return 0;
    return rc < 0 ? -1 : (int64_t)totals.keys;
}

/* Keyspaces without keys were dropped, or have only been named. */
int
cluster_listing_next(struct store_listing *listing, uint64_t until_ns,
                     struct store_listed *out)
{
    struct cluster_listing *l = (struct cluster_listing *)(void *)listing;
    int rc;

    for (;;) {
        if (l->at == l->count && l->is_last)
            return 0;
        if (l->at == l->count) {
            rc = read_names(l);
            if (rc < 0)
                return rc;
            continue;
        }
        out->name = l->names[l->at].name;
        out->name_size = l->names[l->at].size;
        out->keys = read_keys(l->store, &l->names[l->at]);
        l->at++;
        if (out->keys != 0)
            return 1;
        if (clock_ns() >= until_ns)
            return -EAGAIN;
    }
}

uint64_t
cluster_as_of(struct store *store)
{
    struct cluster_store *s = cluster_store_of(store);
    const struct cluster_command *m =
        cluster_call_lists(s, "HVALS " CLUSTER_SENDERS);
    const redisReply *reply;
    uint64_t least = UINT64_MAX;
    int rc;

    cluster_call_run(s);
    reply = cluster_call_reply(s, m, 0, &rc);
    for (size_t i = 0; reply != NULL && i < reply->elements; i++) {
        const uint64_t as_of = cluster_reply_number(reply->element[i]);

        least = as_of < least ? as_of : least;
    }
    cluster_call_end(s);
    /* Without a sender, or an answer, nothing is known. */
    return least == UINT64_MAX ? 0 : least;
}

/* common/store/store.c - what every engine shares; see store.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/store.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "common/wire/query.h"

bool
store_name_ok(const uint8_t *name, size_t size)
{
    return size >= 1 && size <= STORE_NAME_MAX && !memchr(name, 0, size);
}

int
store_history(struct store *s, struct store_history_query *q, uint64_t until_ns)
{
    if (!store_name_ok(q->name, q->name_size))
        return -ENOENT;
    if ((q->op == STORE_HISTORY_KEY && q->key_size < 1) ||
        q->key_size > STORE_NAME_MAX || q->prefix_size > STORE_NAME_MAX)
        return -EINVAL;
    return s->engine->history(s, q, until_ns);
}

size_t
store_query_size_max(const struct store_query *q)
{
    if (q->op == STORE_GET || q->op == STORE_RANK || q->op == STORE_TOTAL)
        return 0;
    return (size_t)q->length * (QUERY_ROW_SIZE + STORE_NAME_MAX);
}

int64_t
store_total(const struct store_totals *t)
{
    bool unused = false;

    return store_add(0, t->sum, &unused);
}

int
store_list(struct store *s, const uint8_t *after, size_t after_size,
           int (*row)(void *ctx, const uint8_t *name, size_t name_size,
                      int64_t keys),
           void *ctx)
{
    struct store_listing *l;
    struct store_listed found;
    int rc;

    if (after_size > STORE_NAME_MAX)
        return -EINVAL;
    rc = store_listing_open(s, &l);
    if (rc < 0)
        return rc;
    store_listing_start(l, after, after_size);
    while ((rc = store_listing_next(l, UINT64_MAX, &found)) == 1) {
        rc = row(ctx, found.name, found.name_size, found.keys);
        if (rc != 0)
            break;
    }
    store_listing_close(l);
    return rc;
}

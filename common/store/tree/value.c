/* common/store/tree/value.c - the values of a tree: fetched and checked,
 * stored, removed. */
#include "common/store/tree/value.h"

#include <errno.h>

#include "common/store/tree/group.h"
#include "common/store/tree/node.h"
#include "common/store/tree/tree.h"

int
value_check(const uint8_t *bytes, size_t size)
{
    switch (bytes[4]) {
    case BLOCK_GROUP:
        return group_check(bytes, size);
    case BLOCK_NODE:
        return node_check(bytes, size);
    default:
        return block_check(bytes, size);
    }
}

/* Fetches the value of `key`; of its size only that it can be checked. */
static int
fetch(struct tree *t, uint64_t key, const uint8_t **bytes, size_t *size)
{
    const int rc = t->pager.get(t->pager.ctx, key, bytes, size);

    if (rc < 0)
        return rc;
    return *size < BLOCK_HEAD || *size > BLOCK_SIZE ? -EBADMSG : 0;
}

static int
verify(const uint8_t *bytes, size_t size, const struct block_id *id)
{
    const int rc = block_verify(bytes, size, id);

    return rc < 0 ? rc : value_check(bytes, size);
}

/* The slot of a value in the cache. */
static struct tree_slot *
cache_slot(const struct tree *t, uint64_t key)
{
    const uint64_t hash = (key * 2 + t->kind) * 0x9e3779b97f4a7c15u;

    return &t->cache->slots[(hash >> 40) % TREE_CACHE];
}

/* The value where it lies.  It is checked unless the slot says that just these
 * bytes have been: a snapshot's pages do not change, and a page that is used
 * again has another checksum. */
static int
get_cached(struct tree *t, const struct block_id *id, const uint8_t **bytes)
{
    struct tree_slot *slot = cache_slot(t, id->key);
    const bool same = slot->key == id->key && slot->order == id->order &&
                      slot->type == id->type;
    size_t size;
    int rc;

    if (same && slot->snapshot == t->snapshot && t->snapshot != 0) {
        *bytes = slot->bytes;
        return 0;
    }
    rc = fetch(t, id->key, bytes, &size);
    if (rc < 0)
        return rc;
    if (!same || slot->bytes != *bytes || slot->crc != get_le32(*bytes)) {
        rc = verify(*bytes, size, id);
        if (rc < 0)
            return rc;
    }
    *slot = (struct tree_slot){
        .snapshot = t->snapshot,
        .key = id->key,
        .bytes = *bytes,
        .crc = get_le32(*bytes),
        .order = id->order,
        .type = id->type,
    };
    return 0;
}

int
value_get(struct tree *t, enum block_type type, uint64_t key, uint8_t *copy,
          const uint8_t **bytes)
{
    const struct block_id id = {
        .type = (uint8_t)type, .order = (uint8_t)t->kind, .key = key};
    size_t size;
    int rc;

    if (copy == NULL && t->cache != NULL)
        return get_cached(t, &id, bytes);
    rc = fetch(t, key, bytes, &size);
    if (rc < 0)
        return rc;
    if (copy != NULL) {
        memcpy(copy, *bytes, size);
        *bytes = copy;
    }
    return verify(*bytes, size, &id);
}

int
value_put(struct tree *t, uint64_t key, const uint8_t *bytes, size_t size)
{
    /* A value as large as this gets a page of its own, smaller ones share
     * one. */
    t->small += size > GROUP_SIZE ? BLOCK_SIZE : size;
    t->pages += t->small / BLOCK_SIZE;
    t->small %= BLOCK_SIZE;
    if (t->pages > t->pages_max)
        return -E2BIG;
    return t->pager.put(t->pager.ctx, key, bytes, size);
}

int
value_remove(struct tree *t, uint64_t key)
{
    return t->pager.remove(t->pager.ctx, key);
}

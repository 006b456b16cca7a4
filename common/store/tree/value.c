/* common/store/tree/value.c - the values of a tree: fetched and checked,
 * stored, removed. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/tree/value.h"

#include <errno.h>

#include "common/store/tree/group.h"
#include "common/store/tree/node.h"

#define KEY_SIZE 8 /* of the kv's */

/* Whether bytes whose header and checksum are right have the structure of their
 * type: nothing that they say of themselves leads outside. */
static int
check_value(const uint8_t *bytes, size_t size)
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

static int
verify_value(const uint8_t *bytes, size_t size, const struct block_id *id)
{
    const int rc = block_verify(bytes, size, id);

    return rc < 0 ? rc : check_value(bytes, size);
}

/* Checks the value where it lies unless its slot says that just these bytes
 * have been: a snapshot's pages do not change, and a page that is used again
 * has another checksum. */
static int
verify_once(struct tree *t, const uint8_t *bytes, size_t size,
            const struct block_id *id)
{
    struct tree_slot *slot = value_slot(t, id->key);

    if (slot->bytes != bytes || slot->crc != get_le32(bytes) ||
        !value_in_slot(slot, t, (enum block_type)id->type, id->key)) {
        const int rc = verify_value(bytes, size, id);

        if (rc < 0)
            return rc;
    }
    *slot = (struct tree_slot){
        .snapshot = t->snapshot,
        .key = id->key,
        .bytes = bytes,
        .crc = get_le32(bytes),
        .order = id->order,
        .type = id->type,
    };
    return 0;
}

int
value_fetch(struct tree *t, enum block_type type, uint64_t key, uint8_t *copy,
            const uint8_t **bytes)
{
    const struct block_id id = {
        .type = (uint8_t)type, .order = (uint8_t)t->kind, .key = key};
    uint8_t at[KEY_SIZE];
    struct kv_item item;
    int rc;

    put_be64(at, key);
    rc = t->kv.after(t->kv.ctx, at, sizeof at, &item);
    if (rc < 0)
        return rc;
    if (rc == 0 || !bytes_equal(item.key, item.key_size, at, sizeof at) ||
        item.size < BLOCK_HEAD || item.size > BLOCK_SIZE)
        return -EBADMSG;
    *bytes = item.value;
    if (copy != NULL) {
        memcpy(copy, item.value, item.size);
        *bytes = copy;
    }
    return copy != NULL || t->cache == NULL
               ? verify_value(*bytes, item.size, &id)
               : verify_once(t, *bytes, item.size, &id);
}

int
value_put(struct tree *t, uint64_t key, const uint8_t *bytes, size_t size)
{
    uint8_t at[KEY_SIZE];

    /* A value as large as this gets a page of its own, smaller ones share
     * one. */
    t->small += size > GROUP_SIZE ? BLOCK_SIZE : size;
    t->pages += t->small / BLOCK_SIZE;
    t->small %= BLOCK_SIZE;
    if (t->pages > t->pages_max)
        return -E2BIG;
    put_be64(at, key);
    return t->kv.put(t->kv.ctx, at, sizeof at, bytes, size);
}

int
value_remove(struct tree *t, uint64_t key)
{
    uint8_t at[KEY_SIZE];

    put_be64(at, key);
    return t->kv.del(t->kv.ctx, at, sizeof at);
}

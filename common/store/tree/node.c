/* common/store/tree/node.c - the values of an order: fetch and check,
 * store. */
#include "common/store/tree/tree.h"

#include <assert.h>
#include <errno.h>

/* Fetches the value of `key`. */
static int
fetch(struct tree *t, uint64_t key, const uint8_t **bytes, size_t *size)
{
    const int rc = t->pager.get(t->pager.ctx, key, bytes, size);

    if (rc < 0)
        return rc;
    return *size < BLOCK_HEAD || *size > BLOCK_SIZE ? -EBADMSG : 0;
}

/* Whether a separator row lies inside a value. */
static bool
separator_inside(const uint8_t *bytes, size_t size, size_t at, size_t first)
{
    return at >= first && at + BLOCK_ROW_HEAD <= size &&
           at + row_size(bytes + at) <= size &&
           row_size(bytes + at) <= BLOCK_ROW_MAX;
}

/* Structure of a group's header, checksum apart. */
static int
group_check(const uint8_t *bytes, size_t size)
{
    const unsigned blocks = block_count(bytes);
    const size_t seps = TREE_GROUP_HEAD + 8 * (size_t)blocks;
    unsigned last = 0;

    if (blocks < 1 || blocks > TREE_GROUP_MAX || seps > size ||
        block_more(bytes) > TREE_BUFFER_MAX)
        return -EBADMSG;
    for (unsigned i = 0; i < blocks; i++) {
        const uint8_t *e = bytes + TREE_GROUP_HEAD + 8 * (size_t)i;

        if (!separator_inside(bytes, size, get_le16(e + 6), seps) ||
            get_le16(e + 2) < last)
            return -EBADMSG;
        last = get_le16(e + 2);
        if ((int)get_le16(e) + (int16_t)get_le16(e + 4) < 0)
            return -EBADMSG;
    }
    return last <= get_le16(bytes + 32) ? 0 : -EBADMSG;
}

/* Structure of a node, checksum apart. */
static int
node_check(const uint8_t *bytes, size_t size)
{
    const size_t count = block_count(bytes);
    const size_t seps = BLOCK_HEAD + 16 * count;
    uint64_t before = 0;

    if (count == 0 || seps > size)
        return -EBADMSG;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *e = bytes + BLOCK_HEAD + 16 * i;

        if (get_le64(e) < before ||
            !separator_inside(bytes, size, get_le16(e + 8), seps))
            return -EBADMSG;
        before = get_le64(e);
    }
    return 0;
}

static int
check_by_type(const uint8_t *bytes, size_t size)
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

/* The slot of a value in the cache. */
static struct tree_slot *
cache_slot(const struct tree *t, uint64_t key)
{
    const uint64_t hash = (key * 2 + t->kind) * 0x9e3779b97f4a7c15u;

    return t->cache == NULL ? NULL
                            : &t->cache->slots[(hash >> 40) % TREE_CACHE];
}

/* Fetches from LMDB, and checks checksum and structure unless the slot says
 * that just these bytes have been: a snapshot's pages do not change, and a
 * page that is used again has another checksum. */
static int
fetch_checked(struct tree *t, const struct block_id *id,
              const struct tree_slot *slot, const uint8_t **bytes)
{
    size_t size = 0;
    int rc;

    rc = fetch(t, id->key, bytes, &size);
    if (rc < 0)
        return rc;
    if (slot != NULL && slot->bytes == *bytes && slot->key == id->key &&
        slot->crc == get_le32(*bytes) && slot->order == id->order &&
        slot->type == id->type)
        return 0;
    rc = block_verify(*bytes, size, id);
    return rc < 0 ? rc : check_by_type(*bytes, size);
}

static int
fetch_verified(struct tree *t, enum block_type type, uint64_t key,
               const uint8_t **bytes)
{
    const struct block_id id = {
        .type = (uint8_t)type, .order = (uint8_t)t->kind, .key = key};
    struct tree_slot *slot = cache_slot(t, key);
    int rc;

    if (slot != NULL && t->snapshot != 0 && slot->snapshot == t->snapshot &&
        slot->key == key && slot->order == id.order && slot->type == type) {
        *bytes = slot->bytes;
        return 0;
    }
    rc = fetch_checked(t, &id, slot, bytes);
    if (rc == 0 && slot != NULL)
        *slot = (struct tree_slot){
            .snapshot = t->snapshot,
            .key = key,
            .bytes = *bytes,
            .crc = get_le32(*bytes),
            .order = id.order,
            .type = id.type,
        };
    return rc;
}

int
tree_block(struct tree *t, enum block_type type, uint64_t key,
           uint32_t generation, struct block *out)
{
    const uint8_t *bytes;
    int rc;

    rc = fetch_verified(t, type, key, &bytes);
    if (rc < 0)
        return rc;
    if (block_generation(bytes) != generation)
        return -EBADMSG;
    *out = block_open(bytes);
    return 0;
}

int
tree_group(struct tree *t, uint64_t id, uint64_t rows, struct group *out)
{
    const uint8_t *bytes;
    uint64_t count = 0;
    int rc;

    rc = fetch_verified(t, BLOCK_GROUP, tree_key(id, 0), &bytes);
    if (rc < 0)
        return rc;
    *out = (struct group){
        .id = id,
        .bytes = bytes,
        .blocks = block_count(bytes),
        .buffers = block_more(bytes),
        .base_generation = get_le32(bytes + 24),
        .buffer_generation = get_le32(bytes + 28),
        .entries = get_le16(bytes + 32),
    };
    for (unsigned i = 0; i < out->blocks; i++)
        count += group_total(out, i);
    out->count = count;

    /* The parent's count tells a stale header from the right one. */
    return count == rows ? 0 : -EBADMSG;
}

int
tree_buffer(struct tree *t, const struct group *g, struct buffer *out)
{
    unsigned entries = 0;

    for (unsigned i = 0; i < g->buffers; i++) {
        const uint64_t key = tree_key(g->id, TREE_BUFFER_PART + i);
        const int rc = tree_block(t, BLOCK_BUFFER, key, g->buffer_generation,
                                  &out->blocks[i]);

        if (rc < 0)
            return rc;
        entries += out->blocks[i].count;
    }
    out->count = g->buffers;
    out->entries = entries;
    return entries == g->entries ? 0 : -EBADMSG;
}

int
tree_node(struct tree *t, uint64_t id, unsigned level, struct node *out)
{
    const uint8_t *bytes;
    int rc;

    rc = fetch_verified(t, BLOCK_NODE, tree_key(id, 0), &bytes);
    if (rc < 0)
        return rc;
    if (block_more(bytes) != level)
        return -EBADMSG;
    *out = (struct node){
        .bytes = bytes,
        .count = block_count(bytes),
        .level = (uint16_t)level,
    };
    return 0;
}

int
tree_put(struct tree *t, uint64_t key, const uint8_t *bytes, size_t size)
{
    /* A value as large as this gets a page of its own, a smaller one shares a
     * leaf. */
    t->small += size > TREE_GROUP_SIZE ? BLOCK_SIZE : size;
    t->pages += t->small / BLOCK_SIZE;
    t->small %= BLOCK_SIZE;
    if (t->pages > t->pages_max)
        return -E2BIG;
    return t->pager.put(t->pager.ctx, key, bytes, size);
}

int
tree_remove(struct tree *t, uint64_t key)
{
    return t->pager.remove(t->pager.ctx, key);
}

unsigned
group_block_of(const struct group *g, enum block_order order,
               const struct row *r)
{
    unsigned low = 0, high = g->blocks;

    /* low's separator is not above r, or low is the first. */
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        const struct row s = group_separator(g, middle);

        if (row_compare(order, &s, r) <= 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

unsigned
node_find(const struct node *n, enum block_order order, const struct row *r)
{
    unsigned low = 0, high = n->count;

    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        const struct row s = node_separator(n, middle);

        if (row_compare(order, &s, r) <= 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

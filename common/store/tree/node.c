/* common/store/tree/node.c - the values of an order: fetch and check,
 * store. */
#include "common/store/tree/tree.h"

#include <assert.h>
#include <errno.h>

int
order_error(int code)
{
    switch (code) {
    case MDB_SUCCESS:
        return 0;
    case MDB_MAP_FULL:
        return -EXFULL;
    case MDB_TXN_FULL:
    case MDB_CURSOR_FULL:
        return -E2BIG;
    case MDB_NOTFOUND:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_INCOMPATIBLE:
    case MDB_BAD_VALSIZE:
        return -EBADMSG;
    default:
        return code > 0 ? -code : -EIO;
    }
}

/* Fetches the value of `key`; what is not there is damage. */
static int
fetch(struct order *o, uint64_t key, const uint8_t **bytes, size_t *size)
{
    uint8_t wire[8];
    MDB_val k = {.mv_size = sizeof wire, .mv_data = wire}, v;
    int rc;

    if (o->renew) {
        rc = mdb_cursor_renew(o->txn, o->cursor);
        if (rc != 0)
            return order_error(rc);
        o->renew = false;
    }
    put_be64(wire, key);
    rc = mdb_cursor_get(o->cursor, &k, &v, MDB_SET);
    if (rc != 0)
        return order_error(rc);
    if (v.mv_size < BLOCK_HEAD || v.mv_size > BLOCK_SIZE)
        return -EBADMSG;
    *bytes = v.mv_data;
    *size = v.mv_size;
    return 0;
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
    const size_t seps = ORDER_GROUP_HEAD + 8 * (size_t)blocks;
    unsigned last = 0;

    if (blocks < 1 || blocks > ORDER_GROUP_MAX || seps > size ||
        block_more(bytes) > ORDER_BUFFER_MAX)
        return -EBADMSG;
    for (unsigned i = 0; i < blocks; i++) {
        const uint8_t *e = bytes + ORDER_GROUP_HEAD + 8 * (size_t)i;

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
static struct order_slot *
cache_slot(const struct order *o, uint64_t key)
{
    const uint64_t hash = (key * 2 + o->kind) * 0x9e3779b97f4a7c15u;

    return o->cache == NULL ? NULL
                            : &o->cache->slots[(hash >> 40) % ORDER_CACHE];
}

/* Fetches from LMDB, and checks checksum and structure unless the slot says
 * that just these bytes have been: a snapshot's pages do not change, and a
 * page that is used again has another checksum. */
static int
fetch_checked(struct order *o, const struct block_id *id,
              const struct order_slot *slot, const uint8_t **bytes)
{
    size_t size = 0;
    int rc;

    rc = fetch(o, id->key, bytes, &size);
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
fetch_verified(struct order *o, enum block_type type, uint64_t key,
               const uint8_t **bytes)
{
    const struct block_id id = {
        .type = (uint8_t)type, .order = (uint8_t)o->kind, .key = key};
    struct order_slot *slot = cache_slot(o, key);
    int rc;

    if (slot != NULL && o->snapshot != 0 && slot->snapshot == o->snapshot &&
        slot->key == key && slot->order == id.order && slot->type == type) {
        *bytes = slot->bytes;
        return 0;
    }
    rc = fetch_checked(o, &id, slot, bytes);
    if (rc == 0 && slot != NULL)
        *slot = (struct order_slot){
            .snapshot = o->snapshot,
            .key = key,
            .bytes = *bytes,
            .crc = get_le32(*bytes),
            .order = id.order,
            .type = id.type,
        };
    return rc;
}

int
order_block(struct order *o, enum block_type type, uint64_t key,
            uint32_t generation, struct block *out)
{
    const uint8_t *bytes;
    int rc;

    rc = fetch_verified(o, type, key, &bytes);
    if (rc < 0)
        return rc;
    if (block_generation(bytes) != generation)
        return -EBADMSG;
    *out = block_open(bytes);
    return 0;
}

int
order_group(struct order *o, uint64_t id, uint64_t rows, struct group *out)
{
    const uint8_t *bytes;
    uint64_t count = 0;
    int rc;

    rc = fetch_verified(o, BLOCK_GROUP, order_key(id, 0), &bytes);
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
order_buffer(struct order *o, const struct group *g, struct buffer *out)
{
    unsigned entries = 0;

    for (unsigned i = 0; i < g->buffers; i++) {
        const uint64_t key = order_key(g->id, ORDER_BUFFER_PART + i);
        const int rc = order_block(o, BLOCK_BUFFER, key, g->buffer_generation,
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
order_node(struct order *o, uint64_t id, unsigned level, struct node *out)
{
    const uint8_t *bytes;
    int rc;

    rc = fetch_verified(o, BLOCK_NODE, order_key(id, 0), &bytes);
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
order_put(struct order *o, uint64_t key, const uint8_t *bytes, size_t size)
{
    uint8_t wire[8];
    MDB_val k = {.mv_size = sizeof wire, .mv_data = wire};
    MDB_val v = {.mv_size = size};

    /* A value as large as this gets a page of its own, a smaller one shares a
     * leaf. */
    o->small += size > ORDER_GROUP_SIZE ? BLOCK_SIZE : size;
    o->pages += o->small / BLOCK_SIZE;
    o->small %= BLOCK_SIZE;
    if (o->pages > o->pages_max)
        return -E2BIG;
    put_be64(wire, key);
    memcpy(&v.mv_data, &bytes, sizeof bytes); /* LMDB takes no const */
    return order_error(mdb_cursor_put(o->cursor, &k, &v, 0));
}

int
order_remove(struct order *o, uint64_t key)
{
    uint8_t wire[8];
    MDB_val k = {.mv_size = sizeof wire, .mv_data = wire};
    int rc;

    put_be64(wire, key);
    rc = mdb_cursor_get(o->cursor, &k, NULL, MDB_SET);
    if (rc == 0)
        rc = mdb_cursor_del(o->cursor, 0);
    return order_error(rc);
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

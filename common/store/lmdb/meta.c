/* common/store/lmdb/meta.c - the records of the meta database:
 * keyspace_header_put(), keyspace_state_put(), keyspace_mark_put(), their
 * readers, and keyspace_history_put(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace.h"

#include <assert.h>
#include <errno.h>

#include "common/base/crc.h"
#include "common/base/hash.h"

#define HISTORY_HEAD 8
#define HEADER_SIZE  20
#define MARK_HEAD    24
#define ROOTS_AT     64
#define ROOT_SIZE    ((size_t)32)

/* The checksum of a record: over its LMDB key and all bytes after the checksum.
 */
static uint32_t
record_crc(const MDB_val *key, const uint8_t *bytes, size_t size)
{
    uint8_t both[32 + HISTORY_HEAD + HISTORY_STATE_MAX];

    assert(key->mv_size <= 32 && size - 4 <= sizeof both - 32);
    memcpy(both, key->mv_data, key->mv_size);
    memcpy(both + key->mv_size, bytes + 4, size - 4);
    return crc_of(both, key->mv_size + size - 4);
}

static int
record_put(MDB_txn *txn, MDB_dbi meta, MDB_val *key, uint8_t *bytes,
           size_t size)
{
    MDB_val v = {.mv_size = size, .mv_data = bytes};

    put_le32(bytes, record_crc(key, bytes, size));
    return lmdb_error(mdb_put(txn, meta, key, &v, 0));
}

/* Whether a value is an undamaged record of its key. */
static bool
record_ok(const MDB_val *key, const MDB_val *v, size_t least, size_t most)
{
    return v->mv_size >= least && v->mv_size <= most && key->mv_size <= 32 &&
           get_le32(v->mv_data) == record_crc(key, v->mv_data, v->mv_size);
}

static MDB_val
text_key(const char *text)
{
    return lmdb_val(text, strlen(text));
}

int
keyspace_header_put(MDB_txn *txn, MDB_dbi meta,
                    const struct lmdb_options *options, const uint8_t *name,
                    size_t name_size)
{
    uint8_t bytes[HEADER_SIZE + NAME_MAX_SIZE] = {0};
    MDB_val key = text_key(KEYSPACE_NAME_KEY);

    put_le32(bytes + 4, KEYSPACE_VERSION);
    put_le16(bytes + 12, options->keyspace_size);
    put_le16(bytes + 14, options->key_size);
    put_le16(bytes + 16, (uint16_t)name_size);
    memcpy(bytes + HEADER_SIZE, name, name_size);
    return record_put(txn, meta, &key, bytes, HEADER_SIZE + name_size);
}

/* Compares version, features and message sizes with the options. */
static int
check_options(const uint8_t *bytes, const struct lmdb_options *options,
              const char **why)
{
    if (get_le32(bytes + 4) != KEYSPACE_VERSION) {
        *why = "it was written by another version";
        return -EPROTONOSUPPORT;
    }
    if (get_le32(bytes + 8) != 0) {
        *why = "it uses features this version does not know";
        return -EPROTONOSUPPORT;
    }
    if (get_le16(bytes + 12) != options->keyspace_size ||
        get_le16(bytes + 14) != options->key_size) {
        *why = "it was made with other message.keyspace_size, "
               "message.key_size";
        return -EBADMSG;
    }
    return 0;
}

int
keyspace_header_parse(const MDB_val *v, const struct lmdb_options *options,
                      struct keyspace *k, const char **why)
{
    const MDB_val key = text_key(KEYSPACE_NAME_KEY);
    const uint8_t *bytes = v->mv_data;
    size_t name_size;
    int rc;

    *why = "its header is damaged";
    if (!record_ok(&key, v, HEADER_SIZE + 1, HEADER_SIZE + NAME_MAX_SIZE))
        return -EBADMSG;
    rc = check_options(bytes, options, why);
    if (rc < 0)
        return rc;
    name_size = get_le16(bytes + 16);
    if (name_size != v->mv_size - HEADER_SIZE)
        return -EBADMSG;
    if (k->name_size == 0) {
        k->name_size = name_size;
        memcpy(k->name, bytes + HEADER_SIZE, name_size);
    }
    if (name_size != k->name_size ||
        memcmp(bytes + HEADER_SIZE, k->name, name_size) != 0) {
        *why = "it belongs to another keyspace";
        return -EBADMSG;
    }
    return 0;
}

static int
get_record(MDB_txn *txn, MDB_dbi meta, const char *name, MDB_val *v)
{
    MDB_val key = text_key(name);

    return lmdb_error(mdb_get(txn, meta, &key, v));
}

int
keyspace_header_check(MDB_txn *txn, MDB_dbi meta,
                      const struct lmdb_options *options, struct keyspace *k,
                      const char **why)
{
    MDB_val v;
    int rc;

    *why = "its header is damaged";
    rc = get_record(txn, meta, KEYSPACE_NAME_KEY, &v);
    return rc < 0 ? rc : keyspace_header_parse(&v, options, k, why);
}

static void
root_put(uint8_t *at, const struct tree_root *root)
{
    put_le64(at, root->id);
    put_le64(at + 8, root->next_id);
    put_le64(at + 16, root->count);
    put_le16(at + 24, root->level);
}

static void
root_get(const uint8_t *at, struct tree_root *root)
{
    root->id = get_le64(at);
    root->next_id = get_le64(at + 8);
    root->count = get_le64(at + 16);
    root->level = get_le16(at + 24);
}

/* Whether a root is possible: the tree of an empty keyspace has no root value.
 */
static bool
root_ok(const struct tree_root *root)
{
    return root->level < TREE_LEVELS &&
           (root->id != 0 || (root->count == 0 && root->level == 0));
}

int
keyspace_state_put(MDB_txn *txn, MDB_dbi meta,
                   const struct keyspace_state *state)
{
    uint8_t bytes[KEYSPACE_STATE_SIZE] = {0};
    MDB_val key = text_key(KEYSPACE_STATE_KEY);

    put_le64(bytes + 8, state->change);
    put_le64(bytes + 16, state->nonce);
    put_le128(bytes + 24, state->sum);
    put_le64(bytes + 40, state->saturated);
    put_le64(bytes + 48, state->marks);
    put_le64(bytes + 56, state->marks_hash);
    for (int i = 0; i < KEYSPACE_TREES; i++)
        root_put(bytes + ROOTS_AT + ROOT_SIZE * (size_t)i, &state->roots[i]);
    put_le32(bytes + 128, state->has_history ? 1 : 0);
    put_le32(bytes + 132, state->history_due);
    return record_put(txn, meta, &key, bytes, sizeof bytes);
}

int
keyspace_state_parse(const MDB_val *v, struct keyspace_state *out)
{
    const MDB_val key = text_key(KEYSPACE_STATE_KEY);
    const uint8_t *bytes = v->mv_data;

    if (!record_ok(&key, v, KEYSPACE_STATE_SIZE, KEYSPACE_STATE_SIZE))
        return -EBADMSG;
    out->change = get_le64(bytes + 8);
    out->nonce = get_le64(bytes + 16);
    out->sum = get_le128(bytes + 24);
    out->saturated = get_le64(bytes + 40);
    out->marks = get_le64(bytes + 48);
    out->marks_hash = get_le64(bytes + 56);
    out->has_history = get_le32(bytes + 128) != 0;
    out->history_due = get_le32(bytes + 132);
    for (int i = 0; i < KEYSPACE_TREES; i++) {
        root_get(bytes + ROOTS_AT + ROOT_SIZE * (size_t)i, &out->roots[i]);
        if (!root_ok(&out->roots[i]) ||
            out->roots[i].count != out->roots[0].count)
            return -EBADMSG;
    }
    return 0;
}

int
keyspace_state_get(MDB_txn *txn, MDB_dbi meta, struct keyspace_state *out)
{
    MDB_val v;
    const int rc = get_record(txn, meta, KEYSPACE_STATE_KEY, &v);

    return rc < 0 ? rc : keyspace_state_parse(&v, out);
}

int
keyspace_map_find(MDB_txn *txn, const struct keyspace *k, struct pages_map *map)
{
    MDB_envinfo info;
    MDB_stat st;
    MDB_val v;
    int rc;

    rc = lmdb_env_sizes(k->env, &info, &st);
    if (rc == 0)
        rc = get_record(txn, k->dbis[KEYSPACE_META], KEYSPACE_STATE_KEY, &v);
    if (rc == 0)
        pages_map_find(map, v.mv_data, st.ms_psize, info.me_mapsize);
    return rc;
}

int
keyspace_history_get(MDB_txn *txn, MDB_dbi meta, struct history *out)
{
    const MDB_val key = text_key(KEYSPACE_HISTORY_KEY);
    MDB_val v;
    const int rc = get_record(txn, meta, KEYSPACE_HISTORY_KEY, &v);

    if (rc < 0)
        return rc;
    if (!record_ok(&key, &v, HISTORY_HEAD, HISTORY_HEAD + HISTORY_STATE_MAX))
        return -EBADMSG;
    return history_get(out, (const uint8_t *)v.mv_data + HISTORY_HEAD,
                       v.mv_size - HISTORY_HEAD);
}

int
keyspace_history_put(MDB_txn *txn, MDB_dbi meta, const struct history *h)
{
    uint8_t bytes[HISTORY_HEAD + HISTORY_STATE_MAX] = {0};
    MDB_val key = text_key(KEYSPACE_HISTORY_KEY);
    const size_t size = history_put(h, bytes + HISTORY_HEAD);

    return record_put(txn, meta, &key, bytes, HISTORY_HEAD + size);
}

int
keyspace_history_del(MDB_txn *txn, MDB_dbi meta)
{
    MDB_val key = text_key(KEYSPACE_HISTORY_KEY);

    return lmdb_error(mdb_del(txn, meta, &key, NULL));
}

/* A mark's share of the hash in the state record. */
static uint64_t
mark_hash(const MDB_val *key, const uint8_t *value, size_t size)
{
    static const struct hash_key zeros;
    uint8_t both[32 + KEYSPACE_MARK_SIZE];

    assert(key->mv_size >= 8 && key->mv_size <= 32 &&
           size <= KEYSPACE_MARK_SIZE);
    memcpy(both, key->mv_data, key->mv_size);
    memcpy(both + key->mv_size, value, size);
    return hash_name(&zeros, get_le64(both), both + 8, key->mv_size + size - 8);
}

int
keyspace_mark_parse(const MDB_val *key, const MDB_val *value,
                    struct keyspace_mark *out)
{
    const uint8_t *bytes = value->mv_data;

    if (!record_ok(key, value, MARK_HEAD, KEYSPACE_MARK_SIZE))
        return -EBADMSG;
    memcpy(out->fill.uuid, (const uint8_t *)key->mv_data + 1, 16);
    out->fill.epoch = get_le64(bytes + 8);
    out->fill.first_ms = get_le64(bytes + 16);
    out->done = bytes[4] != 0;
    out->last_key_size = get_le16(bytes + 6);
    if (out->last_key_size != value->mv_size - MARK_HEAD)
        return -EBADMSG;
    memcpy(out->last_key, bytes + MARK_HEAD, out->last_key_size);
    out->hash = mark_hash(key, bytes, value->mv_size);
    return 0;
}

static MDB_val
mark_key(uint8_t bytes[17], const uint8_t uuid[16])
{
    bytes[0] = 'm';
    memcpy(bytes + 1, uuid, 16);
    return lmdb_val(bytes, 17);
}

int
keyspace_mark_del(MDB_txn *txn, MDB_dbi meta, const uint8_t uuid[16])
{
    uint8_t bytes[17];
    MDB_val key = mark_key(bytes, uuid);

    return lmdb_error(mdb_del(txn, meta, &key, NULL));
}

int
keyspace_mark_put(MDB_txn *txn, MDB_dbi meta, struct keyspace_mark *mark)
{
    const size_t size = (size_t)MARK_HEAD + mark->last_key_size;
    uint8_t bytes[17], value[KEYSPACE_MARK_SIZE] = {0};
    MDB_val key = mark_key(bytes, mark->fill.uuid);
    int rc;

    value[4] = mark->done ? 1 : 0;
    put_le16(value + 6, mark->last_key_size);
    put_le64(value + 8, mark->fill.epoch);
    put_le64(value + 16, mark->fill.first_ms);
    memcpy(value + MARK_HEAD, mark->last_key, mark->last_key_size);
    rc = record_put(txn, meta, &key, value, size);
    mark->hash = mark_hash(&key, value, size);
    return rc;
}

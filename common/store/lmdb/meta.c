/* common/store/lmdb/meta.c - the records of the meta database. */
#include "common/base/crc.h"
#include "common/store/lmdb/peek.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#define NAME_KEY    KEYSPACE_NAME_KEY
#define STATE_KEY   KEYSPACE_STATE_KEY
#define HEADER_SIZE 20
#define MARK_HEAD   24

/* The checksum of a record: of its LMDB key, then of all behind the sum. */
static uint32_t
record_crc(const MDB_val *key, const uint8_t *bytes, size_t size)
{
    uint8_t both[32 + HEADER_SIZE + NAME_MAX_SIZE];

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

/* Whether a value is a whole record of its key. */
static bool
record_ok(const MDB_val *key, const MDB_val *v, size_t least, size_t most)
{
    return v->mv_size >= least && v->mv_size <= most && key->mv_size <= 32 &&
           get_le32(v->mv_data) == record_crc(key, v->mv_data, v->mv_size);
}

static MDB_val
text_key(char *text)
{
    return (MDB_val){.mv_size = strlen(text), .mv_data = text};
}

int
keyspace_header_put(MDB_txn *txn, MDB_dbi meta,
                    const struct lmdb_options *options, const uint8_t *name,
                    size_t name_size)
{
    uint8_t bytes[HEADER_SIZE + NAME_MAX_SIZE] = {0};
    char text[] = NAME_KEY;
    MDB_val key = text_key(text);

    put_le32(bytes + 4, KEYSPACE_VERSION);
    put_le16(bytes + 12, options->keyspace_size);
    put_le16(bytes + 14, options->key_size);
    put_le16(bytes + 16, (uint16_t)name_size);
    memcpy(bytes + HEADER_SIZE, name, name_size);
    return record_put(txn, meta, &key, bytes, HEADER_SIZE + name_size);
}

/* Compares version, features and message sizes with ours. */
static int
header_suits(const uint8_t *bytes, const struct lmdb_options *options,
             const char **why)
{
    if (get_le32(bytes + 4) != KEYSPACE_VERSION) {
        *why = "it was written by a newer version";
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
    char text[] = NAME_KEY;
    const MDB_val key = text_key(text);
    const uint8_t *bytes = v->mv_data;
    size_t name_size;
    int rc;

    *why = "its header is damaged";
    if (!record_ok(&key, v, HEADER_SIZE + 1, HEADER_SIZE + NAME_MAX_SIZE))
        return -EBADMSG;
    rc = header_suits(bytes, options, why);
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

int
keyspace_header_check(MDB_txn *txn, MDB_dbi meta,
                      const struct lmdb_options *options, struct keyspace *k,
                      const char **why)
{
    char text[] = NAME_KEY;
    MDB_val key = text_key(text), v;
    int rc;

    *why = "its header is damaged";
    rc = lmdb_error(mdb_get(txn, meta, &key, &v));
    if (rc < 0)
        return rc;
    return keyspace_header_parse(&v, options, k, why);
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

int
keyspace_state_put(MDB_txn *txn, MDB_dbi meta,
                   const struct keyspace_state *state)
{
    uint8_t bytes[KEYSPACE_STATE_SIZE] = {0};
    char text[] = STATE_KEY;
    MDB_val key = text_key(text);

    put_le64(bytes + 8, state->change);
    put_le64(bytes + 16, state->nonce);
    put_le64(bytes + 24, (uint64_t)state->sum);
    put_le64s(bytes + 32, (int64_t)(state->sum >> 64));
    put_le64(bytes + 40, state->saturated);
    root_put(bytes + 48, &state->keys);
    root_put(bytes + 80, &state->ranks);
    return record_put(txn, meta, &key, bytes, sizeof bytes);
}

int
keyspace_state_parse(const MDB_val *v, struct keyspace_state *out)
{
    char text[] = STATE_KEY;
    const MDB_val key = text_key(text);
    const uint8_t *bytes = v->mv_data;

    if (!record_ok(&key, v, KEYSPACE_STATE_SIZE, KEYSPACE_STATE_SIZE))
        return -EBADMSG;
    out->change = get_le64(bytes + 8);
    out->nonce = get_le64(bytes + 16);
    out->sum = (int128)get_le64s(bytes + 32) * ((int128)1 << 64) +
               (int128)get_le64(bytes + 24);
    out->saturated = get_le64(bytes + 40);
    root_get(bytes + 48, &out->keys);
    root_get(bytes + 80, &out->ranks);
    if (out->keys.level >= TREE_LEVELS || out->ranks.level >= TREE_LEVELS ||
        out->keys.count != out->ranks.count)
        return -EBADMSG;
    return 0;
}

int
keyspace_state_get(MDB_txn *txn, MDB_dbi meta, struct keyspace_state *out)
{
    char text[] = STATE_KEY;
    MDB_val key = text_key(text), v;
    int rc;

    rc = lmdb_error(mdb_get(txn, meta, &key, &v));
    return rc < 0 ? rc : keyspace_state_parse(&v, out);
}

static MDB_val
mark_key(const uint8_t uuid[16], uint8_t key[17])
{
    key[0] = 'm';
    memcpy(key + 1, uuid, 16);
    return (MDB_val){.mv_size = 17, .mv_data = key};
}

int
keyspace_mark_parse(const MDB_val *key, const MDB_val *value,
                    struct keyspace_mark *out)
{
    const uint8_t *bytes = value->mv_data;

    if (!record_ok(key, value, MARK_HEAD, KEYSPACE_MARK_SIZE))
        return -EBADMSG;
    out->epoch = get_le64(bytes + 8);
    out->first_ms = get_le64(bytes + 16);
    out->done = bytes[4] != 0;
    out->last_key_size = get_le16(bytes + 6);
    if (out->last_key_size != value->mv_size - MARK_HEAD)
        return -EBADMSG;
    memcpy(out->last_key, bytes + MARK_HEAD, out->last_key_size);
    return 0;
}

int
keyspace_mark_get(MDB_txn *txn, MDB_dbi meta, const uint8_t uuid[16],
                  struct keyspace_mark *out)
{
    uint8_t bytes[17];
    MDB_val key = mark_key(uuid, bytes), v;
    int rc;

    rc = mdb_get(txn, meta, &key, &v);
    if (rc == MDB_NOTFOUND)
        return -ENOENT;
    if (rc != 0)
        return lmdb_error(rc);
    return keyspace_mark_parse(&key, &v, out);
}

int
keyspace_mark_put(MDB_txn *txn, MDB_dbi meta, const uint8_t uuid[16],
                  const struct keyspace_mark *mark)
{
    uint8_t bytes[17], value[KEYSPACE_MARK_SIZE] = {0};
    MDB_val key = mark_key(uuid, bytes);

    value[4] = mark->done ? 1 : 0;
    put_le16(value + 6, mark->last_key_size);
    put_le64(value + 8, mark->epoch);
    put_le64(value + 16, mark->first_ms);
    memcpy(value + MARK_HEAD, mark->last_key, mark->last_key_size);
    return record_put(txn, meta, &key, value,
                      (size_t)MARK_HEAD + mark->last_key_size);
}

int
keyspace_mark_info(MDB_txn *txn, MDB_dbi meta, const struct store_mark *mark,
                   struct lmdb_mark_info *out)
{
    struct keyspace_mark m;
    int rc;

    *out = (struct lmdb_mark_info){.state = STORE_MARK_NONE};
    rc = keyspace_mark_get(txn, meta, mark->uuid, &m);
    if (rc == -ENOENT)
        return 0;
    if (rc < 0)
        return rc;
    if (m.epoch > mark->epoch)
        out->state = STORE_MARK_AHEAD;
    if (m.epoch != mark->epoch)
        return 0;
    if (m.first_ms != mark->first_ms) {
        out->state = STORE_MARK_OTHER;
        return 0;
    }
    out->state = m.done ? STORE_MARK_DONE : STORE_MARK_PARTIAL;
    if (!m.done) {
        out->last_key_size = m.last_key_size;
        memcpy(out->last_key, m.last_key, m.last_key_size);
    }
    return 0;
}

/* common/store/lmdb/held_index.c - keys, the state record, and the keys that
 * must agree with it. */
#include "common/store/lmdb/held_internal.h"

#include <assert.h>
#include <errno.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/base/hash.h"
#include "common/store/lmdb/pager.h"

#define STATE_SIZE   48
#define VERSION_SIZE 12

/* Databases; their numbers in the hash. */
enum { IN_RECORDS = 1, IN_FILLS };

/* ---- keys -------------------------------------------------------------- */

void
held_key_add(struct held_key *k, const void *bytes, size_t size)
{
    assert(k->size + size <= sizeof k->bytes);
    if (size > 0) /* then `bytes` may be NULL */
        memcpy(k->bytes + k->size, bytes, size);
    k->size += size;
}

void
held_key_add64(struct held_key *k, uint64_t v)
{
    uint8_t bytes[8];

    put_be64(bytes, v);
    held_key_add(k, bytes, sizeof bytes);
}

struct held_key
held_key_name(const uint8_t *name, size_t size)
{
    struct held_key k = {.size = 0};

    held_key_add(&k, name, size);
    held_key_add(&k, "", 1);
    return k;
}

static struct held_key
record_key(const struct store_batch *batch, uint64_t id)
{
    struct held_key k = held_key_name(batch->name, batch->name_size);

    held_key_add64(&k, id);
    return k;
}

static struct held_key
fill_key(const struct store_batch *batch, const struct store_mark *m,
         uint64_t id)
{
    struct held_key k = held_key_name(batch->name, batch->name_size);

    held_key_add(&k, m->uuid, sizeof m->uuid);
    held_key_add64(&k, m->epoch);
    held_key_add64(&k, m->first_ms);
    held_key_add64(&k, id);
    return k;
}

uint64_t
held_key_id(const MDB_val *key)
{
    assert(key->mv_size >= 8);
    return get_be64((const uint8_t *)key->mv_data + key->mv_size - 8);
}

bool
held_key_under(const MDB_val *key, const struct held_key *start)
{
    return key->mv_size >= start->size &&
           memcmp(key->mv_data, start->bytes, start->size) == 0;
}

/* ---- meta -------------------------------------------------------------- */

static uint32_t
meta_crc(const char *name, const uint8_t *bytes, size_t size)
{
    uint8_t both[8 + STATE_SIZE];
    const size_t name_size = strlen(name);

    assert(name_size <= 8 && size - 4 <= STATE_SIZE);
    for (size_t i = 0; i < name_size; i++) /* without its NUL */
        both[i] = (uint8_t)name[i];
    memcpy(both + name_size, bytes + 4, size - 4);
    return crc_of(both, name_size + size - 4);
}

static int
meta_put(MDB_txn *txn, MDB_dbi meta, const char *name, uint8_t *bytes,
         size_t size)
{
    char text[8];
    MDB_val key = {.mv_size = strlen(name), .mv_data = text};
    MDB_val value = {.mv_size = size, .mv_data = bytes};

    memcpy(text, name, key.mv_size);
    put_le32(bytes, meta_crc(name, bytes, size));
    return mdb_put(txn, meta, &key, &value, 0);
}

static int
state_put(MDB_txn *txn, MDB_dbi meta, const struct held_sums *sums)
{
    uint8_t bytes[STATE_SIZE] = {0};

    put_le64(bytes + 8, sums->change);
    put_le64(bytes + 16, sums->next_id);
    put_le64(bytes + 24, sums->records);
    put_le64(bytes + 32, sums->bytes);
    put_le64(bytes + 40, sums->hash);
    return meta_put(txn, meta, "state", bytes, sizeof bytes);
}

int
held_sums_put(struct held *h, MDB_txn *txn, const struct held_sums *sums)
{
    return held_error(h, state_put(txn, h->file.meta, sums));
}

bool
held_sums_parse(const uint8_t *value, size_t size, struct held_sums *out)
{
    if (size != STATE_SIZE || get_le32(value) != meta_crc("state", value, size))
        return false;
    *out = (struct held_sums){.change = get_le64(value + 8),
                              .next_id = get_le64(value + 16),
                              .records = get_le64(value + 24),
                              .bytes = get_le64(value + 32),
                              .hash = get_le64(value + 40)};
    return true;
}

int
held_sums_get(struct held *h, MDB_txn *txn, struct held_sums *out)
{
    char text[] = "state";
    MDB_val key = {.mv_size = strlen(text), .mv_data = text}, value;
    int rc;

    rc = held_error(h, mdb_get(txn, h->file.meta, &key, &value));
    if (rc == 0 && !held_sums_parse(value.mv_data, value.mv_size, out))
        rc = held_error(h, MDB_CORRUPTED);
    return rc;
}

int
held_meta_make(MDB_txn *txn, MDB_dbi meta)
{
    const struct held_sums sums = {.change = 1, .next_id = 1};
    uint8_t version[VERSION_SIZE] = {0};
    int code;

    put_le32(version + 4, HELD_VERSION);
    code = meta_put(txn, meta, "version", version, sizeof version);
    return code != 0 ? code : state_put(txn, meta, &sums);
}

int
held_version_check(MDB_txn *txn, MDB_dbi meta, const char **why)
{
    char text[] = "version";
    MDB_val key = {.mv_size = strlen(text), .mv_data = text}, value;
    const uint8_t *bytes;
    int code;

    *why = "its version record is damaged";
    code = mdb_get(txn, meta, &key, &value);
    if (code != 0)
        return lmdb_error(code);
    bytes = value.mv_data;
    if (value.mv_size != VERSION_SIZE ||
        get_le32(bytes) != meta_crc(text, bytes, VERSION_SIZE))
        return -EBADMSG;
    if (get_le32(bytes + 4) != HELD_VERSION || get_le32(bytes + 8) != 0) {
        *why = "it was written by another version";
        return -EPROTONOSUPPORT;
    }
    return 0;
}

/* ---- the keys of a record ---------------------------------------------- */

static uint64_t
key_hash(int db, const MDB_val *key)
{
    static const struct hash_key zeros;

    return hash_name(&zeros, (uint64_t)db, key->mv_data, key->mv_size);
}

static MDB_dbi
database(const struct held *h, int db)
{
    return db == IN_RECORDS ? h->file.records : h->file.fills;
}

static int
key_add(struct held *h, int db, struct held_key *k, MDB_val *value,
        unsigned flags)
{
    MDB_val key = held_val(k);
    int rc;

    rc = held_error(h, mdb_put(h->write, database(h, db), &key, value,
                               MDB_NOOVERWRITE | flags));
    if (rc == 0)
        h->sums.hash += key_hash(db, &key);
    return rc;
}

static int
key_delete(struct held *h, int db, struct held_key *k)
{
    MDB_val key = held_val(k);
    int rc;

    rc = held_error(h, mdb_del(h->write, database(h, db), &key, NULL));
    if (rc == 0)
        h->sums.hash -= key_hash(db, &key);
    return rc;
}

int
held_index_add(struct held *h, const struct store_batch *batch, uint64_t id,
               MDB_val *value)
{
    struct held_key k;
    uint8_t crc[4];
    MDB_val sum = {.mv_size = sizeof crc, .mv_data = crc};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < batch->mark_count; i++) {
        k = fill_key(batch, &batch->marks[i], id);
        put_le32(crc, crc_of(k.bytes, k.size));
        rc = key_add(h, IN_FILLS, &k, &sum, 0);
    }
    if (rc < 0)
        return rc;
    k = record_key(batch, id); /* the last: nothing moves it any more */
    return key_add(h, IN_RECORDS, &k, value, MDB_RESERVE);
}

int
held_index_delete(struct held *h, const struct store_batch *batch, uint64_t id)
{
    struct held_key k = record_key(batch, id);
    int rc;

    rc = key_delete(h, IN_RECORDS, &k);
    for (size_t i = 0; rc == 0 && i < batch->mark_count; i++) {
        k = fill_key(batch, &batch->marks[i], id);
        rc = key_delete(h, IN_FILLS, &k);
    }
    return rc;
}

/* Deletes the fills under this name that have this id. */
static int
delete_fills(struct held *h, const struct held_key *start, uint64_t id)
{
    struct held_key from = *start;
    MDB_val key = held_val(&from), value;
    MDB_cursor *c;
    int code, rc;

    rc = held_error(h, mdb_cursor_open(h->write, h->file.fills, &c));
    if (rc < 0)
        return rc;
    code = mdb_cursor_get(c, &key, &value, MDB_SET_RANGE);
    while (code == 0 && rc == 0 && held_key_under(&key, start)) {
        if (key.mv_size >= 8 && held_key_id(&key) == id) {
            h->sums.hash -= key_hash(IN_FILLS, &key);
            rc = held_error(h, mdb_cursor_del(c, 0));
        }
        if (rc == 0)
            code = mdb_cursor_get(c, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(c);
    if (rc < 0)
        return rc;
    return code == MDB_NOTFOUND ? 0 : held_error(h, code);
}

int
held_index_purge(struct held *h, const uint8_t *name, size_t name_size,
                 uint64_t id)
{
    const struct held_key named = held_key_name(name, name_size);
    struct held_key k = named;
    int rc;

    held_key_add64(&k, id);
    rc = key_delete(h, IN_RECORDS, &k);
    return rc < 0 ? rc : delete_fills(h, &named, id);
}

/* ---- reading ----------------------------------------------------------- */

int
held_each_key(struct held *h, MDB_txn *txn, MDB_dbi dbi,
              const struct held_key *start,
              int (*one)(void *ctx, const MDB_val *key, const MDB_val *value),
              void *ctx)
{
    struct held_key from = *start;
    MDB_val key = held_val(&from), value;
    MDB_cursor *c;
    int code, rc;

    rc = held_error(h, mdb_cursor_open(txn, dbi, &c));
    if (rc < 0)
        return rc;
    code = mdb_cursor_get(c, &key, &value,
                          from.size > 0 ? MDB_SET_RANGE : MDB_FIRST);
    while (code == 0 && rc == 0 && held_key_under(&key, start)) {
        rc = one(ctx, &key, &value);
        if (rc == 0)
            code = mdb_cursor_get(c, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(c);
    if (rc != 0)
        return rc;
    return code == MDB_NOTFOUND ? 0 : held_error(h, code);
}

/* Whether a key of fills is whole. */
static bool
fill_ok(const MDB_val *key, const MDB_val *value)
{
    return key->mv_size >= 40 && value->mv_size == 4 &&
           get_le32(value->mv_data) == crc_of(key->mv_data, key->mv_size);
}

/* What the keys add up to. */
struct adding {
    int db; /* at hand */
    uint64_t hash;
    uint64_t records;
};

static int
add_key(void *ctx, const MDB_val *key, const MDB_val *value)
{
    struct adding *a = ctx;

    a->hash += key_hash(a->db, key);
    a->records += a->db == IN_RECORDS;
    return a->db == IN_FILLS && !fill_ok(key, value) ? -EBADMSG : 0;
}

int
held_index_check(struct held *h, MDB_txn *txn, const struct held_sums *sums)
{
    static const struct held_key all;
    struct adding a = {.hash = 0};
    int rc = 0;

    for (a.db = IN_RECORDS; rc == 0 && a.db <= IN_FILLS; a.db++)
        rc = held_each_key(h, txn, database(h, a.db), &all, add_key, &a);
    if (rc == 0 && (a.hash != sums->hash || a.records != sums->records))
        rc = -EBADMSG;
    return rc == -EBADMSG ? held_error(h, MDB_CORRUPTED) : rc;
}

int
held_index_find(struct held *h, const struct store_batch *batch, uint64_t id)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < batch->mark_count; i++) {
        struct held_key k = fill_key(batch, &batch->marks[i], id);
        MDB_val key = held_val(&k), value;
        const int code = mdb_get(h->look, h->file.fills, &key, &value);

        if (code == MDB_NOTFOUND || (code == 0 && !fill_ok(&key, &value)))
            return held_error(h, MDB_CORRUPTED);
        rc = held_error(h, code);
    }
    return rc;
}

struct span {
    uint64_t oldest, newest;
};

static int
add_fill(void *ctx, const MDB_val *key, const MDB_val *value)
{
    struct span *s = ctx;
    uint64_t ms;

    if (!fill_ok(key, value))
        return -EBADMSG;
    ms = get_be64((const uint8_t *)key->mv_data + key->mv_size - 16);
    if (ms < s->oldest)
        s->oldest = ms;
    if (ms > s->newest)
        s->newest = ms;
    return 0;
}

int
held_index_span(struct held *h, const uint8_t *name, size_t name_size,
                uint64_t *oldest, uint64_t *newest)
{
    struct held_key start = {.size = 0};
    struct span s = {.oldest = UINT64_MAX};
    int rc;

    if (name_size > 0)
        start = held_key_name(name, name_size);
    rc = held_each_key(h, h->look, h->file.fills, &start, add_fill, &s);
    *oldest = s.oldest;
    *newest = s.newest;
    return rc == -EBADMSG ? held_error(h, MDB_CORRUPTED) : rc;
}

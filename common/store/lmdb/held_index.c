/* common/store/lmdb/held_index.c - keys, the state record, and the keys that
 * must agree with it. */
#include "common/store/lmdb/held_inside.h"

#include <assert.h>
#include <errno.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/base/hash.h"
#include "common/store/lmdb/pager.h"

#define STATE_SIZE   48
#define VERSION_SIZE 12

/* The number of a database in the hash. */
enum { IN_RECORDS = 1, IN_FILLS, IN_TIMES };

enum { KIND_OLDEST, KIND_NEWEST };

/* ---- keys -------------------------------------------------------------- */

void
held_key_add(struct held_key *k, const void *bytes, size_t size)
{
    assert(k->size + size <= sizeof k->bytes);
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

struct held_key
held_key_part(uint64_t id, uint32_t part)
{
    struct held_key k = {.size = 0};
    uint8_t bytes[4];

    put_be32(bytes, part);
    held_key_add64(&k, id);
    held_key_add(&k, bytes, sizeof bytes);
    return k;
}

static struct held_key
fill_key(const struct held_head *head, const struct store_mark *m)
{
    struct held_key k = held_key_name(head->name, head->name_size);

    held_key_add(&k, m->uuid, sizeof m->uuid);
    held_key_add64(&k, m->epoch);
    held_key_add64(&k, m->first_ms);
    held_key_add64(&k, head->id);
    return k;
}

static struct held_key
time_key(const uint8_t *name, size_t name_size, uint8_t kind)
{
    struct held_key k = held_key_name(name, name_size);

    held_key_add(&k, &kind, 1);
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

int
held_seek(struct held *h, MDB_cursor *c, const struct held_key *start,
          MDB_val *key, MDB_val *value)
{
    struct held_key from = *start;
    int code;

    *key = held_val(&from);
    code = mdb_cursor_get(c, key, value, MDB_SET_RANGE);
    if (code == MDB_NOTFOUND)
        return -ENOENT;
    if (code != 0)
        return held_error(h, code);
    return held_key_under(key, start) ? 0 : -ENOENT;
}

/* ---- meta -------------------------------------------------------------- */

static uint32_t
meta_crc(const char *name, const uint8_t *bytes, size_t size)
{
    uint8_t both[8 + STATE_SIZE];
    const size_t name_size = strlen(name);

    assert(name_size <= 8 && size - 4 <= STATE_SIZE);
    memcpy(both, name, name_size);
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
        *why = "it was written by a newer version";
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
    return db == IN_RECORDS ? h->file.records
           : db == IN_FILLS ? h->file.fills
                            : h->file.times;
}

static int
key_add(struct held *h, int db, struct held_key *k, MDB_val *value)
{
    MDB_val key = held_val(k);
    int rc;

    rc = held_error(
        h, mdb_put(h->write, database(h, db), &key, value, MDB_NOOVERWRITE));
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

/* The four keys of a record in times. */
static void
time_keys(const struct held_head *head, const struct store_mark *marks,
          struct held_key keys[4])
{
    uint64_t ms[2] = {marks[0].first_ms, marks[0].first_ms};

    for (uint32_t i = 1; i < head->marks; i++) {
        if (marks[i].first_ms < ms[KIND_OLDEST])
            ms[KIND_OLDEST] = marks[i].first_ms;
        if (marks[i].first_ms > ms[KIND_NEWEST])
            ms[KIND_NEWEST] = marks[i].first_ms;
    }
    for (int i = 0; i < 4; i++) {
        keys[i] =
            time_key(head->name, i < 2 ? head->name_size : 0, (uint8_t)(i % 2));
        held_key_add64(&keys[i], ms[i % 2]);
        held_key_add64(&keys[i], head->id);
    }
}

int
held_index_add(struct held *h, const struct held_head *head,
               const struct store_mark *marks, MDB_val *value)
{
    struct held_key k = held_key_name(head->name, head->name_size);
    MDB_val nothing = {.mv_size = 0, .mv_data = k.bytes};
    struct held_key times[4];
    int rc;

    held_key_add64(&k, head->id);
    rc = key_add(h, IN_RECORDS, &k, value);
    for (uint32_t i = 0; rc == 0 && i < head->marks; i++) {
        k = fill_key(head, &marks[i]);
        rc = key_add(h, IN_FILLS, &k, &nothing);
    }
    time_keys(head, marks, times);
    for (int i = 0; rc == 0 && i < 4; i++) {
        uint8_t crc[4];
        MDB_val sum = {.mv_size = sizeof crc, .mv_data = crc};

        put_le32(crc, crc_of(times[i].bytes, times[i].size));
        rc = key_add(h, IN_TIMES, &times[i], &sum);
    }
    return rc;
}

int
held_index_delete(struct held *h, const struct held_head *head,
                  const struct store_mark *marks)
{
    struct held_key k = held_key_name(head->name, head->name_size);
    struct held_key times[4];
    int rc;

    held_key_add64(&k, head->id);
    rc = key_delete(h, IN_RECORDS, &k);
    for (uint32_t i = 0; rc == 0 && i < head->marks; i++) {
        k = fill_key(head, &marks[i]);
        rc = key_delete(h, IN_FILLS, &k);
    }
    time_keys(head, marks, times);
    for (int i = 0; rc == 0 && i < 4; i++)
        rc = key_delete(h, IN_TIMES, &times[i]);
    return rc;
}

/* Deletes the keys of a record that begin so. */
static int
purge(struct held *h, int db, const struct held_key *start, uint64_t id)
{
    MDB_val key, value;
    MDB_cursor *c;
    int rc;

    rc = held_error(h, mdb_cursor_open(h->write, database(h, db), &c));
    if (rc < 0)
        return rc;
    rc = held_seek(h, c, start, &key, &value);
    while (rc == 0 && held_key_under(&key, start)) {
        if (key.mv_size >= 8 && held_key_id(&key) == id) {
            h->sums.hash -= key_hash(db, &key);
            rc = held_error(h, mdb_cursor_del(c, 0));
        }
        if (rc == 0) {
            const int code = mdb_cursor_get(c, &key, &value, MDB_NEXT);

            rc = code == MDB_NOTFOUND ? -ENOENT : held_error(h, code);
        }
    }
    mdb_cursor_close(c);
    return rc == -ENOENT ? 0 : rc;
}

int
held_index_purge(struct held *h, const uint8_t *name, size_t name_size,
                 uint64_t id)
{
    const struct held_key named = held_key_name(name, name_size);
    const struct held_key all = held_key_name(name, 0);
    int rc;

    rc = purge(h, IN_RECORDS, &named, id);
    if (rc == 0)
        rc = purge(h, IN_FILLS, &named, id);
    if (rc == 0)
        rc = purge(h, IN_TIMES, &named, id);
    return rc < 0 ? rc : purge(h, IN_TIMES, &all, id);
}

/* ---- reading ----------------------------------------------------------- */

/* The time in a key of times; -EBADMSG unless it is whole. */
static int
read_time(struct held *h, const MDB_val *key, const MDB_val *value,
          uint64_t *ms)
{
    if (key->mv_size < 16 || value->mv_size != 4 ||
        get_le32(value->mv_data) != crc_of(key->mv_data, key->mv_size))
        return held_error(h, MDB_CORRUPTED);
    *ms = get_be64((const uint8_t *)key->mv_data + key->mv_size - 16);
    return 0;
}

/* Adds all keys of a database; values of times are checked with them. */
static int
add_hashes(struct held *h, MDB_txn *txn, int db, uint64_t *hash,
           uint64_t *count)
{
    MDB_val key, value;
    MDB_cursor *c;
    uint64_t ms;
    int code;

    code = mdb_cursor_open(txn, database(h, db), &c);
    if (code != 0)
        return held_error(h, code);
    *count = 0;
    code = mdb_cursor_get(c, &key, &value, MDB_FIRST);
    while (code == 0) {
        *hash += key_hash(db, &key);
        ++*count;
        code = db == IN_TIMES && read_time(h, &key, &value, &ms) < 0
                   ? MDB_CORRUPTED
                   : mdb_cursor_get(c, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(c);
    return code == MDB_NOTFOUND ? 0 : held_error(h, code);
}

int
held_index_check(struct held *h, MDB_txn *txn, const struct held_sums *sums)
{
    uint64_t hash = 0, records, count;
    int rc;

    rc = add_hashes(h, txn, IN_RECORDS, &hash, &records);
    if (rc == 0)
        rc = add_hashes(h, txn, IN_FILLS, &hash, &count);
    if (rc == 0)
        rc = add_hashes(h, txn, IN_TIMES, &hash, &count);
    if (rc < 0)
        return rc;
    return hash == sums->hash && records == sums->records
               ? 0
               : held_error(h, MDB_CORRUPTED);
}

int
held_index_find(struct held *h, MDB_txn *txn, const struct held_head *head,
                const struct store_mark *marks)
{
    struct held_key times[4];
    MDB_val key, value;
    uint64_t ms;
    int code = 0, rc = 0;

    for (uint32_t i = 0; code == 0 && i < head->marks; i++) {
        struct held_key k = fill_key(head, &marks[i]);

        key = held_val(&k);
        code = mdb_get(txn, h->file.fills, &key, &value);
    }
    time_keys(head, marks, times);
    for (int i = 0; code == 0 && rc == 0 && i < 4; i++) {
        key = held_val(&times[i]);
        code = mdb_get(txn, h->file.times, &key, &value);
        if (code == 0)
            rc = read_time(h, &key, &value, &ms);
    }
    return code != 0 ? held_error(h, code) : rc;
}

/* The last key that begins so. */
static int
seek_last(struct held *h, MDB_cursor *c, const struct held_key *start,
          MDB_val *key, MDB_val *value)
{
    struct held_key next = *start;
    int code;

    next.bytes[next.size - 1]++; /* a kind */
    *key = held_val(&next);
    code = mdb_cursor_get(c, key, value, MDB_SET_RANGE);
    if (code == 0)
        code = mdb_cursor_get(c, key, value, MDB_PREV);
    else if (code == MDB_NOTFOUND)
        code = mdb_cursor_get(c, key, value, MDB_LAST);
    if (code == MDB_NOTFOUND)
        return -ENOENT;
    if (code != 0)
        return held_error(h, code);
    return held_key_under(key, start) ? 0 : -ENOENT;
}

int
held_index_span(struct held *h, MDB_txn *txn, const uint8_t *name,
                size_t name_size, uint64_t *oldest, uint64_t *newest)
{
    const struct held_key first = time_key(name, name_size, KIND_OLDEST);
    const struct held_key last = time_key(name, name_size, KIND_NEWEST);
    MDB_val key, value;
    MDB_cursor *c;
    int rc;

    rc = held_error(h, mdb_cursor_open(txn, h->file.times, &c));
    if (rc < 0)
        return rc;
    rc = held_seek(h, c, &first, &key, &value);
    if (rc == 0)
        rc = read_time(h, &key, &value, oldest);
    if (rc == 0)
        rc = seek_last(h, c, &last, &key, &value);
    if (rc == 0)
        rc = read_time(h, &key, &value, newest);
    mdb_cursor_close(c);
    return rc;
}

/* common/store/lmdb/held.c - see held.h: the handle, and looking. */
#include "common/store/lmdb/held_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"

#define LOOK_TRIES 5
#define CHECK_MS   60000

int
held_open(struct held **out, const struct held_options *options)
{
    struct held *h;

    h = calloc(1, sizeof *h);
    if (h == NULL)
        return -ENOMEM;
    h->options = *options;
    h->file.fd = -1;
    h->lock_fd = -1;
    *out = h;
    return 0;
}

void
held_close(struct held *h)
{
    held_abort(h);
    held_snapshot_end(h);
    held_unlock(h);
    held_file_close(h);
    free(h->memory.marks);
    free(h->memory.deltas);
    free(h);
}

/* ---- looking ----------------------------------------------------------- */

void
held_snapshot_end(struct held *h)
{
    if (h->look != NULL)
        mdb_txn_abort(h->look);
    h->look = NULL;
}

/* Begins the snapshot.  -ESTALE: the file was replaced or is damaged; again. */
static int
try_look(struct held *h)
{
    int rc;

    rc = held_file_get(h);
    if (rc == 0)
        rc = held_begin_read(h, &h->look);
    if (rc < 0)
        return rc;
    rc = held_sums_get(h, h->look, &h->looked);
    /* It walks all keys: those who write do that again now and then, and
     * whoever only reads has more to do. */
    if (rc == 0 && h->options.writable &&
        clock_ms() - h->file.checked_ms > CHECK_MS) {
        rc = held_index_check(h, h->look, &h->looked);
        h->file.checked_ms = clock_ms();
    }
    if (rc == -EBADMSG || (rc == 0 && !held_file_is_named(h))) {
        h->file.stale = true;
        rc = -ESTALE;
    }
    if (rc < 0)
        held_snapshot_end(h);
    return rc;
}

int
held_snapshot_begin(struct held *h)
{
    int rc = -ESTALE;

    assert(h->write == NULL);
    held_snapshot_end(h);
    h->looked = (struct held_sums){.records = 0};
    h->look_inode = 0;
    h->holder = 0;
    for (int i = 0; i < LOOK_TRIES && rc == -ESTALE; i++)
        rc = try_look(h);
    if (rc == -EAGAIN)
        held_file_close(h); /* else nobody could go on */
    if (rc == 0) {
        h->look_inode = h->file.inode;
        h->look_device = h->file.device;
    }
    if (rc == -ENOENT)
        return 0;
    return rc == -ESTALE ? -EAGAIN : rc;
}

bool
held_any(const struct held *h)
{
    return h->looked.records > 0;
}

/* The first key of the snapshot that is not below `from`: 0 or -ENOENT. */
static int
find_from(struct held *h, MDB_dbi dbi, const struct held_key *from,
          MDB_val *key, MDB_val *value)
{
    struct held_key k = *from;
    MDB_cursor *c;
    int code, rc;

    rc = held_error(h, mdb_cursor_open(h->look, dbi, &c));
    if (rc < 0)
        return rc;
    *key = held_val(&k);
    code =
        mdb_cursor_get(c, key, value, k.size > 0 ? MDB_SET_RANGE : MDB_FIRST);
    mdb_cursor_close(c);
    return code == MDB_NOTFOUND ? -ENOENT : held_error(h, code);
}

int
held_find(struct held *h, MDB_dbi dbi, const struct held_key *start,
          MDB_val *key, MDB_val *value)
{
    const int rc = find_from(h, dbi, start, key, value);

    return rc == 0 && !held_key_under(key, start) ? -ENOENT : rc;
}

/* Whether the record of this id can be read: else its log is not given up for
 * it. */
static int
record_whole(struct held *h, const uint8_t *name, size_t name_size, uint64_t id)
{
    struct held_key k = held_key_name(name, name_size);
    struct held_head head;
    MDB_val key, value;
    int rc;

    held_key_add64(&k, id);
    rc = held_find(h, h->file.records, &k, &key, &value);
    return rc < 0 ? rc : held_head_read(&key, &value, &head);
}

/* What is held of a fill, in a keyspace of which something is. */
static int
find_fill(struct held *h, const uint8_t *name, size_t name_size,
          const struct store_mark *mark, enum held_state *state)
{
    struct held_key k = held_key_name(name, name_size);
    MDB_val key, value;
    int rc;

    held_key_add(&k, mark->uuid, sizeof mark->uuid);
    held_key_add64(&k, mark->epoch);
    held_key_add64(&k, mark->first_ms);
    *state = HELD_OTHER;
    rc = held_find(h, h->file.fills, &k, &key, &value);
    if (rc == 0)
        rc = record_whole(h, name, name_size, held_key_id(&key));
    if (rc == 0)
        *state = HELD_SAME;
    return rc == -ENOENT || rc == -EBADMSG ? 0 : rc;
}

/* Whether anything is held of a keyspace: 0 or -ENOENT.  Two databases say it;
 * where they differ, one of them is damaged. */
static int
any_of(struct held *h, const uint8_t *name, size_t name_size)
{
    const struct held_key k = held_key_name(name, name_size);
    MDB_val key, value;
    int records, fills;

    if (h->look == NULL)
        return -ENOENT;
    records = held_find(h, h->file.records, &k, &key, &value);
    fills = held_find(h, h->file.fills, &k, &key, &value);
    if (records == fills)
        return records;
    if (records < 0 && records != -ENOENT)
        return records;
    return fills < 0 && fills != -ENOENT ? fills : held_error(h, MDB_CORRUPTED);
}

int
held_states(struct held *h, const uint8_t *name, size_t name_size,
            const struct store_mark *marks, size_t count,
            enum held_state *states)
{
    const int any = any_of(h, name, name_size);
    int rc = 0;

    if (any < 0 && any != -ENOENT)
        return any;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        states[i] = HELD_NONE;
        if (any == 0)
            rc = find_fill(h, name, name_size, &marks[i], &states[i]);
    }
    return rc;
}

int
held_span(struct held *h, const uint8_t *name, size_t name_size,
          uint64_t *oldest_ms, uint64_t *newest_ms)
{
    int any = held_any(h) ? 0 : -ENOENT, rc;

    if (name_size > 0)
        any = any_of(h, name, name_size);
    if (any == -ENOENT) {
        *oldest_ms = UINT64_MAX;
        *newest_ms = 0;
    }
    if (any < 0)
        return any == -ENOENT ? 0 : any;
    rc = held_index_span(h, name, name_size, oldest_ms, newest_ms);
    if (rc == 0 && *oldest_ms > *newest_ms) /* a record without a fill */
        rc = held_error(h, MDB_CORRUPTED);
    return rc;
}

/* ---- records ----------------------------------------------------------- */

int
held_head_read(const MDB_val *key, const MDB_val *value, struct held_head *out)
{
    struct held_head head;
    struct held_key k;

    if (!held_head_parse(value->mv_data, value->mv_size, &head))
        return -EBADMSG;
    k = held_key_name(head.name, head.name_size);
    held_key_add64(&k, head.id);
    if (k.size != key->mv_size || !held_key_under(key, &k))
        return -EBADMSG;
    *out = head;
    return 0;
}

/* Has room for as many; what was there is lost. */
static int
reserve(struct held_memory *m, size_t marks, size_t deltas)
{
    if (marks > m->mark_room) {
        free(m->marks);
        m->mark_room = 0;
        m->marks = calloc(marks, sizeof *m->marks);
        if (m->marks == NULL)
            return -ENOMEM;
        m->mark_room = marks;
    }
    if (deltas > m->delta_room) {
        free(m->deltas);
        m->delta_room = 0;
        m->deltas = calloc(deltas, sizeof *m->deltas);
        if (m->deltas == NULL)
            return -ENOMEM;
        m->delta_room = deltas;
    }
    return 0;
}

int
held_record_read(struct held_memory *m, const struct held_head *head,
                 struct held_record *out)
{
    int rc;

    rc = reserve(m, head->marks, head->deltas);
    if (rc < 0)
        return rc;
    held_marks_parse(head, m->marks);
    if (!held_deltas_parse(head, m->deltas))
        return -EBADMSG;
    out->id = head->id;
    out->batch = (struct store_batch){.name = head->name,
                                      .name_size = head->name_size,
                                      .marks = m->marks,
                                      .mark_count = head->marks,
                                      .deltas = m->deltas,
                                      .delta_count = head->deltas};
    return 0;
}

/* The first record of a keyspace above `after`, as it is in the file. */
static int
next_value(struct held *h, const uint8_t *name, size_t name_size,
           uint64_t after, MDB_val *key, MDB_val *value)
{
    const struct held_key start = held_key_name(name, name_size);
    struct held_key from = start;
    int rc;

    if (h->look == NULL || after == UINT64_MAX)
        return -ENOENT;
    held_key_add64(&from, after + 1);
    rc = find_from(h, h->file.records, &from, key, value);
    if (rc < 0)
        return rc;
    if (!held_key_under(key, &start))
        return -ENOENT;
    return key->mv_size == start.size + 8 ? 0 : held_error(h, MDB_CORRUPTED);
}

int
held_next_id(struct held *h, const uint8_t *name, size_t name_size,
             uint64_t after, uint64_t *id)
{
    MDB_val key, value;
    const int rc = next_value(h, name, name_size, after, &key, &value);

    if (rc == 0)
        *id = held_key_id(&key);
    return rc;
}

int
held_next(struct held *h, const uint8_t *name, size_t name_size, uint64_t after,
          struct held_record *out)
{
    struct held_head head;
    MDB_val key, value;
    int rc;

    rc = next_value(h, name, name_size, after, &key, &value);
    if (rc < 0)
        return rc;
    *out = (struct held_record){.id = held_key_id(&key)};
    rc = held_head_read(&key, &value, &head);
    return rc < 0 ? rc : held_record_read(&h->memory, &head, out);
}

int
held_next_name(struct held *h, const uint8_t *name, size_t name_size,
               uint8_t *next, size_t *next_size)
{
    struct held_key from = {.size = 0};
    const uint8_t *end;
    MDB_val key, value;
    int rc;

    /* Names have no byte 0: all keys of this one are below its name and 1. */
    if (name_size > 0) {
        from = held_key_name(name, name_size);
        from.bytes[from.size - 1] = 1;
    }
    if (h->look == NULL)
        return -ENOENT;
    rc = find_from(h, h->file.records, &from, &key, &value);
    if (rc < 0)
        return rc;
    end = memchr(key.mv_data, 0, key.mv_size);
    if (end == NULL)
        return held_error(h, MDB_CORRUPTED);
    *next_size = (size_t)(end - (const uint8_t *)key.mv_data);
    if (*next_size == 0 || *next_size > STORE_NAME_MAX)
        return held_error(h, MDB_CORRUPTED);
    memcpy(next, key.mv_data, *next_size);
    return 0;
}

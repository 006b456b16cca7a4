/* common/store/cluster/outbox_apply.c - outbox_apply() and outbox_delete():
 * batches become entries, last numbers and marks of one group; see outbox.h.
 *
 * The happy path: acquire the journal, so that no other process changes it;
 * judge the batch by its marks; add each row to the builder of its part, and a
 * full builder as an entry to the group; put the keyspace's new record, remove
 * the old one; commit.  Until the commit succeeds the index is as before. */
#include "common/store/cluster/outbox_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/hash.h"
#include "common/store/history/history.h"

#define CELLS_MAX 4096 /* minutes of a key in one row */

uint64_t
outbox_progress(const uint8_t *last, size_t size)
{
    static const struct hash_key key = {.k0 = 1};

    return hash_name(&key, size, last, size) | 1;
}

/* ---- entries ------------------------------------------------------------ */

/* Begins a group of entries, with the last numbers of the index. */
static void
begin_group(struct outbox *o, const struct outbox_keyspace *k,
            enum outbox_type type, uint64_t first_ms)
{
    o->type = type;
    o->first_ms = first_ms;
    for (uint32_t i = 0; i < k->part_count; i++) {
        struct outbox_builder *b = &o->builders[i];

        b->size = 0;
        b->rows = 0;
        b->last = k->parts[i].last;
        b->last_digest = k->parts[i].last_digest;
    }
}

/* Adds what a builder has to the group as the next entry of its part. */
static int
put_entry(struct outbox *o, const struct outbox_keyspace *k, uint32_t part)
{
    struct outbox_builder *b = &o->builders[part];
    struct outbox_entry_head head = {.type = o->type,
                                     .name_size = k->name_size,
                                     .part = part,
                                     .parts = k->part_count,
                                     .generation = k->generation,
                                     .rows = b->rows,
                                     .number = b->last + 1,
                                     .prev_digest = b->last_digest,
                                     .first_ms = o->first_ms};
    int rc;

    outbox_entry_finish(b->bytes, b->size, &head);
    rc = queue_put(o->queue, b->bytes, b->size);
    if (rc < 0)
        return rc;
    b->last = head.number;
    b->last_digest = head.digest;
    b->size = 0;
    b->rows = 0;
    return 0;
}

/* Begins an entry, unless one is begun. */
static int
begin_entry(struct outbox_builder *b, const struct outbox_keyspace *k,
            size_t more)
{
    const size_t head = OUTBOX_ENTRY_HEAD + k->name_size;
    const size_t size = b->size > 0 ? b->size : head;

    if (array_grow(&b->bytes, &b->capacity, size + more, 1) < 0)
        return -ENOMEM;
    if (b->size == 0)
        memcpy(b->bytes + OUTBOX_ENTRY_HEAD, k->name, k->name_size);
    b->size = size;
    return 0;
}

/* Makes space for a row; a full entry is put first. */
static int
begin_row(struct outbox *o, const struct outbox_keyspace *k, uint32_t part,
          size_t more)
{
    struct outbox_builder *b = &o->builders[part];
    int rc = 0;

    if (b->rows == OUTBOX_ROWS || b->size >= OUTBOX_BYTES)
        rc = put_entry(o, k, part);
    return rc == 0 ? begin_entry(b, k, more) : rc;
}

static void
put_key(struct outbox_builder *b, const uint8_t *key, size_t key_size)
{
    put_le16(b->bytes + b->size, (uint16_t)key_size);
    memcpy(b->bytes + b->size + 2, key, key_size);
    b->size += 2 + key_size;
    b->rows++;
}

static int
add_deletion(struct outbox *o, const struct outbox_keyspace *k,
             const struct store_key *key)
{
    const uint32_t part =
        outbox_part_of(key->key, key->key_size, k->part_count);
    int rc;

    rc = begin_row(o, k, part, 2 + key->key_size);
    if (rc == 0)
        put_key(&o->builders[part], key->key, key->key_size);
    return rc;
}

static int
put_rest(struct outbox *o, const struct outbox_keyspace *k)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < k->part_count; i++)
        if (o->builders[i].rows > 0)
            rc = put_entry(o, k, i);
    return rc;
}

/* ---- the record of a keyspace ------------------------------------------- */

static bool
has_mark_of(const struct store_batch *b, const struct outbox_mark *m)
{
    for (size_t i = 0; b != NULL && i < b->mark_count; i++)
        if (memcmp(b->marks[i].uuid, m->fill.uuid, sizeof m->fill.uuid) == 0)
            return true;
    return false;
}

/* Writes the marks of the keyspace, with those of the batch in the place of
 * earlier ones.  `last` is the delta up to which the batch is in; NULL: it is
 * as a whole.  Returns their bytes. */
static size_t
put_marks(uint8_t *at, const struct outbox_keyspace *k,
          const struct store_batch *b, const struct store_delta *last,
          uint32_t *count)
{
    size_t size = 0;

    *count = 0;
    for (size_t i = 0; i < k->mark_count; i++)
        if (!has_mark_of(b, &k->marks[i])) {
            size += outbox_mark_put(at + size, &k->marks[i]);
            ++*count;
        }
    for (size_t i = 0; b != NULL && i < b->mark_count; i++) {
        struct outbox_mark m = {.fill = b->marks[i]};

        if (last != NULL) {
            m.last_key_size = last->key_size;
            memcpy(m.last_key, last->key, last->key_size);
        }
        size += outbox_mark_put(at + size, &m);
        ++*count;
    }
    return size;
}

/* Puts the keyspace's new record into the group, in place of the old one. */
static int
put_state(struct outbox *o, const struct outbox_keyspace *k,
          const struct store_batch *b, const struct store_delta *last)
{
    const size_t marks = k->mark_count + (b ? b->mark_count : 0);
    size_t size = OUTBOX_STATE_HEAD + k->name_size;
    uint32_t count;
    int rc;

    rc = array_grow(&o->state, &o->state_capacity,
                    size + k->part_count * (size_t)OUTBOX_LAST_ENTRY_SIZE +
                        marks * (OUTBOX_MARK_SIZE + STORE_NAME_MAX),
                    1);
    if (rc < 0)
        return rc;
    memset(o->state, 0, OUTBOX_STATE_HEAD);
    o->state[0] = OUTBOX_STATE;
    put_le16(o->state + 2, (uint16_t)k->name_size);
    put_le32(o->state + 4, k->part_count);
    put_le32(o->state + 8, k->generation);
    memcpy(o->state + OUTBOX_STATE_HEAD, k->name, k->name_size);
    for (uint32_t i = 0; i < k->part_count; i++) {
        put_le64(o->state + size, o->builders[i].last);
        put_le64(o->state + size + 8, o->builders[i].last_digest);
        size += OUTBOX_LAST_ENTRY_SIZE;
    }
    size += put_marks(o->state + size, k, b, last, &count);
    put_le32(o->state + 12, count);
    rc = queue_put(o->queue, o->state, size);
    return rc == 0 && k->state_id != 0 ? queue_remove(o->queue, k->state_id)
                                       : rc;
}

/* The first group of a directory names its sender. */
static int
put_sender(struct outbox *o)
{
    uint8_t bytes[OUTBOX_SENDER_SIZE] = {OUTBOX_SENDER};
    uint64_t id = 0;

    if (o->sender != 0)
        return 0;
    while (id == 0)
        if (getrandom(&id, sizeof id, 0) != sizeof id)
            return -EIO;
    put_le64(bytes + 8, id);
    return queue_put(o->queue, bytes, sizeof bytes);
}

/* ---- applying ----------------------------------------------------------- */

/* 1: the batch may go in, or the rest of it; 0: it is in. */
static int
judge_batch(const struct outbox_keyspace *k, const struct store_batch *b)
{
    struct store_mark_info first, info;

    if (b->mark_count == 0)
        return 1;
    first = outbox_mark_info(k, &b->marks[0]);
    for (size_t i = 0; i < b->mark_count; i++)
        if (outbox_mark_info(k, &b->marks[i]).state == STORE_MARK_AHEAD)
            return -EOVERFLOW;
    for (size_t i = 1; i < b->mark_count; i++) {
        info = outbox_mark_info(k, &b->marks[i]);
        if (!store_marks_agree(&first, &info))
            return -ESTALE;
    }
    return first.state != STORE_MARK_DONE;
}

/* The first delta that is not in by the marks. */
static size_t
find_missing(const struct outbox_keyspace *k, const struct store_batch *b)
{
    size_t i = 0;

    if (outbox_mark_info(k, &b->marks[0]).state != STORE_MARK_PARTIAL)
        return 0;
    for (size_t m = 0; m < k->mark_count; m++)
        if (memcmp(k->marks[m].fill.uuid, b->marks[0].uuid, 16) == 0)
            while (i < b->delta_count &&
                   bytes_compare(k->marks[m].last_key,
                                 k->marks[m].last_key_size, b->deltas[i].key,
                                 b->deltas[i].key_size) >= 0)
                i++;
    return i;
}

/* The end of the deltas of the key of delta `from`, at most CELLS_MAX. */
static size_t
find_key_end(const struct store_batch *b, size_t from)
{
    const struct store_delta *d = &b->deltas[from];
    size_t to = from + 1;

    while (to < b->delta_count && to - from < CELLS_MAX &&
           bytes_compare(d->key, d->key_size, b->deltas[to].key,
                         b->deltas[to].key_size) == 0)
        to++;
    return to;
}

/* What the deltas of a key become: with history one cell a minute. */
struct cells_rule {
    bool has_history;
    uint32_t now; /* a clock that is far ahead is not believed */
};

/* Adds the deltas of a key as a row. */
static int
add_deltas(struct outbox *o, const struct outbox_keyspace *k,
           const struct store_delta *d, size_t count,
           const struct cells_rule *rule)
{
    const uint32_t part = outbox_part_of(d->key, d->key_size, k->part_count);
    const size_t cells = rule->has_history ? count : 1;
    struct outbox_builder *b = &o->builders[part];
    struct outbox_cell cell = {.sum = 0};
    int rc;

    rc = begin_row(o, k, part, 4 + d->key_size + cells * OUTBOX_CELL_SIZE);
    if (rc < 0)
        return rc;
    put_key(b, d->key, d->key_size);
    put_le16(b->bytes + b->size, (uint16_t)cells);
    b->size += 2;
    for (size_t i = 0; i < count; i++) {
        cell.sum += store_delta_sum(&d[i]);
        if (!rule->has_history && i + 1 < count)
            continue;
        if (rule->has_history)
            cell.minute = d[i].minute > rule->now + HISTORY_AHEAD_MAX
                              ? rule->now
                              : d[i].minute;
        outbox_cell_put(b->bytes + b->size, &cell);
        b->size += OUTBOX_CELL_SIZE;
        cell.sum = 0;
    }
    return 0;
}

/* When the oldest increment of a batch came; now where no mark says it. */
static uint64_t
find_first_ms(const struct store_batch *b)
{
    uint64_t first = clock_unix_ms();

    for (size_t i = 0; i < b->mark_count; i++)
        if (b->marks[i].first_ms < first)
            first = b->marks[i].first_ms;
    return first;
}

/* Adds deltas from `from` on to the group until it is large; *to is the first
 * that is not in it.  Deltas of a key are in one group. */
static int
add_rows(struct outbox *o, const struct outbox_keyspace *k,
         const struct store_batch *b, size_t from, size_t *to, uint64_t *keys)
{
    const struct cells_rule rule = {
        .has_history =
            o->options.history != NULL &&
            tiers_of(o->options.history, k->name, k->name_size)->count > 0,
        .now = (uint32_t)(clock_unix_ms() / 60000)};
    const uint8_t *last = NULL;
    size_t last_size = 0;
    int rc = 0;

    begin_group(o, k, OUTBOX_ADD, find_first_ms(b));
    while (rc == 0 && from < b->delta_count) {
        const struct store_delta *d = &b->deltas[from];
        const size_t end = find_key_end(b, from);
        const bool is_same =
            last != NULL &&
            bytes_compare(last, last_size, d->key, d->key_size) == 0;

        if (!is_same && queue_collected(o->queue) >= OUTBOX_GROUP)
            break;
        rc = add_deltas(o, k, d, end - from, &rule);
        *keys += !is_same;
        last = d->key;
        last_size = d->key_size;
        from = end;
    }
    *to = from;
    return rc == 0 ? put_rest(o, k) : rc;
}

/* The parts of a keyspace that is yet to be made. */
static uint32_t
count_parts(const struct outbox *o, const uint8_t *name, size_t name_size)
{
    return o->options.parts_of ? parts_of(o->options.parts_of, name, name_size,
                                          o->options.parts)
                               : o->options.parts;
}

/* One group of a batch, with the journal acquired, from delta *from on, or
 * where the marks say.  1: there is more, from *from on. */
static int
apply_group(struct outbox *o, const struct store_batch *b, size_t *from,
            struct store_applied *applied)
{
    struct outbox_keyspace *k = outbox_find(o, b->name, b->name_size);
    size_t to = 0;
    int rc;

    rc = judge_batch(k, b);
    if (rc <= 0 || (b->delta_count == 0 && (k == NULL || k->state_id == 0)))
        return rc < 0 ? rc : 0;
    if (k == NULL && o->options.keyspace_max > 0 &&
        o->keyspace_count >= o->options.keyspace_max) {
        applied->at_keyspace_max = true;
        return -EDQUOT;
    }
    k = outbox_make(o, b->name, b->name_size,
                    count_parts(o, b->name, b->name_size));
    if (k == NULL)
        return -ENOMEM;
    rc = put_sender(o);
    if (rc == 0)
        rc = add_rows(o, k, b, b->mark_count > 0 ? find_missing(k, b) : *from,
                      &to, &applied->keys);
    if (rc == 0)
        rc =
            put_state(o, k, b, to < b->delta_count ? &b->deltas[to - 1] : NULL);
    if (rc == 0)
        rc = queue_commit(o->queue, NULL);
    if (rc < 0)
        return rc;
    applied->commits++;
    *from = to;
    return to < b->delta_count;
}

/* A full outbox is a full disk to the caller: its logs stay full. */
static int
report_full(const struct outbox *o, int rc, const struct store_applied *applied)
{
    static struct diag_repeat repeat;

    if (rc != -EDQUOT || (applied != NULL && applied->at_keyspace_max))
        return rc;
    diag_repeating(&repeat, DIAG_ERROR,
                   "data/" OUTBOX_FOLDER
                   ": store.outbox_size=%llu is used up: the cluster takes "
                   "too little; logs stay full until it takes more",
                   (unsigned long long)o->options.max);
    return -ENOSPC;
}

int
outbox_apply(struct outbox *o, const struct store_batch *batch,
             struct store_applied *applied)
{
    size_t from = 0;
    int rc;

    *applied = (struct store_applied){.keys = 0};
    do {
        rc = outbox_acquire(o);
        if (rc < 0) {
            applied->holder = queue_holder(o->queue);
            return rc;
        }
        rc = apply_group(o, batch, &from, applied);
        outbox_release(o);
    } while (rc == 1);
    return report_full(o, rc, applied);
}

/* ---- removing ----------------------------------------------------------- */

/* An entry for each part that empties it. */
static int
add_drops(struct outbox *o, const struct outbox_keyspace *k)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < k->part_count; i++) {
        rc = begin_entry(&o->builders[i], k, 0);
        if (rc == 0)
            rc = put_entry(o, k, i);
    }
    return rc;
}

static int
delete_group(struct outbox *o, struct outbox_keyspace *k,
             const struct store_key *keys, size_t count)
{
    int rc;

    begin_group(o, k, count > 0 ? OUTBOX_DELETE : OUTBOX_DROP, clock_unix_ms());
    rc = put_sender(o);
    if (rc == 0 && count == 0)
        rc = add_drops(o, k);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = add_deletion(o, k, &keys[i]);
    if (rc == 0)
        rc = put_rest(o, k);
    if (rc == 0)
        rc = put_state(o, k, NULL, NULL);
    return rc == 0 ? queue_commit(o->queue, NULL) : rc;
}

int
outbox_delete(struct outbox *o, const uint8_t *name, size_t name_size,
              const struct store_key *keys, size_t count)
{
    struct outbox_keyspace *k;
    int rc;

    rc = outbox_acquire(o);
    if (rc < 0)
        return rc;
    k = outbox_make(o, name, name_size, count_parts(o, name, name_size));
    rc = k ? delete_group(o, k, keys, count) : -ENOMEM;
    outbox_release(o);
    return report_full(o, rc, NULL);
}

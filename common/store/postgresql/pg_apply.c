/* common/store/postgresql/pg_apply.c - store_apply(): rows, bands, history,
 * marks and totals of a batch in one transaction; and store_marks(),
 * store_each_mark().
 *
 * Invariant: whether a batch is applied is decided under the lock of its
 * keyspace, in a transaction that is then committed: the lock is a record of
 * the database, so that COMMIT waits until what was there before is durable,
 * too.  Counts are computed here, because int64 must saturate and the new keys
 * be known before anything is written. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"

/* What a batch does to a key. */
struct change {
    const uint8_t *key;
    uint16_t size;
    int128 sum;
    int64_t old, new;
    bool exists, was_saturated, saturated;
};

struct changes {
    struct change *list;
    size_t count;
};

static void
step(const struct pg *s, unsigned at)
{
    if (s->options.step)
        s->options.step(at);
}

/* ---- rows -------------------------------------------------------------- */

/* A change for each key of the batch. */
static int
collect_changes(const struct store_batch *b, struct changes *out)
{
    struct change *c = malloc((b->delta_count + 1) * sizeof *c);
    size_t n = 0;

    if (!c)
        return -ENOMEM;
    for (size_t i = 0; i < b->delta_count; i++) {
        const struct store_delta *d = &b->deltas[i];

        if (n > 0 &&
            bytes_equal(c[n - 1].key, c[n - 1].size, d->key, d->key_size))
            c[n - 1].sum += store_delta_sum(d);
        else
            c[n++] = (struct change){
                .key = d->key, .size = d->key_size, .sum = store_delta_sum(d)};
    }
    *out = (struct changes){c, n};
    return 0;
}

static int
read_old(struct pg *s, int32_t id, struct change *list, size_t count)
{
    struct pg_array keys = {.bytes = NULL};
    struct pg_call c;
    int rc;

    pg_array_begin(&keys, PG_TYPE_BYTEA);
    for (size_t i = 0; i < count; i++)
        pg_array_add(&keys, list[i].key, list[i].size);
    pg_call(&c, PG_OLD);
    pg_add_int(&c, id);
    rc = pg_add_array(&c, &keys);
    if (rc == 0)
        rc = pg_run(s, &c, 1);
    pg_array_free(&keys);
    if (rc < 0)
        return rc;
    for (int row = 0; row < PQntuples(c.result); row++) {
        const int64_t number = pg_bigint(c.result, row, 0);

        if (number < 1 || (uint64_t)number > count) {
            rc = -EBADMSG;
            break;
        }
        list[number - 1].exists = true;
        list[number - 1].old = pg_bigint(c.result, row, 1);
        list[number - 1].was_saturated = pg_bool(c.result, row, 2);
    }
    PQclear(c.result);
    return rc;
}

static int
put_new(struct pg *s, int32_t id, const struct change *list, size_t count)
{
    struct pg_array keys = {.bytes = NULL}, counts = {.bytes = NULL},
                    flags = {.bytes = NULL};
    struct pg_call c;
    int rc;

    pg_array_begin(&keys, PG_TYPE_BYTEA);
    pg_array_begin(&counts, PG_TYPE_BIGINT);
    pg_array_begin(&flags, PG_TYPE_BOOL);
    for (size_t i = 0; i < count; i++) {
        const uint8_t flag = list[i].saturated;

        if (list[i].exists && list[i].new == list[i].old &&list[i].saturated ==
                                  list[i].was_saturated)
            continue;
        pg_array_add(&keys, list[i].key, list[i].size);
        pg_array_add_bigint(&counts, list[i].new);
        pg_array_add(&flags, &flag, 1);
    }
    pg_call(&c, PG_PUT);
    pg_add_int(&c, id);
    rc = pg_add_array(&c, &keys);
    if (rc == 0)
        rc = pg_add_array(&c, &counts);
    if (rc == 0)
        rc = pg_add_array(&c, &flags);
    if (rc == 0 && keys.count > 0)
        rc = pg_do(s, &c);
    pg_array_free(&keys);
    pg_array_free(&counts);
    pg_array_free(&flags);
    return rc;
}

/* Runs `one` over the changes, a chunk a statement. */
static int
each_chunk(struct pg *s, int32_t id, const struct changes *c,
           int (*one)(struct pg *s, int32_t id, struct change *list,
                      size_t count))
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < c->count; i += PG_CHUNK)
        rc = one(s, id, c->list + i,
                 c->count - i < PG_CHUNK ? c->count - i : PG_CHUNK);
    return rc;
}

static int
put_chunk(struct pg *s, int32_t id, struct change *list, size_t count)
{
    return put_new(s, id, list, count);
}

/* Adds the sums to the counts and to the totals; returns what the counts could
 * not hold. */
static int128
add_sums(struct pg_keyspace *k, const struct changes *c,
         struct store_applied *applied)
{
    int128 clipped = 0;

    for (size_t i = 0; i < c->count; i++) {
        struct change *x = &c->list[i];
        const int128 sum = (int128)x->old + x->sum;

        x->new = sum > INT64_MAX   ? INT64_MAX
                 : sum < INT64_MIN ? INT64_MIN
                                   : (int64_t)sum;
        x->saturated = x->was_saturated || sum != x->new;
        applied->created += !x->exists;
        applied->saturated += x->saturated && !x->was_saturated;
        k->sum += (int128)x->new - x->old;
        clipped += sum - x->new;
    }
    k->keys += (int64_t)applied->created;
    k->saturated += (int64_t)applied->saturated;
    applied->keys = c->count;
    return clipped;
}

static int
put_bands(struct pg *s, const struct pg_keyspace *k, const struct changes *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct change *x = &c->list[i];

        if (x->exists)
            pg_bands_count(s, x->old, x->key, x->size, -1);
        pg_bands_count(s, x->new, x->key, x->size, 1);
    }
    return pg_bands_put(s, k);
}

static int
change_rows(struct pg *s, struct pg_keyspace *k, const struct store_batch *b,
            struct changes *c, struct store_applied *applied)
{
    struct pg_history_change history = {.name = b->name,
                                        .name_size = b->name_size,
                                        .before = *k,
                                        .deltas = b->deltas,
                                        .delta_count = b->delta_count};
    int rc;

    rc = each_chunk(s, k->id, c, read_old);
    if (rc < 0)
        return rc;
    history.clipped = add_sums(k, c, applied);
    if (s->options.keys_max > 0 && applied->created > 0 &&
        (uint64_t)k->keys > s->options.keys_max)
        return -EDQUOT;
    step(s, 2);
    rc = pg_bands_load(s, k);
    if (rc == 0)
        rc = each_chunk(s, k->id, c, put_chunk);
    step(s, 3);
    if (rc == 0)
        rc = put_bands(s, k, c);
    step(s, 4);
    return rc < 0 ? rc : pg_history_change(s, k, &history);
}

/* ---- the batch --------------------------------------------------------- */

/* 1: all fills are applied.  -EOVERFLOW, -ESTALE. */
static int
judge_marks(const struct store_mark_info *infos, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (infos[i].state == STORE_MARK_AHEAD)
            return -EOVERFLOW;
    for (size_t i = 1; i < count; i++)
        if (!store_marks_agree(&infos[0], &infos[i]))
            return -ESTALE;
    return count > 0 && infos[0].state == STORE_MARK_DONE;
}

static int
read_marks(struct pg *s, int32_t id, const struct store_batch *b)
{
    struct store_mark_info *infos = malloc((b->mark_count + 1) * sizeof *infos);
    int rc;

    if (!infos)
        return -ENOMEM;
    rc = pg_marks_read(s, id, b->marks, b->mark_count, infos);
    if (rc == 0)
        rc = judge_marks(infos, b->mark_count);
    free(infos);
    return rc;
}

/* Makes the row of a keyspace and locks it. */
static int
create_keyspace(struct pg *s, const struct store_batch *b,
                struct pg_keyspace *k, struct store_applied *applied)
{
    struct pg_call c[3];
    int rc;

    pg_call(&c[0], PG_CREATE);
    pg_add_bytes(&c[0], b->name, b->name_size);
    pg_add_bigint(&c[0], (int64_t)(clock_ns() ^ clock_unix_ms() << 20));
    pg_call(&c[1], PG_LOCK);
    pg_add_bytes(&c[1], b->name, b->name_size);
    pg_call(&c[2], PG_COUNT_KEYSPACES);
    rc = pg_run(s, c, 3);
    if (rc < 0)
        return rc;
    rc = pg_keyspace_get(c[1].result, k);
    if (rc == 0 && s->options.keyspace_max > 0 &&
        (uint64_t)pg_bigint(c[2].result, 0, 0) > s->options.keyspace_max) {
        applied->at_keyspace_max = true;
        rc = -EDQUOT;
    }
    for (int i = 0; i < 3; i++)
        PQclear(c[i].result);
    return rc == -ENOENT ? -EAGAIN : rc;
}

/* Within the transaction, `found` says what pg_begin() did. */
static int
apply_locked(struct pg *s, const struct store_batch *b, struct pg_keyspace *k,
             int found, struct store_applied *applied)
{
    struct changes c;
    int rc = found;

    step(s, 1);
    if (rc == -ENOENT && b->delta_count == 0)
        return 0;
    if (rc == -ENOENT)
        rc = create_keyspace(s, b, k, applied);
    if (rc == 0)
        rc = read_marks(s, k->id, b);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    if (b->delta_count > 0) {
        rc = collect_changes(b, &c);
        if (rc < 0)
            return rc;
        rc = change_rows(s, k, b, &c, applied);
        free(c.list);
    }
    step(s, 5);
#ifndef COUNTD_MUTANT_NO_ROW_MARK
    if (rc == 0)
        rc = pg_marks_put(s, k->id, b->marks, b->mark_count);
#endif
    if (rc == 0 && b->delta_count > 0)
        rc = pg_keyspace_put(s, k, true);
    return rc;
}

static struct pg *
lane_of(struct store *store, const uint8_t *name, size_t size)
{
    return pg_of(store)->lanes[store_lane(store, name, size)];
}

int
pg_apply(struct store *store, const struct store_batch *b,
         struct store_applied *applied)
{
    struct pg *s = lane_of(store, b->name, b->name_size);
    struct pg_keyspace k;
    bool at_max;
    int rc;

    *applied = (struct store_applied){.keys = 0};
    if (!pg_name_ok(b->name, b->name_size))
        return -EINVAL;
    step(s, 0);
    rc = pg_begin(s, b->name, b->name_size, &k);
    if (rc < 0 && rc != -ENOENT)
        return rc;
    rc = apply_locked(s, b, &k, rc, applied);
    if (rc < 0) {
        at_max = applied->at_keyspace_max;
        *applied = (struct store_applied){.at_keyspace_max = at_max};
        return pg_rollback(s, rc);
    }
    step(s, 6);
    rc = pg_commit(s);
    if (rc < 0)
        *applied = (struct store_applied){.keys = 0};
    applied->commits = 1;
    return rc;
}

/* ---- marks alone ------------------------------------------------------- */

int
pg_marks(struct store *store, const uint8_t *name, size_t size,
         const struct store_fill *marks, size_t count,
         struct store_mark_info *infos)
{
    struct pg *s = lane_of(store, name, size);
    struct pg_keyspace k;
    int rc;

    for (size_t i = 0; i < count; i++)
        infos[i] = (struct store_mark_info){.state = STORE_MARK_NONE};
    if (!pg_name_ok(name, size))
        return -EINVAL;
    rc = pg_connect(s);
    if (rc == 0)
        rc = pg_keyspace_find(s, name, size, &k);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    return pg_marks_read(s, k.id, marks, count, infos);
}

int
pg_each_mark(struct store *store, const uint8_t *name, size_t size,
             int (*mark)(void *ctx, const struct store_fill *m,
                         const struct store_mark_info *info),
             void *ctx)
{
    static const struct store_mark_info info = {.state = STORE_MARK_DONE};
    struct pg *s = pg_of(store);
    struct pg_keyspace k;
    struct pg_call c;
    int rc;

    if (!pg_name_ok(name, size))
        return -EINVAL;
    rc = pg_connect(s);
    if (rc == 0)
        rc = pg_keyspace_find(s, name, size, &k);
    if (rc < 0)
        return rc;
    pg_call(&c, PG_EACH_MARK);
    pg_add_int(&c, k.id);
    rc = pg_run(s, &c, 1);
    for (int i = 0; rc == 0 && i < PQntuples(c.result); i++) {
        struct store_fill m = {.epoch = (uint64_t)pg_bigint(c.result, i, 1),
                               .first_ms = (uint64_t)pg_bigint(c.result, i, 2)};
        size_t log_size;
        const uint8_t *log = pg_bytes(c.result, i, 0, &log_size);

        if (log_size != sizeof m.uuid)
            rc = -EBADMSG;
        else {
            memcpy(m.uuid, log, sizeof m.uuid);
            rc = mark(ctx, &m, &info);
        }
    }
    PQclear(c.result);
    return rc;
}

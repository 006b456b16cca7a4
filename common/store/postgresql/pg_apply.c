/* common/store/postgresql/pg_apply.c - store_apply(), store_del() and
 * store_drop(): rows, bands, history, marks and totals in one transaction.
 *
 * Invariant: whether a batch is applied is decided under the lock of its
 * keyspace, in a transaction that is then committed: the lock is a record of
 * the database, so that COMMIT waits until what was there before is durable,
 * too.  Counts are computed here, because int64 must saturate and the new keys
 * be known before anything is written.
 *
 * Other data directories may have increments that are not merged yet; those
 * come after a del or drop. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What happens to a key. */
struct row_change {
    const uint8_t *key;
    size_t size;
    int128 sum;
    int64_t old, new;
    bool exists, was_saturated, saturated;
};

/* ---- rows -------------------------------------------------------------- */

/* Runs PG_OLD or PG_DEL over the changes: what there is, or was. */
static int
ask_old(struct pg *s, int32_t id, enum pg_statement statement,
        struct row_change *list, size_t count)
{
    const PGresult *r;
    int rc;

    pg_arrays(s, "b");
    for (size_t i = 0; i < count; i++)
        pg_array_add(&s->arrays[0], list[i].key, list[i].size);
    rc = pg_ask(s, &r, statement, "ia", id, &s->arrays[0]);
    if (rc < 0)
        return rc;
    for (int row = 0; rc == 0 && row < PQntuples(r); row++) {
        const uint64_t number = (uint64_t)pg_bigint(r, row, 0) - 1;

        if (number < count) {
            list[number].exists = true;
            list[number].old = pg_bigint(r, row, 1);
            list[number].was_saturated = pg_bool(r, row, 2);
        } else {
            rc = -EBADMSG;
        }
    }
    return rc;
}

static int
put_new(struct pg *s, int32_t id, const struct row_change *list, size_t count)
{
    struct pg_array *a = s->arrays;

    pg_arrays(s, "bqo");
    for (const struct row_change *c = list; c < list + count; c++) {
        const uint8_t flag = c->saturated;

        if (c->exists && c->new == c->old && c->saturated == c->was_saturated)
            continue;
        pg_array_add(&a[0], c->key, c->size);
        pg_array_add_bigint(&a[1], c->new);
        pg_array_add(&a[2], &flag, 1);
    }
    return a[0].count == 0 && !a[0].failed
               ? 0
               : pg_ask(s, NULL, PG_PUT, "iaaa", id, &a[0], &a[1], &a[2]);
}

/* Runs PG_OLD, PG_PUT or PG_DEL over the changes, a chunk a statement. */
static int
each_chunk(struct pg *s, int32_t id, enum pg_statement statement,
           struct row_change *list, size_t count)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < count; i += s->chunk) {
        const size_t n = count - i < s->chunk ? count - i : s->chunk;

        rc = statement == PG_PUT ? put_new(s, id, list + i, n)
                                 : ask_old(s, id, statement, list + i, n);
    }
    return rc;
}

/* A statement that a slow server does not end in time would fail again: the next
 * try has fewer keys in each. */
static void
adapt_chunk(struct pg *s, int rc)
{
    if (rc == -EHOSTDOWN)
        s->chunk =
            s->chunk / 4 > PG_CHUNK_LEAST ? s->chunk / 4 : PG_CHUNK_LEAST;
    else if (rc == 0 && s->chunk < PG_CHUNK)
        s->chunk += s->chunk / 8;
    if (s->chunk > PG_CHUNK)
        s->chunk = PG_CHUNK;
}

/* ---- a batch ------------------------------------------------------------- */

/* A change for each key of the batch. */
static size_t
collect_changes(const struct store_batch *b, struct row_change *c)
{
    size_t n = 0;

    for (const struct store_delta *d = b->deltas;
         d < b->deltas + b->delta_count; d++) {
        if (n == 0 ||
            !bytes_equal(c[n - 1].key, c[n - 1].size, d->key, d->key_size))
            c[n++] = (struct row_change){.key = d->key, .size = d->key_size};
        c[n - 1].sum += d->sum;
    }
    return n;
}

/* Adds the sums to the counts and to the totals; returns what the counts could
 * not hold. */
static int128
add_sums(struct pg_keyspace *k, struct row_change *list, size_t count,
         struct store_applied *applied)
{
    int128 clipped = 0;

    for (struct row_change *x = list; x < list + count; x++) {
        x->saturated = x->was_saturated;
        x->new = store_add(x->old, x->sum, &x->saturated);
        applied->created += !x->exists;
        applied->saturated += x->saturated && !x->was_saturated;
        k->sum += (int128)x->new - x->old;
        clipped += (int128)x->old + x->sum - x->new;
    }
    k->keys += (int64_t)applied->created;
    k->saturated += (int64_t)applied->saturated;
    applied->keys = count;
    return clipped;
}

static int
change_rows(struct pg *s, struct pg_keyspace *k, const struct store_batch *b,
            struct store_applied *applied)
{
    const uint64_t keys_max = s->options.config->keyspace_max_keys;
    struct pg_history_change history = {
        .of = pg_history_of(s, b->name, b->name_size, k)};
    struct row_change *list = malloc(b->delta_count * sizeof *list);
    const size_t count = list ? collect_changes(b, list) : 0;
    int rc = list ? each_chunk(s, k->id, PG_OLD, list, count) : -ENOMEM;

    history.of.deltas = b->deltas;
    history.of.delta_count = b->delta_count;
    if (rc == 0)
        history.clipped = add_sums(k, list, count, applied);
    if (rc == 0 && keys_max > 0 && applied->created > 0 &&
        (uint64_t)k->keys > keys_max)
        rc = -EDQUOT;
    if (rc == 0)
        rc = pg_bands_load(s, k);
    if (rc == 0)
        rc = each_chunk(s, k->id, PG_PUT, list, count);
    for (struct row_change *x = list; rc == 0 && x < list + count; x++) {
        if (x->exists)
            pg_bands_count(s, x->old, x->key, x->size, -1);
        pg_bands_count(s, x->new, x->key, x->size, 1);
    }
    if (rc == 0)
        rc = pg_bands_put(s, k);
    if (rc == 0)
        rc = pg_history_change(s, k, &history);
    free(list);
    return rc;
}

/* 1: all fills are applied.  -EOVERFLOW, -ESTALE. */
static int
judge_marks(struct pg *s, const struct pg_keyspace *k,
            const struct store_batch *b)
{
    const size_t count = b->mark_count;
    struct store_mark_info *infos = malloc((count + 1) * sizeof *infos);
    int rc = infos ? pg_marks_read(s, k->id, b->marks, count, infos) : -ENOMEM;

    for (size_t i = 0; rc == 0 && i < count; i++)
        if (infos[i].state == STORE_MARK_AHEAD)
            rc = -EOVERFLOW;
    for (size_t i = 1; rc == 0 && i < count; i++)
        if (!store_marks_agree(&infos[0], &infos[i]))
            rc = -ESTALE;
    if (rc == 0 && count > 0)
        rc = infos[0].state == STORE_MARK_DONE;
    free(infos);
    return rc;
}

int
pg_put_rest(struct pg *s, const struct pg_keyspace *k,
            const struct log_fill *marks, size_t count, bool changed)
{
    struct pg_call c[3];
    size_t n = 0;
    char sum[CELL_SUM_SIZE];
    bool sends;
    int rc;

    if (count > 0)
        pg_marks_call(s, &c[n++], k->id, marks, count);
    if (changed)
        pg_keyspace_call(&c[n++], k, true, sum);
    sends = pg_sender_call(s, &c[n]);
    n += sends;
    rc = pg_run(s, c, n);
    return rc < 0 || !sends ? rc : pg_sender_sent(s, c[n - 1].result);
}

/* Within the transaction, `found` says what pg_begin() did. */
static int
apply_locked(struct pg *s, const struct store_batch *b, struct pg_keyspace *k,
             int found, struct store_applied *applied)
{
    int rc = found, done;
    bool changes;

    if (rc == -ENOENT && b->delta_count == 0)
        return 0;
    if (rc == -ENOENT) {
        rc = pg_keyspace_create(s, b->name, b->name_size, k);
        applied->at_keyspace_max = rc == -EDQUOT;
    }
    done = rc < 0 ? rc : judge_marks(s, k, b);
    if (done < 0)
        return done;
    changes = done == 0 && b->delta_count > 0;
    if (changes)
        rc = change_rows(s, k, b, applied);
    return rc < 0
               ? rc
               : pg_put_rest(s, k, b->marks, done ? 0 : b->mark_count, changes);
}

int
pg_apply(struct store *store, const struct store_batch *b,
         struct store_applied *applied)
{
    struct pg *s = pg_lane(store, b->name, b->name_size);
    struct pg_keyspace k;
    int rc = pg_begin(s, PG_LOCK, b->name, b->name_size, &k);

    *applied = (struct store_applied){.keys = 0};
    if (rc == 0 || rc == -ENOENT) {
        rc = apply_locked(s, b, &k, rc, applied);
        adapt_chunk(s, rc);
        rc = pg_end(s, rc);
        if (rc < 0)
            *applied = (struct store_applied){.at_keyspace_max =
                                                  applied->at_keyspace_max};
        applied->commits = 1;
    }
    return rc;
}

/* ---- drop, del ----------------------------------------------------------- */

static int
begin_edit(struct pg *s, const uint8_t *name, size_t size,
           struct pg_keyspace *k)
{
    const int rc = pg_begin(s, PG_LOCK, name, size, k);

    return rc == -ENOENT ? pg_end(s, rc) : rc;
}

int
pg_drop(struct store *store, const uint8_t *name, size_t size)
{
    struct pg *s = pg_of(store);
    struct pg_keyspace k;
    int rc = begin_edit(s, name, size, &k);

    if (rc < 0)
        return rc;
    s->bands.keyspace = 0;
    rc = pg_clear(s, PG_DROP, k.id);
    if (rc == 0)
        rc = pg_clear(s, PG_BLOCK_CLEAR, k.id);
    if (rc == 0)
        rc = pg_ask(s, NULL, PG_BAND_CLEAR, "i", k.id);
    if (rc == 0)
        rc = pg_ask(s, NULL, PG_IMPORT_MARKS_CLEAR, "i", k.id);
    k.keys = k.saturated = 0;
    k.sum = 0;
    k.history_size = 0;
    k.nonce++; /* it is not what was imported */
    return pg_end(s, rc < 0 ? rc : pg_keyspace_put(s, &k, true));
}

/* Takes the rows that are deleted off totals and bands; history wants them
 * sorted, as they are. */
static size_t
take_off(struct pg *s, struct pg_keyspace *k, const struct row_change *list,
         size_t count, struct history_erasure *erased)
{
    size_t n = 0;

    for (const struct row_change *x = list; x < list + count; x++) {
        if (!x->exists)
            continue;
        erased[n++] = (struct history_erasure){
            .key = x->key, .key_size = (uint16_t)x->size, .count = x->old};
        k->keys--;
        k->sum -= x->old;
        k->saturated -= x->was_saturated;
        pg_bands_count(s, x->old, x->key, x->size, -1);
    }
    return n;
}

/* Within the transaction. */
static int
delete_keys(struct pg *s, struct pg_keyspace *k, struct row_change *list,
            size_t count, struct pg_history_change *history)
{
    int rc = pg_bands_load(s, k);

    if (rc == 0)
        rc = each_chunk(s, k->id, PG_DEL, list, count);
    if (rc < 0)
        return rc;
    history->erased_count = take_off(s, k, list, count, history->erased);
    if (history->erased_count == 0)
        return 0;
    rc = pg_bands_put(s, k);
    if (rc == 0)
        rc = pg_history_change(s, k, history);
    return rc < 0 ? rc : pg_keyspace_put(s, k, true);
}

int
pg_del(struct store *store, struct store_deletion *d)
{
    struct pg *s = pg_of(store);
    struct pg_history_change history = {
        .erased = calloc(d->count + 1, sizeof *history.erased)};
    struct row_change *list = calloc(d->count + 1, sizeof *list);
    struct pg_keyspace k;
    int rc = history.erased && list ? 0 : -ENOMEM;

    for (size_t i = 0; rc == 0 && i < d->count; i++)
        list[i] = (struct row_change){.key = d->keys[i].key,
                                      .size = d->keys[i].key_size};
    if (rc == 0)
        rc = begin_edit(s, d->name, d->name_size, &k);
    if (rc == 0) {
        history.of = pg_history_of(s, d->name, d->name_size, &k);
        rc = pg_end(s, delete_keys(s, &k, list, d->count, &history));
    }
    if (rc == 0)
        d->deleted += history.erased_count;
    free(history.erased);
    free(list);
    return rc;
}

/* common/store/lmdb/marks.c - the marks of a keyspace: which fills are merged
 * into it.  marks_read(), marks_write(); lmdb_marks(), lmdb_each_mark().
 *
 * A mark is found by the log's uuid, which is its LMDB key.  A flipped bit in
 * that key, or in a branch page above it, hides the mark, and the log would
 * count twice.  So all marks are read for every query, and their number and the
 * sum of their hashes must be those of the state record. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace.h"
#include "common/store/lmdb/keyspace_peek.h"

#include <errno.h>
#include <stdlib.h>

static int
by_uuid(const void *a, const void *b, void *ctx)
{
    const struct marks *m = ctx;
    const size_t *x = a, *y = b;

    return memcmp(m->marks[*x].uuid, m->marks[*y].uuid, 16);
}

int
marks_init(struct marks *m, const struct log_fill *marks, size_t count)
{
    *m = (struct marks){.marks = marks, .count = count};
    m->sorted = malloc((count + 1) * sizeof *m->sorted);
    m->found = malloc((count + 1) * sizeof *m->found);
    if (m->sorted == NULL || m->found == NULL) {
        marks_fini(m);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++)
        m->sorted[i] = i;
    qsort_r(m->sorted, count, sizeof *m->sorted, by_uuid, m);
    return 0;
}

void
marks_fini(struct marks *m)
{
    free(m->sorted);
    free(m->found);
    *m = (struct marks){.count = 0};
}

/* ---- reading ----------------------------------------------------------- */

int
marks_count(void *ctx, const MDB_val *key, const MDB_val *value)
{
    struct marks_sum *c = ctx;
    struct keyspace_mark m;
    int rc;

    if (!keyspace_is_mark(key))
        return 0;
    rc = keyspace_mark_parse(key, value, &m);
    if (rc < 0)
        return rc;
    c->count++;
    c->hash += m.hash;
    return c->mark != NULL ? c->mark(c->ctx, &m) : 0;
}

int
marks_each(MDB_txn *txn, MDB_dbi meta, const struct keyspace_state *state,
           keyspace_mark_fn *mark, void *ctx)
{
    struct marks_sum sum = {.mark = mark, .ctx = ctx};
    const int rc = lmdb_each(txn, meta, NULL, marks_count, &sum);

    if (rc != 0)
        return rc;
    return marks_sum_ok(&sum, state) ? 0 : -EBADMSG;
}

static void
fill_found(struct mark_found *f, const struct log_fill *asked,
           const struct keyspace_mark *m)
{
    f->there = true;
    f->hash = m->hash;
    f->state = store_mark_compare(asked, m->fill.epoch, m->fill.first_ms);
    if (f->state == STORE_MARK_DONE && !m->done) {
        f->state = STORE_MARK_PARTIAL;
        f->last_key_size = m->last_key_size;
        memcpy(f->last_key, m->last_key, m->last_key_size);
    }
}

/* Both the requested marks and the stored ones are ordered by uuid. */
struct reading {
    struct marks *m;
    size_t at; /* in m->sorted */
};

static int
read_one(void *ctx, const struct keyspace_mark *mark)
{
    struct reading *r = ctx;
    struct marks *m = r->m;

    for (; r->at < m->count; r->at++) {
        const size_t i = m->sorted[r->at];
        const int d = memcmp(m->marks[i].uuid, mark->fill.uuid, 16);

        if (d > 0)
            break;
        if (d == 0)
            fill_found(&m->found[i], &m->marks[i], mark);
    }
    return 0;
}

/* Nothing is found yet: zeros are STORE_MARK_NONE. */
static void
clear_found(struct marks *m)
{
    memset(m->found, 0, m->count * sizeof *m->found);
}

int
marks_read(MDB_txn *txn, MDB_dbi meta, const struct keyspace_state *state,
           struct marks *m)
{
    struct reading r = {.m = m};

    clear_found(m);
    return marks_each(txn, meta, state, read_one, &r);
}

/* Reads the marks of a file that is not open without opening it.  Any error but
 * -ENOENT only says that it must be opened. */
static int
peek_marks(const struct lmdb *s, const uint8_t *name, size_t name_size,
           struct marks *m)
{
    struct keyspace k = {.env = NULL};
    struct reading r = {.m = m};
    const struct marks_sum sum = {.mark = read_one, .ctx = &r};
    struct keyspace_state state;
    const char *unused;

    clear_found(m);
    keyspace_name(&k, name, name_size);
    return keyspace_peek(&s->options, &k, &state, &sum, &unused);
}

/* ---- writing ----------------------------------------------------------- */

int
marks_write(MDB_txn *txn, MDB_dbi meta, struct keyspace_state *state,
            struct marks *m, const struct store_delta *last)
{
    for (size_t i = 0; i < m->count; i++) {
        struct mark_found *f = &m->found[i];
        struct keyspace_mark mark = {.fill = m->marks[i], .done = last == NULL};
        int rc;

        if (last != NULL) {
            mark.last_key_size = last->key_size;
            memcpy(mark.last_key, last->key, last->key_size);
        }
        rc = keyspace_mark_put(txn, meta, &mark);
        if (rc < 0)
            return rc;
        state->marks += f->there ? 0 : 1;
        state->marks_hash += mark.hash - (f->there ? f->hash : 0);
        f->there = true;
        f->hash = mark.hash;
    }
    return 0;
}

/* ---- operations of the engine -------------------------------------------- */

/* How far a merge came, as a keyed hash: a client cannot choose two keys with
 * the same progress. */
static uint64_t
progress_of(const struct lmdb *s, const uint8_t *key, size_t size)
{
    return hash_name(&s->progress_key, 0, key, size);
}

/* As marks_each(), of the snapshot that a view shows, or of the newest. */
static int
each_asked(struct keyspace *k, keyspace_mark_fn *mark, void *ctx)
{
    const bool has_view = k->reading;
    struct keyspace_state state;
    int rc = 0;

    if (!has_view)
        rc = keyspace_read(k);
    if (rc < 0)
        return rc;
    rc = keyspace_state_get(k->reader, k->dbis[KEYSPACE_META], &state);
    if (rc == 0)
        rc = marks_each(k->reader, k->dbis[KEYSPACE_META], &state, mark, ctx);
    if (!has_view)
        keyspace_read_end(k);
    return rc;
}

/* Reads the marks of a keyspace; -ENOENT: there is none.
 *
 * A worker selects the logs of a batch by the marks of all its keyspaces, which
 * are more than may be open: it would open each to read them, and again to
 * apply.  Marks that it peeks need not be durable or of the commit that LMDB
 * shows next, because store_apply() reads the marks again.  A reader answers by
 * them: it opens the keyspace. */
static int
find_marks(struct lmdb *s, const uint8_t *name, size_t name_size,
           struct marks *m)
{
    struct reading r = {.m = m};
    struct keyspace *k;
    int rc;

    if (s->options.writable && !keyspace_needs_open(s, name, name_size)) {
        rc = peek_marks(s, name, name_size, m);
        if (rc == 0 || rc == -ENOENT)
            return rc;
    }
    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
    if (rc < 0)
        return rc;
    clear_found(m);
    rc = each_asked(k, read_one, &r);
    if (rc == -ENOENT) /* a record, not the keyspace */
        rc = -EBADMSG;
    return keyspace_report(s, name, name_size, "marks", rc);
}

int
lmdb_marks(struct store *store, const struct store_batch *b,
           struct store_mark_info *infos)
{
    struct lmdb *s = lmdb_lane(store, b->name, b->name_size);
    struct marks m;
    int rc;

    if (!store_name_ok(b->name, b->name_size))
        return -EINVAL;
    for (size_t i = 0; i < b->mark_count; i++)
        infos[i] = (struct store_mark_info){.state = STORE_MARK_NONE};
    rc = marks_init(&m, b->marks, b->mark_count);
    if (rc < 0)
        return rc;
    rc = find_marks(s, b->name, b->name_size, &m);
    for (size_t i = 0; rc == 0 && i < b->mark_count; i++) {
        const struct mark_found *f = &m.found[i];

        infos[i].state = f->state;
        if (f->state == STORE_MARK_PARTIAL)
            infos[i].progress = progress_of(s, f->last_key, f->last_key_size);
    }
    marks_fini(&m);
    return rc == -ENOENT ? 0 : rc;
}

struct giving {
    struct lmdb *store;
    int (*mark)(void *ctx, const struct log_fill *m,
                const struct store_mark_info *info);
    void *ctx;
};

static int
give_mark(void *ctx, const struct keyspace_mark *mark)
{
    const struct giving *g = ctx;
    struct store_mark_info info = {.state = STORE_MARK_DONE};

    if (!mark->done) {
        info.state = STORE_MARK_PARTIAL;
        info.progress =
            progress_of(g->store, mark->last_key, mark->last_key_size);
    }
    return g->mark(g->ctx, &mark->fill, &info);
}

int
lmdb_each_mark(struct store *store, const uint8_t *name, size_t name_size,
               int (*mark)(void *ctx, const struct log_fill *m,
                           const struct store_mark_info *info),
               void *ctx)
{
    struct lmdb *s = lmdb_of(store);
    struct giving g = {.store = s, .mark = mark, .ctx = ctx};
    struct keyspace *k;
    const int rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);

    return rc < 0 ? rc : each_asked(k, give_mark, &g);
}

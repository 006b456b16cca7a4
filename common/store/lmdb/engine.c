/* common/store/lmdb/engine.c - common/store/store.h on keyspace files. */
#include "common/store/lmdb/engine.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "common/store/lmdb/keyspace.h"
#include "common/wire/query.h"

/* A snapshot serves so many queries of a turn, then a new one is taken: a turn
 * with many connections is not short. */
#define VIEW_USES_MAX 1024

static struct lmdb *
lmdb_of(struct store *s)
{
    return (struct lmdb *)(void *)s;
}

static struct lmdb_listing *
listing_of(struct store_listing *l)
{
    return (struct lmdb_listing *)(void *)l;
}

/* ---- applying ---------------------------------------------------------- */

static uint64_t
progress_of(const struct lmdb_mark_info *info)
{
    uint64_t h = 0xcbf29ce484222325u;

    if (info->state != STORE_MARK_PARTIAL)
        return 0;
    for (size_t i = 0; i < info->last_key_size; i++)
        h = (h ^ info->last_key[i]) * 0x100000001b3u;
    return h;
}

static int
engine_marks(struct store *s, const uint8_t *name, size_t name_size,
             const struct store_mark *marks, size_t count,
             struct store_mark_info *infos)
{
    struct lmdb_mark_info *found = calloc(count + 1, sizeof *found);
    int rc;

    if (found == NULL)
        return -ENOMEM;
    rc = lmdb_marks(lmdb_of(s), name, name_size, marks, count, found);
    for (size_t i = 0; rc == 0 && i < count; i++)
        infos[i] = (struct store_mark_info){.state = found[i].state,
                                            .progress = progress_of(&found[i])};
    free(found);
    return rc;
}

/* 0 when all marks agree and none is ahead. */
static int
judge(const struct lmdb_mark_info *infos, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (infos[i].state == STORE_MARK_AHEAD)
            return -EOVERFLOW;
    for (size_t i = 1; i < count; i++) {
        const struct store_mark_info a = {infos[0].state,
                                          progress_of(&infos[0])};
        const struct store_mark_info b = {infos[i].state,
                                          progress_of(&infos[i])};

        if (!store_marks_agree(&a, &b))
            return -ESTALE;
    }
    return 0;
}

/* The first delta that is not in, by a mark that says how far it came. */
static size_t
first_missing(const struct store_batch *b, const struct lmdb_mark_info *info)
{
    const struct row had = {.key = info->last_key,
                            .key_size = info->last_key_size};
    size_t i = 0;

    if (info->state != STORE_MARK_PARTIAL)
        return 0;
    for (; i < b->delta_count; i++) {
        const struct row r = {.key = b->deltas[i].key,
                              .key_size = b->deltas[i].key_size};

        if (row_compare_keys(&r, &had) > 0)
            break;
    }
    return i;
}

/* What the commit may hold. */
static void
share_memory(struct lmdb *s)
{
    const struct lmdb_options *o = &s->options;
    size_t spare;

    if (o->spare == NULL)
        return;
    spare = o->spare(o->spare_ctx);
    if (spare < o->txn_memory) {
        lmdb_rest(s);
        (void)malloc_trim(0); /* whether there was any does not matter */
        spare = o->spare(o->spare_ctx);
    }
    lmdb_txn_memory(s, spare < o->txn_memory ? o->txn_memory : spare);
}

static int
apply_missing(struct lmdb *s, const struct store_batch *b,
              struct lmdb_mark_info *infos, struct store_applied *applied)
{
    size_t skip;
    int rc;

    rc = lmdb_marks(s, b->name, b->name_size, b->marks, b->mark_count, infos);
    if (rc == 0)
        rc = judge(infos, b->mark_count);
    if (rc < 0)
        return rc;
    if (b->mark_count > 0 && infos[0].state == STORE_MARK_DONE)
        return lmdb_fence(s, b->name, b->name_size);
    share_memory(s);
    skip = b->mark_count > 0 ? first_missing(b, &infos[0]) : 0;
    return lmdb_apply(s, b->name, b->name_size, b->marks, infos, b->mark_count,
                      b->deltas + skip, b->delta_count - skip, applied);
}

static int
engine_apply(struct store *s, const struct store_batch *b,
             struct store_applied *applied)
{
    struct lmdb_mark_info *infos = calloc(b->mark_count + 1, sizeof *infos);
    int rc;

    *applied = (struct store_applied){.keys = 0};
    if (infos == NULL)
        return -ENOMEM;
    rc = apply_missing(lmdb_of(s), b, infos, applied);
    free(infos);
    return rc;
}

/* ---- reading ----------------------------------------------------------- */

static void
engine_read_end(struct store *store)
{
    struct lmdb *s = lmdb_of(store);

    if (s->kept != NULL)
        lmdb_view_close(s->kept);
    s->kept = NULL;
}

/* Has s->kept be of this keyspace. */
static int
keep_view(struct lmdb *s, const struct store_query *q)
{
    int rc;

    if (s->kept != NULL && s->kept_uses < VIEW_USES_MAX &&
        s->kept->keyspace->name_size == q->name_size &&
        memcmp(s->kept->keyspace->name, q->name, q->name_size) == 0) {
        s->kept_uses++;
        return 0;
    }
    engine_read_end(&s->store);
    s->kept_uses = 1;
    rc = lmdb_view_open(s, q->name, q->name_size, &s->kept);
    if (rc < 0)
        s->kept = NULL;
    return rc;
}

static void
put_row(struct store_query *q, int64_t count)
{
    const uint8_t *key = q->op == STORE_TOTAL ? NULL : q->key;
    const size_t size = q->op == STORE_TOTAL ? 0 : q->key_size;

    q->size = query_row_put(q->bytes, count, key, (uint16_t)size);
    q->rows = 1;
}

static int
read_range(struct lmdb_view *v, struct store_query *q, size_t room)
{
    uint64_t offset = (uint64_t)q->offset;
    int64_t size;
    int rc;

    if (q->offset < 0) {
        rc = lmdb_view_totals(v, &q->totals);
        if (rc < 0)
            return rc;
        offset = 0;
        if (q->totals.keys > 0 - (uint64_t)q->offset)
            offset = q->totals.keys + (uint64_t)q->offset;
    }
    if (q->length == 0)
        return 0;
    size = lmdb_view_range(v, offset, q->length, q->bytes, room, &q->rows);
    if (size < 0)
        return (int)size;
    q->size = (size_t)size;
    return 0;
}

/* The 128-bit sum, cut to what a row can say. */
static int64_t
saturate(const struct store_totals *t)
{
    if (t->sum_high > 0 || (t->sum_high == 0 && t->sum_low > INT64_MAX))
        return INT64_MAX;
    if (t->sum_high < -1 ||
        (t->sum_high == -1 && t->sum_low <= (uint64_t)INT64_MAX))
        return INT64_MIN;
    return (int64_t)t->sum_low;
}

static int
read_one(struct lmdb *s, struct store_query *q, size_t room)
{
    int rc;

    rc = keep_view(s, q);
    if (rc < 0)
        return rc;
    switch (q->op) {
    case STORE_GET:
        rc = lmdb_view_get(s->kept, q->key, q->key_size, &q->row);
        if (rc == 0)
            put_row(q, q->row.count);
        return rc;
    case STORE_RANK:
        rc = lmdb_view_rank(s->kept, q->key, q->key_size, &q->rank);
        if (rc == 0)
            put_row(q, (int64_t)q->rank);
        return rc;
    case STORE_TOTAL:
        rc = lmdb_view_totals(s->kept, &q->totals);
        if (rc == 0)
            put_row(q, saturate(&q->totals));
        return rc;
    case STORE_RANGE:
        break;
    }
    return read_range(s->kept, q, room);
}

static size_t
engine_read(struct store *store, struct store_reads *reads)
{
    struct lmdb *s = lmdb_of(store);
    size_t used = 0, i;

    for (i = 0; i < reads->count; i++) {
        struct store_query *q = &reads->queries[i];

        if (i > 0 && used + reads->head + store_query_room(q) > reads->room)
            break;
        q->bytes = reads->at + used + reads->head;
        q->size = 0;
        q->rows = 0;
        q->error = read_one(s, q, reads->room - used - reads->head);
        if (q->error < 0) {
            q->size = 0;
            q->rows = 0;
            if (q->error != -ENOENT)
                engine_read_end(store);
        }
        used += reads->head + q->size;
    }
    return i;
}

/* ---- the rest ---------------------------------------------------------- */

static void
engine_close(struct store *s)
{
    engine_read_end(s);
    lmdb_close(lmdb_of(s));
}

static bool
engine_tend(struct store *s, const struct store_tending *t)
{
    (void)t; /* nothing that takes long */
    lmdb_look(lmdb_of(s));
    return false;
}

static int
engine_check(struct store *s, const uint8_t *name, size_t name_size,
             void (*fault)(void *ctx, const char *text), void *ctx,
             struct store_check_result *out)
{
    return lmdb_check(lmdb_of(s), name, name_size, fault, ctx, out);
}

struct each_mark {
    int (*mark)(void *ctx, const struct store_mark *m,
                const struct store_mark_info *info);
    void *ctx;
};

static int
give_mark(void *ctx, const struct store_mark *m,
          const struct lmdb_mark_info *info)
{
    const struct each_mark *each = ctx;
    const struct store_mark_info out = {.state = info->state,
                                        .progress = progress_of(info)};

    return each->mark(each->ctx, m, &out);
}

static int
engine_each_mark(struct store *s, const uint8_t *name, size_t name_size,
                 int (*mark)(void *ctx, const struct store_mark *m,
                             const struct store_mark_info *info),
                 void *ctx)
{
    struct each_mark each = {.mark = mark, .ctx = ctx};

    return lmdb_each_mark(lmdb_of(s), name, name_size, give_mark, &each);
}

static int
engine_copy(struct store *s, const uint8_t *name, size_t name_size, int to_fd)
{
    return lmdb_copy(lmdb_of(s), name, name_size, to_fd);
}

static int
engine_drop(struct store *s, const uint8_t *name, size_t name_size,
            const struct store_mark *marks, size_t count)
{
    (void)s;
    (void)name;
    (void)name_size;
    (void)marks;
    (void)count;
    return -EOPNOTSUPP;
}

static int
engine_del(struct store *s, const uint8_t *name, size_t name_size,
           const struct store_key *keys, size_t count, uint64_t *deleted)
{
    (void)s;
    (void)name;
    (void)name_size;
    (void)keys;
    (void)count;
    (void)deleted;
    return -EOPNOTSUPP;
}

static int
engine_listing_open(struct store *s, struct store_listing **out)
{
    struct lmdb_listing *l;
    int rc;

    rc = lmdb_listing_open(lmdb_of(s), &l);
    if (rc == 0)
        *out = (struct store_listing *)(void *)l;
    return rc;
}

static void
engine_listing_close(struct store_listing *l)
{
    lmdb_listing_close(listing_of(l));
}

static void
engine_listing_start(struct store_listing *l, const uint8_t *after,
                     size_t after_size)
{
    lmdb_listing_start(listing_of(l), after, after_size);
}

static void
engine_listing_stop(struct store_listing *l)
{
    lmdb_listing_stop(listing_of(l));
}

static int
engine_listing_next(struct store_listing *l, uint64_t until_ns,
                    struct store_listed *out)
{
    return lmdb_listing_next(listing_of(l), until_ns, out);
}

static const struct store_engine engine = {
    .traits = STORE_SNAPSHOT | STORE_FILES,
    .close = engine_close,
    .marks = engine_marks,
    .apply = engine_apply,
    .read = engine_read,
    .read_end = engine_read_end,
    .tend = engine_tend,
    .listing_open = engine_listing_open,
    .listing_close = engine_listing_close,
    .listing_start = engine_listing_start,
    .listing_stop = engine_listing_stop,
    .listing_next = engine_listing_next,
    .check = engine_check,
    .each_mark = engine_each_mark,
    .copy = engine_copy,
    .drop = engine_drop,
    .del = engine_del,
};

int
lmdb_store_open(struct store **out, const struct lmdb_options *options)
{
    struct lmdb *s;
    int rc;

    rc = lmdb_open(&s, options);
    if (rc < 0)
        return rc;
    s->store.engine = &engine;
    *out = &s->store;
    return 0;
}

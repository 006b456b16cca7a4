/* tests/lib/memstore.c - see memstore.h. */
#include "tests/lib/memstore.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/wire/query.h"
#include "tests/lib/memhistory.h"

#define ROOM ((size_t)1 << 30) /* of addresses; pages come when touched */

struct mem_row {
    struct name key;
    struct store_row row;
};

struct mem_mark {
    struct store_fill mark;
    bool done;
    struct name last; /* PARTIAL: keys up to this one are in */
};

struct mem_keyspace {
    struct name name;
    bool exists; /* false: only its faults are known */
    struct mem_row *rows;
    size_t count, room;
    struct mem_row **ranked; /* by count; NULL: to be sorted again */
    struct mem_mark *marks;
    size_t mark_count, mark_room;
    struct memhistory *past; /* in no order */
    size_t past_count, past_room;
    uint64_t change; /* grows with each delta */
    struct memstore_fault fault;
    struct memstore_calls calls;
};

struct memstore {
    struct store store;
    size_t used;
    size_t cut;
    struct mem_keyspace *keyspaces; /* by name */
    size_t count, room;
    void (*hook)(void *ctx);
    void *ctx;
    uint64_t (*now_ms)(void);
};

static struct memstore *
of(struct store *s)
{
    return (struct memstore *)(void *)s;
}

/* ---- memory ------------------------------------------------------------ */

static void *
take(struct memstore *m, size_t size)
{
    void *at = (uint8_t *)m + m->used;

    m->used += (size + 15) / 16 * 16;
    assert(m->used <= ROOM);
    return at;
}

/* Makes room for an item at `at` of an array; the array may move. */
static void *
insert(struct memstore *m, void *items, size_t size, size_t at, size_t *count,
       size_t *room)
{
    if (*count == *room) {
        const size_t more = *room ? 2 * *room : 4;
        void *bigger = take(m, more * size);

        if (*count > 0)
            memcpy(bigger, items, *count * size);
        items = bigger;
        *room = more;
    }
    memmove((uint8_t *)items + (at + 1) * size, (uint8_t *)items + at * size,
            (*count - at) * size);
    memset((uint8_t *)items + at * size, 0, size);
    ++*count;
    return items;
}

static int
compare(const struct name *a, const uint8_t *b, size_t b_size)
{
    const int order = memcmp(a->bytes, b, a->size < b_size ? a->size : b_size);

    return order != 0 ? order : (a->size > b_size) - (a->size < b_size);
}

static void
set_name(struct name *n, const uint8_t *bytes, size_t size)
{
    assert(size <= STORE_NAME_MAX);
    memcpy(n->bytes, bytes, size);
    n->size = size;
}

/* The first item of a sorted array whose name is not below this one; each item
 * begins with its name. */
static size_t
place(const void *items, size_t item_size, size_t count, const uint8_t *name,
      size_t size)
{
    size_t low = 0, high = count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const void *at = (const uint8_t *)items + middle * item_size;

        if (compare(at, name, size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t
keyspace_at(const struct memstore *m, const uint8_t *name, size_t size)
{
    return place(m->keyspaces, sizeof *m->keyspaces, m->count, name, size);
}

static struct mem_keyspace *
find(const struct memstore *m, const uint8_t *name, size_t size)
{
    const size_t at = keyspace_at(m, name, size);

    if (at < m->count && compare(&m->keyspaces[at].name, name, size) == 0)
        return &m->keyspaces[at];
    return NULL;
}

/* The keyspace; made, but not existing yet, when there is none. */
static struct mem_keyspace *
make(struct memstore *m, const uint8_t *name, size_t size)
{
    const size_t at = keyspace_at(m, name, size);

    if (!find(m, name, size)) {
        m->keyspaces = insert(m, m->keyspaces, sizeof *m->keyspaces, at,
                              &m->count, &m->room);
        set_name(&m->keyspaces[at].name, name, size);
    }
    return &m->keyspaces[at];
}

static size_t
row_at(const struct mem_keyspace *k, const uint8_t *key, size_t size)
{
    return place(k->rows, sizeof *k->rows, k->count, key, size);
}

static struct mem_row *
find_row(const struct mem_keyspace *k, const uint8_t *key, size_t size)
{
    const size_t at = row_at(k, key, size);

    if (at < k->count && compare(&k->rows[at].key, key, size) == 0)
        return &k->rows[at];
    return NULL;
}

/* ---- marks ------------------------------------------------------------- */

static struct mem_mark *
find_mark(const struct mem_keyspace *k, const struct store_fill *mark)
{
    for (size_t i = 0; k && i < k->mark_count; i++)
        if (memcmp(k->marks[i].mark.uuid, mark->uuid, sizeof mark->uuid) == 0)
            return &k->marks[i];
    return NULL;
}

/* PARTIAL marks came equally far when the last keys are the same. */
static uint64_t
progress_of(const struct name *last)
{
    uint64_t h = 1;

    for (size_t i = 0; i < last->size; i++)
        h = (h ^ last->bytes[i]) * 0x100000001b3u;
    return h;
}

static struct store_mark_info
info_of(const struct mem_keyspace *k, const struct store_fill *mark)
{
    const struct mem_mark *m = find_mark(k, mark);
    struct store_mark_info info = {.state = STORE_MARK_NONE};

    if (!m || m->mark.epoch < mark->epoch)
        return info;
    if (m->mark.epoch > mark->epoch)
        info.state = STORE_MARK_AHEAD;
    else if (m->mark.first_ms != mark->first_ms)
        info.state = STORE_MARK_OTHER;
    else if (m->done)
        info.state = STORE_MARK_DONE;
    else
        info =
            (struct store_mark_info){STORE_MARK_PARTIAL, progress_of(&m->last)};
    return info;
}

/* All of the fill is in, or (last not NULL) its keys up to that. */
static void
set_mark(struct memstore *m, struct mem_keyspace *k,
         const struct store_fill *mark, const struct store_delta *last)
{
    struct mem_mark *at = find_mark(k, mark);

    if (!at) {
        k->marks = insert(m, k->marks, sizeof *k->marks, k->mark_count,
                          &k->mark_count, &k->mark_room);
        at = &k->marks[k->mark_count - 1];
    }
    at->mark = *mark;
    at->done = last == NULL;
    if (last)
        set_name(&at->last, last->key, last->key_size);
}

static void
meet_others(const struct memstore *m)
{
    if (m->hook)
        m->hook(m->ctx);
}

static int
mem_marks(struct store *s, const uint8_t *name, size_t name_size,
          const struct store_fill *marks, size_t count,
          struct store_mark_info *infos)
{
    struct mem_keyspace *k;

    meet_others(of(s));
    k = find(of(s), name, name_size);
    if (k)
        k->calls.marks++;
    if (k && k->fault.marks < 0)
        return k->fault.marks;
    for (size_t i = 0; i < count; i++)
        infos[i] = info_of(k, &marks[i]);
    return 0;
}

/* ---- applying ---------------------------------------------------------- */

/* Whether a batch may go in: 1, or 0 when it is in. */
static int
judge(const struct mem_keyspace *k, const struct store_batch *b)
{
    struct store_mark_info first;

    if (b->mark_count == 0)
        return 1;
    first = info_of(k, &b->marks[0]);
    for (size_t i = 0; i < b->mark_count; i++)
        if (info_of(k, &b->marks[i]).state == STORE_MARK_AHEAD)
            return -EOVERFLOW;
    for (size_t i = 1; i < b->mark_count; i++) {
        const struct store_mark_info info = info_of(k, &b->marks[i]);

        if (!store_marks_agree(&first, &info))
            return -ESTALE;
    }
    return first.state != STORE_MARK_DONE;
}

/* The first delta whose key is not in by the marks. */
static size_t
first_missing(const struct mem_keyspace *k, const struct store_batch *b)
{
    const struct mem_mark *mark = NULL;
    size_t i = 0;

    if (b->mark_count > 0 &&
        info_of(k, &b->marks[0]).state == STORE_MARK_PARTIAL)
        mark = find_mark(k, &b->marks[0]);
    while (mark && i < b->delta_count &&
           compare(&mark->last, b->deltas[i].key, b->deltas[i].key_size) >= 0)
        i++;
    return i;
}

/* Adds one sum, saturating; true when the counter is flagged by it. */
static bool
add(struct store_row *row, const struct store_delta *d)
{
    __extension__ typedef __int128 wide;
    const wide sum =
        row->count + (wide)d->sum_high * ((wide)1 << 64) + (wide)d->sum_low;
    const bool had = row->saturated;

    row->count = (int64_t)sum;
    if (sum > INT64_MAX || sum < INT64_MIN) {
        row->count = sum < 0 ? INT64_MIN : INT64_MAX;
        row->saturated = true;
    }
    return row->saturated && !had;
}

static void
apply_delta(struct memstore *m, struct mem_keyspace *k,
            const struct store_delta *d, struct store_applied *applied)
{
    const size_t at = row_at(k, d->key, d->key_size);

    if (!find_row(k, d->key, d->key_size)) {
        k->rows = insert(m, k->rows, sizeof *k->rows, at, &k->count, &k->room);
        set_name(&k->rows[at].key, d->key, d->key_size);
        applied->created++;
    }
    applied->saturated += add(&k->rows[at].row, d);
    applied->keys++;
    k->change++;
    k->ranked = NULL;
}

/* Remembers what came when. */
static void
note_past(struct memstore *m, struct mem_keyspace *k,
          const struct store_delta *d)
{
    const uint64_t now = m->now_ms ? m->now_ms() / 60000 : UINT32_MAX;
    struct memhistory *p;

    k->past = insert(m, k->past, sizeof *k->past, k->past_count, &k->past_count,
                     &k->past_room);
    p = &k->past[k->past_count - 1];
    set_name(&p->key, d->key, d->key_size);
    p->minute = d->minute > now + 1440 ? (uint32_t)now : d->minute;
    p->sum_high = d->sum_high;
    p->sum_low = d->sum_low;
}

/* The end of the commit that begins with delta `from`: all minutes of a key are
 * in one. */
static size_t
commit_end(const struct memstore *m, const struct store_batch *b, size_t from)
{
    size_t to = m->cut ? from + m->cut : b->delta_count;

    if (to > b->delta_count)
        to = b->delta_count;
    while (to < b->delta_count && to > 0 &&
           b->deltas[to].key_size == b->deltas[to - 1].key_size &&
           memcmp(b->deltas[to].key, b->deltas[to - 1].key,
                  b->deltas[to].key_size) == 0)
        to++;
    return to;
}

/* True when the armed fault comes now. */
static bool
fails(struct mem_keyspace *k, unsigned commits, struct store_applied *applied)
{
    if (k->fault.error == 0 || k->fault.times == 0 ||
        k->fault.commits != commits)
        return false;
    if (k->fault.times != MEMSTORE_ALWAYS)
        k->fault.times--;
    applied->over_quota = k->fault.error == -EDQUOT;
    applied->holder = k->fault.holder;
    return true;
}

static int
apply(struct memstore *m, const struct store_batch *b,
      struct store_applied *applied)
{
    struct mem_keyspace *k = make(m, b->name, b->name_size);
    unsigned commits = 0;
    size_t from, to;
    int rc;

    k->calls.applies++;
    k->calls.deltas += (unsigned)b->delta_count;
    if (b->mark_count > k->calls.longest)
        k->calls.longest = (unsigned)b->mark_count;
    do {
        /* Others may have been here: everything is looked at afresh. */
        k = make(m, b->name, b->name_size);
        if (fails(k, commits, applied))
            return k->fault.error;
        if (k->fault.marks < 0)
            return k->fault.marks;
        rc = judge(k, b);
        if (rc <= 0 || (b->delta_count == 0 && !k->exists))
            return rc < 0 ? rc : 0;
        from = first_missing(k, b);
        to = commit_end(m, b, from);
        k->exists = true;
        for (size_t i = from; i < to; i++)
            apply_delta(m, k, &b->deltas[i], applied);
        for (size_t i = from; i < to; i++)
            note_past(m, k, &b->deltas[i]);
        for (size_t i = 0; i < b->mark_count; i++)
            set_mark(m, k, &b->marks[i],
                     to < b->delta_count ? &b->deltas[to - 1] : NULL);
        applied->commits = ++commits;
        if (to < b->delta_count)
            meet_others(m);
    } while (to < b->delta_count);
    return 0;
}

static int
mem_apply(struct store *s, const struct store_batch *b,
          struct store_applied *applied)
{
    int rc;

    *applied = (struct store_applied){.keys = 0};
    meet_others(of(s));
    rc = apply(of(s), b, applied);
    if (rc < 0)
        make(of(s), b->name, b->name_size)->calls.refusals++;
    return rc;
}

/* ---- reading ----------------------------------------------------------- */

static int
by_count(const void *a, const void *b)
{
    const struct mem_row *x = *(struct mem_row *const *)a;
    const struct mem_row *y = *(struct mem_row *const *)b;

    if (x->row.count != y->row.count)
        return x->row.count > y->row.count ? -1 : 1;
    return compare(&x->key, y->key.bytes, y->key.size);
}

static void
rank_rows(struct memstore *m, struct mem_keyspace *k)
{
    if (k->ranked || k->count == 0)
        return;
    k->ranked = take(m, k->count * sizeof(struct mem_row *));
    for (size_t i = 0; i < k->count; i++)
        k->ranked[i] = &k->rows[i];
    qsort(k->ranked, k->count, sizeof(struct mem_row *), by_count);
}

static struct store_totals
totals_of(const struct mem_keyspace *k)
{
    struct store_totals t = {.keys = k->count, .nonce = 1, .change = k->change};

    for (size_t i = 0; i < k->count; i++) {
        const int64_t count = k->rows[i].row.count;

        t.sum_high +=
            (count < 0 ? -1 : 0) +
            __builtin_add_overflow(t.sum_low, (uint64_t)count, &t.sum_low);
        t.saturated += k->rows[i].row.saturated;
    }
    return t;
}

static void
put_row(struct store_query *q, int64_t count, const uint8_t *key, size_t size)
{
    q->size += query_row_put(q->bytes + q->size, count, key, (uint16_t)size);
    q->rows++;
}

static void
read_range(struct store_query *q, const struct mem_keyspace *k)
{
    uint64_t from = (uint64_t)q->offset;

    q->totals = totals_of(k);
    if (q->offset < 0)
        from = k->count > 0 - from ? k->count + from : 0;
    for (; from < k->count && q->rows < q->length; from++)
        put_row(q, k->ranked[from]->row.count, k->ranked[from]->key.bytes,
                k->ranked[from]->key.size);
}

static void
read_keys(struct store_query *q, const struct mem_keyspace *k)
{
    for (size_t i = (size_t)q->offset; i < k->count && q->rows < q->length;
         i++) {
        const struct name *key = &k->rows[i].key;

        if (q->prefix_size > 0 &&
            (key->size < q->prefix_size ||
             memcmp(key->bytes, q->prefix, q->prefix_size) != 0))
            continue;
        if (q->after_size == 0 || compare(key, q->after, q->after_size) > 0)
            put_row(q, k->rows[i].row.count, key->bytes, key->size);
    }
}

static int
read_one(void *ctx, struct store_query *q, size_t room)
{
    struct memstore *m = ctx;
    struct mem_keyspace *k = find(m, q->name, q->name_size);
    const struct mem_row *row;

    (void)room; /* store_query_size_max() is always enough */
    if (k && k->fault.marks < 0)
        return k->fault.marks;
    if (!k || !k->exists)
        return -ENOENT;
    rank_rows(m, k);
    if (q->op == STORE_RANGE) {
        read_range(q, k);
        return 0;
    }
    if (q->op == STORE_KEYS) {
        read_keys(q, k);
        return 0;
    }
    if (q->op == STORE_TOTAL) {
        q->totals = totals_of(k);
        put_row(q, store_total(&q->totals), NULL, 0);
        return 0;
    }
    row = find_row(k, q->key, q->key_size);
    if (!row)
        return -ENOENT;
    q->row = row->row;
    for (q->rank = 0; k->ranked[q->rank] != row;)
        q->rank++;
    if (q->op == STORE_AROUND) {
        q->offset = (int64_t)q->rank - (int64_t)(q->length / 2);
        q->offset = q->offset < 0 ? 0 : q->offset;
        read_range(q, k);
        return 0;
    }
    put_row(q, q->op == STORE_GET ? q->row.count : (int64_t)q->rank, q->key,
            q->key_size);
    return 0;
}

static size_t
mem_read(struct store *s, struct store_reads *reads)
{
    return store_read_each(reads, read_one, of(s));
}

static void
mem_read_end(struct store *s)
{
    (void)s; /* nothing is kept for the next query */
}

static int
mem_past(struct store *s, struct store_history_query *q, uint64_t until_ns)
{
    const struct mem_keyspace *k = find(of(s), q->name, q->name_size);

    (void)until_ns; /* never takes long */
    if (!k || !k->exists)
        return -ENOENT;
    if (k->fault.marks < 0)
        return k->fault.marks;
    return memhistory_answer(k->past, k->past_count, q);
}

/* ---- listing ----------------------------------------------------------- */

struct mem_listing {
    struct store_listing listing;
    struct memstore *store;
    struct name last; /* was given; size 0: none */
    bool started;
};

static int
mem_listing_open(struct store *s, struct store_listing **out)
{
    struct mem_listing *l = calloc(1, sizeof *l);

    if (!l)
        return -ENOMEM;
    l->listing.engine = s->engine;
    l->store = of(s);
    *out = &l->listing;
    return 0;
}

static void
mem_listing_close(struct store_listing *l)
{
    free(l);
}

static void
mem_listing_start(struct store_listing *listing, const uint8_t *after,
                  size_t after_size)
{
    struct mem_listing *l = (struct mem_listing *)(void *)listing;

    set_name(&l->last, after_size > 0 ? after : (const uint8_t *)"",
             after_size);
    l->started = true;
}

static void
mem_listing_stop(struct store_listing *listing)
{
    ((struct mem_listing *)(void *)listing)->started = false;
}

static int
mem_listing_next(struct store_listing *listing, uint64_t until_ns,
                 struct store_listed *out)
{
    struct mem_listing *l = (struct mem_listing *)(void *)listing;
    const struct memstore *m = l->store;
    size_t at = keyspace_at(m, l->last.bytes, l->last.size);

    (void)until_ns; /* never takes long */
    while (at < m->count &&
           (!m->keyspaces[at].exists ||
            compare(&m->keyspaces[at].name, l->last.bytes, l->last.size) <= 0))
        at++;
    if (!l->started || at == m->count)
        return 0;
    l->last = m->keyspaces[at].name;
    *out = (struct store_listed){.name = l->last.bytes,
                                 .name_size = l->last.size,
                                 .keys = m->keyspaces[at].fault.marks < 0
                                             ? -1
                                             : (int64_t)m->keyspaces[at].count};
    return 1;
}

/* ---- care -------------------------------------------------------------- */

static int
mem_check(struct store *s, const uint8_t *name, size_t name_size,
          void (*fault)(void *ctx, const char *text), void *ctx,
          struct store_check_result *out)
{
    (void)s, (void)name, (void)name_size, (void)fault, (void)ctx, (void)out;
    return -EOPNOTSUPP;
}

static int
mem_copy(struct store *s, const uint8_t *name, size_t name_size, int to_fd)
{
    (void)s, (void)name, (void)name_size, (void)to_fd;
    return -EOPNOTSUPP;
}

static int
mem_each_mark(struct store *s, const uint8_t *name, size_t name_size,
              int (*mark)(void *ctx, const struct store_fill *m,
                          const struct store_mark_info *info),
              void *ctx)
{
    const struct mem_keyspace *k = find(of(s), name, name_size);
    int rc = 0;

    if (!k || !k->exists)
        return -ENOENT;
    for (size_t i = 0; rc == 0 && i < k->mark_count; i++) {
        const struct store_mark_info info = info_of(k, &k->marks[i].mark);

        rc = mark(ctx, &k->marks[i].mark, &info);
    }
    return rc;
}

static int
mem_drop(struct store *s, const uint8_t *name, size_t name_size)
{
    struct mem_keyspace *k = find(of(s), name, name_size);

    if (!k || !k->exists)
        return -ENOENT;
    k->count = 0;
    k->past_count = 0;
    k->ranked = NULL;
    k->fault = (struct memstore_fault){0};
    return 0;
}

static int
mem_vacate(struct store *s, const uint8_t *name, size_t name_size, int data_fd)
{
    (void)data_fd;
    return mem_drop(s, name, name_size);
}

static int
mem_purge(struct store *s, const uint8_t *name, size_t name_size)
{
    (void)s; /* keeps no bytes of what is deleted */
    (void)name;
    (void)name_size;
    return 0;
}

/* What came for a key is no longer known. */
static void
forget_past(struct mem_keyspace *k, const struct store_key *key)
{
    size_t kept = 0;

    for (size_t i = 0; i < k->past_count; i++)
        if (compare(&k->past[i].key, key->key, key->key_size) != 0)
            k->past[kept++] = k->past[i];
    k->past_count = kept;
}

static int
mem_del(struct store *s, const uint8_t *name, size_t name_size,
        const struct store_key *keys, size_t count, uint64_t *deleted)
{
    struct mem_keyspace *k = find(of(s), name, name_size);

    if (!k || !k->exists)
        return -ENOENT;
    if (k->fault.marks < 0)
        return k->fault.marks;
    *deleted = 0;
    for (size_t i = 0; i < count; i++) {
        struct mem_row *row = find_row(k, keys[i].key, keys[i].key_size);

        if (!row)
            continue;
        forget_past(k, &keys[i]);
        memmove(row, row + 1,
                (size_t)(k->rows + k->count - row - 1) * sizeof *row);
        k->count--;
        ++*deleted;
    }
    k->ranked = NULL;
    return 0;
}

/* Removes an empty keyspace when all fills it knows are spent. */
static bool
mem_tend(struct store *s, const struct store_maintenance *t)
{
    struct memstore *m = of(s);

    for (size_t i = 0; t->is_dead_fill && i < m->count; i++) {
        struct mem_keyspace *k = &m->keyspaces[i];
        bool spent = k->exists && k->count == 0;

        for (size_t j = 0; spent && j < k->mark_count; j++)
            spent =
                k->marks[j].done && t->is_dead_fill(t->ctx, &k->marks[j].mark);
        if (!spent ||
            (t->has_held_records &&
             t->has_held_records(t->ctx, k->name.bytes, k->name.size)))
            continue;
        k->exists = false;
        k->mark_count = 0;
    }
    return false;
}

/* ---- the engine -------------------------------------------------------- */

static void
mem_close(struct store *s)
{
    (void)munmap(s, ROOM); /* cannot fail for a map we made */
}

static const struct store_engine engine = {
    .traits = STORE_SNAPSHOT,
    .close = mem_close,
    .marks = mem_marks,
    .apply = mem_apply,
    .read = mem_read,
    .read_end = mem_read_end,
    .history = mem_past,
    .maintain = mem_tend,
    .listing_open = mem_listing_open,
    .listing_close = mem_listing_close,
    .listing_start = mem_listing_start,
    .listing_stop = mem_listing_stop,
    .listing_next = mem_listing_next,
    .check = mem_check,
    .each_mark = mem_each_mark,
    .copy = mem_copy,
    .drop = mem_drop,
    .vacate = mem_vacate,
    .purge = mem_purge,
    .del = mem_del,
};

int
memstore_open(struct store **out)
{
    struct memstore *m =
        mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (m == MAP_FAILED)
        return -ENOMEM;
    m->store.engine = &engine;
    m->used = sizeof *m;
    *out = &m->store;
    return 0;
}

void
memstore_cut(struct store *s, size_t deltas)
{
    of(s)->cut = deltas;
}

static struct mem_keyspace *
called(struct store *s, const char *name)
{
    return make(of(s), (const uint8_t *)name, strlen(name));
}

void
memstore_fault(struct store *s, const char *name, struct memstore_fault f)
{
    called(s, name)->fault = f;
}

struct memstore_calls
memstore_calls(struct store *s, const char *name)
{
    return called(s, name)->calls;
}

void
memstore_hook(struct store *s, void (*hook)(void *ctx), void *ctx)
{
    of(s)->hook = hook;
    of(s)->ctx = ctx;
}

void
memstore_now(struct store *s, uint64_t (*now_ms)(void))
{
    of(s)->now_ms = now_ms;
}

bool
memstore_has(struct store *s, const char *name)
{
    return called(s, name)->exists;
}

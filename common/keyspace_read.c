/* common/keyspace_read.c - common/store.h on LMDB: views and the list of
 * keyspaces. */
#include "common/keyspace.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static struct order
view_order(struct store *s, const struct keyspace *k, MDB_cursor *cursor,
           enum block_order kind, const struct order_root *root)
{
    return (struct order){
        .txn = k->reader,
        .cursor = cursor,
        .kind = kind,
        .root = *root,
        .cache = &s->cache,
        .snapshot = k->snapshot,
        .renew = true, /* cursors follow the snapshot when they are used */
    };
}

int
store_view_open(struct store *s, const uint8_t *name, size_t name_size,
                struct store_view **out)
{
    struct store_view *v = &s->view;
    struct keyspace *k;
    int rc;

    assert(v->keyspace == NULL); /* one view per handle */
    if (name_size < 1 || name_size > NAME_MAX_SIZE)
        return -ENOENT;
    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
    if (rc < 0)
        return rc;
    rc = keyspace_read(k);
    if (rc < 0)
        return keyspace_trouble(s, name, name_size, "begin", rc);
    rc = keyspace_state_get(k->reader, k->meta, &v->state);
    if (rc < 0) {
        keyspace_read_end(k);
        return keyspace_trouble(s, name, name_size, "state", rc);
    }

    /* The same commit in the same place as last time is the same snapshot. */
    if (k->snapshot == 0 || k->change != v->state.change ||
        k->nonce != v->state.nonce) {
        k->snapshot = ++s->snapshots;
        k->change = v->state.change;
        k->nonce = v->state.nonce;
    }
    v->store = s;
    v->keyspace = k;
    v->keys = view_order(s, k, k->keys_cursor, BLOCK_KEYS, &v->state.keys);
    v->ranks = view_order(s, k, k->ranks_cursor, BLOCK_RANKS, &v->state.ranks);
    *out = v;
    return 0;
}

void
store_view_close(struct store_view *v)
{
    keyspace_read_end(v->keyspace);
    v->keyspace = NULL;
}

/* Says what is wrong with the file, unless that is just an answer. */
static int
outcome(struct store_view *v, const char *what, int rc)
{
    if (rc >= 0 || rc == -ENOENT)
        return rc;
    return keyspace_trouble(v->store, v->keyspace->name, v->keyspace->name_size,
                            what, rc);
}

int
store_view_totals(struct store_view *v, struct store_totals *out)
{
    *out = (struct store_totals){
        .keys = v->state.keys.count,
        .sum_high = (int64_t)(v->state.sum >> 64),
        .sum_low = (uint64_t)v->state.sum,
        .saturated = v->state.saturated,
    };
    return 0;
}

int64_t
store_view_range(struct store_view *v, uint64_t offset, uint64_t length,
                 uint8_t *bytes, size_t size, uint64_t *rows)
{
    int64_t done;

    done = order_range(&v->ranks, offset, length, bytes, size, rows);
    if (done < 0)
        return outcome(v, "range", (int)done);
    return done;
}

int
store_view_get(struct store_view *v, const uint8_t *key, size_t key_size,
               struct store_row *out)
{
    const struct row r = {.key = key, .key_size = (uint16_t)key_size};
    struct order_finder finder = {.valid = false};
    struct row found;
    int rc;

    if (key_size < 1 || key_size > BLOCK_KEY_MAX)
        return -ENOENT;
    rc = order_find(&v->keys, &r, &finder, &found);
    if (rc < 0)
        return outcome(v, "get", rc);
    out->count = found.count;
    out->saturated = (found.flags & BLOCK_SATURATED) != 0;
    return 0;
}

int
store_view_rank(struct store_view *v, const uint8_t *key, size_t key_size,
                uint64_t *rank)
{
    struct row r = {.key = key, .key_size = (uint16_t)key_size};
    struct store_row row;
    int rc;

    rc = store_view_get(v, key, key_size, &row);
    if (rc < 0)
        return rc;
    r.count = row.count;
    rc = order_rank(&v->ranks, &r, rank);

    /* The keys order has it, so the rank order must. */
    return outcome(v, "rank", rc == -ENOENT ? -EBADMSG : rc);
}

struct scan {
    int (*row)(void *ctx, const uint8_t *key, size_t key_size,
               const struct store_row *r);
    void *ctx;
    bool stopped; /* by `row`: its code is no error of ours */
};

static int
scan_row(void *ctx, const struct row *r)
{
    struct scan *scan = ctx;
    const struct store_row row = {
        .count = r->count,
        .saturated = (r->flags & BLOCK_SATURATED) != 0,
    };
    const int rc = scan->row(scan->ctx, r->key, r->key_size, &row);

    scan->stopped = rc != 0;
    return rc;
}

int
store_view_scan(struct store_view *v, const uint8_t *after, size_t after_size,
                int (*row)(void *ctx, const uint8_t *key, size_t key_size,
                           const struct store_row *r),
                void *ctx)
{
    struct scan scan = {.row = row, .ctx = ctx};
    const struct row from = {.key = after, .key_size = (uint16_t)after_size};
    int rc;

    if (after != NULL && after_size > BLOCK_KEY_MAX)
        return -EINVAL;
    rc = order_scan(&v->keys, after != NULL ? &from : NULL, scan_row, &scan);
    return scan.stopped ? rc : outcome(v, "scan", rc);
}

/* ---- the list of keyspaces ---- */

/* A batch of the smallest names not yet given, so that memory stays bounded
 * whatever the number of files. */
#define LIST_BATCH 512

struct listed {
    size_t size;
    uint8_t name[NAME_MAX_SIZE];
};

struct listing {
    struct store *store;
    struct listed after;
    size_t count;
    bool full;
    struct listed *names; /* a heap, the largest first */
};

static int
listed_compare(const struct listed *a, const struct listed *b)
{
    const struct row x = {.key = a->name, .key_size = (uint16_t)a->size};
    const struct row y = {.key = b->name, .key_size = (uint16_t)b->size};

    return row_compare_keys(&x, &y);
}

static int
listed_compare_void(const void *a, const void *b)
{
    return listed_compare(a, b);
}

/* Moves the name at `at` down to its place in the heap. */
static void
heap_down(struct listing *l, size_t at)
{
    const struct listed moving = l->names[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= l->count)
            break;
        if (child + 1 < l->count &&
            listed_compare(&l->names[child], &l->names[child + 1]) < 0)
            child++;
        if (listed_compare(&moving, &l->names[child]) >= 0)
            break;
        l->names[at] = l->names[child];
        at = child;
    }
    l->names[at] = moving;
}

/* The name behind a file; that of a %h file is inside. */
static int
listed_name(struct store *s, const char *file, struct listed *out)
{
    struct keyspace k;
    int rc;

    rc = name_from_file(file, out->name);
    if (rc >= 0) {
        out->size = (size_t)rc;
        return 0;
    }
    if (rc != -ENOKEY)
        return rc;

    /* It may be open already, and must not be opened twice. */
    for (unsigned i = 0; i < s->options.open_max; i++) {
        const struct keyspace *open = &s->slots[i];
        const size_t size = strlen(file);

        if (open->hash != 0 && strncmp(open->file, file, size) == 0 &&
            strcmp(open->file + size, KEYSPACE_SUFFIX) == 0) {
            out->size = open->name_size;
            memcpy(out->name, open->name, open->name_size);
            return 0;
        }
    }
    rc = keyspace_open_file(s, file, &k);
    if (rc < 0)
        return rc;
    out->size = k.name_size;
    memcpy(out->name, k.name, k.name_size);
    keyspace_close(&k);
    return 0;
}

/* Keeps the name when it is among the smallest. */
static int
list_file(void *ctx, const char *file)
{
    struct listing *l = ctx;
    struct listed name;

    /* A file that cannot say its name has been reported; it has none here. */
    if (listed_name(l->store, file, &name) < 0)
        return 0;
    if (listed_compare(&name, &l->after) <= 0)
        return 0;
    if (l->count < LIST_BATCH) {
        l->names[l->count++] = name;
        if (l->count == LIST_BATCH)
            for (size_t i = LIST_BATCH / 2; i-- > 0;)
                heap_down(l, i);
        return 0;
    }
    l->full = true;
    if (listed_compare(&name, &l->names[0]) < 0) {
        l->names[0] = name;
        heap_down(l, 0);
    }
    return 0;
}

static int64_t
count_keys(struct store *s, const struct listed *name)
{
    struct keyspace_state state;
    struct keyspace *k;
    int rc;

    rc = keyspace_get(s, name->name, name->size, KEYSPACE_FIND, &k);
    if (rc < 0)
        return -1;
    if (k->reading) /* by the view this handle has open */
        rc = keyspace_state_get(k->reader, k->meta, &state);
    else {
        rc = keyspace_read(k);
        if (rc < 0)
            return -1;
        rc = keyspace_state_get(k->reader, k->meta, &state);
        keyspace_read_end(k);
    }
    return rc < 0 ? -1 : (int64_t)state.keys.count;
}

int
store_list(struct store *s, const uint8_t *after, size_t after_size,
           int (*row)(void *ctx, const uint8_t *name, size_t name_size,
                      int64_t keys),
           void *ctx)
{
    struct listing l = {.store = s, .full = true};
    int rc = 0;

    if (after_size > NAME_MAX_SIZE)
        return -EINVAL;
    l.names = malloc(LIST_BATCH * sizeof *l.names);
    if (l.names == NULL)
        return -ENOMEM;
    l.after.size = after_size;
    if (after_size > 0)
        memcpy(l.after.name, after, after_size);
    while (rc == 0 && l.full) {
        l.full = false;
        l.count = 0;
        rc = keyspace_each_file(s, list_file, &l);
        if (rc < 0)
            break;
        qsort(l.names, l.count, sizeof *l.names, listed_compare_void);
        for (size_t i = 0; i < l.count && rc == 0; i++)
            rc = row(ctx, l.names[i].name, l.names[i].size,
                     count_keys(s, &l.names[i]));
        if (l.count > 0)
            l.after = l.names[l.count - 1];
    }
    free(l.names);
    return rc;
}

/* common/store/tree/level.c - the directory during a change.  When anything
 * fails the transaction is dropped, so nothing here undoes anything.
 *
 * Entry points: levels_start(), levels_seek(), levels_take(), level_append(),
 * levels_finish(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/tree/level.h"

#include <assert.h>
#include <errno.h>

#include "common/store/tree/value.h"

static void
list_clear(struct level_entries *l)
{
    l->count = 0;
    l->used = 0;
    l->bytes = 0;
}

/* Opens a level above the top one, with nothing old in it.  It begins
 * where everything does. */
static int
level_add(struct levels *d)
{
    struct level *lv;

    if (d->top == TREE_LEVELS)
        return -EBADMSG;
    lv = &d->levels[++d->top];
    lv->open = true;
    lv->fresh = true;
    lv->lower = d->lowest;
    lv->has_upper = false;
    lv->old = (struct node){.bytes = lv->copy};
    lv->at = 0;
    list_clear(&lv->list);
    return 0;
}

/* Adds an entry to a list that has room. */
static void
level_put(struct level *lv, uint64_t child, uint64_t rows,
          const uint8_t *separator)
{
    struct level_entries *l = &lv->list;
    size_t size;

    assert(lv->open);

    /* The first entry of a node keeps the node's own lower end, whatever has
     * become of the group that had it. */
    if (lv->fresh) {
        separator = lv->lower;
        lv->fresh = false;
    }
    size = row_size(separator);
    assert(l->count < LIST_MAX && l->bytes + size <= sizeof l->separators);
    memcpy(l->separators + l->bytes, separator, size);
    l->entries[l->count].child = child;
    l->entries[l->count].rows = rows;
    l->entries[l->count].at = l->bytes;
    l->entries[l->count].size = size;
    l->count++;
    l->bytes += size;
    l->used += NODE_ENTRY + size;
}

/* Drops the first n entries of a list. */
static void
list_shift(struct level_entries *l, unsigned n)
{
    const size_t start = n < l->count ? l->entries[n].at : l->bytes;

    for (unsigned i = n; i < l->count; i++) {
        l->entries[i - n] = l->entries[i];
        l->entries[i - n].at -= start;
    }
    l->count -= n;
    l->bytes -= start;
    l->used = l->bytes + NODE_ENTRY * (size_t)l->count;
    memmove(l->separators, l->separators + start, l->bytes);
}

/* Writes a node of the first n entries. */
static int
node_write(struct levels *d, unsigned level, unsigned n, uint64_t id,
           uint64_t *rows)
{
    const struct level_entries *l = &d->levels[level].list;
    const struct block_id bid = {
        .type = BLOCK_NODE,
        .order = (uint8_t)d->tree->kind,
        .more = (uint16_t)level,
        .generation = d->tree->generation,
        .key = value_key(id, 0),
    };
    const size_t table = BLOCK_HEAD + NODE_ENTRY * (size_t)n;
    const size_t bytes = l->entries[n - 1].at + l->entries[n - 1].size;
    uint8_t node[BLOCK_SIZE];

    assert(table + bytes <= sizeof node);
    *rows = 0;
    for (unsigned i = 0; i < n; i++) {
        uint8_t *e = node + BLOCK_HEAD + NODE_ENTRY * (size_t)i;

        *rows += l->entries[i].rows;
        put_le64(e, *rows);
        put_le64(e + 8, l->entries[i].child << 16 | (table + l->entries[i].at));
    }
    memcpy(node + table, l->separators, bytes);
    block_seal(node, table + bytes, (uint16_t)n, &bid);
    return value_put(d->tree, bid.key, node, table + bytes);
}

/* Writes one node of at most `most` bytes of entries from the front of the
 * list and appends it one level up. */
static int
level_write(struct levels *d, unsigned level, size_t most)
{
    struct level *lv = &d->levels[level];
    struct level_entries *l = &lv->list;
    uint8_t separator[BLOCK_ROW_MAX];
    uint64_t id, rows;
    size_t used = 0;
    unsigned n = 0;
    int rc;

    while (n < l->count && used + NODE_ENTRY + l->entries[n].size <= most)
        used += NODE_ENTRY + l->entries[n++].size;
    assert(n > 0);
    memcpy(separator, l->separators, l->entries[0].size);
    id = d->tree->root.next_id++;
    rc = node_write(d, level, n, id, &rows);
    if (rc < 0)
        return rc;
    list_shift(l, n);
    if (level == d->top) {
        rc = level_add(d);
        if (rc < 0)
            return rc;
    }
    level_put(&d->levels[level + 1], id, rows, separator);
    return 0;
}

/* Keeps room in the lists from this level up: a node written on one level is
 * an entry on the next. */
static int
levels_write_full(struct levels *d, unsigned level)
{
    int rc = 0;

    while (rc == 0 && level <= d->top && d->levels[level].list.used > LIST_FULL)
        rc = level_write(d, level++, NODE_CAPACITY * 7 / 8);
    return rc;
}

int
level_append(struct levels *d, unsigned level, uint64_t child, uint64_t rows,
             const uint8_t *separator)
{
    level_put(&d->levels[level], child, rows, separator);
    return levels_write_full(d, level);
}

/* Takes the node `id` as (more of) the level's old entries. */
static int
level_load(struct levels *d, unsigned level, uint64_t id, uint64_t rows)
{
    struct level *lv = &d->levels[level];
    int rc;

    lv->old.level = (uint16_t)level;
    rc = node_get(d->tree, id, rows, lv->copy, &lv->old);
    if (rc < 0)
        return rc;
    lv->at = 0;
    return value_remove(d->tree, value_key(id, 0));
}

/* The separator of an entry of the old node. */
static const uint8_t *
old_separator(const struct level *lv, unsigned i)
{
    return i == 0 ? lv->lower : node_separator_at(&lv->old, i);
}

/* Where the rows of the entry before the one at hand end; whether they do. */
static bool
find_upper(const struct level *lv, struct row *upper)
{
    if (lv->at < lv->old.count)
        *upper = node_separator(&lv->old, lv->at);
    else if (lv->has_upper)
        *upper = lv->upper;
    return lv->at < lv->old.count || lv->has_upper;
}

/* Consumes the entry at hand of the level above: its child is this level's
 * old node. */
static int
level_load_child(struct levels *d, unsigned level)
{
    struct level *lv = &d->levels[level];
    struct level *above = &d->levels[level + 1];
    const unsigned at = above->at++;

    lv->lower = old_separator(above, at);
    lv->has_upper = find_upper(above, &lv->upper);
    return level_load(d, level, node_child(&above->old, at),
                      node_rows(&above->old, at));
}

static int
level_open(struct levels *d, unsigned level)
{
    struct level *lv = &d->levels[level];

    assert(!lv->open);
    lv->open = true;
    lv->fresh = true;
    list_clear(&lv->list);
    return level_load_child(d, level);
}

/* Copies the old entry at hand to the list. */
static int
level_pass(struct levels *d, unsigned level)
{
    struct level *lv = &d->levels[level];
    const uint8_t *s = old_separator(lv, lv->at);
    const uint64_t child = node_child(&lv->old, lv->at);
    const uint64_t rows = node_rows(&lv->old, lv->at);

    lv->at++;
    return level_append(d, level, child, rows, s);
}

/* Writes the list, whole or in halves. */
static int
level_flush(struct levels *d, unsigned level)
{
    struct level *lv = &d->levels[level];
    int rc = 0;

    while (rc == 0 && lv->list.count > 0) {
        const size_t half = lv->list.used / 2 + BLOCK_ROW_MAX;

        rc = level_write(d, level,
                         lv->list.used > NODE_CAPACITY && half < NODE_CAPACITY
                             ? half
                             : NODE_CAPACITY);
        if (rc == 0)
            rc = levels_write_full(d, level + 1);
    }
    lv->open = false;
    return rc;
}

/* Passes the rest of the old node; then either closes the level or, when too
 * little is left to stand alone, goes on with the right neighbour. */
static int
level_close(struct levels *d, unsigned level)
{
    struct level *lv = &d->levels[level];
    struct level *above = &d->levels[level + 1];
    int rc = 0;

    while (rc == 0 && lv->at < lv->old.count)
        rc = level_pass(d, level);
    if (rc < 0)
        return rc;
    if (lv->list.count > 0 && lv->list.used < NODE_CAPACITY / 4 &&
        above->at < above->old.count)
        return level_load_child(d, level);
    return level_flush(d, level);
}

int
levels_start(struct levels *d, struct tree *t)
{
    const struct row lowest = row_lowest(t->kind);
    struct level *lv;
    int rc;

    for (unsigned i = 0; i <= TREE_LEVELS; i++)
        d->levels[i].open = false;
    d->tree = t;
    (void)row_put(d->lowest, &lowest); /* its size is known */
    d->top = t->root.level > 1 ? t->root.level - 1u : 0;
    rc = level_add(d);
    if (rc < 0)
        return rc;
    d->low = d->top;
    lv = &d->levels[d->top];
    if (t->root.level > 0)
        return level_load(d, d->top, t->root.id, t->root.count);
    if (t->root.id != 0) {
        lv->old.count = 1;
        put_le64(lv->copy + BLOCK_HEAD, t->root.count);
        put_le64(lv->copy + BLOCK_HEAD + 8,
                 t->root.id << 16 | (BLOCK_HEAD + NODE_ENTRY));
        memcpy(lv->copy + BLOCK_HEAD + NODE_ENTRY, d->lowest, sizeof d->lowest);
    }
    return 0;
}

int
levels_seek(struct levels *d, const struct row *r)
{
    int rc = 0;

    while (d->levels[d->low].has_upper &&
           row_compare(d->tree->kind, r, &d->levels[d->low].upper) >= 0) {
        rc = level_close(d, d->low);
        if (rc < 0)
            return rc;
        if (!d->levels[d->low].open)
            d->low++;
    }
    for (;;) {
        struct level *lv = &d->levels[d->low];

        while (lv->at + 1 < lv->old.count) {
            const struct row s = node_separator(&lv->old, lv->at + 1);

            if (row_compare(d->tree->kind, &s, r) > 0)
                break;
            rc = level_pass(d, d->low);
            if (rc < 0)
                return rc;
        }
        if (d->low == 1)
            return 0;
        rc = level_open(d, d->low - 1);
        if (rc < 0)
            return rc;
        d->low--;
    }
}

bool
levels_take(struct levels *d, struct level_group *out)
{
    struct level *lv = &d->levels[1];
    const unsigned at = lv->at;

    if (at == lv->old.count)
        return false;
    lv->at++;
    *out = (struct level_group){
        .id = node_child(&lv->old, at),
        .rows = node_rows(&lv->old, at),
        .separator = old_separator(lv, at),
    };
    out->has_upper = find_upper(lv, &out->upper);
    return true;
}

int
levels_finish(struct levels *d)
{
    int rc = 0;

    for (unsigned l = d->low; rc == 0; l++) {
        struct level *lv = &d->levels[l];

        while (rc == 0 && lv->open && l < d->top)
            rc = level_close(d, l);
        if (rc < 0 || l < d->top)
            continue;
        while (rc == 0 && lv->at < lv->old.count)
            rc = level_pass(d, l);
        if (rc < 0)
            return rc;
        if (l == d->top && lv->list.count < 2) {
            d->tree->root.id =
                lv->list.count == 0 ? 0 : lv->list.entries[0].child;
            d->tree->root.level = lv->list.count == 0 ? 0 : (uint16_t)(l - 1);
            list_clear(&lv->list);
            return level_flush(d, l);
        }
        rc = level_flush(d, l);
    }
    return rc;
}

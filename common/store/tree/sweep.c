/* common/store/tree/sweep.c - changes to an order: one sweep over the groups
 * they touch.
 *
 * The happy path: edits are sorted, so the sweep goes through the directory
 * from left to right once.  Each level of the directory has one node open: the
 * old node, as far as it has been passed, and the list of entries that take
 * its place.  Level 1's entries are groups; an edit run is given to its group
 * (group.c), which appends what became of it.  When a level's old node
 * is passed, the rest of its entries is copied, the list is written as one or
 * more nodes, and these are appended to the list of the level above.  At the
 * end all levels are closed; a list of one entry at the top is the new root.
 *
 *     level 2   [old: . . . . . . .]  -> list       (root)
 *                        |
 *     level 1   [old: . . . . .]      -> list
 *                        |
 *     groups    buffer or stage
 *
 * A node that came out too small takes in its right neighbour.  When anything
 * fails the transaction is dropped, so nothing here undoes anything.
 */
#include "common/store/tree/sweep.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct tree_work *
tree_work_new(void)
{
    return malloc(sizeof(struct tree_work));
}

void
tree_work_free(struct tree_work *w)
{
    free(w);
}

/* The row below all others. */
static size_t
lowest(enum block_order kind, uint8_t *at)
{
    const struct row r = {
        .count = kind == BLOCK_RANKS ? INT64_MAX : 0,
        .key = (const uint8_t *)"",
    };

    return row_put(at, &r);
}

static void
list_clear(struct list *l)
{
    l->count = 0;
    l->used = 0;
    l->bytes = 0;
}

/* Opens a level above the top one, with nothing old in it.  It begins
 * where everything does. */
static int
level_add(struct tree *t)
{
    struct tree_work *w = t->work;
    struct level *lv;

    if (w->top == TREE_LEVELS)
        return -EBADMSG;
    lv = &w->levels[++w->top];
    lv->open = true;
    lv->has_first = true;
    lv->first_size = lowest(t->kind, lv->first);
    lv->has_upper = false;
    lv->old = (struct node){.bytes = lv->copy};
    lv->at = 0;
    lv->written = 0;
    lv->spare_count = 0;
    list_clear(&lv->list);
    return 0;
}

/* Adds an entry to a list that has room. */
static void
level_put(struct level *lv, uint64_t child, uint64_t rows,
          const uint8_t *separator, size_t size)
{
    struct list *l = &lv->list;

    assert(lv->open);

    /* The first entry of a node keeps the node's own lower end, whatever has
     * become of the group that had it. */
    if (lv->has_first) {
        separator = lv->first;
        size = lv->first_size;
        lv->has_first = false;
    }
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
list_shift(struct list *l, unsigned n)
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
node_write(struct tree *t, unsigned level, unsigned n, uint64_t id,
           uint64_t *rows)
{
    const struct list *l = &t->work->levels[level].list;
    const struct block_id bid = {
        .type = BLOCK_NODE,
        .order = (uint8_t)t->kind,
        .more = (uint16_t)level,
        .generation = t->generation,
        .key = tree_key(id, 0),
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
    return tree_put(t, bid.key, node, table + bytes);
}

/* Writes one node of at most `most` bytes of entries from the front of the
 * list and appends it one level up. */
static int
level_write(struct tree *t, unsigned level, size_t most)
{
    struct level *lv = &t->work->levels[level];
    struct list *l = &lv->list;
    uint8_t separator[BLOCK_ROW_MAX];
    size_t size = l->entries[0].size, used = 0;
    uint64_t id, rows;
    unsigned n = 0;
    int rc;

    while (n < l->count && used + NODE_ENTRY + l->entries[n].size <= most)
        used += NODE_ENTRY + l->entries[n++].size;
    assert(n > 0);
    memcpy(separator, l->separators, size);
    id =
        lv->spare_count > 0 ? lv->spares[--lv->spare_count] : t->root.next_id++;
    rc = node_write(t, level, n, id, &rows);
    if (rc < 0)
        return rc;
    list_shift(l, n);
    lv->written++;
    if (level == t->work->top) {
        rc = level_add(t);
        if (rc < 0)
            return rc;
    }
    level_put(&t->work->levels[level + 1], id, rows, separator, size);
    return 0;
}

/* Keeps room in the lists from this level up: a node written on one level is
 * an entry on the next. */
static int
levels_settle(struct tree *t, unsigned level)
{
    int rc = 0;

    while (rc == 0 && level <= t->work->top &&
           t->work->levels[level].list.used > LIST_FULL)
        rc = level_write(t, level++, NODE_ROOM * 7 / 8);
    return rc;
}

int
tree_level_append(struct tree *t, unsigned level, uint64_t child, uint64_t rows,
                  const uint8_t *separator, size_t size)
{
    level_put(&t->work->levels[level], child, rows, separator, size);
    return levels_settle(t, level);
}

/* Takes the node `id` as (more of) the level's old entries. */
static int
level_load(struct tree *t, unsigned level, uint64_t id)
{
    struct level *lv = &t->work->levels[level];
    int rc;

    rc = tree_node(t, id, level, &lv->old);
    if (rc < 0)
        return rc;
    memcpy(lv->copy, lv->old.bytes, get_le16(lv->old.bytes + 20));
    lv->old.bytes = lv->copy;
    lv->at = 0;
    if (lv->spare_count == SPARE_MAX)
        return tree_remove(t, tree_key(id, 0));
    lv->spares[lv->spare_count++] = id;
    return 0;
}

/* Consumes the entry at hand of the level above: its child is this level's
 * old node. */
static int
level_load_child(struct tree *t, unsigned level)
{
    struct level *lv = &t->work->levels[level];
    struct level *above = &t->work->levels[level + 1];
    const uint64_t id = node_child(&above->old, above->at);

    above->at++;
    lv->has_upper = above->at < above->old.count || above->has_upper;
    if (above->at < above->old.count)
        lv->upper = node_separator(&above->old, above->at);
    else if (above->has_upper)
        lv->upper = above->upper;
    return level_load(t, level, id);
}

static int
level_open(struct tree *t, unsigned level)
{
    struct level *lv = &t->work->levels[level];
    int rc;

    assert(!lv->open);
    lv->open = true;
    lv->written = 0;
    lv->spare_count = 0;
    list_clear(&lv->list);
    rc = level_load_child(t, level);
    if (rc < 0)
        return rc;
    lv->has_first = true;
    lv->first_size = row_size(node_separator_at(&lv->old, 0));
    memcpy(lv->first, node_separator_at(&lv->old, 0), lv->first_size);
    return 0;
}

/* Copies the old entry at hand to the list. */
static int
level_pass(struct tree *t, unsigned level)
{
    struct level *lv = &t->work->levels[level];
    const uint8_t *s = node_separator_at(&lv->old, lv->at);
    const uint64_t child = node_child(&lv->old, lv->at);
    const uint64_t rows = node_rows(&lv->old, lv->at);

    lv->at++;
    return tree_level_append(t, level, child, rows, s, row_size(s));
}

/* Writes the list, whole or in halves, and removes old nodes left over. */
static int
level_flush(struct tree *t, unsigned level)
{
    struct level *lv = &t->work->levels[level];
    int rc = 0;

    while (rc == 0 && lv->list.count > 0) {
        const size_t half = lv->list.used / 2 + BLOCK_ROW_MAX;

        rc = level_write(
            t, level,
            lv->list.used > NODE_ROOM && half < NODE_ROOM ? half : NODE_ROOM);
        if (rc == 0)
            rc = levels_settle(t, level + 1);
    }
    while (rc == 0 && lv->spare_count > 0)
        rc = tree_remove(t, tree_key(lv->spares[--lv->spare_count], 0));
    lv->open = false;
    return rc;
}

/* Passes the rest of the old node; then either closes the level or, when too
 * little is left to stand alone, goes on with the right neighbour. */
static int
level_close(struct tree *t, unsigned level)
{
    struct level *lv = &t->work->levels[level];
    struct level *above = &t->work->levels[level + 1];
    int rc = 0;

    while (rc == 0 && lv->at < lv->old.count)
        rc = level_pass(t, level);
    if (rc < 0)
        return rc;
    if (lv->list.count > 0 && lv->list.used < NODE_ROOM / 4 &&
        above->at < above->old.count)
        return level_load_child(t, level);
    return level_flush(t, level);
}

/* Opens the top level: the root node, or an entry made up for a root that is
 * a group. */
static int
sweep_start(struct tree *t)
{
    struct tree_work *w = t->work;
    struct level *lv;
    int rc;

    for (unsigned i = 0; i <= TREE_LEVELS; i++)
        w->levels[i].open = false;
    w->stage.active = false;
    w->top = t->root.level > 1 ? t->root.level - 1u : 0;
    rc = level_add(t);
    if (rc < 0)
        return rc;
    w->low = w->top;
    lv = &w->levels[w->top];
    if (t->root.level > 0)
        return level_load(t, w->top, t->root.id);
    if (t->root.id != 0) {
        lv->old.count = 1;
        put_le64(lv->copy + BLOCK_HEAD, t->root.count);
        put_le64(lv->copy + BLOCK_HEAD + 8,
                 t->root.id << 16 | (BLOCK_HEAD + NODE_ENTRY));
        (void)lowest(t->kind, lv->copy + BLOCK_HEAD + NODE_ENTRY);
    }
    return 0;
}

/* Whether `r` lies before the end of the level's node. */
static bool
level_covers(const struct tree *t, const struct level *lv, const struct row *r)
{
    return !lv->has_upper || row_compare(t->kind, r, &lv->upper) < 0;
}

/* Brings level 1 to the entry whose group would hold `r`. */
static int
sweep_seek(struct tree *t, const struct row *r)
{
    struct tree_work *w = t->work;
    int rc = 0;

    while (!level_covers(t, &w->levels[w->low], r)) {
        rc = level_close(t, w->low);
        if (rc < 0)
            return rc;
        if (!w->levels[w->low].open)
            w->low++;
    }
    for (;;) {
        struct level *lv = &w->levels[w->low];

        while (lv->at + 1 < lv->old.count) {
            const struct row s = node_separator(&lv->old, lv->at + 1);

            if (row_compare(t->kind, &s, r) > 0)
                break;
            rc = level_pass(t, w->low);
            if (rc < 0)
                return rc;
        }
        if (w->low == 1)
            return 0;
        rc = level_open(t, w->low - 1);
        if (rc < 0)
            return rc;
        w->low--;
    }
}

/* How many of the edits lie before `end` (NULL: all). */
static size_t
edits_before(enum block_order kind, const struct row *edits, size_t count,
             const struct row *end)
{
    size_t n = 0;

    if (end == NULL)
        return count;
    while (n < count && row_compare(kind, &edits[n], end) < 0)
        n++;
    return n;
}

/* Gives the group at hand its edits, and as many neighbours as it takes to
 * make up for one that has become too small.  Returns how many edits were
 * used through *used. */
static int
sweep_groups(struct tree *t, const struct row *edits, size_t count,
             size_t *used)
{
    struct level *lv = &t->work->levels[1];
    struct row end;
    int rc;

    *used = 0;
    do {
        const unsigned at = lv->at++;
        const uint8_t *s = node_separator_at(&lv->old, at);
        const bool last = lv->at >= lv->old.count;
        size_t n;

        if (!last)
            end = node_separator(&lv->old, lv->at);
        else if (lv->has_upper)
            end = lv->upper;
        n = edits_before(t->kind, edits + *used, count - *used,
                         last && !lv->has_upper ? NULL : &end);
        rc = tree_group_update(t, node_child(&lv->old, at),
                               node_rows(&lv->old, at), s, row_size(s),
                               edits + *used, n);
        if (rc < 0)
            return rc;
        *used += n;
    } while (tree_stage_small(t) && lv->at < lv->old.count);
    return t->work->stage.active ? tree_stage_finish(t) : 0;
}

/* An order without any group yet. */
static int
sweep_empty(struct tree *t, const struct row *edits, size_t count)
{
    uint8_t separator[BLOCK_ROW_MAX];
    int rc;

    tree_stage_start(t, separator, lowest(t->kind, separator));
    rc = tree_stage_inserts(t, edits, count);
    return rc < 0 ? rc : tree_stage_finish(t);
}

/* Closes all levels; what is left at the top is the root. */
static int
sweep_finish(struct tree *t)
{
    struct tree_work *w = t->work;
    int rc = 0;

    for (unsigned l = w->low; rc == 0; l++) {
        struct level *lv = &w->levels[l];

        while (rc == 0 && lv->open && l < w->top)
            rc = level_close(t, l);
        if (rc < 0 || l < w->top)
            continue;
        while (rc == 0 && lv->at < lv->old.count)
            rc = level_pass(t, l);
        if (rc < 0)
            return rc;
        if (l == w->top && lv->list.count < 2) {
            t->root.id = lv->list.count == 0 ? 0 : lv->list.entries[0].child;
            t->root.level = lv->list.count == 0 ? 0 : (uint16_t)(l - 1);
            list_clear(&lv->list);
            return level_flush(t, l);
        }
        rc = level_flush(t, l);
    }
    return rc;
}

int
tree_apply(struct tree *t, const struct row *edits, size_t count)
{
    uint64_t rows = t->root.count;
    size_t at = 0;
    int rc;

    assert(t->work != NULL);
    if (count == 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const unsigned sign = edits[i].flags & BLOCK_SIGN;

        assert(sign != 0);
        rows += sign == BLOCK_INSERT ? 1u : 0u;
        rows -= sign == BLOCK_DELETE ? 1u : 0u;
    }
    rc = sweep_start(t);
    if (rc == 0 && t->root.id == 0) {
        rc = sweep_empty(t, edits, count);
        at = count;
    }
    while (rc == 0 && at < count) {
        size_t used;

        rc = sweep_seek(t, &edits[at]);
        if (rc == 0)
            rc = sweep_groups(t, &edits[at], count - at, &used);
        if (rc == 0)
            at += used;
    }
    if (rc == 0)
        rc = sweep_finish(t);
    if (rc == 0)
        t->root.count = rows;
    return rc;
}

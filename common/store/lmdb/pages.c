/* common/store/lmdb/pages.c - see pages.h: pages_meta(), pages_each(),
 * pages_check_newest(), pages_undo_commit(), pages_value_ok(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/pages.h"

#include <errno.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/store/lmdb/pages_layout.h"

#define MAP_SIZE_MAX ((uint64_t)1 << 45)
#define TXN_MAX      ((uint64_t)1 << 62)
#define CHECK_TRIES  4 /* other processes may commit meanwhile */

off_t
pages_lock_size(unsigned readers)
{
    return ((off_t)readers + 2) * LOCK_LINE;
}

/* ---- meta pages -------------------------------------------------------- */

static int
meta_read(int fd, uint64_t at, struct pages_meta *out, const char **why)
{
    uint8_t bytes[META_SIZE];
    ssize_t size;

    *why = "read its meta pages";
    size = pread(fd, bytes, sizeof bytes, (off_t)at);
    if (size < 0)
        return -errno;
    *why =
        at == 0 ? "it is not an LMDB file" : "its second meta page is damaged";
    if (size != (ssize_t)sizeof bytes ||
        native32(bytes + META_MAGIC_AT) != META_MAGIC ||
        native32(bytes + META_VERSION_AT) != META_VERSION ||
        (native16(bytes + PAGE_FLAGS_AT) & PAGE_META) == 0)
        return -EBADMSG;
    out->map_size = native64(bytes + META_MAP_AT);
    out->page_size = native32(bytes + META_FREE_AT);
    out->last_page = native64(bytes + META_LAST_AT);
    out->txn = native64(bytes + META_TXN_AT);
    memcpy(out->free, bytes + META_FREE_AT, sizeof out->free);
    memcpy(out->main, bytes + META_MAIN_AT, sizeof out->main);
    if (page_size_ok(out->page_size))
        return 0;
    *why = "its page size is damaged";
    return -EBADMSG;
}

/* Whether LMDB can have written these numbers: transactions alternate between
 * the pages, and a new file has two meta pages numbered 0. */
static bool
txns_ok(const struct pages_meta metas[2])
{
    return metas[0].txn % 2 == 0 && metas[0].txn < TXN_MAX &&
           metas[1].txn < TXN_MAX &&
           (metas[1].txn % 2 == 1 || (metas[0].txn == 0 && metas[1].txn == 0));
}

/* The index of the meta page that LMDB uses. */
static unsigned
newest_of(const struct pages_meta metas[2])
{
    return metas[0].txn < metas[1].txn ? 1 : 0;
}

/* Reads both meta pages. */
static int
read_metas(int fd, struct pages_meta metas[2], const char **why)
{
    const struct pages_meta *newest;
    int rc;

    rc = meta_read(fd, 0, &metas[0], why);
    if (rc == 0)
        rc = meta_read(fd, metas[0].page_size, &metas[1], why);
    if (rc < 0)
        return rc;
    *why = "its page size is damaged";
    if (metas[0].page_size != metas[1].page_size)
        return -EBADMSG;
    *why = "a transaction number in its meta pages is damaged";
    if (!txns_ok(metas))
        return -EBADMSG;

    /* The next commit overwrites the other one. */
    newest = &metas[newest_of(metas)];
    *why = "its size is damaged";
    return newest->map_size > MAP_SIZE_MAX || newest->last_page < 1 ||
                   newest->last_page >= MAP_SIZE_MAX / newest->page_size
               ? -EBADMSG
               : 0;
}

int
pages_meta(int fd, struct pages_meta *out, const char **why)
{
    struct pages_meta metas[2];
    const int rc = read_metas(fd, metas, why);

    if (rc == 0)
        *out = metas[newest_of(metas)];
    return rc;
}

/* ---- records ------------------------------------------------------------ */

/* A walk over the leaves of a database, as of a meta page: its path from the
 * root, and at each branch the next node. */
struct walk {
    int fd;
    const struct pages_meta *meta;
    unsigned flags; /* of the nodes that are wanted */
    uint64_t number[DEPTH_MAX];
    int next[DEPTH_MAX];
    unsigned depth;
    unsigned level;
    uint64_t reads; /* pages; a loop in a damaged file ends at a bound */
    int (*each)(void *ctx, uint8_t *key, size_t key_size, uint8_t *value,
                size_t size);
    void *ctx;
    uint8_t page[PAGES_SIZE_MAX]; /* the one at the end of the path */
};

/* Reads a branch or leaf page; returns its number of nodes. */
static int
read_page(struct walk *w, uint64_t number, bool leaf)
{
    const size_t page_size = w->meta->page_size;
    unsigned count;
    ssize_t size;

    if (number < 2 || number > w->meta->last_page ||
        number >= MAP_SIZE_MAX / page_size)
        return -EBADMSG;
    size = pread(w->fd, w->page, page_size, (off_t)(number * page_size));
    if (size < 0)
        return -errno;
    if (size != (ssize_t)page_size)
        return -EBADMSG;
    count = page_count(w->page, page_size, number, leaf);
    return count > 0 ? (int)count : -EBADMSG;
}

static int
visit_leaf(struct walk *w, int count)
{
    for (int i = 0; i < count; i++) {
        struct page_node node;
        int rc;

        if (!page_node(w->page, w->meta->page_size, true, (size_t)i, &node))
            return -EBADMSG;
        if (node.flags != w->flags)
            continue;
        rc = w->each(w->ctx, w->page + (node.key - w->page), node.key_size,
                     w->page + (node.data - w->page), node.size);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Reads the page at the end of the path, and goes on to the next one.  *end:
 * it was the last. */
static int
walk_page(struct walk *w, bool *end)
{
    const bool is_leaf = w->level + 1 == w->depth;
    struct page_node node;
    int count, rc = 0;

    if (w->reads++ > 2 * w->meta->last_page)
        return -EBADMSG;
    count = read_page(w, w->number[w->level], is_leaf);
    if (count < 0)
        return count;
    if (is_leaf)
        rc = visit_leaf(w, count);
    if (rc != 0)
        return rc;
    if (is_leaf || w->next[w->level] == count) {
        *end = w->level-- == 0;
        return 0;
    }
    if (!page_node(w->page, w->meta->page_size, false,
                   (size_t)w->next[w->level]++, &node))
        return -EBADMSG;
    w->level++;
    w->number[w->level] = node.child;
    w->next[w->level] = 0;
    return 0;
}

/* Walks the database of this record. */
static int
walk_database(struct walk *w, const uint8_t db[PAGES_DB_SIZE])
{
    bool end = false;
    int rc = 0;

    w->number[0] = native64(db + DB_ROOT_AT);
    w->depth = native16(db + DB_DEPTH_AT);
    w->next[0] = 0;
    w->level = 0;
    w->reads = 0;
    if (native16(db + DB_FLAGS_AT) != 0 || w->depth > DEPTH_MAX)
        return -EBADMSG;
    if (w->depth == 0)
        return w->number[0] == DB_ROOT_NONE ? 0 : -EBADMSG;
    while (rc == 0 && !end)
        rc = walk_page(w, &end);
    return rc;
}

struct named {
    const char *name;
    uint8_t record[PAGES_DB_SIZE];
};

/* Stops at the record of the database that has the name. */
static int
take_database(void *ctx, uint8_t *key, size_t key_size, uint8_t *value,
              size_t size)
{
    struct named *n = ctx;

    if (!bytes_equal(key, key_size, n->name, strlen(n->name)))
        return 0;
    if (size != sizeof n->record)
        return -EBADMSG;
    memcpy(n->record, value, size);
    return 1;
}

int
pages_each(int fd, const struct pages_meta *meta, const char *db,
           int (*each)(void *ctx, uint8_t *key, size_t key_size, uint8_t *value,
                       size_t size),
           void *ctx)
{
    struct named named = {.name = db};
    struct walk w = {.fd = fd,
                     .meta = meta,
                     .flags = NODE_SUB,
                     .each = take_database,
                     .ctx = &named};
    int rc;

    rc = walk_database(&w, meta->main);
    if (rc <= 0)
        return rc < 0 ? rc : -ENOENT;
    w.flags = 0;
    w.each = each;
    w.ctx = ctx;
    return walk_database(&w, named.record);
}

/* ---- the newest commit --------------------------------------------------- */

struct counting {
    const struct pages_counter *counter;
    uint64_t *out;
};

/* Stops at the record of the counter. */
static int
take_counter(void *ctx, uint8_t *key, size_t key_size, uint8_t *value,
             size_t size)
{
    const struct counting *c = ctx;

    if (!bytes_equal(key, key_size, c->counter->key, strlen(c->counter->key)))
        return 0;
    return c->counter->get(value, size, c->out) ? 1 : -EBADMSG;
}

/* Reads the counter as of a meta page; -ENODATA if the page leads to none. */
static int
counter_read(int fd, const struct pages_meta *meta,
             const struct pages_counter *counter, uint64_t *out)
{
    struct counting c = {.counter = counter, .out = out};
    const int rc = pages_each(fd, meta, counter->db, take_counter, &c);

    if (rc == 1)
        return 0;
    return rc == 0 || rc == -ENOENT || rc == -EBADMSG ? -ENODATA : rc;
}

static bool
same_commits(const struct pages_meta a[2], const struct pages_meta b[2])
{
    return a[0].txn == b[0].txn && a[1].txn == b[1].txn &&
           memcmp(a[0].main, b[0].main, sizeof a[0].main) == 0 &&
           memcmp(a[1].main, b[1].main, sizeof a[1].main) == 0;
}

int
pages_check_newest(int fd, const struct pages_counter *counter,
                   const char **why)
{
    struct pages_meta metas[2], now[2];
    int rc;

    rc = read_metas(fd, metas, why);
    for (int i = 0; rc == 0 && i < CHECK_TRIES; i++) {
        const unsigned newest = newest_of(metas);
        uint64_t used = 0, other = 0;
        int looked;

        looked = counter_read(fd, &metas[newest], counter, &used);
        if (looked == 0)
            looked = counter_read(fd, &metas[1 - newest], counter, &other);
        rc = read_metas(fd, now, why);
        if (rc < 0)
            break;
        if (looked < 0 || other <= used)
            return looked < 0 && looked != -ENODATA ? looked : 0;
        *why = "an older commit would be taken for the newest: a meta page is "
               "damaged";
        if (same_commits(metas, now))
            return -EBADMSG;
        memcpy(metas, now, sizeof metas);
    }
    return rc;
}

int
pages_undo_commit(int fd, uint64_t txn)
{
    uint8_t bytes[META_SIZE];
    struct pages_meta metas[2];
    const char *why;
    unsigned newest;
    int rc;

    rc = read_metas(fd, metas, &why);
    if (rc < 0)
        return rc;
    newest = newest_of(metas);
    if (metas[newest].txn + 1 != txn)
        return 0; /* it happened after all */
    if (pread(fd, bytes, sizeof bytes,
              (off_t)newest * (off_t)metas[newest].page_size) !=
        (ssize_t)sizeof bytes)
        return -EIO;
    memcpy(bytes + META_TXN_AT, &metas[1 - newest].txn, sizeof(uint64_t));

    /* As LMDB does, write nothing before the map size: the page's number. */
    if (pwrite(fd, bytes + META_MAP_AT, META_SIZE - META_MAP_AT,
               (off_t)(1 - newest) * (off_t)metas[newest].page_size +
                   (off_t)META_MAP_AT) != META_SIZE - META_MAP_AT)
        return -EIO;
    return fdatasync(fd) < 0 ? -errno : 0;
}

/* ---- before a value is replaced ---------------------------------------- */

void
pages_map_find(struct pages_map *map, const void *value, size_t page_size,
               size_t map_size)
{
    const size_t into = (uintptr_t)value % page_size;
    const uint8_t *page = (const uint8_t *)value - into;

    *map = (struct pages_map){.page_size = page_size, .size = map_size};

    /* LMDB maps the file at a boundary of the system's pages, which may be
     * smaller than a page of the file. */
    if (page_size > (size_t)sysconf(_SC_PAGESIZE) || into < PAGE_HEAD ||
        native16(page + PAGE_FLAGS_AT) != PAGE_LEAF ||
        native64(page) >= map_size / page_size)
        return;
    map->start = (uintptr_t)page - native64(page) * page_size;
}

bool
pages_value_ok(const struct pages_map *map, const void *value, size_t size)
{
    const uint8_t *head = (const uint8_t *)value - PAGE_HEAD;
    const size_t at = (uintptr_t)head - map->start;

    /* Not an overflow page in the map: the value is in a leaf, or in memory
     * that this transaction allocated. */
    if (map->start == 0 || (uintptr_t)value % map->page_size != PAGE_HEAD ||
        at >= map->size)
        return true;
    return native64(head) == at / map->page_size &&
           native16(head + PAGE_FLAGS_AT) == PAGE_OVER &&
           native32(head + PAGE_COUNT_AT) ==
               (PAGE_HEAD - 1 + size) / map->page_size + 1;
}

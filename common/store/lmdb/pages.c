/* common/store/lmdb/pages.c - an LMDB file page by page, without LMDB.
 *
 * LMDB believes its pages: a damaged one makes it crash or read beyond the
 * file.  This reads them first: every page that the roots of one snapshot
 * reach must lie inside the file, know its own number, be of the right type,
 * hold its nodes inside itself and be reached once; pages on the free list
 * must not be in use.
 *
 * A free list value is a count u64 and that many page numbers.
 */
#include "common/store/lmdb/keyspace.h"
#include "common/store/lmdb/page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SUBS_MAX  16
#define ROOT_NONE UINT64_MAX

struct walker {
    struct keyspace_walk *out;
    const uint8_t *map;
    uint64_t pages;     /* the file has whole */
    uint64_t last_page; /* as the meta page says */
    size_t page_size;
    uint8_t *seen; /* one bit per page */
    unsigned sub_count;
    uint8_t subs[SUBS_MAX][DB_SIZE]; /* databases found in the main one */
};

static void
fault(struct walker *w, uint64_t page, const char *what)
{
    char text[100];

    if (w->out->faults++ >= 100)
        return;
    (void)snprintf(text, sizeof text, "page %llu: %s", (unsigned long long)page,
                   what); /* fits */
    w->out->fault(w->out->ctx, text);
}

/* Takes `count` pages from `page` on as in use. */
static bool
take(struct walker *w, uint64_t page, uint64_t count)
{
    if (page < 2 || count == 0 || count > w->last_page ||
        page + count - 1 > w->last_page) {
        fault(w, page, "number out of range");
        return false;
    }
    if (page + count > w->pages) {
        fault(w, page, "beyond the end of the file");
        return false;
    }
    for (uint64_t i = page; i < page + count; i++) {
        if ((w->seen[i / 8] >> (i % 8) & 1) != 0) {
            fault(w, i, "used twice");
            return false;
        }
        w->seen[i / 8] = (uint8_t)(w->seen[i / 8] | 1u << (i % 8));
    }
    w->out->used_pages += count;
    return true;
}

/* The offsets of a branch or leaf page, checked; 0 when it is damaged. */
static unsigned
page_nodes(struct walker *w, const uint8_t *page, uint64_t number)
{
    const unsigned lower = native16(page + 12), upper = native16(page + 14);

    if (native64(page) != number) {
        fault(w, number, "is another page");
        return 0;
    }
    if (lower < PAGE_HEAD || lower > upper || upper > w->page_size ||
        lower == PAGE_HEAD || (lower & 1) != 0) {
        fault(w, number, "damaged header");
        return 0;
    }
    return (lower - PAGE_HEAD) / 2;
}

/* Node i of a page when its head and key lie inside; else NULL. */
static const uint8_t *
page_node(struct walker *w, const uint8_t *page, uint64_t number, unsigned i)
{
    const size_t at = native16(page + PAGE_HEAD + 2 * (size_t)i);

    if (at < native16(page + 14) || at + NODE_HEAD > w->page_size ||
        at + NODE_HEAD + native16(page + at + 6) > w->page_size) {
        fault(w, number, "node outside");
        return NULL;
    }
    return page + at;
}

/* A value of the free list: none of its pages may be in use, or twice. */
static void
free_value(struct walker *w, uint64_t number, const uint8_t *data, size_t size)
{
    const uint64_t count = size >= 8 ? native64(data) : 0;

    if (size < 8 || count > (size - 8) / 8) {
        fault(w, number, "damaged free list");
        return;
    }
    w->out->free_pages += count;
    for (uint64_t i = 1; i <= count; i++) {
        const uint64_t page = native64(data + 8 * i);

        if (page < 2 || page > w->last_page)
            fault(w, page, "free, and out of range");
        else if ((w->seen[page / 8] >> (page % 8) & 1) != 0)
            fault(w, page, "free, and in use or free twice");
        else
            w->seen[page / 8] = (uint8_t)(w->seen[page / 8] | 1u << (page % 8));
    }
}

/* A leaf's value: inside the page, or on overflow pages. */
static void
leaf_value(struct walker *w, const uint8_t *page, uint64_t number,
           const uint8_t *node, bool free_list)
{
    const size_t size = native16(node) | (size_t)native16(node + 2) << 16;
    const unsigned flags = native16(node + 4);
    const uint8_t *data = node + NODE_HEAD + native16(node + 6);
    const size_t room = (size_t)(page + w->page_size - data);
    uint64_t first, count;

    if (((flags & NODE_BIG) != 0 ? 8 : size) > room) {
        fault(w, number, "value outside");
        return;
    }
    if ((flags & NODE_SUB) != 0) {
        if (size != DB_SIZE || w->sub_count == SUBS_MAX) {
            fault(w, number, "damaged database record");
            return;
        }
        memcpy(w->subs[w->sub_count++], data, DB_SIZE);
        return;
    }
    if ((flags & NODE_BIG) != 0) {
        first = native64(data);
        count = (PAGE_HEAD - 1 + size) / w->page_size + 1;
        if (!take(w, first, count) || (w->out->quick && !free_list))
            return;
        data = w->map + first * w->page_size;
        if (native64(data) != first || (native16(data + 10) & PAGE_OVER) == 0 ||
            native32(data + 12) < count) {
            fault(w, first, "is no overflow page");
            return;
        }
        data += PAGE_HEAD;
    }
    if (free_list)
        free_value(w, number, data, size);
}

/* Whether a database's record is one to follow. */
static bool
database_ok(struct walker *w, const uint8_t *db, bool free_list)
{
    const unsigned want = free_list ? MDB_INTEGERKEY : 0;
    const unsigned leaf = native16(db + DB_DEPTH_AT);
    unsigned flags = native16(db + DB_FLAGS_AT);

    /* We ask for no kind of database but the plain one.  Those of the free
     * list hold flags of the environment as well. */
    if (free_list)
        flags &= ~(unsigned)MDB_NOSUBDIR;
    if (flags != want) {
        fault(w, 0, "damaged flags of a database");
        return false;
    }
    if (native64(db + DB_ROOT_AT) == ROOT_NONE && leaf == 0)
        return false;
    if (leaf == 0 || leaf > DEPTH_MAX) {
        fault(w, native64(db + DB_ROOT_AT), "damaged depth");
        return false;
    }
    return true;
}

/* Takes a branch or leaf page; returns how many nodes to look at. */
static unsigned
enter(struct walker *w, uint64_t number, bool is_leaf)
{
    const uint8_t *page;

    if (!take(w, number, 1))
        return 0;
    page = w->map + number * w->page_size;

    /* Exactly: LMDB stops the process at some other flags. */
    if (native16(page + 10) != (is_leaf ? PAGE_LEAF : PAGE_BRANCH)) {
        fault(w, number, "of the wrong type");
        return 0;
    }
    return page_nodes(w, page, number);
}

/* One database, from its record. */
static void
walk_database(struct walker *w, const uint8_t *db, bool free_list)
{
    uint64_t numbers[DEPTH_MAX];
    unsigned at[DEPTH_MAX], count[DEPTH_MAX], depth = 0;
    const unsigned leaf = native16(db + DB_DEPTH_AT);

    if (!database_ok(w, db, free_list))
        return;
    numbers[0] = native64(db + DB_ROOT_AT);
    at[0] = 0;
    count[0] = enter(w, numbers[0], leaf == 1);
    for (;;) {
        const uint8_t *page, *node;

        if (at[depth] == count[depth]) {
            if (depth-- == 0)
                break;
            continue;
        }
        page = w->map + numbers[depth] * w->page_size;
        node = page_node(w, page, numbers[depth], at[depth]++);
        if (node == NULL)
            continue;
        if (depth + 1 == leaf) {
            leaf_value(w, page, numbers[depth], node, free_list);
            continue;
        }
        depth++;
        numbers[depth] = branch_child(node);
        at[depth] = 0;
        count[depth] = enter(w, numbers[depth], depth + 1 == leaf);
    }
}

int
keyspace_walk(int fd, const struct keyspace_meta *meta,
              struct keyspace_walk *out)
{
    struct walker w = {
        .out = out,
        .page_size = meta->page_size,
        .last_page = meta->last_page,
    };
    struct stat st;
    void *map;
    int rc = 0;

    out->used_pages = 2;
    out->free_pages = 0;
    out->faults = 0;
    if (fstat(fd, &st) < 0)
        return -errno;
    w.pages = (uint64_t)st.st_size / w.page_size;
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    w.map = map;
    w.seen = calloc(1, (size_t)(meta->last_page / 8 + 1));
    if (w.seen == NULL) {
        rc = -ENOMEM;
        goto unmap;
    }
    walk_database(&w, meta->main, false);
    for (unsigned i = 0; i < w.sub_count; i++)
        walk_database(&w, w.subs[i], false);
    walk_database(&w, meta->free, true);
    free(w.seen);

unmap:
    (void)munmap(map, (size_t)st.st_size); /* only read */
    return rc;
}

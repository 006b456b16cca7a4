/* common/store/lmdb/pages_check.c - see pages.h: pages_check() and
 * pages_check_file() read a file page by page, before LMDB opens it;
 * pages_each() reads the records of one database.
 *
 * One walk goes over the databases of the newest commit, from the roots in its
 * meta page down, with a buffer per level.  A bit per page records that it is
 * in use or free, so no page is read twice, and the walk ends. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/bytes.h"
#include "common/store/lmdb/pages.h"

#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/store/lmdb/pages_layout.h"

#define CHECK_TRIES     4
#define FAULTS_REPORTED 100
#define SUBS_MAX        16
#define KEY_MAX         511

/* Pages at the end that a commit allocated, never wrote, and freed again. */
#define UNWRITTEN_MAX ((uint64_t)1 << 20)

/* A process that only reads trusts the pages of a file larger than this. */
#define QUICK_SIZE ((uint64_t)256 << 20)

/* A page on the path from a root to a leaf.  A bound whose key is NULL bounds
 * nothing. */
struct page_level {
    uint8_t *page;
    uint64_t number;
    unsigned count; /* nodes */
    unsigned at;    /* index of the next node to read */
    struct page_node least;
    struct page_node above;
};

struct walker {
    struct pages_check *out;
    const struct pages_records *asked; /* NULL: everything is checked */
    bool found;                        /* the database that is asked for: */
    uint8_t record[PAGES_DB_SIZE];
    int fd;
    int error; /* of a failed read; or 0 */
    size_t page_size;
    uint64_t file_pages; /* entirely inside the file */
    uint64_t last_page;  /* by the meta page */
    uint64_t txn;
    bool free_list;   /* the current database is the free list */
    bool main;        /* or the main one */
    uint64_t largest; /* bound for the next number in a free list's value */
    uint8_t *seen;    /* one bit per page */
    uint8_t *piece;   /* of a value with overflow pages */
    struct page_level levels[DEPTH_MAX];
    uint64_t starts[PAGES_SIZE_MAX / 2 / 64]; /* of nodes in a page */
    unsigned sub_count;
    uint8_t subs[SUBS_MAX][PAGES_DB_SIZE]; /* databases in the main one */
};

static void
report_fault(struct walker *w, uint64_t page, const char *what)
{
    char text[100];

    if (w->out->faults++ >= FAULTS_REPORTED || w->out->fault == NULL)
        return;
    (void)snprintf(text, sizeof text, "page %llu: %s", (unsigned long long)page,
                   what);
    w->out->fault(w->out->ctx, text);
}

/* ---- pages of the file ------------------------------------------------- */

/* Marks a page as seen; false if it was seen before. */
static bool
mark_page(struct walker *w, uint64_t page)
{
    const uint8_t bit = (uint8_t)(1u << (page % 8));

    if ((w->seen[page / 8] & bit) != 0)
        return false;
    w->seen[page / 8] |= bit;
    return true;
}

/* Marks `count` pages from `page` on as in use.  False, with a fault reported,
 * if they are outside the file or marked already. */
static bool
take_pages(struct walker *w, uint64_t page, uint64_t count)
{
    if (page < 2 || page > w->last_page || count == 0 ||
        count - 1 > w->last_page - page) {
        report_fault(w, page, "number out of range");
        return false;
    }
    if (count > w->file_pages || page > w->file_pages - count) {
        report_fault(w, page, "beyond the end of the file");
        return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!mark_page(w, page + i)) {
            report_fault(w, page + i, "used twice");
            return false;
        }
    }
    w->out->used_size += count * w->page_size;
    return true;
}

/* Reads a piece of the file; false if it is not (or no longer) there. */
static bool
read_piece(struct walker *w, uint64_t page, size_t at, uint8_t *bytes,
           size_t size)
{
    const ssize_t n =
        pread(w->fd, bytes, size, (off_t)(page * w->page_size + at));

    if (n == (ssize_t)size)
        return true;
    w->error = n < 0 ? -errno : w->error;
    report_fault(w, page, "cannot be read");
    return false;
}

/* ---- the free list ----------------------------------------------------- */

/* Checks the page numbers of a free list's value: none may be in use, or occur
 * twice. */
static void
check_free_pages(struct walker *w, const uint8_t *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t page = native64(bytes + 8 * i);

        if (page < 2 || page > w->last_page)
            report_fault(w, page, "free, and out of range");
        else if (page >= w->largest)
            report_fault(w, page, "free, and out of order");
        else if (!mark_page(w, page))
            report_fault(w, page, "free, and in use or free twice");
        w->largest = page;
    }
}

/* Bytes of a node's value, which begins at page `first` if it has overflow
 * pages; NULL if they cannot be read. */
static const uint8_t *
value_piece(struct walker *w, const struct page_node *node, uint64_t first,
            size_t at, size_t size)
{
    if ((node->flags & NODE_BIG) == 0)
        return node->data + at;
    return read_piece(w, first, PAGE_HEAD + at, w->piece, size) ? w->piece
                                                                : NULL;
}

/* Checks a value of the free list: a count, and the page numbers. */
static void
check_free_value(struct walker *w, uint64_t number,
                 const struct page_node *node, uint64_t first)
{
    const uint8_t *bytes = NULL;
    uint64_t count, n;

    /* LMDB would reuse pages that commit 0 freed again and again. */
    if (native64(node->key) == 0 || native64(node->key) > w->txn)
        report_fault(w, number, "free list of no commit there was");
    if (node->size >= 8)
        bytes = value_piece(w, node, first, 0, 8);
    if (bytes == NULL || native64(bytes) > node->size / 8 - 1) {
        report_fault(w, number, "damaged free list");
        return;
    }
    count = native64(bytes);
    w->largest = UINT64_MAX;
    for (uint64_t done = 0; done < count; done += n) {
        n = w->page_size / 8 < count - done ? w->page_size / 8 : count - done;
        bytes = value_piece(w, node, first, 8 * (done + 1), 8 * n);
        if (bytes == NULL)
            return;
        check_free_pages(w, bytes, n);
    }
}

/* ---- nodes ------------------------------------------------------------- */

/* Node i of a page whose nodes have been checked. */
static struct page_node
good_node(const struct walker *w, const struct page_level *l, bool leaf,
          unsigned i)
{
    struct page_node node = {.key = NULL};

    /* nodes_ok() has checked that the node is inside the page. */
    (void)page_node(l->page, w->page_size, leaf, i, &node);
    return node;
}

/* Marks the overflow pages of a value as in use.  Returns the first; 0 if they
 * are damaged. */
static uint64_t
take_value(struct walker *w, const struct page_node *node)
{
    const uint64_t first = native64(node->data);
    uint64_t count = (PAGE_HEAD - 1 + node->size) / w->page_size + 1;
    uint8_t head[PAGE_HEAD];

    /* A value that was shortened keeps its pages in LMDB. */
    if (!w->out->quick || w->free_list) {
        if (first < 2 || first >= w->file_pages) {
            report_fault(w, first, "number out of range");
            return 0;
        }
        if (!read_piece(w, first, 0, head, sizeof head))
            return 0;
        if (native64(head) != first ||
            native16(head + PAGE_FLAGS_AT) != PAGE_OVER ||
            native32(head + PAGE_COUNT_AT) < count) {
            report_fault(w, first, "is not an overflow page");
            return 0;
        }
        count = native32(head + PAGE_COUNT_AT);
    }
    return take_pages(w, first, count) ? first : 0;
}

/* Checks a leaf's node.  LMDB would follow unknown flags to pages that do not
 * exist, and database records in any database. */
static void
check_leaf_node(struct walker *w, uint64_t number, const struct page_node *node)
{
    uint64_t first = 0;

    if (node->flags == NODE_SUB && w->main) {
        if (node->size != PAGES_DB_SIZE || w->sub_count == SUBS_MAX)
            report_fault(w, number, "damaged database record");
        else
            memcpy(w->subs[w->sub_count++], node->data, PAGES_DB_SIZE);
        return;
    }
    if (node->flags != 0 && node->flags != NODE_BIG) {
        report_fault(w, number, "node of unknown kind");
        return;
    }
    if (node->flags == NODE_BIG) {
        first = take_value(w, node);
        if (first == 0)
            return;
    }
    if (w->free_list)
        check_free_value(w, number, node, first);
}

/* Gives a record to asked->each() and returns its value; in the main database
 * returns 1 at the record of the database that is asked for. */
static int
give_node(struct walker *w, const struct page_level *l,
          const struct page_node *node)
{
    const struct pages_records *asked = w->asked;

    if (!w->main)
        return node->flags != 0
                   ? 0
                   : asked->each(asked->ctx, l->page + (node->key - l->page),
                                 node->key_size,
                                 l->page + (node->data - l->page), node->size);
    if (node->flags != NODE_SUB ||
        !bytes_equal(node->key, node->key_size, asked->db, strlen(asked->db)))
        return 0;
    if (node->size != sizeof w->record)
        return -EBADMSG;
    memcpy(w->record, node->data, sizeof w->record);
    w->found = true;
    return 1;
}

static int
compare_nodes(const struct walker *w, const struct page_node *a,
              const struct page_node *b)
{
    if (w->free_list) /* keys are numbers of 8 bytes */
        return (native64(a->key) > native64(b->key)) -
               (native64(a->key) < native64(b->key));
    return bytes_compare(a->key, a->key_size, b->key, b->key_size);
}

/* Whether LMDB writes nodes of this size, with such a key. */
static bool
node_size_ok(const struct walker *w, const struct page_node *node, bool leaf,
             bool has_key)
{
    const size_t most = ((w->page_size - PAGE_HEAD) / 2 & ~(size_t)1) - 2;

    if (node->end - node->at > most || node->key_size > KEY_MAX)
        return false;
    if (leaf || has_key)
        return w->free_list ? node->key_size == 8 : node->key_size > 0;
    return true;
}

/* Whether the nodes fill the page from `upper` to its end without gap or
 * overlap: their sizes add up to it, and where one ends another begins. */
static bool
nodes_are_packed(struct walker *w, const struct page_level *l, bool leaf)
{
    const size_t upper = native16(l->page + PAGE_UPPER_AT);
    bool starts = false, meet = true;
    size_t sum = 0;

    memset(w->starts, 0, sizeof w->starts);
    for (unsigned i = 0; i < l->count; i++) {
        const struct page_node node = good_node(w, l, leaf, i);

        w->starts[node.at / 128] |= (uint64_t)1 << (node.at / 2 % 64);
        starts = starts || node.at == upper;
        sum += node.end - node.at;
    }
    for (unsigned i = 0; i < l->count; i++) {
        const struct page_node node = good_node(w, l, leaf, i);

        meet = meet &&
               (node.end == w->page_size ||
                (w->starts[node.end / 128] >> (node.end / 2 % 64) & 1) != 0);
    }
    return starts && meet && sum == w->page_size - upper;
}

/* Whether LMDB can read all nodes of a page and find by key what is in it.  To
 * read records, it suffices that the nodes are inside the page. */
static bool
nodes_ok(struct walker *w, const struct page_level *l, bool leaf)
{
    struct page_node last = l->least;
    const char *what = NULL;

    for (unsigned i = 0; i < l->count && what == NULL; i++) {
        const bool has_key = leaf || i > 0;
        struct page_node node;

        if (!page_node(l->page, w->page_size, leaf, i, &node))
            what = "node outside";
        else if (w->asked)
            continue;
        else if (!node_size_ok(w, &node, leaf, has_key))
            what = "node of a wrong size";
        else if (has_key && last.key != NULL &&
                 compare_nodes(w, &last, &node) >= (leaf && i == 0 ? 1 : 0))
            what = "keys out of order";
        else if (has_key && l->above.key != NULL &&
                 compare_nodes(w, &node, &l->above) >= 0)
            what = "key of another page";
        if (has_key)
            last = node;
    }
    if (what == NULL && !w->asked && !nodes_are_packed(w, l, leaf))
        what = "nodes overlap";
    if (what == NULL && !w->asked && !leaf && l->count < 2 && !w->free_list)
        what = "branch of one";
    if (what != NULL)
        report_fault(w, l->number, what);
    return what == NULL;
}

/* ---- databases --------------------------------------------------------- */

/* Whether a database's record can be followed. */
static bool
database_ok(struct walker *w, const uint8_t *db)
{
    const unsigned depth = native16(db + DB_DEPTH_AT);
    const uint64_t root = native64(db + DB_ROOT_AT);
    unsigned flags = native16(db + DB_FLAGS_AT);

    /* countd uses plain databases only.  The free list's record also has flags
     * of the environment. */
    if (w->free_list)
        flags &= ~(unsigned)MDB_NOSUBDIR;
    if (flags != (w->free_list ? MDB_INTEGERKEY : 0)) {
        report_fault(w, 0, "damaged flags of a database");
        return false;
    }
    if (root == DB_ROOT_NONE && depth == 0)
        return false;
    if (depth == 0 || depth > DEPTH_MAX) {
        report_fault(w, root, "damaged depth");
        return false;
    }
    return true;
}

/* Enters a page; a damaged page appears as empty.  -ENOMEM. */
static int
enter_page(struct walker *w, struct page_level *l, uint64_t number, bool leaf)
{
    if (l->page == NULL)
        l->page = malloc(w->page_size);
    if (l->page == NULL)
        return -ENOMEM;
    l->number = number;
    l->at = 0;
    l->count = 0;
    if (!take_pages(w, number, 1) ||
        !read_piece(w, number, 0, l->page, w->page_size))
        return 0;
    l->count = page_count(l->page, w->page_size, number, leaf);
    if (l->count == 0)
        report_fault(w, number, "damaged header");
    else if (!nodes_ok(w, l, leaf))
        l->count = 0;
    return 0;
}

/* Enters the page below the next node of a branch. */
static int
enter_child(struct walker *w, struct page_level *l, bool leaf)
{
    const struct page_node node = good_node(w, l, false, l->at);
    struct page_level *below = l + 1;

    below->least = l->at > 0 ? node : l->least;
    below->above = l->above;
    l->at++;
    if (l->at < l->count)
        below->above = good_node(w, l, false, l->at);
    return enter_page(w, below, node.child, leaf);
}

/* Walks one database, from its record. */
static int
walk_database(struct walker *w, const uint8_t *db)
{
    const unsigned depth = native16(db + DB_DEPTH_AT);
    struct page_level *l = w->levels;
    int rc;

    if (!database_ok(w, db))
        return 0;
    l->least.key = NULL;
    l->above.key = NULL;
    rc = enter_page(w, l, native64(db + DB_ROOT_AT), depth == 1);
    while (rc == 0) {
        if (l->at == l->count) {
            if (l == w->levels)
                break;
            l--;
        } else if (l + 1 == w->levels + depth) {
            const struct page_node node = good_node(w, l, true, l->at++);

            if (w->asked)
                rc = give_node(w, l, &node);
            else
                check_leaf_node(w, l->number, &node);
        } else {
            rc = enter_child(w, l, l + 2 == w->levels + depth);
            l++;
        }
    }
    return rc;
}

/* All databases, or the one that is asked for. */
static int
walk_databases(struct walker *w, const struct pages_meta *meta)
{
    int rc;

    w->main = true;
    rc = walk_database(w, meta->main);
    w->main = false;
    if (w->asked && rc >= 0)
        return w->found ? walk_database(w, w->record) : -ENOENT;
    for (unsigned i = 0; rc == 0 && i < w->sub_count; i++)
        rc = walk_database(w, w->subs[i]);
    w->free_list = true;
    return rc < 0 ? rc : walk_database(w, meta->free);
}

/* ---- the whole file ---------------------------------------------------- */

/* Reads every page that a meta page leads to, or only those of the records that
 * are asked for. */
static int
walk_file(int fd, const struct pages_meta *meta, struct pages_check *out,
          const struct pages_records *asked)
{
    struct walker *w;
    struct stat st;
    int rc = -ENOMEM;

    out->used_size = 2 * (uint64_t)meta->page_size;
    out->faults = 0;
    if (fstat(fd, &st) < 0)
        return -errno;
    w = calloc(1, sizeof *w);
    if (w == NULL)
        return rc;
    w->out = out;
    w->asked = asked;
    w->fd = fd;
    w->page_size = meta->page_size;
    w->file_pages = (uint64_t)st.st_size / meta->page_size;
    w->last_page = meta->last_page;
    w->txn = meta->txn;
    if (w->last_page > w->file_pages + UNWRITTEN_MAX) {
        report_fault(w, w->last_page,
                     "the last one, far beyond the end of the file");
        rc = asked ? -EBADMSG : 0;
        goto out;
    }
    w->seen = calloc(1, (size_t)(w->last_page / 8 + 1));
    w->piece = malloc(w->page_size);
    if (w->seen != NULL && w->piece != NULL)
        rc = walk_databases(w, meta);
    if (asked && rc <= 0 && (w->error < 0 || out->faults > 0))
        rc = w->error < 0 ? w->error : -EBADMSG;
    for (unsigned i = 0; i < DEPTH_MAX; i++)
        free(w->levels[i].page);

out:
    free(w->piece);
    free(w->seen);
    free(w);
    return rc;
}

int
pages_each(int fd, const struct pages_meta *meta,
           const struct pages_records *asked)
{
    struct pages_check quiet = {.quick = true};

    return walk_file(fd, meta, &quiet, asked);
}

int
pages_check(int fd, struct pages_check *check)
{
    struct pages_check quiet = {.quick = check->quick};
    struct pages_meta m, now;
    const char *why;
    int rc;

    /* Pages of a snapshot without a reader may be overwritten meanwhile: faults
     * count only if no commit came during the walk, as its number shows. */
    for (unsigned i = 0; i < CHECK_TRIES; i++) {
        rc = pages_meta(fd, &m, &why);
        if (rc == 0)
            rc = walk_file(fd, &m, &quiet, NULL);
        if (rc < 0 || quiet.faults == 0)
            break;
        rc = pages_meta(fd, &now, &why);
        if (rc < 0)
            break;
        if (now.txn == m.txn)
            return walk_file(fd, &now, check, NULL);
    }
    check->used_size = quiet.used_size;
    check->faults = 0;
    return rc;
}

int
pages_check_file(int fd, enum pages_use use, const char **why)
{
    struct pages_check check = {.quick = true};
    struct pages_meta m;
    struct stat st;
    bool whole;
    int rc;

    rc = pages_meta(fd, &m, why);
    if (rc < 0)
        return rc;
    *why = "read its pages";
    if (fstat(fd, &st) < 0)
        return -errno;
    whole = (m.last_page + 1) * m.page_size <= (uint64_t)st.st_size;
    if (whole && use == PAGES_FOR_READING && (uint64_t)st.st_size > QUICK_SIZE)
        return 0;
    rc = pages_check(fd, &check);
    if (rc < 0 || check.faults == 0)
        return rc;
    *why = whole ? "its pages are damaged" : "it is shorter than it says it is";
    return -EBADMSG;
}

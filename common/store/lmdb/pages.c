/* common/store/lmdb/pages.c - see pages.h: pages_meta(),
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

/* ---- the newest commit --------------------------------------------------- */

static bool
same_commits(const struct pages_meta a[2], const struct pages_meta b[2])
{
    return a[0].txn == b[0].txn && a[1].txn == b[1].txn &&
           memcmp(a[0].main, b[0].main, sizeof a[0].main) == 0 &&
           memcmp(a[1].main, b[1].main, sizeof a[1].main) == 0;
}

int
pages_check_newest(int fd, pages_counter_fn *counter, const char **why)
{
    struct pages_meta metas[2], now[2];
    int rc;

    rc = read_metas(fd, metas, why);
    for (int i = 0; rc == 0 && i < CHECK_TRIES; i++) {
        const unsigned newest = newest_of(metas);
        uint64_t used = 0, other = 0;
        int looked;

        looked = counter(fd, &metas[newest], &used);
        if (looked == 1)
            looked = counter(fd, &metas[1 - newest], &other);
        rc = read_metas(fd, now, why);
        if (rc < 0)
            break;
        if (looked != 1 || other <= used) /* a page may lead to no counter */
            return looked >= 0 || looked == -ENOENT || looked == -EBADMSG
                       ? 0
                       : looked;
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

/* common/store/lmdb/pages_scan.c - common/store/lmdb/pages.h: the values in a
 * file that nobody can open any more.
 *
 * Each page is looked at by itself.  What it says of itself may be damaged, so
 * it is taken for all that it may be; who is called knows a record when it
 * sees one.
 */
#include "common/store/lmdb/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/store/lmdb/pages_layout.h"

#define PAGE_SIZE_USUAL 4096

struct scan {
    int fd;
    uint64_t file_size;
    size_t page_size;
    int64_t (*found)(void *ctx, const uint8_t *value, size_t size);
    void *ctx;
    uint8_t *bytes; /* of the page, and of those behind it */
    size_t capacity;
};

/* Reads as many bytes as there are, up to `size`; zeros take the place of the
 * others.  Returns how many there were. */
static ssize_t
read_some(int fd, uint8_t *bytes, size_t size, uint64_t at)
{
    size_t got = 0;

    while (got < size) {
        const ssize_t n = pread(fd, bytes + got, size - got, (off_t)(at + got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    memset(bytes + got, 0, size - got);
    return (ssize_t)got;
}

/* The page size, as one of the meta pages says it. */
static size_t
find_page_size(int fd)
{
    uint8_t bytes[META_SIZE];

    for (uint64_t at = 0; at <= PAGES_SIZE_MAX;
         at = at == 0 ? PAGE_SIZE_USUAL : at * 2) {
        size_t size;

        if (read_some(fd, bytes, sizeof bytes, at) != (ssize_t)sizeof bytes ||
            native32(bytes + META_MAGIC_AT) != META_MAGIC)
            continue;
        size = native32(bytes + META_FREE_AT);
        if (page_size_ok(size) && (at == 0 || at == size))
            return size;
    }
    return PAGE_SIZE_USUAL;
}

/* The values that a page holds when it is a leaf. */
static int64_t
scan_leaf(struct scan *s)
{
    const uint8_t *page = s->bytes;
    struct page_node node;
    size_t lower = native16(page + PAGE_LOWER_AT);

    if (lower > s->page_size)
        lower = s->page_size;
    for (size_t i = 0; PAGE_HEAD + 2 * i < lower; i++) {
        int64_t rc;

        if (!page_node(page, s->page_size, true, i, &node) ||
            (node.flags & NODE_BIG) != 0)
            continue;
        rc = s->found(s->ctx, node.data, node.size);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The value that begins in this page when it is the first of some; returns what
 * `found` says. */
static int64_t
scan_pages(struct scan *s, uint64_t number)
{
    const uint64_t rest = s->file_size - number * s->page_size;
    size_t size = native32(s->bytes + PAGE_COUNT_AT) * s->page_size;
    ssize_t got;

    if (size > PAGES_VALUE_MAX)
        size = PAGES_VALUE_MAX;
    if (size > rest)
        size = (size_t)rest;
    if (size < s->page_size)
        size = s->page_size;
    if (size > s->capacity) {
        uint8_t *more = realloc(s->bytes, size);

        if (more == NULL)
            return -ENOMEM;
        s->bytes = more;
        s->capacity = size;
    }
    got = read_some(s->fd, s->bytes, size, number * s->page_size);
    if (got <= PAGE_HEAD)
        return got < 0 ? got : 0;
    return s->found(s->ctx, s->bytes + PAGE_HEAD, (size_t)got - PAGE_HEAD);
}

/* Looks at a page; returns how many pages were done, 0 at the end. */
static int64_t
scan_page(struct scan *s, uint64_t number)
{
    const ssize_t got =
        read_some(s->fd, s->bytes, s->page_size, number * s->page_size);
    unsigned flags;
    int64_t rc;

    if (got <= 0)
        return got;
    flags = native16(s->bytes + PAGE_FLAGS_AT);
    if (flags == PAGE_LEAF) {
        rc = scan_leaf(s);
        return rc < 0 ? rc : 1;
    }

    /* One of the two may be damaged. */
    if (flags != PAGE_OVER && native64(s->bytes) != number)
        return 1;
    rc = scan_pages(s, number);
    if (rc > 0)
        return ((rc < (int64_t)PAGES_VALUE_MAX ? rc
                                               : (int64_t)PAGES_VALUE_MAX) +
                PAGE_HEAD - 1) /
                   (int64_t)s->page_size +
               1;
    if (rc == 0)
        rc = scan_leaf(s);
    return rc < 0 ? rc : 1;
}

int
pages_each_value(int fd,
                 int64_t (*found)(void *ctx, const uint8_t *value, size_t size),
                 void *ctx)
{
    struct scan s = {.fd = fd,
                     .page_size = find_page_size(fd),
                     .found = found,
                     .ctx = ctx,
                     .capacity = PAGES_SIZE_MAX};
    uint64_t number = 0;
    struct stat st;
    int64_t done = 0;

    if (fstat(fd, &st) < 0)
        return -errno;
    s.file_size = (uint64_t)st.st_size;
    s.bytes = malloc(s.capacity);
    if (s.bytes == NULL)
        return -ENOMEM;
    while (number * s.page_size < s.file_size &&
           (done = scan_page(&s, number)) > 0)
        number += (uint64_t)done;
    free(s.bytes);
    return done < 0 ? (int)done : 0;
}

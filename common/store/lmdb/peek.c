/* common/store/lmdb/peek.c - see peek.h.
 *
 * Nothing that is read is believed: numbers, offsets and sizes are compared
 * with what there is before they are used.  What looks odd, or is in a form
 * that keyspaces do not have, is left to LMDB. */
#include "common/store/lmdb/peek.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/store/lmdb/page.h"

#define PEEK_TRIES 4 /* others commit meanwhile */

struct peek {
    int fd;
    size_t page_size;
    uint64_t last_page;
    uint64_t number; /* of what is in `page`; 0: nothing */
    uint8_t *page;
};

/* Has a branch or leaf page in p->page. */
static int
page_get(struct peek *p, uint64_t number, unsigned type)
{
    unsigned lower, upper;
    ssize_t size;

    if (number < 2 || number > p->last_page)
        return -EBADMSG;
    if (p->number != number) {
        p->number = 0;
        size =
            pread(p->fd, p->page, p->page_size, (off_t)(number * p->page_size));
        if (size < 0)
            return -errno;
        if (size != (ssize_t)p->page_size)
            return -EBADMSG;
        p->number = number;
    }
    lower = native16(p->page + 12);
    upper = native16(p->page + 14);
    if (native64(p->page) != number || native16(p->page + 10) != type ||
        lower <= PAGE_HEAD || (lower & 1) != 0 || lower > upper ||
        upper > p->page_size)
        return -EBADMSG;
    return (int)((lower - PAGE_HEAD) / 2);
}

/* Node i of the page, or NULL when its head and key are not inside. */
static const uint8_t *
node_get(const struct peek *p, int i)
{
    const size_t at = native16(p->page + PAGE_HEAD + 2 * (size_t)i);

    if (at < PAGE_HEAD || at + NODE_HEAD > p->page_size ||
        at + NODE_HEAD + native16(p->page + at + 6) > p->page_size)
        return NULL;
    return p->page + at;
}

static int
node_compare(const uint8_t *node, const char *key)
{
    const size_t size = native16(node + 6), want = strlen(key);
    const int order = memcmp(node + NODE_HEAD, key, size < want ? size : want);

    return order != 0 ? order : (size > want) - (size < want);
}

/* The page below a branch where `key` is, if anywhere. */
static int
branch_find(struct peek *p, uint64_t *number, const char *key)
{
    const int count = page_get(p, *number, PAGE_BRANCH);
    uint64_t child = 0;

    if (count < 0)
        return count;
    /* The first node has no key: it is for all below the second's. */
    for (int i = 0; i < count; i++) {
        const uint8_t *node = node_get(p, i);

        if (node == NULL)
            return -EBADMSG;
        if (i > 0 && node_compare(node, key) > 0)
            break;
        child = branch_child(node);
    }
    *number = child;
    return 0;
}

/* The value in a leaf, whose node has these flags. */
static int
leaf_find(struct peek *p, uint64_t number, const char *key, unsigned flags,
          MDB_val *out)
{
    const int count = page_get(p, number, PAGE_LEAF);

    if (count < 0)
        return count;
    for (int i = 0; i < count; i++) {
        const uint8_t *node = node_get(p, i), *end = p->page + p->page_size;
        size_t size, head;

        if (node == NULL)
            return -EBADMSG;
        if (node_compare(node, key) != 0)
            continue;
        size = native16(node) | (size_t)native16(node + 2) << 16;
        head = NODE_HEAD + (size_t)native16(node + 6);
        if (native16(node + 4) != flags || size > (size_t)(end - node) - head)
            return -EBADMSG;
        out->mv_size = size;
        out->mv_data = p->page + (node - p->page) + head;
        return 0;
    }
    return -EBADMSG;
}

/* The value of `key` in a database; valid until the next page is read. */
static int
database_find(struct peek *p, const uint8_t *db, const char *key,
              unsigned flags, MDB_val *out)
{
    uint64_t number = native64(db + DB_ROOT_AT);
    const unsigned depth = native16(db + DB_DEPTH_AT);

    if (native16(db + DB_FLAGS_AT) != 0 || depth == 0 || depth > DEPTH_MAX)
        return -EBADMSG;
    for (unsigned i = 1; i < depth; i++) {
        const int rc = branch_find(p, &number, key);

        if (rc < 0)
            return rc;
    }
    return leaf_find(p, number, key, flags, out);
}

/* Both records, as of one meta page. */
static int
read_records(struct peek *p, const uint8_t *main_db,
             const struct lmdb_options *options, struct keyspace *k,
             struct keyspace_state *state)
{
    uint8_t meta_db[DB_SIZE];
    const char *why;
    MDB_val v;
    int rc;

    rc = database_find(p, main_db, "meta", NODE_SUB, &v);
    if (rc == 0 && v.mv_size != DB_SIZE)
        rc = -EBADMSG;
    if (rc < 0)
        return rc;
    memcpy(meta_db, v.mv_data, DB_SIZE);
    rc = database_find(p, meta_db, KEYSPACE_NAME_KEY, 0, &v);
    if (rc == 0)
        rc = keyspace_header_parse(&v, options, k, &why);
    if (rc == 0)
        rc = database_find(p, meta_db, KEYSPACE_STATE_KEY, 0, &v);
    return rc < 0 ? rc : keyspace_state_parse(&v, state);
}

static int
peek_file(int fd, const struct lmdb_options *options, struct keyspace *k,
          uint8_t *page, struct keyspace_state *state)
{
    struct keyspace_meta m, now;
    const char *why;
    int rc;

    rc = keyspace_file_meta(fd, 0, &m, &why);
    for (int i = 0; rc == 0 && i < PEEK_TRIES; i++) {
        struct peek p = {.fd = fd,
                         .page_size = m.page_size,
                         .last_page = m.last_page,
                         .page = page};
        struct keyspace found = *k;
        const int read = read_records(&p, m.main, options, &found, state);

        rc = keyspace_file_meta(fd, 0, &now, &why);
        if (rc == 0 && now.txn == m.txn) {
            if (read == 0)
                *k = found;
            return read;
        }
        m = now;
    }
    return rc < 0 ? rc : -EAGAIN;
}

int
keyspace_peek(const struct lmdb_options *options, struct keyspace *k,
              uint8_t *page, struct keyspace_state *state)
{
    struct stat st;
    int fd, rc = 0;

    fd = openat(options->keyspace_fd, k->file,
                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        rc = -errno;
    else if (!S_ISREG(st.st_mode))
        rc = -EBADMSG;
    if (rc == 0)
        rc = peek_file(fd, options, k, page, state);
    (void)close(fd); /* only read */
    return rc;
}

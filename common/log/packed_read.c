/* common/log/packed_read.c - reading a packed log; see packed.h.
 *
 * Whoever reads trusts nothing: what a checksum let through is still compared
 * with every limit before it is used. */
#include "common/log/packed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"

#define WINDOW (-15) /* raw deflate */

/* Where a name is in the arena. */
struct place {
    uint32_t keyspace; /* number */
    uint32_t at;
    uint16_t size;
};

struct keyspace {
    uint32_t at;
    uint16_t size;
    uint16_t key_size; /* of the key listed last */
    uint32_t key_at;
};

struct packed {
    int fd;
    uint32_t of; /* crc32 of the header */
    struct packed_header header;
    z_stream z;
    uint64_t read;      /* increments */
    uint64_t last_ms;   /* of the last one */
    uint64_t increment; /* likewise */

    struct place places[PACKED_NAMES];
    uint32_t known;
    uint8_t arena[PACKED_ARENA];
    size_t arena_used;
    struct keyspace keyspaces[PACKED_KEYSPACES];
    uint32_t keyspace_count;

    uint8_t head[PACKED_HEAD_SIZE];
    uint8_t in[(size_t)2 * PACKED_RECORDS + PACKED_DEFLATED];
    uint8_t columns[PACKED_COLUMNS];
    struct packed_record records[PACKED_RECORDS];
};

/* Reads exactly so many bytes: -EBADMSG when the file ends before.  At its
 * very end `*end` says so, where that may be (not NULL). */
static int
read_all(int fd, uint8_t *bytes, size_t size, bool *end)
{
    size_t got = 0;

    while (got < size) {
        const ssize_t n = read(fd, bytes + got, size - got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0 && got == 0 && end) {
            *end = true;
            return 0;
        }
        if (n == 0)
            return -EBADMSG;
        got += (size_t)n;
    }
    return 0;
}

int
packed_open(struct packed **out, int fd)
{
    uint8_t bytes[PACKED_HEADER_SIZE];
    struct packed *p;
    int rc;

    p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->fd = fd;
    if (inflateInit2(&p->z, WINDOW) != Z_OK) {
        free(p);
        return -ENOMEM;
    }
    rc = lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0;
    if (rc == 0)
        rc = read_all(fd, bytes, sizeof bytes, NULL);
    if (rc == 0)
        rc = packed_header_get(bytes, &p->header);
    if (rc < 0) {
        packed_close(p);
        return rc;
    }
    p->of = get_le32(bytes + PACKED_HEADER_SIZE - 4);
    p->last_ms = p->header.first_ms;
    *out = p;
    return 0;
}

void
packed_close(struct packed *p)
{
    if (!p)
        return;
    (void)inflateEnd(&p->z); /* cannot fail: it was opened */
    free(p);
}

const struct packed_header *
packed_header(const struct packed *p)
{
    return &p->header;
}

/* ---- columns ----------------------------------------------------------- */

struct cursor {
    const uint8_t *at, *end;
};

static int
get_varint(struct cursor *c, uint64_t *out)
{
    unsigned shift;

    *out = 0;
    for (shift = 0; shift < 64 && c->at < c->end; shift += 7) {
        const uint8_t byte = *c->at++;

        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return 0;
    }
    return -EBADMSG;
}

static int64_t
unzigzag(uint64_t v)
{
    return (int64_t)(v >> 1 ^ (v & 1 ? UINT64_MAX : 0));
}

/* Takes `size` bytes of a name, 1 to `most` and without a NUL with the `shared`
 * ones that are there, into the arena. */
static int
get_bytes(struct packed *p, struct cursor *c, uint64_t shared, uint64_t size,
          size_t most)
{
    uint8_t *at = p->arena + p->arena_used;

    if (size > most || shared > most - size || shared + size == 0 ||
        size > (uint64_t)(c->end - c->at) ||
        shared + size > PACKED_ARENA - p->arena_used)
        return -EBADMSG;
    if (memchr(c->at, 0, size))
        return -EBADMSG;
    memcpy(at + shared, c->at, size);
    c->at += size;
    p->arena_used += shared + size;
    return 0;
}

static int
get_keyspace(struct packed *p, struct cursor *c, uint32_t *number)
{
    const uint32_t at = (uint32_t)p->arena_used;
    uint64_t k, size;

    if (get_varint(c, &k) < 0 || k > p->keyspace_count)
        return -EBADMSG;
    *number = k > 0 ? (uint32_t)k - 1 : p->keyspace_count;
    if (k > 0)
        return 0;
    if (p->keyspace_count == PACKED_KEYSPACES || get_varint(c, &size) < 0 ||
        get_bytes(p, c, 0, size, p->header.keyspace_size) < 0)
        return -EBADMSG;
    p->keyspaces[p->keyspace_count++] =
        (struct keyspace){.at = at, .size = (uint16_t)size};
    return 0;
}

static int
get_name(struct packed *p, struct cursor *c)
{
    uint64_t shared, own;
    struct keyspace *k;
    uint32_t number, at;

    if (p->known == PACKED_NAMES || get_keyspace(p, c, &number) < 0)
        return -EBADMSG;
    k = &p->keyspaces[number];
    at = (uint32_t)p->arena_used;
    if (get_varint(c, &shared) < 0 || get_varint(c, &own) < 0 ||
        shared > k->key_size ||
        get_bytes(p, c, shared, own, p->header.key_size) < 0)
        return -EBADMSG;
    memcpy(p->arena + at, p->arena + k->key_at, shared);
    k->key_at = at;
    k->key_size = (uint16_t)(shared + own);
    p->places[p->known++] =
        (struct place){.keyspace = number, .at = at, .size = k->key_size};
    return 0;
}

static int
get_record(struct packed *p, uint32_t i)
{
    struct packed_record *r = &p->records[i];
    const uint16_t number = get_le16(p->in + (size_t)2 * i);
    const struct place *place = &p->places[number];
    const struct keyspace *k;

    if (number >= p->known)
        return -EBADMSG;
    k = &p->keyspaces[place->keyspace];
    r->m.keyspace = p->arena + k->at;
    r->m.keyspace_size = k->size;
    r->m.key = p->arena + place->at;
    r->m.key_size = place->size;
    return 0;
}

/* The next value, and how many times it stands. */
static int
get_run(struct cursor *c, uint64_t *last, uint64_t left, uint64_t *count)
{
    uint64_t v;

    *count = 1;
    if (get_varint(c, &v) < 0)
        return -EBADMSG;
    if (v != 0) {
        *last += (uint64_t)unzigzag(v);
        return 0;
    }
    if (get_varint(c, &v) < 0 || v >= left)
        return -EBADMSG;
    *count = v + 1;
    return 0;
}

static int
get_columns(struct packed *p, struct cursor *c, uint32_t count, uint32_t names)
{
    uint64_t run;
    uint32_t i;
    int rc = 0;

    for (i = 0; rc == 0 && i < names; i++)
        rc = get_name(p, c);
    for (i = 0; rc == 0 && i < count; i++)
        rc = get_record(p, i);
    for (i = 0; rc == 0 && i < count;) {
        rc = get_run(c, &p->last_ms, count - i, &run);
        for (; rc == 0 && run > 0; run--)
            p->records[i++].received_ms = p->last_ms;
    }
    for (i = 0; rc == 0 && i < count;) {
        rc = get_run(c, &p->increment, count - i, &run);
        for (; rc == 0 && run > 0; run--)
            p->records[i++].m.increment = (int64_t)p->increment;
    }
    return rc == 0 && c->at != c->end ? -EBADMSG : rc;
}

/* ---- blocks ------------------------------------------------------------ */

static int
inflate_columns(struct packed *p, const uint8_t *at, uint32_t size,
                uint32_t whole)
{
    if (inflateReset(&p->z) != Z_OK)
        return -EBADMSG;
    p->z.next_in = (z_const Bytef *)(uintptr_t)at;
    p->z.avail_in = size;
    p->z.next_out = p->columns;
    p->z.avail_out = whole;
    if (inflate(&p->z, Z_FINISH) != Z_STREAM_END)
        return -EBADMSG;
    return p->z.avail_in == 0 && p->z.avail_out == 0 ? 0 : -EBADMSG;
}

/* Reads a block's body behind its head, and compares their checksum. */
static int
read_body(struct packed *p, size_t size)
{
    uint32_t crc;
    int rc;

    rc = read_all(p->fd, p->in, size, NULL);
    if (rc < 0)
        return rc;
    crc = (uint32_t)crc32(0, p->head + 4, PACKED_HEAD_SIZE - 4);
    crc = (uint32_t)crc32(crc, p->in, (unsigned)size);
    return crc == get_le32(p->head) ? 0 : -EBADMSG;
}

static int
read_block(struct packed *p, uint32_t count)
{
    const uint32_t names = get_le32(p->head + 16);
    const uint32_t bits = get_le32(p->head + 20);
    const uint32_t size = get_le32(p->head + 24);
    const uint32_t whole = get_le32(p->head + 28);
    const bool deflated = bits & PACKED_IS_DEFLATED;
    const uint8_t *at = p->in + (size_t)2 * count;
    struct cursor c = {deflated ? p->columns : at, NULL};
    int rc;

    if (count == 0 || count > PACKED_RECORDS || names > count ||
        (bits & ~(PACKED_FORGOT | PACKED_IS_DEFLATED)) != 0 ||
        size > PACKED_DEFLATED || whole > PACKED_COLUMNS ||
        (!deflated && size != whole))
        return -EBADMSG;
    rc = read_body(p, (size_t)2 * count + size);
    if (rc == 0 && deflated)
        rc = inflate_columns(p, at, size, whole);
    if (rc < 0)
        return rc;
    c.end = c.at + whole;
    if (bits & PACKED_FORGOT) {
        p->known = p->keyspace_count = 0;
        p->arena_used = 0;
    }
    return get_columns(p, &c, count, names);
}

int
packed_next(struct packed *p, const struct packed_record **records)
{
    const uint64_t left = p->header.count - p->read;
    bool end = false;
    uint32_t count;
    int rc;

    rc = read_all(p->fd, p->head, sizeof p->head, &end);
    if (rc < 0)
        return rc;
    if (end || left == 0)
        return end && left == 0 && p->last_ms == p->header.last_ms ? 0
                                                                   : -EBADMSG;
    count = get_le32(p->head + 12);
    if (get_le32(p->head + 4) != p->of || get_le32(p->head + 8) != p->read ||
        count > left)
        return -EBADMSG;
    rc = read_block(p, count);
    if (rc < 0)
        return rc;
    p->read += count;
    *records = p->records;
    return (int)count;
}

/* common/log/packed_write.c - packing a log; see packed.h.
 *
 * The slots are read and checked as when the log was merged: what is archived
 * must be what was counted.  A group of slots is taken together, so that the
 * table of names can be asked for them ahead. */
#include "common/log/packed.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/base/hash.h"
#include "common/log/slot.h"

#define READ_SIZE   ((size_t)128 << 10)
#define CELLS_FIRST 4096u
#define CELLS_MOST  131072u /* 2 for each name at least */
#define WINDOW      (-15)   /* raw deflate */
#define MEMORY      8

/* A name, in the arena: two sizes, then keyspace 00 key. */
#define SIZES 4

struct column {
    uint8_t *at, *end;
};

struct packer {
    int fd;
    uint32_t of; /* crc32 of the header */
    z_stream z;
    struct hash_key key;

    /* The names that are known.  A cell is a tag and a number + 1. */
    uint32_t cells[CELLS_MOST];
    uint32_t mask;
    uint32_t hashes[PACKED_NAMES];
    uint32_t places[PACKED_NAMES]; /* in the arena */
    uint32_t known;
    uint8_t arena[PACKED_ARENA];
    size_t arena_used;

    /* The block at hand. */
    uint32_t first, count, names;
    bool forgot;
    uint64_t last_ms;
    uint8_t
        name_bytes[PACKED_NAMES_SIZE + PACKED_NAME_MAX + 2 * PACKED_VARINT_MAX];
    uint8_t time_bytes[PACKED_RECORDS * PACKED_VARINT_MAX];
    uint8_t increment_bytes[PACKED_RECORDS * PACKED_VARINT_MAX];
    struct column new_names, times, increments;
    uint8_t last_name[PACKED_NAME_MAX];
    size_t last_name_size;

    uint8_t out[PACKED_HEAD_SIZE + 2 * PACKED_RECORDS + PACKED_DEFLATED];
    uint8_t slots[READ_SIZE];
};

int
packer_new(struct packer **out)
{
    struct packer *p = calloc(1, sizeof *p);

    if (!p)
        return -ENOMEM;
    if (getrandom(&p->key, sizeof p->key, 0) != (ssize_t)sizeof p->key) {
        free(p);
        return -EIO;
    }
    if (deflateInit2(&p->z, Z_BEST_SPEED, Z_DEFLATED, WINDOW, MEMORY, Z_RLE) !=
        Z_OK) {
        free(p);
        return -ENOMEM;
    }
    *out = p;
    return 0;
}

void
packer_free(struct packer *p)
{
    if (!p)
        return;
    (void)deflateEnd(&p->z); /* says that output was left, after a failure */
    free(p);
}

/* ---- columns ----------------------------------------------------------- */

static void
put_varint(struct column *c, uint64_t v)
{
    while (v >= 0x80) {
        *c->end++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *c->end++ = (uint8_t)v;
}

static uint64_t
zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0);
}

static void
begin_block(struct packer *p)
{
    p->first += p->count;
    p->count = p->names = 0;
    p->forgot = p->known == 0;
    p->new_names = (struct column){p->name_bytes, p->name_bytes};
    p->times = (struct column){p->time_bytes, p->time_bytes};
    p->increments = (struct column){p->increment_bytes, p->increment_bytes};
}

/* ---- names ------------------------------------------------------------- */

static void
forget_names(struct packer *p)
{
    p->mask = CELLS_FIRST - 1;
    memset(p->cells, 0, CELLS_FIRST * sizeof p->cells[0]);
    p->known = 0;
    p->arena_used = 0;
    p->last_name_size = 0;
}

static void
put_cell(struct packer *p, uint32_t number)
{
    const uint32_t hash = p->hashes[number];
    uint32_t at = hash & p->mask;

    while (p->cells[at] != 0)
        at = (at + 1) & p->mask;
    p->cells[at] = (hash & 0xffff0000) | (number + 1);
}

static void
widen(struct packer *p)
{
    uint32_t i;

    p->mask = 2 * p->mask + 1;
    memset(p->cells, 0, (p->mask + (size_t)1) * sizeof p->cells[0]);
    for (i = 0; i < p->known; i++)
        put_cell(p, i);
}

/* Lists a name that has just been put into the arena. */
static void
list_name(struct packer *p, const uint8_t *name, size_t size)
{
    const size_t most = p->last_name_size < size ? p->last_name_size : size;
    size_t shared = 0;

    while (shared < most && p->last_name[shared] == name[shared])
        shared++;
    put_varint(&p->new_names, shared);
    put_varint(&p->new_names, size - shared);
    memcpy(p->new_names.end, name + shared, size - shared);
    p->new_names.end += size - shared;
    memcpy(p->last_name, name, size);
    p->last_name_size = size;
    p->names++;
}

static uint32_t
add_name(struct packer *p, const struct message *m, uint32_t hash)
{
    uint8_t *at = p->arena + p->arena_used;
    const size_t size = (size_t)m->keyspace_size + 1 + m->key_size;
    const uint32_t number = p->known;

    p->hashes[number] = hash;
    p->places[number] = (uint32_t)p->arena_used;
    put_le16(at, m->keyspace_size);
    put_le16(at + 2, m->key_size);
    at += SIZES;
    memcpy(at, m->keyspace, m->keyspace_size);
    at[m->keyspace_size] = 0;
    memcpy(at + m->keyspace_size + 1, m->key, m->key_size);
    p->arena_used += SIZES + size;
    p->known++;
    list_name(p, at, size);
    if (p->known > (p->mask + 1) / 2)
        widen(p);
    else
        put_cell(p, number);
    return number;
}

static bool
is_name(const struct packer *p, uint32_t number, const struct message *m)
{
    const uint8_t *at = p->arena + p->places[number];

    return get_le16(at) == m->keyspace_size &&
           get_le16(at + 2) == m->key_size &&
           memcmp(at + SIZES, m->keyspace, m->keyspace_size) == 0 &&
           memcmp(at + SIZES + m->keyspace_size + 1, m->key, m->key_size) == 0;
}

static uint32_t
number_of(struct packer *p, const struct message *m, uint32_t hash)
{
    uint32_t at;

    for (at = hash & p->mask; p->cells[at] != 0; at = (at + 1) & p->mask) {
        const uint32_t cell = p->cells[at];

        if ((cell ^ hash) >> 16 == 0 && is_name(p, (cell & 0xffff) - 1, m))
            return (cell & 0xffff) - 1;
    }
    return add_name(p, m, hash);
}

/* ---- blocks ------------------------------------------------------------ */

static int
write_all(int fd, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t n = write(fd, bytes, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Deflates the columns to `at`; returns the size. */
static size_t
deflate_columns(struct packer *p, uint8_t *at)
{
    const struct column *columns[] = {&p->new_names, &p->times, &p->increments};
    int rc = deflateReset(&p->z);
    size_t i;

    assert(rc == Z_OK);
    p->z.next_out = at;
    p->z.avail_out = (unsigned)PACKED_DEFLATED;
    for (i = 0; i < 3; i++) {
        p->z.next_in = columns[i]->at;
        p->z.avail_in = (unsigned)(columns[i]->end - columns[i]->at);
        rc = deflate(&p->z, i == 2 ? Z_FINISH : Z_NO_FLUSH);
    }
    assert(rc == Z_STREAM_END);
    return PACKED_DEFLATED - p->z.avail_out;
}

static int
end_block(struct packer *p)
{
    uint8_t *columns = p->out + PACKED_HEAD_SIZE + (size_t)2 * p->count;
    size_t size;

    if (p->count == 0)
        return 0;
    size = deflate_columns(p, columns);
    put_le32(p->out + 4, p->of);
    put_le32(p->out + 8, p->first);
    put_le32(p->out + 12, p->count);
    put_le32(p->out + 16, p->names);
    put_le32(p->out + 20, p->forgot ? 1 : 0);
    put_le32(p->out + 24, (uint32_t)size);
    put_le32(p->out + 28, (uint32_t)((p->new_names.end - p->new_names.at) +
                                     (p->times.end - p->times.at) +
                                     (p->increments.end - p->increments.at)));
    size += (size_t)(columns - p->out);
    put_le32(p->out, crc_of(p->out + 4, size - 4));
    return write_all(p->fd, p->out, size);
}

/* Sees to it that one more increment, of a new name, has room. */
static int
make_room(struct packer *p)
{
    const bool forget = p->known == PACKED_NAMES ||
                        p->arena_used + SIZES + PACKED_NAME_MAX > PACKED_ARENA;
    int rc;

    if (!forget && p->count < PACKED_RECORDS &&
        (size_t)(p->new_names.end - p->new_names.at) < PACKED_NAMES_SIZE)
        return 0;
    rc = end_block(p);
    if (forget)
        forget_names(p);
    begin_block(p);
    return rc;
}

static int
add(struct packer *p, const struct message *m, uint64_t received_ms,
    uint32_t hash)
{
    const int rc = make_room(p);

    if (rc < 0)
        return rc;
    put_le16(p->out + PACKED_HEAD_SIZE + (size_t)2 * p->count,
             (uint16_t)number_of(p, m, hash));
    put_varint(&p->times, zigzag((int64_t)(received_ms - p->last_ms)));
    put_varint(&p->increments, zigzag(m->increment));
    p->last_ms = received_ms;
    p->count++;
    return 0;
}

static int
add_run(struct packer *p, const struct message *m,
        const struct slot_stamp *stamps, unsigned count)
{
    uint32_t hashes[SLOT_RUN];
    unsigned i;
    int rc = 0;

    for (i = 0; i < count; i++) {
        const uint64_t first =
            hash_name(&p->key, 0, m[i].keyspace, m[i].keyspace_size);

        hashes[i] =
            (uint32_t)hash_name(&p->key, first, m[i].key, m[i].key_size);
        __builtin_prefetch(&p->cells[hashes[i] & p->mask]);
    }
    for (i = 0; rc == 0 && i < count; i++)
        rc = add(p, &m[i], stamps[i].received_ms, hashes[i]);
    return rc;
}

/* ---- the log ----------------------------------------------------------- */

static int
pack_slots(struct packer *p, const struct log *log, uint32_t from,
           uint32_t count)
{
    const struct layout *l = &log->layout;
    struct slot_stamp stamps[SLOT_RUN];
    struct message messages[SLOT_RUN];
    uint32_t at, run;
    int rc;

    for (at = 0; at < count; at += run) {
        run = count - at < SLOT_RUN ? count - at : SLOT_RUN;
        rc = slot_parse_run(l, p->slots + (size_t)at * l->slot_size, run,
                            log->header.uuid, from + at, log->header.epoch,
                            messages, stamps);
        if (rc == 0)
            rc = add_run(p, messages, stamps, run);
        if (rc < 0)
            return rc == -ENOENT ? -EBADMSG : rc;
    }
    return 0;
}

static int
write_header(struct packer *p, const struct log *log)
{
    const struct log_header *h = &log->header;
    struct packed_header packed = {
        .index = h->index,
        .epoch = h->epoch,
        .count = h->count,
        .first_ms = h->first_ms,
        .last_ms = h->last_ms,
        .slots = h->slots,
        .keyspace_size = h->keyspace_size,
        .key_size = h->key_size,
    };
    uint8_t bytes[PACKED_HEADER_SIZE];

    memcpy(packed.uuid, h->uuid, sizeof packed.uuid);
    packed_header_put(&packed, bytes);
    p->of = get_le32(bytes + PACKED_HEADER_SIZE - 4);
    return write_all(p->fd, bytes, sizeof bytes);
}

int
packer_write(struct packer *p, const struct log *log, int fd)
{
    const uint32_t fit = (uint32_t)(READ_SIZE / log->layout.slot_size);
    const uint32_t end = (uint32_t)log->header.count;
    uint32_t from, count;
    int rc;

    assert(log->header.state == LOG_SEALED);
    assert(log->header.count <= log->header.slots);
    p->fd = fd;
    p->first = p->count = 0;
    p->last_ms = log->header.first_ms;
    forget_names(p);
    begin_block(p);
    rc = write_header(p, log);
    for (from = 0; rc == 0 && from < end; from += count) {
        count = end - from < fit ? end - from : fit;
        rc = log_read(log, from, count, p->slots);
        if (rc == 0)
            rc = pack_slots(p, log, from, count);
    }
    return rc == 0 ? end_block(p) : rc;
}

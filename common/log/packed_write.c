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

/* A name, in the arena: number of the keyspace u16, size of the key u16, key.
 */
#define SIZES 4

#define KEYSPACE_CELLS 16384u /* 4 for each */

struct column {
    uint8_t *at, *end;
    uint64_t last; /* value */
    uint64_t same; /* as it, and not told yet */
};

struct keyspace {
    uint32_t at; /* in the arena */
    uint16_t size;
    uint16_t key_size; /* of the key listed last */
    uint32_t key_at;
    uint32_t hash;
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
    uint16_t keyspace_cells[KEYSPACE_CELLS]; /* number + 1 */
    struct keyspace keyspaces[PACKED_KEYSPACES];
    uint32_t keyspace_count;
    uint32_t keyspace; /* of the increment before */

    /* The block at hand. */
    uint32_t first, count, names;
    uint64_t total; /* of the file */
    bool forgot;
    uint64_t last_ms;
    uint8_t name_bytes[PACKED_NAMES_SIZE + PACKED_NAME_MAX +
                       (size_t)2 * PACKED_VARINT_MAX];
    uint8_t time_bytes[(size_t)PACKED_RECORDS * PACKED_VARINT_MAX];
    uint8_t increment_bytes[(size_t)PACKED_RECORDS * PACKED_VARINT_MAX];
    struct column new_names, times, increments;

    uint8_t
        out[PACKED_HEAD_SIZE + (size_t)2 * PACKED_RECORDS + PACKED_DEFLATED];
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
end_run(struct column *c)
{
    if (c->same == 0)
        return;
    *c->end++ = 0;
    put_varint(c, c->same - 1);
    c->same = 0;
}

static void
put_value(struct column *c, uint64_t v)
{
    if (v == c->last) {
        c->same++;
        return;
    }
    end_run(c);
    put_varint(c, zigzag((int64_t)(v - c->last)));
    c->last = v;
}

static void
begin_block(struct packer *p)
{
    p->first += p->count;
    p->count = p->names = 0;
    p->forgot = p->known == 0;
    p->new_names.at = p->new_names.end = p->name_bytes;
    p->times.at = p->times.end = p->time_bytes;
    p->increments.at = p->increments.end = p->increment_bytes;
}

/* ---- keyspaces --------------------------------------------------------- */

static bool
is_keyspace(const struct packer *p, uint32_t number, const struct message *m)
{
    const struct keyspace *k = &p->keyspaces[number];

    return k->size == m->keyspace_size &&
           memcmp(p->arena + k->at, m->keyspace, m->keyspace_size) == 0;
}

/* The number of a keyspace; PACKED_KEYSPACES: it is not known.  The one of the
 * increment before is the likeliest. */
static uint32_t
find_keyspace(struct packer *p, const struct message *m, uint32_t *hash)
{
    uint32_t at, number;

    if (p->keyspace < p->keyspace_count && is_keyspace(p, p->keyspace, m)) {
        *hash = p->keyspaces[p->keyspace].hash;
        return p->keyspace;
    }
    *hash = (uint32_t)hash_name(&p->key, 0, m->keyspace, m->keyspace_size);
    for (at = *hash % KEYSPACE_CELLS; p->keyspace_cells[at] != 0;
         at = (at + 1) % KEYSPACE_CELLS) {
        number = p->keyspace_cells[at] - 1u;
        if (p->keyspaces[number].hash == *hash && is_keyspace(p, number, m)) {
            p->keyspace = number;
            return number;
        }
    }
    return PACKED_KEYSPACES;
}

/* Lists a new one, in front of the name that is its first. */
static uint32_t
add_keyspace(struct packer *p, const struct message *m, uint32_t hash)
{
    const uint32_t number = p->keyspace_count++;
    uint32_t at = hash % KEYSPACE_CELLS;

    assert(number < PACKED_KEYSPACES);
    while (p->keyspace_cells[at] != 0)
        at = (at + 1) % KEYSPACE_CELLS;
    p->keyspace_cells[at] = (uint16_t)(number + 1);
    p->keyspaces[number] = (struct keyspace){
        .at = (uint32_t)p->arena_used, .size = m->keyspace_size, .hash = hash};
    memcpy(p->arena + p->arena_used, m->keyspace, m->keyspace_size);
    p->arena_used += m->keyspace_size;
    p->keyspace = number;
    put_varint(&p->new_names, 0);
    put_varint(&p->new_names, m->keyspace_size);
    memcpy(p->new_names.end, m->keyspace, m->keyspace_size);
    p->new_names.end += m->keyspace_size;
    return number;
}

/* ---- names ------------------------------------------------------------- */

static void
forget_names(struct packer *p)
{
    p->mask = CELLS_FIRST - 1;
    memset(p->cells, 0, CELLS_FIRST * sizeof p->cells[0]);
    memset(p->keyspace_cells, 0, sizeof p->keyspace_cells);
    p->known = p->keyspace_count = 0;
    p->arena_used = 0;
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

/* How many of the first `most` bytes are the same. */
static uint16_t
shared_size(const uint8_t *a, const uint8_t *b, uint16_t most)
{
    uint16_t at = 0;

    for (; at + 8 <= most; at = (uint16_t)(at + 8)) {
        const uint64_t differ = get_le64(a + at) ^ get_le64(b + at);

        if (differ != 0)
            return (uint16_t)(at + __builtin_ctzll(differ) / 8);
    }
    while (at < most && a[at] == b[at])
        at++;
    return at;
}

/* Lists a key that has just been put into the arena. */
static void
list_key(struct packer *p, struct keyspace *k, const uint8_t *key,
         uint16_t size)
{
    const uint8_t *last = p->arena + k->key_at;
    const uint16_t most = k->key_size < size ? k->key_size : size;
    const uint16_t shared = shared_size(last, key, most);

    put_varint(&p->new_names, shared);
    put_varint(&p->new_names, size - shared);
    memcpy(p->new_names.end, key + shared, size - shared);
    p->new_names.end += size - shared;
    k->key_at = (uint32_t)(key - p->arena);
    k->key_size = size;
    p->names++;
}

static uint32_t
add_name(struct packer *p, const struct message *m, uint32_t keyspace,
         uint32_t hash)
{
    uint8_t *at = p->arena + p->arena_used;
    const uint32_t number = p->known++;

    assert(number < PACKED_NAMES);
    p->hashes[number] = hash;
    p->places[number] = (uint32_t)p->arena_used;
    put_le16(at, (uint16_t)keyspace);
    put_le16(at + 2, m->key_size);
    memcpy(at + SIZES, m->key, m->key_size);
    p->arena_used += SIZES + (size_t)m->key_size;
    list_key(p, &p->keyspaces[keyspace], at + SIZES, m->key_size);
    if (p->known > (p->mask + 1) / 2)
        widen(p);
    else
        put_cell(p, number);
    return number;
}

static bool
is_name(const struct packer *p, uint32_t number, uint32_t keyspace,
        const struct message *m)
{
    const uint8_t *at = p->arena + p->places[number];

    return get_le16(at) == keyspace && get_le16(at + 2) == m->key_size &&
           memcmp(at + SIZES, m->key, m->key_size) == 0;
}

/* What is known of the names of an increment. */
struct found {
    uint32_t keyspace; /* PACKED_KEYSPACES: a new one */
    uint32_t keyspace_hash;
    uint32_t hash;
};

static void
find_hashes(struct packer *p, const struct message *m, struct found *f)
{
    f->keyspace = find_keyspace(p, m, &f->keyspace_hash);
    f->hash =
        (uint32_t)hash_name(&p->key, f->keyspace_hash, m->key, m->key_size);
    __builtin_prefetch(&p->cells[f->hash & p->mask]);
}

static uint32_t
number_of(struct packer *p, const struct message *m, const struct found *f)
{
    uint32_t keyspace = f->keyspace, hash, at;

    /* It may have come, or be forgotten, since the run began. */
    if (keyspace >= p->keyspace_count || !is_keyspace(p, keyspace, m))
        keyspace = find_keyspace(p, m, &hash);
    if (keyspace == PACKED_KEYSPACES) {
        keyspace = add_keyspace(p, m, f->keyspace_hash);
        return add_name(p, m, keyspace, f->hash);
    }
    for (at = f->hash & p->mask; p->cells[at] != 0; at = (at + 1) & p->mask) {
        const uint32_t cell = p->cells[at];

        if ((cell ^ f->hash) >> 16 == 0 &&
            is_name(p, (cell & 0xffff) - 1, keyspace, m))
            return (cell & 0xffff) - 1;
    }
    put_varint(&p->new_names, keyspace + 1);
    return add_name(p, m, keyspace, f->hash);
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
    end_run(&p->times);
    end_run(&p->increments);
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
                        p->keyspace_count == PACKED_KEYSPACES ||
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
    const struct found *f)
{
    const int rc = make_room(p);

    if (rc < 0)
        return rc;
    put_le16(p->out + PACKED_HEAD_SIZE + (size_t)2 * p->count,
             (uint16_t)number_of(p, m, f));
    put_value(&p->times, received_ms);
    put_value(&p->increments, (uint64_t)m->increment);
    p->count++;
    return 0;
}

int
packer_add(struct packer *p, const struct message *m,
           const struct slot_stamp *stamps, unsigned count)
{
    struct found found[SLOT_RUN];
    unsigned i;
    int rc = 0;

    for (i = 0; i < count; i++)
        find_hashes(p, &m[i], &found[i]);
    for (i = 0; rc == 0 && i < count; i++)
        rc = add(p, &m[i], stamps[i].received_ms, &found[i]);
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
            rc = packer_add(p, messages, stamps, run);
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
packer_begin(struct packer *p, const struct log *log, int fd)
{
    assert(log->header.state == LOG_SEALED);
    assert(log->header.count <= log->header.slots);
    p->fd = fd;
    p->first = p->count = 0;
    p->total = log->header.count;
    p->times = (struct column){.last = log->header.first_ms};
    p->increments = (struct column){.last = 0};
    forget_names(p);
    begin_block(p);
    return write_header(p, log);
}

int
packer_end(struct packer *p)
{
    if (p->first + (uint64_t)p->count != p->total)
        return -EBADMSG;
    return end_block(p);
}

int
packer_write(struct packer *p, const struct log *log, int fd)
{
    const uint32_t fit = (uint32_t)(READ_SIZE / log->layout.slot_size);
    const uint32_t end = (uint32_t)log->header.count;
    uint32_t from, count;
    int rc;

    rc = packer_begin(p, log, fd);
    for (from = 0; rc == 0 && from < end; from += count) {
        count = end - from < fit ? end - from : fit;
        rc = log_read(log, from, count, p->slots);
        if (rc == 0)
            rc = pack_slots(p, log, from, count);
    }
    return rc == 0 ? packer_end(p) : rc;
}

/* common/log/packed_write.c - packing increments; see packed.h.
 *
 * A name that the caller tells apart anyway has a mark, which says the number
 * it was listed under: so no name is hashed or compared here.  Marks of names
 * that were forgotten are below those of now.
 *
 * Names without a mark are looked for in a small table, where each has one
 * place: another one takes it.  So a name may be listed twice, which costs
 * some bytes, and nobody can choose names that make the packer slow. */
#include "common/log/packed.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/base/hash.h"

#define CELLS          16384u /* of names without a mark */
#define KEYSPACE_CELLS 1024u
#define WINDOW         (-15) /* raw deflate */
#define MEMORY         8

/* No more is listed before packer_restart(). */
#define MARKS_MOST (UINT32_MAX - 2u * (PACKED_NAMES + 1u))

/* A name, in the arena: number of the keyspace u16, size of the key u16, key.
 */
#define SIZES 4

/* What a name takes in the list, at most. */
#define LISTED_MAX (PACKED_NAME_MAX + 4 * PACKED_VARINT_MAX)

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
};

struct packer {
    int fd;
    uint32_t of;      /* crc32 of the header */
    size_t slot_size; /* of the log */
    z_stream z;

    /* The names that are known.  A mark is the number of its name, and more
     * than `from`. */
    uint32_t from, keyspace_from;
    uint32_t known;
    uint32_t places[PACKED_NAMES]; /* in the arena */
    uint8_t arena[PACKED_ARENA];
    size_t arena_used;
    struct keyspace keyspaces[PACKED_KEYSPACES];
    uint32_t keyspace_count;
    uint16_t cells[CELLS]; /* number + 1 */
    uint16_t keyspace_cells[KEYSPACE_CELLS];

    /* The block at hand. */
    uint32_t first, count, names;
    uint64_t total; /* of the file */
    bool forgot;
    uint8_t name_bytes[PACKED_NAMES_SIZE];
    uint8_t time_bytes[(size_t)PACKED_RECORDS * PACKED_VARINT_MAX];
    uint8_t increment_bytes[(size_t)PACKED_RECORDS * PACKED_VARINT_MAX];
    struct column new_names, times, increments;

    uint8_t
        out[PACKED_HEAD_SIZE + (size_t)2 * PACKED_RECORDS + PACKED_DEFLATED];
};

int
packer_new(struct packer **out)
{
    struct packer *p = calloc(1, sizeof *p);

    if (!p)
        return -ENOMEM;
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
put_change(struct column *c, uint64_t v)
{
    end_run(c);
    put_varint(c, zigzag((int64_t)(v - c->last)));
    c->last = v;
}

static inline void
put_value(struct column *c, uint64_t v)
{
    if (v == c->last)
        c->same++;
    else
        put_change(c, v);
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

/* ---- names ------------------------------------------------------------- */

static void
forget_names(struct packer *p)
{
    memset(p->cells, 0, sizeof p->cells);
    memset(p->keyspace_cells, 0, sizeof p->keyspace_cells);
    p->from += p->known;
    p->keyspace_from += p->keyspace_count;
    p->known = p->keyspace_count = 0;
    p->arena_used = 0;
}

void
packer_restart(struct packer *p)
{
    forget_names(p);
    p->from = p->keyspace_from = 0;
}

static bool
is_keyspace(const struct packer *p, uint32_t number, const struct message *m)
{
    const struct keyspace *k = &p->keyspaces[number];

    return k->size == m->keyspace_size &&
           memcmp(p->arena + k->at, m->keyspace, m->keyspace_size) == 0;
}

static bool
is_name(const struct packer *p, uint32_t number, uint32_t keyspace,
        const struct message *m)
{
    const uint8_t *at = p->arena + p->places[number];

    return get_le16(at) == keyspace && get_le16(at + 2) == m->key_size &&
           memcmp(at + SIZES, m->key, m->key_size) == 0;
}

/* Lists a new one, in front of the name that is its first. */
static uint32_t
add_keyspace(struct packer *p, const struct message *m)
{
    const uint32_t number = p->keyspace_count++;

    assert(number < PACKED_KEYSPACES);
    p->keyspaces[number] = (struct keyspace){.at = (uint32_t)p->arena_used,
                                             .size = m->keyspace_size};
    memcpy(p->arena + p->arena_used, m->keyspace, m->keyspace_size);
    p->arena_used += m->keyspace_size;
    put_varint(&p->new_names, 0);
    put_varint(&p->new_names, m->keyspace_size);
    memcpy(p->new_names.end, m->keyspace, m->keyspace_size);
    p->new_names.end += m->keyspace_size;
    return number;
}

/* Lists a key that has just been put into the arena. */
static void
list_key(struct packer *p, struct keyspace *k, const uint8_t *key,
         uint16_t size)
{
    const uint8_t *last = p->arena + k->key_at;
    const uint16_t most = k->key_size < size ? k->key_size : size;
    const uint16_t shared = (uint16_t)bytes_common_size(last, most, key, most);

    put_varint(&p->new_names, shared);
    put_varint(&p->new_names, size - shared);
    memcpy(p->new_names.end, key + shared, size - shared);
    p->new_names.end += size - shared;
    k->key_at = (uint32_t)(key - p->arena);
    k->key_size = size;
    p->names++;
}

/* Lists a name, behind the number of its keyspace. */
static uint32_t
add_name(struct packer *p, const struct message *m, uint32_t keyspace)
{
    uint8_t *at = p->arena + p->arena_used;
    const uint32_t number = p->known++;

    assert(number < PACKED_NAMES);
    p->places[number] = (uint32_t)p->arena_used;
    put_le16(at, (uint16_t)keyspace);
    put_le16(at + 2, m->key_size);
    memcpy(at + SIZES, m->key, m->key_size);
    p->arena_used += SIZES + (size_t)m->key_size;
    list_key(p, &p->keyspaces[keyspace], at + SIZES, m->key_size);
    return number;
}

/* ---- names with a mark -------------------------------------------------- */

static uint32_t
keyspace_of(struct packer *p, const struct message *m, uint32_t *mark)
{
    uint32_t number;

    if (*mark > p->keyspace_from) {
        number = *mark - p->keyspace_from - 1;
        put_varint(&p->new_names, number + 1);
        return number;
    }
    number = add_keyspace(p, m);
    *mark = p->keyspace_from + number + 1;
    return number;
}

static uint32_t
list_marked(struct packer *p, const struct message *m,
            const struct packed_name_ids *marks)
{
    const uint32_t number = add_name(p, m, keyspace_of(p, m, marks->keyspace));

    *marks->name = p->from + number + 1;
    return number;
}

/* ---- names without ------------------------------------------------------ */

/* All the same for everybody: see above. */
static const struct hash_key no_secret;

/* The number of a keyspace, or that of a new one, which is not listed yet. */
static uint32_t
find_keyspace(struct packer *p, const struct message *m, uint16_t **cell)
{
    const uint64_t hash =
        hash_name(&no_secret, 0, m->keyspace, m->keyspace_size);

    *cell = &p->keyspace_cells[hash % KEYSPACE_CELLS];
    if (**cell != 0 && is_keyspace(p, **cell - 1u, m))
        return **cell - 1u;
    return p->keyspace_count;
}

static uint32_t
find_or_list(struct packer *p, const struct message *m)
{
    uint16_t *keyspace_cell, *cell;
    uint32_t keyspace, number;

    keyspace = find_keyspace(p, m, &keyspace_cell);
    cell =
        &p->cells[hash_name(&no_secret, keyspace, m->key, m->key_size) % CELLS];
    if (*cell != 0 && is_name(p, *cell - 1u, keyspace, m))
        return *cell - 1u;
    if (keyspace == p->keyspace_count)
        *keyspace_cell = (uint16_t)(add_keyspace(p, m) + 1);
    else
        put_varint(&p->new_names, keyspace + 1);
    number = add_name(p, m, keyspace);
    *cell = (uint16_t)(number + 1);
    return number;
}

static uint32_t
number_of(struct packer *p, const struct message *m,
          const struct packed_name_ids *marks)
{
    if (!marks || !marks->name)
        return find_or_list(p, m);
    if (*marks->name > p->from)
        return *marks->name - p->from - 1;
    return list_marked(p, m, marks);
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

#define COLUMNS 3

/* Deflates the columns to `at`; returns the size. */
static size_t
deflate_columns(struct packer *p, const struct column *const columns[COLUMNS],
                uint8_t *at)
{
    int rc = deflateReset(&p->z);
    size_t i;

    assert(rc == Z_OK);
    p->z.next_out = at;
    p->z.avail_out = (unsigned)PACKED_DEFLATED;
    for (i = 0; i < COLUMNS; i++) {
        p->z.next_in = columns[i]->at;
        p->z.avail_in = (unsigned)(columns[i]->end - columns[i]->at);
        rc = deflate(&p->z, i == COLUMNS - 1 ? Z_FINISH : Z_NO_FLUSH);
    }
    assert(rc == Z_STREAM_END);
    return PACKED_DEFLATED - p->z.avail_out;
}

/* Puts the columns to `at`, as they are; returns the size. */
static size_t
copy_columns(const struct column *const columns[COLUMNS], uint8_t *at)
{
    size_t used = 0, i, size;

    for (i = 0; i < COLUMNS; i++, used += size) {
        size = (size_t)(columns[i]->end - columns[i]->at);
        memcpy(at + used, columns[i]->at, size);
    }
    return used;
}

static int
end_block(struct packer *p)
{
    const struct column *columns[] = {&p->new_names, &p->times, &p->increments};
    const size_t small = p->count * p->slot_size / PACKED_SMALL;
    uint8_t *at = p->out + PACKED_HEAD_SIZE + (size_t)2 * p->count;
    uint32_t bits = p->forgot ? PACKED_FORGOT : 0;
    size_t whole, size;

    if (p->count == 0)
        return 0;
    end_run(&p->times);
    end_run(&p->increments);
    whole = size = copy_columns(columns, at);
    if ((size_t)(at - p->out) + whole > small) {
        size = deflate_columns(p, columns, at);
        bits |= PACKED_IS_DEFLATED;
    }
    put_le32(p->out + 4, p->of);
    put_le32(p->out + 8, p->first);
    put_le32(p->out + 12, p->count);
    put_le32(p->out + 16, p->names);
    put_le32(p->out + 20, bits);
    put_le32(p->out + 24, (uint32_t)size);
    put_le32(p->out + 28, (uint32_t)whole);
    size += (size_t)(at - p->out);
    put_le32(p->out, crc_of(p->out + 4, size - 4));
    return write_all(p->fd, p->out, size);
}

/* Sees to it that so many more increments, all of new names, have room. */
static int
make_room(struct packer *p, size_t more)
{
    const bool forget =
        p->known + more > PACKED_NAMES ||
        p->keyspace_count + more > PACKED_KEYSPACES ||
        p->arena_used + more * (SIZES + PACKED_NAME_MAX) > PACKED_ARENA;
    int rc;

    if (!forget && p->count + more <= PACKED_RECORDS &&
        p->new_names.end + more * LISTED_MAX <=
            p->new_names.at + sizeof p->name_bytes)
        return 0;
    rc = end_block(p);
    if (forget)
        forget_names(p);
    begin_block(p);
    return rc;
}

int
packer_add(struct packer *p, const struct message *m,
           const struct slot_stamp *stamps, const struct packed_name_ids *marks,
           unsigned count)
{
    uint8_t *number;
    unsigned i;
    int rc;

    assert(count <= SLOT_RUN);
    rc = p->from > MARKS_MOST ? -EOVERFLOW : make_room(p, count);
    if (rc < 0)
        return rc;
    number = p->out + PACKED_HEAD_SIZE + (size_t)2 * p->count;
    for (i = 0; i < count; i++, number += 2) {
        put_le16(number,
                 (uint16_t)number_of(p, &m[i], marks ? &marks[i] : NULL));
        put_value(&p->times, stamps[i].received_ms);
        put_value(&p->increments, (uint64_t)m[i].increment);
    }
    p->count += count;
    return 0;
}

/* ---- a log ------------------------------------------------------------- */

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
    p->slot_size = log->layout.slot_size;
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

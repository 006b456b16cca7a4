/* tests/fuzz/fuzz_packed.c - any bytes as a packed log, and any increments
 * packed and read again.
 *
 * The first byte says which.  'p': what follows says increments of some names,
 * which are packed, with marks or without; they come back, and a file of which
 * one bit is another does not.  Else the rest is a file: bit 0 has its
 * checksums mended (few inputs would get past them).  What of it reads to its
 * end is packed again, and reads the same.
 */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/log/packed.h"

#define FILE_MOST ((size_t)1 << 20)
#define NAMES     4096u /* that have a mark */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct packer *packer;
static int given = -1, again = -1; /* files */

static void
make_all(void)
{
    int rc = packer_new(&packer);

    assert(rc == 0);
    given = memfd_create("given", MFD_CLOEXEC);
    again = memfd_create("again", MFD_CLOEXEC);
    assert(given >= 0 && again >= 0);
}

static void
clear_file(int fd)
{
    int rc = ftruncate(fd, 0);

    assert(rc == 0 && lseek(fd, 0, SEEK_SET) == 0);
}

/* The log that a header is of, as far as the packer looks at it. */
static void
fill_log(const struct packed_header *h, struct log *log)
{
    int rc;

    memset(log, 0, sizeof *log);
    log->header.state = LOG_SEALED;
    memcpy(log->header.uuid, h->uuid, sizeof h->uuid);
    log->header.index = h->index;
    log->header.epoch = h->epoch;
    log->header.count = h->count;
    log->header.first_ms = h->first_ms;
    log->header.last_ms = h->last_ms;
    log->header.slots = h->slots;
    log->header.keyspace_size = h->keyspace_size;
    log->header.key_size = h->key_size;
    rc = layout_init(&log->layout, h->keyspace_size, h->key_size);
    assert(rc == 0);
}

/* ---- reading ----------------------------------------------------------- */

static void
check_record(const struct packed_header *h, const struct packed_record *r)
{
    assert(r->m.keyspace_size > 0 && r->m.keyspace_size <= h->keyspace_size);
    assert(r->m.key_size > 0 && r->m.key_size <= h->key_size);
    assert(!memchr(r->m.keyspace, 0, r->m.keyspace_size));
    assert(!memchr(r->m.key, 0, r->m.key_size));
}

static void
pack_records(const struct packed_record *r, int count)
{
    struct message messages[SLOT_RUN];
    struct slot_stamp stamps[SLOT_RUN];
    int run, i, rc;

    for (; count > 0; count -= run, r += run) {
        run = count < SLOT_RUN ? count : SLOT_RUN;
        for (i = 0; i < run; i++) {
            messages[i] = r[i].m;
            stamps[i] = (struct slot_stamp){.received_ms = r[i].received_ms};
        }
        rc = packer_add(packer, messages, stamps, NULL, (unsigned)run);
        assert(rc == 0);
    }
}

/* Reads `given` and packs it into `again`; how many, or an error. */
static int64_t
read_and_pack(void)
{
    const struct packed_record *records;
    const struct packed_header *h;
    struct packed *p;
    uint64_t total = 0;
    struct log log;
    int count, rc;

    rc = packed_open(&p, given);
    if (rc < 0)
        return rc;
    h = packed_header(p);
    fill_log(h, &log);
    clear_file(again);
    rc = packer_begin(packer, &log, again);
    assert(rc == 0);
    while ((count = packed_next(p, &records)) > 0) {
        total += (uint64_t)count;
        for (int i = 0; i < count; i++)
            check_record(h, &records[i]);
        pack_records(records, count);
    }
    assert(count < 0 || total == h->count);
    packed_close(p);
    if (count < 0)
        return count;
    rc = packer_end(packer);
    assert(rc == 0);
    return (int64_t)total;
}

static void
assert_same(const struct packed_record *a, const struct packed_record *b)
{
    assert(a->received_ms == b->received_ms);
    assert(a->m.increment == b->m.increment);
    assert(a->m.keyspace_size == b->m.keyspace_size);
    assert(memcmp(a->m.keyspace, b->m.keyspace, a->m.keyspace_size) == 0);
    assert(a->m.key_size == b->m.key_size);
    assert(memcmp(a->m.key, b->m.key, a->m.key_size) == 0);
}

/* A file that is read from block to block, an increment at a time. */
struct side {
    struct packed *p;
    const struct packed_record *records;
    int count, at;
};

static const struct packed_record *
next_of(struct side *s)
{
    if (s->at == s->count) {
        s->at = 0;
        s->count = packed_next(s->p, &s->records);
        assert(s->count >= 0);
    }
    return s->count > 0 ? &s->records[s->at++] : NULL;
}

static void
compare_files(void)
{
    struct side a = {.count = 0}, b = {.count = 0};
    const struct packed_record *x, *y;
    int rc;

    rc = packed_open(&a.p, given);
    assert(rc == 0);
    rc = packed_open(&b.p, again);
    assert(rc == 0);
    do {
        x = next_of(&a);
        y = next_of(&b);
        assert(!x == !y);
        if (x)
            assert_same(x, y);
    } while (x);
    packed_close(a.p);
    packed_close(b.p);
}

/* ---- any file ---------------------------------------------------------- */

static void
mend(uint8_t *file, size_t size)
{
    size_t at = PACKED_HEADER_SIZE, block;

    if (size < PACKED_HEADER_SIZE)
        return;
    put_le32(file + PACKED_HEADER_SIZE - 4,
             crc_of(file, PACKED_HEADER_SIZE - 4));
    for (; at + PACKED_HEAD_SIZE <= size; at += block) {
        block = PACKED_HEAD_SIZE + (size_t)2 * get_le32(file + at + 12) +
                get_le32(file + at + 24);
        if (block > size - at)
            return;
        memcpy(file + at + 4, file + PACKED_HEADER_SIZE - 4, 4);
        put_le32(file + at, crc_of(file + at + 4, block - 4));
    }
}

static void
try_file(const uint8_t *bytes, size_t size, bool mended)
{
    uint8_t *file = malloc(size + 1);
    int64_t rc;

    assert(file != NULL);
    memcpy(file, bytes, size);
    if (mended)
        mend(file, size);
    clear_file(given);
    assert(pwrite(given, file, size, 0) == (ssize_t)size);
    free(file);
    rc = read_and_pack();
    assert(rc > 0 || rc == -EBADMSG || rc == -EPROTONOSUPPORT);
    if (rc > 0)
        compare_files();
}

/* ---- any increments ---------------------------------------------------- */

#define SIZE_OF_ONE 4      /* bytes that say an increment */
#define COUNT_MOST  20000u /* increments: some blocks */

struct made {
    struct packed_record r;
    char keyspace[16], key[MESSAGE_NAME_MAX];
    unsigned place; /* of its marks */
};

/* The increment that some bytes and its number say. */
static void
make(const uint8_t *bytes, unsigned number, unsigned repeated, struct made *m)
{
    const unsigned name = (bytes[0] * repeated + number) % NAMES;
    const unsigned size = 5 + bytes[3] % (MESSAGE_NAME_MAX - 5);

    m->place = name;
    memset(m->key, 'x', sizeof m->key);
    (void)snprintf(m->keyspace, sizeof m->keyspace, "k%u", name % 7);
    (void)snprintf(m->key, sizeof m->key, "%04x", name); /* the NUL goes */
    m->key[4] = 'y';
    m->r.m.keyspace = (const uint8_t *)m->keyspace;
    m->r.m.keyspace_size = (uint16_t)strlen(m->keyspace);
    m->r.m.key = (const uint8_t *)m->key;
    m->r.m.key_size = (uint16_t)(bytes[3] & 128 ? size : 5);
    m->r.m.increment =
        (int64_t)((uint64_t)(int64_t)(int8_t)bytes[1] << bytes[2] % 64);
    m->r.received_ms = (uint64_t)bytes[2] << (bytes[1] & 63);
}

/* How the increments are made: the bytes behind 'p'. */
struct recipe {
    const uint8_t *at;
    unsigned count, repeated;
    bool marks;
};

static void
make_nth(const struct recipe *r, unsigned n, struct made *m)
{
    make(r->at + (size_t)n / r->repeated * SIZE_OF_ONE, n % r->repeated,
         r->repeated, m);
}

/* Names of different sizes that share a place have no mark. */
static struct packed_name_ids
marks_of(const struct recipe *r, const struct made *m)
{
    static uint32_t keyspaces[7], names[NAMES];

    if (!r->marks || m->r.m.key_size != 5 || m->r.m.increment == 0)
        return (struct packed_name_ids){NULL, NULL};
    return (struct packed_name_ids){&keyspaces[m->place % 7], &names[m->place]};
}

static void
pack_made(const struct recipe *r)
{
    struct packed_header h = {.count = r->count,
                              .slots = r->count,
                              .keyspace_size = 256,
                              .key_size = 256};
    struct packed_name_ids marks;
    struct slot_stamp stamp;
    struct made m;
    struct log log;
    int rc;

    make_nth(r, 0, &m);
    h.first_ms = m.r.received_ms;
    make_nth(r, r->count - 1, &m);
    h.last_ms = m.r.received_ms;
    fill_log(&h, &log);
    clear_file(given);
    rc = packer_begin(packer, &log, given);
    for (unsigned i = 0; rc == 0 && i < r->count; i++) {
        make_nth(r, i, &m);
        marks = marks_of(r, &m);
        stamp = (struct slot_stamp){.received_ms = m.r.received_ms};
        rc = packer_add(packer, &m.r.m, &stamp, &marks, 1);
    }
    if (rc == 0)
        rc = packer_end(packer);
    assert(rc == 0);
}

static void
read_made(const struct recipe *r)
{
    const struct packed_record *records;
    unsigned number = 0;
    struct packed *p;
    struct made m;
    int count, rc;

    rc = packed_open(&p, given);
    assert(rc == 0);
    while ((count = packed_next(p, &records)) > 0)
        for (int i = 0; i < count; i++) {
            make_nth(r, number++, &m);
            assert_same(&records[i], &m.r);
        }
    assert(count == 0 && number == r->count);
    packed_close(p);
}

static void
flip_a_bit(uint32_t which)
{
    const off_t size = lseek(given, 0, SEEK_END);
    const off_t at = (off_t)(which / 8 % (uint64_t)size);
    int64_t rc;
    uint8_t byte;

    assert(pread(given, &byte, 1, at) == 1);
    byte ^= (uint8_t)(1 << which % 8);
    assert(pwrite(given, &byte, 1, at) == 1);
    rc = read_and_pack();
    assert(rc == -EBADMSG || rc == -EPROTONOSUPPORT);
}

static void
try_increments(const uint8_t *bytes, size_t size)
{
    struct recipe r = {.at = bytes + 5, .repeated = 1};

    if (size < 5 + SIZE_OF_ONE)
        return;
    r.marks = bytes[0] & 1;
    r.repeated = bytes[0] & 2 ? 1500 : 1;
    r.count = (unsigned)((size - 5) / SIZE_OF_ONE) * r.repeated;
    if (r.count > COUNT_MOST)
        r.count = COUNT_MOST;
    pack_made(&r);
    read_made(&r);
    flip_a_bit(get_le32(bytes + 1));
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1 || size > FILE_MOST)
        return 0;
    if (given < 0)
        make_all();
    if (bytes[0] == 'p')
        try_increments(bytes + 1, size - 1);
    else
        try_file(bytes + 1, size - 1, bytes[0] & 1);
    return 0;
}

/* tests/fuzz/fuzz_archive.c - any bytes as a file of fills, as they are and as
 * the content of its members.
 *
 * The first byte says which: bit 0, the rest is compressed into a member first,
 * with the checksums of header and names mended (few inputs would get past
 * them); bit 1, that member comes twice.  A member that reads to its end is
 * written again, and reads the same; behind damage the next one is found.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/log/archive_file.h"

#define FILE_MOST ((size_t)1 << 20)

static struct archive_writer *writer;
static int given = -1, again = -1; /* files */

static void
clear_file(int fd)
{
    int rc = ftruncate(fd, 0);

    assert(rc == 0 && lseek(fd, 0, SEEK_SET) == 0);
}

/* The checksums of a content that may be a header and names. */
static void
mend_sums(uint8_t *bytes, size_t size)
{
    size_t names;

    if (size < ARCHIVE_HEADER_SIZE)
        return;
    names = get_le32(bytes + 84);
    if (names <= size - ARCHIVE_HEADER_SIZE)
        put_le32(bytes + 88, crc_of(bytes + ARCHIVE_HEADER_SIZE, names));
    put_le32(bytes + ARCHIVE_HEADER_SIZE - 4,
             crc_of(bytes, ARCHIVE_HEADER_SIZE - 4));
}

/* Compresses the content of a member into `to`; its size. */
static size_t
compress_member(uint8_t *bytes, size_t size, uint8_t *to, size_t size_max)
{
    uint8_t extra[16] = {'C', 'D', 12};
    gz_header head = {.os = 3, .extra = extra, .extra_len = sizeof extra};
    z_stream z = {.zalloc = Z_NULL};
    int rc;

    rc = deflateInit2(&z, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
    assert(rc == Z_OK && deflateSetHeader(&z, &head) == Z_OK);
    z.next_in = bytes;
    z.avail_in = (unsigned)size;
    z.next_out = to;
    z.avail_out = (unsigned)size_max;
    rc = deflate(&z, Z_FINISH);
    assert(rc == Z_STREAM_END);
    size = z.total_out;
    (void)deflateEnd(&z); /* frees memory */
    put_le64(to + 16, size);
    put_le32(to + 24, crc_of(to + 16, 8));
    return size;
}

static void
make_file(const uint8_t *bytes, size_t size, unsigned how)
{
    uint8_t *copy = malloc(2 * size + 1024);
    size_t made = size;

    assert(copy != NULL);
    memcpy(copy, bytes, size);
    clear_file(given);
    if (how & 1) {
        mend_sums(copy, size);
        made = compress_member(copy, size, copy + size, size + 1024);
        memmove(copy, copy + size, made);
        if (how & 2)
            assert(pwrite(given, copy, made, (off_t)made) == (ssize_t)made);
    }
    assert(pwrite(given, copy, made, 0) == (ssize_t)made);
    free(copy);
}

static void
check_record(const struct archive_header *h, const struct message *m)
{
    assert(m->keyspace_size > 0 && m->keyspace_size <= h->keyspace_size);
    assert(m->key_size > 0 && m->key_size <= h->key_size);
    assert(!memchr(m->keyspace, 0, m->keyspace_size));
    assert(!memchr(m->key, 0, m->key_size));
}

static int
count_name(void *ctx, const struct archive_fill_name *n)
{
    size_t *names = ctx;

    assert(n->size > 0 && !memchr(n->name, 0, n->size));
    ++*names;
    return 0;
}

/* The content of a member whose checksums are right. */
struct reading {
    struct archive_header header;
    unsigned long hash; /* of its records */
    uint64_t total;
    int write; /* it is written again */
};

static int
see_record(void *ctx, uint32_t number, const struct message *m,
           const struct slot_stamp *stamp)
{
    struct reading *r = ctx;

    assert(number == r->total);
    r->total++;
    check_record(&r->header, m);
    r->hash = crc32(r->hash, (const Bytef *)&stamp->received_ms, 8);
    r->hash = crc32(r->hash, (const Bytef *)&m->increment, 8);
    r->hash = crc32(r->hash, m->keyspace, m->keyspace_size);
    r->hash = crc32(r->hash, m->key, m->key_size);
    return r->write ? archive_writer_add(writer, m, stamp->received_ms) : 0;
}

/* Reads a member that checks and, with `write`, writes it again, without its
 * names: a hash of its records. */
static unsigned long
read_member(int fd, const struct archive_member *m, int write)
{
    struct reading r = {.write = write};
    int rc;

    rc = archive_read_names(fd, m, &r.header, NULL, NULL);
    assert(rc == 0);
    r.header.names = 0;
    rc = write ? archive_writer_begin(writer, &r.header, NULL, again, 0) : 0;
    assert(rc == 0);
    rc = archive_each(fd, m, see_record, &r);
    assert(rc == 0 && r.total == r.header.count);
    rc = write ? archive_writer_end(writer, NULL) : 0;
    assert(rc == 0);
    return r.hash;
}

static int
check_member(void *ctx, int fd, const struct archive_member *m)
{
    struct archive_header h;
    size_t names = 0;
    int listed, rc;

    (void)ctx;
    (void)fd; /* `given` */
    listed = archive_read_names(given, m, &h, count_name, &names);
    rc = archive_each(given, m, NULL, NULL);
    assert(rc == 0 || rc == -EBADMSG || rc == -EPROTONOSUPPORT);
    if (rc < 0)
        return -EBADMSG;
    assert(listed == 0 && (h.names == 0 || names == h.names));
    clear_file(again);
    assert(read_member(given, m, 1) == read_member(again, NULL, 0));
    return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    bool damaged = false;
    int rc;

    if (size < 1 || size > FILE_MOST)
        return 0;
    if (given < 0) {
        rc = archive_writer_new(&writer);
        given = memfd_create("given", MFD_CLOEXEC);
        again = memfd_create("again", MFD_CLOEXEC);
        assert(rc == 0 && given >= 0 && again >= 0);
    }
    make_file(bytes + 1, size - 1, bytes[0]);
    rc = archive_each_member(given, (uint64_t)lseek(given, 0, SEEK_END),
                             check_member, NULL, &damaged);
    assert(rc == 0);
    return 0;
}

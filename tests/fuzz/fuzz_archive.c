/* tests/fuzz/fuzz_archive.c - any bytes as the file of an archived log, as they
 * are and as the content of a gzip file.
 *
 * The first byte says which: odd, the rest is compressed first, with the
 * header's crc32 mended (few inputs would get past them).  What reads to its
 * end is written again, and reads the same.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/log/archive_file.h"

#define FILE_MOST ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct archive_writer *writer;
static int given = -1, again = -1; /* files */

static void
clear_file(int fd)
{
    int rc = ftruncate(fd, 0);

    assert(rc == 0 && lseek(fd, 0, SEEK_SET) == 0);
}

static void
make_file(const uint8_t *bytes, size_t size, int compressed)
{
    uint8_t *copy = malloc(size + 1);
    gzFile gz;

    assert(copy != NULL);
    memcpy(copy, bytes, size);
    clear_file(given);
    if (compressed) {
        if (size >= ARCHIVE_HEADER_SIZE)
            put_le32(copy + ARCHIVE_HEADER_SIZE - 4,
                     crc_of(copy, ARCHIVE_HEADER_SIZE - 4));
        gz = gzdopen(dup(given), "wb1");
        assert(gz != NULL);
        assert(gzwrite(gz, copy, (unsigned)size) == (int)size);
        assert(gzclose(gz) == Z_OK);
    } else {
        assert(pwrite(given, copy, size, 0) == (ssize_t)size);
    }
    free(copy);
}

static void
check_record(const struct archive_header *h, const struct archive_record *r)
{
    assert(r->m.keyspace_size > 0 && r->m.keyspace_size <= h->keyspace_size);
    assert(r->m.key_size > 0 && r->m.key_size <= h->key_size);
    assert(!memchr(r->m.keyspace, 0, r->m.keyspace_size));
    assert(!memchr(r->m.key, 0, r->m.key_size));
}

/* Reads a file that checks and, with `write`, writes it again: a hash of its
 * records. */
static unsigned long
read_file(int fd, int write)
{
    const struct archive_record *records;
    unsigned long hash = 0;
    struct archive_reader *r;
    uint64_t total = 0;
    int count, rc;

    rc = archive_reader_open(&r, fd);
    assert(rc == 0);
    if (write)
        archive_writer_begin(writer, archive_reader_header(r), again);
    while ((count = archive_reader_next(r, &records)) > 0)
        for (int i = 0; i < count; i++, total++) {
            const struct archive_record *x = &records[i];

            check_record(archive_reader_header(r), x);
            hash = crc32(hash, (const Bytef *)&x->received_ms, 8);
            hash = crc32(hash, (const Bytef *)&x->m.increment, 8);
            hash = crc32(hash, x->m.keyspace, x->m.keyspace_size);
            hash = crc32(hash, x->m.key, x->m.key_size);
            rc = write ? archive_writer_add(writer, &x->m, x->received_ms) : 0;
            assert(rc == 0);
        }
    assert(count == 0 && total == archive_reader_header(r)->count);
    rc = write ? archive_writer_end(writer) : 0;
    assert(rc == 0);
    archive_reader_close(r);
    return hash;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct archive_reader *r;
    unsigned long hash;
    int rc;

    if (size < 1 || size > FILE_MOST)
        return 0;
    if (given < 0) {
        rc = archive_writer_new(&writer);
        given = memfd_create("given", MFD_CLOEXEC);
        again = memfd_create("again", MFD_CLOEXEC);
        assert(rc == 0 && given >= 0 && again >= 0);
    }
    make_file(bytes + 1, size - 1, bytes[0] & 1);
    rc = archive_reader_open(&r, given);
    assert(rc == 0 || rc == -EBADMSG || rc == -EPROTONOSUPPORT);
    if (rc < 0)
        return 0;
    archive_reader_close(r);
    clear_file(again);
    hash = read_file(given, 1);
    assert(read_file(again, 0) == hash);
    return 0;
}

/* common/log/archive_read.c - reads the file of an archived log; see
 * archive_file.h: archive_reader_next(), archive_reader_open().
 *
 * A file is inflated twice: the first time nothing but its form and its
 * checksums are looked at, so that no record of a damaged file is returned. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/archive_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/base/bytes.h"
#include "common/base/files.h"

#define IN_SIZE    ((size_t)16 << 10)
#define PLAIN_SIZE ((size_t)32 << 10)
#define GZIP       16 /* added to the window's bits: a gzip file */

/* Version 1 was not a gzip file. */
static const char old_magic[8] = {'C', 'O', 'U', 'N', 'T', 'D', 'A', '1'};

struct archive_reader {
    z_stream z;
    int fd;      /* borrowed */
    uint64_t at; /* bytes of the file taken in */
    bool ended;  /* the stream is, and the file with it */
    struct archive_header header;
    uint64_t left;    /* records to come */
    uint64_t last_ms; /* received_ms of the one before */
    size_t from, to;  /* of `plain`: what is not returned yet */
    uint8_t in[IN_SIZE];
    uint8_t plain[PLAIN_SIZE];
    struct archive_record records[ARCHIVE_RECORDS];
};

/* ---- bytes ------------------------------------------------------------- */

/* Reads on when all that was read is inflated. */
static int
read_more(struct archive_reader *r)
{
    ssize_t got;

    if (r->z.avail_in > 0)
        return 0;
    got = read_at(r->fd, r->in, IN_SIZE, r->at);
    if (got <= 0)
        return got < 0 ? (int)got : -EBADMSG; /* cut short */
    r->at += (uint64_t)got;
    r->z.next_in = r->in;
    r->z.avail_in = (unsigned)got;
    return 0;
}

/* The stream has ended with the right checksum: nothing may follow. */
static int
expect_end_of_file(struct archive_reader *r)
{
    uint8_t byte;
    ssize_t got;

    r->ended = true;
    if (r->z.avail_in > 0)
        return -EBADMSG;
    got = read_at(r->fd, &byte, 1, r->at);
    return got > 0 ? -EBADMSG : (int)got;
}

/* Fills `plain` as far as the file goes; what is in it moves to its start. */
static int
fill_plain(struct archive_reader *r)
{
    int rc = 0, state;

    memmove(r->plain, r->plain + r->from, r->to - r->from);
    r->to -= r->from;
    r->from = 0;
    while (rc == 0 && !r->ended && r->to < PLAIN_SIZE) {
        rc = read_more(r);
        if (rc < 0)
            break;
        r->z.next_out = r->plain + r->to;
        r->z.avail_out = (unsigned)(PLAIN_SIZE - r->to);
        state = inflate(&r->z, Z_NO_FLUSH);
        r->to = PLAIN_SIZE - r->z.avail_out;
        if (state == Z_STREAM_END)
            rc = expect_end_of_file(r);
        else if (state == Z_MEM_ERROR)
            rc = -ENOMEM;
        else if (state != Z_OK)
            rc = -EBADMSG;
    }
    return rc;
}

/* ---- records ----------------------------------------------------------- */

static bool
take_varint(const uint8_t **at, const uint8_t *end, uint64_t *n)
{
    *n = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        const uint8_t byte = *(*at)++;

        *n |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* A name and its NUL at `*at`.  False: there is none of `most` bytes at most
 * before `end`. */
static bool
take_name(const uint8_t **at, const uint8_t *end, size_t most,
          const uint8_t **name, uint16_t *size)
{
    const size_t there = (size_t)(end - *at);
    const uint8_t *nul = memchr(*at, 0, there < most + 1 ? there : most + 1);

    if (!nul || nul == *at)
        return false;
    *name = *at;
    *size = (uint16_t)(nul - *at);
    *at = nul + 1;
    return true;
}

/* Takes the next record out of `plain`.  False: there is no whole one. */
static bool
take_record(struct archive_reader *r, struct archive_record *out)
{
    const uint8_t *at = r->plain + r->from, *end = r->plain + r->to;
    uint64_t ms, increment;

    if (!take_varint(&at, end, &ms) || !take_varint(&at, end, &increment) ||
        !take_name(&at, end, r->header.keyspace_size, &out->m.keyspace,
                   &out->m.keyspace_size) ||
        !take_name(&at, end, r->header.key_size, &out->m.key, &out->m.key_size))
        return false;
    r->last_ms += ms;
    out->received_ms = r->last_ms;
    out->m.increment = (int64_t)(increment >> 1 ^ (0 - (increment & 1)));
    r->from = (size_t)(at - r->plain);
    return true;
}

int
archive_reader_next(struct archive_reader *r,
                    const struct archive_record **records)
{
    int count = 0, rc;

    if (r->to - r->from < ARCHIVE_RECORD_MAX || r->left == 0) {
        rc = fill_plain(r);
        if (rc < 0)
            return rc;
    }
    while (count < ARCHIVE_RECORDS && r->left > 0 &&
           take_record(r, &r->records[count])) {
        count++;
        r->left--;
    }
    if (count == 0 && (r->left > 0 || r->from < r->to))
        return -EBADMSG;
    *records = r->records;
    return count;
}

/* ---- opening ----------------------------------------------------------- */

static int
take_header(struct archive_reader *r)
{
    int rc;

    (void)inflateReset(&r->z); /* the stream is ours and sound */
    r->z.avail_in = 0;
    r->at = 0;
    r->ended = false;
    r->from = r->to = 0;
    rc = fill_plain(r);
    if (rc == -EBADMSG && r->at >= sizeof old_magic &&
        memcmp(r->in, old_magic, sizeof old_magic) == 0)
        return -EPROTONOSUPPORT;
    if (rc < 0 || r->to < ARCHIVE_HEADER_SIZE)
        return rc < 0 ? rc : -EBADMSG;
    rc = archive_header_get(r->plain, &r->header);
    r->from = ARCHIVE_HEADER_SIZE;
    r->left = r->header.count;
    r->last_ms = r->header.first_ms;
    return rc;
}

static int
open_reader(struct archive_reader **out, int fd)
{
    struct archive_reader *r = malloc(sizeof *r);
    int rc;

    *out = r;
    if (!r)
        return -ENOMEM;
    r->fd = fd;
    r->z = (z_stream){.zalloc = Z_NULL};
    if (inflateInit2(&r->z, MAX_WBITS + GZIP) != Z_OK)
        rc = -ENOMEM;
    else
        rc = take_header(r);
    return rc;
}

int
archive_reader_open(struct archive_reader **out, int fd)
{
    const struct archive_record *records;
    struct archive_reader *r;
    int rc;

    rc = open_reader(&r, fd);
    while (rc == 0 && (rc = archive_reader_next(r, &records)) > 0)
        rc = 0;
    if (rc == 0)
        rc = take_header(r);
    if (rc < 0)
        archive_reader_close(r);
    else
        *out = r;
    return rc;
}

void
archive_reader_close(struct archive_reader *r)
{
    if (!r)
        return;
    (void)inflateEnd(&r->z); /* frees memory */
    free(r);
}

const struct archive_header *
archive_reader_header(const struct archive_reader *r)
{
    return &r->header;
}

int
archive_read_header(int fd, struct archive_header *out)
{
    struct archive_reader *r;
    int rc;

    rc = open_reader(&r, fd);
    if (rc == 0)
        *out = r->header;
    archive_reader_close(r);
    return rc;
}

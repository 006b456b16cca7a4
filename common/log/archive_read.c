/* common/log/archive_read.c - reads the file of an archived log; see
 * archive_file.h: archive_each_member(), archive_each(), archive_read_names().
 *
 * A member is inflated twice: the first time nothing but its form and its
 * checksums are looked at, so that no record of a damaged one is visited. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/archive_file.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/base/files.h"

#define IN_SIZE    ((size_t)16 << 10)
#define PLAIN_SIZE ((size_t)32 << 10)
#define GZIP       16 /* added to the window's bits: a gzip file */

static_assert(SLOT_RUN * ARCHIVE_RECORD_MAX <= PLAIN_SIZE, "a run fits");

/* Version 1 was not a gzip file. */
static const char old_magic[8] = {'C', 'O', 'U', 'N', 'T', 'D', 'A', '1'};

struct archive_reader {
    z_stream z;
    int fd; /* borrowed */
    struct archive_member member;
    uint64_t at; /* bytes of the file taken in */
    bool ended;  /* the stream is, and the member with it */
    struct archive_header header;
    uint64_t left;    /* records to come */
    uint64_t last_ms; /* received_ms of the one before */
    size_t from, to;  /* of `plain`: what is not visited yet */
    uint8_t in[IN_SIZE];
    uint8_t plain[PLAIN_SIZE];
};

/* ---- bytes ------------------------------------------------------------- */

/* Reads on when all that was read is inflated. */
static int
read_more(struct archive_reader *r)
{
    const uint64_t left = r->member.at + r->member.size - r->at;
    ssize_t got;

    if (r->z.avail_in > 0)
        return 0;
    got = read_twice(r->fd, r->in, left < IN_SIZE ? (size_t)left : IN_SIZE,
                     r->at);
    if (got <= 0)
        return got < 0 ? (int)got : -EBADMSG; /* cut short */
    r->at += (uint64_t)got;
    r->z.next_in = r->in;
    r->z.avail_in = (unsigned)got;
    return 0;
}

/* The stream has ended with the right checksum: the member has, too. */
static int
expect_end_of_member(struct archive_reader *r)
{
    r->ended = true;
    return r->z.avail_in > 0 || r->at < r->member.at + r->member.size ? -EBADMSG
                                                                      : 0;
}

/* Fills `plain` as far as the member goes; what is in it moves to its start. */
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
            rc = expect_end_of_member(r);
        else if (state == Z_MEM_ERROR)
            rc = -ENOMEM;
        else if (state != Z_OK)
            rc = -EBADMSG;
    }
    return rc;
}

/* ---- records ----------------------------------------------------------- */

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
take_record(struct archive_reader *r, struct message *m,
            struct slot_stamp *stamp)
{
    const uint8_t *at = r->plain + r->from, *end = r->plain + r->to;
    uint64_t ms, increment, minute = 0;

    if (!varint_get(&at, end, &ms) || !varint_get(&at, end, &increment) ||
        ((r->header.features & ARCHIVE_HAS_TIMES) != 0 &&
         !varint_get(&at, end, &minute)) ||
        minute > UINT32_MAX ||
        !take_name(&at, end, r->header.keyspace_size, &m->keyspace,
                   &m->keyspace_size) ||
        !take_name(&at, end, r->header.key_size, &m->key, &m->key_size))
        return false;
    r->last_ms += ms;
    *stamp = (struct slot_stamp){.received_ms = r->last_ms};
    m->minute = (uint32_t)minute;
    m->increment = (int64_t)(increment >> 1 ^ (0 - (increment & 1)));
    r->from = (size_t)(at - r->plain);
    return true;
}

/* Takes the next run; returns its number of records, 0 behind the last one. */
static int
take_run(struct archive_reader *r, struct message *m, struct slot_stamp *stamps)
{
    int count = 0, rc = 0;

    if (r->to - r->from < SLOT_RUN * ARCHIVE_RECORD_MAX || r->left == 0)
        rc = fill_plain(r);
    if (rc < 0)
        return rc;
    for (; count < SLOT_RUN && r->left > 0; count++, r->left--)
        if (!take_record(r, &m[count], &stamps[count]))
            return -EBADMSG;
    return count == 0 && r->from < r->to ? -EBADMSG : count;
}

/* ---- members ----------------------------------------------------------- */

/* How a member of version 3 begins; -1: any byte. */
static const int16_t member_head[] = {0x1f, 0x8b, 8,  4, -1,  -1,  -1, -1,
                                      -1,   -1,   16, 0, 'C', 'D', 12, 0};
#define HEAD_FIXED (sizeof member_head / sizeof member_head[0])

static bool
is_member_head(const uint8_t *bytes)
{
    for (size_t i = 0; i < HEAD_FIXED; i++)
        if (member_head[i] >= 0 && bytes[i] != member_head[i])
            return false;
    return true;
}

/* Finds the member at m->at and sets its size.
 *   -ENOENT   that is the end of the file
 *   -EBADMSG  no member begins there, or it is cut short */
static int
find_member(int fd, uint64_t file_size, struct archive_member *m)
{
    uint8_t head[ARCHIVE_MEMBER_HEAD];
    const uint64_t left = file_size - m->at;
    ssize_t got;

    if (m->at >= file_size)
        return m->at == file_size && m->at > 0 ? -ENOENT : -EBADMSG;
    got = read_twice(fd, head, sizeof head, m->at);
    if (got < 0)
        return (int)got;
    m->size = left; /* version 2, or not gzip at all, which its reader says */
    if (m->at == 0 && (got < 4 || head[0] != 0x1f || head[3] == 0))
        return 0;
    if (got < (ssize_t)sizeof head || !is_member_head(head) ||
        get_le32(head + HEAD_FIXED + 8) != crc_of(head + HEAD_FIXED, 8))
        return -EBADMSG;
    m->size = get_le64(head + HEAD_FIXED);
    return m->size < sizeof head || m->size > left ? -EBADMSG : 0;
}

/* The next place from `at` on where a member seems to begin; file_size when
 * there is none, or it cannot be read. */
static uint64_t
seek_member(int fd, uint64_t at, uint64_t file_size)
{
    uint8_t bytes[4096];
    ssize_t got;

    while ((got = read_twice(fd, bytes, sizeof bytes, at)) >=
           (ssize_t)HEAD_FIXED) {
        const size_t last = (size_t)got - HEAD_FIXED;

        for (size_t i = 0; i <= last; i++)
            if (is_member_head(bytes + i))
                return at + i;
        at += last + 1;
    }
    return file_size;
}

int
archive_each_member(int fd, uint64_t file_size,
                    int (*member)(void *ctx, int fd,
                                  const struct archive_member *m),
                    void *ctx, bool *damaged)
{
    struct archive_member m = {.at = 0};
    int rc;

    while ((rc = find_member(fd, file_size, &m)) != -ENOENT) {
        if (rc == 0)
            rc = member(ctx, fd, &m);
        if (rc != 0 && rc != -EBADMSG && rc != -EIO)
            return rc;
        *damaged = *damaged || rc < 0;
        m.at = rc == 0 ? m.at + m.size : seek_member(fd, m.at + 1, file_size);
        if (rc < 0 && m.at >= file_size)
            break;
    }
    return 0;
}

/* ---- opening ----------------------------------------------------------- */

static int
take_header(struct archive_reader *r)
{
    int rc;

    (void)inflateReset(&r->z); /* the stream is ours and sound */
    r->z.avail_in = 0;
    r->at = r->member.at;
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

/* Parses the next name in `plain`; returns its bytes. */
static int
parse_name(struct archive_reader *r, struct archive_fill_name *n)
{
    const uint8_t *at, *end;
    uint64_t increments;
    int rc = 0;

    if (r->to - r->from < ARCHIVE_RECORD_MAX)
        rc = fill_plain(r);
    if (rc < 0)
        return rc;
    at = r->plain + r->from;
    end = r->plain + r->to;
    if (!varint_get(&at, end, &increments) || increments > r->header.count ||
        !take_name(&at, end, r->header.keyspace_size, &n->name, &n->size))
        return -EBADMSG;
    n->increments = (uint32_t)increments;
    return (int)(at - (r->plain + r->from));
}

/* Goes through the names, which must be what the header says; `name`, unless it
 * is NULL, is called with each. */
static int
take_names(struct archive_reader *r, archive_take_name *name, void *ctx)
{
    uint32_t size = 0, crc = 0;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < r->header.names; i++) {
        struct archive_fill_name n;
        const int bytes = parse_name(r, &n);

        if (bytes < 0)
            return bytes;
        size += (uint32_t)bytes;
        crc = (uint32_t)crc32(crc, r->plain + r->from, (unsigned)bytes);
        r->from += (size_t)bytes;
        rc = name ? name(ctx, &n) : 0;
    }
    if (rc == 0 && (size != r->header.names_size || crc != r->header.names_crc))
        rc = -EBADMSG;
    return rc;
}

/* The only member of a file. */
static int
find_only(int fd, struct archive_member *m)
{
    struct stat st;
    int rc;

    if (fstat(fd, &st) < 0)
        return -errno;
    rc = find_member(fd, (uint64_t)st.st_size, m);
    return rc == 0 && m->size != (uint64_t)st.st_size ? -EBADMSG : rc;
}

static int
open_reader(struct archive_reader **out, int fd, const struct archive_member *m)
{
    struct archive_member only = {.at = 0};
    struct archive_reader *r;
    int rc = m ? 0 : find_only(fd, &only);

    *out = NULL;
    if (rc < 0)
        return rc;
    *out = r = malloc(sizeof *r);
    if (!r)
        return -ENOMEM;
    r->fd = fd;
    r->member = m ? *m : only;
    r->z = (z_stream){.zalloc = Z_NULL};
    if (inflateInit2(&r->z, MAX_WBITS + GZIP) != Z_OK)
        return -ENOMEM;
    return take_header(r);
}

static void
close_reader(struct archive_reader *r)
{
    if (!r)
        return;
    (void)inflateEnd(&r->z); /* frees memory */
    free(r);
}

/* ---- visiting ---------------------------------------------------------- */

/* Goes through all that follows the header; `visit`, unless it is NULL, is
 * called with each record. */
static int
visit_records(struct archive_reader *r, slot_visit *visit, void *ctx)
{
    struct slot_stamp stamps[SLOT_RUN];
    struct message m[SLOT_RUN];
    uint32_t number = 0;
    int count, rc;

    rc = take_names(r, NULL, NULL);
    while (rc == 0 && (count = take_run(r, m, stamps)) != 0) {
        rc = count < 0 ? count : 0;
        for (int i = 0; visit && rc == 0 && i < count; i++)
            rc = visit(ctx, number++, &m[i], &stamps[i]);
    }
    return rc;
}

int
archive_each(int fd, const struct archive_member *m, slot_visit *visit,
             void *ctx)
{
    struct archive_reader *r;
    int rc;

    rc = open_reader(&r, fd, m);
    if (rc == 0)
        rc = visit_records(r, NULL, NULL);
    if (rc == 0 && visit)
        rc = take_header(r);
    if (rc == 0 && visit)
        rc = visit_records(r, visit, ctx);
    close_reader(r);
    return rc;
}

/* Who takes the names of records. */
struct name_taker {
    archive_take_name *name;
    void *ctx;
};

static int
name_record(void *ctx, uint32_t number, const struct message *m,
            const struct slot_stamp *stamp)
{
    const struct archive_fill_name n = {m->keyspace, m->keyspace_size, 1};
    const struct name_taker *to = ctx;

    (void)number;
    (void)stamp;
    return m->increment != 0 ? to->name(to->ctx, &n) : 0;
}

int
archive_read_names(int fd, const struct archive_member *m,
                   struct archive_header *out, archive_take_name *name,
                   void *ctx)
{
    struct name_taker to = {name, ctx};
    struct archive_reader *r;
    int rc;

    rc = open_reader(&r, fd, m);
    if (rc == 0)
        *out = r->header;
    if (rc == 0 && name && out->names > 0)
        rc = take_names(r, name, ctx);
    close_reader(r);
    return rc == 0 && name && out->names == 0
               ? archive_each(fd, m, name_record, &to)
               : rc;
}

/* common/log/archive_write.c - the header of an archived log's file, both ways,
 * and the writer of the file; see archive_file.h: archive_header_put(),
 * archive_header_get(), archive_writer_begin(), archive_writer_add(),
 * archive_header_of(), archive_write_log().
 *
 * One deflate stream serves all files: a new one would take and clear 260 KB
 * for each log. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/archive_file.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/base/files.h"
#include "common/base/state_file.h"
#include "common/log/logfile.h"
#include "common/log/mark.h"

#define VERSION    3
#define MAGIC      "COUNTDA3"
#define MAGIC_2    "COUNTDA2"
#define PLAIN_SIZE ((size_t)32 << 10)
#define OUT_SIZE   ((size_t)64 << 10)
#define GZIP       16 /* added to the window's bits: a gzip file */

/* ---- the header -------------------------------------------------------- */

void
archive_header_put(const struct archive_header *h,
                   uint8_t bytes[ARCHIVE_HEADER_SIZE])
{
    memset(bytes, 0, ARCHIVE_HEADER_SIZE);
    put_le32(bytes + 8, VERSION);
    put_le32(bytes + 12, h->features);
    memcpy(bytes + 16, h->uuid, sizeof h->uuid);
    put_le64(bytes + 32, h->index);
    put_le64(bytes + 40, h->epoch);
    put_le64(bytes + 48, h->count);
    put_le64(bytes + 56, h->first_ms);
    put_le64(bytes + 64, h->last_ms);
    put_le32(bytes + 72, h->slots);
    put_le16(bytes + 76, h->keyspace_size);
    put_le16(bytes + 78, h->key_size);
    put_le32(bytes + 80, h->names);
    put_le32(bytes + 84, h->names_size);
    put_le32(bytes + 88, h->names_crc);
    state_seal(bytes, ARCHIVE_HEADER_SIZE, MAGIC);
}

int
archive_header_get(const uint8_t bytes[ARCHIVE_HEADER_SIZE],
                   struct archive_header *out)
{
    const bool old = state_is_good(bytes, ARCHIVE_HEADER_SIZE, MAGIC_2);
    struct archive_header h;
    struct layout layout;

    if (!old && !state_is_good(bytes, ARCHIVE_HEADER_SIZE, MAGIC))
        return -EBADMSG;
    if (get_le32(bytes + 8) != (old ? 2 : VERSION) ||
        (get_le32(bytes + 12) & ~(old ? 0 : ARCHIVE_HAS_TIMES)) != 0)
        return -EPROTONOSUPPORT;
    h = (struct archive_header){
        .features = get_le32(bytes + 12),
        .index = get_le64(bytes + 32),
        .epoch = get_le64(bytes + 40),
        .count = get_le64(bytes + 48),
        .first_ms = get_le64(bytes + 56),
        .last_ms = get_le64(bytes + 64),
        .slots = get_le32(bytes + 72),
        .keyspace_size = get_le16(bytes + 76),
        .key_size = get_le16(bytes + 78),
        .names = get_le32(bytes + 80),
        .names_size = get_le32(bytes + 84),
        .names_crc = get_le32(bytes + 88),
    };
    memcpy(h.uuid, bytes + 16, sizeof h.uuid);
    if (layout_init(&layout, h.keyspace_size, h.key_size) < 0 ||
        h.index > LOG_INDEX_MAX || h.count > h.slots || h.names > h.count ||
        (old && h.names > 0))
        return -EBADMSG;
    *out = h;
    return 0;
}

/* ---- the writer -------------------------------------------------------- */

/* The extra field: its id, the size of what follows, which is the size of the
 * member and the crc32 of that. */
#define EXTRA_SIZE  16
#define EXTRA_AT    12 /* in the member */
#define MEMBER_SIZE 4  /* in the extra field */
#define MEMBER_CRC  12

static_assert(EXTRA_AT + EXTRA_SIZE == ARCHIVE_MEMBER_HEAD, "gzip's header");

struct archive_writer {
    z_stream z;
    gz_header head; /* its extra field is `extra` */
    uint8_t extra[EXTRA_SIZE];
    int fd;         /* of the file being written, borrowed */
    uint64_t start; /* of the member in it */
    uint64_t at;    /* its size */
    uint64_t left;  /* increments to come */
    bool has_times;
    uint64_t last_ms;  /* received_ms of the one before */
    size_t plain_size; /* not compressed yet */
    uint8_t plain[PLAIN_SIZE];
    uint8_t out[OUT_SIZE];
};

int
archive_writer_new(struct archive_writer **out)
{
    struct archive_writer *w = malloc(sizeof *w);

    if (!w)
        return -ENOMEM;
    w->z = (z_stream){.zalloc = Z_NULL};
    w->head = (gz_header){.os = 3, .extra = w->extra, .extra_len = EXTRA_SIZE};
    if (deflateInit2(&w->z, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + GZIP, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        free(w);
        return -ENOMEM;
    }
    memcpy(w->extra, (const uint8_t[EXTRA_SIZE]){'C', 'D', EXTRA_SIZE - 4},
           EXTRA_SIZE);
    *out = w;
    return 0;
}

void
archive_writer_free(struct archive_writer *w)
{
    if (!w)
        return;
    (void)deflateEnd(&w->z); /* frees memory */
    free(w);
}

static int
write_out(struct archive_writer *w)
{
    const size_t size = OUT_SIZE - w->z.avail_out;
    const int rc = write_at(w->fd, w->out, size, w->at);

    w->at += size;
    w->z.next_out = w->out;
    w->z.avail_out = OUT_SIZE;
    return rc;
}

/* Compresses what is in `plain`. */
static int
compress_plain(struct archive_writer *w, int flush)
{
    int rc, state;

    w->z.next_in = w->plain;
    w->z.avail_in = (unsigned)w->plain_size;
    w->plain_size = 0;
    do {
        state = deflate(&w->z, flush);
        assert(state == Z_OK || state == Z_STREAM_END || state == Z_BUF_ERROR);
        if (w->z.avail_out > 0 && state != Z_STREAM_END)
            return 0; /* all of it is taken in */
        rc = write_out(w);
    } while (rc == 0 && state != Z_STREAM_END);
    return rc;
}

/* One name of the list; returns its bytes. */
static size_t
put_name(uint8_t *at, const struct archive_fill_name *n)
{
    uint8_t *to = varint_put(at, n->increments);

    memcpy(to, n->name, n->size);
    to[n->size] = 0;
    return (size_t)(to - at) + n->size + 1u;
}

static int
put_names(struct archive_writer *w, const struct archive_fill_name *names,
          uint32_t count)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        if (PLAIN_SIZE - w->plain_size < ARCHIVE_RECORD_MAX)
            rc = compress_plain(w, Z_NO_FLUSH);
        if (rc == 0)
            w->plain_size += put_name(w->plain + w->plain_size, &names[i]);
    }
    return rc;
}

int
archive_writer_begin(struct archive_writer *w, const struct archive_header *h,
                     const struct archive_fill_name *names, int fd, uint64_t at)
{
    struct archive_header header = *h;
    uint8_t name[ARCHIVE_RECORD_MAX];

    (void)deflateReset(&w->z); /* the stream is ours and sound */
    (void)deflateSetHeader(&w->z, &w->head);
    w->z.next_out = w->out;
    w->z.avail_out = OUT_SIZE;
    w->fd = fd;
    w->start = w->at = at;
    w->left = h->count;
    w->has_times = (h->features & ARCHIVE_HAS_TIMES) != 0;
    w->last_ms = h->first_ms;
    header.names_size = header.names_crc = 0;
    for (uint32_t i = 0; i < h->names; i++) {
        const size_t size = put_name(name, &names[i]);

        header.names_size += (uint32_t)size;
        header.names_crc =
            (uint32_t)crc32(header.names_crc, name, (unsigned)size);
    }
    archive_header_put(&header, w->plain);
    w->plain_size = ARCHIVE_HEADER_SIZE;
    return put_names(w, names, h->names);
}

int
archive_writer_add(struct archive_writer *w, const struct message *m,
                   uint64_t received_ms)
{
    uint8_t *at;
    int rc;

    if (w->left-- == 0 || (m->minute != 0 && !w->has_times))
        return -EBADMSG;
    if (PLAIN_SIZE - w->plain_size < ARCHIVE_RECORD_MAX) {
        rc = compress_plain(w, Z_NO_FLUSH);
        if (rc < 0)
            return rc;
    }
    at = w->plain + w->plain_size;
    at = varint_put(at, received_ms - w->last_ms);
    at = varint_put(at, (uint64_t)m->increment << 1 ^
                            (uint64_t)(m->increment < 0 ? -1 : 0));
    if (w->has_times)
        at = varint_put(at, m->minute);
    w->last_ms = received_ms;
    memcpy(at, m->keyspace, m->keyspace_size);
    at += m->keyspace_size;
    *at++ = 0;
    memcpy(at, m->key, m->key_size);
    at += m->key_size;
    *at++ = 0;
    w->plain_size = (size_t)(at - w->plain);
    return 0;
}

/* Writes the size of the member where its head has zeros. */
static int
put_member_size(struct archive_writer *w)
{
    uint8_t extra[EXTRA_SIZE];

    memcpy(extra, w->extra, sizeof extra);
    put_le64(extra + MEMBER_SIZE, w->at - w->start);
    put_le32(extra + MEMBER_CRC, crc_of(extra + MEMBER_SIZE, 8));
    return write_at(w->fd, extra, sizeof extra, w->start + EXTRA_AT);
}

int
archive_writer_end(struct archive_writer *w, uint64_t *end)
{
    int rc;

    if (w->left > 0)
        return -EBADMSG;
    rc = compress_plain(w, Z_FINISH);
    if (rc == 0)
        rc = put_member_size(w);
    if (rc == 0 && end)
        *end = w->at;
    return rc;
}

/* ---- a log ------------------------------------------------------------- */

struct archive_header
archive_header_of(const struct log_header *h)
{
    struct archive_header out = {
        .features = (h->features & LOG_HAS_TIMES) != 0 ? ARCHIVE_HAS_TIMES : 0,
        .index = h->index,
        .epoch = h->epoch,
        .count = h->count - h->marks,
        .first_ms = h->first_ms,
        .last_ms = h->last_ms,
        .slots = h->slots,
        .keyspace_size = h->layout.keyspace_size,
        .key_size = h->layout.key_size,
    };

    memcpy(out.uuid, h->uuid, sizeof out.uuid);
    return out;
}

static int
write_slot(void *ctx, uint32_t number, const struct message *m,
           const struct slot_stamp *stamp)
{
    (void)number;
    return mark_is(m) ? 0 : archive_writer_add(ctx, m, stamp->received_ms);
}

int
archive_write_log(struct archive_writer *w, const struct log *log, int fd)
{
    const struct archive_header h = archive_header_of(&log->header);
    int rc;

    rc = archive_writer_begin(w, &h, NULL, fd, 0);
    if (rc == 0)
        rc = logfile_each_sealed(log, write_slot, w);
    return rc == 0 ? archive_writer_end(w, NULL) : rc;
}

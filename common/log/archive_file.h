/* common/log/archive_file.h - the file of one archived log: a fill's increments in
 * order, with the time each was received; several fills in files of
 * log/waiting/.
 *
 * A fill is one gzip member, and a file is members and nothing else.  `zcat`
 * shows their content, integers little-endian: a header, then names, then a
 * record for each increment.
 *
 *   at    size  header
 *      0     8  magic          "COUNTDA3"
 *      8     4  version        3
 *     12     4  features       1: records have a minute; an unknown bit:
 *                              refuse
 *     16    16  uuid           of the log
 *     32     8  index          its ten digits
 *     40     8  epoch          of the fill
 *     48     8  count          of records, those with an increment of 0 too
 *     56     8  first_ms       received_ms of the first slot of the fill
 *     64     8  last_ms        of the last
 *     72     4  slots          that the log has
 *     76     2  keyspace_size  settings the log was written with
 *     78     2  key_size
 *     80     4  names          keyspaces that are listed; 0 in archive/
 *     84     4  names_size     bytes of the list
 *     88     4  names_crc      crc32 of the list
 *     92    32  zero
 *    124     4  crc32 of bytes 0 to 123
 *
 *   name
 *     varint    increments other than 0 of this keyspace
 *     keyspace  and a NUL
 *
 *   record
 *     varint    received_ms - that of the record before; of the first one,
 *               - first_ms (mod 2^64)
 *     varint    increment, zigzag: 0, -1, 1, -2 are 0, 1, 2, 3
 *     varint    minute, with feature 1: that the increment is of; 0: that of its
 *               receipt
 *     keyspace  and a NUL
 *     key       and a NUL
 *
 * A varint has 7 bits a byte, the low ones first, the high bit set in all but
 * the last.  With integers of eight bytes files are 14 to 30 % larger, and
 * compressing takes as much longer.
 *
 * gzip's crc32 of the content and its size stand at the end of a member.  They
 * are checked, and so is each record's form, before the first record is
 * visited: of a damaged member nothing is believed.  Header and names have
 * checksums of their own, so that they can be read alone.
 *
 * The gzip header of a member has an extra field "CD", 12 bytes: the size of
 * the member u64, and the crc32 of these 8 bytes.  So a file is gone through
 * without inflating it, files are joined by copying members, and a member that
 * is damaged inside loses only itself.
 *
 * Version 2 ("COUNTDA2") has neither names nor the extra field: its file is one
 * member.  It is still read.
 *
 * Ownership: a writer belongs to its maker; the descriptors are borrowed.
 * Errors: 0 or a negative errno.  Prints nothing.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_ARCHIVE_FILE_H
#define COUNTD_COMMON_LOG_ARCHIVE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/log.h"
#include "common/log/slot.h"

#define ARCHIVE_HEADER_SIZE 128
#define ARCHIVE_MEMBER_HEAD 28 /* gzip's header with the extra field */
#define ARCHIVE_VARINT_MAX  10
#define ARCHIVE_RECORD_MAX                                                     \
    ((size_t)3 * ARCHIVE_VARINT_MAX + (size_t)2 * (MESSAGE_NAME_MAX + 1))

/* A feature: a program that does not know it refuses the file.  A field that it
 * may ignore needs none: it goes into the zeros behind names_crc, which no
 * program checks. */
#define ARCHIVE_HAS_TIMES 1u

struct archive_header {
    uint32_t features; /* 0 or ARCHIVE_HAS_TIMES */
    uint8_t uuid[MESSAGE_UUID_SIZE];
    uint64_t index;
    uint64_t epoch;
    uint64_t count;
    uint64_t first_ms;
    uint64_t last_ms;
    uint32_t slots;
    uint16_t keyspace_size;
    uint16_t key_size;
    uint32_t names;
    uint32_t names_size; /* the writer's to fill, as is names_crc */
    uint32_t names_crc;
};

/* A keyspace of a fill, and its increments other than 0. */
struct archive_fill_name {
    const uint8_t *name;
    uint16_t size;
    uint32_t increments;
};

void archive_header_put(const struct archive_header *h,
                        uint8_t bytes[ARCHIVE_HEADER_SIZE]);

/*   -EBADMSG          not a header, or damaged
 *   -EPROTONOSUPPORT  of another version or with unknown features */
int archive_header_get(const uint8_t bytes[ARCHIVE_HEADER_SIZE],
                       struct archive_header *out);

/* ---- writing ----------------------------------------------------------- */

struct archive_writer;

/* About 400 KB, used for one file after the other.  -ENOMEM */
int archive_writer_new(struct archive_writer **out);
void archive_writer_free(struct archive_writer *w); /* NULL is fine */

/* Writes a member to the end of a file, which is at `at`: begin with h->names
 * names, then all increments in order, then archive_writer_end(), which returns
 * the new end through *end unless it is NULL.  After an error what was written
 * is worth nothing.
 *   -EBADMSG  (end) not as many increments as the header says, (add) one with a
 *             minute without ARCHIVE_HAS_TIMES
 *   -ENOSPC, -EIO, ... */
int archive_writer_begin(struct archive_writer *w,
                         const struct archive_header *h,
                         const struct archive_fill_name *names, int fd,
                         uint64_t at);
int archive_writer_add(struct archive_writer *w, const struct message *m,
                       uint64_t received_ms);
int archive_writer_end(struct archive_writer *w, uint64_t *end);

/* The header of a sealed log's fill, without names.  Programs that write a part
 * of a fill, or a file anew, change a copy of this or of the header that they
 * read, so a further field stays. */
struct archive_header archive_header_of(const struct log_header *h);

/* Writes a sealed log into an empty file; its slots are read and checked again.
 *   -EBADMSG  a slot is damaged */
int archive_write_log(struct archive_writer *w, const struct log *log, int fd);

/* ---- reading ----------------------------------------------------------- */

/* A member of a file. */
struct archive_member {
    uint64_t at;
    uint64_t size;
};

/* Calls `member` with each member of a file of `file_size` bytes, in order.
 * Behind damage, which is what it says with -EBADMSG or -EIO, too, it goes on
 * with the next one, and sets *damaged.  Stops when `member` returns another
 * value than 0, and returns that. */
int archive_each_member(int fd, uint64_t file_size,
                        int (*member)(void *ctx, int fd,
                                      const struct archive_member *m),
                        void *ctx, bool *damaged);

/* Reads and checks a whole member, then reads it again and visits its records,
 * unless `visit` is NULL.  The file has nothing else when `m` is NULL.
 *   -EBADMSG          it is damaged or cut short
 *   -EPROTONOSUPPORT  it is of another version
 *   -EIO, -ENOMEM, ... */
int archive_each(int fd, const struct archive_member *m, slot_visit *visit,
                 void *ctx);

/* Reads and checks the header and the names of a member and calls `name` with
 * each, whose bytes live until it returns; stops when that returns non-zero and
 * returns that.  A member without names is read and checked as a whole, and
 * `name` called for each increment other than 0.  Without `name` only the header
 * is read.  `m` and errors as archive_each(). */
typedef int archive_take_name(void *ctx, const struct archive_fill_name *n);
int archive_read_names(int fd, const struct archive_member *m,
                       struct archive_header *out, archive_take_name *name,
                       void *ctx);

#endif

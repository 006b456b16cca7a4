/* common/log/archive_file.h - the file of one archived log: a gzip file of the
 * log's increments in order, with the time each was received.
 *
 * `zcat` shows its content, integers little-endian: a header, then a record
 * for each increment.
 *
 *   at    size  header
 *      0     8  magic          "COUNTDA2"
 *      8     4  version        2
 *     12     4  features       0; an unknown bit: refuse
 *     16    16  uuid           of the log
 *     32     8  index          its ten digits
 *     40     8  epoch          of the fill
 *     48     8  count          of records, those with an increment of 0 too
 *     56     8  first_ms       received_ms of the first slot of the fill
 *     64     8  last_ms        of the last
 *     72     4  slots          that the log has
 *     76     2  keyspace_size  settings the log was written with
 *     78     2  key_size
 *     80    44  zero
 *    124     4  crc32 of bytes 0 to 123
 *
 *   record
 *     varint    received_ms - that of the record before; of the first one,
 *               - first_ms (mod 2^64)
 *     varint    increment, zigzag: 0, -1, 1, -2 are 0, 1, 2, 3
 *     keyspace  and a NUL
 *     key       and a NUL
 *
 * A varint has 7 bits a byte, the low ones first, the high bit set in all but
 * the last.  With integers of eight bytes files are 14 to 30 % larger, and
 * compressing takes as much longer.
 *
 * gzip's crc32 of the content and its size stand at the end of the file.  A
 * reader checks them, and each record's form, before it returns the first
 * record: of a damaged file nothing is believed.  The header has a crc32 of its
 * own, so that it can be read alone.
 *
 * Ownership: writer and reader belong to their maker; the descriptors are
 * borrowed.  Errors: 0 or a negative errno.  Prints nothing.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_ARCHIVE_FILE_H
#define COUNTD_COMMON_LOG_ARCHIVE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/log/log.h"
#include "common/log/slot.h"

#define ARCHIVE_HEADER_SIZE 128
#define ARCHIVE_VARINT_MAX  10
#define ARCHIVE_RECORD_MAX                                                     \
    ((size_t)2 * (ARCHIVE_VARINT_MAX + MESSAGE_NAME_MAX + 1))
#define ARCHIVE_RECORDS 512 /* that a reader returns at once, at most */

struct archive_header {
    uint8_t uuid[MESSAGE_UUID_SIZE];
    uint64_t index;
    uint64_t epoch;
    uint64_t count;
    uint64_t first_ms;
    uint64_t last_ms;
    uint32_t slots;
    uint16_t keyspace_size;
    uint16_t key_size;
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

/* Writes a file: archive_writer_begin() on an empty file, then all increments
 * in order, then archive_writer_end().  After an error the file is worth
 * nothing.
 *   -EBADMSG  (end) not as many increments as the header says
 *   -ENOSPC, -EIO, ... */
void archive_writer_begin(struct archive_writer *w,
                          const struct archive_header *h, int fd);
int archive_writer_add(struct archive_writer *w, const struct message *m,
                       uint64_t received_ms);
int archive_writer_end(struct archive_writer *w);

/* Writes a sealed log, whose slots are read and checked again.
 *   -EBADMSG  a slot is damaged */
int archive_write_log(struct archive_writer *w, const struct log *log, int fd);

/* ---- reading ----------------------------------------------------------- */

struct archive_reader;

struct archive_record {
    struct message m; /* names are the reader's, until the next call */
    uint64_t received_ms;
};

/* Reads and checks a whole file from its start.
 *   -EBADMSG          the file is damaged or cut short
 *   -EPROTONOSUPPORT  it is of another version
 *   -EIO, -ENOMEM, ... */
int archive_reader_open(struct archive_reader **out, int fd);
void archive_reader_close(struct archive_reader *r); /* NULL is fine */

const struct archive_header *
archive_reader_header(const struct archive_reader *r);

/* The next records: their number, 0 behind the last one, or an error when the
 * file cannot be read a second time. */
int archive_reader_next(struct archive_reader *r,
                        const struct archive_record **records);

/* Reads and checks the header only.  Errors as archive_reader_open(). */
int archive_read_header(int fd, struct archive_header *out);

#endif

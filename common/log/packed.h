/* common/log/packed.h - a merged log, packed: its increments in order, with the
 * time each was received, about a hundredth of the log's size.
 *
 * What a log repeats is told once: names are listed when they are met first
 * and referred to by a number.  What is left stands in columns, which deflate
 * (zlib) likes; a block that is small as it is spares that work.  The file is a
 * header and blocks, integers little-endian:
 *
 *   at    size  header
 *      0     8  magic          "COUNTDA1"
 *      8     4  version        1
 *     12     4  features       0; an unknown bit: refuse
 *     16    16  uuid           of the log
 *     32     8  index          its ten digits
 *     40     8  epoch          of the fill
 *     48     8  count          increments, those of 0 too
 *     56     8  first_ms       received_ms of the first
 *     64     8  last_ms        of the last
 *     72     4  slots          that the log has
 *     76     2  keyspace_size  settings the log was written with
 *     78     2  key_size
 *     80    44  zero
 *    124     4  crc32 of bytes 0 to 123
 *
 *   at    size  block
 *      0     4  crc32 of the rest of the block
 *      4     4  crc32 of the file's header: whose block it is
 *      8     4  number of its first increment
 *     12     4  increments, 1 to PACKED_RECORDS
 *     16     4  names met first here
 *     20     4  bits: 1  the names of before are forgotten
 *                     2  the columns are deflated
 *     24     4  size of the columns here
 *     28     4  size of the columns as they are
 *     32        for each increment the number of its name, u16
 *               the columns, as they are or a raw deflate stream
 *
 *   columns
 *     names       for each of its keyspace the number + 1, or 0 and a new one
 *                 (size, bytes), which gets the next number; then how many
 *                 bytes its key shares with the key listed last in that
 *                 keyspace, how many of its own it has, and these
 *     times       values: received_ms, the first one behind first_ms
 *     increments  values, the first one behind 0
 *
 * Sizes and numbers are varints.  Values are told by what is added to the one
 * before, also over blocks: a zigzag varint; 0 is followed by how many values
 * more are the same.
 *
 * A varint has 7 bits a byte, the low ones first, the high bit set in all but
 * the last.  The file ends behind the last increment.  Every byte is covered
 * by a crc32, so damage is told and never read as something else.
 *
 * Ownership: packer and reader belong to who made them.  Errors: 0 or a
 * negative errno.  Prints nothing.  Source: ours.
 */
#ifndef COUNTD_COMMON_LOG_PACKED_H
#define COUNTD_COMMON_LOG_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/log.h"
#include "common/log/slot.h"

#define PACKED_HEADER_SIZE 128
#define PACKED_HEAD_SIZE   32                /* of a block */
#define PACKED_RECORDS     8192              /* of a block */
#define PACKED_NAMES       65535             /* known at a time */
#define PACKED_ARENA       ((size_t)4 << 20) /* bytes of these */
#define PACKED_NAMES_SIZE  ((size_t)1 << 18) /* of a block */
#define PACKED_KEYSPACES   4095              /* known at a time */
#define PACKED_NAME_MAX    (2 * MESSAGE_NAME_MAX + 1)
#define PACKED_VARINT_MAX  10
#define PACKED_SMALL       32 /* so much smaller than slots: not deflated */
#define PACKED_COLUMNS                                                         \
    (PACKED_NAMES_SIZE + (size_t)2 * PACKED_RECORDS * PACKED_VARINT_MAX)
/* What deflating them may make of them. */
#define PACKED_DEFLATED (PACKED_COLUMNS + PACKED_COLUMNS / 8 + 64)

/* Bits of a block. */
#define PACKED_FORGOT      1u
#define PACKED_IS_DEFLATED 2u

struct packed_header {
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

void packed_header_put(const struct packed_header *h,
                       uint8_t bytes[PACKED_HEADER_SIZE]);

/*   -EBADMSG          no header, or damaged
 *   -EPROTONOSUPPORT  of a newer version or with unknown features */
int packed_header_get(const uint8_t bytes[PACKED_HEADER_SIZE],
                      struct packed_header *out);

/* ---- writing ----------------------------------------------------------- */

struct packer;

/* About 6 MB, touched as far as logs have different names.  -ENOMEM */
int packer_new(struct packer **out);
void packer_free(struct packer *p); /* NULL is fine */

/* Writes a sealed log, which is read and checked again, into the empty file
 * `fd`.
 *   -EBADMSG  a slot is damaged   -ENOSPC, -EIO, -ENOMEM, ... from the calls */
int packer_write(struct packer *p, const struct log *log, int fd);

/* The same in pieces, for who reads the log for another purpose: packer_begin,
 * then all its increments in order, SLOT_RUN at most at once, then packer_end.
 * `fd` is used until then.  After an error the file is worth nothing.
 *   -EBADMSG    (packer_end) not as many as the log has
 *   -EOVERFLOW  (packer_add) 2^32 names, and no packer_restart() */
int packer_begin(struct packer *p, const struct log *log, int fd);

/* Who tells names apart anyway keeps a mark with each keyspace and with each
 * name, a key in a keyspace; it may keep several for the same name.  They are 0
 * at first and then the packer's, over logs, until packer_restart(): none that
 * was used before may be given again.  NULL: the packer looks for itself. */
struct packed_name_ids {
    uint32_t *keyspace, *name; /* both or none */
};

/* `marks` has one for each message, or is NULL. */
int packer_add(struct packer *p, const struct message *messages,
               const struct slot_stamp *stamps,
               const struct packed_name_ids *marks, unsigned count);
int packer_end(struct packer *p);

/* All marks are gone; between logs. */
void packer_restart(struct packer *p);

/* ---- reading ----------------------------------------------------------- */

struct packed;

struct packed_record {
    struct message m; /* names are the reader's, until the next block */
    uint64_t received_ms;
};

/* Reads a file from its start; `fd` is borrowed.
 *   -EBADMSG, -EPROTONOSUPPORT, -ENOMEM, -EIO */
int packed_open(struct packed **out, int fd);
void packed_close(struct packed *p); /* NULL is fine */

const struct packed_header *packed_header(const struct packed *p);

/* The increments of the next block: their number, or 0 behind the last one,
 * when the file ends where it must.
 *   -EBADMSG  the file is damaged or cut short */
int packed_next(struct packed *p, const struct packed_record **records);

#endif

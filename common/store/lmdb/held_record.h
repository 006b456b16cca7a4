/* common/store/lmdb/held_record.h - the bytes of a record of data/held.mdb:
 * pure functions over bytes.  Internal to this room.
 *
 * A record is a batch, and why it was refused: one value of LMDB.  It says what
 * it is and carries a checksum, so it can be found in any bytes (held_salvage),
 * also with more bytes behind it.
 *
 * Little-endian; offsets in bytes:
 *
 *     0  crc32 of all that follows
 *     4  magic "HLD2"
 *     8  size u64 of the value
 *    16  id u64
 *    24  held_ms u64 (Unix)
 *    32  marks u32
 *    36  deltas u32
 *    40  errno u32: why it was refused
 *    44  name size u16
 *    46  zero u16
 *    48  name of the keyspace
 *        marks, each: uuid[16] | epoch u64 | first_ms u64
 *        deltas, each: minute u32 | key size u16 | sum i128 | key
 */
#ifndef COUNTD_COMMON_STORE_LMDB_HELD_RECORD_H
#define COUNTD_COMMON_STORE_LMDB_HELD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store/store.h"

#define HELD_HEAD_SIZE 48 /* without the name */

/* What a record says.  Pointers are into the value. */
struct held_head {
    uint64_t size; /* bytes of the value */
    uint64_t id;
    uint64_t held_ms;
    uint32_t marks;
    uint32_t deltas;
    int error; /* positive */
    const uint8_t *name;
    size_t name_size;
    const uint8_t *body; /* marks, then deltas */
};

/* ---- writing ----------------------------------------------------------- */

/* Whether a batch is one that can be kept: a name, marks, sorted deltas. */
bool held_batch_ok(const struct store_batch *batch);

/* Bytes of the record of a batch. */
uint64_t held_batch_size(const struct store_batch *batch);

/* Writes that record; the batch is held_batch_ok().  `error` may have either
 * sign. */
void held_encode(const struct store_batch *batch, uint64_t id, uint64_t held_ms,
                 int error, uint8_t *value);

/* ---- reading ----------------------------------------------------------- */

/* The size of the whole value that begins here, if one does within `room`
 * bytes; else 0. */
size_t held_value_size(const uint8_t *value, size_t room);

/* Where in these bytes a value may begin, as the magic says: whole or damaged,
 * or cut by their end; `size` when nowhere. */
size_t held_value_scan(const uint8_t *bytes, size_t size);

/* Its id; also of HELD_HEAD_SIZE bytes of a damaged one. */
uint64_t held_value_id(const uint8_t *value);

/* Reads a record of exactly `size` bytes; false when it is none. */
bool held_head_parse(const uint8_t *value, size_t size, struct held_head *out);

/* Reads its marks. */
void held_marks_parse(const struct held_head *head, struct store_mark *marks);

/* Reads its deltas; their keys point into the value.  False when they are no
 * sorted deltas, exactly as many as the head says. */
bool held_deltas_parse(const struct held_head *head,
                       struct store_delta *deltas);

#endif

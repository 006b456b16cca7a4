/* common/store/lmdb/held_record.h - the bytes of a record of data/held.mdb:
 * pure functions over bytes.  Internal to this room.
 *
 * A record is a batch, and why it was refused.  Its body, the marks and the
 * deltas, begins in the head, which is part 0, and goes on in as many parts as
 * it needs; a value of either is at most HELD_VALUE_MAX bytes, so that it fits
 * one page of LMDB.  A value says what it is and carries a checksum, so it can
 * be found in any bytes (held_salvage), also with more bytes behind it.
 *
 * Little-endian; offsets in bytes:
 *
 *     value     0 crc32 of all that follows   4 magic "HLD1"
 *               8 size u32 of the value      12 part u32
 *              16 id u64                     24 nonce u64: of the record,
 * random head     32 body size u64              40 held_ms u64 (Unix) 48 parts
 * u32 after the head   52 marks u32 56 deltas u32                 60 errno u32:
 * why it was refused 64 name size u16              66 zero u16 68 name of the
 * keyspace, then the first bytes of the body: all of it, or as many as fill the
 * value part     32 bytes of the body: as many as fill the value, or the rest
 *     body     marks, each: uuid[16] | epoch u64 | first_ms u64
 *              deltas, each: minute u32 | key size u16 | sum i128 | key
 *
 * Parts belong together when id and nonce are the same: an id of a record that
 * was never committed is given again.
 */
#ifndef COUNTD_HELD_RECORD_H
#define COUNTD_HELD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store/store.h"

#define HELD_VALUE_MAX 4080
#define HELD_PART_HEAD 32
#define HELD_HEAD_SIZE 68 /* without the name */
#define HELD_PART_ROOM (HELD_VALUE_MAX - HELD_PART_HEAD)
#define HELD_MARK_SIZE 32
#define HELD_ITEM_MAX  (22 + STORE_NAME_MAX)

/* What the head says.  Pointers are into the value. */
struct held_head {
    uint64_t id;
    uint64_t nonce;
    uint64_t body_size;
    uint64_t held_ms;
    uint32_t parts; /* after the head */
    uint32_t marks;
    uint32_t deltas;
    int error; /* positive */
    const uint8_t *name;
    size_t name_size;
    const uint8_t *body; /* its first bytes */
    size_t body_here;
};

/* Bytes of all values of this record together. */
uint64_t held_record_size(const struct held_head *head);

/* Whether a batch is one that can be kept: a name, marks, sorted deltas. */
bool held_batch_ok(const struct store_batch *batch);

/* ---- writing ----------------------------------------------------------- */

/* A record on its way into values.  The batch is borrowed. */
struct held_encoder {
    struct held_head head; /* filled in by held_encode() */
    const struct store_batch *batch;
    uint32_t part;               /* the next value's */
    size_t next;                 /* the next of marks and deltas */
    uint8_t item[HELD_ITEM_MAX]; /* the one that is being given */
    size_t item_size, item_given;
};

/* Begins; the batch is held_batch_ok().  `error` may have either sign. */
void held_encode(struct held_encoder *e, const struct store_batch *batch,
                 uint64_t id, uint64_t nonce, uint64_t held_ms, int error);

/* Gives the head, then part after part: the size of the value, or 0 when all
 * have been given. */
size_t held_encode_next(struct held_encoder *e, uint8_t value[HELD_VALUE_MAX]);

/* ---- reading ----------------------------------------------------------- */

/* The size of the whole value that begins here, if one does within `room`
 * bytes; else 0. */
size_t held_value_size(const uint8_t *value, size_t room);

/* Where in these bytes a value may begin, as the magic says: whole or damaged,
 * or cut by their end; `size` when nowhere. */
size_t held_value_scan(const uint8_t *bytes, size_t size);

/* Which it is; also of HELD_PART_HEAD bytes of a damaged one. */
uint32_t held_value_part(const uint8_t *value);
uint64_t held_value_id(const uint8_t *value);
uint64_t held_value_nonce(const uint8_t *value);

/* Reads a head of exactly `size` bytes; false when it is none. */
bool held_head_parse(const uint8_t *value, size_t size, struct held_head *out);

/* The bytes of the body in part 1, 2, ... of that record; NULL when the value
 * is not that part. */
const uint8_t *held_part_parse(const uint8_t *value, size_t size,
                               const struct held_head *head, uint32_t part,
                               size_t *body_size);

/* Bytes of the body that part 1, 2, ... has. */
size_t held_part_room(const struct held_head *head, uint32_t part);

/* Reads the marks at the start of a body. */
void held_marks_parse(const uint8_t *body, uint32_t count,
                      struct store_mark *marks);

/* Reads the deltas of a whole body; their keys point into it.  False when the
 * body is not that of this head. */
bool held_deltas_parse(const struct held_head *head, const uint8_t *body,
                       struct store_delta *deltas);

#endif

/* common/store/held_record.h - the bytes of a record of data/held: pure
 * functions over bytes.  A record is a batch, and why it was refused.  Its
 * checksum is that of the journal's entry.
 *
 * Little-endian; offsets in bytes:
 *
 *     0  held_ms u64 (Unix)
 *     8  marks u32
 *    12  deltas u32
 *    16  errno u32: why it was refused; 0: it waits behind others
 *    20  name size u16
 *    22  zero u16
 *    24  name of the keyspace
 *        marks, each: uuid[16] | epoch u64 | first_ms u64
 *        deltas, each: minute u32 | key size u16 | sum i128 | key
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_HELD_RECORD_H
#define COUNTD_COMMON_STORE_HELD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store/store.h"

#define HELD_HEAD_SIZE 24 /* without the name */
#define HELD_MARK_SIZE 32

/* What a record says.  Pointers are into the value. */
struct held_head {
    uint64_t size; /* bytes of the record */
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
void held_encode(const struct store_batch *batch, uint64_t held_ms, int error,
                 uint8_t *value);

/* Writes the mark of a fill, HELD_MARK_SIZE bytes. */
void held_mark_encode(const struct store_fill *mark, uint8_t *to);

/* ---- reading ----------------------------------------------------------- */

/* Reads a record of exactly `size` bytes; false when it is none. */
bool held_head_parse(const uint8_t *value, size_t size, struct held_head *out);

/* Reads its marks. */
void held_marks_parse(const struct held_head *head, struct store_fill *marks);

/* Reads its deltas; their keys point into the value.  False when they are no
 * sorted deltas, exactly as many as the head says. */
bool held_deltas_parse(const struct held_head *head,
                       struct store_delta *deltas);

#endif

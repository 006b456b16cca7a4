/* common/store/history/rows.h - the blocks of a run: rows of a key and its
 * increments in each step of a period.
 *
 * A run is sorted by key, each key once, and begins with the row of the empty
 * key, which no counter has: the sums over all keys.  So the history of a whole
 * keyspace is that of one key.
 *
 * A block is a value of at most 4080 bytes; little-endian, offsets in bytes:
 *
 *      0 crc32 of the key it is kept under and of bytes 4 to 31
 *      4 crc32 of the bytes from 32 on       8 rows u16     10 size u16
 *     12 size of `next` u16, 0xffff: the run ends here
 *     14 flags u16: 1 no sum of a step is negative, 0 unknown
 *     16 largest sum of a row i128; the row of the empty key does not count
 *     32 rows, then `next`: where the next block begins
 *
 *     row      bytes shared with the key before u8
 *              more bytes of the key u8 (255: and as the next byte says), these
 *              steps: below 64 that one; else 0x80 + the size of a bitmap of 1
 *              to 8 bytes, that, and the bytes of all sums u16
 *              a sum for each step: zigzag, 7 bits a byte, the least first, at
 *              most 19 bytes
 *
 * The key of a block is the shortest that is above the last key before it.  A
 * block has the key of the next one, so a missing block is noticed.
 *
 * Pure: bytes in, bytes out.  Any bytes may be given to the readers. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_HISTORY_ROWS_H
#define COUNTD_COMMON_STORE_HISTORY_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/store/kv.h"

#define ROWS_SIZE_MAX    KV_VALUE_MAX
#define ROWS_HEAD_SIZE   32
#define HISTORY_KEY_MAX  256
#define HISTORY_CELLS    64
#define ROWS_RUN_END     0xffff
#define ROWS_NO_NEGATIVE 1  /* flag */
#define ROWS_SLACK       16 /* behind a key, so that copies have a fixed size */
#define INT128_LEAST     ((int128)((uint128)1 << 127))

/* A key with the sums of the steps of its period, by number of the step; of
 * those whose bit in `cells` is not set the sum is not told. */
struct history_row {
    const uint8_t *key;
    uint16_t key_size;
    uint64_t cells; /* not 0 */
    int128 sums[HISTORY_CELLS];
};

/* ---- writing ----------------------------------------------------------- */

/* A block that is being filled. */
struct rows_writer {
    size_t size, size_max;
    uint16_t rows;
    uint16_t last_size;
    uint8_t last[HISTORY_KEY_MAX]; /* key */
    int128 most;
    bool negative; /* a sum of a step is */
    uint8_t bytes[ROWS_SIZE_MAX];
};

void rows_begin(struct rows_writer *w); /* of at most ROWS_SIZE_MAX */

/* Adds a row with a key above the last one's.  False: it is full. */
bool rows_add(struct rows_writer *w, const struct history_row *r);

/* Finishes it, to be kept under `key`; `next` NULL: the run ends.  Returns the
 * size.  w->bytes has it. */
size_t rows_end(struct rows_writer *w, const uint8_t *key, size_t key_size,
                const uint8_t *next, size_t next_size);

/* ---- reading ----------------------------------------------------------- */

struct rows_reader {
    const uint8_t *at, *end; /* rows not read yet */
    unsigned left;           /* number of rows not read yet */
    const uint8_t *next;     /* NULL: the run ends */
    size_t next_size;
    int128 most; /* no row of the block has a larger sum */
    /* No cell is negative: `most` bounds parts of a row, too. */
    bool no_negative;
    const uint8_t *cells_at; /* sums of the row that was read last */
    uint64_t cells;
    uint16_t key_size;
    uint16_t same; /* bytes of the key that it shares with the one before */
    uint8_t key[HISTORY_KEY_MAX + ROWS_SLACK];
};

/* Begins to read what is kept under `key`; -EBADMSG. */
int rows_open(struct rows_reader *r, const struct kv_item *item);

/* As rows_open(), but of the rows nothing is looked at: for `most`,
 * `no_negative` and `next` only. */
int rows_open_head(struct rows_reader *r, const struct kv_item *item);

/* Goes to the next row, whose key and cells are then in `r`: 1, 0 at the end,
 * -EBADMSG. */
int rows_next(struct rows_reader *r);

/* Goes to the first row with this key or a later one, from where it stands. */
int rows_seek(struct rows_reader *r, const uint8_t *key, size_t size);

/* The sums of the row that was read last, into the places of its cells. */
void rows_sums(const struct rows_reader *r, int128 sums[HISTORY_CELLS]);

/* Whether its sums are as long as they should be. */
bool rows_sums_fit(const struct rows_reader *r);

/* The sum over those of its cells that are in `mask`. */
int128 rows_sum(const struct rows_reader *r, uint64_t mask);

/* Bytes of the shortest key that is above `a` and not above `b`, and begins
 * as `b` does. */
size_t rows_apart(const uint8_t *a, size_t a_size, const uint8_t *b,
                  size_t b_size);

#endif

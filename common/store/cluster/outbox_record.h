/* common/store/cluster/outbox_record.h - the bytes of the records of
 * data/outbox: pure functions over bytes.  A record's checksum is that of the
 * journal's entry.
 *
 * Little-endian; offsets in bytes.  The first byte is the kind:
 *
 *   'S', the sender:   0 kind   1 zero[7]   8 id u64
 *   'K', a keyspace:   0 kind   1 zero   2 name size u16   4 parts u32
 *                      8 generation u32   12 marks u32   16 name
 *        for each part: last number u64 | its digest u64
 *        marks, each:   uuid[16] | epoch u64 | first_ms u64 |
 *                       key size u16 | last key that entries
 *                       contain; size 0: they contain the whole fill
 *   'E', an entry:     0 kind   1 type u8   2 name size u16   4 part u16
 *                      6 parts u16   8 generation u32   12 rows u32
 *                      16 number u64   24 digest of the entry before u64
 *                      32 digest u64   40 first_ms u64   48 name
 *        rows, each:    key size u16 | key
 *                      of type ADD also: cells u16 | cells, each:
 *                      minute u32 | sum int128
 *
 * Keys may repeat and need no order.  The sums of a key without history are one
 * cell of minute 0.  A digest is of the whole record with zeros in its place,
 * so each digest depends on all entries before it. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_OUTBOX_RECORD_H
#define COUNTD_COMMON_STORE_CLUSTER_OUTBOX_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/store/store.h"

#define OUTBOX_SENDER_SIZE     16
#define OUTBOX_STATE_HEAD      16
#define OUTBOX_ENTRY_HEAD      48
#define OUTBOX_LAST_ENTRY_SIZE 16 /* of one part, in a keyspace's record */
#define OUTBOX_MARK_SIZE       34 /* without its key */
#define OUTBOX_CELL_SIZE       20
#define OUTBOX_PARTS_MAX       256

enum outbox_kind {
    OUTBOX_SENDER = 'S',
    OUTBOX_STATE = 'K',
    OUTBOX_ENTRY = 'E'
};
enum outbox_type { OUTBOX_ADD = 1, OUTBOX_DELETE, OUTBOX_DROP };

/* Heads.  Pointers are into the record. */
struct outbox_state_head {
    const uint8_t *name;
    size_t name_size;
    uint32_t parts, generation, marks;
    const uint8_t *last_entries; /* number and digest, for each part */
    const uint8_t *mark_bytes;
    size_t mark_bytes_size;
};

struct outbox_entry_head {
    enum outbox_type type;
    const uint8_t *name;
    size_t name_size;
    uint32_t part, parts, generation, rows;
    uint64_t number, prev_digest, digest, first_ms;
    const uint8_t *row_bytes;
    size_t row_bytes_size;
};

struct outbox_row {
    const uint8_t *key;
    size_t key_size;
    const uint8_t *cells; /* OUTBOX_ADD: `cell_count` of them */
    size_t cell_count;
};

/* The sum of a key's increments of a minute. */
struct outbox_cell {
    uint32_t minute;
    int128 sum;
};

/* A mark: the fill of a log, and the last key of it that entries contain. */
struct outbox_mark {
    struct store_fill fill;
    uint16_t last_key_size; /* 0: entries contain the whole fill */
    uint8_t last_key[STORE_NAME_MAX];
};

/* False: these bytes are not such a record. */
bool outbox_state_parse(const uint8_t *bytes, size_t size,
                        struct outbox_state_head *out);
bool outbox_entry_parse(const uint8_t *bytes, size_t size,
                        struct outbox_entry_head *out);

/* The mark at *at, which moves to the next one; false at the end. */
bool outbox_mark_next(const struct outbox_state_head *head, size_t *at,
                      struct outbox_mark *out);
size_t outbox_mark_put(uint8_t *at, const struct outbox_mark *mark);

/* The row at *at, which moves to the next one; false at the end. */
bool outbox_row_next(const struct outbox_entry_head *head, size_t *at,
                     struct outbox_row *out);

void outbox_cell_put(uint8_t at[OUTBOX_CELL_SIZE],
                     const struct outbox_cell *cell);
struct outbox_cell outbox_cell_get(const struct outbox_row *row, size_t index);

/* Writes the head of an entry whose name and rows are in place, and its
 * digest. */
void outbox_entry_finish(uint8_t *bytes, size_t size,
                         struct outbox_entry_head *head);

/* The part of a key: the upper bits of its hash, so that a part splits into
 * two neighbours when there are twice as many. */
uint32_t outbox_part_of(const uint8_t *key, size_t key_size, uint32_t parts);

#endif

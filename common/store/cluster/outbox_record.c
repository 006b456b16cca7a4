/* common/store/cluster/outbox_record.c - see outbox_record.h. */
#include "common/store/cluster/outbox_record.h"

#include <string.h>

#include "common/base/bytes.h"
#include "common/base/hash.h"

#define DIGEST_AT 32

/* The keys of the two hashes, the bytes of "countd part.name" and "countd an
 * entry.", are fixed: all senders and readers must compute the same hashes. */
static const struct hash_key part_hash_key = {0x702064746e756f63,
                                              0x656d616e2e747261};
static const struct hash_key entry_hash_key = {0x612064746e756f63,
                                               0x2e7972746e65206e};

/* ---- keyspaces ---------------------------------------------------------- */

bool
outbox_state_parse(const uint8_t *bytes, size_t size,
                   struct outbox_state_head *out)
{
    size_t used = OUTBOX_STATE_HEAD;

    if (size < used || bytes[0] != OUTBOX_STATE)
        return false;
    out->name_size = get_le16(bytes + 2);
    out->parts = get_le32(bytes + 4);
    out->generation = get_le32(bytes + 8);
    out->marks = get_le32(bytes + 12);
    if (out->name_size < 1 || out->name_size > STORE_NAME_MAX ||
        out->parts < 1 || out->parts > OUTBOX_PARTS_MAX)
        return false;
    out->name = bytes + used;
    used += out->name_size;
    out->last_entries = bytes + used;
    used += (size_t)out->parts * OUTBOX_LAST_ENTRY_SIZE;
    if (used > size)
        return false;
    out->mark_bytes = bytes + used;
    out->mark_bytes_size = size - used;
    return true;
}

bool
outbox_mark_next(const struct outbox_state_head *head, size_t *at,
                 struct outbox_mark *out)
{
    const uint8_t *bytes = head->mark_bytes + *at;
    const size_t left = head->mark_bytes_size - *at;

    if (left < OUTBOX_MARK_SIZE)
        return false;
    memcpy(out->fill.uuid, bytes, 16);
    out->fill.epoch = get_le64(bytes + 16);
    out->fill.first_ms = get_le64(bytes + 24);
    out->last_key_size = get_le16(bytes + 32);
    if (out->last_key_size > STORE_NAME_MAX ||
        left < OUTBOX_MARK_SIZE + (size_t)out->last_key_size)
        return false;
    memcpy(out->last_key, bytes + OUTBOX_MARK_SIZE, out->last_key_size);
    *at += OUTBOX_MARK_SIZE + (size_t)out->last_key_size;
    return true;
}

size_t
outbox_mark_put(uint8_t *at, const struct outbox_mark *mark)
{
    memcpy(at, mark->fill.uuid, 16);
    put_le64(at + 16, mark->fill.epoch);
    put_le64(at + 24, mark->fill.first_ms);
    put_le16(at + 32, mark->last_key_size);
    memcpy(at + OUTBOX_MARK_SIZE, mark->last_key, mark->last_key_size);
    return OUTBOX_MARK_SIZE + (size_t)mark->last_key_size;
}

/* ---- entries ------------------------------------------------------------ */

bool
outbox_entry_parse(const uint8_t *bytes, size_t size,
                   struct outbox_entry_head *out)
{
    if (size < OUTBOX_ENTRY_HEAD || bytes[0] != OUTBOX_ENTRY ||
        bytes[1] < OUTBOX_ADD || bytes[1] > OUTBOX_DROP)
        return false;
    out->type = bytes[1];
    out->name_size = get_le16(bytes + 2);
    out->part = get_le16(bytes + 4);
    out->parts = get_le16(bytes + 6);
    out->generation = get_le32(bytes + 8);
    out->rows = get_le32(bytes + 12);
    out->number = get_le64(bytes + 16);
    out->prev_digest = get_le64(bytes + 24);
    out->digest = get_le64(bytes + DIGEST_AT);
    out->first_ms = get_le64(bytes + 40);
    if (out->name_size < 1 || out->name_size > STORE_NAME_MAX ||
        size < OUTBOX_ENTRY_HEAD + out->name_size ||
        out->parts > OUTBOX_PARTS_MAX || out->part >= out->parts ||
        out->number == 0)
        return false;
    out->name = bytes + OUTBOX_ENTRY_HEAD;
    out->row_bytes = out->name + out->name_size;
    out->row_bytes_size = size - OUTBOX_ENTRY_HEAD - out->name_size;
    return true;
}

bool
outbox_row_next(const struct outbox_entry_head *head, size_t *at,
                struct outbox_row *out)
{
    const size_t left = head->row_bytes_size - *at;
    const uint8_t *bytes = head->row_bytes + *at;
    size_t size;

    if (left < 2)
        return false;
    out->key_size = get_le16(bytes);
    out->key = bytes + 2;
    size = 2 + out->key_size;
    out->cell_count = 0;
    if (head->type == OUTBOX_ADD) {
        if (left < size + 2)
            return false;
        out->cell_count = get_le16(bytes + size);
        size += 2;
        out->cells = bytes + size;
        size += out->cell_count * OUTBOX_CELL_SIZE;
    }
    if (size > left)
        return false;
    *at += size;
    return true;
}

void
outbox_cell_put(uint8_t at[OUTBOX_CELL_SIZE], const struct outbox_cell *cell)
{
    put_le32(at, cell->minute);
    put_le64(at + 4, (uint64_t)cell->sum);
    put_le64(at + 12, (uint64_t)(cell->sum >> 64));
}

struct outbox_cell
outbox_cell_get(const struct outbox_row *row, size_t index)
{
    const uint8_t *at = row->cells + index * OUTBOX_CELL_SIZE;

    return (struct outbox_cell){
        get_le32(at),
        (int128)((uint128)get_le64(at + 12) << 64 | get_le64(at + 4))};
}

void
outbox_entry_finish(uint8_t *bytes, size_t size, struct outbox_entry_head *head)
{
    bytes[0] = OUTBOX_ENTRY;
    bytes[1] = (uint8_t)head->type;
    put_le16(bytes + 2, (uint16_t)head->name_size);
    put_le16(bytes + 4, (uint16_t)head->part);
    put_le16(bytes + 6, (uint16_t)head->parts);
    put_le32(bytes + 8, head->generation);
    put_le32(bytes + 12, head->rows);
    put_le64(bytes + 16, head->number);
    put_le64(bytes + 24, head->prev_digest);
    put_le64(bytes + DIGEST_AT, 0);
    put_le64(bytes + 40, head->first_ms);
    head->digest = hash_bytes_wide(&entry_hash_key, bytes, size).low;
    put_le64(bytes + DIGEST_AT, head->digest);
}

uint32_t
outbox_part_of(const uint8_t *key, size_t key_size, uint32_t parts)
{
    const uint64_t hash = hash_bytes_wide(&part_hash_key, key, key_size).low;

    return (uint32_t)((uint128)hash * parts >> 64);
}

/* common/store/cluster/outbox_record.c - see outbox_record.h. */
#include "common/store/cluster/outbox_record.h"

#include <string.h>

#include "common/base/bytes.h"
#include "common/base/hash.h"

#define DIGEST_AT 32

/* Keys are the bytes of "countd part.name" and "countd an entry.": fixed, as
 * all senders and readers must find the same. */
static const struct hash_key part_key = {0x702064746e756f63,
                                         0x656d616e2e747261};
static const struct hash_key entry_key = {0x612064746e756f63,
                                          0x2e7972746e65206e};

void
outbox_sender_encode(uint64_t id, uint8_t bytes[OUTBOX_SENDER_SIZE])
{
    memset(bytes, 0, OUTBOX_SENDER_SIZE);
    bytes[0] = OUTBOX_SENDER;
    put_le64(bytes + 8, id);
}

/* ---- keyspaces --------------------------------------------------------------
 */

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
    out->lasts = bytes + used;
    used += (size_t)out->parts * OUTBOX_LAST_SIZE;
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
    out->last_size = get_le16(bytes + 32);
    if (out->last_size > STORE_NAME_MAX ||
        left < OUTBOX_MARK_SIZE + (size_t)out->last_size)
        return false;
    memcpy(out->last, bytes + OUTBOX_MARK_SIZE, out->last_size);
    *at += OUTBOX_MARK_SIZE + (size_t)out->last_size;
    return true;
}

size_t
outbox_mark_put(uint8_t *at, const struct outbox_mark *mark)
{
    memcpy(at, mark->fill.uuid, 16);
    put_le64(at + 16, mark->fill.epoch);
    put_le64(at + 24, mark->fill.first_ms);
    put_le16(at + 32, mark->last_size);
    memcpy(at + OUTBOX_MARK_SIZE, mark->last, mark->last_size);
    return OUTBOX_MARK_SIZE + (size_t)mark->last_size;
}

/* ---- entries
 * ----------------------------------------------------------------- */

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
    const size_t delta = head->type == OUTBOX_ADD ? OUTBOX_DELTA_SIZE : 0;
    const uint8_t *bytes = head->row_bytes + *at;

    if (left < 2)
        return false;
    out->key_size = get_le16(bytes);
    if (out->key_size > left - 2 || delta > left - 2 - out->key_size)
        return false;
    out->key = bytes + 2;
    out->delta = delta > 0 ? out->key + out->key_size : NULL;
    *at += 2 + out->key_size + delta;
    return true;
}

void
outbox_delta_put(uint8_t at[OUTBOX_DELTA_SIZE], int64_t sum_high,
                 uint64_t sum_low)
{
    const int128 most = (int128)1 << 65;
    int128 sum = int128_of(sum_high, sum_low);

    sum = sum > most ? most : sum < -most ? -most : sum;
    put_be64(at, (uint64_t)(int64_t)(sum >> 32));
    put_be32(at + 8, (uint32_t)sum);
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
    head->digest = hash_bytes_wide(&entry_key, bytes, size).low;
    put_le64(bytes + DIGEST_AT, head->digest);
}

uint32_t
outbox_part_of(const uint8_t *key, size_t key_size, uint32_t parts)
{
    const uint64_t hash = hash_bytes_wide(&part_key, key, key_size).low;

    return (uint32_t)((uint128)hash * parts >> 64);
}

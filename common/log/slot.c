/* common/log/slot.c - see slot.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/slot.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/log/mark.h"

#define HEAD_SIZE  (MESSAGE_UUID_SIZE + 8u + 8u) /* uuid, number, increment */
#define STAMP_SIZE (8u + 8u + 4u)
#define WORD       ((size_t)16) /* bytes that names are copied by */
#define BYTES_MAX  (HEAD_SIZE + 2 * (MESSAGE_NAME_MAX + 1) + STAMP_SIZE)

/* Copies a name of a slot by whole words.  Reading and writing may go up to 15
 * bytes beyond it: in the source that is still the slot, whose stamp and crc32
 * are 24 bytes, and in the target the next field overwrites it. */
static uint8_t *
put_name(uint8_t *at, const uint8_t *name, size_t size)
{
    size_t i = 0;

    do {
        memcpy(at + i, name + i, WORD);
        i += WORD;
    } while (i < size);
    at[size] = 0;
    return at + size + 1;
}

/* Size of the bytes that the crc32 of one slot covers.  Those of a run are all
 * written before any is summed: bytes just stored are slow to load in pieces of
 * another size. */
#define SUMMED (BYTES_MAX + WORD)

/* Copies the bytes that the crc32 covers, with the sizes of the names from `m`.
 * Returns their number. */
static inline size_t
gather_bytes(const struct log_header *log, const uint8_t *slot,
             const struct message *m, uint64_t number, uint8_t *bytes)
{
    const struct layout *l = &log->layout;
    uint8_t *at = bytes;

    memcpy(at, log->uuid, MESSAGE_UUID_SIZE);
    put_le64(at + MESSAGE_UUID_SIZE, number);
    memcpy(at + MESSAGE_UUID_SIZE + 8, slot, 8);
    at = put_name(at + HEAD_SIZE, slot + 8, m->keyspace_size);
    at = put_name(at, slot + l->key_at, m->key_size);
    memcpy(at, slot + l->message_size, STAMP_SIZE);
    return (size_t)(at + STAMP_SIZE - bytes);
}

void
slot_put_run(const struct slot_run *r, uint8_t *slots, const struct message *m,
             const struct slot_stamp *stamp)
{
    const struct log_header *log = r->log;
    const struct layout *l = &log->layout;
    const uint64_t number = r->number;
    const unsigned count = r->count;
    uint8_t bytes[SLOT_RUN][SUMMED];
    size_t sizes[SLOT_RUN];
    uint8_t *slot = slots;
    unsigned i = 0;

    assert(count > 0);
    assert(count <= SLOT_RUN);
    do {
        assert(m[i].keyspace_size <= l->keyspace_size);
        assert(m[i].key_size <= l->key_size);
        put_le32(slot + l->message_size, (uint32_t)log->epoch);
        put_le32(slot + l->message_size + 4, m[i].minute);
        put_le64(slot + l->received_at, stamp->received_ms);
        put_le32(slot + l->synced_at, stamp->synced);
        sizes[i] = gather_bytes(log, slot, &m[i], number + i, bytes[i]);
        slot += l->slot_size;
    } while (++i < count);
    for (i = 0, slot = slots; i < count; i++, slot += l->slot_size)
        put_le32(slot + l->crc_at, crc_of(bytes[i], sizes[i]));
}

/* Parses everything but the checksum. */
static int
read_slot(const struct log_header *log, const uint8_t *slot, struct message *m,
          struct slot_stamp *stamp)
{
    const struct layout *l = &log->layout;
    int rc;

    if (get_le32(slot + l->message_size) != log->epoch)
        return -ENOENT;
    stamp->received_ms = get_le64(slot + l->received_at);
    stamp->synced = get_le32(slot + l->synced_at);
    rc = message_parse(l, slot, m);
    if (rc == -EBADMSG)
        rc = mark_check(l, slot, m);
    m->minute = get_le32(slot + l->message_size + 4);
    return rc;
}

int
slot_parse_run(const struct slot_run *r, const uint8_t *slots,
               struct message *out, struct slot_stamp *stamps)
{
    const struct log_header *log = r->log;
    const struct layout *l = &log->layout;
    const uint64_t number = r->number;
    const unsigned count = r->count;
    uint8_t bytes[SLOT_RUN][SUMMED];
    size_t sizes[SLOT_RUN];
    const uint8_t *slot = slots;
    unsigned i;
    int rc;

    assert(count > 0);
    assert(count <= SLOT_RUN);
    for (i = 0; i < count; i++, slot += l->slot_size) {
        rc = read_slot(log, slot, &out[i], &stamps[i]);
        if (rc < 0)
            return rc;
        sizes[i] = gather_bytes(log, slot, &out[i], number + i, bytes[i]);
    }
    for (i = 0, slot = slots; i < count; i++, slot += l->slot_size)
        if (crc_of(bytes[i], sizes[i]) != get_le32(slot + l->crc_at))
            return -EBADMSG;
    return 0;
}

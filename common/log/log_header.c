/* common/log/log_header.c - see log_header.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/log_header.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/state_file.h"

#define MAGIC   "COUNTDL1"
#define VERSION 1

/* ---- names -------------------------------------------------------------- */

void
log_name(uint64_t index, char name[LOG_NAME_SIZE])
{
    assert(index <= LOG_INDEX_MAX);
    /* It has ten digits at most. */
    (void)snprintf(name, LOG_NAME_SIZE, "%010" PRIu64, index);
}

void
log_lock_name(uint64_t index, char name[LOG_LOCK_SIZE])
{
    memcpy(name, "lock-", sizeof "lock-");
    log_name(index, name + 5);
}

/* ---- header bytes ------------------------------------------------------- */

void
log_header_put(const struct log_header *h, uint8_t bytes[LOG_BLOCK_SIZE])
{
    memset(bytes, 0, LOG_BLOCK_SIZE);
    put_le32(bytes + 8, VERSION);
    put_le32(bytes + 12, h->features);
    memcpy(bytes + 16, h->uuid, sizeof h->uuid);
    put_le64(bytes + 32, h->index);
    put_le64(bytes + 40, h->generation);
    put_le64(bytes + 48, h->epoch);
    put_le32(bytes + 56, (uint32_t)h->state);
    put_le32(bytes + 60, h->layout.slot_size);
    put_le32(bytes + 64, h->slots);
    put_le16(bytes + 68, h->layout.keyspace_size);
    put_le16(bytes + 70, h->layout.key_size);
    put_le64(bytes + 72, h->count);
    put_le64(bytes + 80, h->first_ms);
    put_le64(bytes + 88, h->last_ms);
    memcpy(bytes + 96, h->boot_id, sizeof h->boot_id);
    put_le64(bytes + 112, h->pid);
    put_le32(bytes + 120, h->marks);
    state_seal(bytes, LOG_HEADER_SIZE, MAGIC);
}

/* A valid checksum shows that the bytes are those written; this checks that
 * they were written by the rules. */
static bool
is_sane(const struct log_header *h)
{
    if (h->slots == 0)
        return false;
    if (h->index > LOG_INDEX_MAX || h->generation == 0)
        return false;
    if (h->generation >> 63 || h->epoch > LOG_EPOCH_MAX)
        return false; /* no counter gets this far */
    if (h->marks > 0 && (h->features & LOG_HAS_MARKS) == 0)
        return false;
    switch (h->state) {
    case LOG_EMPTY:
    case LOG_OPEN:
        return h->marks == 0;
    case LOG_SEALED:
        return h->count > 0 && h->count <= h->slots && h->marks <= h->count;
    }
    return false;
}

int
log_header_get(const uint8_t bytes[LOG_BLOCK_SIZE], struct log_header *out)
{
    struct log_header h;

    if (!state_is_good(bytes, LOG_HEADER_SIZE, MAGIC))
        return -EBADMSG;
    if (get_le32(bytes + 8) != VERSION ||
        (get_le32(bytes + 12) & ~LOG_FEATURES) != 0)
        return -EPROTONOSUPPORT;
    if (!message_is_zero(bytes + LOG_HEADER_SIZE,
                         LOG_BLOCK_SIZE - LOG_HEADER_SIZE))
        return -EBADMSG;

    memcpy(h.uuid, bytes + 16, sizeof h.uuid);
    h.features = get_le32(bytes + 12);
    h.index = get_le64(bytes + 32);
    h.generation = get_le64(bytes + 40);
    h.epoch = get_le64(bytes + 48);
    h.state = (enum log_state)get_le32(bytes + 56);
    h.slots = get_le32(bytes + 64);
    h.count = get_le32(bytes + 72);
    h.first_ms = get_le64(bytes + 80);
    h.last_ms = get_le64(bytes + 88);
    memcpy(h.boot_id, bytes + 96, sizeof h.boot_id);
    h.pid = get_le64(bytes + 112);
    h.marks = get_le32(bytes + 120);
    if (layout_init(&h.layout, get_le16(bytes + 68), get_le16(bytes + 70)) <
            0 ||
        h.layout.slot_size != get_le32(bytes + 60) ||
        h.count != get_le64(bytes + 72) || !is_sane(&h))
        return -EBADMSG;
    *out = h;
    return 0;
}

uint32_t
log_slots(uint64_t log_size, const struct layout *l)
{
    uint64_t slots;

    if (log_size < LOG_SLOTS_AT)
        return 0;
    slots = (log_size - LOG_SLOTS_AT) / l->slot_size;
    return slots > UINT32_MAX ? UINT32_MAX : (uint32_t)slots;
}

/* writer/quota/journal_record.c - see journal_record.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/journal_record.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/base/state_file.h"

#define MAGIC     "COUNTDQ2"
#define FLAG_PART 1
#define MASK      UINT64_C(0xa5a5a5a5a5a5a5a5) /* see journal_record.h */

static uint32_t
record_crc(const uint8_t *bytes, const uint8_t uuid[16], uint64_t number)
{
    uint8_t all[16 + 8 + JOURNAL_RECORD_SIZE - 4];

    memcpy(all, uuid, 16);
    put_le64(all + 16, number);
    memcpy(all + 24, bytes + 4, JOURNAL_RECORD_SIZE - 4);
    return crc_of(all, sizeof all);
}

void
journal_record_put(const struct journal_record *r, const uint8_t uuid[16],
                   uint64_t number, uint8_t out[JOURNAL_RECORD_SIZE])
{
    assert(r->type > 0 && r->type < JOURNAL_RECORD_TYPES);
    out[4] = r->type;
    out[5] = r->part ? FLAG_PART : 0;
    put_le16(out + 6, r->quota);
    put_le64(out + 8, (uint64_t)r->value ^ MASK);
    put_le64(out + 16, (uint64_t)r->after ^ MASK);
    put_le32(out, record_crc(out, uuid, number));
}

int
journal_record_get(const uint8_t bytes[JOURNAL_RECORD_SIZE],
                   const uint8_t uuid[16], uint64_t number,
                   struct journal_record *r)
{
    if (bytes[4] == 0 || bytes[4] >= JOURNAL_RECORD_TYPES ||
        bytes[5] > FLAG_PART ||
        get_le32(bytes) != record_crc(bytes, uuid, number))
        return -EBADMSG;
    *r = (struct journal_record){.type = bytes[4],
                                 .part = (bytes[5] & FLAG_PART) != 0,
                                 .quota = get_le16(bytes + 6),
                                 .value = (int64_t)(get_le64(bytes + 8) ^ MASK),
                                 .after =
                                     (int64_t)(get_le64(bytes + 16) ^ MASK)};
    return 0;
}

bool
journal_record_is_blank(const uint8_t bytes[JOURNAL_RECORD_SIZE])
{
    return (get_le64(bytes) | get_le64(bytes + 8) | get_le64(bytes + 16)) == 0;
}

void
journal_header_put(const struct journal_header *h, uint8_t out[RECORDS_AT])
{
    memset(out, 0, RECORDS_AT);
    for (size_t i = 0; i < HEADER_COPIES; i++) {
        uint8_t *at = out + HEADER_AT(i);

        memcpy(at + 8, h->uuid, sizeof h->uuid);
        put_le64s(at + 24, h->limit);
        put_le64(at + 32, h->made_ms);
        put_le32(at + 44, h->generation);
        put_le64(at + 48, h->first);
        put_le64(at + 56, h->checkpoint_size);
        put_le32(at + 64, h->checkpoint_crc);
        state_seal(at, HEADER_SIZE, MAGIC);
    }
}

int
journal_header_get(const uint8_t bytes[RECORDS_AT], struct journal_header *h,
                   bool *damaged)
{
    bool good = false;

    *damaged = false;
    for (size_t i = 0; i < HEADER_COPIES; i++) {
        const uint8_t *at = bytes + HEADER_AT(i);

        if (!state_is_good(at, HEADER_SIZE, MAGIC)) {
            *damaged = true;
            continue;
        }
        if (get_le32(at + 40) != 0)
            return -EPROTO;
        if (good)
            continue;
        memcpy(h->uuid, at + 8, sizeof h->uuid);
        h->limit = get_le64s(at + 24);
        h->made_ms = get_le64(at + 32);
        h->generation = get_le32(at + 44);
        h->first = get_le64(at + 48);
        h->checkpoint_size = get_le64(at + 56);
        h->checkpoint_crc = get_le32(at + 64);
        good = true;
    }
    return good ? 0 : -EBADMSG;
}

/* common/log/packed.c - the header of a packed log; see packed.h. */
#include "common/log/packed.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"

#define VERSION 1
#define CRC_AT  (PACKED_HEADER_SIZE - 4)

static const char magic[8] = {'C', 'O', 'U', 'N', 'T', 'D', 'A', '1'};

void
packed_header_put(const struct packed_header *h,
                  uint8_t bytes[PACKED_HEADER_SIZE])
{
    memset(bytes, 0, PACKED_HEADER_SIZE);
    memcpy(bytes, magic, sizeof magic);
    put_le32(bytes + 8, VERSION);
    memcpy(bytes + 16, h->uuid, sizeof h->uuid);
    put_le64(bytes + 32, h->index);
    put_le64(bytes + 40, h->epoch);
    put_le64(bytes + 48, h->count);
    put_le64(bytes + 56, h->first_ms);
    put_le64(bytes + 64, h->last_ms);
    put_le32(bytes + 72, h->slots);
    put_le16(bytes + 76, h->keyspace_size);
    put_le16(bytes + 78, h->key_size);
    put_le32(bytes + CRC_AT, crc_of(bytes, CRC_AT));
}

int
packed_header_get(const uint8_t bytes[PACKED_HEADER_SIZE],
                  struct packed_header *out)
{
    struct layout layout;
    struct packed_header h;

    if (memcmp(bytes, magic, sizeof magic) != 0 ||
        get_le32(bytes + CRC_AT) != crc_of(bytes, CRC_AT))
        return -EBADMSG;
    if (get_le32(bytes + 8) != VERSION || get_le32(bytes + 12) != 0)
        return -EPROTONOSUPPORT;
    h = (struct packed_header){
        .index = get_le64(bytes + 32),
        .epoch = get_le64(bytes + 40),
        .count = get_le64(bytes + 48),
        .first_ms = get_le64(bytes + 56),
        .last_ms = get_le64(bytes + 64),
        .slots = get_le32(bytes + 72),
        .keyspace_size = get_le16(bytes + 76),
        .key_size = get_le16(bytes + 78),
    };
    memcpy(h.uuid, bytes + 16, sizeof h.uuid);
    if (layout_init(&layout, h.keyspace_size, h.key_size) < 0 ||
        h.index > LOG_INDEX_MAX || h.count == 0 || h.count > h.slots)
        return -EBADMSG;
    *out = h;
    return 0;
}

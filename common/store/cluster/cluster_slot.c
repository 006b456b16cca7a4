/* common/store/cluster/cluster_slot.c - see cluster_slot.h. */
#include "common/store/cluster/cluster_slot.h"

#include <string.h>

#define CRC16_POLYNOMIAL 0x1021u

/* A key is hashed once per command, beside a round trip: no table is worth its
 * cache lines. */
static uint16_t
compute_crc16(const uint8_t *bytes, size_t size)
{
    uint32_t crc = 0;

    for (size_t i = 0; i < size; i++) {
        crc ^= (uint32_t)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000u ? crc << 1 ^ CRC16_POLYNOMIAL : crc << 1;
    }
    return (uint16_t)crc;
}

uint16_t
cluster_slot(const void *key, size_t size)
{
    const uint8_t *bytes = key;
    const uint8_t *open = memchr(bytes, '{', size);
    const uint8_t *close =
        open ? memchr(open + 1, '}', size - (size_t)(open + 1 - bytes)) : NULL;

    if (close != NULL && close > open + 1)
        return compute_crc16(open + 1, (size_t)(close - open - 1)) %
               CLUSTER_SLOTS;
    return compute_crc16(bytes, size) % CLUSTER_SLOTS;
}

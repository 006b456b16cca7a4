/* common/store/cluster/cluster_slot.h - the slot of a key: which master of a
 * Redis Cluster has it.
 *
 * The slot is CRC16 (XMODEM) of the key, or of what stands between the first
 * "{" and the next "}" when that is not empty, modulo 16384. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_SLOT_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_SLOT_H

#include <stddef.h>
#include <stdint.h>

#define CLUSTER_SLOTS 16384u

uint16_t cluster_slot(const void *key, size_t size);

#endif

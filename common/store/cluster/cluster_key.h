/* common/store/cluster/cluster_key.h - the names of countd's keys in a Redis
 * Cluster.
 *
 *   {H.g.p}c:NAME   a part of keyspace NAME: hash, key -> count; and marks
 *   {H.g.p}z:NAME   its order: sorted set
 *   {countd}k       sorted set of the names of keyspaces, all scores 0
 *   {countd}p       hash, name -> "GENERATION PARTS"
 *   {countd}n       hash, sender -> "AS_OF_MS WRITTEN_MS VERSION"
 *
 * H is the hash of the keyspace's name, g the generation and p the part, in
 * hex.  What follows the tag is the whole name, so names whose hashes are the
 * same share masters and nothing else. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_KEY_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "common/store/store.h"

#define CLUSTER_KEY_SIZE  (STORE_NAME_MAX + 48)
#define CLUSTER_NAMES     "{countd}k"
#define CLUSTER_PARTS     "{countd}p"
#define CLUSTER_SENDERS   "{countd}n"
#define CLUSTER_NUMBER    24 /* a number as text, with NUL */
#define CLUSTER_MARK_SIZE 8  /* a digest */

struct cluster_part_keys {
    char counts[CLUSTER_KEY_SIZE], order[CLUSTER_KEY_SIZE];
    size_t size; /* of both */
    uint16_t slot;
};

void cluster_part_keys(struct cluster_part_keys *out, const uint8_t *name,
                       size_t name_size, uint32_t generation, uint32_t part);

#endif

/* common/store/cluster/cluster_key.h - the names of countd's keys in a Redis
 * Cluster.
 *
 *   {H.g.p}c:NAME   a part of keyspace NAME: hash, key -> count; and marks
 *   {H.g.p}z:NAME   its order: sorted set
 *   {H.g.p}k:NAME   its keys in order, if it was made so: sorted set
 *   {H.g.p}h:STEP:LENGTH:BEGIN:NAME
 *                   its history in a period of LENGTH minutes: hash, key ->
 *                   sums by STEP minutes; the empty key has those of all keys
 *   {countd}k       sorted set of the names of keyspaces, all scores 0
 *   {countd}p       hash, name -> "GENERATION PARTS"
 *   {countd}n       hash, sender -> "AS_OF_MS WRITTEN_MS VERSION"
 *
 * H is the hash of the keyspace's name, g the generation and p the part, in
 * hex.  What follows the tag is the whole name, so names whose hashes are the
 * same share masters and nothing else. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_KEY_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store/cluster/cluster.h"
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

/* The longest name of a key of history. */
#define CLUSTER_PERIOD_KEY_SIZE (CLUSTER_KEY_SIZE + 40)

/* A period of history, in minutes since 1970. */
struct cluster_period {
    uint32_t step, length, begin;
};

struct cluster_part_keys cluster_part_keys(const uint8_t *name,
                                           size_t name_size,
                                           uint32_t generation, uint32_t part);

/* Writes the name of the hash of a period of a part; returns its size. */
size_t cluster_period_key(char out[CLUSTER_PERIOD_KEY_SIZE],
                          const struct cluster_part_keys *keys,
                          const struct cluster_period *period);

/* Begins a command about the lists of all keyspaces, or a call of a function
 * that begins with the two keys of a part. */
void cluster_begin_lists(struct cluster_command *m, const char *words);
void cluster_begin_part(struct cluster_command *m,
                        const struct cluster_part_keys *keys,
                        const char *words);

/* Adds a sender or a digest: CLUSTER_MARK_SIZE bytes. */
void cluster_add_mark(struct cluster_command *m, uint64_t mark);

/* Reads the period out of the name of such a hash. */
bool cluster_period_parse(const char *key, struct cluster_period *out);

#endif

/* common/store/history/history_top.h - what queries over all keys find while
 * they go over the keys: the keys with the largest sums, and a key's rank.
 *
 * While keys are offered, q->top is a heap of the q->rows largest so far with
 * the last of them at its root; history_top_sort() ends that.  Pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_HISTORY_HISTORY_TOP_H
#define COUNTD_COMMON_STORE_HISTORY_HISTORY_TOP_H

#include "common/base/bytes.h"
#include "common/store/store.h"

static inline struct store_bucket
history_bucket(int128 sum)
{
    return (struct store_bucket){(int64_t)(sum >> 64), (uint64_t)sum, true};
}

/* Adds a key, which was not offered before, if it belongs to the top. */
void history_top_offer(struct store_history_query *q, const uint8_t *key,
                       size_t size, int128 sum);
void history_top_sort(struct store_history_query *q);

/* Counts a key, and whether it ranks before the one of the query, if that names
 * one. */
void history_rank_count(struct store_history_query *q, const uint8_t *key,
                        size_t size, int128 sum);

#endif

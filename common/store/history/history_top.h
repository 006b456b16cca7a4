/* common/store/history/history_top.h - what queries over all keys find while
 * they go over the keys: the keys with the largest sums, and a key's rank.
 *
 * While keys are taken, q->top is a heap of the q->rows largest so far with
 * the last of them at its root; history_end_keys() sorts it.  Pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_HISTORY_HISTORY_TOP_H
#define COUNTD_COMMON_STORE_HISTORY_HISTORY_TOP_H

#include "common/store/store.h"

/* Takes a key of TOP, which belongs to the top or not, or of RANK, which is
 * counted.  Keys come in order, each once: with q->group they are summed in
 * q->open until another group begins, or history_end_keys() says that there are
 * no more. */
void history_take_key(struct store_history_query *q, const uint8_t *key,
                      size_t size, int128 sum);
void history_end_keys(struct store_history_query *q);

/* Whether a row of the answer stands for all keys that begin so. */
bool history_is_group(const struct store_history_query *q,
                      const struct store_top *row);

#endif

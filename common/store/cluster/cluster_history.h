/* common/store/cluster/cluster_history.h - what cluster_history.c (tiers, the
 * buckets of a key) and cluster_history_scan.c (sums of spans, over all keys)
 * share. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_HISTORY_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_HISTORY_H

#include "common/store/cluster/cluster_store_internal.h"
#include "common/store/history/history_top.h"

/* The tier that answers, in minutes. */
struct cluster_tier {
    uint32_t step, length, keep;
    uint32_t since; /* what came before may be missing */
};

/* A query under way. */
struct cluster_history_call {
    struct cluster_store *s;
    struct store_history_query *q;
    struct cluster_known known;
    struct cluster_tier tier;
    uint64_t until_ns;
};

static inline void
add_to_bucket(struct store_bucket *b, int128 sum)
{
    *b = history_bucket(store_bucket_sum(b) + sum);
}

/* The periods that a span touches. */
static inline uint64_t
cluster_tier_periods(const struct cluster_tier *t, uint32_t from, uint32_t to)
{
    return from < to ? (to - 1) / t->length - from / t->length + 1 : 0;
}

/* Whether the call is to go on in a later turn. */
bool cluster_history_is_over(const struct cluster_history_call *h);

/* Answer STORE_HISTORY_TOP and STORE_HISTORY_RANK; errors as
 * store_history(). */
int cluster_history_top(struct cluster_history_call *h);
int cluster_history_rank(struct cluster_history_call *h);

#endif

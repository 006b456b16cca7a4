/* common/store/cluster/cluster_scan.h - the hashes of a part are read: its
 * counts and marks, then each period of its history. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_SCAN_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_SCAN_H

#include "common/store/cluster/cluster_key.h"

struct cluster_scan {
    struct cluster *cluster;
    struct cluster_part_keys keys;

    /* Called before each hash: for a period with when it expires (Unix s), for
     * the counts with NULL. */
    int (*begin)(void *ctx, const struct cluster_period *period,
                 uint64_t expiry_s);

    /* Called with fields and values in turn, all of them texts.  A field may
     * come again in a later slice. */
    int (*take)(void *ctx, const struct redisReply *list);
    void *ctx;
};

/* Errors as cluster.h, and those of the calls.  -EBADMSG: unexpected reply */
int cluster_scan_part(const struct cluster_scan *s);

#endif

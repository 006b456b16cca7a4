/* common/store/cluster/cluster_replicas.h - what a master says of its replicas:
 * the text of INFO replication.  Pure. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_REPLICAS_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_REPLICAS_H

#include <stdint.h>

/* How far the master has written; 0: it does not say. */
uint64_t cluster_replicas_offset(const char *text);

/* How many replicas are online and have this offset. */
uint64_t cluster_replicas_count(const char *text, uint64_t offset);

#endif

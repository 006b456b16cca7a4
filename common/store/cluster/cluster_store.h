/* common/store/cluster/cluster_store.h - the engine of common/store/store.h
 * whose counters are in a Redis Cluster.
 *
 * store_apply() makes a batch durable in data/outbox; a thread of one process
 * of the directory brings it into the cluster (sender.h).  Reads are commands
 * to the masters: those of a turn that name keyspaces of one part go out
 * together, in one pipeline for each master.
 *
 * Differences from the engine on files:
 *   - what was applied is readable a moment later (store_pending()), and
 *     store_as_of() says up to when everything is;
 *   - an answer about a keyspace of several parts is of one moment of each
 * part, but not of all parts together;
 *   - STORE_KEYS says -EOPNOTSUPP of a keyspace that was made with
 *     store.key_order off;
 *   - a part that would have more than its share of keyspace.max_keys takes no
 *     entry until that is raised: store_apply() does not know of it;
 *   - every tier of history gets every increment at once;
 *   - store_del() returns when the removal is durable in the outbox; it counts
 *     the keys that were there when it was asked.
 *
 * A read waits for its replies: a master that becomes silent costs one timeout,
 * and what needs it is -EHOSTDOWN at once from then on until it answers a probe
 * (cluster.h), so that other keyspaces are read meanwhile.
 *
 * Traits: none.  One thread a handle; the sender's own is inside. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_STORE_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_STORE_H

#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "common/store/store.h"
#include "common/wire/message.h"

struct cluster_store_options {
    const struct config *config; /* the settings store.*; borrowed */
    const struct datadir *dir;   /* borrowed */
    const struct layout *layout; /* of the logs; borrowed; NULL: the directory
                                    has no logs */
    bool writable;
    bool sends; /* runs the sender; needs `writable` */
};

/* Opens the engine; the cluster need not be there yet.
 *   -EINVAL  store.nodes or store.password_file is wrong: reported
 *   -ENOTSUP this build has no such engine: reported */
int cluster_store_open(struct store **out,
                       const struct cluster_store_options *options);

/* Looks at every master for what would lose counters, and reports it.
 *   -EPERM      a setting of a server is refused
 *   -EHOSTDOWN  no node can be reached: nothing is known */
int cluster_store_check(struct store *s);

#endif

/* common/store/cluster/sender.h - the thread that brings the entries of
 * data/outbox into the cluster, exactly once each.
 *
 * One sender works for a directory (a lock of the outbox); others wait for its
 * end.  It knows of each part up to which number entries are acknowledged, and
 * asks the cluster for that (audit) at its start, after every change of the map
 * or of a connection, and each minute; names of keyspaces are entered into the
 * cluster's lists as often:
 *
 *   equal     all is well
 *   behind    the cluster lost entries it had acknowledged (a failover, a
 *             server that lost the end of its file): they are sent again
 *   behind what is retained   lost: reported, and nothing more is sent to the
 *             part until it has been restored or the loss is accepted
 *   a digest this directory did not make   another timeline: the directory or
 *             the part is an older copy.  Reported; nothing more is sent.
 *
 * An entry is settled, and leaves the outbox, when it was acknowledged, later
 * enough replicas had the offset of the part's master at that time or a later
 * one, and `retain_ms` has passed since.
 *
 * The thread owns its connections and its own handle of the outbox; it shares
 * with its starter what sender_wake(), sender_stop() and sender_stats() do.
 * Its starter must ignore SIGPIPE. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_SENDER_H
#define COUNTD_COMMON_STORE_CLUSTER_SENDER_H

#include "common/log/logdir.h"
#include "common/store/cluster/cluster.h"
#include "common/store/cluster/outbox.h"

struct sender_options {
    struct outbox_options outbox;
    struct cluster_options cluster; /* texts are borrowed for its life */
    int log_fd; /* data/log: increments there are not sent yet; -1: none */
    const struct layout *layout;
    uint64_t log_size;
    uint64_t replicas;
    uint64_t retain_ms;
    uint64_t keys_max; /* of a keyspace; 0: any number */
    bool key_order;    /* parts without rows get an order of keys */
};

struct cluster_sender;

struct sender_stats {
    struct store_outbox outbox; /* error -ENOLINK: none waits, and a master
                                   lacks replicas */
    bool is_sender;             /* this process is the directory's sender */
    uint64_t last;              /* id of the last entry it knows of */
};

/*   -EINVAL  nodes are wrong   -EAGAIN, -ENOMEM */
int sender_start(struct cluster_sender **out,
                 const struct sender_options *options);

/* Ends the thread, at once but for a reply that it waits for.  NULL is fine. */
void sender_stop(struct cluster_sender *s);

/* There are new entries.  NULL is fine. */
void sender_wake(struct cluster_sender *s);

void sender_stats(struct cluster_sender *s, struct sender_stats *out);

#endif

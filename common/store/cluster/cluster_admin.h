/* common/store/cluster/cluster_admin.h - what operators see and do of a store
 * in a Redis Cluster: its parts, how many there are, its senders, and losses
 * that are accepted.
 *
 * The store is one that cluster_store_open() made.  Errors: as store.h. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_ADMIN_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_ADMIN_H

#include "common/store/cluster/cluster_move.h"
#include "common/store/store.h"

enum cluster_part_state {
    CLUSTER_PART_GOOD,
    CLUSTER_PART_MOVING,  /* it is good, and another generation is being made */
    CLUSTER_PART_FULL,    /* entries wait, and it has its share of keys */
    CLUSTER_PART_LOST,    /* behind what the outbox retains */
    CLUSTER_PART_FOREIGN, /* its mark is not of this directory */
    CLUSTER_PART_SILENT   /* its master does not answer */
};

/* A part of a keyspace into which this directory has counted. */
struct cluster_part_info {
    const uint8_t *name;
    size_t name_size;
    uint32_t generation, part;
    const char *node; /* of its master */
    enum cluster_part_state state;
    uint64_t rows;
    uint64_t have;     /* entries that are in the cluster */
    uint64_t digest;   /* of the last of them */
    uint64_t last;     /* entries ever */
    uint64_t retained; /* in the outbox */
};

/* One sender is one data directory. */
struct cluster_sender_info {
    uint64_t id;
    bool is_own;
    uint64_t as_of_ms, written_ms; /* Unix */
    const char *version;
};

/* Call each() for every part, in the order in which the keyspaces came, or
 * every sender; stop when it returns non-zero, and return that.
 *   -ENOENT  this directory has never counted into a cluster */
int cluster_admin_parts(struct store *s,
                        int (*each)(void *ctx,
                                    const struct cluster_part_info *p),
                        void *ctx);
int cluster_admin_senders(struct store *s,
                          int (*each)(void *ctx,
                                      const struct cluster_sender_info *i),
                          void *ctx);

/* Accepts that what the cluster lost of a part, and the outbox does not retain,
 * is not counted: the part goes on with the first entry that is retained.
 *   -ENOENT   there is no such part
 *   -EALREADY nothing is lost   -EPERM  it is of another timeline
 *   -EAGAIN   it is closed by a move or a backup, or changed just now */
int cluster_admin_accept(struct store *s, const uint8_t *name, size_t name_size,
                         uint32_t part);

/* Gives a keyspace more parts: as cluster_move(). */
int cluster_admin_move(struct store *s, const uint8_t *name, size_t name_size,
                       const struct cluster_move_options *options,
                       struct cluster_move_result *out);

/* Forgets a sender whose directory is gone for good: it holds back as_of no
 * more.  -ENOENT; -EBUSY: it is this directory */
int cluster_admin_forget(struct store *s, uint64_t id);

#endif

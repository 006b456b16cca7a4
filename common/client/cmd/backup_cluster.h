/* common/client/cmd/backup_cluster.h - the keyspaces of a store in a Redis
 * Cluster in a backup, and back: a file for each part (cluster_backup.h).
 *
 * Errors: 0 or a negative errno. */
#ifndef COUNTD_COMMON_CLIENT_CMD_BACKUP_CLUSTER_H
#define COUNTD_COMMON_CLIENT_CMD_BACKUP_CLUSTER_H

#include "common/client/cmd/cmd.h"
#include "common/store/store.h"

struct backup_cluster {
    struct store *store;
    int fd; /* the folder of the copy */
    uint64_t keyspaces, keys, faults;
};

/* Waits until everything that was counted until now is in the cluster.
 * -ETIMEDOUT */
int backup_cluster_wait(struct store *store, uint64_t timeout_ms);

/* Writes all keyspaces to the folder CLUSTER_BACKUP_FOLDER of the copy, and
 * reads each file back.  A keyspace that is not in it is a fault. */
int backup_cluster_save(struct backup_cluster *b, int to_fd);

/* Puts all parts of a backup that the cluster does not have into it.  Returns
 * an exit status. */
int backup_cluster_restore(const char *path, struct store *store);

#endif

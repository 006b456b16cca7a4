/* common/store/cluster/cluster_backup.h - parts of keyspaces in files, and back
 * into a cluster.
 *
 * A part is closed while it is read (functions.lua), so that its counts, marks
 * and history are of one moment: entries wait in data/outbox meanwhile, and
 * readers see nothing of it.  The marks are in the file, so a part that is put
 * back is one that is behind: each sender sends what it retains of the rest.
 *
 * A file is written once and synced; it is whole if it ends with its last block
 * (data/FORMAT.md, section 13.3).
 *
 * The store is one that cluster_store_open() made.  Errors: as store.h. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_BACKUP_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_BACKUP_H

#include "common/store/store.h"

#define CLUSTER_BACKUP_FOLDER    "cluster"
#define CLUSTER_BACKUP_NAME_SIZE 48 /* of a file, with NUL */

struct cluster_backup_info {
    uint8_t name[STORE_NAME_MAX];
    size_t name_size;
    uint32_t generation, part, parts;
    uint64_t saved_ms; /* Unix */
    uint64_t rows;
};

/* Writes each part of a keyspace to a file of its own in the directory; adds
 * their rows to *rows.
 *   -EEXIST  there is such a file   -ENOENT  no such keyspace
 *   -EAGAIN  a part stays closed by another process, or was opened meanwhile */
int cluster_backup_save(struct store *s, const uint8_t *name, size_t name_size,
                        int to_fd, uint64_t *rows);

/* Reads a whole file.  -EBADMSG: it is damaged or not whole; -ENOENT */
int cluster_backup_check(int dir_fd, const char *file,
                         struct cluster_backup_info *out);

/* Puts the part of a file into the cluster.
 *   -EEXIST  the cluster has the part: nothing was changed
 *   -ESTALE  the keyspace has another number of parts there */
int cluster_backup_restore(struct store *s, int dir_fd, const char *file,
                           struct cluster_backup_info *out);

#endif

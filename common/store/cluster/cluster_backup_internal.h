/* common/store/cluster/cluster_backup_internal.h - what the files of
 * cluster_backup.h share. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_BACKUP_INTERNAL_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_BACKUP_INTERNAL_H

#include "common/store/cluster/cluster_store_internal.h"

/* Bytes of the heads of blocks: of the file without its name, of a period. */
#define CLUSTER_FILE_HEAD   24
#define CLUSTER_PERIOD_HEAD 16

#endif

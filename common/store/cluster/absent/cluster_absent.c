/* common/store/cluster/absent/cluster_absent.c - what a build without hiredis
 * has in place of the engine on a Redis Cluster. */
#include <errno.h>

#include "common/base/diag.h"
#include "common/store/cluster/cluster_admin.h"
#include "common/store/cluster/cluster_backup.h"
#include "common/store/cluster/cluster_store.h"

int
cluster_store_open(struct store **out,
                   const struct cluster_store_options *options)
{
    (void)out;
    (void)options;
    diag(DIAG_ERROR,
         "store=cluster: this program was built without it; install "
         "libhiredis-dev and build again, or set store = lmdb");
    return -ENOTSUP;
}

int
cluster_store_check(struct store *s)
{
    (void)s;
    return -ENOTSUP;
}

int
cluster_admin_parts(struct store *s,
                    int (*each)(void *ctx, const struct cluster_part_info *p),
                    void *ctx)
{
    (void)s;
    (void)each;
    (void)ctx;
    return -ENOTSUP;
}

int
cluster_admin_senders(struct store *s,
                      int (*each)(void *ctx,
                                  const struct cluster_sender_info *i),
                      void *ctx)
{
    (void)s;
    (void)each;
    (void)ctx;
    return -ENOTSUP;
}

int
cluster_admin_accept(struct store *s, const uint8_t *name, size_t name_size,
                     uint32_t part)
{
    (void)s;
    (void)name;
    (void)name_size;
    (void)part;
    return -ENOTSUP;
}

int
cluster_admin_move(struct store *s, const uint8_t *name, size_t name_size,
                   const struct cluster_move_options *options,
                   struct cluster_move_result *out)
{
    (void)s;
    (void)name;
    (void)name_size;
    (void)options;
    (void)out;
    return -ENOTSUP;
}

int
cluster_admin_forget(struct store *s, uint64_t id)
{
    (void)s;
    (void)id;
    return -ENOTSUP;
}

int
cluster_backup_save(struct store *s, const uint8_t *name, size_t name_size,
                    int to_fd, uint64_t *rows)
{
    (void)s;
    (void)name;
    (void)name_size;
    (void)to_fd;
    (void)rows;
    return -ENOTSUP;
}

int
cluster_backup_check(int dir_fd, const char *file,
                     struct cluster_backup_info *out)
{
    (void)dir_fd;
    (void)file;
    (void)out;
    return -ENOTSUP;
}

int
cluster_backup_restore(struct store *s, int dir_fd, const char *file,
                       struct cluster_backup_info *out)
{
    (void)s;
    (void)dir_fd;
    (void)file;
    (void)out;
    return -ENOTSUP;
}

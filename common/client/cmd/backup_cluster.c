/* common/client/cmd/backup_cluster.c - see cmd_data.h. */
#include "common/client/cmd/cmd_data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/base/folder.h"
#include "common/store/cluster/cluster_backup.h"
#include "common/wire/name.h"

#define PAUSE_MS 50

int
backup_cluster_wait(struct store *store, uint64_t timeout_ms)
{
    const uint64_t start_ms = clock_unix_ms();
    const uint64_t deadline_ms = clock_ms() + timeout_ms;

    while (store_as_of(store) < start_ms) {
        if (clock_ms() >= deadline_ms)
            return -ETIMEDOUT;
        wait_ms(PAUSE_MS);
    }
    return 0;
}

/* ---- saving ------------------------------------------------------------- */

static int
save_keyspace(void *ctx, const uint8_t *name, size_t name_size, int64_t keys)
{
    struct backup_cluster *b = ctx;
    int rc;

    (void)keys; /* the file has them of another moment */
    rc = cluster_backup_save(b->store, name, name_size, b->fd, &b->keys);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "keyspace %s is not in the copy",
                   cmd_text(name, name_size));
        b->faults++;
        /* The others are worth having; a full disk is the end of it. */
        return rc == -ENOSPC ? rc : 0;
    }
    b->keyspaces++;
    return 0;
}

static int
check_file(void *ctx, int folder_fd, const char *name)
{
    struct backup_cluster *b = ctx;
    struct cluster_backup_info info;
    const int rc = cluster_backup_check(folder_fd, name, &info);

    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "%s of the copy", name);
        b->faults++;
    }
    return 0;
}

int
backup_cluster_save(struct backup_cluster *b, int to_fd)
{
    static const uint8_t first[1];
    int rc;

    b->fd = folder_make(to_fd, CLUSTER_BACKUP_FOLDER);
    if (b->fd < 0)
        return b->fd;
    rc = store_list(b->store, first, 0, save_keyspace, b);
    if (rc == 0)
        rc = dirstream_each(b->fd, ".", check_file, b);
    if (rc == 0 && fsync(b->fd) < 0)
        rc = -errno;
    (void)close(b->fd);
    return rc;
}

/* ---- restoring ---------------------------------------------------------- */

struct restore_all {
    struct store *store;
    uint64_t parts, rows, kept, faults;
};

static int
restore_file(void *ctx, int folder_fd, const char *file)
{
    struct restore_all *r = ctx;
    struct cluster_backup_info info = {.name_size = 0};
    int rc;

    rc = cluster_backup_restore(r->store, folder_fd, file, &info);
    r->parts += rc == 0;
    r->rows += rc == 0 ? info.rows : 0;
    if (rc == 0)
        return 0;
    if (rc == -EEXIST) {
        r->kept++;
        return 0;
    }
    r->faults++;
    if (rc == -ESTALE)
        diag(DIAG_ERROR,
             "keyspace=%s part=%" PRIu32
             ": the cluster has it in another number of parts; drop the "
             "keyspace's keys there first",
             cmd_text(info.name, info.name_size), info.part);
    else
        diag_errno(DIAG_ERROR, rc, "put %s of the backup back", file);
    return 0;
}

int
backup_cluster_restore(const char *path, struct store *store)
{
    struct restore_all r = {.store = store};
    char folder[CONFIG_TEXT_SIZE];
    int fd, rc;

    (void)snprintf(folder, sizeof folder, "%s/" CLUSTER_BACKUP_FOLDER, path);
    fd = folder_open(AT_FDCWD, folder);
    if (fd < 0)
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "%s: %s; give a backup of a store in a cluster", folder,
                        strerror(-fd));
    rc = dirstream_each(fd, ".", restore_file, &r);
    (void)close(fd);
    if (rc < 0)
        return cmd_failed(rc, "read %s", folder);
    if (printf("restored parts=%" PRIu64 " keys=%" PRIu64
               " already-there=%" PRIu64 " faults=%" PRIu64 "\n",
               r.parts, r.rows, r.kept, r.faults) < 0 ||
        fflush(stdout) != 0)
        return CONFIG_EXIT_SYSTEM;
    return r.faults > 0 || r.kept > 0 ? CONFIG_EXIT_NEGATIVE : CONFIG_EXIT_OK;
}

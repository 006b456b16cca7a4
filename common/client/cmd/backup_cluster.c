/* common/client/cmd/backup_cluster.c - see cmd_data.h. */
#include "common/client/cmd/cmd_data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/store/cluster/cluster_backup.h"
#include "common/wire/name.h"

#define PAUSE_MS 50

int
backup_cluster_wait(struct store *store, uint64_t timeout_ms)
{
    const uint64_t start_ms = clock_unix_ms(),
                   deadline_ms = clock_ms() + timeout_ms;

    while (store_as_of(store) < start_ms) {
        if (clock_ms() >= deadline_ms)
            return -ETIMEDOUT;
        (void)poll(NULL, 0, PAUSE_MS);
    }
    return 0;
}

/* ---- saving ------------------------------------------------------------- */

static int
save_keyspace(void *ctx, const uint8_t *name, size_t name_size, int64_t keys)
{
    struct backup_cluster *b = ctx;
    char text[NAME_TEXT_SIZE];
    int rc;

    (void)keys; /* the file has them of another moment */
    rc = cluster_backup_save(b->store, name, name_size, b->fd, &b->keys);
    if (rc < 0) {
        (void)name_escape(name, name_size, text);
        diag_errno(DIAG_ERROR, rc, "keyspace %s is not in the copy", text);
        b->faults++;
        /* The others are worth having; a full disk is the end of it. */
        return rc == -ENOSPC ? rc : 0;
    }
    b->keyspaces++;
    return 0;
}

/* Calls `file` with the name of each file of a folder. */
static int
each_file(int fd, int (*file)(void *ctx, const char *name), void *ctx)
{
    const char *name;
    DIR *dir;
    int rc;

    rc = dirstream_open(fd, ".", &dir);
    if (rc < 0)
        return rc;
    while ((rc = dirstream_next(dir, &name)) > 0) {
        rc = file(ctx, name);
        if (rc < 0)
            break;
    }
    (void)closedir(dir);
    return rc;
}

static int
check_file(void *ctx, const char *name)
{
    struct backup_cluster *b = ctx;
    struct cluster_backup_info info;
    int rc;

    rc = cluster_backup_check(b->fd, name, &info);
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

    if (mkdirat(to_fd, CLUSTER_BACKUP_FOLDER, 0700) < 0)
        return -errno;
    b->fd = openat(to_fd, CLUSTER_BACKUP_FOLDER,
                   O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b->fd < 0)
        return -errno;
    rc = store_list(b->store, first, 0, save_keyspace, b);
    if (rc == 0)
        rc = each_file(b->fd, check_file, b);
    if (rc == 0 && fsync(b->fd) < 0)
        rc = -errno;
    (void)close(b->fd);
    return rc;
}

/* ---- restoring ---------------------------------------------------------- */

struct restore_all {
    struct store *store;
    int fd;
    uint64_t parts, rows, kept, faults;
};

static int
restore_file(void *ctx, const char *file)
{
    struct restore_all *r = ctx;
    struct cluster_backup_info info = {.name_size = 0};
    char text[NAME_TEXT_SIZE];
    int rc;

    rc = cluster_backup_restore(r->store, r->fd, file, &info);
    (void)name_escape(info.name, info.name_size, text);
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
             text, info.part);
    else
        diag_errno(DIAG_ERROR, rc, "put %s of the backup back", file);
    return 0;
}

int
backup_cluster_restore(const char *path, struct store *store)
{
    struct restore_all r = {.store = store};
    char folder[CONFIG_TEXT_SIZE];
    int rc;

    (void)snprintf(folder, sizeof folder, "%s/" CLUSTER_BACKUP_FOLDER, path);
    r.fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r.fd < 0) {
        diag(DIAG_ERROR, "%s: %s; give a backup of a store in a cluster",
             folder, strerror(errno));
        return CONFIG_EXIT_USAGE;
    }
    rc = each_file(r.fd, restore_file, &r);
    (void)close(r.fd);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "read %s", folder);
        return CONFIG_EXIT_SYSTEM;
    }
    if (printf("restored parts=%" PRIu64 " keys=%" PRIu64
               " already-there=%" PRIu64 " faults=%" PRIu64 "\n",
               r.parts, r.rows, r.kept, r.faults) < 0 ||
        fflush(stdout) != 0)
        return CONFIG_EXIT_SYSTEM;
    return r.faults > 0 || r.kept > 0 ? CONFIG_EXIT_NEGATIVE : CONFIG_EXIT_OK;
}

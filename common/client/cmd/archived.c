/* common/client/cmd/archived.c - see cmd_data.h: archived_add() collects files
 * and reads their headers, archived_sort() orders them, archived_each() reads
 * one. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/base/folder.h"

/* ---- reading ----------------------------------------------------------- */

int
archived_each(const struct archived *a, slot_visit *visit, void *ctx)
{
    const int fd = folder_open_file(AT_FDCWD, a->path);
    int rc;

    if (fd < 0)
        return fd;
    rc = archive_each(fd, NULL, visit, ctx);
    (void)close(fd);
    return rc;
}

static int
read_header(const char *path, struct archive_header *out)
{
    const int fd = folder_open_file(AT_FDCWD, path);
    int rc;

    if (fd < 0)
        return fd;
    rc = archive_read_names(fd, NULL, out, NULL, NULL);
    (void)close(fd);
    return rc;
}

void
archived_report(const char *path, int rc)
{
    if (rc == -EBADMSG)
        diag(DIAG_ERROR, "%s is damaged: nothing of it is used", path);
    else if (rc == -EPROTONOSUPPORT)
        diag(DIAG_ERROR,
             "%s has the archive format of another version: use the countd "
             "that wrote it",
             path);
    else
        diag_errno(DIAG_ERROR, rc, "read %s", path);
}

/* A header that contradicts the file name is damaged. */
static void
take_header(struct archived *a, const struct archive_name *n)
{
    a->error = a->missing ? 0 : read_header(a->path, &a->header);
    if (a->error == 0 && !a->missing &&
        (a->header.first_ms != n->first_ms || a->header.index != n->index ||
         a->header.epoch != n->epoch))
        a->error = -EBADMSG;
    if (a->error < 0 || a->missing)
        a->header = (struct archive_header){
            .first_ms = n->first_ms, .index = n->index, .epoch = n->epoch};
    a->order_ms = a->header.first_ms;
}

/* ---- adding ------------------------------------------------------------ */

static int
add_file(struct archived_list *list, const char *path,
         const struct archive_name *n)
{
    struct archived *a;
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0
                               : -errno; /* archive.keep removed it meanwhile */
    if (array_grow(&list->logs, &list->capacity, list->count + 1,
                   sizeof *list->logs) < 0)
        return -ENOMEM;
    a = &list->logs[list->count];
    *a = (struct archived){.path = strdup(path),
                           .size = (uint64_t)st.st_size,
                           .missing = n->missing};
    if (a->path == NULL)
        return -ENOMEM;
    take_header(a, n);
    list->size += a->size;
    list->count++;
    return 0;
}

struct folder {
    struct archived_list *list;
    const char *path;
};

static int
add_listed(void *ctx, int folder_fd, const char *name)
{
    const struct folder *f = ctx;
    struct archive_name n;
    char *path;
    int rc;

    (void)folder_fd;
    if (archive_name_parse(name, &n) < 0)
        return 0;
    if (asprintf(&path, "%s/%s", f->path, name) < 0)
        return -ENOMEM;
    rc = add_file(f->list, path, &n);
    free(path);
    return rc;
}

static int
add_path(struct archived_list *list, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct folder folder = {.list = list, .path = path};
    struct archive_name n;
    struct stat st;
    char *inner;
    int rc;

    if (stat(path, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return archive_name_parse(slash ? slash + 1 : path, &n) < 0
                   ? -EINVAL
                   : add_file(list, path, &n);
    if (asprintf(&inner, "%s/%s", path, ARCHIVE_FOLDER) < 0)
        return -ENOMEM;
    if (access(inner, F_OK) == 0)
        folder.path = inner; /* of a data directory */
    rc = dirstream_each(AT_FDCWD, folder.path, add_listed, &folder);
    free(inner);
    return rc;
}

int
archived_add(struct archived_list *list, const char *path)
{
    const int rc = add_path(list, path);

    if (rc == -EINVAL)
        diag(DIAG_ERROR,
             "%s: give a folder of archived logs, a data directory with "
             "archive/, or files FIRSTMS-INDEX-EPOCH.gz",
             path);
    else if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "open %s", path);
    return rc;
}

/* ---- order ------------------------------------------------------------- */

static int
compare_numbers(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Orders by log, epoch and time: the files of a fill are neighbours. */
static int
by_fill(const void *a, const void *b)
{
    const struct archived *x = a, *y = b;
    const struct log_fill f = LOG_FILL_OF(&x->header),
                          g = LOG_FILL_OF(&y->header);
    const int c = log_fill_compare(&f, &g);

    return c != 0 ? c : strcmp(x->path, y->path);
}

static int
by_order(const void *a, const void *b)
{
    const struct archived *x = a, *y = b;
    const int c = compare_numbers(x->order_ms, y->order_ms);

    return c != 0 ? c : by_fill(a, b);
}

/* Orders by what file names contain: the uuid of a missing log is unknown. */
static int
by_name(const void *a, const void *b)
{
    const struct archived *x = a, *y = b;
    int c = compare_numbers(x->header.first_ms, y->header.first_ms);

    if (c == 0)
        c = compare_numbers(x->header.index, y->header.index);
    if (c == 0)
        c = compare_numbers(x->header.epoch, y->header.epoch);
    if (c == 0)
        c = (int)x->missing - (int)y->missing;
    return c != 0 ? c : by_fill(a, b);
}

static bool
is_there_twice(const struct archived *a, const struct archived *b)
{
    const struct archive_header *x = &a->header, *y = &b->header;

    if (x->first_ms != y->first_ms || x->index != y->index ||
        x->epoch != y->epoch)
        return false;
    if (b->missing)
        return true;
    return a->error == 0 && b->error == 0 &&
           memcmp(x->uuid, y->uuid, sizeof x->uuid) == 0;
}

static void
drop_doubles(struct archived_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++) {
        if (kept > 0 && is_there_twice(&list->logs[kept - 1], &list->logs[i])) {
            list->size -= list->logs[i].size;
            free(list->logs[i].path);
            continue;
        }
        list->logs[kept++] = list->logs[i];
    }
    list->count = kept;
}

void
archived_sort(struct archived_list *list)
{
    struct archived *logs = list->logs;

    if (list->count == 0)
        return;
    qsort(logs, list->count, sizeof *logs, by_name);
    drop_doubles(list);
    /* If the clock was set back, a later fill of a log still follows the
     * earlier ones. */
    qsort(logs, list->count, sizeof *logs, by_fill);
    for (size_t i = 1; i < list->count; i++)
        if (logs[i].error == 0 && !logs[i].missing &&
            memcmp(logs[i].header.uuid, logs[i - 1].header.uuid,
                   sizeof logs[i].header.uuid) == 0 &&
            logs[i].order_ms < logs[i - 1].order_ms)
            logs[i].order_ms = logs[i - 1].order_ms;
    qsort(logs, list->count, sizeof *logs, by_order);
}

static int
by_epoch(const void *a, const void *b)
{
    const struct archived *x = a, *y = b;
    const int c = memcmp(x->header.uuid, y->header.uuid, MESSAGE_UUID_SIZE);

    return c != 0 ? c : compare_numbers(x->header.epoch, y->header.epoch);
}

void
archived_sort_fills(struct archived_list *list)
{
    if (list->count > 0)
        qsort(list->logs, list->count, sizeof *list->logs, by_epoch);
}

bool
archived_has(const struct archived_list *list, const uint8_t *uuid,
             uint64_t epoch)
{
    struct archived key = {.header = {.epoch = epoch}};

    memcpy(key.header.uuid, uuid, MESSAGE_UUID_SIZE);
    return list->count > 0 &&
           bsearch(&key, list->logs, list->count, sizeof key, by_epoch) != NULL;
}

void
archived_free(struct archived_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->logs[i].path);
    free(list->logs);
    *list = (struct archived_list){.count = 0};
}

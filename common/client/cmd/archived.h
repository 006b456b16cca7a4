/* common/client/cmd/archived.h - archived logs, in an order in which they can
 * be applied: by time, and of each log by epoch, whatever the clock did.
 *
 * From files, folders of them, and data directories (then their archive/).
 * Only names and headers are read: damage behind the header shows when the log
 * is read.
 *
 * Ownership: the list belongs to the caller, read to free.  Errors: 0 or a
 * negative errno; reports each through diag.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_ARCHIVED_H
#define COUNTD_COMMON_CLIENT_CMD_ARCHIVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/archive.h"

struct archived {
    char *path;
    uint64_t size; /* of the file, in bytes */
    bool missing;  /* a mark for a log that was not archived */
    int error;     /* its header: 0, -EBADMSG, -EPROTONOSUPPORT, -EIO, ... */
    struct archive_header header; /* from the name if the log is missing or
                                     unreadable */
    uint64_t order_ms;
};

struct archived_list {
    struct archived *logs;
    size_t count, room;
    uint64_t size; /* of all files */
    size_t others; /* number of other files in the folders */
};

/* Adds the file `path`, or the archived logs in the folder `path`.
 *   -ENOENT, -ENOTDIR, ...; -EINVAL: the name is not that of an archived log */
int archived_add(struct archived_list *list, const char *path);

/* Sorts the list. Removes the mark of a missing log whose file is in the list,
 * and all but one of several copies of a log. */
void archived_sort(struct archived_list *list);
void archived_free(struct archived_list *list);

/* Opens a log and checks all of it; archived_close() closes *fd, too. */
int archived_open(const struct archived *a, struct archive_reader **out,
                  int *fd);
void archived_close(struct archive_reader *r, int fd);

#endif

/* common/client/cmd/archived.h - archived logs, in an order in which they can
 * be applied: by time, and of each log by epoch, whatever the clock did.
 *
 * From files, folders of them, and data directories (then their archive/).
 * Only names and headers are looked at; who reads a log meets the rest.
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
    uint64_t size; /* of the file */
    bool missing;  /* a mark for a log that was not archived */
    int error;     /* its header: 0, -EBADMSG, -EPROTONOSUPPORT, -EIO, ... */
    struct archive_header header; /* of one missing or not to be read, what the
                                    name says */
    uint64_t order_ms;
};

struct archived_list {
    struct archived *logs;
    size_t count, room;
    uint64_t size; /* of all files */
    size_t others; /* files in folders that are no archived logs */
};

/* Adds what `path` names, or holds.
 *   -ENOENT, -ENOTDIR, ...; -EINVAL: a file whose name is none of ours */
int archived_add(struct archived_list *list, const char *path);

/* Puts the list in order.  A log that is marked as missing and is there all
 * the same is not missing; one that is there twice is there once. */
void archived_sort(struct archived_list *list);
void archived_free(struct archived_list *list);

/* Opens one to be read, and checks all of it; *fd is closed with it. */
int archived_open(const struct archived *a, struct archive_reader **out,
                  int *fd);
void archived_close(struct archive_reader *r, int fd);

#endif

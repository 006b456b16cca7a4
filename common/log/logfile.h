/* common/log/logfile.h - looking at the files of data/log without owning
 * them.
 *
 * Ownership: a list belongs to the caller, read to free.  Errors: 0 or a
 * negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_LOGFILE_H
#define COUNTD_COMMON_LOG_LOGFILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/log/log.h"
#include "common/log/slot.h"

enum logfile_kind {
    LOGFILE_LOG,
    LOGFILE_LOCK,     /* lock-N */
    LOGFILE_BAD,      /* bad-N-EPOCH: quarantined */
    LOGFILE_SALVAGED, /* salvaged-N-EPOCH: was such, and was merged */
    LOGFILE_OTHER,    /* not ours */
};

#define LOGFILE_NAME_SIZE 256

struct logfile {
    char name[LOGFILE_NAME_SIZE];
    enum logfile_kind kind;
    uint64_t index; /* UINT64_MAX for LOGFILE_OTHER */
    mode_t mode;    /* permission bits */
    bool locked;    /* lock-N is there */
    bool ours;      /* a log, and a regular file of this user; else it is left
                       unchanged */
    uint64_t mtime_ms; /* first_ms of a full log */
};

struct logfile_list {
    struct logfile *files; /* logs, and locks without a log, by index; then
                              the others by kind, index, name */
    size_t count;
    size_t capacity;
};

int logfile_list_read(struct logfile_list *list, int log_fd);

/* Reads the list anew from an open directory.  A name that is there throughout
 * is in it. */
int logfile_list_scan(struct logfile_list *list, DIR *dir);
void logfile_list_free(struct logfile_list *list);

/* Calls each() with every file of a list of now; stops on non-zero and returns
 * that. */
int logfile_list_each(int log_fd,
                      int (*each)(void *ctx, const struct logfile *f),
                      void *ctx);

/* What kind of file a name is, and its index. */
enum logfile_kind logfile_parse(const char *name, uint64_t *index);

/* Opens for reading.  A full log (mode 0200) may not be opened for reading by
 * its own user: it is then taken by its flock and made 0600 just for the time
 * of open(2), as the protocol allows, and is 0200 again afterwards; a crash
 * in between is mended by the next scan of any daemon.
 *   -EBUSY  owned by someone alive who has not opened it up yet: try again */
int logfile_open(int log_fd, const char *name);

/* The slots of a file that logfile_each() reads. */
struct logfile_slots {
    int fd;
    const struct log_header *header;
    uint32_t end;     /* number of the first that is not read */
    uint32_t skipped; /* set: how many of those read are invalid */
};

/* Visits each valid slot of the header's epoch, marks included (mark_is()). */
int logfile_each(struct logfile_slots *slots, slot_visit *visit, void *ctx);

/* The same for all slots of a sealed log.  -EBADMSG: one is not valid. */
int logfile_each_sealed(const struct log *log, slot_visit *visit, void *ctx);

#endif

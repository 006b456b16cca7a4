/* worker/dead_fills.c - see dead_fills.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/dead_fills.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/log/inspect.h"
#include "common/log/logfile.h"

void
dead_fills_init(struct dead_fills *s, int log_fd)
{
    *s = (struct dead_fills){.log_fd = log_fd};
}

void
dead_fills_fini(struct dead_fills *s)
{
    free(s->logs);
    *s = (struct dead_fills){.log_fd = -1};
}

void
dead_fills_forget(struct dead_fills *s)
{
    s->count = 0;
    s->known = false;
}

/* ---- headers ----------------------------------------------------------- */

/* Parses the headers of an open log; false if neither is valid. */
static bool
read_headers(int fd, struct dead_fills_log *log)
{
    struct inspect look;

    if (inspect_headers(fd, UINT64_MAX, &look) < 0 || look.headers_rc < 0)
        return false;
    memcpy(log->uuid, look.header.uuid, sizeof log->uuid);
    log->epoch = look.header.epoch;
    log->empty = look.header.state == LOG_EMPTY;
    log->whole = look.header_ok[0] && look.header_ok[1];
    return true;
}

/* Adds a log, as its headers would survive a power loss; false if that cannot be
 * known.  After the fdatasync the disk has what was read before it, or an
 * earlier sync failed and the page cache has headers that the disk does not; so
 * they are read from the disk, too.  Bytes that are written in between are not
 * durable: of both readings the one that is less far counts.  The kernel drops a page
 * cache folio only if the range covers all of it, hence the whole file. */
static bool
add_log(struct dead_fills *s, const char *name, bool quarantined)
{
    struct dead_fills_log log = {.quarantined = quarantined}, disk = log;
    bool good;
    int fd;

    if (array_grow(&s->logs, &s->capacity, s->count + 1, sizeof *s->logs) < 0)
        return false;
    fd =
        openat(s->log_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    good = read_headers(fd, &log) && fdatasync(fd) == 0 &&
           posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 &&
           read_headers(fd, &disk) &&
           memcmp(log.uuid, disk.uuid, sizeof log.uuid) == 0;
    (void)close(fd);
    if (!good)
        return false;
    disk.whole = disk.whole && log.whole;
    if (log.epoch < disk.epoch || (log.epoch == disk.epoch && !log.empty)) {
        disk.epoch = log.epoch;
        disk.empty = log.empty;
    }
    s->logs[s->count++] = disk;
    return true;
}

/* Adds the logs, or the quarantined ones; true if each could be read. */
static bool
add_logs(struct dead_fills *s, enum logfile_kind kind)
{
    struct logfile_list list;
    bool all = true;

    if (logfile_list_read(&list, s->log_fd) < 0)
        return false;
    for (size_t i = 0; i < list.count; i++)
        if (list.files[i].kind == kind)
            all &= add_log(s, list.files[i].name, kind == LOGFILE_BAD);
    logfile_list_free(&list);
    return all;
}

/* The logs first: one that is quarantined meanwhile has its new name before
 * these are listed, so it is in one of the two lists. */
static void
read_logs(struct dead_fills *s)
{
    s->known = true;
    s->all_read = add_logs(s, LOGFILE_LOG);
    s->quarantine_read = add_logs(s, LOGFILE_BAD);
}

/* ---- fills ------------------------------------------------------------- */

/* True if the headers of the log show that this fill ended and was emptied. */
static bool
is_fill_over(const struct dead_fills_log *log, const struct log_fill *mark)
{
    return log->whole && (log->epoch > mark->epoch ||
                          (log->epoch == mark->epoch && log->empty));
}

/* Several logs may have one uuid, as copies made by hand: all of them count. */
bool
dead_fills_contain(void *ctx, const struct log_fill *mark)
{
    struct dead_fills *s = ctx;
    bool found = false;

    if (!s->known)
        read_logs(s);
    if (!s->quarantine_read)
        return false;
    for (size_t i = 0; i < s->count; i++) {
        const struct dead_fills_log *log = &s->logs[i];

        if (!log_fill_is_of_log(mark, log->uuid))
            continue;
        if (log->quarantined) {
            if (log->epoch <= mark->epoch)
                return false;
            continue;
        }
        found = true;
        if (!is_fill_over(log, mark))
            return false;
    }
    return found || s->all_read;
}

/* worker/dead_fills.c - see dead_fills.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/dead_fills.h"

#include <fcntl.h>
#include <stdio.h>
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

static int
open_log(const struct dead_fills *s, const struct dead_fills_log *log)
{
    return openat(s->log_fd, log->name,
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/* Adds a log; false if it cannot be read. */
static bool
add_log(struct dead_fills *s, const char *name, bool quarantined)
{
    struct dead_fills_log *log;
    bool good;
    int fd;

    if (strlen(name) >= sizeof log->name ||
        array_grow(&s->logs, &s->capacity, s->count + 1, sizeof *s->logs) < 0)
        return false;
    log = &s->logs[s->count];
    *log = (struct dead_fills_log){.quarantined = quarantined};
    (void)snprintf(log->name, sizeof log->name, "%s", name);
    fd = open_log(s, log);
    if (fd < 0)
        return false;
    good = read_headers(fd, log);
    (void)close(fd);
    s->count += good;
    return good;
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

/* Replaces the headers that were read of a log by those that would survive a
 * power loss: after fdatasync the disk has them, or an earlier sync failed and
 * the page cache has headers that the disk does not; so they are read from the
 * disk. The kernel drops a page cache folio only if the range covers all of it,
 * hence the whole file.  False if the disk's headers cannot be determined. */
static bool
read_from_disk(const struct dead_fills *s, struct dead_fills_log *log)
{
    struct dead_fills_log found = *log;
    int fd;

    if (log->synced)
        return true;
    fd = open_log(s, log);
    if (fd < 0)
        return false;
    found.synced = fdatasync(fd) == 0 &&
                   posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 &&
                   read_headers(fd, &found);
    (void)close(fd);
    if (found.synced)
        *log = found;
    return found.synced;
}

/* ---- fills ------------------------------------------------------------- */

/* True if the headers of the log show that this fill ended and was emptied. */
static bool
is_fill_over(const struct dead_fills_log *log, const struct log_fill *mark)
{
    return log->whole && (log->epoch > mark->epoch ||
                          (log->epoch == mark->epoch && log->empty));
}

static bool
has_uuid(const struct dead_fills_log *log, const struct log_fill *mark)
{
    return log_fill_is_of_log(mark, log->uuid);
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
        struct dead_fills_log *log = &s->logs[i];

        if (!has_uuid(log, mark))
            continue;
        if (log->quarantined) {
            if (log->epoch <= mark->epoch)
                return false;
            continue;
        }
        found = true;
        if (!is_fill_over(log, mark) || !read_from_disk(s, log) ||
            !has_uuid(log, mark) || !is_fill_over(log, mark))
            return false;
    }
    return found || s->all_read;
}

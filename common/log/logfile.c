/* common/log/logfile.c - see logfile.h: logfile_list_read() lists a
 * folder, logfile_open() opens a log without disturbing the daemons. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/dirstream.h"
#include "common/base/files.h"
#include "common/base/folder.h"
#include "common/log/log_owner.h"
#include "common/log/slot.h"

#define SLOTS_AT_ONCE 512

/* ---- names ------------------------------------------------------------- */

#define DIGITS 10

/* Names are a prefix, ten digits, and an end. */
static const struct {
    const char *prefix;
    char end;
} kinds[LOGFILE_OTHER] = {
    [LOGFILE_LOG] = {"", '\0'},
    [LOGFILE_LOCK] = {"lock-", '\0'},
    [LOGFILE_BAD] = {"bad-", '-'},
    [LOGFILE_SALVAGED] = {"salvaged-", '-'},
};

enum logfile_kind
logfile_parse(const char *name, uint64_t *index)
{
    for (unsigned kind = 0; kind < LOGFILE_OTHER; kind++) {
        const size_t size = strlen(kinds[kind].prefix);
        const char *digits = name + size;

        if (strncmp(name, kinds[kind].prefix, size) != 0 ||
            strspn(digits, "0123456789") != DIGITS ||
            digits[DIGITS] != kinds[kind].end)
            continue;
        *index = strtoull(digits, NULL, 10);
        return (enum logfile_kind)kind;
    }
    *index = UINT64_MAX;
    return LOGFILE_OTHER;
}

/* ---- the list ---------------------------------------------------------- */

/* Logs with their locks, each right behind its log, then the others by kind. */
static int
compare_files(const void *a, const void *b)
{
    const struct logfile *x = a, *y = b;
    const int xk = x->kind == LOGFILE_LOCK ? LOGFILE_LOG : (int)x->kind,
              yk = y->kind == LOGFILE_LOCK ? LOGFILE_LOG : (int)y->kind;

    if (xk != yk)
        return xk - yk;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind
                              : strcmp(x->name, y->name);
}

static int
add_file(struct logfile_list *list, int log_fd, const char *name)
{
    struct logfile *f;
    struct stat st;

    if (array_grow(&list->files, &list->capacity, list->count + 1,
                   sizeof *list->files) < 0)
        return -ENOMEM;
    if (fstatat(log_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno; /* gone meanwhile */
    f = &list->files[list->count++];
    *f = (struct logfile){.mode = st.st_mode & LOG_OWNER_MODE_MASK,
                          .mtime_ms = log_owner_mtime_ms(&st)};
    memcpy(f->name, name, strnlen(name, sizeof f->name - 1));
    f->kind = logfile_parse(f->name, &f->index);
    f->locked = f->kind == LOGFILE_LOCK;
    f->ours = f->kind == LOGFILE_LOG && log_owner_check(&st) == 0;
    return 0;
}

/* Marks the logs that have a lock, and keeps only locks without a log. */
static void
join_locks(struct logfile_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++) {
        const struct logfile *f = &list->files[i];

        if (f->kind == LOGFILE_LOCK && kept > 0 &&
            list->files[kept - 1].index == f->index)
            list->files[kept - 1].locked = true;
        else
            list->files[kept++] = *f;
    }
    list->count = kept;
}

int
logfile_list_scan(struct logfile_list *list, DIR *dir)
{
    const char *name;
    int rc;

    list->count = 0;
    rewinddir(dir);
    while ((rc = dirstream_next(dir, &name)) > 0) {
        if (name[0] == '.' || strcmp(name, "writer") == 0 ||
            strcmp(name, "merged") == 0 || strcmp(name, "waiting") == 0 ||
            strcmp(name, "kept") == 0)
            continue;
        rc = add_file(list, dirfd(dir), name);
        if (rc < 0)
            break;
    }
    if (rc < 0)
        return rc;
    if (list->count > 0)
        qsort(list->files, list->count, sizeof *list->files, compare_files);
    join_locks(list);
    return 0;
}

int
logfile_list_read(struct logfile_list *list, int log_fd)
{
    DIR *dir;
    int rc;

    *list = (struct logfile_list){0};
    rc = dirstream_open(log_fd, ".", &dir);
    if (rc < 0)
        return rc;
    rc = logfile_list_scan(list, dir);
    (void)closedir(dir);
    if (rc < 0)
        logfile_list_free(list);
    return rc;
}

void
logfile_list_free(struct logfile_list *list)
{
    free(list->files);
    *list = (struct logfile_list){0};
}

int
logfile_list_each(int log_fd, int (*each)(void *ctx, const struct logfile *f),
                  void *ctx)
{
    struct logfile_list list;
    int rc = logfile_list_read(&list, log_fd);

    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < list.count; i++)
        rc = each(ctx, &list.files[i]);
    logfile_list_free(&list);
    return rc;
}

/* ---- opening ----------------------------------------------------------- */

/* Sets a readable mode, opens the file, restores the mode. Only the holder of
 * the flock may change the mode. */
static int
open_full(int log_fd, const char *name, int lock_fd, const struct stat *st)
{
    int fd, rc;

    rc = log_owner_names_file(log_fd, name, st);
    if (rc < 0)
        return rc;
    if (rc == 0 || (st->st_mode & LOG_OWNER_MODE_MASK) != LOG_MODE_FULL)
        return -EBUSY; /* it has changed hands */
    if (fchmod(lock_fd, LOG_MODE_OWNED) < 0)
        return -errno;
    fd = folder_open_file(log_fd, name);
    if (fchmod(lock_fd, LOG_MODE_FULL) == 0 || fd < 0)
        return fd;
    rc = -errno;
    (void)close(fd);
    return rc;
}

int
logfile_open(int log_fd, const char *name)
{
    struct stat st;
    int lock_fd, rc;

    rc = folder_open_file(log_fd, name);
    if (rc != -EACCES)
        return rc;
    lock_fd = log_owner_open_locked(log_fd, name, &st);
    if (lock_fd < 0)
        return lock_fd;
    rc = open_full(log_fd, name, lock_fd, &st);
    (void)close(lock_fd); /* nothing was written; drops the flock */
    return rc;
}

/* ---- reading ----------------------------------------------------------- */

/* What logfile_each() was asked for. */
struct each {
    const struct log_header *header;
    slot_visit *visit;
    void *ctx;
};

/* Visits each valid one of `count` slots in memory, of which the
 * first is `number`.  Runs are parsed at once, which is quicker; a run with an
 * invalid slot is parsed again from its next slot on. */
static int
visit_slots(const struct each *e, const uint8_t *slots, uint32_t number,
            uint32_t count, uint32_t *skipped)
{
    struct slot_run run = {.log = e->header};
    struct slot_stamp stamps[SLOT_RUN];
    struct message messages[SLOT_RUN];
    int rc = 0;

    for (uint32_t at = 0; rc == 0 && at < count; at += run.count) {
        const uint8_t *from = slots + (size_t)at * e->header->layout.slot_size;
        bool valid;

        run.number = number + at;
        run.count = count - at < SLOT_RUN ? count - at : SLOT_RUN;
        valid = slot_parse_run(&run, from, messages, stamps) == 0;
        if (!valid && run.count > 1) {
            run.count = 1;
            valid = slot_parse_run(&run, from, messages, stamps) == 0;
        }
        if (!valid)
            (*skipped)++;
        for (uint32_t i = 0; valid && rc == 0 && i < run.count; i++)
            rc = e->visit(e->ctx, number + at + i, &messages[i], &stamps[i]);
    }
    return rc;
}

int
logfile_each(struct logfile_slots *slots, slot_visit *visit, void *ctx)
{
    const struct each e = {slots->header, visit, ctx};
    const size_t size = slots->header->layout.slot_size;
    uint8_t *bytes = malloc(SLOTS_AT_ONCE * size);
    int rc = 0;

    slots->skipped = 0;
    if (bytes == NULL)
        return -ENOMEM;
    for (uint32_t from = 0; rc == 0 && from < slots->end;
         from += SLOTS_AT_ONCE) {
        const uint32_t left = slots->end - from;
        const uint32_t ask = left < SLOTS_AT_ONCE ? left : SLOTS_AT_ONCE;
        const ssize_t got = read_twice(slots->fd, bytes, ask * size,
                                       LOG_SLOTS_AT + from * size);
        const uint32_t there = got < 0 ? 0 : (uint32_t)((size_t)got / size);

        rc = got < 0 ? (int)got
                     : visit_slots(&e, bytes, from, there, &slots->skipped);
        slots->skipped += ask - there; /* the file is too short for these */
    }
    free(bytes);
    return rc;
}

int
logfile_each_sealed(const struct log *log, slot_visit *visit, void *ctx)
{
    struct logfile_slots slots = {
        .fd = log->fd, .header = &log->header, .end = log->header.count};
    const int rc = logfile_each(&slots, visit, ctx);

    return rc == 0 && slots.skipped > 0 ? -EBADMSG : rc;
}

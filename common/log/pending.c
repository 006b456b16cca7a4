/* common/log/pending.c - see pending.h: pending_each() judges every log
 * (judge_log()); pending_oldest_ms() and pending_set_note() use it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/pending.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/log/inspect.h"
#include "common/log/log_owner.h"
#include "common/log/slot.h"

#define JUDGE_TRIES 8

/* What a log adds to the answer.  JUDGED_NONE: no increment that was in it at
 * the time of the call is unmerged. */
enum judgement { JUDGED, JUDGED_NONE, JUDGE_AGAIN };

/* Judges slot 0 of a log that is OPEN, or may be because its other block is
 * invalid.
 *
 * A slot of another epoch means that this fill had no records when the slot was
 * read, so none at the time of the call.  An invalid slot is being written, or
 * damaged. */
static int
judge_first_slot(int fd, const struct inspect *look, uint64_t *ms)
{
    const struct layout *l = &look->header.layout;
    struct log_header fill = look->header;
    uint8_t slot[SLOT_SIZE_MAX];
    struct slot_stamp stamp;
    struct message m;
    int rc;

    assert(l->slot_size <= sizeof slot);
    rc = inspect_slot(fd, l, 0, slot);
    if (rc == -EBADMSG)
        return JUDGE_AGAIN;
    if (rc < 0)
        return rc;
    if (look->header.state == LOG_EMPTY) {
        const uint64_t found = get_le32(slot + l->message_size);

        if (found <= fill.epoch)
            return JUDGED_NONE;
        fill.epoch = found;
    }
    rc = slot_parse(&fill, slot, 0, &m, &stamp);
    if (rc == -ENOENT)
        return JUDGED_NONE;
    if (rc < 0)
        return JUDGE_AGAIN;
    *ms = stamp.received_ms;
    return JUDGED;
}

static int
judge_open_file(int fd, uint64_t index, struct pending_log *p)
{
    struct inspect look;
    int rc;

    rc = inspect_headers(fd, index, &look);
    if (rc < 0)
        return rc;
    if (look.headers_rc < 0)
        return JUDGE_AGAIN;
    if (look.header.state == LOG_SEALED) {
        p->first_ms = look.header.first_ms;
        p->merging = true;
        p->fill = LOG_FILL_OF(&look.header);
        return JUDGED;
    }
    return log_owner_is_doubtful(&look)
               ? judge_first_slot(fd, &look, &p->first_ms)
               : JUDGED_NONE;
}

/* Judges a log by its header, since its mode shows that it is owned, or may be
 * older than the header.  The log may change hands at any moment; the state
 * that is read was true at some time since the call:
 *
 *   EMPTY   nothing that was in it before is still to be merged, and what
 *           comes now came after the caller took its time
 *   OPEN    slot 0 shows it (received_ms never goes back within a fill)
 *   SEALED  first_ms; also while a worker merges it, until it is EMPTY
 *   full    (0200) it was released, and its mtime shows it
 *   gone    quarantined: does not count */
static int
judge_log(struct logdir *dir, uint64_t index, struct pending_log *p)
{
    char name[LOG_NAME_SIZE];
    struct stat st;
    int fd, rc, i;

    log_name(index, name);
    for (i = 0; i < JUDGE_TRIES; i++) {
        fd = openat(dir->fd, name, O_RDONLY | LOG_OWNER_OPEN_FLAGS);
        if (fd < 0 && errno != EACCES)
            return errno == ENOENT || errno == ELOOP ? JUDGED_NONE : -errno;
        if (fd >= 0) {
            rc = judge_open_file(fd, index, p);
            (void)close(fd);
            if (rc != JUDGE_AGAIN)
                return rc;
        }
        if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return errno == ENOENT ? JUDGED_NONE : -errno;
        p->certain = (st.st_mode & LOG_OWNER_MODE_MASK) == LOG_MODE_FULL;
        if (p->certain)
            break;
    }
    /* Full; or unknown, and about to be quarantined or of a newer version. */
    p->first_ms = log_owner_mtime_ms(&st);
    return JUDGED;
}

int
pending_each(struct logdir *dir,
             int (*each)(void *ctx, const struct pending_log *p), void *ctx)
{
    const struct logfile *e;
    struct pending_log p;
    bool modes_true = true;
    size_t i;
    int rc;

    /* A log that is created from here on contains nothing that was in a log at
     * the time of the call, so one scan of the names is enough. */
    rc = logdir_scan(dir);
    if (rc < 0)
        return rc;
    for (i = 0; i < dir->count; i++) {
        e = &dir->entries[i];
        if (!e->ours)
            continue;
        p = (struct pending_log){.index = e->index,
                                 .first_ms = e->mtime_ms,
                                 .mtime_ms = e->mtime_ms,
                                 .certain = true};
        if (e->mode != LOG_MODE_FULL) {
            /* The mode of an empty log is true, unless a power loss brought it
             * back and no process has repaired it yet. */
            if (e->mode == LOG_MODE_EMPTY && dir->modes_true)
                continue;
            rc = judge_log(dir, e->index, &p);
            if (rc < 0)
                return rc;
            if (rc == JUDGED_NONE)
                continue;
            if (e->mode == LOG_MODE_EMPTY)
                modes_true = false;
        }
        rc = each(ctx, &p);
        if (rc != 0)
            return rc;
    }
    dir->modes_true |= modes_true;
    return 0;
}

static int
take_oldest(void *ctx, const struct pending_log *p)
{
    uint64_t *oldest_ms = ctx;

    if (p->first_ms < *oldest_ms)
        *oldest_ms = p->first_ms;
    return 0;
}

int
pending_oldest_ms(struct logdir *dir, uint64_t *oldest_ms)
{
    uint64_t oldest = UINT64_MAX;
    const int rc = pending_each(dir, take_oldest, &oldest);

    if (rc == 0)
        *oldest_ms = oldest;
    return rc;
}

/* ---- a set ----------------------------------------------------------------- */

static int
add_fill(void *ctx, const struct pending_log *p)
{
    struct pending_set *f = ctx;

    if (array_grow(&f->logs, &f->capacity, f->count + 1, sizeof *f->logs) < 0)
        return -ENOMEM;
    f->logs[f->count++] = *p;
    return 0;
}

int
pending_set_note(struct pending_set *f, struct logdir *logs)
{
    f->count = 0;
    return pending_each(logs, add_fill, f);
}

/* Some file systems store an mtime, which identifies a full log, in seconds. */
static bool
is_same(const struct pending_log *fill, const struct pending_log *p)
{
    return !p->certain || !fill->certain || p->first_ms == fill->first_ms ||
           p->first_ms == fill->first_ms / 1000 * 1000 ||
           p->mtime_ms == fill->first_ms;
}

static int
mark_seen(void *ctx, const struct pending_log *p)
{
    struct pending_set *f = ctx;

    for (size_t i = 0; i < f->count; i++) {
        struct pending_log *fill = &f->logs[i];

        if (fill->index != p->index || !is_same(fill, p))
            continue;
        fill->seen = true;
        if (!fill->certain && p->certain) { /* first_ms is now known */
            fill->first_ms = p->first_ms;
            fill->certain = true;
        }
    }
    return 0;
}

int
pending_set_drop_merged(struct pending_set *f, struct logdir *logs)
{
    size_t left = 0;
    int rc;

    for (size_t i = 0; i < f->count; i++)
        f->logs[i].seen = false;
    rc = pending_each(logs, mark_seen, f);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < f->count; i++)
        if (f->logs[i].seen)
            f->logs[left++] = f->logs[i];
    f->count = left;
    return 0;
}

void
pending_set_fini(struct pending_set *f)
{
    free(f->logs);
    *f = (struct pending_set){.count = 0};
}

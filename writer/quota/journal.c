/* writer/quota/journal.c - see journal.h.  The start is in journal_replay.c. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/files.h"

size_t
journal_free(const struct journal *j)
{
    const struct journal_group *g = &j->groups[j->collecting];
    const uint64_t end =
        j->head.first + (j->size - j->records_at) / JOURNAL_RECORD_SIZE;
    const uint64_t used = g->first + (g->count == 0 ? 1 : g->count);
    const size_t left = JOURNAL_GROUP - g->count;

    if (used >= end)
        return 0;
    return end - used < left ? (size_t)(end - used) : left;
}

void
journal_put(struct journal *j, const struct journal_record *r)
{
    struct journal_group *g = &j->groups[j->collecting];

    assert(journal_free(j) > 0);
    if (g->count == 0)
        g->count = 1; /* GROUP: when it is whole */
    journal_record_put(r, j->head.uuid, g->first + g->count,
                       g->bytes + g->count * JOURNAL_RECORD_SIZE);
    g->count++;
}

void
journal_begin(struct journal *j, uint64_t now_ms)
{
    struct journal_group *g = &j->groups[j->collecting];
    const struct journal_record r = {.type = JOURNAL_RECORD_GROUP,
                                     .value = (int64_t)now_ms,
                                     .after = (int64_t)g->count - 1};

    assert(!j->in_flight);
    if (g->count > 0)
        journal_record_put(&r, j->head.uuid, g->first, g->bytes);
    j->in_flight = true;
    j->collecting = 1 - j->collecting;
    j->groups[j->collecting].first = g->first + g->count;
    j->groups[j->collecting].count = 0;
}

int
journal_sync(struct journal *j)
{
    const struct journal_group *g = &j->groups[1 - j->collecting];
    const uint64_t at = journal_byte(j, g->first);
    const size_t size = g->count * JOURNAL_RECORD_SIZE;
    int rc;

    j->erased = true;
    if (g->count == 0)
        return 0;
    rc = write_at(j->fd, g->bytes, size, at);
    if (rc == 0 && fdatasync(j->fd) < 0)
        rc = -errno;
    /* A note that cannot be written fails the group: an older copy of the
     * journal would not be recognised. */
    if (rc == 0)
        rc = journal_note_write(&j->note, g->first + g->count);
    if (rc == 0)
        return 0;
    /* Overwrite the failed group before syncing: the failed fdatasync may have
     * marked its pages clean, and a second sync would skip them. */
    j->erased = write_zeros(j->fd, size, at) == 0 && fdatasync(j->fd) == 0;
    return rc;
}

void
journal_end(struct journal *j, int rc)
{
    struct journal_group *g = &j->groups[1 - j->collecting];

    j->in_flight = false;
    if (rc < 0)
        return; /* the caller reads the file again */
    j->durable = g->first + g->count;
    g->count = 0;
}

bool
journal_is_short(const struct journal *j)
{
    const struct journal_group *g = &j->groups[j->collecting];

    return journal_byte(j, g->first + g->count) + JOURNAL_STEP > j->size;
}

/* A descriptor of its own: its fsync reports errors that no other has heard of,
 * and takes none away from another. */
int
journal_extend(int dirfd, uint64_t from)
{
    const int fd =
        openat(dirfd, JOURNAL_NAME, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    struct statvfs fs;
    int rc;

    if (fd < 0)
        return -errno;
    if (fstatvfs(fd, &fs) == 0 &&
        (uint64_t)fs.f_bavail * fs.f_frsize < JOURNAL_STEP)
        rc = -ENOSPC; /* what is left is for the merges */
    else
        rc = write_zeros(fd, JOURNAL_STEP, from);
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    (void)close(fd);
    return rc;
}

int
journal_groups_init(struct journal *j)
{
    for (unsigned i = 0; i < 2; i++) {
        j->groups[i].bytes = malloc(JOURNAL_GROUP * JOURNAL_RECORD_SIZE);
        if (!j->groups[i].bytes)
            return -ENOMEM;
    }
    return 0;
}

void
journal_close(struct journal *j)
{
    if (j->fd >= 0)
        (void)close(j->fd);
    if (j->fd >= 0)
        journal_note_close(&j->note);
    for (unsigned i = 0; i < 2; i++)
        free(j->groups[i].bytes);
    *j = (struct journal){.fd = -1, .note.fd = -1};
}

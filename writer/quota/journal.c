/* writer/quota/journal.c - see journal.h: journal_put(), journal_sync(),
 * journal_checkpoint().  The start is in journal_replay.c. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/base/diag.h"
#include "common/base/files.h"
#include "common/base/state_file.h"

#define TEMP_NAME  JOURNAL_NAME ".new"
#define NOTE_MAGIC "COUNTDE1"
#define GROUP_SIZE (JOURNAL_GROUP * JOURNAL_RECORD_SIZE)

/* ---- groups ------------------------------------------------------ */

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
    int rc;

    if (g->count == 0)
        return 0;
    rc = write_at(j->fd, g->bytes, g->count * JOURNAL_RECORD_SIZE,
                  journal_byte(j, g->first));
    if (rc == 0 && fdatasync(j->fd) < 0)
        rc = -errno;
    /* A note that cannot be written fails the group: an older copy of the
     * journal would not be recognised. */
    return rc < 0 ? rc : journal_write_note(j, g->first + g->count);
}

void
journal_end(struct journal *j, int rc)
{
    struct journal_group *g = &j->groups[1 - j->collecting];

    j->in_flight = false;
    if (rc < 0)
        return;
    j->durable = g->first + g->count;
    g->count = 0;
}

void
journal_close(struct journal *j)
{
    if (j->fd >= 0)
        (void)close(j->fd);
    if (j->note_fd >= 0)
        (void)close(j->note_fd);
    for (unsigned i = 0; i < 2; i++)
        free(j->groups[i].bytes);
    *j = (struct journal){.fd = -1, .note_fd = -1};
}

/* ---- the note ---------------------------------------------------- */

int
journal_file_exists(int dirfd, const char *name, bool *exists)
{
    *exists = faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    return *exists || errno == ENOENT ? 0 : -errno;
}

int
journal_write_note(const struct journal *j, uint64_t end)
{
    uint8_t bytes[JOURNAL_NOTE_SIZE] = {0};

    memcpy(bytes + 8, j->head.uuid, sizeof j->head.uuid);
    put_le64(bytes + 40, end);
    put_le32(bytes + 64, j->head.generation);
    return state_write(j->note_fd, bytes, sizeof bytes, NOTE_MAGIC);
}

int
journal_read_note(struct journal *j, uint64_t *end)
{
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    uint8_t bytes[JOURNAL_NOTE_SIZE];
    int rc;

    *end = 0;
    j->note_fd = openat(j->dirfd, JOURNAL_NOTE_NAME, flags, 0600);
    if (j->note_fd < 0)
        return -errno;
    rc = state_read(j->note_fd, bytes, sizeof bytes, NOTE_MAGIC);
    if (rc < 0 && rc != -EBADMSG)
        return rc == -ENOENT ? 0 : rc; /* a new one */
    if (rc < 0)
        diag(DIAG_WARNING, "data_dir/live/" JOURNAL_NOTE_NAME
                           " is damaged and is written anew; an older copy of "
                           "the quota journal may go undetected");
    else if (memcmp(bytes + 8, j->head.uuid, sizeof j->head.uuid) != 0)
        diag(DIAG_WARNING, "data_dir/live/" JOURNAL_NOTE_NAME
                           " belongs to another quota journal, which was "
                           "replaced");
    else
        *end = get_le64(bytes + 40);
    return 0;
}

/* ---- checkpoints ------------------------------------------------- */

bool
journal_needs_checkpoint(const struct journal *j)
{
    return journal_byte(j, j->durable) + 2 * GROUP_SIZE > j->size;
}

/* The header is written last, and the file is synced as a whole. */
static int
write_file(int fd, const struct journal_header *h, const uint8_t *state,
           uint64_t *size)
{
    const uint64_t state_end = RECORDS_AT + h->checkpoint_size;
    uint8_t head[RECORDS_AT];
    int rc;

    *size = journal_records_at(h->checkpoint_size) + JOURNAL_GROWTH +
            h->checkpoint_size + 2 * GROUP_SIZE;
    journal_header_put(h, head);
    rc = write_at(fd, state, h->checkpoint_size, RECORDS_AT);
    if (rc == 0)
        rc = write_zeros(fd, *size - state_end, state_end);
    if (rc == 0)
        rc = write_at(fd, head, sizeof head, 0);
    return rc == 0 && fsync(fd) < 0 ? -errno : rc;
}

int
journal_write_file(int dirfd, const struct journal_header *h,
                   const uint8_t *state, uint64_t *size)
{
    const int flags = O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    const int fd = openat(dirfd, TEMP_NAME, flags, 0600);
    int rc;

    if (fd < 0)
        return -errno;
    rc = write_file(fd, h, state, size);
    if (rc == 0 && renameat(dirfd, TEMP_NAME, dirfd, JOURNAL_NAME) < 0)
        rc = -errno;
    if (rc == 0)
        return fd;
    (void)close(fd);
    (void)unlinkat(dirfd, TEMP_NAME, 0); /* it may have filled the disk */
    return rc;
}

static int
report_failure(int rc)
{
    static struct diag_repeat warning;

    diag_repeating(
        &warning, DIAG_WARNING,
        "write data_dir/live/" TEMP_NAME
        ": %s; when the quota journal is full, changes of quotas are "
        "refused until this works",
        diag_text(rc));
    return 0;
}

int
journal_checkpoint(struct journal *j, uint64_t end, const uint8_t *state,
                   size_t state_size)
{
    struct journal_header h = j->head;
    uint64_t size;
    int fd;

    h.generation++;
    h.first = end;
    h.checkpoint_size = state_size;
    h.checkpoint_crc = crc_of(state, state_size);
    fd = journal_write_file(j->dirfd, &h, state, &size);
    if (fd < 0)
        return report_failure(fd);
    (void)close(j->fd);
    j->fd = fd;
    j->head = h;
    j->records_at = journal_records_at(state_size);
    j->size = size;
    return fsync(j->dirfd) < 0 ? -errno : journal_write_note(j, end);
}

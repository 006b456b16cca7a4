/* writer/quota/journal_checkpoint.c - a journal begins anew with a checkpoint;
 * see journal.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/base/files.h"

#define TEMP_NAME JOURNAL_NAME ".new"

bool
journal_needs_checkpoint(const struct journal *j)
{
    return (j->durable - j->head.first) * JOURNAL_RECORD_SIZE >
           JOURNAL_GROWTH + j->head.checkpoint_size;
}

/* Writes the zeros behind a checkpoint that ends at byte `end`; *size is the
 * file's then.  On a full disk there are few: the file that this one replaces
 * may be most of what the disk has. */
static int
write_ahead(int fd, uint64_t end, uint64_t records_at, uint64_t *size)
{
    int rc;

    *size = records_at + JOURNAL_AHEAD;
    rc = write_zeros(fd, *size - end, end);
    if (rc != -ENOSPC)
        return rc;
    *size = records_at + JOURNAL_FIRST;
    return ftruncate(fd, (off_t)end) < 0 ? -errno
                                         : write_zeros(fd, *size - end, end);
}

/* The header is written last, and the file is synced as a whole. */
static int
write_file(int fd, struct journal_header *h, uint64_t *size, journal_save *save,
           void *ctx)
{
    uint8_t head[RECORDS_AT];
    int rc;

    rc = save(ctx, fd, RECORDS_AT, &h->checkpoint_size, &h->checkpoint_crc);
    if (rc < 0)
        return rc;
    rc = write_ahead(fd, RECORDS_AT + h->checkpoint_size,
                     journal_records_at(h->checkpoint_size), size);
    journal_header_put(h, head);
    if (rc == 0)
        rc = write_at(fd, head, sizeof head, 0);
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    return rc;
}

static int
report_failure(struct journal *j, int rc)
{
    static struct diag_repeat warning;

    diag_repeating(&warning, DIAG_WARNING,
                   "write data_dir/live/" TEMP_NAME
                   ": %s; the quota journal grows on until this works",
                   diag_text(rc));
    (void)unlinkat(j->dirfd, TEMP_NAME, 0); /* the next one overwrites it */
    return 0;
}

int
journal_checkpoint(struct journal *j, uint64_t end, journal_save *save,
                   void *ctx)
{
    const int flags = O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    struct journal_header h = j->head;
    const int fd = openat(j->dirfd, TEMP_NAME, flags, 0600);
    uint64_t size;
    int rc;

    if (fd < 0)
        return report_failure(j, -errno);
    h.generation++;
    h.first = end;
    rc = write_file(fd, &h, &size, save, ctx);
    if (rc == 0 && renameat(j->dirfd, TEMP_NAME, j->dirfd, JOURNAL_NAME) < 0)
        rc = -errno;
    if (rc < 0) {
        (void)close(fd);
        return report_failure(j, rc);
    }
    (void)close(j->fd);
    j->fd = fd;
    j->head = h;
    j->records_at = journal_records_at(h.checkpoint_size);
    j->size = size;
    if (fsync(j->dirfd) < 0)
        return -errno;
    rc = journal_note_follow(&j->note, fd, h.generation);
    return rc < 0 ? rc : journal_note_write(&j->note, end);
}

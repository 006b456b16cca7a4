/* common/journal/queue.c - see queue.h: the handle, reading, locks. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/journal/queue_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/files.h"

#define LOCK_BYTES 0x3fffffffu /* below 2^31: any file system knows these */

void
queue_report_damage(struct queue *q, uint32_t segment, uint64_t at,
                    const char *what)
{
    char text[120];

    (void)snprintf(text, sizeof text, "segment=%u byte=%llu: %s", segment,
                   (unsigned long long)at, what);
    q->options.report(q->options.ctx, text);
}

int
queue_open(struct queue **out, const struct queue_options *options)
{
    struct queue *q = calloc(1, sizeof *q);
    int rc = 0;

    if (q == NULL)
        return -ENOMEM;
    q->options = *options;
    q->tail_fd = q->part_fd = -1;
    q->lock_fd = openat(q->options.dir_fd, QUEUE_FILE_NAME,
                        (q->options.writable ? O_RDWR | O_CREAT : O_RDONLY) |
                            O_NOFOLLOW | O_CLOEXEC,
                        0600);
    if (q->lock_fd < 0)
        rc = -errno;
    if (rc == 0)
        rc = queue_refresh(q);
    if (rc < 0)
        queue_close(q);
    else
        *out = q;
    return rc;
}

void
queue_close(struct queue *q)
{
    queue_unlock(q);
    if (q->tail_fd >= 0)
        (void)close(q->tail_fd);
    if (q->lock_fd >= 0)
        (void)close(q->lock_fd);
    free(q->group.bytes);
    free(q->segments);
    free(q->items.at);
    free(q->record);
    free(q);
}

long
queue_holder(const struct queue *q)
{
    return q->holder;
}

int
queue_read(struct queue *q, uint64_t id, const uint8_t **bytes, size_t *size)
{
    const size_t i = queue_items_find(q, id);
    const struct queue_item *item = &q->items.at[i];
    size_t all;
    ssize_t got;
    int fd;

    if (i == q->items.count || item->id != id || item->segment == 0)
        return -ENOENT;
    *size = item->size;
    all = QUEUE_ENTRY + (size_t)item->size + 7;
    if (array_grow(&q->record, &q->record_capacity, all, 1) < 0)
        return -ENOMEM;
    fd = queue_segment_open(q, item->segment, O_RDONLY);
    if (fd < 0)
        return fd;
    got = read_at(fd, q->record, all, (uint64_t)item->at * 8);
    (void)close(fd);
    if (got < 0)
        return (int)got;
    if (queue_entry_size(q, q->record, (size_t)got) == 0 ||
        get_le64(q->record + 8) != id)
        return -EBADMSG;
    *bytes = q->record + QUEUE_ENTRY;
    return 0;
}

/* ---- locks of parts ----------------------------------------------------- */

/* A descriptor of its own, so that the lock is that open file's. */
static int
lock_bytes(struct queue *q, off_t start, off_t count)
{
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = start,
                         .l_len = count};
    int rc;

    assert(q->part_fd < 0);
    q->part_fd = openat(q->options.dir_fd, QUEUE_FILE_NAME, O_RDWR | O_CLOEXEC);
    if (q->part_fd < 0)
        return -errno;
    rc = fcntl(q->part_fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
    if (rc == 0)
        rc = queue_refresh(q);
    if (rc < 0)
        queue_unlock(q);
    return rc == -EACCES ? -EAGAIN : rc;
}

int
queue_lock(struct queue *q, uint64_t part)
{
    return lock_bytes(q, (off_t)(part & LOCK_BYTES), 1);
}

int
queue_lock_all(struct queue *q)
{
    return lock_bytes(q, 0, (off_t)LOCK_BYTES + 1);
}

void
queue_unlock(struct queue *q)
{
    if (q->part_fd >= 0)
        (void)close(q->part_fd);
    q->part_fd = -1;
}

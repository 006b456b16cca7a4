/* common/journal/queue_write.c - collecting groups and making them durable:
 * queue_put(), queue_commit(), queue_compact(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/journal/queue_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/files.h"

/* ---- collecting --------------------------------------------------------- */

int
queue_put(struct queue *q, const void *bytes, size_t size)
{
    if (size > UINT32_MAX / 2)
        return -EFBIG;
    if (q->options.max > 0 &&
        q->stats.bytes + q->group.size + size > q->options.max)
        return -EDQUOT;
    return queue_append(q, QUEUE_PUT, 0, bytes, size);
}

int
queue_remove(struct queue *q, uint64_t id)
{
    uint8_t bytes[8];

    put_le64(bytes, id);
    return queue_append(q, QUEUE_DONE, 0, bytes, sizeof bytes);
}

void
queue_discard(struct queue *q)
{
    q->group.size = q->group.entries = 0;
}

size_t
queue_collected(const struct queue *q)
{
    return q->group.size;
}

/* ---- the writer's lock -------------------------------------------------- */

void
queue_release(struct queue *q)
{
    if (q->locked)
        (void)flock(q->lock_fd, LOCK_UN); /* the end of the process does it */
    q->locked = false;
}

int
queue_acquire(struct queue *q)
{
    int rc;

    assert(q->options.writable);
    rc = q->locked ? 0 : lock_take(q->lock_fd, &q->holder);
    if (rc < 0)
        return rc;
    q->locked = true;
    rc = queue_refresh(q);
    if (rc < 0)
        queue_release(q);
    return rc;
}

/* ---- a group ------------------------------------------------------------ */

/* With the lock: opens the tail, and finds out whether anything follows its
 * end.  *size: bytes of its file. */
static int
open_tail(struct queue *q, uint64_t *size)
{
    uint8_t line[QUEUE_LINE] = {0};
    struct stat st;
    ssize_t got;

    *size = 0;
    if (q->tail == 0)
        return 0;
    if (q->tail_fd < 0)
        q->tail_fd = queue_segment_open(q, q->tail, O_RDWR);
    if (q->tail_fd < 0)
        return q->tail_fd;
    got = read_at(q->tail_fd, line, QUEUE_LINE, q->end);
    q->must_roll = q->must_roll || got < 0 || !queue_is_zero(line, QUEUE_LINE);
    if (fstat(q->tail_fd, &st) < 0)
        return -errno;
    *size = (uint64_t)st.st_size;
    return 0;
}

/* The first segment of which something waits. */
static uint32_t
find_oldest(struct queue *q)
{
    uint32_t n = q->lowest;

    while (n < q->tail && queue_segment_of(q, n)->live == 0)
        n++;
    return n > q->oldest ? n : q->oldest;
}

/* Where the group goes, in whole lines. */
static int
place_group(struct queue *q)
{
    struct queue_group *g = &q->group;
    uint64_t size;
    int rc;

    rc = open_tail(q, &size);
    if (rc == 0 && g->size == 0)
        rc = array_grow(&g->bytes, &g->capacity, QUEUE_LINE, 1);
    if (rc < 0)
        return rc;
    g->size = g->size == 0
                  ? QUEUE_LINE
                  : (g->size + QUEUE_LINE - 1) / QUEUE_LINE * QUEUE_LINE;
    g->rolls = q->must_roll || q->end + g->size > size;
    g->segment = q->tail + g->rolls;
    g->at = g->rolls ? QUEUE_FIRST : q->end;
    g->first = g->rolls ? 1 : q->next;
    g->oldest = q->tail == 0 ? 1 : find_oldest(q);
    g->number = q->number > 0 ? q->number : 1;
    return 0;
}

/* Whether the note on disk is the one this handle wrote last: then others have
 * seen the group, and it is in. */
static bool
is_noted(const struct queue *q)
{
    uint8_t note[QUEUE_NOTE];

    return queue_note_read(q, note) && memcmp(note, q->note, QUEUE_NOTE) == 0;
}

static int
sync_group(struct queue *q)
{
    struct queue_group *g = &q->group;
    bool synced;
    int rc = 0;

    if (g->rolls)
        rc = queue_roll(q, g->segment);
    if (rc == 0 && g->rolls) /* from here on the end is exact */
        rc = queue_note_write(q, 0);
    if (rc < 0)
        return rc;
    queue_encode(q);
    rc = write_at(q->tail_fd, g->bytes, g->size, g->at);
    if (rc == 0 && fdatasync(q->tail_fd) < 0)
        rc = -errno;
    synced = rc == 0;
    if (rc == 0)
        rc = queue_note_write(q, g->size);
    if (rc < 0 && synced && is_noted(q))
        rc = 0;
    if (rc < 0) /* it is unknown what reached the disk: cut it off */
        q->erased =
            ftruncate(q->tail_fd, (off_t)g->at) == 0 && fsync(q->tail_fd) == 0;
    return rc;
}

static void
close_tail(struct queue *q)
{
    if (q->tail_fd >= 0)
        (void)close(q->tail_fd);
    q->tail_fd = -1;
}

/* A group that is durable counts. */
static void
take_group(struct queue *q)
{
    const struct queue_group *g = &q->group;

    q->tail = g->segment;
    q->must_roll = false;
    q->end = queue_segment_of(q, q->tail)->end = g->at + g->size;
    q->loaded = queue_take_group(q, g->bytes, g->at) == 0;
    queue_segments_remove(q, g->oldest);
    queue_forget_gone(q);
}

int
queue_commit(struct queue *q, uint64_t *first)
{
    struct queue_group *g = &q->group;
    int rc;

    q->erased = true;
    rc = queue_acquire(q);
    if (rc == 0)
        rc = place_group(q);
    if (rc < 0)
        goto discard;
    if (first != NULL)
        *first = (uint64_t)g->segment << 32 | g->first;
    rc = sync_group(q);
    if (rc == 0 && queue_segments_reach(q, g->segment) == 0) {
        take_group(q);
    } else { /* the file is read again, and a new segment begun */
        q->loaded = q->loaded && rc < 0;
        close_tail(q);
        q->must_roll = true;
    }

discard:
    queue_discard(q);
    queue_release(q);
    return rc;
}

/* Whether bytes that were promised to no caller follow the end. */
static int
has_dirt(struct queue *q, bool *dirt)
{
    const bool must_roll = q->must_roll;
    uint64_t size;
    int rc;

    rc = open_tail(q, &size);
    *dirt = q->must_roll;
    q->must_roll = must_roll;
    return rc;
}

int
queue_remove_unfinished(struct queue *q)
{
    bool dirt = false;
    int rc;

    assert(queue_collected(q) == 0);
    rc = queue_refresh(q);
    if (rc == 0 && q->tail > 0)
        rc = has_dirt(q, &dirt);
    if (rc < 0 || !dirt)
        return rc;
    /* With the lock again: they may be the group of a writer that lives. */
    rc = queue_acquire(q);
    if (rc == 0)
        rc = has_dirt(q, &dirt);
    if (rc == 0 && dirt)
        return queue_commit(q, NULL);
    queue_release(q);
    return rc;
}

int
queue_rest(struct queue *q)
{
    return fdatasync(q->lock_fd) < 0 ? -errno : 0;
}

/* ---- giving space back -------------------------------------------------- */

static uint64_t
file_bytes(const struct queue *q)
{
    uint64_t sum = 0;

    for (uint32_t n = 0; q->tail > 0 && n <= q->tail - q->lowest; n++)
        sum += q->segments[n].end;
    return sum;
}

void
queue_stats(const struct queue *q, struct queue_stats *out)
{
    *out = q->stats;
    out->file_bytes = file_bytes(q);
    out->bad_segments = 0;
    for (uint32_t i = q->lowest; q->tail > 0 && i <= q->tail; i++)
        out->bad_segments += q->segments[i - q->lowest].bad;
}

/* Adds the records that wait in the oldest segment to the group.  Damaged ones
 * stay in bad-N. */
static int
copy_oldest(struct queue *q, uint64_t *copied)
{
    const uint8_t *bytes;
    size_t size;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < q->items.count; i++) {
        const struct queue_item *item = &q->items.at[i];

        if (item->segment != q->lowest)
            continue;
        rc = queue_read(q, item->id, &bytes, &size);
        if (rc == -EBADMSG) {
            queue_report_damage(q, item->segment, item->at * UINT64_C(8),
                                "a record is lost");
            queue_segment_of(q, item->segment)->bad = true;
            rc = queue_remove(q, item->id);
            continue;
        }
        if (rc == 0)
            rc = queue_append(q, QUEUE_COPY, item->id, bytes, size);
        *copied += rc == 0 ? size + QUEUE_ENTRY : 0;
    }
    return rc;
}

/* A damaged segment of which nothing waits becomes bad-N at once: an operator
 * can then see that nothing more comes of it.  After the last segment the first
 * group begins another, and the second one says that this is not needed. */
static int
remove_damaged(struct queue *q)
{
    int rc = 0;

    while (rc == 0 && q->tail > 0 && queue_segment_of(q, q->lowest)->bad &&
           queue_segment_of(q, q->lowest)->live == 0) {
        q->must_roll = q->must_roll || q->lowest == q->tail;
        rc = queue_commit(q, NULL);
    }
    return rc;
}

int
queue_compact(struct queue *q, uint64_t bytes)
{
    uint64_t copied = 0;
    int rc;

    assert(queue_collected(q) == 0);
    rc = remove_damaged(q);
    while (rc == 0 && copied <= bytes && q->lowest < q->tail &&
           file_bytes(q) >
               2 * q->stats.bytes + 2 * (uint64_t)q->options.segment_size) {
        rc = copy_oldest(q, &copied);
        if (rc == 0)
            rc = queue_commit(q, NULL);
        else
            queue_discard(q);
        /* The copies are durable: the next group says that the segment is not
         * needed. */
        if (rc == 0 && q->lowest < q->tail &&
            queue_segment_of(q, q->lowest)->live == 0)
            rc = queue_commit(q, NULL);
    }
    return rc == 0 && copied > bytes ? 1 : rc;
}

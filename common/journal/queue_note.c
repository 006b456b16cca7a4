/* common/journal/queue_note.c - what is durable, as "lock" says, and reading
 * all segments by it or what was added since. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/journal/queue_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/boot_id.h"
#include "common/base/crc.h"
#include "common/base/files.h"

#define TRIES 8

bool
queue_note_read(const struct queue *q, uint8_t note[QUEUE_NOTE])
{
    uint8_t copy[QUEUE_NOTE];

    for (int i = 0; i < TRIES; i++) { /* it may be written at this moment */
        memset(note, 0, QUEUE_NOTE);
        if (read_at(q->lock_fd, note, QUEUE_NOTE, 0) != (ssize_t)QUEUE_NOTE ||
            memcmp(note, "COUNTDJL", 8) != 0)
            continue;
        memcpy(copy, note, QUEUE_NOTE);
        memset(copy + 44, 0, 4);
        if (get_le32(note + 44) == crc_of(copy, QUEUE_NOTE))
            return true;
    }
    return false;
}

int
queue_note_write(struct queue *q, uint64_t size)
{
    const struct queue_group *g = &q->group;
    uint8_t b[QUEUE_NOTE] = "COUNTDJL";

    memcpy(b + 8, q->uuid, 16);
    memcpy(b + 24, boot_id_get(), BOOT_ID_SIZE);
    put_le32(b + 40, g->segment);
    put_le64(b + 48, g->at + size);
    put_le64(b + 56, g->number);
    put_le32(b + 44, crc_of(b, QUEUE_NOTE));
    memcpy(q->note, b, QUEUE_NOTE);
    return write_at(q->lock_fd, b, QUEUE_NOTE, 0);
}

/* ---- reading by the note ------------------------------------------------ */

static void
reset_queue(struct queue *q)
{
    q->loaded = false;
    memset(q->uuid, 0, sizeof q->uuid);
    q->tail = q->oldest = 0;
    q->number = q->end = 0;
    q->items.count = q->items.gone = q->items.first = 0;
    q->stats.records = q->stats.bytes = 0;
    if (q->options.removed != NULL)
        q->options.removed(q->options.ctx, 0);
}

/* What the note says of a segment; `last`: none follows it. */
static struct queue_bounds
bounds_of(const uint8_t *note, uint32_t number, bool last)
{
    const bool noted = note != NULL && get_le32(note + 40) == number;
    const uint64_t end = noted ? get_le64(note + 48) : 0;
    const bool exact = noted && last && boot_id_is_this(note + 24);

    return (struct queue_bounds){.durable = end,
                                 .limit = exact ? end : UINT64_MAX,
                                 .last = last,
                                 .closed = !last && !noted};
}

/* Reads these segments; *missing becomes the last one that is not there,
 * between them. */
static int
read_segments(struct queue *q, const uint32_t *numbers, size_t count,
              const uint8_t *note, uint32_t *missing)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < count; i++) {
        const struct queue_bounds bounds =
            bounds_of(note, numbers[i], i + 1 == count);

        if (i > 0 && numbers[i] != numbers[i - 1] + 1) {
            *missing = numbers[i] - 1;
            q->number = 0; /* what is missing may have been removed */
        }
        rc = queue_segment_read(q, numbers[i], 0, &bounds);
    }
    return rc;
}

/* Reads all segments.  `note` is a good one, or NULL. */
static int
load_segments(struct queue *q, const uint8_t *note)
{
    const bool exact = note != NULL && boot_id_is_this(note + 24);
    const uint32_t at = note != NULL ? get_le32(note + 40) : 0;
    uint32_t *numbers, missing = 0;
    size_t count;
    int rc;

    rc = queue_segments_list(q, &numbers, &count);
    while (rc == 0 && exact && count > 0 && numbers[count - 1] > at)
        count--; /* nothing in them was durable */
    reset_queue(q);
    if (rc == 0)
        rc = read_segments(q, numbers, count, note, &missing);
    if (rc == 0 && missing > 0 && missing >= q->oldest)
        queue_report_damage(q, missing, 0, "it is missing");
    if (rc == 0 && note != NULL && (q->tail < at || count == 0))
        queue_report_damage(q, at, get_le64(note + 48),
                            "it was there, and is missing");
    if (rc == 0 && count > 0 && q->oldest > 0 && numbers[0] > q->oldest)
        queue_report_damage(q, numbers[0] - 1, 0, "it is missing");
    free(numbers);
    if (rc == 0)
        queue_rebuild(q);
    q->loaded = rc == 0;
    /* Nothing is added to a damaged segment, so that it is soon not needed. */
    q->must_roll = !exact || q->tail == 0 || queue_segment_of(q, q->tail)->bad;
    return rc;
}

/* Reads what others have added, as `note` says.  -ENOENT: load instead. */
static int
follow_note(struct queue *q, const uint8_t *note)
{
    const uint32_t to = get_le32(note + 40);
    int rc = 0;

    if (!q->loaded || q->tail == 0 || to < q->tail ||
        !boot_id_is_this(note + 24) || !boot_id_is_this(q->note + 24) ||
        memcmp(note + 8, q->uuid, 16) != 0)
        return -ENOENT;
    for (uint32_t n = q->tail; rc == 0 && n <= to; n++) {
        const struct queue_bounds bounds = bounds_of(note, n, n == to);

        rc = queue_segment_read(q, n, n == q->tail ? q->end : 0, &bounds);
    }
    return rc;
}

int
queue_refresh(struct queue *q)
{
    uint8_t note[QUEUE_NOTE];
    bool good;
    int rc = -ENOENT;

    for (int i = 0; rc == -ENOENT && i < TRIES; i++) {
        good = queue_note_read(q, note);
        if (q->loaded && memcmp(note, q->note, QUEUE_NOTE) == 0)
            return 0;
        if (!good && !queue_is_zero(note, QUEUE_NOTE))
            queue_report_damage(q, 0, 0, "\"lock\" is damaged");
        rc = good && q->loaded ? follow_note(q, note) : -ENOENT;
        if (rc == -ENOENT)
            rc = load_segments(q, good ? note : NULL);
        q->loaded = rc == 0; /* else only some of it may be in the index */
        if (rc == 0)
            queue_forget_gone(q);
        memcpy(q->note, note, QUEUE_NOTE);
        if (q->tail_fd >= 0)
            (void)close(q->tail_fd); /* the tail may be another one */
        q->tail_fd = -1;
    }
    return rc;
}

/* common/journal/queue_internal.h - what the files of queue.h share: queue.c,
 * queue_index.c, queue_group.c, queue_segment.c, queue_note.c, queue_write.c.
 *
 * A segment, little-endian, starts with two copies of its header, at byte 0 and
 * 512:
 *
 *      0  magic "COUNTDJ1"    8 uuid[16] of the queue    24 boot[16]
 *     40  number u32         44 crc32 of the 44 bytes before       48 zero
 *
 * Groups follow from byte 1024 on, each on a line (64 bytes); then zeros.  A
 * group has a header, whose last word shows that all of it was written:
 *
 *      0  magic "JGRP"        4 crc32 of 8..63     8 size u64   16 number u64
 *     24  zero u64           32 segment u32       36 oldest segment needed u32
 *     40  entries u32        44 zero lines u32    48 first u32
 *     52  salt u32           56 zero              60 "PRGJ"
 *
 * and entries, each at a multiple of 8:
 *
 *      0  crc32 of the rest   4 size u32           8 id u64     16 unused u64
 *     24  salt u32           28 kind u32          32 bytes
 *
 * An id is the segment << 32 | a number that rises from 1 in each segment; the
 * bytes of a DONE entry are the ids that are done.  The salt is the first word
 * of the uuid, so no client can write what looks like an entry.
 *
 * The note, file "lock": magic "COUNTDJL", uuid[16], boot[16], segment u32,
 * crc32 u32 (of the other 60 bytes), end u64, number u64 of the last group.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_JOURNAL_QUEUE_INTERNAL_H
#define COUNTD_COMMON_JOURNAL_QUEUE_INTERNAL_H

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/journal/queue.h"

#define QUEUE_LINE      64u   /* bytes; groups begin at a multiple */
#define QUEUE_FIRST     1024u /* byte of the first group of a segment */
#define QUEUE_NOTE      64u   /* bytes of the note */
#define QUEUE_NAME_SIZE 20u   /* of a file's name */
#define QUEUE_FILE_NAME "lock"

enum queue_kind { QUEUE_PUT = 1, QUEUE_COPY, QUEUE_DONE };

struct queue_item { /* a record that waits */
    uint64_t id;
    uint32_t segment; /* 0: gone; while loading: that it is done */
    uint32_t at;      /* in units of 8 bytes */
    uint32_t size;
};

struct queue_segment {
    uint64_t end;  /* of its groups */
    uint64_t live; /* bytes of records that wait */
    bool bad;      /* has damage, so its file is kept */
};

struct queue_group {
    uint8_t *bytes;
    size_t size, capacity;
    uint32_t entries, segment, first, oldest;
    uint64_t number, at;
    bool rolls; /* begins a segment */
};

struct queue_items { /* by id */
    struct queue_item *at;
    size_t count, capacity, gone;
    size_t first; /* none before it waits */
    bool unsorted;
};

struct queue {
    struct queue_options options;
    struct queue_stats stats;
    int lock_fd, tail_fd, part_fd;
    bool loaded; /* the index is that of the note */
    bool locked;
    bool erased;    /* the last group, if it failed, is gone for ever */
    bool must_roll; /* what follows the end in the file is unknown */
    long holder;
    uint8_t uuid[16], note[QUEUE_NOTE];

    uint32_t tail, lowest; /* last and first segment; 0: none */
    uint32_t oldest;       /* segment that is needed, as the groups say */
    uint32_t next;         /* number of the next record in the tail */
    uint64_t end, number;  /* of the next group */
    struct queue_segment *segments; /* from `lowest` to `tail` */
    size_t segment_capacity;

    struct queue_group group; /* that collects */
    struct queue_items items;

    uint8_t *record; /* that was read last */
    size_t record_capacity;
};

/* Reports damage. */
void queue_report_damage(struct queue *q, uint32_t segment, uint64_t at,
                         const char *what);

static inline struct queue_segment *
queue_segment_of(struct queue *q, uint32_t number)
{
    return &q->segments[number - q->lowest];
}

/* ---- the index (queue_index.c) ------------------------------------------ */

/* Index of the first item with this id or a higher one. */
size_t queue_items_find(const struct queue *q, uint64_t id);

/* An entry of a group that counts. */
int queue_item_add(struct queue *q, const struct queue_item *item, bool is_copy,
                   bool *is_new);
int queue_item_done(struct queue *q, uint64_t id);

/* Builds the index again, with the last copy of each item that waits. */
void queue_rebuild(struct queue *q);

/* The same when most items are gone. */
void queue_forget_gone(struct queue *q);

/* ---- groups in memory (queue_group.c) ----------------------------------- */

bool queue_is_zero(const uint8_t *bytes, size_t size);
bool queue_is_group(const struct queue *q, const uint8_t *b, uint32_t segment);
uint32_t queue_zero_lines(const uint8_t *b, size_t size);

/* Bytes of the good entry that begins here, or 0. */
size_t queue_entry_size(const struct queue *q, const uint8_t *b,
                        size_t capacity);
uint32_t queue_good_entries(const struct queue *q, const uint8_t *b,
                            size_t size);

/* Appends an entry to the group that collects.  -ENOMEM */
int queue_append(struct queue *q, enum queue_kind kind, uint64_t id,
                 const void *bytes, size_t size);

/* Writes the ids, checksums and header of the group. */
void queue_encode(struct queue *q);

/* Takes the good entries of a group that counts into the index. */
int queue_take_group(struct queue *q, const uint8_t *b, uint64_t at);

/* ---- segment files (queue_segment.c) ------------------------------------ */

/* What a segment may be expected to have. */
struct queue_bounds {
    uint64_t durable; /* what is before this byte was durable */
    uint64_t limit;   /* nothing is read from here on */
    bool last;        /* its last group may be torn */
    bool closed;      /* it is not the last one */
};

/* A descriptor, or -errno. */
int queue_segment_open(const struct queue *q, uint32_t number, int access);

/* Makes q->segments reach to this one. */
int queue_segments_reach(struct queue *q, uint32_t number);

/* Takes the groups of a segment from byte `from` on (0: all of it). */
int queue_segment_read(struct queue *q, uint32_t number, uint64_t from,
                       const struct queue_bounds *bounds);

/* Numbers of the segments in the folder, sorted; the caller frees *out. */
int queue_segments_list(const struct queue *q, uint32_t **out, size_t *count);

/* Ends the tail where its groups end, and begins the next segment. */
int queue_roll(struct queue *q, uint32_t number);

/* Removes segments before `oldest`, of which nothing waits, durably. */
void queue_segments_remove(struct queue *q, uint32_t oldest);

/* ---- the note (queue_note.c) -------------------------------------------- */

bool queue_note_read(const struct queue *q, uint8_t note[QUEUE_NOTE]);

/* Says that groups are durable up to the one that collects, of which `size`
 * bytes are written. */
int queue_note_write(struct queue *q, uint64_t size);

#endif

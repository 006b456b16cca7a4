/* common/journal/queue_group.c - groups in memory: their bytes are in
 * queue_internal.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/journal/queue_internal.h"

#include <errno.h>
#include <string.h>

#include "common/base/crc.h"

static uint32_t
salt_of(const struct queue *q)
{
    return get_le32(q->uuid);
}

/* ---- checking ----------------------------------------------------------- */

bool
queue_is_zero(const uint8_t *bytes, size_t size)
{
    static const uint8_t zeros[QUEUE_LINE];

    return memcmp(bytes, zeros, size) == 0;
}

uint32_t
queue_zero_lines(const uint8_t *b, size_t size)
{
    uint32_t count = 0;

    for (size_t at = QUEUE_LINE; at + QUEUE_LINE <= size; at += QUEUE_LINE)
        count += queue_is_zero(b + at, QUEUE_LINE);
    return count;
}

bool
queue_is_group(const struct queue *q, const uint8_t *b, uint32_t segment)
{
    return memcmp(b, "JGRP", 4) == 0 && get_le32(b + 32) == segment &&
           get_le32(b + 52) == salt_of(q) &&
           get_le32(b + 4) == crc_of(b + 8, QUEUE_LINE - 8) &&
           get_le64(b + 8) >= QUEUE_LINE && get_le64(b + 8) % QUEUE_LINE == 0;
}

size_t
queue_entry_size(const struct queue *q, const uint8_t *b, size_t capacity)
{
    const uint64_t size = capacity < QUEUE_ENTRY ? 0 : get_le32(b + 4);
    const uint64_t all = (QUEUE_ENTRY + size + 7) / 8 * 8;

    return capacity >= QUEUE_ENTRY && all <= capacity &&
                   get_le32(b + 24) == salt_of(q) &&
                   get_le32(b) == crc_of(b + 4, QUEUE_ENTRY - 4 + size)
               ? (size_t)all
               : 0;
}

uint32_t
queue_good_entries(const struct queue *q, const uint8_t *b, size_t size)
{
    uint32_t good = 0;

    for (size_t at = QUEUE_LINE, n; at<size; at += n> 0 ? n : 8) {
        n = queue_entry_size(q, b + at, size - at);
        good += n > 0;
    }
    return good;
}

/* ---- writing ------------------------------------------------------------ */

int
queue_append(struct queue *q, enum queue_kind kind, uint64_t id,
             const void *bytes, size_t size)
{
    struct queue_group *g = &q->group;
    const size_t at = g->size > 0 ? g->size : QUEUE_LINE;
    const size_t all = (QUEUE_ENTRY + size + 7) / 8 * 8;
    uint8_t *e;

    /* A line more, so that queue_commit() can fill the last one. */
    if (array_grow(&g->bytes, &g->capacity, at + all + QUEUE_LINE, 1) < 0)
        return -ENOMEM;
    e = g->bytes + at;
    memset(e, 0, QUEUE_ENTRY);
    memset(e + all - 8, 0, 8);
    put_le32(e + 4, (uint32_t)size);
    put_le64(e + 8, id);
    put_le32(e + 28, kind);
    if (size > 0)
        memcpy(e + QUEUE_ENTRY, bytes, size);
    g->size = at + all;
    g->entries++;
    return 0;
}

void
queue_encode(struct queue *q)
{
    static const uint8_t begin_magic[] = {'J', 'G', 'R', 'P'};
    static const uint8_t end_magic[] = {'P', 'R', 'G', 'J'};
    struct queue_group *g = &q->group;
    uint8_t *head = g->bytes;
    uint32_t id = g->first;
    size_t at = QUEUE_LINE;

    for (uint32_t i = 0; i < g->entries; i++) {
        uint8_t *e = g->bytes + at;
        const uint32_t size = get_le32(e + 4);

        if (get_le32(e + 28) == QUEUE_PUT)
            put_le64(e + 8, (uint64_t)g->segment << 32 | id++);
        put_le32(e + 24, salt_of(q));
        put_le32(e, crc_of(e + 4, QUEUE_ENTRY - 4 + size));
        at += (QUEUE_ENTRY + (size_t)size + 7) / 8 * 8;
    }
    memset(g->bytes + at, 0, g->size - at);
    memset(head, 0, QUEUE_LINE);
    memcpy(head, begin_magic, sizeof begin_magic);
    memcpy(head + QUEUE_LINE - sizeof end_magic, end_magic, sizeof end_magic);
    put_le64(head + 8, g->size);
    put_le64(head + 16, g->number);
    put_le32(head + 32, g->segment);
    put_le32(head + 36, g->oldest);
    put_le32(head + 40, g->entries);
    put_le32(head + 44, queue_zero_lines(g->bytes, g->size));
    put_le32(head + 48, g->first);
    put_le32(head + 52, salt_of(q));
    put_le32(head + 4, crc_of(head + 8, QUEUE_LINE - 8));
}

/* ---- taking ------------------------------------------------------------- */

static int
take_done(struct queue *q, const uint8_t *ids, uint32_t size)
{
    int rc = 0;

    for (uint32_t at = 0; rc == 0 && at + 8 <= size; at += 8)
        rc = queue_item_done(q, get_le64(ids + at));
    return rc;
}

/* A record at byte `at` of a segment. */
static int
take_record(struct queue *q, const uint8_t *e, uint32_t segment, uint64_t at)
{
    const struct queue_item item = {.id = get_le64(e + 8),
                                    .segment = segment,
                                    .at = (uint32_t)(at / 8),
                                    .size = get_le32(e + 4)};
    bool is_new;
    int rc;

    rc = queue_item_add(q, &item, get_le32(e + 28) == QUEUE_COPY, &is_new);
    if (rc == 0 && is_new && q->options.added != NULL)
        rc = q->options.added(q->options.ctx, item.id, e + QUEUE_ENTRY,
                              item.size);
    return rc;
}

int
queue_take_group(struct queue *q, const uint8_t *b, uint64_t at)
{
    const uint64_t size = get_le64(b + 8);
    const uint32_t segment = get_le32(b + 32);
    uint32_t next = get_le32(b + 48);
    int rc = 0;

    for (uint64_t i = QUEUE_LINE, n; rc == 0 && i + QUEUE_ENTRY <= size;
         i += n) {
        const uint8_t *e = b + i;
        const uint32_t kind = get_le32(e + 28);

        n = queue_entry_size(q, e, (size_t)(size - i));
        if (n == 0) {
            n = 8;
            continue;
        }
        if (kind == QUEUE_DONE) {
            rc = take_done(q, e + QUEUE_ENTRY, get_le32(e + 4));
            continue;
        }
        if (kind == QUEUE_PUT)
            next = (uint32_t)get_le64(e + 8) + 1;
        rc = take_record(q, e, segment, at + i);
    }
    q->next = next;
    q->number = get_le64(b + 16) + 1;
    if (get_le32(b + 36) > q->oldest)
        q->oldest = get_le32(b + 36);
    return rc;
}

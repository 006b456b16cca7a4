/* common/store/held.c - see held.h: the handle, snapshots (held_states(),
 * held_next()), steps (held_put()) and locks. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/held_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/folder.h"
#include "common/base/hash.h"

#define READ_TRIES    5
#define COMPACT_BYTES ((uint64_t)8 << 20)
#define DROP_STEP     1024 /* records of one group */

/* ---- the handle --------------------------------------------------------- */

int
held_open(struct held **out, const struct held_options *options)
{
    struct held *h;

    if (faccessat(options->data_fd, "held.mdb", F_OK, 0) == 0) {
        diag(DIAG_ERROR,
             "held.mdb is of an earlier version of countd and may hold "
             "records: let that version merge them (its countd held lists "
             "none then), or give them up; then remove held.mdb and "
             "held.mdb-lock");
        return -ENOTSUP;
    }
    h = calloc(1, sizeof *h);
    if (h == NULL)
        return -ENOMEM;
    h->options = *options;
    h->dir_fd = -1;
    *out = h;
    return 0;
}

void
held_close(struct held *h)
{
    if (h->queue != NULL)
        queue_close(h->queue);
    if (h->dir_fd >= 0)
        (void)close(h->dir_fd);
    held_index_fini(&h->index);
    free(h->record);
    free(h->marks);
    free(h->deltas);
    free(h);
}

static void
report_damage(void *ctx, const char *text)
{
    (void)ctx;
    diag(DIAG_ERROR, "data/" HELD_FOLDER ": damage: %s", text);
}

/* Opens the queue, unless it is open.  -ENOENT: there is none. */
static int
open_queue(struct held *h, bool make)
{
    struct queue_options options = {.writable = h->options.writable,
                                    .segment_size = HELD_SEGMENT_SIZE,
                                    .max = h->options.max,
                                    .added = held_index_added,
                                    .removed = held_index_removed,
                                    .report = report_damage,
                                    .ctx = h};

    if (h->queue != NULL)
        return 0;
    if (h->dir_fd < 0)
        h->dir_fd = make ? folder_make(h->options.data_fd, HELD_FOLDER)
                         : folder_open(h->options.data_fd, HELD_FOLDER);
    if (h->dir_fd < 0)
        return h->dir_fd;
    options.dir_fd = h->dir_fd;
    return queue_open(&h->queue, &options);
}

/* ---- snapshots ---------------------------------------------------------- */

int
held_refresh(struct held *h)
{
    int rc;

    rc = open_queue(h, false);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    /* A writer is about to rely on what is not held, so no group of a process
     * that was killed may come back.  A process that writes at this moment
     * holds records of logs that it has claimed, or listed. */
    rc = h->options.writable ? queue_remove_unfinished(h->queue) : -EAGAIN;
    if (rc == -EAGAIN)
        rc = queue_refresh(h->queue);
    held_index_sort(&h->index);
    return rc;
}

bool
held_any(struct held *h)
{
    return held_index_find(&h->index, (const uint8_t *)"", 0, 0) != NULL;
}

static bool
is_of(const struct held *h, const struct held_entry *e, const uint8_t *name,
      size_t name_size)
{
    return bytes_equal(held_entry_name(&h->index, e), e->name_size, name,
                       name_size);
}

const struct held_entry *
held_next_entry(struct held *h, const uint8_t *name, size_t name_size,
                uint64_t after)
{
    const struct held_entry *e =
        held_index_find(&h->index, name, name_size, after + 1);

    return e != NULL && is_of(h, e, name, name_size) ? e : NULL;
}

int
held_read(struct held *h, uint64_t id, struct held_head *head)
{
    const uint8_t *bytes = NULL;
    size_t size = 0;
    int rc = -ENOENT;

    for (int i = 0; i < READ_TRIES && rc == -ENOENT; i++) {
        rc = queue_read(h->queue, id, &bytes, &size);
        /* Compacted by another process, unless it was deleted. */
        if (rc == -ENOENT && queue_refresh(h->queue) < 0)
            return -EIO;
    }
    if (rc == 0 && !held_head_parse(bytes, size, head))
        rc = -EBADMSG;
    return rc;
}

/* Has room for the marks and deltas of a record; what was there is lost. */
static int
reserve_batch(struct held *h, size_t marks, size_t deltas)
{
    if (marks > h->mark_capacity) {
        free(h->marks);
        h->marks = calloc(marks, sizeof *h->marks);
        h->mark_capacity = h->marks != NULL ? marks : 0;
    }
    if (deltas > h->delta_capacity) {
        free(h->deltas);
        h->deltas = calloc(deltas, sizeof *h->deltas);
        h->delta_capacity = h->deltas != NULL ? deltas : 0;
    }
    return marks > h->mark_capacity || deltas > h->delta_capacity ? -ENOMEM : 0;
}

/* Reads a record's head and marks, into h->marks, and has room for its deltas.
 */
static int
read_marks(struct held *h, uint64_t id, struct held_head *head)
{
    int rc;

    rc = held_read(h, id, head);
    if (rc == 0)
        rc = reserve_batch(h, head->marks, head->deltas);
    if (rc == 0)
        held_marks_parse(head, h->marks);
    return rc;
}

/* The first entry of a keyspace after an id that has this mark, or NULL; *some
 * becomes true if there is any entry. */
static const struct held_entry *
find_mark(struct held *h, const uint8_t *name, size_t name_size, uint64_t after,
          const uint8_t mark[HELD_MARK_SIZE], bool *some)
{
    const struct held_entry *e = held_next_entry(h, name, name_size, after);
    const struct held_entry *end = h->index.entries + h->index.count;

    *some = *some || e != NULL;
    for (; e != NULL && e < end && is_of(h, e, name, name_size); e++)
        for (uint32_t i = 0; i < e->fill_count; i++)
            if (memcmp(held_entry_mark(&h->index, e, i), mark,
                       HELD_MARK_SIZE) == 0)
                return e;
    return NULL;
}

/* Determines what is held for a keyspace beside this fill.  The index has the
 * fills, but a record that cannot be read any more names none: the log is not
 * given up for it. */
static int
find_fill(struct held *h, const uint8_t *name, size_t name_size,
          const struct store_fill *fill, enum held_state *state)
{
    uint8_t mark[HELD_MARK_SIZE];
    const struct held_entry *e;
    bool some = false;
    uint64_t id = 0;
    int rc = -ENOENT;

    held_mark_encode(fill, mark);
    while ((rc == -ENOENT || rc == -EBADMSG) &&
           (e = find_mark(h, name, name_size, id, mark, &some)) != NULL) {
        struct held_head head;

        id = e->id;
        rc = held_read(h, id, &head); /* may refresh: entries move */
    }
    *state = rc == 0 ? HELD_SAME : some ? HELD_OTHER : HELD_NONE;
    return rc == -ENOENT || rc == -EBADMSG ? 0 : rc;
}

int
held_states(struct held *h, const uint8_t *name, size_t name_size,
            const struct store_fill *marks, size_t count,
            enum held_state *states)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = find_fill(h, name, name_size, &marks[i], &states[i]);
    return rc;
}

bool
held_is_earlier(struct held *h, const uint8_t *name, size_t name_size,
                const struct store_fill *fill)
{
    const struct held_entry *e = held_next_entry(h, name, name_size, 0);
    const struct held_entry *end = h->index.entries + h->index.count;
    bool some = false;

    for (; e != NULL && e < end && is_of(h, e, name, name_size); e++)
        for (uint32_t i = 0; i < e->fill_count; i++) {
            const uint8_t *mark = held_entry_mark(&h->index, e, i);

            if (memcmp(mark, fill->uuid, sizeof fill->uuid) != 0)
                continue;
            if (get_le64(mark + sizeof fill->uuid) <= fill->epoch)
                return false;
            some = true;
        }
    return some;
}

int
held_span(struct held *h, const uint8_t *name, size_t name_size,
          uint64_t *oldest_ms, uint64_t *newest_ms)
{
    const struct held_entry *e = held_index_find(
        &h->index, name_size > 0 ? name : (const uint8_t *)"", name_size, 0);
    const struct held_entry *end = h->index.entries + h->index.count;

    *oldest_ms = UINT64_MAX;
    *newest_ms = 0;
    for (; e != NULL && e < end; e++) {
        if (name_size > 0 && !is_of(h, e, name, name_size))
            break;
        *oldest_ms = e->oldest_ms < *oldest_ms ? e->oldest_ms : *oldest_ms;
        *newest_ms = e->newest_ms > *newest_ms ? e->newest_ms : *newest_ms;
    }
    return 0;
}

int
held_next_name(struct held *h, const uint8_t *name, size_t name_size,
               uint8_t *next, size_t *next_size)
{
    const struct held_entry *e = held_index_find(
        &h->index, name, name_size, name_size > 0 ? UINT64_MAX : 0);

    if (e == NULL)
        return -ENOENT;
    memcpy(next, held_entry_name(&h->index, e), e->name_size);
    *next_size = e->name_size;
    return 0;
}

int
held_next(struct held *h, const uint8_t *name, size_t name_size, uint64_t after,
          struct held_record *out)
{
    const struct held_entry *e = held_next_entry(h, name, name_size, after);
    struct held_head head;
    int rc;

    if (e == NULL)
        return -ENOENT;
    *out = (struct held_record){.id = e->id};
    rc = read_marks(h, out->id, &head);
    if (rc < 0)
        return rc;
    if (!held_deltas_parse(&head, h->deltas))
        return -EBADMSG;
    out->batch = (struct store_batch){.name = head.name,
                                      .name_size = head.name_size,
                                      .marks = h->marks,
                                      .mark_count = head.marks,
                                      .deltas = h->deltas,
                                      .delta_count = head.deltas};
    return 0;
}

/* ---- steps -------------------------------------------------------------- */

int
held_begin(struct held *h)
{
    int rc;

    assert(h->options.writable);
    rc = open_queue(h, true);
    if (rc == 0)
        rc = queue_acquire(h->queue);
    if (rc < 0 && rc != -EAGAIN)
        diag_errno(DIAG_ERROR, rc, "hold records in data/" HELD_FOLDER);
    return rc;
}

void
held_abort(struct held *h)
{
    if (h->queue == NULL)
        return;
    queue_discard(h->queue);
    queue_release(h->queue);
}

int
held_commit(struct held *h)
{
    static struct diag_repeat repeat;
    int rc;

    rc = queue_commit(h->queue, NULL);
    if (rc < 0)
        diag_repeating(&repeat, DIAG_ERROR, "hold records: commit: %s",
                       diag_text(rc));
    held_abort(h);
    return rc;
}

/* Commits what a step has collected, so that no group becomes too large. */
static int
cut_step(struct held *h)
{
    int rc;

    if (queue_collected(h->queue) < HELD_GROUP_SIZE)
        return 0;
    rc = queue_commit(h->queue, NULL);
    return rc < 0 ? rc : queue_acquire(h->queue);
}

int
held_put(struct held *h, const struct store_batch *batch, int error)
{
    uint64_t size;
    int rc;

    if (!held_batch_ok(batch))
        return -EINVAL;
    size = held_batch_size(batch);
    rc = size > UINT32_MAX ? -EFBIG : cut_step(h);
    if (rc < 0)
        return rc;
    if (size > h->record_capacity) {
        free(h->record);
        h->record = malloc((size_t)size);
        h->record_capacity = h->record != NULL ? (size_t)size : 0;
        if (h->record == NULL)
            return -ENOMEM;
    }
    held_encode(batch, clock_unix_ms(), error, h->record);
    return queue_put(h->queue, h->record, (size_t)size);
}

long
held_holder(const struct held *h)
{
    return h->queue != NULL ? queue_holder(h->queue) : 0;
}

/* ---- deleting ----------------------------------------------------------- */

int
held_lock(struct held *h, const uint8_t *name, size_t name_size)
{
    static const struct hash_key zeros;
    int rc;

    rc = open_queue(h, false);
    return rc < 0 ? rc
                  : queue_lock(h->queue, hash_name(&zeros, 0, name, name_size));
}

int
held_lock_all(struct held *h)
{
    int rc;

    rc = open_queue(h, false);
    return rc < 0 ? rc : queue_lock_all(h->queue);
}

void
held_unlock(struct held *h)
{
    if (h->queue != NULL)
        queue_unlock(h->queue);
}

int
held_delete(struct held *h, const uint64_t *ids, size_t count)
{
    int rc;

    rc = queue_acquire(h->queue);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = queue_remove(h->queue, ids[i]);
    if (rc == 0)
        rc = queue_commit(h->queue, NULL);
    held_abort(h);
    /* The next deletion gives back the space that this one does not. */
    if (rc == 0)
        (void)queue_compact(h->queue, COMPACT_BYTES);
    return rc;
}

int
held_maintain(struct held *h)
{
    int rc;

    rc = held_refresh(h);
    if (rc == 0 && h->queue != NULL)
        rc = queue_compact(h->queue, COMPACT_BYTES);
    return rc < 0 ? rc : 0;
}

int
held_drop(struct held *h, const uint8_t *name, size_t name_size,
          uint64_t *records)
{
    uint64_t ids[DROP_STEP];
    size_t count;
    int rc;

    *records = 0;
    rc = held_lock(h, name, name_size);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    do {
        const struct held_entry *e = held_next_entry(h, name, name_size, 0);
        const struct held_entry *end = h->index.entries + h->index.count;

        for (count = 0; e != NULL && e < end && count < DROP_STEP &&
                        is_of(h, e, name, name_size);
             e++)
            ids[count++] = e->id;
        if (count > 0)
            rc = held_delete(h, ids, count);
        if (rc == 0)
            *records += count;
    } while (rc == 0 && count == DROP_STEP);
    held_unlock(h);
    return rc;
}

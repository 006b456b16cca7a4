/* common/store/cluster/outbox.c - the handle of data/outbox, what keyspaces say
 * of the fills of logs, and the sender's side; see outbox.h.
 *
 * Entry points: outbox_open(), outbox_marks(), outbox_read(), outbox_commit().
 */
#include "common/store/cluster/outbox_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/base/folder.h"

#define SEGMENT_SIZE  (4u << 20)
#define COMPACT_BYTES ((uint64_t)8 << 20)
#define ACQUIRE_TRIES 2000 /* of a millisecond each */

static void
report_damage(void *ctx, const char *text)
{
    (void)ctx;
    diag(DIAG_ERROR, "data/" OUTBOX_FOLDER ": damage: %s", text);
}

int
outbox_open(struct outbox **out, const struct outbox_options *options)
{
    struct outbox *o = calloc(1, sizeof *o);
    struct queue_options q = {.writable = options->writable,
                              .segment_size = SEGMENT_SIZE,
                              .max = options->max,
                              .added = outbox_index_added,
                              .removed = outbox_index_removed,
                              .report = report_damage,
                              .ctx = o};
    int rc;

    if (o == NULL)
        return -ENOMEM;
    o->options = *options;
    o->dir_fd = options->writable
                    ? folder_make(options->data_fd, OUTBOX_FOLDER)
                    : folder_open(options->data_fd, OUTBOX_FOLDER);
    q.dir_fd = o->dir_fd;
    rc = o->dir_fd < 0 ? o->dir_fd : queue_open(&o->queue, &q);
    if (rc < 0)
        outbox_close(o);
    else
        *out = o;
    return rc;
}

void
outbox_close(struct outbox *o)
{
    if (o == NULL)
        return;
    if (o->queue != NULL)
        queue_close(o->queue);
    if (o->dir_fd >= 0)
        (void)close(o->dir_fd);
    outbox_index_fini(o);
    for (size_t i = 0; i < OUTBOX_PARTS_MAX; i++)
        free(o->builders[i].bytes);
    free(o->state);
    free(o);
}

int
outbox_refresh(struct outbox *o)
{
    return queue_refresh(o->queue);
}

int
outbox_acquire(struct outbox *o)
{
    const struct timespec pace = {.tv_nsec = 1000000};
    int rc;

    for (int i = 0; i < ACQUIRE_TRIES; i++) {
        rc = queue_acquire(o->queue);
        if (rc != -EAGAIN)
            return rc;
        (void)nanosleep(&pace, NULL);
    }
    return -EAGAIN;
}

void
outbox_release(struct outbox *o)
{
    queue_discard(o->queue);
    queue_release(o->queue);
}

uint64_t
outbox_bytes(const struct outbox *o)
{
    struct queue_stats stats;

    queue_stats(o->queue, &stats);
    return stats.bytes;
}

/* ---- marks -------------------------------------------------------------- */

static const struct outbox_mark *
find_mark(const struct outbox_keyspace *k, const struct store_fill *fill)
{
    for (size_t i = 0; k != NULL && i < k->mark_count; i++)
        if (memcmp(k->marks[i].fill.uuid, fill->uuid, sizeof fill->uuid) == 0)
            return &k->marks[i];
    return NULL;
}

struct store_mark_info
outbox_mark_info(const struct outbox_keyspace *k, const struct store_fill *fill)
{
    const struct outbox_mark *m = find_mark(k, fill);
    struct store_mark_info info = {.state = STORE_MARK_NONE};

    if (m == NULL || m->fill.epoch < fill->epoch)
        return info;
    if (m->fill.epoch > fill->epoch)
        info.state = STORE_MARK_AHEAD;
    else if (m->fill.first_ms != fill->first_ms)
        info.state = STORE_MARK_OTHER;
    else if (m->last_key_size == 0)
        info.state = STORE_MARK_DONE;
    else {
        info.state = STORE_MARK_PARTIAL;
        info.progress = outbox_progress(m->last_key, m->last_key_size);
    }
    return info;
}

int
outbox_marks(struct outbox *o, const uint8_t *name, size_t name_size,
             const struct store_fill *fills, size_t count,
             struct store_mark_info *infos)
{
    const struct outbox_keyspace *k;
    int rc;

    rc = outbox_refresh(o);
    if (rc < 0)
        return rc;
    k = outbox_find(o, name, name_size);
    for (size_t i = 0; i < count; i++)
        infos[i] = outbox_mark_info(k, &fills[i]);
    return 0;
}

/* ---- chains ------------------------------------------------------------- */

struct outbox_entry *
outbox_find_entry(const struct outbox_part *p, uint64_t number)
{
    struct outbox_entry *first = &p->entries[p->first];

    if (p->count == 0 || number < first->number ||
        number >= first->number + p->count ||
        first[number - first->number].number != number)
        return NULL;
    return &first[number - first->number];
}

uint64_t
outbox_first(const struct outbox_part *p)
{
    return p->count > 0 ? p->entries[p->first].number : p->last + 1;
}

bool
outbox_is_own(const struct outbox_part *p, uint64_t number, uint64_t digest)
{
    const struct outbox_entry *e = outbox_find_entry(p, number);

    if (e != NULL)
        return e->digest == digest;
    if (p->count > 0 && number + 1 == p->entries[p->first].number)
        return p->entries[p->first].prev_digest == digest;
    if (number == p->last)
        return p->last_digest == digest;
    return number < p->last;
}

/* ---- the sender's side -------------------------------------------------- */

int
outbox_lock_sender(struct outbox *o)
{
    return queue_lock_all(o->queue);
}

uint64_t
outbox_sender(const struct outbox *o)
{
    return o->sender;
}

int
outbox_read(struct outbox *o, const struct outbox_entry *e,
            struct outbox_entry_head *out)
{
    const uint64_t id = e->id;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    int rc;

    rc = queue_read(o->queue, id, &bytes, &size);
    if (rc == 0 && !outbox_entry_parse(bytes, size, out))
        rc = -EBADMSG;
    return rc;
}

int
outbox_begin(struct outbox *o)
{
    return queue_acquire(o->queue);
}

int
outbox_remove(struct outbox *o, struct outbox_part *p, size_t count)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = queue_remove(o->queue, p->entries[p->first + i].id);
    return rc;
}

int
outbox_commit(struct outbox *o)
{
    int rc;

    rc = queue_commit(o->queue, NULL);
    outbox_release(o);
    /* The next removal gives back the space that this one does not. */
    if (rc == 0)
        (void)queue_compact(o->queue, COMPACT_BYTES);
    return rc;
}

/* writer/logs_sync.c - what was put becomes durable; see logs.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/logs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define SYNC_STEP (UINT64_C(2) << 20) /* bytes */

/* Much at once would keep the disk busy for so long that the headers of other
 * logs wait for it, and with them those who write to the next one. */
static int
sync_item(const struct sync_item *item)
{
    const unsigned how = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                         SYNC_FILE_RANGE_WAIT_AFTER;
    uint64_t at;

    for (at = item->at; item->end - at > SYNC_STEP; at += SYNC_STEP)
        if (sync_file_range(item->fd, (off_t)at, SYNC_STEP, how) < 0)
            return -errno;
    return fdatasync(item->fd) < 0 ? -errno : 0;
}

/* In the I/O thread. */
static int
sync_logs(void *ctx)
{
    struct log_sync *s = &((struct logs *)ctx)->sync;
    int rc = 0;

    for (size_t i = 0; i < s->count && rc == 0; i++) {
        rc = sync_item(&s->items[i]);
        s->failed = s->items[i].index;
    }
    return rc;
}

static bool
is_due(const void *ctx)
{
    const struct logs *l = ctx;

    if (l->syncing || l->failed)
        return false;
    return l->retired_dirty ||
           (l->dirty &&
            (l->sync_due || l->config->log_sync_ms == CONFIG_SYNC_ALWAYS));
}

static void
add_to_sync(struct log_sync *s, const struct log *log, uint32_t synced_slots)
{
    s->items[s->count++] = (struct sync_item){
        .fd = log->fd,
        .index = log->header.index,
        .at = LOG_SLOTS_AT +
              (uint64_t)synced_slots * log->header.layout.slot_size,
        .end = LOG_SLOTS_AT +
               (uint64_t)log->header.count * log->header.layout.slot_size};
}

/* Fills in what is to be synced.  False when that is nothing, or one is in
 * flight. */
static bool
begin_sync(void *ctx)
{
    struct logs *l = ctx;
    struct log_sync *s = &l->sync;
    size_t i;

    logs_flush(l);
    if (l->syncing || l->failed)
        return false;
    s->count = 0;
    l->retired_dirty = false;
    for (i = 0; i < LOGS_RETIRED; i++) {
        if (l->retired[i].state != RETIRED_DIRTY)
            continue;
        l->retired[i].state = RETIRED_SYNCING;
        add_to_sync(s, &l->retired[i].log, l->retired[i].synced_slots);
    }
    if (l->has_current && l->dirty) {
        s->fill = l->fill;
        s->slots = l->current.header.count;
        add_to_sync(s, &l->current, l->synced_slots);
    }
    s->position = l->stats.appended;
    l->dirty = false;
    l->sync_due = false;
    loop_disarm(&l->sync_timer);
    if (s->count == 0)
        return false;
    l->syncing = true;
    return true;
}

bool
logs_group_is_full(struct logs *l)
{
    const uint64_t count = logs_position(l) - l->sync.position;

    if (!l->syncing || count * l->layout.slot_size < LOGS_GROUP)
        return false;
    l->group_full = true;
    return true;
}

/* False when it failed. */
static bool
end_sync(void *ctx, int rc)
{
    struct logs *l = ctx;
    size_t i;

    l->syncing = false;
    if (l->failed)
        return false;
    if (rc < 0) {
        logs_fail(l, rc, "sync", l->sync.failed);
        return false;
    }
    l->durable = l->sync.position;
    if (l->has_current && l->sync.fill == l->fill)
        l->synced_slots = l->sync.slots;
    for (i = 0; i < LOGS_RETIRED; i++)
        if (l->retired[i].state == RETIRED_SYNCING)
            logs_seal(l, &l->retired[i]);
    if (l->group_full) {
        l->group_full = false;
        l->events.ready(l->events.ctx);
    }
    logs_finish_some(l);
    return true;
}

static void
sync_due(struct loop_timer *timer)
{
    LOOP_OWNER(timer, struct logs, sync_timer)->sync_due = true;
}

const struct commit_file logs_file = {
    .is_due = is_due, .begin = begin_sync, .sync = sync_logs, .end = end_sync};

void
logs_set_up_sync(struct logs *l)
{
    l->sync_timer = (struct loop_timer){.due = sync_due};
}

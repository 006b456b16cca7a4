/* writer/logs_fill.c - messages into the current log; see logs.h.
 *
 * Entry points: logs_free_slots(), logs_have_run(), logs_slots(), logs_put(),
 * logs_put_mark(), logs_flush().
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/logs_internal.h"

#include <assert.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/log/slot.h"

/* Within a log received_ms never goes back: slot 0 has the oldest.  Stamping on
 * with the time reached would make increments look as if they came later than
 * they did, and for as long as the clock was set back; so the log is handed on,
 * and the next one begins with the time there is now.  Without a spare it goes
 * on with the time reached, and is in the future for readers. */
static void
heed_clock(struct logs *l)
{
    if (l->has_current && l->current.count + l->staged > 0 &&
        loop_unix_ms(l->loop) < l->last_ms)
        logs_rotate(l);
}

/* Makes sure that there is a log with a free slot. */
static bool
find_free_slot(struct logs *l)
{
    if (l->failed || l->finishing)
        return false;
    heed_clock(l);
    if (l->has_current &&
        l->current.count + l->staged == l->current.header.slots)
        logs_rotate_now(l);
    if (l->failed || !l->has_current)
        return false;
    return l->current.count + l->staged < l->current.header.slots;
}

/* Records that a caller found no free slot. */
static void
note_blocked(struct logs *l)
{
    if (!l->blocked)
        l->stats.pushed_back++;
    l->blocked = true;
    if (!l->retry_timer.deadline_ms)
        logs_want_spare(l);
}

uint32_t
logs_free_slots(struct logs *l)
{
    if (find_free_slot(l))
        return l->current.header.slots - l->current.count - l->staged;
    note_blocked(l);
    return 0;
}

bool
logs_have_run(struct logs *l, uint32_t count)
{
    const uint32_t free = logs_free_slots(l);

    if (count <= free)
        return true;
    if (free > 0 && l->current.count + l->staged > 0 && l->spare_count > 0 &&
        logs_can_retire(l) && count <= l->spares[0].header.slots) {
        logs_rotate_now(l);
        return l->has_current && !l->failed;
    }
    if (free > 0)
        note_blocked(l);
    return false;
}

uint32_t
logs_slots(const struct logs *l)
{
    return log_slots(l->config->log_size, &l->layout);
}

bool
logs_has_open(const struct logs *l, uint64_t index)
{
    for (size_t i = 0; i < l->spare_count; i++)
        if (l->spares[i].header.index == index)
            return true;
    return l->has_current && l->current.header.index == index;
}

/* What happens once per log and once per flush. */
static void
first_put(struct logs *l)
{
    const uint64_t now_ms = loop_unix_ms(l->loop);

    if (now_ms > l->last_ms || l->current.count == 0)
        l->last_ms = now_ms;
    l->staged_first_ms = l->last_ms;
    if (l->current.count == 0) {
        logs_arm(l, &l->rotate_timer, l->config->log_rotate_after_ms);
        logs_arm_early(l);
    }
    if (!l->dirty && !l->sync_due && !l->sync_timer.deadline_ms &&
        l->config->log_sync_ms != CONFIG_SYNC_NEVER &&
        l->config->log_sync_ms != CONFIG_SYNC_ALWAYS)
        logs_arm(l, &l->sync_timer, l->config->log_sync_ms);
}

static void
put_message(struct logs *l, uint8_t *slot, const struct message *m)
{
    memset(slot, 0, l->layout.message_size);
    put_le64s(slot, m->increment);
    memcpy(slot + 8, m->keyspace, m->keyspace_size);
    memcpy(slot + l->layout.key_at, m->key, m->key_size);
    l->names[l->staged] = (struct staged){
        .keyspace_size = m->keyspace_size,
        .key_size = m->key_size,
        .minute = m->minute,
    };
    l->current.has_times |= m->minute != 0;
}

void
logs_put(struct logs *l, const struct message *m)
{
    if (l->staged == LOGS_STAGE)
        logs_flush(l);
    if (l->failed)
        return; /* nothing of this turn will be acknowledged */
    if (l->staged == 0)
        first_put(l);
    assert(l->current.count + l->staged < l->current.header.slots);
    put_message(l, l->slots + (size_t)l->staged * l->layout.slot_size, m);
    l->staged++;
}

int
logs_reserve_mark(struct logs *l)
{
    return array_grow(&l->marks.at, &l->marks.capacity, l->marks.count + 1,
                      sizeof *l->marks.at);
}

void
logs_put_mark(struct logs *l, const struct request_mark *mark)
{
    uint8_t bytes[MESSAGE_SIZE_MAX];
    struct message m;

    mark_put(&l->layout, mark, bytes, &m);
    logs_put(l, &m);
    l->current.marks++;
    assert(l->marks.count < l->marks.capacity);
    l->marks.at[l->marks.count++] =
        (struct marked){.mark = *mark, .received_ms = l->last_ms};
}

uint64_t
logs_position(const struct logs *l)
{
    return l->stats.appended + l->staged;
}

bool
logs_is_durable(const struct logs *l, uint64_t position)
{
    return position <= l->durable;
}

bool
logs_want_sync(struct logs *l)
{
    if (!l->has_current || l->failed)
        return false;
    l->dirty = true;
    return true;
}

/* Stamps the slots of the stage, from `first` on, up to SLOT_RUN of them. */
static uint32_t
stamp_run(struct logs *l, uint32_t first, const struct slot_stamp *stamp)
{
    const uint32_t left = l->staged - first;
    const uint32_t count = left < SLOT_RUN ? left : SLOT_RUN;
    uint8_t *slots = l->slots + (size_t)first * l->layout.slot_size;
    const struct slot_fill fill = {&l->layout, l->current.header.uuid,
                                   l->current.header.epoch};
    const struct slot_run run = {&fill, l->current.count + first, count};
    const uint8_t *slot = slots;
    struct message m[SLOT_RUN];
    uint32_t i;

    for (i = 0; i < count; i++, slot += l->layout.slot_size)
        m[i] =
            (struct message){.keyspace = slot + 8,
                             .key = slot + l->layout.key_at,
                             .keyspace_size = l->names[first + i].keyspace_size,
                             .key_size = l->names[first + i].key_size,
                             .minute = l->names[first + i].minute};
    slot_put_run(&run, slots, m, stamp);
    return count;
}

static void
stamp_slots(struct logs *l)
{
    const struct slot_stamp s = {.received_ms = l->last_ms,
                                 .synced = l->synced_slots};
    uint32_t at = 0;

    while (at < l->staged)
        at += stamp_run(l, at, &s);
}

void
logs_flush(struct logs *l)
{
    int rc;

    if (l->staged == 0 || l->failed)
        return;
    assert(l->has_current);
    stamp_slots(l);
    rc = log_append(&l->current, l->slots, l->staged, l->staged_first_ms,
                    l->last_ms);
    if (rc < 0) {
        logs_fail(l, rc, "append", l->current.header.index);
        return;
    }
    l->stats.appended += l->staged;
    l->stats.flushes++;
    l->staged = 0;
    l->dirty = true;
}

/* writer/logs_fill.c - messages into the current log; see logs.h.
 *
 * Entry points: logs_free_slots(), logs_are_stuck(), logs_have_run(),
 * logs_slots(), logs_put(), logs_put_mark(), logs_flush().
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
    if (l->has_current && l->current.header.count + l->staged > 0 &&
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
        l->current.header.count + l->staged == l->current.header.slots)
        logs_rotate_now(l);
    if (l->failed || !l->has_current)
        return false;
    return l->current.header.count + l->staged < l->current.header.slots;
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
    if (find_free_slot(l)) {
        l->none_ms = 0;
        return l->current.header.slots - l->current.header.count - l->staged;
    }
    if (l->none_ms == 0)
        l->none_ms = loop_now_ms(l->loop);
    note_blocked(l);
    return 0;
}

bool
logs_are_stuck(struct logs *l, uint64_t for_ms)
{
    return logs_free_slots(l) == 0 &&
           loop_now_ms(l->loop) - l->none_ms >= for_ms;
}

bool
logs_have_run(struct logs *l, uint32_t count)
{
    const uint32_t free = logs_free_slots(l);

    if (count <= free)
        return true;
    if (free > 0 && l->current.header.count + l->staged > 0 &&
        l->spare_count > 0 && logs_free_place(l) &&
        count <= l->spares[0].header.slots) {
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

    if (now_ms > l->last_ms || l->current.header.count == 0)
        l->last_ms = now_ms;
    l->staged_first_ms = l->last_ms;
    if (l->current.header.count == 0) {
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
    l->messages[l->staged] = *m;
    l->messages[l->staged].keyspace = slot + 8;
    l->messages[l->staged].key = slot + l->layout.key_at;
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
    assert(l->current.header.count + l->staged < l->current.header.slots);
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
    l->current.header.marks++;
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

static void
stamp_slots(struct logs *l)
{
    const struct slot_stamp stamp = {.received_ms = l->last_ms,
                                     .synced = l->synced_slots};
    struct slot_run run = {.log = &l->current.header};

    for (uint32_t at = 0; at < l->staged; at += run.count) {
        run.number = l->current.header.count + at;
        run.count = l->staged - at < SLOT_RUN ? l->staged - at : SLOT_RUN;
        slot_put_run(&run, l->slots + (size_t)at * l->layout.slot_size,
                     l->messages + at, &stamp);
    }
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

/* common/store/history/state.c - the state record. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/history/history.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"

/* Offsets are in data/FORMAT.md. */
#define HEAD_SIZE 64
#define TIER_SIZE 100
#define JOB_SIZE  18

void
history_begin(struct history *h, const struct tiers *tiers, uint32_t now,
              bool whole, int128 base)
{
    assert(tiers->count > 0);
    *h = (struct history){
        .count = tiers->count, .start = whole ? 0 : now, .base = base};
    for (unsigned i = 0; i < h->count; i++) {
        const struct tier *t = &tiers->tier[i];

        h->tier[i] = (struct history_tier){
            .step = t->step,
            .period = t->period,
            .keep = t->keep,
            .first = HISTORY_NEVER,
            .last = HISTORY_NEVER,
            .open = HISTORY_NEVER,
            .compact_from = HISTORY_NEVER,
        };
    }
}

bool
history_set(struct history *h, const struct tiers *tiers)
{
    bool same = tiers->count == h->count;

    for (unsigned i = 0; same && i < h->count; i++)
        same = tiers->tier[i].step == h->tier[i].step;
    for (unsigned i = 0; same && i < h->count; i++)
        h->tier[i].keep = tiers->tier[i].keep;
    return same;
}

static uint8_t *
put_words(uint8_t *at, const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++, at += 4)
        put_le32(at, words[i]);
    return at;
}

static uint8_t *
put_tier(uint8_t *at, const struct history_tier *t)
{
    at = put_words(at,
                   (const uint32_t[]){t->step, t->period, t->keep, t->floor,
                                      t->first, t->last, t->open,
                                      t->compact_from, t->dropped_at},
                   9);
    put_le64(at, t->blocks);
    put_le64(at + 8, t->bytes);
    put_le128(at + 16, t->in);
    put_le128(at + 32, t->rolled);
    put_le128(at + 48, t->dropped);
    return at + 64;
}

static uint8_t *
put_job(uint8_t *at, const struct history_job *j)
{
    at[0] = (uint8_t)j->kind;
    at[1] = j->tier;
    at[2] = j->to_tier;
    at[3] = j->level;
    put_words(at + 4, (const uint32_t[]){j->period, j->to_period, j->run}, 3);
    put_le16(at + 16, j->at_size);
    memcpy(at + JOB_SIZE, j->at, j->at_size);
    return at + JOB_SIZE + j->at_size;
}

size_t
history_put(const struct history *h, uint8_t bytes[HISTORY_STATE_MAX])
{
    uint8_t *at = bytes + HEAD_SIZE;

    memset(bytes, 0, HEAD_SIZE);
    bytes[0] = (uint8_t)h->count;
    put_words(bytes + 4, (const uint32_t[]){h->start, h->run}, 2);
    put_le128(bytes + 16, h->base);
    put_le128(bytes + 32, h->added);
    put_le128(bytes + 48, h->clipped);
    for (unsigned i = 0; i < h->count; i++)
        at = put_tier(at, &h->tier[i]);
    for (unsigned i = 0; i < HISTORY_JOBS; i++)
        at = put_job(at, &h->jobs[i]);
    return (size_t)(at - bytes);
}

static const uint8_t *
get_tier(struct history_tier *t, const uint8_t *at)
{
    uint32_t *const words[] = {&t->step,  &t->period,       &t->keep,
                               &t->floor, &t->first,        &t->last,
                               &t->open,  &t->compact_from, &t->dropped_at};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++, at += 4)
        *words[i] = get_le32(at);
    t->blocks = get_le64(at);
    t->bytes = get_le64(at + 8);
    t->in = get_le128(at + 16);
    t->rolled = get_le128(at + 32);
    t->dropped = get_le128(at + 48);
    return at + 64;
}

/* Whether tiers can be as these are: no division goes wrong, no cell lies
 * outside its period. */
static bool
tiers_ok(const struct history *h)
{
    for (unsigned i = 0; i < h->count; i++) {
        const struct history_tier *t = &h->tier[i];

        if (t->step == 0 || t->period == 0 || t->period % t->step != 0 ||
            t->period / t->step > HISTORY_CELLS ||
            (i + 1 < h->count && h->tier[i + 1].step % t->period != 0))
            return false;
    }
    return true;
}

/* Reads a job, and passes over it; NULL when there is none. */
static const uint8_t *
get_job(struct history_job *j, unsigned tiers, const uint8_t *at,
        const uint8_t *end)
{
    if (end - at < JOB_SIZE)
        return NULL;
    j->at_size = get_le16(at + 16);
    if (at[0] > HISTORY_SWEEP || at[1] >= tiers || at[2] >= tiers ||
        j->at_size > HISTORY_KEY_MAX || end - at < JOB_SIZE + j->at_size)
        return NULL;
    j->kind = (enum history_job_kind)at[0];
    j->tier = at[1];
    j->to_tier = at[2];
    j->level = at[3];
    j->period = get_le32(at + 4);
    j->to_period = get_le32(at + 8);
    j->run = get_le32(at + 12);
    memcpy(j->at, at + JOB_SIZE, j->at_size);
    return at + JOB_SIZE + j->at_size;
}

int
history_get(struct history *h, const uint8_t *bytes, size_t size)
{
    const uint8_t *at = bytes + HEAD_SIZE;

    *h = (struct history){.count = 0};
    if (size < HEAD_SIZE || bytes[0] < 1 || bytes[0] > TIERS_MAX ||
        size < (size_t)HEAD_SIZE + bytes[0] * (size_t)TIER_SIZE)
        return -EBADMSG;
    h->count = bytes[0];
    h->start = get_le32(bytes + 4);
    h->run = get_le32(bytes + 8);
    h->base = get_le128(bytes + 16);
    h->added = get_le128(bytes + 32);
    h->clipped = get_le128(bytes + 48);
    for (unsigned i = 0; i < h->count; i++)
        at = get_tier(&h->tier[i], at);
    for (unsigned i = 0; at != NULL && i < HISTORY_JOBS; i++)
        at = get_job(&h->jobs[i], h->count, at, bytes + size);
    return at == bytes + size && tiers_ok(h) ? 0 : -EBADMSG;
}

/* common/store/history/periods.c - the records of periods: which runs there
 * are.  Each names the period before it, so that one which cannot be found is
 * missed.
 *
 * Entry points: run_key(), period_after(), period_get(), period_put(),
 * period_add(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/history/runs.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"

#define KEY_SIZE  5
#define HEAD_SIZE 12
#define RUN_SIZE  48

static void
record_key(uint8_t key[KEY_SIZE], unsigned tier, uint32_t start)
{
    key[0] = (uint8_t)tier;
    put_be32(key + 1, start);
}

void
run_key(struct run_key *k, const struct period *p, const struct run_info *run,
        const uint8_t *at, size_t size)
{
    record_key(k->bytes, p->tier, p->start);
    k->bytes[5] = run->level;
    put_be32(k->bytes + 6, run->run);
    memcpy(k->bytes + RUN_KEY_HEAD, at, size);
    k->size = RUN_KEY_HEAD + size;
}

/* ---- bytes ------------------------------------------------------------- */

static uint32_t
record_crc(const uint8_t *key, const uint8_t *bytes, size_t size)
{
    uint8_t both[KEY_SIZE + KV_VALUE_MAX];

    memcpy(both, key, KEY_SIZE);
    memcpy(both + KEY_SIZE, bytes + 4, size - 4);
    return crc_of(both, KEY_SIZE + size - 4);
}

static void
put_run(uint8_t *at, const struct run_info *r)
{
    memset(at, 0, RUN_SIZE);
    at[0] = r->level;
    at[1] = r->flags;
    put_le32(at + 4, r->run);
    put_le32(at + 8, r->blocks);
    put_le64(at + 16, r->bytes);
    put_le64(at + 24, r->cells);
    put_le128(at + 32, r->sum);
}

static void
get_run(const uint8_t *at, struct run_info *r)
{
    r->level = at[0];
    r->flags = at[1];
    r->run = get_le32(at + 4);
    r->blocks = get_le32(at + 8);
    r->bytes = get_le64(at + 16);
    r->cells = get_le64(at + 24);
    r->sum = get_le128(at + 32);
}

static int
parse_period(const struct kv_item *item, struct period *out)
{
    const uint8_t *at = item->value + HEAD_SIZE;
    size_t count;

    if (item->key_size != KEY_SIZE || item->size < HEAD_SIZE ||
        item->size > KV_VALUE_MAX ||
        get_le32(item->value) != record_crc(item->key, item->value, item->size))
        return -EBADMSG;
    count = get_le16(item->value + 8);
    if (count < 1 || count > HISTORY_RUNS_MAX ||
        item->size != HEAD_SIZE + count * RUN_SIZE)
        return -EBADMSG;
    out->tier = item->key[0];
    out->start = get_be32(item->key + 1);
    out->before = get_le32(item->value + 4);
    out->count = (unsigned)count;
    for (unsigned i = 0; i < out->count; i++, at += RUN_SIZE)
        get_run(at, &out->runs[i]);
    return 0;
}

static int
put_period(const struct kv *kv, const struct period *p)
{
    uint8_t key[KEY_SIZE], bytes[HEAD_SIZE + HISTORY_RUNS_MAX * RUN_SIZE];
    const size_t size = HEAD_SIZE + p->count * RUN_SIZE;

    assert(p->count > 0 && p->count <= HISTORY_RUNS_MAX);
    record_key(key, p->tier, p->start);
    put_le32(bytes + 4, p->before);
    put_le16(bytes + 8, (uint16_t)p->count);
    put_le16(bytes + 10, 0);
    for (unsigned i = 0; i < p->count; i++)
        put_run(bytes + HEAD_SIZE + (size_t)i * RUN_SIZE, &p->runs[i]);
    put_le32(bytes, record_crc(key, bytes, size));
    return kv->put(kv->ctx, key, sizeof key, bytes, size);
}

/* ---- finding ----------------------------------------------------------- */

int
period_after(const struct history *h, const struct kv *kv, unsigned tier,
             uint32_t start, struct period *out)
{
    const struct history_tier *t = &h->tier[tier];
    uint8_t key[KEY_SIZE];
    struct kv_item item;
    int rc;

    if (t->last == HISTORY_NEVER || t->last < start)
        return 0;
    record_key(key, tier, start);
    rc = kv->after(kv->ctx, key, sizeof key, &item);
    if (rc <= 0)
        return rc < 0 ? rc : -EBADMSG;
    rc = parse_period(&item, out);
    if (rc < 0)
        return rc;
    if (out->tier != tier || out->start % t->period != 0 ||
        (out->before != HISTORY_NEVER && out->before >= start))
        return -EBADMSG;
    return 1;
}

int
period_get(struct history *h, const struct kv *kv, unsigned tier,
           uint32_t start, struct period *out)
{
    struct period next;
    int rc;

    rc = period_after(h, kv, tier, start, &next);
    if (rc < 0)
        return rc;
    if (rc > 0 && next.start == start) {
        *out = next;
        return 0;
    }
    out->tier = (uint8_t)tier;
    out->start = start;
    out->before = rc > 0 ? next.before : h->tier[tier].last;
    out->count = 0;
    return 0;
}

/* Tells the period behind `start`, or the state, which one is before it. */
static int
link_behind(struct history *h, const struct kv *kv, const struct period *p,
            uint32_t before)
{
    struct history_tier *t = &h->tier[p->tier];
    struct period next;
    int rc;

    rc = period_after(h, kv, p->tier, p->start + 1, &next);
    if (rc < 0)
        return rc;
    if (rc == 0) {
        t->last = before;
        return 0;
    }
    if (before != p->start && t->first == p->start)
        t->first = next.start;
    next.before = before;
    return put_period(kv, &next);
}

int
period_put(struct history *h, const struct kv *kv, const struct period *p)
{
    struct history_tier *t = &h->tier[p->tier];
    uint8_t key[KEY_SIZE];
    struct kv_item item;
    bool there;
    int rc;

    record_key(key, p->tier, p->start);
    rc = kv->after(kv->ctx, key, sizeof key, &item);
    if (rc < 0)
        return rc;
    there = rc > 0 && item.key_size == KEY_SIZE &&
            memcmp(item.key, key, KEY_SIZE) == 0;
    if (p->count > 0) {
        rc = there ? 0 : link_behind(h, kv, p, p->start);
        if (rc == 0 && (t->first == HISTORY_NEVER || t->first > p->start))
            t->first = p->start;
        return rc < 0 ? rc : put_period(kv, p);
    }
    if (!there)
        return 0;
    rc = link_behind(h, kv, p, p->before);
    if (t->last == HISTORY_NEVER)
        t->first = HISTORY_NEVER;
    return rc < 0 ? rc : kv->del(kv->ctx, key, sizeof key);
}

void
period_add(struct history *h, struct period *p, const struct run_info *run)
{
    struct history_tier *t = &h->tier[p->tier];
    unsigned level = 0;

    assert(p->count < HISTORY_RUNS_MAX);
    p->runs[p->count++] = *run;
    if (t->open == HISTORY_NEVER || t->open > p->start)
        t->open = p->start;
    for (unsigned i = 0; i < p->count; i++)
        level += run_counts(&p->runs[i]) && p->runs[i].level == run->level;
    if (level >= HISTORY_EIGHT && t->compact_from > p->start)
        t->compact_from = p->start;
}

bool
period_is_split(const struct period *p)
{
    uint64_t all = 0, most = 0;

    for (unsigned i = 0; i < p->count; i++) {
        const struct run_info *r = &p->runs[i];

        if (!run_counts(r) || (r->flags & (RUN_ROLLED | RUN_INPUTS)) != 0)
            continue;
        all += r->blocks;
        most = r->blocks > most ? r->blocks : most;
    }
    return p->tier > 0 && all > HISTORY_SMALL &&
           all - most >= most / HISTORY_EIGHT;
}

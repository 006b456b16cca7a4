/* writer/idempotency.c - see idempotency.h.
 *
 * Open addressing with linear probing over twice as many slots as there are
 * keys; what stands behind a place given up moves up into it.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/idempotency.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/bytes.h"
#include "writer/map.h"

#define FORGET_STEP 64 /* keys in one go: a request adds one */

static_assert(sizeof(struct key_entry) == 48, "56 bytes with its two slots");

/* Of the ring, and the slots behind it. */
static size_t
map_size(const struct idempotency *k)
{
    return k->max * sizeof *k->ring + k->slot_count * sizeof *k->slots;
}

int
idempotency_init(struct idempotency *k, uint32_t max)
{
    uint32_t slot_count = 2;

    assert(max > 0 && max <= UINT32_MAX / 4);
    while (slot_count < 2 * max)
        slot_count *= 2;
    *k = (struct idempotency){.max = max, .slot_count = slot_count};
    k->ring = map_bytes(map_size(k));
    if (!k->ring)
        return -ENOMEM;
    k->slots = (uint32_t *)(k->ring + max);
    return 0;
}

void
idempotency_fini(struct idempotency *k)
{
    if (k->ring)
        (void)munmap(k->ring, map_size(k)); /* ours: it cannot fail */
    *k = (struct idempotency){.ring = NULL};
}

static struct key_entry *
entry_at(const struct idempotency *k, uint32_t slot)
{
    return &k->ring[k->slots[slot] - 1];
}

static uint32_t
home_slot(const struct idempotency *k, const uint8_t hash[IDEMPOTENCY_HASH])
{
    return get_le32(hash) % k->slot_count;
}

/* The slot of a hash, or the free one where it would be. */
static uint32_t
find_slot(const struct idempotency *k, const uint8_t hash[IDEMPOTENCY_HASH])
{
    uint32_t slot = home_slot(k, hash);

    while (k->slots[slot] != 0 &&
           memcmp(entry_at(k, slot)->hash, hash, IDEMPOTENCY_HASH) != 0)
        slot = (slot + 1) % k->slot_count;
    return slot;
}

static bool
is_old(const struct key_entry *e, uint64_t now_ms)
{
    return (uint64_t)e->at_s * 1000 + IDEMPOTENCY_MS <= now_ms;
}

const struct key_entry *
idempotency_find(const struct idempotency *k,
                 const uint8_t hash[IDEMPOTENCY_HASH], uint64_t now_ms)
{
    const uint32_t slot = find_slot(k, hash);

    return k->slots[slot] == 0 || is_old(entry_at(k, slot), now_ms)
               ? NULL
               : entry_at(k, slot);
}

static void
drop_slot(struct idempotency *k, uint32_t hole)
{
    uint32_t slot = hole;

    for (;;) {
        uint32_t want;

        slot = (slot + 1) % k->slot_count;
        if (k->slots[slot] == 0)
            break;
        want = home_slot(k, entry_at(k, slot)->hash);
        /* It may stand in the hole unless its home lies behind that. */
        if ((slot - want) % k->slot_count < (slot - hole) % k->slot_count)
            continue;
        k->slots[hole] = k->slots[slot];
        hole = slot;
    }
    k->slots[hole] = 0;
}

static void
drop_first(struct idempotency *k)
{
    const struct key_entry *e = &k->ring[k->first % k->max];
    const uint32_t slot = find_slot(k, e->hash);

    /* The same key may have come again when this one was too old. */
    if (entry_at(k, slot) == e)
        drop_slot(k, slot);
    k->first++;
}

void
idempotency_forget(struct idempotency *k, uint64_t now_ms)
{
    for (int i = 0; i < FORGET_STEP && k->first < k->next &&
                    is_old(&k->ring[k->first % k->max], now_ms);
         i++)
        drop_first(k);
}

void
idempotency_add(struct idempotency *k, const uint8_t hash[IDEMPOTENCY_HASH],
                uint64_t request, const struct key_answer *a, uint64_t at_ms)
{
    const uint32_t place = (uint32_t)(k->next % k->max);

    if (k->next - k->first == k->max)
        drop_first(k);
    k->slots[find_slot(k, hash)] = place + 1;
    k->ring[place] =
        (struct key_entry){.request = request,
                           .number = a->number,
                           .remaining = a->remaining,
                           .at_s = (uint32_t)((at_ms + 999) / 1000),
                           .form = a->form};
    memcpy(k->ring[place].hash, hash, IDEMPOTENCY_HASH);
    k->next++;
}

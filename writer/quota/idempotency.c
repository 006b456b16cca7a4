/* writer/quota/idempotency.c - see idempotency.h.
 *
 * Open addressing with linear probing over twice as many slots as there are
 * keys; what stands behind a place given up moves up into it.
 */
#include "writer/quota/idempotency.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/bytes.h"

#define SLOTS ((size_t)2 * IDEMPOTENCY_MAX)

static_assert((IDEMPOTENCY_MAX & (IDEMPOTENCY_MAX - 1)) == 0,
              "places are cut from a count");
static_assert(sizeof(struct key_entry) == 48, "56 bytes with its two slots");

static void *
map_bytes(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

int
idempotency_init(struct idempotency *k)
{
    *k = (struct idempotency){.ring =
                                  map_bytes(IDEMPOTENCY_MAX * sizeof *k->ring)};
    if (k->ring)
        k->slots = map_bytes(SLOTS * sizeof *k->slots);
    if (k->slots)
        return 0;
    idempotency_fini(k);
    return -ENOMEM;
}

void
idempotency_fini(struct idempotency *k)
{
    /* Neither can fail: they are mappings of ours. */
    if (k->ring)
        (void)munmap(k->ring, IDEMPOTENCY_MAX * sizeof *k->ring);
    if (k->slots)
        (void)munmap(k->slots, SLOTS * sizeof *k->slots);
    *k = (struct idempotency){.ring = NULL};
}

static struct key_entry *
entry_at(const struct idempotency *k, uint32_t slot)
{
    return &k->ring[k->slots[slot] - 1];
}

static uint32_t
home_slot(const uint8_t hash[IDEMPOTENCY_HASH])
{
    return get_le32(hash) % (uint32_t)SLOTS;
}

/* The slot of a hash, or the free one where it would be. */
static uint32_t
find_slot(const struct idempotency *k, const uint8_t hash[IDEMPOTENCY_HASH])
{
    uint32_t slot = home_slot(hash);

    while (k->slots[slot] != 0 &&
           memcmp(entry_at(k, slot)->hash, hash, IDEMPOTENCY_HASH) != 0)
        slot = (slot + 1) % (uint32_t)SLOTS;
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

        slot = (slot + 1) % (uint32_t)SLOTS;
        if (k->slots[slot] == 0)
            break;
        want = home_slot(entry_at(k, slot)->hash);
        /* It may stand in the hole unless its home lies behind that. */
        if ((slot - want) % (uint32_t)SLOTS < (slot - hole) % (uint32_t)SLOTS)
            continue;
        k->slots[hole] = k->slots[slot];
        hole = slot;
    }
    k->slots[hole] = 0;
}

static void
drop_first(struct idempotency *k)
{
    const struct key_entry *e = &k->ring[k->first % IDEMPOTENCY_MAX];
    const uint32_t slot = find_slot(k, e->hash);

    /* The same key may have come again when this one was too old. */
    if (entry_at(k, slot) == e)
        drop_slot(k, slot);
    k->first++;
}

void
idempotency_add(struct idempotency *k, const uint8_t hash[IDEMPOTENCY_HASH],
                uint64_t request, const struct answer *a, uint64_t now_ms)
{
    const uint32_t place = (uint32_t)(k->next % IDEMPOTENCY_MAX);

    while (k->first < k->next &&
           (k->next - k->first == IDEMPOTENCY_MAX ||
            is_old(&k->ring[k->first % IDEMPOTENCY_MAX], now_ms)))
        drop_first(k);
    k->slots[find_slot(k, hash)] = place + 1;
    k->ring[place] =
        (struct key_entry){.request = request,
                           .number = a->number,
                           .remaining = a->remaining,
                           .at_s = (uint32_t)((now_ms + 999) / 1000),
                           .form = (uint32_t)a->form};
    memcpy(k->ring[place].hash, hash, IDEMPOTENCY_HASH);
    k->next++;
}

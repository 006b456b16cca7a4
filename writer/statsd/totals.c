/* writer/statsd/totals.c - see totals.h.
 *
 *     totals_take() -> find_entry() -> find_in(), insert_entry() */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/statsd/totals.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "common/wire/message.h"
#include "writer/map.h"

#define TOTALS_UNIT 16u /* entries are multiples of it */

struct totals_entry {
    int128 last;
    int64_t at;
    uint64_t hash;
    uint16_t size;
    uint8_t source;
    bool has_moved; /* to the young half */
    uint8_t name[];
};

static size_t
entry_size(size_t name_size)
{
    const size_t size = offsetof(struct totals_entry, name) + name_size;

    return (size + TOTALS_UNIT - 1) / TOTALS_UNIT * TOTALS_UNIT;
}

static struct totals_entry *
entry_at(const struct totals_half *h, size_t at)
{
    /* Aligned: the memory is of pages, and sizes are multiples of 16. */
    return (struct totals_entry *)(void *)(h->bytes + at);
}

int
totals_init(struct totals *t)
{
    *t = (struct totals){.young = 0};
    if (getrandom(&t->hash_key, sizeof t->hash_key, 0) !=
        (ssize_t)sizeof t->hash_key)
        return -ENOMEM;
    for (size_t i = 0; i < 2; i++) {
        struct totals_half *h = &t->halves[i];

        h->bytes = map_bytes(TOTALS_HALF);
        h->index = map_bytes(TOTALS_INDEX * sizeof *h->index);
        if (!h->bytes || !h->index) {
            totals_fini(t);
            return -ENOMEM;
        }
    }
    return 0;
}

void
totals_fini(struct totals *t)
{
    for (size_t i = 0; i < 2; i++) {
        struct totals_half *h = &t->halves[i];

        if (h->bytes)
            (void)munmap(h->bytes, TOTALS_HALF);
        if (h->index)
            (void)munmap(h->index, TOTALS_INDEX * sizeof *h->index);
    }
    *t = (struct totals){.young = 0};
}

/* The name's place in the index: its entry's, or the free one for it. */
static uint32_t *
find_place(const struct totals_half *h, const struct total *sample,
           uint64_t hash)
{
    for (size_t i = hash % TOTALS_INDEX;; i = (i + 1) % TOTALS_INDEX) {
        const struct totals_entry *e;

        if (h->index[i] == 0)
            return &h->index[i];
        e = entry_at(h, (size_t)(h->index[i] - 1) * TOTALS_UNIT);
        if (e->hash == hash && e->size == sample->size &&
            e->source == sample->source &&
            memcmp(e->name, sample->name, sample->size) == 0)
            return &h->index[i];
    }
}

static struct totals_entry *
find_in(const struct totals_half *h, const struct total *sample, uint64_t hash)
{
    const uint32_t place = *find_place(h, sample, hash);

    return place == 0 ? NULL : entry_at(h, (size_t)(place - 1) * TOTALS_UNIT);
}

/* A new entry in the young half, for which it becomes the other one where it is
 * full: entries of that are gone then. */
static struct totals_entry *
insert_entry(struct totals *t, const struct total *sample, uint64_t hash)
{
    const size_t size = entry_size(sample->size);
    struct totals_half *h = &t->halves[t->young];
    struct totals_entry *e;

    if (h->used + size > TOTALS_HALF) {
        t->young = 1 - t->young;
        h = &t->halves[t->young];
        memset(h->index, 0, TOTALS_INDEX * sizeof *h->index);
        h->used = 0;
    }
    e = entry_at(h, h->used);
    *e = (struct totals_entry){.last = sample->millionths,
                               .at = sample->at,
                               .hash = hash,
                               .size = (uint16_t)sample->size,
                               .source = (uint8_t)sample->source};
    memcpy(e->name, sample->name, sample->size);
    *find_place(h, sample, hash) = (uint32_t)(h->used / TOTALS_UNIT) + 1;
    h->used += size;
    return e;
}

int128
totals_take(struct totals *t, const struct total *sample)
{
    const uint64_t hash =
        hash_name(&t->hash_key, sample->source, sample->name, sample->size);
    struct totals_entry *e = find_in(&t->halves[t->young], sample, hash), *old;
    struct total last = *sample;
    int128 grown;

    assert(sample->size > 0 && sample->size <= MESSAGE_NAME_MAX);
    if (!e) {
        old = find_in(&t->halves[1 - t->young], sample, hash);
        if (old && !old->has_moved) {
            last.millionths = old->last;
            last.at = old->at;
            old->has_moved = true;
        }
        e = insert_entry(t, &last, hash);
    }
    if (sample->at > 0 && sample->at < e->at)
        return 0;
    grown = sample->millionths - e->last;
    e->last = sample->millionths;
    if (sample->at > 0)
        e->at = sample->at;
    return grown >= 0 ? grown : sample->millionths;
}

void
totals_set(struct totals *t, const struct total *sample)
{
    const uint64_t hash =
        hash_name(&t->hash_key, sample->source, sample->name, sample->size);

    if (!find_in(&t->halves[t->young], sample, hash))
        (void)insert_entry(t, sample, hash);
}

void
totals_each(const struct totals *t,
            void (*each)(void *ctx, const struct total *last), void *ctx)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct totals_half *h = &t->halves[(t->young + 1 + i) % 2];
        const struct totals_entry *e;

        for (size_t at = 0; at < h->used; at += entry_size(e->size)) {
            e = entry_at(h, at);
            if (!e->has_moved)
                each(ctx, &(struct total){e->name, e->size, e->source, e->at,
                                          e->last});
        }
    }
}

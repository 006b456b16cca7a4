/* writer/statsd/aggregate.c - see aggregate.h: aggregate_name_size(),
 * aggregate_add(), aggregate_take(), aggregate_age(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/statsd/aggregate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "writer/map.h"

#define AGGREGATE_UNIT   16 /* entries begin at multiples of this */
#define PAGE             4096
#define AGGREGATE_SPREAD 64 /* bytes of entries for one place of the index */

struct aggregate_entry {
    int128 millionths;
    struct aggregate_entry *next; /* while it waits */
    uint32_t hash;
    uint32_t minute;
    uint16_t keyspace_size;
    uint16_t key_size;
    bool waits : 1;
    bool has_fraction : 1;
    bool may_leave : 1; /* even with a fraction, when others need the memory */
    bool has_offset : 1;
    uint8_t half : 1;
    uint8_t names[]; /* keyspace, then key */
};

/* ---- memory ------------------------------------------------------------- */

int
aggregate_init(struct aggregate *s, size_t size)
{
    *s = (struct aggregate){.half_size =
                                size / 2 / AGGREGATE_UNIT * AGGREGATE_UNIT};
    s->last = &s->first;
    for (s->index_count = 1; s->index_count * AGGREGATE_SPREAD < s->half_size;)
        s->index_count *= 2;
    if (getrandom(&s->hash_key, sizeof s->hash_key, 0) !=
        (ssize_t)sizeof s->hash_key)
        return -EIO;
    for (int i = 0; i < 2; i++) {
        s->halves[i].bytes = map_bytes(s->half_size);
        s->halves[i].index = map_bytes(s->index_count * sizeof(uint32_t));
        if (!s->halves[i].bytes || !s->halves[i].index) {
            aggregate_fini(s);
            return -ENOMEM;
        }
    }
    s->free_aged = aggregate_free(s);
    return 0;
}

void
aggregate_fini(struct aggregate *s)
{
    for (int i = 0; i < 2; i++) {
        if (s->halves[i].bytes)
            (void)munmap(s->halves[i].bytes, s->half_size);
        if (s->halves[i].index)
            (void)munmap(s->halves[i].index, s->index_count * sizeof(uint32_t));
        s->halves[i] = (struct aggregate_half){0};
    }
}

size_t
aggregate_name_size(size_t keyspace_size, size_t key_size)
{
    const size_t size = offsetof(struct aggregate_entry, names) +
                        keyspace_size + key_size + AGGREGATE_UNIT - 1;

    return size / AGGREGATE_UNIT * AGGREGATE_UNIT;
}

/* Names that the young half has places for.  A quarter of the index stays
 * free, so that a search is short. */
static size_t
free_places(const struct aggregate *s)
{
    return s->index_count - s->index_count / 4 - s->halves[s->young].names;
}

size_t
aggregate_free(const struct aggregate *s)
{
    const size_t bytes = s->half_size - s->halves[s->young].used;
    const size_t smallest = aggregate_name_size(1, 1);
    const size_t places = free_places(s);

    return places < bytes / smallest ? places * smallest : bytes;
}

/* ---- names -------------------------------------------------------------- */

static struct aggregate_entry *
entry_at(const struct aggregate_half *h, uint32_t place)
{
    return (struct aggregate_entry *)(void *)(h->bytes + (size_t)(place - 1) *
                                                             AGGREGATE_UNIT);
}

static bool
is_named(const struct aggregate_entry *e, const struct message *name)
{
    return e->minute == name->minute &&
           e->keyspace_size == name->keyspace_size &&
           e->key_size == name->key_size &&
           memcmp(e->names, name->keyspace, name->keyspace_size) == 0 &&
           memcmp(e->names + name->keyspace_size, name->key, name->key_size) ==
               0;
}

static struct aggregate_entry *
find_entry(const struct aggregate *s, const struct aggregate_half *h,
           const struct message *name, uint32_t hash)
{
    size_t i = hash & (s->index_count - 1);

    for (; h->index[i] != 0; i = (i + 1) & (s->index_count - 1)) {
        struct aggregate_entry *e = entry_at(h, h->index[i]);

        if (e->hash == hash && is_named(e, name))
            return e;
    }
    return NULL;
}

/* Whether a name at the end of a half has space among those that are kept, for
 * which half of the bytes and of the places are. */
static bool
has_kept_room(const struct aggregate *s, const struct aggregate_half *h,
              size_t size)
{
    return h->used + size <= s->half_size / 2 &&
           h->names < (s->index_count - s->index_count / 4) / 2;
}

/* Enters `e`, which lies at h->used, into the index of its half. */
static void
add_to_half(struct aggregate *s, struct aggregate_half *h,
            const struct aggregate_entry *e, size_t size)
{
    size_t i = e->hash & (s->index_count - 1);

    while (h->index[i] != 0)
        i = (i + 1) & (s->index_count - 1);
    h->index[i] = (uint32_t)(h->used / AGGREGATE_UNIT) + 1;
    h->names++;
    h->used += size;
    h->fractions += e->has_fraction;
}

/* Makes an entry in the young half; NULL: it is full. */
static struct aggregate_entry *
make_entry(struct aggregate *s, const struct message *name, uint32_t hash)
{
    struct aggregate_half *h = &s->halves[s->young];
    const size_t size =
        aggregate_name_size(name->keyspace_size, name->key_size);
    struct aggregate_entry *e;

    if (s->half_size - h->used < size || free_places(s) == 0)
        return NULL;
    e = (struct aggregate_entry *)(void *)(h->bytes + h->used);
    e->millionths = 0;
    e->hash = hash;
    e->minute = name->minute;
    e->keyspace_size = name->keyspace_size;
    e->key_size = name->key_size;
    e->waits = e->has_fraction = e->has_offset = false;
    e->may_leave = !has_kept_room(s, h, size);
    e->half = s->young & 1;
    memcpy(e->names, name->keyspace, name->keyspace_size);
    memcpy(e->names + name->keyspace_size, name->key, name->key_size);
    add_to_half(s, h, e, size);
    return e;
}

static uint32_t
hash_of(const struct aggregate *s, const struct message *name)
{
    const uint64_t keyspace = hash_name(&s->hash_key, name->keyspace_size,
                                        name->keyspace, name->keyspace_size);
    const uint64_t hash = hash_name(&s->hash_key, keyspace + name->minute,
                                    name->key, name->key_size);

    return (uint32_t)(hash ^ hash >> 32);
}

/* Notes that an entry has a rest from now on, or may have one. */
static void
set_fraction(struct aggregate *s, struct aggregate_entry *e)
{
    s->halves[e->half].fractions += !e->has_fraction;
    e->has_fraction = true;
}

/* The entry of a name, which is made if there is none.  An entry of the old
 * half that waits stays there until the flush; otherwise its rest moves to the
 * young half. */
static struct aggregate_entry *
take_entry(struct aggregate *s, const struct message *name)
{
    const uint32_t hash = hash_of(s, name);
    struct aggregate_half *old = &s->halves[1 - s->young];
    struct aggregate_entry *e, *before;

    e = find_entry(s, &s->halves[s->young], name, hash);
    if (e)
        return e;
    before = find_entry(s, old, name, hash);
    if (before && before->waits)
        return before;
    e = make_entry(s, name, hash);
    if (e && before && before->has_fraction) {
        e->millionths = before->millionths;
        e->has_offset = before->has_offset;
        set_fraction(s, e);
        before->has_fraction = false;
        old->fractions--;
    }
    return e;
}

/* ---- sums --------------------------------------------------------------- */

/* One addition stays below 2^84 millionths, so sums that are cut at 2^100 never
 * overflow 128 bits; a cut sum still rounds to the bound of int64. */
static int128
add_bounded(int128 a, int128 b)
{
    const int128 bound = (int128)1 << 100;
    const int128 sum = a + b;

    if (sum > bound)
        return bound;
    return sum < -bound ? -bound : sum;
}

/* Adds -0.499999 to 0.499999 of a unit, once, to an entry whose rest may be
 * forgotten.  Each age moves the offset of a name by the golden ratio, so that
 * the offsets of a name that is made again and again are spread evenly. */
static void
add_offset(const struct aggregate *s, struct aggregate_entry *e)
{
    const uint32_t x = e->hash + s->ages * UINT32_C(0x9e3779b9);
    const int64_t span = DECIMAL_MILLIONTHS - 1;

    if (e->has_offset || (!e->may_leave && !s->is_lossy))
        return;
    e->has_offset = true;
    e->millionths =
        add_bounded(e->millionths,
                    (int64_t)((uint64_t)x * (uint64_t)span >> 32) - span / 2);
}

/* Adds to an entry, which waits for a flush from then on. */
static void
add_to_entry(struct aggregate *s, struct aggregate_entry *e, int128 millionths)
{
    struct aggregate_half *h = &s->halves[e->half];

    if (!e->waits) {
        h->waiting++;
        e->waits = true;
        e->next = NULL;
        *s->last = e;
        s->last = &e->next;
    }
    e->millionths = add_bounded(e->millionths, millionths);
}

int
aggregate_add(struct aggregate *s, const struct message *name,
              int128 millionths)
{
    struct aggregate_entry *e = take_entry(s, name);

    if (!e)
        return -ENOMEM;
    if (!e->has_fraction && millionths % DECIMAL_MILLIONTHS != 0)
        set_fraction(s, e);
    if (e->has_fraction)
        add_offset(s, e);
    add_to_entry(s, e, millionths);
    return 0;
}

static struct message
name_of(const struct aggregate_entry *e)
{
    return (struct message){.keyspace = e->names,
                            .key = e->names + e->keyspace_size,
                            .keyspace_size = e->keyspace_size,
                            .key_size = e->key_size,
                            .minute = e->minute};
}

bool
aggregate_take(struct aggregate *s, struct message *out)
{
    struct aggregate_entry *e = s->first;
    int32_t rest;

    if (!e)
        return false;
    s->first = e->next;
    if (!s->first)
        s->last = &s->first;
    *out = name_of(e);
    out->increment = decimal_round(e->millionths, &rest);
    e->millionths = rest;
    e->waits = false;
    s->halves[e->half].waiting--;
    return true;
}

/* Turns the entry into that of minute 0.  NULL: its rest went to the existing
 * entry of minute 0. */
static struct aggregate_entry *
clear_minute(struct aggregate *s, const struct aggregate_half *kept,
             struct aggregate_entry *e)
{
    struct message name = name_of(e);
    struct aggregate_entry *other;

    name.minute = e->minute = 0;
    e->hash = hash_of(s, &name);
    other = find_entry(s, kept, &name, e->hash);
    if (!other)
        other = find_entry(s, &s->halves[s->young], &name, e->hash);
    if (!other)
        return e;
    set_fraction(s, other);
    add_to_entry(s, other, e->millionths);
    return NULL;
}

/* Moves the entries with a fraction, which lie between others up to `end`, to
 * the beginning of a half whose index is clear. */
static void
keep_fractions(struct aggregate *s, struct aggregate_half *h, size_t end)
{
    size_t at = 0, size;
    bool had_minutes = false; /* an entry further on may be of such a name */

    for (; at < end; at += size) {
        struct aggregate_entry *e =
            (struct aggregate_entry *)(void *)(h->bytes + at);

        size = aggregate_name_size(e->keyspace_size, e->key_size);
        if (!e->has_fraction)
            continue;
        had_minutes |= e->minute != 0;
        if (had_minutes && !clear_minute(s, h, e))
            continue;
        if (!has_kept_room(s, h, size)) {
            s->forgotten++;
            continue;
        }
        e = memmove(h->bytes + h->used, e, size);
        add_to_half(s, h, e, size);
    }
}

int
aggregate_age(struct aggregate *s)
{
    struct aggregate_half *old = &s->halves[1 - s->young];
    const size_t end = old->fractions > 0 ? old->used : 0;
    size_t kept;

    if (old->waiting > 0)
        return -EBUSY;
    if (madvise(old->index, s->index_count * sizeof(uint32_t), MADV_DONTNEED) <
        0)
        memset(old->index, 0, s->index_count * sizeof(uint32_t));
    old->used = old->names = 0;
    old->fractions = 0;
    keep_fractions(s, old, end);
    /* Whole pages go back to the kernel, which may keep them: they are free. */
    kept = (old->used + PAGE - 1) / PAGE * PAGE;
    if (kept < s->half_size)
        (void)madvise(old->bytes + kept, s->half_size - kept, MADV_DONTNEED);
    s->young = 1 - s->young;
    s->ages++;
    s->free_aged = aggregate_free(s);
    return 0;
}

void
aggregate_forget(struct aggregate *s)
{
    const uint64_t before = s->forgotten;

    for (int i = 0; i < 2; i++) {
        struct aggregate_half *old = &s->halves[1 - s->young];
        const uint64_t fractions = old->fractions;

        old->fractions = 0; /* no fraction is kept */
        if (aggregate_age(s) < 0)
            old->fractions = fractions;
        else
            s->forgotten += fractions;
    }
    s->is_lossy = s->is_lossy || s->forgotten > before;
}

uint64_t
aggregate_fractions(const struct aggregate *s)
{
    return s->halves[0].fractions + s->halves[1].fractions;
}

void
aggregate_each_rest(const struct aggregate *s,
                    void (*take)(void *ctx, const struct message *rest),
                    void *ctx)
{
    for (int half = 0; half < 2; half++) {
        const struct aggregate_half *h = &s->halves[half];
        size_t size;

        for (size_t at = 0; at < h->used; at += size) {
            const struct aggregate_entry *e =
                (const struct aggregate_entry *)(void *)(h->bytes + at);
            struct message rest = name_of(e);

            size = aggregate_name_size(e->keyspace_size, e->key_size);
            rest.increment = (int64_t)e->millionths;
            if (e->has_fraction && !e->waits && e->millionths != 0)
                take(ctx, &rest);
        }
    }
}

void
aggregate_set_rest(struct aggregate *s, const struct message *rest)
{
    struct aggregate_entry *e;

    if (rest->increment <= -DECIMAL_MILLIONTHS ||
        rest->increment >= DECIMAL_MILLIONTHS)
        return;
    e = take_entry(s, rest);
    if (e == NULL) {
        s->forgotten++;
        return;
    }
    set_fraction(s, e);
    e->millionths = rest->increment;
}

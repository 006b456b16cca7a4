/* writer/live/arena.c - records of any size in reserved address space.
 *
 * Entry points: budget_take(), budget_give(), arena_take(), arena_give(),
 * arena_next(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/live/arena.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "writer/map.h"

#define PAGE        ARENA_PAGE
#define SLAB_UNITS  (ARENA_SLAB / ARENA_UNIT)
#define RESERVE_MAX ((UINT64_C(32) << 30) - ARENA_SLAB)

static_assert(ARENA_SLAB / PAGE < UINT8_MAX, "pages of a slab fit");
static_assert(ARENA_SLAB / 16 < UINT16_MAX, "records of a slab fit");

bool
budget_take(struct budget *b, uint64_t bytes)
{
    assert(b->used <= b->max);
    if (bytes > b->max - b->used)
        return false;
    b->used += bytes;
    return true;
}

void
budget_give(struct budget *b, uint64_t bytes)
{
    assert(bytes <= b->used);
    b->used -= bytes;
}

/* Classes are 16, 24, ... 128 bytes, then eight to each doubling. */
static unsigned
class_of(size_t size)
{
    uint32_t last, exponent;

    assert(size > 0 && size <= ARENA_RECORD_MAX);
    if (size <= 16)
        return 0;
    last = (uint32_t)((size - 1) / ARENA_UNIT);
    if (last < 16)
        return last - 1;
    exponent = 31 - (uint32_t)__builtin_clz(last);
    return 15 + (exponent - 4) * 8 + (last >> (exponent - 3)) - 8;
}

static uint32_t
class_size(unsigned class)
{
    if (class < 15)
        return (class + 2) * ARENA_UNIT;
    return ((class - 15) % 8 + 9) << ((class - 15) / 8 + 1) << 3;
}

static void
init_class(struct arena_class *c, unsigned class)
{
    const uint32_t size = class_size(class);
    const uint32_t most = ARENA_SLAB / size;
    /* Records start on a cache line. */
    const uint32_t first = ((most + 63) / 64 * 8 + 63) / 64 * 64;

    *c = (struct arena_class){
        .size = size,
        .count = (ARENA_SLAB - first) / size,
        .first = first,
    };
    assert(c->count > 0);
    assert(class_of(size) == class);
}

/* Of the records, and the table of slabs behind them. */
static size_t
map_size(const struct arena *a)
{
    return a->reserved + a->slab_max * sizeof *a->slabs;
}

int
arena_init(struct arena *a, struct budget *budget)
{
    uint64_t reserve = RESERVE_MAX;
    uint32_t slabs;
    unsigned i;

    /* A slab may end in up to half of untouched space, and each class has one
     * that is not full. */
    if (budget->max < RESERVE_MAX / 2)
        reserve = (budget->max * 2 / ARENA_SLAB + ARENA_CLASSES) * ARENA_SLAB;
    if (reserve > RESERVE_MAX)
        reserve = RESERVE_MAX;
    slabs = (uint32_t)(reserve / ARENA_SLAB);
    *a = (struct arena){
        .budget = budget, .reserved = reserve, .slab_max = slabs};
    a->base = map_bytes(map_size(a));
    if (!a->base)
        return -ENOMEM;
    a->slabs = (struct arena_slab *)(void *)(a->base + reserve);
    /* The budget counts pages as they are touched: huge ones would take more
     * than it knows.  Without the advice only that would be less exact. */
    (void)madvise(a->base, reserve, MADV_NOHUGEPAGE);
    for (i = 0; i < ARENA_CLASSES; i++)
        init_class(&a->classes[i], i);
    return 0;
}

void
arena_fini(struct arena *a)
{
    (void)munmap(a->base, map_size(a)); /* as mapped: it cannot fail */
    budget_give(a->budget, a->taken);
    *a = (struct arena){0};
}

static uint8_t *
slab_base(const struct arena *a, uint32_t slab)
{
    return a->base + (size_t)slab * ARENA_SLAB;
}

static uint64_t *
slab_bitmap(const struct arena *a, uint32_t slab)
{
    return (uint64_t *)(void *)slab_base(a, slab);
}

/* Returns the memory of the first empty slab to the kernel.  False: it has none.
 */
static bool
free_pages(struct arena *a)
{
    const uint32_t slab = a->empty - 1;
    uint64_t bytes;

    if (a->empty == 0 || a->slabs[slab].pages == 0)
        return false;
    bytes = (uint64_t)a->slabs[slab].pages * PAGE;
    /* Fails only for addresses that are not mapped, and these are. */
    (void)madvise(slab_base(a, slab), ARENA_SLAB, MADV_DONTNEED);
    budget_give(a->budget, bytes);
    a->taken -= bytes;
    a->slabs[slab].pages = 0;
    return true;
}

static void
push_empty(struct arena *a, uint32_t slab)
{
    a->slabs[slab].class = ARENA_CLASS_NONE;
    a->slabs[slab].next = a->empty;
    a->empty = slab + 1;
}

/* Charges the budget for the first `bytes` of a slab. */
static bool
charge_slab(struct arena *a, uint32_t slab, uint32_t bytes)
{
    struct arena_slab *s = &a->slabs[slab];
    const uint32_t pages = (bytes + PAGE - 1) / PAGE;
    uint64_t more;

    if (pages <= s->pages)
        return true;
    more = (uint64_t)(pages - s->pages) * PAGE;
    while (!budget_take(a->budget, more))
        if (!free_pages(a))
            return false;
    a->taken += more;
    s->pages = (uint8_t)pages;
    return true;
}

/* An empty slab for a class; UINT32_MAX: none to be had. */
static uint32_t
open_slab(struct arena *a, unsigned class)
{
    const struct arena_class *c = &a->classes[class];
    struct arena_slab *s;
    uint32_t slab;

    if (a->empty != 0) {
        slab = a->empty - 1;
        a->empty = a->slabs[slab].next;
    } else if (a->top < a->slab_max) {
        slab = a->top++;
    } else {
        return UINT32_MAX;
    }
    s = &a->slabs[slab];
    if (!charge_slab(a, slab, c->first + c->size)) {
        /* Return its share of the budget, too: the slab cannot be used. */
        push_empty(a, slab);
        (void)free_pages(a);
        return UINT32_MAX;
    }
    memset(slab_base(a, slab), 0, c->first);
    *s = (struct arena_slab){.class = (uint8_t) class, .pages = s->pages};
    return slab;
}

static uint32_t
number_of(const struct arena_class *c, uint32_t slab, uint32_t index)
{
    return slab * SLAB_UNITS + (c->first + index * c->size) / ARENA_UNIT;
}

static void
link_partly_free(struct arena *a, struct arena_class *c, uint32_t slab)
{
    a->slabs[slab].prev = 0;
    a->slabs[slab].next = c->partly_free;
    if (c->partly_free != 0)
        a->slabs[c->partly_free - 1].prev = slab + 1;
    c->partly_free = slab + 1;
}

static void
unlink_partly_free(struct arena *a, struct arena_class *c, uint32_t slab)
{
    const struct arena_slab *s = &a->slabs[slab];

    if (s->prev != 0)
        a->slabs[s->prev - 1].next = s->next;
    else
        c->partly_free = s->next;
    if (s->next != 0)
        a->slabs[s->next - 1].prev = s->prev;
}

/* Takes the first free record of a slab, which has one: its index.  UINT32_MAX:
 * no memory. */
static uint32_t
take_index(struct arena *a, const struct arena_class *c, uint32_t slab)
{
    struct arena_slab *s = &a->slabs[slab];
    uint64_t *bitmap = slab_bitmap(a, slab);
    uint32_t index;

    while (bitmap[s->word] == UINT64_MAX)
        s->word++;
    index = s->word * 64u + (uint32_t)__builtin_ctzll(~bitmap[s->word]);
    if (!charge_slab(a, slab, c->first + (index + 1) * c->size))
        return UINT32_MAX;
    bitmap[s->word] |= UINT64_C(1) << index % 64;
    s->used++;
    return index;
}

/* Of the slabs with a free record one at most has records that were never
 * taken, and it is the last in the list: it was opened when the list was empty.
 * Those are the last of its records.  So what costs no memory is taken first.
 */
uint32_t
arena_take(struct arena *a, size_t size)
{
    const unsigned class = class_of(size);
    struct arena_class *c = &a->classes[class];
    uint32_t slab, index;

    if (c->partly_free == 0) {
        slab = open_slab(a, class);
        if (slab == UINT32_MAX)
            return 0;
        link_partly_free(a, c, slab);
    }
    slab = c->partly_free - 1;
    index = take_index(a, c, slab);
    if (index == UINT32_MAX)
        return 0;
    if (a->slabs[slab].used == c->count) /* it is full */
        unlink_partly_free(a, c, slab);
    a->records++;
    return number_of(c, slab, index);
}

/* Its last record has gone.  One empty slab keeps its memory: the next record
 * may come at once. */
static void
close_slab(struct arena *a, struct arena_class *c, uint32_t slab)
{
    unlink_partly_free(a, c, slab);
    (void)free_pages(a);
    push_empty(a, slab);
}

void
arena_give(struct arena *a, uint32_t record)
{
    const uint32_t slab = record / SLAB_UNITS;
    const uint32_t offset = record % SLAB_UNITS * ARENA_UNIT;
    struct arena_slab *s = &a->slabs[slab];
    struct arena_class *c;
    uint32_t index;
    uint64_t *word;

    assert(slab < a->top && s->class != ARENA_CLASS_NONE);
    c = &a->classes[s->class];
    assert(offset >= c->first);
    index = (offset - c->first) / c->size;
    assert(offset == c->first + index * c->size);
    word = &slab_bitmap(a, slab)[index / 64];
    assert((*word >> index % 64 & 1) == 1);
    *word &= ~(UINT64_C(1) << index % 64);
    a->records--;
    if (s->used == c->count) /* it was full */
        link_partly_free(a, c, slab);
    if (index / 64 < s->word)
        s->word = (uint16_t)(index / 64);
    s->used--;
    if (s->used == 0)
        close_slab(a, c, slab);
}

/* The index of the first record that starts at or behind `offset`, which may
 * be from when the slab was of another class. */
static uint32_t
index_from(const struct arena_class *c, uint32_t offset)
{
    if (offset <= c->first)
        return 0;
    return (offset - c->first + c->size - 1) / c->size;
}

/* The first record in use at or after *at in a slab, of which it looks at 64
 * records at most; 0: none of these.  Moves *at behind what it looked at. */
static uint32_t
find_in_slab(const struct arena *a, uint32_t *at)
{
    const uint32_t slab = *at / SLAB_UNITS;
    const uint32_t offset = *at % SLAB_UNITS * ARENA_UNIT;
    const struct arena_slab *s = &a->slabs[slab];
    const struct arena_class *c;
    uint32_t index, record = 0;
    uint64_t word;

    *at = (slab + 1) * SLAB_UNITS;
    if (s->class == ARENA_CLASS_NONE)
        return 0;
    c = &a->classes[s->class];
    index = index_from(c, offset);
    if (index >= c->count)
        return 0;
    word = slab_bitmap(a, slab)[index / 64] >> index % 64;
    if (word != 0) {
        record = number_of(c, slab, index + (uint32_t)__builtin_ctzll(word));
        *at = record + 1;
    } else if ((index / 64 + 1) * 64 < c->count) {
        *at = number_of(c, slab, (index / 64 + 1) * 64);
    }
    return record;
}

uint32_t
arena_next(const struct arena *a, uint32_t *from, uint32_t *steps)
{
    uint32_t record = 0;

    for (; record == 0 && *steps > 0 && *from / SLAB_UNITS < a->top; --*steps)
        record = find_in_slab(a, from);
    return record;
}

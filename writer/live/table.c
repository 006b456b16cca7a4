/* writer/live/table.c - an index from 32-bit hashes that grows step by step.
 *
 * Between the home of an entry and its slot no slot is free, and entries are in
 * the order of their hashes, as their homes are: a search ends at the first
 * that is greater, which is soon where the array is nearly full.  In the old
 * array this holds from `moved` on: a removed entry leaves TABLE_GONE there,
 * and a search that would begin before `moved` begins there, because all slots
 * before were moved.
 *
 * Entry points: table_insert(), table_remove(), table_displaced(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/live/table.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "writer/map.h"

#define SLOTS_MIN   16
#define SPARE_MAX   2048                  /* slots after the last home */
#define PIECE       (UINT64_C(256) << 10) /* bytes given back at a time */
#define PAGE        4096
#define REMOVE_STEP 8 /* slots moved by a removal: there is time */

/* Full enough to grow; full.  Growing by a quarter is through before the new
 * array is full enough, as TABLE_STEP slots move for each entry that comes. */
static size_t
want_grow(size_t count)
{
    return count - count / 16 * 3;
}

static size_t
entries_max(size_t count)
{
    return count - count / 16;
}

/* Maps an array of `count` slots; -ENOMEM. */
static int
map_part(struct table_part *p)
{
    p->slots = map_bytes(p->bytes);
    if (!p->slots)
        return -ENOMEM;
    /* Huge pages would take more than was meant; without the advice only the
     * figures would be less exact. */
    (void)madvise(p->slots, p->bytes, MADV_NOHUGEPAGE);
    return 0;
}

static struct table_part
part_of(size_t count)
{
    /* At the load that is allowed, entries are far less than this many slots
     * away from home; a small part has no more entries than that. */
    const size_t all = count + (count < SPARE_MAX ? count : SPARE_MAX) + 1;

    return (struct table_part){
        .count = count,
        .all = all,
        .bytes = (all * sizeof(struct table_slot) + PAGE - 1) / PAGE * PAGE};
}

int
table_init(struct table *t, struct budget *budget, size_t slots)
{
    *t = (struct table){.budget = budget};
    t->least = slots < SLOTS_MIN ? SLOTS_MIN : slots;
    t->now = part_of(t->least);
    if (!budget_take(budget, t->now.bytes))
        return -ENOMEM;
    if (map_part(&t->now) < 0) {
        budget_give(budget, t->now.bytes);
        return -ENOMEM;
    }
    t->taken = t->now.bytes;
    return 0;
}

void
table_fini(struct table *t)
{
    /* Mapped as they are here: these cannot fail. */
    (void)munmap(t->now.slots, t->now.bytes);
    if (t->old.slots != NULL)
        (void)munmap(t->old.slots, t->old.bytes);
    budget_give(t->budget, t->taken);
    *t = (struct table){0};
}

/* ---- moving -------------------------------------------------------------- */

/* Begins to move the entries to an array of `count` slots; -ENOMEM. */
static int
begin_move(struct table *t, size_t count)
{
    struct table_part part = part_of(count);
    /* One array is filled as the other is given back: besides the larger one
     * there are only pieces.  All of it is taken now, so nothing can fail in
     * the middle. */
    const size_t larger = part.bytes > t->now.bytes ? part.bytes : t->now.bytes;
    const size_t slack = t->now.bytes < 2 * PIECE ? t->now.bytes : 2 * PIECE;

    assert(t->old.slots == NULL);
    if (!budget_take(t->budget, larger + slack - t->taken))
        return -ENOMEM;
    if (map_part(&part) < 0) {
        budget_give(t->budget, larger + slack - t->taken);
        return -ENOMEM;
    }
    t->taken = larger + slack;
    t->old = t->now;
    t->now = part;
    t->given = 0;
    t->grown++;
    return 0;
}

static void
finish_move(struct table *t)
{
    /* Mapped by begin_move() or table_init(): cannot fail. */
    (void)munmap(t->old.slots, t->old.bytes);
    t->old = (struct table_part){0};
    budget_give(t->budget, t->taken - t->now.bytes);
    t->taken = t->now.bytes;
}

/* Puts an entry behind those with smaller hashes, which is at `at` or later;
 * those that are there move up to the next free slot.  Returns where it is;
 * SIZE_MAX: no slot is free, which takes hashes that an attacker chose. */
static size_t
put_slot(struct table_part *p, size_t at, uint32_t hash, uint32_t number)
{
    size_t end;

    while (p->slots[at].number != 0 && p->slots[at].hash < hash)
        at++;
    for (end = at; p->slots[end].number != 0;)
        end++;
    if (end + 1 == p->all)
        return SIZE_MAX;
    if (end > at)
        memmove(&p->slots[at + 1], &p->slots[at],
                (end - at) * sizeof *p->slots);
    p->slots[at] = (struct table_slot){hash, number};
    return at;
}

/* Moves the next `steps` slots, each behind the one before, and returns pages
 * of the old array to the kernel that are not read again. */
static void
move_some(struct table *t, size_t steps)
{
    struct table_part *old = &t->old;
    size_t behind = 0; /* the one moved last */

    for (; steps > 0 && old->moved < old->all; steps--, old->moved++) {
        const struct table_slot slot = old->slots[old->moved];
        const size_t home = table_home(&t->now, slot.hash);
        size_t at;

        if (slot.number == 0 && old->moved >= old->count)
            old->moved = old->all - 1; /* all others after it are free */
        if (slot.number == 0 || slot.number == TABLE_GONE)
            continue;
        at = put_slot(&t->now, home < behind ? behind : home, slot.hash,
                      slot.number);
        if (at == SIZE_MAX)
            return;
        behind = at + 1;
    }
    if (old->moved == old->all) {
        finish_move(t);
    } else if (old->moved * sizeof *old->slots >= t->given + PIECE) {
        /* Fails only for addresses that are not mapped, and these are. */
        (void)madvise((uint8_t *)old->slots + t->given, PIECE, MADV_DONTNEED);
        t->given += PIECE;
    }
}

/* ---- entries ------------------------------------------------------------- */

int
table_insert(struct table *t, uint32_t hash, uint32_t number)
{
    const size_t count = t->now.count;
    struct table_part *p;

    assert(number != 0 && number != TABLE_GONE);
    /* Without memory for more it goes on until it is nearly full. */
    if (t->old.slots == NULL && t->entries >= want_grow(count))
        (void)begin_move(t, count + count / 4);
    if (t->old.slots != NULL)
        move_some(t, TABLE_STEP);
    if (t->entries >= entries_max(t->now.count))
        return -ENOMEM;
    p = table_is_moved(t, hash) ? &t->now : &t->old;
    if (put_slot(p, (size_t)(table_start(p, hash) - p->slots), hash, number) ==
        SIZE_MAX)
        return -ENOMEM;
    t->entries++;
    return 0;
}

/* The slot of an entry, or NULL. */
static struct table_slot *
find_slot(const struct table_part *p, uint32_t hash, uint32_t number)
{
    for (size_t at = (size_t)(table_start(p, hash) - p->slots);
         p->slots[at].number != 0 && p->slots[at].hash <= hash; at++)
        if (p->slots[at].hash == hash && p->slots[at].number == number)
            return &p->slots[at];
    return NULL;
}

/* Frees a slot of `now`.  Those after it move up, until one is at its home or
 * a slot is free. */
static void
free_slot(struct table_part *p, size_t hole)
{
    size_t end = hole + 1;

    while (p->slots[end].number != 0 && table_home(p, p->slots[end].hash) < end)
        end++;
    memmove(&p->slots[hole], &p->slots[hole + 1],
            (end - hole - 1) * sizeof *p->slots);
    p->slots[end - 1] = (struct table_slot){0};
}

void
table_remove(struct table *t, uint32_t hash, uint32_t number)
{
    struct table_slot *slot = NULL;
    size_t smaller = t->now.count / 2;

    if (table_is_moved(t, hash))
        slot = find_slot(&t->now, hash, number);
    if (slot != NULL) {
        free_slot(&t->now, (size_t)(slot - t->now.slots));
    } else {
        assert(t->old.slots != NULL);
        slot = find_slot(&t->old, hash, number);
        assert(slot != NULL);
        slot->number = TABLE_GONE;
    }
    t->entries--;
    if (smaller < t->least)
        smaller = t->least;
    /* Without memory for the way to a smaller one it stays as large. */
    if (t->old.slots == NULL && t->entries < t->now.count / 4 &&
        smaller < t->now.count)
        (void)begin_move(t, smaller);
    if (t->old.slots != NULL)
        move_some(t, REMOVE_STEP);
}

/* Counts a sample of a part: entries, and those not at home. */
static void
count_sample(const struct table_part *p, uint32_t seen[2])
{
    const size_t stride = p->count / 1024 + 1;

    for (size_t at = p->moved; at < p->count; at += stride) {
        const struct table_slot *slot = &p->slots[at];

        if (slot->number == 0 || slot->number == TABLE_GONE)
            continue;
        seen[0]++;
        seen[1] += table_home(p, slot->hash) != at;
    }
}

uint32_t
table_displaced(const struct table *t)
{
    uint32_t seen[2] = {0, 0};

    count_sample(&t->now, seen);
    if (t->old.slots != NULL)
        count_sample(&t->old, seen);
    return seen[0] == 0 ? 0 : seen[1] * 1000 / seen[0];
}

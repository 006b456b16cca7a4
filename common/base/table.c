/* common/base/table.c - an index from 32-bit hashes that grows step by step.
 *
 * The entries of a part stand in the order of their hashes, each at its home
 * or behind it, and with no gap between home and entry.  Homes have the order
 * of hashes too, so the array is sorted as a whole.  Two things follow:
 *
 * - Cutting off the beginning leaves a part that still works: entries below
 *   the cut are only in the way.
 * - Behind a gap at `p` no entry has its home at or before `p`.
 *
 * Entry points: table_insert(), table_remove(), table_displaced(). */
#include "common/base/table.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define SLOTS_MIN 16
#define SPARE_MAX 2048                  /* slots behind the last home */
#define PIECE     (UINT64_C(256) << 10) /* bytes given back at a time */
#define ALL_MOVED (UINT64_C(1) << 32)
#define PAGE      4096

/* Slots that one step looks at, about.  Growing must be through before the old
 * array is full; without insertions there is time. */
#define LOOK_INSERT 24
#define LOOK_REMOVE 8

/* Full enough to grow; full. */
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

static void
part_layout(struct table_part *p, size_t count)
{
    /* At the load that is allowed, entries are far less than this many slots
     * away from home; a small part has no more entries than that. */
    const size_t spare = count < SPARE_MAX ? count : SPARE_MAX;

    p->count = count;
    p->all = count + spare + TABLE_SAME;
    p->bytes = (p->all * sizeof *p->slots + PAGE - 1) / PAGE * PAGE;
}

static int
part_map(struct table_part *p)
{
    void *at = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED)
        return -ENOMEM;
    /* Huge pages would take more than was meant; without the advice only the
     * figures would be less exact. */
    (void)madvise(at, p->bytes, MADV_NOHUGEPAGE);
    p->slots = at;
    return 0;
}

int
table_init(struct table *t, struct budget *budget, size_t slots)
{
    *t = (struct table){.budget = budget, .moved_below = ALL_MOVED};
    t->least = slots < SLOTS_MIN ? SLOTS_MIN : slots;
    part_layout(&t->now, t->least);
    if (!budget_take(budget, t->now.bytes))
        return -ENOMEM;
    if (part_map(&t->now) < 0) {
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

/* Begins to move the entries to an array of `count` slots; -ENOMEM. */
static int
begin_move(struct table *t, size_t count)
{
    struct table_part part = {0};
    size_t larger, slack;

    assert(t->old.slots == NULL);
    part_layout(&part, count);
    /* One array is filled as the other is given back: besides the larger one
     * there are only pieces.  All of it is taken now, so nothing can fail in
     * the middle. */
    larger = part.bytes > t->now.bytes ? part.bytes : t->now.bytes;
    slack = t->now.bytes < 2 * PIECE ? t->now.bytes : 2 * PIECE;
    if (!budget_take(t->budget, larger + slack - t->taken))
        return -ENOMEM;
    if (part_map(&part) < 0) {
        budget_give(t->budget, larger + slack - t->taken);
        return -ENOMEM;
    }
    t->taken = larger + slack;
    t->old = t->now;
    t->now = part;
    t->moved_below = 0;
    t->moved_at = 0;
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
    t->moved_below = ALL_MOVED;
    budget_give(t->budget, t->taken - t->now.bytes);
    t->taken = t->now.bytes;
}

static int
put_slot(struct table_part *p, uint32_t hash, uint32_t number)
{
    size_t at = table_home(p, hash), gap;

    while (p->slots[at].number != 0 && p->slots[at].hash < hash)
        at++;
    for (gap = at; p->slots[gap].number != 0;)
        gap++;
    if (gap + TABLE_SAME >= p->all)
        return -ENOMEM;
    if (at < gap && p->slots[at].hash == hash &&
        p->slots[at + TABLE_SAME - 1].hash == hash &&
        p->slots[at + TABLE_SAME - 1].number != 0)
        return -ENOMEM;
    memmove(&p->slots[at + 1], &p->slots[at], (gap - at) * sizeof *p->slots);
    p->slots[at] = (struct table_slot){hash, number};
    return 0;
}

/* How many entries from here on have the same hash. */
static uint32_t
run_at(const struct table_slot *slot)
{
    uint32_t run = 1;

    while (slot[run].number != 0 && slot[run].hash == slot->hash)
        run++;
    assert(run <= TABLE_SAME);
    return run;
}

/* The lowest hash with a home behind `at`. */
static uint64_t
first_behind(const struct table_part *p, size_t at)
{
    if (at + 1 >= p->count)
        return ALL_MOVED;
    return (((uint64_t)at + 1) * ALL_MOVED + p->count - 1) / p->count;
}

/* The entry must be there. */
static void
take_out(struct table_part *p, uint32_t hash, uint32_t number)
{
    size_t at = table_home(p, hash), end;

    /* The number alone is not unique: the old place of an entry that has moved
     * away keeps it, and the number may have been reused. */
    while (p->slots[at].number != number || p->slots[at].hash != hash) {
        assert(p->slots[at].number != 0 && p->slots[at].hash <= hash);
        at++;
    }
    for (end = at + 1; p->slots[end].number != 0; end++)
        if (table_home(p, p->slots[end].hash) == end)
            break;
    memmove(&p->slots[at], &p->slots[at + 1],
            (end - at - 1) * sizeof *p->slots);
    p->slots[end - 1] = (struct table_slot){0};
}

/* Moves `run` entries with the same hash, or none: false.  All that is in the
 * new array is below them, so they go to the first gap from home on.  *tail is
 * behind the last ones that this step moved; 0: none yet. */
static bool
move_run(struct table *t, const struct table_slot *from, uint32_t run,
         size_t *tail)
{
    const size_t home = table_home(&t->now, from->hash);
    size_t at = home < *tail ? *tail : home;
    uint32_t i;

    while (t->now.slots[at].number != 0)
        at++;
    if (at + run - 1 + TABLE_SAME >= t->now.all)
        return false;
    for (i = 0; i < run; i++) {
        assert(t->now.slots[at + i].number == 0);
        t->now.slots[at + i] = from[i];
    }
    *tail = at + run;
    return true;
}

/* Returns pages of the old array to the kernel that are not read again. */
static void
release_old(struct table *t)
{
    const size_t below = table_home(&t->old, (uint32_t)t->moved_below);
    uint8_t *bytes = (uint8_t *)t->old.slots;

    if (below * sizeof *t->old.slots < t->given + PIECE)
        return;
    /* Fails only for addresses that are not mapped, and these are. */
    (void)madvise(bytes + t->given, PIECE, MADV_DONTNEED);
    t->given += PIECE;
}

/* Moves the next few entries. */
static void
move_step(struct table *t, size_t look)
{
    const struct table_part *old = &t->old;
    const size_t end = t->moved_at + look;
    size_t tail = 0;
    uint32_t moved = 0, run;
    bool gap = false; /* is the last one done with */

    while (t->moved_at < end) {
        const struct table_slot *slot = &old->slots[t->moved_at];

        if (slot->number == 0) {
            gap = true;
            if (++t->moved_at >= old->count)
                break;
            continue;
        }
        assert(slot->hash >= t->moved_below);
        /* Move all entries with one hash together, since a search looks for
         * them in one array.  There is always a free slot, unless an attacker
         * chose the hashes. */
        run = run_at(slot);
        if (moved + run > TABLE_STEP || !move_run(t, slot, run, &tail))
            break;
        moved += run;
        t->moved_below = (uint64_t)slot->hash + 1;
        t->moved_at += run;
        gap = false;
    }
    if (gap)
        t->moved_below = first_behind(old, t->moved_at - 1);
    assert(moved <= TABLE_STEP);
    if (moved > t->step_max)
        t->step_max = moved;
    if (t->moved_below == ALL_MOVED)
        finish_move(t);
    else
        release_old(t);
}

/* Makes room for one more entry, or continues a move; -ENOMEM. */
static int
make_room(struct table *t)
{
    const size_t count = t->now.count;

    /* Without memory for more it goes on until it is nearly full. */
    if (t->old.slots == NULL && t->entries >= want_grow(count) &&
        begin_move(t, count + count / 4) < 0 &&
        t->entries >= entries_max(count))
        return -ENOMEM;
    if (t->old.slots != NULL)
        move_step(t, LOOK_INSERT);
    return t->entries < entries_max(t->now.count) ? 0 : -ENOMEM;
}

int
table_insert(struct table *t, uint32_t hash, uint32_t number)
{
    int rc;

    assert(number != 0);
    rc = make_room(t);
    if (rc < 0)
        return rc;
    rc = put_slot(hash < t->moved_below ? &t->now : &t->old, hash, number);
    if (rc == 0)
        t->entries++;
    return rc;
}

void
table_remove(struct table *t, uint32_t hash, uint32_t number)
{
    size_t smaller = t->now.count / 2;

    take_out(hash < t->moved_below ? &t->now : &t->old, hash, number);
    t->entries--;
    if (smaller < t->least)
        smaller = t->least;
    /* Without memory for the way to a smaller one it stays as large. */
    if (t->old.slots == NULL && t->entries < t->now.count / 4 &&
        smaller < t->now.count)
        (void)begin_move(t, smaller);
    if (t->old.slots != NULL)
        move_step(t, LOOK_REMOVE);
}

/* Counts a sample of a part: entries, and those not at home. */
static void
count_sample(const struct table *t, const struct table_part *p,
             uint32_t seen[2])
{
    const size_t stride = p->count / 1024 + 1;
    size_t at;

    for (at = 0; at < p->count; at += stride) {
        const struct table_slot *slot = &p->slots[at];

        if (slot->number == 0 || table_part(t, slot->hash) != p)
            continue;
        seen[0]++;
        seen[1] += table_home(p, slot->hash) != at;
    }
}

uint32_t
table_displaced(const struct table *t)
{
    uint32_t seen[2] = {0, 0};

    count_sample(t, &t->now, seen);
    if (t->old.slots != NULL)
        count_sample(t, &t->old, seen);
    return seen[0] == 0 ? 0 : seen[1] * 1000 / seen[0];
}

/* tests/unit/test_arena.c - records in slabs: what they hold, what they cost,
 * and walks over them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <string.h>
#include <sys/mman.h>

#include "tests/lib/checks.h"
#include "tests/lib/random.h"
#include "writer/live/arena.h"

#define MIB UINT64_C(1048576)

struct fixture {
    struct budget budget;
    struct arena arena;
};

static struct fixture *
fixture_open(uint64_t memory)
{
    struct fixture *r = test_calloc(1, sizeof *r);

    r->budget.max = memory;
    assert_rc(arena_init(&r->arena, &r->budget), 0);
    return r;
}

static void
fixture_close(struct fixture *r)
{
    assert_true(arena_check(&r->arena));
    assert_int_equal(r->budget.used, r->arena.taken);
    arena_fini(&r->arena);
    assert_int_equal(r->budget.used, 0);
    test_free(r);
}

/* Bytes of the arena that are in memory, as the kernel sees it. */
static uint64_t
resident(const struct arena *a)
{
    const size_t bytes = (size_t)a->top * ARENA_SLAB;
    unsigned char *pages = test_calloc(1, bytes / 4096 + 1);
    uint64_t sum = 0;
    size_t i;

    assert_int_equal(mincore(a->base, bytes, pages), 0);
    for (i = 0; i < bytes / 4096; i++)
        sum += (pages[i] & 1u) * 4096;
    test_free(pages);
    return sum;
}

TEST(any_size_up_to_the_largest_can_be_had)
{
    struct fixture *r = fixture_open(2048 * MIB);
    size_t size;

    for (size = 1; size <= ARENA_RECORD_MAX;
         size += 1 + size / 64 + size / 8000 * 50) {
        const uint32_t a = arena_take(&r->arena, size);
        const uint32_t b = arena_take(&r->arena, size);

        assert_true(a != 0 && b != 0);
        memset(arena_at(&r->arena, a), 0xaa, size);
        memset(arena_at(&r->arena, b), 0xbb, size);
        assert_int_equal(((uint8_t *)arena_at(&r->arena, a))[size - 1], 0xaa);
        arena_give(&r->arena, a);
        assert_int_equal(*(uint8_t *)arena_at(&r->arena, b), 0xbb);
        if (size % 3 == 0)
            arena_give(&r->arena, b);
    }
    assert_int_not_equal(arena_take(&r->arena, ARENA_RECORD_MAX), 0);
    assert_true(arena_check(&r->arena));
    assert_true(resident(&r->arena) <= r->arena.taken);
    fixture_close(r);
}

/* ---- against a model ----------------------------------------------------- */

#define LIVE_MAX 400

struct record {
    uint32_t number;
    uint32_t size;
    uint8_t fill;
    bool old; /* was there when the walk began */
    bool met;
};

static void
take_one(struct fixture *r, struct random *random, struct record *record,
         uint32_t size_max)
{
    record->size = 1 + (uint32_t)random_below(random, size_max);
    record->fill = (uint8_t)random_next(random);
    record->number = arena_take(&r->arena, record->size);
    record->old = record->met = false;
    if (record->number != 0)
        memset(arena_at(&r->arena, record->number), record->fill, record->size);
}

static void
give_one(struct fixture *r, struct record *record)
{
    const uint8_t *at = arena_at(&r->arena, record->number);
    uint32_t i;

    for (i = 0; i < record->size; i++)
        assert_int_equal(at[i], record->fill);
    arena_give(&r->arena, record->number);
    record->number = 0;
}

/* Takes and gives at random. */
static void
churn(struct fixture *r, struct random *random, struct record *records,
      unsigned times)
{
    while (times-- > 0) {
        struct record *record = &records[random_below(random, LIVE_MAX)];
        static const uint32_t sizes[] = {40, 64, 3000, ARENA_RECORD_MAX};

        if (record->number != 0)
            give_one(r, record);
        else
            take_one(r, random, record, sizes[random_below(random, 4)]);
    }
}

TEST(records_keep_what_is_in_them)
{
    struct random random = {random_seed("arena records")};
    static struct record records[LIVE_MAX];
    struct fixture *r = fixture_open(12 * MIB);
    unsigned i;

    memset(records, 0, sizeof records);
    for (i = 0; i < 300; i++) {
        churn(r, &random, records, 40);
        assert_true(arena_check(&r->arena));
        assert_true(resident(&r->arena) <= r->arena.taken);
    }
    for (i = 0; i < LIVE_MAX; i++)
        if (records[i].number != 0)
            give_one(r, &records[i]);
    assert_int_equal(r->arena.records, 0);
    assert_true(r->arena.taken <= ARENA_WARM * ARENA_SLAB);
    fixture_close(r);
}

/* One walk with changes between its steps. */
static void
walk(struct fixture *r, struct random *random, struct record *records)
{
    uint32_t from = 0, steps, number, last = 0;
    unsigned i;

    for (i = 0; i < LIVE_MAX; i++) {
        records[i].old = records[i].number != 0;
        records[i].met = false;
    }
    do {
        steps = 1 + (uint32_t)random_below(random, 6);
        number = arena_next(&r->arena, &from, &steps);
        for (i = 0; number != 0 && i < LIVE_MAX; i++) {
            if (records[i].number != number)
                continue;
            assert_true(number > last && !records[i].met);
            records[i].met = true;
            last = number;
            break;
        }
        assert_true(i < LIVE_MAX); /* what is met is in use */
        churn(r, random, records, 2);
    } while (number != 0 || steps == 0);
    for (i = 0; i < LIVE_MAX; i++)
        assert_true(!records[i].old || records[i].number == 0 ||
                    records[i].met);
}

TEST(a_walk_meets_all_that_stay_once_whatever_changes)
{
    struct random random = {random_seed("arena walk")};
    static struct record records[LIVE_MAX];
    struct fixture *r = fixture_open(64 * MIB);
    unsigned i;

    memset(records, 0, sizeof records);
    for (i = 0; i < 50; i++) {
        churn(r, &random, records, 50);
        walk(r, &random, records);
    }
    fixture_close(r);
}

TEST(a_walk_looks_at_no_more_places_than_it_may)
{
    struct fixture *r = fixture_open(64 * MIB);
    static uint32_t records[20000];
    uint32_t from = 0, steps, calls = 0, i;

    /* Of twenty thousand only the last remains. */
    for (i = 0; i < 20000; i++) {
        records[i] = arena_take(&r->arena, 46);
        assert_int_not_equal(records[i], 0);
    }
    for (i = 0; i < 19999; i++)
        arena_give(&r->arena, records[i]);
    do {
        steps = 1;
        calls++;
    } while (arena_next(&r->arena, &from, &steps) == 0 && steps == 0);
    assert_true(calls < 20000 / 64);
    assert_int_equal(from, records[19999] + 1);
    fixture_close(r);
}

/* ---- memory -------------------------------------------------------------- */

TEST(over_the_budget_nothing_is_taken_and_nothing_changes)
{
    struct fixture *r = fixture_open(MIB);
    uint32_t count, record = 0, last = 0;
    uint64_t used;

    for (count = 0; (record = arena_take(&r->arena, 46)) != 0; count++)
        last = record;
    used = r->budget.used;

    assert_true(count >= MIB * 95 / 100 / 48);
    assert_true(used <= MIB && resident(&r->arena) <= used);
    assert_int_equal(arena_take(&r->arena, 46), 0);
    assert_int_equal(arena_take(&r->arena, 100000), 0);
    assert_int_equal(r->budget.used, used);
    assert_int_equal(r->arena.records, count);
    assert_true(arena_check(&r->arena));

    /* One that is given back can be had again. */
    arena_give(&r->arena, last);
    assert_int_equal(arena_take(&r->arena, 46), last);
    fixture_close(r);
}

TEST(empty_slabs_give_way_when_the_budget_is_used_up)
{
    const uint64_t memory = 2 * ARENA_SLAB + 6 * 4096;
    struct fixture *r = fixture_open(memory);
    static uint32_t records[20000];
    uint32_t count, i;

    assert_int_not_equal(arena_take(&r->arena, 24), 0);
    for (count = 0;; count++) {
        records[count] = arena_take(&r->arena, 100);
        if (records[count] == 0)
            break;
    }
    for (i = 0; i < count; i++)
        arena_give(&r->arena, records[i]);
    assert_int_equal(r->arena.warm_count, ARENA_WARM);

    /* First in a slab that is open already, then in those that are kept. */
    for (count = 1; arena_take(&r->arena, 24) != 0;)
        count++;
    assert_true(count > memory / 24 * 97 / 100);
    assert_true(arena_check(&r->arena));
    fixture_close(r);
}

TEST(memory_goes_back_to_the_kernel)
{
    struct fixture *r = fixture_open(64 * MIB);
    static uint32_t records[200000];
    uint32_t i;

    for (i = 0; i < 200000; i++) {
        records[i] = arena_take(&r->arena, 46);
        assert_int_not_equal(records[i], 0);
    }
    assert_true(r->arena.taken >= 200000 * 48);
    assert_true(r->arena.taken <= 200000 * 49);
    for (i = 0; i < 200000; i++) {
        arena_give(&r->arena, records[UINT64_C(77773) * i % 200000]);
        if (i % 1000 == 0)
            assert_true(arena_check(&r->arena));
    }

    assert_true(r->arena.taken <= ARENA_WARM * ARENA_SLAB);
    assert_true(resident(&r->arena) <= ARENA_WARM * ARENA_SLAB);
    fixture_close(r);
}

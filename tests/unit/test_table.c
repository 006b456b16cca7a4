/* tests/unit/test_table.c - the index: what is in it is found while it grows
 * and shrinks, in small steps and bounded memory. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/lib/checks.h"
#include "tests/lib/random.h"
#include "writer/live/table.h"

#define MIB UINT64_C(1048576)

struct fixture {
    struct budget budget;
    struct table table;
};

static struct fixture *
fixture_open(uint64_t memory, size_t slots)
{
    struct fixture *r = test_calloc(1, sizeof *r);

    r->budget.max = memory;
    assert_rc(table_init(&r->table, &r->budget, slots), 0);
    return r;
}

static void
fixture_close(struct fixture *r)
{
    assert_true(table_check(&r->table));
    assert_int_equal(r->budget.used, r->table.taken);
    table_fini(&r->table);
    assert_int_equal(r->budget.used, 0);
    test_free(r);
}

static bool
has(const struct table *t, uint32_t hash, uint32_t number)
{
    struct table_at at;
    uint32_t n;

    for (n = table_find(t, hash, &at); n != 0; n = table_more(t, &at, hash))
        if (n == number)
            return true;
    return false;
}

/* How many entries a hash has. */
static uint32_t
run(const struct table *t, uint32_t hash)
{
    struct table_at at;
    uint32_t n, count = 0;

    for (n = table_find(t, hash, &at); n != 0; n = table_more(t, &at, hash))
        count++;
    return count;
}

/* A hash for each number, spread as real ones are. */
static uint32_t
spread(uint32_t number)
{
    struct random r = {number};

    return (uint32_t)random_next(&r);
}

static uint64_t
resident(const struct table_part *p)
{
    unsigned char *pages;
    uint64_t sum = 0;
    size_t i;

    if (p->slots == NULL)
        return 0;
    pages = test_calloc(1, p->bytes / 4096);
    assert_int_equal(mincore(p->slots, p->bytes, pages), 0);
    for (i = 0; i < p->bytes / 4096; i++)
        sum += (pages[i] & 1u) * 4096;
    test_free(pages);
    return sum;
}

/* ---- against a model ----------------------------------------------------- */

#define NUMBERS 3000

struct model {
    uint32_t hash[NUMBERS];
    bool in[NUMBERS];
    size_t count;
};

/* Hashes of one kind: spread, in few values, all high, all low. */
static uint32_t
model_hash(struct random *random, unsigned kind)
{
    const uint32_t any = (uint32_t)random_next(random);

    switch (kind % 4) {
    case 0:
        return any;
    case 1:
        return any % 500 * 8589934u;
    case 2:
        return UINT32_MAX - any % 400;
    default:
        return any % 400;
    }
}

static void
model_toggle(struct fixture *r, struct model *m, struct random *random,
             unsigned kind, unsigned insert_percent)
{
    const uint32_t n = (uint32_t)random_below(random, NUMBERS);
    const bool insert = random_chance(random, insert_percent);
    int rc;

    if (insert == m->in[n])
        return;
    if (!insert) {
        table_remove(&r->table, m->hash[n], n + 1);
        m->in[n] = false;
        m->count--;
        return;
    }
    m->hash[n] = model_hash(random, kind);
    rc = table_insert(&r->table, m->hash[n], n + 1);
    if (kind % 4 == 2 && rc == -ENOMEM)
        return; /* no room at that end */
    assert_rc(rc, 0);
    m->in[n] = true;
    m->count++;
}

static void
model_compare(const struct fixture *r, const struct model *m)
{
    uint32_t n;

    assert_int_equal(r->table.entries, m->count);
    assert_true(table_check(&r->table));
    for (n = 0; n < NUMBERS; n++)
        if (m->in[n])
            assert_true(has(&r->table, m->hash[n], n + 1));
}

TEST(it_has_what_the_model_has)
{
    struct random random = {random_seed("table model")};
    static struct model m;
    unsigned round, i;

    for (round = 0; round < 8; round++) {
        struct fixture *r = fixture_open(64 * MIB, 16);

        memset(&m, 0, sizeof m);
        /* It fills, stays, empties, and is filled again. */
        for (i = 0; i < 24000; i++) {
            model_toggle(r, &m, &random, round,
                         i < 8000    ? 90
                         : i < 12000 ? 50
                         : i < 20000 ? 3
                                     : 80);
            if (i % 397 == 0)
                model_compare(r, &m);
        }
        model_compare(r, &m);
        assert_true(r->table.grown > 3);
        fixture_close(r);
    }
}

TEST(it_grows_in_small_steps_and_bounded_memory)
{
    struct fixture *r = fixture_open(64 * MIB, 1000);
    uint32_t n, moments = 0;
    uint64_t grown = 0;
    size_t moved = 0, most = 0;

    for (n = 1; n <= 1200000; n++) {
        assert_rc(table_insert(&r->table, spread(n), n), 0);
        moments += r->table.old.slots != NULL;
        if (r->table.old.moved > moved && r->table.old.moved - moved > most)
            most = r->table.old.moved - moved;
        moved = r->table.old.moved;
        /* 8 bytes * 1.25 / (13 / 16), and pieces of 256 KiB. */
        assert_true(r->table.taken <=
                    n * UINT64_C(1231) / 100 + 2 * 262144 + 40000);
        if (n % 20000 == 0 || grown != r->table.grown)
            assert_true(resident(&r->table.now) + resident(&r->table.old) <=
                        r->table.taken);
        grown = r->table.grown;
    }
    assert_true(table_check(&r->table));
    for (n = 1; n <= 1200000; n++)
        assert_true(has(&r->table, spread(n), n));
    assert_true(grown > 20);
    assert_true(moments > 10000);
    assert_int_equal(most, TABLE_STEP);
    fixture_close(r);
}

/* ---- refusals ------------------------------------------------------------ */

TEST(any_number_may_have_one_hash)
{
    static const uint32_t hashes[] = {0, 77777777, UINT32_MAX};
    struct fixture *r = fixture_open(64 * MIB, 200);
    uint32_t n, i;

    for (i = 0; i < 3; i++)
        for (n = 1; n <= 40; n++)
            assert_rc(table_insert(&r->table, hashes[i], n), 0);
    for (n = 100; n < 2000; n++) {
        assert_rc(table_insert(&r->table, spread(n), n), 0);
        for (i = 0; i < 3; i++)
            assert_int_equal(run(&r->table, hashes[i]), 40);
    }
    assert_true(r->table.grown > 5);
    for (n = 1; n <= 40; n++)
        table_remove(&r->table, hashes[1], n);
    assert_int_equal(run(&r->table, hashes[1]), 0);
    fixture_close(r);
}

/* As many at one end as fit in the large array, but not in the small one. */
TEST(what_does_not_fit_when_it_shrinks_stays)
{
    struct fixture *r = fixture_open(64 * MIB, 40000);
    const uint32_t high = 7500;
    uint32_t n;

    r->table.least = 16;
    for (n = 1; n <= high; n++)
        assert_rc(table_insert(&r->table, UINT32_MAX - (n - 1) * 107374, n), 0);
    /* Time enough to move them all. */
    for (n = 0; n < 5000; n++) {
        assert_rc(table_insert(&r->table, 1, high + 1), 0);
        table_remove(&r->table, 1, high + 1);
    }
    assert_non_null(r->table.old.slots);
    assert_true(table_check(&r->table));
    for (n = 1; n <= high; n++)
        assert_true(has(&r->table, UINT32_MAX - (n - 1) * 107374, n));

    for (n = 1; n <= high; n++)
        table_remove(&r->table, UINT32_MAX - (n - 1) * 107374, n);
    assert_int_equal(r->table.entries, 0);
    fixture_close(r);
}

/* Fills it up; the number of entries. */
static uint32_t
fill(struct fixture *r)
{
    uint32_t n = 1;

    while (table_insert(&r->table, spread(n), n) == 0)
        n++;
    return n - 1;
}

TEST(address_space_that_is_refused_is_like_a_budget)
{
    struct fixture *r;
    struct rlimit limit, none;
    uint32_t count;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    test_skip("a sanitizer needs address space of its own");
#endif
    r = fixture_open(64 * MIB, 10000);
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    none = limit;
    none.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    count = fill(r);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);

    assert_int_equal(count, 10000 - 10000 / 16);
    assert_int_equal(r->budget.used, r->table.taken);
    assert_rc(table_insert(&r->table, 5, 5), 0);
    fixture_close(r);
}

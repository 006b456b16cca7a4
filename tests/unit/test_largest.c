/* tests/unit/test_largest.c - the N largest, against sorting them all. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/client/cmd/top_n.h"
#include "tests/lib/fault.h"
#include "tests/lib/random.h"

#define MANY 2000

struct offered {
    uint32_t current;
    char name[16];
};

static int
compare(const void *a, const void *b)
{
    const struct offered *x = a, *y = b;

    if (x->current != y->current)
        return x->current > y->current ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Offers MANY with few different numbers, so that names decide. */
static void
check(struct random *r, size_t max)
{
    static struct offered all[MANY];
    struct top_n l;
    size_t want = max < MANY ? max : MANY;

    assert_rc(top_n_init(&l, max), 0);
    for (size_t i = 0; i < MANY; i++) {
        all[i].current = (uint32_t)random_below(r, 50) - 25;
        snprintf(all[i].name, sizeof all[i].name, "%zu", i);
        assert_rc(top_n_offer(&l, all[i].name, strlen(all[i].name),
                              all[i].current, 7),
                  0);
    }
    qsort(all, MANY, sizeof all[0], compare);
    top_n_sort(&l);

    assert_int_equal(l.count, want);
    for (size_t i = 0; i < want; i++) {
        assert_int_equal(l.entries[i].current, all[i].current);
        assert_int_equal(l.entries[i].maximum, 7);
        assert_int_equal(l.entries[i].size, strlen(all[i].name));
        assert_memory_equal(l.entries[i].name, all[i].name, l.entries[i].size);
    }
    top_n_fini(&l);
}

static void
the_largest_come_in_order_and_ties_by_name(void **state)
{
    struct random r = {random_seed("test_largest")};

    (void)state; /* needs none */
    check(&r, 1);
    check(&r, 2);
    check(&r, 17);
    check(&r, 100);
    check(&r, MANY);
    check(&r, 2 * MANY);
}

static void
of_none_there_are_none(void **state)
{
    struct top_n l;

    (void)state; /* needs none */
    assert_rc(top_n_init(&l, 3), 0);
    top_n_sort(&l);
    assert_int_equal(l.count, 0);
    top_n_fini(&l);
}

static void
a_shorter_name_comes_before_those_it_begins(void **state)
{
    struct top_n l;

    (void)state; /* needs none */
    assert_rc(top_n_init(&l, 2), 0);
    assert_rc(top_n_offer(&l, "a\0b", 3, 1, 1), 0);
    assert_rc(top_n_offer(&l, "ab", 2, 1, 1), 0);
    assert_rc(top_n_offer(&l, "a", 1, 1, 1), 0);
    top_n_sort(&l);
    assert_int_equal(l.entries[0].size, 1);
    assert_int_equal(l.entries[1].size, 3);
    top_n_fini(&l);
}

static void
without_memory_nothing_changes(void **state)
{
    struct top_n l;

    (void)state; /* needs none */
    assert_rc(top_n_init(&l, 1), 0);
    assert_rc(top_n_offer(&l, "a", 1, 1, 1), 0);
    fault_inject("memory", 1, ENOMEM);
    assert_rc(top_n_offer(&l, "b", 1, 2, 2), -ENOMEM);
    fault_clear();
    assert_int_equal(l.count, 1);
    assert_int_equal(l.entries[0].current, 1);
    top_n_fini(&l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_largest_come_in_order_and_ties_by_name),
    cmocka_unit_test(of_none_there_are_none),
    cmocka_unit_test(a_shorter_name_comes_before_those_it_begins),
    cmocka_unit_test(without_memory_nothing_changes),
};
TEST_MAIN(tests)

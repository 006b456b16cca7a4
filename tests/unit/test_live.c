/* tests/unit/test_live.c - live objects: against a model, at their limits, and
 * when memory runs out. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/checks.h"
#include "tests/lib/random.h"
#include "writer/live/live.h"

#define HOLDERS   12
#define MODEL_MAX 48 /* names of the model */
#define NAME_MAX_ 300
#define T0        UINT64_C(1700000000000) /* ms; a boundary of 10, 100 s */

struct fixture {
    struct budget budget;
    struct live live;
};

static struct live_options
fixture_options(struct fixture *r, enum live_kind kind)
{
    return (struct live_options){.kind = kind,
                                 .budget = &r->budget,
                                 .places = 16,
                                 .holders = HOLDERS,
                                 .window_s = 10};
}

static struct fixture *
fixture_open(enum live_kind kind, uint64_t memory)
{
    struct fixture *r = test_calloc(1, sizeof *r);
    struct live_options o;

    r->budget.max = memory;
    o = fixture_options(r, kind);
    assert_rc(live_init(&r->live, &o), 0);
    (void)live_clock(&r->live, T0); /* the first sweep finds nothing */
    return r;
}

static void
fixture_close(struct fixture *r)
{
    assert_true(live_check(&r->live));
    live_fini(&r->live);
    assert_int_equal(r->budget.used, 0);
    test_free(r);
}

static struct frame_ask
ask_for(const void *name, size_t size, uint32_t resources, uint32_t bound)
{
    return (struct frame_ask){.resources = resources,
                              .bound = bound,
                              .name_size = (uint16_t)size,
                              .name = name};
}

static enum frame_status
acquire_name(struct fixture *r, uint32_t holder, const char *name,
             uint32_t resources, uint32_t bound)
{
    const struct frame_ask a = ask_for(name, strlen(name), resources, bound);

    return live_acquire(&r->live, holder,
                        live_hash(&r->live, a.name, a.name_size), &a);
}

static enum frame_status
release_name(struct fixture *r, uint32_t holder, const char *name,
             uint32_t resources)
{
    const struct frame_ask a = ask_for(name, strlen(name), resources, 0);

    return live_release(&r->live, holder,
                        live_hash(&r->live, a.name, a.name_size), &a);
}

/* What live_get() says, or -1: not found. */
static int64_t
get_name(struct fixture *r, const char *name)
{
    const uint8_t *bytes = (const uint8_t *)name;
    const size_t size = strlen(name);
    uint32_t value;

    if (live_get(&r->live, live_hash(&r->live, bytes, size), bytes, size,
                 &value) != FRAME_OK)
        return -1;
    return value;
}

/* ---- the model ----------------------------------------------------------- */

struct model_object {
    uint8_t name[NAME_MAX_];
    size_t name_size;
    bool exists;
    uint64_t held[HOLDERS];
    uint64_t maximum; /* or initial */
    uint64_t window;
    bool dumped;
};

struct model {
    struct random random;
    enum live_kind kind;
    uint64_t now_ms;
    bool scarce; /* memory may run out */
    uint64_t created;
    uint64_t no_memory; /* times it did */
    size_t count;
    struct model_object objects[MODEL_MAX];
};

static uint64_t
model_current(const struct model_object *o)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < HOLDERS; i++)
        sum += o->held[i];
    return sum;
}

static uint64_t
model_window(const struct model *m)
{
    return m->kind == LIVE_COUNTER ? m->now_ms / 10000 : 0;
}

static void
model_change(const struct model *m, struct model_object *o)
{
    if (o->window < model_window(m))
        o->maximum = model_current(o);
    o->window = model_window(m);
}

static enum frame_status
model_acquire(struct model *m, struct model_object *o, uint32_t holder,
              uint32_t resources, uint32_t bound)
{
    const uint64_t limit =
        m->kind == LIVE_COUNTER || !o->exists ? bound : o->maximum;

    if (model_current(o) + resources > limit)
        return FRAME_NOT_AVAILABLE;
    if (!o->exists) {
        m->created++;
        o->exists = true;
        o->maximum = m->kind == LIVE_COUNTER ? 0 : bound;
        o->window = model_window(m);
    }
    model_change(m, o);
    o->held[holder] += resources;
    if (model_current(o) > o->maximum)
        o->maximum = model_current(o);
    return FRAME_OK;
}

static enum frame_status
model_release(struct model *m, struct model_object *o, uint32_t holder,
              uint64_t resources)
{
    if (!o->exists)
        return FRAME_NOT_FOUND;
    if (resources > o->held[holder])
        return FRAME_NOT_ACQUIRED;
    model_change(m, o);
    o->held[holder] -= resources;
    return FRAME_OK;
}

static void
model_init(struct model *m, enum live_kind kind, uint64_t seed)
{
    memset(m, 0, sizeof *m);
    m->random.state = seed;
    m->kind = kind;
    m->now_ms = T0;
    m->count = 1 + random_below(&m->random, MODEL_MAX);
    for (size_t i = 0; i < m->count; i++) {
        struct model_object *o = &m->objects[i];

        o->name_size = 1 + random_below(&m->random, i % 2 ? 30 : NAME_MAX_);
        for (size_t j = 0; j < o->name_size; j++)
            o->name[j] = (uint8_t)random_next(&m->random);
        /* No two alike. */
        o->name[0] = (uint8_t)i;
    }
}

/* Amounts that are small, or at the ends of what 32 bits hold. */
static uint32_t
model_amount(struct model *m)
{
    static const uint32_t ends[] = {1, 2, UINT32_MAX, UINT32_MAX - 1,
                                    UINT32_C(1) << 31};

    if (random_chance(&m->random, 15))
        return ends[random_below(&m->random, 5)];
    return 1 + (uint32_t)random_below(&m->random, 9);
}

static void
do_acquire(struct fixture *r, struct model *m, struct model_object *o,
           uint32_t holder)
{
    uint32_t resources = model_amount(m), bound = model_amount(m) * 8u;
    enum frame_status status;
    struct frame_ask a;

    if (bound < resources)
        bound = random_chance(&m->random, 50) ? resources : UINT32_MAX;
    a = ask_for(o->name, o->name_size, resources, bound);
    status = live_acquire(&r->live, holder,
                          live_hash(&r->live, o->name, o->name_size), &a);
    if (m->scarce && status == FRAME_NO_MEMORY) {
        /* And nothing has changed. */
        m->no_memory++;
        assert_true(live_check(&r->live));
        return;
    }
    assert_int_equal(status, model_acquire(m, o, holder, resources, bound));
}

static void
do_release(struct fixture *r, struct model *m, struct model_object *o,
           uint32_t holder)
{
    uint64_t resources = model_amount(m) % 10;
    enum frame_status expected;
    struct frame_ask a;

    if (random_chance(&m->random, 50))
        resources = o->held[holder];
    a = ask_for(o->name, o->name_size, (uint32_t)resources, 0);
    expected = model_release(m, o, holder, resources);
    assert_int_equal(live_release(&r->live, holder,
                                  live_hash(&r->live, o->name, o->name_size),
                                  &a),
                     expected);
}

static void
do_drop(struct fixture *r, struct model *m, uint32_t holder)
{
    while (
        !live_drop(&r->live, holder, 1 + (uint32_t)random_below(&m->random, 5)))
        ;
    for (size_t i = 0; i < m->count; i++) {
        struct model_object *o = &m->objects[i];

        if (o->held[holder] > 0)
            (void)model_release(m, o, holder, o->held[holder]);
    }
}

static void
do_sweep(struct fixture *r, struct model *m)
{
    while (!live_sweep(&r->live, 1 + (uint32_t)random_below(&m->random, 20)))
        ;
    for (size_t i = 0; i < m->count; i++) {
        struct model_object *o = &m->objects[i];

        if (model_current(o) > 0)
            continue;
        if (m->kind == LIVE_SEMAPHORE || o->window != model_window(m))
            o->exists = false;
    }
}

static void
do_clock(struct fixture *r, struct model *m)
{
    /* Now and then it is set back. */
    if (random_chance(&m->random, 20))
        m->now_ms -= random_below(&m->random, 15000);
    else
        m->now_ms += random_below(&m->random, 15000);
    if (live_clock(&r->live, m->now_ms) && random_chance(&m->random, 80))
        do_sweep(r, m);
}

static struct model_object *
model_find(struct model *m, const uint8_t *name, size_t size)
{
    assert_true(size > 0 && name[0] < m->count);
    assert_int_equal(m->objects[name[0]].name_size, size);
    assert_memory_equal(m->objects[name[0]].name, name, size);
    return &m->objects[name[0]];
}

/* Everything that can be seen from outside. */
static void
compare_model(struct fixture *r, struct model *m)
{
    struct live_walk walk = {.steps = 3};
    struct live_record record;
    size_t exist = 0;
    uint32_t value;
    int rc;

    while ((rc = live_next(&r->live, &walk, &record)) != 0) {
        struct model_object *o;

        if (rc == -EAGAIN) {
            walk.steps = 3;
            continue;
        }
        o = model_find(m, record.name, record.name_size);
        assert_true(o->exists && !o->dumped);
        o->dumped = true;
        assert_int_equal(record.current, model_current(o));
        assert_int_equal(record.maximum, o->window < model_window(m)
                                             ? model_current(o)
                                             : o->maximum);
    }
    for (size_t i = 0; i < m->count; i++) {
        struct model_object *o = &m->objects[i];
        const enum frame_status status =
            live_get(&r->live, live_hash(&r->live, o->name, o->name_size),
                     o->name, o->name_size, &value);

        assert_int_equal(o->dumped, o->exists);
        assert_int_equal(status, o->exists ? FRAME_OK : FRAME_NOT_FOUND);
        if (o->exists && m->kind == LIVE_COUNTER)
            assert_int_equal(value, model_current(o));
        else if (o->exists)
            assert_int_equal(value, o->maximum - model_current(o));
        exist += o->exists;
        o->dumped = false;
    }
    assert_int_equal(r->live.count, exist);
    assert_int_equal(r->live.stats.created, m->created);
}

static void
do_something(struct fixture *r, struct model *m)
{
    struct model_object *o = &m->objects[random_below(&m->random, m->count)];
    const uint32_t holder = (uint32_t)random_below(&m->random, HOLDERS);
    const uint64_t dice = random_below(&m->random, 1000);

    if (dice < 480)
        do_acquire(r, m, o, holder);
    else if (dice < 940)
        do_release(r, m, o, holder);
    else if (dice < 960)
        do_drop(r, m, holder);
    else if (dice < 975)
        do_clock(r, m);
    else
        do_sweep(r, m);
}

/* Does random things, `steps` of them; `m` has been made for the fixture. */
static void
run_model(struct fixture *r, struct model *m, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        do_something(r, m);
        if (i % 8 == 0)
            assert_true(live_check(&r->live));
        if (i % 32 == 0)
            compare_model(r, m);
    }
    for (unsigned i = 0; i < HOLDERS; i++)
        do_drop(r, m, i);
    compare_model(r, m);
    for (unsigned i = 0; i < m->count; i++)
        assert_int_equal(model_current(&m->objects[i]), 0);
    fixture_close(r);
}

TEST(counters_and_semaphores_do_what_the_model_does)
{
    const uint64_t seed = random_seed("live model");
    static struct model m;

    for (unsigned round = 0; round < 40; round++) {
        const enum live_kind kind = round % 2 ? LIVE_SEMAPHORE : LIVE_COUNTER;

        model_init(&m, kind, seed + round);
        run_model(fixture_open(kind, 16 << 20), &m, 3000);
    }
}

/* Each page more of memory lets one more step succeed; what comes after is
 * refused, whatever it needs memory for. */
TEST(without_memory_an_acquire_is_refused_and_nothing_changes)
{
    const uint64_t seed = random_seed("live without memory");
    static struct model m;

    for (unsigned pages = 0; pages < 16; pages++) {
        struct fixture *r = fixture_open(LIVE_COUNTER, 16 << 20);

        r->budget.max = r->budget.used + pages * 4096;
        model_init(&m, LIVE_COUNTER, seed + pages);
        m.scarce = true;
        run_model(r, &m, 2000);
        assert_true(pages > 0 || m.no_memory > 0);
    }
}

/* There is memory for one holding more, and a spill needs two. */
TEST(half_a_spill_is_undone)
{
    struct fixture *r = fixture_open(LIVE_COUNTER, 1 << 20);
    char name[2] = "A";
    unsigned i;

    for (i = 0; i < 80; i++) {
        name[0] = (char)('A' + i);
        assert_int_equal(acquire_name(r, 0, name, 1, 9), FRAME_OK);
    }
    /* Three holders of one, two of the others. */
    assert_int_equal(acquire_name(r, 1, "A", 1, 9), FRAME_OK);
    assert_int_equal(acquire_name(r, 2, "A", 1, 9), FRAME_OK);
    r->budget.max = r->budget.used;
    for (i = 1; i < 80; i++) {
        name[0] = (char)('A' + i);
        if (acquire_name(r, 1, name, 1, 9) != FRAME_OK)
            break;
    }
    assert_in_range(i, 1, 79);
    assert_int_equal(r->live.holdings.records % 2, 1);
    assert_int_equal(acquire_name(r, 1, name, 1, 9), FRAME_NO_MEMORY);
    assert_int_equal(get_name(r, name), 1);
    assert_true(live_check(&r->live));
    /* There was room for one. */
    assert_int_equal(acquire_name(r, 3, "A", 1, 9), FRAME_OK);
    assert_int_equal(acquire_name(r, 4, "A", 1, 9), FRAME_NO_MEMORY);
    fixture_close(r);
}

/* Long: then it is not the index that there is no memory for. */
static const char *
long_name(uint32_t number)
{
    static char name[256];

    (void)snprintf(name, sizeof name, "name:%0200u", number);
    return name;
}

/* Takes 1 of name after name until there is no memory; how many it got. */
static uint32_t
fill_names(struct fixture *r, uint32_t holder, uint32_t from)
{
    uint32_t n = from;

    while (acquire_name(r, holder, long_name(n), 1, 9) == FRAME_OK)
        n++;
    return n - from;
}

TEST(names_leave_memory_for_more_holders)
{
    struct fixture *r = fixture_open(LIVE_COUNTER, 4 << 20);

    assert_in_range(fill_names(r, 0, 0), 10000, 20000);
    assert_int_equal(r->live.stats.no_memory, 1);
    for (uint32_t i = 0; i < 500; i++)
        assert_int_equal(acquire_name(r, 1, long_name(i), 1, 9), FRAME_OK);
    assert_int_equal(acquire_name(r, 2, "another", 1, 9), FRAME_NO_MEMORY);
    assert_int_equal(r->budget.max, 4 << 20);
    assert_int_equal(r->live.stats.no_memory, 2);
    fixture_close(r);
}

TEST(idle_semaphores_make_room_when_it_is_short)
{
    struct fixture *r = fixture_open(LIVE_SEMAPHORE, 1 << 20);
    const uint32_t count = fill_names(r, 0, 0);

    while (!live_sweep(&r->live, 1000))
        ;
    assert_false(live_clock(&r->live, T0 + 1)); /* nothing is idle */
    assert_int_equal(release_name(r, 0, long_name(7), 1), FRAME_OK);
    assert_int_equal(r->live.idle, 1);
    assert_false(live_clock(&r->live, T0 + 2)); /* nothing is refused */
    assert_true(live_drop(&r->live, 0, UINT32_MAX));
    assert_int_equal(r->live.idle, count);

    assert_true(fill_names(r, 1, count) < count);
    assert_true(live_clock(&r->live, T0 + 3));
    while (!live_sweep(&r->live, 1000))
        ;
    assert_false(live_clock(&r->live, T0 + 4));
    assert_int_equal(r->live.idle, 0);
    assert_true(fill_names(r, 1, 2 * count) > count / 2);
    fixture_close(r);
}

/* What an idle counter was is there to be asked for until its window ends. */
TEST(idle_counters_stay_when_memory_is_short)
{
    struct fixture *r = fixture_open(LIVE_COUNTER, 1 << 20);
    const uint32_t count = fill_names(r, 0, 0);

    while (!live_sweep(&r->live, 1000))
        ;
    assert_true(live_drop(&r->live, 0, UINT32_MAX));
    assert_int_equal(r->live.idle, count);
    assert_int_equal(fill_names(r, 0, count), 0);
    assert_false(live_clock(&r->live, T0 + 9999));
    assert_int_equal(get_name(r, long_name(0)), 0);
    /* Itself it can be taken again, by any. */
    assert_int_equal(acquire_name(r, 1, long_name(0), 1, 1), FRAME_OK);
    assert_int_equal(r->live.idle, count - 1);

    assert_true(live_clock(&r->live, T0 + 10000));
    while (!live_sweep(&r->live, 1000))
        ;
    assert_int_equal(r->live.idle, 0);
    assert_true(fill_names(r, 0, count) > count / 2);
    fixture_close(r);
}

/* ---- windows and sweeps -------------------------------------------------- */

TEST(a_sweep_is_due_at_start_and_after_each_boundary)
{
    for (int kind = LIVE_COUNTER; kind <= LIVE_SEMAPHORE; kind++) {
        struct fixture *r = fixture_open((enum live_kind)kind, 1 << 20);
        struct live *l = &r->live;

        assert_true(live_clock(l, T0));
        assert_true(live_sweep(l, 1000));
        assert_int_equal(l->stats.swept, 1);
        assert_false(live_clock(l, T0));
        assert_false(live_clock(l, T0 + 9999));
        assert_true(live_clock(l, T0 + 10000));
        /* Until it is through. */
        assert_int_equal(acquire_name(r, 0, "a", 1, 5), FRAME_OK);
        assert_int_equal(acquire_name(r, 0, "b", 1, 5), FRAME_OK);
        assert_false(live_sweep(l, 1));
        assert_true(live_clock(l, T0 + 10001));
        assert_true(live_sweep(l, 1000));
        assert_false(live_clock(l, T0 + 10002));
        /* Set back by an hour: rather one too many than none for an hour. */
        assert_true(live_clock(l, T0 - 3600000));
        assert_true(live_sweep(l, 1000));
        assert_false(live_clock(l, T0 - 3600000 + 9999));
        assert_int_equal(l->stats.swept, 3);
        fixture_close(r);
    }
}

TEST(a_name_acquired_during_a_sweep_is_not_lost)
{
    struct fixture *r = fixture_open(LIVE_COUNTER, 1 << 20);
    char name[16];
    int i;

    for (i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        assert_int_equal(acquire_name(r, 0, name, 1, 1), FRAME_OK);
    }
    assert_true(live_drop(&r->live, 0, 1000));
    (void)live_clock(&r->live, T0 + 10000);
    for (i = 0; !live_sweep(&r->live, 3); i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        assert_int_equal(acquire_name(r, 1, name, 1, 1), FRAME_OK);
        (void)snprintf(name, sizeof name, "%d", 999 - i);
        assert_int_equal(acquire_name(r, 2, name, 1, 1),
                         999 - i > i ? FRAME_OK : FRAME_NOT_AVAILABLE);
    }
    assert_true(i > 200);
    for (; i-- > 0;) {
        (void)snprintf(name, sizeof name, "%d", i);
        assert_int_equal(get_name(r, name), 1);
    }
    fixture_close(r);
}

/* ---- many ---------------------------------------------------------------- */

/* 20 bytes, as the names of the memory target. */
static struct frame_ask
ask_numbered(char name[24], uint32_t number)
{
    (void)snprintf(name, 24, "name-%015u", number);
    return ask_for(name, 20, 1, 10);
}

static enum frame_status
acquire_numbered(struct live *l, uint32_t holder, uint32_t number)
{
    char name[24];
    const struct frame_ask a = ask_numbered(name, number);

    return live_acquire(l, holder, live_hash(l, a.name, 20), &a);
}

static int
open_many(struct fixture *r, enum live_kind kind, uint64_t memory)
{
    struct live_options o = fixture_options(r, kind);

    r->budget.max = memory;
    o.places = 500000;
    return live_init(&r->live, &o);
}

TEST(a_held_name_of_20_bytes_takes_64_at_most)
{
    struct fixture *r = test_calloc(1, sizeof *r);

    assert_rc(open_many(r, LIVE_COUNTER, 256 << 20), 0);
    for (uint32_t n = 0; n < 1100000; n++) {
        assert_int_equal(acquire_numbered(&r->live, 0, n), FRAME_OK);
        if (n + 1 >= 500000)
            assert_true(live_memory(&r->live) <= (n + 1) * UINT64_C(64));
    }
    assert_int_equal(live_memory(&r->live), r->budget.used);
    fixture_close(r);
}

TEST(what_a_million_names_took_is_given_back)
{
    struct fixture *r = test_calloc(1, sizeof *r);
    uint64_t empty;
    uint32_t n, calls = 0;

    assert_rc(open_many(r, LIVE_COUNTER, 256 << 20), 0);
    (void)live_clock(&r->live, T0);
    empty = live_memory(&r->live);
    for (n = 0; n < 1000000; n++)
        assert_int_equal(acquire_numbered(&r->live, 0, n), FRAME_OK);
    assert_true(live_check(&r->live));

    /* Step by step: no call does more than it may. */
    for (n = 0; !live_drop(&r->live, 0, 1000); n++)
        assert_false(n > 1000);
    assert_int_equal(n, 999);
    assert_true(live_check(&r->live));
    (void)live_clock(&r->live, T0 + 10000);
    while (!live_sweep(&r->live, 4096))
        calls++;
    assert_in_range(calls, 1000000 / 4096, 1000000 / 4096 + 20);
    assert_int_equal(r->live.count, 0);
    assert_true(live_memory(&r->live) <= empty + ARENA_SLAB);
    fixture_close(r);
}

#define DUMPED 20000

TEST(a_dump_meets_all_that_stay_once_whatever_changes)
{
    struct random random = {random_seed("live dump")};
    static uint8_t met[DUMPED];
    struct fixture *r = fixture_open(LIVE_SEMAPHORE, 64 << 20);
    uint32_t n, others = 0;
    struct live_walk walk = {.steps = 0};
    struct live_record record;
    int rc;

    memset(met, 0, sizeof met);
    for (n = 0; n < DUMPED; n++) {
        assert_int_equal(acquire_numbered(&r->live, n % 3, n), FRAME_OK);
        (void)acquire_numbered(&r->live, 3, DUMPED + n);
    }
    /* Holder 3 comes and goes with names of its own, and takes from others'. */
    while ((rc = live_next(&r->live, &walk, &record)) != 0) {
        if (rc == 1) {
            n = (uint32_t)strtoul((const char *)record.name + 5, NULL, 10);
            if (n < DUMPED)
                assert_int_equal(met[n]++, 0);
            else
                others++;
            assert_true(walk.steps < 50);
            if (!random_chance(&random, 20))
                continue;
        }
        walk.steps = 1 + (uint32_t)random_below(&random, 50);
        for (n = 0; n < 20; n++)
            (void)acquire_numbered(&r->live, 3,
                                   (uint32_t)random_below(&random, 3 * DUMPED));
        if (random_chance(&random, 10)) {
            while (!live_drop(&r->live, 3, 100))
                ;
            while (!live_sweep(&r->live, 100))
                ;
        }
    }
    for (n = 0; n < DUMPED; n++)
        assert_int_equal(met[n], 1);
    assert_true(others > 0);
    fixture_close(r);
}

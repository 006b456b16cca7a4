/* tests/unit/test_tally.c - activity of live objects in logs; real objects,
 * logs and I/O threads. */
#include "tests/unit/ingest_fixture.h"

#include <string.h>

#include "common/base/clock.h"
#include "writer/live/live.h"
#include "writer/tally.h"

#define INTERVAL_MS 20
#define ENDLESS_MS  3600000
#define ROOM        MESSAGE_NAME_MAX

static struct budget budget;
static struct live counters, semaphores;
static struct tally tally;
static uint64_t most; /* increments of one turn */
static uint64_t told; /* as of the turn before */
static bool stopped;

/* ---- the fixture -------------------------------------------------------- */

static void
tally_logs_ready(void *ctx)
{
    (void)ctx;
    tally_ready(&tally);
}

static void
note_stopped(void *ctx)
{
    (void)ctx;
    stopped = true;
}

static bool
after_turn_of_tally(void *ctx)
{
    struct fixture *r = ctx;
    const uint64_t now = tally.stats.increments - told;

    told += now;
    if (now > most)
        most = now;
    commit_turn(&r->commit, false);
    if (r->until(r))
        loop_stop(r->loop);
    return false;
}

static bool
has_rounds(struct fixture *r)
{
    return tally.stats.rounds >= r->want;
}

/* All logs are full, and there is more to tell. */
static bool
is_stuck(struct fixture *r)
{
    return tally.waiting && tally.stats.increments >= r->want;
}

static bool
has_told(struct fixture *r)
{
    return tally.stats.increments >= r->want;
}

static bool
has_stopped(struct fixture *r)
{
    (void)r;
    return stopped;
}

static int
next_active(void *ctx, uint32_t *from, uint32_t *steps, struct tally_item *out)
{
    struct live_activity a;
    const int rc = live_next_active(ctx, from, steps, &a);

    if (rc == 1)
        *out = (struct tally_item){a.sums, a.name, a.name_size};
    return rc;
}

static void
start_tally(struct fixture *r, unsigned slots, unsigned log_max,
            uint64_t interval_ms)
{
    static const struct tally_source sources[] = {
        {{"live.acquired", "live.released", "live.refused"},
         next_active,
         &counters},
        {{"live.semaphore.acquired", "live.semaphore.released",
          "live.semaphore.refused"},
         next_active,
         &semaphores}};
    struct live_options o = {.kind = LIVE_COUNTER,
                             .budget = &budget,
                             .slots = 64,
                             .holders = 4,
                             .window_s = 1000000000,
                             .history = true};

    budget = (struct budget){.max = 64 << 20};
    most = told = 0;
    stopped = false;
    start(r, slots, log_max);
    r->logs.events.ready = tally_logs_ready;
    loop_after_turn(r->loop, after_turn_of_tally, r);
    assert_rc(live_init(&counters, &o), 0);
    o.kind = LIVE_SEMAPHORE;
    assert_rc(live_init(&semaphores, &o), 0);
    (void)live_clock(&counters, clock_unix_ms()); /* nothing to sweep */
    (void)live_clock(&semaphores, clock_unix_ms());
    tally_init(&tally, r->loop, &r->logs, interval_ms);
    assert_rc(tally_add(&tally, &sources[0]), 0);
    assert_rc(tally_add(&tally, &sources[1]), 0);
}

static int
end_tally(void **state)
{
    tally_fini(&tally);
    live_fini(&counters);
    live_fini(&semaphores);
    assert_int_equal(budget.used, 0);
    close_all(*state);
    return tear_down(state);
}

#define ON_TALLY(name, r) TEST_IN(name, struct fixture *r, set_up, end_tally)

/* Stops, hands the logs on and reads them. */
static void
finish_tally(struct fixture *r)
{
    tally_stop(&tally, LIMIT_MS, note_stopped, NULL);
    run(r, has_stopped, 0);
    logs_finish(&r->logs);
    run(r, has_finished, 0);
    records_read(&r->records, r->data.log_fd);
    assert_int_equal(r->records.damaged, 0);
}

/* ---- objects ----------------------------------------------------------- */

static enum frame_status
acquire(struct live *l, uint32_t holder, const char *name, uint32_t resources,
        uint32_t bound)
{
    const struct frame_ask ask = {.resources = resources,
                                  .bound = bound,
                                  .name_size = (uint16_t)strlen(name),
                                  .name = (const uint8_t *)name};

    return live_acquire(l, holder, live_hash(l, ask.name, ask.name_size), &ask);
}

static void
acquire_many(unsigned count)
{
    char name[16];

    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "n%u", i); /* fits */
        assert_int_equal(acquire(&counters, 0, name, i + 1, UINT32_MAX), 0);
    }
}

/* Each of acquire_many() is told once, all together `times` times. */
static void
assert_told_many(struct fixture *r, unsigned count)
{
    char name[16];
    size_t times;

    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "n%u", i); /* fits */
        assert_int_equal(
            records_sum(&r->records, "live.acquired", name, &times), i + 1);
        assert_int_equal(times, 1);
    }
}

/* ---- keys -------------------------------------------------------------- */

TEST(a_name_that_fits_is_its_own_key)
{
    static const char *const names[] = {"a",
                                        "caf\xc3\xa9",
                                        "x\xff\x01",
                                        "a#0123456789abcdef",
                                        "#0123456789abcdef0123456789abcdeg",
                                        "#0123456789abcdef0123456789abcde"};
    uint8_t key[ROOM], name[ROOM];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t size = strlen(names[i]);

        assert_int_equal(tally_key((const uint8_t *)names[i], size, ROOM, key),
                         size);
        assert_memory_equal(key, names[i], size);
    }
    memset(name, 'x', sizeof name);
    assert_int_equal(tally_key(name, sizeof name, ROOM, key), ROOM);
    assert_memory_equal(key, name, ROOM);
}

static void
assert_key(const char *name, size_t size, size_t room, const char *expected)
{
    uint8_t key[ROOM + 1];
    const size_t got = tally_key((const uint8_t *)name, size, room, key);

    assert_true(got <= room);
    assert_null(memchr(key, '\0', got));
    key[got] = '\0';
    assert_string_equal((const char *)key, expected);
}

/* What stands in a directory must be found again by every later version. */
TEST(other_names_are_cut_and_end_in_their_hash)
{
    assert_key("a\0b", 3, ROOM, "a_b#0f8fe969afe6c3881d2f21c58914d344");
    assert_key("abcdefghijabcdefghijabcdefghijabcde", 35, 34,
               "a#83782ebcf1653ad13ae619b237beacda");
    assert_key(
        "#0123456789abcdef0123456789abcdef", 33, ROOM,
        "#0123456789abcdef0123456789abcdef#2d05d4cc4a54b586684ea1e8a8cd212d");
}

/* ---- rounds ------------------------------------------------------------ */

ON_TALLY(each_round_tells_only_what_is_new, r)
{
    size_t times;

    start_tally(r, 1900, 2, INTERVAL_MS);
    assert_int_equal(acquire(&counters, 0, "a", 1, 100), FRAME_OK);
    run(r, has_rounds, 1);
    run(r, has_rounds, 3);
    assert_int_equal(acquire(&counters, 0, "a", 10, 100), FRAME_OK);
    run(r, has_told, 2);
    finish_tally(r);

    assert_int_equal(r->records.count, 2);
    assert_int_equal(records_sum(&r->records, "live.acquired", "a", &times),
                     11);
    assert_int_equal(times, 2);
}

ON_TALLY(a_round_of_many_objects_goes_in_pieces, r)
{
    start_tally(r, 1900, 2, INTERVAL_MS);
    acquire_many(1000);
    run(r, has_told, 1000);
    assert_in_range(most, 1, TALLY_PIECE);
    assert_in_range(tally.stats.rounds, 0, 1);
    finish_tally(r);

    assert_int_equal(r->records.count, 1000);
    assert_told_many(r, 1000);
}

ON_TALLY(a_round_that_a_sweep_waits_for_begins_at_once_but_not_twice_a_second,
         r)
{
    start_tally(r, 1900, 2, ENDLESS_MS);
    acquire_many(1000);
    counters.skipped = true; /* as by a sweep */
    tally_soon(&tally);
    run(r, has_rounds, 1);
    assert_int_equal(tally.stats.increments, 1000);
    assert_false(counters.skipped);
    assert_true(counters.wants_sweep);

    assert_int_equal(acquire(&counters, 0, "late", 1, 1), 0);
    tally_soon(&tally);
    assert_int_equal(tally.timer.deadline_ms, tally.round_ms + TALLY_SOON_MS);
    finish_tally(r);

    assert_int_equal(r->records.count, 1001);
    assert_told_many(r, 1000);
}

#define BUSY 100 /* more than a piece */

static bool
stirs_until_rounds(struct fixture *r)
{
    acquire_many(BUSY);
    return tally.stats.rounds >= r->want;
}

ON_TALLY(a_round_ends_though_there_is_always_something_to_tell, r)
{
    uint32_t held;

    start_tally(r, 1900, 2, INTERVAL_MS);
    run(r, stirs_until_rounds, 3);
    assert_int_equal(live_get(&counters,
                              live_hash(&counters, (const uint8_t *)"n1", 2),
                              (const uint8_t *)"n1", 2, &held),
                     FRAME_OK);
    finish_tally(r);

    assert_int_equal(records_sum(&r->records, "live.acquired", "n1", NULL),
                     held);
}

/* ---- no room ----------------------------------------------------------- */

static bool
has_sealed(struct fixture *r)
{
    return r->logs.stats.sealed >= r->want;
}

/* What a worker does, with one of two full logs: the sum of what is in it. */
static int64_t
merge_one(struct fixture *r)
{
    struct log log;
    int64_t sum = 0;

    run(r, has_sealed, 2);
    records_read(&r->records, r->data.log_fd);
    for (size_t i = 0; i < r->records.count; i++)
        if (r->records.at[i].log == 0)
            sum += r->records.at[i].increment;
    records_free(&r->records);
    assert_rc(log_claim(&log, r->data.log_fd, 0, LOG_MODE_FULL), 0);
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
    return sum;
}

ON_TALLY(without_room_it_waits_and_nothing_is_lost, r)
{
    const unsigned slots = 15;
    int64_t before, sum = 0;

    start_tally(r, slots, 2, INTERVAL_MS);
    acquire_many(2 * slots + 5);
    run(r, is_stuck, 2 * slots);
    assert_int_equal(tally.stats.increments, 2 * slots);
    assert_true(tally.stats.waits > 0);
    assert_int_equal(acquire(&counters, 0, "n0", 100, UINT32_MAX), 0);

    before = merge_one(r);
    run(r, has_told, 2 * slots + 6);
    finish_tally(r);

    assert_int_equal(r->records.count, slots + 6);
    for (size_t i = 0; i < r->records.count; i++)
        sum += r->records.at[i].increment;
    /* 1 + 2 + ..., and the news of n0. */
    assert_int_equal(before + sum, (2 * slots + 5) * (2 * slots + 6) / 2 + 100);
}

ON_TALLY(a_stop_waits_for_room, r)
{
    const unsigned slots = 15;

    start_tally(r, slots, 2, ENDLESS_MS);
    acquire_many(2 * slots + 5);
    tally_stop(&tally, LIMIT_MS, note_stopped, NULL);
    run(r, is_stuck, 2 * slots);
    assert_false(stopped);
    (void)merge_one(r); /* only its room is wanted */
    run(r, has_stopped, 0);

    assert_int_equal(tally.stats.increments, 2 * slots + 5);
}

/* ---- stopping ---------------------------------------------------------- */

/* The second kind is owed when the stop comes, and is not told as the first. */
ON_TALLY(a_stop_in_the_middle_of_a_round_tells_the_rest, r)
{
    const unsigned slots = 15;
    char name[16];

    start_tally(r, slots, 2, INTERVAL_MS);
    for (unsigned i = 0; i < 2 * slots + 5; i++) {
        (void)snprintf(name, sizeof name, "n%u", i); /* fits */
        assert_int_equal(acquire(&semaphores, 0, name, 1, 1), FRAME_OK);
    }
    run(r, is_stuck, 2 * slots);
    assert_int_equal(acquire(&counters, 0, "late", 1, 1), FRAME_OK);
    (void)merge_one(r); /* only its room is wanted */
    finish_tally(r);

    assert_int_equal(r->records.count, slots + 6);
    assert_int_equal(records_sum(&r->records, "live.acquired", "late", NULL),
                     1);
    (void)snprintf(name, sizeof name, "n%u", 2 * slots); /* fits */
    assert_int_equal(
        records_sum(&r->records, "live.semaphore.acquired", name, NULL), 1);
    assert_int_equal(records_sum(&r->records, "live.acquired", name, NULL), 0);
}

/* tests/unit/test_held_store.c - batches wait in data/held.mdb for their
 * keyspace, in order, whoever dies. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/store/lmdb/held.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

/* A directory, and a handle of this process. */
struct rig {
    struct tmpdir dir;
    struct held *held;
};

static int
open_rig(struct rig *r, bool writable, uint64_t max)
{
    const struct held_options o = {
        .data_fd = r->dir.fd, .writable = writable, .max = max};

    return held_open(&r->held, &o);
}

static int
setup(void **state)
{
    struct rig *r = calloc(1, sizeof *r);

    if (r == NULL)
        return -1;
    tmpdir_make(&r->dir);
    *state = r;
    return open_rig(r, true, 0);
}

static int
teardown(void **state)
{
    struct rig *r = *state;

    fault_clear();
    held_close(r->held);
    tmpdir_remove(&r->dir);
    free(r);
    return 0;
}

static void
open_again(struct rig *r, bool writable, uint64_t max)
{
    held_close(r->held);
    assert_rc(open_rig(r, writable, max), 0);
}

/* ---- batches ----------------------------------------------------------- */

/* Fill `epoch` of log `log`, which began at that millisecond. */
static struct store_mark
fill(uint8_t log, uint64_t epoch, uint64_t first_ms)
{
    struct store_mark m = {.epoch = epoch, .first_ms = first_ms};

    memset(m.uuid, log, sizeof m.uuid);
    return m;
}

static const struct store_delta three[] = {
    {.key = (const uint8_t *)"a", .key_size = 1, .minute = 7, .sum_low = 1},
    {.key = (const uint8_t *)"a", .key_size = 1, .minute = 8, .sum_low = 2},
    {.key = (const uint8_t *)"ab",
     .key_size = 2,
     .minute = 7,
     .sum_high = -1,
     .sum_low = (uint64_t)-5},
};

static struct store_batch
batch_of(const char *name, const struct store_mark *marks, size_t count)
{
    return (struct store_batch){.name = (const uint8_t *)name,
                                .name_size = strlen(name),
                                .marks = marks,
                                .mark_count = count,
                                .deltas = three,
                                .delta_count = 3};
}

/* Holds one batch in a step of its own. */
static int
hold_batch(struct held *h, const struct store_batch *b, int error)
{
    int rc;

    rc = held_begin(h);
    if (rc < 0)
        return rc;
    rc = held_put(h, b, error);
    if (rc == 0)
        return held_commit(h);
    held_abort(h);
    return rc;
}

static int
hold(struct held *h, const char *name, struct store_mark m)
{
    const struct store_batch b = batch_of(name, &m, 1);

    return hold_batch(h, &b, -EBADMSG);
}

static enum held_state
state_of(struct held *h, const char *name, struct store_mark m)
{
    enum held_state state = (enum held_state)77;

    assert_rc(
        held_states(h, (const uint8_t *)name, strlen(name), &m, 1, &state), 0);
    return state;
}

static int
next(struct held *h, const char *name, uint64_t after, struct held_record *out)
{
    return held_next(h, (const uint8_t *)name, strlen(name), after, out);
}

static int
delete_one(struct held *h, const char *name, uint64_t id)
{
    return held_delete(h, (const uint8_t *)name, strlen(name), &id, 1);
}

static void
assert_same_batch(const struct store_batch *a, const struct store_batch *b)
{
    assert_int_equal(a->name_size, b->name_size);
    assert_memory_equal(a->name, b->name, a->name_size);
    assert_int_equal(a->mark_count, b->mark_count);
    for (size_t i = 0; i < a->mark_count; i++) {
        assert_memory_equal(a->marks[i].uuid, b->marks[i].uuid, 16);
        assert_int_equal(a->marks[i].epoch, b->marks[i].epoch);
        assert_int_equal(a->marks[i].first_ms, b->marks[i].first_ms);
    }
    assert_int_equal(a->delta_count, b->delta_count);
    for (size_t i = 0; i < a->delta_count; i++) {
        const struct store_delta *x = &a->deltas[i], *y = &b->deltas[i];

        assert_int_equal(x->key_size, y->key_size);
        assert_memory_equal(x->key, y->key, x->key_size);
        assert_int_equal(x->minute, y->minute);
        assert_int_equal(x->sum_high, y->sum_high);
        assert_int_equal(x->sum_low, y->sum_low);
    }
}

static void
assert_span(struct held *h, const char *name, uint64_t oldest, uint64_t newest)
{
    uint64_t a = 77, b = 77;

    assert_rc(held_span(h, (const uint8_t *)name, strlen(name), &a, &b), 0);
    assert_int_equal(a, oldest);
    assert_int_equal(b, newest);
}

/* ---- looking ----------------------------------------------------------- */

static void
without_a_file_nothing_is_held(void **state)
{
    struct rig *r = *state;
    struct held_record record;

    assert_rc(held_look(r->held), 0);

    assert_false(held_any(r->held));
    assert_int_equal(state_of(r->held, "lamps", fill(1, 1, 1)), HELD_NONE);
    assert_rc(next(r->held, "lamps", 0, &record), -ENOENT);
    assert_span(r->held, "lamps", UINT64_MAX, 0);
    assert_span(r->held, "", UINT64_MAX, 0);
    assert_false(tmpdir_has(&r->dir, HELD_FILE));
}

static void
a_batch_comes_back_as_it_was_given(void **state)
{
    struct rig *r = *state;
    const struct store_mark marks[] = {fill(1, 5, 100), fill(2, 9, 50)};
    const struct store_batch b = batch_of("lamps", marks, 2);
    struct held_record record;

    assert_rc(hold_batch(r->held, &b, -EBADMSG), 0);

    assert_rc(held_look(r->held), 0);
    assert_true(held_any(r->held));
    assert_rc(next(r->held, "lamps", 0, &record), 0);
    assert_same_batch(&record.batch, &b);
    assert_rc(next(r->held, "lamps", record.id, &record), -ENOENT);
    assert_rc(next(r->held, "lamp", 0, &record), -ENOENT);
    assert_rc(next(r->held, "lampst", 0, &record), -ENOENT);
    open_again(r, false, 0);
    assert_rc(held_look(r->held), 0);
    assert_rc(next(r->held, "lamps", 0, &record), 0);
    assert_same_batch(&record.batch, &b);
}

static void
a_keyspace_of_which_something_is_held_is_told_from_one_of_which_nothing_is(
    void **state)
{
    struct rig *r = *state;

    assert_rc(hold(r->held, "lamps", fill(1, 5, 100)), 0);

    assert_rc(held_look(r->held), 0);
    assert_int_equal(state_of(r->held, "lamps", fill(1, 5, 100)), HELD_SAME);
    assert_int_equal(state_of(r->held, "lamps", fill(1, 5, 101)), HELD_OTHER);
    assert_int_equal(state_of(r->held, "lamps", fill(1, 6, 100)), HELD_OTHER);
    assert_int_equal(state_of(r->held, "lamps", fill(2, 5, 100)), HELD_OTHER);
    assert_int_equal(state_of(r->held, "lamp", fill(1, 5, 100)), HELD_NONE);
    assert_int_equal(state_of(r->held, "lamps2", fill(1, 5, 100)), HELD_NONE);
}

static void
records_come_in_the_order_they_were_held_and_go_one_by_one(void **state)
{
    struct rig *r = *state;
    struct held_record record;
    uint64_t id = 0;

    for (uint64_t i = 1; i <= 5; i++)
        assert_rc(hold(r->held, "lamps", fill((uint8_t)(9 - i), i, 100 * i)),
                  0);
    for (uint64_t i = 1; i <= 5; i++) {
        assert_rc(held_look(r->held), 0);
        assert_span(r->held, "lamps", 100 * i, 500);
        assert_rc(next(r->held, "lamps", 0, &record), 0);
        assert_true(record.id > id);
        assert_int_equal(record.batch.marks[0].epoch, i);
        id = record.id;

        assert_rc(delete_one(r->held, "lamps", id), 0);
    }
    assert_rc(held_look(r->held), 0);
    assert_false(held_any(r->held));
    assert_rc(hold(r->held, "lamps", fill(1, 1, 1)), 0);
    assert_rc(held_look(r->held), 0);
    assert_rc(next(r->held, "lamps", 0, &record), 0);
    assert_true(record.id > id);
}

static const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    TEST(without_a_file_nothing_is_held),
    TEST(a_batch_comes_back_as_it_was_given),
    TEST(
        a_keyspace_of_which_something_is_held_is_told_from_one_of_which_nothing_is),
    TEST(records_come_in_the_order_they_were_held_and_go_one_by_one),
};

TEST_MAIN(tests)

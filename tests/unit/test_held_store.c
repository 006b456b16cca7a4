/* tests/unit/test_held_store.c - batches wait in data/held.mdb for their
 * keyspace, in order, whoever dies. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/store/lmdb/held.h"
#include "common/store/lmdb/held_record.h"
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

    assert_rc(held_snapshot_begin(r->held), 0);

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

    assert_rc(held_snapshot_begin(r->held), 0);
    assert_true(held_any(r->held));
    assert_rc(next(r->held, "lamps", 0, &record), 0);
    assert_same_batch(&record.batch, &b);
    assert_rc(next(r->held, "lamps", record.id, &record), -ENOENT);
    assert_rc(next(r->held, "lamp", 0, &record), -ENOENT);
    assert_rc(next(r->held, "lampst", 0, &record), -ENOENT);
    open_again(r, false, 0);
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_rc(next(r->held, "lamps", 0, &record), 0);
    assert_same_batch(&record.batch, &b);
}

static void
a_keyspace_of_which_something_is_held_is_told_from_one_of_which_nothing_is(
    void **state)
{
    struct rig *r = *state;

    assert_rc(hold(r->held, "lamps", fill(1, 5, 100)), 0);

    assert_rc(held_snapshot_begin(r->held), 0);
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
        assert_rc(held_snapshot_begin(r->held), 0);
        assert_span(r->held, "lamps", 100 * i, 500);
        assert_rc(next(r->held, "lamps", 0, &record), 0);
        assert_true(record.id > id);
        assert_int_equal(record.batch.marks[0].epoch, i);
        id = record.id;

        assert_rc(delete_one(r->held, "lamps", id), 0);
    }
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_false(held_any(r->held));
    assert_rc(hold(r->held, "lamps", fill(1, 1, 1)), 0);
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_rc(next(r->held, "lamps", 0, &record), 0);
    assert_true(record.id > id);
}

static void
many_keyspaces_are_kept_apart_and_listed_by_name(void **state)
{
    static const char *const names[] = {"a", "aa", "a\x01", "ab", "b", "\xff"};
    static const char *const sorted[] = {"a", "a\x01", "aa", "ab", "b", "\xff"};
    struct rig *r = *state;
    struct held_record record;
    uint8_t name[STORE_NAME_MAX];
    size_t size = 0;

    assert_rc(held_begin(r->held), 0);
    for (uint64_t i = 0; i < 12; i++) {
        const struct store_mark m = fill((uint8_t)i, 1, 1000 - i);
        const struct store_batch b = batch_of(names[i % 6], &m, 1);

        assert_rc(held_put(r->held, &b, EDQUOT), 0);
    }
    assert_rc(held_commit(r->held), 0);

    assert_rc(held_snapshot_begin(r->held), 0);
    for (size_t i = 0; i < 6; i++) {
        assert_rc(held_next_name(r->held, name, size, name, &size), 0);
        assert_int_equal(size, strlen(sorted[i]));
        assert_memory_equal(name, sorted[i], size);
    }
    assert_rc(held_next_name(r->held, name, size, name, &size), -ENOENT);
    for (size_t i = 0; i < 6; i++) {
        assert_span(r->held, names[i], 1000 - 6 - i, 1000 - i);
        assert_rc(next(r->held, names[i], 0, &record), 0);
        assert_int_equal(record.batch.marks[0].first_ms, 1000 - i);
        assert_rc(next(r->held, names[i], record.id, &record), 0);
        assert_rc(next(r->held, names[i], record.id, &record), -ENOENT);
    }
    assert_span(r->held, "", 1000 - 11, 1000);
}

static int
note_row(void *ctx, const struct held_summary *s)
{
    struct held_summary *out = ctx;

    assert_in_range(s->name[0], 'a', 'b');
    out[s->name[0] - 'a'] = *s;
    return 0;
}

static void
a_list_says_what_waits_since_when_and_why(void **state)
{
    struct rig *r = *state;
    const struct store_mark marks[] = {fill(1, 5, 300), fill(2, 9, 200)};
    const struct store_batch b = batch_of("a", marks, 2);
    struct held_summary rows[2] = {{.records = 0}};

    fault_clock(0);
    assert_rc(hold_batch(r->held, &b, EDQUOT), 0);
    fault_clock(5000);
    assert_rc(hold(r->held, "a", fill(1, 6, 400)), 0);
    assert_rc(hold(r->held, "b", fill(1, 6, 400)), 0);

    assert_rc(held_snapshot_begin(r->held), 0);
    assert_rc(held_each(r->held, note_row, rows), 0);

    assert_int_equal(rows[0].records, 2);
    assert_int_equal(rows[0].fills, 3);
    assert_int_equal(rows[0].oldest_ms, 200);
    assert_int_equal(rows[0].error, EBADMSG);
    assert_true(rows[0].since_ms + 4000 < rows[1].since_ms);
    assert_int_equal(rows[1].records, 1);
    assert_true(rows[1].bytes > 3 * 22 && rows[1].bytes < 300);
}

/* ---- large records ----------------------------------------------------- */

/* A batch of so many deltas of the longest keys. */
struct large {
    struct store_delta *deltas;
    uint8_t *keys;
    struct store_mark mark;
    struct store_batch batch;
};

static void
large_make(struct large *l, size_t count)
{
    l->deltas = calloc(count, sizeof *l->deltas);
    l->keys = malloc(count * STORE_NAME_MAX);
    assert_non_null(l->deltas);
    assert_non_null(l->keys);
    for (size_t i = 0; i < count; i++) {
        uint8_t *key = l->keys + i * STORE_NAME_MAX;

        memset(key, (int)('a' + i % 26), STORE_NAME_MAX);
        for (size_t at = 0; at < 4; at++)
            key[at] = (uint8_t)(1 + (i >> (6 * (3 - at)) & 63));
        l->deltas[i] = (struct store_delta){.key = key,
                                            .key_size = STORE_NAME_MAX,
                                            .minute = (uint32_t)i,
                                            .sum_high = -(int64_t)i,
                                            .sum_low = i};
    }
    l->mark = fill(3, 4, 5);
    l->batch = batch_of("large", &l->mark, 1);
    l->batch.deltas = l->deltas;
    l->batch.delta_count = count;
}

static void
large_free(struct large *l)
{
    free(l->deltas);
    free(l->keys);
}

static void
a_batch_of_any_size_comes_back_as_it_was_given(void **state)
{
    struct rig *r = *state;
    struct held_record record;

    for (size_t count = 0; count < 100; count++) {
        struct large l;

        large_make(&l, count > 0 ? count : 1);
        l.batch.delta_count = count;
        assert_rc(hold_batch(r->held, &l.batch, EDQUOT), 0);
        assert_rc(held_snapshot_begin(r->held), 0);
        assert_rc(next(r->held, "large", 0, &record), 0);
        assert_same_batch(&record.batch, &l.batch);
        assert_rc(delete_one(r->held, "large", record.id), 0);
        large_free(&l);
    }
}

static void
a_batch_may_have_many_marks(void **state)
{
    struct rig *r = *state;
    static struct store_mark marks[1000];
    const struct store_batch b = batch_of("lamps", marks, 1000);
    struct held_record record;

    for (size_t i = 0; i < 1000; i++) {
        marks[i] = fill(1, i, 5000 - i);
        marks[i].uuid[3] = (uint8_t)i;
    }
    assert_rc(hold_batch(r->held, &b, EDQUOT), 0);

    assert_rc(held_snapshot_begin(r->held), 0);
    assert_span(r->held, "lamps", 4001, 5000);
    assert_int_equal(state_of(r->held, "lamps", marks[0]), HELD_SAME);
    assert_int_equal(state_of(r->held, "lamps", marks[999]), HELD_SAME);
    assert_rc(next(r->held, "lamps", 0, &record), 0);
    assert_same_batch(&record.batch, &b);
    assert_rc(delete_one(r->held, "lamps", record.id), 0);
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_int_equal(state_of(r->held, "lamps", marks[0]), HELD_NONE);
    open_again(r, true, 0);
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_false(held_any(r->held));
}

static void
refuse_fault(void *ctx, const char *text)
{
    (void)ctx; /* needs none */
    fail_msg("%s", text);
}

/* Checks the file as a process that only reads. */
static void
assert_sound(struct rig *r, uint64_t records)
{
    struct store_check_result result;

    open_again(r, false, 0);
    assert_rc(held_check(r->held, refuse_fault, NULL, &result), 0);
    assert_int_equal(result.keys, records);
    open_again(r, true, 0);
}

/* Larger than what a commit gathers. */
static void
a_large_record_is_held_whole_or_not_at_all(void **state)
{
    struct rig *r = *state;
    struct held_record record;
    struct large l;
    int status;
    pid_t pid;

    large_make(&l, 300000); /* 83 MB */
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) { /* it dies before the commit */
        if (held_begin(r->held) < 0 || held_put(r->held, &l.batch, 1) < 0)
            _exit(1);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_false(held_any(r->held));

    assert_rc(hold(r->held, "lamps", fill(1, 1, 1)), 0);
    assert_sound(r, 1);
    assert_rc(hold_batch(r->held, &l.batch, EDQUOT), 0);

    assert_rc(held_snapshot_begin(r->held), 0);
    assert_rc(next(r->held, "large", 0, &record), 0);
    assert_same_batch(&record.batch, &l.batch);
    assert_sound(r, 2);
    large_free(&l);
}

static void
no_more_is_held_than_held_max(void **state)
{
    struct rig *r = *state;
    struct held_record record;
    int rc = 0;
    uint64_t n = 0;

    open_again(r, true, 1000);
    while (rc == 0) {
        n++;
        rc = hold(r->held, "lamps", fill(1, n, n));
    }
    assert_rc(rc, -EDQUOT);
    assert_in_range(n, 4, 8);
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_rc(next(r->held, "lamps", 0, &record), 0);
    assert_rc(delete_one(r->held, "lamps", record.id), 0);

    assert_rc(hold(r->held, "lamps", fill(1, n, n)), 0);
    assert_rc(hold(r->held, "lamps", fill(1, n + 1, n)), -EDQUOT);
    assert_sound(r, n - 1);
}

static void
what_is_no_batch_is_refused(void **state)
{
    struct rig *r = *state;
    const struct store_mark m = fill(1, 1, 1);
    const struct store_delta wrong[] = {three[1], three[0]};
    struct store_batch b = batch_of("lamps", &m, 0);

    assert_rc(hold_batch(r->held, &b, 1), -EINVAL);
    b = batch_of("", &m, 1);
    assert_rc(hold_batch(r->held, &b, 1), -EINVAL);
    b = batch_of("lamps", &m, 1);
    b.deltas = wrong;
    b.delta_count = 2;
    assert_rc(hold_batch(r->held, &b, 1), -EINVAL);
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_false(held_any(r->held));
}

/* ---- deleting ---------------------------------------------------------- */

static void
exactly_the_records_named_are_deleted(void **state)
{
    struct rig *r = *state;
    struct held_record record;
    uint64_t ids[5], after = 0;

    for (uint64_t i = 0; i < 5; i++)
        assert_rc(hold(r->held, "lamps", fill(1, i, i)), 0);
    assert_rc(hold(r->held, "doors", fill(1, 9, 9)), 0);
    assert_rc(held_snapshot_begin(r->held), 0);
    for (size_t i = 0; i < 5; i++) {
        assert_rc(next(r->held, "lamps", after, &record), 0);
        ids[i] = after = record.id;
    }

    assert_rc(held_delete(r->held, (const uint8_t *)"lamps", 5, ids, 3), 0);
    assert_rc(held_delete(r->held, (const uint8_t *)"lamps", 5, ids, 3), 0);
    assert_rc(delete_one(r->held, "doors", ids[4]), 0);

    assert_rc(held_snapshot_begin(r->held), 0);
    assert_rc(next(r->held, "lamps", 0, &record), 0);
    assert_int_equal(record.id, ids[3]);
    assert_int_equal(state_of(r->held, "lamps", fill(1, 2, 2)), HELD_OTHER);
    assert_int_equal(state_of(r->held, "lamps", fill(1, 4, 4)), HELD_SAME);
    assert_sound(r, 3);
}

static void
all_records_of_a_keyspace_can_be_dropped(void **state)
{
    struct rig *r = *state;
    uint64_t records;

    assert_rc(held_drop(r->held, (const uint8_t *)"lamps", 5, &records), 0);
    assert_int_equal(records, 0);
    assert_rc(held_begin(r->held), 0);
    for (uint64_t i = 0; i < 2500; i++) {
        const struct store_mark m = fill(1, i, i);
        const struct store_batch b =
            batch_of(i % 2 == 0 ? "lamps" : "lamp", &m, 1);

        assert_rc(held_put(r->held, &b, 1), 0);
    }
    assert_rc(held_commit(r->held), 0);

    assert_rc(held_drop(r->held, (const uint8_t *)"lamps", 5, &records), 0);

    assert_int_equal(records, 1250);
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_int_equal(state_of(r->held, "lamps", fill(1, 0, 0)), HELD_NONE);
    assert_int_equal(state_of(r->held, "lamp", fill(1, 1, 1)), HELD_SAME);
    assert_sound(r, 1250);
}

/* ---- several processes ------------------------------------------------- */

/* A child with a handle of its own, which does something and then waits until
 * it is told to go. */
struct other {
    pid_t pid;
    int end;
};

static struct other
start_other(struct rig *r, int (*first)(struct held *h))
{
    int ready[2], wait[2];
    struct other o;
    char byte = 1;

    assert_rc(pipe(ready), 0);
    assert_rc(pipe(wait), 0);
    o.pid = fork();
    assert_true(o.pid >= 0);
    if (o.pid == 0) {
        (void)close(wait[1]); /* else it waits for itself */
        if (open_rig(r, true, 0) < 0 || first(r->held) < 0 ||
            write(ready[1], "", 1) != 1)
            _exit(1);
        _exit(read(wait[0], &byte, 1) == 0 ? 0 : 1);
    }
    (void)close(ready[1]); /* the child's */
    (void)close(wait[0]);  /* the child's */
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]); /* read */
    o.end = wait[1];
    return o;
}

static void
end_other(struct other *o)
{
    int status;

    (void)close(o->end); /* tells it to go */
    assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
    assert_int_equal(status, 0);
}

static int
begin_only(struct held *h)
{
    return held_begin(h);
}

static int
hold_one(struct held *h)
{
    return hold(h, "lamps", fill(7, 7, 7));
}

static int
lock_lamps(struct held *h)
{
    return held_lock(h, (const uint8_t *)"lamps", 5);
}

static void
what_another_process_held_is_seen_by_the_next_look(void **state)
{
    struct rig *r = *state;
    struct other o;

    assert_rc(held_snapshot_begin(r->held), 0);
    o = start_other(r, hold_one);

    assert_false(held_any(r->held));
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_int_equal(state_of(r->held, "lamps", fill(7, 7, 7)), HELD_SAME);
    assert_rc(held_make_durable(r->held), 0);
    assert_rc(hold(r->held, "lamps", fill(8, 8, 8)), 0);
    end_other(&o);
    assert_sound(r, 2);
}

static void
nobody_waits_for_a_process_that_was_stopped_while_it_holds(void **state)
{
    struct rig *r = *state;
    struct other o = start_other(r, begin_only);

    assert_rc(held_begin(r->held), -EAGAIN);
    assert_int_equal(held_holder(r->held), o.pid);
    assert_rc(held_make_durable(r->held), -EAGAIN);
    assert_rc(held_snapshot_begin(r->held), 0);

    end_other(&o);
    assert_rc(hold_one(r->held), 0);
}

static void
one_process_at_a_time_has_the_lock_of_a_keyspace(void **state)
{
    struct rig *r = *state;
    uint64_t records;
    struct other o;

    assert_rc(lock_lamps(r->held), -ENOENT);
    assert_rc(hold_one(r->held), 0);
    o = start_other(r, lock_lamps);

    assert_rc(lock_lamps(r->held), -EAGAIN);
    assert_rc(held_drop(r->held, (const uint8_t *)"lamps", 5, &records),
              -EAGAIN);
    assert_rc(held_lock(r->held, (const uint8_t *)"doors", 5), 0);
    held_unlock(r->held);
    assert_rc(hold(r->held, "lamps", fill(1, 1, 1)), 0);
    end_other(&o);

    assert_rc(lock_lamps(r->held), 0);
    assert_int_equal(state_of(r->held, "lamps", fill(1, 1, 1)), HELD_SAME);
    held_unlock(r->held);
}

static int
look_at_one(struct held *h)
{
    const int rc = hold_one(h);

    return rc < 0 ? rc : held_snapshot_begin(h);
}

static void
what_a_process_saw_that_was_killed_takes_no_room(void **state)
{
    struct rig *r = *state;
    struct held_record record;
    struct other o;
    struct large l;
    struct stat st;

    large_make(&l, 200);
    assert_rc(hold_batch(r->held, &l.batch, 1), 0); /* so it is open */
    o = start_other(r, look_at_one);
    assert_rc(kill(o.pid, SIGKILL), 0);
    assert_int_equal(waitpid(o.pid, NULL, 0), o.pid);
    (void)close(o.end); /* nobody reads it */

    for (unsigned i = 0; i < 100; i++) {
        assert_rc(hold_batch(r->held, &l.batch, 1), 0);
        assert_rc(held_snapshot_begin(r->held), 0);
        assert_rc(next(r->held, "large", 0, &record), 0);
        assert_rc(delete_one(r->held, "large", record.id), 0);
    }
    assert_rc(fstatat(r->dir.fd, HELD_FILE, &st, 0), 0);
    assert_true(st.st_size < 2 << 20);
    large_free(&l);
}

static int
look_only(struct held *h)
{
    return held_snapshot_begin(h);
}

static void
a_step_that_fails_in_its_middle_leaves_nothing_locked(void **state)
{
    struct rig *r = *state;
    struct other o;
    struct large l;

    large_make(&l, 300000);
    assert_rc(held_begin(r->held), 0);
    held_abort(r->held);
    o = start_other(r, look_only); /* who keeps LMDB's lock file as it is */
    assert_rc(held_begin(r->held), 0);
    fault_inject("fsync", 1, EIO); /* of the directory, with the first cut */

    assert_rc(held_put(r->held, &l.batch, 1), -EIO);

    assert_true(fault_hit());
    held_abort(r->held);
    assert_rc(hold(r->held, "lamps", fill(1, 1, 1)), 0);
    end_other(&o);
    assert_sound(r, 1);
    large_free(&l);
}

/* ---- replaced and damaged files ---------------------------------------- */

static void
move(struct rig *r, const char *from, const char *to)
{
    assert_rc(renameat(r->dir.fd, from, r->dir.fd, to), 0);
}

static void
a_file_that_was_replaced_is_left_at_the_next_look(void **state)
{
    struct rig *r = *state;

    assert_rc(hold(r->held, "old", fill(1, 1, 1)), 0);
    assert_rc(held_snapshot_begin(r->held), 0);
    move(r, HELD_FILE, "away");

    assert_rc(held_make_durable(r->held), -ESTALE);
    assert_rc(held_begin(r->held), -ESTALE);
    assert_rc(delete_one(r->held, "old", 1), -ESTALE);
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_false(held_any(r->held));
    assert_rc(hold(r->held, "new", fill(2, 2, 2)), 0);
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_int_equal(state_of(r->held, "new", fill(2, 2, 2)), HELD_SAME);
    assert_int_equal(state_of(r->held, "old", fill(1, 1, 1)), HELD_NONE);
}

static void
a_lock_file_that_was_removed_is_made_again(void **state)
{
    struct rig *r = *state;

    assert_rc(hold(r->held, "lamps", fill(1, 1, 1)), 0);
    assert_rc(unlinkat(r->dir.fd, HELD_FILE "-lock", 0), 0);

    assert_rc(hold(r->held, "lamps", fill(1, 2, 2)), 0);

    assert_true(tmpdir_has(&r->dir, HELD_FILE "-lock"));
    assert_sound(r, 2);
}

static void
a_commit_to_a_file_that_lost_its_name_is_none(void **state)
{
    struct rig *r = *state;
    const struct store_mark m = fill(1, 1, 1);
    const struct store_batch b = batch_of("lamps", &m, 1);

    assert_rc(held_begin(r->held), 0);
    assert_rc(held_put(r->held, &b, 1), 0);
    move(r, HELD_FILE, "away");

    assert_rc(held_commit(r->held), -ESTALE);
}

/* LMDB's lock file is the old file's until nobody has that open. */
static void
while_another_process_has_the_old_file_open_the_new_one_is_not_used(
    void **state)
{
    struct rig *r = *state;
    struct other o;

    assert_rc(hold(r->held, "lamps", fill(1, 1, 1)), 0);
    held_close(r->held);
    move(r, HELD_FILE, "away");
    assert_rc(open_rig(r, true, 0), 0);
    for (uint64_t i = 0; i < 5; i++)
        assert_rc(hold(r->held, "other", fill(1, i, i)), 0);
    held_close(r->held);
    r->held = NULL;
    o = start_other(r, hold_one);
    move(r, "away", HELD_FILE);
    assert_rc(open_rig(r, true, 0), 0);

    assert_rc(held_snapshot_begin(r->held), -EAGAIN);
    assert_rc(held_begin(r->held), -EAGAIN);
    end_other(&o);

    assert_rc(held_snapshot_begin(r->held), 0);
    assert_int_equal(state_of(r->held, "lamps", fill(1, 1, 1)), HELD_SAME);
}

static void
flip(int fd, off_t at, int bit)
{
    uint8_t byte;

    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= (uint8_t)(1u << bit);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

static int
open_file(struct rig *r, const char *name)
{
    const int fd = openat(r->dir.fd, name, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void
a_damaged_file_is_set_aside_and_a_new_one_begun(void **state)
{
    struct rig *r = *state;

    for (int i = 1; i <= 2; i++) {
        char name[40];
        int fd;

        assert_rc(hold_one(r->held), 0);
        held_close(r->held);
        fd = open_file(r, HELD_FILE);
        assert_rc(pwrite(fd, "damage", 6, 4096 * 3), 6);
        assert_rc(pwrite(fd, "damage", 6, 4096 * 4), 6);
        assert_rc(pwrite(fd, "damage", 6, 4096 * 5), 6);
        (void)close(fd); /* written */
        assert_rc(open_rig(r, false, 0), 0);
        assert_rc(held_snapshot_begin(r->held), -EBADMSG);
        open_again(r, true, 0);

        assert_rc(held_snapshot_begin(r->held), 0);

        assert_false(held_any(r->held));
        (void)snprintf(name, sizeof name, "bad-held-%d.mdb", i); /* fits */
        assert_true(tmpdir_has(&r->dir, name));
        assert_false(tmpdir_has(&r->dir, HELD_FILE));
    }
    assert_rc(hold_one(r->held), 0);
    assert_sound(r, 1);
}

/* One that is stopped never looks again. */
static void
a_stopped_process_with_a_damaged_file_open_keeps_nobody_from_a_new_one(
    void **state)
{
    struct rig *r = *state;
    struct other o;
    int fd;

    for (uint64_t i = 0; i < 5; i++)
        assert_rc(hold(r->held, "lamps", fill(1, i, i)), 0);
    held_close(r->held);
    r->held = NULL;
    o = start_other(r, hold_one);
    fd = open_file(r, HELD_FILE);
    for (int page = 2; page < 8; page++)
        assert_rc(pwrite(fd, "damage", 6, 4096 * page), 6);
    (void)close(fd); /* written */
    assert_rc(open_rig(r, true, 0), 0);

    assert_rc(held_snapshot_begin(r->held), 0);
    assert_false(held_any(r->held));
    assert_true(tmpdir_has(&r->dir, "bad-held-1.mdb"));
    assert_rc(hold_one(r->held), 0);
    assert_rc(held_snapshot_begin(r->held), 0);

    end_other(&o);
    assert_rc(hold(r->held, "lamps", fill(1, 1, 1)), 0);
    assert_sound(r, 2);
}

/* Where the values of the file are: each begins four bytes before its magic. */
static size_t
find_values(int fd, off_t *at, size_t *sizes, size_t room)
{
    static uint8_t bytes[1 << 20];
    const ssize_t got = pread(fd, bytes, sizeof bytes, 0);
    size_t count = 0;

    assert_true(got > 0 && got < (ssize_t)sizeof bytes);
    for (ssize_t i = 0; i + 12 < got && count < room; i++)
        if (memcmp(bytes + i + 4, "HLD2", 4) == 0) {
            at[count] = i;
            sizes[count++] = bytes[i + 8] | (size_t)bytes[i + 9]
                                                << 8; /* size u32 */
        }
    return count;
}

/* Whatever bit of a record is flipped under a handle that is in use:
 * the record is not given as anything else, and its log is not given up for it.
 */
static void
a_flipped_bit_in_a_value_is_never_taken_for_a_record(void **state)
{
    struct rig *r = *state;
    struct held_record record;
    off_t at[64];
    size_t sizes[64], count;
    struct large l;
    int fd;

    large_make(&l, 16); /* two pages */
    assert_rc(hold_batch(r->held, &l.batch, 1), 0);
    fd = open_file(r, HELD_FILE);
    count = find_values(fd, at, sizes, 64);
    assert_int_equal(count, 1);
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_rc(next(r->held, "large", 0, &record), 0);

    for (size_t i = 0; i < sizes[0] * 8; i += i < 800 ? 1 : 7) {
        flip(fd, at[0] + (off_t)(i / 8), (int)(i % 8));
        assert_rc(held_snapshot_begin(r->held), 0);
        record.id = 0;
        assert_rc(next(r->held, "large", 0, &record), -EBADMSG);
        assert_int_equal(record.id, 1);
        assert_int_equal(state_of(r->held, "large", l.mark), HELD_OTHER);
        flip(fd, at[0] + (off_t)(i / 8), (int)(i % 8));
    }
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_rc(next(r->held, "large", 0, &record), 0);
    flip(fd, at[0] + 70, 1);
    assert_rc(held_snapshot_begin(r->held), 0);
    assert_rc(delete_one(r->held, "large", 1), 0);
    (void)close(fd); /* written */
    assert_sound(r, 0);
    large_free(&l);
}

/* Where these bytes are in the file, in the page that was written last. */
static off_t
find_bytes(int fd, const void *bytes, size_t size)
{
    static uint8_t all[1 << 20];
    const ssize_t got = pread(fd, all, sizeof all, 0);
    const uint8_t *at = all, *found = NULL;

    assert_true(got > 0 && got < (ssize_t)sizeof all);
    while ((at = memmem(at, (size_t)(all + got - at), bytes, size)) != NULL)
        found = at++;
    assert_non_null(found);
    return found - all;
}

/* What is held must not look like nothing when its key is damaged. */
static void
a_flipped_bit_in_a_key_does_not_hide_what_is_held(void **state)
{
    static const uint8_t key[] = "lamps\0\0\0\0\0\0\0\0\1";
    struct rig *r = *state;
    const struct store_mark m = fill(1, 1, 0x1234567812345678);
    struct held_record record;
    enum held_state found;
    uint64_t a, b;
    off_t at;
    int fd;

    assert_rc(hold(r->held, "lamps", m), 0);
    fd = open_file(r, HELD_FILE);

    at = find_bytes(fd, key, 14);
    assert_rc(held_snapshot_begin(r->held), 0);
    flip(fd, at + 3, 0); /* lamqs */
    assert_rc(held_states(r->held, (const uint8_t *)"lamps", 5, &m, 1, &found),
              -EBADMSG);
    assert_rc(next(r->held, "lamqs", 0, &record), -EBADMSG);
    flip(fd, at + 3, 0);
    assert_rc(held_snapshot_begin(r->held), 0);
    flip(fd, at + 13, 1); /* record 3 */
    assert_rc(next(r->held, "lamps", 0, &record), -EBADMSG);
    assert_int_equal(state_of(r->held, "lamps", m), HELD_OTHER);
    flip(fd, at + 13, 1);

    at = find_bytes(fd, "\x12\x34\x56\x78\x12\x34\x56\x78", 8);
    for (int bit = 0; bit < 64; bit++) {
        assert_rc(held_snapshot_begin(r->held), 0);
        flip(fd, at + bit / 8, bit % 8);
        assert_rc(held_span(r->held, (const uint8_t *)"lamps", 5, &a, &b),
                  -EBADMSG);
        flip(fd, at + bit / 8, bit % 8);
    }
    (void)close(fd); /* written */
    assert_sound(r, 1);
}

/* As `cp` from a backup does it: the file is the same, its commits are not. */
static void
a_file_that_was_written_over_is_not_gone_on_from(void **state)
{
    static uint8_t bytes[1 << 20];
    struct rig *r = *state;
    ssize_t size;
    int fd;

    assert_rc(hold(r->held, "lamps", fill(1, 1, 1)), 0);
    fd = open_file(r, HELD_FILE);
    size = pread(fd, bytes, sizeof bytes, 0);
    for (uint64_t i = 2; i < 6; i++)
        assert_rc(hold(r->held, "lamps", fill(1, i, i)), 0);
    assert_int_equal(pwrite(fd, bytes, (size_t)size, 0), size);

    assert_rc(held_begin(r->held), -EAGAIN);

    assert_rc(hold(r->held, "doors", fill(1, 6, 6)), 0);
    (void)close(fd); /* written */
    assert_sound(r, 2);
}

static int
count_record(void *ctx, const struct held_record *record)
{
    uint64_t *count = ctx;

    (void)record; /* counted */
    ++*count;
    return 0;
}

/* What must be so of a file of one good and one perhaps damaged record. */
static void
assert_not_silent(struct rig *r)
{
    const struct store_mark m = fill(3, 3, 3);
    const struct store_batch b = batch_of("lamps", &m, 1);
    struct held_record record;
    uint64_t id = 0;
    int rc;

    rc = held_snapshot_begin(r->held);
    if (rc == -EBADMSG || rc == -EPROTONOSUPPORT)
        return;
    assert_rc(rc, 0);
    for (unsigned i = 0; i < 2; i++) {
        rc = next(r->held, "lamps", id, &record);
        if (rc == -EBADMSG)
            return;
        assert_rc(rc, 0);
        id = record.id;
        assert_int_equal(record.batch.marks[0].first_ms, 2 + i);
        if (i == 1)
            assert_same_batch(&record.batch, &b);
    }
    assert_rc(next(r->held, "lamps", id, &record), -ENOENT);
    assert_span(r->held, "lamps", 2, 3);
    assert_span(r->held, "", 2, 4);
    assert_int_equal(state_of(r->held, "lamps", m), HELD_SAME);
    rc = next(r->held, "doors", 0, &record);
    assert_true(rc == 0 || rc == -EBADMSG);
    assert_int_equal(state_of(r->held, "doors", fill(4, 4, 4)),
                     rc == 0 ? HELD_SAME : HELD_OTHER);
}

static void
a_flipped_bit_anywhere_in_the_file_is_never_wrong_and_silent(void **state)
{
    struct rig *r = *state;
    unsigned refused = 0, bits = 0;
    struct stat st;
    int fd;

    assert_rc(hold(r->held, "lamps", fill(2, 2, 2)), 0);
    assert_rc(hold(r->held, "lamps", fill(3, 3, 3)), 0);
    assert_rc(hold(r->held, "doors", fill(4, 4, 4)), 0);
    fd = open_file(r, HELD_FILE);
    assert_rc(fstat(fd, &st), 0);

    /* Most of the bits are of old pages: all those in use are in a stride. */
    for (off_t bit = 0; bit < st.st_size * 8; bit += 29) {
        held_close(r->held);
        flip(fd, bit / 8, (int)(bit % 8));
        assert_rc(open_rig(r, false, 0), 0);
        assert_not_silent(r);
        refused += held_snapshot_begin(r->held) < 0;
        bits++;
        flip(fd, bit / 8, (int)(bit % 8));
    }
    (void)close(fd); /* written */
    assert_true(refused > 100 && refused < bits);
    assert_sound(r, 3);
}

/* ---- faults and deaths ------------------------------------------------- */

static void
a_call_that_fails_loses_nothing_and_leaves_nothing_locked(void **state)
{
    static const char *const calls[] = {"disk", "memory"};
    struct rig *r = *state;
    const unsigned fds = fault_open_fds();
    uint64_t held = 0;

    for (size_t i = 0; i < 2; i++)
        for (unsigned n = 1;; n++) {
            const struct store_mark m = fill(1, 1000 * i + n, n);
            bool hit;
            int rc;

            open_again(r, true, 0);
            fault_inject(calls[i], n, EIO);
            rc = hold(r->held, "lamps", m);
            hit = fault_hit();
            fault_clear();
            if (rc == 0)
                held++;
            else
                assert_true(hit);
            held_close(r->held);
            assert_int_equal(fault_open_fds(), fds);
            assert_rc(open_rig(r, true, 0), 0);
            assert_rc(held_snapshot_begin(r->held), 0);
            if (rc == 0)
                assert_int_equal(state_of(r->held, "lamps", m), HELD_SAME);
            else if (!held_any(r->held) ||
                     state_of(r->held, "lamps", m) != HELD_SAME)
                continue;
            else
                held++; /* refused afterwards: it is kept nevertheless */
            if (!hit)
                break;
        }
    assert_sound(r, held);
}

/* The child of each n dies at its nth call. */
static void
a_process_that_dies_at_any_step_leaves_all_or_nothing(void **state)
{
    struct rig *r = *state;
    uint64_t held = 0;
    int status = 1;

    held_close(r->held);
    for (unsigned n = 1; status != 0; n++) {
        const struct store_mark m = fill(1, n, n);
        const pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            fault_kill("disk", n);
            _exit(open_rig(r, true, 0) < 0 || hold(r->held, "lamps", m) < 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_rc(open_rig(r, true, 0), 0);
        assert_rc(held_snapshot_begin(r->held), 0);
        if (held_any(r->held) && state_of(r->held, "lamps", m) == HELD_SAME)
            held++;
        else
            assert_int_not_equal(status, 0);
        assert_rc(held_begin(r->held), 0);
        held_abort(r->held);
        held_close(r->held);
    }
    assert_rc(open_rig(r, true, 0), 0);
    assert_sound(r, held);
}

/* ---- care -------------------------------------------------------------- */

static void
a_copy_has_all_that_is_held_and_replaces_nothing(void **state)
{
    struct rig *r = *state;
    struct tmpdir to;
    struct rig copy;
    struct large l;

    tmpdir_make(&to);
    assert_rc(held_copy(r->held, to.fd), 0);
    assert_false(tmpdir_has(&to, HELD_FILE));
    large_make(&l, 1000);
    assert_rc(hold_batch(r->held, &l.batch, 1), 0);
    assert_rc(hold_one(r->held), 0);

    assert_rc(held_copy(r->held, to.fd), 0);

    assert_rc(held_copy(r->held, to.fd), -EEXIST);
    copy.dir = to;
    assert_rc(open_rig(&copy, true, 0), 0);
    assert_sound(&copy, 2);
    held_close(copy.held);
    large_free(&l);
    tmpdir_remove(&to);
}

static void
count_fault(void *ctx, const char *text)
{
    unsigned *count = ctx;

    (void)text; /* for people */
    ++*count;
}

static void
a_check_tells_of_a_damaged_record(void **state)
{
    struct rig *r = *state;
    struct store_check_result result;
    unsigned faults = 0;
    size_t sizes[64];
    off_t at[64];
    int fd;

    assert_rc(hold_one(r->held), 0);
    fd = open_file(r, HELD_FILE);
    assert_true(find_values(fd, at, sizes, 64) >= 1);
    flip(fd, at[0] + 80, 0);
    (void)close(fd); /* written */
    open_again(r, false, 0);

    assert_rc(held_check(r->held, count_fault, &faults, &result), 0);

    assert_int_equal(faults, 1);
    assert_int_equal(result.faults, 1);
}

static int
compare_record(void *ctx, const struct held_record *record)
{
    const struct large *l = ctx;

    if (record->batch.name_size == 5 &&
        memcmp(record->batch.name, "large", 5) == 0)
        assert_same_batch(&record->batch, &l->batch);
    return 0;
}

static void
whole_records_are_found_in_the_bytes_of_a_damaged_file(void **state)
{
    struct rig *r = *state;
    uint64_t found = 0, lost;
    size_t sizes[64];
    off_t at[64];
    struct large l;
    int fd;

    large_make(&l, 5000); /* 1.4 MB */
    assert_rc(hold_one(r->held), 0);
    assert_rc(hold(r->held, "doors", fill(1, 1, 1)), 0);
    fd = open_file(r, HELD_FILE);
    assert_true(find_values(fd, at, sizes, 64) >= 2);
    assert_rc(hold_batch(r->held, &l.batch, 1), 0);
    for (int page = 0; page < 2; page++)
        assert_rc(pwrite(fd, "damage", 6, 4096 * page), 6);

    assert_rc(held_salvage(fd, count_record, &found, &lost), 0);
    assert_int_equal(found, 3);
    assert_int_equal(lost, 0);
    assert_rc(held_salvage(fd, compare_record, &l, &lost), 0);

    (void)close(fd); /* written */
    large_free(&l);
}

/* An id is given again when its commit never came. */
static void
salvage_gives_each_record_of_one_id_once(void **state)
{
    const struct store_mark m = fill(1, 1, 1);
    const struct store_batch batches[] = {batch_of("lamps", &m, 1),
                                          batch_of("doors", &m, 1),
                                          batch_of("lamps", &m, 1)};
    uint64_t found = 0, lost;
    FILE *f = tmpfile();

    (void)state; /* needs none */
    assert_non_null(f);
    for (size_t i = 0; i < 3; i++) {
        const size_t size = held_batch_size(&batches[i]);
        uint8_t value[300];

        assert_true(size <= sizeof value);
        held_encode(&batches[i], 1, 0, 1, value);
        assert_int_equal(fwrite(value, 1, size, f), size);
    }
    assert_rc(fflush(f), 0);

    assert_rc(held_salvage(fileno(f), count_record, &found, &lost), 0);

    assert_int_equal(found, 2);
    assert_int_equal(lost, 0);
    (void)fclose(f); /* gone with it */
}

static void
salvage_tells_how_many_records_are_not_whole(void **state)
{
    struct rig *r = *state;
    uint64_t found = 0, lost;
    size_t sizes[64], count;
    off_t at[64];
    struct large l;
    int fd;

    large_make(&l, 100);
    assert_rc(hold_batch(r->held, &l.batch, 1), 0);
    fd = open_file(r, HELD_FILE);
    count = find_values(fd, at, sizes, 64);
    assert_int_equal(count, 1);

    for (size_t i = 50; i < sizes[0]; i += 1000) {
        flip(fd, at[0] + (off_t)i, 3);
        assert_rc(held_salvage(fd, count_record, &found, &lost), 0);
        assert_int_equal(lost, 1);
        flip(fd, at[0] + (off_t)i, 3);
    }
    assert_int_equal(found, 0);
    assert_rc(held_salvage(fd, count_record, &found, &lost), 0);
    assert_int_equal(found, 1);
    assert_int_equal(lost, 0);
    (void)close(fd); /* written */
    large_free(&l);
}

static const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    TEST(without_a_file_nothing_is_held),
    TEST(a_batch_comes_back_as_it_was_given),
    TEST(
        a_keyspace_of_which_something_is_held_is_told_from_one_of_which_nothing_is),
    TEST(records_come_in_the_order_they_were_held_and_go_one_by_one),
    TEST(many_keyspaces_are_kept_apart_and_listed_by_name),
    TEST(a_list_says_what_waits_since_when_and_why),
    TEST(a_batch_of_any_size_comes_back_as_it_was_given),
    TEST(a_batch_may_have_many_marks),
    TEST(a_large_record_is_held_whole_or_not_at_all),
    TEST(a_step_that_fails_in_its_middle_leaves_nothing_locked),
    TEST(no_more_is_held_than_held_max),
    TEST(what_is_no_batch_is_refused),
    TEST(exactly_the_records_named_are_deleted),
    TEST(all_records_of_a_keyspace_can_be_dropped),
    TEST(what_another_process_held_is_seen_by_the_next_look),
    TEST(nobody_waits_for_a_process_that_was_stopped_while_it_holds),
    TEST(one_process_at_a_time_has_the_lock_of_a_keyspace),
    TEST(what_a_process_saw_that_was_killed_takes_no_room),
    TEST(a_file_that_was_replaced_is_left_at_the_next_look),
    TEST(a_lock_file_that_was_removed_is_made_again),
    TEST(a_commit_to_a_file_that_lost_its_name_is_none),
    TEST(while_another_process_has_the_old_file_open_the_new_one_is_not_used),
    TEST(a_damaged_file_is_set_aside_and_a_new_one_begun),
    TEST(
        a_stopped_process_with_a_damaged_file_open_keeps_nobody_from_a_new_one),
    TEST(a_flipped_bit_in_a_value_is_never_taken_for_a_record),
    TEST(a_flipped_bit_anywhere_in_the_file_is_never_wrong_and_silent),
    TEST(a_flipped_bit_in_a_key_does_not_hide_what_is_held),
    TEST(a_file_that_was_written_over_is_not_gone_on_from),
    TEST(salvage_gives_each_record_of_one_id_once),
    TEST(a_call_that_fails_loses_nothing_and_leaves_nothing_locked),
    TEST(a_process_that_dies_at_any_step_leaves_all_or_nothing),
    TEST(a_copy_has_all_that_is_held_and_replaces_nothing),
    TEST(a_check_tells_of_a_damaged_record),
    TEST(whole_records_are_found_in_the_bytes_of_a_damaged_file),
    TEST(salvage_tells_how_many_records_are_not_whole),
};

TEST_MAIN(tests)

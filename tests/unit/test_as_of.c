/* tests/unit/test_as_of.c - as_of_ms never claims too much, and never goes
 * back.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/answer_fixture.h"

#include <sys/wait.h>

#include "common/base/clock.h"
#include "tests/lib/aside.h"
#include "tests/lib/file.h"
#include "tests/lib/filler.h"
#include "tests/lib/random.h"

static int
setup(void **state)
{
    *state = fixture_make(NULL, NULL, 1);
    return 0;
}

#define CASE(name, f) TEST_IN(name, struct fixture *f, setup, teardown)

/* As of the last look. */
static uint64_t
last_claim(struct fixture *f, const char *keyspace)
{
    return (uint64_t)as_of_get(&f->as_of, (const uint8_t *)keyspace,
                               strlen(keyspace));
}

/* As of a new look, in a turn of its own. */
static uint64_t
as_of(struct fixture *f, const char *keyspace)
{
    uint64_t got;

    f->now_ms += 1000;
    as_of_refresh(&f->as_of, f->now_ms);
    got = last_claim(f, keyspace);
    return got;
}

static void
expect_now(struct fixture *f, const char *keyspace)
{
    const uint64_t before = clock_unix_ms();
    const uint64_t got = as_of(f, keyspace);

    assert_in_range(got, before - 1, clock_unix_ms() - 1);
}

/* Log `index` with two increments, the first received at `first_ms`. */
static void
begin_log(struct fixture *f, struct filler *log, uint64_t index,
          uint64_t first_ms)
{
    filler_open(log, f->datadir.log_fd, index, 10);
    log->received_ms = first_ms;
    filler_add(log, "words", "the", 1);
    log->received_ms = first_ms + 500;
    filler_add(log, "words", "cat", 1);
}

static void
seal_log(struct fixture *f, uint64_t index, uint64_t first_ms)
{
    struct filler log;

    begin_log(f, &log, index, first_ms);
    filler_seal(&log);
}

/* A fill waits that has a record of each of `count` keyspaces. */
static void
set_aside(struct fixture *f, const char *const *keyspaces, size_t count,
          const struct log_fill *mark)
{
    struct aside_record *records = calloc(count, sizeof *records);

    assert_non_null(records);
    for (size_t i = 0; i < count; i++)
        records[i] = (struct aside_record){keyspaces[i], "k", 1};
    (void)aside_put(f->datadir.log_fd, false, mark, records, count,
                    mark->first_ms);
    free(records);
}

static void
hold_record(struct fixture *f, const char *keyspace, uint64_t first_ms,
            uint64_t epoch)
{
    const struct log_fill mark = {
        .uuid = {1}, .epoch = epoch, .first_ms = first_ms};

    set_aside(f, &keyspace, 1, &mark);
}

/* What waits for it is gone. */
static void
let_go(struct fixture *f, const char *keyspace)
{
    aside_drop(f->datadir.log_fd, keyspace);
}

/* ---- logs -------------------------------------------------------------- */

CASE(with_nothing_unmerged_it_is_now, f)
{
    struct filler log;

    expect_now(f, "words");

    filler_open(&log, f->datadir.log_fd, 0, 10); /* open, and empty */
    expect_now(f, "words");
    filler_die(&log);
}

CASE(the_oldest_log_that_is_not_merged_counts, f)
{
    const uint64_t now = clock_unix_ms();
    struct filler log;

    seal_log(f, 0, now - 3000);
    seal_log(f, 1, now - 7000);
    begin_log(f, &log, 2, now - 1000);
    assert_int_equal(as_of(f, "words"), now - 7001);

    filler_empty(f->datadir.log_fd, 1);
    assert_int_equal(as_of(f, "words"), now - 3001);
    filler_empty(f->datadir.log_fd, 0);
    assert_int_equal(as_of(f, "words"), now - 1001);
    filler_seal(&log);
    filler_empty(f->datadir.log_fd, 2);
    expect_now(f, "words");
}

CASE(a_quarantined_log_does_not_hold_it_back, f)
{
    struct log log;

    seal_log(f, 0, clock_unix_ms() - 5000);
    assert_rc(log_claim(&log, f->datadir.log_fd, 0, LOG_MODE_FULL), 0);
    assert_rc(log_quarantine(&log), 0);

    expect_now(f, "words");
}

/* ---- logs that are being merged ----------------------------------------- */

/* Log `index` with an increment of each of two keyspaces, received at
 * `first_ms`, as a worker claims it. */
static void
begin_merge(struct fixture *f, struct log *log, uint64_t index,
            uint64_t first_ms)
{
    struct filler filler;

    filler_open(&filler, f->datadir.log_fd, index, 10);
    filler.received_ms = first_ms;
    filler_add(&filler, "hot", "k", 1);
    filler_add(&filler, "cold", "k", 1);
    filler_seal(&filler);
    assert_rc(log_claim(log, f->datadir.log_fd, index, LOG_MODE_FULL), 0);
}

/* A worker applies the log's increment of this keyspace. */
static void
apply_to(struct fixture *f, const struct log *log, const char *keyspace)
{
    struct log_fill mark = {.epoch = log->header.epoch,
                            .first_ms = log->header.first_ms};

    memcpy(mark.uuid, log->header.uuid, sizeof mark.uuid);
    store_read_end(f->store);
    assert_rc(stored_add(f->store, keyspace, &mark, "k", 1), 0);
}

static void
end_merge(struct log *log)
{
    assert_rc(log_empty(log), 0);
    assert_rc(log_release(log), 0);
}

CASE(a_keyspace_does_not_wait_for_a_log_that_it_has, f)
{
    const uint64_t now = clock_unix_ms();
    struct log older, newer;

    begin_merge(f, &older, 0, now - 9000);
    begin_merge(f, &newer, 1, now - 5000);
    assert_int_equal(as_of(f, "hot"), now - 9001);

    apply_to(f, &older, "hot");
    assert_int_equal(as_of(f, "hot"), now - 5001);
    assert_int_equal(as_of(f, "cold"), now - 9001);
    assert_int_equal(as_of(f, "another"), now - 9001);
    assert_int_equal(as_of(f, ""), now - 9001); /* all keyspaces */

    apply_to(f, &newer, "hot");
    expect_now(f, "hot");
    assert_int_equal(as_of(f, "cold"), now - 9001);

    apply_to(f, &older, "cold");
    end_merge(&older);
    assert_int_equal(as_of(f, "cold"), now - 5001);
    assert_int_equal(as_of(f, ""), now - 5001);
    apply_to(f, &newer, "cold");
    end_merge(&newer);
    expect_now(f, "cold");
    expect_now(f, "hot");
    expect_now(f, "");
}

/* The snapshot that answers may be older than the marks are asked for. */
CASE(a_claim_is_not_above_the_snapshot_that_answers, f)
{
    const uint64_t now = clock_unix_ms();
    struct store_query q = {.op = STORE_GET,
                            .name = (const uint8_t *)"hot",
                            .name_size = 3,
                            .key = (const uint8_t *)"k",
                            .key_size = 1};
    struct log older, newer;
    uint64_t claim;

    begin_merge(f, &older, 0, now - 9000);
    begin_merge(f, &newer, 1, now - 5000);
    apply_to(f, &older, "hot");
    f->now_ms += 1000;
    as_of_refresh(&f->as_of, f->now_ms);
    (void)store_read(f->store, &q, NULL, 0); /* in any case */
    claim = last_claim(f, "hot");
    (void)store_read(f->store, &q, NULL, 0);

    assert_int_equal(claim, now - 5001);
    assert_int_equal(q.row.count, 1);
    store_read_end(f->store);
    end_merge(&older);
    end_merge(&newer);
}

/* A worker dies, or its log goes back to the others unmerged. */
CASE(a_log_that_is_released_unmerged_takes_nothing_back, f)
{
    const uint64_t now = clock_unix_ms();
    struct log log;
    uint64_t before;

    begin_merge(f, &log, 0, now - 9000);
    apply_to(f, &log, "hot");
    before = as_of(f, "hot");
    assert_true(before >= now - 1);
    assert_rc(log_release(&log), 0);

    assert_true(as_of(f, "hot") >= before);
    assert_int_equal(as_of(f, "cold"), now - 9001);
}

CASE(claims_by_marks_of_a_clock_that_was_set_back_are_forgotten, f)
{
    const uint64_t now = clock_unix_ms();
    struct log log;

    begin_merge(f, &log, 0, now - 9000);
    apply_to(f, &log, "hot");
    assert_true(as_of(f, "hot") >= now - 1);
    fault_clock(-4000);

    assert_true(as_of(f, "hot") < now - 4000);
    end_merge(&log);
    expect_now(f, "hot");
}

/* ---- held records ------------------------------------------------------ */

CASE(records_held_for_one_keyspace_hold_back_that_one_only, f)
{
    const uint64_t now = clock_unix_ms();

    hold_record(f, "broken", now - 4000, 1);
    hold_record(f, "broken", now - 9000, 2);
    hold_record(f, "full", now - 2000, 1);

    assert_int_equal(as_of(f, "broken"), now - 9001);
    assert_int_equal(as_of(f, "full"), now - 2001);
    assert_int_equal(as_of(f, ""), now - 9001); /* all keyspaces */
    expect_now(f, "words");
    expect_now(f, "broke"); /* the names begin alike */
    expect_now(f, "brokener");

    let_go(f, "broken");
    expect_now(f, "broken");
    assert_int_equal(as_of(f, "full"), now - 2001);
    assert_int_equal(as_of(f, ""), now - 2001);
    let_go(f, "full");
    expect_now(f, "full");
    expect_now(f, "");
}

/* What waits for another keyspace keeps the file. */
CASE(a_keyspace_that_has_what_waits_is_not_held_back_by_it, f)
{
    const uint64_t now = clock_unix_ms();
    const struct log_fill mark = {
        .uuid = {1}, .epoch = 3, .first_ms = now - 4000};
    const char *const both[] = {"well", "sick"};

    set_aside(f, both, 2, &mark);
    assert_int_equal(as_of(f, "well"), now - 4001);
    assert_rc(stored_add(f->store, "well", &mark, "k", 1), 0);
    expect_now(f, "well");
    assert_int_equal(as_of(f, "sick"), now - 4001);
}

/* It was in no log here when it was received. */
CASE(what_a_command_placed_holds_nothing_back, f)
{
    const struct aside_record record = {"words", "k", 1};
    const struct log_fill mark = {.uuid = {1}, .epoch = 3, .first_ms = 1000};

    (void)aside_put(f->datadir.log_fd, true, &mark, &record, 1, 1000);
    expect_now(f, "words");
    expect_now(f, "");
}

/* A keyspace's claim may be asked for in a later turn of the same look, when
 * the record has left for the keyspace. */
CASE(records_that_left_since_the_look_are_in_a_snapshot_taken_now, f)
{
    const uint64_t now = clock_unix_ms();

    hold_record(f, "broken", now - 4000, 1);
    assert_int_equal(as_of(f, "broken"), now - 4001);
    let_go(f, "broken");

    assert_int_equal(last_claim(f, "broken"), now - 4001); /* as of the look */
    expect_now(f, "broken");
}

/* ---- when it is looked, and when that fails ---------------------------- */

CASE(a_look_is_good_for_some_milliseconds, f)
{
    const uint64_t first = clock_unix_ms() - 5000;

    seal_log(f, 0, first);
    assert_int_equal(as_of(f, "words"), first - 1);
    filler_empty(f->datadir.log_fd, 0);

    as_of_refresh(&f->as_of, f->now_ms + AS_OF_AGE_MS - 1);
    assert_int_equal(last_claim(f, "words"), first - 1);
    as_of_refresh(&f->as_of, f->now_ms + 200);
    assert_true(last_claim(f, "words") > first);
}

CASE(whatever_fails_it_claims_no_more_than_is_true, f)
{
    const uint64_t now = clock_unix_ms();
    struct filler open;
    bool hit = true;
    uint64_t got;

    seal_log(f, 0, now - 6000);
    begin_log(f, &open, 1, now - 5000);
    hold_record(f, "broken", now - 8000, 1);

    for (unsigned n = 1; hit; n++) {
        fault_inject("disk", n, EIO);
        got = as_of(f, "broken");
        hit = fault_hit();
        fault_clear();
        assert_true(hit ? got < now - 8000 : got == now - 8001);
        assert_true(as_of(f, "words") == now - 6001);
    }
    for (unsigned n = 1; n < 30; n++) {
        fault_inject("disk", n, EIO);
        assert_true(as_of(f, "words") < now - 6000);
        fault_clear();
    }
    filler_die(&open);
}

CASE(before_the_first_look_worked_it_claims_nothing, f)
{
    fault_inject_from("disk", 1, EIO);
    assert_int_equal(as_of(f, "words"), 0);
    fault_clear();

    expect_now(f, "words");
}

CASE(increments_of_a_clock_that_was_set_back_are_not_claimed, f)
{
    struct filler log;
    uint64_t before;

    before = as_of(f, "words");
    begin_log(f, &log, 0, clock_unix_ms() + 3600000); /* then set back */

    assert_int_equal(as_of(f, "words"), before);
    fault_clock(-1800000);
    assert_int_equal(as_of(f, "words"), 0); /* that claim is future now */

    filler_seal(&log);
    filler_empty(f->datadir.log_fd, 0);
    expect_now(f, "words");
}

CASE(a_newer_log_does_not_hide_one_of_before_the_clock_was_set_back, f)
{
    const uint64_t before = as_of(f, "words");
    struct filler newer;

    seal_log(f, 0, clock_unix_ms() + 3600000); /* then set back */
    begin_log(f, &newer, 1, clock_unix_ms() + 5000);
    fault_clock(10000);

    assert_int_equal(as_of(f, "words"), before);
    filler_seal(&newer);
    filler_empty(f->datadir.log_fd, 1);
    assert_int_equal(as_of(f, "words"), before);
    filler_empty(f->datadir.log_fd, 0);
    expect_now(f, "words");
}

/* The reader knows it by its own time, where no stamp is in the future. */
CASE(a_reader_notices_that_the_clock_was_set_back, f)
{
    const uint64_t first = clock_unix_ms() + 2000;

    fault_clock(10000);
    seal_log(f, 0, first);
    seal_log(f, 1, first + 3000);
    assert_int_equal(as_of(f, "words"), first - 1);

    fault_clock(7000); /* set back, by less than the logs are old */
    assert_int_equal(as_of(f, "words"), first - 1);
    filler_empty(f->datadir.log_fd, 0);
    assert_int_equal(as_of(f, "words"), first - 1);
    filler_empty(f->datadir.log_fd, 1);
    expect_now(f, "words");
}

CASE(a_look_is_not_good_for_another_clock, f)
{
    assert_true(as_of(f, "words") > 0);
    fault_clock(-3600000);

    as_of_refresh(&f->as_of, f->now_ms);

    assert_true((uint64_t)as_of_get(&f->as_of, (const uint8_t *)"words", 5) <=
                clock_unix_ms());
}

CASE(held_records_of_a_clock_that_was_set_back_are_not_claimed, f)
{
    hold_record(f, "ahead", clock_unix_ms() + 3600000, 1);
    hold_record(f, "ahead", clock_unix_ms(), 2);

    assert_int_equal(as_of(f, "ahead"), 0);
    assert_int_equal(as_of(f, ""), 0); /* all keyspaces */
    expect_now(f, "words");

    let_go(f, "ahead");
    expect_now(f, "ahead");
}

/* Between two looks: the clock has passed the last claim again. */
CASE(a_clock_that_was_set_back_between_two_looks_is_noticed, f)
{
    const uint64_t before = as_of(f, "words"), first = before - 5000;
    struct filler log;

    fault_clock(-4000);
    begin_log(f, &log, 0, first);
    fault_pass_ns(UINT64_C(5000000000));
    fault_clock(1000); /* these 5 seconds later */

    assert_true(as_of(f, "words") < first);
    filler_die(&log);
}

/* ---- it never goes back ------------------------------------------------ */

/* A writer reads its clock, is held up, and writes: a look may fall between. */
CASE(a_record_stamped_before_a_look_takes_nothing_back, f)
{
    const uint64_t before = as_of(f, "words");
    struct filler log;

    begin_log(f, &log, 0, before - 3);
    assert_int_equal(as_of(f, "words"), before);
    filler_seal(&log);
    assert_int_equal(as_of(f, "words"), before);

    hold_record(f, "words", before - 3, 1);
    filler_empty(f->datadir.log_fd, 0);
    assert_int_equal(as_of(f, "words"), before);
    assert_int_equal(as_of(f, ""), before);
    expect_now(f, "others");
}

/* Writers and workers of the test: what is where, and since when.  UINT64_MAX:
 * nothing is there. */
enum { WORLD_LOGS = 3, WORLD_KEYSPACES = 3 };

struct world {
    struct fixture *f;
    struct random random;
    int64_t clock_ms; /* ahead of the true one */
    struct filler open[WORLD_LOGS];
    struct log merging[WORLD_LOGS]; /* if is_claimed */
    bool is_open[WORLD_LOGS], is_full[WORLD_LOGS], is_claimed[WORLD_LOGS];
    uint64_t in_log[WORLD_LOGS][WORLD_KEYSPACES]; /* the first was written */
    uint64_t held[WORLD_KEYSPACES];
    bool is_sick[WORLD_KEYSPACES];
    uint64_t claimed[WORLD_KEYSPACES];
    uint64_t epoch;
};

static const char *const world_names[WORLD_KEYSPACES] = {"a", "b", "c"};

/* A writer begins a log, or adds to it.  It has read its clock before. */
static void
world_write(struct world *w, size_t log)
{
    const uint64_t now = clock_unix_ms();
    const size_t k = random_below(&w->random, WORLD_KEYSPACES);
    struct filler *open = &w->open[log];

    if (w->is_full[log])
        return;
    if (!w->is_open[log])
        filler_open(open, w->f->datadir.log_fd, log, 1000);
    w->is_open[log] = true;
    open->received_ms = now - random_below(&w->random, 6);
    if (open->received_ms < open->log.header.last_ms)
        open->received_ms = open->log.header.last_ms; /* writers see to that */
    filler_add(open, world_names[k], "k", 1);
    if (now < w->in_log[log][k])
        w->in_log[log][k] = now;
}

/* A worker claims a full log, and applies its increments of a keyspace. */
static void
world_apply(struct world *w, size_t log, size_t k)
{
    if (!w->is_full[log] || w->in_log[log][k] == UINT64_MAX || w->is_sick[k] ||
        w->held[k] < UINT64_MAX)
        return;
    if (!w->is_claimed[log])
        assert_rc(log_claim(&w->merging[log], w->f->datadir.log_fd, log,
                            LOG_MODE_FULL),
                  0);
    w->is_claimed[log] = true;
    apply_to(w->f, &w->merging[log], world_names[k]);
    w->in_log[log][k] = UINT64_MAX;
}

/* A worker merges a log, or holds what a keyspace cannot take. */
static void
world_merge(struct world *w, size_t log)
{
    const uint64_t first_ms = w->open[log].log.header.first_ms;

    if (!w->is_full[log])
        return;
    for (size_t k = 0; k < WORLD_KEYSPACES; k++) {
        const uint64_t since = w->in_log[log][k];

        if (since < UINT64_MAX && (w->is_sick[k] || w->held[k] < UINT64_MAX)) {
            hold_record(w->f, world_names[k], first_ms, ++w->epoch);
            if (since < w->held[k])
                w->held[k] = since;
        }
        w->in_log[log][k] = UINT64_MAX;
    }
    if (w->is_claimed[log])
        end_merge(&w->merging[log]);
    else
        filler_empty(w->f->datadir.log_fd, log);
    w->is_claimed[log] = w->is_full[log] = false;
}

static void
world_heal(struct world *w, size_t k)
{
    w->is_sick[k] = !w->is_sick[k];
    if (w->is_sick[k] || w->held[k] == UINT64_MAX)
        return;
    let_go(w->f, world_names[k]);
    w->held[k] = UINT64_MAX;
}

/* The claim is below all that is not in, and not below the one before. */
static void
world_claim(struct world *w, size_t k, bool again)
{
    const uint64_t got =
        again ? as_of(w->f, world_names[k]) : last_claim(w->f, world_names[k]);

    assert_true(got >= w->claimed[k]);
    assert_true(got < w->held[k]);
    for (size_t log = 0; log < WORLD_LOGS; log++)
        assert_true(got < w->in_log[log][k]);
    w->claimed[k] = got;
}

static void
world_step(struct world *w)
{
    const size_t log = random_below(&w->random, WORLD_LOGS);
    const size_t k = random_below(&w->random, WORLD_KEYSPACES);

    switch (random_below(&w->random, 11)) {
    case 0:
    case 1:
        world_write(w, log);
        break;
    case 2:
        if (w->is_open[log]) {
            filler_seal(&w->open[log]);
            w->is_open[log] = false;
            w->is_full[log] = true;
        }
        break;
    case 3:
        world_merge(w, log);
        break;
    case 4:
        world_heal(w, k);
        break;
    case 5:
        w->clock_ms += (int64_t)random_below(&w->random, 30);
        if (random_below(&w->random, 4) == 0)
            w->clock_ms += AS_OF_LATE_MS;
        fault_clock(w->clock_ms);
        break;
    case 6:
    case 7:
        world_apply(w, log, k);
        break;
    default:
        world_claim(w, k, random_below(&w->random, 3) > 0);
    }
}

CASE(claims_are_true_and_never_go_back_whatever_happens, f)
{
    static struct world w;

    w = (struct world){.f = f, .random = {random_seed(__func__)}};
    memset(w.in_log, 0xff, sizeof w.in_log);
    memset(w.held, 0xff, sizeof w.held);
    (void)as_of(w.f, "a"); /* last_claim() needs a look */
    for (int i = 0; i < 1500; i++)
        world_step(&w);
    for (size_t log = 0; log < WORLD_LOGS; log++)
        if (w.is_open[log])
            filler_die(&w.open[log]);
        else if (w.is_claimed[log])
            end_merge(&w.merging[log]);
}

/* ---- what is asked of the engine and of the disk ----------------------- */

/* Whatever is in it now may be of anybody; what was true before still is. */
CASE(when_what_is_held_cannot_be_read_it_claims_nothing_new, f)
{
    static const uint8_t garbage[8192] = {0xff};
    uint64_t words, broken;

    words = as_of(f, "words");
    broken = as_of(f, "broken");
    hold_record(f, "broken", clock_unix_ms() - 4000, 1);
    assert_rc(
        renameat(f->datadir.fd, "log/" WAITING_FOLDER, f->datadir.fd, "was"),
        0);
    file_put(file_path(f->dir.path, "log/" WAITING_FOLDER), garbage,
             sizeof garbage);

    /* The last scan that worked was that of "broken", maybe a millisecond
     * later. */
    assert_in_range(as_of(f, "words"), words, broken);
    assert_int_equal(as_of(f, "broken"), broken);
    assert_true(as_of(f, "never asked for") <= broken);

    assert_rc(
        renameat(f->datadir.fd, "log/" WAITING_FOLDER, f->datadir.fd, "bad"),
        0);
    expect_now(f, "words");
    expect_now(f, "broken");
    expect_now(f, "never asked for");
}

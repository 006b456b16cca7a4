/* tests/unit/test_waiting.c - log/waiting/: its index, its files, and what
 * happens when another process comes between two steps. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/worker_fixture.h"

#include "common/base/clock.h"
#include "common/store/waiting_table.h"
#include "worker/worker_status.h"

#define CASE(name, x)                                                          \
    TEST_IN(name, struct fixture *x, fixture_setup, fixture_teardown)

static struct log_fill
make_fill(uint8_t log, uint64_t epoch)
{
    return (struct log_fill){
        .uuid = {log}, .epoch = epoch, .first_ms = 1000 * epoch + log};
}

/* A fill with one increment for each of these keyspaces. */
static const char *
put_file(struct fixture *x, uint8_t log, uint64_t epoch, const char *keyspaces)
{
    struct aside_record records[8];
    const struct log_fill mark = make_fill(log, epoch);
    static char names[8][2];
    size_t count = strlen(keyspaces);

    for (size_t i = 0; i < count; i++) {
        names[i][0] = keyspaces[i];
        records[i] = (struct aside_record){names[i], "one", 1};
    }
    return aside_put(x->dir.log_fd, false, &mark, records, count, 60000);
}

static struct waiting
open_folder(struct fixture *x)
{
    struct waiting w;

    assert_rc(waiting_open(&w, x->dir.log_fd, true, true, 0), 0);
    assert_rc(waiting_list(&w), 0);
    return w;
}

/* "LOG.EPOCH" of each fill that names a keyspace, by log, then epoch. */
static const char *
fills_of(const struct waiting *w, const char *keyspace)
{
    static char text[512];
    const struct waiting_part *p;
    size_t count;

    text[0] = '\0';
    p = waiting_parts(w, waiting_find(w, (const uint8_t *)keyspace, 1), &count);
    for (size_t i = 0; i < count; i++) {
        const struct waiting_fill *f = p[i].fill;

        (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                       "%u.%u ", f->id.uuid[0], (unsigned)f->id.epoch);
    }
    return text;
}

/* ---- the index ----------------------------------------------------------- */

CASE(files_that_come_and_go_are_in_the_list, x)
{
    struct waiting w = open_folder(x);
    char first[WAITING_NAME_SIZE];

    assert_int_equal(w.file_count, 0);
    strcpy(first, put_file(x, 1, 2, "ab"));
    (void)put_file(x, 2, 1, "b");
    assert_rc(waiting_list(&w), 0);
    assert_string_equal(fills_of(&w, "a"), "1.2 ");
    assert_string_equal(fills_of(&w, "b"), "1.2 2.1 ");
    (void)put_file(x, 1, 1, "bc");
    assert_rc(waiting_list(&w), 0);
    assert_string_equal(fills_of(&w, "b"), "1.1 1.2 2.1 ");
    assert_string_equal(fills_of(&w, "c"), "1.1 ");

    assert_int_equal(unlinkat(w.dir_fd, first, 0), 0);
    assert_rc(waiting_list(&w), 0);
    assert_string_equal(fills_of(&w, "a"), "");
    assert_string_equal(fills_of(&w, "b"), "1.1 2.1 ");
    assert_int_equal(w.held_files, 2);
    assert_int_equal(w.held_bytes, 2 * 4096);
    assert_true(w.oldest_ms == 1001 && w.newest_ms == 1002);
    waiting_close(&w);
}

CASE(the_earlier_fill_of_a_log_is_the_last_one_before, x)
{
    struct waiting w;
    struct log_fill id;
    uint32_t b;

    (void)put_file(x, 1, 3, "b");
    (void)put_file(x, 1, 7, "ab");
    (void)put_file(x, 2, 5, "b");
    w = open_folder(x);
    b = waiting_find(&w, (const uint8_t *)"b", 1);
    id = make_fill(1, 9);
    assert_int_equal(waiting_earlier(&w, b, &id)->epoch, 7);
    id = make_fill(1, 7);
    assert_int_equal(waiting_earlier(&w, b, &id)->epoch, 3);
    assert_null(
        waiting_earlier(&w, waiting_find(&w, (const uint8_t *)"a", 1), &id));
    id = make_fill(1, 3);
    assert_null(waiting_earlier(&w, b, &id));
    id = make_fill(2, 5);
    assert_null(waiting_earlier(&w, b, &id));
    assert_true(waiting_has(&w, b, &id));
    id.first_ms++;
    assert_false(waiting_has(&w, b, &id));
    waiting_close(&w);
}

CASE(what_died_while_it_was_written_is_removed_and_nothing_else, x)
{
    struct waiting w = open_folder(x);
    struct waiting_new n;

    (void)put_file(x, 1, 1, "a");
    assert_rc(waiting_list(&w), 0);
    assert_rc(waiting_begin(&w, &n, false), 0);
    tmpdir_put(&x->tmp, "log/waiting/%t12345678", "half", 4, 0600);
    assert_rc(waiting_list(&w), 0);
    assert_int_equal(tmpdir_count(&x->tmp, "log/waiting"), 2);
    waiting_abort(&w, &n);
    assert_int_equal(tmpdir_count(&x->tmp, "log/waiting"), 1);
    fault_inject("flock", 1, EIO);
    assert_rc(waiting_begin(&w, &n, false), -EIO);
    fault_clear();
    assert_true(n.fd < 0); /* there is none to be given up */
    waiting_close(&w);
}

/* ---- replacing ----------------------------------------------------------- */

static void
put_many(struct fixture *x)
{
    for (uint64_t epoch = 1; epoch <= WAITING_JOIN_COUNT + 1; epoch++)
        (void)put_file(x, 1, epoch, "ab");
}

CASE(small_files_are_joined_and_all_fills_are_there, x)
{
    struct waiting w, other;

    put_many(x);
    w = open_folder(x);
    other = open_folder(x);
    assert_rc(waiting_claim(&other, other.files[3]), 0); /* it is in use */
    assert_rc(waiting_join(&w), 0);
    waiting_close(&other);
    assert_rc(waiting_list(&w), 0);
    assert_int_equal(w.file_count, 3); /* that one, and the last */
    assert_int_equal(w.index.part_count, 2 * (WAITING_JOIN_COUNT + 1));
    waiting_close(&w);
}

/* Two workers set the same fill aside, for different keyspaces. */
CASE(a_joined_file_may_have_a_fill_twice, x)
{
    struct waiting w;

    put_many(x);
    (void)put_file(x, 1, 1, "cd");
    w = open_folder(x);
    assert_rc(waiting_join(&w), 0);
    waiting_close(&w);
    merge_dry(x);
    assert_int_equal(count_of(x, "a", "one"), WAITING_JOIN_COUNT + 1);
    assert_int_equal(count_of(x, "d", "one"), 1);
    assert_int_equal(tmpdir_count(&x->tmp, "log/waiting"), 0);
}

/* A power loss brought the old names back. */
CASE(what_two_joined_files_both_have_is_once_in_the_new_one, x)
{
    struct waiting before, w;
    char other[WAITING_NAME_SIZE + 1];

    put_many(x);
    before = open_folder(x);
    for (size_t i = 0; i < before.file_count; i++) {
        (void)snprintf(other, sizeof other, "+%s", before.files[i]->name);
        assert_int_equal(linkat(before.dir_fd, before.files[i]->name,
                                before.dir_fd, other, 0),
                         0);
    }
    w = open_folder(x);
    assert_rc(waiting_join(&w), 0);
    for (size_t i = 0; i < before.file_count - 1; i++) {
        (void)snprintf(other, sizeof other, "+%s", before.files[i]->name);
        assert_int_equal(renameat(w.dir_fd, other, w.dir_fd, other + 1), 0);
    }
    waiting_close(&before);
    assert_rc(waiting_list(&w), 0);
    assert_int_equal(w.index.fill_count, 2 * WAITING_JOIN_COUNT + 1);
    assert_rc(waiting_join(&w), 0);
    assert_rc(waiting_list(&w), 0);
    assert_int_equal(w.file_count, 3); /* and one of the old, and the last */
    assert_int_equal(w.index.fill_count, WAITING_JOIN_COUNT + 2);
    waiting_close(&w);
}

/* As a power loss leaves it that brings the old names of joined files back. */
CASE(a_fill_that_two_files_have_is_shown_once, x)
{
    const uint8_t *b = (const uint8_t *)"b";
    struct waiting_sum sum = {.counts = NULL};
    struct waiting w;

    (void)put_file(x, 1, 1, "ab");
    (void)put_file(x, 1, 1, "bc");
    (void)put_file(x, 1, 2, "b");
    w = open_folder(x);
    waiting_sum(x->store, &w, waiting_find(&w, b, 1), &sum);
    assert_int_equal(sum.fills, 2);
    assert_int_equal(sum.increments, 2);
    waiting_close(&w);
}

CASE(a_keyspace_that_is_left_out_leaves_the_others, x)
{
    struct waiting w;
    struct waiting_left_out b = {.name = (const uint8_t *)"b", .size = 1};

    (void)put_file(x, 1, 1, "abc");
    (void)put_file(x, 1, 2, "b");
    (void)put_file(x, 2, 1, "ac");
    w = open_folder(x);
    assert_rc(waiting_leave_out(&w, &b), 0);
    assert_int_equal(b.fills, 2);
    assert_rc(waiting_list(&w), 0);
    assert_string_equal(fills_of(&w, "b"), "");
    assert_string_equal(fills_of(&w, "a"), "1.1 2.1 ");
    assert_int_equal(w.file_count, 2);
    waiting_close(&w);
    merge_dry(x);
    assert_int_equal(count_of(x, "a", "one"), 2);
    assert_int_equal(count_of(x, "b", "one"), INT64_MIN);
    assert_int_equal(count_of(x, "c", "one"), 2);
}

/* The third member of a joined file. */
CASE(a_damaged_fill_is_lost_alone_and_the_file_is_kept, x)
{
    struct waiting w;
    uint64_t at;

    put_many(x);
    w = open_folder(x);
    assert_rc(waiting_join(&w), 0);
    assert_rc(waiting_list(&w), 0);
    assert_true(w.files[0]->fills == WAITING_JOIN_COUNT);
    at = w.index.fills[2]->member.at + 60;
    file_write(file_path(x->tmp.path, "log/waiting/%s", w.files[0]->name),
               (off_t)at, "damage", 6);
    waiting_close(&w);

    fixture_close_worker(x);
    fixture_open_worker(x);
    merge_dry(x);
    assert_int_equal(count_of(x, "a", "one"), WAITING_JOIN_COUNT);
    assert_int_equal(tmpdir_count(&x->tmp, "log/waiting"), 1);
    assert_int_equal(x->merge.folder.bad_files, 1);
}

static void
remove_all(struct fixture *x)
{
    struct waiting w = open_folder(x);

    for (size_t i = 0; i < w.file_count; i++)
        assert_int_equal(unlinkat(w.dir_fd, w.files[i]->name, 0), 0);
    waiting_close(&w);
}

/* While a call fails, or every call of this kind from the nth on. */
static bool
join_failing(struct fixture *x, const char *call, unsigned n, bool lasting)
{
    struct waiting w;
    bool hit;

    remove_all(x);
    put_many(x);
    w = open_folder(x);
    (lasting ? fault_inject_from : fault_inject)(call, n, EIO);
    (void)waiting_join(&w); /* whatever it says */
    hit = fault_hit();
    fault_clear();
    waiting_close(&w);
    w = open_folder(x);
    assert_true(w.index.part_count >= 2 * (WAITING_JOIN_COUNT + 1));
    assert_int_equal(w.bad_files, 0);
    waiting_close(&w);
    return hit;
}

/* A name is removed only when what it had is durable under another. */
CASE(a_join_that_fails_loses_nothing, x)
{
    static const char *const ends[] = {"pwrite", "fsync", "renameat2",
                                       "unlinkat"};

    for (unsigned i = 0; i < 4; i++)
        for (unsigned n = 1; join_failing(x, ends[i], n, false); n += 1 + n / 8)
            continue;
    for (unsigned n = 1; join_failing(x, "disk", n, true); n += 1 + n / 16)
        assert_true(n < 5000);
    merge_dry(x);
    assert_int_equal(count_of(x, "a", "one"), WAITING_JOIN_COUNT + 1);
}

static void
join_files(void *ctx)
{
    struct fixture *x = ctx;
    struct waiting w = open_folder(x);

    (void)waiting_join(&w);
    waiting_close(&w);
}

/* A process that lists may have read the old names, and passed the place of the
 * new one. */
CASE(files_are_not_joined_while_they_are_listed, x)
{
    struct waiting w;

    put_many(x);
    assert_rc(waiting_open(&w, x->dir.log_fd, true, true, 0), 0);
    fault_hook("pread", 1, join_files, x);
    assert_rc(waiting_list(&w), 0);
    assert_true(fault_hit());
    fault_clear();
    assert_int_equal(w.file_count, WAITING_JOIN_COUNT + 1);
    assert_int_equal(w.index.part_count, 2 * (WAITING_JOIN_COUNT + 1));
    waiting_close(&w);
}

static char listed[2][WAITING_NAME_SIZE];

/* Two fills of a log come, the later one under names that are about to be read:
 * as if these had come at the end of a large folder, and the earlier one where
 * its reading had begun. */
static void
put_two(void *ctx)
{
    struct fixture *x = ctx;
    char from[3 * WAITING_NAME_SIZE], to[3 * WAITING_NAME_SIZE];

    (void)put_file(x, 1, 1, "b");
    (void)snprintf(from, sizeof from, "waiting/%s", put_file(x, 1, 2, "b"));
    for (int i = 0; i < 2; i++) {
        (void)snprintf(to, sizeof to, "waiting/%s", listed[i]);
        assert_int_equal(
            linkat(x->dir.log_fd, from, x->dir.log_fd, "waiting/+", 0), 0);
        assert_int_equal(
            renameat(x->dir.log_fd, "waiting/+", x->dir.log_fd, to), 0);
    }
    assert_int_equal(unlinkat(x->dir.log_fd, from, 0), 0);
}

CASE(a_list_that_has_a_fill_has_the_earlier_ones_of_its_log, x)
{
    struct waiting w;

    strcpy(listed[0], put_file(x, 2, 1, "a"));
    strcpy(listed[1], put_file(x, 3, 1, "a"));
    assert_rc(waiting_open(&w, x->dir.log_fd, true, true, 0), 0);
    fault_hook("pread", 1, put_two, x);
    assert_rc(waiting_list(&w), 0);
    assert_true(fault_hit());
    fault_clear();
    assert_string_equal(fills_of(&w, "b"), "1.1 1.2 ");
    waiting_close(&w);
}

CASE(a_keyspace_is_left_out_durably, x)
{
    struct waiting_left_out a = {.name = (const uint8_t *)"a", .size = 1};
    struct waiting w;

    (void)put_file(x, 1, 1, "a"); /* nothing is left of the file */
    w = open_folder(x);
    fault_inject("fsync", 1, EIO);
    assert_rc(waiting_leave_out(&w, &a), -EIO);
    fault_clear();
    waiting_close(&w);
}

/* ---- setting aside ------------------------------------------------------- */

/* The notes of merges are written then, and what is opened once is open. */
static void
warm_up(struct fixture *x)
{
    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
}

/* The file is synced, then the folder, then the log is EMPTY. */
CASE(a_log_stays_full_until_what_was_set_aside_has_a_durable_name, x)
{
    warm_up(x);
    full_log(x, 0);
    refuse_keyspace("a", -EBADMSG);
    fault_inject("fsync", 3, EIO); /* behind that of the folder's own name */
    (void)merge_run(&x->merge);    /* whatever it says */
    assert_true(fault_hit());
    fault_clear();
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    refuse_keyspace("a", 0);
    merge_dry(x);
    assert_counts(x, 2);
}

/* Another worker died between the two syncs. */
CASE(a_name_that_another_gave_is_made_durable_before_the_log_is_empty, x)
{
    struct log_fill mark;

    warm_up(x);
    mark = full_log(x, 0);
    set_aside_by_another(x, "a", &mark);
    refuse_keyspace("a", -EBADMSG);
    fault_inject("fsync", 1, EIO);
    (void)merge_run(&x->merge); /* whatever it says */
    assert_true(fault_hit());
    fault_clear();
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);
}

/* Another worker, while this one has looked for full logs and not claimed one:
 * it sets the fill aside, and the log is filled once more. */
static void
another_worker(void *ctx)
{
    struct fixture *x = ctx;
    struct merge m;

    assert_rc(merge_open(&m, &x->config, &x->dir, x->store), 0);
    m.pass.now_ms = fixture_now;
    assert_int_equal(merge_run(&m), MERGE_DONE);
    merge_close(&m);
    refuse_keyspace("a", 0);
    full_log(x, 0);
}

CASE(what_was_set_aside_before_the_log_was_claimed_is_seen, x)
{
    full_log(x, 0);
    refuse_keyspace("a", -EBADMSG);
    fault_hook("linkat", 1, another_worker, x);
    (void)merge_run(&x->merge); /* whatever it says */
    assert_true(fault_hit());
    fault_clear();
    while (merge_run(&x->merge) != MERGE_IDLE)
        continue;
    merge_dry(x);
    assert_counts(x, 2);
}

/* ---- merging what waits --------------------------------------------------- */

CASE(a_file_stays_until_all_its_keyspaces_have_it, x)
{
    (void)put_file(x, 1, 1, "ab");
    (void)put_file(x, 1, 2, "ab");
    refuse_keyspace("b", -EBADMSG);
    merge_dry(x);
    assert_int_equal(count_of(x, "a", "one"), 2);
    assert_in_range(store_faults_applies("b"), 10, 90); /* in an hour */
    assert_int_equal(tmpdir_count(&x->tmp, "log/waiting"), 2);
    refuse_keyspace("b", 0);
    merge_dry(x);
    assert_int_equal(count_of(x, "b", "one"), 2);
    assert_int_equal(count_of(x, "a", "one"), 2);
    assert_int_equal(tmpdir_count(&x->tmp, "log/waiting"), 0);
}

CASE(a_fill_counts_as_merged_when_its_file_is_gone, x)
{
    (void)put_file(x, 1, 1, "a");
    fault_inject_from("unlinkat", 1, EROFS);
    merge_dry(x);
    assert_true(fault_hit());
    fault_clear();
    assert_int_equal(count_of(x, "a", "one"), 1);
    assert_int_equal(x->merge.pass.fills, 0);
    merge_dry(x);
    assert_int_equal(x->merge.pass.fills, 1);
    assert_int_equal(tmpdir_count(&x->tmp, "log/waiting"), 0);
}

/* The file came back after a power loss. */
CASE(a_fill_behind_the_mark_is_in, x)
{
    const struct log_fill later = make_fill(1, 5);

    assert_rc(stored_add(x->store, "a", &later, "one", 7), 0);
    (void)put_file(x, 1, 3, "a");
    merge_dry(x);
    assert_int_equal(count_of(x, "a", "one"), 7);
    assert_int_equal(tmpdir_count(&x->tmp, "log/waiting"), 0);
}

/* Makes one pass; when the next is due. */
static uint64_t
make_pass(struct fixture *x)
{
    uint64_t due;

    do
        due = merge_waiting(&x->merge);
    while (x->merge.pass.passing);
    return due;
}

CASE(in_a_pass_a_keyspace_that_refuses_is_tried_once, x)
{
    for (uint64_t epoch = 1; epoch <= 9; epoch++)
        (void)put_file(x, 1, epoch, "a");
    refuse_keyspace("a", -EDQUOT);
    (void)make_pass(x);
    assert_int_equal(store_faults_applies("a"), 1);
}

CASE(passes_that_merge_nothing_come_less_and_less_often, x)
{
    uint64_t last = 0;

    (void)put_file(x, 1, 1, "a");
    refuse_keyspace("a", -EBADMSG);
    for (int i = 0; i < 16; i++) {
        const uint64_t due = make_pass(x);

        assert_in_range(due - fixture_ms, i == 0 ? 50 : last,
                        PASS_RETRY_MOST_MS);
        last = due - fixture_ms;
        fixture_ms = due;
    }
    assert_int_equal(last, PASS_RETRY_MOST_MS);
}

/* What a worker that ends when nothing can be merged goes by. */
CASE(what_another_process_has_is_waited_for_though_not_for_ever, x)
{
    struct waiting_pass *p = &x->merge.pass;
    struct waiting other;
    uint64_t waited = 0;

    (void)put_file(x, 1, 1, "a");
    other = open_folder(x);
    assert_rc(waiting_claim(&other, other.files[0]), 0);
    do {
        const uint64_t due = merge_waiting(&x->merge);

        waited += due - fixture_ms;
        fixture_ms = due;
    } while (waiting_pass_is_held_up(p));
    assert_in_range(waited, PASS_PATIENCE_MS, 4 * PASS_PATIENCE_MS);
    assert_int_equal(tmpdir_count(&x->tmp, "log/waiting"), 1);
    waiting_let_go(other.files[0]);
    merge_dry(x);
    assert_false(waiting_pass_is_held_up(p));
    assert_int_equal(count_of(x, "a", "one"), 1);
    waiting_close(&other);
}

static void
let_half_a_minute_pass(void *ctx)
{
    (void)ctx;
    fixture_ms += 30000;
}

CASE(after_a_long_pass_that_merged_nothing_comes_four_times_that, x)
{
    uint64_t due;

    (void)put_file(x, 1, 1, "a");
    refuse_keyspace("a", -EBADMSG);
    fault_hook("pread", 1, let_half_a_minute_pass, NULL);
    due = make_pass(x);
    assert_true(fault_hit());
    fault_clear();
    assert_int_equal(due - fixture_ms, 4 * 30000);
    fixture_ms = due;
    assert_int_equal(make_pass(x) - fixture_ms, 2 * PASS_RETRY_FIRST_MS);
}

/* Its marks say that the fill is in; without them it would count again. */
CASE(the_file_of_an_empty_keyspace_stays_while_a_fill_names_it, x)
{
    const struct log_fill mark = full_log(x, 0);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_rc(store_drop(x->store, (const uint8_t *)"a", 1), 0);
    set_aside_by_another(x, "a", &mark);
    for (int i = 0; i < 50; i++)
        (void)merge_maintain(&x->merge, clock_ns() + 1000000000);
    assert_true(tmpdir_has(&x->tmp, "keyspace/a.mdb"));
    merge_dry(x);
    assert_int_equal(count_of(x, "a", "one"), INT64_MIN);
}

/* ---- what is shown of it ---------------------------------------------------- */

static bool
show_status(void *ctx)
{
    worker_status_tick(ctx);
    return false;
}

CASE(a_fill_that_waits_is_not_shown_as_the_log_0_that_is_merged, x)
{
    int64_t values[STATUS_LOG_VALUES];
    struct worker_status shown = {.due_ms = 0};
    struct status board;

    status_create(&board, x->tmp.path);
    worker_status_init(&shown, x->tmp.path, &x->merge);
    x->merge.stop = show_status;
    x->merge.stop_ctx = &shown;
    (void)put_file(x, 1, 1, "a");
    merge_dry(x);
    assert_int_equal(count_of(x, "a", "one"), 1);
    status_get_log(&board, 0, values);
    assert_int_equal(values[STATUS_LOG_STATE], STATUS_LOG_NONE);

    full_log(x, 0);
    shown.due_ms = 0;
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    status_get_log(&board, 0, values);
    assert_int_equal(values[STATUS_LOG_STATE], STATUS_LOG_MERGING);
    worker_status_close(&shown);
    status_close(&board);
}

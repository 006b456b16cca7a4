/* tests/unit/test_postgresql_import.c - keyspaces of files that are moved into
 * PostgreSQL: all that they have, and once. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/counted.h"
#include "tests/lib/daemon.h"
#include "tests/lib/pg_store.h"
#include "tests/lib/stored.h"

static struct model model; /* of what is counted in the files, x->other */

static int
setup(void **state)
{
    struct pg_store *x = pg_store_setup(state);

    free(model.counters);
    model = (struct model){.count = 0};
    rng = 11;
    if (!x)
        return 0;
    x->other = engine_open_history(x->tmp.fd, ENGINE_TIERS, NULL);
    x->settings.store_timeout_ms = 2000 * test_slow();
    pg_store_open(x);
    assert_rc(pg_store_connect(x->s), 0);
    return 0;
}

#define CASE(name, x) PG_STORE(name, x, setup)

static struct log_fill
fill_of(uint64_t epoch)
{
    return (struct log_fill){
        .uuid = {(uint8_t)epoch}, .epoch = epoch, .first_ms = 1000 + epoch};
}

/* Counts in a store, of a fill, and in the model. */
static void
count_some(struct store *s, uint64_t epoch, bool huge)
{
    const struct log_fill fill = fill_of(epoch);
    struct store_applied applied;
    struct batch_keys b;

    batch_make(&b, 3000, 6000, 2, 1000, huge);
    model_apply(&model, &b);
    assert_rc(apply_deltas(s, KS, &fill, 1, b.deltas, b.count, &applied), 0);
    batch_free(&b);
}

static int
import_pages(struct pg_store *x)
{
    uint64_t keys;
    const int rc = postgresql_store_import(x->s, x->other, KS, &keys);

    if (rc == 0)
        assert_int_equal(keys, model.count);
    return rc;
}

static void
expect_imported(struct pg_store *x)
{
    struct store_totals t;

    compare_all(x->s, &model);
    check_clean(x->s);
    assert_rc(stored_totals(x->other, KS_NAME, &t), -ENOENT);
    assert_true(tmpdir_has(&x->tmp, "pages.moved"));
    assert_false(tmpdir_has(&x->tmp, "pages.mdb"));
}

/* As before, of what was imported. */
static void
put_back(const struct pg_store *x)
{
    assert_int_equal(renameat(x->tmp.fd, "pages.moved", x->tmp.fd, "pages.mdb"),
                     0);
}

static void
import_all(struct pg_store *x, bool huge)
{
    struct log_fill fill;

    for (uint64_t epoch = 1; epoch <= 4; epoch++)
        count_some(x->other, epoch, huge && epoch == 2);
    check_clean(x->other);
    assert_rc(import_pages(x), 0);
    expect_imported(x);
    for (uint64_t epoch = 1; epoch <= 4; epoch++) {
        fill = fill_of(epoch);
        assert_int_equal(mark_state(x->s, &fill), STORE_MARK_DONE);
        fill.epoch--;
        assert_int_equal(mark_state(x->s, &fill), STORE_MARK_AHEAD);
        fill.epoch += 2;
        assert_int_equal(mark_state(x->s, &fill), STORE_MARK_NONE);
    }
    count_some(x->s, 5, false);
    compare_all(x->s, &model);
    check_clean(x->s);
}

CASE(a_keyspace_has_what_its_file_had_and_counts_on, x)
{
    import_all(x, false);
}

CASE(saturated_counts_are_imported, x)
{
    import_all(x, true);
}

CASE(a_move_that_was_killed_behind_the_commit_is_completed, x)
{
    count_some(x->other, 1, false);
    assert_rc(import_pages(x), 0);
    put_back(x);
    assert_int_equal(
        linkat(x->tmp.fd, "pages.mdb", x->tmp.fd, "pages.moved", 0), 0);
    assert_rc(import_pages(x), 0);
    expect_imported(x);
    assert_rc(import_pages(x), -ENOENT);
}

CASE(a_move_that_fails_changes_nothing_and_is_repeated, x)
{
    struct store_totals t;
    PGconn *c;

    count_some(x->other, 1, false);
    c = pg_server_session("BEGIN; LOCK TABLE @.mark");
    assert_rc(import_pages(x), -EAGAIN);
    pg_server_session_end(c);
    assert_rc(stored_totals(x->s, KS_NAME, &t), -ENOENT);
    compare_all(x->other, &model);
    assert_false(tmpdir_has(&x->tmp, "pages.moved"));
    assert_rc(import_pages(x), 0);
    expect_imported(x);
}

/* A mark that the database has is never replaced by an older one. */
CASE(a_keyspace_that_has_counts_is_refused_until_it_is_dropped, x)
{
    struct log_fill fill = fill_of(1);

    count_some(x->other, 1, false);
    fill.epoch++;
    assert_rc(stored_add(x->s, KS_NAME, &fill, "the", 1), 0);
    assert_rc(import_pages(x), -ENOTEMPTY);
    compare_all(x->other, &model);
    assert_rc(store_drop(x->s, KS), 0);
    assert_rc(import_pages(x), 0);
    expect_imported(x);
    assert_int_equal(mark_state(x->s, &fill), STORE_MARK_DONE);
}

CASE(a_file_that_was_changed_behind_the_move_is_refused, x)
{
    count_some(x->other, 1, false);
    assert_rc(import_pages(x), 0);
    put_back(x);
    count_some(x->other, 2, false);
    assert_rc(import_pages(x), -ENOTEMPTY);
    assert_false(tmpdir_has(&x->tmp, "pages.moved"));
}

CASE(another_file_that_was_moved_is_not_replaced, x)
{
    count_some(x->other, 1, false);
    tmpdir_put(&x->tmp, "pages.moved", "x", 1, 0600);
    assert_rc(import_pages(x), -EEXIST);
    assert_true(tmpdir_has(&x->tmp, "pages.moved"));
    compare_all(x->other, &model);
}

CASE(what_was_dropped_is_imported_again, x)
{
    count_some(x->other, 1, false);
    assert_rc(import_pages(x), 0);
    assert_rc(store_drop(x->s, KS), 0);
    put_back(x);
    assert_rc(import_pages(x), 0);
    expect_imported(x);
}

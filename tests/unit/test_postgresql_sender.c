/* tests/unit/test_postgresql_sender.c - the numbers of a directory's commits:
 * what is noted in data/store, and a database that has fewer. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/engines.h"
#include "tests/lib/fault.h"
#include "tests/lib/pg_server.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

struct fixture {
    struct postgresql_options options;
    struct tmpdir tmp;
    struct datadir dir;
    struct store *s;
};

static void
open_again(struct fixture *x)
{
    store_close(x->s);
    assert_rc(postgresql_store_open(&x->s, &x->options), 0);
}

static int
setup(void **state)
{
    static struct fixture x;

    x = (struct fixture){.s = NULL};
    *state = &x;
    if (!pg_server_is_installed())
        return 0;
    tmpdir_make_in_memory(&x.tmp);
    x.dir.fd = x.tmp.fd;
    x.options = engine_postgresql_options();
    x.options.sender = &x.dir;
    open_again(&x);
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *x = *state;

    if (!x->s)
        return 0;
    store_close(x->s);
    tmpdir_remove(&x->tmp);
    return 0;
}

#define CASE(name, x) PG_CASE(name, x, setup, teardown)

static void
add_some(struct fixture *x, uint64_t from, uint64_t to)
{
    for (; from < to; from++) {
        const struct log_fill fill = {.uuid = {1}, .epoch = from};

        assert_rc(stored_add(x->s, "words", &fill, "the", 1), 0);
    }
}

static void
set_back(struct fixture *x, int by)
{
    char sql[128];

    (void)snprintf(sql, sizeof sql, "UPDATE %s.lane SET seq = seq - %d",
                   x->options.schema, by);
    (void)pg_server_run(sql);
}

CASE(a_database_with_fewer_commits_is_found_when_it_is_opened, x)
{
    add_some(x, 1, 4);
    assert_rc(store_settle(x->s), 0);
    open_again(x);
    assert_rc(postgresql_store_connect(x->s), 0);
    set_back(x, 2);
    open_again(x);
    assert_rc(postgresql_store_connect(x->s), -EHOSTDOWN);
    assert_non_null(strstr(store_trouble(x->s),
                           "has 1 transactions of this directory, which had "
                           "acknowledged ones up to 3"));
}

CASE(a_database_with_fewer_commits_is_found_behind_a_connection, x)
{
    const struct log_fill fill = {.uuid = {1}, .epoch = 9};
    struct store_row row;

    add_some(x, 1, 4);
    set_back(x, 1);
    assert_rc(stored_add(x->s, "words", &fill, "the", 1), -EHOSTDOWN);
    assert_non_null(strstr(store_trouble(x->s), "the database is behind"));
    x->options.sender = NULL;
    open_again(x);
    assert_rc(stored_get(x->s, "words", "the", &row), 0);
    assert_int_equal(row.count, 3);
}

/* A commit whose answer was lost has not been acknowledged. */
CASE(a_database_with_more_commits_is_not_behind, x)
{
    add_some(x, 1, 4);
    assert_rc(store_settle(x->s), 0);
    set_back(x, -5);
    open_again(x);
    add_some(x, 4, 6);
}

CASE(workers_of_a_directory_share_what_they_note, x)
{
    struct store *other;

    assert_rc(postgresql_store_open(&other, &x->options), 0);
    add_some(x, 1, 3);
    assert_rc(stored_add(other, "words", NULL, "the", 1), 0);
    assert_rc(store_settle(other), 0);
    assert_rc(store_settle(x->s), 0);
    store_close(other);
    set_back(x, 1);
    open_again(x);
    assert_rc(postgresql_store_connect(x->s), -EHOSTDOWN);
}

static void
fail_to_settle(struct fixture *x)
{
    fault_inject("fdatasync", 1, EIO);
    assert_rc(store_settle(x->s), -EIO);
    fault_clear();
}

/* Also when the file was read meanwhile: it has what was not synced. */
CASE(what_could_not_be_noted_is_noted_again, x)
{
    add_some(x, 1, 3);
    fail_to_settle(x);
    fail_to_settle(x);
    pg_server_crash();
    assert_rc(postgresql_store_connect(x->s), 0);
    fail_to_settle(x);
    assert_rc(store_settle(x->s), 0);
    assert_int_equal(fault_calls("fdatasync"), 1);
    assert_rc(store_settle(x->s), 0);
    assert_int_equal(fault_calls("fdatasync"), 1);
}

CASE(one_that_repairs_goes_on_and_counts_nothing, x)
{
    uint64_t has, acked;

    add_some(x, 1, 4);
    assert_rc(store_settle(x->s), 0);
    set_back(x, 3);
    x->options.repairs = true;
    open_again(x);
    add_some(x, 4, 6);
    x->options.repairs = false;
    open_again(x);
    assert_rc(postgresql_store_connect(x->s), -EHOSTDOWN);
    x->options.repairs = true;
    open_again(x);
    assert_rc(postgresql_store_accept(x->s, &has, &acked), 0);
    assert_int_equal(has, 0);
    assert_int_equal(acked, 3);
    x->options.repairs = false;
    open_again(x);
    add_some(x, 6, 8);
}

CASE(a_damaged_file_is_refused, x)
{
    struct store *s;

    tmpdir_put(&x->tmp, "store", "COUNTDS1 and no more", 20, 0600);
    assert_rc(postgresql_store_open(&s, &x->options), -EBADMSG);
}

/* ---- up to when ---------------------------------------------------------- */

#define NOON UINT64_C(1700000000000)

static uint64_t
noon(void *ctx)
{
    (void)ctx; /* it is always noon */
    return NOON;
}

static struct store_as_of
ask_reader(struct fixture *x)
{
    struct postgresql_options options = x->options;
    struct store_as_of as_of;
    struct store *reader;

    options.writable = false;
    assert_rc(postgresql_store_open(&reader, &options), 0);
    assert_rc(store_as_of(reader, &as_of), 0);
    store_close(reader);
    return as_of;
}

static void
change_senders(struct fixture *x, const char *begin, const char *end)
{
    char sql[256];

    (void)snprintf(sql, sizeof sql, "%s %s.sender %s", begin, x->options.schema,
                   end);
    (void)pg_server_run(sql);
}

CASE(what_this_directory_has_merged_is_all_there, x)
{
    const struct store_maintenance t = {.applied_ms = noon};

    assert_true(ask_reader(x).own_ms == UINT64_MAX);
    add_some(x, 1, 4);
    assert_rc(store_settle(x->s), 0);
    (void)store_maintain(x->s, &t);
    assert_true(ask_reader(x).own_ms == UINT64_MAX);
    assert_true(ask_reader(x).all_ms == UINT64_MAX);
}

/* As a standby lacks them. */
CASE(what_a_server_lacks_bounds_what_is_claimed_of_it, x)
{
    const struct store_maintenance t = {.applied_ms = noon};

    add_some(x, 1, 4);
    assert_rc(store_settle(x->s), 0);
    (void)store_maintain(x->s, &t);
    set_back(x, 1);
    assert_true(ask_reader(x).own_ms == NOON);
    change_senders(x, "DELETE FROM", "");
    assert_true(ask_reader(x).own_ms == 0);
}

CASE(others_bound_what_is_claimed_by_a_clock_that_is_compared, x)
{
    const struct store_maintenance t = {.applied_ms = noon};

    add_some(x, 1, 2);
    (void)store_maintain(x->s, &t);
    change_senders(x, "UPDATE", "SET id = 'other', skew = -60000");
    assert_true(ask_reader(x).all_ms == NOON);
    change_senders(x, "UPDATE", "SET skew = 60000");
    assert_in_range(ask_reader(x).all_ms, NOON - 60000 - 60000, NOON - 60000);
    change_senders(x, "UPDATE", "SET as_of = 5");
    assert_true(ask_reader(x).all_ms == 0);
    assert_true(ask_reader(x).own_ms == UINT64_MAX);
}

/* Another directory, whose worker says that it has merged all until noon. */
struct other {
    struct tmpdir tmp;
    struct datadir dir;
    struct postgresql_options options;
    struct store *s;
};

static const struct store_maintenance at_noon = {.applied_ms = noon};

static void
open_other(struct fixture *x, struct other *o)
{
    tmpdir_make_in_memory(&o->tmp);
    o->dir = (struct datadir){.fd = o->tmp.fd};
    o->options = x->options;
    o->options.sender = &o->dir;
    assert_rc(postgresql_store_open(&o->s, &o->options), 0);
    assert_rc(stored_add(o->s, "words", NULL, "of", 1), 0);
    assert_rc(store_settle(o->s), 0);
    (void)store_maintain(o->s, &at_noon);
}

static void
close_other(struct other *o)
{
    store_close(o->s);
    tmpdir_remove(&o->tmp);
}

CASE(a_directory_that_has_ended_bounds_nothing_until_it_is_back, x)
{
    struct other o;

    open_other(x, &o);
    assert_in_range(ask_reader(x).all_ms, NOON - 5000, NOON);
    postgresql_store_end(o.s);
    assert_true(ask_reader(x).all_ms == UINT64_MAX);
    (void)store_maintain(o.s, &at_noon);
    assert_in_range(ask_reader(x).all_ms, NOON - 5000, NOON);
    close_other(&o);
}

CASE(a_directory_that_finds_the_database_behind_has_not_ended, x)
{
    struct other o;

    open_other(x, &o);
    postgresql_store_end(o.s);
    set_back(x, 1);
    store_close(o.s);
    assert_rc(postgresql_store_open(&o.s, &o.options), 0);
    assert_rc(postgresql_store_connect(o.s), -EHOSTDOWN);
    assert_in_range(ask_reader(x).all_ms, NOON - 5000, NOON);
    close_other(&o);
}

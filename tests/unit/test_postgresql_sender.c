/* tests/unit/test_postgresql_sender.c - the numbers of a directory's commits:
 * what is noted in data/store, and a database that has fewer. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/fault.h"
#include "tests/lib/pg_store.h"
#include "tests/lib/stored.h"

static int
setup(void **state)
{
    struct pg_store *x = pg_store_setup(state);

    if (!x)
        return 0;
    x->options.sender = &x->dir;
    pg_store_open(x);
    return 0;
}

#define CASE(name, x) PG_STORE(name, x, setup)

static void
add_some(struct pg_store *x, uint64_t from, uint64_t to)
{
    for (; from < to; from++) {
        const struct log_fill fill = {.uuid = {1}, .epoch = from};

        assert_rc(stored_add(x->s, "words", &fill, "the", 1), 0);
    }
}

static void
set_back(int by)
{
    (void)pg_server_run("UPDATE @.lane SET seq = seq - %d", by);
}

CASE(a_database_with_fewer_commits_is_found_when_it_is_opened, x)
{
    add_some(x, 1, 4);
    assert_rc(store_settle(x->s), 0);
    pg_store_open(x);
    assert_rc(pg_store_connect(x->s), 0);
    set_back(2);
    pg_store_open(x);
    assert_rc(pg_store_connect(x->s), -EHOSTDOWN);
    assert_has(store_trouble(x->s),
               "has 1 transactions of this directory, which had acknowledged "
               "ones up to 3");
}

CASE(a_database_with_fewer_commits_is_found_behind_a_connection, x)
{
    const struct log_fill fill = {.uuid = {1}, .epoch = 9};
    struct store_row row;

    add_some(x, 1, 4);
    set_back(1);
    assert_rc(stored_add(x->s, "words", &fill, "the", 1), -EHOSTDOWN);
    assert_has(store_trouble(x->s), "the database is behind");
    x->options.sender = NULL;
    pg_store_open(x);
    assert_rc(stored_get(x->s, "words", "the", &row), 0);
    assert_int_equal(row.count, 3);
}

/* A commit whose answer was lost has not been acknowledged. */
CASE(a_database_with_more_commits_is_not_behind, x)
{
    add_some(x, 1, 4);
    assert_rc(store_settle(x->s), 0);
    set_back(-5);
    pg_store_open(x);
    add_some(x, 4, 6);
}

CASE(workers_of_a_directory_share_what_they_note, x)
{
    struct store *other = pg_store_open_other(x);

    add_some(x, 1, 3);
    assert_rc(stored_add(other, "words", NULL, "the", 1), 0);
    assert_rc(store_settle(other), 0);
    assert_rc(store_settle(x->s), 0);
    set_back(1);
    pg_store_open(x);
    assert_rc(pg_store_connect(x->s), -EHOSTDOWN);
}

static void
fail_to_settle(struct pg_store *x)
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
    assert_rc(pg_store_connect(x->s), 0);
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
    set_back(3);
    x->options.repairs = true;
    pg_store_open(x);
    add_some(x, 4, 6);
    x->options.repairs = false;
    pg_store_open(x);
    assert_rc(pg_store_connect(x->s), -EHOSTDOWN);
    x->options.repairs = true;
    pg_store_open(x);
    assert_rc(postgresql_store_accept(x->s, &has, &acked), 0);
    assert_int_equal(has, 0);
    assert_int_equal(acked, 3);
    x->options.repairs = false;
    pg_store_open(x);
    add_some(x, 6, 8);
}

CASE(a_damaged_file_is_refused, x)
{
    struct store *s;

    tmpdir_put(&x->tmp, "store", "COUNTDS1 and no more", 20, 0600);
    assert_rc(postgresql_store_open(&s, &x->options), -EBADMSG);
}

static uint8_t whole[156];

/* By its worker, while it is read. */
static void
put_whole(void *ctx)
{
    const struct pg_store *x = ctx;

    tmpdir_put(&x->tmp, "store", whole, sizeof whole, 0600);
}

CASE(a_file_that_is_being_written_is_read_again, x)
{
    uint8_t half[sizeof whole] = {0};
    struct store_as_of as_of;
    struct store *reader;
    int fd;

    fd = openat(x->tmp.fd, "store", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, whole, sizeof whole), sizeof whole);
    assert_int_equal(close(fd), 0);
    memcpy(half, whole, sizeof half / 2);
    tmpdir_put(&x->tmp, "store", half, sizeof half, 0600);
    x->options.writable = false;
    reader = pg_store_open_other(x);
    fault_hook("pread", 2, put_whole, x);
    assert_rc(store_as_of(reader, &as_of), 0);
    assert_true(fault_hit());
    fault_clear();
}

/* ---- up to when ---------------------------------------------------------- */

#define NOON UINT64_C(1700000000000)

static uint64_t
get_noon(void *ctx)
{
    (void)ctx; /* it is always noon */
    return NOON;
}

static const struct store_maintenance at_noon = {.applied_ms = get_noon};

static struct store_as_of
ask_reader(struct pg_store *x)
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

CASE(a_turn_that_cannot_begin_is_begun_again, x)
{
    struct store_as_of as_of;
    struct store *reader;

    x->options.writable = false;
    reader = pg_store_open_other(x);
    assert_rc(store_as_of(reader, &as_of), 0);
    store_read_end(reader);
    (void)pg_server_run("ALTER TABLE @.sender RENAME TO gone");
    assert_rc(store_as_of(reader, &as_of), -EPERM);
    (void)pg_server_run("ALTER TABLE @.gone RENAME TO sender");
    assert_rc(store_as_of(reader, &as_of), 0);
}

static uint64_t
count_call(void *ctx)
{
    ++*(unsigned *)ctx;
    return NOON;
}

/* Each is a commit. */
CASE(a_round_in_many_steps_says_up_to_when_not_at_each, x)
{
    unsigned calls = 0, steps = 0;
    const struct store_maintenance t = {.applied_ms = count_call,
                                        .ctx = &calls};
    const uint64_t since_ms = clock_ms();

    x->settings.history = *engine_rules(ENGINE_TIERS);
    pg_store_open(x);
    for (char name = 'a'; name <= 'z'; name++)
        assert_rc(stored_add(x->s, (char[]){name, '\0'}, NULL, "the", 1), 0);
    while (store_maintain(x->s, &t))
        steps++;
    assert_int_equal(steps, 26);
    assert_in_range(calls, 1, 1 + (clock_ms() - since_ms) / 500);
}

CASE(what_this_directory_has_merged_is_all_there, x)
{
    assert_true(ask_reader(x).own_ms == UINT64_MAX);
    add_some(x, 1, 4);
    assert_rc(store_settle(x->s), 0);
    (void)store_maintain(x->s, &at_noon);
    assert_true(ask_reader(x).own_ms == UINT64_MAX);
    assert_true(ask_reader(x).all_ms == UINT64_MAX);
}

/* As a standby lacks them. */
CASE(what_a_server_lacks_bounds_what_is_claimed_of_it, x)
{
    add_some(x, 1, 4);
    assert_rc(store_settle(x->s), 0);
    (void)store_maintain(x->s, &at_noon);
    set_back(1);
    assert_true(ask_reader(x).own_ms == NOON);
    (void)pg_server_run("DELETE FROM @.sender");
    assert_true(ask_reader(x).own_ms == 0);
}

CASE(others_bound_what_is_claimed_by_a_clock_that_is_compared, x)
{
    add_some(x, 1, 2);
    (void)store_maintain(x->s, &at_noon);
    (void)pg_server_run("UPDATE @.sender SET id = 'other', skew = -60000");
    assert_true(ask_reader(x).all_ms == NOON);
    (void)pg_server_run("UPDATE @.sender SET skew = 60000");
    assert_in_range(ask_reader(x).all_ms, NOON - 60000 - 60000, NOON - 60000);
    (void)pg_server_run("UPDATE @.sender SET as_of = 5");
    assert_true(ask_reader(x).all_ms == 0);
    assert_true(ask_reader(x).own_ms == UINT64_MAX);
}

/* A worker of another directory. */
static void
open_away(struct pg_store *x, const struct datadir *away)
{
    x->options.sender = away;
    (void)pg_store_open_other(x);
    x->options.sender = &x->dir;
}

/* Blocks of history after a round with this limit, where nothing is merged. */
static int
count_blocks(struct pg_store *x, uint64_t history_max)
{
    x->settings.history_max = history_max;
    pg_store_open(x);
    while (store_maintain(x->s, &at_noon))
        continue;
    return atoi(pg_server_run("SELECT count(*) FROM @.block"));
}

CASE(history_max_holds_where_nothing_is_merged_if_no_other_directory_counts, x)
{
    enum { HOURS = 40, KEYS = 400 };
    const uint32_t now = (uint32_t)(clock_unix_ms() / 60000);
    static struct store_delta deltas[KEYS];
    static char keys[KEYS][8];
    int all;

    x->settings.history = *engine_rules(ENGINE_TIERS);
    pg_store_open(x);
    for (uint32_t hour = HOURS; hour > 0; hour--) {
        for (int i = 0; i < KEYS; i++) {
            (void)snprintf(keys[i], sizeof keys[i], "%06d", i);
            deltas[i] = stored_delta(keys[i], 6, now - hour * 60,
                                     (int64_t)(hour * 7919) << (i % 30));
        }
        assert_rc(stored_apply(x->s, "words", NULL, deltas, KEYS), 0);
    }
    all = count_blocks(x, 0);

    (void)pg_server_run(
        "INSERT INTO @.sender VALUES ('other', 'idle', 1, 0, 0)");
    assert_int_equal(count_blocks(x, 20000), all);
    (void)pg_server_run("DELETE FROM @.sender WHERE id = 'other'");
    assert_in_range(count_blocks(x, 20000), 1, all / 2);
}

CASE(a_directory_that_has_ended_bounds_nothing_until_it_is_back, x)
{
    struct datadir away;
    struct tmpdir tmp;

    tmpdir_make_in_memory(&tmp);
    away = (struct datadir){.fd = tmp.fd};
    open_away(x, &away);
    assert_rc(stored_add(x->other, "words", NULL, "of", 1), 0);
    assert_rc(store_settle(x->other), 0);
    for (int i = 0; i < 2; i++) {
        (void)store_maintain(x->other, &at_noon);
        assert_in_range(ask_reader(x).all_ms, NOON - 5000, NOON);
        postgresql_store_end(x->other);
        assert_true(ask_reader(x).all_ms == UINT64_MAX);
    }

    /* One that finds the database behind has not ended. */
    set_back(1);
    open_away(x, &away);
    assert_rc(pg_store_connect(x->other), -EHOSTDOWN);
    assert_in_range(ask_reader(x).all_ms, NOON - 5000, NOON);
    tmpdir_remove(&tmp);
}

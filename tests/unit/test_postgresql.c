/* tests/unit/test_postgresql.c - PostgreSQL's engine: against a model, with
 * connections that end at any message, and with servers that are silent, locked,
 * or without their standby. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "tests/lib/counted.h"
#include "tests/lib/daemon.h"
#include "tests/lib/pg_store.h"
#include "tests/lib/stored.h"

static int
setup(void **state)
{
    struct pg_store *x = pg_store_setup(state);

    if (!x)
        return 0;
    x->settings.history = *engine_rules(ENGINE_TIERS);
    pg_store_open(x);
    return 0;
}

#define CASE(name, x) PG_STORE(name, x, setup)

/* Adds to one key of KS under a fill; again while the engine says to. */
static int
add_until_known(struct store *s, const struct log_fill *fill, int64_t sum)
{
    const uint64_t deadline = test_deadline(20000);
    const struct timespec pause = {.tv_nsec = 5000000};
    int rc;

    do {
        rc = stored_add(s, KS_NAME, fill, "the", sum);
        if (rc == 0)
            return 0;
        (void)nanosleep(&pause, NULL);
    } while ((rc == -EHOSTDOWN || rc == -EIO || rc == -EAGAIN) &&
             clock_ms() < deadline);
    return rc;
}

/* ---- against a model --------------------------------------------------- */

static void
delete_some(struct store *s, struct model *m)
{
    struct store_key keys[200];
    uint64_t deleted = 0;
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < m->count; i++)
        if (n < 200 && below(8) == 0)
            keys[n++] =
                (struct store_key){m->counters[i].key, m->counters[i].size};
    assert_rc(stored_del(s, KS_NAME, keys, n, &deleted), 0);
    assert_int_equal(deleted, n);
    for (size_t i = 0, k = 0; i < m->count; i++) {
        if (k < n && keys[k].key == m->counters[i].key) {
            m->sum -= m->counters[i].count;
            k++;
        } else {
            m->counters[kept++] = m->counters[i];
        }
    }
    m->count = kept;
}

static void
count_and_compare(struct store *s, bool huge)
{
    struct model m = {.count = 0};
    struct batch_keys b;
    struct store_applied applied;

    for (int round = 0; round < 6; round++) {
        batch_make(&b, 1500, 3000, 2, round == 3 ? 3 : 1000, huge);
        model_apply(&m, &b);
        assert_rc(apply_deltas(s, KS, NULL, 0, b.deltas, b.count, &applied), 0);
        batch_free(&b);
        if (round == 2 && !huge)
            delete_some(s, &m);
        check_clean(s);
    }
    compare_all(s, &m);
    free(m.counters);
}

CASE(what_is_counted_is_what_a_model_says, x)
{
    rng = 7;
    count_and_compare(x->s, false);
}

#define MANY 2000

static int
add_many(struct store *s, int64_t sum)
{
    static struct store_delta deltas[MANY];
    static char keys[MANY][8];
    const uint32_t minute = (uint32_t)(clock_unix_ms() / 60000);

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%06d", i);
        deltas[i] = stored_delta(keys[i], 6, minute, sum);
    }
    return stored_apply(s, KS_NAME, NULL, deltas, MANY);
}

CASE(a_step_of_maintenance_ends_when_its_time_is_over, x)
{
    const struct store_maintenance t = {.until_ns = 0};
    int steps = 0;

    assert_rc(stored_add(x->s, "one", NULL, "the", 1), 0);
    assert_rc(stored_add(x->s, "two", NULL, "the", 1), 0);
    while (store_maintain(x->s, &t))
        steps++;
    assert_int_equal(steps, 2);
}

/* In another directory history is off, and nothing is counted. */
CASE(a_keyspace_keeps_its_history_whatever_idle_machines_say, x)
{
    const struct store_maintenance t = {.until_ns = UINT64_MAX};

    assert_rc(add_many(x->s, 1), 0);
    x->settings.history = (struct tiers_rules){.all = {.count = 0}};
    (void)pg_store_open_other(x);
    while (store_maintain(x->other, &t))
        continue;
    assert_string_not_equal(pg_server_run("SELECT count(*) FROM @.block"), "0");
    assert_rc(stored_add(x->other, KS_NAME, NULL, "the", 1), 0);
    assert_string_equal(pg_server_run("SELECT count(*) FROM @.block"), "0");
    check_clean(x->s);
}

/* Of larger ones there is one in a page. */
CASE(two_blocks_of_history_are_in_a_page, x)
{
    assert_rc(add_many(x->s, 1000), 0);
    assert_in_range(
        strtol(pg_server_run("SELECT max(length(v)) FROM @.block"), NULL, 10),
        3000, 3900);
    check_clean(x->s);
}

CASE(counts_that_saturate_are_what_a_model_says, x)
{
    rng = 8;
    count_and_compare(x->s, true);
}

CASE(a_check_finds_a_row_that_was_changed_by_hand, x)
{
    static const char *const changes[][2] = {
        {"counter SET n = n + 1", "counter SET n = n - 1"},
        {"band SET keys = keys + 1", "band SET keys = keys - 1"}};

    assert_rc(stored_add(x->s, KS_NAME, NULL, "the", 5), 0);
    for (int i = 0; i < 2; i++) {
        struct store_check r = {.fault = print_fault};

        (void)pg_server_run("UPDATE @.%s", changes[i][0]);
        assert_rc(store_check(x->s, KS, &r), 0);
        assert_int_equal(r.faults, 1);
        (void)pg_server_run("UPDATE @.%s", changes[i][1]);
        check_clean(x->s);
    }
}

CASE(a_check_looks_at_history_behind_a_mark_that_names_no_log, x)
{
    const struct log_fill fill = pg_store_fill(1);
    struct store_check r = {.fault = print_fault};

    assert_rc(stored_add(x->s, KS_NAME, &fill, "the", 5), 0);
    assert_rc(add_many(x->s, 1), 0);
    (void)pg_server_run("UPDATE @.mark SET log = 'x'");
    assert_rc(store_check(x->s, KS, &r), 0);
    assert_int_equal(r.faults, 1);
    assert_int_equal(r.marks, 1);
    assert_true(r.blocks > 0);
}

CASE(keyspaces_of_all_lanes_count, x)
{
    struct store *s;
    char name[16];

    x->options.lanes = 4;
    s = pg_store_open_other(x);
    assert_int_equal(store_lanes(s), 4);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(name, sizeof name, "k%d", i);
        assert_rc(stored_add(s, name, NULL, "the", i + 1), 0);
        assert_int_equal(get_one(x->s, name, "the"), i + 1);
    }
}

CASE(limits_of_keyspaces_and_keys_are_kept, x)
{
    const struct store_delta two[] = {delta("a", 1), delta("b", 1)};
    struct store_applied applied;
    struct store *s;

    x->settings.keyspace_max = 1;
    x->settings.keyspace_max_keys = 1;
    s = pg_store_open_other(x);
    assert_rc(apply_deltas(s, KS, NULL, 0, two, 2, &applied), -EDQUOT);
    assert_false(applied.at_keyspace_max);
    assert_rc(stored_add(s, KS_NAME, NULL, "a", 1), 0);
    assert_rc(
        apply_deltas(s, (const uint8_t *)"more", 4, NULL, 0, two, 1, &applied),
        -EDQUOT);
    assert_true(applied.at_keyspace_max);
    assert_rc(stored_add(s, KS_NAME, NULL, "a", 1), 0);
    assert_int_equal(get_one(s, KS_NAME, "a"), 2);
}

CASE(a_keyspace_without_keys_makes_room_for_another, x)
{
    struct store *s;

    x->settings.keyspace_max = 1;
    s = pg_store_open_other(x);
    assert_rc(stored_add(s, KS_NAME, NULL, "a", 1), 0);
    assert_rc(stored_add(s, "more", NULL, "a", 1), -EDQUOT);
    assert_rc(store_drop(s, KS), 0);
    assert_rc(stored_add(s, "more", NULL, "a", 1), 0);
    assert_rc(stored_add(s, "others", NULL, "a", 1), -EDQUOT);
}

static int
count_listed(void *ctx, const uint8_t *name, size_t size, int64_t keys)
{
    (void)name;
    (void)size;
    (void)keys;
    ++*(int *)ctx;
    return 0;
}

static int
count_keyspaces(struct store *s)
{
    int count = 0;

    assert_rc(store_list(s, NULL, 0, count_listed, &count), 0);
    return count;
}

static int
count_with_empty(struct store *s)
{
    struct store_listing *l;
    struct store_listed found;
    int rc, count = 0;

    assert_rc(store_listing_open(s, &l), 0);
    l->with_empty = true;
    store_listing_start(l, NULL, 0);
    while ((rc = store_listing_next(l, UINT64_MAX, &found)) == 1)
        count++;
    assert_rc(rc, 0);
    store_listing_close(l);
    return count;
}

CASE(a_keyspace_without_keys_is_not_listed_and_keeps_its_marks, x)
{
    const struct log_fill fill = pg_store_fill(1);
    const struct store_key key = {(const uint8_t *)"a", 1};
    uint64_t deleted = 0;

    assert_rc(stored_add(x->s, KS_NAME, &fill, "a", 1), 0);
    assert_rc(stored_add(x->s, "more", NULL, "a", 1), 0);
    assert_int_equal(count_keyspaces(x->s), 2);
    assert_rc(store_drop(x->s, KS), 0);
    assert_int_equal(count_keyspaces(x->s), 1);
    assert_rc(stored_del(x->s, "more", &key, 1, &deleted), 0);
    assert_int_equal(count_keyspaces(x->s), 0);
    assert_int_equal(count_with_empty(x->s), 2); /* for countd check */
    assert_rc(stored_add(x->s, KS_NAME, &fill, "a", 1), 0); /* once */
    assert_int_equal(count_keyspaces(x->s), 0);
    assert_rc(stored_add(x->s, KS_NAME, NULL, "a", 1), 0);
    assert_int_equal(count_keyspaces(x->s), 1);
    /* One that says so wrongly is there to be checked. */
    (void)pg_server_run("UPDATE @.keyspace SET keys = 0, sum = 0");
    assert_int_equal(count_keyspaces(x->s), 1);
}

/* ---- what goes through a connection -------------------------------------- */

static _Atomic int cut_at; /* a client's message that is cut off; 0: none */

static bool
cut_at_message(bool from_server, char *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    return from_server || cut_at == 0 || --cut_at > 0;
}

/* The handle is closed then, as when its worker has died. */
CASE(a_worker_that_is_gone_at_any_message_counts_once, x)
{
    int n, rc = -EIO;

    assert_rc(stored_add(x->s, KS_NAME, NULL, "the", 1), 0);
    pg_store_look(x, cut_at_message);
    for (n = 1; rc < 0; n++) {
        const struct log_fill fill = pg_store_fill((uint64_t)n);
        struct store *s = pg_store_open_other(x);

        assert_rc(pg_store_connect(s), 0);
        cut_at = n;
        rc = stored_add(s, KS_NAME, &fill, "the", 1);
        cut_at = 0;
        assert_rc(add_until_known(x->s, &fill, 1), 0);
        assert_int_equal(get_one(x->s, KS_NAME, "the"), n + 1);
    }
    assert_true(n > 7);
    check_clean(x->s);
}

#define COMMIT_NAME "countd_2" /* the prepared statement of COMMIT */

enum cut { CUT_NONE, CUT_BEFORE, CUT_ANSWER };

static _Atomic int cut; /* an enum cut: at the next COMMIT */

static bool
cut_at_commit(bool from_server, char *bytes, size_t size)
{
    static const char name[] = COMMIT_NAME; /* with its NUL */
    static _Atomic bool is_answer;          /* of one that is to be cut */

    if (from_server)
        return !atomic_exchange(&is_answer, false);
    if (cut == CUT_NONE || memmem(bytes, size, name, sizeof name) == NULL)
        return true;
    is_answer = cut == CUT_ANSWER;
    return atomic_exchange(&cut, CUT_NONE) != CUT_BEFORE;
}

static bool
make_old(bool from_server, char *bytes, size_t size)
{
    static const char name[] = "server_version"; /* a NUL, then the value */
    char *at = memmem(bytes, size, name, sizeof name);

    if (at && from_server)
        memcpy(at + sizeof name, "12", 2);
    return true;
}

/* BackendKeyData has another process. */
static bool
make_pooler(bool from_server, char *bytes, size_t size)
{
    static const char head[] = {'K', 0, 0, 0, 12};
    char *at = memmem(bytes, size, head, sizeof head);

    if (at && from_server)
        at[sizeof head + 3] ^= 1;
    return true;
}

CASE(a_connection_cut_at_commit_has_an_unknown_outcome, x)
{
    struct store *s;

    pg_store_look(x, cut_at_commit);
    s = pg_store_open_other(x);
    for (uint64_t i = 0; i < 6; i++) {
        const struct log_fill fill = pg_store_fill(i + 1);

        assert_rc(add_until_known(
                      s, &(struct log_fill){.uuid = {3}, .epoch = i + 1}, 0),
                  0); /* connected */
        cut = i % 2 == 0 ? CUT_BEFORE : CUT_ANSWER;
        assert_rc(stored_add(s, KS_NAME, &fill, "the", 7), -EIO);
        assert_rc(add_until_known(s, &fill, 7), 0);
        assert_int_equal(get_one(x->s, KS_NAME, "the"), 7 * ((int)i + 1));
    }
    check_clean(x->s);
}

static void
refuse_server(struct pg_store *x,
              bool (*look)(bool from_server, char *bytes, size_t size),
              const char *words)
{
    int64_t values[STATUS_FIGURES];
    struct store *s;

    pg_store_look(x, look);
    s = pg_store_open_other(x);
    assert_rc(pg_store_connect(s), -EPERM);
    assert_has(store_trouble(s), words);
    postgresql_store_figures(s, values);
    assert_int_equal(values[STATUS_M_DB_REFUSED], 1);
}

CASE(a_server_older_than_13_and_a_pooler_are_refused, x)
{
    refuse_server(x, make_old, "older than PostgreSQL 13");
    refuse_server(x, make_pooler, "a pooler such as PgBouncer");
}

/* Cancels a wait for the standby, once, as an operator may. */
static void *
cancel_a_wait(void *ctx)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    PGconn *c = ctx;
    bool cancelled = false;

    while (!cancelled && PQstatus(c) == CONNECTION_OK) {
        PGresult *r =
            PQexec(c, "SELECT pg_cancel_backend(pid) FROM "
                      "pg_stat_activity WHERE wait_event = 'SyncRep'");

        cancelled = PQntuples(r) > 0;
        PQclear(r);
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

/* The same batch, with that. */
static void
add_without_standby(struct store *s, const struct log_fill *fill)
{
    PGconn *c = pg_server_session("SELECT 1");
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, cancel_a_wait, c), 0);
    assert_rc(stored_add(s, KS_NAME, fill, "the", 5), -EIO);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pg_server_session_end(c);
}

/* A commit that no standby has is answered COMMIT, with a warning. */
CASE(a_commit_with_a_warning_is_not_believed, x)
{
    const struct log_fill fill = pg_store_fill(1);

    assert_rc(stored_add(x->s, KS_NAME, NULL, "the", 1), 0);
    pg_server_set("synchronous_standby_names", "away");
    add_without_standby(x->s, &fill);
    assert_has(store_trouble(x->s), "synchronous replication");
    /* It can be seen, and may still be lost: not believed either. */
    assert_int_equal(get_one(x->s, KS_NAME, "the"), 6);
    add_without_standby(x->s, &fill);
    pg_server_set("synchronous_standby_names", "");
    assert_rc(add_until_known(x->s, &fill, 5), 0);
    assert_int_equal(get_one(x->s, KS_NAME, "the"), 6);
}

/* A database whose standby is away keeps the worker waiting, not silent. */
CASE(a_commit_that_waits_for_its_standby_is_given_up, x)
{
    const struct log_fill fill = pg_store_fill(1);
    struct store *s;

    assert_rc(stored_add(x->s, KS_NAME, NULL, "the", 1), 0);
    pg_server_set("synchronous_standby_names", "away");
    x->settings.store_timeout_ms = 400 * test_slow();
    s = pg_store_open_other(x);
    assert_rc(stored_add(s, KS_NAME, &fill, "the", 5), -EIO);
    assert_has(store_trouble(s), "does not answer");
    assert_rc(stored_add(s, KS_NAME, &fill, "the", 5), -EAGAIN); /* its lock */
    pg_server_set("synchronous_standby_names", "");
    assert_rc(add_until_known(s, &fill, 5), 0);
    assert_int_equal(get_one(x->s, KS_NAME, "the"), 6);
}

/* ---- deadlines --------------------------------------------------------- */

/* A row takes so long that all of them do not end in time. */
CASE(a_server_that_is_slow_gets_fewer_keys_in_a_statement, x)
{
    const uint64_t deadline = clock_ms() + 60000 * (uint64_t)test_slow();
    struct store *s;
    int rc;

    (void)pg_server_run(
        "CREATE FUNCTION @.slow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
        "PERFORM pg_sleep(%u * 0.0005); RETURN NEW; END$$; CREATE TRIGGER slow "
        "BEFORE INSERT ON @.counter FOR EACH ROW EXECUTE FUNCTION @.slow()",
        test_slow());
    x->settings.store_timeout_ms = 1000 * test_slow();
    s = pg_store_open_other(x);
    do
        rc = add_many(s, 1);
    while (rc == -EHOSTDOWN && clock_ms() < deadline);
    assert_rc(rc, 0);
    assert_int_equal(get_one(x->s, KS_NAME, "001999"), 1);
}

CASE(a_silent_server_is_given_up_and_named, x)
{
    const struct log_fill fill = pg_store_fill(1);
    uint64_t since_ms, took_ms;
    struct store *s;
    pid_t pid;
    int rc;

    x->settings.store_timeout_ms = 300 * test_slow();
    s = pg_store_open_other(x);
    assert_rc(stored_add(s, KS_NAME, NULL, "the", 1), 0);
    pid = (pid_t)atoi(pg_server_run(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'countd'"));
    assert_true(pid > 0);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    since_ms = clock_ms();
    rc = stored_add(s, KS_NAME, &fill, "the", 5);
    took_ms = clock_ms() - since_ms;
    assert_int_equal(kill(pid, SIGCONT), 0); /* before anything can fail */
    assert_rc(rc, -EHOSTDOWN);
    assert_true(took_ms >= x->settings.store_timeout_ms);
    assert_true(took_ms < 60 * x->settings.store_timeout_ms);
    assert_has(store_trouble(s), "does not answer within");
    assert_has(store_trouble(s), pg_server_path());
    assert_rc(add_until_known(s, &fill, 5), 0);
    assert_int_equal(get_one(s, KS_NAME, "the"), 6);
}

CASE(a_lock_of_another_session_is_waited_for_in_time, x)
{
    const struct log_fill fill = pg_store_fill(1);
    struct store *s;
    PGconn *c;

    x->settings.store_timeout_ms = 600 * test_slow();
    s = pg_store_open_other(x);
    assert_rc(stored_add(s, KS_NAME, NULL, "the", 1), 0);
    c = pg_server_session("BEGIN; LOCK TABLE @.counter IN SHARE MODE");
    assert_rc(stored_add(s, KS_NAME, &fill, "the", 5), -EAGAIN);
    assert_has(store_trouble(s), "countd store names the session");
    pg_server_session_end(c);
    assert_rc(add_until_known(s, &fill, 5), 0);
    assert_int_equal(get_one(s, KS_NAME, "the"), 6);
}

/* tests/unit/test_postgresql.c - PostgreSQL's engine: against a model, with
 * processes and connections that end at any step, and with servers that are
 * silent, locked, or without their standby. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/counted.h"
#include "tests/lib/daemon.h"
#include "tests/lib/engines.h"
#include "tests/lib/pg_proxy.h"
#include "tests/lib/pg_server.h"
#include "tests/lib/stored.h"

struct fixture {
    struct postgresql_options options;
    struct tiers_rules history;
    struct store *s;
};

static int
setup(void **state)
{
    static struct fixture x;
    const char *why;

    x = (struct fixture){.s = NULL};
    *state = &x;
    if (!pg_server_is_installed())
        return 0;
    assert_rc(tiers_rules_set(&x.history, NULL, ENGINE_TIERS, &why), 0);
    x.options = engine_postgresql_options();
    x.options.history = &x.history;
    assert_rc(postgresql_store_open(&x.s, &x.options), 0);
    return 0;
}

static int
teardown(void **state)
{
    store_close(((struct fixture *)*state)->s);
    return 0;
}

#define CASE(name, x) PG_CASE(name, x, setup, teardown)

static struct log_fill
fill_of(uint64_t epoch)
{
    return (struct log_fill){.uuid = {9}, .epoch = epoch, .first_ms = epoch};
}

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
    uint64_t deleted;
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < m->count; i++)
        if (n < 200 && below(8) == 0)
            keys[n++] =
                (struct store_key){m->counters[i].key, m->counters[i].size};
    assert_rc(store_del(s, KS, keys, n, &deleted), 0);
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

/* Of larger ones there is one in a page. */
CASE(two_blocks_of_history_are_in_a_page, x)
{
    static struct store_delta deltas[2000];
    static char keys[2000][8];
    const uint32_t minute = (uint32_t)(clock_unix_ms() / 60000);
    char sql[128];

    for (int i = 0; i < 2000; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%06d", i);
        deltas[i] = (struct store_delta){.key = (const uint8_t *)keys[i],
                                         .key_size = 6,
                                         .minute = minute,
                                         .sum_low = 1000};
    }
    assert_rc(stored_apply(x->s, KS_NAME, NULL, deltas, 2000), 0);
    (void)snprintf(sql, sizeof sql, "SELECT max(length(v)) FROM %s.block",
                   x->options.schema);
    assert_in_range(strtol(pg_server_run(sql), NULL, 10), 3000, 3900);
    check_clean(x->s);
}

CASE(counts_that_saturate_are_what_a_model_says, x)
{
    rng = 8;
    count_and_compare(x->s, true);
}

CASE(a_check_finds_a_row_that_was_changed_by_hand, x)
{
    struct store_check_result r;
    char sql[128];

    assert_rc(stored_add(x->s, KS_NAME, NULL, "the", 5), 0);
    check_clean(x->s);
    (void)snprintf(sql, sizeof sql, "UPDATE %s.counter SET n = n + 1",
                   x->options.schema);
    (void)pg_server_run(sql);
    assert_rc(store_check(x->s, KS, print_fault, NULL, &r), 0);
    assert_int_equal(r.faults, 1);
    (void)snprintf(sql, sizeof sql,
                   "UPDATE %s.counter SET n = n - 1; "
                   "UPDATE %s.band SET keys = keys + 1",
                   x->options.schema, x->options.schema);
    (void)pg_server_run(sql);
    assert_rc(store_check(x->s, KS, print_fault, NULL, &r), 0);
    assert_int_equal(r.faults, 1);
}

CASE(keyspaces_of_all_lanes_count, x)
{
    char name[] = "k00";
    struct store *s;

    x->options.lanes = 4;
    assert_rc(postgresql_store_open(&s, &x->options), 0);
    assert_int_equal(store_lanes(s), 4);
    for (int i = 0; i < 20; i++) {
        name[1] = (char)('0' + i / 10);
        name[2] = (char)('0' + i % 10);
        assert_rc(stored_add(s, name, NULL, "the", i + 1), 0);
        assert_int_equal(get_one(x->s, name, "the"), i + 1);
    }
    store_close(s);
}

CASE(limits_of_keyspaces_and_keys_are_kept, x)
{
    const struct store_delta two[] = {delta("a", 1), delta("b", 1)};
    struct store_applied applied;
    struct store *s;

    x->options.keyspace_max = 1;
    x->options.keys_max = 1;
    assert_rc(postgresql_store_open(&s, &x->options), 0);
    assert_rc(apply_deltas(s, KS, NULL, 0, two, 2, &applied), -EDQUOT);
    assert_false(applied.at_keyspace_max);
    assert_rc(stored_add(s, KS_NAME, NULL, "a", 1), 0);
    assert_rc(
        apply_deltas(s, (const uint8_t *)"more", 4, NULL, 0, two, 1, &applied),
        -EDQUOT);
    assert_true(applied.at_keyspace_max);
    assert_rc(stored_add(s, KS_NAME, NULL, "a", 1), 0);
    assert_int_equal(get_one(s, KS_NAME, "a"), 2);
    store_close(s);
}

/* ---- two processes ----------------------------------------------------- */

#define BATCHES 40

/* A process that counts 1 into "the" with each of its fills. */
static pid_t
count_in_child(const struct fixture *x, uint8_t log)
{
    struct log_fill fill = {.uuid = {log}};
    struct store *s;
    const pid_t pid = fork();

    if (pid != 0)
        return pid;
    if (postgresql_store_open(&s, &x->options) < 0)
        _exit(2);
    for (fill.epoch = 1; fill.epoch <= BATCHES; fill.epoch++)
        if (add_until_known(s, &fill, 1) != 0)
            _exit(3);
    _exit(0);
}

CASE(two_processes_count_into_one_keyspace, x)
{
    pid_t pids[2];
    int status;

    for (uint8_t i = 0; i < 2; i++)
        pids[i] = count_in_child(x, (uint8_t)(i + 1));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(get_one(x->s, KS_NAME, "the"), 2 * BATCHES);
    check_clean(x->s);
}

static unsigned kill_at;

static void
end_at_step(unsigned step)
{
    if (step == kill_at)
        (void)raise(SIGKILL);
}

CASE(a_worker_that_dies_at_any_step_counts_once, x)
{
    int status;

    assert_rc(stored_add(x->s, KS_NAME, NULL, "the", 1), 0);
    for (kill_at = 0; kill_at < POSTGRESQL_STEPS; kill_at++) {
        const struct log_fill fill = fill_of(kill_at + 1);
        const pid_t pid = fork();

        if (pid == 0) {
            struct store *s;

            x->options.step = end_at_step;
            if (postgresql_store_open(&s, &x->options) == 0)
                (void)stored_add(s, KS_NAME, &fill, "the", 1);
            _exit(1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_rc(add_until_known(x->s, &fill, 1), 0);
        assert_int_equal(get_one(x->s, KS_NAME, "the"), kill_at + 2);
    }
    check_clean(x->s);
}

CASE(a_server_that_crashes_keeps_what_it_committed, x)
{
    for (uint64_t i = 1; i <= 3; i++) {
        const struct log_fill fill = fill_of(i);

        assert_rc(add_until_known(x->s, &fill, 10), 0);
        pg_server_crash();
        assert_rc(add_until_known(x->s, &fill, 10), 0);
    }
    assert_int_equal(get_one(x->s, KS_NAME, "the"), 30);
    check_clean(x->s);
}

/* A row takes so long that all of them do not end in time. */
CASE(a_server_that_is_slow_gets_fewer_keys_in_a_statement, x)
{
    static struct store_delta deltas[2000];
    static char keys[2000][8];
    const uint64_t deadline = clock_ms() + 60000 * (uint64_t)test_slow();
    char sql[512];
    struct store *s;
    int rc;

    for (int i = 0; i < 2000; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%06d", i);
        deltas[i] = (struct store_delta){
            .key = (const uint8_t *)keys[i], .key_size = 6, .sum_low = 1};
    }
    (void)snprintf(sql, sizeof sql,
                   "CREATE FUNCTION %s.slow() RETURNS trigger LANGUAGE plpgsql "
                   "AS $$BEGIN PERFORM pg_sleep(0.0005); RETURN NEW; END$$; "
                   "CREATE TRIGGER slow BEFORE INSERT ON %s.counter FOR EACH "
                   "ROW EXECUTE FUNCTION %s.slow()",
                   x->options.schema, x->options.schema, x->options.schema);
    (void)pg_server_run(sql);
    x->options.timeout_ms = 1000;
    assert_rc(postgresql_store_open(&s, &x->options), 0);
    do
        rc = stored_apply(s, KS_NAME, NULL, deltas, 2000);
    while (rc == -EHOSTDOWN && clock_ms() < deadline);
    assert_rc(rc, 0);
    store_close(s);
    assert_int_equal(get_one(x->s, KS_NAME, "001999"), 1);
}

/* ---- COMMIT ------------------------------------------------------------ */

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

static struct pg_proxy proxy; /* outlives a test that fails */

static struct store *
open_through(bool (*look)(bool from_server, char *bytes, size_t size),
             struct fixture *x)
{
    struct store *s;

    proxy.look = look;
    pg_proxy_start(&proxy);
    x->options.conninfo = proxy.conninfo;
    assert_rc(postgresql_store_open(&s, &x->options), 0);
    return s;
}

CASE(a_connection_cut_at_commit_has_an_unknown_outcome, x)
{
    struct store *s = open_through(cut_at_commit, x);

    for (uint64_t i = 0; i < 6; i++) {
        const struct log_fill fill = fill_of(i + 1);

        assert_rc(add_until_known(
                      s, &(struct log_fill){.uuid = {3}, .epoch = i + 1}, 0),
                  0); /* connected */
        cut = i % 2 == 0 ? CUT_BEFORE : CUT_ANSWER;
        assert_rc(stored_add(s, KS_NAME, &fill, "the", 7), -EIO);
        assert_rc(add_until_known(s, &fill, 7), 0);
        assert_int_equal(get_one(x->s, KS_NAME, "the"), 7 * ((int)i + 1));
    }
    store_close(s);
    pg_proxy_stop(&proxy);
    check_clean(x->s);
}

static void
refuse_server(struct fixture *x,
              bool (*look)(bool from_server, char *bytes, size_t size),
              const char *words)
{
    int64_t values[STATUS_FIGURES];
    struct store *s = open_through(look, x);

    assert_rc(postgresql_store_connect(s), -EPERM);
    assert_has(store_trouble(s), words);
    postgresql_store_figures(s, values);
    assert_int_equal(values[STATUS_M_DB_REFUSED], 1);
    store_close(s);
    pg_proxy_stop(&proxy);
}

CASE(a_server_older_than_13_and_a_pooler_are_refused, x)
{
    refuse_server(x, make_old, "older than PostgreSQL 13");
    refuse_server(x, make_pooler, "a pooler such as PgBouncer");
}

static void
lose_standby(void)
{
    (void)pg_server_run("ALTER SYSTEM SET synchronous_standby_names = 'away'");
    (void)pg_server_run("SELECT pg_reload_conf()");
    pg_server_await("SHOW synchronous_standby_names", "away");
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
    PGconn *c = PQconnectdb(pg_server_conninfo());
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, cancel_a_wait, c), 0);
    assert_rc(stored_add(s, KS_NAME, fill, "the", 5), -EIO);
    assert_int_equal(pthread_join(thread, NULL), 0);
    PQfinish(c);
}

/* A commit that no standby has is answered COMMIT, with a warning. */
CASE(a_commit_with_a_warning_is_not_believed, x)
{
    const struct log_fill fill = fill_of(1);

    assert_rc(stored_add(x->s, KS_NAME, NULL, "the", 1), 0);
    lose_standby();
    add_without_standby(x->s, &fill);
    assert_has(store_trouble(x->s), "synchronous replication");
    /* It can be seen, and may still be lost: not believed either. */
    assert_int_equal(get_one(x->s, KS_NAME, "the"), 6);
    add_without_standby(x->s, &fill);
    (void)pg_server_run("ALTER SYSTEM RESET synchronous_standby_names");
    (void)pg_server_run("SELECT pg_reload_conf()");
    assert_rc(add_until_known(x->s, &fill, 5), 0);
    assert_int_equal(get_one(x->s, KS_NAME, "the"), 6);
}

/* A database whose standby is away keeps the worker waiting, not silent. */
CASE(a_commit_that_waits_for_its_standby_is_given_up, x)
{
    const struct log_fill fill = fill_of(1);
    struct store *s;

    assert_rc(stored_add(x->s, KS_NAME, NULL, "the", 1), 0);
    lose_standby();
    x->options.timeout_ms = 400 * test_slow();
    assert_rc(postgresql_store_open(&s, &x->options), 0);
    assert_rc(stored_add(s, KS_NAME, &fill, "the", 5), -EIO);
    assert_has(store_trouble(s), "does not answer");
    assert_rc(stored_add(s, KS_NAME, &fill, "the", 5), -EAGAIN); /* its lock */
    (void)pg_server_run("ALTER SYSTEM RESET synchronous_standby_names");
    (void)pg_server_run("SELECT pg_reload_conf()");
    assert_rc(add_until_known(s, &fill, 5), 0);
    assert_int_equal(get_one(x->s, KS_NAME, "the"), 6);
    store_close(s);
}

/* ---- deadlines --------------------------------------------------------- */

CASE(a_silent_server_is_given_up_and_named, x)
{
    const struct log_fill fill = fill_of(1);
    uint64_t since_ms, took_ms;
    struct store *s;
    char sql[160];
    pid_t pid;
    int rc;

    x->options.timeout_ms = 300 * test_slow();
    assert_rc(postgresql_store_open(&s, &x->options), 0);
    assert_rc(stored_add(s, KS_NAME, NULL, "the", 1), 0);
    (void)snprintf(sql, sizeof sql,
                   "SELECT pid FROM pg_stat_activity WHERE application_name = "
                   "'countd'");
    pid = (pid_t)atoi(pg_server_run(sql));
    assert_true(pid > 0);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    since_ms = clock_ms();
    rc = stored_add(s, KS_NAME, &fill, "the", 5);
    took_ms = clock_ms() - since_ms;
    assert_int_equal(kill(pid, SIGCONT), 0); /* before anything can fail */
    assert_rc(rc, -EHOSTDOWN);
    assert_true(took_ms >= x->options.timeout_ms);
    assert_true(took_ms < 10 * x->options.timeout_ms);
    assert_has(store_trouble(s), "does not answer within");
    assert_has(store_trouble(s), pg_server_path());
    assert_rc(add_until_known(s, &fill, 5), 0);
    assert_int_equal(get_one(s, KS_NAME, "the"), 6);
    store_close(s);
}

CASE(a_lock_of_another_session_is_waited_for_in_time, x)
{
    const struct log_fill fill = fill_of(1);
    PGconn *c = PQconnectdb(pg_server_conninfo());
    struct store *s;
    char sql[160];

    x->options.timeout_ms = 600 * test_slow();
    assert_rc(postgresql_store_open(&s, &x->options), 0);
    assert_rc(stored_add(s, KS_NAME, NULL, "the", 1), 0);
    (void)snprintf(sql, sizeof sql,
                   "BEGIN; LOCK TABLE %s.counter IN SHARE MODE",
                   x->options.schema);
    PQclear(PQexec(c, sql));
    assert_rc(stored_add(s, KS_NAME, &fill, "the", 5), -EAGAIN);
    assert_has(store_trouble(s), "countd store names the session");
    PQclear(PQexec(c, "ROLLBACK"));
    PQfinish(c);
    assert_rc(stored_add(s, KS_NAME, &fill, "the", 5), 0);
    assert_int_equal(get_one(s, KS_NAME, "the"), 6);
    store_close(s);
}

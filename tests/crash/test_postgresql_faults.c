/* tests/crash/test_postgresql_faults.c - two data directories count into one
 * keyspace of a database with a synchronous standby, while writers, workers and
 * the database are killed at any moment, and the standby takes over: what was
 * acknowledged is counted exactly once.
 *
 * A few faults by default; COUNTD_FAULTS=KILLS,FAILOVERS asks for more. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/expect.h"
#include "tests/lib/pg_server.h"
#include "tests/lib/random.h"
#include "tests/lib/service.h"

#define SCHEMA    "faults"
#define MACHINES  2
#define KEYS      5
#define ROUND_MAX 8  /* increments of a machine between two faults */
#define PAUSE_MS  60 /* before a fault, at most */

struct fixture {
    struct fleet fleets[MACHINES];
    struct random random;
    int64_t counts[KEYS]; /* acknowledged */
    unsigned kills, failovers, increments;
    bool has_server;
};

static int
setup(void **state)
{
    static struct fixture x;

    x = (struct fixture){.has_server = pg_server_is_installed()};
    *state = &x;
    for (int i = 0; i < MACHINES; i++) {
        fleet_init_in_memory(&x.fleets[i]);
        if (!x.has_server)
            continue;
        (void)pg_server_conninfo();
        fleet_put_option(&x.fleets[i], "store", "postgresql");
        fleet_put_option(&x.fleets[i], "store.conninfo", pg_server_both());
        fleet_put_option(&x.fleets[i], "store.schema", SCHEMA);
    }
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *x = *state;

    for (int i = 0; i < MACHINES; i++)
        fleet_fini(&x->fleets[i]);
    return 0;
}

static void
count_some(struct fixture *x)
{
    for (int i = 0; i < MACHINES; i++)
        for (uint64_t n = random_below(&x->random, ROUND_MAX); n > 0; n--) {
            const uint64_t k = random_below(&x->random, KEYS);
            const int64_t by = (int64_t)random_below(&x->random, 1000) - 300;
            const char key[2] = {(char)('a' + k), '\0'};

            service_add(&x->fleets[i], "words", key, by);
            x->counts[k] += by;
            x->increments++;
        }
}

static void
pause_a_moment(struct fixture *x)
{
    const struct timespec moment = {
        .tv_nsec = (long)random_below(&x->random, PAUSE_MS) * 1000000};

    (void)nanosleep(&moment, NULL); /* so that a fault is at any point */
}

static void
kill_one(struct fixture *x)
{
    static const enum fleet_role daemons[] = {FLEET_WRITE, FLEET_WORKER};
    const uint64_t which = random_below(&x->random, 2 * MACHINES + 1);
    struct fleet *f = &x->fleets[which / 2];

    if (which == 2 * MACHINES) {
        pg_server_crash();
        return;
    }
    daemon_kill(fleet_daemon(f, daemons[which % 2]));
    fleet_start(f, daemons[which % 2]);
}

static void
fail_over(void)
{
    pg_server_fail_over();
    pg_server_standby_start(true);
}

/* What the database has, by plain SQL. */
static void
check_counts(struct fixture *x)
{
    char sql[128], expected[32];

    for (int k = 0; k < KEYS; k++) {
        (void)snprintf(sql, sizeof sql,
                       "SELECT n FROM " SCHEMA ".counters WHERE keyspace = "
                       "'words' AND key = '%c'",
                       'a' + k);
        (void)snprintf(expected, sizeof expected, "%" PRId64, x->counts[k]);
        assert_string_equal(pg_server_run(sql), expected);
    }
}

static void
count_through(struct fixture *x, unsigned kills, unsigned failovers)
{
    for (unsigned i = 1; i <= kills + failovers; i++) {
        count_some(x);
        pause_a_moment(x);
        if (i * failovers / (kills + failovers) > x->failovers) {
            fail_over();
            x->failovers++;
        } else {
            kill_one(x);
            x->kills++;
        }
    }
    for (int i = 0; i < MACHINES; i++)
        expect_text(FLEET_RUN(&x->fleets[i], "flush", "--timeout", "60s"), 0,
                    "");
}

static void
counts_are_exact_through_kills_and_failovers(void **state)
{
    struct fixture *x = *state;
    const char *faults = getenv("COUNTD_FAULTS");
    unsigned kills = 6, failovers = 2;

    if (!x->has_server)
        test_skip("PostgreSQL's server is not installed");
    if (faults)
        assert_int_equal(sscanf(faults, "%u,%u", &kills, &failovers), 2);
    x->random.state = random_seed(__func__);
    expect(FLEET_RUN(&x->fleets[0], "store", "init"), 0, "made schema=");
    pg_server_standby_start(true);
    for (int i = 0; i < MACHINES; i++)
        service_start(&x->fleets[i]);
    count_through(x, kills, failovers);
    check_counts(x);
    for (int i = 0; i < MACHINES; i++) {
        expect(FLEET_RUN(&x->fleets[i], "check"), 0, "");
        expect(FLEET_RUN(&x->fleets[i], "store"), 0, "directory");
        assert_true(fleet_logs_are_drained(&x->fleets[i]));
        fleet_stop_all(&x->fleets[i]);
    }
    printf("increments=%u kills=%u failovers=%u\n", x->increments, x->kills,
           x->failovers);
}
TEST_ADDED(counts, "counts_are_exact_through_kills_and_failovers",
           counts_are_exact_through_kills_and_failovers, setup, teardown, NULL)

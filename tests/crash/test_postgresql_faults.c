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

#include "tests/lib/pg_machines.h"
#include "tests/lib/random.h"

#define MACHINES  2
#define KEYS      5
#define ROUND_MAX 8  /* increments of a machine between two faults */
#define PAUSE_MS  60 /* before a fault, at most */

struct faults {
    struct fleet *fleets;
    struct random random;
    int64_t counts[KEYS]; /* acknowledged */
    unsigned kills, failovers, increments;
};

static void
count_some(struct faults *x)
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
pause_a_moment(struct faults *x)
{
    const struct timespec moment = {
        .tv_nsec = (long)random_below(&x->random, PAUSE_MS) * 1000000};

    (void)nanosleep(&moment, NULL); /* so that a fault is at any point */
}

static void
kill_one(struct faults *x)
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
check_counts(const struct faults *x)
{
    char expected[32];

    for (int k = 0; k < KEYS; k++) {
        (void)snprintf(expected, sizeof expected, "%" PRId64, x->counts[k]);
        assert_string_equal(
            pg_server_run("SELECT n FROM @.counters WHERE keyspace = 'words' "
                          "AND key = '%c'",
                          'a' + k),
            expected);
    }
}

static void
count_through(struct faults *x, unsigned kills, unsigned failovers)
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

PG_MACHINES(counts_are_exact_through_kills_and_failovers, m)
{
    struct faults x = {.fleets = m->fleets,
                       .random.state = random_seed(__func__)};
    const char *faults = getenv("COUNTD_FAULTS");
    unsigned kills = 6, failovers = 2;

    if (faults)
        assert_int_equal(sscanf(faults, "%u,%u", &kills, &failovers), 2);
    pg_server_standby_start(true);
    for (int i = 0; i < MACHINES; i++) {
        fleet_put_option(&m->fleets[i], "store.conninfo", pg_server_both());
        service_start(&m->fleets[i]);
    }
    count_through(&x, kills, failovers);
    check_counts(&x);
    for (int i = 0; i < MACHINES; i++) {
        expect(FLEET_RUN(&m->fleets[i], "check"), 0, "");
        expect(FLEET_RUN(&m->fleets[i], "store"), 0, "directory");
        assert_true(fleet_logs_are_drained(&m->fleets[i]));
    }
    printf("increments=%u kills=%u failovers=%u\n", x.increments, x.kills,
           x.failovers);
}

/* tests/crash/test_kill.c - daemons are killed, stopped and frozen at random
 * moments while clients send; every acknowledged increment must be counted
 * exactly once.
 *
 *     TEST_SEED   repeats the choice of kills (not their exact moments)
 *     TEST_KILLS  how many (300)
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"
#include "tests/lib/traffic.h"

#define KILLS     300
#define KEYSPACES 40 /* enough for the lanes of a merge */

struct storm {
    struct fleet fleet;
    struct model model;
    struct traffic traffic;
    struct random random;
    _Atomic uint64_t moments;
    unsigned killed, terminated, frozen;
};

static void
send_for(struct storm *s, uint64_t ms)
{
    uint64_t until = clock_ms() + ms;

    do
        traffic_turn(&s->traffic, 2);
    while (clock_ms() < until);
}

static void
start_role(struct storm *s, enum fleet_role role)
{
    fleet_start(&s->fleet, role);
    if (role == FLEET_WRITE) {
        traffic_port(&s->traffic, fleet_ack_port(&s->fleet));
        traffic_silent(&s->traffic, 1, fleet_silent_port(&s->fleet));
    }
}

static enum fleet_role
pick_role(struct storm *s)
{
    uint64_t n = random_below(&s->random, 10);

    return n < 5   ? FLEET_WRITE
           : n < 7 ? FLEET_WORKER
           : n < 9 ? FLEET_WORKER2
                   : FLEET_READ;
}

static void
freeze_daemon(struct storm *s, struct daemon *d)
{
    daemon_signal(d, SIGSTOP);
    send_for(s, 10 + random_below(&s->random, 60));
    daemon_signal(d, SIGCONT);
    s->frozen++;
}

/* One event, then some time in which the daemons work in peace. */
static void
strike_once(struct storm *s)
{
    enum fleet_role role = pick_role(s);
    struct daemon *d = fleet_daemon(&s->fleet, role);
    uint64_t kind = random_below(&s->random, 100);

    if (kind < 15) {
        freeze_daemon(s, d);
    } else {
        if (role == FLEET_WRITE) {
            traffic_port(&s->traffic, 0);
            traffic_silent(&s->traffic, 1, 0);
        }
        if (kind < 75) {
            daemon_kill(d);
            s->killed++;
        } else {
            fleet_stop(&s->fleet, role);
            s->terminated++;
        }
        /* Sometimes the others have it to themselves for a while. */
        if (random_chance(&s->random, 30))
            send_for(s, random_below(&s->random, 40));
        start_role(s, role);
    }
    send_for(s, random_below(&s->random, 120));
}

/* Reads all of one keyspace through the reader, in pages. */
static void
read_keyspace(int fd, struct model *m, const char *keyspace)
{
    struct client_rows rows;
    int64_t offset = 0, last = INT64_MAX, i;

    do {
        client_range(fd, keyspace, offset, 500, &rows);
        assert_true(rows.rows >= 0);
        for (i = 0; i < rows.rows; i++) {
            assert_true(rows.row[i].count <= last);
            last = rows.row[i].count;
            model_found(m, keyspace, rows.row[i].key, rows.row[i].count);
        }
        offset += rows.rows;
        client_rows_free(&rows);
    } while (i > 0);
}

static void
read_all(struct storm *s)
{
    int fd = client_connect(fleet_read_port(&s->fleet));

    model_look(&s->model);
    for (int i = 0; i < KEYSPACES; i++) {
        char keyspace[MODEL_NAME_SIZE];

        (void)snprintf(keyspace, sizeof keyspace, "ks%d", i);
        read_keyspace(fd, &s->model, keyspace);
    }
    client_close(fd);
}

static void
expect_exactly_once(struct storm *s)
{
    char why[512];
    unsigned wrong = model_verdict(&s->model, UINT64_MAX, why, sizeof why);

    if (wrong > 0)
        fail_msg("%u keys wrong: %s", wrong, why);
}

TEST(kills_lose_and_double_nothing_acknowledged)
{
    const uint64_t seed = random_seed(__func__);
    const unsigned kills = random_times("TEST_KILLS", KILLS);
    struct storm s = {0};

    s.random.state = seed;
    fleet_init(&s.fleet);
    model_init(&s.model, seed, KEYSPACES);
    traffic_init(&s.traffic, &s.model, &s.moments, 8, 32);
    for (unsigned i = 0; i <= FLEET_WORKER2; i++)
        start_role(&s, (enum fleet_role)i);

    for (unsigned i = 0; i < kills; i++)
        strike_once(&s);

    assert_true(traffic_drain(&s.traffic, 60000));
    fleet_stop(&s.fleet, FLEET_WRITE);
    fleet_await_drained(&s.fleet, 60000);
    printf("%u SIGKILL, %u SIGTERM, %u SIGSTOP; %zu acknowledged of %zu, "
           "%zu connections broken\n",
           s.killed, s.terminated, s.frozen, model_acked(&s.model, UINT64_MAX),
           s.model.count, s.traffic.breaks);
    assert_true(model_acked(&s.model, UINT64_MAX) > kills);
    read_all(&s);
    expect_exactly_once(&s);
    fleet_stop_all(&s.fleet);
    fleet_check(&s.fleet);
    fleet_look(&s.fleet, &s.model);
    expect_exactly_once(&s);
    traffic_fini(&s.traffic);
    model_fini(&s.model);
    fleet_fini(&s.fleet);
}

/* tests/crash/test_powerloss.c - the power goes at any moment.
 *
 * Daemons run under powerloss.so while clients send; then disks are rebuilt
 * as they may have been found afterwards (tests/lib/disk.h), a worker is
 * started on each, and everything acknowledged before the cut must be counted
 * exactly once.  SIGKILL alone never loses the page cache, so only this sees
 * an answer sent before its sync.
 *
 *     TEST_SEED    repeats the choice of cuts and states
 *     TEST_STATES  how many states (500)
 *     TEST_KEEP    a folder that gets the state that failed
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/crash/powerloss.h"
#include "tests/lib/client.h"
#include "tests/lib/compare_dirs.h"
#include "tests/lib/disk.h"
#include "tests/lib/fleet.h"
#include "tests/lib/powercut.h"
#include "tests/lib/traffic.h"

#define KEYSPACES 8
#define STATES    500

struct run {
    struct fleet fleet; /* its directory is ours */
    struct tmpdir data;
    struct powercut cut;
    struct model model;
    struct traffic traffic;
    bool archive;     /* merged logs are archived, and that is judged */
    unsigned refuses; /* so many times some keyspaces get more room, or less */
};

/* ---- recording ---------------------------------------------------------- */

static void
begin_run(struct run *run, uint64_t seed, unsigned peers, unsigned window)
{
    memset(run, 0, sizeof *run);
    tmpdir_make_in_memory(&run->data);
    fleet_init_at(&run->fleet, run->data.path);
    powercut_begin(&run->cut, run->data.path, seed);
    powercut_record(&run->cut, &run->fleet, "calls");
    model_init(&run->model, seed, KEYSPACES);
    traffic_init(&run->traffic, &run->model, &run->cut.shared->seq, peers,
                 window);
}

static void
finish_run(struct run *run)
{
    traffic_fini(&run->traffic);
    fleet_fini(&run->fleet);
    model_fini(&run->model);
    powercut_end(&run->cut);
    tmpdir_remove(&run->data);
}

#define ENOUGH 2500 /* messages at once: more only makes larger states */

static void
send_for(struct run *run, uint64_t ms)
{
    uint64_t until = clock_ms() + ms * test_slow();
    size_t most = run->model.count + ENOUGH;

    while (clock_ms() < until && run->model.count < most)
        traffic_turn(&run->traffic, 5);
}

/* ---- states ------------------------------------------------------------- */

static uint64_t
pick_cut(struct run *run)
{
    const struct model *m = &run->model;

    if (random_chance(&run->cut.random, 50))
        return disk_cut_in_sync(run->cut.disk, random_next(&run->cut.random));
    /* Right behind an answer most is promised and least is safe. */
    if (random_chance(&run->cut.random, 60))
        for (size_t i = 0; i < 100; i++) {
            uint64_t acked =
                m->messages[random_below(&run->cut.random, m->count)].acked;

            if (acked != 0)
                return acked + 1;
        }
    return 1 + random_below(&run->cut.random, disk_last(run->cut.disk) + 1);
}

/* Builds `count` states and has each judged. */
static void
try_states(struct run *run, unsigned count,
           unsigned (*judge)(struct run *run, const char *path, uint64_t cut,
                             char *why, size_t size))
{
    struct tmpdir state;
    char why[512];

    for (unsigned i = 0; i < count; i++) {
        const uint64_t cut = pick_cut(run);
        const uint64_t seed = random_next(&run->cut.random);
        unsigned violations;

        tmpdir_make_in_memory(&state);
        disk_build(run->cut.disk, cut, seed, state.path);
        violations = judge(run, state.path, cut, why, sizeof why);
        tmpdir_remove(&state);
        if (violations > 0)
            powercut_fail(&run->cut, cut, seed, why);
    }
}

/* ---- the daemons --------------------------------------------------------- */

#define ARCHIVE "archive.keep=36500d"

static void
small_logs(struct fleet *f)
{
    fleet_options(f, "log.size=24K", "log.count=3", "log.merge_share=100",
                  NULL);
}

/* Every merged log is archived, or full and merged again: a replay of the
 * archive gives the same counts and the same history. */
static void
judge_archive(struct fleet *f)
{
    struct tmpdir other;
    char target[600];

    tmpdir_make_in_memory(&other);
    (void)snprintf(target, sizeof target, "%s/replayed", other.path);
    if (compare_dirs_replay(f, target))
        compare_dirs(f->path, target, false);
    tmpdir_remove(&other);
}

/* Starts a worker on the state, sometimes after a writer has had it, lets it
 * finish, looks. */
static unsigned
judge_daemons(struct run *run, const char *path, uint64_t cut, char *why,
              size_t size)
{
    struct fleet f;
    unsigned violations;

    fleet_init_at(&f, path);
    small_logs(&f);
    if (run->archive)
        fleet_option(&f, ARCHIVE);
    if (random_chance(&run->cut.random, 30)) {
        fleet_start(&f, FLEET_WRITE);
        fleet_stop(&f, FLEET_WRITE);
    }
    fleet_start(&f, FLEET_WORKER);
    fleet_await_drained(&f, 30000);
    fleet_stop(&f, FLEET_WORKER);
    fleet_check(&f);
    fleet_look(&f, &run->model);
    violations = model_verdict(&run->model, cut, why, size);
    if (run->archive && violations == 0)
        judge_archive(&f);
    fleet_fini(&f);
    return violations;
}

/* Recovers the state under the recorder, cuts the power again somewhere in
 * that, and has what is left then judged. */
static unsigned
judge_twice(struct run *run, const char *path, uint64_t cut, char *why,
            size_t size)
{
    static unsigned nested;
    struct disk *disk = disk_snapshot(path);
    char log[32], name[700];
    struct tmpdir again;
    uint64_t first = atomic_load(&run->cut.shared->seq) + 1, second;
    unsigned violations;
    struct fleet f;

    (void)snprintf(log, sizeof log, "nested%u", nested++);
    fleet_init_at(&f, path);
    if (run->archive)
        fleet_option(&f, ARCHIVE);
    powercut_record(&run->cut, &f, log);
    fleet_start(&f, FLEET_WORKER);
    fleet_await_drained(&f, 30000);
    powercut_kill(&run->cut, fleet_daemon(&f, FLEET_WORKER));
    fleet_fini(&f);
    (void)snprintf(name, sizeof name, "%s/%s", run->cut.side.path, log);
    disk_load(disk, name);
    second =
        first + random_below(&run->cut.random, disk_last(disk) - first + 2);
    tmpdir_make_in_memory(&again);
    disk_build(disk, second, random_next(&run->cut.random), again.path);
    violations = judge_daemons(run, again.path, cut, why, size);
    tmpdir_remove(&again);
    disk_free(disk);
    return violations;
}

static void
point_traffic(struct run *run)
{
    traffic_port(&run->traffic, fleet_ack_port(&run->fleet));
    /* Silent increments are in the logs without a sync of their own. */
    traffic_silent(&run->traffic, 1, fleet_silent_port(&run->fleet));
}

/* Starts a daemon whose syncs are fast or slow: what one of them has done and
 * not yet synced another one may rely on. */
static void
start_role(struct run *run, enum fleet_role role)
{
    static const unsigned delays[] = {0, 300, 300, 3000};

    powercut_delay(&run->cut, delays[random_below(&run->cut.random, 4)]);
    fleet_start(&run->fleet, role);
}

/* Of the keyspaces some have no room for a while. */
static void
change_room(struct run *run)
{
    char option[32];

    if (run->refuses == 0)
        return;
    run->refuses--;
    (void)snprintf(option, sizeof option, "keyspace.max=%u",
                   2 + (unsigned)random_below(&run->cut.random, KEYSPACES - 1));
    fleet_option(&run->fleet, option);
}

static void
start_fleet(struct run *run)
{
    small_logs(&run->fleet);
    change_room(run);
    if (run->archive)
        fleet_option(&run->fleet, ARCHIVE);
    start_role(run, FLEET_WRITE);
    start_role(run, FLEET_WORKER);
    start_role(run, FLEET_WORKER2);
    point_traffic(run);
}

static void
restart_role(struct run *run, enum fleet_role role, bool clean)
{
    struct fleet *f = &run->fleet;

    if (clean)
        fleet_stop(f, role);
    else
        powercut_kill(&run->cut, fleet_daemon(f, role));
    change_room(run);
    start_role(run, role);
    if (role == FLEET_WRITE)
        point_traffic(run);
}

/* One recorded run: sends for a while with `events` restarts in between, and
 * until there is enough to lose, however slow the disk is. */
static void
record_run(struct run *run, unsigned events, bool clean)
{
    static const enum fleet_role roles[] = {FLEET_WRITE, FLEET_WORKER,
                                            FLEET_WORKER2};

    start_fleet(run);
    send_for(run, 250);
    for (unsigned i = 0; i < events; i++) {
        restart_role(run, roles[random_below(&run->cut.random, 3)], clean);
        send_for(run, 20 + random_below(&run->cut.random, 80));
    }
    for (unsigned i = 0; i < 100 && model_acked(&run->model, UINT64_MAX) <= 200;
         i++)
        send_for(run, 100);
    assert_true(traffic_drain(&run->traffic, 10000));
    fleet_stop_all(&run->fleet);
    powercut_load(&run->cut);
    printf("%zu calls, %zu acknowledged of %zu\n", disk_count(run->cut.disk),
           model_acked(&run->model, UINT64_MAX), run->model.count);
    (void)fflush(stdout); /* to be seen before a failure */
    assert_true(model_acked(&run->model, UINT64_MAX) > 200);
}

static unsigned
states_wanted(void)
{
    const char *text = getenv("TEST_STATES");
    int count = text ? atoi(text) : STATES;

    return count > 0 ? (unsigned)count : STATES;
}

TEST(a_power_loss_loses_and_doubles_nothing_acknowledged)
{
    struct run run;

    begin_run(&run, random_seed(__func__), 4, 16);
    record_run(&run, 0, true);
    try_states(&run, states_wanted() * 2 / 5, judge_daemons);
    finish_run(&run);
}

TEST(nor_does_one_after_kills)
{
    struct run run;

    begin_run(&run, random_seed(__func__), 4, 8);
    record_run(&run, 16, false);
    try_states(&run, states_wanted() * 2 / 5, judge_daemons);
    finish_run(&run);
}

TEST(nor_does_one_after_clean_restarts)
{
    struct run run;

    begin_run(&run, random_seed(__func__), 3, 1);
    record_run(&run, 6, true);
    try_states(&run, states_wanted() / 5, judge_daemons);
    finish_run(&run);
}

TEST(nor_does_one_while_keyspaces_refuse)
{
    struct run run;

    begin_run(&run, random_seed(__func__), 4, 8);
    run.refuses = 5;
    record_run(&run, 10, false);
    try_states(&run, states_wanted() * 2 / 5, judge_daemons);
    finish_run(&run);
}

TEST(nor_does_a_second_one_during_recovery)
{
    struct run run;

    begin_run(&run, random_seed(__func__), 4, 8);
    record_run(&run, 4, false);
    try_states(&run, states_wanted() / 5, judge_twice);
    finish_run(&run);
}

TEST(nor_is_a_merged_log_missing_in_the_archive)
{
    struct run run;

    begin_run(&run, random_seed(__func__), 4, 8);
    run.archive = true;
    record_run(&run, 8, false);
    try_states(&run, states_wanted() / 5, judge_daemons);
    finish_run(&run);
}

TEST(nor_after_a_second_one_during_recovery)
{
    struct run run;

    begin_run(&run, random_seed(__func__), 4, 8);
    run.archive = true;
    record_run(&run, 4, false);
    try_states(&run, states_wanted() / 10, judge_twice);
    finish_run(&run);
}

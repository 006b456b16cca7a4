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
    unsigned refuses; /* times that some keyspaces get more room, or less */
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

/* When some message was answered. */
static uint64_t
pick_promise(void *ctx)
{
    struct run *run = ctx;
    const struct model *m = &run->model;

    return m->messages[random_below(&run->cut.random, m->count)].acked;
}

/* ---- the daemons --------------------------------------------------------- */

#define ARCHIVE "archive.keep=36500d"

static void
small_logs(struct fleet *f)
{
    fleet_options(f, "log.size=24K", "log.count=3", "log.merge_share=100");
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
static bool
judge_daemons(void *ctx, const char *path, uint64_t cut, char *why, size_t size)
{
    struct run *run = ctx;
    struct fleet f;
    bool is_right;

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
    is_right = model_verdict(&run->model, cut, why, size) == 0;
    if (run->archive && is_right)
        judge_archive(&f);
    fleet_fini(&f);
    return is_right;
}

/* Recovers the state under the recorder, cuts the power again somewhere in
 * that, and has what is left then judged. */
static bool
judge_twice(void *ctx, const char *path, uint64_t cut, char *why, size_t size)
{
    static unsigned nested;
    struct run *run = ctx;
    struct disk *disk = disk_snapshot(path);
    char log[32], name[700];
    struct tmpdir again;
    uint64_t first = atomic_load(&run->cut.shared->seq) + 1, second;
    struct fleet f;
    bool is_right;

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
    is_right = judge_daemons(run, again.path, cut, why, size);
    tmpdir_remove(&again);
    disk_free(disk);
    return is_right;
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

struct plan {
    unsigned peers, window; /* of the traffic */
    unsigned events;        /* restarts */
    bool clean;             /* they are no kills */
    bool archive, twice;
    unsigned refuses;
    unsigned percent; /* of the states */
};

static void
lose_power(const char *test, const struct plan *p)
{
    struct run run;

    begin_run(&run, random_seed(test), p->peers, p->window);
    run.archive = p->archive;
    run.refuses = p->refuses;
    record_run(&run, p->events, p->clean);
    powercut_try(
        &run.cut, random_times("TEST_STATES", STATES) * p->percent / 100,
        &(struct powercut_judge){pick_promise,
                                 p->twice ? judge_twice : judge_daemons, &run});
    finish_run(&run);
}

TEST(a_power_loss_loses_and_doubles_nothing_acknowledged)
{
    lose_power(__func__, &(struct plan){4, 16, .clean = true, .percent = 40});
}

TEST(nor_does_one_after_kills)
{
    lose_power(__func__, &(struct plan){4, 8, .events = 16, .percent = 40});
}

TEST(nor_does_one_after_clean_restarts)
{
    lose_power(__func__, &(struct plan){3, 1, 6, .clean = true, .percent = 20});
}

TEST(nor_does_one_while_keyspaces_refuse)
{
    lose_power(__func__,
               &(struct plan){4, 8, .events = 10, .refuses = 5, .percent = 40});
}

TEST(nor_does_a_second_one_during_recovery)
{
    lose_power(__func__,
               &(struct plan){4, 8, .events = 4, .twice = true, .percent = 20});
}

TEST(nor_is_a_merged_log_missing_in_the_archive)
{
    lose_power(__func__, &(struct plan){4, 8, .events = 8, .archive = true,
                                        .percent = 20});
}

TEST(nor_after_a_second_one_during_recovery)
{
    lose_power(__func__, &(struct plan){4, 8, .events = 4, .archive = true,
                                        .twice = true, .percent = 10});
}

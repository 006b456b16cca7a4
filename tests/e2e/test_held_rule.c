/* tests/e2e/test_held_rule.c - a fill that waits is neither lost nor counted
 * twice, whatever a worker, countd log salvage, countd replay and
 * countd backup do beside it, and when an older keyspace/ is put back.
 *
 * Every fill of a log adds 1 to a key of its own, "f1", "f2", ..., of keyspace
 * "words", so a count other than 1 names the fill that was lost or doubled.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/e2e/fills_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/file.h"
#include "tests/lib/random.h"

#define DRAIN_MS 10000
#define STEPS    60 /* of a world */
#define SECONDS  10 /* for worlds, but two in any case */

static mode_t
mode_of(const struct service_site *x, uint64_t index)
{
    return filler_mode(x->dir.log_fd, index);
}

/* Runs a worker until logs 0 to 2 are empty or quarantined. */
static void
merge_logs(struct service_site *x)
{
    const uint64_t end_ms = test_deadline(WAIT_MS);

    fleet_start(&x->fleet, FLEET_WORKER);
    for (uint64_t i = 0; i < 3; i++)
        while (mode_of(x, i) != LOG_MODE_EMPTY && mode_of(x, i) != 0) {
            assert_true(clock_ms() < end_ms);
            (void)poll(NULL, 0, 1); /* paces the looking */
        }
    fleet_stop(&x->fleet, FLEET_WORKER);
}

/* Runs a worker until nothing is held either. */
static void
drain_held(struct fleet *f)
{
    fleet_start(f, FLEET_WORKER);
    fleet_await_drained(f, DRAIN_MS);
    fleet_stop(f, FLEET_WORKER);
}

/* The keyspace's file is exchanged for junk, and back. */
#define BREAK                                                                  \
    "mv keyspace/words.mdb good && yes junk | head -c 8192 > "                 \
    "keyspace/words.mdb"
#define REPAIR "mv good keyspace/words.mdb"

/* ---- scenarios ----------------------------------------------------------- */

static void
damage_log(struct service_site *x, const char *name)
{
    static const uint8_t bytes[16] = {1, 2, 3};

    /* The third slot, which counts nothing. */
    file_write(file_path(x->fleet.path, "log/%s", name), 8192 + 2 * 544 + 20,
               bytes, sizeof bytes);
}

CASE(a_salvaged_log_goes_behind_what_waits_of_its_earlier_fills, x)
{
    fill_log(x, 0);
    merge_logs(x);
    expect_shell(x, BREAK);
    for (int i = 0; i < 3; i++) {
        fill_log(x, 0);
        merge_logs(x);
        assert_has(daemon_text(fleet_daemon(&x->fleet, FLEET_WORKER)),
                   "keyspace=words cannot take its records");
    }
    (void)fill_log_with(x, 0, "lost");
    damage_log(x, "0000000000");
    merge_logs(x);

    expect(FLEET_RUN(&x->fleet, "log", "salvage", "bad-0000000000-5"), 1,
           "0 increments merged, 0 merged already, 1 damaged and lost, 2 wait "
           "(countd held)");
    expect_shell(x, REPAIR);

    drain_held(&x->fleet);
    assert_counts(x->fleet.path);
    expect_text(FLEET_RUN(&x->fleet, "held", "--tsv"), 0, "");
}

CASE(a_replay_into_a_backup_goes_behind_what_the_backup_has_waiting, x)
{
    char copy[600], archive[600];

    snprintf(copy, sizeof copy, "%s/copy", x->fleet.path);
    snprintf(archive, sizeof archive, "%s/archive", x->fleet.path);
    fleet_option(&x->fleet, "keyspace.max_keys=2");
    fill_log(x, 0); /* "f1" and "all" are what the keyspace has room for */
    merge_logs(x);
    for (uint64_t i = 0; i < 3; i++)
        fill_log(x, i);
    merge_logs(x);
    expect(FLEET_RUN(&x->fleet, "backup", "--no-flush", copy), 0, "faults=0");

    fleet_option(&x->fleet, "keyspace.max_keys=0");
    drain_held(&x->fleet);
    for (uint64_t i = 0; i < 3; i++)
        fill_log(x, i);
    merge_logs(x);
    assert_counts(x->fleet.path);

    /* From the first fill that is not in the backup on; what waits there comes
     * before it. */
    expect(FLEET_RUN(&x->fleet, "-d", copy, "replay", "--from", "1700000220",
                     archive),
           0, "6 increments merged, 0 merged already");
    assert_counts(copy);
}

CASE(an_older_keyspace_gets_what_comes_before_the_waiting_fills_of_a_log, x)
{
    char archive[600];

    snprintf(archive, sizeof archive, "%s/archive", x->fleet.path);
    fill_log(x, 0);
    merge_logs(x);
    expect_shell(x, "cp keyspace/words.mdb older");
    fill_log(x, 0);
    merge_logs(x);
    expect_shell(x, BREAK);
    fill_log(x, 0);
    merge_logs(x);
    expect_shell(x, "mv older keyspace/words.mdb");

    expect(FLEET_RUN(&x->fleet, "replay", archive), 0,
           "4 increments merged, 2 merged already");
    assert_counts(x->fleet.path);
    expect_text(FLEET_RUN(&x->fleet, "held", "--tsv"), 0, "");
}

/* What leaves the folder in between is in the later copy of its keyspace. */
CASE(a_backup_copies_what_waits_before_the_keyspaces, x)
{
    fill_log(x, 0);
    merge_logs(x);
    fleet_option(&x->fleet, "keyspace.max_keys=2");
    fill_log(x, 0);
    merge_logs(x);
    expect(FLEET_RUN(&x->fleet, "held", "--tsv"), 1, "words");

    assert_int_equal(expect_traced(x->fleet.path,
                                   "-o trace -e trace=openat,renameat2,linkat",
                                   "-d . backup --no-flush copy"),
                     0);
    assert_int_equal(
        run_shell(x->fleet.path,
                  "grep -E '(openat.*\"held-.*O_CREAT|(rename|link)at.*mdb)' "
                  "trace | grep -oE '\"(words|held)' | tr -d '\"' | uniq"),
        0); /* a temporary name may end in these, too */
    assert_string_equal(text, "held\nwords\n");
}

/* ---- anything, in any order --------------------------------------------- */

/* A directory under test: the one that lives, and a backup of it. */
struct place {
    struct fleet *fleet;
    bool is_sick;
};

enum state { FULL, MERGED, BAD, SALVAGED };

struct fill {
    enum state state;
    uint64_t index, epoch;
    bool is_damaged;
    bool in_backup;
};

static struct {
    struct service_site *site;
    struct fleet copy;
    struct place live, backup;
    char copy_path[600], archive[600];
    bool has_backup;
    bool has_saved;          /* an older keyspace/ */
    unsigned saved_salvaged; /* fills that were salvaged then */
    struct fill fills[256];
    struct random random;
    unsigned kills, holds, backups, older;
} world;

static bool
has_chance(unsigned percent)
{
    return random_chance(&world.random, percent);
}

static bool
has_log_file(const char *name)
{
    struct stat st;

    return fstatat(world.site->dir.log_fd, name, &st, 0) == 0;
}

static bool
is_locked(uint64_t index)
{
    char name[64];

    snprintf(name, sizeof name, "lock-%010u", (unsigned)index);
    return has_log_file(name);
}

/* The name that a damaged log gets. */
static void
name_bad(uint64_t index, uint64_t epoch, char name[64])
{
    snprintf(name, 64, "bad-%010u-%u", (unsigned)index, (unsigned)epoch);
}

static bool
is_bad(const struct fill *f)
{
    char name[64];

    name_bad(f->index, f->epoch, name);
    return has_log_file(name);
}

/* The fill that log `index` has now, or NULL. */
static struct fill *
find_full(uint64_t index)
{
    for (unsigned i = 0; i < fills; i++)
        if (world.fills[i].state == FULL && world.fills[i].index == index)
            return &world.fills[i];
    return NULL;
}

/* Notes what has become of the logs. */
static void
note_logs(void)
{
    for (uint64_t i = 0; i < 3; i++) {
        struct fill *f = find_full(i);

        if (f == NULL)
            continue;
        if (f->is_damaged && is_bad(f))
            f->state = BAD;
        else if (mode_of(world.site, i) == LOG_MODE_EMPTY)
            f->state = MERGED;
    }
}

/* Fills a log that is free; one in eight is damaged then. */
static void
fill_any_log(void)
{
    const uint64_t index = random_below(&world.random, 3);
    struct fill *f = &world.fills[fills];
    char name[16];

    if (find_full(index) != NULL || is_locked(index) ||
        (mode_of(world.site, index) != LOG_MODE_EMPTY &&
         mode_of(world.site, index) != 0))
        return;
    *f = (struct fill){.index = index,
                       .epoch = fill_log_with(world.site, index, "lost")};
    if (has_chance(12) && !is_bad(f)) {
        f->is_damaged = true;
        snprintf(name, sizeof name, "%010u", (unsigned)index);
        damage_log(world.site, name);
    }
}

static void
make_sick(struct place *p, bool sick)
{
    if (p->is_sick != sick &&
        run_shell(p->fleet->path,
                  sick ? "test -f keyspace/words.mdb && " BREAK : REPAIR) == 0)
        p->is_sick = sick;
}

static int replay_place(struct place *p, bool whole);

/* A worker for a moment, maybe beside a replay, then SIGKILL or SIGTERM. */
static void
run_worker(struct place *p)
{
    fleet_start(p->fleet, FLEET_WORKER);
    if (has_chance(20))
        (void)replay_place(p, false);
    (void)poll(NULL, 0, (int)random_below(&world.random, 40)); /* when to end */
    if (has_chance(60)) {
        daemon_kill(fleet_daemon(p->fleet, FLEET_WORKER));
        world.kills++;
    } else {
        fleet_stop(p->fleet, FLEET_WORKER);
    }
    note_logs();
}

/* A command to its end, or killed: its status, or -1. */
static int
run_command(struct place *p, const char *const *words)
{
    struct daemon d;

    if (has_chance(50))
        return fleet_run(p->fleet, words);
    fleet_begin(p->fleet, &d, words);
    (void)poll(NULL, 0, (int)random_below(&world.random, 12)); /* when to end */
    daemon_kill(&d);
    daemon_fini(&d);
    world.kills++;
    return -1;
}

/* Salvages one bad log, or (all) every one to its end. */
static void
salvage_logs(bool all)
{
    for (unsigned i = 0; i < fills; i++) {
        struct fill *f = &world.fills[i];
        char name[64];
        int status;

        if (f->state != BAD)
            continue;
        name_bad(f->index, f->epoch, name);
        status =
            all ? FLEET_RUN(world.live.fleet, "log", "salvage", "--remove",
                            name)
                : run_command(&world.live,
                              (const char *const[]){"log", "salvage",
                                                    "--remove", name, NULL});
        if (!is_bad(f))
            f->state = SALVAGED;
        else if (all)
            fail_msg("salvage %s: %d %s", name, status, text);
        if (!all)
            return;
    }
}

/* Whole, or from the first fill on that the backup may lack. */
static int
replay_place(struct place *p, bool whole)
{
    unsigned first = 0;
    char from[32];

    while (first < fills && world.fills[first].in_backup)
        first++;
    snprintf(from, sizeof from, "%llu",
             (unsigned long long)(FIRST / 1000 + first * UINT64_C(60)));
    if (whole)
        return FLEET_RUN(p->fleet, "replay", world.archive);
    if (p == &world.live || has_chance(50)) /* it may lack any fill */
        return run_command(
            p, (const char *const[]){"replay", world.archive, NULL});
    return run_command(p, (const char *const[]){"replay", "--from", from,
                                                world.archive, NULL});
}

/* ---- counts ------------------------------------------------------------- */

/* What a directory counts of fill `i`. */
static int64_t
count_fill(const char *path, unsigned i)
{
    char key[16];

    snprintf(key, sizeof key, "f%u", i + 1);
    return count_in(path, key);
}

/* ---- an older keyspace/ ------------------------------------------------- */

static unsigned
count_salvaged(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < fills; i++)
        count += world.fills[i].state == SALVAGED;
    return count;
}

static bool
is_older(void)
{
    (void)FLEET_RUN(world.live.fleet, "check");
    return strstr(text, "keyspace/ is older than log/") != NULL;
}

/* Salvaged fills are in no archive: a copy must have them to be replaced. */
static bool
has_salvaged(void)
{
    for (unsigned i = 0; i < fills; i++)
        if (world.fills[i].state == SALVAGED &&
            count_fill(world.live.fleet->path, i) == 0)
            return false; /* it waits */
    return true;
}

static void
save_keyspaces(void)
{
    if (world.live.is_sick || is_older() || !has_salvaged())
        return;
    expect_shell(world.site, "rm -rf saved && cp -a keyspace saved");
    world.has_saved = true;
    world.saved_salvaged = count_salvaged();
}

static void
put_back_saved(void)
{
    if (!world.has_saved || world.live.is_sick ||
        count_salvaged() != world.saved_salvaged)
        return;
    expect_shell(world.site, "rm -r keyspace && cp -a saved keyspace");
    world.older += is_older();
}

/* What countd(7) says. */
static void
accept_older(void)
{
    if (!is_older())
        return;
    if (world.live.is_sick)
        make_sick(&world.live, false);
    (void)replay_place(&world.live, false); /* it may be killed */
    /* A worker that is killed may have announced a merge and not made it. */
    if (replay_place(&world.live, true) != 0 &&
        strstr(text, "no archived logs there") == NULL &&
        strstr(text, "wait (countd held)") == NULL)
        fail_msg("replay: %s", text);
    expect(FLEET_RUN(world.live.fleet, "log", "accept"), 0,
           "workers merge again");
}

static void
compare_place(const struct place *p, const char *what)
{
    int64_t sum = 0;

    for (unsigned i = 0; i < fills; i++) {
        const struct fill *f = &world.fills[i];
        const int64_t want =
            p == &world.live || f->in_backup || f->state == MERGED;
        const int64_t got = count_fill(p->fleet->path, i);

        if (got != want)
            fail_msg("%s: fill %u of log %u, %s, counts %lld, not %lld", what,
                     i + 1, (unsigned)f->index,
                     f->is_damaged ? "damaged" : "sound", (long long)got,
                     (long long)want);
        sum += want;
    }
    assert_int_equal(count_in(p->fleet->path, "all"), sum);
}

/* ---- backup ------------------------------------------------------------- */

static void
back_up(void)
{
    bool held = false;

    if (world.has_backup || world.live.is_sick || fills < 4 || is_older())
        return;
    salvage_logs(true);
    if (FLEET_RUN(world.live.fleet, "backup", "--no-flush", world.copy_path) !=
        0)
        fail_msg("backup: %s", text);
    world.has_backup = true;
    world.backups++;
    fleet_init_at(&world.copy, world.copy_path);
    world.backup = (struct place){.fleet = &world.copy};
    for (unsigned i = 0; i < fills; i++) {
        struct fill *f = &world.fills[i];

        f->in_backup = f->state == MERGED || f->state == SALVAGED;
        held = held || (f->in_backup && count_fill(world.copy_path, i) == 0);
    }
    world.holds += held;
}

/* ---- a world ------------------------------------------------------------ */

static void
do_something(void)
{
    struct place *p =
        world.has_backup && has_chance(40) ? &world.backup : &world.live;
    const uint64_t what = random_below(&world.random, 100);

    if (what < 36)
        fill_any_log();
    else if (what < 63)
        run_worker(p);
    else if (what < 71)
        make_sick(p, !p->is_sick);
    else if (what < 75)
        salvage_logs(false);
    else if (what < 81)
        (void)replay_place(p, false);
    else if (what < 86)
        save_keyspaces();
    else if (what < 91)
        put_back_saved();
    else if (what < 93)
        accept_older();
    else
        back_up();
}

static void
finish_place(struct place *p, const char *what)
{
    make_sick(p, false);
    if (p == &world.live) {
        accept_older();
        salvage_logs(true);
    }
    drain_held(p->fleet);
    note_logs();
    if (p == &world.live)
        salvage_logs(true);
    if (replay_place(p, true) != 0)
        fail_msg("%s: replay: %s", what, text);
    drain_held(p->fleet);
    expect_text(FLEET_RUN(p->fleet, "held", "--tsv"), 0, "");
    compare_place(p, what);
}

static void
run_world(uint64_t seed)
{
    void *state;

    assert_int_equal(setup(&state), 0);
    world.site = state;
    world.random.state = seed;
    world.live = (struct place){.fleet = &world.site->fleet};
    world.has_backup = world.has_saved = false;
    memset(world.fills, 0, sizeof world.fills);
    snprintf(world.copy_path, sizeof world.copy_path, "%s/copy",
             world.site->fleet.path);
    snprintf(world.archive, sizeof world.archive, "%s/archive",
             world.site->fleet.path);
    fill_any_log();
    run_worker(&world.live);
    for (int i = 0; i < STEPS; i++)
        do_something();
    fill_any_log();
    finish_place(&world.live, "the directory");
    if (world.has_backup) {
        finish_place(&world.backup, "the backup");
        fleet_fini(&world.copy);
    }
    assert_int_equal(service_site_teardown(&state), 0);
}

TEST(whatever_comes_between_each_fill_counts_once)
{
    const char *runs = getenv("TEST_RUNS");
    const unsigned long count = runs != NULL ? strtoul(runs, NULL, 10) : 0;
    const uint64_t end_ms = clock_ms() + SECONDS * 1000;
    struct random seeds = {random_seed(__func__)};
    unsigned long i;

    for (i = 0; count > 0 ? i < count : i < 2 || clock_ms() < end_ms; i++) {
        const uint64_t seed = i == 0 ? seeds.state : random_next(&seeds);

        if (runs != NULL)
            (void)fprintf(stderr, "%lu: TEST_SEED=%llu\n", i,
                          (unsigned long long)seed);
        run_world(seed);
    }
    print_message("%lu worlds, %u kills, %u backups, %u of them with fills "
                  "that wait, %u older keyspaces\n",
                  i, world.kills, world.backups, world.holds, world.older);
}

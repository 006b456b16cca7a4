/* tests/unit/test_cluster_move.c - a keyspace in a Redis Cluster gets more
 * parts while it is counted and read: no answer changes but by what was
 * counted, and nothing is lost or doubled when the mover dies at any step, when
 * a master does, or when another mover or directory comes. */
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/setup/datadir.h"
#include "common/store/cluster/cluster_admin.h"
#include "common/store/cluster/cluster_store.h"
#include "common/store/cluster/outbox_record.h"
#include "common/wire/query.h"
#include "tests/lib/cluster_faults.h"
#include "tests/lib/memstore.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

#define WAIT_MS 30000 /* less than a minute, when senders look again anyway */
#define KEYS    1500

static struct cluster_rig rig;
static bool has_rig;

static const struct cluster_move_keyspace words = {(const uint8_t *)"words", 5,
                                                   1};

struct fixture {
    struct tmpdir tmp;
    struct datadir dir;
    struct config config;
    struct store *s, *oracle;
    struct cluster *cluster; /* the mover's */
    struct random random;
    uint64_t rounds, as_of_ms;
    enum cluster_move_step stop; /* the mover dies after it */
    unsigned master;             /* is killed at the step; or none */
    struct cluster_faults faults;
    unsigned target, replica; /* the first dies at the step, the other lacks
                                 what was written; or none */
    enum cluster_move_step dies;
    uint64_t lease_ms;
    bool is_slow;  /* until another one has settled it */
    bool is_quiet; /* nothing is counted meanwhile */
};

static void
open_store(struct fixture *x)
{
    const struct cluster_store_options options = {
        .config = &x->config, .dir = &x->dir, .writable = true, .sends = true};

    assert_rc(cluster_store_open(&x->s, &options), 0);
}

static void
open_directory(struct fixture *x)
{
    tmpdir_make_in_memory(&x->tmp);
    assert_rc(datadir_open(&x->dir, x->tmp.path, DATADIR_WRITE), 0);
    open_store(x);
}

static void
close_directory(struct fixture *x)
{
    store_close(x->s);
    datadir_close(&x->dir);
    tmpdir_remove(&x->tmp);
}

static int
setup(void **state)
{
    static struct fixture x;
    const struct cluster_options options = {.nodes = rig.nodes,
                                            .timeout_ms = 1000};

    x = (struct fixture){.random = {.state = 5},
                         .stop = CLUSTER_MOVE_SWITCHED + 1,
                         .lease_ms = CLUSTER_MOVE_LEASE_MS,
                         .master = CLUSTER_RIG_SERVERS,
                         .target = CLUSTER_RIG_SERVERS};
    *state = &x;
    if (!has_rig)
        return 0;
    config_defaults(&x.config);
    x.config.store_cluster = true;
    (void)snprintf(x.config.store_nodes, sizeof x.config.store_nodes, "%s",
                   rig.nodes);
    x.config.store_timeout_ms = 1000;
    cluster_rig_flush(&rig);
    open_directory(&x);
    assert_rc(memstore_open(&x.oracle), 0);
    assert_rc(cluster_open(&x.cluster, &options), 0);
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *x = *state;

    if (!has_rig)
        return 0;
    cluster_close(x->cluster);
    store_close(x->oracle);
    close_directory(x);
    return 0;
}

#define CASE(name, x) TEST_IN(name, struct fixture *x, setup, teardown)
#define NEED_RIG()                                                             \
    if (!has_rig)                                                              \
    test_skip("redis-server is not installed")

/* ---- counting and answers ------------------------------------------------ */

/* A batch of random keys of the last days, to the store and the oracle. */
static void
count_both(struct fixture *x, struct store *s)
{
    static struct store_delta deltas[KEYS];
    static char keys[KEYS][16];
    const uint32_t now = (uint32_t)(clock_unix_ms() / 60000);
    const struct store_fill fill = {
        .uuid = {1}, .epoch = ++x->rounds, .first_ms = 1};
    size_t count = 0;

    for (unsigned i = 0; i < KEYS; i++) {
        const uint64_t r = random_next(&x->random);
        const int64_t sum = (int64_t)(r % 2001) - 1000;

        if (r % 3 == 0)
            continue;
        (void)snprintf(keys[i], sizeof keys[i], "key%05u", i);
        deltas[count++] = (struct store_delta){
            .key = (const uint8_t *)keys[i],
            .key_size = (uint16_t)strlen(keys[i]),
            .minute = now - 3000 + (uint32_t)random_below(&x->random, 2900),
            .sum_high = sum < 0 ? -1 : 0,
            .sum_low = (uint64_t)sum};
    }
    assert_rc(stored_apply(s, "words", &fill, deltas, count), 0);
    assert_rc(stored_apply(x->oracle, "words", &fill, deltas, count), 0);
}

static void
await_sent(struct store *s)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)WAIT_MS * test_slow();

    while (store_pending(s)) {
        if (clock_ms() > end_ms)
            fail_msg("entries still wait");
        (void)poll(NULL, 0, 5);
    }
}

static int
ask_store(struct store *s, struct store_query *q, uint8_t *bytes, size_t size)
{
    struct store_reads reads = {
        .queries = q, .count = 1, .at = bytes, .room = size};

    q->name = words.name;
    q->name_size = words.name_size;
    (void)store_read(s, &reads);
    store_read_end(s);
    return q->error;
}

/* Asks both and compares the bytes of the answers. */
static void
compare_answers(struct fixture *x, struct store_query q)
{
    static uint8_t bytes[2][QUERY_ROW_SIZE * 1024];
    struct store_query mine = q;
    int rc;

    rc = ask_store(x->oracle, &q, bytes[0], sizeof bytes[0]);
    assert_rc(ask_store(x->s, &mine, bytes[1], sizeof bytes[1]), rc);
    if (rc < 0)
        return;
    assert_int_equal(mine.rows, q.rows);
    assert_int_equal(mine.size, q.size);
    assert_memory_equal(mine.bytes, q.bytes, q.size);
    if (q.op == STORE_RANK)
        assert_int_equal(mine.rank, q.rank);
}

/* All increments of a day, and the busiest keys of it. */
static void
compare_history(struct fixture *x, uint32_t day)
{
    static struct store_top tops[2][20];
    struct store_bucket buckets[2][24];
    struct store *const stores[2] = {x->s, x->oracle};
    struct store_history_query q[2];

    for (unsigned i = 0; i < 2; i++) {
        q[i] = (struct store_history_query){.op = STORE_HISTORY_KEYSPACE,
                                            .name = words.name,
                                            .name_size = words.name_size,
                                            .from = day,
                                            .to = day + 1440,
                                            .step = 60,
                                            .buckets = buckets[i]};
        while (store_history(stores[i], &q[i], UINT64_MAX) == -EAGAIN)
            continue;
    }
    for (unsigned i = 0; i < 24; i++)
        assert_int_equal(buckets[0][i].sum_low, buckets[1][i].sum_low);
    for (unsigned i = 0; i < 2; i++) {
        q[i] = (struct store_history_query){.op = STORE_HISTORY_TOP,
                                            .name = words.name,
                                            .name_size = words.name_size,
                                            .from = day,
                                            .to = day + 1440,
                                            .top = tops[i],
                                            .length = 20};
        while (store_history(stores[i], &q[i], UINT64_MAX) == -EAGAIN)
            continue;
    }
    assert_int_equal(q[0].rows, q[1].rows);
    for (uint64_t i = 0; i < q[0].rows; i++) {
        assert_int_equal(tops[0][i].sum.sum_low, tops[1][i].sum.sum_low);
        assert_memory_equal(tops[0][i].key, tops[1][i].key,
                            tops[1][i].key_size);
    }
}

static void
report_fault(void *ctx, const char *text)
{
    (void)ctx;
    fail_msg("%s", text);
}

static void
compare_all(struct fixture *x)
{
    struct store_check_result check;
    struct store_totals a, b;
    char key[16];

    await_sent(x->s);
    for (int64_t offset = 0; offset < KEYS; offset += 97)
        compare_answers(x, (struct store_query){.op = STORE_RANGE,
                                                .offset = offset,
                                                .length = 40});
    compare_answers(x, (struct store_query){.op = STORE_KEYS, .length = 300});
    for (unsigned i = 0; i < KEYS; i += 41)
        for (enum store_op op = STORE_GET; op <= STORE_RANK; op++)
            compare_answers(
                x, (struct store_query){.op = op,
                                        .key = (const uint8_t *)key,
                                        .key_size = (size_t)snprintf(
                                            key, sizeof key, "key%05u", i)});
    assert_rc(stored_totals(x->s, "words", &a), 0);
    assert_rc(stored_totals(x->oracle, "words", &b), 0);
    assert_int_equal(a.keys, b.keys);
    assert_int_equal(a.sum_low, b.sum_low);
    assert_rc(store_check(x->s, words.name, words.name_size, report_fault, NULL,
                          &check),
              0);
    assert_int_equal(check.keys, b.keys);
    compare_history(x,
                    (uint32_t)(clock_unix_ms() / 60000) / 1440 * 1440 - 1440);
}

/* ---- moving -------------------------------------------------------------- */

static void
read_place(struct fixture *x, struct cluster_place *out)
{
    uint64_t now_ms;

    assert_rc(cluster_place_read(x->cluster, words.name, words.name_size, out,
                                 &now_ms),
              0);
}

static void
put_place(struct fixture *x, const struct cluster_place *next)
{
    struct cluster_place place;

    read_place(x, &place);
    assert_rc(cluster_place_replace(x->cluster, words.name, words.name_size,
                                    &place, next),
              0);
}

/* The mover is silent, and its lease is over. */
static void
end_lease(struct fixture *x)
{
    struct cluster_place place;

    read_place(x, &place);
    place.until_ms = 1;
    if (place.state == CLUSTER_PLACE_MOVING)
        put_place(x, &place);
}

/* Waits until nothing is under way: a sender sees to that by itself whose entry
 * is refused, or that saw the lease. */
static void
await_still(struct fixture *x)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)WAIT_MS * test_slow();
    struct cluster_place place;

    do {
        assert_true(clock_ms() < end_ms);
        (void)poll(NULL, 0, 5);
        read_place(x, &place);
    } while (place.state != CLUSTER_PLACE_STILL);
}

/* No answer is older than the one before it. */
static void
check_as_of(struct fixture *x)
{
    const uint64_t as_of_ms = store_as_of(x->s);

    assert_true(as_of_ms >= x->as_of_ms);
    x->as_of_ms = as_of_ms;
}

/* Counts and reads at each step. */
static bool
take_step(void *ctx, enum cluster_move_step step, uint64_t rows,
          uint64_t of_rows)
{
    struct fixture *x = ctx;
    struct store_totals totals;

    assert_true(rows <= of_rows);
    assert_rc(stored_totals(x->s, "words", &totals), 0);
    if (x->is_quiet)
        check_as_of(x);
    else if (step != CLUSTER_MOVE_COPYING)
        count_both(x, x->s);
    if (x->target < CLUSTER_RIG_SERVERS && step == CLUSTER_MOVE_CLOSED)
        assert_true(
            cluster_fault_leave_behind(&x->faults, x->target, x->replica));
    if (x->target < CLUSTER_RIG_SERVERS && step == x->dies)
        assert_true(cluster_fault_promote(&x->faults, x->target, x->replica));
    if (step != x->stop)
        return true;
    if (x->master < CLUSTER_RIG_SERVERS) {
        daemon_kill(&rig.servers[x->master]);
        x->stop = CLUSTER_MOVE_SWITCHED + 1;
        return true;
    }
    if (x->is_slow) {
        end_lease(x);
        await_still(x);
        return true;
    }
    return false;
}

static int
move_to(struct fixture *x, uint32_t parts, struct cluster_move_result *out)
{
    const struct cluster_move_options options = {.parts = parts,
                                                 .lease_ms = x->lease_ms,
                                                 .progress = take_step,
                                                 .ctx = x};

    return cluster_move(x->cluster, &words, &options, out);
}

/* The deleted keys are in the parts that are being left, too. */
CASE(a_purge_waits_until_a_move_has_ended, x)
{
    struct cluster_move_result result;

    NEED_RIG();
    count_both(x, x->s);
    await_sent(x->s);
    x->is_quiet = true;
    x->stop = CLUSTER_MOVE_MADE;
    assert_rc(move_to(x, 4, &result), -ECANCELED);
    assert_rc(store_purge(x->s, words.name, words.name_size), -EAGAIN);
    end_lease(x);
    assert_rc(store_purge(x->s, words.name, words.name_size), 0);
}

CASE(answers_are_the_same_in_any_number_of_parts, x)
{
    static const uint32_t parts[] = {2, 16, 32};
    struct cluster_move_result result;
    struct cluster_place place;

    NEED_RIG();
    for (unsigned i = 0; i < 3; i++)
        count_both(x, x->s);
    compare_all(x);
    for (uint32_t i = 0; i < 3; i++) {
        assert_rc(move_to(x, parts[i], &result), 0);
        assert_int_equal(result.to.generation, i + 1);
        assert_int_equal(result.to.parts, parts[i]);
        read_place(x, &place);
        assert_int_equal(place.parts, parts[i]);
        count_both(x, x->s);
        compare_all(x);
    }
}

/* Entries that were settled in the old parts, or are retained, are not waited
 * for in the new ones.  Without logs only a store at rest can say so. */
CASE(as_of_does_not_go_back, x)
{
    const uint64_t start_ms = clock_unix_ms();
    struct cluster_move_result result;

    NEED_RIG();
    count_both(x, x->s);
    await_sent(x->s);
    while (x->as_of_ms < start_ms)
        check_as_of(x);
    x->is_quiet = true;
    assert_rc(move_to(x, 4, &result), 0);
    for (uint64_t until_ms = clock_unix_ms(); x->as_of_ms < until_ms;)
        check_as_of(x);
    compare_all(x);
}

CASE(a_keyspace_only_gets_more_parts, x)
{
    struct cluster_move_result result;

    NEED_RIG();
    assert_rc(move_to(x, 4, &result), -ENOENT);
    count_both(x, x->s);
    await_sent(x->s);
    assert_rc(move_to(x, 4, &result), 0);
    assert_rc(move_to(x, 4, &result), -EALREADY);
    assert_rc(move_to(x, 2, &result), -EINVAL);
    assert_rc(move_to(x, 6, &result), -EINVAL);
    assert_rc(move_to(x, 512, &result), -EINVAL);
    compare_all(x);
}

CASE(a_mover_killed_at_any_step_loses_and_doubles_nothing, x)
{
    struct cluster_move_result result;
    struct cluster_place place;

    NEED_RIG();
    count_both(x, x->s);
    await_sent(x->s);
    for (x->stop = CLUSTER_MOVE_BEGUN; x->stop <= CLUSTER_MOVE_SWITCHED;
         x->stop++) {
        read_place(x, &place);
        assert_rc(move_to(x, 2 * place.parts, &result), -ECANCELED);
        end_lease(x);
        count_both(x, x->s);
        compare_all(x);
        if (x->stop == CLUSTER_MOVE_BEGUN) /* nothing was closed yet */
            assert_rc(store_purge(x->s, words.name, words.name_size), 0);
        await_still(x);
        compare_all(x);
        read_place(x, &place);
        assert_int_equal(place.parts, x->stop < CLUSTER_MOVE_SWITCHED ? 1 : 2);
    }
    assert_rc(move_to(x, 4, &result), 0);
    compare_all(x);
}

/* No entry is refused before a part is closed. */
CASE(a_sender_that_saw_a_lease_looks_again_at_its_end, x)
{
    struct cluster_move_result result;

    NEED_RIG();
    count_both(x, x->s);
    await_sent(x->s);
    x->stop = CLUSTER_MOVE_BEGUN;
    x->lease_ms = 1000;
    assert_rc(move_to(x, 4, &result), -ECANCELED);
    for (unsigned i = 0; i < CLUSTER_RIG_MASTERS; i++)
        (void)cluster_rig_run(&rig, i, "CLIENT KILL TYPE normal");
    await_still(x);
    compare_all(x);
}

/* The master of the places comes back with an older file: nothing says that a
 * mover was there but the parts that it has closed for good. */
CASE(a_mover_whose_place_is_lost_leaves_no_part_closed, x)
{
    struct cluster_move_result result;
    struct cluster_place place;

    NEED_RIG();
    count_both(x, x->s);
    await_sent(x->s);
    read_place(x, &place);
    x->stop = CLUSTER_MOVE_SEALED;
    assert_rc(move_to(x, 4, &result), -ECANCELED);
    put_place(x, &place);
    compare_all(x);
    x->stop = CLUSTER_MOVE_SWITCHED + 1;
    assert_rc(move_to(x, 2, &result), 0);
    compare_all(x);
}

CASE(a_second_mover_waits_for_the_lease_of_the_first, x)
{
    struct cluster_move_result result;

    NEED_RIG();
    count_both(x, x->s);
    await_sent(x->s);
    x->stop = CLUSTER_MOVE_SEALED;
    assert_rc(move_to(x, 4, &result), -ECANCELED);
    x->stop = CLUSTER_MOVE_SWITCHED + 1;
    assert_rc(move_to(x, 2, &result), -EBUSY);
    end_lease(x);
    await_still(x);
    assert_rc(move_to(x, 2, &result), 0);
    compare_all(x);
}

CASE(a_mover_that_lost_its_lease_changes_nothing, x)
{
    struct cluster_move_result result;
    struct cluster_place place;

    NEED_RIG();
    count_both(x, x->s);
    await_sent(x->s);
    x->is_slow = true;
    for (x->stop = CLUSTER_MOVE_CLOSED; x->stop <= CLUSTER_MOVE_REPLICATED;
         x->stop++) {
        if (x->stop == CLUSTER_MOVE_COPYING)
            continue;
        assert_rc(move_to(x, 4, &result), -ESTALE);
        read_place(x, &place);
        assert_int_equal(place.parts, 1);
        compare_all(x);
    }
    x->is_slow = false;
    x->stop = CLUSTER_MOVE_SWITCHED + 1;
    assert_rc(move_to(x, 4, &result), 0);
    compare_all(x);
}

/* Its entries wait in its outbox, and it was counting when the keyspace had
 * one part. */
CASE(a_directory_that_was_away_goes_on_in_the_new_parts, x)
{
    struct fixture y = *x;
    struct cluster_move_result result;

    NEED_RIG();
    open_directory(&y);
    count_both(x, x->s);
    count_both(x, y.s);
    await_sent(x->s);
    await_sent(y.s);
    store_close(y.s);
    assert_rc(move_to(x, 2, &result), 0);
    assert_rc(move_to(x, 8, &result), 0);
    open_store(&y);
    count_both(x, y.s);
    await_sent(y.s);
    compare_all(x);
    close_directory(&y);
}

static void
pause_shortly(void *ctx)
{
    (void)ctx;
    (void)poll(NULL, 0, 5);
}

CASE(a_master_killed_meanwhile_loses_nothing, x)
{
    struct cluster_faults faults;
    struct cluster_move_result result;
    uint32_t parts = 1;

    NEED_RIG();
    count_both(x, x->s);
    await_sent(x->s);
    for (unsigned i = 0; i < CLUSTER_RIG_MASTERS; i++) {
        cluster_faults_init(&faults, &rig);
        x->master = cluster_fault_master(&faults, &x->random);
        x->stop = i == 0   ? CLUSTER_MOVE_MADE
                  : i == 1 ? CLUSTER_MOVE_COPIED
                           : CLUSTER_MOVE_WHOLE;
        faults.is_dead[x->master] = true;
        if (move_to(x, 2 * parts, &result) == 0)
            parts *= 2;
        cluster_faults_heal(&faults, pause_shortly, NULL);
        await_still(x);
        count_both(x, x->s); /* whatever was lost is found */
        compare_all(x);
    }
    x->master = CLUSTER_RIG_SERVERS;
    assert_rc(move_to(x, 16, &result), 0);
    compare_all(x);
}

static int
add_retained(void *ctx, const struct cluster_part_info *p)
{
    *(uint64_t *)ctx += p->retained;
    return 0;
}

/* Waits until replicas have all, and the outbox has nothing. */
static void
await_settled(struct fixture *x)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)WAIT_MS * test_slow();
    uint64_t retained;

    do {
        assert_true(clock_ms() < end_ms);
        (void)poll(NULL, 0, 5);
        retained = 0;
        assert_rc(cluster_admin_parts(x->s, add_retained, &retained), 0);
    } while (retained > 0);
}

static unsigned
master_of(uint32_t generation, uint32_t part)
{
    struct cluster_part_keys keys;

    cluster_part_keys(&keys, words.name, words.name_size, generation, part);
    return cluster_rig_master(&rig, 0, keys.slot);
}

/* The replica of a master of new parts is behind, and takes its place. */
static void
move_to_dying(struct fixture *x, enum cluster_move_step step)
{
    struct cluster_move_result result;
    struct cluster_place place;

    cluster_faults_init(&x->faults, &rig);
    read_place(x, &place);
    for (uint32_t i = 0; i < 8; i++)
        if (master_of(place.other + 1, i) != master_of(0, 0))
            x->target = master_of(place.other + 1, i);
    assert_int_not_equal(x->target, CLUSTER_RIG_SERVERS);
    x->replica = cluster_fault_replica_of(&x->faults, x->target);
    x->dies = step;
    assert_true(move_to(x, 8, &result) < 0);
    x->target = CLUSTER_RIG_SERVERS;
    cluster_faults_heal(&x->faults, pause_shortly, NULL);
    await_still(x);
    read_place(x, &place);
    assert_int_equal(place.parts, 1);
    compare_all(x);
}

/* The outbox has nothing that it could send again.  The second one does not
 * come to the step: it waits for the replica. */
CASE(a_target_that_dies_before_its_replica_has_the_part_loses_nothing, x)
{
    struct cluster_move_result result;

    NEED_RIG();
    store_close(x->s);
    x->config.store_retain_ms = 0;
    open_store(x);
    count_both(x, x->s);
    await_sent(x->s);
    await_settled(x);
    move_to_dying(x, CLUSTER_MOVE_WHOLE);
    await_settled(x);
    move_to_dying(x, CLUSTER_MOVE_REPLICATED);
    assert_rc(move_to(x, 8, &result), 0);
    compare_all(x);
}

int
main(int argc, char **argv)
{
    int failed;

    (void)signal(SIGPIPE, SIG_IGN);
    has_rig = cluster_rig_start(&rig);
    failed = test_main(argc, argv);
    if (has_rig)
        cluster_rig_stop(&rig);
    return failed;
}

/* tests/unit/cluster_move_fixture.h - a keyspace in a Redis Cluster of real
 * servers that is moved while it is counted and read, and an oracle that counts
 * the same. */
#ifndef COUNTD_TESTS_UNIT_CLUSTER_MOVE_FIXTURE_H
#define COUNTD_TESTS_UNIT_CLUSTER_MOVE_FIXTURE_H

#include "tests/unit/cluster_main.h"

#include <errno.h>
#include <string.h>

#include "common/setup/datadir.h"
#include "common/store/cluster/cluster_admin.h"
#include "common/store/cluster/cluster_store.h"
#include "common/store/cluster/outbox_record.h"
#include "common/wire/query.h"
#include "tests/lib/cluster_faults.h"
#include "tests/lib/engines.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

#define KEYS 1500

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
    const char *to;                       /* master that gets the parts */
    unsigned skip;                        /* reports of the step before that */
    void (*meanwhile)(struct fixture *x); /* at the step, instead */
    bool is_past;  /* meanwhile() was called: a master may be dead */
    bool is_slow;  /* until another one has settled it */
    bool is_quiet; /* nothing is counted meanwhile */
};

static inline void
open_store(struct fixture *x)
{
    const struct cluster_store_options options = {
        .config = &x->config, .dir = &x->dir, .writable = true, .sends = true};

    assert_rc(cluster_store_open(&x->s, &options), 0);
}

static inline void
open_directory(struct fixture *x)
{
    tmpdir_make_in_memory(&x->tmp);
    assert_rc(datadir_open(&x->dir, x->tmp.path, DATADIR_WRITE), 0);
    open_store(x);
}

static inline void
close_directory(struct fixture *x)
{
    store_close(x->s);
    datadir_close(&x->dir);
    tmpdir_remove(&x->tmp);
}

static inline void
open_mover(struct fixture *x)
{
    const struct cluster_options options = {.nodes = servers.nodes,
                                            .timeout_ms = 1000};

    assert_rc(cluster_open(&x->cluster, &options), 0);
}

static inline int
setup(void **state)
{
    static struct fixture x;

    x = (struct fixture){.random = {.state = 5},
                         .stop = CLUSTER_MOVE_SWITCHED + 1,
                         .lease_ms = CLUSTER_MOVE_LEASE_MS,
                         .master = CLUSTER_SERVERS_SERVERS,
                         .target = CLUSTER_SERVERS_SERVERS};
    *state = &x;
    if (!has_servers)
        return 0;
    set_cluster(&x.config);
    cluster_servers_flush(&servers);
    open_directory(&x);
    x.oracle = engine_open_history(x.dir.keyspace_fd, ENGINE_MINUTES, NULL);
    open_mover(&x);
    return 0;
}

static inline int
teardown(void **state)
{
    struct fixture *x = *state;

    if (!has_servers)
        return 0;
    cluster_close(x->cluster);
    store_close(x->oracle);
    close_directory(x);
    return 0;
}

#define CASE(name, x) CLUSTER_TEST_IN(name, struct fixture *x, setup, teardown)
/* ---- counting and answers ------------------------------------------------ */

/* A batch of random keys of the last days, to the store and the oracle. */
static inline void
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

/* Counts, and waits until it is readable. */
static inline void
count_and_send(struct fixture *x)
{
    count_both(x, x->s);
    await_sent(x->s);
}

static inline int
ask_store(struct store *s, struct store_query *q, uint8_t *bytes, size_t size)
{
    struct store_reads reads = {
        .queries = q, .count = 1, .at = bytes, .capacity = size};

    q->name = words.name;
    q->name_size = words.name_size;
    (void)store_read(s, &reads);
    store_read_end(s);
    return q->error;
}

/* Asks both and compares the bytes of the answers. */
static inline void
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
static inline void
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

static inline void
report_fault(void *ctx, const char *text)
{
    (void)ctx;
    fail_msg("%s", text);
}

static inline void
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

static inline void
read_place(struct fixture *x, struct cluster_place *out)
{
    uint64_t now_ms;

    assert_rc(cluster_place_read(x->cluster, words.name, words.name_size, out,
                                 &now_ms),
              0);
}

static inline void
put_place(struct fixture *x, const struct cluster_place *next)
{
    struct cluster_place place;

    read_place(x, &place);
    assert_rc(cluster_place_replace(x->cluster, words.name, words.name_size,
                                    &place, next),
              0);
}

/* The mover is silent, and its lease is over. */
static inline void
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
static inline void
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
static inline void
check_as_of(struct fixture *x)
{
    const uint64_t as_of_ms = store_as_of(x->s);

    assert_true(as_of_ms >= x->as_of_ms);
    x->as_of_ms = as_of_ms;
}

/* Counts and reads at each step. */
static inline bool
take_step(void *ctx, enum cluster_move_step step, uint64_t rows,
          uint64_t of_rows)
{
    struct fixture *x = ctx;
    struct store_totals totals;

    assert_true(rows <= of_rows);
    if (!x->is_past)
        assert_rc(stored_totals(x->s, "words", &totals), 0);
    if (x->is_quiet)
        check_as_of(x);
    else if (step != CLUSTER_MOVE_COPYING)
        count_both(x, x->s);
    if (x->target < CLUSTER_SERVERS_SERVERS && step == CLUSTER_MOVE_CLOSED)
        assert_true(
            cluster_fault_leave_behind(&x->faults, x->target, x->replica));
    if (x->target < CLUSTER_SERVERS_SERVERS && step == x->dies)
        assert_true(cluster_fault_promote(&x->faults, x->target, x->replica));
    if (step != x->stop)
        return true;
    if (x->skip > 0) {
        x->skip--;
        return true;
    }
    if (x->meanwhile != NULL) {
        x->stop = CLUSTER_MOVE_SWITCHED + 1;
        x->is_past = true;
        x->meanwhile(x);
        return true;
    }
    if (x->master < CLUSTER_SERVERS_SERVERS) {
        daemon_kill(&servers.servers[x->master]);
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

static inline int
move_to(struct fixture *x, uint32_t parts, struct cluster_move_result *out)
{
    const struct cluster_move_options options = {.parts = parts,
                                                 .to = x->to,
                                                 .lease_ms = x->lease_ms,
                                                 .progress = take_step,
                                                 .ctx = x};

    x->is_past = false;
    return cluster_move(x->cluster, &words, &options, out);
}

static inline unsigned
master_of(uint32_t generation, uint32_t part)
{
    struct cluster_part_keys keys;

    cluster_part_keys(&keys, words.name, words.name_size, generation, part);
    return cluster_servers_master(&servers, 0, keys.slot);
}

static inline void
pause_shortly(void *ctx)
{
    (void)ctx;
    (void)poll(NULL, 0, 5);
}

#endif

/* tests/unit/cluster_move_fixture.h - a keyspace in a Redis Cluster of real
 * servers that is moved while it is counted and read, and an oracle that counts
 * the same. */
#ifndef COUNTD_TESTS_UNIT_CLUSTER_MOVE_FIXTURE_H
#define COUNTD_TESTS_UNIT_CLUSTER_MOVE_FIXTURE_H

#include "tests/unit/cluster_fixture.h"

#include "common/base/bytes.h"
#include "common/store/cluster/cluster_admin.h"

#define KEYS 1500

static const struct cluster_move_keyspace words = {NAME, 1};

struct fixture {
    struct site site;
    struct cluster *cluster; /* the mover's */
    uint64_t as_of_ms;
    struct cluster_move_result result;
    enum cluster_move_step stop; /* the mover dies after it */
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

    x = (struct fixture){.stop = CLUSTER_MOVE_SWITCHED + 1,
                         .lease_ms = CLUSTER_MOVE_LEASE_MS,
                         .target = CLUSTER_SERVERS_SERVERS};
    *state = &x;
    site_open(&x.site, 1);
    x.site.keys = KEYS;
    if (has_servers)
        open_mover(&x);
    return 0;
}

static inline int
teardown(void **state)
{
    struct fixture *x = *state;

    cluster_close(x->cluster);
    x->cluster = NULL;
    site_close(&x->site);
    return 0;
}

#define CASE(name, x) CLUSTER_TEST_IN(name, struct fixture *x, setup, teardown)

/* Counts, and waits until it is readable. */
static inline void
count_and_send(struct fixture *x)
{
    count_both(&x->site, x->site.s, false);
    await_sent(x->site.s);
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
    const uint64_t as_of_ms = store_as_of(x->site.s);

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
        assert_rc(stored_totals(x->site.s, "words", &totals), 0);
    if (x->is_quiet)
        check_as_of(x);
    else if (step != CLUSTER_MOVE_COPYING)
        count_both(&x->site, x->site.s, false);
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
    if (x->is_slow) {
        end_lease(x);
        await_still(x);
        return true;
    }
    return false;
}

static inline int
move_to(struct fixture *x, uint32_t parts)
{
    const struct cluster_move_options options = {.parts = parts,
                                                 .to = x->to,
                                                 .lease_ms = x->lease_ms,
                                                 .progress = take_step,
                                                 .ctx = x};

    x->is_past = false;
    return cluster_move(x->cluster, &words, &options, &x->result);
}

#endif

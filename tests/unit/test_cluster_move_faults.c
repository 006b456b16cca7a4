/* tests/unit/test_cluster_move_faults.c - a keyspace in a Redis Cluster gets
 * more parts while masters die: nothing is lost or doubled. */
#include "tests/unit/cluster_move_fixture.h"

CASE(a_master_killed_meanwhile_loses_nothing, x)
{
    struct cluster_faults faults;
    uint32_t parts = 1;

    count_and_send(x);
    for (unsigned i = 0; i < CLUSTER_SERVERS_MASTERS; i++) {
        cluster_faults_init(&faults, &servers);
        x->master = cluster_fault_master(&faults, &x->site.random);
        x->stop = i == 0   ? CLUSTER_MOVE_MADE
                  : i == 1 ? CLUSTER_MOVE_COPIED
                           : CLUSTER_MOVE_WHOLE;
        faults.is_dead[x->master] = true;
        if (move_to(x, 2 * parts) == 0)
            parts *= 2;
        cluster_faults_heal(&faults, pause_shortly, NULL);
        await_still(x);
        count_both(&x->site, x->site.s, false); /* whatever was lost is found */
        compare_all(&x->site);
    }
    x->master = CLUSTER_SERVERS_SERVERS;
    assert_rc(move_to(x, 16), 0);
    compare_all(&x->site);
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
        assert_rc(cluster_admin_parts(x->site.s, add_retained, &retained), 0);
    } while (retained > 0);
}

/* The replica of a master of new parts is behind, and takes its place. */
static void
move_to_dying(struct fixture *x, enum cluster_move_step step)
{
    struct cluster_place place;

    cluster_faults_init(&x->faults, &servers);
    read_place(x, &place);
    for (uint32_t i = 0; i < 8; i++)
        if (master_of(0, "words", place.other + 1, i) !=
            master_of(0, "words", 0, 0))
            x->target = master_of(0, "words", place.other + 1, i);
    assert_int_not_equal(x->target, CLUSTER_SERVERS_SERVERS);
    x->replica = cluster_fault_replica_of(&x->faults, x->target);
    x->dies = step;
    assert_true(move_to(x, 8) < 0);
    x->target = CLUSTER_SERVERS_SERVERS;
    cluster_faults_heal(&x->faults, pause_shortly, NULL);
    await_still(x);
    read_place(x, &place);
    assert_int_equal(place.parts, 1);
    compare_all(&x->site);
}

/* The outbox has nothing that it could send again.  The second one does not
 * come to the step: it waits for the replica. */
CASE(a_target_that_dies_before_its_replica_has_the_part_loses_nothing, x)
{
    store_close(x->site.s);
    x->site.config.store_retain_ms = 0;
    open_store(&x->site);
    count_and_send(x);
    await_settled(x);
    move_to_dying(x, CLUSTER_MOVE_WHOLE);
    await_settled(x);
    move_to_dying(x, CLUSTER_MOVE_REPLICATED);
    assert_rc(move_to(x, 8), 0);
    compare_all(&x->site);
}

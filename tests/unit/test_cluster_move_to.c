/* tests/unit/test_cluster_move_to.c - the parts of a keyspace in a Redis
 * Cluster go to one master while it is counted and read: slots without keys are
 * given to it where its own do not fit, and nothing is lost or doubled when the
 * mover, the old master or the new one dies. */
#include "tests/unit/cluster_move_fixture.h"

/* The server that has part `part` of the keyspace. */
static unsigned
find_server(struct fixture *x, uint32_t part)
{
    struct cluster_place place;

    read_place(x, &place);
    return master_of(0, "words", place.generation, part);
}

/* Another master than that of the first part. */
static unsigned
find_other(struct fixture *x)
{
    const unsigned from = find_server(x, 0);
    unsigned server = from;

    do
        server = (server + 1) % CLUSTER_SERVERS_SERVERS;
    while (strncmp(cluster_servers_run(&servers, server, "ROLE"), "master",
                   6) != 0);
    return server;
}

static void
aim_at(struct fixture *x, unsigned server)
{
    static char name[32];

    (void)snprintf(name, sizeof name, "127.0.0.1:%d", servers.ports[server]);
    x->to = name;
}

static void
check_all_at(struct fixture *x, unsigned server)
{
    struct cluster_place place;

    read_place(x, &place);
    for (uint32_t i = 0; i < place.parts; i++)
        assert_int_equal(find_server(x, i), server);
}

/* A slot that the next generation of four parts would be given: the first one
 * that the server has not. */
static struct cluster_part_keys
find_wanted(struct fixture *x, unsigned server)
{
    struct cluster_part_keys keys;
    struct cluster_place place;
    uint32_t part = 0;

    read_place(x, &place);
    do {
        assert_true(part < 4);
        keys = cluster_part_keys(NAME, place.generation + 1, part++);
    } while (cluster_servers_master(&servers, 0, keys.slot) == server);
    return keys;
}

static size_t
tag_size(const struct cluster_part_keys *keys)
{
    const char *close = memchr(keys->counts, '}', keys->size);

    return (size_t)(close + 1 - keys->counts);
}

/* Has the tag of a part, and is not countd's. */
static void
put_key(const struct cluster_part_keys *keys)
{
    const unsigned server = cluster_servers_master(&servers, 0, keys->slot);

    assert_string_equal(cluster_servers_run(&servers, server, "SET %b 1",
                                            keys->counts, tag_size(keys)),
                        "OK");
}

/* It is where it was, and its slot is on its way to nobody. */
static void
check_key(const struct cluster_part_keys *keys, unsigned server)
{
    char mark[16];

    assert_int_equal(cluster_servers_master(&servers, server, keys->slot),
                     server);
    assert_string_equal(cluster_servers_run(&servers, server, "GET %b",
                                            keys->counts, tag_size(keys)),
                        "1");
    (void)snprintf(mark, sizeof mark, "[%u->-", keys->slot);
    assert_null(
        strstr(cluster_servers_run(&servers, server, "CLUSTER NODES"), mark));
}

/* Each test begins with a generation of its own, and so with slots that no
 * other test had given to a master. */
static void
count_first(struct fixture *x)
{
    static uint32_t generation;
    const struct cluster_place first = {.generation = generation += 1000,
                                        .parts = 1};
    const uint16_t slot = cluster_slot(CLUSTER_PARTS, strlen(CLUSTER_PARTS));
    char text[CLUSTER_PLACE_SIZE];

    cluster_place_format(&first, text);
    assert_string_equal(
        cluster_servers_run(&servers, cluster_servers_master(&servers, 0, slot),
                            "HSET %s words %s", CLUSTER_PARTS, text),
        "1");
    count_and_send(x);
}

/* Another command: with the map as the cluster has it. */
static int
move_anew(struct fixture *x, uint32_t parts)
{
    cluster_close(x->cluster);
    open_mover(x);
    return move_to(x, parts);
}

CASE(a_part_goes_from_master_to_master, x)
{
    count_first(x);
    for (unsigned i = 0; i < CLUSTER_SERVERS_MASTERS; i++) {
        const unsigned server = find_other(x);

        aim_at(x, server);
        assert_rc(move_to(x, 0), 0);
        assert_int_equal(x->result.to.parts, 1);
        check_all_at(x, server);
        assert_rc(move_to(x, 0), -EALREADY);
        compare_all(&x->site);
    }
}

/* The map has it as 127.0.0.1. */
CASE(a_master_may_be_named_otherwise_than_in_the_map, x)
{
    char name[32];
    unsigned server;

    count_first(x);
    server = find_other(x);
    (void)snprintf(name, sizeof name, "127.1:%d", servers.ports[server]);
    x->to = name;
    assert_rc(move_to(x, 0), 0);
    check_all_at(x, server);
    assert_rc(move_to(x, 0), -EALREADY);
    compare_all(&x->site);
}

CASE(a_slot_with_keys_is_not_given, x)
{
    struct cluster_part_keys keys;
    unsigned server, owner;

    count_first(x);
    server = find_other(x);
    keys = find_wanted(x, server);
    owner = cluster_servers_master(&servers, 0, keys.slot);
    put_key(&keys);
    aim_at(x, server);
    assert_rc(move_to(x, 4), 0);
    check_all_at(x, server);
    check_key(&keys, owner);
    compare_all(&x->site);
}

static struct cluster_part_keys wanted;

static void
put_wanted(struct fixture *x)
{
    (void)x;
    put_key(&wanted);
}

CASE(a_slot_that_gets_a_key_meanwhile_is_kept, x)
{
    unsigned server, owner;

    count_first(x);
    server = find_other(x);
    wanted = find_wanted(x, server);
    owner = cluster_servers_master(&servers, 0, wanted.slot);
    aim_at(x, server);
    x->stop = CLUSTER_MOVE_GIVING;
    x->meanwhile = put_wanted;
    assert_rc(move_to(x, 4), -ESTALE);
    check_key(&wanted, owner);
    compare_all(&x->site);
    assert_rc(move_to(x, 4), 0);
    check_all_at(x, server);
    check_key(&wanted, owner);
    compare_all(&x->site);
}

CASE(a_server_that_is_no_master_gets_nothing, x)
{
    struct cluster_place before, after;

    count_first(x);
    read_place(x, &before);
    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++) {
        if (strncmp(cluster_servers_run(&servers, i, "ROLE"), "slave", 5) != 0)
            continue;
        aim_at(x, i);
        assert_rc(move_to(x, 0), -ENXIO);
    }
    x->to = "words";
    assert_rc(move_to(x, 0), -ENXIO);
    x->to = "127.0.0.1:1";
    assert_rc(move_to(x, 0), -EHOSTUNREACH);
    read_place(x, &after);
    assert_memory_equal(&before, &after, sizeof before);
    compare_all(&x->site);
}

/* Each try gives some slots; the next one goes on. */
CASE(a_mover_killed_while_it_gives_slots_loses_nothing, x)
{
    unsigned server, tries = 0;
    int rc;

    count_first(x);
    server = find_other(x);
    aim_at(x, server);
    do {
        x->stop = CLUSTER_MOVE_GIVING;
        x->skip = tries++;
        rc = move_anew(x, 4);
        compare_all(&x->site);
    } while (rc == -ECANCELED || rc == -ESTALE);
    assert_rc(rc, 0);
    assert_true(tries > 3); /* each step of a slot */
    check_all_at(x, server);
}

/* A mover that was only slow may go on at any time. */
CASE(a_slot_that_is_on_its_way_to_another_master_is_not_given, x)
{
    struct cluster_part_keys keys;
    unsigned server, owner;

    count_first(x);
    server = find_other(x);
    aim_at(x, server);
    keys = find_wanted(x, server);
    owner = cluster_servers_master(&servers, 0, keys.slot);
    x->stop = CLUSTER_MOVE_GIVING;
    x->skip = 1;
    assert_rc(move_to(x, 4), -ECANCELED);
    x->stop = CLUSTER_MOVE_SWITCHED + 1;
    do
        server = (server + 1) % CLUSTER_SERVERS_MASTERS;
    while (owner == server);
    aim_at(x, server);
    assert_rc(move_anew(x, 4), 0);
    check_all_at(x, server);
    assert_int_equal(cluster_servers_master(&servers, 0, keys.slot), owner);
    compare_all(&x->site);
}

/* ---- masters that die ---------------------------------------------------- */

static unsigned victim;

/* The parts that it made are found by what it has closed. */
CASE(a_mover_whose_place_is_lost_leaves_nothing_at_the_master, x)
{
    struct cluster_place place, lost;
    struct cluster_part_keys keys;
    unsigned server = 0;

    count_first(x);
    read_place(x, &place);
    while (server == find_server(x, 0) ||
           server == master_of(0, "words", place.generation + 1, 0))
        server++;
    aim_at(x, server);
    x->stop = CLUSTER_MOVE_SEALED;
    assert_rc(move_to(x, 0), -ECANCELED);
    read_place(x, &lost);
    assert_true(lost.other > place.generation + 1);
    put_place(x, &place);
    compare_all(&x->site);
    keys = cluster_part_keys(NAME, lost.other, 0);
    assert_string_equal(cluster_servers_run(&servers, server, "EXISTS %b",
                                            keys.counts, keys.size),
                        "0");
}

/* Waits until all servers know who has the slots of the next generation: a
 * failover before that leaves them with nobody, which only an operator mends.
 */
static void
await_map(struct fixture *x)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)WAIT_MS * test_slow();
    struct cluster_place place;
    struct cluster_part_keys keys;

    read_place(x, &place);
    for (uint32_t i = 0; i < place.other_parts; i++) {
        keys = cluster_part_keys(NAME, place.other, i);
        for (unsigned s = 0; s < CLUSTER_SERVERS_SERVERS; s++)
            while (cluster_servers_master(&servers, s, keys.slot) !=
                   cluster_servers_master(&servers, victim, keys.slot))
                assert_true(clock_ms() < end_ms);
    }
}

static void
kill_victim(struct fixture *x)
{
    await_map(x);
    (void)cluster_fault_kill(&x->faults, victim);
}

CASE(a_master_killed_while_parts_go_to_another_loses_nothing, x)
{
    static const struct {
        enum cluster_move_step step;
        unsigned skip;
        bool is_target;
    } cases[] = {{CLUSTER_MOVE_GIVING, 1, true},
                 {CLUSTER_MOVE_COPIED, 0, true},
                 {CLUSTER_MOVE_WHOLE, 0, false},
                 {CLUSTER_MOVE_SWITCHED, 0, true}};
    count_first(x);
    assert_rc(move_to(x, 4), 0);
    x->meanwhile = kill_victim;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const unsigned from = find_server(x, 0), to = find_other(x);

        cluster_faults_init(&x->faults, &servers);
        aim_at(x, to);
        victim = cases[i].is_target ? to : from;
        x->stop = cases[i].step;
        x->skip = cases[i].skip;
        (void)move_anew(x, 0);
        assert_true(x->faults.is_dead[victim]);
        cluster_faults_heal(&x->faults, pause_shortly, NULL);
        end_lease(x);
        count_both(&x->site, x->site.s, false); /* whatever was lost is found */
        await_still(x);
        compare_all(&x->site);
    }
    aim_at(x, find_other(x));
    assert_rc(move_anew(x, 0), 0);
    compare_all(&x->site);
}

static void
stop_victim(struct fixture *x)
{
    assert_true(cluster_fault_stop(&x->faults, victim));
}

/* Else the parts would be at one server only, and the old ones be gone. */
CASE(parts_are_not_switched_before_replicas_have_them, x)
{
    unsigned from, to;

    count_first(x);
    from = find_server(x, 0);
    to = find_other(x);
    cluster_faults_init(&x->faults, &servers);
    victim = cluster_fault_replica_of(&x->faults, to);
    aim_at(x, to);
    x->stop = CLUSTER_MOVE_COPIED;
    x->meanwhile = stop_victim;
    assert_rc(move_to(x, 0), -EAGAIN);
    check_all_at(x, from);
    cluster_faults_heal(&x->faults, pause_shortly, NULL);
    compare_all(&x->site);
    assert_rc(move_to(x, 0), 0);
    check_all_at(x, to);
    compare_all(&x->site);
}

/* As an increment does that comes while the part is not closed. */
static void
change_version(struct fixture *x)
{
    struct cluster_place place;
    struct cluster_part_keys keys;

    read_place(x, &place);
    keys = cluster_part_keys(NAME, place.generation, 0);
    assert_int_not_equal(
        strtol(cluster_servers_run(
                   &servers, cluster_servers_master(&servers, 0, keys.slot),
                   "HINCRBY %b %b 1", keys.counts, keys.size, "\0v", (size_t)2),
               NULL, 10),
        1);
}

CASE(parts_are_not_switched_if_a_count_came_between, x)
{
    unsigned from;

    count_first(x);
    from = find_server(x, 0);
    aim_at(x, find_other(x));
    x->stop = CLUSTER_MOVE_COPIED;
    x->meanwhile = change_version;
    assert_rc(move_to(x, 0), -ESTALE);
    check_all_at(x, from);
    compare_all(&x->site);
}

/* ---- replicas that are behind ---------------------------------------------
 */

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

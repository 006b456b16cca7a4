/* tests/crash/test_cluster_faults.c - two data directories count into one Redis
 * Cluster while servers and daemons are killed, stopped, emptied and put back
 * at random; every acknowledged increment must be counted exactly once.
 *
 *     TEST_SEED    repeats the choice of faults (not their exact moments)
 *     TEST_ROUNDS  how many rounds of faults, each with a comparison (3)
 *
 * make faults runs it for long. */
#include "tests/lib/test.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/store/cluster/cluster_key.h"
#include "tests/lib/client.h"
#include "tests/lib/cluster_faults.h"
#include "tests/lib/expect.h"
#include "tests/lib/fleet.h"
#include "tests/lib/traffic.h"

#define ROUNDS    3
#define NODES     2
#define KEYSPACES 12
#define PARTS     4
#define PACE_MS   10
#define REPAIR_MS 20000
#define MOVE_MS   90000
#define ROWS_MAX  20000

/* A data directory, its daemons, and clients of its writer. */
struct node {
    struct fleet fleet;
    struct traffic traffic;
};

struct storm {
    struct cluster_servers servers;
    struct cluster_faults faults;
    struct node nodes[NODES];
    struct model model;
    struct random random;
    struct daemon mover; /* pid 0: none */
    _Atomic uint64_t moments;
};

static void
send_once(void *ctx)
{
    struct storm *s = ctx;

    for (unsigned i = 0; i < NODES; i++)
        traffic_turn(&s->nodes[i].traffic, 1);
    (void)poll(NULL, 0, PACE_MS);
}

static void
send_for(struct storm *s, uint64_t ms)
{
    const uint64_t until = clock_ms() + random_below(&s->random, ms);

    do
        send_once(s);
    while (clock_ms() < until);
}

/* ---- faults -------------------------------------------------------------- */

static unsigned
pick_server(struct storm *s)
{
    return (unsigned)random_below(&s->random, CLUSTER_SERVERS_SERVERS);
}

static bool
kill_server(struct storm *s)
{
    return cluster_fault_kill(&s->faults, pick_server(s));
}

/* Back before the others have noticed, or later. */
static bool
restart_server(struct storm *s)
{
    const unsigned server = pick_server(s);

    if (!cluster_fault_kill(&s->faults, server))
        return false;
    send_for(s, 1500);
    return cluster_fault_restart(&s->faults, server);
}

static bool
stop_server(struct storm *s)
{
    const unsigned server = pick_server(s);

    if (!cluster_fault_stop(&s->faults, server))
        return false;
    send_for(s, random_chance(&s->random, 50) ? 400 : 4000);
    return cluster_fault_continue(&s->faults, server);
}

static bool
kill_daemon(struct storm *s)
{
    struct node *n = &s->nodes[random_below(&s->random, NODES)];
    const uint64_t which = random_below(&s->random, 4);
    const enum fleet_role role = which == 0   ? FLEET_WRITE
                                 : which == 1 ? FLEET_READ
                                              : FLEET_WORKER;

    if (role == FLEET_WRITE)
        traffic_port(&n->traffic, 0);
    daemon_kill(fleet_daemon(&n->fleet, role));
    fleet_start(&n->fleet, role);
    if (role == FLEET_WRITE)
        traffic_port(&n->traffic, fleet_ack_port(&n->fleet));
    return true;
}

/* The rest loses what servers acknowledged, and even what replicas had: only
 * what the outboxes retain can bring it back. */

static bool
promote_stale(struct storm *s)
{
    const unsigned master = cluster_fault_master(&s->faults, &s->random);
    const unsigned replica = cluster_fault_replica_of(&s->faults, master);

    if (!cluster_fault_leave_behind(&s->faults, master, replica))
        return false;
    send_for(s, 1500);
    return cluster_fault_promote(&s->faults, master, replica);
}

/* A master, or a master and its replica, come back with an older file. */
static bool
cut_files(struct storm *s)
{
    const unsigned master = cluster_fault_master(&s->faults, &s->random);
    const unsigned replica = cluster_fault_replica_of(&s->faults, master);
    const unsigned percent = (unsigned)random_below(&s->random, 40);

    if (!cluster_fault_cut(&s->faults, master, percent))
        return false;
    if (random_chance(&s->random, 60))
        (void)cluster_fault_cut(&s->faults, replica, percent);
    return cluster_fault_restart(&s->faults, master);
}

static bool
flush_server(struct storm *s)
{
    return cluster_fault_flush(&s->faults,
                               cluster_fault_master(&s->faults, &s->random));
}

static const struct fault {
    const char *name;
    bool (*run)(struct storm *s); /* NULL: a command does it */
    bool loses; /* more than one server's unreplicated writes */
    const char *command;
} faults[] = {
    {"kill", kill_server, false, NULL},
    {"restart", restart_server, false, NULL},
    {"stop", stop_server, false, NULL},
    {"change of master", NULL, false, "CLUSTER FAILOVER"},
    {"functions gone", NULL, false, "FUNCTION FLUSH"},
    {"connections broken", NULL, false, CLUSTER_FAULT_BREAK},
    {"memory full", NULL, false, CLUSTER_FAULT_FILL},
    {"too few replicas", NULL, false, CLUSTER_FAULT_ALONE},
    {"daemon killed", kill_daemon, false, NULL},
    {"daemon killed", kill_daemon, false, NULL},
    {"stale replica promoted", promote_stale, true, NULL},
    {"files cut", cut_files, true, NULL},
    {"server emptied", flush_server, true, NULL},
};
#define FAULTS (sizeof faults / sizeof *faults)

static void
strike(struct storm *s, bool loses)
{
    const struct fault *f;
    bool is_done;

    do
        f = &faults[random_below(&s->random, FAULTS)];
    while (f->loses && !loses);
    is_done = f->run
                  ? f->run(s)
                  : cluster_fault_run(&s->faults, pick_server(s), f->command);
    printf("%llu ms: %s%s\n", (unsigned long long)clock_ms() % 10000000,
           f->name, is_done ? "" : " (not done)");
    send_for(s, 1500);
}

/* A slot of the first generation is moved while the cluster is whole. */
static void
move_part(struct storm *s)
{
    struct cluster_part_keys keys;
    char name[MODEL_NAME_SIZE];
    const int size =
        snprintf(name, sizeof name, "ks%u",
                 (unsigned)random_below(&s->random, s->model.keyspaces));

    keys = cluster_part_keys((const uint8_t *)name, (size_t)size, 0,
                             (uint32_t)random_below(&s->random, PARTS));
    printf("%llu ms: slot %u moves\n",
           (unsigned long long)clock_ms() % 10000000, keys.slot);
    cluster_fault_move_slot(&s->faults, keys.slot, send_once, s);
}

/* Gives a keyspace more parts, beside whatever goes wrong meanwhile. */
static void
start_mover(struct storm *s)
{
    char name[MODEL_NAME_SIZE], parts[8];

    (void)snprintf(name, sizeof name, "ks%u",
                   (unsigned)random_below(&s->random, s->model.keyspaces));
    (void)snprintf(parts, sizeof parts, "%u",
                   PARTS << (1 + random_below(&s->random, 4)));
    printf("%llu ms: %s gets %s parts\n",
           (unsigned long long)clock_ms() % 10000000, name, parts);
    fleet_begin(
        &s->nodes[random_below(&s->random, NODES)].fleet, &s->mover,
        (const char *const[]){"store", "move", name, "--parts", parts, NULL});
}

/* It has ended, is waited for, or dies with its work half done. */
static void
end_mover(struct storm *s)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)MOVE_MS * test_slow();
    const bool dies = random_chance(&s->random, 40);
    const bool is_done = !daemon_alive(&s->mover);

    while (!dies && daemon_alive(&s->mover)) {
        assert_true(clock_ms() < end_ms);
        send_once(s);
    }
    if (dies)
        daemon_kill(&s->mover);
    else
        (void)daemon_wait(&s->mover);
    (void)daemon_output(&s->mover, text, sizeof text);
    printf("mover %s: %s\n",
           is_done ? "had ended"
           : dies  ? "was killed"
                   : "ended",
           text);
    daemon_fini(&s->mover);
    s->mover.pid = 0;
}

/* ---- comparing ----------------------------------------------------------- */

/* Reads all of a keyspace at once: rows may still change their places.  False:
 * the reader answered an error. */
static bool
read_keyspace(int fd, struct model *m, const char *keyspace)
{
    struct client_rows rows;
    int64_t last = INT64_MAX;
    bool is_answered;

    client_range(fd, keyspace, 0, ROWS_MAX, &rows);
    is_answered = rows.rows >= 0;
    assert_true(rows.rows < ROWS_MAX);
    for (int64_t i = 0; i < rows.rows; i++) {
        assert_true(rows.row[i].count <= last);
        last = rows.row[i].count;
        model_found(m, keyspace, rows.row[i].key, rows.row[i].count);
    }
    client_rows_free(&rows);
    return is_answered;
}

static unsigned
count_wrong(struct storm *s, struct node *n, char *why, size_t size)
{
    const int fd = client_connect(fleet_read_port(&n->fleet));
    struct client_rows names;
    bool is_answered;

    model_look(&s->model);
    client_extended(fd, 3, "", "", &names);
    is_answered = names.rows >= 0;
    for (int64_t i = 0; is_answered && i < names.rows; i++)
        is_answered = read_keyspace(fd, &s->model, names.row[i].key);
    client_rows_free(&names);
    client_close(fd);
    if (is_answered)
        return model_verdict(&s->model, UINT64_MAX, why, size);
    (void)snprintf(why, size, "the reader answers an error");
    return 1;
}

static void
show_outputs(struct storm *s)
{
    for (unsigned i = 0; i < NODES; i++) {
        (void)daemon_output(fleet_daemon(&s->nodes[i].fleet, FLEET_WORKER),
                            text, sizeof text);
        printf("worker %u printed:\n%s\n", i, text);
        (void)FLEET_RUN(&s->nodes[i].fleet, "store");
        printf("%s\n", text);
    }
}

/* What the cluster lost just now may be missing until the audit has found it,
 * and a reader may not know all masters yet; neither may take until the audit
 * of each minute. */
static void
compare_counts(struct storm *s, struct node *n)
{
    const uint64_t since_ms = clock_ms();
    char why[512];
    unsigned wrong;

    while ((wrong = count_wrong(s, n, why, sizeof why)) > 0) {
        if (clock_ms() - since_ms > (uint64_t)REPAIR_MS * test_slow()) {
            show_outputs(s);
            fail_msg("%u keys wrong: %s", wrong, why);
        }
        (void)poll(NULL, 0, PACE_MS);
    }
}

/* Everything that was acknowledged is in the cluster and with its replicas. */
static void
expect_exactly_once(struct storm *s)
{
    for (unsigned i = 0; i < NODES; i++)
        assert_true(traffic_drain(&s->nodes[i].traffic, 60000));
    for (unsigned i = 0; i < NODES; i++)
        if (FLEET_RUN(&s->nodes[i].fleet, "flush", "--timeout", "90s") != 0) {
            printf("%s\n", text);
            show_outputs(s);
            fail_msg("not all is in the cluster");
        }
    for (unsigned i = 0; i < NODES; i++)
        expect(FLEET_RUN(&s->nodes[i].fleet, "store"), 0, "");
    compare_counts(s, &s->nodes[random_below(&s->random, NODES)]);
    expect(FLEET_RUN(&s->nodes[0].fleet, "check"), 0, "");
}

/* ---- a storm ------------------------------------------------------------- */

static void
start_node(struct storm *s, struct node *n, const char *retain)
{
    char option[FLEET_OPTION_SIZE];

    fleet_init_in_memory(&n->fleet);
    (void)snprintf(option, sizeof option, "store.nodes=%s", s->servers.nodes);
    fleet_option(&n->fleet, option);
    (void)snprintf(option, sizeof option, "store.retain=%s", retain);
    fleet_option(&n->fleet, option);
    (void)snprintf(option, sizeof option, "store.parts=%u", PARTS);
    fleet_option(&n->fleet, option);
    fleet_option(&n->fleet, "store=cluster");
    fleet_option(&n->fleet, "store.timeout=1s");
    fleet_start(&n->fleet, FLEET_WRITE);
    fleet_start(&n->fleet, FLEET_WORKER);
    fleet_start(&n->fleet, FLEET_READ);
    traffic_init(&n->traffic, &s->model, &s->moments, 2, 8);
    traffic_port(&n->traffic, fleet_ack_port(&n->fleet));
}

static unsigned
rounds_wanted(void)
{
    const char *given = getenv("TEST_ROUNDS");
    const int count = given ? atoi(given) : ROUNDS;

    return count > 0 ? (unsigned)count : ROUNDS;
}

static void
run_rounds(struct storm *s, bool loses)
{
    const unsigned rounds = rounds_wanted();

    for (unsigned i = 0; i < rounds; i++) {
        /* What replicas have is safe from one fault at a time. */
        const uint64_t count = loses ? 1 + random_below(&s->random, 4) : 1;

        send_for(s, 500);
        if (random_chance(&s->random, 40))
            start_mover(s);
        if (loses && random_chance(&s->random, 20))
            move_part(s);
        for (uint64_t n = 0; n < count; n++)
            strike(s, loses);
        if (s->mover.pid != 0)
            end_mover(s);
        cluster_faults_heal(&s->faults, send_once, s);
        expect_exactly_once(s);
        printf("round %u of %u: %zu increments acknowledged of %zu, each "
               "counted once\n",
               i + 1, rounds, model_acked(&s->model, UINT64_MAX),
               s->model.count);
        (void)fflush(stdout);
    }
}

static void
run_storm(uint64_t seed, const char *retain, bool loses)
{
    static struct storm s;

    s = (struct storm){.random.state = seed};
    if (!cluster_servers_start(&s.servers))
        test_skip("redis-server is not installed");
    cluster_faults_init(&s.faults, &s.servers);
    model_init(&s.model, seed, KEYSPACES);
    for (unsigned i = 0; i < NODES; i++)
        start_node(&s, &s.nodes[i], retain);
    run_rounds(&s, loses);
    for (unsigned i = 0; i < NODES; i++) {
        fleet_stop(&s.nodes[i].fleet, FLEET_WRITE);
        fleet_stop(&s.nodes[i].fleet, FLEET_WORKER);
        fleet_stop(&s.nodes[i].fleet, FLEET_READ);
        traffic_fini(&s.nodes[i].traffic);
        fleet_fini(&s.nodes[i].fleet);
    }
    model_fini(&s.model);
    cluster_servers_stop(&s.servers);
}

/* The outboxes retain everything: whatever the cluster loses is sent again. */
TEST(nothing_that_is_retained_is_lost_or_doubled)
{
    run_storm(random_seed(__func__), "1h", true);
}

/* The outboxes retain only what no replica has. */
TEST(nothing_that_a_replica_has_is_lost_or_doubled)
{
    run_storm(random_seed(__func__), "0", false);
}

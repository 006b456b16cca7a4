/* tests/e2e/test_cluster_service.c - writer, worker, reader and the command
 * with counters in a Redis Cluster, while processes and servers are killed. */
#include "tests/lib/test.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/store/cluster/cluster_key.h"
#include "tests/lib/client.h"
#include "tests/lib/cluster_rig.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

static struct cluster_rig rig;
static bool has_rig;

static int
start_servers(void)
{
    has_rig = cluster_rig_start(&rig);
    return 0;
}

static int
setup(void **state)
{
    const int rc = service_setup_in_memory(state);
    char nodes[160];

    if (rc != 0 || !has_rig)
        return rc;
    cluster_rig_flush(&rig);
    (void)snprintf(nodes, sizeof nodes, "store.nodes=%s", rig.nodes);
    fleet_option(*state, "store=cluster");
    fleet_option(*state, nodes);
    return 0;
}

#define NEED_RIG()                                                             \
    if (!has_rig)                                                              \
    test_skip("redis-server is not installed")

static unsigned
master_of(const char *keyspace)
{
    struct cluster_part_keys keys;

    cluster_part_keys(&keys, (const uint8_t *)keyspace, strlen(keyspace), 0, 0);
    return cluster_rig_master(&rig, 1, keys.slot);
}

static void
flush_all(struct fleet *f)
{
    expect_text(FLEET_RUN(f, "flush"), 0, "");
}

/* Waits until countd status --json has these words. */
static void
await_status(struct fleet *f, const char *words)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)30000 * test_slow();

    for (;;) {
        (void)FLEET_RUN(f, "status", "--json");
        if (strstr(text, words) != NULL)
            return;
        if (clock_ms() > end_ms)
            fail_msg("status does not say %s: %s", words, text);
        (void)poll(NULL, 0, 20);
    }
}

static void
increments_are_read_from_the_cluster(void **state)
{
    struct fleet *f = *state;

    NEED_RIG();
    service_start(f);
    service_add(f, "words", "the", 3);
    service_add(f, "words", "cluster", 4);
    service_add(f, "words", "the", 3);
    flush_all(f);
    assert_int_equal(service_count(f, "words", "the"), 6);
    assert_int_equal(service_total(f, "words"), 10);
    expect(FLEET_RUN(f, "top", "words"), 0,
           "   0      6  the\n   1      4  cluster\n");
    expect(FLEET_RUN(f, "rank", "words", "cluster"), 0, "1");
    expect(FLEET_RUN(f, "check"), 0, "");
    expect(FLEET_RUN(f, "history", "words", "the", "--tsv", "--from", "-1h",
                     "--step", "2h"),
           0, "\t6\n");
    expect(FLEET_RUN(f, "top", "words", "--from", "-1h", "--tsv"), 0,
           "0\t6\t0\t6\tthe\n1\t4\t0\t4\tcluster\n");
    fleet_stop_all(f);
}

static void
redis_clients_read_all_but_the_order_of_keys(void **state)
{
    static const char commands[] = "ZREVRANGE words 0 9\r\nZSCAN words 0\r\n",
                      answers[] = "*1\r\n$3\r\nthe\r\n"
                                  "-ERR a store in a cluster has no order of "
                                  "keys; use ZREVRANGE\r\n";
    struct fleet *f = *state;
    char got[sizeof answers] = "";
    int fd;

    NEED_RIG();
    fleet_option(f, "resp.listen=127.0.0.1:0");
    service_start(f);
    service_add(f, "words", "the", 3);
    flush_all(f);
    fd = client_connect(daemon_port(fleet_daemon(f, FLEET_READ), "resp"));
    client_send(fd, commands, strlen(commands));
    (void)client_read(fd, got, strlen(answers));
    assert_string_equal(got, answers);
    client_close(fd);
    fleet_stop_all(f);
}

static void
keys_and_keyspaces_are_removed(void **state)
{
    struct fleet *f = *state;

    NEED_RIG();
    service_start(f);
    service_add(f, "words", "the", 3);
    service_add(f, "words", "cluster", 4);
    flush_all(f);
    expect(FLEET_RUN(f, "del", "words", "the"), 0, "");
    service_add(f, "words", "last", 1);
    flush_all(f);
    expect(FLEET_RUN(f, "top", "words"), 0,
           "   0      4  cluster\n   1      1  last\n");
    expect(FLEET_RUN(f, "drop", "words"), 0, "");
    service_add(f, "words", "new", 1);
    flush_all(f);
    expect(FLEET_RUN(f, "top", "words"), 0, "   0      1  new\n");
    fleet_stop_all(f);
}

/* The cluster loses everything after a backup; what was counted since then is
 * still in the outbox. */
static void
a_backup_that_is_put_back_gets_the_rest(void **state)
{
    struct fleet *f = *state;
    struct tmpdir tmp;
    char copy[sizeof tmp.path + 8];

    NEED_RIG();
    tmpdir_make_in_memory(&tmp);
    (void)snprintf(copy, sizeof copy, "%s/copy", tmp.path);
    fleet_option(f, "store.parts=4");
    service_start(f);
    for (unsigned i = 0; i < 30; i++) {
        char key[8];

        (void)snprintf(key, sizeof key, "k%u", i);
        service_add(f, "words", key, i + 1);
    }
    flush_all(f);
    expect(FLEET_RUN(f, "backup", copy), 0, "keyspaces=1 keys=30 faults=0");
    expect(FLEET_RUN(f, "store", "restore", copy), 1, "already-there=4");
    service_add(f, "words", "k29", 1000);
    flush_all(f);
    /* The worker would fill the cluster again by itself: all is retained. */
    fleet_stop(f, FLEET_WORKER);
    cluster_rig_flush(&rig);
    expect(FLEET_RUN(f, "store", "restore", copy), 0,
           "parts=4 keys=30 already-there=0 faults=0");
    assert_int_equal(service_total(f, "words"), 465);
    expect(FLEET_RUN(f, "top", "words", "--from", "-1h", "--tsv"), 0,
           "0\t30\t");
    fleet_start(f, FLEET_WORKER);
    flush_all(f);
    assert_int_equal(service_total(f, "words"), 1465);
    assert_int_equal(service_count(f, "words", "k29"), 1030);
    expect(FLEET_RUN(f, "check"), 0, "");
    fleet_stop_all(f);
    tmpdir_remove(&tmp);
}

/* The id of the only sender. */
static void
read_sender(struct fleet *f, char id[17])
{
    const char *at;

    expect(FLEET_RUN(f, "store", "senders", "--tsv"), 0, "\tyes\t");
    at = strstr(text, "\tyes\t") + 5;
    (void)snprintf(id, 17, "%.16s", at);
}

static void
parts_and_senders_are_listed(void **state)
{
    struct fleet *f = *state;
    char id[17];

    NEED_RIG();
    service_start(f);
    service_add(f, "words", "the", 3);
    flush_all(f);
    expect(FLEET_RUN(f, "store"), 0, "good");
    expect(FLEET_RUN(f, "store", "accept", "words", "0"), 1, "lost nothing");
    expect(FLEET_RUN(f, "store", "accept", "words", "1"), 1, "never counted");
    read_sender(f, id);
    expect(FLEET_RUN(f, "store", "forget", id), 1, "this directory");
    id[0] = id[0] == '0' ? '1' : '0';
    expect(FLEET_RUN(f, "store", "forget", id), 1, "no such sender");
    expect(FLEET_RUN(f, "store", "forget", "x"), 100, "16 digits");
    fleet_stop_all(f);
}

static void
a_loss_is_reported_until_it_is_accepted(void **state)
{
    struct fleet *f = *state;

    NEED_RIG();
    fleet_option(f, "store.retain=0");
    service_start(f);
    service_add(f, "words", "the", 3);
    flush_all(f);
    expect(FLEET_RUN(f, "store"), 0, "      0         0  good");
    cluster_rig_flush(&rig);
    service_add(f, "words", "the", 4);
    assert_int_equal(FLEET_RUN(f, "flush", "--timeout", "300ms"), 1);
    expect(FLEET_RUN(f, "store"), 1, "lost");
    await_status(f, "\"outbox_lost\", \"value\": 1");
    expect(FLEET_RUN(f, "status"), 1,
           "! parts=1 of the cluster are older than what the outbox retains");
    expect_text(FLEET_RUN(f, "store", "accept", "words", "0"), 0, "");
    fleet_stop(f, FLEET_WORKER);
    fleet_start(f, FLEET_WORKER);
    flush_all(f);
    assert_int_equal(service_count(f, "words", "the"), 4);
    fleet_stop_all(f);
}

static void
a_full_keyspace_waits_until_it_may_have_more_keys(void **state)
{
    struct fleet *f = *state;

    NEED_RIG();
    fleet_option(f, "keyspace.max_keys=1");
    service_start(f);
    service_add(f, "words", "the", 3);
    flush_all(f);
    service_add(f, "words", "new", 4);
    assert_int_equal(FLEET_RUN(f, "flush", "--timeout", "300ms"), 1);
    expect(FLEET_RUN(f, "store"), 1, "full");
    expect(FLEET_RUN(f, "top", "words"), 0, "   0      3  the\n");
    fleet_stop(f, FLEET_WORKER);
    f->option_count--;
    fleet_option(f, "keyspace.max_keys=2");
    fleet_start(f, FLEET_WORKER);
    flush_all(f);
    expect(FLEET_RUN(f, "store"), 0, "good");
    expect(FLEET_RUN(f, "top", "words"), 0, "   0      4  new\n");
    fleet_stop_all(f);
}

static void
a_worker_killed_at_any_time_counts_once(void **state)
{
    struct fleet *f = *state;
    int64_t sum = 0;

    NEED_RIG();
    service_start(f);
    for (int i = 0; i < 12; i++) {
        for (int j = 0; j < 20; j++)
            service_add(f, "words", j % 2 ? "odd" : "even", 1);
        sum += 20;
        if (i % 2 == 0)
            (void)FLEET_RUN(f, "flush", "--timeout", "50ms");
        daemon_kill(fleet_daemon(f, FLEET_WORKER));
        fleet_start(f, FLEET_WORKER);
    }
    flush_all(f);
    assert_int_equal(service_total(f, "words"), sum);
    fleet_stop_all(f);
}

static void
a_cluster_that_is_away_delays_and_loses_nothing(void **state)
{
    struct fleet *f = *state;
    unsigned server;

    NEED_RIG();
    service_start(f);
    service_add(f, "words", "the", 1);
    flush_all(f);
    server = master_of("words");
    daemon_signal(&rig.servers[server], SIGSTOP);
    service_add(f, "words", "the", 1);
    assert_int_equal(FLEET_RUN(f, "flush", "--timeout", "200ms"), 1);
    daemon_signal(&rig.servers[server], SIGCONT);
    flush_all(f);
    assert_int_equal(service_count(f, "words", "the"), 2);
    fleet_stop_all(f);
}

/* Starts a worker while a server has a setting, and returns its status; what it
 * printed is in `text`. */
static int
start_with_setting(struct fleet *f, const char *name, const char *value,
                   const char *usual)
{
    const char *argv[] = {"-d", f->path,
                          "-o", "store=cluster",
                          "-o", f->options[f->option_count - 1],
                          NULL};
    const struct daemon_how how = {.argv = argv, .may_fail = true};
    struct daemon d = {.pid = 0};
    int status;

    assert_string_equal(
        cluster_rig_run(&rig, 0, "CONFIG SET %s %s", name, value), "OK");
    status = daemon_start_how(&d, "countd-worker", &how);
    (void)daemon_output(&d, text, sizeof text);
    daemon_fini(&d);
    assert_string_equal(
        cluster_rig_run(&rig, 0, "CONFIG SET %s %s", name, usual), "OK");
    return status;
}

static void
servers_that_would_lose_counters_are_refused_or_reported(void **state)
{
    static const struct {
        const char *name, *value, *usual;
        int status;
    } cases[] = {
        {"maxmemory-policy", "allkeys-lru", "noeviction", 100},
        {"appendonly", "no", "yes", 100},
        {"aof-load-truncated", "yes", "no", 100},
        {"appendfsync", "everysec", "everysec", 0},
        {"min-replicas-to-write", "0", "0", 0},
    };
    char words[64];

    NEED_RIG();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect(start_with_setting(*state, cases[i].name, cases[i].value,
                                  cases[i].usual),
               cases[i].status, "");
        (void)snprintf(words, sizeof words, "%s is %s: ", cases[i].name,
                       cases[i].value);
        expect(0, 0, words);
        (void)snprintf(words, sizeof words, "127.0.0.1:%d: ", rig.ports[0]);
        expect(0, 0, words);
    }
    /* What it should be is not reported. */
    expect(start_with_setting(*state, "appendfsync", "always", "everysec"), 0,
           "");
    assert_null(strstr(text, "127.0.0.1:%d: appendfsync"));
}

/* A setting of servers is hidden from some users: that is no error. */
static void
a_server_that_hides_its_settings_is_used(void **state)
{
    struct fleet *f = *state;

    NEED_RIG();
    for (unsigned i = 0; i < CLUSTER_RIG_SERVERS; i++)
        assert_string_equal(
            cluster_rig_run(&rig, i, "ACL SETUSER default -config"), "OK");
    service_start(f);
    service_add(f, "words", "the", 3);
    flush_all(f);
    assert_int_equal(service_count(f, "words", "the"), 3);
    for (unsigned i = 0; i < CLUSTER_RIG_SERVERS; i++)
        assert_string_equal(
            cluster_rig_run(&rig, i, "ACL SETUSER default +config"), "OK");
    fleet_stop_all(f);
}

/* ---- what waits
 * -------------------------------------------------------------- */

/* Reads a path of the reader's HTTP port into `text`. */
static void
read_http(struct fleet *f, const char *path)
{
    char request[128];
    size_t size;
    int fd =
        client_connect(daemon_port(fleet_daemon(f, FLEET_READ), "read-http"));

    (void)snprintf(request, sizeof request,
                   "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                   path);
    client_send(fd, request, strlen(request));
    size = client_read(fd, text, sizeof text - 1);
    text[size] = '\0';
    client_close(fd);
}

static void
status_knows_what_waits_for_the_cluster(void **state)
{
    struct fleet *f = *state;
    unsigned server;

    NEED_RIG();
    fleet_option(f, "read.http=127.0.0.1:0");
    fleet_option(f, "store.timeout=200ms");
    service_start(f);
    service_add(f, "words", "the", 1);
    flush_all(f);
    await_status(f, "\"outbox_entries\": 0, \"outbox_bytes\": 0, "
                    "\"outbox_lag_ms\": 0, \"outbox_senders\": 1, "
                    "\"outbox_error\": \"\"");
    expect(FLEET_RUN(f, "status"), 0,
           "outbox  all is in the cluster; senders: 1\n");

    server = master_of("words");
    (void)cluster_rig_run(&rig, server, "CONFIG SET maxmemory 1");
    service_add(f, "words", "the", 1);
    await_status(f, "\"outbox_entries\": 1,");
    await_status(f, "\"outbox_error\": \"the memory or disk of a master is "
                    "full\"");
    expect(FLEET_RUN(f, "status"), 0, "outbox  1 entries of ");
    assert_non_null(strstr(text,
                           " old; the memory or disk of a master is full; "
                           "senders: 1\n"));
    read_http(f, "/v1/status");
    assert_non_null(strstr(text, "\"outbox_entries\": 1,"));
    read_http(f, "/metrics");
    assert_non_null(strstr(text, "\ncountd_outbox_entries{slot="));
    assert_non_null(strstr(text, "\ncountd_outbox_lag_seconds "));
    (void)cluster_rig_run(&rig, server, "CONFIG SET maxmemory 0");
    flush_all(f);
    await_status(f, "\"outbox_entries\": 0,");
    await_status(f, "\"outbox_error\": \"\"");
    fleet_stop_all(f);
}

/* A keyspace of another master than that of "words". */
static const char *
keyspace_elsewhere(void)
{
    static char name[2];

    (void)snprintf(name, sizeof name, "a");
    while (master_of(name) == master_of("words"))
        name[0]++;
    return name;
}

/* Last, because no replica takes a master's place any more. */
static void
reads_of_other_masters_go_on_while_one_is_silent(void **state)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)60000 * test_slow();
    struct fleet *f = *state;
    const char *other;
    unsigned server;

    NEED_RIG();
    for (unsigned i = 0; i < CLUSTER_RIG_SERVERS; i++)
        (void)cluster_rig_run(&rig, i,
                              "CONFIG SET cluster-node-timeout 600000");
    fleet_option(f, "read.http=127.0.0.1:0");
    service_start(f);
    other = keyspace_elsewhere();
    server = master_of("words");
    service_add(f, "words", "the", 1);
    service_add(f, other, "the", 2);
    flush_all(f);
    assert_int_equal(service_count(f, "words", "the"), 1);
    assert_int_equal(service_count(f, other, "the"), 2);

    daemon_signal(&rig.servers[server], SIGSTOP);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(service_count(f, other, "the"), 2);
        read_http(f, "/v1/get?keyspace=words&key=the");
        assert_non_null(strstr(text, "\"unreadable\""));
    }
    daemon_signal(&rig.servers[server], SIGCONT);
    do {
        assert_true(clock_ms() < end_ms);
        read_http(f, "/v1/get?keyspace=words&key=the");
    } while (strstr(text, " 200 ") == NULL);
    fleet_stop_all(f);
}

/* From here on masters and replicas change places. */
static void
a_master_killed_while_counting_loses_nothing(void **state)
{
    struct fleet *f = *state;
    unsigned server;

    NEED_RIG();
    service_start(f);
    service_add(f, "words", "the", 1);
    flush_all(f);
    server = master_of("words");
    for (int i = 0; i < 200; i++) {
        service_add(f, "words", "the", 1);
        if (i == 100)
            daemon_kill(&rig.servers[server]);
    }
    /* as_of waits for a replica of the new master. */
    cluster_rig_restart(&rig, server);
    flush_all(f);
    assert_int_equal(service_count(f, "words", "the"), 201);
    fleet_stop_all(f);
}

#define CASE(test)                                                             \
    cmocka_unit_test_setup_teardown(test, setup, service_teardown)

static const struct CMUnitTest tests[] = {
    CASE(increments_are_read_from_the_cluster),
    CASE(redis_clients_read_all_but_the_order_of_keys),
    CASE(keys_and_keyspaces_are_removed),
    CASE(a_backup_that_is_put_back_gets_the_rest),
    CASE(parts_and_senders_are_listed),
    CASE(a_loss_is_reported_until_it_is_accepted),
    CASE(a_full_keyspace_waits_until_it_may_have_more_keys),
    CASE(a_worker_killed_at_any_time_counts_once),
    CASE(a_cluster_that_is_away_delays_and_loses_nothing),
    CASE(servers_that_would_lose_counters_are_refused_or_reported),
    CASE(a_server_that_hides_its_settings_is_used),
    CASE(status_knows_what_waits_for_the_cluster),
    CASE(a_master_killed_while_counting_loses_nothing),
    CASE(reads_of_other_masters_go_on_while_one_is_silent),
};

int
main(int argc, char **argv)
{
    int failed;

    (void)start_servers();
    failed =
        test_main(__FILE__, tests, sizeof tests / sizeof tests[0], argc, argv);
    cluster_rig_stop(&rig);
    return failed;
}

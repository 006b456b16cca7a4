/* tests/e2e/test_cluster_service.c - writer, worker, reader and the command
 * with counters in a Redis Cluster, while processes and servers are killed. */
#include "tests/lib/cluster_main.h"

#include <string.h>

#include "common/store/cluster/cluster_key.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

static int
setup(void **state)
{
    const int rc = service_setup_in_memory(state);
    char nodes[160];

    if (rc != 0 || !has_servers)
        return rc;
    cluster_servers_flush(&servers);
    (void)snprintf(nodes, sizeof nodes, "store.nodes=%s", servers.nodes);
    fleet_option(*state, "store=cluster");
    fleet_option(*state, nodes);
    return 0;
}

static int
teardown(void **state)
{
    if (has_servers)
        fleet_stop_all(*state);
    return service_teardown(state);
}

#define CASE(name, f) CLUSTER_TEST_IN(name, struct fleet *f, setup, teardown)

static unsigned
master_of(const char *keyspace)
{
    struct cluster_part_keys keys =
        cluster_part_keys((const uint8_t *)keyspace, strlen(keyspace), 0, 0);

    return cluster_servers_master(&servers, 1, keys.slot);
}

static void
flush_all(struct fleet *f)
{
    expect_text(FLEET_RUN(f, "flush"), 0, "");
}

/* Counts a key of "words", and waits until that is readable. */
static void
count_key(struct fleet *f, const char *key, int64_t increment)
{
    service_add(f, "words", key, increment);
    flush_all(f);
}

/* Starts the daemons and counts a key. */
static void
start_with(struct fleet *f, const char *key, int64_t increment)
{
    service_start(f);
    count_key(f, key, increment);
}

/* Starts the daemons and counts 3 of a key and 4 of "cluster". */
static void
count_two_keys(struct fleet *f, const char *key)
{
    start_with(f, key, 3);
    count_key(f, "cluster", 4);
}

/* Starts the daemons and counts the keys k0 to k29, 1 to 30. */
static void
count_thirty_keys(struct fleet *f)
{
    service_start(f);
    for (unsigned i = 0; i < 30; i++) {
        char key[8];

        (void)snprintf(key, sizeof key, "k%u", i);
        service_add(f, "words", key, i + 1);
    }
    flush_all(f);
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

CASE(increments_are_read_from_the_cluster, f)
{
    service_start(f);
    service_add(f, "words", "the", 3);
    service_add(f, "words", "cluster", 4);
    count_key(f, "the", 3);
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
}

/* Sends Redis commands, and expects these answers. */
static void
expect_resp(struct fleet *f, const char *commands, const char *answers)
{
    char got[512] = "";
    int fd = client_connect(daemon_port(fleet_daemon(f, FLEET_READ), "resp"));

    assert_true(strlen(answers) < sizeof got);
    client_send(fd, commands, strlen(commands));
    (void)client_read(fd, got, strlen(answers));
    assert_string_equal(got, answers);
    client_close(fd);
}

CASE(keys_are_read_in_order, f)
{
    fleet_option(f, "resp.listen=127.0.0.1:0");
    fleet_option(f, "read.http=127.0.0.1:0");
    fleet_option(f, "store.parts.words=4");
    service_start(f);
    service_add(f, "words", "this", 2);
    service_add(f, "words", "cluster", 7);
    count_key(f, "the", 3);
    expect_text(FLEET_RUN(f, "keys", "words", "--tsv"), 0,
                "7\tcluster\n3\tthe\n2\tthis\n");
    expect_text(FLEET_RUN(f, "keys", "words", "th", "--tsv"), 0,
                "3\tthe\n2\tthis\n");
    expect_resp(f,
                "ZREVRANGE words 0 0\r\nZSCAN words 0 COUNT 2\r\n"
                "ZSCAN words 2\r\nZSCAN words 0 MATCH th*\r\n",
                "*1\r\n$7\r\ncluster\r\n"
                "*2\r\n$1\r\n2\r\n*4\r\n$7\r\ncluster\r\n$1\r\n7\r\n"
                "$3\r\nthe\r\n$1\r\n3\r\n"
                "*2\r\n$1\r\n0\r\n*2\r\n$4\r\nthis\r\n$1\r\n2\r\n"
                "*2\r\n$1\r\n0\r\n*4\r\n$3\r\nthe\r\n$1\r\n3\r\n"
                "$4\r\nthis\r\n$1\r\n2\r\n");
    read_http(f, "/v1/keys?keyspace=words&prefix=th&n=1&format=tsv");
    assert_non_null(strstr(text, "\r\n\r\n3\tthe\n"));
    assert_non_null(strstr(text, "after=the"));
    read_http(f, "/metrics/expand?query=words.th*");
    assert_non_null(strstr(text, "[\"words.the\",\"words.this\"]"));
}

/* The totals of all keyspaces, and several keys, are requested at once: some of
 * these take a command of their own. */
CASE(requests_that_come_together_are_all_answered, f)
{
    fleet_option(f, "store.parts.parted=4");
    service_start(f);
    service_add(f, "words", "the", 3);
    service_add(f, "parted", "a", 1);
    service_add(f, "parted", "b", 2);
    flush_all(f);
    expect_text(FLEET_RUN(f, "keyspaces", "--tsv"), 0,
                "2\t3\t-\tparted\t-\n1\t3\t-\twords\t-\n");
    expect(FLEET_RUN(f, "get", "nosuch", "a", "b"), 1, "no such key");
    expect(FLEET_RUN(f, "store", "move", "parted", "--parts", "8"), 0, "");
    expect_text(FLEET_RUN(f, "get", "parted", "b", "a", "--tsv"), 0,
                "2\tb\n1\ta\n");
}

CASE(keys_without_an_order_are_refused, f)
{
    fleet_option(f, "resp.listen=127.0.0.1:0");
    fleet_option(f, "read.http=127.0.0.1:0");
    fleet_option(f, "store.key_order=off");
    start_with(f, "the", 3);
    expect_resp(f, "ZSCAN words 0\r\n",
                "-ERR the keyspace was made with store.key_order = off; use "
                "ZREVRANGE\r\n");
    read_http(f, "/v1/keys?keyspace=words");
    assert_non_null(strstr(text, "HTTP/1.1 400 "));
    assert_non_null(strstr(text, "\"no-key-order\""));
    expect(FLEET_RUN(f, "keys", "words"), 100,
           "the keyspace was made with store.key_order = off");
}

CASE(keys_and_keyspaces_are_removed, f)
{
    count_two_keys(f, "the");
    expect(FLEET_RUN(f, "del", "words", "the"), 0, "");
    count_key(f, "last", 1);
    expect(FLEET_RUN(f, "top", "words"), 0,
           "   0      4  cluster\n   1      1  last\n");
    expect(FLEET_RUN(f, "drop", "words"), 0, "");
    count_key(f, "new", 1);
    expect(FLEET_RUN(f, "top", "words"), 0, "   0      1  new\n");
}

/* Purges a key, of which only the outbox has bytes then. */
static void
purge_key(struct fleet *f, const char *key)
{
    assert_in_range(FLEET_RUN(f, "del", "words", key, "--purge"), 0, 1);
    assert_non_null(strstr(text, "purged logs="));
    assert_int_equal(FLEET_RUN(f, "get", "words", key), 1);
    (void)daemon_run(text, sizeof text, "grep", "-rl", "--exclude-dir=outbox",
                     key, f->path, NULL);
    assert_string_equal(text, "");
}

CASE(a_purged_key_is_in_no_file_but_the_outbox, f)
{
    fleet_option(f, "archive.keep=1d");
    count_two_keys(f, "secret-key");
    assert_int_equal(FLEET_RUN(f, "del", "words", "secret-key", "--purge"), 1);
    assert_non_null(strstr(text, "deleted keyspace=words keys=1 of 1\n"));
    assert_non_null(strstr(text, "left outbox/"));
    purge_key(f, "secret-key");
    assert_int_equal(service_total(f, "words"), 4);
    expect(FLEET_RUN(f, "check"), 0, "");
}

/* Whatever call it was killed in, the next run ends it. */
CASE(a_killed_purge_is_done_again, f)
{
    static const char *const calls[] = {"pwrite64", "fdatasync", "flock",
                                        "sendto",   "openat",    "read"};
    char script[2000], path[700], key[32];
    unsigned killed = 0;

    service_start(f);
    daemon_path("countd", path, sizeof path);
    for (unsigned i = 0; i < 12; i++) {
        int status;

        (void)snprintf(key, sizeof key, "secret-%02u", i);
        service_add(f, "words", key, 3);
        service_add(f, "words", "rest", 1);
        (void)snprintf(script, sizeof script,
                       "ASAN_OPTIONS=detect_leaks=0 exec strace -qq -o "
                       "/dev/null --inject=%s:signal=KILL:when=%u '%s' -d '%s' "
                       "-o store=cluster -o store.nodes='%s' del words %s "
                       "--purge",
                       calls[i % 6], 1 + i / 2, path, f->path, servers.nodes,
                       key);
        status = daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL);
        if (status == 127)
            test_skip("needs strace");
        killed += status == 128 + SIGKILL;
        purge_key(f, key);
        assert_int_equal(service_total(f, "words"), i + 1);
    }
    print_message("%u of 12 were killed\n", killed);
    assert_true(killed >= 4);
    expect(FLEET_RUN(f, "check"), 0, "");
}

/* The cluster loses everything after a backup; what was counted since then is
 * still in the outbox. */
CASE(a_backup_that_is_put_back_gets_the_rest, f)
{
    struct tmpdir tmp;
    char copy[sizeof tmp.path + 8];

    tmpdir_make_in_memory(&tmp);
    (void)snprintf(copy, sizeof copy, "%s/copy", tmp.path);
    fleet_option(f, "store.parts=4");
    count_thirty_keys(f);
    expect(FLEET_RUN(f, "backup", copy), 0, "keyspaces=1 keys=30 faults=0");
    expect(FLEET_RUN(f, "store", "restore", copy), 1, "already-there=4");
    count_key(f, "k29", 1000);
    /* The worker would fill the cluster again by itself: all is retained. */
    fleet_stop(f, FLEET_WORKER);
    cluster_servers_flush(&servers);
    expect(FLEET_RUN(f, "store", "restore", copy), 0,
           "parts=4 keys=30 already-there=0 faults=0");
    assert_int_equal(service_total(f, "words"), 465);
    expect(FLEET_RUN(f, "top", "words", "--from", "-1h", "--tsv"), 0,
           "0\t30\t");
    expect_text(FLEET_RUN(f, "keys", "words", "k2", "-n", "2", "--tsv"), 0,
                "3\tk2\n21\tk20\n");
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

CASE(a_keyspace_gets_more_parts_while_it_is_counted, f)
{
    count_thirty_keys(f);
    expect(FLEET_RUN(f, "get", "words", "k29"), 0, "30");
    expect(FLEET_RUN(f, "store", "move", "none", "--parts", "4"), 1,
           "no such keyspace");
    /* The words are checked before the store is opened. */
    expect(FLEET_RUN(f, "-o", "store.nodes=", "store", "move", "words"), 100,
           "give --parts");
    expect(FLEET_RUN(f, "store", "move", "words", "--parts", "4", "--json"), 0,
           "\"generation\": 1");
    expect(FLEET_RUN(f, "store", "move", "words", "--parts", "4"), 1,
           "as many parts");
    expect(FLEET_RUN(f, "store", "move", "words", "--parts", "2"), 1,
           "multiple");
    count_key(f, "k29", 1000);
    expect(FLEET_RUN(f, "store", "--tsv"), 0, "\t1\t3\twords\n");
    expect(FLEET_RUN(f, "get", "words", "k29"), 0, "1030");
    expect(FLEET_RUN(f, "total", "words"), 0, "1465");
    expect(FLEET_RUN(f, "check"), 0, "");
}

/* A mover's lease is good until it is ended. */
CASE(a_second_mover_is_refused, f)
{
    unsigned master;

    master = cluster_servers_master(
        &servers, 1, cluster_slot(CLUSTER_PARTS, strlen(CLUSTER_PARTS)));
    start_with(f, "the", 3);
    (void)cluster_servers_run(&servers, master, "HSET %s words %s",
                              CLUSTER_PARTS,
                              "0 1 m 1 4 0000000000000001 "
                              "99999999999999");
    expect(FLEET_RUN(f, "store", "move", "words", "--parts", "2"), 1,
           "nothing was changed: another countd store move works on it");
    (void)cluster_servers_run(&servers, master, "HSET %s words %s",
                              CLUSTER_PARTS, "0 1 m 1 4 0000000000000001 1");
    expect(FLEET_RUN(f, "store", "move", "words", "--parts", "2"), 0, "");
}

CASE(a_keyspace_goes_to_another_master, f)
{
    char to[32], listed[40];

    start_with(f, "the", 3);
    for (unsigned i = 0; i < CLUSTER_SERVERS_MASTERS; i++) {
        (void)snprintf(to, sizeof to, "127.0.0.1:%d", servers.ports[i]);
        (void)snprintf(listed, sizeof listed, "\t%s\t", to);
        /* It may be there already: 1. */
        (void)FLEET_RUN(f, "store", "move", "words", "--to", to);
        expect(FLEET_RUN(f, "store", "move", "words", "--to", to), 1,
               "they are there");
        service_add(f, "words", "the", 1);
        flush_all(f);
        expect(FLEET_RUN(f, "store", "--tsv"), 0, listed);
    }
    expect(FLEET_RUN(f, "store", "move", "words", "--to", "words"), 1,
           "words is not a master");
    expect(FLEET_RUN(f, "store", "move", "words", "--to", "127.0.0.1:1"), 111,
           "nothing was changed: 127.0.0.1:1 does not answer");
    expect(FLEET_RUN(f, "get", "words", "the"), 0, "6");
}

CASE(parts_and_senders_are_listed, f)
{
    static const char *const wrong[] = {"x", " 23456789abcdef0",
                                        "-23456789abcdef0", "0x3456789abcdef0"};
    char id[17];

    start_with(f, "the", 3);
    expect(FLEET_RUN(f, "store"), 0, "good");
    expect(FLEET_RUN(f, "store", "accept", "words", "0"), 1, "lost nothing");
    expect(FLEET_RUN(f, "store", "accept", "words", "1"), 1, "never counted");
    read_sender(f, id);
    expect(FLEET_RUN(f, "store", "forget", id), 1, "this directory");
    id[0] = id[0] == '0' ? '1' : '0';
    expect(FLEET_RUN(f, "store", "forget", id), 1, "no such sender");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect(FLEET_RUN(f, "store", "forget", wrong[i]), 100, "16 digits");
    expect_text(FLEET_RUN(f, "-o", "store.nodes=", "store"), 100,
                "countd: error: store.nodes=: give at least one address and "
                "port of a node, such as 10.0.0.1:6379\n");
}

/* Closes the part as a move does, or opens it. */
static void
call_closing(const char *function)
{
    struct cluster_part_keys keys =
        cluster_part_keys((const uint8_t *)"words", 5, 0, 0);

    assert_int_equal(*cluster_servers_run(&servers, master_of("words"),
                                          "FCALL %s 2 %b %b token-01", function,
                                          keys.counts, keys.size, keys.order,
                                          keys.size),
                     '0');
}

CASE(a_loss_is_reported_until_it_is_accepted, f)
{
    fleet_option(f, "store.retain=0");
    start_with(f, "the", 3);
    expect(FLEET_RUN(f, "store"), 0, "      0         0  good");
    cluster_servers_flush(&servers);
    service_add(f, "words", "the", 4);
    assert_int_equal(FLEET_RUN(f, "flush", "--timeout", "300ms"), 1);
    expect(FLEET_RUN(f, "store"), 1, "lost");
    await_status(f, "\"outbox_lost\", \"value\": 1");
    expect(FLEET_RUN(f, "status"), 1,
           "! parts=1 of the cluster are older than what the outbox retains");
    call_closing("countd1_hold");
    expect(FLEET_RUN(f, "store", "accept", "words", "0"), 1,
           "nothing was changed: the part is closed by countd store move or ");
    call_closing("countd1_open");
    expect_text(FLEET_RUN(f, "store", "accept", "words", "0"), 0, "");
    fleet_stop(f, FLEET_WORKER);
    fleet_start(f, FLEET_WORKER);
    flush_all(f);
    assert_int_equal(service_count(f, "words", "the"), 4);
}

CASE(a_full_keyspace_waits_until_it_may_have_more_keys, f)
{
    fleet_option(f, "keyspace.max_keys=1");
    start_with(f, "the", 3);
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
        cluster_servers_run(&servers, 0, "CONFIG SET %s %s", name, value),
        "OK");
    status = daemon_start_how(&d, "countd-worker", &how);
    (void)daemon_output(&d, text, sizeof text);
    daemon_fini(&d);
    assert_string_equal(
        cluster_servers_run(&servers, 0, "CONFIG SET %s %s", name, usual),
        "OK");
    return status;
}

CASE(servers_that_would_lose_counters_are_refused_or_reported, f)
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

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect(start_with_setting(f, cases[i].name, cases[i].value,
                                  cases[i].usual),
               cases[i].status, "");
        (void)snprintf(words, sizeof words, "%s is %s: ", cases[i].name,
                       cases[i].value);
        expect(0, 0, words);
        (void)snprintf(words, sizeof words, "127.0.0.1:%d: ", servers.ports[0]);
        expect(0, 0, words);
    }
    expect(
        start_with_setting(f, "cluster-replica-validity-factor", "4000", "0"),
        0,
        ": a replica that was cut off for 4010 s is promoted, and "
        "store.retain is shorter");
    expect(0, 0, ": cluster-replica-validity-factor is 0: ");
    (void)start_with_setting(f, "cluster-replica-validity-factor", "10", "0");
    assert_null(strstr(text, "store.retain is shorter"));
    /* What it should be is not reported. */
    expect(start_with_setting(f, "appendfsync", "always", "everysec"), 0, "");
    (void)snprintf(words, sizeof words, "127.0.0.1:%d: appendfsync",
                   servers.ports[0]);
    assert_null(strstr(text, words));
}

/* A setting of servers is hidden from some users: that is no error. */
CASE(a_server_that_hides_its_settings_is_used, f)
{
    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        assert_string_equal(
            cluster_servers_run(&servers, i, "ACL SETUSER default -config"),
            "OK");
    start_with(f, "the", 3);
    assert_int_equal(service_count(f, "words", "the"), 3);
    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        assert_string_equal(
            cluster_servers_run(&servers, i, "ACL SETUSER default +config"),
            "OK");
}

/* ---- what waits --------------------------------------------------------- */

CASE(status_knows_what_waits_for_the_cluster, f)
{
    unsigned server;

    fleet_option(f, "read.http=127.0.0.1:0");
    fleet_option(f, "store.timeout=200ms");
    start_with(f, "the", 1);
    await_status(f, "\"outbox_entries\": 0, \"outbox_bytes\": 0, "
                    "\"outbox_lag_ms\": 0, \"outbox_senders\": 1, "
                    "\"outbox_error\": \"\"");
    expect(FLEET_RUN(f, "status"), 0,
           "outbox  all is in the cluster; senders: 1\n");

    server = master_of("words");
    (void)cluster_servers_run(&servers, server, "CONFIG SET maxmemory 1");
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
    (void)cluster_servers_run(&servers, server, "CONFIG SET maxmemory 0");
    flush_all(f);
    await_status(f, "\"outbox_entries\": 0,");
    await_status(f, "\"outbox_error\": \"\"");
}

/* Each master of the servers has one. */
CASE(too_few_replicas_are_named_by_flush_and_status, f)
{
    fleet_option(f, "store.replicas=2");
    service_start(f);
    service_add(f, "words", "the", 1);
    await_status(f, "\"outbox_error\": \"a master has fewer replicas than "
                    "store.replicas, ");
    assert_int_equal(FLEET_RUN(f, "flush", "--timeout", "300ms"), 1);
    assert_non_null(strstr(text, "not readable in time: a master has fewer "));
    assert_non_null(strstr(text, "set store.replicas = 0; countd store "));
    expect(FLEET_RUN(f, "status"), 1, "! a master has fewer replicas than ");
    assert_int_equal(service_count(f, "words", "the"), 1);
}

/* From here on masters and replicas change places. */
CASE(a_master_killed_while_counting_loses_nothing, f)
{
    unsigned server;

    start_with(f, "the", 1);
    server = master_of("words");
    for (int i = 0; i < 200; i++) {
        service_add(f, "words", "the", 1);
        if (i == 100)
            daemon_kill(&servers.servers[server]);
    }
    /* as_of waits for a replica of the new master. */
    cluster_servers_restart(&servers, server);
    flush_all(f);
    assert_int_equal(service_count(f, "words", "the"), 201);
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

/* Every port says that it is to be asked again, and which server it waits for.
 */
static void
expect_unavailable(struct fleet *f, unsigned server)
{
    static const char command[] = "ZSCORE words the\r\n";
    struct daemon *reader = fleet_daemon(f, FLEET_READ);
    char which[64], answer[128] = "";
    struct client_rows rows;
    int fd;

    (void)snprintf(which, sizeof which,
                   "127.0.0.1:%d: ", servers.ports[server]);
    read_http(f, "/v1/get?keyspace=words&key=the");
    assert_non_null(strstr(text, "HTTP/1.1 503 Service Unavailable\r\n"));
    assert_non_null(strstr(text, "\r\nRetry-After: 1\r\n"));
    assert_non_null(strstr(text, "\"unavailable\""));
    assert_non_null(strstr(text, which));

    fd = client_connect(daemon_port(reader, "resp"));
    client_send(fd, command, strlen(command));
    assert_true(client_try_read(fd, answer, sizeof answer - 1, 30000) > 0);
    assert_int_equal(strncmp(answer, "-TRYAGAIN ", 10), 0);
    assert_non_null(strstr(answer, which));
    client_close(fd);

    fd = client_connect(daemon_port(reader, "read"));
    client_range(fd, "words", 0, 1, &rows);
    assert_int_equal(rows.rows, -112);
    client_rows_free(&rows);
    client_close(fd);

    expect(FLEET_RUN(f, "get", "words", "the"), 111,
           "a server of the cluster does not answer");
}

/* Last, because no replica takes a master's place any more. */
CASE(reads_of_other_masters_go_on_while_one_is_silent, f)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)60000 * test_slow();
    const char *other;
    unsigned server;

    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        (void)cluster_servers_run(&servers, i,
                                  "CONFIG SET cluster-node-timeout 600000");
    fleet_option(f, "read.http=127.0.0.1:0");
    fleet_option(f, "resp.listen=127.0.0.1:0");
    service_start(f);
    other = keyspace_elsewhere();
    server = master_of("words");
    service_add(f, "words", "the", 1);
    service_add(f, other, "the", 2);
    flush_all(f);
    assert_int_equal(service_count(f, "words", "the"), 1);
    assert_int_equal(service_count(f, other, "the"), 2);

    daemon_signal(&servers.servers[server], SIGSTOP);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(service_count(f, other, "the"), 2);
        read_http(f, "/v1/get?keyspace=words&key=the");
        assert_non_null(strstr(text, "\"unavailable\""));
    }
    expect_unavailable(f, server);
    expect(FLEET_RUN(f, "store", "--json"), 1,
           "{\"rows\": null, \"sent\": null, \"waiting\": null, ");
    daemon_signal(&servers.servers[server], SIGCONT);
    do {
        assert_true(clock_ms() < end_ms);
        read_http(f, "/v1/get?keyspace=words&key=the");
    } while (strstr(text, " 200 ") == NULL);
}

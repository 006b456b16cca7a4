/* tests/unit/test_cluster.c - commands to a real Redis Cluster, and what the
 * functions in it do: slots, redirects, lost connections, counting, reading. */
#include "tests/lib/cluster_main.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/store/cluster/cluster.h"

static struct cluster *cluster;

static void
open_cluster(uint64_t timeout_ms)
{
    const struct cluster_options options = {.nodes = servers.nodes,
                                            .timeout_ms = timeout_ms};

    cluster_close(cluster);
    assert_rc(cluster_open(&cluster, &options), 0);
}

static int
setup(void **state)
{
    (void)state;
    if (!has_servers)
        return 0;
    cluster_servers_flush(&servers);
    open_cluster(3000);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    cluster_close(cluster);
    cluster = NULL;
    return 0;
}

#define CASE(name) CLUSTER_TEST_IN(name, void *unused, setup, teardown)

/* ---- one command --------------------------------------------------------- */

/* Runs words in the slot of a key. */
static struct cluster_command
run_text(const char *text, const char *key)
{
    struct cluster_command m;

    cluster_begin(&m, cluster_slot(key, strlen(key)), text);
    cluster_run(cluster, &m, 1);
    return m;
}

/* The error that ends a command. */
static int
error_of(const char *text, const char *key)
{
    struct cluster_command m = run_text(text, key);
    const int error = m.error;

    cluster_end(&m, 1);
    return error;
}

/* Runs words and compares the reply, a text or a number, with `expected`. */
static void
assert_reply(const char *text, const char *key, const char *expected)
{
    struct cluster_command m = run_text(text, key);
    char got[64];

    if (m.error != 0)
        fail_msg("%s: %s", text, cluster_text(cluster));
    if (m.reply->type == REDIS_REPLY_INTEGER)
        (void)snprintf(got, sizeof got, "%lld", m.reply->integer);
    else
        (void)snprintf(got, sizeof got, "%s", m.reply->str ? m.reply->str : "");
    assert_string_equal(got, expected);
    cluster_end(&m, 1);
}

CASE(slots_are_those_of_the_servers)
{
    static const char *const keys[] = {
        "", "a", "foo{bar}", "{}a", "x{{b}y", "foo{bar}{zap}", "123456789"};

    assert_int_equal(cluster_slot("123456789", 9), 0x31c3);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char slot[16];

        (void)snprintf(slot, sizeof slot, "%u",
                       cluster_slot(keys[i], strlen(keys[i])));
        assert_string_equal(
            cluster_servers_run(&servers, 0, "CLUSTER KEYSLOT %s", keys[i]),
            slot);
    }
}

TEST(nodes_that_are_not_addresses_are_refused)
{
    static const char *const wrong[] = {
        "", " ", "host", "host:", ":1", "a:1 b", "a:99999"};
    struct cluster_options options = {.timeout_ms = 100};
    struct cluster *c;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options.nodes = wrong[i];
        assert_rc(cluster_open(&c, &options), -EINVAL);
    }
}

CASE(commands_go_to_the_masters_of_their_slots)
{
    struct cluster_command m[64];
    unsigned masters = 0;

    for (unsigned i = 0; i < 64; i++) {
        char key[8];

        (void)snprintf(key, sizeof key, "k%u", i);
        cluster_begin(&m[i], cluster_slot(key, strlen(key)), "INCRBY");
        cluster_add_text(&m[i], key);
        cluster_add_number(&m[i], 3);
    }
    cluster_run(cluster, m, 64);
    for (unsigned i = 0; i < 64; i++) {
        assert_rc(m[i].error, 0);
        assert_int_equal(m[i].reply->integer, 3);
        assert_int_equal(m[i].tries, 1);
        masters |= 1u << cluster_node_of(cluster, m[i].slot);
    }
    cluster_end(m, 64);
    assert_int_equal(__builtin_popcount(masters), 3);
}

CASE(an_error_ends_its_command_only)
{
    struct cluster_command m[2];

    cluster_begin(&m[0], cluster_slot("k", 1), "SET k text");
    cluster_begin(&m[1], cluster_slot("k", 1), "INCRBY k 1");
    cluster_run(cluster, m, 2);
    assert_rc(m[0].error, 0);
    assert_rc(m[1].error, -EPROTO);
    assert_non_null(strstr(cluster_text(cluster), "not an integer"));
    cluster_end(m, 2);
}

/* ---- redirects ----------------------------------------------------------- */

CASE(a_slot_that_moves_is_followed)
{
    const unsigned slot = cluster_slot("{t}a", 4);
    unsigned from, to;
    char from_id[64], to_id[64];

    assert_reply("SET {t}a 1", "{t}a", "OK");
    from = cluster_servers_master(&servers, 0, slot);
    to = (from + 1) % CLUSTER_SERVERS_MASTERS;
    (void)snprintf(from_id, sizeof from_id, "%s",
                   cluster_servers_run(&servers, from, "CLUSTER MYID"));
    (void)snprintf(to_id, sizeof to_id, "%s",
                   cluster_servers_run(&servers, to, "CLUSTER MYID"));
    (void)cluster_servers_run(&servers, to, "CLUSTER SETSLOT %u IMPORTING %s",
                              slot, from_id);
    (void)cluster_servers_run(&servers, from, "CLUSTER SETSLOT %u MIGRATING %s",
                              slot, to_id);

    /* A key that is not here any more, or not yet anywhere: ASK. */
    assert_reply("INCR {t}b", "{t}a", "1");
    assert_reply("INCR {t}a", "{t}a", "2");
    assert_string_equal(cluster_servers_run(&servers, from,
                                            "MIGRATE 127.0.0.1 %d {t}a 0 5000",
                                            servers.ports[to]),
                        "OK");
    assert_reply("INCR {t}a", "{t}a", "3");
    for (unsigned i = 0; i < CLUSTER_SERVERS_MASTERS; i++)
        (void)cluster_servers_run(&servers, i, "CLUSTER SETSLOT %u NODE %s",
                                  slot, to_id);
    /* MOVED. */
    assert_reply("INCR {t}a", "{t}a", "4");
    assert_reply("INCR {t}b", "{t}a", "2");
    assert_int_equal(cluster_servers_master(&servers, 0, slot), to);
}

CASE(a_broken_connection_is_made_again)
{
    uint64_t changes;

    assert_reply("SET a 1", "a", "OK");
    changes = cluster_changes(cluster);
    for (unsigned i = 0; i < CLUSTER_SERVERS_MASTERS; i++)
        (void)cluster_servers_run(&servers, i, "CLIENT KILL TYPE normal");

    assert_reply("INCR a", "a", "2");
    assert_true(cluster_changes(cluster) > changes);
}

CASE(a_master_that_stops_costs_one_timeout)
{
    const unsigned slot = cluster_slot("a", 1);
    unsigned server;

    assert_reply("SET a 1", "a", "OK");
    server = cluster_servers_master(&servers, 0, slot);
    open_cluster(200);
    assert_reply("GET a", "a", "1");
    daemon_signal(&servers.servers[server], SIGSTOP);
    assert_rc(error_of("GET a", "a"), -ETIMEDOUT);
    assert_rc(error_of("GET a", "a"), -EHOSTDOWN);
    daemon_signal(&servers.servers[server], SIGCONT);
}

CASE(a_full_memory_is_no_space)
{
    const unsigned server = cluster_servers_master(&servers, 0, 15495);
    int rc;

    (void)cluster_servers_run(&servers, server, "CONFIG SET maxmemory 1");
    rc = error_of("SET a 2", "a");
    (void)cluster_servers_run(&servers, server, "CONFIG SET maxmemory 0");
    assert_rc(rc, -ENOSPC);
}

/* ---- functions ----------------------------------------------------------- */

#define C_KEY "{p}c:w"
#define Z_KEY "{p}z:w"

/* The most rows that a part may have, for countd1_apply; "0": any. */
static const char *most = "0";

struct row_delta {
    const char *key;
    int64_t high; /* times 2^32 */
    uint32_t low;
};

/* Runs a function of a change, and returns the number at `at` of its answer. */
static long long
change(const char *function, const char *sender, unsigned prev,
       const char *prev_digest, unsigned seq, const char *digest,
       const struct row_delta *rows, size_t count, size_t at)
{
    const bool is_apply = strcmp(function, "apply") == 0;
    struct cluster_command m;
    char words[64];
    long long n = -1;

    (void)snprintf(words, sizeof words, "FCALL countd1_%s 2 " C_KEY " " Z_KEY,
                   function);
    cluster_begin(&m, cluster_slot(C_KEY, strlen(C_KEY)), words);
    cluster_add_word(&m, sender, 8);
    cluster_add_number(&m, prev);
    cluster_add_word(&m, prev == 0 ? "\0\0\0\0\0\0\0\0" : prev_digest, 8);
    cluster_add_number(&m, seq);
    cluster_add_word(&m, digest, 8);
    if (is_apply) {
        /* Rows, a bound, no tiers, now, the first minute. */
        cluster_add_number(&m, (int64_t)count);
        cluster_add_text(&m, most);
        cluster_add_text(&m, "");
        cluster_add_text(&m, "1");
        cluster_add_text(&m, "1");
    }
    for (size_t i = 0; i < count; i++) {
        uint8_t delta[12];

        put_be64(delta, (uint64_t)rows[i].high);
        put_be32(delta + 8, rows[i].low);
        cluster_add_text(&m, rows[i].key);
        if (is_apply)
            cluster_add_word(&m, delta, sizeof delta);
    }
    cluster_run(cluster, &m, 1);
    if (m.error != 0)
        fail_msg("%s", cluster_text(cluster));
    if (at < m.reply->elements)
        n = (long long)cluster_reply_number(m.reply->element[at]);
    cluster_end(&m, 1);
    return n;
}

static long long
apply_one(unsigned prev, unsigned seq, const char *key, int64_t high,
          uint32_t low)
{
    const struct row_delta row = {key, high, low};

    return change("apply", "sender-1", prev, "digest-1", seq, "digest-1", &row,
                  1, 0);
}

/* The rows of the part as "count key" lines. */
static const char *
read_rows(void)
{
    static char text[1024];
    struct cluster_command m =
        run_text("FCALL_RO countd1_rows 2 " C_KEY " " Z_KEY " 0 100", C_KEY);
    char *at = text;

    *at = '\0';
    assert_rc(m.error, 0);
    for (size_t i = 0; i < m.reply->element[2]->elements; i++) {
        const redisReply *row = m.reply->element[2]->element[i];
        const uint64_t count = ~get_be64(row->str) ^ (uint64_t)1 << 63;

        at += sprintf(at, "%lld %s\n", (long long)count, row->str + 8);
    }
    cluster_end(&m, 1);
    return text;
}

CASE(a_chain_counts_each_entry_once)
{
    assert_int_equal(apply_one(0, 1, "a", 0, 5), 0);
    assert_int_equal(apply_one(0, 1, "a", 0, 5), 1); /* it is in */
    assert_int_equal(apply_one(2, 3, "a", 0, 5), 2); /* 2 is missing */
    assert_int_equal(apply_one(1, 2, "b", 0, 7), 0);
    assert_int_equal(apply_one(0, 1, "a", 0, 5), 1);
    assert_string_equal(read_rows(), "7 b\n5 a\n");
}

CASE(another_timeline_is_refused)
{
    const struct row_delta row = {"a", 0, 1};

    assert_int_equal(apply_one(0, 1, "a", 0, 5), 0);
    assert_int_equal(
        change("apply", "sender-1", 1, "digest-2", 2, "digest-3", &row, 1, 0),
        5);
    /* Another sender has a chain of its own. */
    assert_int_equal(
        change("apply", "sender-2", 0, "", 1, "digest-2", &row, 1, 0), 0);
    assert_string_equal(read_rows(), "6 a\n");
}

CASE(counts_are_exact_and_saturate)
{
    const int64_t half = (int64_t)1 << 31;

    assert_int_equal(apply_one(0, 1, "a", half - 1, UINT32_MAX), 0);
    assert_int_equal(apply_one(1, 2, "b", half - 1, UINT32_MAX - 1), 0);
    assert_int_equal(apply_one(2, 3, "b", 0, 1), 0);
    assert_int_equal(apply_one(3, 4, "c", -1, UINT32_MAX), 0);
    assert_int_equal(apply_one(4, 5, "d", -half, 0), 0);
    assert_int_equal(apply_one(5, 6, "d", -1, UINT32_MAX), 0);
    assert_string_equal(read_rows(),
                        "9223372036854775807 a\n9223372036854775807 b\n"
                        "-1 c\n-9223372036854775808 d\n");
    assert_int_equal(apply_one(6, 7, "d", (int64_t)1 << 33, 0), 0);
    assert_int_equal(apply_one(7, 8, "d", -1, UINT32_MAX), 0);
    assert_string_equal(read_rows(),
                        "9223372036854775807 a\n9223372036854775807 b\n"
                        "9223372036854775806 d\n-1 c\n");
}

CASE(a_part_takes_no_more_keys_than_it_may_have)
{
    most = "1";
    assert_int_equal(apply_one(0, 1, "a", 0, 5), 0);
    assert_int_equal(apply_one(1, 2, "b", 0, 6), 6);
    assert_int_equal(apply_one(1, 2, "a", 0, 6), 0);
    most = "0";
    assert_int_equal(apply_one(2, 3, "b", 0, 6), 0);
    assert_string_equal(read_rows(), "11 a\n6 b\n");
}

CASE(removing_is_part_of_the_chain)
{
    const struct row_delta keys[2] = {{.key = "a"}, {.key = "x"}};

    assert_int_equal(apply_one(0, 1, "a", 0, 5), 0);
    assert_int_equal(apply_one(1, 2, "b", 0, 6), 0);
    assert_int_equal(
        change("delete", "sender-1", 2, "digest-1", 3, "digest-1", keys, 2, 3),
        1);
    assert_string_equal(read_rows(), "6 b\n");
    assert_int_equal(
        change("drop", "sender-1", 3, "digest-1", 4, "digest-1", NULL, 0, 0),
        0);
    assert_string_equal(read_rows(), "");
    assert_int_equal(apply_one(1, 2, "b", 0, 6), 1);
    assert_int_equal(apply_one(4, 5, "c", 0, 1), 0);
    assert_string_equal(read_rows(), "1 c\n");
}

static long long
accept_loss(unsigned have, unsigned number)
{
    return change("accept", "sender-1", have, "digest-1", number, "digest-1",
                  NULL, 0, 0);
}

/* One that comes late must not put the mark back: entries would count twice. */
CASE(a_loss_is_accepted_only_at_the_mark_that_was_seen)
{
    assert_int_equal(apply_one(0, 1, "a", 0, 5), 0);
    assert_int_equal(accept_loss(0, 4), 2);
    assert_int_equal(accept_loss(1, 4), 0);
    assert_int_equal(apply_one(4, 5, "a", 0, 1), 0);
    assert_int_equal(accept_loss(1, 4), 1);
    assert_int_equal(apply_one(4, 5, "a", 0, 1), 1);
    assert_string_equal(read_rows(), "6 a\n");
}

/* A mover or a backup is reading its marks. */
CASE(no_loss_is_accepted_while_the_part_is_closed)
{
    assert_int_equal(apply_one(0, 1, "a", 0, 5), 0);
    assert_reply("FCALL countd1_close 2 " C_KEY " " Z_KEY " mover-01", C_KEY,
                 "0");
    assert_int_equal(accept_loss(1, 4), 4);
    assert_reply("FCALL countd1_open 2 " C_KEY " " Z_KEY " mover-01", C_KEY,
                 "0");
    /* The rows are there, the order is not. */
    assert_reply("DEL " Z_KEY, C_KEY, "1");
    assert_int_equal(accept_loss(1, 4), 0);
    assert_int_equal(apply_one(4, 5, "a", 0, 5), 3);
}

/* Makes the order again, a slice of it: the number that is answered first. */
static uint64_t
rebuild(const char *token, const char *rows)
{
    struct cluster_command m;
    uint64_t answer;
    char words[96];

    (void)snprintf(words, sizeof words,
                   "FCALL countd1_rebuild 2 " C_KEY " " Z_KEY " %s %s", token,
                   rows);
    m = run_text(words, C_KEY);
    assert_rc(m.error, 0);
    answer = cluster_reply_number(m.reply->element[0]);
    cluster_end(&m, 1);
    return answer;
}

/* Between two slices the part is closed to all but the one that makes it. */
CASE(a_torn_part_is_made_again_in_slices)
{
    char key[8];
    unsigned slices = 0;

    for (unsigned i = 0; i < 600; i++) {
        (void)snprintf(key, sizeof key, "k%03u", i);
        assert_int_equal(apply_one(i, i + 1, key, 0, i + 1), 0);
    }
    assert_reply("DEL " Z_KEY, C_KEY, "1");
    assert_int_equal(apply_one(600, 601, "a", 0, 5), 3);
    while (rebuild("sender-1", "10") == 0) {
        assert_int_equal(apply_one(600, 601, "a", 0, 5), 4);
        assert_int_equal(rebuild("sender-2", "10"), 2);
        slices++;
    }
    assert_true(slices > 10);
    assert_reply("ZCARD " Z_KEY, C_KEY, "600");
    assert_reply("EXISTS {p}y:w", C_KEY, "0");
    assert_int_equal(apply_one(600, 601, "a", 0, 5), 0);
    assert_reply("ZCARD " Z_KEY, C_KEY, "601");
    assert_non_null(strstr(read_rows(), "600 k599\n599 k598\n"));
}

CASE(a_drop_forgets_no_sender)
{
    const struct row_delta row = {"a", 0, 1};

    assert_int_equal(apply_one(0, 1, "a", 0, 5), 0);
    assert_int_equal(
        change("apply", "sender-2", 0, "", 1, "digest-2", &row, 1, 0), 0);
    assert_int_equal(
        change("drop", "sender-1", 1, "digest-1", 2, "digest-1", NULL, 0, 0),
        0);
    /* It came before the drop. */
    assert_int_equal(
        change("apply", "sender-2", 0, "", 1, "digest-2", &row, 1, 0), 1);
    assert_string_equal(read_rows(), "");
}

CASE(functions_that_are_gone_are_loaded_again)
{
    assert_int_equal(apply_one(0, 1, "a", 0, 5), 0);
    for (unsigned i = 0; i < CLUSTER_SERVERS_MASTERS; i++)
        (void)cluster_servers_run(&servers, i, "FUNCTION FLUSH");
    assert_int_equal(apply_one(1, 2, "a", 0, 5), 0);
    assert_string_equal(read_rows(), "10 a\n");
}

/* Gives all masters a library of another version of countd, whose function of
 * totals answers "other". */
static void
load_other(const char *revision)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "#!lua name=countd1\n"
                   "local function add(name, answer)\n"
                   "  redis.register_function{function_name = name,\n"
                   "    callback = function() return answer end,\n"
                   "    flags = {'no-writes'}}\n"
                   "end\n"
                   "add('countd1_totals', 'other')\n%s",
                   revision);
    for (unsigned i = 0; i < CLUSTER_SERVERS_MASTERS; i++)
        assert_string_equal(
            cluster_servers_run(&servers, i, "FUNCTION LOAD REPLACE %s", text),
            "countd1");
}

/* The first call of a new connection. */
static bool
is_other(void)
{
    struct cluster_command m;
    bool is_text;

    open_cluster(3000);
    m = run_text("FCALL_RO countd1_totals 2 " C_KEY " " Z_KEY, C_KEY);
    assert_rc(m.error, 0);
    is_text = m.reply->type == REDIS_REPLY_STRING;
    cluster_end(&m, 1);
    return is_text;
}

CASE(an_older_library_is_replaced_and_a_newer_one_stays)
{
    load_other("");
    assert_false(is_other());
    load_other("add('countd1_revision', 0)\n");
    assert_false(is_other());
    load_other("add('countd1_revision', 1000000)\n");
    assert_true(is_other());
    for (unsigned i = 0; i < CLUSTER_SERVERS_MASTERS; i++)
        (void)cluster_servers_run(&servers, i, "FUNCTION FLUSH");
    assert_false(is_other());
}

/* Longer than a silent node is left alone, twice: each GET of its slot must
 * have ended at once, and none been sent. */
CASE(a_silent_master_gets_no_command_until_it_answers_a_probe)
{
    const unsigned server =
        cluster_servers_master(&servers, 0, cluster_slot("a", 1));
    uint64_t end_ms;

    assert_true(server !=
                cluster_servers_master(&servers, 0, cluster_slot("b", 1)));
    assert_reply("SET a 1", "a", "OK");
    assert_reply("SET b 2", "b", "OK");
    /* For the rest of the tests no replica takes the place of a master. */
    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        assert_string_equal(
            cluster_servers_run(&servers, i,
                                "CONFIG SET cluster-node-timeout 600000"),
            "OK");
    open_cluster(500 * test_slow());
    assert_reply("GET a", "a", "1");
    daemon_signal(&servers.servers[server], SIGSTOP);
    assert_rc(error_of("GET a", "a"), -ETIMEDOUT);
    for (end_ms = clock_ms() + 2500; clock_ms() < end_ms;) {
        assert_rc(error_of("GET a", "a"), -EHOSTDOWN);
        assert_rc(error_of("GET b", "b"), 0);
    }
    daemon_signal(&servers.servers[server], SIGCONT);
    for (end_ms = clock_ms() + 20000; error_of("GET a", "a") != 0;)
        assert_true(clock_ms() < end_ms);
    assert_reply("GET a", "a", "1");
}

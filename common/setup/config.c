/* common/setup/config.c - see config.h.
 *
 * Each setting is one row of `options`.  A row's default is text and goes
 * through the same parser as the file, config_set(), so --help prints the
 * values in effect.
 */
#include "common/setup/config_internal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/net/conn.h"
#include "common/net/networks.h"
#include "common/wire/carbon_line.h"
#include "common/wire/message.h"
#include "common/wire/name.h"

#define LIMIT_SIZE 32                    /* one limit as text */
#define ROW_TEXT   (2 * LIMIT_SIZE + 32) /* describe_row() */

#define KILO ((uint64_t)1024)
#define MEGA (1024 * KILO)
#define GIGA (1024 * MEGA)

#define SECOND ((uint64_t)1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

enum kind {
    KIND_PATH,
    KIND_ADDRESS,
    KIND_HOST,
    KIND_USER,
    KIND_GROUP,
    KIND_NAMES,
    KIND_NETWORKS,
    KIND_KEYSPACE,
    KIND_NODES,    /* addresses and ports */
    KIND_PATTERNS, /* of Graphite paths, with one * each */
    KIND_BOOL,
    KIND_TAGS,  /* drop or append; true is append */
    KIND_STORE, /* lmdb or cluster; true is cluster */
    KIND_TIERS,
    KIND_PORT, /* this and those behind it have limits */
    KIND_COUNT,
    KIND_SIZE,
    KIND_TIME,
    KIND_SECONDS, /* whole ones; a number without a unit is seconds too */
    KIND_SYNC
};

struct option_row {
    const char *key;
    enum kind kind;
    size_t at; /* of the value in struct config */
    uint64_t min, max;
    const char *def;
    const char *help;
};

#define AT(field) offsetof(struct config, field)

static const struct option_row options[] = {
    {"data_dir", KIND_PATH, AT(data_dir), 1, CONFIG_TEXT_SIZE - 1, "data",
     "directory of all that is kept"},
    {"user", KIND_USER, AT(user), 0, CONFIG_USER_SIZE - 1, "",
     "whom to become when started as root; empty: nobody else"},
    {"socket.group", KIND_GROUP, AT(socket_group), 0, CONFIG_USER_SIZE - 1, "",
     "group that may use the sockets in the data directory; empty: none"},
    {"request_timeout", KIND_SECONDS, AT(request_timeout_s), 1, HOUR / SECOND,
     "300", "longest time from a message's first byte to its last"},
    {"log.size", KIND_SIZE, AT(log_size), 16 * KILO, 1 * GIGA, "32M",
     "bytes of each commit log"},
    {"log.count", KIND_COUNT, AT(log_count), 1, 1024, "4",
     "logs made at start"},
    {"log.max", KIND_COUNT, AT(log_max), 2, 65536, "1024",
     "logs there may be; then the writer takes no more"},
    {"log.rotate_after", KIND_TIME, AT(log_rotate_after_ms), 1, DAY, "1s",
     "age of its first message at which a log is handed on"},
    {"log.sync", KIND_SYNC, AT(log_sync_ms), 1, HOUR, "200ms",
     "longest time an increment of the silent port waits for the disk"},
    {"message.keyspace_size", KIND_COUNT, AT(keyspace_size), 1,
     MESSAGE_NAME_MAX, "256", "bytes of the keyspace in a message"},
    {"message.key_size", KIND_COUNT, AT(key_size), 1, MESSAGE_NAME_MAX, "256",
     "bytes of the key in a message"},
    {"write.listen", KIND_ADDRESS, AT(write_listen), 0, CONFIG_TEXT_SIZE - 1,
     "127.0.0.1:48879", "address of the silent port; empty: off"},
    {"write.ack_listen", KIND_ADDRESS, AT(write_ack_listen), 0,
     CONFIG_TEXT_SIZE - 1, "127.0.0.1:48881",
     "address of the acknowledging port; empty: off"},
    {"write.allow", KIND_NETWORKS, AT(write_allow), 0, CONFIG_ALLOW_SIZE - 1,
     "", "networks that may connect to both ports, needed beyond loopback"},
    {"write.max_connections", KIND_COUNT, AT(write_max_connections), 1, 1000000,
     "16384", "connections to both ports; more wait"},
    {"write.drain", KIND_TIME, AT(write_drain_ms), 0, HOUR, "2s",
     "longest time a clean stop waits for what is on its way"},
    {"read.listen", KIND_ADDRESS, AT(read_listen), 0, CONFIG_TEXT_SIZE - 1,
     "127.0.0.1:48880", "address of the range port; empty: off"},
    {"read.http", KIND_ADDRESS, AT(read_http), 0, CONFIG_TEXT_SIZE - 1,
     "127.0.0.1:48890", "address of the reader's HTTP port; empty: off"},
    {"read.cors", KIND_NAMES, AT(read_cors), 0, CONFIG_HOSTS_SIZE - 1, "",
     "web sites whose pages may read over HTTP, such as https://example.org"},
    {"read.page", KIND_BOOL, AT(read_page), 0, 1, "on",
     "a page for browsers at / of the reader's HTTP port"},
    {"read.allow", KIND_NETWORKS, AT(read_allow), 0, CONFIG_ALLOW_SIZE - 1, "",
     "networks that may connect to both ports, needed beyond loopback"},
    {"read.max_connections", KIND_COUNT, AT(read_max_connections), 1, 1000000,
     "16384", "connections to the ports of countd-read; more wait"},
    {"metrics.keyspaces", KIND_NAMES, AT(metrics_keyspaces), 0,
     CONFIG_PATTERNS_SIZE - 1, "",
     "keyspaces shown in /metrics; a trailing *: all that begin so"},
    {"metrics.top", KIND_COUNT, AT(metrics_top), 0, 100, "0",
     "largest keys of each of these, shown in /metrics, too"},
    {"metrics.max_series", KIND_COUNT, AT(metrics_max_series), 1, 10000, "1000",
     "series of keyspaces and keys in /metrics; more are left out"},
    {"resp.listen", KIND_ADDRESS, AT(resp_listen), 0, CONFIG_TEXT_SIZE - 1, "",
     "address for Redis clients, such as 127.0.0.1:6380; empty: off"},
    {"resp.allow", KIND_NETWORKS, AT(resp_allow), 0, CONFIG_ALLOW_SIZE - 1, "",
     "networks that Redis clients may connect from, needed beyond loopback"},
    {"resp.keyspace", KIND_KEYSPACE, AT(resp_keyspace), 1, CONFIG_KEYSPACE_MAX,
     "default", "keyspace of the keys of INCR and GET"},
    {"resp.writer", KIND_ADDRESS, AT(resp_writer), 0, CONFIG_TEXT_SIZE - 1, "",
     "where Redis clients' increments go; empty: socket/ack in data_dir"},
    {"store", KIND_STORE, AT(store_cluster), 0, 1, "lmdb",
     "where counters are: files in data_dir, or a Redis Cluster"},
    {"store.nodes", KIND_NODES, AT(store_nodes), 0, CONFIG_NODES_SIZE - 1, "",
     "some nodes of the Redis Cluster; the others are asked for"},
    {"store.user", KIND_USER, AT(store_user), 0, CONFIG_USER_SIZE - 1, "",
     "user of the Redis Cluster; empty: the default one"},
    {"store.password_file", KIND_PATH, AT(store_password_file), 0,
     CONFIG_TEXT_SIZE - 1, "", "file with the password; empty: none"},
    {"store.parts", KIND_COUNT, AT(store_parts), 1, 256, "1",
     "parts of each keyspace that is made from now on in the cluster"},
    {"store.replicas", KIND_COUNT, AT(store_replicas), 0, 16, "1",
     "replicas that must have an entry before it may leave the outbox"},
    {"store.retain", KIND_TIME, AT(store_retain_ms), 0, 30 * DAY, "1h",
     "how long an entry stays in the outbox after that"},
    {"store.timeout", KIND_TIME, AT(store_timeout_ms), 10, MINUTE, "2s",
     "longest time a node of the cluster may take to answer"},
    {"store.outbox_size", KIND_SIZE, AT(store_outbox_size), 16 * MEGA,
     1024 * GIGA, "16G",
     "bytes that may wait for the cluster; then logs stay full"},
    {"worker.batch", KIND_COUNT, AT(worker_batch), 1, 1024, "64",
     "logs merged at once"},
    {"worker.threads", KIND_COUNT, AT(worker_threads), 1, 16, "8",
     "threads that merge small keyspaces side by side"},
    {"worker.memory", KIND_SIZE, AT(worker_memory), 1 * MEGA, 64 * GIGA, "256M",
     "memory for the sums of a merge"},
    {"keyspace.max", KIND_COUNT, AT(keyspace_max), 0, 10000000, "10000",
     "keyspaces there may be; 0: no limit"},
    {"keyspace.max_keys", KIND_COUNT, AT(keyspace_max_keys), 0, 1000000000000,
     "0", "keys of one keyspace; 0: no limit"},
    {"history", KIND_TIERS, AT(history), 0, 0, "1m:2d,1h:90d,1d:10y",
     "steps of history and how long each is kept; history.NAME: of one"},
    {"history.max", KIND_SIZE, AT(history_max), 0, KILO *KILO *GIGA, "0",
     "bytes of the history of one keyspace; 0: no limit"},
    {"held.max", KIND_SIZE, AT(held_max), 0, 1024 * GIGA, "1G",
     "records of keyspaces that cannot take them; 0: no limit"},
    {"archive.keep", KIND_TIME, AT(archive_keep_ms), 0, 3660 * DAY, "0",
     "how long merged logs are kept, compressed; 0: not at all"},
    {"live.address", KIND_HOST, AT(live_address), 1, NET_HOST_SIZE - 1,
     "127.0.0.1", "address of the two live ports"},
    {"live.allow", KIND_NETWORKS, AT(live_allow), 0, CONFIG_ALLOW_SIZE - 1, "",
     "networks that may connect to the live ports, needed beyond loopback"},
    {"live.history", KIND_BOOL, AT(live_history), 0, 1, "off",
     "what is acquired, released and refused is counted in live.*"},
    {"counter.enable", KIND_BOOL, AT(counter_enable), 0, 1, "true",
     "counters: acquire and release up to a maximum"},
    {"counter.port", KIND_PORT, AT(counter_port), 0, 65535, "11215",
     "port of the counters"},
    {"counter.max_connections", KIND_COUNT, AT(counter_max_connections), 0,
     1000000, "0", "connections to it; more are closed; 0: no limit"},
    {"counter.max_memory", KIND_SIZE, AT(counter_max_memory), 16 * MEGA,
     64 * GIGA, "1G", "memory for counters and semaphores together"},
    {"counter.buckets", KIND_COUNT, AT(counter_buckets), 1, 1000000000,
     "1000000", "index of the counters at start, for half as many names"},
    {"counter.stats_interval", KIND_SECONDS, AT(counter_stats_interval_s), 10,
     36500 * DAY / SECOND, "86400",
     "window of the maximum; an idle counter goes when it ends"},
    {"semaphore.enable", KIND_BOOL, AT(semaphore_enable), 0, 1, "false",
     "semaphores: the same with an initial value"},
    {"semaphore.port", KIND_PORT, AT(semaphore_port), 0, 65535, "11216",
     "port of the semaphores"},
    {"semaphore.max_connections", KIND_COUNT, AT(semaphore_max_connections), 0,
     1000000, "0", "connections to it; more are closed; 0: no limit"},
    {"semaphore.buckets", KIND_COUNT, AT(semaphore_buckets), 1, 1000000000,
     "1000000", "index of the semaphores at start, for half as many names"},
    {"semaphore.gc_interval", KIND_SECONDS, AT(semaphore_gc_interval_s), 1,
     36500 * DAY / SECOND, "10",
     "how often semaphores that nobody holds are removed"},
    {"http.listen", KIND_ADDRESS, AT(http_listen), 0, CONFIG_TEXT_SIZE - 1,
     "127.0.0.1:9527", "address of the HTTP port; empty: off"},
    {"http.allow", KIND_NETWORKS, AT(http_allow), 0, CONFIG_ALLOW_SIZE - 1, "",
     "networks that may connect to the HTTP port, needed beyond loopback"},
    {"http.hosts", KIND_NAMES, AT(http_hosts), 0, CONFIG_HOSTS_SIZE - 1, "",
     "names with a dot that this machine is called by in URLs"},
    {"http.tokens", KIND_PATH, AT(http_tokens), 0, CONFIG_TEXT_SIZE - 1, "",
     "file of the tokens that HTTP and Redis clients need; empty: none"},
    {"http.max_connections", KIND_COUNT, AT(http_max_connections), 1, 1000000,
     "16384", "connections to the HTTP port; more wait"},
    {"http.get_changes", KIND_BOOL, AT(http_get_changes), 0, 1, "off",
     "a GET may change something at an address that is not loopback, too"},
    {"count.http", KIND_BOOL, AT(count_http), 0, 1, "true",
     "increments over HTTP: POST /v1/count"},
    {"count.wait", KIND_TIME, AT(count_wait_ms), 0, MINUTE, "1s",
     "longest time such a request waits for a log to write to"},
    {"count.keys", KIND_COUNT, AT(count_keys), 0, 16777216, "1048576",
     "requests that are known by their Idempotency-Key for a day; 0: none"},
    {"sequence.enable", KIND_BOOL, AT(sequence_enable), 0, 1, "false",
     "sequence numbers over HTTP"},
    {"sequence.reserve", KIND_COUNT, AT(sequence_reserve), 0, 63, "0",
     "the first part of each, free for use"},
    {"sequence.server_no", KIND_COUNT, AT(sequence_server_no), 0, 4095, "0",
     "the second, unlike that of any other server"},
    {"quota.enable", KIND_BOOL, AT(quota_enable), 0, 1, "false",
     "quotas over HTTP"},
    {"quota.limit", KIND_COUNT, AT(quota_limit), 0, INT64_MAX, "0",
     "what the quota without a name begins with"},
    {"quota.max", KIND_COUNT, AT(quota_max), 0, 8192, "256",
     "quotas with a name"},
    {"quota.export", KIND_PATH, AT(quota_export), 0, CONFIG_TEXT_SIZE - 1, "",
     "file of what was applied, written when the quota runs out; empty: none"},
    {"statsd.listen", KIND_ADDRESS, AT(statsd_listen), 0, CONFIG_TEXT_SIZE - 1,
     "", "address for StatsD datagrams, such as 127.0.0.1:8125; empty: off"},
    {"statsd.tcp_listen", KIND_ADDRESS, AT(statsd_tcp_listen), 0,
     CONFIG_TEXT_SIZE - 1, "", "address for StatsD lines over TCP; empty: off"},
    {"statsd.allow", KIND_NETWORKS, AT(statsd_allow), 0, CONFIG_ALLOW_SIZE - 1,
     "", "networks that may send to both, needed beyond loopback"},
    {"statsd.keyspace", KIND_KEYSPACE, AT(statsd_keyspace), 1,
     CONFIG_KEYSPACE_MAX, "statsd", "keyspace of what StatsD clients count"},
    {"statsd.split", KIND_COUNT, AT(statsd_split), 0, 16, "0",
     "parts of a name that are its keyspace; 0: names stay whole"},
    {"statsd.timers", KIND_BOOL, AT(statsd_timers), 0, 1, "on",
     "timers are counted, by number and sum; off: ignored"},
    {"statsd.tags", KIND_TAGS, AT(statsd_tags), 0, 1, "drop",
     "tags of a name: append them to the key, or drop them"},
    {"statsd.self", KIND_BOOL, AT(statsd_self), 0, 1, "on",
     "what was received is counted in countd.statsd and countd.graphite"},
    {"statsd.flush", KIND_TIME, AT(statsd_flush_ms), 20, 60 * SECOND, "200ms",
     "how often sums are written to the log"},
    {"statsd.idle", KIND_TIME, AT(statsd_idle_ms), 1 * SECOND, DAY, "60s",
     "a name leaves memory after one to two of these without an increment"},
    {"statsd.memory", KIND_SIZE, AT(statsd_memory), 16 * MEGA, 64 * GIGA, "64M",
     "memory for sums; when it is used up, sockets are not read"},
    {"statsd.rcvbuf", KIND_SIZE, AT(statsd_rcvbuf), 64 * KILO, 1 * GIGA, "4M",
     "bytes of datagrams that the kernel may queue"},
    {"graphite.listen", KIND_ADDRESS, AT(graphite_listen), 0,
     CONFIG_TEXT_SIZE - 1, "",
     "address for Graphite's lines, such as 127.0.0.1:2003; empty: off"},
    {"graphite.allow", KIND_NETWORKS, AT(graphite_allow), 0,
     CONFIG_ALLOW_SIZE - 1, "",
     "networks that may connect for Graphite's lines"},
    {"graphite.count", KIND_PATTERNS, AT(graphite_count), 0,
     CONFIG_PATTERNS_SIZE - 1, "stats_counts.* stats.counters.*.count",
     "paths that are counts; the part for * is the name"},
    {"graphite.max_series", KIND_COUNT, AT(graphite_max_series), 1, 100000,
     "1000", "series of one request of Grafana for points"},
    {"graphite.max_nodes", KIND_COUNT, AT(graphite_max_nodes), 1, 1000000,
     "10000", "nodes of one request of Grafana for names"},
    {"graphite.max_points", KIND_COUNT, AT(graphite_max_points), 1, 10000000,
     "1000000", "points of one request of Grafana"},
};

#define OPTION_COUNT (sizeof options / sizeof options[0])

/* Other names of settings, which a real server's file may have. */
static const struct {
    const char *alias, *key;
} aliases[] = {
    {"counter.stat_interval", "counter.stats_interval"},
};

static const char *
key_of(const char *key)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcmp(key, aliases[i].alias) == 0)
            return aliases[i].key;
    return key;
}

/* ---- values as text ---------------------------------------------------- */

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"G", GIGA}, {"M", MEGA}, {"K", KILO}, {"", 1}};
static const struct unit time_units[] = {{"d", DAY},    {"h", HOUR},
                                         {"m", MINUTE}, {"s", SECOND},
                                         {"ms", 1},     {"", SECOND}};
static const struct unit second_units[] = {{"d", DAY / SECOND},
                                           {"h", HOUR / SECOND},
                                           {"m", MINUTE / SECOND},
                                           {"s", 1},
                                           {"", 1}};

static const struct unit *
units_of(enum kind kind, size_t *count)
{
    if (kind == KIND_SIZE) {
        *count = sizeof size_units / sizeof size_units[0];
        return size_units;
    }
    if (kind == KIND_SECONDS) {
        *count = sizeof second_units / sizeof second_units[0];
        return second_units;
    }
    *count = sizeof time_units / sizeof time_units[0];
    return time_units;
}

/* A limit in the largest unit that says it exactly. */
static void
format_limit(enum kind kind, uint64_t value, char text[LIMIT_SIZE])
{
    const char *unit = "";

    if (kind == KIND_SIZE || kind == KIND_TIME || kind == KIND_SECONDS ||
        kind == KIND_SYNC) {
        size_t count;
        const struct unit *units = units_of(kind, &count);

        for (size_t i = 0; i < count; i++) {
            /* Zero is a multiple of all: only the smallest unit says it. */
            if (i + 1 < count && (value == 0 || value % units[i].factor != 0))
                continue;
            value /= units[i].factor;
            unit = units[i].name;
            break;
        }
    }
    (void)snprintf(text, LIMIT_SIZE, "%" PRIu64 "%s", value,
                   unit); /* twenty digits and two letters fit */
}

/* What a value may be: in the list of settings, and to who gave another. */
static const struct {
    const char *type, *example;
} kinds[] = {
    [KIND_PATH] = {"a path", "a path"},
    [KIND_ADDRESS] = {"an address and port, socket, or empty",
                      "an address or host name and a port, such as "
                      "127.0.0.1:48879 or [::1]:0, or socket"},
    [KIND_HOST] = {"an address without a port",
                   "an address or host name without a port, such as 127.0.0.1 "
                   "or [::1]"},
    [KIND_USER] = {"a user's name or number, or empty",
                   "a user's name or number"},
    [KIND_GROUP] = {"a group's name or number, or empty",
                    "a group's name or number"},
    [KIND_KEYSPACE] = {"a keyspace", "a keyspace"},
    [KIND_PATTERNS] = {"paths with one * each, or empty",
                       "paths with exactly one * each, such as stats_counts.*"},
    [KIND_TAGS] = {"drop or append", "drop or append"},
    [KIND_STORE] = {"the engine, lmdb or cluster", "lmdb or cluster"},
    [KIND_NODES] = {"addresses and ports with blanks between, or empty",
                    "addresses and ports with blanks between, such as "
                    "10.0.0.1:6379 10.0.0.2:6379"},
    [KIND_NAMES] = {"names with blanks between, or empty",
                    "names with blanks between"},
    [KIND_NETWORKS] = {"networks with blanks between, or empty",
                       "networks with blanks between, such as 10.0.0.0/8 or "
                       "fd00::/8"},
    [KIND_BOOL] = {"true or false", "true or false, or on or off"},
    [KIND_TIERS] = {"step:keep, at most four, or off",
                    "steps and how long each is kept, such as 1m:2d,1h:90d, or "
                    "off"},
    [KIND_PORT] = {"socket or a number", "socket, or a number"},
    [KIND_COUNT] = {"a number", "a number"},
    [KIND_SIZE] = {"a size",
                   "a size: a number, or one with K, M or G, such as 32M"},
    [KIND_TIME] = {"a duration", "a duration: a number of seconds, or one with "
                                 "ms, s, m, h or d, such as 200ms"},
    [KIND_SECONDS] = {"seconds or a duration",
                      "seconds: a number, or one with s, m, h or d, such as "
                      "1d"},
    [KIND_SYNC] = {"always, never or a duration",
                   "always, never, or a duration such as 200ms"},
};

/* "a size, 16K to 1G": what config_each() and errors say of a row. */
static void
describe_row(const struct option_row *row, char *text, size_t size)
{
    char min[LIMIT_SIZE], max[LIMIT_SIZE];

    format_limit(row->kind, row->min, min);
    format_limit(row->kind, row->max, max);

    /* Longer than any of these is a bug that the tests of --help show. */
    if (row->kind == KIND_PATH)
        (void)snprintf(text, size,
                       row->min > 0 ? "a path of 1 to %s bytes"
                                    : "a path of at most %s bytes, or empty",
                       max);
    else if (row->kind < KIND_PORT)
        (void)snprintf(text, size, "%s", kinds[row->kind].type);
    else
        (void)snprintf(text, size, "%s, %s to %s", kinds[row->kind].type, min,
                       max);
}

/* ---- reading values ---------------------------------------------------- */

int
config_fail(char *why, size_t why_size, int rc, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why, why_size, format, args); /* a cut text still helps */
    va_end(args);
    return rc;
}

const char *
config_show(const char *bytes, size_t size, char text[CONFIG_SHOWN_TEXT])
{
    const size_t shown = size < CONFIG_SHOWN_SIZE ? size : CONFIG_SHOWN_SIZE;
    const size_t length = name_escape((const uint8_t *)bytes, shown, text);

    if (shown < size)
        memcpy(text + length, "...", 4);
    return text;
}

/* Digits, then one of the units of `kind`.
 *   -EINVAL  not that, -ERANGE  more than 64 bits hold */
static int
read_number(enum kind kind, const char *text, uint64_t *out)
{
    static const struct unit no_unit[] = {{"", 1}};
    const struct unit *units = no_unit;
    size_t count = 1;
    uint64_t value = 0;
    const char *at = text;

    if (kind != KIND_COUNT && kind != KIND_PORT)
        units = units_of(kind, &count);
    for (; *at >= '0' && *at <= '9'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');

        if (value > (UINT64_MAX - digit) / 10)
            return -ERANGE;
        value = value * 10 + digit;
    }
    if (at == text)
        return -EINVAL;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(at, units[i].name) != 0)
            continue;
        if (value > UINT64_MAX / units[i].factor)
            return -ERANGE;
        *out = value * units[i].factor;
        return 0;
    }
    return -EINVAL;
}

int
config_duration(const char *text, uint64_t *ms)
{
    return read_number(KIND_TIME, text, ms);
}

int
config_count(const char *text, uint64_t *count)
{
    return read_number(KIND_COUNT, text, count);
}

/* Only the form: whether the address can be had, net_listen() will see. */
static bool
is_address(const char *text)
{
    return text[0] == '\0' || strcmp(text, LISTENER_NO_PORT) == 0 ||
           net_check(text) == 0;
}

/* As it stands in front of a port: a name, an IPv4 address, or an IPv6 one in
 * brackets. */
static bool
is_host(const char *text)
{
    char where[NET_HOST_SIZE + 8];

    if (strlen(text) >= NET_HOST_SIZE)
        return false;
    (void)snprintf(where, sizeof where, "%s:0", text);
    return net_check(where) == 0;
}

/* Says which of the networks is wrong. */
static int
check_networks(const struct option_row *row, const char *value, char *why,
               size_t why_size)
{
    char shown[CONFIG_SHOWN_TEXT];
    struct networks parsed;
    const char *wrong;
    size_t size;
    const int rc = networks_parse(value, &parsed, &wrong, &size);

    if (rc == -E2BIG)
        return config_fail(why, why_size, rc, "%s: more than %d networks",
                           row->key, NETWORKS_MAX);
    if (rc == -ERANGE)
        return config_fail(why, why_size, rc,
                           "%s: %s has bits set behind its prefix; give the "
                           "network's own address, such as 10.0.0.0/8",
                           row->key, config_show(wrong, size, shown));
    if (rc < 0)
        return config_fail(why, why_size, rc, "%s: \"%s\" is wrong; give %s",
                           row->key, config_show(wrong, size, shown),
                           kinds[row->kind].example);
    return 0;
}

/* Says which of the patterns is wrong. */
static int
check_patterns(const struct option_row *row, const char *value, char *why,
               size_t why_size)
{
    char shown[CONFIG_SHOWN_TEXT];
    const char *wrong;
    size_t size;

    if (carbon_check_patterns(value, &wrong, &size) == 0)
        return 0;
    return config_fail(why, why_size, -EINVAL, "%s: \"%s\" is wrong; give %s",
                       row->key, config_show(wrong, size, shown),
                       kinds[row->kind].example);
}

/* Says which of the addresses is wrong. */
static int
check_nodes(const struct option_row *row, const char *value, char *why,
            size_t why_size)
{
    char node[NET_HOST_SIZE + 8], shown[CONFIG_SHOWN_TEXT];
    const char *at = value;

    while (*(at += strspn(at, " ")) != '\0') {
        const size_t size = strcspn(at, " ");

        (void)snprintf(node, sizeof node, "%.*s", (int)size, at);
        if (size >= sizeof node || net_check(node) < 0)
            return config_fail(why, why_size, -EINVAL,
                               "%s: \"%s\" is wrong; give %s", row->key,
                               config_show(at, size, shown),
                               kinds[row->kind].example);
        at += size;
    }
    return 0;
}

static int
set_text(struct config *c, const struct option_row *row, const char *value,
         char *why, size_t why_size)
{
    char *to = (char *)c + row->at;
    const size_t size = strlen(value);
    char shown[CONFIG_SHOWN_TEXT];

    if (size < row->min)
        return config_fail(why, why_size, -ERANGE, "%s: empty; give %s",
                           row->key, kinds[row->kind].example);
    if (size > row->max)
        return config_fail(why, why_size, -ERANGE,
                           "%s: %zu bytes are too many; give at most %" PRIu64,
                           row->key, size, row->max);
    if ((row->kind == KIND_ADDRESS && !is_address(value)) ||
        (row->kind == KIND_HOST && !is_host(value)))
        return config_fail(
            why, why_size, -EINVAL, "%s: \"%s\" is wrong; give %s", row->key,
            config_show(value, size, shown), kinds[row->kind].example);
    if (row->kind == KIND_NETWORKS) {
        const int rc = check_networks(row, value, why, why_size);

        if (rc < 0)
            return rc;
    }
    if (row->kind == KIND_NODES) {
        const int rc = check_nodes(row, value, why, why_size);

        if (rc < 0)
            return rc;
    }
    if (row->kind == KIND_PATTERNS) {
        const int rc = check_patterns(row, value, why, why_size);

        if (rc < 0)
            return rc;
    }
    memcpy(to, value, size + 1);
    return 0;
}

/* As read_number(), with the words that log.sync and ports take; *word when it
 * was one, which no limit applies to. */
static int
read_value(enum kind kind, const char *text, uint64_t *out, bool *word)
{
    if (kind == KIND_PORT && strcmp(text, LISTENER_NO_PORT) == 0) {
        *word = true;
        *out = CONFIG_PORT_SOCKET;
        return 0;
    }
    *word = kind == KIND_SYNC &&
            (strcmp(text, "always") == 0 || strcmp(text, "never") == 0);
    if (!*word)
        return read_number(kind, text, out);
    *out = text[0] == 'a' ? CONFIG_SYNC_ALWAYS : CONFIG_SYNC_NEVER;
    return 0;
}

static int
set_number(struct config *c, const struct option_row *row, const char *value,
           char *why, size_t why_size)
{
    char shown[CONFIG_SHOWN_TEXT], limits[ROW_TEXT];
    uint64_t number = 0;
    bool word;
    const int rc = read_value(row->kind, value, &number, &word);

    if (rc == -EINVAL)
        return config_fail(why, why_size, rc, "%s: \"%s\" is wrong; give %s",
                           row->key, config_show(value, strlen(value), shown),
                           kinds[row->kind].example);
    if (rc < 0 || (!word && (number < row->min || number > row->max))) {
        describe_row(row, limits, sizeof limits);
        return config_fail(why, why_size, -ERANGE,
                           "%s: %s is out of range; give %s", row->key,
                           config_show(value, strlen(value), shown), limits);
    }
    memcpy((char *)c + row->at, &number, sizeof number);
    return 0;
}

static int
unknown_key(const char *key, char *why, size_t why_size)
{
    char shown[CONFIG_SHOWN_TEXT];

    return config_fail(why, why_size, -ENOENT,
                       "%s: no such setting; countd-write -h lists them all",
                       config_show(key, strlen(key), shown));
}

static int
set_bool(struct config *c, const struct option_row *row, const char *value,
         char *why, size_t why_size)
{
    static const char *const bools[] = {"false", "true", "off", "on", NULL};
    static const char *const tags[] = {"drop", "append", NULL};
    static const char *const stores[] = {"lmdb", "cluster", NULL};
    const char *const *words = row->kind == KIND_TAGS    ? tags
                               : row->kind == KIND_STORE ? stores
                                                         : bools;
    char shown[CONFIG_SHOWN_TEXT];

    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcmp(value, words[i]) != 0)
            continue;
        *((bool *)((char *)c + row->at)) = i % 2 == 1;
        return 0;
    }
    return config_fail(why, why_size, -EINVAL, "%s: \"%s\" is wrong; give %s",
                       row->key, config_show(value, strlen(value), shown),
                       kinds[row->kind].example);
}

/* `history`, or `history.` and the name of a keyspace. */
static int
set_tiers(struct config *c, const char *key, const char *value, char *why,
          size_t why_size)
{
    const char *name = strchr(key, '.');
    char shown[CONFIG_SHOWN_TEXT];
    const char *what;
    int rc;

    rc = tiers_rules_set(&c->history, name == NULL ? NULL : name + 1, value,
                         &what);
    if (rc < 0)
        return config_fail(why, why_size, -EINVAL, "%s: %s",
                           config_show(key, strlen(key), shown), what);
    return 0;
}

int
config_set(struct config *c, const char *key, const char *value, char *why,
           size_t why_size)
{
    const char *known = key_of(key);

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &options[i];

        if (strcmp(known, row->key) != 0)
            continue;
        if (row->kind == KIND_PATH || row->kind == KIND_ADDRESS ||
            row->kind == KIND_HOST || row->kind == KIND_USER ||
            row->kind == KIND_GROUP || row->kind == KIND_NAMES ||
            row->kind == KIND_NETWORKS || row->kind == KIND_KEYSPACE ||
            row->kind == KIND_NODES || row->kind == KIND_PATTERNS)
            return set_text(c, row, value, why, why_size);
        if (row->kind == KIND_BOOL || row->kind == KIND_TAGS ||
            row->kind == KIND_STORE)
            return set_bool(c, row, value, why, why_size);
        if (row->kind == KIND_TIERS)
            return set_tiers(c, key, value, why, why_size);
        return set_number(c, row, value, why, why_size);
    }
    if (strncmp(key, "history.", 8) == 0)
        return set_tiers(c, key, value, why, why_size);
    return unknown_key(key, why, why_size);
}

void
config_defaults(struct config *c)
{
    char why[256];

    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const int rc =
            config_set(c, options[i].key, options[i].def, why, sizeof why);

        assert(rc == 0);
    }
}

void
config_each(void (*option)(void *ctx, const char *key, const char *type,
                           const char *def, const char *help),
            void *ctx)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char type[ROW_TEXT];

        describe_row(&options[i], type, sizeof type);
        option(ctx, options[i].key, type, options[i].def, options[i].help);
    }
}

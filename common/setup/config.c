/* common/setup/config.c - see config.h: the table of settings, a row each, and
 * config_set(), config_defaults() and config_each(), which go through it.
 *
 * A row is {key, kind, field with its limits, default, help}.  A default is
 * text and is parsed like the file, so --help prints the values in effect.  The
 * kind decides the type and unit of the field: KIND_TIME is ms, KIND_SECONDS s,
 * KIND_SIZE bytes, all uint64_t; a KIND_BOOL is a bool.  config_value.c knows
 * what a value of each kind may be.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/config_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/net/net.h"
#include "common/wire/likeness.h"
#include "common/wire/message.h"

#define KILO ((uint64_t)1024)
#define MEGA (1024 * KILO)
#define GIGA (1024 * MEGA)

#define SECOND ((uint64_t)1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

/* Where a value is, and its limits: of a text that may be empty, and of a bool,
 * they follow from the field. */
#define AT(field)   offsetof(struct config, field)
#define TEXT(field) AT(field), 0, sizeof((struct config *)NULL)->field - 1
#define FLAG(field) AT(field), 0, 1

static const struct config_row rows[] = {
    {"data_dir", KIND_PATH, AT(data_dir), 1, CONFIG_TEXT_SIZE - 1, "data",
     "directory of all files of countd"},
    {"user", KIND_USER, TEXT(user), "",
     "user to become when root starts it; empty: the owner of data_dir"},
    {"socket.group", KIND_GROUP, TEXT(socket_group), "",
     "group that may use the sockets in the data directory; empty: none"},
    {"request_timeout", KIND_SECONDS, AT(request_timeout_s), 1, HOUR / SECOND,
     "300", "longest time from a message's first byte to its last"},
    {"log.size", KIND_SIZE, AT(log_size), 16 * KILO, 1 * GIGA, "32M",
     "bytes of each commit log"},
    {"log.count", KIND_COUNT, AT(log_count), 1, 1024, "4", "logs made ahead"},
    {"log.max", KIND_COUNT, AT(log_max), 2, 65536, "1024",
     "largest number of logs; when all are full clients wait"},
    {"log.rotate_after", KIND_TIME, AT(log_rotate_after_ms), 1, DAY, "1s",
     "age of its first message at which a log is handed on at the latest"},
    {"log.merge_share", KIND_COUNT, AT(log_merge_share), 0, 100, "10",
     "percent of the time that merges may take so that counts are readable "
     "sooner"},
    {"log.sync", KIND_SYNC, AT(log_sync_ms), 1, HOUR, "200ms",
     "longest time an increment of the silent port waits for the disk"},
    {"message.keyspace_size", KIND_COUNT, AT(keyspace_size), 1,
     MESSAGE_NAME_MAX, "256", "bytes of the keyspace in a message"},
    {"message.key_size", KIND_COUNT, AT(key_size), 1, MESSAGE_NAME_MAX, "256",
     "bytes of the key in a message"},
    {"write.listen", KIND_ADDRESS, TEXT(write_listen), "127.0.0.1:48879",
     "address of the silent port; empty: off"},
    {"write.ack_listen", KIND_ADDRESS, TEXT(write_ack_listen),
     "127.0.0.1:48881", "address of the acknowledging port; empty: off"},
    {"write.allow", KIND_NETWORKS, TEXT(write_allow), "",
     "networks that may connect to both ports, needed beyond loopback"},
    {"write.max_connections", KIND_COUNT, AT(write_max_connections), 1, 1000000,
     "16384", "connections to each port for increments; more wait"},
    {"write.drain", KIND_TIME, AT(write_drain_ms), 0, HOUR, "2s",
     "longest time a clean stop goes on reading"},
    {"read.listen", KIND_ADDRESS, TEXT(read_listen), "127.0.0.1:48880",
     "address of the range port; empty: off"},
    {"read.http", KIND_ADDRESS, TEXT(read_http), "127.0.0.1:48890",
     "address of the reader's HTTP port; empty: off"},
    {"read.cors", KIND_NAMES, TEXT(read_cors), "",
     "web sites whose pages may read over HTTP, such as https://example.org"},
    {"read.page", KIND_BOOL, FLAG(read_page), "on",
     "a page for browsers at / of the reader's HTTP port"},
    {"read.allow", KIND_NETWORKS, TEXT(read_allow), "",
     "networks that may connect to both ports, needed beyond loopback"},
    {"read.max_connections", KIND_COUNT, AT(read_max_connections), 1, 1000000,
     "16384", "connections to the ports of countd-read; more wait"},
    {"read.max_time", KIND_TIME, AT(read_max_time_ms), 1, HOUR, "10s",
     "longest time the work on one answer takes; then 503"},
    {"metrics.keyspaces", KIND_NAMES, TEXT(metrics_keyspaces), "",
     "keyspaces shown in /metrics; a trailing *: all names that begin so"},
    {"metrics.top", KIND_COUNT, AT(metrics_top), 0, 100, "0",
     "largest keys of each of these, shown in /metrics, too"},
    {"metrics.max_series", KIND_COUNT, AT(metrics_max_series), 1, 10000, "1000",
     "series of keyspaces and keys in /metrics; more are left out"},
    {"resp.listen", KIND_ADDRESS, TEXT(resp_listen), "",
     "address for Redis clients, such as 127.0.0.1:6380; empty: off"},
    {"resp.allow", KIND_NETWORKS, TEXT(resp_allow), "",
     "networks that Redis clients may connect from, needed beyond loopback"},
    {"resp.keyspace", KIND_KEYSPACE, AT(resp_keyspace), 1, CONFIG_KEYSPACE_MAX,
     "default", "keyspace of the keys of INCR and GET"},
    {"resp.own_wait", KIND_TIME, AT(resp_own_wait_ms), 0, MINUTE, "1s",
     "longest time a read waits for what its connection has counted; 0: none"},
    {"resp.writer", KIND_ADDRESS, TEXT(resp_writer), "",
     "where Redis clients' increments go; empty: socket/ack in data_dir"},
    {"resp.wait", KIND_TIME, AT(resp_wait_ms), 0, MINUTE, "2s",
     "longest time that Redis clients' increments wait for countd-write"},
    {"worker.batch", KIND_COUNT, AT(worker_batch), 1, 1024, "64",
     "logs merged at once"},
    {"worker.threads", KIND_COUNT, AT(worker_threads), 1, 16, "8",
     "threads that merge small keyspaces side by side"},
    {"worker.memory", KIND_SIZE, AT(worker_memory), 1 * MEGA, 64 * GIGA, "256M",
     "memory for the sums of a merge"},
    {"store", KIND_STORE, FLAG(store_postgresql), "files",
     "where counters are kept: in files of data_dir, or in PostgreSQL"},
    {"store.conninfo", KIND_CONNINFO, TEXT(store_conninfo), "",
     "how to connect to PostgreSQL, as libpq takes it; empty: its defaults"},
    {"store.read_conninfo", KIND_CONNINFO, TEXT(store_read_conninfo), "",
     "the same for readers: a standby; empty: store.conninfo"},
    {"store.schema", KIND_SCHEMA, AT(store_schema), 1, CONFIG_SCHEMA_SIZE - 1,
     "countd", "schema of the tables in PostgreSQL"},
    {"store.timeout", KIND_TIME, AT(store_timeout_ms), 100, MINUTE, "2s",
     "longest time PostgreSQL takes to answer a statement"},
    {"keyspace.max", KIND_COUNT, AT(keyspace_max), 0, 10000000, "10000",
     "largest number of keyspaces; 0: no limit"},
    {"keyspace.max_keys", KIND_COUNT, AT(keyspace_max_keys), 0, 1000000000000,
     "0", "largest number of keys of a keyspace; 0: no limit"},
    {"history", KIND_TIERS, AT(history), 0, 0, "1m:2d,1h:90d,1d:10y",
     "steps of history and how long each is kept; history.NAME: of one"},
    {"history.max", KIND_SIZE, AT(history_max), 0, KILO *KILO *GIGA, "0",
     "largest size of the history of a keyspace; 0: no limit"},
    {"held.max", KIND_SIZE, AT(held_max), 0, 1024 * GIGA, "1G",
     "largest size of the files in log/waiting/; 0: no limit"},
    {"archive.keep", KIND_TIME, AT(archive_keep_ms), 0, 36500 * DAY, "0",
     "how long merged logs are kept, compressed; 0: not at all"},
    {"live.address", KIND_HOST, AT(live_address), 1, NET_HOST_SIZE - 1,
     "127.0.0.1", "address of the two live ports"},
    {"live.allow", KIND_NETWORKS, TEXT(live_allow), "",
     "networks that may connect to the live ports, needed beyond loopback"},
    {"counter.enable", KIND_BOOL, FLAG(counter_enable), "true",
     "counters: acquire and release up to a maximum"},
    {"counter.port", KIND_PORT, AT(counter_port), 0, 65535, "11215",
     "port of the counters"},
    {"counter.max_connections", KIND_COUNT, AT(counter_max_connections), 0,
     1000000, "0", "connections to it; more are closed; 0: no limit"},
    {"counter.max_memory", KIND_SIZE, AT(counter_max_memory), 16 * MEGA,
     64 * GIGA, "1G", "memory for counters and semaphores together"},
    {"counter.buckets", KIND_COUNT, AT(counter_buckets), 1, 1000000000,
     "1000000", "places of the index of counters"},
    {"counter.stats_interval", KIND_SECONDS, AT(counter_stats_interval_s), 10,
     36500 * DAY / SECOND, "86400",
     "window of the maximum; an idle counter goes when it ends"},
    {"semaphore.enable", KIND_BOOL, FLAG(semaphore_enable), "false",
     "semaphores: the same with an initial value"},
    {"semaphore.port", KIND_PORT, AT(semaphore_port), 0, 65535, "11216",
     "port of the semaphores"},
    {"semaphore.max_connections", KIND_COUNT, AT(semaphore_max_connections), 0,
     1000000, "0", "connections to it; more are closed; 0: no limit"},
    {"semaphore.buckets", KIND_COUNT, AT(semaphore_buckets), 1, 1000000000,
     "1000000", "places of the index of semaphores"},
    {"semaphore.gc_interval", KIND_SECONDS, AT(semaphore_gc_interval_s), 1,
     36500 * DAY / SECOND, "10",
     "how often semaphores that no connection holds are removed"},
    {"http.listen", KIND_ADDRESS, TEXT(http_listen), "127.0.0.1:9527",
     "address of the HTTP port; empty: off"},
    {"http.allow", KIND_NETWORKS, TEXT(http_allow), "",
     "networks that may connect to the HTTP port, needed beyond loopback"},
    {"http.hosts", KIND_NAMES, TEXT(http_hosts), "",
     "names of this machine in URLs that have a dot"},
    {"http.tokens", KIND_PATH, TEXT(http_tokens), "",
     "file of the tokens that HTTP and Redis clients need; empty: none"},
    {"http.max_connections", KIND_COUNT, AT(http_max_connections), 1, 1000000,
     "16384", "connections to the HTTP port; more wait"},
    {"http.get_changes", KIND_BOOL, FLAG(http_get_changes), "off",
     "let a GET make changes even at an address that is not loopback"},
    {"count.http", KIND_BOOL, FLAG(count_http), "true",
     "increments over HTTP: POST /v1/count"},
    {"count.wait", KIND_TIME, AT(count_wait_ms), 0, MINUTE, "1s",
     "longest time such a request waits for a log to write to"},
    {"count.cors", KIND_NAMES, TEXT(count_cors), "",
     "web sites whose pages may count over HTTP, such as https://example.org"},
    {"count.cors_keyspaces", KIND_NAMES, TEXT(count_cors_keyspaces), "",
     "keyspaces that they may count into; a trailing *: all names that begin "
     "so"},
    {"count.cors_rate", KIND_COUNT, AT(count_cors_rate), 1, 1000000, "1000",
     "increments a second of the pages of each site"},
    {"count.keys", KIND_COUNT, AT(count_keys), 0, 16777216, "1048576",
     "requests that are remembered by their Idempotency-Key; 0: none"},
    {"sequence.enable", KIND_BOOL, FLAG(sequence_enable), "false",
     "sequence numbers over HTTP"},
    {"sequence.reserve", KIND_COUNT, AT(sequence_reserve), 0, 63, "0",
     "first part of each sequence number, free for use"},
    {"sequence.server_no", KIND_COUNT, AT(sequence_server_no), 0, 4095, "0",
     "second part of each, different for each server"},
    {"quota.enable", KIND_BOOL, FLAG(quota_enable), "false",
     "quotas over HTTP"},
    {"quota.limit", KIND_COUNT, AT(quota_limit), 0, INT64_MAX, "0",
     "amount with which the quota without a name begins"},
    {"quota.max", KIND_COUNT, AT(quota_max), 0, 8192, "256",
     "largest number of quotas with a name"},
    {"quota.export", KIND_PATH, TEXT(quota_export), "",
     "file of the applications, written when the quota is used up; empty: "
     "none"},
    {"statsd.listen", KIND_ADDRESS, TEXT(statsd_listen), "",
     "address for StatsD datagrams, such as 127.0.0.1:8125; empty: off"},
    {"statsd.tcp_listen", KIND_ADDRESS, TEXT(statsd_tcp_listen), "",
     "address for StatsD lines over TCP; empty: off"},
    {"statsd.allow", KIND_NETWORKS, TEXT(statsd_allow), "",
     "networks that may send to both, needed beyond loopback"},
    {"statsd.keyspace", KIND_KEYSPACE, AT(statsd_keyspace), 1,
     CONFIG_KEYSPACE_MAX, "statsd", "keyspace of what StatsD clients count"},
    {"statsd.split", KIND_COUNT, AT(statsd_split), 0, 16, "0",
     "first parts of a name that are its keyspace; 0: names stay whole"},
    {"statsd.timers", KIND_BOOL, FLAG(statsd_timers), "on",
     "timers are counted, by number and sum; off: ignored"},
    {"statsd.tags", KIND_TAGS, FLAG(statsd_tags), "drop",
     "tags of a name: append them to the key, or drop them"},
    {"statsd.total", KIND_PATTERNS, TEXT(statsd_total), "",
     "gauges that are growing totals: what they grow by is counted"},
    {"statsd.self", KIND_BOOL, FLAG(statsd_self), "on",
     "what was received is counted in countd.statsd and countd.graphite"},
    {"statsd.flush", KIND_TIME, AT(statsd_flush_ms), 20, 60 * SECOND, "200ms",
     "how often sums are written to the log"},
    {"statsd.late", KIND_TIME, AT(statsd_late_ms), 0, DAY, "2m",
     "a line whose |T is older counts in its minute; 0: never"},
    {"statsd.idle", KIND_TIME, AT(statsd_idle_ms), 1 * SECOND, DAY, "60s",
     "a name leaves memory after one to two times this without an increment"},
    {"statsd.memory", KIND_SIZE, AT(statsd_memory), 16 * MEGA, 64 * GIGA, "64M",
     "memory for sums; when it is used up, sockets are not read"},
    {"statsd.rcvbuf", KIND_SIZE, AT(statsd_rcvbuf), 64 * KILO, 1 * GIGA, "4M",
     "bytes of datagrams that the kernel may queue"},
    {"graphite.listen", KIND_ADDRESS, TEXT(graphite_listen), "",
     "address for Graphite's lines, such as 127.0.0.1:2003; empty: off"},
    {"graphite.allow", KIND_NETWORKS, TEXT(graphite_allow), "",
     "networks that may connect for Graphite's lines"},
    {"graphite.count", KIND_PATTERNS, TEXT(graphite_count),
     "stats_counts.* stats.counters.*.count",
     "paths that are counts; the part for * is the name"},
    {"graphite.total", KIND_PATTERNS, TEXT(graphite_total), "",
     "paths of growing totals: what they grow by is counted"},
    {"graphite.late", KIND_TIME, AT(graphite_late_ms), 0, DAY, "0",
     "a line whose time is older counts in its minute; 0: never"},
    {"graphite.max_series", KIND_COUNT, AT(graphite_max_series), 1, 100000,
     "1000", "largest number of series of one request of Grafana"},
    {"graphite.max_nodes", KIND_COUNT, AT(graphite_max_nodes), 1, 1000000,
     "10000", "largest number of nodes of one request of Grafana"},
    {"graphite.max_points", KIND_COUNT, AT(graphite_max_points), 1, 10000000,
     "1000000", "largest number of points of one request of Grafana"},
};

#define ROW_COUNT (sizeof rows / sizeof rows[0])

/* Other names of settings, which a real server's file may have. */
static const struct {
    const char *alias, *key;
} aliases[] = {
    {"counter.stat_interval", "counter.stats_interval"},
};

static const struct config_row *
find_row(const char *key)
{
    const char *known = key;

    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcmp(key, aliases[i].alias) == 0)
            known = aliases[i].key;
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(known, rows[i].key) == 0)
            return &rows[i];
    return strncmp(key, "history.", 8) == 0 ? find_row("history") : NULL;
}

static int
fail_key(const char *key, char why[CONFIG_WHY_SIZE])
{
    struct likeness meant = likeness_of(key);
    char shown[NAME_SHOWN_SIZE], hint[LIKENESS_HINT_SIZE];

    for (size_t i = 0; i < ROW_COUNT; i++)
        likeness_try(&meant, rows[i].key);
    return config_fail(
        why, -ENOENT, "%s: no such setting%s; countd-write -h lists them all",
        name_show(key, strlen(key), shown), likeness_hint(&meant, hint));
}

int
config_set(struct config *c, const char *key, const char *value,
           char why[CONFIG_WHY_SIZE])
{
    const struct config_row *row = find_row(key);

    return row ? config_set_value(c, row, key, value, why) : fail_key(key, why);
}

const void *
config_at(const struct config *c, const char *key)
{
    return (const char *)c + find_row(key)->at;
}

void
config_defaults(struct config *c)
{
    char why[CONFIG_WHY_SIZE];

    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const int rc = config_set(c, rows[i].key, rows[i].def, why);

        assert(rc == 0);
    }
}

void
config_each(void (*option)(void *ctx, const char *key, const char *type,
                           const char *def, const char *help),
            void *ctx)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        char type[CONFIG_TYPE_TEXT];

        config_describe_row(&rows[i], type);
        option(ctx, rows[i].key, type, rows[i].def, rows[i].help);
    }
}

/* common/setup/config.h - settings: one table of options, one struct of values.
 *
 * One file for all daemons: `key = value` lines, # comments, optional double
 * quotes, sizes with K M G, durations with ms s m h d, true and false.  The
 * same table drives the file, -o KEY=VALUE, --help, and a test that holds
 * countd.5 to it.  An unknown key or bad value is an error that names file and
 * line and what would be right.
 *
 * Ownership: struct config is plain data; copy it freely.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_CONFIG_H
#define COUNTD_COMMON_SETUP_CONFIG_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/setup/tiers.h"

#define CONFIG_TEXT_SIZE     4096 /* longest path or address, with NUL */
#define CONFIG_USER_SIZE     256  /* longest user name, with NUL */
#define CONFIG_HOSTS_SIZE    1024 /* names of http.hosts, with NUL */
#define CONFIG_KEYSPACE_MAX  240  /* bytes of statsd.keyspace */
#define CONFIG_PATTERNS_SIZE 1024 /* paths of graphite.count, with NUL */
#define CONFIG_SCHEMA_SIZE   64   /* of store.schema, with NUL */
#define CONFIG_ALLOW_SIZE    1024 /* networks of X.allow, with NUL */

/* counter.port and semaphore.port: the socket in the data directory alone. */
#define CONFIG_PORT_SOCKET UINT64_MAX

#define CONFIG_SYNC_ALWAYS 0
#define CONFIG_SYNC_NEVER  UINT64_MAX

#define CONFIG_EXIT_NONE     (-1) /* no exit status: go on */
#define CONFIG_EXIT_OK       0
#define CONFIG_EXIT_NEGATIVE 1
#define CONFIG_EXIT_USAGE    100
#define CONFIG_EXIT_SYSTEM   111

/* The exit status for a negative errno: -EINVAL is a setting's. */
static inline int
config_exit_of(int rc)
{
    return rc == -EINVAL ? CONFIG_EXIT_USAGE : CONFIG_EXIT_SYSTEM;
}

struct config {
    char data_dir[CONFIG_TEXT_SIZE];         /* data_dir = data */
    char user[CONFIG_USER_SIZE];             /* user = */
    char socket_group[CONFIG_USER_SIZE];     /* socket.group = */
    uint64_t request_timeout_s;              /* request_timeout = 300 */
    uint64_t log_size;                       /* log.size = 32M, bytes */
    uint64_t log_count;                      /* log.count = 4 */
    uint64_t log_max;                        /* log.max = 1024 */
    uint64_t log_rotate_after_ms;            /* log.rotate_after = 1s */
    uint64_t log_merge_share;                /* log.merge_share = 10 */
    uint64_t log_sync_ms;                    /* log.sync = 200ms|always|never */
    uint64_t keyspace_size;                  /* message.keyspace_size = 256 */
    uint64_t key_size;                       /* message.key_size = 256 */
    char write_listen[CONFIG_TEXT_SIZE];     /* write.listen */
    char write_ack_listen[CONFIG_TEXT_SIZE]; /* write.ack_listen */
    char write_allow[CONFIG_ALLOW_SIZE];     /* write.allow = */
    uint64_t write_max_connections;          /* write.max_connections = 16384 */
    uint64_t write_drain_ms;                 /* write.drain = 2s */
    char read_listen[CONFIG_TEXT_SIZE];      /* read.listen */
    char read_http[CONFIG_TEXT_SIZE];        /* read.http */
    char read_cors[CONFIG_HOSTS_SIZE];       /* read.cors = */
    bool read_page;                          /* read.page = on */
    char read_allow[CONFIG_ALLOW_SIZE];      /* read.allow = */
    uint64_t read_max_connections;           /* read.max_connections = 16384 */
    uint64_t read_max_time_ms;               /* read.max_time = 10s */
    char resp_listen[CONFIG_TEXT_SIZE];      /* resp.listen = */
    char resp_allow[CONFIG_ALLOW_SIZE];      /* resp.allow = */
    char resp_keyspace[CONFIG_KEYSPACE_MAX + 1]; /* resp.keyspace */
    uint64_t resp_own_wait_ms;                   /* resp.own_wait = 1s */
    char resp_writer[CONFIG_TEXT_SIZE];          /* resp.writer = */
    uint64_t resp_wait_ms;                       /* resp.wait = 2s */
    uint64_t worker_threads;                     /* worker.threads = 8 */
    uint64_t worker_batch;                       /* worker.batch = 64, logs */
    uint64_t worker_memory;                /* worker.memory = 256M, bytes */
    bool store_postgresql;                 /* store = files; true: postgresql */
    char store_conninfo[CONFIG_TEXT_SIZE]; /* store.conninfo = */
    char store_read_conninfo[CONFIG_TEXT_SIZE]; /* store.read_conninfo = */
    char store_schema[CONFIG_SCHEMA_SIZE];      /* store.schema = countd */
    uint64_t store_timeout_ms;                  /* store.timeout = 2s */
    uint64_t keyspace_max;                      /* keyspace.max = 10000 */
    uint64_t keyspace_max_keys;          /* keyspace.max_keys = 0, no limit */
    struct tiers_rules history;          /* history, history.NAME */
    uint64_t history_max;                /* history.max = 0, bytes; 0: none */
    uint64_t held_max;                   /* held.max = 1G, bytes; 0: no limit */
    uint64_t archive_keep_ms;            /* archive.keep = 0, none */
    char live_address[CONFIG_TEXT_SIZE]; /* live.address = 127.0.0.1 */
    char live_allow[CONFIG_ALLOW_SIZE];  /* live.allow = */
    bool counter_enable;                 /* counter.enable = true */
    bool semaphore_enable;               /* semaphore.enable = false */
    uint64_t counter_port;               /* counter.port = 11215 */
    uint64_t counter_max_connections;    /* counter.max_connections = 0 */
    uint64_t counter_max_memory;         /* counter.max_memory = 1G, bytes */
    uint64_t counter_buckets;            /* counter.buckets = 1000000 */
    uint64_t counter_stats_interval_s;   /* counter.stats_interval = 86400 */
    uint64_t semaphore_port;             /* semaphore.port = 11216 */
    uint64_t semaphore_max_connections;  /* semaphore.max_connections = 0 */
    uint64_t semaphore_buckets;          /* semaphore.buckets = 1000000 */
    uint64_t semaphore_gc_interval_s;    /* semaphore.gc_interval = 10 */
    char http_listen[CONFIG_TEXT_SIZE];  /* http.listen = 127.0.0.1:9527 */
    char http_allow[CONFIG_ALLOW_SIZE];  /* http.allow = */
    char http_hosts[CONFIG_HOSTS_SIZE];  /* http.hosts = */
    char metrics_keyspaces[CONFIG_PATTERNS_SIZE]; /* metrics.keyspaces = */
    uint64_t metrics_top;                         /* metrics.top = 0 */
    uint64_t metrics_max_series;        /* metrics.max_series = 1000 */
    char http_tokens[CONFIG_TEXT_SIZE]; /* http.tokens = */
    uint64_t http_max_connections;      /* http.max_connections = 16384 */
    bool http_get_changes;              /* http.get_changes = off */
    bool count_http;                    /* count.http = true */
    char count_cors[CONFIG_HOSTS_SIZE]; /* count.cors = */
    char count_cors_keyspaces[CONFIG_PATTERNS_SIZE]; /* ..._keyspaces = */
    uint64_t count_cors_rate;                      /* count.cors_rate = 1000 */
    uint64_t count_wait_ms;                        /* count.wait = 1s */
    uint64_t count_keys;                           /* count.keys = 1048576 */
    bool sequence_enable;                          /* sequence.enable = false */
    uint64_t sequence_reserve;                     /* sequence.reserve = 0 */
    uint64_t sequence_server_no;                   /* sequence.server_no = 0 */
    bool quota_enable;                             /* quota.enable = false */
    uint64_t quota_limit;                          /* quota.limit = 0 */
    uint64_t quota_max;                            /* quota.max = 256 */
    char quota_export[CONFIG_TEXT_SIZE];           /* quota.export = */
    char statsd_listen[CONFIG_TEXT_SIZE];          /* statsd.listen = */
    char statsd_tcp_listen[CONFIG_TEXT_SIZE];      /* statsd.tcp_listen = */
    char statsd_allow[CONFIG_ALLOW_SIZE];          /* statsd.allow = */
    char statsd_keyspace[CONFIG_KEYSPACE_MAX + 1]; /* statsd.keyspace */
    uint64_t statsd_split;                         /* statsd.split = 0 */
    bool statsd_timers;                            /* statsd.timers = on */
    bool statsd_tags;         /* statsd.tags = drop; true: append */
    bool statsd_self;         /* statsd.self = on */
    uint64_t statsd_flush_ms; /* statsd.flush = 200ms */
    uint64_t statsd_late_ms;  /* statsd.late = 2m */
    uint64_t statsd_idle_ms;  /* statsd.idle = 60s */
    uint64_t statsd_memory;   /* statsd.memory = 64M, bytes */
    uint64_t statsd_rcvbuf;   /* statsd.rcvbuf = 4M, bytes */
    char graphite_listen[CONFIG_TEXT_SIZE];    /* graphite.listen = */
    char graphite_allow[CONFIG_ALLOW_SIZE];    /* graphite.allow = */
    char graphite_count[CONFIG_PATTERNS_SIZE]; /* graphite.count */
    char graphite_total[CONFIG_PATTERNS_SIZE]; /* graphite.total = */
    char statsd_total[CONFIG_PATTERNS_SIZE];   /* statsd.total = */
    uint64_t graphite_late_ms;                 /* graphite.late = 0 */
    uint64_t graphite_max_series;              /* graphite.max_series */
    uint64_t graphite_max_nodes;               /* graphite.max_nodes */
    uint64_t graphite_max_points;              /* graphite.max_points */
};

/* What a daemon's command line says beside the settings. */
struct config_command {
    bool test;    /* -t: settings were good, exit 0 */
    bool once;    /* --once, of countd-worker alone */
    bool placed;  /* --once=placed */
    int ready_fd; /* --ready-fd N; -1 */
};

void config_defaults(struct config *c);

#define CONFIG_WHY_SIZE 512 /* of what is wrong with a setting */

/* Sets one key.  -ENOENT unknown key, -EINVAL bad value, -ERANGE out of
 * range; `why` then says what was wrong and what is right. */
int config_set(struct config *c, const char *key, const char *value,
               char why[CONFIG_WHY_SIZE]);

/* Reads a file; the error names file and line. */
int config_file(struct config *c, const char *path, char why[CONFIG_WHY_SIZE]);

/* Reads settings from memory (the fuzz target and config_file use it). */
int config_text(struct config *c, const char *text, size_t size,
                const char *path, char why[CONFIG_WHY_SIZE]);

/* Checks what spans keys: one slot at least must fit log.size, both ports
 * not the same ... */
int config_check(const struct config *c, char why[CONFIG_WHY_SIZE]);

/* A daemon's whole command line: -f FILE, -o KEY=VALUE, -d DIR, -u USER, -t,
 * -h, -V, --ready-fd N, and for countd-worker --once.  Prints help, version or
 * the error itself.  Returns an exit status, or CONFIG_EXIT_NONE. */
int config_daemon(struct config *c, struct config_command *command, int argc,
                  char **argv, const char *program, const char *summary);

/* The file of settings that is read when no -f names one: $COUNTD_CONF, where
 * an empty value means none; else `fallback` if it is there and this process
 * may read it; else NULL. */
#define CONFIG_FILE "/etc/countd.conf"
const char *config_find(const char *fallback);

/* -f, -o, -d and -u of a command line, for config_load(): the file first, then
 * the others in their order.  Zero-initialised; texts are borrowed. */
#define CONFIG_SOURCES_MAX 64

struct config_sources {
    const char *file;      /* the last -f */
    const char *state_dir; /* data_dir where nothing else names one; or NULL */
    size_t count;
    char letters[CONFIG_SOURCES_MAX]; /* 'o', 'd' or 'u' */
    const char *texts[CONFIG_SOURCES_MAX];
};

/* `letter` is 'f', 'o', 'd' or 'u'.  Returns 0, or an exit status after it has
 * reported that there are too many. */
int config_source_add(struct config_sources *s, int letter, const char *text);

/* The descriptor of --ready-fd, which programs started from here do not
 * inherit.  Returns 0, or an exit status after it has reported that none is
 * open. */
int config_ready_fd(const char *text, int *fd);

/* -t, after config_check(): looks host names up, and checks, as a start does,
 * that each address is of loopback or has networks that may connect, that there
 * are `user` and `socket.group`, and the file of http.tokens as far as it may.  As root with `user` the process
 * becomes that user.  Prints that the settings are good, or reports an error.
 * Returns an exit status. */
int config_test(const struct config *c);

/* Defaults, then sources, of which the file is that of config_find() when none
 * was given.  For root without `user` it is the owner of a data directory that
 * is there.  What spans keys is for those who serve: they call
 * config_check(), and a client does not, as it uses few of them. */
int config_load(struct config *c, const struct config_sources *s,
                char why[CONFIG_WHY_SIZE]);

/* Reads a duration as the file does: "200ms", "1m", "10" (seconds).  -EINVAL,
 * -ERANGE. */
int config_duration(const char *text, uint64_t *ms);

/* Where the value of a setting is: a text, a number, a bool. */
const void *config_at(const struct config *c, const char *key);

/* Whether anything is served at http.listen. */
static inline bool
config_has_http(const struct config *c)
{
    return c->count_http || c->sequence_enable || c->quota_enable;
}

/* The table, for --help and tests: calls `option` for each key in order. */
void config_each(void (*option)(void *ctx, const char *key, const char *type,
                                const char *def, const char *help),
                 void *ctx);

/* Writes `name=address:port` lines and an empty one to the ready fd and
 * closes it; nothing when it is -1.  Tells the service manager, too, if one
 * wants to know (keeper.h). */
void config_ready(int ready_fd, const char *const *lines, size_t count);

/* Reports the same on stderr, in one line. */
void config_report_serving(const char *const *lines, size_t count);

#endif

/* writer/statsd/statsd_self.c - counts about lines, as increments
 * in the keyspaces countd.statsd and countd.graphite; see statsd.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/statsd/statsd.h"

#include <string.h>

static const char *const count_names[STATSD_STATS] = {
    [STATSD_DATAGRAMS] = "datagrams",
    [STATSD_CONNECTIONS] = "connections",
    [STATSD_LINES] = "lines",
    [STATSD_BAD] = "bad",
    [STATSD_NO_MEMORY] = "no_memory",
    [STATSD_DROPPED] = "dropped",
    [STATSD_NOT_ALLOWED] = "not_allowed",
    [STATSD_TOO_LONG] = "too_long",
    [STATSD_ROUNDED] = "rounded",
    [STATSD_IGNORED] = "ignored",
    [STATSD_IGNORED_GAUGE] = "ignored.gauge",
    [STATSD_IGNORED_SET] = "ignored.set",
    [STATSD_IGNORED_EVENT] = "ignored.event",
    [STATSD_IGNORED_CHECK] = "ignored.check",
    [STATSD_IGNORED_TIMER] = "ignored.timer"};

static const char *const keyspaces[STATSD_PROTOCOLS] = {STATSD_KEYSPACE,
                                                        GRAPHITE_KEYSPACE};

/* Puts `change` for a key.  False: no slot is free. */
static bool
put_change(struct statsd *s, const char *keyspace, const char *key,
           int64_t change)
{
    const struct message m = {.increment = change,
                              .keyspace = (const uint8_t *)keyspace,
                              .key = (const uint8_t *)key,
                              .keyspace_size = (uint16_t)strlen(keyspace),
                              .key_size = (uint16_t)strlen(key)};

    if (logs_free_slots(s->logs) == 0)
        return false;
    /* Without room for its names in the settings' sizes the count is left out. */
    if (message_check(&s->logs->layout, &m) == 0)
        logs_put(s->logs, &m);
    return true;
}

uint64_t
statsd_ignored(const uint64_t counts[STATSD_STATS])
{
    uint64_t sum = 0;

    for (int i = STATSD_IGNORED; i < STATSD_STATS; i++)
        sum += counts[i];
    return sum;
}

void
statsd_read_counts(struct statsd *s)
{
    uint64_t *counts = s->counts[STATSD_LINE_PROTOCOL];

    datagram_count_dropped(&s->datagrams);
    counts[STATSD_DATAGRAMS] = s->datagrams.stats.received;
    counts[STATSD_DROPPED] = s->datagrams.stats.dropped;
    counts[STATSD_NOT_ALLOWED] = s->datagrams.stats.not_allowed;
    counts[STATSD_TOO_LONG] = s->datagrams.stats.too_long;
    counts[STATSD_ROUNDED] = s->sums.forgotten;
    if (counts[STATSD_DROPPED] > s->warned_drops)
        diag_repeating(&s->drop_warning, DIAG_WARNING,
                       "statsd: the kernel dropped datagrams=%llu so far; "
                       "raise statsd.rcvbuf and net.core.rmem_max",
                       (unsigned long long)counts[STATSD_DROPPED]);
    s->warned_drops = counts[STATSD_DROPPED];
}

bool
statsd_put_counts(struct statsd *s)
{
    statsd_read_counts(s);
    if (!s->config->statsd_self)
        return true;
    for (int p = 0; p < STATSD_PROTOCOLS; p++)
        for (int i = 0; i < STATSD_STATS; i++) {
            const uint64_t now = s->counts[p][i];

            if (now == s->reported[p][i])
                continue;
            if (!put_change(s, keyspaces[p], count_names[i],
                            (int64_t)(now - s->reported[p][i])))
                return false;
            s->reported[p][i] = now;
        }
    return true;
}

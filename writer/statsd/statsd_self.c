/* writer/statsd/statsd_self.c - counts about lines and senders, as increments
 * in the keyspaces countd.statsd and countd.graphite; see statsd.h. */
#include "writer/statsd/statsd.h"

#include <string.h>

static const char *const count_names[STATSD_STATS] = {
    [STATSD_DATAGRAMS] = "datagrams",
    [STATSD_CONNECTIONS] = "connections",
    [STATSD_LINES] = "lines",
    [STATSD_BAD] = "bad",
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

static const char *const sender_names[SENDER_COUNTS] = {
    [SENDER_NUMBERED] = "numbered.",
    [SENDER_MISSING] = "missing.",
    [SENDER_REPEATED] = "repeated."};

static const char *const keyspaces[STATSD_PROTOCOLS] = {STATSD_KEYSPACE,
                                                        GRAPHITE_KEYSPACE};

/* Puts `change` for a key.  False: no slot is free. */
static bool
put_change(struct statsd *s, const char *keyspace, const uint8_t *key,
           size_t key_size, int64_t change)
{
    const struct message m = {.increment = change,
                              .keyspace = (const uint8_t *)keyspace,
                              .key = key,
                              .keyspace_size = (uint16_t)strlen(keyspace),
                              .key_size = (uint16_t)key_size};

    if (logs_free_slots(s->logs) == 0)
        return false;
    logs_put_message(s->logs, &m);
    return true;
}

static bool
put_sender(struct statsd *s, struct sender *one)
{
    for (int i = 0; i < SENDER_COUNTS; i++) {
        uint8_t key[MESSAGE_NAME_MAX];
        const size_t prefix = strlen(sender_names[i]);

        if (one->changes[i] == 0)
            continue;
        memcpy(key, sender_names[i], prefix);
        memcpy(key + prefix, one->name, one->name_size);
        /* A name too long for the configured keys is left out: cut, it could be
         * that of another sender. */
        if (prefix + one->name_size <= s->rules.key_size &&
            !put_change(s, STATSD_KEYSPACE, key, prefix + one->name_size,
                        one->changes[i]))
            return false;
        one->changes[i] = 0;
    }
    return true;
}

static bool
put_senders(struct statsd *s)
{
    struct sender *one;

    while ((one = senders_take(&s->senders)) != NULL) {
        if (!put_sender(s, one))
            return false;
        one->changed = false;
        s->senders.changed--;
    }
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
            const char *key = count_names[i];
            const uint64_t now = s->counts[p][i];

            if (now == s->reported[p][i])
                continue;
            if (!put_change(s, keyspaces[p], (const uint8_t *)key, strlen(key),
                            (int64_t)(now - s->reported[p][i])))
                return false;
            s->reported[p][i] = now;
        }
    return put_senders(s);
}

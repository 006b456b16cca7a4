/* writer/statsd/statsd.c - see statsd.h.
 *
 *     statsd_turn()  receive for a while, or go on with a flush
 *     flush_some()   names, then counts about them, then end_flush()
 *     statsd_stop()  drain, a last flush, done */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/statsd/statsd.h"

#include <string.h>

#include "common/base/clock.h"

#define FLUSH_SLICE  1024 /* names of a flush in one turn */
#define STOP_TICK_MS 20

/* ---- settings ------------------------------------------------------------ */

int
statsd_begin(struct statsd *s, const struct config *config)
{
    *s = (struct statsd){.config = config,
                         .on = config->statsd_listen[0] != '\0' ||
                               config->statsd_tcp_listen[0] != '\0' ||
                               config->graphite_listen[0] != '\0'};
    for (int i = 0; i < STATSD_PROTOCOLS; i++)
        s->ports[i] = (struct statsd_port){s, (enum statsd_protocol)i};
    return datagram_begin(&s->datagrams, config);
}

/* ---- counts about lines --------------------------------------------------- */

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

/* Puts the counts that have changed into the log.  False: no slot is free. */
static bool
put_counts(struct statsd *s)
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

/* ---- flushing ------------------------------------------------------------ */

static uint64_t
count_waiting(const struct statsd *s)
{
    return s->sums.halves[0].waiting + s->sums.halves[1].waiting;
}

/* A stop reads no further datagrams: only those that it has received. */
static bool
is_stop_late(const struct statsd *s)
{
    return s->stopping && (s->drained || loop_now_ms(s->loop) >= s->stop_ms);
}

/* Lets the sockets be read again. */
static void
release_pressure(struct statsd *s)
{
    s->pressed = false;
    datagram_pause(&s->datagrams, is_stop_late(s));
    for (int i = 0; i < STATSD_PROTOCOLS; i++)
        if (s->listeners[i])
            listener_wake(s->listeners[i]);
}

static void
end_flush(struct statsd *s)
{
    const uint64_t now = loop_now_ms(s->loop);

    s->flushing = false;
    /* No name of the old half waits: those that did were in this flush, and
     * others move to the young half when something arrives for them. */
    if ((s->pressed || now >= s->age_ms) && aggregate_age(&s->sums) == 0)
        s->age_ms = now + s->config->statsd_idle_ms;
    if (s->pressed)
        release_pressure(s);
}

static void
begin_flush(struct statsd *s)
{
    if (s->flushing)
        return;
    s->flushing = true;
    s->flush_left = count_waiting(s);
}

/* Puts names until the slice is used up or no slot is free.  Returns the slots
 * that are left of it. */
static uint32_t
put_names(struct statsd *s, uint32_t slice)
{
    uint32_t slots = 0;

    while (slice > 0 && s->flush_left > 0) {
        struct message m;

        if (slots == 0)
            slots = logs_free_slots(s->logs);
        if (slots == 0)
            break;
        if (!aggregate_take(&s->sums, &m))
            break; /* not reached: flush_left of them wait */
        s->flush_left--;
        slice--;
        if (m.increment == 0)
            continue;
        if (message_check(&s->logs->layout, &m) < 0) {
            s->counts[STATSD_LINE_PROTOCOL][STATSD_BAD]++;
            continue;
        }
        logs_put(s->logs, &m);
        slots--;
    }
    return slice;
}

/* A piece of a flush.  True: there is more that can be done now. */
static bool
flush_some(struct statsd *s)
{
    if (!s->flushing)
        return false;
    if (put_names(s, FLUSH_SLICE) == 0)
        return true;
    if (s->flush_left == 0 && put_counts(s))
        end_flush(s);
    return false; /* else it goes on when a log has a free slot */
}

void
statsd_flush(struct statsd *s)
{
    if (!s->on)
        return;
    /* What arrived during a flush that is under way belongs to the next. */
    for (int i = s->flushing ? 0 : 1; i < 2; i++) {
        begin_flush(s);
        while (flush_some(s))
            continue;
    }
}

void
statsd_forget(struct statsd *s)
{
    if (s->on)
        aggregate_forget(&s->sums);
}

/* At a stop the timer also wakes a loop in which nothing arrives. */
static void
arm_flush(struct statsd *s)
{
    const uint64_t interval =
        s->stopping ? STOP_TICK_MS : s->config->statsd_flush_ms;

    loop_arm(s->loop, &s->flush_timer, loop_now_ms(s->loop) + interval);
}

static void
flush_is_due(struct loop_timer *timer)
{
    struct statsd *s = LOOP_OWNER(timer, struct statsd, flush_timer);

    begin_flush(s);
    arm_flush(s);
}

/* ---- turns --------------------------------------------------------------- */

/* Takes datagrams for a turn's share of time.  True: there are more. */
static bool
receive_datagrams(struct statsd *s)
{
    const uint64_t until_ns = clock_ns() + CONN_TURN_US * 1000ULL;
    const uint8_t *bytes;
    size_t size;

    while ((bytes = datagram_first(&s->datagrams, &size)) != NULL) {
        if (!statsd_has_memory(s, size))
            return false;
        datagram_pop(&s->datagrams);
        statsd_take_datagram(s, bytes, size);
        if (clock_ns() >= until_ns)
            return true;
    }
    return false;
}

static void
end_stop(struct statsd *s)
{
    s->on = false;
    statsd_rests_write(s);
    loop_disarm(&s->flush_timer);
    s->stopped(s->stopped_ctx);
}

/* The sockets have been read until they were empty, or for long enough; what
 * was received is flushed. */
static bool
stop_some(struct statsd *s, bool more)
{
    const uint64_t now = loop_now_ms(s->loop);

    if (!s->drained && !s->pressed && !more) {
        s->drained = true;
        datagram_pause(&s->datagrams, true);
        begin_flush(s);
        return true;
    }
    if (s->drained && !s->flushing) {
        if (count_waiting(s) == 0) {
            end_stop(s);
            return false;
        }
        begin_flush(s);
        return true;
    }
    if (now >= s->give_up_ms) {
        diag(DIAG_WARNING,
             "statsd: no log has a free slot; names=%llu are not counted",
             (unsigned long long)count_waiting(s));
        end_stop(s);
    }
    return false;
}

bool
statsd_turn(struct statsd *s)
{
    bool more;

    if (!s->on)
        return false;
    if (s->pressed)
        begin_flush(s);
    if (is_stop_late(s))
        datagram_pause(&s->datagrams, true);
    more = flush_some(s);
    if (!s->pressed && !s->drained)
        more |= receive_datagrams(s);
    return s->stopping ? stop_some(s, more) || more : more;
}

/* ---- lifecycle ----------------------------------------------------------- */

int
statsd_open(struct statsd *s, struct loop *loop, struct logs *logs, int live_fd,
            struct listener *const lines[STATSD_PROTOCOLS])
{
    const struct config *c = s->config;
    int rc;

    if (!s->on)
        return 0;
    s->loop = loop;
    s->logs = logs;
    s->live_fd = live_fd;
    memcpy(s->listeners, lines, sizeof s->listeners);
    s->age_ms = loop_now_ms(loop) + c->statsd_idle_ms;
    s->flush_timer = (struct loop_timer){.due = flush_is_due};
    rc = aggregate_init(&s->sums, c->statsd_memory);
    if (rc == 0 && (c->statsd_total[0] != '\0' || c->graphite_total[0] != '\0'))
        rc = totals_init(&s->totals);
    if (rc == 0) {
        statsd_rests_read(s);
        rc = datagram_serve(&s->datagrams, loop);
    }
    loop_arm(loop, &s->flush_timer, loop_now_ms(loop) + c->statsd_flush_ms);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc,
                   "memory of statsd.memory=%llu; lower it if it is too much",
                   (unsigned long long)c->statsd_memory);
    return rc;
}

void
statsd_close(struct statsd *s)
{
    if (s->loop)
        loop_disarm(&s->flush_timer);
    datagram_close(&s->datagrams);
    aggregate_fini(&s->sums);
    totals_fini(&s->totals);
    s->on = false;
}

void
statsd_stop(struct statsd *s, void (*stopped)(void *ctx), void *ctx)
{
    const uint64_t drain_ms = s->config->write_drain_ms;

    s->stopped = stopped;
    s->stopped_ctx = ctx;
    if (!s->on) {
        stopped(ctx);
        return;
    }
    s->stop_ms = loop_now_ms(s->loop) + drain_ms;
    s->give_up_ms = s->stop_ms + drain_ms + STATSD_PATIENCE_MS;
    s->stopping = true;
    arm_flush(s);
}

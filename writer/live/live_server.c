/* writer/live/live_server.c - see live_server.h: live_server_turn(),
 * live_service_open().  The protocol is in live_protocol.c. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/live/live_server.h"

#include "common/base/diag.h"

/* Looks at the clock at least so often: it may have been set. */
#define SWEEP_WAIT_MAX_MS 60000

void
live_server_see_clock(struct live_server *s)
{
    const uint64_t unix_ms = loop_unix_ms(s->loop);

    if (unix_ms == s->clock_ms)
        return;
    s->clock_ms = unix_ms;
    (void)live_clock(&s->live, unix_ms); /* live_server_turn() asks, too */
}

/* ---- sweeps ------------------------------------------------------------ */

/* Wakes the loop when the next sweep is due. */
static void
arm_sweep(struct live_server *s)
{
    const uint64_t interval_ms = (uint64_t)s->live.options.window_s * 1000;
    uint64_t wait_ms = interval_ms - loop_unix_ms(s->loop) % interval_ms;

    if (wait_ms > SWEEP_WAIT_MAX_MS)
        wait_ms = SWEEP_WAIT_MAX_MS;
    loop_arm(s->loop, &s->sweep_timer, loop_now_ms(s->loop) + wait_ms);
}

static void
sweep_due(struct loop_timer *timer)
{
    arm_sweep(LOOP_OWNER(timer, struct live_server, sweep_timer));
}

bool
live_server_turn(struct live_server *s)
{
    live_server_see_clock(s);
    if (live_needs_sweep(&s->live))
        (void)live_sweep(&s->live, LIVE_SWEEP_STEP);
    return live_needs_sweep(&s->live);
}

/* ---- open and close ---------------------------------------------------- */

int
live_server_init(struct live_server *s, struct loop *loop,
                 const struct live_options *options)
{
    int rc;

    *s = (struct live_server){.loop = loop, .sweep_timer = {.due = sweep_due}};
    rc = live_init(&s->live, options);
    if (rc < 0)
        return rc;
    live_server_see_clock(s);
    arm_sweep(s);
    return 0;
}

void
live_server_fini(struct live_server *s)
{
    loop_disarm(&s->sweep_timer);
    live_fini(&s->live);
}

/* ---- both kinds ---------------------------------------------------------- */

static int
open_kind(struct live_service *l, struct loop *loop,
          const struct config *config, enum live_kind kind,
          const struct listener *listener)
{
    const bool counts = kind == LIVE_COUNTER;
    const uint64_t buckets =
        counts ? config->counter_buckets : config->semaphore_buckets;
    const struct live_options options = {
        .kind = kind,
        .holders = (uint32_t)listener->row->max,
        .places = (size_t)buckets,
        .window_s = (uint32_t)(counts ? config->counter_stats_interval_s
                                      : config->semaphore_gc_interval_s),
        .budget = &l->budget};
    int rc;

    if (!(counts ? config->counter_enable : config->semaphore_enable))
        return 0;
    rc = live_server_init(&l->servers[kind], loop, &options);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc,
                   "%s: memory for %zu connections (lower counter.max_memory, "
                   "or raise ulimit -v)",
                   counts ? "counter" : "semaphore", listener->row->max);
    l->servers[kind].listener = listener;
    l->on[kind] = rc == 0;
    return rc;
}

int
live_service_open(struct live_service *l, struct loop *loop,
                  const struct config *config,
                  const struct listener *const listeners[LIVE_SERVICE_KINDS])
{
    int rc = 0;

    *l = (struct live_service){.budget = {.max = config->counter_max_memory}};
    for (int kind = 0; rc == 0 && kind < LIVE_SERVICE_KINDS; kind++)
        rc = open_kind(l, loop, config, (enum live_kind)kind, listeners[kind]);
    if (rc < 0)
        live_service_close(l);
    return rc;
}

void
live_service_close(struct live_service *l)
{
    for (int kind = 0; kind < LIVE_SERVICE_KINDS; kind++) {
        if (l->on[kind])
            live_server_fini(&l->servers[kind]);
        l->on[kind] = false;
    }
}

static void
report_no_memory(struct live_service *l)
{
    static struct diag_repeat repeat;
    /* Of nothing, where a kind is not on. */
    const struct live *counters = &l->servers[LIVE_COUNTER].live;
    const struct live *semaphores = &l->servers[LIVE_SEMAPHORE].live;
    const uint64_t no_memory =
        counters->stats.no_memory + semaphores->stats.no_memory;

    if (no_memory == l->no_memory)
        return;
    l->no_memory = no_memory;
    diag_repeating(
        &repeat, DIAG_WARNING,
        "counter.max_memory=%llu is used up: new names are refused, %llu so "
        "far; of %zu counters and %zu semaphores %zu are idle, counters among "
        "them stay until their window ends: raise counter.max_memory, or "
        "shorten counter.stats_interval",
        (unsigned long long)l->budget.max, (unsigned long long)no_memory,
        counters->count, semaphores->count, counters->idle + semaphores->idle);
}

bool
live_service_turn(struct live_service *l)
{
    bool more = false;

    for (int kind = 0; kind < LIVE_SERVICE_KINDS; kind++) {
        if (l->on[kind])
            more |= live_server_turn(&l->servers[kind]);
    }
    report_no_memory(l);
    return more;
}

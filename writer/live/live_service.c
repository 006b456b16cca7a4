/* writer/live/live_service.c - see live_service.h: live_service_settings(),
 * live_service_turn(), live_service_ready(), live_service_finish(),
 * live_service_print(). */
#include "writer/live/live_service.h"

#include "common/base/diag.h"

struct live_service_settings
live_service_settings(const struct config *c, enum live_kind kind)
{
    if (kind == LIVE_COUNTER)
        return (struct live_service_settings){
            .name = "counter",
            .port_key = "counter.port",
            .enable_key = "counter.enable",
            .max_key = "counter.max_connections",
            .enable = c->counter_enable,
            .port = c->counter_port,
            .max_connections = c->counter_max_connections,
            .buckets = c->counter_buckets,
            .interval_s = c->counter_stats_interval_s};
    return (struct live_service_settings){
        .name = "semaphore",
        .port_key = "semaphore.port",
        .enable_key = "semaphore.enable",
        .max_key = "semaphore.max_connections",
        .enable = c->semaphore_enable,
        .port = c->semaphore_port,
        .max_connections = c->semaphore_max_connections,
        .buckets = c->semaphore_buckets,
        .interval_s = c->semaphore_gc_interval_s};
}

/* ---- open and close ------------------------------------------------------ */

static int
open_kind(struct live_service *l, struct loop *loop,
          const struct config *config, enum live_kind kind, size_t connections)
{
    const struct live_service_settings s = live_service_settings(config, kind);
    const struct live_server_options options = {
        .kind = kind,
        .connections = connections,
        .slots = (size_t)(s.buckets + 1) / 2,
        .interval_s = (uint32_t)s.interval_s,
        .budget = &l->budget,
        .history = config->live_history};
    int rc;

    if (!s.enable)
        return 0;
    rc = live_server_init(&l->servers[kind], loop, &options);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc,
                   "%s: memory for %zu connections (lower counter.max_memory, "
                   "or raise ulimit -v)",
                   s.name, connections);
    l->on[kind] = rc == 0;
    return rc;
}

static int
open_history(struct live_service *l, struct loop *loop, struct logs *logs)
{
    struct live *lives[LIVE_TALLY_KINDS];
    int rc;

    for (int kind = 0; kind < LIVE_SERVICE_KINDS; kind++)
        lives[kind] = l->on[kind] ? &l->servers[kind].live : NULL;
    rc =
        live_tally_init(&l->history, loop, logs, lives, LIVE_TALLY_INTERVAL_MS);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "live.history");
    l->live_tally_on = rc == 0;
    return rc;
}

int
live_service_open(struct live_service *l, struct loop *loop, struct logs *logs,
                  const struct config *config,
                  const size_t connections[LIVE_SERVICE_KINDS])
{
    int rc = 0;

    *l = (struct live_service){.budget = {.max = config->counter_max_memory}};
    for (int kind = 0; rc == 0 && kind < LIVE_SERVICE_KINDS; kind++)
        rc =
            open_kind(l, loop, config, (enum live_kind)kind, connections[kind]);
    if (rc == 0 && config->live_history && (l->on[0] || l->on[1]))
        rc = open_history(l, loop, logs);
    if (rc < 0)
        live_service_close(l);
    return rc;
}

void
live_service_close(struct live_service *l)
{
    if (l->live_tally_on)
        live_tally_fini(&l->history);
    l->live_tally_on = false;
    for (int kind = 0; kind < LIVE_SERVICE_KINDS; kind++) {
        if (l->on[kind])
            live_server_fini(&l->servers[kind]);
        l->on[kind] = false;
    }
}

/* ---- serving ------------------------------------------------------------- */

/* Objects with unreported activity keep their memory and their names. */
static void
hurry_history(struct live_service *l)
{
    bool untold = l->budget.used > l->budget.max / 2;

    for (int kind = 0; kind < LIVE_SERVICE_KINDS; kind++)
        if (l->on[kind] && !l->servers[kind].live.sweeping)
            untold |= l->servers[kind].live.untold;
    if (untold)
        live_tally_hurry(&l->history);
}

static const struct live *
live_of(const struct live_service *l, enum live_kind kind)
{
    return &l->servers[kind].live; /* of nothing, when it is not on */
}

static void
tell_no_memory(struct live_service *l)
{
    static struct diag_repeat repeat;
    const struct live *counters = live_of(l, LIVE_COUNTER);
    const struct live *semaphores = live_of(l, LIVE_SEMAPHORE);
    const uint64_t no_memory =
        counters->figures.no_memory + semaphores->figures.no_memory;

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
    tell_no_memory(l);
    if (l->live_tally_on)
        hurry_history(l);
    return more;
}

void
live_service_ready(struct live_service *l)
{
    if (l->live_tally_on)
        live_tally_ready(&l->history);
}

void
live_service_finish(struct live_service *l, uint64_t patience_ms,
                    void (*finished)(void *ctx), void *ctx)
{
    if (!l->live_tally_on) {
        finished(ctx);
        return;
    }
    live_tally_stop(&l->history, patience_ms, finished, ctx);
}

/* ---- figures ------------------------------------------------------------- */

static void
print_kind(const struct live_server *s, const char *name)
{
    const struct live_server_figures *f = &s->figures;
    const struct live_figures *l = &s->live.figures;

    diag(DIAG_INFO,
         "%s: objects=%zu created=%llu idle=%zu memory=%llu no_memory=%llu "
         "open=%zu connections=%llu noop=%llu get=%llu acquire=%llu "
         "release=%llu stats=%llu dump=%llu "
         "sweeps=%llu last_sweep_us=%llu",
         name, s->live.count, (unsigned long long)l->created, s->live.idle,
         (unsigned long long)live_memory(&s->live),
         (unsigned long long)l->no_memory, s->listener->open,
         (unsigned long long)s->listener->figures.accepted,
         (unsigned long long)f->noop, (unsigned long long)f->get,
         (unsigned long long)f->acquire, (unsigned long long)f->release,
         (unsigned long long)f->stats, (unsigned long long)f->dump,
         (unsigned long long)l->swept, (unsigned long long)l->last_sweep_us);
}

void
live_service_print(const struct live_service *l)
{
    if (l->on[LIVE_COUNTER])
        print_kind(&l->servers[LIVE_COUNTER], "counter");
    if (l->on[LIVE_SEMAPHORE])
        print_kind(&l->servers[LIVE_SEMAPHORE], "semaphore");
    if (l->live_tally_on)
        diag(DIAG_INFO, "history: rounds=%llu increments=%llu waits=%llu",
             (unsigned long long)l->history.figures.rounds,
             (unsigned long long)l->history.figures.increments,
             (unsigned long long)l->history.figures.waits);
}

/* writer/live/live_server.c - see live_server.h: live_server_peer(),
 * live_server_turn(), live_service_open(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/live/live_server.h"

#include <assert.h>
#include <string.h>

#include "common/base/diag.h"
#include "writer/live/live_protocol.h"

/* Where memory for what waits is short, answers are made in pieces that may
 * use its reserve. */
#define SHORT_PIECE 2048
#define SHORT_ROOM  (SHORT_PIECE + LIVE_PROTOCOL_ANSWER)

/* Looks at the clock at least so often: it may have been set. */
#define SWEEP_WAIT_MAX_MS 60000

struct live_state {
    uint64_t began_s;
    uint32_t from;     /* where a Dump goes on */
    uint8_t opaque[4]; /* of it */
};
static_assert(sizeof(struct live_state) == 16, "idle connections are cheap");

static void
began(struct conn *c)
{
    const struct live_server *s = conn_ctx(c);
    struct live_state *state = conn_state(c);

    state->began_s = loop_now_ms(s->loop) / 1000;
}

bool
live_server_peer(const struct live_server *s, uint32_t holder,
                 char address[NET_ADDRESS_SIZE], uint32_t *age_s)
{
    struct conn *c = listener_open_conn(s->listener, holder);
    const struct live_state *state;

    if (c == NULL)
        return false;
    state = conn_state(c);
    conn_peer(c, address);
    *age_s = (uint32_t)(loop_now_ms(s->loop) / 1000 - state->began_s);
    return true;
}

/* Updates the window of the objects, once per turn. */
static void
update_window(struct live_server *s)
{
    const uint64_t unix_ms = loop_unix_ms(s->loop);

    if (unix_ms == s->clock_ms)
        return;
    s->clock_ms = unix_ms;
    (void)live_clock(&s->live, unix_ms); /* live_server_turn() asks, too */
}

/* ---- the protocol ------------------------------------------------------ */

/* Room for answers; how much of it to fill. */
static bool
find_space(struct conn *c, struct live_protocol *r)
{
    r->out = conn_space(c, LIVE_PROTOCOL_OUT_SIZE);
    r->piece = r->out ? LIVE_PROTOCOL_PIECE : SHORT_PIECE;
    if (!r->out)
        r->out = conn_space(c, SHORT_ROOM);
    return r->out != NULL;
}

static enum conn_next
begin_dump(struct conn *c, const uint8_t opaque[4])
{
    struct live_state *d = conn_state(c);

    d->from = 0;
    memcpy(d->opaque, opaque, sizeof d->opaque);
    return CONN_LONG;
}

static enum conn_next
take(struct conn *c, struct input *in)
{
    struct live_server *s = conn_ctx(c);
    struct live_protocol r = {.in = in->at, .in_size = in->size};
    enum live_protocol_stop stop;

    update_window(s);
    if (!find_space(c, &r))
        return CONN_FULL;
    stop = live_protocol_do(s, conn_number(c), &r);
    conn_put(c, r.out_size);
    in->at = r.in;
    in->size = r.in_size;
    in->need = r.need;
    in->skip += r.skip;
    switch (stop) {
    case LIVE_PROTOCOL_FULL:
        return CONN_FULL;
    case LIVE_PROTOCOL_DUMP:
        return begin_dump(c, r.dump);
    case LIVE_PROTOCOL_LONG:
        /* What the connection holds is released at once, so it does not linger
         * for its peer to read the answers. */
        (void)conn_refuse(c, "a body above 31457280 bytes");
        return CONN_END;
    case LIVE_PROTOCOL_MORE:
        break;
    }
    return CONN_NEED_INPUT;
}

static enum conn_next
more(struct conn *c)
{
    const struct live_server *s = conn_ctx(c);
    struct live_state *d = conn_state(c);
    struct live_protocol r = {.out = conn_space(c, LIVE_PROTOCOL_OUT_SIZE),
                              .piece = LIVE_PROTOCOL_PIECE};
    bool done;

    if (!r.out)
        return CONN_FULL;
    done = live_protocol_dump(s, &d->from, d->opaque, &r);
    conn_put(c, r.out_size);
    return done ? CONN_ANSWERED : CONN_LONG;
}

/* Releases what a closed connection holds; true when that was all. */
static bool
ended(struct conn *c)
{
    struct live_server *s = conn_ctx(c);

    return live_drop(&s->live, conn_number(c), LIVE_DROP_STEP);
}

const struct protocol live_protocol = {.state_size = sizeof(struct live_state),
                                       .flags = CONN_REFUSES_BROWSERS,
                                       .stop = STOP_CUT,
                                       .takes = "requests",
                                       .take = take,
                                       .more = more,
                                       .began = began,
                                       .ended = ended};

/* ---- sweeps ------------------------------------------------------------ */

/* Wakes the loop when the next sweep is due. */
static int
arm_sweep(struct live_server *s)
{
    const uint64_t interval_ms = (uint64_t)s->live.options.window_s * 1000;
    uint64_t wait_ms = interval_ms - loop_unix_ms(s->loop) % interval_ms;

    if (wait_ms > SWEEP_WAIT_MAX_MS)
        wait_ms = SWEEP_WAIT_MAX_MS;
    return loop_arm(s->loop, &s->sweep_timer, loop_now_ms(s->loop) + wait_ms);
}

static void
sweep_due(struct loop_timer *timer)
{
    /* The timer has just fired, so there is room for it. */
    (void)arm_sweep(LOOP_OWNER(timer, struct live_server, sweep_timer));
}

bool
live_server_turn(struct live_server *s)
{
    update_window(s);
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

    *s = (struct live_server){.loop = loop,
                              .sweep_timer = {.slot = -1, .due = sweep_due}};
    rc = live_init(&s->live, options);
    if (rc < 0)
        return rc;
    update_window(s);
    rc = arm_sweep(s);
    if (rc < 0)
        live_fini(&s->live);
    return rc;
}

void
live_server_fini(struct live_server *s)
{
    loop_disarm(s->loop, &s->sweep_timer);
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

static const struct live *
live_of(const struct live_service *l, enum live_kind kind)
{
    return &l->servers[kind].live; /* of nothing, when it is not on */
}

static void
report_no_memory(struct live_service *l)
{
    static struct diag_repeat repeat;
    const struct live *counters = live_of(l, LIVE_COUNTER);
    const struct live *semaphores = live_of(l, LIVE_SEMAPHORE);
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

/* tests/e2e/test_counter_model.c - random clients of live objects against a
 * model of them.
 *
 * The claim: what is taken of a name is at every moment the sum of what the
 * open connections hold of it, and nothing once they are gone, however they
 * went.  One connection at a time, every answer is foretold byte by byte; when
 * several race, the answers must fit each other.
 *
 * TEST_SEED repeats a run. */
#include "tests/lib/test.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/live_client.h"
#include "tests/lib/live_daemon.h"
#include "tests/lib/random.h"

#define NAMES         20
#define PEERS         40
#define RACERS        8
#define REQUESTS      48 /* of one pipeline */
#define STEPS         3000
#define LIMIT_MS      20000 /* of all steps */
#define WAIT_MS       20000
#define PIPELINE_SIZE ((size_t)1 << 20)

struct name {
    uint8_t bytes[LIVE_CLIENT_NAME_MAX];
    size_t size;
    uint32_t usual; /* maximum or initial value, where it must be one */
    /* What the server knows of it. */
    bool exists;
    uint64_t initial;             /* of a semaphore */
    uint64_t peak_low, peak_high; /* of a counter: its peak is between */
};

struct peer {
    bool open;
    struct live_client client;
    uint64_t held[NAMES];
};

/* The answer to one request. */
struct expected {
    uint8_t opcode;
    uint8_t status;
    bool has_value;
    uint32_t value;
    uint32_t opaque;
};

struct pipeline {
    uint8_t *bytes;
    size_t size;
    struct expected expected[REQUESTS];
    size_t count;
};

struct model {
    struct live_daemon *fixture;
    struct random random;
    bool semaphore;
    struct name names[NAMES];
    struct peer peers[PEERS];
    struct live_client observer;
    struct pipeline pipeline;
    uint32_t opaque;
};

/* ---- the model ---------------------------------------------------------- */

static uint64_t
sum(const struct model *m, unsigned n)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < PEERS; i++)
        if (m->peers[i].open)
            total += m->peers[i].held[n];
    return total;
}

/* What Get tells. */
static int64_t
value(const struct model *m, unsigned n)
{
    if (!m->names[n].exists)
        return -LIVE_CLIENT_NOT_FOUND;
    return (int64_t)(m->semaphore ? m->names[n].initial - sum(m, n)
                                  : sum(m, n));
}

static uint8_t
acquire(struct model *m, struct peer *p, unsigned n, uint32_t resources,
        uint32_t bound)
{
    struct name *name = &m->names[n];
    const uint64_t taken = sum(m, n) + resources;

    if (resources == 0 || resources > bound)
        return LIVE_CLIENT_INVALID;
    if (!name->exists) {
        name->exists = true;
        name->initial = bound;
        name->peak_low = name->peak_high = 0;
    }
    if (taken > (m->semaphore ? name->initial : bound))
        return LIVE_CLIENT_FULL;
    p->held[n] += resources;
    if (name->peak_low < taken)
        name->peak_low = taken;
    if (name->peak_high < taken)
        name->peak_high = taken;
    return LIVE_CLIENT_OK;
}

static uint8_t
release(struct model *m, struct peer *p, unsigned n, uint32_t resources)
{
    if (!m->names[n].exists)
        return LIVE_CLIENT_NOT_FOUND;
    if (resources > p->held[n])
        return LIVE_CLIENT_NOT_HELD;
    p->held[n] -= resources;
    return LIVE_CLIENT_OK;
}

static void
make_names(struct model *m)
{
    for (unsigned n = 0; n < NAMES; n++) {
        struct name *name = &m->names[n];

        name->size = n == 0   ? LIVE_CLIENT_NAME_MAX
                     : n == 1 ? 1
                              : 2 + random_below(&m->random, 40);
        name->usual = 1 + (uint32_t)random_below(&m->random, 30);
        for (size_t i = 0; i < name->size; i++)
            name->bytes[i] = (uint8_t)random_next(&m->random);
        name->bytes[0] = (uint8_t)n; /* no two are the same */
    }
}

static unsigned
any_name(struct model *m)
{
    /* The long one is slow. */
    return random_chance(&m->random, 2)
               ? 0
               : 1 + (unsigned)random_below(&m->random, NAMES - 1);
}

/* ---- pipelines ---------------------------------------------------------- */

static struct expected *
expect(struct model *m, uint8_t opcode, uint8_t status)
{
    struct pipeline *p = &m->pipeline;

    p->expected[p->count] = (struct expected){
        .opcode = opcode, .status = status, .opaque = ++m->opaque};
    return &p->expected[p->count++];
}

/* Surplus behind the request of `size` bytes: its new size. */
static size_t
add_surplus(struct model *m, uint8_t *at, size_t size)
{
    const size_t more = random_chance(&m->random, 90) ? 0
                        : random_chance(&m->random, 95)
                            ? random_below(&m->random, 300)
                            : random_below(&m->random, 200000);

    if (m->pipeline.size + size + more + LIVE_CLIENT_HEADER > PIPELINE_SIZE / 2)
        return size;
    memset(at + size, (int)random_below(&m->random, 256), more);
    put_be32(at + 4, (uint32_t)(size - LIVE_CLIENT_HEADER + more));
    return size + more;
}

static size_t
add_acquire(struct model *m, struct peer *p, uint8_t *at)
{
    const unsigned n = any_name(m);
    const uint32_t bound =
        random_chance(&m->random, 60) ? m->names[n].usual
        : random_chance(&m->random, 90)
            ? (uint32_t)random_below(&m->random, 40)
            : UINT32_MAX - (uint32_t)random_below(&m->random, 3);
    const uint32_t resources =
        random_chance(&m->random, 97)
            ? (uint32_t)random_below(&m->random, 4)
            : bound - (uint32_t)random_below(&m->random, 2);
    struct expected *e =
        expect(m, LIVE_CLIENT_ACQUIRE, acquire(m, p, n, resources, bound));

    e->has_value = true;
    e->value = resources;
    return live_client_put_acquire(at, e->opaque, m->names[n].bytes,
                                   m->names[n].size, resources, bound);
}

static size_t
add_release(struct model *m, struct peer *p, uint8_t *at)
{
    const unsigned n = any_name(m);
    const uint32_t resources =
        random_chance(&m->random, 30)
            ? (uint32_t)p->held[n] + (uint32_t)random_below(&m->random, 2)
            : (uint32_t)random_below(&m->random, 4);
    const struct expected *e =
        expect(m, LIVE_CLIENT_RELEASE, release(m, p, n, resources));

    return live_client_put_release(at, e->opaque, m->names[n].bytes,
                                   m->names[n].size, resources);
}

static size_t
add_get(struct model *m, uint8_t *at)
{
    const unsigned n = any_name(m);
    const int64_t now = value(m, n);
    struct expected *e =
        expect(m, LIVE_CLIENT_GET, now < 0 ? (uint8_t)-now : 0);

    e->has_value = true;
    e->value = (uint32_t)now;
    return live_client_put_get(at, e->opaque, m->names[n].bytes,
                               m->names[n].size);
}

/* What is not well formed, or does nothing. */
static size_t
add_other(struct model *m, uint8_t *at)
{
    uint8_t opcode = (uint8_t)random_below(&m->random, 4);
    const struct expected *e;
    size_t size;

    switch (random_below(&m->random, 4)) {
    case 0:
        e = expect(m, LIVE_CLIENT_NOOP, LIVE_CLIENT_OK);
        return add_surplus(
            m, at, live_client_put(at, LIVE_CLIENT_NOOP, e->opaque, NULL, 0));
    case 1: /* another magic */
        e = expect(m, opcode, LIVE_CLIENT_INVALID);
        size = live_client_put(at, opcode, e->opaque, NULL, 0);
        at[0] = (uint8_t)(0x91 + random_below(&m->random, 255));
        return add_surplus(m, at, size);
    case 2: /* another opcode */
        opcode = (uint8_t)(0x12 + random_below(&m->random, 0xee));
        e = expect(m, opcode, LIVE_CLIENT_UNKNOWN);
        return add_surplus(m, at,
                           live_client_put(at, opcode, e->opaque, NULL, 0));
    default: /* too short for a name */
        opcode = (uint8_t)(LIVE_CLIENT_GET + random_below(&m->random, 3));
        e = expect(m, opcode, LIVE_CLIENT_INVALID);
        return live_client_put(at, opcode, e->opaque, "\0\0\0\1\0\0\0\1\0",
                               random_below(&m->random, opcode == 1   ? 2
                                                        : opcode == 3 ? 6
                                                                      : 10));
    }
}

/* Up to `count` requests of one peer, done in the model. */
static void
make_pipeline(struct model *m, struct peer *p, size_t count)
{
    struct pipeline *l = &m->pipeline;

    l->size = l->count = 0;
    while (l->count < count && l->size < PIPELINE_SIZE / 4) {
        const uint64_t kind = random_below(&m->random, 100);
        uint8_t *at = l->bytes + l->size;

        if (kind < 45)
            l->size += add_surplus(m, at, add_acquire(m, p, at));
        else if (kind < 75)
            l->size += add_surplus(m, at, add_release(m, p, at));
        else if (kind < 90)
            l->size += add_surplus(m, at, add_get(m, at));
        else
            l->size += add_other(m, at);
    }
}

/* Sends it in up to four pieces. */
static void
send_pipeline(struct model *m, const struct peer *p)
{
    size_t at = 0, n;

    for (int cuts = (int)random_below(&m->random, 4); cuts > 0; cuts--) {
        n = random_below(&m->random, m->pipeline.size - at);
        live_client_send(&p->client, m->pipeline.bytes + at, n);
        at += n;
    }
    live_client_send(&p->client, m->pipeline.bytes + at, m->pipeline.size - at);
}

static void
read_pipeline(struct model *m, struct peer *p)
{
    for (size_t i = 0; i < m->pipeline.count; i++) {
        const struct expected *e = &m->pipeline.expected[i];

        if (e->has_value && e->status == LIVE_CLIENT_OK)
            live_client_expect_u32(&p->client, e->opcode, e->opaque, e->value);
        else
            live_client_expect(&p->client, e->opcode, e->opaque, e->status,
                               NULL, 0);
    }
}

/* ---- comparing ---------------------------------------------------------- */

/* Waits until what ended connections held is back; meanwhile no more than
 * that may come back. */
static void
settle(struct model *m)
{
    const uint64_t end_ms = clock_ms() + WAIT_MS * (uint64_t)test_slow();

    for (unsigned n = 0; n < NAMES; n++) {
        const struct name *name = &m->names[n];
        const int64_t want = value(m, n);

        for (;;) {
            const int64_t got =
                live_client_get_bytes(&m->observer, name->bytes, name->size);

            if (got == want)
                break;
            if (want < 0 || got < 0 || (m->semaphore ? got > want : got < want))
                fail_msg("name %u is at %lld, not at %lld", n, (long long)got,
                         (long long)want);
            if (clock_ms() > end_ms)
                fail_msg("name %u stays at %lld and does not become %lld", n,
                         (long long)got, (long long)want);
            (void)poll(NULL, 0, 1); /* cut short: an earlier look */
        }
    }
}

static void
compare_dump(struct model *m)
{
    struct live_client_dump dump;
    size_t exist = 0;

    live_client_dump(&m->observer, &dump);
    for (size_t i = 0; i < dump.count; i++) {
        const struct live_client_record *r = &dump.record[i];
        const struct name *name = &m->names[r->name[0] % NAMES];

        if (r->size != name->size ||
            memcmp(r->name, name->bytes, name->size) != 0 || !name->exists ||
            r->current != sum(m, r->name[0]) || r->maximum < name->peak_low ||
            r->maximum > name->peak_high)
            fail_msg("name %u is dumped as %u of %u; it is at %llu and was at "
                     "%llu to %llu",
                     r->name[0], r->current, r->maximum,
                     (unsigned long long)sum(m, r->name[0] % NAMES),
                     (unsigned long long)name->peak_low,
                     (unsigned long long)name->peak_high);
    }
    for (unsigned n = 0; n < NAMES; n++)
        exist += m->names[n].exists;
    /* As many as there are, and none twice. */
    assert_int_equal(dump.count, exist);
    live_client_dump_free(&dump);
}

/* The peers and the observer. */
static size_t
open_connections(const struct model *m)
{
    size_t open = 1;

    for (unsigned i = 0; i < PEERS; i++)
        open += m->peers[i].open;
    return open;
}

static void
compare(struct model *m)
{
    struct live_client_stats s;
    size_t exist = 0;

    settle(m);
    if (!m->semaphore)
        compare_dump(m);
    for (unsigned n = 0; n < NAMES; n++)
        exist += m->names[n].exists;
    live_client_await_stat(&m->observer, "curr_connections",
                           open_connections(m));
    live_client_stats(&m->observer, &s);
    assert_int_equal(live_client_stat(&s, "objects"), exist);
}

/* ---- steps -------------------------------------------------------------- */

static struct peer *
any_peer(struct model *m)
{
    struct peer *p = &m->peers[random_below(&m->random, PEERS)];

    if (!p->open) {
        memset(p->held, 0, sizeof p->held);
        live_client_open(&p->client, m->semaphore ? m->fixture->semaphore
                                                  : m->fixture->counter);
        p->open = true;
        /* The server must know of it before it can see it go. */
        live_client_noop(&p->client);
    }
    return p;
}

static void
talk(struct model *m)
{
    struct peer *p = any_peer(m);

    make_pipeline(m, p, 1 + random_below(&m->random, REQUESTS));
    send_pipeline(m, p);
    read_pipeline(m, p);
}

/* A peer ends with all its answers read. */
static void
leave(struct model *m)
{
    struct peer *p = any_peer(m);

    switch (random_below(&m->random, 4)) {
    case 0:
        live_client_close(&p->client);
        break;
    case 1:
        live_client_reset(&p->client);
        break;
    case 2: /* in the middle of a request, which is not done */
        make_pipeline(m, p, 0);
        (void)live_client_put_acquire(m->pipeline.bytes, 1, m->names[2].bytes,
                                      m->names[2].size, 1, UINT32_MAX);
        live_client_send(&p->client, m->pipeline.bytes,
                         LIVE_CLIENT_FIXED + m->names[2].size - 1);
        live_client_drop(&p->client);
        break;
    default: /* its answers come all the same */
        make_pipeline(m, p, 1 + random_below(&m->random, REQUESTS));
        send_pipeline(m, p);
        live_client_half_close(&p->client);
        read_pipeline(m, p);
        live_client_expect_end(&p->client);
        live_client_drop(&p->client);
    }
    p->open = false;
    settle(m);
}

/* A peer ends with requests under way: how many of them are done nobody
 * knows, and it does not matter. */
static void
vanish(struct model *m)
{
    struct peer *p = any_peer(m);
    struct pipeline *l = &m->pipeline;
    unsigned touched[REQUESTS];

    l->size = l->count = 0;
    for (size_t i = 0; i < REQUESTS; i++) {
        const unsigned n = touched[i] = any_name(m);
        struct name *name = &m->names[n];

        l->size +=
            live_client_put_acquire(l->bytes + l->size, (uint32_t)i,
                                    name->bytes, name->size, 1, name->usual);
        if (name->peak_high < name->usual)
            name->peak_high = name->usual;
    }
    send_pipeline(m, p);
    if (random_chance(&m->random, 50))
        live_client_reset(&p->client);
    else
        live_client_drop(&p->client);
    p->open = false;
    /* Once it is gone, what it created is there. */
    live_client_await_stat(&m->observer, "curr_connections",
                           open_connections(m));
    for (size_t i = 0; i < REQUESTS; i++) {
        struct name *name = &m->names[touched[i]];

        if (name->exists ||
            live_client_get_bytes(&m->observer, name->bytes, name->size) < 0)
            continue;
        name->exists = true;
        name->initial = name->usual;
        name->peak_low = 0;
        name->peak_high = name->usual;
    }
    settle(m);
}

/* Connections that only a killed process has. */
static void
get_killed(struct model *m)
{
    struct peer *victims[3];
    pid_t child;
    int status;

    for (int i = 0; i < 3; i++) {
        victims[i] = any_peer(m);
        make_pipeline(m, victims[i], 20);
        send_pipeline(m, victims[i]);
        read_pipeline(m, victims[i]);
    }
    (void)fflush(NULL); /* or the child would print it again */
    child = fork();
    assert_true(child >= 0);
    if (child == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        _exit(1);
    while (child == 0)
        (void)pause(); /* until it is killed */
    for (unsigned i = 0; i < PEERS; i++)
        if (m->peers[i].open) {
            const bool victim = &m->peers[i] == victims[0] ||
                                &m->peers[i] == victims[1] ||
                                &m->peers[i] == victims[2];

            if (victim)
                live_client_drop(&m->peers[i].client);
        }
    /* The child still has them. */
    settle(m);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    for (int i = 0; i < 3; i++)
        victims[i]->open = false;
    settle(m);
}

/* ---- races -------------------------------------------------------------- */

struct racer {
    struct peer *peer;
    uint32_t resources[REQUESTS]; /* acquired, or released when `give` */
    bool give[REQUESTS];
};

static void
send_race(struct model *m, struct racer *r, unsigned n)
{
    struct pipeline *l = &m->pipeline;
    const struct name *name = &m->names[n];

    l->size = l->count = 0;
    for (size_t i = 0; i < REQUESTS; i++) {
        r->give[i] = random_chance(&m->random, 40);
        r->resources[i] =
            1 + (uint32_t)random_below(&m->random, name->usual > 3 ? 3 : 1);
        l->size += r->give[i]
                       ? live_client_put_release(l->bytes + l->size,
                                                 (uint32_t)i, name->bytes,
                                                 name->size, r->resources[i])
                       : live_client_put_acquire(
                             l->bytes + l->size, (uint32_t)i, name->bytes,
                             name->size, r->resources[i], name->usual);
    }
    send_pipeline(m, r->peer);
}

/* Answers that fit what this racer holds. */
static void
read_race(struct racer *r, unsigned n)
{
    uint64_t *held = &r->peer->held[n];
    struct live_client_answer a;

    for (size_t i = 0; i < REQUESTS; i++) {
        live_client_read(&r->peer->client, &a);
        assert_int_equal(a.opaque, i);
        assert_int_equal(a.opcode, r->give[i] ? LIVE_CLIENT_RELEASE
                                              : LIVE_CLIENT_ACQUIRE);
        if (!r->give[i]) {
            assert_true(a.status == LIVE_CLIENT_OK ||
                        a.status == LIVE_CLIENT_FULL);
            if (a.status == LIVE_CLIENT_OK)
                *held += r->resources[i];
        } else if (r->resources[i] <= *held) {
            assert_int_equal(a.status, LIVE_CLIENT_OK);
            *held -= r->resources[i];
        } else {
            assert_true(a.status == LIVE_CLIENT_NOT_HELD ||
                        a.status == LIVE_CLIENT_NOT_FOUND);
        }
    }
}

static void
race(struct model *m)
{
    const unsigned n = 1 + (unsigned)random_below(&m->random, NAMES - 1);
    struct racer racers[RACERS];
    struct name *name = &m->names[n];
    const uint64_t before = sum(m, n);
    unsigned count = 0;

    for (unsigned i = 0; i < RACERS; i++) {
        struct peer *p = any_peer(m);
        bool in = false;

        for (unsigned k = 0; k < count; k++)
            in = in || racers[k].peer == p;
        if (!in)
            racers[count++].peer = p;
    }
    for (unsigned i = 0; i < count; i++)
        send_race(m, &racers[i], n);
    for (unsigned i = 0; i < count; i++)
        read_race(&racers[i], n);

    if (!name->exists &&
        live_client_get_bytes(&m->observer, name->bytes, name->size) >= 0) {
        name->exists = true;
        name->initial = name->usual;
        name->peak_low = 0;
        name->peak_high = 0;
    }
    /* A bound that was broken meanwhile shows in what is held at the end. */
    if (sum(m, n) > before)
        assert_true(sum(m, n) <= (m->semaphore ? name->initial : name->usual));
    if (name->peak_low < sum(m, n))
        name->peak_low = sum(m, n);
    if (name->peak_high < name->usual)
        name->peak_high = name->usual;
    settle(m);
}

/* ---- the runs ----------------------------------------------------------- */

static void
run(struct model *m)
{
    const uint64_t end_ms = clock_ms() + LIMIT_MS;
    unsigned step;

    for (step = 0; step < STEPS && clock_ms() < end_ms; step++) {
        const uint64_t kind = random_below(&m->random, 100);

        if (kind < 60)
            talk(m);
        else if (kind < 75)
            leave(m);
        else if (kind < 84)
            vanish(m);
        else if (kind < 96)
            race(m);
        else if (kind < 98)
            compare(m);
        else
            get_killed(m);
    }
    compare(m);
    print_message("%u steps\n", step);
}

static void
run_all(struct live_daemon *r, bool semaphore)
{
    static struct model m;

    memset(&m, 0, sizeof m);
    m.fixture = r;
    m.semaphore = semaphore;
    m.random.state = random_seed(semaphore ? "semaphores" : "counters");
    m.pipeline.bytes = malloc(PIPELINE_SIZE);
    assert_non_null(m.pipeline.bytes);
    make_names(&m);
    live_client_open(&m.observer, semaphore ? r->semaphore : r->counter);

    run(&m);

    for (unsigned i = 0; i < PEERS; i++)
        if (m.peers[i].open) {
            if (i % 2)
                live_client_reset(&m.peers[i].client);
            else
                live_client_close(&m.peers[i].client);
            m.peers[i].open = false;
        }
    /* Everybody has gone: nothing is held any more. */
    for (unsigned n = 0; n < NAMES; n++)
        assert_int_equal(sum(&m, n), 0);
    compare(&m);
    live_client_close(&m.observer);
    free(m.pipeline.bytes);
    live_daemon_stop(r);
}

#define CASE(name, r)                                                          \
    TEST_IN(name, struct live_daemon *r, live_daemon_setup,                    \
            live_daemon_teardown)

CASE(a_counter_is_the_sum_of_what_open_connections_hold, r)
{
    live_daemon_start(r, NULL);
    run_all(r, false);
}

CASE(a_semaphore_is_its_initial_value_less_what_they_hold, r)
{
    live_daemon_start(r, NULL);
    run_all(r, true);
}

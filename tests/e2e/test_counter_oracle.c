/* tests/e2e/test_counter_oracle.c - the same random requests to countd-write
 * and to yrmcds, where it is installed: the answers must be the same.
 *
 * Known deviations of yrmcds 1.1, in which its document or plain arithmetic
 * is on our side:
 *   - an unknown opcode comes back as 0x12               compared otherwise
 *   - Release of 0 by who holds nothing is refused       compared otherwise
 *   - consumption + resources is done in 32 bits, which can end the server:
 *     no sum here comes near                             avoided
 *   - a body above 30 MiB closes only once it has come   avoided
 *   - objects, used_memory and conflicts of Stats are those of its last
 *     collection                                         not compared
 *     (nor are Noop and Get: waiting asks each side as often as it needs)
 *   - what a reset connection held may take it a second  waited for
 *
 * TEST_SEED repeats a run. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/wire/frame.h"
#include "tests/lib/live_client.h"
#include "tests/lib/random.h"
#include "tests/lib/service.h"
#include "tests/lib/yrmcds.h"

#define NAMES    12
#define PEERS    10
#define REQUESTS 40
#define STEPS    500
#define LIMIT_MS 15000
#define WAIT_MS  20000

enum side { OURS, THEIRS, SIDES };

struct request {
    uint8_t opcode;
    uint32_t resources;
    int name; /* -1: none that is held */
};

struct oracle {
    struct yrmcds yrmcds;
    struct random random;
    uint16_t ports[SIDES];
    struct live_client peers[PEERS][SIDES];
    bool open[PEERS];
    uint64_t held[PEERS][NAMES]; /* as countd-write has answered */
    struct request requests[REQUESTS];
    uint8_t *bytes;
    size_t size;
};

static void
name_of(unsigned n, char name[16])
{
    (void)snprintf(name, 16, "oracle-%x", n * 77);
}

/* ---- requests ----------------------------------------------------------- */

/* What no client should send: any magic, opcode, size and body. */
static size_t
put_nonsense(struct oracle *o, struct request *r, uint32_t opaque, uint8_t *at)
{
    const size_t size = random_below(&o->random, 40);
    size_t i, end;

    end = live_client_put(at, (uint8_t)random_below(&o->random, 256), opaque,
                          NULL, 0);
    if (random_chance(&o->random, 40))
        at[1] = (uint8_t)(1 + random_below(&o->random, 3));
    r->opcode = at[1];
    r->name = -1;
    if (random_chance(&o->random, 30))
        at[0] = (uint8_t)random_below(&o->random, 256);
    at[2] = (uint8_t)random_below(&o->random, 256);
    if (at[1] == FRAME_WHO && at[2] == FRAME_WHO_FLAGS)
        at[2] = 0; /* countd's own */
    at[3] = (uint8_t)random_below(&o->random, 256);
    /* Small numbers, so that now and then it is a request after all; the name
     * is none of ours. */
    for (i = 0; i < size; i++)
        at[end + i] = i % 4 == 3 ? (uint8_t)random_below(&o->random, 9) : 0;
    put_be32(at + 4, (uint32_t)size);
    return end + size;
}

static size_t
put_request(struct oracle *o, struct request *r, uint32_t opaque, uint8_t *at)
{
    const uint64_t kind = random_below(&o->random, 100);
    const unsigned n = (unsigned)random_below(&o->random, NAMES);
    const uint32_t bound = random_chance(&o->random, 10)
                               ? UINT32_MAX
                               : (uint32_t)random_below(&o->random, 30);
    char name[16];
    size_t size;

    name_of(n, name);
    *r = (struct request){.name = (int)n,
                          .resources = (uint32_t)random_below(&o->random, 5)};
    if (kind < 45) {
        r->opcode = LIVE_CLIENT_ACQUIRE;
        size = live_client_put_acquire(at, opaque, name, strlen(name),
                                       r->resources, bound);
    } else if (kind < 75) {
        r->opcode = LIVE_CLIENT_RELEASE;
        size = live_client_put_release(at, opaque, name, strlen(name),
                                       r->resources);
    } else if (kind < 85) {
        r->opcode = LIVE_CLIENT_GET;
        size = live_client_put_get(at, opaque, name, strlen(name));
    } else {
        return put_nonsense(o, r, opaque, at);
    }
    if (random_chance(&o->random, 10)) {
        const size_t more = random_below(&o->random, 100);

        memset(at + size, 'x', more);
        put_be32(at + 4, (uint32_t)(size - LIVE_CLIENT_HEADER + more));
        size += more;
    }
    return size;
}

/* ---- comparing ---------------------------------------------------------- */

/* Makes their answer the right one where they are known to be wrong. */
static void
mend_answer(const struct request *r, uint64_t held, const uint8_t *request,
            struct live_client_answer *theirs)
{
    if (theirs->status == LIVE_CLIENT_UNKNOWN && theirs->opcode == 0x12)
        theirs->opcode = r->opcode;
    if (theirs->status == LIVE_CLIENT_NOT_HELD &&
        theirs->opcode == LIVE_CLIENT_RELEASE &&
        get_be32(request + LIVE_CLIENT_HEADER) == 0 && held == 0) {
        theirs->status = LIVE_CLIENT_OK;
        theirs->size = 0;
    }
}

static void
compare_one(struct oracle *o, unsigned p, size_t i, const uint8_t *request)
{
    const struct request *r = &o->requests[i];
    uint64_t *held = r->name < 0 ? NULL : &o->held[p][r->name];
    struct live_client_answer ours, theirs;

    live_client_read(&o->peers[p][OURS], &ours);
    live_client_read(&o->peers[p][THEIRS], &theirs);
    mend_answer(r, held ? *held : 0, request, &theirs);
    /* A dump has no order: here only the ends are compared. */
    if (ours.opcode == LIVE_CLIENT_DUMP && ours.status == LIVE_CLIENT_OK) {
        while (ours.size > 0)
            live_client_read(&o->peers[p][OURS], &ours);
        while (theirs.size > 0)
            live_client_read(&o->peers[p][THEIRS], &theirs);
    }
    if (ours.opcode != theirs.opcode || ours.status != theirs.status ||
        ours.opaque != theirs.opaque || ours.opaque != i ||
        (ours.opcode != LIVE_CLIENT_STATS &&
         (ours.size != theirs.size ||
          memcmp(ours.body, theirs.body, ours.size) != 0)))
        fail_msg("request %zu of peer %u, opcode %02x, name %d, resources %u: "
                 "we answer %02x %02x (%u bytes), they %02x %02x (%u bytes)",
                 i, p, r->opcode, r->name, r->resources, ours.opcode,
                 ours.status, ours.size, theirs.opcode, theirs.status,
                 theirs.size);
    if (held && ours.status == LIVE_CLIENT_OK &&
        r->opcode == LIVE_CLIENT_ACQUIRE)
        *held += r->resources;
    if (held && ours.status == LIVE_CLIENT_OK &&
        r->opcode == LIVE_CLIENT_RELEASE)
        *held -= r->resources;
}

static uint64_t
sum_held(const struct oracle *o, unsigned n)
{
    uint64_t total = 0;

    for (unsigned p = 0; p < PEERS; p++)
        total += o->open[p] ? o->held[p][n] : 0;
    return total;
}

static unsigned
any_peer(struct oracle *o)
{
    const unsigned p = (unsigned)random_below(&o->random, PEERS);

    if (!o->open[p]) {
        for (int s = 0; s < SIDES; s++)
            live_client_open(&o->peers[p][s], o->ports[s]);
        /* On a busy machine yrmcds may leave a request unread for ever. */
        o->peers[p][THEIRS].skips = "countd_write_and_yrmcds_answer_the_same";
        memset(o->held[p], 0, sizeof o->held[p]);
        o->open[p] = true;
    }
    return p;
}

/* Both at the sum of what is held, or both without the name. */
static void
settle_names(struct oracle *o)
{
    const uint64_t end_ms = test_deadline(WAIT_MS);
    const unsigned p = any_peer(o);
    char name[16];

    for (unsigned n = 0; n < NAMES; n++) {
        name_of(n, name);
        for (;;) {
            const int64_t want = (int64_t)sum_held(o, n);
            const int64_t ours = live_client_get(&o->peers[p][OURS], name);
            const int64_t theirs = live_client_get(&o->peers[p][THEIRS], name);

            if (ours == theirs &&
                (ours == want || (want == 0 && ours == -LIVE_CLIENT_NOT_FOUND)))
                break;
            if (clock_ms() > end_ms)
                fail_msg("%s: we have %lld, they %lld; %lld are held", name,
                         (long long)ours, (long long)theirs, (long long)want);
            (void)poll(NULL, 0, 2); /* cut short: an earlier look */
        }
    }
}

static void
compare_dumps(struct oracle *o)
{
    const unsigned p = any_peer(o);
    struct live_client_dump ours, theirs;

    live_client_dump(&o->peers[p][OURS], &ours);
    live_client_dump(&o->peers[p][THEIRS], &theirs);
    assert_int_equal(ours.count, theirs.count);
    for (size_t i = 0; i < ours.count; i++) {
        const struct live_client_record *a = &ours.record[i], *b = NULL;

        for (size_t k = 0; k < theirs.count; k++)
            if (theirs.record[k].size == a->size &&
                memcmp(theirs.record[k].name, a->name, a->size) == 0)
                b = &theirs.record[k];
        assert_non_null(b);
        if (a->current != b->current || a->maximum != b->maximum)
            fail_msg("%.*s: we dump %u of %u, they %u of %u", a->size,
                     (const char *)a->name, a->current, a->maximum, b->current,
                     b->maximum);
    }
    live_client_dump_free(&ours);
    live_client_dump_free(&theirs);
}

static void
compare_stats(struct oracle *o)
{
    static const char *const figures[] = {"total_objects", "command:acquire",
                                          "command:release", "command:dump"};
    const unsigned p = any_peer(o);
    struct live_client_stats ours, theirs;

    live_client_stats(&o->peers[p][OURS], &ours);
    live_client_stats(&o->peers[p][THEIRS], &theirs);
    assert_true(ours.count >= theirs.count);
    for (size_t i = 0; i < theirs.count; i++)
        assert_string_equal(ours.name[i], theirs.name[i]);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        if (live_client_stat(&ours, figures[i]) !=
            live_client_stat(&theirs, figures[i]))
            fail_msg("%s: we say %llu, they %llu", figures[i],
                     (unsigned long long)live_client_stat(&ours, figures[i]),
                     (unsigned long long)live_client_stat(&theirs, figures[i]));
    }
}

/* ---- the run ------------------------------------------------------------ */

static void
talk_to_both(struct oracle *o)
{
    const size_t count = 1 + random_below(&o->random, REQUESTS);
    const unsigned p = any_peer(o);
    size_t at[REQUESTS], cut;

    o->size = 0;
    for (size_t i = 0; i < count; i++) {
        at[i] = o->size;
        o->size +=
            put_request(o, &o->requests[i], (uint32_t)i, o->bytes + o->size);
    }
    cut = random_below(&o->random, o->size);
    for (int s = 0; s < SIDES; s++) {
        live_client_send(&o->peers[p][s], o->bytes, cut);
        live_client_send(&o->peers[p][s], o->bytes + cut, o->size - cut);
    }
    for (size_t i = 0; i < count; i++)
        compare_one(o, p, i, o->bytes + at[i]);
}

static void
leave_both(struct oracle *o)
{
    const unsigned p = any_peer(o);
    const uint64_t way = random_below(&o->random, 10);

    for (int s = 0; s < SIDES; s++) {
        struct live_client *t = &o->peers[p][s];

        if (way == 0) {
            live_client_reset(t);
        } else if (way < 4) {
            live_client_half_close(t);
            live_client_expect_end(t);
            live_client_drop(t);
        } else {
            live_client_close(t);
        }
    }
    o->open[p] = false;
    settle_names(o);
}

static struct oracle o;

static int
tear_down(void **state)
{
    yrmcds_end(&o.yrmcds);
    free(o.bytes);
    return service_teardown(state);
}

TEST_IN(peer_countd_write_and_yrmcds_answer_the_same, struct fleet *f,
        service_setup_live, tear_down)
{
    uint64_t end_ms;
    unsigned step;

    if (!yrmcds_installed())
        test_skip("yrmcds is not installed, nothing to compare with");
    o.random.state = random_seed("oracle");
    o.bytes = test_memory(malloc(REQUESTS * 256));
    fleet_start(f, FLEET_WRITE);
    yrmcds_start(&o.yrmcds, 1009);
    o.ports[OURS] = fleet_writer_port(f, "counter");
    o.ports[THEIRS] = o.yrmcds.port;

    end_ms = clock_ms() + LIMIT_MS;
    for (step = 0; step < STEPS && clock_ms() < end_ms; step++) {
        const uint64_t kind = random_below(&o.random, 100);

        if (kind < 85)
            talk_to_both(&o);
        else if (kind < 93)
            leave_both(&o);
        else if (kind < 97)
            compare_dumps(&o);
        else
            compare_stats(&o);
    }
    settle_names(&o);
    compare_dumps(&o);
    compare_stats(&o);
    print_message("%u steps\n", step);
    for (unsigned p = 0; p < PEERS; p++)
        for (int s = 0; s < SIDES && o.open[p]; s++)
            live_client_close(&o.peers[p][s]);
    assert_true(daemon_alive(&o.yrmcds.daemon));
    fleet_stop(f, FLEET_WRITE);
}

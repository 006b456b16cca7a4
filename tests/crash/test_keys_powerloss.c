/* tests/crash/test_keys_powerloss.c - the power goes at any moment while
 * clients count over HTTP with an Idempotency-Key each.  On each disk that may
 * be left, daemons start and all that was sent before is sent again: it is
 * counted exactly, whether it had been answered or not.
 *
 *     TEST_SEED, TEST_STATES (60), TEST_KEEP   as of test_powerloss
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/crash/count_fixture.h"

#include <poll.h>

#include "common/base/clock.h"
#include "tests/lib/powercut.h"

#define CLIENTS      4
#define REQUESTS_MAX 3000
#define LINES_MAX    20
#define STATES       60

struct request {
    int lines;
    uint64_t sent, answered; /* moments; 0: not yet */
};

struct run {
    struct tmpdir data;
    struct fleet fleet;
    struct powercut cut;
    struct sender senders[CLIENTS];
    struct request requests[REQUESTS_MAX];
    int count;
};

static void
set_options(struct fleet *f)
{
    fleet_options(f, "counter.enable=off", "http.listen=127.0.0.1:0");
    fleet_option(f, "log.size=32K"); /* 45 slots */
    fleet_options(f, "log.count=3", "log.merge_share=100", "count.wait=30s");
}

/* ---- requests ------------------------------------------------------------ */

static void
send_next(struct run *r, struct sender *s)
{
    if (s->request < 0) {
        assert_true(r->count < REQUESTS_MAX);
        s->request = r->count++;
        r->requests[s->request] = (struct request){
            .lines = 1 + (int)random_below(&r->cut.random, LINES_MAX),
            .sent = powercut_now(&r->cut)};
    }
    send_lines(s, s->request, r->requests[s->request].lines, true);
}

static void
count_for(struct run *r, uint64_t ms)
{
    const uint64_t until = clock_ms() + ms;
    const int most = r->count + 300; /* more only makes larger states */
    struct pollfd p[CLIENTS];

    for (size_t i = 0; i < CLIENTS; i++) {
        r->senders[i].fd = fleet_http(&r->fleet);
        send_next(r, &r->senders[i]);
    }
    while (clock_ms() < until && r->count < most) {
        for (size_t i = 0; i < CLIENTS; i++)
            p[i] = (struct pollfd){.fd = r->senders[i].fd, .events = POLLIN};
        (void)poll(p, CLIENTS, 10); /* EINTR: go on */
        for (size_t i = 0; i < CLIENTS; i++) {
            struct sender *s = &r->senders[i];
            const int rc = hear_answer(s);

            assert_true(rc >= 0);
            if (rc == 0)
                continue;
            r->requests[s->request].answered = powercut_now(&r->cut);
            s->request = -1;
            send_next(r, s);
        }
    }
}

static void
close_senders(struct run *r)
{
    for (size_t i = 0; i < CLIENTS; i++)
        client_close(r->senders[i].fd);
}

/* ---- recording ----------------------------------------------------------- */

static void
start_daemon(struct run *r, enum fleet_role role)
{
    static const unsigned delays[] = {0, 300, 3000};

    powercut_delay(&r->cut, delays[random_below(&r->cut.random, 3)]);
    fleet_start(&r->fleet, role);
}

static void
record_run(struct run *r)
{
    set_options(&r->fleet);
    powercut_record(&r->cut, &r->fleet, "calls");
    start_daemon(r, FLEET_WORKER);
    start_daemon(r, FLEET_WRITE);
    for (int i = 0; i < 5; i++) {
        count_for(r, 100);
        powercut_kill(&r->cut, fleet_daemon(&r->fleet, FLEET_WRITE));
        close_senders(r);
        if (i % 2 == 1) {
            powercut_kill(&r->cut, fleet_daemon(&r->fleet, FLEET_WORKER));
            start_daemon(r, FLEET_WORKER);
        }
        start_daemon(r, FLEET_WRITE);
    }
    count_for(r, 100);
    fleet_stop_all(&r->fleet);
    close_senders(r);
    powercut_load(&r->cut);
}

/* ---- states -------------------------------------------------------------- */

/* When some request was answered. */
static uint64_t
pick_promise(void *ctx)
{
    struct run *r = ctx;

    return r->requests[random_below(&r->cut.random, (uint64_t)r->count)]
        .answered;
}

/* Sends all again that was sent before the cut. */
static void
send_again(struct run *r, struct fleet *f, uint64_t cut)
{
    struct sender s = {.fd = fleet_http(f)};
    int rc;

    for (int i = 0; i < r->count; i++) {
        if (r->requests[i].sent >= cut)
            continue;
        send_lines(&s, i, r->requests[i].lines, true);
        do {
            struct pollfd p = {.fd = s.fd, .events = POLLIN};

            (void)poll(&p, 1, 1000); /* EINTR: go on */
            rc = hear_answer(&s);
        } while (rc == 0);
        assert_int_equal(rc, 1);
    }
    client_close(s.fd);
}

/* Compares the counts with what was sent; false: `why` says what differs. */
static bool
compare_counts(struct run *r, struct fleet *f, uint64_t cut, char *why,
               size_t size)
{
    static int64_t got[REQUESTS_MAX];

    fleet_start(f, FLEET_READ);
    read_counts(f, got, r->count);
    for (int i = 0; i < r->count; i++)
        if (r->requests[i].sent < cut && got[i] != r->requests[i].lines) {
            (void)snprintf(
                why, size, "request %d of %d lines, %s: counted %lld", i,
                r->requests[i].lines,
                r->requests[i].answered != 0 && r->requests[i].answered < cut
                    ? "answered"
                    : "not answered",
                (long long)got[i]);
            return false;
        }
    return true;
}

static bool
judge_state(void *ctx, const char *path, uint64_t cut, char *why, size_t size)
{
    struct run *r = ctx;
    struct fleet f;
    bool is_right;

    fleet_init_at(&f, path);
    set_options(&f);
    if (random_chance(&r->cut.random, 50)) {
        fleet_start(&f, FLEET_WORKER);
        fleet_start(&f, FLEET_WRITE);
    } else {
        fleet_start(&f, FLEET_WRITE);
        fleet_start(&f, FLEET_WORKER);
    }
    send_again(r, &f, cut);
    fleet_stop(&f, FLEET_WRITE);
    fleet_await_drained(&f, 30000);
    is_right = compare_counts(r, &f, cut, why, size);
    fleet_stop_all(&f);
    fleet_fini(&f);
    return is_right;
}

TEST(what_is_sent_again_after_a_power_loss_counts_exactly_once)
{
    static struct run r;

    memset(&r, 0, sizeof r);
    for (size_t i = 0; i < CLIENTS; i++)
        r.senders[i].request = -1;
    tmpdir_make_in_memory(&r.data);
    fleet_init_at(&r.fleet, r.data.path);
    powercut_begin(&r.cut, r.data.path, random_seed(__func__));
    record_run(&r);
    printf("%zu calls, %d requests\n", disk_count(r.cut.disk), r.count);
    (void)fflush(stdout); /* to be seen before a failure */
    powercut_try(&r.cut, random_times("TEST_STATES", STATES),
                 &(struct powercut_judge){pick_promise, judge_state, &r});
    fleet_fini(&r.fleet);
    powercut_end(&r.cut);
    tmpdir_remove(&r.data);
}

/* tests/crash/test_postgresql_outage.c - the database of two machines is stopped,
 * silent or slow for a while: increments are acknowledged all the time, a question
 * is answered or refused in time, what needs no database does not wait for it, the
 * worker says what is wrong, and then all counts are exact.
 *
 * As short as shows that by default; COUNTD_OUTAGE=SECONDS makes it last. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/lib/answer.h"
#include "tests/lib/client.h"
#include "tests/lib/pg_machines.h"
#include "tests/lib/pg_proxy.h"

#define TIMEOUT_S 2   /* store.timeout, for a test that is not slow */
#define DELAY_MS  200 /* of a slow database, for all that it is asked */
#define SHORT_MS  20  /* the same, where it is only to be seen */
#define PAUSE_MS  5   /* between two rounds of requests */
#define LOOK_MS   500 /* between two looks at what the worker says */
#define TIMES_MAX ((size_t)1 << 18)

/* How long each of many requests took, us. */
struct times {
    size_t count;
    uint32_t us[TIMES_MAX];
};

static struct times acks, others, questions;

static void
note_time(struct times *t, uint64_t since_ns)
{
    assert_true(t->count < TIMES_MAX);
    t->us[t->count++] = (uint32_t)((clock_ns() - since_ns) / 1000);
}

static int
compare_us(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Prints them, and fails the test if one took as long as this. */
static void
judge_times(struct times *t, const char *name, uint64_t limit_ms)
{
    const size_t n = t->count;

    assert_true(n > 0);
    qsort(t->us, n, sizeof t->us[0], compare_us);
    printf("    %-9s %6zu  p50 %8.2f  p99 %8.2f  longest %8.2f ms\n", name, n,
           t->us[n / 2] / 1e3, t->us[n - 1 - n / 100] / 1e3,
           t->us[n - 1] / 1e3);
    if (t->us[n - 1] / 1000 >= limit_ms)
        fail_msg("%s: one took %u ms", name, t->us[n - 1] / 1000);
    t->count = 0;
}

/* ---- questions -------------------------------------------------------------- */

enum port { RANGE, HTTP, RESP, PORTS };

/* One question at a time, at a port. */
struct asker {
    int fd; /* -1: none */
    bool is_asking;
    uint64_t since_ns;
    unsigned answers, refusals;
};

struct machine {
    struct fleet *f;
    int ack, http, resp; /* for what needs no database */
    struct asker askers[PORTS];
    int64_t counted;
};

static int
join_port(struct fleet *f, enum port port)
{
    return port == RANGE  ? client_connect(fleet_read_port(f))
           : port == HTTP ? answer_join(f)
                          : client_connect(daemon_port(
                                fleet_daemon(f, FLEET_READ), "resp"));
}

static void
ask_port(struct machine *m, enum port port)
{
    struct asker *a = &m->askers[port];
    uint8_t request[272];

    if (a->fd < 0)
        a->fd = join_port(m->f, port);
    a->is_asking = true;
    a->since_ns = clock_ns();
    if (port == RANGE)
        client_send(a->fd, request,
                    client_range_request(request, "words", 0, 10));
    else if (port == HTTP)
        answer_request(a->fd, "GET", "/v1/get?keyspace=words&key=the");
    else
        client_send(a->fd, "ZSCORE words the\r\n", 18);
}

static void
read_line(int fd, char *line, size_t size)
{
    size_t n = 0;

    do {
        assert_true(n + 1 < size);
        assert_int_equal(client_read(fd, line + n, 1), 1);
    } while (line[n++] != '\n');
    line[n] = '\0';
}

/* Whether the answer has counts; else it is a refusal, in the port's words. */
static bool
hear_counts(int fd, enum port port)
{
    static struct answer answer;
    struct client_rows rows;
    char line[600];

    if (port == RANGE) {
        client_reply(fd, &rows);
        client_rows_free(&rows);
        if (rows.rows < 0)
            assert_rc(rows.rows, -EHOSTDOWN);
        return rows.rows > 0;
    }
    if (port == HTTP) {
        answer_read(fd, &answer);
        if (answer.status != 200)
            assert_int_equal(answer.status, 503);
        return answer.status == 200;
    }
    read_line(fd, line, sizeof line);
    if (line[0] == '$')
        read_line(fd, line, sizeof line);
    else
        assert_has(line, "-TRYAGAIN ");
    return line[0] != '-';
}

static void
hear_port(struct machine *m, enum port port)
{
    struct asker *a = &m->askers[port];
    struct pollfd p = {.fd = a->fd, .events = POLLIN};

    if (poll(&p, 1, 0) == 0)
        return;
    if (hear_counts(a->fd, port)) {
        a->answers++;
    } else {
        a->refusals++;
        if (port == RANGE) { /* an error is the last answer there */
            client_close(a->fd);
            a->fd = -1;
        }
    }
    note_time(&questions, a->since_ns);
    a->is_asking = false;
}

/* ---- what needs no database -------------------------------------------------- */

static void
count_one(struct machine *m)
{
    const uint64_t since_ns = clock_ns();

    client_increment(m->ack, "words", "the", 1);
    client_wins(m->ack, 1);
    note_time(&acks, since_ns);
    m->counted++;
}

static void
ask_others(struct machine *m)
{
    static struct answer answer;
    uint64_t since_ns = clock_ns();
    char line[32];

    answer_request(m->http, "GET", "/healthz");
    answer_read(m->http, &answer);
    note_time(&others, since_ns);
    assert_int_equal(answer.status, 200);
    since_ns = clock_ns();
    client_send(m->resp, "PING\r\n", 6);
    read_line(m->resp, line, sizeof line);
    note_time(&others, since_ns);
    assert_string_equal(line, "+PONG\r\n");
}

/* ---- an outage ---------------------------------------------------------------- */

static void
start_machine(struct machine *m, struct fleet *f)
{
    char seconds[16];

    (void)snprintf(seconds, sizeof seconds, "%us", TIMEOUT_S * test_slow());
    fleet_put_option(f, "store.timeout", seconds);
    fleet_put_option(f, "log.rotate_after", "500ms");
    fleet_put_option(f, "read.http", "127.0.0.1:0");
    fleet_put_option(f, "resp.listen", "127.0.0.1:0");
    service_start(f);
    service_add(f, "words", "the", 1);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    *m = (struct machine){.f = f,
                          .ack = client_connect(fleet_ack_port(f)),
                          .http = join_port(f, HTTP),
                          .resp = join_port(f, RESP),
                          .counted = 1};
    for (int i = 0; i < PORTS; i++)
        m->askers[i].fd = -1;
}

/* Each machine's requests, once. */
static void
go_round(struct machine machines[2])
{
    for (struct machine *m = machines; m < machines + 2; m++) {
        count_one(m);
        ask_others(m);
        for (int i = 0; i < PORTS; i++) {
            if (!m->askers[i].is_asking)
                ask_port(m, (enum port)i);
            hear_port(m, (enum port)i);
        }
    }
    (void)poll(NULL, 0, PAUSE_MS); /* leaves the daemons some of the machine */
}

/* Whether each question had such an answer since `before`. */
static bool
all_had(const struct machine machines[2], bool refusals,
        struct asker before[2][PORTS])
{
    bool all = true;

    for (int i = 0; i < 2; i++)
        for (int k = 0; k < PORTS; k++) {
            const struct asker *a = &machines[i].askers[k];
            const struct asker *b = &before[i][k];

            all &=
                refusals ? a->refusals > b->refusals : a->answers > b->answers;
        }
    return all;
}

/* Goes on until each question had such an answer, both machines say what is
 * wrong, if they are to, and the time is over. */
static void
go_on(struct machine machines[2], bool refusals,
      bool (*is_said)(struct fleet *f), uint64_t at_least_ms)
{
    const uint64_t until = clock_ms() + at_least_ms;
    const uint64_t deadline = until + test_patience(30000);
    struct asker before[2][PORTS];
    uint64_t look_at = 0;
    bool said = is_said == NULL;

    for (int i = 0; i < 2; i++)
        memcpy(before[i], machines[i].askers, sizeof before[i]);
    while (clock_ms() < until || !said ||
           !all_had(machines, refusals, before)) {
        go_round(machines);
        if (!said && clock_ms() >= look_at) {
            said = is_said(machines[0].f) && is_said(machines[1].f);
            look_at = clock_ms() + LOOK_MS;
        }
        if (clock_ms() >= deadline)
            fail_msg("not all were %s, or status does not say why: %s",
                     refusals ? "refused" : "answered", text);
    }
}

static void
end_machines(struct machine machines[2])
{
    for (struct machine *m = machines; m < machines + 2; m++) {
        client_close(m->ack);
        client_close(m->http);
        client_close(m->resp);
        for (int i = 0; i < PORTS; i++)
            if (m->askers[i].fd >= 0)
                client_close(m->askers[i].fd);
        expect_text(FLEET_RUN(m->f, "flush", "--timeout", "60s"), 0, "");
    }
}

struct outage {
    const char *name;
    void (*begin)(void);
    void (*end)(void);
    bool refuses; /* questions are refused meanwhile, else answered */
    bool (*is_said)(struct fleet *f);
};

static void
count_through(struct pg_machines *x, const struct outage *o)
{
    const char *seconds = getenv("COUNTD_OUTAGE");
    const uint64_t at_least_ms =
        seconds ? strtoull(seconds, NULL, 10) * 1000 : 0;
    const uint64_t timeout_ms = 1000 * TIMEOUT_S * test_slow();
    static struct machine machines[2];
    uint64_t since_ms;
    char expected[32];

    for (int i = 0; i < 2; i++)
        start_machine(&machines[i], &x->fleets[i]);
    o->begin();
    since_ms = clock_ms();
    go_on(machines, o->refuses, o->is_said, at_least_ms);
    since_ms = clock_ms() - since_ms;
    o->end();
    printf("%s for %.1f s:\n", o->name, (double)since_ms / 1e3);
    judge_times(&acks, "acks", timeout_ms);
    judge_times(&others, "others", timeout_ms);
    judge_times(&questions, "questions",
                2 * timeout_ms); /* it, and a busy machine */
    since_ms = clock_ms();
    go_on(machines, false, NULL, 0);
    end_machines(machines);
    printf("    all was merged %.1f s after it\n",
           (double)(clock_ms() - since_ms) / 1e3);
    acks.count = others.count = questions.count = 0;

    (void)snprintf(expected, sizeof expected, "%" PRId64,
                   machines[0].counted + machines[1].counted);
    assert_string_equal(
        pg_server_run("SELECT n FROM @.counters WHERE keyspace = 'words'"),
        expected);
    for (int i = 0; i < 2; i++) {
        expect(FLEET_RUN(&x->fleets[i], "check"), 0, "");
        assert_true(fleet_logs_are_drained(&x->fleets[i]));
    }
}

/* In status, and in the worker's own words. */
static bool
is_down_said(struct fleet *f)
{
    (void)FLEET_RUN(f, "status"); /* 1: it needs an operator */
    return strstr(text, "! the database does not answer") &&
           strstr(daemon_text(fleet_daemon(f, FLEET_WORKER)),
                  "error: PostgreSQL: ");
}

PG_MACHINES(counting_goes_on_while_the_database_is_stopped, x)
{
    count_through(x, &(struct outage){"stopped", pg_server_stop,
                                      pg_server_start, true, is_down_said});
}

static void
be_silent(void)
{
    pg_server_hold(true);
}

static void
be_heard(void)
{
    pg_server_hold(false);
}

PG_MACHINES(counting_goes_on_while_the_database_is_silent, x)
{
    count_through(
        x, &(struct outage){"silent", be_silent, be_heard, true, is_down_said});
}

static struct pg_proxy proxy;

static void
be_slow(void)
{
    proxy.delay_ms = getenv("COUNTD_OUTAGE") ? DELAY_MS : SHORT_MS;
}

static void
be_quick(void)
{
    proxy.delay_ms = 0;
}

/* A figure: it is not so slow that it needs an operator. */
static bool
is_slowness_said(struct fleet *f)
{
    static const char name[] = "\"db_commit_ms\", \"value\": ";
    const char *at;

    (void)FLEET_RUN(f, "status", "--json"); /* looked at */
    at = strstr(text, name);
    return at && strtol(at + strlen(name), NULL, 10) >= proxy.delay_ms;
}

PG_MACHINES(counting_goes_on_while_the_database_is_slow, x)
{
    pg_proxy_start(&proxy);
    for (int i = 0; i < 2; i++)
        fleet_put_option(&x->fleets[i], "store.conninfo", proxy.conninfo);
    count_through(x, &(struct outage){"slow", be_slow, be_quick, false,
                                      is_slowness_said});
    for (int i = 0; i < 2; i++)
        fleet_stop_all(&x->fleets[i]);
    pg_proxy_stop(&proxy);
}

/* tests/bench/bench_http.c - HTTP of countd-write and countd-read, each answer
 * beside a server that sends the same bytes to every request.
 *
 *   bench_http [--quick] [--row N]
 *
 *   /fetch          sequence numbers
 *   durable /apply  beside a server that writes 24 bytes for each request and
 *                   syncs once for all that had come; also while 200
 *                   connections send silent increments as fast as they are
 *                   taken, which that server writes to a file
 *   HTTP count      requests of one increment, beside a server that writes and
 *                   syncs so, and durable /apply; with an Idempotency-Key in
 *                   each request, beside the same without
 *   HTTP            what is read of 1000 keys, the page, and what Grafana asks of
 *                   100,000 keys, 10 of which were counted in each minute
 *
 * The sides of a row take turns, so that what else the machine does meets all;
 * times are those of single requests. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/bench/http_load.h"
#include "tests/bench/messages.h"
#include "tests/lib/client.h"
#include "tests/lib/engines.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"
#include "tests/lib/stored.h"

#define ANSWER_MAX ((size_t)512 << 10)
#define LINE       "bench\tkey-00000001\t000000000001\n"
#define LINES_MAX  1000
#define SENDERS    200
#define SLOT       544 /* bytes of a log */
#define RECORD     24  /* of the journal of quotas */
#define COUNT_TYPE "Content-Type: text/tab-separated-values\r\n"

enum side { COUNTD, FIXED, OTHER, SIDES };

static struct row {
    const char *name, *target;
    unsigned conns, depth;
    bool close;
    enum fleet_role role; /* that answers */
    bool is_known;        /* the client has the answer already: 304 */
    bool senders;
    const char *headers;
    unsigned lines; /* of a POST that counts */
    size_t slot;    /* bytes written for a request; 0: nothing is synced */
    const char *other;
} rows[] = {
    {"/fetch, 50 connections", "/fetch", .conns = 50},
    {"/fetch, 50 connections, depth 16", "/fetch", .depth = 16},
    {"/fetch, 8 connections, depth 64", "/fetch", .conns = 8, .depth = 64},
    {"/fetch, a new connection for each request, 50 at once", "/fetch",
     .close = true},
    {"/fetch, 1000 connections opened at once", "/fetch", .conns = 1000},
    {"durable /apply, 50 x 16", "/apply?amt=1", .depth = 16, .slot = RECORD},
    {"durable /apply, 50 x 16, beside 200 silent senders", "/apply?amt=1",
     .depth = 16, .slot = RECORD, .senders = true},
    {"durable /apply, 50 x 1", "/apply?amt=1", .slot = RECORD},
    {"durable /apply, 1 x 1", "/apply?amt=1", .conns = 1, .slot = RECORD},
    {"HTTP count of 1, 50 x 1", "/v1/count", .lines = 1, .slot = SLOT},
    {"HTTP count of 1, 50 x 16", "/v1/count", .lines = 1, .depth = 16,
     .slot = SLOT, .other = "durable /apply"},
    {"HTTP count with keys, 1 line, 50 connections", "/v1/count", .lines = 1,
     .other = "without keys"},
    {"HTTP count with keys, 100 lines, 8 connections", "/v1/count", .conns = 8,
     .lines = 100, .other = "without keys"},
    {"HTTP count with keys, 1000 lines, 8 connections", "/v1/count", .conns = 8,
     .lines = 1000, .other = "without keys"},
    {"HTTP, one count", "/v1/get?keyspace=pages&key=/1", .role = FLEET_READ},
    {"HTTP, the 100 largest", "/v1/top?keyspace=pages&n=100",
     .role = FLEET_READ},
    {"HTTP, the same, not changed (304)", "/v1/top?keyspace=pages&n=100",
     .role = FLEET_READ, .is_known = true},
    {"HTTP, /metrics of three processes", "/metrics", .role = FLEET_READ},
    {"HTTP, the page, packed", "/", .role = FLEET_READ,
     .headers = "Accept-Encoding: gzip\r\n"},
    {"Grafana, 10 series, 24 h by minute",
     "/render?target=web.hits.*&from=-24h", .role = FLEET_READ, .conns = 1},
    {"Grafana, the same, 300 points each",
     "/render?target=web.hits.*&from=-24h&maxDataPoints=300",
     .role = FLEET_READ, .conns = 1},
    {"Grafana, their sum",
     "/render?target=sumSeries(web.hits.*)&from=-24h&maxDataPoints=300",
     .role = FLEET_READ, .conns = 1},
    {"Grafana, topKeys of 10",
     "/render?target=topKeys('web',10)&from=-24h&maxDataPoints=300",
     .role = FLEET_READ, .conns = 1},
    {"Grafana, 1000 nodes of 100,000", "/metrics/find?query=web.page.000*",
     .role = FLEET_READ, .conns = 1},
};

#define ROWS (sizeof rows / sizeof rows[0])

static struct fleet *fleet;
static bool is_quick;

/* ---- what is read -------------------------------------------------------- */

#define SERIES   10
#define OTHERS   100000
#define MINUTES  1440
#define KEY_SIZE 24

static int
compare_deltas(const void *a, const void *b)
{
    const struct store_delta *x = a, *y = b;
    const int order = memcmp(x->key, y->key, KEY_SIZE);

    return order != 0 ? order
                      : (x->minute > y->minute) - (x->minute < y->minute);
}

/* The keyspace "web", as merges would have filled it. */
static void
fill_web(void)
{
    static char keys[SERIES + OTHERS][48];
    static struct store_delta deltas[SERIES * MINUTES + OTHERS];
    const uint32_t now = (uint32_t)(clock_unix_ms() / 60000);
    const struct store_maintenance forever = {.until_ns = UINT64_MAX};
    struct stored_dir s;
    size_t count = 0;

    for (uint32_t i = 0; i < SERIES + OTHERS; i++) {
        const bool is_series = i < SERIES;

        (void)snprintf(keys[i], sizeof keys[i],
                       is_series ? "hits.%019u" : "page.%06u.aaaaaaaaaaaa",
                       is_series ? i : i - SERIES);
        for (uint32_t m = 0; m < (is_series ? MINUTES : 1); m++)
            deltas[count++] =
                stored_delta(keys[i], KEY_SIZE, now - m, 1000 + m % 97);
    }
    qsort(deltas, count, sizeof deltas[0], compare_deltas);
    stored_write(&s, fleet->path, ENGINE_TIERS);
    assert_rc(stored_apply(s.store, "web", NULL, deltas, count), 0);
    while (store_maintain(s.store, &forever))
        continue;
    stored_close(&s);
}

/* The keyspace "pages". */
static void
count_pages(void)
{
    const int fd = client_connect(fleet_ack_port(fleet));
    char key[32];

    for (int i = 0; i < 1000; i++) {
        (void)snprintf(key, sizeof key, "/%d", i);
        client_increment(fd, "pages", key, 1000 + i);
    }
    client_wins(fd, 1000);
    client_close(fd);
    expect_text(FLEET_RUN(fleet, "flush"), 0, "");
}

/* ---- a row --------------------------------------------------------------- */

/* Asks once: the bytes of the answer. */
static size_t
probe_answer(const struct http_load *l, uint16_t port, char *answer)
{
    const int fd = client_connect(port);
    size_t size = 0;
    long n = 0;

    http_load_send(l, port, fd);
    do {
        size += (size_t)n;
        n = client_try_read(fd, answer + size, ANSWER_MAX - size,
                            size == 0 ? 5000 : 200);
    } while (n > 0);
    client_close(fd);
    assert_true(size > 0);
    answer[size] = '\0';
    return size;
}

static void
make_loads(const struct row *r, struct http_load loads[SIDES])
{
    static char lines[sizeof LINE * LINES_MAX];
    char *end = lines;

    for (unsigned i = 0; i < r->lines; i++)
        end = stpcpy(end, LINE);
    for (int i = 0; i < SIDES; i++)
        loads[i] = (struct http_load){.target = r->target,
                                      .headers = r->lines > 0 ? COUNT_TYPE
                                                              : r->headers,
                                      .body = r->lines > 0  ? lines
                                              : r->slot > 0 ? ""
                                                            : NULL,
                                      .conns = r->conns > 0 ? r->conns : 50,
                                      .depth = r->depth > 0 ? r->depth : 1,
                                      .close = r->close,
                                      .ms = is_quick ? 100 : 400};
    if (r->other && r->slot == 0) {
        loads[COUNTD].keyed = true;
    } else if (r->other) {
        loads[OTHER].target = "/apply?amt=1";
        loads[OTHER].headers = NULL;
        loads[OTHER].body = "";
    }
}

/* A server that answers as countd does; 0: there is none. */
static pid_t
start_fixed(const struct row *r, struct http_load *l, uint16_t port,
            const char *folder, uint16_t ports[2])
{
    static char answer[ANSWER_MAX + 1], known[256];
    const char *tag;
    size_t size;

    if (r->other && r->slot == 0)
        return 0;
    size = probe_answer(l, port, answer);
    if (r->is_known) {
        tag = strstr(answer, "ETag: ");
        assert_non_null(tag);
        (void)snprintf(known, sizeof known, "If-None-Match: %.*s\r\n",
                       (int)strcspn(tag + 6, "\r"), tag + 6);
        l->headers = known;
        size = probe_answer(l, port, answer);
    }
    printf("%zu bytes: ", size);
    return http_ceiling_start(ports, answer, size, folder, r->slot);
}

/* With senders to a silent port, or (0) without. */
static void
run_side(const struct http_load *l, uint16_t port, uint16_t silent_port,
         struct figures *f)
{
    const pid_t sender = silent_port > 0 ? bench_fork() : -1;

    if (sender == 0)
        (void)messages_silent(silent_port, SENDERS, 0);
    http_load_run(l, port, f);
    if (sender > 0)
        bench_kill(sender);
}

static void
measure_row(const struct row *r)
{
    const char *const names[SIDES] = {
        "countd", r->slot > 0 ? "fixed reply, synced" : "fixed reply",
        r->other};
    const struct table rates = {names, SIDES, "k/s", 1e-3};
    const struct table times = {names, SIDES, "us", 1};
    const struct daemon *d = fleet_daemon(fleet, r->role);
    const uint16_t port =
        daemon_port(d, r->role == FLEET_READ ? "read-http" : "http");
    uint16_t fixed[2] = {0}, ports[SIDES], silent[SIDES] = {0};
    struct figures f[SIDES] = {{.value = {.count = 0}}};
    struct figures p99[SIDES] = {{.value = {.count = 0}}};
    struct http_load loads[SIDES];
    struct tmpdir dir;
    char name[80];
    pid_t pid;

    tmpdir_make(&dir);
    make_loads(r, loads);
    pid = start_fixed(r, &loads[COUNTD], port, dir.path, fixed);
    loads[FIXED].headers = loads[COUNTD].headers;
    ports[COUNTD] = ports[OTHER] = port;
    ports[FIXED] = fixed[0];
    if (r->senders) {
        silent[COUNTD] = daemon_port(d, "silent");
        silent[FIXED] = fixed[1];
    }
    for (int round = 0; round < (is_quick ? 3 : 7); round++)
        for (int i = 0; i < SIDES; i++)
            if (i == OTHER ? r->other != NULL : ports[i] > 0)
                run_side(&loads[i], ports[i], silent[i], &f[i]);
    figures_report(r->name, &rates, f);
    for (int i = 0; i < SIDES && r->slot > 0; i++)
        p99[i].value = f[i].p99;
    (void)snprintf(name, sizeof name, "%s, p99", r->name);
    if (r->slot > 0)
        figures_report(name, &times, p99);
    if (pid > 0)
        bench_kill(pid);
    tmpdir_remove(&dir);
}

int
main(int argc, char **argv)
{
    uint64_t only;

    is_quick = bench_begin(argc, argv);
    only = bench_number("--row", 0);
    assert_int_equal(service_setup((void **)&fleet), 0);
    fleet_options(fleet, "counter.enable=off", "http.listen=127.0.0.1:0",
                  "read.http=127.0.0.1:0", "sequence.enable=true",
                  "sequence.reserve=2", "sequence.server_no=1",
                  "quota.enable=on", "quota.limit=1000000000000",
                  "count.wait=60s", "log.size=32M", "log.rotate_after=1s");
    fill_web();
    service_start(fleet);
    await_logs(fleet->path, 4);
    count_pages();
    for (size_t i = 0; i < ROWS; i++)
        if (only == 0 || only == i + 1)
            measure_row(&rows[i]);
    fleet_stop_all(fleet);
    return service_teardown((void **)&fleet);
}

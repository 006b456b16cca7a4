/* tests/bench/bench_long.c - how long short requests to countd-read take beside
 * long questions, and how much a keyspace's file grows while one is read.
 *
 *     bench_long [--quick] [--keys N]
 *
 * A keyspace of N keys (200,000; 50,000 with --quick) has counts in each of 30
 * days.  A range of 10 rows, /v1/get and ZSCORE are asked by 4 connections, a
 * request at a time: alone, then beside 20 connections that ask long questions,
 * each again as soon as it is answered.  A refusal ends the bench,
 * so none is measured.
 *
 * Then a tenth of the keys, at random, is merged five times a second, as it was
 * for each day, for 10 s (3 with --quick): while one question reads the keyspace
 * through all that time, and as often beside short questions. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "common/wire/query.h"
#include "tests/bench/batch.h"
#include "tests/bench/bench.h"
#include "tests/bench/http_load.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"
#include "tests/lib/stored.h"

#define CONNS    4
#define ROWS     10
#define DAYS     30
#define TIERS    "1m:2d,1h:90d,1d:10y"
#define MERGES_S 5 /* a second */
#define GOAL_MS  5.0
#define TARGETS  1000 /* of the question that does not end, at most */
#define KEY      "page.000000000000021"

enum port { RANGES, HTTP, RESP, PORTS };

/* Long ones: a target of HTTP, or commands; the PONG is the end of an answer.
 */
static const struct question {
    const char *title, *text;
    enum port port;
    unsigned conns;
} questions[] = {
    {"series of a pattern",
     "/render?target=sumSeries(board.page.*5*4*3*2*1*)&from=-1h", HTTP, 4},
    {"series of a regular expression",
     "/render?target=grep(board.page.*5*4*3*2*,%22%5B13%5D%2B5.*4%22)&from=-1h",
     HTTP, 4},
    {"names of a pattern", "/metrics/find?query=board.page.*5*4*3*2*1*", HTTP,
     4},
    {"the top of 30 days", "/v1/top?keyspace=board&n=10&from=-30d", HTTP, 4},
    {"ZREVRANGE of 30 days",
     "*4\r\n$9\r\nZREVRANGE\r\n$9\r\nboard@30d\r\n$1\r\n0\r\n$1\r\n9\r\n"
     "PING\r\n",
     RESP, 4},
};

#define HTTP_CONNS 16 /* the sums of `conns` */
#define RESP_CONNS 4
#define QUESTIONS  (sizeof questions / sizeof questions[0])

/* Answers to long questions; shared with the askers. */
static atomic_ulong *answered;

static struct batch batch;
static uint64_t keys;

/* ---- the keyspace -------------------------------------------------------- */

static void
apply_batch(struct store *s)
{
    assert_rc(stored_apply(s, "board", NULL, batch.deltas, batch.count), 0);
}

/* All keys once, and a tenth of them in each day. */
static void
fill_keyspace(const struct fleet *f)
{
    const struct store_maintenance forever = {.until_ns = UINT64_MAX};
    const uint32_t now = (uint32_t)(clock_unix_ms() / 60000);
    struct stored_dir s;

    stored_write(&s, f->path, TIERS);
    batch.random = (struct random){1};
    for (uint32_t day = DAYS; day-- > 0;) {
        batch.minute = now - day * 1440;
        if (day == DAYS - 1)
            batch_put_sequence(&batch, 0, keys);
        else
            batch_put_random(&batch, keys / 10, keys, 1000);
        apply_batch(s.store);
    }
    while (store_maintain(s.store, &forever))
        continue;
    stored_close(&s);
}

/* A directory with the keyspace, and countd-read on it. */
static void
start_reader(struct fleet *f, uint16_t ports[PORTS])
{
    const struct daemon *d = fleet_daemon(f, FLEET_READ);

    fleet_init(f);
    fleet_options(f, "read.http=127.0.0.1:0", "resp.listen=127.0.0.1:0",
                  "read.max_time=1m");
    fill_keyspace(f);
    fleet_start(f, FLEET_READ);
    ports[RANGES] = fleet_read_port(f);
    ports[HTTP] = daemon_port(d, "read-http");
    ports[RESP] = daemon_port(d, "resp");
}

/* ---- requests ------------------------------------------------------------ */

static size_t
put_text(const char *text, enum port port, uint8_t *to)
{
    if (port == RESP)
        return (size_t)sprintf((char *)to, "%s", text);
    return (size_t)sprintf((char *)to,
                           "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", text);
}

/* What the connections of a load ask: the questions of a port, or one alone. */
struct asking {
    enum port port;
    const struct question *alone;
};

static size_t
put_question(const struct load *l, unsigned conn, uint64_t sent, uint8_t *to)
{
    const struct asking *a = l->ctx;
    const struct question *q = a->alone ? a->alone : questions;

    (void)sent; /* the same again */
    for (; q->port != a->port || conn >= q->conns; q++)
        if (q->port == a->port)
            conn -= q->conns;
    return put_text(q->text, a->port, to);
}

/* Whole answers, which must be successes; a connection has one question under
 * way. */
static size_t
take_http(const struct load *l, const uint8_t *in, size_t have,
          uint64_t *answers)
{
    const size_t used = http_load_take(l, in, have, answers);

    atomic_fetch_add(answered, used > 0);
    return used;
}

static size_t
take_resp(const struct load *l, const uint8_t *in, size_t have,
          uint64_t *answers)
{
    static const char end[] = "+PONG\r\n";
    const size_t size = sizeof end - 1;

    (void)l; /* all are alike */
    if (have < size || memcmp(in + have - size, end, size) != 0)
        return 0;
    if (in[0] != '*')
        fail_msg("answered: %.*s", (int)have, (const char *)in);
    atomic_fetch_add(answered, 1);
    (*answers)++;
    return have;
}

/* Asks on `conns` connections; questions a second. */
static double
ask_questions(const struct asking *a, uint16_t port, unsigned conns,
              uint64_t count)
{
    static struct times times;
    const struct load load = {.conns = conns,
                              .depth = 1,
                              .count = count,
                              .put = put_question,
                              .request_max = 512,
                              .take = a->port == RESP ? take_resp : take_http,
                              .ctx = a};

    return load_run(&load, port, &times);
}

/* A process that asks the first `conns` questions of a port until it is
 * killed. */
static pid_t
start_asking(enum port port, uint16_t number, unsigned conns)
{
    const struct asking a = {.port = port};
    const pid_t pid = bench_fork();

    if (pid != 0)
        return pid;
    (void)ask_questions(&a, number, conns, UINT64_MAX);
    _exit(1);
}

/* It must still ask: what it was answered was as it should be. */
static void
end_asking(pid_t pid)
{
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    bench_kill(pid);
}

/* ---- short requests ------------------------------------------------------ */

static struct short_one {
    const char *row;
    enum port port;
    uint8_t request[512];
    size_t size, reply_size; /* learnt, of a range */
    struct figures alone, beside;
} shorts[] = {{.row = "a range", .port = RANGES},
              {.row = "/v1/get", .port = HTTP},
              {.row = "ZSCORE", .port = RESP}};

#define SHORTS (sizeof shorts / sizeof shorts[0])

static size_t
take_short(const struct load *l, const uint8_t *in, size_t have,
           uint64_t *answers)
{
    const struct short_one *s = l->ctx;

    if (s->port == HTTP)
        return http_load_take(l, in, have, answers);
    if (s->port == RESP) {
        assert_int_equal(in[0], '$');
        if (in[have - 1] != '\n' || !memchr(in, '\n', have - 1))
            return 0; /* two lines */
        (*answers)++;
        return have;
    }
    return load_take_same(l, in, have, answers);
}

static void
learn_shorts(const uint16_t ports[PORTS])
{
    const int fd = client_connect(ports[RANGES]);
    struct client_rows rows;

    client_range(fd, "board", 0, ROWS, &rows);
    assert_int_equal(rows.rows, ROWS);
    shorts[0].reply_size = QUERY_REPLY_SIZE + (size_t)rows.size;
    shorts[0].size = client_range_request(shorts[0].request, "board", 0, ROWS);
    client_rows_free(&rows);
    client_close(fd);
    shorts[1].size =
        put_text("/v1/get?keyspace=board&key=" KEY, HTTP, shorts[1].request);
    shorts[2].size =
        put_text("*3\r\n$6\r\nZSCORE\r\n$5\r\nboard\r\n$20\r\n" KEY "\r\n",
                 RESP, shorts[2].request);
}

static void
run_shorts(const uint16_t ports[PORTS], bool beside, uint64_t ms)
{
    static struct times times;

    for (size_t i = 0; i < SHORTS; i++) {
        struct short_one *s = &shorts[i];
        const struct load load = {.conns = CONNS,
                                  .depth = 1,
                                  .ms = ms,
                                  .put = load_put_same,
                                  .request = s->request,
                                  .request_max = s->size,
                                  .take = take_short,
                                  .reply_size = s->reply_size,
                                  .ctx = s};
        const double rate = load_run(&load, ports[s->port], &times);

        figures_add(beside ? &s->beside : &s->alone, rate, &times);
    }
}

/* Each question alone: the second time, when its pages are in memory. */
static void
print_questions(const uint16_t ports[PORTS])
{
    for (const struct question *q = questions; q < questions + QUESTIONS; q++) {
        const struct asking a = {q->port, q};

        (void)ask_questions(&a, ports[q->port], 1, 1);
        (void)printf("%u x %-31s %7.1f ms alone\n", q->conns, q->title,
                     1e3 / ask_questions(&a, ports[q->port], 1, 1));
    }
}

static void
print_shorts(void)
{
    for (size_t i = 0; i < SHORTS; i++) {
        const struct short_one *s = &shorts[i];
        const double p99_ms = series_median(&s->beside.p99) / 1e3;
        char row[64];

        (void)printf("%-8s p50 and p99 alone %.2f, %.2f ms; beside 20 long "
                     "questions %.2f, %.2f ms (%.2f..%.2f)\n",
                     s->row, series_median(&s->alone.p50) / 1e3,
                     series_median(&s->alone.p99) / 1e3,
                     series_median(&s->beside.p50) / 1e3, p99_ms,
                     series_min(&s->beside.p99) / 1e3,
                     series_max(&s->beside.p99) / 1e3);
        (void)snprintf(row, sizeof row, "%s beside long questions, p99",
                       s->row);
        report_row(row, "ms", p99_ms, "5 ms", GOAL_MS, p99_ms / GOAL_MS);
    }
}

static void
measure_shorts(size_t rounds, uint64_t ms)
{
    uint16_t ports[PORTS];
    struct fleet f;

    start_reader(&f, ports);
    learn_shorts(ports);
    print_questions(ports);
    atomic_store(answered, 0);
    for (size_t round = 0; round < rounds; round++) {
        pid_t http, resp;

        run_shorts(ports, false, ms);
        http = start_asking(HTTP, ports[HTTP], HTTP_CONNS);
        resp = start_asking(RESP, ports[RESP], RESP_CONNS);
        (void)poll(NULL, 0, 200); /* all have asked */
        run_shorts(ports, true, ms);
        end_asking(http);
        end_asking(resp);
    }
    print_shorts();
    (void)printf("long questions answered meanwhile: %lu\n",
                 atomic_load(answered));
    fleet_fini(&f);
}

/* ---- the file ------------------------------------------------------------ */

static double
file_mb(const struct datadir *dir)
{
    struct stat st;

    assert_int_equal(fstatat(dir->keyspace_fd, "board.mdb", &st, 0), 0);
    return (double)st.st_blocks * 512 / 1e6;
}

/* A question whose targets are too many to end in the time. */
static int
ask_endless(uint16_t port)
{
    static char body[TARGETS * 48];
    const int fd = client_connect(port);
    char head[256];
    size_t size = 0;

    for (unsigned i = 0; i < TARGETS; i++)
        size += (size_t)sprintf(body + size, "%starget=board.page.*5*4*3*%05u*",
                                i > 0 ? "&" : "", i);
    assert_true(size < sizeof body);
    client_send(fd, head,
                (size_t)sprintf(
                    head,
                    "POST /render HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                    "application/x-www-form-urlencoded\r\nContent-Length: "
                    "%zu\r\n\r\n",
                    size));
    client_send(fd, body, size);
    return fd;
}

/* MB of the file after merges for `seconds`. */
static double
merge_beside(bool is_long, unsigned seconds)
{
    uint16_t ports[PORTS];
    struct stored_dir s;
    struct fleet f;
    uint64_t begin_ms;
    double before_mb, mb;
    pid_t pid = 0;
    int fd = -1;
    char answer[512];
    long got;

    start_reader(&f, ports);
    atomic_store(answered, 0);
    if (is_long)
        fd = ask_endless(ports[HTTP]);
    else
        pid = start_asking(HTTP, ports[HTTP], 1);
    (void)poll(NULL, 0, 200); /* it reads */
    stored_write(&s, f.path, TIERS);
    before_mb = file_mb(&s.dir);
    begin_ms = clock_ms();
    for (unsigned i = 0; i < seconds * MERGES_S; i++) {
        const uint64_t due_ms = begin_ms + i * 1000 / MERGES_S;
        const uint64_t now_ms = clock_ms();

        if (now_ms < due_ms)
            (void)poll(NULL, 0, (int)(due_ms - now_ms)); /* paces the merges */
        batch_put_random(&batch, keys / 10, keys, 1000);
        apply_batch(s.store);
    }
    mb = file_mb(&s.dir);
    if (is_long) {
        got = client_try_read(fd, answer, sizeof answer, 0);
        if (got != -EAGAIN)
            fail_msg("the long question has ended: %.*s",
                     got > 0 ? (int)got : 0, answer);
        client_close(fd);
    } else {
        end_asking(pid);
        assert_true(atomic_load(answered) > seconds);
    }
    (void)printf("merges for %.1f s beside %s: %.1f MB, then %.1f\n",
                 (double)(clock_ms() - begin_ms) / 1e3,
                 is_long ? "a long question" : "short questions", before_mb,
                 mb);
    stored_close(&s);
    fleet_fini(&f);
    return mb;
}

static void
measure_file(size_t rounds, unsigned seconds)
{
    struct series file[2] = {{.count = 0}, {.count = 0}};

    for (size_t round = 0; round < rounds; round++)
        for (int is_long = 0; is_long < 2; is_long++)
            series_add(&file[is_long], merge_beside(is_long, seconds));
    (void)printf("file beside a long question, to short ones: %.2f\n",
                 series_ratio(&file[1], &file[0]));
    report_row("file beside a long question", "MB", series_median(&file[1]),
               "short questions", series_median(&file[0]),
               series_ratio(&file[1], &file[0]));
}

int
main(int argc, char **argv)
{
    const bool is_quick = bench_begin(argc, argv);

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* children have nothing to flush */
    keys = bench_number("--keys", is_quick ? 50000 : 200000);
    batch_init(&batch, keys);
    batch.before = "page.";
    answered = mmap(NULL, sizeof *answered, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(answered != MAP_FAILED);
    measure_shorts(is_quick ? 3 : 7, is_quick ? 300 : 1000);
    measure_file(is_quick ? 1 : 3, is_quick ? 3 : 10);
    return 0;
}

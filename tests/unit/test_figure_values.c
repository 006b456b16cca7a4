/* tests/unit/test_figure_values.c - what each daemon puts on the board: every
 * figure has the value that its name says, the directory's are computed from
 * them, and no figure of a kind is forgotten.
 *
 * The parts of a daemon are filled with numbers that all differ. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/net/conn_internal.h"
#include "common/setup/figures.h"
#include "common/setup/overview.h"
#include "common/store/postgresql/pg.h"
#include "reader/reader_status.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"
#include "worker/worker_status.h"
#include "writer/writer.h"

struct expected {
    enum status_figure figure;
    int64_t value;
};

static struct overview seen;

static const struct overview_row *
find_row(enum status_kind kind, const char *name)
{
    for (size_t i = 0; i < seen.count; i++)
        if (seen.rows[i].kind == kind && strcmp(seen.rows[i].name, name) == 0)
            return &seen.rows[i];
    fail_msg("no row %s %s", status_kind_name(kind), name);
    return NULL;
}

static void
see_status(const struct tmpdir *dir)
{
    assert_int_equal(overview_open(&seen, dir->path), 0);
    assert_rc(overview_read(&seen), 0);
    overview_close(&seen);
}

/* Each has its value, and there is no other figure of the kind. */
static void
expect_row(enum status_kind kind, const char *name,
           const struct expected *expected, size_t n)
{
    const struct overview_row *row = find_row(kind, name);
    size_t count;

    (void)figures_of(kind, &count);
    for (size_t i = 0; i < n; i++) {
        const struct figure *f = &figures[expected[i].figure];

        assert_int_equal(f->kind, kind);
        if (row->values[expected[i].figure] != expected[i].value)
            fail_msg("%s is %lld, not %lld", f->name,
                     (long long)row->values[expected[i].figure],
                     (long long)expected[i].value);
    }
    assert_int_equal(n, count);
}

#define EXPECT_ROW(kind, name, ...)                                            \
    expect_row(kind, name, (const struct expected[]){__VA_ARGS__},             \
               sizeof((const struct expected[]){__VA_ARGS__}) /                \
                   sizeof(struct expected))

static const struct listener_stats port_stats = {.accepted = 601,
                                                 .received = 602,
                                                 .sent = 3 * 603 + 4 * 604,
                                                 .malformed = 604,
                                                 .browsers = 605,
                                                 .turned_away = 606,
                                                 .not_allowed = 607,
                                                 .yielded = 608,
                                                 .evicted = 609,
                                                 .late = 610,
                                                 .cut_off = 611};

static void
expect_port(const char *name, const int64_t http[4])
{
    EXPECT_ROW(STATUS_LISTENER, name, {STATUS_L_OPEN, 612},
               {STATUS_L_CONNECTIONS, 601}, {STATUS_L_RECEIVED, 602},
               {STATUS_L_SENT, 3 * 603 + 4 * 604}, {STATUS_L_MALFORMED, 604},
               {STATUS_L_BROWSERS, 605}, {STATUS_L_TURNED_AWAY, 606},
               {STATUS_L_NOT_ALLOWED, 607}, {STATUS_L_YIELDED, 608},
               {STATUS_L_EVICTED, 609}, {STATUS_L_LATE, 610},
               {STATUS_L_CUT_OFF, 611}, {STATUS_L_PORT, 613},
               {STATUS_L_HTTP_2XX, http[0]}, {STATUS_L_HTTP_3XX, http[1]},
               {STATUS_L_HTTP_4XX, http[2]}, {STATUS_L_HTTP_5XX, http[3]}, );
}

static void
fill_ports(struct conns *cs, struct listener *ports, size_t count,
           struct listener_config *rows)
{
    *cs = (struct conns){.count = count, .listeners = ports};
    for (size_t i = 0; i < count; i++) {
        ports[i].row = &rows[i];
        ports[i].stats = port_stats;
        ports[i].open = 612;
        ports[i].port = 613;
    }
}

/* Makes the board as countd-write does. */
static void
make_board(const struct tmpdir *dir, struct status *board)
{
    status_create(board, dir->path);
    assert_non_null(board->board);
}

#define CASE(name, dir)                                                        \
    TEST_IN(name, struct tmpdir *dir, tmpdir_setup, tmpdir_teardown)

/* ---- countd-read --------------------------------------------------------- */

CASE(the_reader_puts_every_figure_of_its_own, dir)
{
    static const struct read_http zero_http;
    static struct read_http http;
    static struct resp_service resp;
    static struct listener ports[READER_LISTENERS];
    struct listener_config rows[READER_LISTENERS] = {
        {.name = "read", .listen = ""},
        {.name = "resp", .listen = "x"},
        {.name = "read-http",
         .listen = "x",
         .protocol = &http_protocol,
         .ctx = &http.site}};
    struct as_of as_of = {.as_of_ms = 102};
    struct jobs jobs = {.as_of = &as_of};
    const struct range range = {
        .jobs = &jobs, .requests = 101, .unreadable = 3};
    static struct reader_status s;
    static struct last_answer entries[LAST_ANSWERS_COUNT] = {{.in_flight = 1}};
    struct status board;
    struct conns cs;

    make_board(dir, &board);
    http = zero_http;
    http.unreadable = 40;
    for (size_t i = 0; i < HTTP_CLASSES; i++)
        http.site.stats.by_class[i] = 701 + i;
    resp.unreadable = 500;
    resp.commands = 103;
    resp.jobs = &jobs;
    resp.forward.stats =
        (struct forward_stats){.forwarded = 104, .refused = 105, .unsure = 106};
    resp.forward.added = 1000;
    resp.forward.acked = 893;
    resp.answers.entries = entries;
    resp.answers.in_flight = 1;
    resp.queued.count = 9;
    resp.queued.free_count = 2;
    fill_ports(&cs, ports, READER_LISTENERS, rows);

    s = (struct reader_status){
        .range = &range, .http = &http, .resp = &resp, .conns = &cs};
    reader_status_init(&s, dir->path);
    reader_status_put(&s);
    see_status(dir);

    EXPECT_ROW(STATUS_READER, "", {STATUS_R_REQUESTS, 101},
               {STATUS_R_UNREADABLE, 543}, {STATUS_R_AS_OF_MS, 102},
               {STATUS_R_COMMANDS, 103}, {STATUS_R_FORWARDED, 104},
               {STATUS_R_ACKS_DUE, 107}, {STATUS_R_REFUSED, 105},
               {STATUS_R_UNSURE, 106}, {STATUS_R_LAST_ANSWERS, 1},
               {STATUS_R_TRANSACTIONS, 7 * POOL_CHUNK_SIZE}, );
    expect_port("resp", (const int64_t[4]){0});
    expect_port("read-http", (const int64_t[4]){701, 702, 703, 704});
    for (size_t i = 0; i < seen.count; i++)
        assert_string_not_equal(seen.rows[i].name, "read"); /* it is off */
    status_close(&s.status);
    status_close(&board);
}

/* ---- countd-worker ------------------------------------------------------- */

CASE(the_worker_puts_every_figure_of_its_own, dir)
{
    static const struct config settings;
    static struct pg database = {.store.engine = &pg_engine,
                                 .options.config = &settings,
                                 .health = database.figures};
    static struct merge m = {.store = &database.store};
    static struct worker_status s;
    struct status board;

    make_board(dir, &board);
    m.stats.logs = 201;
    m.stats.keyspaces = 202;
    m.stats.keys = 203;
    m.stats.created = 204;
    m.stats.saturated = 205;
    m.stats.held = 206;
    m.stats.archived = 207;
    m.stats.records = 208;
    m.stats.zeros = 209;
    m.stats.quarantined = 210;
    m.stats.recovered = 211;
    m.batch.dir.unrecovered = 212;
    m.pass.fills = 213;
    m.folder.held_fills = 214;
    m.folder.held_files = 215;
    m.folder.held_bytes = 216;
    m.folder.bad_files = 217;
    m.folder.placed_files = 218;
    m.is_older = true;
    for (int i = 0; i < PG_FIGURES; i++)
        database.figures[i] = STATUS_M_DB_DOWN + i < STATUS_M_DB_UNSAFE
                                  ? (int64_t)clock_ms()
                                  : 220 + i;
    database.figures[0] = 1; /* it answers again since long ago */
    diag_errno(DIAG_ERROR, -EDOM, "an error on purpose");

    worker_status_init(&s, dir->path, &m);
    s.merge_ns = 219999;
    s.is_waiting = true;
    worker_status_tick(&s);
    see_status(dir);

    EXPECT_ROW(STATUS_WORKER, "", {STATUS_M_LOGS, 201}, {STATUS_M_RECORDS, 208},
               {STATUS_M_ZEROS, 209}, {STATUS_M_KEYSPACES, 202},
               {STATUS_M_KEYS, 203}, {STATUS_M_CREATED, 204},
               {STATUS_M_SATURATED, 205}, {STATUS_M_HELD, 206},
               {STATUS_M_UNHELD, 213}, {STATUS_M_QUARANTINED, 210},
               {STATUS_M_RECOVERED, 211}, {STATUS_M_UNRECOVERED, 212},
               {STATUS_M_ARCHIVED, 207}, {STATUS_M_MERGE_US, 219},
               {STATUS_M_WAITING, 1}, {STATUS_M_HELD_NOW, 1},
               {STATUS_M_HELD_FILLS, 214}, {STATUS_M_HELD_FILES, 215},
               {STATUS_M_HELD_BYTES, 216}, {STATUS_M_HELD_BAD, 217},
               {STATUS_M_PLACED, 218}, {STATUS_M_OLDER, 1},
               {STATUS_M_LAST_ERROR, EDOM}, {STATUS_M_DB_DOWN, 0},
               {STATUS_M_DB_READ_ONLY, 1}, {STATUS_M_DB_FULL, 1},
               {STATUS_M_DB_REFUSED, 1}, {STATUS_M_DB_BEHIND, 1},
               {STATUS_M_DB_DAMAGED, 1}, {STATUS_M_DB_LOCKED, 1},
               {STATUS_M_DB_UNSAFE, 227}, {STATUS_M_DB_LOSSY, 228},
               {STATUS_M_DB_NO_STANDBY, 229}, {STATUS_M_DB_NO_VACUUM, 230},
               {STATUS_M_DB_NO_REPLICA, 231}, {STATUS_M_DB_NO_CHECKSUMS, 232},
               {STATUS_M_DB_WAL_HELD, 233}, {STATUS_M_DB_SILENT, 234},
               {STATUS_M_DB_CLOCK_MS, 235}, {STATUS_M_DB_COMMIT_MS, 236}, );
    worker_status_close(&s);
    status_close(&board);
}

/* ---- countd-write -------------------------------------------------------- */

static bool
stop_loop(void *ctx)
{
    loop_stop(ctx);
    return false;
}

static void
fill_increments(struct ingest *ingest, struct logs *logs, struct commit *commit)
{
    ingest->messages = 301;
    logs->stats = (struct logs_stats){
        .flushes = 302, .sealed = 303, .pushed_back = 304, .secret_lost = true};
    commit->syncs = 305;
    commit->sync_ns = 307999;
}

static void
fill_lines(struct statsd *s)
{
    s->datagrams.stats.received = 308;
    s->datagrams.stats.dropped = 309;
    s->counts[STATSD_LINE_PROTOCOL][STATSD_LINES] = 310;
    s->counts[STATSD_LINE_PROTOCOL][STATSD_BAD] = 311;
    s->counts[STATSD_LINE_PROTOCOL][STATSD_IGNORED] = 100;
    s->counts[STATSD_LINE_PROTOCOL][STATSD_IGNORED_TIMER] = 212;
    s->counts[STATSD_LINE_PROTOCOL][STATSD_NO_MEMORY] = 300;
    s->counts[GRAPHITE_LINE_PROTOCOL][STATSD_NO_MEMORY] = 13;
    s->counts[GRAPHITE_LINE_PROTOCOL][STATSD_LINES] = 314;
    s->counts[GRAPHITE_LINE_PROTOCOL][STATSD_BAD] = 315;
    s->counts[GRAPHITE_LINE_PROTOCOL][STATSD_IGNORED] = 316;
}

static void
fill_http(struct http_service *h)
{
    h->site.stats.requests = 317;
    h->site.stats.refused = 318;
    h->count.stats = (struct count_stats){.requests = 319,
                                          .increments = 320,
                                          .refused = 321,
                                          .busy = 322,
                                          .replayed = 323};
    h->sequence.stats =
        (struct sequence_stats){.given = 324, .waited = 325, .moves = 326};
}

static void
fill_quotas(struct quota_service *q)
{
    q->stats = (struct quota_stats){.applied = 327,
                                    .cancelled = 328,
                                    .refused = 329,
                                    .other = 330,
                                    .repeated = 331,
                                    .unavailable = 332,
                                    .failures = 333};
    q->commit.syncs = 334;
    q->quotas.count = 335;
    q->quotas.keys.next = 400;
    q->quotas.keys.first = 64;
}

static void
fill_live(struct live_server *s, uint64_t n)
{
    s->live.count = n + 1;
    s->live.idle = n + 2;
    s->live.objects.taken = n + 3;
    s->live.stats = (struct live_stats){.created = n + 4,
                                        .swept = n + 5,
                                        .no_memory = n + 6,
                                        .last_sweep_us = n + 7};
    s->stats = (struct live_server_stats){.noop = n + 8,
                                          .get = n + 9,
                                          .acquire = n + 10,
                                          .release = n + 11,
                                          .stats = n + 12,
                                          .dump = n + 13};
}

static void
expect_live(const char *name, int64_t n)
{
    EXPECT_ROW(STATUS_LIVE, name, {STATUS_V_OBJECTS, n + 1},
               {STATUS_V_IDLE, n + 2}, {STATUS_V_MEMORY, n + 3},
               {STATUS_V_CREATED, n + 4}, {STATUS_V_SWEEPS, n + 5},
               {STATUS_V_NO_MEMORY, n + 6}, {STATUS_V_LAST_SWEEP_US, n + 7},
               {STATUS_V_NOOP, n + 8}, {STATUS_V_GET, n + 9},
               {STATUS_V_ACQUIRE, n + 10}, {STATUS_V_RELEASE, n + 11},
               {STATUS_V_STATS, n + 12}, {STATUS_V_DUMP, n + 13}, );
}

static struct writer writer;
static struct listener writer_ports[LISTENERS];
static struct listener_config writer_rows[LISTENERS];

/* One turn of the loop, which puts the rows.  The scan of log/ is made here, as
 * the I/O thread would. */
static void
put_writer(struct writer_status *s, struct loop *loop)
{
    s->scan.job.run(&s->scan.job);
    s->scan.job.done(&s->scan.job);
    s->scanning = true;
    loop_after_turn(loop, stop_loop, loop);
    assert_rc(loop_run(loop), 0);
}

CASE(the_writer_puts_every_figure_of_its_own, dir)
{
    struct writer *w = &writer;
    struct writer_status *s = &w->status;
    struct conns cs;
    const struct overview_row *row;

    w->loop = loop_new();
    w->conns = &cs;
    w->dir.log_fd = dir->fd;
    (void)snprintf(w->config.data_dir, sizeof w->config.data_dir, "%s",
                   dir->path);
    fill_increments(&w->ingest, &w->logs, &w->commit);
    fill_lines(&w->statsd);
    fill_http(&w->http);
    fill_quotas(&w->quota);
    for (size_t i = 0; i < LIVE_SERVICE_KINDS; i++) {
        w->lives.on[i] = true;
        fill_live(&w->lives.servers[i], 1000 * (i + 1));
    }
    fill_ports(&cs, writer_ports, LISTENERS, writer_rows);
    writer_rows[LISTENER_ACK] =
        (struct listener_config){.name = "ack", .listen = "x"};
    writer_rows[LISTENER_SILENT] = (struct listener_config){.name = "silent"};
    tmpdir_put(dir, "bad-0000000001-1", "", 0, 0600);
    tmpdir_put(dir, "bad-0000000002-1", "", 0, 0600);

    writer_status_open(s, w);
    put_writer(s, w->loop);
    see_status(dir);
    row = find_row(STATUS_WRITER, "");

    assert_in_range(row->values[STATUS_W_DISK_SIZE], 1, INT64_MAX);
    assert_in_range(row->values[STATUS_W_DISK_FREE], 1,
                    row->values[STATUS_W_DISK_SIZE]);
    assert_in_range(row->values[STATUS_W_STATSD_DROPPED_MS], 1,
                    clock_unix_ms());
    EXPECT_ROW(
        STATUS_WRITER, "", {STATUS_W_MESSAGES, 301}, {STATUS_W_BYTES, 2 * 602},
        {STATUS_W_CONNECTIONS, 2 * 601}, {STATUS_W_REPLIES, 603},
        {STATUS_W_MALFORMED, 2 * 604}, {STATUS_W_PARTIAL, 2 * 611},
        {STATUS_W_APPENDS, 302}, {STATUS_W_SYNCS, 305}, {STATUS_W_LOGS, 303},
        {STATUS_W_PUSHED_BACK, 304}, {STATUS_W_SYNC_US, 307},
        {STATUS_W_OBJECTS, 3002}, {STATUS_W_NO_MEMORY, 3012},
        {STATUS_W_QUARANTINED, 2}, {STATUS_W_SECRET_LOST, 1},
        {STATUS_W_DISK_FREE, row->values[STATUS_W_DISK_FREE]},
        {STATUS_W_DISK_SIZE, row->values[STATUS_W_DISK_SIZE]},
        {STATUS_W_STATSD_DATAGRAMS, 308}, {STATUS_W_STATSD_DROPPED, 309},
        {STATUS_W_STATSD_DROPPED_MS, row->values[STATUS_W_STATSD_DROPPED_MS]},
        {STATUS_W_STATSD_LINES, 310}, {STATUS_W_STATSD_BAD, 311},
        {STATUS_W_STATSD_IGNORED, 312}, {STATUS_W_STATSD_NO_MEMORY, 313},
        {STATUS_W_GRAPHITE_LINES, 314}, {STATUS_W_GRAPHITE_BAD, 315},
        {STATUS_W_GRAPHITE_IGNORED, 316}, {STATUS_W_HTTP_REQUESTS, 317},
        {STATUS_W_HTTP_REFUSED, 318}, {STATUS_W_HTTP_REPLAYED, 323},
        {STATUS_W_COUNT_INCREMENTS, 320}, {STATUS_W_COUNT_REQUESTS, 319},
        {STATUS_W_COUNT_REFUSED, 321}, {STATUS_W_COUNT_BUSY, 322},
        {STATUS_W_SEQUENCE_GIVEN, 324}, {STATUS_W_SEQUENCE_WAITED, 325},
        {STATUS_W_SEQUENCE_MOVES, 326}, {STATUS_W_QUOTA_APPLIED, 327},
        {STATUS_W_QUOTA_CANCELLED, 328}, {STATUS_W_QUOTA_REFUSED, 329},
        {STATUS_W_QUOTA_OTHER, 330}, {STATUS_W_QUOTA_REPEATED, 331},
        {STATUS_W_QUOTA_UNAVAILABLE, 332}, {STATUS_W_QUOTA_FAILURES, 333},
        {STATUS_W_QUOTA_SYNCS, 334}, {STATUS_W_QUOTA_NAMES, 335},
        {STATUS_W_QUOTA_KEYS, 336}, );
    expect_live("counter", 1000);
    expect_live("semaphore", 2000);
    expect_port("ack", (const int64_t[4]){0});
    writer_status_close(s);
    loop_free(w->loop);
}

/* The scan found it empty; the writer has filled it and handed it on since. */
CASE(a_scan_that_is_late_does_not_hide_a_log_that_was_handed_on, dir)
{
    static struct writer w;
    struct writer_status *s = &w.status;
    const struct log log = {
        .header = {.index = 3, .count = 10, .first_ms = clock_unix_ms()}};

    w.loop = loop_new();
    w.dir.log_fd = dir->fd;
    (void)snprintf(w.config.data_dir, sizeof w.config.data_dir, "%s",
                   dir->path);
    writer_status_open(s, &w);
    s->scan.job.run(&s->scan.job);
    writer_status_handed(s, &log);
    s->scan.job.done(&s->scan.job);
    see_status(dir);
    assert_int_equal(seen.rows[0].values[STATUS_D_UNMERGED], 10);
    writer_status_close(s);
    loop_free(w.loop);
}

/* ---- any ------------------------------------------------------------------ */

CASE(a_process_that_hangs_is_silent_also_when_the_clock_is_set_back, dir)
{
    struct status_row row = {.kind = STATUS_WORKER};
    struct status board;
    int64_t *silent_ms = seen.rows[1].values + STATUS_SILENT_MS;

    make_board(dir, &board);
    fault_stop_clock();
    status_put(&board, &row);
    fault_pass_ns(UINT64_C(61000000000));
    fault_clock(-3600000);
    see_status(dir);
    assert_int_equal(*silent_ms, 61000);

    status_put(&board, &row);
    fault_clock(3600000);
    see_status(dir);
    assert_int_equal(*silent_ms, 0);
    fault_clear();
    status_close(&board);
}

CASE(a_process_of_before_the_start_of_the_machine_is_silent_since_then, dir)
{
    struct status board;
    pid_t pid;

    make_board(dir, &board);
    pid = test_fork();
    if (pid == 0) {
        struct status_row row = {.kind = STATUS_WORKER};
        struct status other;

        status_init(&other, dir->path);
        status_put(&other, &row);
        _exit(0);
    }
    assert_int_equal(test_wait(pid), 0);
    /* The other clock has begun anew, and is past the time of that put. */
    fault_clock(3600000);
    see_status(dir);
    assert_int_equal(seen.rows[1].values[STATUS_ALIVE], 0);
    assert_true(seen.rows[1].values[STATUS_SILENT_MS] >= 3600000);
    fault_clear();
    status_close(&board);
}

/* ---- the directory ------------------------------------------------------- */

static void
put_log(struct status *board, uint64_t index, enum status_log state,
        int64_t messages, int64_t since_ms)
{
    const int64_t values[STATUS_LOG_VALUES] = {[STATUS_LOG_STATE] = state,
                                               [STATUS_LOG_MESSAGES] = messages,
                                               [STATUS_LOG_SINCE_MS] =
                                                   since_ms};

    status_put_log(board, index, values);
}

CASE(the_lag_is_that_of_the_oldest_log_and_the_others_are_summed, dir)
{
    const int64_t now_ms = (int64_t)clock_unix_ms();
    const int64_t *v = seen.rows[0].values;
    struct status board;

    make_board(dir, &board);
    put_log(&board, 0, STATUS_LOG_EMPTY, 0, 0);
    put_log(&board, 1, STATUS_LOG_FULL, 10, now_ms - 5000);
    put_log(&board, 2, STATUS_LOG_MERGING, -1, now_ms - 90000);
    put_log(&board, 3, STATUS_LOG_FULL, 5, now_ms - 20);
    put_log(&board, 5, STATUS_LOG_OPEN, 0, 0);
    put_log(&board, 6, STATUS_LOG_OPEN, 2, now_ms);
    see_status(dir);

    assert_int_equal(v[STATUS_D_LAG_MS], (int64_t)seen.now_ms - now_ms + 90000);
    assert_int_equal(v[STATUS_D_UNMERGED], 17);
    assert_int_equal(v[STATUS_D_LOGS_UNCOUNTED], 1);
    assert_int_equal(v[STATUS_D_LOGS_EMPTY], 1);
    assert_int_equal(v[STATUS_D_LOGS_OPEN], 2);
    assert_int_equal(v[STATUS_D_LOGS_FULL], 2);
    assert_int_equal(v[STATUS_D_LOGS_MERGING], 1);
    status_close(&board);
}

/* tests/unit/ingest_fixture.h - the listeners for increments on a loop in this
 * process, over real logs and I/O threads; clients come by socket pairs.
 *
 * At the end every slot is read: expect_messages() says how many there must be.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_UNIT_INGEST_FIXTURE_H
#define COUNTD_TESTS_UNIT_INGEST_FIXTURE_H

#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "tests/lib/client.h"
#include "tests/lib/fault.h"
#include "tests/lib/records.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/turns.h"
#include "writer/writer.h"

#define LIMIT_MS  20000
#define REQUEST_S 300
#define SIZE      CLIENT_MESSAGE_SIZE

struct fixture {
    struct tmpdir dir;
    struct config config;
    struct datadir data;
    struct loop *loop;
    struct logs logs;
    struct commit commit;
    struct ingest ingest;
    struct listener_config rows[LISTENERS];
    struct http_site *site; /* of the HTTP listener; NULL: there is none */
    struct conns *conns;
    bool (*until)(struct fixture *r);
    size_t want; /* what `until` compares with */
    bool finished;
    bool failed;
    uint64_t cut_off, malformed; /* at the end */
    struct records records;
    unsigned fds;
};

/* ---- the fixture -----------------------------------------------------------
 */

static inline struct listener *
find_listener(const struct fixture *r, size_t index)
{
    return conns_listener(r->conns, index);
}

static inline void
on_ready(void *ctx)
{
    struct fixture *r = ctx;

    listener_wake(find_listener(r, LISTENER_ACK));
    listener_wake(find_listener(r, LISTENER_SILENT));
}

static inline void
on_finished(void *ctx)
{
    ((struct fixture *)ctx)->finished = true;
}

static inline void
on_failed(void *ctx)
{
    ((struct fixture *)ctx)->failed = true;
}

static inline void
on_stopped(void *ctx)
{
    logs_finish(&((struct fixture *)ctx)->logs);
}

static inline bool
after_turn(void *ctx)
{
    struct fixture *r = ctx;

    (void)conn_turn(r->conns); /* asked again below */
    logs_flush(&r->logs);
    commit_turn(&r->commit);
    if (r->until(r))
        loop_stop(r->loop);
    return conns_have_work(r->conns);
}

/* Runs the loop until `until` says so. */
static inline void
run_until(struct fixture *r, bool (*until)(struct fixture *r), size_t want)
{
    r->until = until;
    r->want = want;
    turns_run(r->loop);
}

static inline size_t
count_received(const struct fixture *r)
{
    return (size_t)(find_listener(r, LISTENER_ACK)->stats.received +
                    find_listener(r, LISTENER_SILENT)->stats.received);
}

static inline uint64_t
count_malformed(const struct fixture *r)
{
    return find_listener(r, LISTENER_ACK)->stats.malformed +
           find_listener(r, LISTENER_SILENT)->stats.malformed;
}

static inline bool
has_taken(struct fixture *r)
{
    return r->ingest.messages >= r->want;
}

static inline bool
took_bytes(struct fixture *r)
{
    return count_received(r) >= r->want;
}

static inline bool
has_replied(struct fixture *r)
{
    return find_listener(r, LISTENER_ACK)->stats.sent / 3 >= r->want;
}

static inline bool
has_sent(struct fixture *r)
{
    return find_listener(r, LISTENER_ACK)->stats.sent >= r->want;
}

static inline bool
has_ended(struct fixture *r)
{
    return find_listener(r, LISTENER_ACK)->open +
               find_listener(r, LISTENER_SILENT)->open ==
           0;
}

static inline bool
has_finished(struct fixture *r)
{
    return r->finished;
}

static inline bool
has_failed(struct fixture *r)
{
    return r->failed;
}

static inline bool
has_spare(struct fixture *r)
{
    return r->logs.spare_count > 0 && !r->logs.making;
}

static inline bool
has_recovered(struct fixture *r)
{
    return !r->logs.recovering;
}

static inline bool
pushes_back(struct fixture *r)
{
    return find_listener(r, LISTENER_ACK)->blocked ||
           find_listener(r, LISTENER_SILENT)->blocked;
}

static inline bool
has_turned(struct fixture *r)
{
    (void)r;
    return true;
}

static inline void
start_conns(struct fixture *r)
{
    const struct conns_options o = {.rows = r->rows,
                                    .count = LISTENERS,
                                    .shared = 64,
                                    .pool_size = 4 << 20};

    r->ingest = (struct ingest){.logs = &r->logs, .commit = &r->commit};
    for (size_t i = 0; i < LISTENERS; i++)
        r->rows[i] = (struct listener_config){
            .name = i == LISTENER_ACK ? "ack" : "silent",
            .max_key = "write.max_connections",
            .protocol = i == LISTENER_ACK ? &ingest_ack : &ingest_silent,
            .ctx = &r->ingest,
            .request_s = REQUEST_S,
            .request_key = "request_timeout",
            .max = 64};
    if (r->site) {
        r->rows[LISTENER_HTTP].protocol = &http_protocol;
        r->rows[LISTENER_HTTP].ctx = r->site;
    }
    assert_rc(conns_init(&r->conns, r->loop, &o), 0);
    assert_rc(
        commit_init(&r->commit, &logs_file, &r->logs, &r->logs.sync_io, 64), 0);
}

/* Logs of `slots` messages, as many as `log_max`. */
static inline void
start_ingest(struct fixture *r, unsigned slots, unsigned log_max)
{
    const struct logs_events events = {r, on_ready, on_finished, on_failed};

    r->config.log_size = LOG_SLOTS_AT + (uint64_t)slots * 544;
    r->config.log_max = log_max;
    r->config.log_count = log_max < 3 ? log_max : 3;
    assert_rc(datadir_open(&r->data, r->dir.path, DATADIR_WRITE), 0);
    r->loop = loop_new();
    assert_non_null(r->loop);
    assert_rc(logs_open(&r->logs, r->loop, &r->data, &r->config, &events), 0);
    start_conns(r);
    loop_after_turn(r->loop, after_turn, r);
    run_until(r, has_spare, 0);
}

static inline void
set_up(struct fixture *r)
{
    diag_init("test_ingest", DIAG_ERROR);
    r->fds = fault_open_fds();
    tmpdir_make(&r->dir);
    config_defaults(&r->config);
    r->config.log_rotate_after_ms = 60000;
    r->config.log_merge_share = 0;
}

static inline void
close_all(struct fixture *r)
{
    conns_fini(r->conns);
    logs_close(&r->logs);
    commit_fini(&r->commit);
    loop_free(r->loop);
    datadir_close(&r->data);
}

static inline void
tear_down(struct fixture *r)
{
    fault_clear();
    tmpdir_remove(&r->dir);
    assert_int_equal(fault_open_fds(), r->fds);
    records_free(&r->records);
}

/* A clean stop; then what the logs hold is in r->records. */
static inline void
finish_ingest(struct fixture *r)
{
    int log_fd;

    conns_stop(r->conns, LIMIT_MS, on_stopped, r);
    run_until(r, has_finished, 0);
    r->cut_off = find_listener(r, LISTENER_ACK)->stats.cut_off +
                 find_listener(r, LISTENER_SILENT)->stats.cut_off;
    r->malformed = count_malformed(r);
    log_fd = dup(r->data.log_fd);
    close_all(r);
    records_read(&r->records, log_fd);
    close(log_fd);
    assert_int_equal(r->records.damaged, 0);
    assert_int_equal(r->records.states[LOG_OPEN], 0);
}

static inline int
connect_pair(struct fixture *r, size_t at)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                     0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    assert_rc(conns_take(r->conns, at, ends[1]), 0);
    return ends[0];
}

/* Message number `n`: a key and an increment of its own. */
static inline void
put_numbered(uint8_t *at, size_t n)
{
    char key[32];

    snprintf(key, sizeof key, "key%zu", n);
    client_message(at, "space", key, (int64_t)n + 1);
}

/* Connects, and sends messages 0 to count - 1 in one go; the descriptor. */
static inline int
connect_and_send(struct fixture *r, size_t at, size_t count)
{
    uint8_t *bytes = malloc(count * SIZE);
    const int fd = connect_pair(r, at);

    assert_non_null(bytes);
    for (size_t n = 0; n < count; n++)
        put_numbered(bytes + n * SIZE, n);
    client_send(fd, bytes, count * SIZE);
    free(bytes);
    return fd;
}

static inline void
expect_messages(struct fixture *r, size_t count)
{
    char key[32];
    size_t n, times;

    assert_int_equal(r->records.count, count);
    for (n = 0; n < count; n++) {
        snprintf(key, sizeof key, "key%zu", n);
        assert_int_equal(records_sum(&r->records, "space", key, &times), n + 1);
        assert_int_equal(times, 1);
    }
}

#define ON_FIXTURE(name, r)                                                    \
    TEST_WITH(name, struct fixture, r, set_up, tear_down)

#endif

/* tests/crash/test_keys_calls.c - a writer with one request that has a key is
 * killed at each call that touches files, from its start to the end of its
 * stop.  Then a worker merges and another writer starts, in both orders, and
 * the client sends the request again: its increments are counted once, all of
 * them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/logs_fixture.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "common/log/inspect.h"

#define LINES         1500 /* more than one write to the log takes */
#define REQUEST_SLOTS 3200
#define CALLS         900 /* more than there are */

/* ---- a writer ------------------------------------------------------------ */

static void
open_writer(struct fixture *w, const char *path)
{
    memset(w, 0, sizeof *w);
    w->syncs = true;
    config_defaults(&w->config);
    w->config.keyspace_size = 8;
    w->config.key_size = 48;
    w->config.log_size = LOG_SLOTS_AT + REQUEST_SLOTS * 88;
    w->config.log_count = 1;
    w->config.log_sync_ms = CONFIG_SYNC_ALWAYS;
    assert_rc(datadir_open(&w->data, path, DATADIR_WRITE), 0);
    w->loop = loop_new();
    assert_non_null(w->loop);
    loop_after_turn(w->loop, after_turn, w);
    assert_rc(open_logs(w), 0);
    assert_int_equal(w->logs.keys.state, KEYS_READY);
}

static void
close_writer(struct fixture *w)
{
    logs_close(&w->logs);
    commit_fini(&w->commit);
    loop_free(w->loop);
    datadir_close(&w->data);
}

static struct request_mark
the_mark(const struct fixture *w)
{
    return keys_mark(&w->logs.keys, (const uint8_t *)"key", 3,
                     (const uint8_t *)"body", 4);
}

static bool
is_synced(struct fixture *w)
{
    return logs_is_durable(&w->logs, logs_position(&w->logs));
}

static bool
is_finished(struct fixture *w)
{
    return w->finished + w->failed > 0;
}

static void
append_request(struct fixture *w)
{
    const struct message m = {
        1, (const uint8_t *)"s", (const uint8_t *)"k", 1, 1, 0};
    struct request_mark mark = the_mark(w);

    mark.count = LINES;
    assert_true(logs_have_run(&w->logs, LINES + 1));
    assert_rc(logs_reserve_mark(&w->logs), 0);
    logs_put_mark(&w->logs, &mark);
    for (int i = 0; i < LINES; i++)
        logs_put(&w->logs, &m);
    keys_add(&w->logs.keys, &mark, logs_position(&w->logs), clock_unix_ms());
}

/* A process of its own: appends, "answers", hands on, stops. */
static void
live_until_killed(const char *path, unsigned killed_at, bool *answered)
{
    static struct fixture w;

    diag_init("writer", DIAG_ERROR);
    fault_kill("disk", killed_at);
    open_writer(&w, path);
    append_request(&w);
    run_until(&w, is_synced, 0);
    *answered = true;
    logs_rotate(&w.logs);
    logs_finish(&w.logs);
    run_until(&w, is_finished, 0);
    fault_clear();
    close_writer(&w);
    _exit(w.finished > 0 ? 0 : 1);
}

/* ---- afterwards ---------------------------------------------------------- */

static unsigned
empty_log(struct log *log)
{
    uint8_t slot[SLOT_SIZE_MAX];
    struct slot_stamp stamp;
    unsigned count = 0;
    struct message m;

    for (uint32_t i = 0; i < log->header.count; i++) {
        assert_rc(inspect_slot(log->fd, &log->header.layout, i, slot), 0);
        assert_rc(slot_parse(&log->header, slot, i, &m, &stamp), 0);
        count += !mark_is(&m);
    }
    assert_rc(log_empty(log), 0);
    assert_rc(log_release(log), 0);
    return count;
}

/* Recovers and merges as a worker does: how many increments there were. */
static unsigned
merge_logs(const char *path)
{
    struct requests requests;
    unsigned count = 0;
    struct datadir d;
    struct logdir dir;
    struct layout l;
    struct log log;

    assert_rc(datadir_open(&d, path, DATADIR_WRITE), 0);
    assert_rc(layout_init(&l, 8, 48), 0);
    assert_rc(
        logdir_open(&dir, d.log_fd, &l, LOG_SLOTS_AT + REQUEST_SLOTS * 88), 0);
    requests_init(&requests, d.fd);
    dir.requests = &requests;
    assert_true(logdir_recover(&dir) >= 0);
    while (logdir_claim(&dir, LOG_MODE_FULL, &log) == 0)
        count += empty_log(&log);
    logdir_close(&dir);
    datadir_close(&d);
    return count;
}

/* Starts a writer and sends the request again: how many increments that
 * appends. */
static unsigned
send_again(const char *path)
{
    static struct fixture w;
    const struct key_entry *e;
    struct request_mark mark;
    unsigned appended;

    open_writer(&w, path);
    mark = the_mark(&w);
    e = idempotency_find(&w.logs.keys.table, mark.hash, clock_unix_ms());
    if (e)
        assert_int_equal(e->number, LINES);
    appended = e ? 0 : LINES;
    close_writer(&w);
    return appended;
}

/* False: the writer came to its end. */
static bool
kill_at(unsigned n, bool worker_first, bool *answered)
{
    struct tmpdir dir;
    unsigned count;
    int status;
    char path[600];
    pid_t pid;

    tmpdir_make_in_memory(&dir);
    (void)snprintf(path, sizeof path, "%s/data", dir.path);
    *answered = false;
    pid = test_fork();
    if (pid == 0)
        live_until_killed(path, n, answered);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    if (worker_first) {
        count = merge_logs(path);
        count += send_again(path);
    } else {
        count = send_again(path);
        count += merge_logs(path);
    }
    if (count != LINES)
        fail_msg("killed at call %u, %s, %s first: counted %u, not %u", n,
                 *answered ? "answered" : "not answered",
                 worker_first ? "worker" : "writer", count, (unsigned)LINES);
    tmpdir_remove(&dir);
    return WIFSIGNALED(status);
}

TEST(a_request_counts_once_wherever_its_writer_is_killed)
{
    unsigned n = 1, before = 0;
    bool *answered;

    diag_init("test_keys_calls", DIAG_ERROR);
    answered = mmap(NULL, sizeof *answered, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(answered != MAP_FAILED);
    while (kill_at(n, n % 2 == 0, answered)) {
        before += !*answered;
        (void)kill_at(n, n % 2 != 0, answered);
        assert_true(++n < CALLS);
    }
    /* There are calls before the answer, and calls after it. */
    assert_in_range(before, 3, n - 10);
    assert_int_equal(munmap(answered, sizeof *answered), 0);
}

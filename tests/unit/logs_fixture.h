/* tests/unit/logs_fixture.h - the logs of a writer in a directory of their own,
 * with a real loop and its I/O threads.
 *
 *     start_logs(r);
 *     put_at_once(r, 3);
 *     run_until(r, has_sealed, 1); */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_UNIT_LOGS_FIXTURE_H
#define COUNTD_TESTS_UNIT_LOGS_FIXTURE_H

#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "tests/lib/client.h"
#include "tests/lib/fault.h"
#include "tests/lib/records.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/turns.h"
#include "writer/commit.h"
#include "writer/logs_internal.h"

#define SLOTS 20

struct fixture {
    struct tmpdir dir;
    struct config config;
    struct datadir data;
    struct loop *loop;
    struct logs logs;
    bool (*until)(struct fixture *r);
    uint64_t want;
    struct commit commit;
    bool syncs; /* at the end of each turn, else as the test says */
    int ready, finished, failed;
    struct records records;
    unsigned fds;
};

static inline void
on_ready(void *ctx)
{
    ((struct fixture *)ctx)->ready++;
}

static inline void
on_finished(void *ctx)
{
    ((struct fixture *)ctx)->finished++;
}

static inline void
on_failed(void *ctx)
{
    ((struct fixture *)ctx)->failed++;
}

static inline bool
after_turn(void *ctx)
{
    struct fixture *r = ctx;

    if (r->syncs || r->logs.finishing) {
        logs_flush(&r->logs);
        commit_turn(&r->commit);
    }
    if (r->until(r))
        loop_stop(r->loop);
    return false;
}

static inline void
run_until(struct fixture *r, bool (*until)(struct fixture *r), uint64_t want)
{
    r->until = until;
    r->want = want;
    turns_run(r->loop);
}

static inline bool
has_sealed(struct fixture *r)
{
    return r->logs.stats.sealed >= r->want;
}

static inline bool
has_spare(struct fixture *r)
{
    return r->logs.spare_count > 0 && !r->logs.making;
}

static inline int
open_logs(struct fixture *r)
{
    const struct logs_events events = {r, on_ready, on_finished, on_failed};

    commit_fini(&r->commit);
    assert_rc(
        commit_init(&r->commit, &logs_file, &r->logs, &r->logs.sync_io, 1), 0);
    return logs_open(&r->logs, r->loop, &r->data, &r->config, &events);
}

static inline void
set_up(struct fixture *r)
{
    diag_init("test", DIAG_ERROR);
    r->fds = fault_open_fds();
    tmpdir_make(&r->dir);
    config_defaults(&r->config);
    r->config.log_size = LOG_SLOTS_AT + SLOTS * 544;
    r->config.log_rotate_after_ms = 60000;
    r->config.log_merge_share = 0;
    r->config.log_sync_ms = CONFIG_SYNC_NEVER;
    r->config.log_count = 2;
    assert_rc(datadir_open(&r->data, r->dir.path, DATADIR_WRITE), 0);
    r->loop = loop_new();
    assert_non_null(r->loop);
    loop_after_turn(r->loop, after_turn, r);
}

static inline void
tear_down(struct fixture *r)
{
    fault_clear();
    commit_fini(&r->commit);
    loop_free(r->loop);
    datadir_close(&r->data);
    tmpdir_remove(&r->dir);
    assert_int_equal(fault_open_fds(), r->fds);
    records_free(&r->records);
}

static inline void
start_logs(struct fixture *r)
{
    assert_rc(open_logs(r), 0);
    run_until(r, has_spare, 0);
}

static inline void
put_one(struct fixture *r)
{
    uint8_t bytes[CLIENT_MESSAGE_SIZE];
    struct message m;

    client_message(bytes, "space", "key", 1);
    assert_rc(message_parse(&r->logs.layout, bytes, &m), 0);
    logs_put(&r->logs, &m);
}

/* Without a turn of the loop, in which a sync could end. */
static inline void
put_at_once(struct fixture *r, int count)
{
    for (int i = 0; i < count; i++)
        put_one(r);
    logs_flush(&r->logs);
}

#endif

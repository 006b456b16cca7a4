/* tests/unit/worker_fixture.h - a data directory with logs to merge, a store,
 * log/waiting/, and the parts of a worker over them.
 *
 * Every full log of full_log() has the same records, so that after any number
 * of fills, merged in any way, each count is a multiple: assert_counts(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_UNIT_WORKER_FIXTURE_H
#define COUNTD_TESTS_UNIT_WORKER_FIXTURE_H

#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "tests/lib/aside.h"
#include "tests/lib/engines.h"
#include "tests/lib/fault.h"
#include "tests/lib/file.h"
#include "tests/lib/filler.h"
#include "tests/lib/store_faults.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"
#include "worker/merge.h"

#define SLOTS 20

struct fixture {
    struct tmpdir tmp;
    struct datadir dir;
    struct config config;
    struct store *store;
    struct merge merge;
    bool archive; /* logs are archived */
};

/* The clock of passes over what waits: stands still until a test moves it. */
static uint64_t fixture_ms;

static inline uint64_t
fixture_now(void)
{
    return fixture_ms;
}

static inline void
fixture_open_store(struct fixture *x)
{
    x->store = engine_open(x->dir.keyspace_fd);
    store_faults_wrap(x->store);
}

/* A worker over the fixture's directory; nothing that fails waits, and a batch is
 * applied in one slice, however slow the machine is. */
static inline void
fixture_open_worker(struct fixture *x)
{
    assert_rc(merge_open(&x->merge, &x->config, &x->dir, x->store), 0);
    if (x->archive)
        assert_rc(archive_open(&x->merge.archive, x->dir.archive_fd, 86400000),
                  0);
    x->merge.slice_ns = UINT64_MAX / 2;
    x->merge.batch.retry_most_ms = 0;
    x->merge.quick.retry_most_ms = 0;
    x->merge.pass.now_ms = fixture_now;
}

static inline void
fixture_close_worker(struct fixture *x)
{
    merge_close(&x->merge);
}

static inline void
fixture_make(struct fixture *x)
{
    *x = (struct fixture){.archive = false};
    tmpdir_make_in_memory(&x->tmp);
    diag_init("test", DIAG_ERROR);
    assert_rc(datadir_open(&x->dir, x->tmp.path, DATADIR_WRITE), 0);
    assert_rc(datadir_archive(&x->dir), 0);
    x->config.keyspace_size = x->config.key_size = 256;
    x->config.log_size = 64 << 10;
    x->config.worker_batch = 8;
    x->config.worker_memory = 16 << 20;
    store_faults_begin();
    fixture_open_store(x);
    fixture_ms = 1000000;
    fixture_open_worker(x);
}

static inline void
fixture_remove(struct fixture *x)
{
    fixture_close_worker(x);
    store_close(x->store);
    datadir_close(&x->dir);
    tmpdir_remove(&x->tmp);
}

static inline int
fixture_setup(void **state)
{
    static struct fixture x;

    fixture_make(&x);
    *state = &x;
    return 0;
}

static inline int
fixture_teardown(void **state)
{
    fault_clear();
    fixture_remove(*state);
    return 0;
}

/* ---- logs -------------------------------------------------------------- */

/* A full log of one record each of "a", "b" and "c", and a second key in "a".
 * Returns its mark. */
static inline struct log_fill
full_log(struct fixture *x, uint64_t index)
{
    struct filler f;

    filler_open(&f, x->dir.log_fd, index, SLOTS);
    filler_add(&f, "a", "one", 1);
    filler_add(&f, "a", "two", 2);
    filler_add(&f, "b", "one", -10);
    filler_add(&f, "c", "one", 100);
    return filler_seal(&f);
}

/* Logs 0 to count - 1. */
static inline void
full_logs(struct fixture *x, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        full_log(x, i);
}

/* The records that each of those logs has for a keyspace. */
static inline size_t
log_deltas(const char *name, struct store_delta deltas[2])
{
    const int64_t sum = *name == 'a' ? 1 : *name == 'b' ? -10 : 100;

    deltas[0] = (struct store_delta){.key = (const uint8_t *)"one",
                                     .key_size = 3,
                                     .minute = 28333333,
                                     .sum = sum};
    deltas[1] = (struct store_delta){.key = (const uint8_t *)"two",
                                     .key_size = 3,
                                     .minute = 28333333,
                                     .sum = 2};
    return *name == 'a' ? 2 : 1;
}

/* Applies them as a worker did that died before it emptied the log. */
static inline int
apply_as_dead(struct fixture *x, const char *name, const struct log_fill *mark)
{
    struct store_delta deltas[2];
    const size_t count = log_deltas(name, deltas);

    return stored_apply(x->store, name, mark, deltas, count);
}

/* Sets them aside for a keyspace, as a worker did that died before it emptied
 * the log. */
static inline void
set_aside_by_another(struct fixture *x, const char *name,
                     const struct log_fill *mark)
{
    const struct aside_record records[] = {{name, "one",
                                            *name == 'a'   ? 1
                                            : *name == 'b' ? -10
                                                           : 100},
                                           {name, "two", 2}};

    (void)aside_put(x->dir.log_fd, false, mark, records, *name == 'a' ? 2 : 1,
                    mark->first_ms);
}

/* 0: there is no such log. */
static inline mode_t
mode_of(const struct fixture *x, uint64_t index)
{
    return filler_mode(x->dir.log_fd, index);
}

/* Logs 0 to count - 1 are. */
static inline void
assert_emptied(const struct fixture *x, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(mode_of(x, i), LOG_MODE_EMPTY);
}

/* ---- what is stored and held ------------------------------------------- */

/* INT64_MIN when there is none. */
static inline int64_t
count_of(const struct fixture *x, const char *name, const char *key)
{
    struct store_row row;
    const int rc = stored_get(x->store, name, key, &row);

    if (rc == -ENOENT)
        return INT64_MIN;
    assert_rc(rc, 0);
    return row.count;
}

/* So many fills of full_log() are in, exactly. */
static inline void
assert_counts(const struct fixture *x, int64_t fills)
{
    assert_int_equal(count_of(x, "a", "one"), fills);
    assert_int_equal(count_of(x, "a", "two"), 2 * fills);
    assert_int_equal(count_of(x, "b", "one"), -10 * fills);
    assert_int_equal(count_of(x, "c", "one"), 100 * fills);
}

/* How often fills that wait name a keyspace. */
static inline uint64_t
waiting_count(const struct fixture *x)
{
    return aside_count(x->dir.log_fd);
}

/* Merges what waits until nothing does, or nothing more can be for an hour of
 * tries. */
static inline void
merge_dry(struct fixture *x)
{
    const uint64_t until = fixture_ms + 3600000;
    uint64_t due;

    do {
        due = merge_waiting(&x->merge);
        fixture_ms++;
        if (due != UINT64_MAX && due > fixture_ms)
            fixture_ms = due;
    } while (due < until);
}

/* The keyspace refuses with this error from now on; 0: no more. */
static inline void
refuse_keyspace(const char *name, int error)
{
    store_faults_set(name, (struct store_fault){.error = error,
                                                .times = STORE_FAULTS_ALWAYS});
}

#endif

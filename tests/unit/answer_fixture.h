/* tests/unit/answer_fixture.h - a store in a data directory,
 * and what answers requests about it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_UNIT_ANSWER_FIXTURE_H
#define COUNTD_TESTS_UNIT_ANSWER_FIXTURE_H

#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/store/as_of.h"
#include "reader/answer.h"
#include "tests/lib/engines.h"
#include "tests/lib/fault.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

#define TURN_MS 1000 /* the loop's time in the turn of a test */

struct fixture {
    struct tmpdir dir;
    struct datadir datadir;
    struct layout layout;
    struct store *store;
    struct as_of as_of;
    uint64_t now_ms; /* monotonic, as the loop would say; the test's own */
    uint8_t *out;    /* room for the answers of a test, then what must stay */
};

/* Opens the store, which `fill` fills, and begins a turn; without it no turn
 * has begun.  With a clock the store has history. */
static struct fixture *
fixture_make(uint64_t (*now_ms)(void), void (*fill)(struct fixture *f),
             size_t out_size)
{
    static struct fixture f;

    f = (struct fixture){.now_ms = TURN_MS};
    tmpdir_make(&f.dir);
    assert_rc(datadir_open(&f.datadir, f.dir.path, DATADIR_WRITE), 0);
    assert_rc(layout_init(&f.layout, 256, 256), 0);
    f.store = now_ms == NULL ? engine_open(f.datadir.keyspace_fd)
                             : engine_open_history(f.datadir.keyspace_fd,
                                                   ENGINE_TIERS, now_ms);
    if (fill)
        fill(&f);
    assert_rc(as_of_init(&f.as_of, f.store, &f.datadir, &f.layout, 1 << 20), 0);
    f.out = malloc(out_size);
    assert_non_null(f.out);
    if (fill)
        as_of_refresh(&f.as_of, TURN_MS);
    return &f;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    fault_clear();
    store_read_end(f->store);
    as_of_fini(&f->as_of);
    store_close(f->store);
    datadir_close(&f->datadir);
    tmpdir_remove(&f->dir);
    free(f->out);
    return 0;
}

#endif

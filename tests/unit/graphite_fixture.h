/* tests/unit/graphite_fixture.h - a store, and what looks things up
 * and computes for Grafana on it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_UNIT_GRAPHITE_FIXTURE_H
#define COUNTD_TESTS_UNIT_GRAPHITE_FIXTURE_H

#include "tests/lib/test.h"

#include "reader/graphite/render.h"
#include "tests/lib/engines.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

#define NOW   ((int64_t)1795302451) /* 23:07:31 */
#define SHOWN (1 << 20)

struct fixture {
    struct tmpdir tmp;
    struct store *store;
    struct scratch scratch;
    struct chunks answer;
    struct path_search search;
    struct render render;
    char text[SHOWN]; /* of the last answer */
};

/* Later than what any test counts. */
static uint64_t
now_ms(void)
{
    return (uint64_t)(NOW + 10 * 86400) * 1000;
}

static int
set_up(void **state)
{
    struct fixture *r = calloc(1, sizeof *r);

    assert_non_null(r);
    tmpdir_make_in_memory(&r->tmp);
    r->store = engine_open_history(r->tmp.fd, ENGINE_MINUTES, now_ms);
    scratch_init(&r->scratch, (size_t)64 << 20);
    r->search.store = r->store;
    r->search.scratch = &r->scratch;
    assert_rc(store_listing_open(r->store, &r->search.listing), 0);
    *state = r;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *r = *state;

    store_listing_close(r->search.listing);
    store_close(r->store);
    tmpdir_remove(&r->tmp);
    scratch_free(&r->scratch);
    free(r);
    return 0;
}

#endif

/* tests/unit/graphite_fixture.h - a store in memory, and what looks things up
 * and computes for Grafana on it. */
#ifndef COUNTD_TESTS_UNIT_GRAPHITE_FIXTURE_H
#define COUNTD_TESTS_UNIT_GRAPHITE_FIXTURE_H

#include "tests/lib/test.h"

#include "reader/graphite/render.h"
#include "tests/lib/memstore.h"
#include "tests/lib/stored.h"

#define NOW   ((int64_t)1795302451) /* 23:07:31 */
#define SHOWN (1 << 20)

struct fixture {
    struct store *store;
    struct scratch scratch;
    struct chunks answer;
    struct path_search search;
    struct render render;
    char text[SHOWN]; /* of the last answer */
};

static int
set_up(void **state)
{
    struct fixture *r = calloc(1, sizeof *r);

    assert_non_null(r);
    assert_rc(memstore_open(&r->store), 0);
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
    scratch_free(&r->scratch);
    free(r);
    return 0;
}

#endif

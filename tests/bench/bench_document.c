/* tests/bench/bench_document.c - 4,096 rows by libcountd over the directory's
 * socket: as the document of /v1, beside a range of the same rows.
 *
 *     bench_document [--quick]
 *
 * One call after the other on one connection each; the two take turns.  The
 * times are the whole of it: question, answer, and rows that the caller has. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/client/lib/document.h"
#include "tests/bench/bench.h"
#include "tests/bench/figures.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

enum side { DOCUMENT, RANGE, SIDES };

static const char *const titles[SIDES] = {"document", "range"};
static struct countd *handle;

static void
put_counts(struct fleet *f)
{
    const int fd = client_connect(fleet_ack_port(f));
    char key[32];

    for (int i = 0; i < COUNTD_ROWS_MAX; i++) {
        (void)snprintf(key, sizeof key, "page.%015d", i);
        client_increment(fd, "pages", key, 1000 + i);
    }
    client_wins(fd, COUNTD_ROWS_MAX);
    client_close(fd);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
}

static void
ask(enum side side)
{
    struct countd_rows *rows = NULL;
    int64_t first;
    int rc;

    if (side == DOCUMENT)
        rc = document_range(handle, "pages", 5, 0, COUNTD_ROWS_MAX, &first,
                            &rows);
    else
        rc = countd_range(handle, "pages", 5, 0, COUNTD_ROWS_MAX, &rows);
    assert_rc(rc, 0);
    assert_int_equal(rows->count, COUNTD_ROWS_MAX);
    assert_int_equal(rows->rows[COUNTD_ROWS_MAX - 1].count, 1000);
    countd_rows_free(rows);
}

static void
measure(enum side side, uint64_t ms, struct figures *f)
{
    static struct times times;
    const uint64_t begin_ns = clock_ns();
    uint64_t now_ns = begin_ns, count = 0;

    memset(&times, 0, sizeof times);
    while (now_ns - begin_ns < ms * 1000000) {
        const uint64_t from_ns = now_ns;

        ask(side);
        now_ns = clock_ns();
        times_note(&times, now_ns - from_ns);
        count++;
    }
    figures_add(f, (double)count * 1e9 / (double)(now_ns - begin_ns), &times);
}

int
main(int argc, char **argv)
{
    static const struct table table = {titles, SIDES, "/s", 1};
    static struct figures f[SIDES];
    const bool is_quick = bench_begin(argc, argv);
    struct countd_options o = {.size = sizeof o};
    struct fleet *fleet;

    assert_int_equal(service_setup((void **)&fleet), 0);
    fleet_option(fleet, "counter.enable=off");
    service_start(fleet);
    put_counts(fleet);
    o.directory = fleet->path;
    assert_rc(countd_open(&handle, &o), 0);
    for (size_t round = 0; round < (is_quick ? 5 : 15); round++)
        for (enum side s = 0; s < SIDES; s++)
            measure(s, is_quick ? 100 : 300, &f[s]);
    figures_report("4,096 rows as a document", &table, f);
    (void)countd_close(handle); /* it counted nothing */
    return service_teardown((void **)&fleet);
}

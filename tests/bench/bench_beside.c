/* tests/bench/bench_beside.c - how old the answers of one keyspace are that is
 * counted all the time, while 9,000 others get one increment each.
 *
 *     bench_beside [--quick]     900 keyspaces
 *
 * The daemons as they are by default.  The age of an answer is the time since
 * its as_of_ms. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <poll.h>
#include <stdio.h>

#include "common/base/clock.h"
#include "common/client/lib/countd.h"
#include "tests/bench/bench.h"
#include "tests/bench/figures.h"
#include "tests/lib/client.h"
#include "tests/lib/service.h"

#define AGAIN   2 /* rounds over keyspaces that are there */
#define EACH_MS 20
#define GOAL    2.0 /* seconds */

static unsigned keyspaces;

struct fixture {
    struct fleet *fleet;
    int count_fd, burst_fd, read_fd;
    struct countd *c;
};

/* One increment of each of the other keyspaces, on disk at the return. */
static void
count_others(struct fixture *f)
{
    char name[16];

    for (unsigned i = 0; i < keyspaces; i++) {
        (void)snprintf(name, sizeof name, "ks%05u", i);
        client_increment(f->burst_fd, name, "k", 1);
    }
    client_wins(f->burst_fd, keyspaces);
}

/* Seconds since the as_of_ms of an answer. */
static double
age_of(int64_t as_of_ms)
{
    return (double)((int64_t)clock_unix_ms() - as_of_ms) / 1e3;
}

/* Counts and reads once; returns the age of the answer. */
static double
count_and_read(struct fixture *f)
{
    struct client_rows rows;
    double age;

    client_increment(f->count_fd, "hot", "k", 1);
    client_wins(f->count_fd, 1);
    client_range(f->read_fd, "hot", 0, 1, &rows);
    age = age_of(rows.as_of_ms);
    client_rows_free(&rows);
    (void)poll(NULL, 0, EACH_MS); /* paces the load; nothing waits for it */
    return age;
}

static int64_t
as_of_all(struct fixture *f)
{
    int64_t as_of_ms;

    if (countd_as_of(f->c, NULL, 0, &as_of_ms) < 0)
        fail_msg("countd-read says no as_of_ms");
    return as_of_ms;
}

/* The oldest answer while `others` are merged, if they are counted; *seconds:
 * until all of them are readable. */
static double
run_side(struct fixture *f, bool others, double *seconds)
{
    const uint64_t begin_ms = clock_ms();
    const int64_t counted_ms = (int64_t)clock_unix_ms();
    double most = 0;

    if (others)
        count_others(f);
    do {
        const double age = count_and_read(f);

        most = age > most ? age : most;
    } while (as_of_all(f) <= counted_ms + 1000);
    *seconds = (double)(clock_ms() - begin_ms) / 1e3;
    return most;
}

static void
print_line(const char *row, double age, double seconds, double alone)
{
    (void)printf("%-28s %.2f s old at most, all readable after %.2f s; alone "
                 "%.2f s old\n",
                 row, age, seconds, alone);
    report_row(row, "s", age, "2 s", GOAL, age / GOAL);
}

int
main(int argc, char **argv)
{
    struct series ages = {.count = 0}, times = {.count = 0};
    double alone, created, seconds;
    struct fixture f;
    void *state;

    keyspaces = bench_begin(argc, argv) ? 900 : 9000;
    assert_int_equal(service_setup(&state), 0);
    f.fleet = state;
    fleet_options(f.fleet, "log.size=32M", "log.rotate_after=1s", NULL);
    service_start(f.fleet);
    f.count_fd = client_connect(fleet_ack_port(f.fleet));
    f.burst_fd = client_connect(fleet_ack_port(f.fleet));
    f.read_fd = client_connect(fleet_read_port(f.fleet));
    assert_rc(countd_open(&f.c,
                          &(struct countd_options){
                              .size = sizeof(struct countd_options),
                              .directory = f.fleet->path}),
              0);

    alone = run_side(&f, false, &seconds);
    created = run_side(&f, true, &seconds);
    print_line("one beside many, created", created, seconds, alone);
    for (int round = 0; round < AGAIN; round++) {
        series_add(&ages, run_side(&f, true, &seconds));
        series_add(&times, seconds);
    }
    print_line("one beside many, again", series_median(&ages),
               series_median(&times), alone);
    client_close(f.count_fd);
    client_close(f.burst_fd);
    client_close(f.read_fd);
    (void)countd_close(f.c); /* it counted nothing */
    return service_teardown(&state);
}

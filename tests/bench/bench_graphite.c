/* tests/bench/bench_graphite.c - what Grafana asks of countd-read.
 *
 *   bench_graphite [--quick]
 *
 * A keyspace has 100,000 keys, and 10 of them increments in each minute of the
 * last 24 hours.  One connection asks, a request at a time; printed are medians
 * of the times of single requests, smallest and largest. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/bench/figures.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"
#include "tests/lib/stored.h"

#define SERIES   10
#define OTHERS   100000
#define MINUTES  1440
#define KEY_SIZE 24
#define BODY_MAX ((size_t)32 << 20)

static const struct {
    const char *title, *path;
} cases[] = {
    {"10 series, 24 h by minute", "/render?target=web.hits.*&from=-24h"},
    {"the same, 300 points each",
     "/render?target=web.hits.*&from=-24h&maxDataPoints=300"},
    {"their sum",
     "/render?target=sumSeries(web.hits.*)&from=-24h&maxDataPoints=300"},
    {"topKeys of 10", "/render?target=topKeys('web',10)&from=-24h"
                      "&maxDataPoints=300"},
    {"a constant line", "/render?target=constantLine(1)&from=-24h"},
    {"nodes below a node", "/metrics/find?query=web.*"},
    {"1000 nodes of 100,000", "/metrics/find?query=web.page.000*"},
};

/* ---- the keyspace -------------------------------------------------------- */

static int
compare_deltas(const void *a, const void *b)
{
    const struct store_delta *x = a, *y = b;
    const int order = memcmp(x->key, y->key, KEY_SIZE);

    return order != 0 ? order
                      : (x->minute > y->minute) - (x->minute < y->minute);
}

/* Fills the keyspace as merges would have. */
static void
fill_store(struct store *store)
{
    static char keys[SERIES + OTHERS][48];
    static struct store_delta deltas[SERIES * MINUTES + OTHERS];
    const uint32_t now = (uint32_t)(clock_unix_ms() / 60000);
    const struct store_maintenance forever = {.until_ns = UINT64_MAX};
    size_t count = 0;

    for (uint32_t i = 0; i < SERIES + OTHERS; i++) {
        const bool is_series = i < SERIES;

        if (is_series)
            (void)snprintf(keys[i], sizeof keys[i], "hits.%019u", i);
        else
            (void)snprintf(keys[i], sizeof keys[i], "page.%06u.aaaaaaaaaaaa",
                           i - SERIES);
        for (uint32_t m = 0; m < (is_series ? MINUTES : 1); m++)
            deltas[count++] =
                stored_delta(keys[i], KEY_SIZE, now - m, 1000 + m % 97);
    }
    qsort(deltas, count, sizeof deltas[0], compare_deltas);
    assert_rc(stored_apply(store, "web", NULL, deltas, count), 0);
    while (store_maintain(store, &forever))
        continue;
}

static void
make_keyspace(const struct fleet *f)
{
    struct stored_dir s;

    stored_write(&s, f->path, "1m:2d,1h:90d,1d:10y");
    fill_store(s.store);
    stored_close(&s);
}

/* ---- requests ------------------------------------------------------------ */

/* Asks, and returns the time until the whole answer is there, in us. */
static double
ask_path(int fd, const char *path, size_t *size)
{
    static char body[BODY_MAX];
    const uint64_t begin_ns = clock_ns();
    char head[4096];
    const char *length;
    size_t n = 0;

    n = (size_t)snprintf(head, sizeof head,
                         "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    client_send(fd, head, n);
    n = 0;
    do {
        assert_int_equal(client_read(fd, head + n, 1), 1);
        head[++n] = '\0';
    } while (n < 4 || strcmp(head + n - 4, "\r\n\r\n") != 0);
    length = strstr(head, "Content-length: ");
    *size = length ? strtoul(length + 16, NULL, 10) : 0;
    assert_memory_equal(head, "HTTP/1.1 200", 12);
    assert_true(*size <= BODY_MAX);
    assert_int_equal(client_read(fd, body, *size), *size);
    return (double)(clock_ns() - begin_ns) / 1e3;
}

int
main(int argc, char **argv)
{
    const size_t rounds = bench_begin(argc, argv) ? 5 : 32;
    struct fleet f;
    int fd;

    fleet_init(&f);
    fleet_option(&f, "read.http=127.0.0.1:0");
    make_keyspace(&f);
    fleet_start(&f, FLEET_READ);
    fd = client_connect(daemon_port(fleet_daemon(&f, FLEET_READ), "read-http"));
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct series us = {.count = 0};
        size_t size = 0;

        (void)ask_path(fd, cases[c].path, &size);
        for (size_t round = 0; round < rounds; round++)
            series_add(&us, ask_path(fd, cases[c].path, &size));
        printf("%-28s %8.2f ms  (%.2f to %.2f), %zu bytes\n", cases[c].title,
               series_median(&us) / 1e3, series_min(&us) / 1e3,
               series_max(&us) / 1e3, size);
    }
    client_close(fd);
    fleet_fini(&f);
    return 0;
}

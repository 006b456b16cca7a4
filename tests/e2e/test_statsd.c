/* tests/e2e/test_statsd.c - what StatsD and Graphite lines count: lines sent to
 * countd-write, the built program, and what its logs hold after a clean stop.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/e2e/statsd_fixture.h"

#include <string.h>

/* ---- vectors ------------------------------------------------------------ */

struct expected {
    const char *keyspace, *key;
    int64_t count;
};

struct vector {
    const char *title;
    const char *port;     /* "statsd" (datagrams), "statsd-tcp", "graphite" */
    const char *sent[14]; /* datagrams, or pieces of one stream */
    struct expected after[9];
    int64_t lines, bad, ignored;
    const char *option; /* NULL: none */
};

#define N "statsd.timer.count"
#define S "statsd.timer.sum"

static const struct vector vectors[] = {
    {"gauges that are totals count what they grow by",
     "statsd",
     {"t.a:10|g", "t.a:14.5|g", "t.a:14.5|g\nt.a:20|g|#x:y", "t.a:3|g",
      "t.b:1:2:4|g", "u.a:1|g\nu.a:5|g", "t.a:+5|g", "t.c:7|c",
      "t.d:50|g|T2000\nt.d:70|g|T1990\nt.d:60|g|T2010"},
     {{C, "t.a", 13}, {C, "t.b", 3}, {C, "t.c", 7}, {C, "t.d", 10}},
     .lines = 13,
     .bad = 1,
     .ignored = 2,
     .option = "statsd.total=t.*"},
    {"totals of Graphite count what they grow by",
     "graphite",
     {"h.x.c 5 100\nh.x.c 25 110\n", "h.x.c 20 105\nh.x.c 2 120\n",
      "h.x.c -3 130\n", "stats_counts.k 4 1\nh.x.e 3 1\n",
      "h.x.d 100 1\nh.x.d 101 140\n"},
     {{C, "x", 23}, {C, "k", 4}},
     .lines = 9,
     .bad = 1,
     .ignored = 1,
     .option = "graphite.total=h.*.c h.*.d"},
    {"lines of a datagram; CR LF, empty lines and a last LF are none",
     "statsd",
     {"a:1|c\nb:2|c", "a:1|c\n", "c:1|c\r\nd:1|c\r\n", "\n\n"},
     {{C, "a", 2}, {C, "b", 2}, {C, "c", 1}, {C, "d", 1}},
     .lines = 5},
    {"rates, and thirds that make a whole",
     "statsd",
     {"a:1|c|@0.1", "b:1|c|@1", "c:3|c|@.5", "d:1|c|@1e-1",
      "e:1|c|@0.3\ne:1|c|@0.3\ne:1|c|@0.3", "f:1|c|@0.3"},
     {{C, "a", 10},
      {C, "b", 1},
      {C, "c", 6},
      {C, "d", 10},
      {C, "e", 10},
      {C, "f", 3}},
     .lines = 8},
    {"fractions are added before they are rounded",
     "statsd",
     {"a:1.5|c\na:1.5|c", "b:0.25|c\nb:0.25|c\nb:0.25|c\nb:0.25|c", "c:2.4|c",
      "d:-0.5|c\nd:-0.5|c", "e:1e3|c", "f:1e-7|c", "g:.5|c\ng:.5|c", "h:5.|c"},
     {{C, "a", 3},
      {C, "b", 1},
      {C, "c", 2},
      {C, "d", -1},
      {C, "e", 1000},
      {C, "g", 1},
      {C, "h", 5}},
     .lines = 14},
    {"timers: their number and their sum",
     "statsd",
     {"t:12|ms", "t:3|ms|@0.1", "h:5|h", "d:7|d", "bad:-1|ms",
      "f:1.5|ms\nf:1.5|ms"},
     {{N, "t", 11},
      {S, "t", 42},
      {N, "h", 1},
      {S, "h", 5},
      {N, "d", 1},
      {S, "d", 7},
      {N, "f", 2},
      {S, "f", 3}},
     .lines = 7,
     .bad = 1},
    {"timers that are off",
     "statsd",
     {"t:12|ms", "a:1|c"},
     {{C, "a", 1}},
     .lines = 2,
     .ignored = 1,
     .option = "statsd.timers=off"},
    {"gauges, sets, events and checks",
     "statsd",
     {"g:3|g", "g:+2|g", "s:bob|s", "_e{5,4}:title|text", "_sc|n|0", "ok:1|c"},
     {{C, "ok", 1}},
     .lines = 6,
     .ignored = 5},
    {"tags are part of the name, sorted",
     "statsd",
     {"a:1|c|#h:x,b:2", "a:1|c|#b:2,h:x,b:2", "a:1|c|#t"},
     {{C, "a;b=2;h=x", 2}, {C, "a;t=", 1}},
     .lines = 3,
     .option = "statsd.tags=append"},
    {"the first part of a name is the keyspace",
     "statsd",
     {"web.hits.home:1|c", "web:2|c", ".x:3|c", "web.:4|c", "web.t:5|ms"},
     {{"web", "hits.home", 1},
      {C, "web", 2},
      {C, ".x", 3},
      {C, "web.", 4},
      {"web.timer.count", "t", 1},
      {"web.timer.sum", "t", 5}},
     .lines = 5,
     .option = "statsd.split=1"},
    {"tags are not split",
     "statsd",
     {"a;v=1.2:1|c\na.b;v=1.2:2|c\na.;v=1.2:4|c"},
     {{C, "a;v=1.2", 1}, {"a", "b;v=1.2", 2}, {C, "a.;v=1.2", 4}},
     .lines = 3,
     .option = "statsd.split=1"},
    {"integers beyond 2^53, and the bounds",
     "statsd",
     {"a:9007199254740993|c", "b:9223372036854775807|c",
      "c:-9223372036854775808|c", "d:9223372036854775807|c\nd:1|c"},
     {{C, "a", 9007199254740993},
      {C, "b", INT64_MAX},
      {C, "c", INT64_MIN},
      {C, "d", INT64_MAX}},
     .lines = 5},
    {"a stream in pieces, and a last line without LF",
     "statsd-tcp",
     {"a:1|c\nb", ":2|", "c\r\n\n", "bad\nc:3", "|c"},
     {{C, "a", 1}, {C, "b", 2}, {C, "c", 3}},
     .lines = 4,
     .bad = 1},
    {"a request after lines is only malformed",
     "statsd-tcp",
     {"a:1|c\nbad\nb:1|c\n", "GET / HTTP/1.1\r\n"},
     {{C, "a", 1}, {C, "b", 1}},
     .lines = 4,
     .bad = 2},
    {"a request at the beginning ends the connection",
     "statsd-tcp",
     {"POST /a:1|c HTTP/1.1\r\nHost: x\r\n\r\na:1|c\n"},
     {{NULL, NULL, 0}},
     .lines = 0},
    {"so does one without LF",
     "graphite",
     {"GET /stats_counts.a HTTP/1.0"},
     {{NULL, NULL, 0}},
     .lines = 0},
    {"a datagram that begins as TLS does counts nothing, and the next one does",
     "statsd",
     {"\x16\x03\x01\nforged:1|c\n", "a:1|c\n"},
     {{C, "a", 1}},
     .lines = 2,
     .bad = 1},
    {"so does QUIC, of version 2 and of one to come; UTF-8 and Latin-1 are "
     "names",
     "statsd",
     {"\xc9k3C\xcf\x08\x04\x05\nforged:1|c\n", "\xfeQ999\x14\nforged:1|c\n",
      "\xc3\xa9:1|c\n", "\xe9:1|c\nb:1|c"},
     {{C, "\xc3\xa9", 1}, {C, "\xe9", 1}, {C, "b", 1}},
     .lines = 5,
     .bad = 2},
    {"so does TLS, whose session ticket a web page may choose",
     "statsd-tcp",
     {"\x16\x03\x01\x02\x01\x01\n", "a:1|c\n"},
     {{NULL, NULL, 0}},
     .lines = 0},
    {"names of statsd's counters, old and new; all else is ignored",
     "graphite",
     {"stats_counts.web.hits 7 1\nstats.counters.s.count 3.3333333333333335 1\n"
      "stats.counters.s.rate 0.3 1\nstats.timers.t.sum 9 1\n"
      "stats.counters..count 1 1\n"},
     {{C, "web.hits", 7}, {C, "s", 3}},
     .lines = 5,
     .ignored = 3},
    {"malformed lines; the connection stays",
     "graphite",
     {"stats_counts.a nan 1\nstats_counts.a inf 1\nstats_counts.a 1\n"
      "stats_counts.a 1 2 3\nstats_counts.a 1 x\nstats_counts.\xff 2 1\n"},
     {{C, "\xff", 2}},
     .lines = 6,
     .bad = 5},
};

/* All increments of the logs are those expected, or counts of ours. */
static void
check_after(const struct fixture *r, const struct vector *v)
{
    for (const struct expected *e = v->after; e->keyspace; e++)
        if (sum_counted(r, e->keyspace, e->key) != e->count)
            fail_msg("%s: %s has %lld, not %lld", v->title, e->key,
                     (long long)sum_counted(r, e->keyspace, e->key),
                     (long long)e->count);
    for (size_t i = 0; i < r->records.count; i++) {
        const struct record *one = &r->records.at[i];
        bool known = strncmp(one->keyspace, "countd.", 7) == 0;

        for (const struct expected *e = v->after; e->keyspace; e++)
            known |= strcmp(one->keyspace, e->keyspace) == 0 &&
                     strcmp(one->key, e->key) == 0;
        if (!known)
            fail_msg("%s: there is %s %s", v->title, one->keyspace, one->key);
    }
}

static int64_t
sum_ignored(const struct fixture *r, const char *keyspace)
{
    int64_t sum = 0;

    for (size_t i = 0; i < r->records.count; i++)
        if (strcmp(r->records.at[i].keyspace, keyspace) == 0 &&
            strncmp(r->records.at[i].key, "ignored", 7) == 0)
            sum += r->records.at[i].increment;
    return sum;
}

static void
a_vector_counts(void **state)
{
    const struct vector *v = *state;
    const char *self =
        strcmp(v->port, "graphite") == 0 ? "countd.graphite" : "countd.statsd";
    const bool datagrams = strcmp(v->port, "statsd") == 0;
    struct fixture fixture = {.data = ""}, *r = &fixture;
    int fd;

    set_up(r);
    BEGIN(r, "log.size=1M", v->option ? v->option : "log.count=2");
    fd = datagrams ? connect_udp(&r->writer)
                   : client_connect(daemon_port(&r->writer, v->port));
    for (size_t i = 0; v->sent[i]; i++)
        send_lines(fd, v->sent[i]);
    client_close(fd);
    stop_writer(r);
    check_after(r, v);
    if (sum_counted(r, self, "lines") != v->lines ||
        sum_counted(r, self, "bad") != v->bad ||
        sum_ignored(r, self) != v->ignored)
        fail_msg("%s: lines %lld, bad %lld, ignored %lld", v->title,
                 (long long)sum_counted(r, self, "lines"),
                 (long long)sum_counted(r, self, "bad"),
                 (long long)sum_ignored(r, self));
    tear_down(r);
}

int
main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        test_add(0, (struct CMUnitTest){vectors[i].title, a_vector_counts, NULL,
                                        NULL, (void *)(uintptr_t)&vectors[i]});
    return test_main(argc, argv);
}

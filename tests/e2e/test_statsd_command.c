/* tests/e2e/test_statsd_command.c - countd statsd, and the figures of StatsD
 * lines in countd status. */
#include "tests/e2e/statsd_fixture.h"

#include <signal.h>
#include <string.h>

#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define CASE(name, f)                                                          \
    TEST_IN(name, struct fleet *f, service_setup, service_teardown)

CASE(the_command_shows_what_came_and_what_was_lost, f)
{
    static const char *const options[] = {"statsd.listen=127.0.0.1:0",
                                          "graphite.listen=127.0.0.1:0"};
    const struct daemon *writer = fleet_daemon(f, FLEET_WRITE);
    int fd;

    for (size_t i = 0; i < 2; i++)
        fleet_option(f, options[i]);
    service_start(f);
    expect(FLEET_RUN(f, "statsd"), 1, "nothing was received");
    fd = udp(writer);
    say(fd, "countd.datagram.web-1:1|g\na:1|c\nbad");
    say(fd, "countd.datagram.web-1:4|g\na:1|c");
    client_close(fd);
    fd = client_connect(daemon_port(writer, "graphite"));
    say(fd, "stats_counts.b 2 1\nload 0.5 1\n");
    client_close(fd);
    /* A clean stop flushes, and hands the log on. */
    fleet_stop(f, FLEET_WRITE);
    fleet_await_drained(f, LIMIT_MS);

    expect(FLEET_RUN(f, "statsd"), 0, "statsd    datagrams          2");
    expect(FLEET_RUN(f, "statsd", "--tsv"), 0,
           "statsd\tlines\t5\nstatsd\tbad\t1\nstatsd\tignored.gauge\t2\n");
    expect(FLEET_RUN(f, "statsd", "--tsv"), 0,
           "graphite\tlines\t2\ngraphite\tbad\t0\ngraphite\tignored\t1\n");
    expect(FLEET_RUN(f, "statsd", "--tsv"), 0, "web-1\t2\t2\t0\n");
    expect(FLEET_RUN(f, "statsd", "--json"), 0,
           "{\"sender\": \"web-1\", \"numbered\": 2, \"missing\": 2, "
           "\"repeated\": 0}");
    assert_int_equal(service_count(f, C, "a"), 2);
    assert_int_equal(service_count(f, C, "b"), 2);
}

/* The rows are put a few times a second. */
ON_FIXTURE(status_has_the_figures, r)
{
    const uint64_t end_ms = clock_ms() + LIMIT_MS * test_slow();
    char printed[8192];
    int fd, status;

    BEGIN(r, "log.size=1M");
    fd = udp(&r->writer);
    say(fd, "a:1|c\nbad\ng:1|g");
    client_close(fd);
    do
        status = daemon_run(printed, sizeof printed, "countd", "status", "-d",
                            r->data, NULL);
    while (status != 0 ||
           (!strstr(printed, "statsd  1 datagrams, 0 dropped by the kernel; "
                             "3 lines, 1 malformed, 1 ignored") &&
            clock_ms() < end_ms));
    assert_true(clock_ms() < end_ms);
    daemon_signal(&r->writer, SIGUSR1);
    await_output(r, "statsd_datagrams=1 statsd_dropped=0 statsd_lines=3");
    stop(r);
}

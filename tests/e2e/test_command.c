/* tests/e2e/test_command.c - the countd command: the transcript command.txt,
 * and what needs two data directories. */
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/serve_fixture.h"
#include "tests/lib/transcript.h"

/* Runs a line of shell where some other data directory is ./data. */
static int
run_elsewhere(const struct serve_fixture *s, const char *line)
{
    char script[3000], path[700];

    daemon_path("countd", path, sizeof path);
    snprintf(script, sizeof script,
             "cd '%s/elsewhere' && countd() { COUNTD_CONF= '%s' \"$@\"; } && "
             "ports='-o %s -o %s' && %s",
             s->dir.path, path, s->ack, s->read, line);
    return daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL);
}

static void
write_elsewhere(const struct serve_fixture *s, struct daemon *writer)
{
    char data[700];

    snprintf(data, sizeof data, "%s/elsewhere/data", s->dir.path);
    daemon_start(writer, "countd-write", "-d", data, "-o",
                 "write.listen=127.0.0.1:0", "-o",
                 "write.ack_listen=127.0.0.1:0", "-o", "counter.enable=false",
                 NULL);
}

/* In ./data a log waits for a worker that never comes. */
WITH_SITE(
    a_data_directory_that_nothing_names_is_not_taken_for_that_of_the_ports, s)
{
    struct daemon writer = {.output = -1};
    char ack[64];

    assert_int_equal(mkdirat(s->dir.fd, "elsewhere", 0700), 0);
    write_elsewhere(s, &writer);
    snprintf(ack, sizeof ack, "write.ack_listen=127.0.0.1:%u",
             daemon_port(&writer, "ack"));
    expect_text(RUN(s, "-o", ack, "incr", "a", "b", "7"), 0, "");
    expect_text(RUN(s, "incr", "a", "b"), 0, "");
    assert_int_equal(kill(s->children[0], SIGUSR2), 0);

    expect_text(run_elsewhere(s, "countd $ports flush"), 0, "");
    expect_text(run_elsewhere(s, "countd $ports get a b"), 0, "1\n");
    expect_text(run_elsewhere(s, "countd $ports keyspaces --tsv"), 0,
                "1\t1\t-\ta\t-\n"); /* sizes of other files are no answer */
    expect_text(run_elsewhere(s, "countd log list >list"), 0, "");
    expect(run_elsewhere(s, "countd $ports -d data flush --timeout 100ms"), 1,
           "not merged in time");

    assert_int_equal(daemon_stop(&writer), 0);
    daemon_fini(&writer);
    expect_text(run_elsewhere(s, "countd $ports flush"), 0, "");
    expect(run_elsewhere(s, "countd log list"), 0,
           "no countd-write runs on ./data, which is taken as nothing names");
    expect_text(run_elsewhere(s, "countd -d data log list >list"), 0, "");
}

int
main(int argc, char **argv)
{
    return transcript_main("tests/e2e/command.txt", argc, argv);
}

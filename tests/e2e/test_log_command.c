/* tests/e2e/test_log_command.c - countd log, check and backup: the transcript
 * log_command.txt, and what needs a signal. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "common/setup/datadir.h"
#include "tests/lib/file.h"
#include "tests/lib/serve_fixture.h"

/* A log with five increments that no worker has merged. */
static void
fill_log(struct serve_fixture *s)
{
    struct daemon writer;
    const char *const argv[] = {
        "-d", s->data,         "-o", "log.size=64K",
        "-o", "write.listen=", "-o", "write.ack_listen=127.0.0.1:0",
        NULL};
    const struct daemon_how how = {.argv = argv};

    assert_int_equal(daemon_start_how(&writer, "countd-write", &how), 0);
    snprintf(s->ack, sizeof s->ack, "write.ack_listen=127.0.0.1:%u",
             daemon_port(&writer, "ack"));
    expect(RUN(s, "load",
               serve_fixture_put(s, "in.tsv",
                                 "a\tx\t1\na\tx\t2\na\ty\t4\nb\tx\t8\n"
                                 "b\ty\t16\n")),
           0, "5 increments acknowledged");
    assert_int_equal(daemon_stop(&writer), 0);
    daemon_fini(&writer);
}

/* Until flush asks the writer, which is this process, to seal its log. */
static void
await_rotation(void)
{
    const struct timespec limit = {.tv_sec = (time_t)test_patience(20)};
    sigset_t mask;

    assert_int_equal(sigemptyset(&mask), 0);
    assert_int_equal(sigaddset(&mask, SIGUSR2), 0);
    assert_int_equal(sigtimedwait(&mask, NULL, &limit), SIGUSR2);
}

WITH_EMPTY(flush_ends_with_1_when_it_sees_damage_come, s)
{
    const char *const argv[] = {"flush", "-d", s->data, "-o", s->read, NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    struct daemon worker, flush;
    struct datadir dir;
    sigset_t mask;
    int fd, status;
    long pid;

    fill_log(s);
    file_write(file_path(s->data, "log/0000000000"), 8192 + 544 + 20,
               "damaged damaged", 16);
    daemon_start(&s->serve, "countd-read", "-d", s->data, "-o",
                 "read.listen=127.0.0.1:0");
    snprintf(s->read, sizeof s->read, "read.http=127.0.0.1:%u",
             daemon_port(&s->serve, "read-http"));

    /* The worker comes when flush has looked at what was set aside before. */
    assert_int_equal(sigemptyset(&mask), 0);
    assert_int_equal(sigaddset(&mask, SIGUSR2), 0);
    assert_int_equal(sigprocmask(SIG_BLOCK, &mask, NULL), 0);
    assert_rc(datadir_open(&dir, s->data, DATADIR_READ), 0);
    assert_rc(datadir_writer_lock(&dir, &fd, &pid), 0);
    assert_int_equal(daemon_start_how(&flush, "countd", &how), 0);
    await_rotation();
    daemon_start(&worker, "countd-worker", "-d", s->data);
    status = daemon_wait(&flush);
    (void)daemon_output(&flush, text, sizeof text);
    expect(status, 1, "not readable: 1 damaged log quarantined");
    assert_lacks(text, "not merged in time");

    assert_int_equal(daemon_stop(&worker), 0);
    daemon_fini(&worker);
    daemon_fini(&flush);
    assert_int_equal(close(fd), 0);
    datadir_close(&dir);
    (void)signal(SIGUSR2, SIG_IGN); /* drops what is pending */
    assert_int_equal(sigprocmask(SIG_UNBLOCK, &mask, NULL), 0);
    (void)signal(SIGUSR2, SIG_DFL); /* a valid number */
}

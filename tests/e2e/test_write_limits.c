/* tests/e2e/test_write_limits.c - countd-write where connections, descriptors,
 * logs or the disk come to an end. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/e2e/write_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- limits ------------------------------------------------------------ */

ON_FIXTURE(out_of_descriptors_accepting_pauses_and_nobody_is_harmed, r)
{
    struct rlimit limit = {0};
    uint8_t reply[3];
    int fds[16], i, open_fds;

    start_writer(r, "64K", NULL, NULL);
    fds[0] = connect_ack(r);
    client_increment(fds[0], "few", "k", 1);
    client_wins(fds[0], 1);
    /* All it has, and four more. */
    open_fds = fds[0];
    for (i = 0; i < 200; i++) {
        char path[64];

        (void)snprintf(path, sizeof path, "/proc/%ld/fd/%d",
                       (long)r->writer.pid, i);
        if (access(path, F_OK) == 0)
            open_fds = i + 1;
    }
    assert_int_equal(prlimit(r->writer.pid, RLIMIT_NOFILE, NULL, &limit), 0);
    limit.rlim_cur = (rlim_t)open_fds + 4;
    assert_int_equal(prlimit(r->writer.pid, RLIMIT_NOFILE, &limit, NULL), 0);
    for (i = 1; i < 16; i++) {
        fds[i] = connect_ack(r);
        client_increment(fds[i], "few", "k", 1);
    }
    client_wins(fds[1], 1);
    assert_rc(client_try_read(fds[15], reply, 3, 150), -EAGAIN);
    client_increment(fds[0], "few", "k", 1);
    client_wins(fds[0], 1);

    for (i = 0; i < 16; i++) {
        if (i > 1)
            client_wins(fds[i], 1);
        client_close(fds[i]);
    }
    stop_writer(r);
    assert_int_equal(r->records.count, 17);
}

ON_FIXTURE(at_log_max_it_pushes_back_and_goes_on_when_a_log_is_emptied, r)
{
    uint8_t *bytes = test_memory(malloc(60 * SIZE)), reply[3];
    struct log log;
    int fd, log_fd, i;

    start_writer(r, "16K", "log.max=2", NULL);
    log_fd = open_logs(r);
    for (i = 0; i < 60; i++)
        client_message(bytes + i * SIZE, "cap", "k", 1);
    fd = connect_ack(r);
    client_send(fd, bytes, 40 * SIZE);
    client_wins(fd, 30);
    assert_rc(client_try_read(fd, reply, 3, 50), -EAGAIN);
    daemon_await_words(&r->writer, "log.max=2");

    await_logs(r, LOG_MODE_FULL, 2);
    assert_rc(log_claim(&log, log_fd, 1, LOG_MODE_FULL), 0);
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
    client_wins(fd, 10);
    client_close(fd);
    close(log_fd);
    free(bytes);
    stop_writer(r);

    assert_int_equal(r->records.count, 15 + 10);
}

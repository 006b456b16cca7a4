/* tests/e2e/write_fixture.h - countd-write, the built program, alone on a
 * directory of its own; what its logs hold is read when it has stopped.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_E2E_WRITE_FIXTURE_H
#define COUNTD_TESTS_E2E_WRITE_FIXTURE_H

#include "tests/lib/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/records.h"
#include "tests/lib/tmpdir.h"

#define SIZE     CLIENT_MESSAGE_SIZE
#define LIMIT_MS 20000

struct fixture {
    struct tmpdir dir;
    struct daemon writer;
    struct records records;
    char data[600];
};

static inline void
set_up(struct fixture *r)
{
    tmpdir_make(&r->dir);
    (void)snprintf(r->data, sizeof r->data, "%s", r->dir.path);
}

static inline void
tear_down(struct fixture *r)
{
    daemon_fini(&r->writer);
    records_free(&r->records);
    tmpdir_remove(&r->dir);
}

/* Starts the writer with up to three settings more (NULL: none). */
static inline void
start_writer(struct fixture *r, const char *log_size, const char *one,
             const char *two)
{
    char size[64];

    (void)snprintf(size, sizeof size, "log.size=%s", log_size);
    daemon_start(&r->writer, "countd-write", "-d", r->data, "-o", size, "-o",
                 "write.listen=127.0.0.1:0", "-o",
                 "write.ack_listen=127.0.0.1:0", "-o", "log.merge_share=0",
                 "-o", one ? one : "log.rotate_after=1h", "-o",
                 two ? two : "log.count=2");
}

static inline int
connect_ack(const struct fixture *r)
{
    return client_connect(daemon_port(&r->writer, "ack"));
}

static inline int
connect_silent(const struct fixture *r)
{
    return client_connect(daemon_port(&r->writer, "silent"));
}

static inline int
open_logs(const struct fixture *r)
{
    char path[700];
    int fd;

    (void)snprintf(path, sizeof path, "%s/log", r->data);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static inline void
read_logs(struct fixture *r)
{
    int fd = open_logs(r);

    records_free(&r->records); /* of an earlier call */
    records_read(&r->records, fd);
    close(fd);
    assert_int_equal(r->records.damaged, 0);
}

/* A clean stop, and then what the logs hold. */
static inline void
stop_writer(struct fixture *r)
{
    assert_int_equal(daemon_stop(&r->writer), 0);
    read_logs(r);
    assert_int_equal(r->records.states[LOG_OPEN], 0);
}

/* Logs with these permission bits. */
static inline size_t
logs_in_mode(const struct fixture *r, mode_t mode)
{
    char name[LOG_NAME_SIZE];
    int fd = open_logs(r);
    size_t count = 0;
    struct stat st;

    for (uint64_t i = 0; i < 64; i++) {
        log_name(i, name);
        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            (st.st_mode & 0777) == mode)
            count++;
    }
    close(fd);
    return count;
}

/* Waits for something that comes by itself. */
static inline void
await_logs(const struct fixture *r, mode_t mode, size_t count)
{
    const uint64_t end_ms = test_deadline(LIMIT_MS);

    while (logs_in_mode(r, mode) != count) {
        if (clock_ms() > end_ms)
            fail_msg("%zu logs of mode %04o, not %zu", logs_in_mode(r, mode),
                     (unsigned)mode, count);
        poll(NULL, 0, 2);
    }
}

/* A figure that SIGUSR1 prints, such as " syncs=". */
static inline uint64_t
ask_figure(const struct fixture *r, const char *name)
{
    static char text[1 << 20];
    const uint64_t end_ms = test_deadline(LIMIT_MS);
    const size_t before = daemon_output(&r->writer, text, sizeof text);
    const char *at;

    daemon_signal(&r->writer, SIGUSR1);
    for (;;) {
        (void)daemon_output(&r->writer, text, sizeof text);
        at = strstr(text + before, name);
        if (at && strchr(at, '\n'))
            return strtoull(at + strlen(name), NULL, 10);
        if (clock_ms() > end_ms)
            fail_msg("no %s in:\n%s", name, text + before);
        poll(NULL, 0, 2);
    }
}

#define ON_FIXTURE(name, r)                                                    \
    TEST_WITH(name, struct fixture, r, set_up, tear_down)

#endif

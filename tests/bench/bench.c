/* tests/bench/bench.c - see bench.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/log/logdir.h"
#include "tests/lib/test.h"

#define TIMEOUT_MS 120000
#define QUIET_MS   100

static char **arguments;

bool
bench_begin(int argc, char **argv)
{
    bool is_quick = false;

    arguments = argv;
    for (int i = 1; i < argc; i++)
        is_quick |= strcmp(argv[i], "--quick") == 0;
    must(setenv("TMPDIR", "/var/tmp", 0), "environment");
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* only looks */
    return is_quick;
}

uint64_t
bench_number(const char *option, uint64_t normal)
{
    for (char **at = arguments + 1; *at && at[1]; at++)
        if (strcmp(*at, option) == 0)
            return strtoull(at[1], NULL, 10);
    return normal;
}

long
must(long result, const char *what)
{
    if (result < 0)
        fail_msg("%s: %s", what, strerror(errno));
    return result;
}

void *
need(size_t count, size_t size)
{
    return test_memory(calloc(count, size));
}

/* ---- processes ---------------------------------------------------------- */

pid_t
bench_fork(void)
{
    pid_t pid;

    (void)fflush(NULL); /* or the child would print it again */
    pid = (pid_t)must(fork(), "fork");
    if (pid == 0)
        must(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
    return pid;
}

void
bench_kill(pid_t pid)
{
    must(kill(pid, SIGKILL), "kill");
    must(waitpid(pid, NULL, 0), "wait");
}

double
bench_cpu_ns(pid_t pid)
{
    struct timespec t;
    clockid_t id;

    errno = clock_getcpuclockid(pid, &id);
    must(-errno, "processor time");
    must(clock_gettime(id, &t), "processor time");
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double
bench_proc(pid_t pid, const char *file, const char *field)
{
    char path[64], line[256];
    double number = 0;
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%d/%s",
                   (int)(pid ? pid : getpid()), file);
    f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, field, strlen(field)) == 0)
            number = strtod(line + strlen(field), NULL);
    (void)fclose(f);
    return number;
}

/* ---- logs --------------------------------------------------------------- */

static int
open_logs(const char *data_dir, struct logdir *logs)
{
    char path[700];
    struct layout l;
    int fd;

    (void)snprintf(path, sizeof path, "%s/log", data_dir);
    fd = (int)must(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path);
    assert_rc(layout_init(&l, 256, 256), 0);
    assert_rc(logdir_open(logs, fd, &l, 32 << 20), 0);
    return fd;
}

void
await_logs(const char *data_dir, size_t count)
{
    const uint64_t deadline_ms = clock_ms() + TIMEOUT_MS;
    struct logdir logs;
    const int fd = open_logs(data_dir, &logs);

    do {
        (void)poll(NULL, 0, 10); /* paces the looking */
        assert_rc(logdir_scan(&logs), 0);
        if (clock_ms() > deadline_ms)
            fail_msg("the logs of %s were not made in time", data_dir);
    } while (logs.count < count);
    must(syncfs(fd), "sync");
    logdir_close(&logs);
    (void)close(fd);
}

void
empty_logs(const char *data_dir, bool for_ever)
{
    uint64_t quiet_ms = clock_ms() + QUIET_MS;
    struct logdir logs;
    struct log log;
    const int fd = open_logs(data_dir, &logs);

    while (for_ever || clock_ms() < quiet_ms) {
        if (logdir_claim(&logs, LOG_MODE_FULL, &log) < 0) {
            (void)poll(NULL, 0, 10); /* cut short: an earlier look */
            continue;
        }
        assert_rc(log_empty(&log), 0);
        assert_rc(log_release(&log), 0);
        quiet_ms = clock_ms() + QUIET_MS;
    }
    logdir_close(&logs);
    (void)close(fd);
}

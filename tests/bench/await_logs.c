/* tests/bench/await_logs.c - see await_logs.h. */
#include "tests/bench/await_logs.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"

#define TIMEOUT_MS 120000

static size_t
count_logs(const char *pattern)
{
    glob_t found;
    size_t count;

    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return 0;
    count = found.gl_pathc;
    globfree(&found);
    return count;
}

static void
die(const char *path)
{
    (void)fprintf(stderr, "logs of %s: %s\n", path, strerror(errno));
    exit(1);
}

void
await_logs(const char *data_dir, size_t count)
{
    const uint64_t deadline_ms = clock_ms() + TIMEOUT_MS;
    char pattern[700];
    int fd;

    (void)snprintf(pattern, sizeof pattern, "%s/log/[0-9]*", data_dir);
    while (count_logs(pattern) < count) {
        errno = ETIMEDOUT;
        if (clock_ms() > deadline_ms)
            die(data_dir);
        (void)poll(NULL, 0, 10); /* paces the looking */
    }
    fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || syncfs(fd) < 0)
        die(data_dir);
    (void)close(fd);
}

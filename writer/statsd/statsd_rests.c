/* writer/statsd/statsd_rests.c - the rests of sums through a clean stop; see
 * statsd.h.
 *
 *     statsd_rests_write()  at a stop, after the last flush
 *     statsd_rests_read()   at the next start, which empties the file
 *
 * live/statsd-rests has lines as countd load reads them, with millionths for
 * increments, and is empty while countd-write runs.  It is renamed into place, or
 * removed where there are no rests.  One that is empty at a start is of a writer
 * that was killed: each name may be less than one away once more, and offsets
 * keep that right on average (aggregate.h). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/statsd/statsd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/wire/increment_line.h"

#define RESTS     "statsd-rests" /* in live/ */
#define TEMPORARY RESTS ".new"

static int
open_file(int live_fd, const char *name)
{
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    const int fd = openat(live_fd, name, flags, 0600);

    return fd < 0 ? -errno : fd;
}

/* ---- writing -------------------------------------------------------------- */

static void
print_rest(void *ctx, const struct aggregate_name *name, int64_t millionths)
{
    char keyspace[NAME_TEXT_SIZE], key[NAME_TEXT_SIZE];
    FILE *file = ctx;

    name_escape(name->keyspace, name->keyspace_size, keyspace);
    name_escape(name->key, name->key_size, key);
    (void)fprintf(file, "%s\t%s\t%" PRId64, keyspace, key, millionths);
    if (name->minute != 0)
        (void)fprintf(file, "\t%" PRIu64, (uint64_t)name->minute * 60);
    (void)fputc('\n', file);
}

void
statsd_rests_write(const struct statsd *s)
{
    FILE *file;
    int fd, rc;

    if (aggregate_fractions(&s->sums) == 0) {
        (void)unlinkat(s->live_fd, RESTS, 0); /* one that stays does no harm */
        return;
    }
    fd = open_file(s->live_fd, TEMPORARY);
    rc = fd < 0 ? fd : ftruncate(fd, 0) < 0 ? -errno : 0;
    file = rc < 0 ? NULL : fdopen(fd, "w");
    if (file) {
        aggregate_each_rest(&s->sums, print_rest, file);
        rc = fflush(file) != 0 || ferror(file) || fsync(fd) < 0 ? -EIO : 0;
        (void)fclose(file); /* synced, or given up */
    } else if (fd >= 0) {
        rc = rc < 0 ? rc : -ENOMEM;
        (void)close(fd);
    }
    if (rc == 0 && renameat(s->live_fd, TEMPORARY, s->live_fd, RESTS) < 0)
        rc = -errno;
    if (rc < 0)
        diag_errno(DIAG_WARNING, rc,
                   "write live/" RESTS
                   ": what sums of StatsD have below 1 is lost");
}

/* ---- reading -------------------------------------------------------------- */

static void
take_rest(struct statsd *s, const char *line, size_t size)
{
    const struct increment_form form = {.keyspace_max =
                                            s->config->keyspace_size,
                                        .key_max = s->config->key_size,
                                        .latest = (int64_t)UINT32_MAX * 60};
    struct increment i;

    /* The rest of a name that the settings no longer allow is left out. */
    if (increment_line_read(&form, line, size, &i) != NULL)
        return;
    aggregate_set_rest(&s->sums,
                       &(struct aggregate_name){i.keyspace.bytes, i.key.bytes,
                                                i.keyspace.size, i.key.size,
                                                (uint32_t)(i.at / 60)},
                       i.count);
}

void
statsd_rests_read(struct statsd *s)
{
    const bool was_there = faccessat(s->live_fd, RESTS, F_OK, 0) == 0;
    const int fd = open_file(s->live_fd, RESTS);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r+");
    char *line = NULL;
    size_t capacity = 0, count = 0;
    ssize_t size;

    if (!file) {
        diag_errno(DIAG_WARNING, fd < 0 ? fd : -ENOMEM, "open live/" RESTS);
        if (fd >= 0)
            (void)close(fd); /* its lines are lost */
        return;
    }
    for (; (size = getline(&line, &capacity, file)) > 0; count++)
        take_rest(s, line, (size_t)size - (line[size - 1] == '\n'));
    free(line);
    s->sums.is_lossy = was_there && count == 0;
    /* From now on what it has is in memory alone; a file that power loss brings
     * back adds less than one. */
    if (ftruncate(fd, 0) < 0)
        diag_errno(DIAG_WARNING, -errno, "empty live/" RESTS);
    (void)fclose(file);
}

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
#include <unistd.h>

#include "common/base/folder.h"
#include "common/wire/increment_line.h"

#define TEMPORARY STATSD_RESTS ".new"

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

static int
write_rests(const struct statsd *s, int fd)
{
    FILE *file = fdopen(fd, "w");
    int rc;

    if (file == NULL) {
        rc = -errno;
        (void)close(fd);
        return rc;
    }
    aggregate_each_rest(&s->sums, print_rest, file);
    rc = fflush(file) != 0 || ferror(file) || fsync(fd) < 0 ? -EIO : 0;
    (void)fclose(file); /* synced, or given up */
    return rc;
}

void
statsd_rests_write(const struct statsd *s)
{
    int fd, rc;

    if (s->live_fd < 0)
        return;
    if (aggregate_fractions(&s->sums) == 0) {
        /* One that stays brings offsets, which are right, too. */
        (void)unlinkat(s->live_fd, STATSD_RESTS, 0);
        return;
    }
    fd = openat(s->live_fd, TEMPORARY,
                O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    rc = fd < 0 ? -errno : write_rests(s, fd);
    if (rc == 0 &&
        renameat(s->live_fd, TEMPORARY, s->live_fd, STATSD_RESTS) < 0)
        rc = -errno;
    if (rc < 0)
        diag_errno(DIAG_WARNING, rc,
                   "write live/" STATSD_RESTS
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

/* From now on rests are in memory alone. */
static void
empty_file(struct statsd *s)
{
    const int fd =
        openat(s->live_fd, STATSD_RESTS,
               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0) {
        diag_errno(DIAG_WARNING, -errno, "open live/" STATSD_RESTS);
        return;
    }
    (void)close(fd); /* a file that power loss brings back adds less than one */
}

void
statsd_rests_read(struct statsd *s)
{
    FILE *file = NULL;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    int fd;

    if (s->live_fd < 0)
        return;
    fd = folder_open_file(s->live_fd, STATSD_RESTS);
    if (fd >= 0 && (file = fdopen(fd, "r")) == NULL)
        (void)close(fd); /* its rests are lost */
    s->sums.is_lossy = fd >= 0;
    while (file != NULL && (size = getline(&line, &capacity, file)) > 0) {
        s->sums.is_lossy = false;
        take_rest(s, line, (size_t)size - (line[size - 1] == '\n'));
    }
    free(line);
    if (file != NULL)
        (void)fclose(file);
    empty_file(s);
}

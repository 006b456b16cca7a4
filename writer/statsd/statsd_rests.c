/* writer/statsd/statsd_rests.c - what StatsD has in memory, through a clean
 * stop; see statsd.h.
 *
 *     statsd_rests_write()  at a stop, after the last flush
 *     statsd_rests_read()   at the next start, which empties the files
 *
 * live/statsd-rests has what sums have below one, in lines as countd load reads
 * them, with millionths for increments; live/statsd-totals has the last samples
 * of totals (totals.h).  Both are renamed into place, the first is removed where
 * there are no rests, and they are empty while countd-write runs.  If the first
 * is empty at a start, the writer was killed: each name may be less than one
 * away once more, and offsets keep that right on average (aggregate.h). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/statsd/statsd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/wire/increment_line.h"

#define RESTS     "statsd-rests" /* in live/ */
#define TOTALS    "statsd-totals"
#define TEMPORARY "statsd.new"

/* Opens a file of live/ as a stream. */
static int
open_stream(const struct statsd *s, const char *name, int flags, FILE **out)
{
    const int all = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | flags;
    const int fd = openat(s->live_fd, name, all, 0600);
    int rc = fd < 0 ? -errno : 0;

    *out = fd < 0 ? NULL : fdopen(fd, "r+");
    if (fd >= 0 && !*out) {
        rc = -errno;
        (void)close(fd); /* its lines are lost */
    }
    return rc;
}

/* ---- writing -------------------------------------------------------------- */

static void
print_rest(void *ctx, const struct message *rest)
{
    char keyspace[NAME_TEXT_SIZE], key[NAME_TEXT_SIZE];
    FILE *file = ctx;

    name_escape(rest->keyspace, rest->keyspace_size, keyspace);
    name_escape(rest->key, rest->key_size, key);
    (void)fprintf(file, "%s\t%s\t%" PRId64, keyspace, key, rest->increment);
    if (rest->minute != 0)
        (void)fprintf(file, "\t%" PRIu64, (uint64_t)rest->minute * 60);
    (void)fputc('\n', file);
}

/* Replaces the file of the rests, or of the totals, durably. */
static void
write_lines(const struct statsd *s, bool totals)
{
    const char *name = totals ? TOTALS : RESTS;
    FILE *file;
    int rc = open_stream(s, TEMPORARY, O_CREAT | O_TRUNC, &file);

    if (rc == 0) {
        if (totals)
            totals_print(&s->totals, file);
        else
            aggregate_each_rest(&s->sums, print_rest, file);
        if (fflush(file) != 0 || ferror(file) || fsync(fileno(file)) < 0 ||
            renameat(s->live_fd, TEMPORARY, s->live_fd, name) < 0)
            rc = errno != 0 ? -errno : -EIO;
        (void)fclose(file); /* synced, or given up */
    }
    if (rc < 0)
        diag_errno(DIAG_WARNING, rc, "write live/%s: %s is lost", name,
                   totals ? "what totals grow by until their next sample"
                          : "what sums of StatsD have below 1");
}

void
statsd_rests_write(const struct statsd *s)
{
    if (s->live_fd < 0)
        return;
    if (aggregate_fractions(&s->sums) > 0)
        write_lines(s, false);
    else
        (void)unlinkat(s->live_fd, RESTS, 0); /* one that stays does no harm */
    if (s->totals.on)
        write_lines(s, true);
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
                       &(struct message){i.count, i.keyspace.bytes, i.key.bytes,
                                         (uint16_t)i.keyspace.size,
                                         (uint16_t)i.key.size,
                                         (uint32_t)(i.at / 60)});
}

/* Takes the lines of the rests, or of the totals, from their file, which is
 * made if it is not there, and empties it, durably: from now on they are in
 * memory alone, and what totals grow by would be counted again if power loss
 * brought the file back.  Returns how many lines it had. */
static size_t
read_lines(struct statsd *s, bool totals)
{
    const char *name = totals ? TOTALS : RESTS;
    size_t capacity = 0, count = 0;
    char *line = NULL;
    ssize_t size;
    FILE *file;
    const int rc = open_stream(s, name, O_CREAT, &file);

    if (rc < 0) {
        diag_errno(DIAG_WARNING, rc, "open live/%s", name);
        return 0;
    }
    for (; (size = getline(&line, &capacity, file)) > 0; count++)
        if (totals)
            totals_take_line(&s->totals, line);
        else
            take_rest(s, line, (size_t)size - (line[size - 1] == '\n'));
    free(line);
    if (count > 0 &&
        (ftruncate(fileno(file), 0) < 0 || fsync(fileno(file)) < 0))
        diag_errno(DIAG_WARNING, -errno, "empty live/%s", name);
    (void)fclose(file);
    return count;
}

void
statsd_rests_read(struct statsd *s)
{
    bool was_there;

    if (s->live_fd < 0)
        return;
    was_there = faccessat(s->live_fd, RESTS, F_OK, 0) == 0;
    s->sums.is_lossy = read_lines(s, false) == 0 && was_there;
    if (s->totals.on)
        (void)read_lines(s, true);
}

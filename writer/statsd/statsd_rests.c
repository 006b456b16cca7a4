/* writer/statsd/statsd_rests.c - the rests of sums through a clean stop; see
 * statsd.h.
 *
 *     statsd_rests_write()  at a stop, after the last flush
 *     statsd_rests_read()   at the next start, which removes the file
 *
 * live/statsd-rests has the lines of `countd export`, with millionths for
 * counts.  It is renamed into place, so it is whole or not there; without it
 * each name is less than one away once more. */
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
    (void)fprintf(file, "%s\t%s\t%" PRId64 "\n", keyspace, key, millionths);
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

    if (s->live_fd < 0 || aggregate_fractions(&s->sums) == 0)
        return;
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
                                        .key_max = s->config->key_size};
    struct increment i;

    /* The rest of a name that the settings no longer allow is left out. */
    if (increment_line_read(&form, line, size, &i) != NULL)
        return;
    aggregate_set_rest(&s->sums,
                       &(struct aggregate_name){i.keyspace.bytes, i.key.bytes,
                                                i.keyspace.size, i.key.size},
                       i.count);
}

void
statsd_rests_read(struct statsd *s)
{
    const int fd =
        s->live_fd < 0 ? -ENOENT : folder_open_file(s->live_fd, STATSD_RESTS);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;

    if (file == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    while ((size = getline(&line, &capacity, file)) > 0)
        take_rest(s, line, (size_t)size - (line[size - 1] == '\n'));
    free(line);
    (void)fclose(file);
    /* A file that a power loss brings back adds less than one to a name. */
    (void)unlinkat(s->live_fd, STATSD_RESTS, 0);
}

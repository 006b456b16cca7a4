/* writer/statsd/statsd_rests.c - the rests of sums and the last samples of totals
 * through a clean stop; see statsd.h.
 *
 *     statsd_rests_write()  at a stop, after the last flush
 *     statsd_rests_read()   at the next start, which empties the file
 *
 * live/statsd-rests has lines as countd load reads them, with millionths for
 * increments, and is empty while countd-write runs.  It is renamed into place, or
 * removed where there are no rests.  One that is empty at a start is of a writer
 * that was killed: each name may be less than one away once more, and offsets
 * keep that right on average (aggregate.h).
 *
 * live/statsd-totals is written and emptied likewise; a line has a name in text
 * form, the protocol, Unix seconds, and the whole part and the millionths of the
 * sample.  Without it the next sample of each total says where it begins. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/statsd/statsd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void
print_rests(const struct statsd *s, FILE *file)
{
    aggregate_each_rest(&s->sums, print_rest, file);
}

static void
print_total(void *ctx, const struct total *last)
{
    char name[NAME_TEXT_SIZE];

    name_escape(last->name, last->size, name);
    (void)fprintf(ctx, "%s\t%u\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\n", name,
                  last->source, last->at,
                  (int64_t)(last->millionths / DECIMAL_MILLIONTHS),
                  (int64_t)(last->millionths % DECIMAL_MILLIONTHS));
}

static void
print_totals(const struct statsd *s, FILE *file)
{
    totals_each(&s->totals, print_total, file);
}

static int
write_lines(const struct statsd *s, int fd,
            void (*print)(const struct statsd *s, FILE *file))
{
    FILE *file = fdopen(fd, "w");
    int rc;

    if (file == NULL) {
        rc = -errno;
        (void)close(fd);
        return rc;
    }
    print(s, file);
    rc = fflush(file) != 0 || ferror(file) || fsync(fd) < 0 ? -EIO : 0;
    (void)fclose(file); /* synced, or given up */
    return rc;
}

/* `print` NULL: there is nothing to be kept, and a file that stays does no
 * harm. */
static int
write_file(const struct statsd *s, const char *name,
           void (*print)(const struct statsd *s, FILE *file))
{
    int fd, rc;

    if (!print) {
        (void)unlinkat(s->live_fd, name, 0);
        return 0;
    }
    fd = openat(s->live_fd, TEMPORARY,
                O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    rc = fd < 0 ? -errno : write_lines(s, fd, print);
    if (rc == 0 && renameat(s->live_fd, TEMPORARY, s->live_fd, name) < 0)
        rc = -errno;
    return rc;
}

void
statsd_rests_write(const struct statsd *s)
{
    int rc;

    if (s->live_fd < 0)
        return;
    /* A file of rests that stays brings offsets, which are right, too. */
    rc = write_file(s, STATSD_RESTS,
                    aggregate_fractions(&s->sums) > 0 ? print_rests : NULL);
    if (rc < 0)
        diag_errno(DIAG_WARNING, rc,
                   "write live/" STATSD_RESTS
                   ": what sums of StatsD have below 1 is lost");
    rc = write_file(s, STATSD_TOTALS,
                    s->totals.halves[0].bytes ? print_totals : NULL);
    if (rc < 0)
        diag_errno(DIAG_WARNING, rc,
                   "write live/" STATSD_TOTALS
                   ": what totals grow by until their next sample is lost");
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

/* Reads numbers, each behind a tab, to the end of a string. */
static bool
read_numbers(const char *at, int64_t *numbers, size_t count)
{
    char *end;

    for (size_t i = 0; i < count; i++, at = end) {
        errno = 0;
        numbers[i] = *at == '\t' ? strtoll(at + 1, &end, 10) : 0;
        if (*at != '\t' || end == at + 1 || errno != 0)
            return false;
    }
    return *at == '\0' || *at == '\n';
}

static void
take_total(struct statsd *s, const char *line, size_t size)
{
    enum { SOURCE, AT, WHOLE, MILLIONTHS, NUMBERS };
    uint8_t name[NAME_MAX_SIZE];
    const char *tab = memchr(line, '\t', size);
    int64_t n[NUMBERS];
    int name_size;

    if (!tab || !read_numbers(tab, n, NUMBERS))
        return;
    name_size = name_unescape(line, (size_t)(tab - line), name, sizeof name);
    if (name_size > 0)
        totals_set(&s->totals,
                   &(struct total){
                       name, (size_t)name_size, (unsigned)n[SOURCE], n[AT],
                       (int128)n[WHOLE] * DECIMAL_MILLIONTHS + n[MILLIONTHS]});
}

/* From now on what it has is in memory alone. */
static void
empty_file(struct statsd *s, const char *name)
{
    const int fd =
        openat(s->live_fd, name,
               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0) {
        diag_errno(DIAG_WARNING, -errno, "open live/%s", name);
        return;
    }
    (void)close(fd); /* a file that power loss brings back adds less than one */
}

/* Takes the lines of a file, and empties it: how many, -ENOENT: it is not there. */
static long
read_file(struct statsd *s, const char *name,
          void (*take)(struct statsd *s, const char *line, size_t size))
{
    FILE *file = NULL;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    long count = 0;
    const int fd = folder_open_file(s->live_fd, name);

    if (fd >= 0 && (file = fdopen(fd, "r")) == NULL)
        (void)close(fd); /* its lines are lost */
    while (file != NULL && (size = getline(&line, &capacity, file)) > 0) {
        count++;
        take(s, line, (size_t)size - (line[size - 1] == '\n'));
    }
    free(line);
    if (file != NULL)
        (void)fclose(file);
    empty_file(s, name);
    return fd < 0 ? -ENOENT : count;
}

void
statsd_rests_read(struct statsd *s)
{
    if (s->live_fd < 0)
        return;
    s->sums.is_lossy = read_file(s, STATSD_RESTS, take_rest) == 0;
    if (s->totals.halves[0].bytes)
        (void)read_file(s, STATSD_TOTALS, take_total);
}

/* writer/statsd/totals.c - see totals.h.
 *
 *     totals_take()                 a sample
 *     totals_write(), totals_read() all of them, at a stop and at a start */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/statsd/totals.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/diag.h"
#include "common/wire/message.h"
#include "common/wire/name.h"

#define FILE_NAME "statsd-totals"
#define TEMP_NAME FILE_NAME ".new"

int
totals_init(struct totals *t)
{
    int rc;

    *t = (struct totals){.on = true};
    rc = name_table_init(&t->tables[0].names);
    return rc < 0 ? rc : name_table_init(&t->tables[1].names);
}

void
totals_fini(struct totals *t)
{
    for (int i = 0; i < 2; i++) {
        name_table_clear(&t->tables[i].names);
        free(t->tables[i].last);
    }
    *t = (struct totals){.on = false};
}

/* Adds a name to the young table.  NULL: no memory. */
static struct total_last *
add_name(struct totals *t, const uint8_t *name, uint16_t size)
{
    struct totals_table *young = &t->tables[t->young];
    uint32_t number;

    if (young->names.count == TOTALS_MAX) {
        t->young = 1 - t->young;
        young = &t->tables[t->young];
        name_table_clear(&young->names);
    }
    if (array_grow(&young->last, &young->capacity, young->names.count + 1,
                   sizeof *young->last) < 0 ||
        name_table_put(&young->names, name, size, &number) < 0)
        return NULL;
    return &young->last[number];
}

/* The last sample of a name, or that it now has.  NULL: no memory. */
static struct total_last *
find_last(struct totals *t, const struct total *sample)
{
    struct total_last now = {sample->millionths, sample->at}, *last;
    uint8_t name[1 + MESSAGE_NAME_MAX];
    const uint16_t size = (uint16_t)(1 + sample->size);

    assert(sample->size > 0 && sample->size <= MESSAGE_NAME_MAX);
    name[0] = (uint8_t)sample->source;
    memcpy(name + 1, sample->name, sample->size);
    for (unsigned i = 0; i < 2; i++) {
        const struct totals_table *table = &t->tables[t->young ^ i];
        const uint32_t number = name_table_find(&table->names, name, size);

        if (number == NAME_TABLE_NONE)
            continue;
        if (i == 0)
            return &table->last[number];
        now = table->last[number];
    }
    last = add_name(t, name, size);
    if (last)
        *last = now;
    return last;
}

int128
totals_take(struct totals *t, const struct total *sample)
{
    struct total_last *last = find_last(t, sample);
    int128 grown;

    if (!last || (sample->at > 0 && sample->at < last->at))
        return 0;
    grown = sample->millionths - last->millionths;
    last->millionths = sample->millionths;
    if (sample->at > 0)
        last->at = sample->at;
    return grown >= 0 ? grown : sample->millionths;
}

/* ---- the file ------------------------------------------------------------ */

static int
open_file(int live_fd, const char *name)
{
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    const int fd = openat(live_fd, name, flags, 0600);

    return fd < 0 ? -errno : fd;
}

static void
print_table(const struct totals_table *table, FILE *file)
{
    for (uint32_t i = 0; i < table->names.count; i++) {
        const struct total_last *last = &table->last[i];
        char text[NAME_TEXT_SIZE];
        size_t size;
        const uint8_t *name = name_table_name(&table->names, i, &size);

        name_escape(name + 1, size - 1, text);
        (void)fprintf(file, "%s\t%u\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\n",
                      text, name[0], last->at,
                      (int64_t)(last->millionths / DECIMAL_MILLIONTHS),
                      (int64_t)(last->millionths % DECIMAL_MILLIONTHS));
    }
}

void
totals_write(const struct totals *t, int live_fd)
{
    const int fd = open_file(live_fd, TEMP_NAME);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    int rc = fd < 0 ? fd : 0;

    if (file) {
        /* A name may be in both: its later line is the newer one. */
        print_table(&t->tables[1 - t->young], file);
        print_table(&t->tables[t->young], file);
        rc = fflush(file) != 0 || ferror(file) || fsync(fd) < 0 ? -EIO : 0;
        (void)fclose(file); /* synced, or given up */
    } else if (fd >= 0) {
        rc = -ENOMEM;
        (void)close(fd);
    }
    if (rc == 0 && renameat(live_fd, TEMP_NAME, live_fd, FILE_NAME) < 0)
        rc = -errno;
    if (rc < 0)
        diag_errno(DIAG_WARNING, rc,
                   "write live/" FILE_NAME
                   ": what totals grow by until their next sample is lost");
}

static void
take_line(struct totals *t, const char *line)
{
    uint8_t name[NAME_MAX_SIZE];
    const char *const tab = strchr(line, '\t'), *at = tab;
    long long field[4]; /* source, time, whole part, millionths */
    struct total sample = {.name = name};
    struct total_last *last;
    int size;

    for (int i = 0; i < 4; i++) {
        char *end;

        if (!at || *at != '\t')
            return;
        field[i] = strtoll(at + 1, &end, 10);
        at = end;
    }
    size = name_unescape(line, (size_t)(tab - line), name, sizeof name);
    if (size <= 0)
        return;
    sample.size = (size_t)size;
    sample.source = (unsigned)field[0];
    sample.at = field[1];
    sample.millionths = (int128)field[2] * DECIMAL_MILLIONTHS + field[3];
    last = find_last(t, &sample);
    if (last) /* else it is forgotten */
        *last = (struct total_last){sample.millionths, sample.at};
}

void
totals_read(struct totals *t, int live_fd)
{
    const int fd = openat(live_fd, FILE_NAME,
                          O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r+");
    char *line = NULL;
    size_t capacity = 0;

    if (!file) {
        if (fd >= 0)
            (void)close(fd); /* its lines are lost */
        return;
    }
    while (getline(&line, &capacity, file) > 0)
        take_line(t, line);
    free(line);
    /* From now on what it has is in memory alone. */
    if (ftruncate(fd, 0) < 0)
        diag_errno(DIAG_WARNING, -errno, "empty live/" FILE_NAME);
    (void)fclose(file);
}

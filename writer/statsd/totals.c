/* writer/statsd/totals.c - see totals.h.
 *
 *     totals_take()                       a sample
 *     totals_print(), totals_take_line()  all of them, at a stop and a start */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/statsd/totals.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/wire/message.h"
#include "common/wire/name.h"

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
    struct total now = *sample;
    struct total_last *last;
    int128 grown;

    if (now.at > now.latest)
        now.at = 0;
    last = find_last(t, &now);
    if (last && last->at > now.latest)
        last->at = 0; /* the clock was ahead when it came */
    if (!last || (now.at > 0 && now.at < last->at))
        return 0;
    grown = sample->millionths - last->millionths;
    last->millionths = sample->millionths;
    if (now.at > 0)
        last->at = now.at;
    return grown >= 0 ? grown : sample->millionths;
}

/* ---- lines --------------------------------------------------------------- */

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
totals_print(const struct totals *t, FILE *file)
{
    /* A name may be in both: its later line is the newer one. */
    print_table(&t->tables[1 - t->young], file);
    print_table(&t->tables[t->young], file);
}

void
totals_take_line(struct totals *t, const char *line)
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

/* writer/statsd/totals.h - samples of totals that grow: what each has grown by.
 *
 * The last sample of each name is in memory.  The first one says where its total
 * begins and counts nothing; a greater one counts the difference; a smaller one
 * is of a program that was started again, and counts whole, as it began at 0.
 * A sample that is older than the last one is passed over.  A time that is far
 * ahead of the clock says nothing.
 *
 * Names are in two tables: one that has a sample is in the young table, and when
 * that has TOTALS_MAX names the old one is cleared and takes its place.  So
 * TOTALS_MAX names are never forgotten.
 *
 * Through a clean stop the last samples are lines of text: a name in text form,
 * the source, Unix seconds, and the whole part and the millionths of the sample,
 * with tabs between.
 *
 * Ownership: the caller's, between init and fini.  One thread.
 * Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_STATSD_TOTALS_H
#define COUNTD_WRITER_STATSD_TOTALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/name_table.h"
#include "common/wire/decimal.h"

#define TOTALS_MAX ((size_t)1 << 17)

struct totals_table {
    struct name_table names; /* a byte of the source, then the name */
    struct total_last {
        int128 millionths;
        int64_t at;
    } * last; /* by number */
    size_t capacity;
};

struct totals {
    bool on;
    unsigned young;
    struct totals_table tables[2];
};

/* A sample; `source` keeps names of several protocols apart. */
struct total {
    const uint8_t *name;
    size_t size; /* 1 to MESSAGE_NAME_MAX */
    unsigned source;
    int64_t at; /* Unix seconds; 0 or below: now, and never older */
    int128 millionths;
    int64_t latest; /* a later `at` is 0, of the last sample, too */
};

int totals_init(struct totals *t);

/* Also where it was not initialised, and is zero. */
void totals_fini(struct totals *t);

/* Takes a sample: millionths that its total has grown by. */
int128 totals_take(struct totals *t, const struct total *sample);

/* Prints a line for each last sample. */
void totals_print(const struct totals *t, FILE *file);

/* Takes one of them; one that is malformed, or has no memory, is forgotten. */
void totals_take_line(struct totals *t, const char *line);

#endif

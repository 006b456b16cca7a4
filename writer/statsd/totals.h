/* writer/statsd/totals.h - samples of totals that grow: what each has grown by.
 *
 * The last sample of each name is in memory.  The first one says where its total
 * begins and counts nothing; a greater one counts the difference; a smaller one
 * is of a program that was started again, and counts whole, as it began at 0.
 * A sample that is older than the last one is passed over.
 *
 * Memory is two halves, as in aggregate.h: a name that has a sample is in the
 * young half, and when that is full the old one is cleared and takes its place.
 * So names of TOTALS_HALF bytes are never forgotten.
 *
 * Ownership: the caller's, between init and fini; memory is mapped in init, and
 * used as names come.  One thread.  Errors: 0 or -ENOMEM. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_STATSD_TOTALS_H
#define COUNTD_WRITER_STATSD_TOTALS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/hash.h"
#include "common/wire/decimal.h"

#define TOTALS_HALF  ((size_t)8 << 20)
#define TOTALS_INDEX ((size_t)1 << 19) /* more than twice the entries */

struct totals_half {
    uint8_t *bytes;  /* entries, one after the other */
    uint32_t *index; /* entry at / TOTALS_UNIT + 1 by hash; 0: free */
    size_t used;
};

struct totals {
    struct hash_key hash_key;
    struct totals_half halves[2]; /* bytes NULL: not mapped */
    unsigned young;
};

/* A sample; `source` tells names of several protocols apart. */
struct total {
    const uint8_t *name;
    size_t size; /* 1 to MESSAGE_NAME_MAX */
    unsigned source;
    int64_t at; /* Unix seconds; 0 or below: now, and never older */
    int128 millionths;
};

int totals_init(struct totals *t);
void totals_fini(struct totals *t);

/* Takes a sample: millionths that its total has grown by. */
int128 totals_take(struct totals *t, const struct total *sample);

/* Takes one that was kept, which counts nothing. */
void totals_set(struct totals *t, const struct total *sample);

/* Calls `each` for the last sample of each name. */
void totals_each(const struct totals *t,
                 void (*each)(void *ctx, const struct total *last), void *ctx);

#endif

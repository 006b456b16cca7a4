/* reader/scratch.h - the memory of one request: taken piece by piece,
 * given back at once.
 *
 * Ownership: the caller's between scratch_init() and scratch_free(); pieces do
 * not move and live until scratch_free().  One thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_SCRATCH_H
#define COUNTD_READER_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scratch_chunk;

/* Memory that several have together. */
struct scratch_share {
    size_t total, max; /* bytes */
};

struct scratch {
    struct scratch_share *share;  /* set it after scratch_init(); NULL: none */
    bool has_no_share;            /* others use the memory that was asked for */
    struct scratch_chunk *chunks; /* the newest first */
    size_t used, size;            /* bytes of the newest */
    size_t total;                 /* bytes of all chunks */
    size_t max;                   /* that `total` may be */
};

void scratch_init(struct scratch *s, size_t max);

/* Frees all pieces; the scratch can be used again. */
void scratch_free(struct scratch *s);

/* Returns `size` bytes aligned to 16, zeros; NULL: there is no more memory. */
void *scratch_take(struct scratch *s, size_t size);

/* Returns a copy of the bytes with a NUL after them, or NULL. */
char *scratch_copy(struct scratch *s, const void *bytes, size_t size);

#endif

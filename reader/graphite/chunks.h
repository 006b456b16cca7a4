/* reader/graphite/chunks.h - an answer, usually JSON, that grows piece by piece.
 *
 *     rc = chunks_reserve(&c, 64);     before what takes at most 64 bytes
 *     json_integer(&c.json, 5);
 *     chunks_end(&c);                  c.size bytes; chunks_copy()
 *
 * Ownership: all memory is of the scratch. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_CHUNKS_H
#define COUNTD_READER_GRAPHITE_CHUNKS_H

#include "common/wire/json_write.h"
#include "reader/graphite/scratch.h"

#define CHUNKS_PIECE 65000u /* bytes of a piece, at least */

struct chunk {
    struct chunk *next;
    size_t size;
    uint8_t bytes[];
};

struct chunks {
    struct scratch *scratch;
    size_t max; /* bytes that all may have */
    struct json_writer json;
    struct chunk *first, *last;
    size_t size; /* bytes of full chunks; at the end of all */
};

/* Begins, without blanks in the JSON. */
void chunks_init(struct chunks *c, struct scratch *scratch, size_t max);

/* Sees to it that `size` bytes fit.  0, -ENOMEM, -E2BIG: more than `max`. */
int chunks_reserve(struct chunks *c, size_t size);

void chunks_end(struct chunks *c);

/* Copies all. */
void chunks_copy(const struct chunks *c, uint8_t *to);

#endif

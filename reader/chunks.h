/* reader/chunks.h - an answer, usually JSON, that grows piece by piece.
 *
 *     rc = chunks_reserve(&c, 64);     before what takes at most 64 bytes
 *     json_integer(&c.json, 5);
 *     chunks_end(&c);                  c.size bytes; chunks_copy()
 *
 * It is packed by gzip in steps, so that it does not delay others: the worst text
 * takes 15 ms per MiB.
 *
 * Ownership: all memory is of the scratch, but zlib's. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_CHUNKS_H
#define COUNTD_READER_CHUNKS_H

#include <zlib.h>

#include "common/wire/json_write.h"
#include "reader/scratch.h"

#define CHUNKS_PIECE  65000u /* bytes of a piece, at least */
#define CHUNKS_PACKED 4096   /* bytes of an answer that is packed, at least */

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

struct chunks_packer {
    struct chunks packed;
    bool is_packed;   /* all of it is there */
    struct chunk *at; /* the next one */
    size_t given;     /* bytes of it that `deflate` was given */
    z_stream deflate;
};

/* Begins with chunks at their end, into the same scratch.  -ENOMEM */
int chunks_pack_start(struct chunks_packer *p, const struct chunks *from);

/* Goes on until about until_ns (clock_ns()).  True: `packed` is at its end, or,
 * without is_packed, there was no memory for it and the text goes as it is. */
bool chunks_pack_step(struct chunks_packer *p, uint64_t until_ns);

/* Gives back zlib's memory, if there is any: not of a packer of zeros. */
void chunks_pack_stop(struct chunks_packer *p);

#endif

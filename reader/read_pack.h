/* reader/read_pack.h - compresses an answer with gzip, in steps.
 *
 * A step takes about as long as one of a long answer, so that a large text does
 * not delay other requests: the worst text takes 15 ms per MiB.  One text at a
 * time.
 *
 * Ownership: the caller's between read_pack_open() and read_pack_close(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_READ_PACK_H
#define COUNTD_READER_READ_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

struct read_pack {
    z_stream deflate;
    size_t max, packed_max; /* bytes of a text, and packed, at most */
    uint8_t *text;          /* NULL: nothing is packed */
    uint8_t *packed;
    size_t size; /* of what is packed, at the end */
};

/* For texts of `max` bytes at most.  -ENOMEM; without memory of zlib's nothing
 * is packed, and all is well. */
int read_pack_open(struct read_pack *p, size_t max);
void read_pack_close(struct read_pack *p);

/* Begins with a copy of the text; what was begun before is forgotten. */
void read_pack_start(struct read_pack *p, const uint8_t *text, size_t size);

/* Goes on until about that time (clock_ns()); true when it is done: `size`
 * bytes at `packed`. */
bool read_pack_step(struct read_pack *p, uint64_t until_ns);

#endif

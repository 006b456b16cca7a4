/* reader/read_pack.h - an answer is packed by gzip, a step after the other.
 *
 * A step is about as long as one of a long answer, so that a large text holds
 * up nobody: the worst takes 15 ms for each MiB.  One text at a time.
 *
 * Ownership: the caller's between read_pack_open() and read_pack_close(). */
#ifndef COUNTD_READER_READ_PACK_H
#define COUNTD_READER_READ_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#define READ_PACK_MAX  ((size_t)512 << 10) /* bytes of a text, at most */
#define READ_PACK_MORE 1024                /* what gzip may add to it */

struct read_pack {
    z_stream deflate;
    uint8_t *text;   /* READ_PACK_MAX; NULL: nothing is packed */
    uint8_t *packed; /* and READ_PACK_MORE */
    size_t size;     /* of what is packed, at the end */
};

/* -ENOMEM; without memory of zlib's nothing is packed, and all is well. */
int read_pack_open(struct read_pack *p);
void read_pack_close(struct read_pack *p);

/* Begins with a copy of the text; what was begun before is forgotten. */
void read_pack_start(struct read_pack *p, const uint8_t *text, size_t size);

/* Goes on until about that time (clock_ns()); true when it is done: `size`
 * bytes at `packed`. */
bool read_pack_step(struct read_pack *p, uint64_t until_ns);

#endif

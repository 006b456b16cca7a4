/* worker/region.h - a stretch of memory taken once and filled from the front.
 *
 * Address space is reserved for the worst case; pages cost memory only once
 * they are touched, and region_trim() gives them back.
 *
 * Ownership: the caller's, between region_open() and region_close().  Errors: 0
 * or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_REGION_H
#define COUNTD_WORKER_REGION_H

#include <stddef.h>
#include <stdint.h>

struct region {
    uint8_t *at; /* NULL when closed */
    size_t size;
};

/* Reserves `size` bytes of zeros.  -ENOMEM */
int region_open(struct region *r, size_t size);
void region_close(struct region *r);

/* Returns what memory there is behind the first `keep` bytes, or some more. */
void region_trim(struct region *r, size_t keep);

#endif

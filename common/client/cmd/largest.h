/* common/client/cmd/largest.h - the N largest of any number of live counters,
 * in memory for N.
 *
 * In order of what is taken, largest first, ties by name ascending.
 *
 * Ownership: struct largest is the caller's between init and fini; names are
 * copied.  Errors: 0 or a negative errno.
 */
#ifndef COUNTD_LARGEST_H
#define COUNTD_LARGEST_H

#include <stddef.h>
#include <stdint.h>

struct largest_entry {
    uint32_t current;
    uint32_t maximum;
    size_t size;
    uint8_t *name;
};

struct largest {
    struct largest_entry *entries; /* a heap, the smallest first */
    size_t count;
    size_t max;
};

/* `max` above 0.  -ENOMEM. */
int largest_init(struct largest *l, size_t max);
void largest_fini(struct largest *l);

/* -ENOMEM; nothing has changed then. */
int largest_offer(struct largest *l, const void *name, size_t size,
                  uint32_t current, uint32_t maximum);

/* Puts the entries in order; nothing may be offered afterwards. */
void largest_sort(struct largest *l);

#endif

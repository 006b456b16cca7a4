/* common/client/cmd/top_n.h - the N largest of any number of live counters,
 * in memory for N.
 *
 * In order of what is taken, largest first, ties by name ascending.
 *
 * Ownership: struct top_n is the caller's between init and fini; names are
 * copied.  Errors: 0 or a negative errno.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_TOP_N_H
#define COUNTD_COMMON_CLIENT_CMD_TOP_N_H

#include <stddef.h>
#include <stdint.h>

struct top_n_entry {
    uint32_t current;
    uint32_t maximum;
    size_t size;
    uint8_t *name;
};

struct top_n {
    struct top_n_entry *entries; /* a heap, the smallest first */
    size_t count;
    size_t max;
};

/* `max` above 0.  -ENOMEM. */
int top_n_init(struct top_n *l, size_t max);
void top_n_fini(struct top_n *l);

/* -ENOMEM; nothing has changed then. */
int top_n_offer(struct top_n *l, const void *name, size_t size,
                uint32_t current, uint32_t maximum);

/* Puts the entries in order; nothing may be offered afterwards. */
void top_n_sort(struct top_n *l);

#endif

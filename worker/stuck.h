/* worker/stuck.h - the keyspaces of which something stays held in a pass.
 *
 * A set of file names, by their hash alone: of two that have the same one
 * needlessly waits behind the other, which harms nobody.  Keyed, since names
 * come from the network.  When memory ends, all names are in it.
 */
#ifndef COUNTD_WORKER_STUCK_H
#define COUNTD_WORKER_STUCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/hash.h"

struct stuck {
    struct hash_key key;
    uint64_t *cells; /* 0: free */
    size_t size;     /* a power of 2, or 0 */
    size_t used;
    bool all;
};

void stuck_init(struct stuck *s, const uint8_t key[16]);
void stuck_free(struct stuck *s);
void stuck_clear(struct stuck *s);

void stuck_add(struct stuck *s, const char *name, size_t size);
bool stuck_has(const struct stuck *s, const char *name, size_t size);

#endif

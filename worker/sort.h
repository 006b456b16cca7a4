/* worker/sort.h - a keyspace's entries in the order the store wants. */
#ifndef COUNTD_WORKER_SORT_H
#define COUNTD_WORKER_SORT_H

#include <stddef.h>
#include <stdint.h>

#include "worker/fold.h"

/* A sort entry: 8 bytes of the key, and a reference to the entry. */
struct sort_item {
    uint64_t prefix;
    uint32_t entry;
    uint32_t zero;
};

/* Sorts the entries of `k` by key, then minute, within `scratch` (two items and
 * a delta per entry).  Returns their number. */
size_t sort_deltas(const struct fold *f, const struct fold_keyspace *k,
                   void *scratch, struct store_delta **deltas);

#endif

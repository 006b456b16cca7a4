/* common/store/tree/find.h - from the root to a group. */
#ifndef COUNTD_COMMON_STORE_TREE_FIND_H
#define COUNTD_COMMON_STORE_TREE_FIND_H

#include "common/store/tree/tree.h"

/* Brings the finder to the group that would hold `r`, with its buffer.  -ENOENT
 * when the tree is empty. */
int find_group(struct tree *t, const struct row *r, struct tree_finder *f);

/* The group with row `offset`, which exists; *before: rows before it. */
int find_offset(struct tree *t, uint64_t offset, struct group *g,
                uint64_t *before);

#endif

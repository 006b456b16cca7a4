/* common/store/tree/scan.h - from the root to a group (find.c), and its rows
 * (scan.c).
 *
 * Errors: 0 or a negative errno, as common/store/tree/tree.h has them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_TREE_SCAN_H
#define COUNTD_COMMON_STORE_TREE_SCAN_H

#include "common/store/tree/tree.h"

/* Counts the rows before `r`, and says whether `r` itself is there.  -ENOENT
 * when the tree is empty. */
int scan_count_before(struct tree *t, const struct row *r, uint64_t *count,
                      bool *there);

/* Finds the group with row `offset`, which exists, its buffer, and how many rows
 * are before it. */
int scan_find_offset(struct tree *t, uint64_t offset, struct tree_finder *f);

/* Calls `row` for each row of a group, in order; stops when it returns non-zero
 * and returns that. */
int scan_group(struct tree *t, const struct group *g,
               const struct buffer *buffer,
               int (*row)(void *ctx, const struct row *r), void *ctx);

#endif

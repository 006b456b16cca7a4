/* common/store/tree/scan.h - from the root to a group (find.c), and its rows
 * (scan.c). */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_TREE_SCAN_H
#define COUNTD_COMMON_STORE_TREE_SCAN_H

#include "common/store/tree/tree.h"

/* Brings the finder to the group that would hold `r`, with its buffer.  -ENOENT
 * when the tree is empty. */
int scan_find_group(struct tree *t, const struct row *r, struct tree_finder *f);

/* The group with row `offset`, which exists; *before: rows before it. */
int scan_find_offset(struct tree *t, uint64_t offset, struct group *g,
                     uint64_t *before);

/* Calls `row` for each row of a group, in order; stops when it returns non-zero
 * and returns that. */
int scan_group(struct tree *t, const struct group *g,
               const struct buffer *buffer,
               int (*row)(void *ctx, const struct row *r), void *ctx);

#endif

/* common/store/tree/scan.h - the rows of one group, in order. */
#ifndef COUNTD_COMMON_STORE_TREE_SCAN_H
#define COUNTD_COMMON_STORE_TREE_SCAN_H

#include "common/store/tree/tree.h"

/* Calls `row` for each row; stops when it returns non-zero and returns that. */
int scan_group(struct tree *t, const struct group *g,
               const struct buffer *buffer,
               int (*row)(void *ctx, const struct row *r), void *ctx);

#endif

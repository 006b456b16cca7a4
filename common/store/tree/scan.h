/* common/store/tree/scan.h - the rows of one group, in order. */
#ifndef COUNTD_SCAN_H
#define COUNTD_SCAN_H

#include "common/store/tree/tree.h"

/* Calls `row` for each row from base block `block` on, those of that block that
 * are not above `after` (NULL: none) left out; stops when it returns non-zero
 * and returns that. */
int scan_group(struct tree *t, const struct group *g,
               const struct buffer *buffer, unsigned block,
               const struct row *after,
               int (*row)(void *ctx, const struct row *r), void *ctx);

#endif

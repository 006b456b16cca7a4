/* tests/lib/checks.h - does all that is in memory agree?  Each walks
 * everything; false: something contradicts itself.  For fuzz programs, too. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_CHECKS_H
#define COUNTD_TESTS_LIB_CHECKS_H

#include "common/store/tree/tree.h"
#include "writer/live/live.h"

/* Each `current` is the sum of what holders have, lists and indexes agree,
 * numbers are right. */
bool live_check(const struct live *l);

/* Calls `row` for each row; stops when it returns non-zero and returns that. */
int tree_scan(struct tree *t, int (*row)(void *ctx, const struct row *r),
              void *ctx);

#endif

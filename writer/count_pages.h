/* writer/count_pages.h - web pages of other sites that count: count.cors.
 *
 * Such a page needs no token.  It counts into the keyspaces of
 * count.cors_keyspaces alone, from 1 to COUNT_PAGE_MOST at a time, and the pages
 * of each site have count.cors_rate increments a second, as many at once as they
 * have in a second.
 *
 * Ownership: the caller's.  The loop's thread; nothing allocates. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_COUNT_PAGES_H
#define COUNTD_WRITER_COUNT_PAGES_H

#include <stdbool.h>

#include "common/setup/config.h"
#include "common/setup/name_pattern.h"
#include "common/wire/increment_line.h"

#define COUNT_PAGE_MOST   1000
#define COUNT_ORIGINS_MAX 256 /* more than the text of count.cors has */

struct count_pages {
    struct name_patterns keyspaces;
    uint64_t step_ns; /* that an increment takes of its site's time */
    uint64_t due_ns[COUNT_ORIGINS_MAX]; /* when all that was counted is due */
};

void count_pages_init(struct count_pages *p, const struct config *config);

/* NULL, or why a page may not count this. */
const char *count_pages_refuse(const struct count_pages *p,
                               const struct increment *i);

/* Whether the pages of a site, by its place in count.cors, may count at now_ns:
 * any number, which is taken of what they may count later. */
bool count_pages_have(const struct count_pages *p, int origin, uint64_t now_ns);

/* They have counted `count`. */
void count_pages_take(struct count_pages *p, int origin, uint32_t count,
                      uint64_t now_ns);

#endif

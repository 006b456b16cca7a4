/* writer/count_internal.h - what only count.c and count_head.c share. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_COUNT_INTERNAL_H
#define COUNTD_WRITER_COUNT_INTERNAL_H

#include "writer/count.h"

/* Looks at the head of a request before its body is awaited, and once more just
 * before the route is called, which finds it in struct count.  False: *next is
 * the answer. */
bool count_check_head(struct http_call *x, enum conn_next *next);

/* Refuses a request, and counts that once it is answered. */
enum conn_next count_refuse(struct http_call *x, enum http_status status,
                            const char *code, const char *detail);

/* ---- pages of other sites ------------------------------------------------- */

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

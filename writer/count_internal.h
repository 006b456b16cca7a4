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

#endif

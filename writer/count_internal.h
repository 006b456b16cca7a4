/* writer/count_internal.h - what only count.c and count_head.c share. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_COUNT_INTERNAL_H
#define COUNTD_WRITER_COUNT_INTERNAL_H

#include "writer/count.h"

#include "common/net/http.h"
#include "common/wire/name.h"

/* What count_check_head() notes for the route: whether the body is packed,
 * whether a page of count.cors sent it, and an enum count_format. */
#define NOTE_PACKED 1u /* by gzip */
#define NOTE_PAGE   2u
#define NOTE_FORMAT 2 /* bits before it */

/* The query of a request: of all increments of its body. */
struct count_query {
    enum name_form names;
    int64_t at;     /* of increments without a time; 0: now */
    int64_t latest; /* no time is after it */
};

/* False: *next is the answer. */
bool count_read_query(struct http_call *x, struct count_query *q,
                      enum conn_next *next);

/* Looks at the head of a request before its body is awaited.  False: *next is
 * the answer. */
bool count_check_head(struct http_call *x, enum conn_next *next);

/* Refuses a request, and counts that once it is answered. */
enum conn_next count_refuse(struct http_call *x, enum http_status status,
                            const char *code, const char *detail);

#endif

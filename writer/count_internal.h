/* writer/count_internal.h - what only count.c and count_head.c share. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_COUNT_INTERNAL_H
#define COUNTD_WRITER_COUNT_INTERNAL_H

#include "writer/count.h"

/* What count_check_head() notes for the route: an enum count_format, an enum
 * name_form, and whether the body is packed. */
#define NOTE_PACKED 1u /* by gzip */
#define NOTE_NAMES  1  /* bits before their form */
#define NOTE_FORMAT 3

/* Looks at the head of a request before its body is awaited.  False: *next is
 * the answer. */
bool count_check_head(struct http_call *x, enum conn_next *next);

/* Refuses a request, and counts that once it is answered. */
enum conn_next count_refuse(struct http_call *x, enum http_status status,
                            const char *code, const char *detail);

#endif

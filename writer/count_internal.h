/* writer/count_internal.h - what count.c and count_head.c share; no other file
 * includes it. */
#ifndef COUNTD_WRITER_COUNT_INTERNAL_H
#define COUNTD_WRITER_COUNT_INTERNAL_H

#include "writer/count.h"
#include "writer/count_body.h"

/* Refuses a request, and counts that once it is answered. */
enum conn_next count_refuse(struct http_call *x, enum http_status status,
                            const char *code, const char *detail);

/* Checks the head of a request; http_route.check. */
bool count_check_head(struct http_call *x, enum conn_next *next);

/* What count_check_head() found, from http_call.note. */
enum count_format count_noted_format(unsigned note);
bool count_noted_raw(unsigned note);
bool count_noted_packed(unsigned note); /* by gzip */

#endif

/* common/net/http_query.h - the parameters of a query, decoded as forms are.
 *
 *     ?keyspace=pages&key=%2Findex+1      keyspace "pages", key "/index 1"
 *
 * `+` is a blank and %HH a byte, in names, too.  A part without "=" has an
 * empty value; empty parts are passed over.  Pure.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_HTTP_QUERY_H
#define COUNTD_COMMON_NET_HTTP_QUERY_H

#include "common/net/http_parse.h"

#define HTTP_QUERY_NAME_SIZE 32

/* Cuts the next parameter off *query: its name, with a NUL, and the *size bytes
 * of its value.  Returns 1; 0 at the end;
 *   -EINVAL        a % without two hexadecimal digits, or a NUL in a name
 *   -ENAMETOOLONG  a name of HTTP_QUERY_NAME_SIZE bytes, or a value of more
 *                  than `max`; the name is cut */
int http_query_next(struct http_text *query, char name[HTTP_QUERY_NAME_SIZE],
                    uint8_t *value, size_t max, size_t *size);

/* Shows the first parameter of a query, where none is known: in text form, in
 * at most HTTP_QUERY_SHOWN bytes with a NUL.  False: there is none. */
#define HTTP_QUERY_SHOWN (4 * HTTP_QUERY_NAME_SIZE)
bool http_query_shows(struct http_text query, char shown[HTTP_QUERY_SHOWN]);

#endif

/* reader/read_request.h - a request becomes http->now: which command it is,
 * and its parameters.
 *
 * read_request_check() is the check() of the routes: it parses the parameters,
 * and notes their number, by which read_request() recognizes that they are
 * still in http->now.
 *
 * For read_http.c. */
#ifndef COUNTD_READER_READ_REQUEST_H
#define COUNTD_READER_READ_REQUEST_H

#include "reader/read_http.h"

enum conn_next read_refuse(struct http_call *x, enum http_status status,
                           const char *code, const char *detail);

bool read_request_check(struct http_call *x, enum conn_next *next);

/* Has the request in http->now.  False: *next is the answer. */
bool read_request(struct http_call *x, enum conn_next *next);

/* Whether what is asked is answered in steps. */
bool read_is_in_steps(const struct read_request *a);

#endif

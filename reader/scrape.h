/* reader/scrape.h - GET /metrics.
 *
 * A scrape waits until the counters of users (user_metrics.h) have been read,
 * in steps between turns of the loop, and gets them with the statistics of all
 * processes (metrics.h).
 */
#ifndef COUNTD_READER_SCRAPE_H
#define COUNTD_READER_SCRAPE_H

#include "reader/read_http.h"

/* A route whose context is the struct read_http, and which knows no
 * parameter. */
bool scrape_check(struct http_call *x, enum conn_next *next);
enum conn_next scrape_answer(struct http_call *x);

/* At the end of each turn of the loop, before that of h->answer.  True: do not
 * wait before the next. */
bool scrape_end_turn(struct read_http *h);

#endif

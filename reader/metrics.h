/* reader/metrics.h - GET /metrics: the figures of all processes of the data
 * directory, from data/board, and counters of users, for Prometheus.
 *
 * The text format 0.0.4 or OpenMetrics 1.0.0.  No sample has a timestamp.  A
 * label `slot` is the place on the board, which a restart does not change,
 * unlike the pid.  A scrape is a job (jobs.h), which reads the counters of
 * users (user_metrics.h); several at once read them together.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_METRICS_H
#define COUNTD_READER_METRICS_H

#include "reader/read_http.h"

/* A route whose context is the struct read_http, and which knows no
 * parameter. */
bool metrics_check(struct http_call *x, enum conn_next *next);
enum conn_next metrics_answer(struct http_call *x);

#endif

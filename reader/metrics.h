/* reader/metrics.h - GET /metrics: the statistics of all processes of the
 * data directory, from data/board, for Prometheus.
 *
 * The text format 0.0.4 or OpenMetrics 1.0.0.  No sample has a timestamp.  A
 * label `slot` is the place on the board, which a restart does not change,
 * unlike the pid.  Pure; allocates nothing.
 */
#ifndef COUNTD_READER_METRICS_H
#define COUNTD_READER_METRICS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/setup/overview.h"
#include "reader/user_metrics.h"

/* Bytes of the longest answer: a row for each place of the board, and the
 * counters of users. */
#define METRICS_MAX (((size_t)1 << 20) + USER_METRICS_TEXT)

/* Writes them into `text`, which has METRICS_MAX bytes; returns the size.
 * `is_open`: OpenMetrics.  NULL: there is no board, and only what is known
 * without it is written. */
size_t metrics_put(const struct overview *o, const struct user_metrics *u,
                   bool is_open, char *text);

#endif

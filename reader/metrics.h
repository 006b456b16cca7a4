/* reader/metrics.h - GET /metrics: the figures of all processes of the data
 * directory, as data/board tells them, for Prometheus.
 *
 * The text format 0.0.4 or OpenMetrics 1.0.0.  No sample has a timestamp.  A
 * label `slot` is the place on the board, which stays over restarts, unlike a
 * pid.  Pure; allocates nothing.
 */
#ifndef COUNTD_READER_METRICS_H
#define COUNTD_READER_METRICS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/setup/overview.h"

/* Bytes of the most there can be: a row on each place of the board. */
#define METRICS_MAX ((size_t)512 << 10)

/* Writes them into `text`, which has METRICS_MAX bytes; returns the size.
 * `is_open`: OpenMetrics.  NULL: there is no board, and only what is known
 * without it is written. */
size_t metrics_put(const struct overview *o, bool is_open, char *text);

#endif

/* reader/resp/resp_period.h - the largest sums of a period, as a keyspace whose
 * name ends in it.
 *
 *     NAME@7d            the last 7 days (m, h, d, w)
 *     NAME@2026-11-20    that day, of UTC
 *
 * Only ZREVRANGE, and ZRANGE with REV, reads them: to others they are an error.
 * A keyspace of that very name comes first. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_RESP_RESP_PERIOD_H
#define COUNTD_READER_RESP_RESP_PERIOD_H

#include "reader/resp/resp_internal.h"

/* A period of time, in seconds since 1970, and the name before it.  `to` is the
 * first second behind it. */
struct resp_period {
    size_t name_size;
    int64_t from, to;
};

/* False: the name has no period.  `now_s` is the time it is counted back
 * from. */
bool resp_period_parse(const uint8_t *name, size_t size, int64_t now_s,
                       struct resp_period *out);

bool resp_period_is_name(const struct resp_arg *name);

/* Rows `first` to `last` of the period. */
enum conn_next resp_period_range(struct resp_call *call,
                                 const struct resp_arg *name, int64_t first,
                                 int64_t last, bool with_scores);

/* ---- resp_range.c ---- */

/* The rows that Redis means by `first` to `last`, of `keys`: *count of them
 * from *from on.  False: none. */
bool resp_range_cut(int64_t first, int64_t last, int64_t keys, int64_t *from,
                    int64_t *count);

#endif

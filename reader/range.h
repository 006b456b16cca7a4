/* reader/range.h - the range protocol: queries about merged counts, as a
 * protocol of common/net/conn.h.
 *
 * Requests are answered strictly in order; the store puts the rows where they are
 * sent from.  A request is answered when there is memory for the largest answer it
 * may have.
 * Malformed input, and a keyspace that cannot be read, are answered with an
 * error, which is the last answer.
 *
 * What a store that is not local is asked, the job of the connection asks
 * (jobs.h), which is paused then.
 *
 * Ownership: the caller's; jobs is borrowed.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_RANGE_H
#define COUNTD_READER_RANGE_H

#include "common/net/conn.h"
#include "reader/answer.h"
#include "reader/jobs.h"

/* What the listener has for ctx. */
struct range {
    struct jobs *jobs;
    uint64_t requests;   /* figure: answered */
    uint64_t unreadable; /* answered with -EIO */
};

extern const struct protocol range_protocol;

#endif

/* common/store/history/compact.h - inside history: jobs, as they are chosen
 * (compact.c) and done (compact_job.c). */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_HISTORY_COMPACT_H
#define COUNTD_COMMON_STORE_HISTORY_COMPACT_H

#include "common/store/history/runs.h"

#define COMPACT_CLOSING 2 /* the job of what is over; 0 and 1 are of crowds */

/* Memory of a job. */
struct history_compact {
    struct source sources[HISTORY_RUNS_MAX];
    uint64_t words[SOURCES_CAPACITY(HISTORY_RUNS_MAX)];
    uint64_t least[SOURCES_CAPACITY(HISTORY_RUNS_MAX) / 8];
    uint16_t lowest[SOURCES_CAPACITY(HISTORY_RUNS_MAX)];
    struct run_writer writer;
    struct history_row row;
    int128 sums[HISTORY_CELLS];
    uint8_t copies[HISTORY_RUNS_MAX][KV_VALUE_MAX];
};

struct compact_work {
    struct history *history;
    const struct kv *kv;
    const struct history_of *of;
    size_t blocks; /* to be read and written, about */
    struct history_compacted *out;
};

/* The job that removes the blocks of runs of a period that have gone. */
static inline struct history_job
compact_sweep_of(unsigned tier, uint32_t period)
{
    return (struct history_job){.kind = HISTORY_SWEEP,
                                .tier = (uint8_t)tier,
                                .to_tier = (uint8_t)tier,
                                .period = period,
                                .to_period = period};
}

/* Does a slice of the job `slot`. */
int compact_job(struct compact_work *w, unsigned slot);

/* The name of the keyspace in a message, until the thread's next (change.c). */
const char *compact_name(const struct history_of *of);

#endif

/* tests/bench/worker.h - a worker without a process, on a directory of its own.
 *
 *     worker_make(&w);
 *     w.config.keyspace_max = 2;
 *     worker_open(&w, 1);
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_BENCH_WORKER_H
#define COUNTD_TESTS_BENCH_WORKER_H

#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "common/store/lmdb/lmdb_store.h"
#include "tests/lib/tmpdir.h"
#include "worker/merge.h"

struct worker {
    struct tmpdir tmp;
    struct datadir dir;
    struct config config; /* the defaults */
    struct store *store;
    struct merge merge;
};

void worker_make(struct worker *w);
void worker_open(struct worker *w, unsigned threads);
void worker_close(struct worker *w); /* may be opened again */
void worker_remove(struct worker *w);

#endif

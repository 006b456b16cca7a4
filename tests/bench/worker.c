/* tests/bench/worker.c - see worker.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/worker.h"

#include "common/base/files.h"
#include "tests/lib/test.h"

void
worker_make(struct worker *w)
{
    tmpdir_make(&w->tmp);
    config_defaults(&w->config);
    assert_rc(datadir_open(&w->dir, w->tmp.path, DATADIR_WRITE), 0);
}

void
worker_open(struct worker *w, unsigned threads)
{
    const struct lmdb_options options = {.keyspace_fd = w->dir.keyspace_fd,
                                         .keyspace_size = 256,
                                         .key_size = 256,
                                         .writable = true,
                                         .open_max = files_keyspaces(),
                                         .txn_memory = (size_t)128 << 20,
                                         .keyspace_max = w->config.keyspace_max,
                                         .lanes = threads};

    assert_rc(lmdb_store_open(&w->store, &options), 0);
    assert_rc(merge_open(&w->merge, &w->config, &w->dir, w->store), 0);
}

void
worker_close(struct worker *w)
{
    merge_close(&w->merge);
    store_close(w->store);
}

void
worker_remove(struct worker *w)
{
    datadir_close(&w->dir);
    tmpdir_remove(&w->tmp);
}

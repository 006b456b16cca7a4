/* worker/main.c - countd-worker: main() reads the settings and opens the data
 * directory, run_worker() opens the store, serve_until_stopped() runs the loop.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/diag.h"
#include "common/base/files.h"
#include "common/base/sigbus.h"
#include "common/log/logdir.h"
#include "common/net/loop.h"
#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "common/setup/privilege.h"
#include "common/setup/signals.h"
#include "common/store/lmdb/lmdb_store.h"
#include "common/store/postgresql/postgresql_store.h"
#include "worker/merge.h"
#include "worker/watch.h"

struct worker {
    struct config config;
    struct config_command command;
    struct datadir dir;
    struct store *store;
    struct merge merge;
    struct loop *loop;
    struct watch watch;
    sigset_t signals;
};

#define LOG_FILES 4   /* descriptors: 2 of a log, in a batch and a quick one */
#define FILES_MIN 128 /* fewer are refused */

/* Raises the limit of descriptors as far as possible, and takes fewer logs per
 * batch if it stays too low: opening a keyspace must not fail because the logs
 * of two batches use all descriptors. */
static int
limit_files(struct worker *w)
{
    const int rc = files_raise(w->config.worker_batch * LOG_FILES, FILES_MIN);
    const size_t logs = files_left() / LOG_FILES;

    if (rc < 0 || w->config.worker_batch <= logs)
        return rc;
    diag(DIAG_WARNING, "worker.batch limited to %zu by descriptors=%llu", logs,
         (unsigned long long)files_limit());
    w->config.worker_batch = logs;
    return 0;
}

/* The store takes and returns the same memory for each keyspace: giving it back
 * to the machine in between costs more than the work.  merge.c gives it back
 * when there is nothing to merge: the promise is worker.memory and 64 MB on top.
 * Pieces above MAP_SIZE are maps of their own: LMDB takes 2 MB for each
 * environment and touches little of it. */
#define TRIM_THRESHOLD (256 << 20)
#define GROW_SIZE      (1 << 20)
#define MAP_SIZE       (1 << 20)

static void
tune_malloc(void)
{
    /* Settings libc does not know change nothing. */
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD);
    (void)mallopt(M_TOP_PAD, GROW_SIZE);
    (void)mallopt(M_MMAP_THRESHOLD, MAP_SIZE);
}

/* Archiving is a convenience: without it the merge goes on.  But a database may
 * lose what it has committed, and then only an archive has it. */
static void
open_archive(struct worker *w)
{
    int rc;

    if (w->config.archive_keep_ms == 0 && w->config.store_postgresql)
        diag(DIAG_WARNING,
             "archive.keep = 0: commits that the database loses, as when an "
             "older copy of it is restored, cannot be merged again");
    if (w->config.archive_keep_ms == 0)
        return;
    rc = datadir_archive(&w->dir);
    if (rc == 0)
        rc = archive_open(&w->merge.archive, w->dir.archive_fd,
                          w->config.archive_keep_ms);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "open archive/, logs are not archived");
}

/* Runs the loop until a signal stops it. */
static int
serve_until_stopped(struct worker *w)
{
    int rc;

    w->loop = loop_new();
    if (!w->loop) {
        diag_errno(DIAG_ERROR, errno, "make the loop");
        return CONFIG_EXIT_SYSTEM;
    }
    rc = watch_start(&w->watch, w->loop, &w->signals, &w->merge,
                     w->command.once);
    if (rc == 0) {
        config_ready(w->command.ready_fd, NULL, 0);
        config_report_serving(NULL, 0);
        rc = loop_run(w->loop);
    }
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "run the loop");
    watch_stop(&w->watch);
    loop_free(w->loop);
    if (w->watch.stop_signal != SIGINT &&
        !w->command.once) /* ^C, and how countd serve stops it */
        worker_status_print(&w->watch.status);
    worker_status_close(&w->watch.status);
    if (w->watch.refused)
        return CONFIG_EXIT_USAGE;
    return rc < 0 ? CONFIG_EXIT_SYSTEM
                  : signals_exit_status(w->watch.stop_signal);
}

static_assert(LMDB_LANES_MAX <= PARALLEL_MAX, "each lane can have a thread");

/* The engine.  Of worker.memory half is for the sums of a merge.  A commit has a
 * quarter and some of the 64 MB on top: the more it has, the fewer commits a
 * large merge is cut into.  An eighth may stay allocated between commits. */
#define COMMIT_ON_TOP ((size_t)16 << 20)

static int
open_files(struct worker *w)
{
    const struct lmdb_options options = {
        .keyspace_fd = w->dir.keyspace_fd,
        .keyspace_size = (uint16_t)w->config.keyspace_size,
        .key_size = (uint16_t)w->config.key_size,
        .writable = true,
        .open_max = files_keyspaces(),
        .txn_memory = (size_t)w->config.worker_memory / 4 + COMMIT_ON_TOP,
        .retain_memory = (size_t)w->config.worker_memory / 8,
        .keyspace_max = w->config.keyspace_max,
        .keys_max = w->config.keyspace_max_keys,
        .history = &w->config.history,
        .history_max = w->config.history_max,
        .lanes = (unsigned)w->config.worker_threads,
    };

    return lmdb_store_open(&w->store, &options);
}

static int
open_store(struct worker *w)
{
    const struct postgresql_options remote = {
        .config = &w->config,
        .writable = true,
        .sender = &w->dir,
        .repairs = w->command.placed,
        .lanes = (unsigned)w->config.worker_threads};

    return w->config.store_postgresql
               ? postgresql_store_open(&w->store, &remote)
               : open_files(w);
}

/* Opens the remaining parts in the order of need, serves, and closes them. */
static int
run_worker(struct worker *w)
{
    int rc, status = CONFIG_EXIT_SYSTEM;

    rc = open_store(w);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "open the store");
        return rc == -EPERM ? CONFIG_EXIT_USAGE : status;
    }
    rc = merge_open(&w->merge, &w->config, &w->dir, w->store);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc,
                   "memory for a merge (lower worker.memory, or raise ulimit "
                   "-v)");
        goto close_store;
    }
    w->merge.pass.placed_only = w->command.placed;
    rc = logdir_check_sizes(&w->merge.batch.dir);
    if (rc == 0) {
        open_archive(w);
        status = serve_until_stopped(w);
        if (!w->command.once && merge_has_ended(&w->merge))
            postgresql_store_end(w->store);
    } else if (rc == -EPROTO) {
        status = CONFIG_EXIT_USAGE;
    }
    merge_close(&w->merge);
close_store:
    store_close(w->store);
    return status;
}

int
main(int argc, char **argv)
{
    static struct worker w = {
        .command = {.program = "countd-worker",
                    .summary = "merges full commit logs into the keyspaces"}};
    int status, rc;

    status = config_daemon(&w.config, &w.command, argc, argv);
    if (status != CONFIG_EXIT_NONE)
        return status;
    if (w.command.once) /* for a command, which has said the rest */
        diag_init("countd-worker", DIAG_ERROR);
    signals_take(&w.signals);
    (void)umask(077);
    sigbus_init("countd-worker");
    tune_malloc();
    rc = limit_files(&w);
    if (rc < 0)
        return CONFIG_EXIT_SYSTEM;
    status = privilege_become(&w.config, DATADIR_WRITE);
    if (status != 0)
        return status;
    rc = datadir_open(&w.dir, w.config.data_dir, DATADIR_WRITE);
    if (rc < 0)
        return datadir_exit_status(rc, DATADIR_WRITE);
    diag(DIAG_INFO, "starting data_dir=%s", w.config.data_dir);
    status = run_worker(&w);
    datadir_close(&w.dir);
    return status;
}

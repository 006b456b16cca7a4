/* worker/worker_status.c - see worker_status.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/worker_status.h"

#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/store/postgresql/postgresql_store.h"

static void
fill_row(struct worker_status *s)
{
    const struct merge_stats *m = &s->merge->stats;
    const struct waiting *w = &s->merge->folder;
    int64_t *v = s->row.values;

    v[STATUS_M_LOGS] = (int64_t)m->logs;
    v[STATUS_M_RECORDS] = (int64_t)s->merge->stats.records;
    v[STATUS_M_ZEROS] = (int64_t)s->merge->stats.zeros;
    v[STATUS_M_KEYSPACES] = (int64_t)m->keyspaces;
    v[STATUS_M_KEYS] = (int64_t)m->keys;
    v[STATUS_M_CREATED] = (int64_t)m->created;
    v[STATUS_M_SATURATED] = (int64_t)m->saturated;
    v[STATUS_M_HELD] = (int64_t)m->held;
    v[STATUS_M_UNHELD] = (int64_t)s->merge->pass.fills;
    v[STATUS_M_QUARANTINED] = (int64_t)s->merge->stats.quarantined;
    v[STATUS_M_RECOVERED] = (int64_t)s->merge->stats.recovered;
    v[STATUS_M_UNRECOVERED] = (int64_t)s->merge->batch.dir.unrecovered;
    v[STATUS_M_ARCHIVED] = (int64_t)m->archived;
    v[STATUS_M_MERGE_US] = (int64_t)(s->merge_ns / 1000);
    v[STATUS_M_WAITING] = s->is_waiting;
    v[STATUS_M_HELD_NOW] = w->held_fills > 0;
    v[STATUS_M_HELD_FILLS] = (int64_t)w->held_fills;
    v[STATUS_M_HELD_FILES] = (int64_t)w->held_files;
    v[STATUS_M_HELD_BYTES] = (int64_t)w->held_bytes;
    v[STATUS_M_HELD_BAD] = (int64_t)w->bad_files;
    v[STATUS_M_PLACED] = (int64_t)w->placed_files;
    v[STATUS_M_OLDER] = s->merge->is_older;
    v[STATUS_M_LAST_ERROR] = diag_last_error();
    postgresql_store_figures(s->merge->store, v);
}

/* The logs of the batch; when they are emptied the writer sees it. */
static void
put_logs(struct worker_status *s)
{
    const struct log_batch *b = &s->merge->batch;

    for (unsigned i = 0; i < b->count && !batch_is_waiting(b); i++) {
        const struct log *log = &b->logs[i].log;
        const int64_t values[STATUS_LOG_VALUES] = {
            [STATUS_LOG_STATE] = STATUS_LOG_MERGING,
            [STATUS_LOG_EPOCH] = (int64_t)log->header.epoch,
            [STATUS_LOG_MESSAGES] =
                (int64_t)log->header.count - log->header.marks,
            [STATUS_LOG_OWNER] = getpid(),
            [STATUS_LOG_SINCE_MS] = (int64_t)log->header.first_ms};

        if (b->logs[i].claimed)
            status_put_log(&s->status, log->header.index, values);
    }
}

void
worker_status_init(struct worker_status *s, const char *data_dir,
                   const struct merge *merge)
{
    s->merge = merge;
    s->row = (struct status_row){.kind = STATUS_WORKER};
    status_init(&s->status, data_dir);
}

void
worker_status_close(struct worker_status *s)
{
    status_close(&s->status);
}

void
worker_status_tick(struct worker_status *s)
{
    const uint64_t now = clock_ms();

    if (now < s->due_ms)
        return;
    s->due_ms = now + STATUS_TICK_MS;
    fill_row(s);
    status_put(&s->status, &s->row);
    put_logs(s);
}

void
worker_status_print(struct worker_status *s)
{
    fill_row(s);
    status_print("figures: ", &s->row);
}

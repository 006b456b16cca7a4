/* writer/writer_status.c - see writer_status.h: writer_status_print(),
 * writer_status_handed(), writer_status_close(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/writer_status.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/log/logfile.h"
#include "writer/writer.h"

/* ---- rows -------------------------------------------------------------- */

static void
fill_totals(struct writer_status *s)
{
    const struct writer *w = s->writer;
    const struct listener_stats *ack =
        &conns_listener(w->conns, LISTENER_ACK)->stats;
    const struct listener_stats *silent =
        &conns_listener(w->conns, LISTENER_SILENT)->stats;
    const struct logs_stats *l = &w->logs.stats;
    int64_t *v = s->totals.values;

    v[STATUS_W_MESSAGES] = (int64_t)w->ingest.messages;
    v[STATUS_W_BYTES] = (int64_t)(ack->received + silent->received);
    v[STATUS_W_CONNECTIONS] = (int64_t)(ack->accepted + silent->accepted);
    v[STATUS_W_REPLIES] = (int64_t)((ack->sent - 4 * ack->malformed) / 3);
    v[STATUS_W_MALFORMED] = (int64_t)(ack->malformed + silent->malformed);
    v[STATUS_W_PARTIAL] = (int64_t)(ack->cut_off + silent->cut_off);
    v[STATUS_W_APPENDS] = (int64_t)l->flushes;
    v[STATUS_W_SYNCS] = (int64_t)w->commit.syncs;
    v[STATUS_W_LOGS] = (int64_t)l->sealed;
    v[STATUS_W_PUSHED_BACK] = (int64_t)l->pushed_back;
    v[STATUS_W_SECRET_LOST] = l->secret_lost;
    v[STATUS_W_SYNC_US] = (int64_t)(w->commit.sync_ns / 1000);
}

/* Figures of StatsD and Graphite lines. */
static void
fill_lines(int64_t *v, const struct statsd *s)
{
    const uint64_t *lines = s->counts[STATSD_LINE_PROTOCOL];
    const uint64_t *graphite = s->counts[GRAPHITE_LINE_PROTOCOL];

    v[STATUS_W_STATSD_DATAGRAMS] = (int64_t)s->datagrams.stats.received;
    if ((int64_t)s->datagrams.stats.dropped > v[STATUS_W_STATSD_DROPPED])
        v[STATUS_W_STATSD_DROPPED_MS] = (int64_t)clock_unix_ms();
    v[STATUS_W_STATSD_DROPPED] = (int64_t)s->datagrams.stats.dropped;
    v[STATUS_W_STATSD_LINES] = (int64_t)lines[STATSD_LINES];
    v[STATUS_W_STATSD_BAD] = (int64_t)lines[STATSD_BAD];
    v[STATUS_W_STATSD_IGNORED] = (int64_t)statsd_ignored(lines);
    v[STATUS_W_STATSD_NO_MEMORY] =
        (int64_t)(lines[STATSD_NO_MEMORY] + graphite[STATSD_NO_MEMORY]);
    v[STATUS_W_GRAPHITE_LINES] = (int64_t)graphite[STATSD_LINES];
    v[STATUS_W_GRAPHITE_BAD] = (int64_t)graphite[STATSD_BAD];
    v[STATUS_W_GRAPHITE_IGNORED] = (int64_t)statsd_ignored(graphite);
}

static void
fill_http(int64_t *v, const struct http_service *h)
{
    const struct count_stats *c = &h->count.stats;

    v[STATUS_W_HTTP_REQUESTS] = (int64_t)h->site.stats.requests;
    v[STATUS_W_HTTP_REFUSED] = (int64_t)h->site.stats.refused;
    v[STATUS_W_HTTP_REPLAYED] = (int64_t)c->replayed;
    v[STATUS_W_COUNT_INCREMENTS] = (int64_t)c->increments;
    v[STATUS_W_COUNT_REQUESTS] = (int64_t)c->requests;
    v[STATUS_W_COUNT_REFUSED] = (int64_t)c->refused;
    v[STATUS_W_COUNT_BUSY] = (int64_t)c->busy;
    v[STATUS_W_SEQUENCE_GIVEN] = (int64_t)h->sequence.stats.given;
    v[STATUS_W_SEQUENCE_WAITED] = (int64_t)h->sequence.stats.waited;
    v[STATUS_W_SEQUENCE_MOVES] = (int64_t)h->sequence.stats.moves;
}

static void
fill_quotas(int64_t *v, const struct quota_service *q)
{
    const struct quota_stats *f = &q->stats;

    v[STATUS_W_QUOTA_APPLIED] = (int64_t)f->applied;
    v[STATUS_W_QUOTA_CANCELLED] = (int64_t)f->cancelled;
    v[STATUS_W_QUOTA_REFUSED] = (int64_t)f->refused;
    v[STATUS_W_QUOTA_OTHER] = (int64_t)f->other;
    v[STATUS_W_QUOTA_REPEATED] = (int64_t)f->repeated;
    v[STATUS_W_QUOTA_UNAVAILABLE] = (int64_t)f->unavailable;
    v[STATUS_W_QUOTA_FAILURES] = (int64_t)f->failures;
    v[STATUS_W_QUOTA_SYNCS] = (int64_t)q->commit.syncs;
    v[STATUS_W_QUOTA_NAMES] = (int64_t)q->quotas.count;
    v[STATUS_W_QUOTA_KEYS] = (int64_t)idempotency_count(&q->quotas.keys);
}

static void
fill_live(struct status_row *row, const struct live_server *s, const char *name)
{
    const struct live_stats *l = &s->live.stats;
    int64_t *v = row->values;

    row->kind = STATUS_LIVE;
    (void)snprintf(row->name, sizeof row->name, "%s", name);
    v[STATUS_V_OBJECTS] = (int64_t)s->live.count;
    v[STATUS_V_CREATED] = (int64_t)l->created;
    v[STATUS_V_IDLE] = (int64_t)s->live.idle;
    v[STATUS_V_MEMORY] = (int64_t)live_memory(&s->live);
    v[STATUS_V_NO_MEMORY] = (int64_t)l->no_memory;
    v[STATUS_V_NOOP] = (int64_t)s->stats.noop;
    v[STATUS_V_GET] = (int64_t)s->stats.get;
    v[STATUS_V_ACQUIRE] = (int64_t)s->stats.acquire;
    v[STATUS_V_RELEASE] = (int64_t)s->stats.release;
    v[STATUS_V_STATS] = (int64_t)s->stats.stats;
    v[STATUS_V_DUMP] = (int64_t)s->stats.dump;
    v[STATUS_V_SWEEPS] = (int64_t)l->swept;
    v[STATUS_V_LAST_SWEEP_US] = (int64_t)l->last_sweep_us;
}

static bool
is_on(const struct listener *d)
{
    return d->row->listen && d->row->listen[0] != '\0';
}

static void
fill_rows(struct writer_status *s)
{
    const struct writer *w = s->writer;
    int64_t *v = s->totals.values;

    fill_totals(s);
    fill_lines(v, &w->statsd);
    fill_http(v, &w->http);
    fill_quotas(v, &w->quota);
    v[STATUS_W_OBJECTS] = v[STATUS_W_NO_MEMORY] = 0;
    for (size_t i = 0; i < LIVE_SERVICE_KINDS; i++)
        if (w->lives.on[i]) {
            fill_live(&s->lives[i], &w->lives.servers[i],
                      i == LIVE_COUNTER ? "counter" : "semaphore");
            v[STATUS_W_OBJECTS] += s->lives[i].values[STATUS_V_OBJECTS];
            v[STATUS_W_NO_MEMORY] += s->lives[i].values[STATUS_V_NO_MEMORY];
        }
    for (size_t i = 0; i < LISTENERS; i++)
        status_fill_listener(&s->listeners[i], conns_listener(w->conns, i));
}

/* Calls `show` for every row that is on. */
static void
each_row(struct writer_status *s,
         void (*show)(struct status *status, struct status_row *row))
{
    fill_rows(s);
    show(&s->status, &s->totals);
    for (size_t i = 0; i < LISTENERS; i++)
        if (is_on(conns_listener(s->writer->conns, i)))
            show(&s->status, &s->listeners[i]);
    for (size_t i = 0; i < LIVE_SERVICE_KINDS; i++)
        if (s->writer->lives.on[i])
            show(&s->status, &s->lives[i]);
}

static void
print_row(struct status *status, struct status_row *row)
{
    (void)status;
    status_print("", row);
}

void
writer_status_print(struct writer_status *s)
{
    each_row(s, print_row);
}

/* ---- logs -------------------------------------------------------------- */

/* One that this process fills, or is about to hand on. */
static void
put_own(struct writer_status *s, const struct log *log, uint32_t more)
{
    const uint32_t count = log->header.count + more;
    int64_t values[STATUS_LOG_VALUES] = {
        [STATUS_LOG_STATE] = STATUS_LOG_OPEN,
        [STATUS_LOG_EPOCH] = (int64_t)log->header.epoch,
        [STATUS_LOG_MESSAGES] = (int64_t)count - log->header.marks,
        [STATUS_LOG_OWNER] = getpid()};

    if (log->header.count > 0)
        values[STATUS_LOG_SINCE_MS] = (int64_t)log->header.first_ms;
    else if (count > 0)
        values[STATUS_LOG_SINCE_MS] = (int64_t)s->writer->logs.staged_first_ms;
    status_put_log(&s->status, log->header.index, values);
}

static void
put_own_logs(struct writer_status *s)
{
    const struct logs *l = &s->writer->logs;

    for (size_t i = 0; i < LOGS_RETIRED; i++)
        if (l->retired[i].state == RETIRED_DIRTY ||
            l->retired[i].state == RETIRED_SYNCING)
            put_own(s, &l->retired[i].log, 0);
    if (l->has_current)
        put_own(s, &l->current, l->staged);
    for (size_t i = 0; i < l->spare_count; i++)
        put_own(s, &l->spares[i], 0);
}

/* One that is on its way is still open for all that others may know. */
static bool
is_own(const struct logs *l, uint64_t index)
{
    for (size_t i = 0; i < LOGS_RETIRED; i++)
        if (l->retired[i].state != RETIRED_FREE && l->retired[i].index == index)
            return true;
    return logs_has_open(l, index);
}

void
writer_status_handed(struct writer_status *s, const struct log *log)
{
    const int64_t values[STATUS_LOG_VALUES] = {
        [STATUS_LOG_STATE] = STATUS_LOG_FULL,
        [STATUS_LOG_EPOCH] = (int64_t)log->header.epoch,
        [STATUS_LOG_MESSAGES] = (int64_t)log->header.count - log->header.marks,
        [STATUS_LOG_SINCE_MS] = (int64_t)log->header.first_ms};

    status_put_log(&s->status, log->header.index, values);
    if (log->header.index < STATUS_LOGS)
        s->scan.handed[log->header.index] = true;
}

static bool
is_filled(int64_t state)
{
    return state == STATUS_LOG_FULL || state == STATUS_LOG_MERGING;
}

/* The directory knows the state of a log, and the process that filled or merges
 * it how many messages are in it.  A log that a worker gave back, because it
 * could not write, is full again and the fill is the same. */
static void
put_found(struct writer_status *s, uint64_t index, const int64_t *found)
{
    const int64_t state = found[STATUS_LOG_STATE];
    int64_t values[STATUS_LOG_VALUES];
    bool same_fill;

    status_get_log(&s->status, index, values);
    same_fill = is_filled(state) && is_filled(values[STATUS_LOG_STATE]) &&
                (state == STATUS_LOG_MERGING ||
                 found[STATUS_LOG_SINCE_MS] == values[STATUS_LOG_SINCE_MS]);
    if (!same_fill && (is_filled(state) || state != values[STATUS_LOG_STATE])) {
        status_put_log(&s->status, index, found);
    } else if (state != values[STATUS_LOG_STATE]) {
        values[STATUS_LOG_STATE] = state;
        values[STATUS_LOG_OWNER] = 0;
        status_put_log(&s->status, index, values);
    }
}

/* ---- the scan ---------------------------------------------------------- */

static void
scan_log(struct status_scan *k, const struct logfile *f)
{
    const bool full = !f->locked && f->mode == LOG_MODE_FULL;
    int64_t *v;

    k->quarantined += f->kind == LOGFILE_BAD;
    if (f->kind > LOGFILE_LOCK || f->index >= STATUS_LOGS)
        return;
    v = k->logs[f->index];
    v[STATUS_LOG_STATE] = f->locked || f->mode == LOG_MODE_OWNED
                              ? STATUS_LOG_MERGING
                          : full ? STATUS_LOG_FULL
                                 : STATUS_LOG_EMPTY;
    v[STATUS_LOG_MESSAGES] = v[STATUS_LOG_STATE] == STATUS_LOG_EMPTY ? 0 : -1;
    v[STATUS_LOG_SINCE_MS] = full ? (int64_t)f->mtime_ms : 0;
}

/* In the I/O thread. */
static void
scan_run(struct io_job *job)
{
    struct status_scan *k = LOOP_OWNER(job, struct status_scan, job);
    struct statvfs vfs;
    struct logfile_list list;

    memset(k->logs, 0, sizeof k->logs);
    k->quarantined = 0;
    if (fstatvfs(k->log_fd, &vfs) == 0) {
        k->disk_free = (int64_t)(vfs.f_bavail * vfs.f_frsize);
        k->disk_size = (int64_t)(vfs.f_blocks * vfs.f_frsize);
    }
    /* The code that needs the directory reports that it cannot be read. */
    if (logfile_list_read(&list, k->log_fd) < 0)
        return;
    for (size_t i = 0; i < list.count; i++)
        scan_log(k, &list.files[i]);
    logfile_list_free(&list);
}

static void
scan_done(struct io_job *job)
{
    struct writer_status *s = LOOP_OWNER(job, struct writer_status, scan.job);
    int64_t *v = s->totals.values;

    s->scanning = false;
    v[STATUS_W_QUARANTINED] = s->scan.quarantined;
    v[STATUS_W_DISK_FREE] = s->scan.disk_free;
    v[STATUS_W_DISK_SIZE] = s->scan.disk_size;
    for (uint64_t i = 0; i < STATUS_LOGS; i++)
        if (!s->scan.handed[i] && !is_own(&s->writer->logs, i))
            put_found(s, i, s->scan.logs[i]);
}

/* ---- now and then ------------------------------------------------------ */

static void
on_tick(struct loop_timer *timer)
{
    struct writer_status *s = LOOP_OWNER(timer, struct writer_status, timer);
    const uint64_t now = loop_now_ms(s->writer->loop);

    each_row(s, status_put);
    put_own_logs(s);
    if (!s->scanning && now >= s->next_scan_ms) {
        s->scanning = true;
        memset(s->scan.handed, 0, sizeof s->scan.handed);
        s->next_scan_ms = now + WRITER_STATUS_SCAN_MS;
        io_push(&s->writer->logs.file_io, &s->scan.job);
    }
    loop_arm(s->writer->loop, timer, now + STATUS_TICK_MS);
}

void
writer_status_open(struct writer_status *s, struct writer *w)
{
    s->writer = w;
    s->totals = (struct status_row){.kind = STATUS_WRITER};
    s->scan.log_fd = w->dir.log_fd;
    s->scan.job = (struct io_job){.run = scan_run, .done = scan_done};
    s->timer = (struct loop_timer){.due = on_tick};
    status_create(&s->status, w->config.data_dir);
    if (s->status.board)
        loop_arm(w->loop, &s->timer, loop_now_ms(w->loop));
}

void
writer_status_close(struct writer_status *s)
{
    if (s->writer)
        loop_disarm(&s->timer);
    status_close(&s->status);
}

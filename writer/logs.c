/* writer/logs.c - see logs.h.
 *
 * The life of a log here: the file thread claims an empty log (or creates one)
 * and makes it OPEN, durably: the spare.  The loop makes the spare current and
 * appends to it.  A full or old log is retired: DIRTY until a sync that covers
 * it starts, SYNCING until that sync is done (neither, if all of the log is
 * durable), SEALING while the file thread seals and releases it.  A disk error
 * on a log that holds messages ends the process: `failed` is set, no answer
 * leaves, and recovery decides by what is on the disk.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/logs_internal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/diag.h"

#define SPARE_WAIT_MS 1000 /* rotate without a spare after this long */
#define SEAL_RETRY_MS 250  /* when marks could not be stored */

void
logs_fail(struct logs *l, int error, const char *what, uint64_t index)
{
    if (l->failed)
        return;
    l->failed = true;
    diag_errno(DIAG_ERROR, error, "%s log=%llu", what,
               (unsigned long long)index);
    l->events.failed(l->events.ctx);
}

void
logs_arm(struct logs *l, struct loop_timer *timer, uint64_t after_ms)
{
    loop_arm(l->loop, timer, loop_now_ms(l->loop) + after_ms + 1);
}

static bool
is_idle(const struct logs *l)
{
    for (size_t i = 0; i < LOGS_RETIRED; i++)
        if (l->retired[i].state != RETIRED_FREE)
            return false;
    return (!l->has_current || l->current.header.count == 0) && !l->making &&
           !l->syncing && !l->recovering;
}

/* ---- retiring and sealing ---------------------------------------------- */

struct retired *
logs_free_place(struct logs *l)
{
    for (size_t i = 0; i < LOGS_RETIRED; i++)
        if (l->retired[i].state == RETIRED_FREE)
            return &l->retired[i];
    return NULL;
}

/* Once the header says SEALED, a worker may empty the log: so its marks are
 * stored before that. */
static int
store_marks(struct retired *r)
{
    int rc = 0;

    if (r->marks.count == 0 || r->stored)
        return 0;
    rc = requests_put(&r->logs->keys.journal, &r->log.header, r->marks.at,
                      r->marks.count);
    r->stored = rc == 0;
    return rc;
}

static void
seal_run(struct io_job *job)
{
    struct retired *r = LOOP_OWNER(job, struct retired, job);

    r->rc = store_marks(r);
    if (r->rc < 0)
        return; /* tried again */
    r->rc = log_seal(&r->log);
    if (r->rc == 0 && r->log.header.count == 0)
        r->rc = log_clear(&r->log);
    if (r->rc < 0)
        log_abandon(&r->log);
    else
        r->rc = log_release(&r->log);
}

void
logs_seal(struct logs *l, struct retired *r)
{
    r->state = RETIRED_SEALING;
    logs_early_sealing(l, r->index);
    io_push(&l->file_io, &r->job);
}

static void
seal_due(struct loop_timer *timer)
{
    struct logs *l = LOOP_OWNER(timer, struct logs, seal_timer);

    for (size_t i = 0; i < LOGS_RETIRED; i++)
        if (l->retired[i].state == RETIRED_DEFERRED)
            logs_seal(l, &l->retired[i]);
}

/* The marks of a log could not be stored.  It stays OPEN, and is tried again;
 * at a stop it is left to recovery, which stores them, too. */
static void
defer_seal(struct logs *l, struct retired *r)
{
    static struct diag_repeat repeat;

    diag_repeating(&repeat, DIAG_WARNING,
                   "log=%" PRIu64 " is not handed on: its requests with an "
                   "Idempotency-Key cannot be recorded in " REQUESTS_FOLDER
                   ": %s; %s",
                   r->index, diag_text(r->rc),
                   l->finishing ? "the next start does it" : "trying again");
    if (l->finishing) {
        log_abandon(&r->log);
        r->state = RETIRED_FREE;
        logs_finish_some(l);
        return;
    }
    r->state = RETIRED_DEFERRED;
    if (l->seal_timer.deadline_ms == 0)
        logs_arm(l, &l->seal_timer, SEAL_RETRY_MS);
}

/* Releases a log without messages, its slots overwritten. */
static void
clear_log(struct logs *l, const struct log *log)
{
    struct retired *r = logs_free_place(l);

    assert(r);
    assert(log->header.count == 0);
    r->log = *log;
    r->index = log->header.index;
    r->marks.count = 0;
    logs_seal(l, r);
}

/* Whether all of the current log is durable, and no sync uses its
 * descriptor. */
static bool
is_synced(const struct logs *l)
{
    return !l->dirty && l->synced_slots == l->current.header.count &&
           !(l->syncing && l->sync.fill == l->fill);
}

/* Takes the current log out of use; the next sync covers it. */
static void
retire_log(struct logs *l)
{
    struct retired *r = logs_free_place(l);
    const bool synced = is_synced(l);
    struct mark_list list;

    assert(r);
    /* The next log's marks use the memory of an earlier log's list. */
    list = r->marks;
    list.count = 0;
    assert(l->has_current);
    assert(l->staged == 0);
    assert(l->current.header.count > 0);
    r->log = l->current;
    r->index = l->current.header.index;
    r->synced_slots = l->synced_slots;
    r->marks = l->marks;
    l->marks = list;
    r->stored = false;
    logs_early_retired(l, r->index);
    if (synced) {
        logs_seal(l, r);
    } else {
        r->state = RETIRED_DIRTY;
        l->retired_dirty = true;
    }
    l->has_current = false;
    l->dirty = false;
    l->rotating = false;
    loop_disarm(&l->early.timer);
    loop_disarm(&l->rotate_timer);
    loop_disarm(&l->overdue_timer);
}

void
logs_use_spare(struct logs *l)
{
    assert(l->spare_count > 0);
    assert(!l->has_current);
    l->current = l->spares[0];
    l->has_current = true;
    l->spare_count--;
    memmove(l->spares, l->spares + 1, l->spare_count * sizeof l->spares[0]);
    l->fill++;
    l->synced_slots = 0;
    l->dirty = false;
    logs_want_spare(l);
}

void
logs_rotate_now(struct logs *l)
{
    logs_flush(l);
    if (l->failed || !logs_free_place(l))
        return;
    retire_log(l);
    if (l->spare_count > 0)
        logs_use_spare(l);
    else
        logs_want_spare(l);
}

void
logs_rotate(struct logs *l)
{
    if (l->failed || !l->has_current ||
        l->current.header.count + l->staged == 0)
        return;
    if (l->spare_count > 0 && logs_free_place(l)) {
        logs_rotate_now(l);
        return;
    }
    /* A spare is usually milliseconds away, and without one readers of
     * sockets have nowhere to put what comes. */
    l->rotating = true;
    if (!l->overdue_timer.deadline_ms)
        logs_arm(l, &l->overdue_timer, SPARE_WAIT_MS);
}

void
logs_clear(struct logs *l)
{
    logs_rotate(l);
    if (l->failed || l->finishing)
        return;
    if (l->has_current && l->current.header.count + l->staged == 0 &&
        !l->syncing && l->spare_count > 0 && logs_free_place(l)) {
        clear_log(l, &l->current);
        l->has_current = false;
        logs_use_spare(l);
    }
    while (l->spare_count > 0 && logs_free_place(l))
        clear_log(l, &l->spares[--l->spare_count]);
    logs_want_spare(l);
}

static void
rotate_due(struct loop_timer *timer)
{
    logs_rotate(LOOP_OWNER(timer, struct logs, rotate_timer));
}

static void
overdue_due(struct loop_timer *timer)
{
    struct logs *l = LOOP_OWNER(timer, struct logs, overdue_timer);

    if (l->rotating && l->has_current)
        logs_rotate_now(l);
}

void
logs_finish_some(struct logs *l)
{
    if (!l->finishing || l->failed)
        return;
    if (l->has_current && l->current.header.count > 0 && logs_free_place(l))
        retire_log(l);
    if (is_idle(l) && !l->finished) {
        l->finished = true;
        l->events.finished(l->events.ctx);
    }
}

static void
disarm_timers(struct logs *l)
{
    loop_disarm(&l->early.timer);
    loop_disarm(&l->rotate_timer);
    loop_disarm(&l->overdue_timer);
    loop_disarm(&l->sync_timer);
    loop_disarm(&l->retry_timer);
    loop_disarm(&l->recover_timer);
    loop_disarm(&l->seal_timer);
}

void
logs_finish(struct logs *l)
{
    logs_flush(l);
    l->finishing = true;
    disarm_timers(l);
    seal_due(&l->seal_timer); /* for the last time */
    logs_finish_some(l);
}

void
logs_report_ready(struct logs *l)
{
    if (!l->blocked)
        return;
    l->blocked = false;
    l->events.ready(l->events.ctx);
}

static void
seal_done(struct io_job *job)
{
    struct retired *r = LOOP_OWNER(job, struct retired, job);
    struct logs *l = r->logs;

    if (r->rc < 0 && r->marks.count > 0 && !r->stored) {
        defer_seal(l, r);
        return;
    }
    r->state = RETIRED_FREE;
    if (r->rc < 0) {
        logs_fail(l, r->rc, "seal", r->log.header.index);
        return;
    }
    if (r->log.header.count > 0) {
        l->stats.sealed++;
        if (l->handed)
            l->handed(l->events.ctx, &r->log);
    }
    if (l->rotating)
        logs_rotate(l);
    logs_report_ready(l);
    logs_finish_some(l);
}

/* ---- open and close ---------------------------------------------------- */

static void
free_memory(struct logs *l)
{
    keys_close(&l->keys);
    for (size_t i = 0; i < LOGS_RETIRED; i++)
        free(l->retired[i].marks.at);
    free(l->marks.at);
    free(l->slots);
    free(l->messages);
}

static void
set_up_jobs(struct logs *l)
{
    for (size_t i = 0; i < LOGS_RETIRED; i++)
        l->retired[i] = (struct retired){
            .job = {.run = seal_run, .done = seal_done}, .logs = l};
    l->rotate_timer = (struct loop_timer){.due = rotate_due};
    l->overdue_timer = (struct loop_timer){.due = overdue_due};
    l->seal_timer = (struct loop_timer){.due = seal_due};
    logs_set_up_early(l);
    logs_set_up_sync(l);
    logs_set_up_spares(l);
}

static int
open_directory(struct logs *l, const struct datadir *d)
{
    int rc;

    rc = logdir_open(&l->dir, d->log_fd, &l->layout, l->config->log_size);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "open the logs in data_dir=%s",
                   l->config->data_dir);
        return rc;
    }
    l->dir.requests = &l->keys.journal;
    rc = logdir_recover(&l->dir);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "recover the logs in data_dir=%s",
                   l->config->data_dir);
        logdir_close(&l->dir);
        return rc;
    }
    if (l->dir.recovered > 0)
        diag(DIAG_INFO, "recovered logs=%" PRIu64, l->dir.recovered);
    return 0;
}

/* An unused log is made EMPTY again; a log with messages is left to recovery,
 * as after a crash. */
static void
give_back(struct logs *l, struct log *log)
{
    if (l->failed || log->header.count > 0 || log_seal(log) < 0)
        log_abandon(log);
    else
        (void)log_release(log); /* recovery tidies what this leaves */
}

static int
start_threads(struct logs *l)
{
    int rc;

    rc = io_start(&l->sync_io, l->loop);
    if (rc < 0)
        return rc;
    rc = io_start(&l->file_io, l->loop);
    if (rc < 0)
        io_stop(&l->sync_io);
    return rc;
}

int
logs_open(struct logs *l, struct loop *loop, const struct datadir *d,
          const struct config *config, const struct logs_events *events)
{
    int rc;

    *l = (struct logs){.loop = loop, .config = config, .events = *events};
    rc = layout_init(&l->layout, (unsigned)config->keyspace_size,
                     (unsigned)config->key_size);
    if (rc < 0)
        return rc;
    set_up_jobs(l);
    keys_open(&l->keys, d);
    l->slots = calloc(LOGS_STAGE, l->layout.slot_size);
    l->messages = calloc(LOGS_STAGE, sizeof *l->messages);
    rc = l->slots && l->messages ? 0 : -ENOMEM;
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "memory for logs");
    else
        rc = open_directory(l, d);
    if (rc < 0)
        goto free_memory;
    rc = logdir_check_sizes(&l->dir);
    if (rc == 0)
        rc = keys_begin(&l->keys, &l->dir, config);
    if (rc < 0)
        goto close_dir;
    l->make.takes_marks = l->keys.state != KEYS_OFF;
    l->stats.secret_lost = l->keys.is_lost;
    rc = start_threads(l);
    if (rc < 0)
        goto close_dir;
    rc = logs_begin_first(l);
    if (rc == 0) {
        logs_arm_recovery(l);
        return 0;
    }
    io_stop(&l->sync_io);
    io_stop(&l->file_io);
close_dir:
    logdir_close(&l->dir);
free_memory:
    free_memory(l);
    return rc;
}

void
logs_close(struct logs *l)
{
    io_stop(&l->sync_io);
    io_stop(&l->file_io);
    if (l->making && l->make.rc == 0)
        give_back(l, &l->make.log);
    while (l->spare_count > 0)
        give_back(l, &l->spares[--l->spare_count]);
    if (l->has_current)
        give_back(l, &l->current);
    for (size_t i = 0; i < LOGS_RETIRED; i++)
        if (l->retired[i].state != RETIRED_FREE &&
            l->retired[i].state != RETIRED_SEALING)
            log_abandon(&l->retired[i].log);
    disarm_timers(l);
    logdir_close(&l->dir);
    free_memory(l);
}

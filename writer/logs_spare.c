/* writer/logs_spare.c - the log that comes next, and logs of dead owners; see
 * logs.h.
 *
 * Entry points: logs_want_spare(), logs_begin_first(), logs_set_up_spares(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/logs_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "common/base/diag.h"

#define RETRY_MS 250 /* until the next attempt when there is no log */
#define RACED_MS 2   /* another process held the wanted log for a moment */

/* Whether one more log may be made.  Logs are never removed and hold what the
 * workers have still to write, so above log.count each new log must leave free
 * the space that its merge needs.  Otherwise a writer ahead of the workers
 * could fill the disk with full logs, none of which could be merged.  The need
 * is twice the size of the logs: a keyspace file has long names in two orders,
 * which takes as much as in a log, and LMDB writes changed pages to new places
 * before it frees the old ones. */
static bool
has_disk_space(const struct logs *l)
{
    const struct logdir *dir = &l->dir;
    uint64_t need = LOG_SLOTS_AT + (uint64_t)dir->slots * dir->layout.slot_size;
    struct statvfs fs;

    if (fstatvfs(dir->fd, &fs) < 0)
        return true; /* creating will say what is wrong */
    if (dir->count >= l->config->log_count)
        need *= 2 * (dir->count + 1);
    return (uint64_t)fs.f_bavail * fs.f_frsize >= need;
}

/* Claims the lowest empty log: the fewer are used, the more of them stay in
 * the caches. */
static int
claim_spare(struct logs *l)
{
    return logdir_claim(&l->dir, LOG_MODE_EMPTY, &l->make.log);
}

/* -EMFILE: there are `max` logs. */
static int
create_log(struct logs *l, uint64_t max)
{
    if (l->dir.count < max && !has_disk_space(l))
        return -ENOSPC;
    return logdir_create(&l->dir, max);
}

/* Claims an empty log; recovers, then creates, when there is none and one is
 * needed, or there are fewer than log.count. */
static int
claim_or_create(struct logs *l)
{
    const bool is_needed = l->make.may_create;
    int rc;

    rc = claim_spare(l);
    if (rc != -EAGAIN || (!is_needed && l->dir.count >= l->config->log_count))
        return rc;
    if (is_needed && logdir_recover(&l->dir) > 0) {
        rc = claim_spare(l);
        if (rc != -EAGAIN)
            return rc;
    }
    rc = create_log(l, l->config->log_max);
    if (rc < 0)
        return is_needed ? rc : -EAGAIN;
    return claim_spare(l);
}

static void
make_run(struct io_job *job)
{
    struct logs *l = LOOP_OWNER(job, struct logs, make.job);
    struct spare_job *s = &l->make;

    s->began = false;
    s->rc =
        s->may_begin ? claim_or_create(l) : create_log(l, l->config->log_count);
    s->is_short = s->rc == 0 && l->dir.count < l->config->log_count;
    if (!s->may_begin)
        s->rc = -EAGAIN; /* it stays empty until a spare is wanted */
    if (s->rc < 0)
        return;
    s->began = true;
    s->log.takes_marks = s->takes_marks;
    s->rc = log_begin(&s->log);
    if (s->rc < 0)
        log_abandon(&s->log);
}

void
logs_want_spare(struct logs *l)
{
    const bool has_all = l->spare_count == LOGS_SPARES;

    /* While it is making, `make` is the file thread's. */
    if (l->making || l->finishing || l->failed ||
        (has_all && !l->make.is_short))
        return;
    loop_disarm(&l->retry_timer);
    l->making = true;
    l->make.may_begin = !has_all;
    l->make.may_create = l->spare_count == 0;
    io_push(&l->file_io, &l->make.job);
}

static void
make_failed(struct logs *l)
{
    static struct diag_repeat repeat;
    const char *what = "cannot get an empty log";

    if (l->make.began) {
        logs_fail(l, l->make.rc, "begin", l->make.log.header.index);
        return;
    }
    /* One more was only wanted if there happened to be one. */
    if (l->make.rc == -EAGAIN && !l->make.may_create) {
        if (l->spare_count == 0 || l->make.is_short)
            logs_want_spare(l); /* the others were used up, or more are due */
        return;
    }
    if (!l->finishing)
        logs_arm(l, &l->retry_timer,
                 l->make.rc == -EAGAIN ? RACED_MS : RETRY_MS);
    /* A worker was checking that log; nothing is wrong. */
    if (l->make.rc == -EAGAIN)
        return;
    /* At log.max nothing is wrong until the log in use is full. */
    if (l->make.rc == -EMFILE && !l->blocked)
        return;
    l->warned = true;
    if (l->make.rc == -EMFILE)
        diag_repeating(&repeat, DIAG_WARNING,
                       "%s: all log.max=%llu are full or in use; not reading "
                       "from clients until a worker empties one",
                       what, (unsigned long long)l->config->log_max);
    else
        diag_repeating(&repeat, DIAG_WARNING, "%s: %s; %s", what,
                       strerror(-l->make.rc),
                       l->blocked ? "not reading from clients until there is"
                                  : "trying again");
}

static void
make_done(struct io_job *job)
{
    struct logs *l = LOOP_OWNER(job, struct logs, make.job);

    l->making = false;
    if (l->failed)
        return;
    if (l->make.rc < 0) {
        make_failed(l);
        logs_finish_some(l);
        return;
    }
    l->spares[l->spare_count++] = l->make.log;
    if (l->warned) {
        l->warned = false;
        diag(DIAG_INFO, "there is an empty log again log=%llu",
             (unsigned long long)l->make.log.header.index);
    }
    if (l->finishing) {
        logs_finish_some(l);
        return;
    }
    if (!l->has_current)
        logs_use_spare(l);
    else if (l->rotating)
        logs_rotate(l);
    logs_want_spare(l);
    logs_report_ready(l);
}

static void
retry_due(struct loop_timer *timer)
{
    logs_want_spare(LOOP_OWNER(timer, struct logs, retry_timer));
}

int
logs_begin_first(struct logs *l)
{
    l->make.may_begin = l->make.may_create = true;
    make_run(&l->make.job);
    l->blocked = l->make.rc < 0; /* so that it is warned about at once */
    make_done(&l->make.job);
    return l->failed ? l->make.rc : 0;
}

/* ---- dead owners ------------------------------------------------------- */

static void
recover_run(struct io_job *job)
{
    struct logs *l = LOOP_OWNER(job, struct logs, recover);

    /* Failures are reported through diag; the next round tries again. */
    (void)logdir_recover(&l->dir);
    if (l->keys.state == KEYS_LOADING)
        keys_load(&l->keys, &l->dir);
}

static void
recover_done(struct io_job *job)
{
    struct logs *l = LOOP_OWNER(job, struct logs, recover);

    l->recovering = false;
    l->stats.secret_lost = l->keys.is_lost;
    if (l->keys.state == KEYS_LOADING && l->keys.loaded) {
        l->keys.state = KEYS_READY;
        if (!l->failed)
            l->events.ready(l->events.ctx); /* requests wait for it */
    }
    if (!l->finishing && !l->failed)
        logs_arm_recovery(l);
    logs_finish_some(l);
}

void
logs_arm_recovery(struct logs *l)
{
    logs_arm(l, &l->recover_timer,
             l->keys.state != KEYS_LOADING ? LOGS_RECOVER_MS
             : l->stats.secret_lost        ? LOGS_LOST_MS
                                           : LOGS_LOAD_MS);
}

static void
recover_due(struct loop_timer *timer)
{
    struct logs *l = LOOP_OWNER(timer, struct logs, recover_timer);

    l->recovering = true;
    io_push(&l->file_io, &l->recover);
}

void
logs_set_up_spares(struct logs *l)
{
    l->make.job = (struct io_job){.run = make_run, .done = make_done};
    l->recover = (struct io_job){.run = recover_run, .done = recover_done};
    l->retry_timer = (struct loop_timer){.due = retry_due};
    l->recover_timer = (struct loop_timer){.due = recover_due};
}

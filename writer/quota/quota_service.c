/* writer/quota/quota_service.c - see quota_service.h: quota_can_change(),
 * quota_wait(), quota_turn(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/quota_service.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"

static const char unavailable[] = "HTTP/1.1 503 Service Unavailable\r\n"
                                  "Content-length: 19\r\n\r\n"
                                  "Service Unavailable";

/* ---- time -------------------------------------------------------- */

/* Cannot fail: the timers were armed at the start, so they have places. */
static void
arm_timer(struct quota_service *s, struct loop_timer *timer, uint64_t ms)
{
    const int rc = loop_arm(s->loop, timer, loop_now_ms(s->loop) + ms);

    assert(rc == 0);
}

static void
retry_soon(struct quota_service *s)
{
    s->retrying = true;
    arm_timer(s, &s->retry, QUOTA_RETRY_MS);
}

static void
retry_due(struct loop_timer *timer)
{
    struct quota_service *s = LOOP_OWNER(timer, struct quota_service, retry);

    s->retrying = false;
    if (s->state == QUOTA_LOADING)
        io_push(&s->file_io, &s->reload.job);
}

static void
mark_due(struct loop_timer *timer)
{
    struct quota_service *s = LOOP_OWNER(timer, struct quota_service, mark);

    s->mark_due = true;
}

/* ---- after a failure --------------------------------------------- */

/* Empties an export of another journal. */
static void
export_nothing(struct quota_service *s)
{
    struct journal_numbers *n = &quotas_unnamed(&s->store->quotas)->numbers;

    if (n->count > 0)
        return;
    quota_export_want(&s->export);
    quota_export_turn(&s->export, n, 0);
}

static void
reload_run(struct io_job *job)
{
    struct quota_service *s = LOOP_OWNER(job, struct quota_service, reload.job);

    s->reload.rc = quota_store_open(s->dirfd, s->config, &s->reload.store);
}

static void
reload_done(struct io_job *job)
{
    struct quota_service *s = LOOP_OWNER(job, struct quota_service, reload.job);

    if (s->reload.rc == -EBADMSG || s->reload.rc == -EPROTO ||
        s->reload.rc == -EINVAL) {
        s->state = QUOTA_DAMAGED;
        return;
    }
    if (s->reload.rc < 0) {
        diag_repeating(&s->full_warning, DIAG_ERROR,
                       "quotas are not available: data_dir/live/" JOURNAL_NAME
                       ": %s; tried again each second",
                       diag_text(s->reload.rc));
        retry_soon(s);
        return;
    }
    quota_store_free(s->store);
    s->store = s->reload.store;
    s->reload.store = NULL;
    s->state = QUOTA_READY;
    s->wants_export[0] = s->wants_export[1] = false;
    export_nothing(s);
    diag(DIAG_INFO, "quotas are available again");
}

/* Nothing in memory counts any more: it is ahead of the disk. */
static void
begin_again(struct quota_service *s)
{
    s->state = QUOTA_LOADING;
    quota_export_stop(&s->export);
    http_wake(&s->line);
    io_push(&s->file_io, &s->reload.job);
}

/* ---- the commit -------------------------------------------------- */

static void
flush(void *ctx)
{
    (void)ctx; /* all is written by the sync */
}

static bool
is_due(const void *ctx)
{
    return ((const struct quota_service *)ctx)->mark_due;
}

static bool
is_small(const void *ctx)
{
    const struct quota_service *s = ctx;

    return s->state == QUOTA_READY && !s->extending &&
           !journal_needs_checkpoint(&s->store->journal);
}

static bool
begin(void *ctx)
{
    struct quota_service *s = ctx;
    const bool sync_note = s->mark_due;
    struct journal *j;

    s->mark_due = false;
    if (s->state != QUOTA_READY)
        return false;
    j = &s->store->journal;
    if (journal_is_durable(j) && !gate_has_waiters(&s->commit.gate) &&
        (!sync_note || j->note.is_synced))
        return false;
    s->flight_count = quotas_unnamed(&s->store->quotas)->numbers.count;
    s->wants_export[1] |= s->wants_export[0];
    s->wants_export[0] = false;
    /* The memory is as after this group, and stays so until its end. */
    s->paused = !s->extending && journal_needs_checkpoint(j);
    journal_begin(j, clock_unix_ms());
    return true;
}

static int
sync_journal(void *ctx)
{
    struct quota_service *s = ctx;
    struct journal *j = &s->store->journal;
    const struct journal_group *g = &j->groups[1 - j->collecting];
    int rc = journal_sync(j);

    if (g->count == 0)
        quota_store_note(s->store, g->first);
    if (rc == 0 && s->paused) {
        rc = quota_store_checkpoint(s->store, g->first + g->count);
        /* It is unknown whether the group is durable: its requests get no
         * answer. */
        j->erased = rc == 0;
    }
    return rc;
}

static bool
end(void *ctx, int rc)
{
    struct quota_service *s = ctx;
    struct journal *j = &s->store->journal;

    journal_end(j, rc);
    s->paused = false;
    if (rc < 0) {
        s->stats.failures++;
        diag_errno(DIAG_ERROR, rc,
                   "write data_dir/live/" JOURNAL_NAME
                   ": changes of quotas are refused, and it is read again");
        begin_again(s);
        return false;
    }
    if (!j->note.is_synced)
        arm_timer(s, &s->mark, QUOTA_MARK_MS);
    if (s->wants_export[1]) {
        s->wants_export[1] = false;
        quota_export_want(&s->export);
    }
    quota_export_turn(&s->export, &quotas_unnamed(&s->store->quotas)->numbers,
                      s->flight_count);
    http_wake(&s->line);
    return true;
}

static const char *
words(void *ctx)
{
    return ((struct quota_service *)ctx)->store->journal.erased ? unavailable
                                                                : "";
}

static const struct commit_file quota_file = {.flush = flush,
                                              .is_due = is_due,
                                              .is_small = is_small,
                                              .begin = begin,
                                              .sync = sync_journal,
                                              .end = end,
                                              .words = words};

/* ---- room -------------------------------------------------------- */

static void
extend_run(struct io_job *job)
{
    struct quota_service *s = LOOP_OWNER(job, struct quota_service, extend.job);

    s->extend.rc = journal_extend(s->dirfd, s->extend.from);
}

static void
extend_done(struct io_job *job)
{
    struct quota_service *s = LOOP_OWNER(job, struct quota_service, extend.job);

    s->extending = false;
    s->full = s->extend.rc < 0;
    if (s->full) {
        diag_repeating(
            &s->full_warning, DIAG_WARNING,
            "the journal of quotas cannot grow: %s; when it is full, "
            "changes are refused",
            diag_text(s->extend.rc));
        retry_soon(s);
    } else if (s->state == QUOTA_READY &&
               s->store->journal.size == s->extend.from) {
        s->store->journal.size += JOURNAL_STEP;
    }
    http_wake(&s->line);
}

static void
extend_some(struct quota_service *s)
{
    if (s->state != QUOTA_READY || s->extending || s->retrying || s->paused ||
        !journal_is_short(&s->store->journal))
        return;
    s->extending = true;
    s->extend.from = s->store->journal.size;
    io_push(&s->file_io, &s->extend.job);
}

bool
quota_can_change(const struct quota_service *s)
{
    return journal_free(&s->store->journal) >= JOURNAL_CHANGE;
}

enum conn_next
quota_wait(struct quota_service *s, struct http_call *x)
{
    const struct journal *j = &s->store->journal;
    const struct journal_group *g = &j->groups[j->collecting];

    /* A group that is full is soon on its way. */
    if (g->count + JOURNAL_CHANGE <= JOURNAL_GROUP && s->full) {
        s->stats.unavailable++;
        return http_fail(x, HTTP_UNAVAILABLE);
    }
    return http_hold(x, &s->line);
}

bool
quota_turn(struct quota_service *s, bool alone)
{
    if (!quota_is_on(s))
        return false;
    extend_some(s);
    return commit_turn(&s->commit, alone);
}

/* ---- open and close ---------------------------------------------- */

void
quota_init(struct quota_service *s)
{
    *s = (struct quota_service){.dirfd = -1};
}

static void
stop_timers(struct quota_service *s)
{
    loop_disarm(s->loop, &s->retry);
    loop_disarm(s->loop, &s->mark);
}

static int
start_timers(struct quota_service *s)
{
    const uint64_t now_ms = loop_now_ms(s->loop);
    int rc;

    rc = loop_arm(s->loop, &s->retry, now_ms);
    if (rc == 0)
        rc = loop_arm(s->loop, &s->mark, now_ms + QUOTA_MARK_MS);
    return rc;
}

static int
start_threads(struct quota_service *s, size_t max)
{
    int rc;

    rc = io_start(&s->sync_io, s->loop);
    if (rc < 0)
        return rc;
    rc = io_start(&s->file_io, s->loop);
    if (rc < 0)
        goto stop_sync;
    rc = commit_init(&s->commit, &quota_file, s, &s->sync_io, max, 1);
    if (rc < 0)
        goto stop_file;
    rc = start_timers(s);
    if (rc == 0)
        return 0;
    stop_timers(s);
    commit_fini(&s->commit);

stop_file:
    io_stop(&s->file_io);
stop_sync:
    io_stop(&s->sync_io);
    return rc;
}

/* What a start cannot mend now is tried again while serving. */
static int
open_first(struct quota_service *s)
{
    int rc = quota_store_open(s->dirfd, s->config, &s->store);

    if (rc == -EINVAL)
        return rc;
    s->state = rc == 0 ? QUOTA_READY : QUOTA_LOADING;
    if (rc == -EBADMSG || rc == -EPROTO)
        s->state = QUOTA_DAMAGED;
    if (s->state == QUOTA_DAMAGED)
        diag(DIAG_ERROR,
             "quotas are not served until data_dir/live/" JOURNAL_NAME
             " is restored");
    else if (rc < 0)
        diag_errno(DIAG_ERROR, rc,
                   "quotas are not available: data_dir/live/" JOURNAL_NAME);
    return 0;
}

int
quota_open(struct quota_service *s, struct loop *loop, int live_fd,
           const struct config *config, size_t max)
{
    int rc;

    *s = (struct quota_service){
        .loop = loop,
        .config = config,
        .dirfd = live_fd,
        .retry = {.slot = -1, .due = retry_due},
        .mark = {.slot = -1, .due = mark_due},
        .extend.job = {.run = extend_run, .done = extend_done},
        .reload.job = {.run = reload_run, .done = reload_done}};
    http_line_init(&s->line);
    quota_export_init(&s->export, loop, &s->file_io, config->quota_export);
    rc = open_first(s);
    if (rc == 0)
        rc = start_threads(s, max);
    if (rc < 0) {
        quota_store_free(s->store);
        quota_init(s);
    } else if (s->state == QUOTA_READY) {
        export_nothing(s);
    }
    return rc;
}

void
quota_close(struct quota_service *s)
{
    if (!quota_is_on(s))
        return;
    stop_timers(s);
    quota_export_stop(&s->export);
    io_stop(&s->file_io);
    io_stop(&s->sync_io);
    if (s->state == QUOTA_READY)
        quota_store_note(s->store, s->store->journal.durable);
    quota_export_fini(&s->export);
    commit_fini(&s->commit);
    quota_store_free(s->reload.store);
    quota_store_free(s->store);
    quota_init(s);
}

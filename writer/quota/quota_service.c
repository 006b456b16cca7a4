/* writer/quota/quota_service.c - see quota_service.h: quota_open(),
 * quota_turn(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/quota_service.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"

/* ---- the commit -------------------------------------------------- */

static void
flush(void *ctx)
{
    (void)ctx; /* all is written by the sync */
}

/* Whether a checkpoint or an export is to be written. */
static bool
is_due(const void *ctx)
{
    const struct quota_service *s = ctx;

    return s->store && loop_now_ms(s->loop) >= s->retry_ms &&
           (s->wants_export || journal_needs_checkpoint(&s->store->journal));
}

static bool
begin(void *ctx)
{
    struct quota_service *s = ctx;
    struct journal *j;

    if (!s->store)
        return false;
    j = &s->store->journal;
    /* The memory is as after this group, and stays so until its end. */
    s->paused = is_due(s);
    if (!s->paused && journal_is_durable(j) &&
        !gate_has_waiters(&s->commit.gate))
        return false;
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

    if (rc == 0 && s->paused && journal_needs_checkpoint(j))
        rc = quota_store_checkpoint(s->store, g->first + g->count);
    if (rc == 0 && s->paused && s->wants_export)
        s->export_rc = quota_store_export(s->store, s->config->quota_export);
    return rc;
}

/* A checkpoint or an export was written, or could not be. */
static void
end_pause(struct quota_service *s)
{
    const bool failed = journal_needs_checkpoint(&s->store->journal);

    s->paused = false;
    s->stats.failures += failed;
    if (failed || s->wants_export) {
        s->retry_ms = loop_now_ms(s->loop) + QUOTA_RETRY_MS;
        /* Cannot fail: it was armed at the start, so it has a place. */
        (void)loop_arm(s->loop, &s->retry, s->retry_ms);
    }
    if (s->wants_export && s->export_rc < 0)
        diag_repeating(&s->export_warning, DIAG_WARNING,
                       "quota.export=%s: %s; tried again each second",
                       s->config->quota_export, diag_text(s->export_rc));
    else
        s->wants_export = false;
}

static bool
end(void *ctx, int rc)
{
    struct quota_service *s = ctx;

    journal_end(&s->store->journal, rc);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "write data_dir/live/" JOURNAL_NAME);
        s->failed(s->failed_ctx);
        return false;
    }
    if (s->paused)
        end_pause(s);
    http_wake(&s->line);
    return true;
}

static const struct commit_file quota_file = {.flush = flush,
                                              .is_due = is_due,
                                              .begin = begin,
                                              .sync = sync_journal,
                                              .end = end};

void
quota_turn(struct quota_service *s)
{
    if (quota_is_on(s))
        commit_turn(&s->commit);
}

/* ---- open and close ---------------------------------------------- */

static void
retry_due(struct loop_timer *timer)
{
    (void)timer; /* is_due() says what is to be done */
}

void
quota_init(struct quota_service *s, void (*failed)(void *ctx), void *ctx)
{
    *s = (struct quota_service){
        .dirfd = -1, .failed = failed, .failed_ctx = ctx};
}

static int
start_threads(struct quota_service *s, size_t max)
{
    int rc;

    rc = io_start(&s->io, s->loop);
    if (rc < 0)
        return rc;
    rc = commit_init(&s->commit, &quota_file, s, &s->io, max, 1);
    if (rc == 0) {
        rc = loop_arm(s->loop, &s->retry, loop_now_ms(s->loop));
        if (rc < 0)
            commit_fini(&s->commit);
    }
    if (rc < 0)
        io_stop(&s->io);
    return rc;
}

static int
open_store(struct quota_service *s)
{
    const struct quota *quota;
    int rc = quota_store_open(s->dirfd, s->config, &s->store);

    if (rc == -EINVAL)
        return rc;
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc,
                   "quotas are not served until data_dir/live/" JOURNAL_NAME
                   " is mended and countd-write is started again");
        return 0;
    }
    /* An export that is there is of another journal, or may be older. */
    quota = quotas_unnamed(&s->store->quotas);
    s->wants_export = s->config->quota_export[0] != '\0' &&
                      (quota->count == 0 || quota->remaining == 0);
    return 0;
}

int
quota_open(struct quota_service *s, struct loop *loop, int live_fd,
           const struct config *config, size_t max)
{
    int rc;

    s->loop = loop;
    s->config = config;
    s->dirfd = live_fd;
    s->retry = (struct loop_timer){.slot = -1, .due = retry_due};
    http_line_init(&s->line);
    rc = open_store(s);
    if (rc == 0)
        rc = start_threads(s, max);
    if (rc < 0) {
        quota_store_free(s->store);
        quota_init(s, s->failed, s->failed_ctx);
    }
    return rc;
}

void
quota_close(struct quota_service *s)
{
    if (!quota_is_on(s))
        return;
    loop_disarm(s->loop, &s->retry);
    io_stop(&s->io);
    commit_fini(&s->commit);
    quota_store_free(s->store);
    quota_init(s, s->failed, s->failed_ctx);
}

/* writer/logs_early.c - when the current log is handed on before it is full or
 * log.rotate_after old; see logs.h.
 *
 * Increments shall be readable at once while workers keep up, and cost little
 * when they do not.  So a log is handed on as soon as
 *     - it has had messages for FIRST_MS;
 *     - the log before it is merged, as its mode shows;
 *     - since that one was handed on, 100 / log.merge_share times what its merge
 *       took has passed, so that merges take no larger share of the time; and
 *     - that merge left no file behind: those are to be few.
 * Behind a slow disk, many keyspaces, or a worker that is stopped or has other
 * work, this is never true before log.rotate_after, which applies then.
 *
 * Entry points: logs_arm_early(), logs_early_wait(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/logs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/log/log_owner.h"
#include "common/log/waiting.h"

#define FIRST_MS 2  /* clients that count at once share a merge */
#define LEAST_MS 25 /* between two: each writes some 44 KB */
#define LOOK_MS  2  /* between looks for the end of a merge, at first */
#define MOST_MS  64 /* and then, as long as it lasts */

static uint64_t
later_ms(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* It rises by half of the difference.  A worker that was stopped for long is
 * forgotten within a few logs. */
static void
learn_time(struct logs_early *e, uint64_t ms)
{
    ms = later_ms(ms, 1);
    e->took_ms = ms > e->took_ms ? (e->took_ms + ms + 1) / 2
                                 : later_ms(ms, e->took_ms / 4);
}

/* Whether a file came to log/waiting/, or left it, since the log before. */
static void
see_files(struct logs *l)
{
    struct logs_early *e = &l->early;
    struct stat st = {0};

    /* Without the folder nothing ever waited; the first look only learns. */
    (void)fstatat(l->dir.fd, WAITING_FOLDER, &st, AT_SYMLINK_NOFOLLOW);
    e->left_file =
        e->changed.tv_sec != 0 && (st.st_mtim.tv_sec != e->changed.tv_sec ||
                                   st.st_mtim.tv_nsec != e->changed.tv_nsec);
    e->changed = st.st_mtim;
}

/* Whether the log retired last is merged: it is empty, in use again, or gone. */
static bool
is_merged(struct logs *l)
{
    struct logs_early *e = &l->early;
    char name[LOG_NAME_SIZE];
    struct stat st;
    uint64_t ms;

    if (e->is_merged || e->sealed_ms == 0)
        return e->is_merged;
    log_name(e->index, name);
    if (fstatat(l->dir.fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        e->is_merged = errno == ENOENT;
    } else if ((st.st_mode & LOG_OWNER_MODE_MASK) == LOG_MODE_EMPTY) {
        e->is_merged = true;
        ms = (uint64_t)st.st_ctim.tv_sec * 1000 +
             (uint64_t)st.st_ctim.tv_nsec / 1000000;
        learn_time(e, ms > e->sealed_ms ? ms - e->sealed_ms : 0);
    } else {
        e->is_merged = logs_has_open(l, e->index);
    }
    if (e->is_merged)
        see_files(l);
    return e->is_merged;
}

static uint64_t
due_ms(const struct logs *l)
{
    return l->early.retired_ms +
           later_ms(LEAST_MS,
                    l->early.took_ms * 100 / l->config->log_merge_share);
}

uint64_t
logs_early_wait(struct logs *l)
{
    const uint64_t now = loop_now_ms(l->loop);
    uint64_t since = (now - l->early.retired_ms) / 4;

    if (!is_merged(l) || l->spare_count == 0 || !logs_free_place(l)) {
        since = since < MOST_MS ? since : MOST_MS;
        return later_ms(since, LOOK_MS);
    }
    if (l->early.left_file)
        return UINT64_MAX;
    return now < due_ms(l) ? due_ms(l) - now : 0;
}

static void
look_for_end(struct loop_timer *timer)
{
    struct logs *l = LOOP_OWNER(timer, struct logs, early.timer);
    uint64_t wait;

    if (l->failed || l->finishing || l->rotating || !l->has_current)
        return;
    wait = logs_early_wait(l);
    if (wait == 0)
        logs_rotate(l);
    else if (wait != UINT64_MAX)
        logs_arm(l, timer, wait);
}

void
logs_arm_early(struct logs *l)
{
    const uint64_t now = loop_now_ms(l->loop);
    uint64_t wait = FIRST_MS;

    /* With an archive each log is a file in it. */
    if (l->config->log_merge_share == 0 || l->config->archive_keep_ms > 0)
        return;
    if (due_ms(l) > now + wait)
        wait = due_ms(l) - now;
    if (wait < l->config->log_rotate_after_ms)
        logs_arm(l, &l->early.timer, wait);
}

void
logs_early_retired(struct logs *l, uint64_t index)
{
    struct logs_early *e = &l->early;
    const uint64_t unix_ms = loop_unix_ms(l->loop);

    /* The time of the log before is learned although its end was not looked for:
     * else one slow merge would be the last that was measured. */
    if (!is_merged(l) && e->sealed_ms != 0 &&
        unix_ms > e->sealed_ms + e->took_ms)
        learn_time(e, unix_ms - e->sealed_ms);
    e->index = index;
    e->retired_ms = loop_now_ms(l->loop);
    e->sealed_ms = 0;
    e->is_merged = false;
}

void
logs_early_sealing(struct logs *l, uint64_t index)
{
    if (index == l->early.index)
        l->early.sealed_ms = loop_unix_ms(l->loop);
}

void
logs_set_up_early(struct logs *l)
{
    l->early.timer = (struct loop_timer){.due = look_for_end};
    l->early.is_merged = true;
}

/* writer/quota/quota_export.c - see quota_export.h: quota_export_want(),
 * quota_export_turn(), quota_export_stop(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/quota_export.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/files.h"

#define LINE_MAX_SIZE 64u /* three numbers, blanks, the end */

static char *
put_number(char *to, uint64_t n, char after)
{
    to += put_decimal(to, n);
    *to = after;
    return to + 1;
}

/* Puts the lines of `count` numbers from `number` on; returns their size. */
static size_t
put_lines(const struct quota_export *e, uint64_t number, const struct number *n,
          int count, char *to)
{
    char *at = to;

    for (int i = 0; i < count && number <= e->until; i++, number++) {
        const bool cancelled = n[i].other != 0 && n[i].other <= e->until;

        if (n[i].amount == NUMBER_IS_CANCEL)
            continue;
        at = put_number(at, number, ' ');
        at = put_number(at, (uint64_t)n[i].amount, cancelled ? ' ' : '\n');
        if (cancelled)
            at = put_number(at, n[i].other, '\n');
    }
    return (size_t)(at - to);
}

/* Writes the lines of all numbers, unless it is stopped: -ECANCELED. */
static int
write_lines(const struct quota_export *e, int fd)
{
    struct number n[JOURNAL_NUMBERS_TAIL];
    char text[JOURNAL_NUMBERS_TAIL * LINE_MAX_SIZE];
    uint64_t number = 1, at = 0;
    int count, rc = 0;
    size_t size;

    while (rc == 0 && number <= e->until) {
        if (e->stopped)
            return -ECANCELED;
        count =
            journal_numbers_read(e->numbers, number, n, JOURNAL_NUMBERS_TAIL);
        if (count < 0)
            return count;
        size = put_lines(e, number, n, count, text);
        rc = write_at(fd, text, size, at);
        at += size;
        number += (uint64_t)count;
    }
    return rc;
}

static int
sync_folder(const char *path)
{
    char folder[CONFIG_TEXT_SIZE];
    char *slash;
    int fd, rc = 0;

    (void)snprintf(folder, sizeof folder, "%s", path);
    slash = strrchr(folder, '/');
    if (!slash)
        memcpy(folder, ".", 2);
    else
        slash[slash == folder] = '\0';
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fsync(fd) < 0)
        rc = -errno;
    (void)close(fd); /* a directory */
    return rc;
}

static void
run(struct io_job *job)
{
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    struct quota_export *e = LOOP_OWNER(job, struct quota_export, job);
    const int fd = open(e->temp, flags, 0644);

    e->rc = fd < 0 ? -errno : write_lines(e, fd);
    if (e->rc == 0 && fsync(fd) < 0)
        e->rc = -errno;
    if (fd >= 0)
        (void)close(fd);
    if (e->rc == 0 && rename(e->temp, e->path) < 0)
        e->rc = -errno;
    if (e->rc == 0)
        e->rc = sync_folder(e->path);
}

static void
start_if_due(struct quota_export *e)
{
    const uint64_t now_ms = loop_now_ms(e->loop);

    if (!e->wanted || e->running || e->stopped || !e->next)
        return;
    if (e->began && now_ms < e->last_ms + QUOTA_EXPORT_PAUSE_MS) {
        const int rc =
            loop_arm(e->loop, &e->timer, e->last_ms + QUOTA_EXPORT_PAUSE_MS);

        assert(rc == 0); /* there is room for a timer each */
        return;
    }
    e->began = e->running = true;
    e->wanted = false;
    e->last_ms = now_ms;
    e->numbers = e->next;
    e->until = e->bound;
    io_push(e->io, &e->job);
}

static void
done(struct io_job *job)
{
    struct quota_export *e = LOOP_OWNER(job, struct quota_export, job);

    e->running = false;
    e->written += e->rc == 0;
    if (e->rc < 0 && e->rc != -ECANCELED) {
        diag_repeating(&e->warning, DIAG_WARNING,
                       "quota.export=%s: %s; tried again each second", e->path,
                       diag_text(e->rc));
        e->wanted = true;
    }
    start_if_due(e);
}

static void
due(struct loop_timer *timer)
{
    start_if_due(LOOP_OWNER(timer, struct quota_export, timer));
}

void
quota_export_init(struct quota_export *e, struct loop *loop, struct io *io,
                  const char *path)
{
    *e = (struct quota_export){.loop = loop,
                               .io = io,
                               .path = path,
                               .job = {.run = run, .done = done},
                               .timer = {.slot = -1, .due = due}};
    (void)snprintf(e->temp, sizeof e->temp, "%s.tmp", path);
}

void
quota_export_fini(struct quota_export *e)
{
    if (e->loop)
        loop_disarm(e->loop, &e->timer);
}

void
quota_export_want(struct quota_export *e)
{
    e->wanted = e->path[0] != '\0';
}

void
quota_export_turn(struct quota_export *e, struct journal_numbers *n,
                  uint64_t until)
{
    e->stopped = false;
    e->next = n;
    e->bound = until;
    start_if_due(e);
}

void
quota_export_stop(struct quota_export *e)
{
    e->stopped = true;
    e->next = NULL;
}

/* writer/quota/quota_service.c - see quota_service.h: quota_open(),
 * quota_turn(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/quota_service.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "writer/quota/checkpoint.h"

/* ---- what the I/O thread writes ----------------------------------- */

/* Writes a checkpoint of the quotas as they are after the first `end` records. */
static int
write_checkpoint(struct quota_service *s, uint64_t end)
{
    uint8_t *bytes;
    size_t size;
    int rc;

    rc = checkpoint_write(&s->quotas, &bytes, &size);
    if (rc == 0)
        rc = journal_checkpoint(&s->journal, end, bytes, size);
    free(bytes);
    return rc;
}

static void
print_numbers(FILE *file, const struct quota *quota)
{
    for (size_t i = 0; i < quota->count; i++) {
        const struct quota_number *n = &quota->numbers[i];

        if (n->amount == NUMBER_IS_CANCEL)
            continue;
        (void)fprintf(file, "%zu %" PRId64, i + 1, n->amount);
        if (n->other != 0)
            (void)fprintf(file, " %" PRIu64, n->other);
        (void)fputc('\n', file);
    }
}

/* Replaces the file as a whole. */
static int
write_export(const struct quota_service *s)
{
    const char *path = s->config->quota_export;
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    char temp[CONFIG_TEXT_SIZE + 8];
    FILE *file;
    int fd, rc = 0;

    (void)snprintf(temp, sizeof temp, "%s.tmp", path);
    fd = open(temp, flags, 0644);
    file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) {
        rc = -errno;
        if (fd >= 0)
            (void)close(fd);
        return rc;
    }
    print_numbers(file, quotas_unnamed(&s->quotas));
    if (fflush(file) != 0 || ferror(file) || fsync(fd) < 0 ||
        rename(temp, path) < 0)
        rc = errno != 0 ? -errno : -EIO;
    (void)fclose(file); /* synced, or given up */
    return rc;
}

/* ---- the commit -------------------------------------------------- */

/* Whether a checkpoint or an export is to be written. */
static bool
is_due(const void *ctx)
{
    const struct quota_service *s = ctx;

    return s->is_open && loop_now_ms(s->loop) >= s->retry_ms &&
           (s->wants_export || journal_needs_checkpoint(&s->journal));
}

static bool
begin(void *ctx)
{
    struct quota_service *s = ctx;
    struct journal *j;

    if (!s->is_open)
        return false;
    j = &s->journal;
    /* The memory is as after this group, and stays so until its end. */
    s->paused = is_due(s);
    s->is_full = false;
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
    struct journal *j = &s->journal;
    const struct journal_group *g = &j->groups[1 - j->collecting];
    const uint32_t generation = j->head.generation;
    int rc = journal_sync(j);

    if (rc == 0 && s->paused && journal_needs_checkpoint(j)) {
        rc = write_checkpoint(s, g->first + g->count);
        s->is_full = j->head.generation == generation;
    }
    if (rc == 0 && s->paused && s->wants_export)
        s->export_rc = write_export(s);
    return rc;
}

/* A checkpoint or an export was written, or could not be. */
static void
end_pause(struct quota_service *s)
{
    s->paused = false;
    s->stats.failures += s->is_full;
    if (s->is_full || s->wants_export) {
        s->retry_ms = loop_now_ms(s->loop) + QUOTA_RETRY_MS;
        loop_arm(s->loop, &s->retry, s->retry_ms);
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

    journal_end(&s->journal, rc);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "write data_dir/live/" JOURNAL_NAME);
        return false;
    }
    if (s->paused)
        end_pause(s);
    http_wake(&s->line);
    return true;
}

static const struct commit_file quota_file = {.is_due = is_due,
                                              .begin = begin,
                                              .sync = sync_journal,
                                              .end = end,
                                              .gate_id = 1};

void
quota_turn(struct quota_service *s)
{
    if (s->loop)
        commit_turn(&s->commit);
}

/* ---- open and close ---------------------------------------------- */

static int
check_limit(const struct quota_service *s)
{
    const uint64_t wanted = s->config->quota_limit;
    const int64_t limit = s->journal.head.limit;

    if ((uint64_t)limit == wanted)
        return 0;
    diag(DIAG_ERROR,
         "quota.limit=%" PRIu64 ", but the journal was made with %" PRId64
         ": give quota.limit = %" PRId64 " and change what remains with "
         "/increase and /decrease, or move data_dir/live/" JOURNAL_NAME
         " and " JOURNAL_NOTE_NAME " away to begin a new one",
         wanted, limit, limit);
    return -EINVAL;
}

/* A journal that is gone is not begun anew silently. */
static int
make_journal(int dirfd, const struct config *c)
{
    bool noted;
    int rc;

    rc = journal_file_exists(dirfd, JOURNAL_NOTE_NAME, &noted);
    if (rc < 0 || !noted)
        return rc < 0 ? rc : journal_make(dirfd, (int64_t)c->quota_limit);
    diag(DIAG_ERROR,
         "data_dir/live/" JOURNAL_NAME " does not exist, but " JOURNAL_NOTE_NAME
         " does: restore it, or "
         "remove " JOURNAL_NOTE_NAME ", too, to begin a new journal");
    return -EBADMSG;
}

static int
read_journal(struct quota_service *s, int dirfd)
{
    const struct journal_reader reader = {checkpoint_begin, quotas_take,
                                          &s->quotas};
    int rc;

    rc = journal_open(&s->journal, dirfd, &reader);
    if (rc == 0)
        rc = check_limit(s);
    if (rc < 0)
        return rc;
    quotas_taken(&s->quotas, s->config->quota_max);
    return journal_needs_checkpoint(&s->journal)
               ? write_checkpoint(s, s->journal.durable)
               : 0;
}

static void
retry_due(struct loop_timer *timer)
{
    (void)timer; /* is_due() says what is to be done */
}

static void
close_journal(struct quota_service *s)
{
    quotas_fini(&s->quotas);
    journal_close(&s->journal);
}

/* Reads the journal, or makes one when there is none.
 *   -EINVAL   quota.limit is not what it was made with */
static int
open_journal(struct quota_service *s, int dirfd)
{
    const struct quota *quota;
    bool exists;
    int rc;

    rc = journal_file_exists(dirfd, JOURNAL_NAME, &exists);
    if (rc == 0 && !exists)
        rc = make_journal(dirfd, s->config);
    if (rc == 0)
        rc = read_journal(s, dirfd);
    if (rc == -EINVAL)
        return rc;
    s->is_open = rc == 0;
    if (rc < 0) {
        close_journal(s);
        diag_errno(DIAG_ERROR, rc,
                   "quotas are not served until data_dir/live/" JOURNAL_NAME
                   " is mended and countd-write is started again");
        return 0;
    }
    /* An export that is there is of another journal, or may be older. */
    quota = quotas_unnamed(&s->quotas);
    s->wants_export = s->config->quota_export[0] != '\0' &&
                      (quota->count == 0 || quota->remaining == 0);
    return 0;
}

/* But for its thread. */
static void
free_service(struct quota_service *s)
{
    loop_disarm(&s->retry);
    commit_fini(&s->commit);
    close_journal(s);
    *s = (struct quota_service){.loop = NULL};
}

int
quota_open(struct quota_service *s, struct loop *loop, int live_fd,
           const struct config *config, size_t max)
{
    int rc;

    *s = (struct quota_service){
        .loop = loop, .config = config, .retry = {.due = retry_due}};
    s->journal.fd = s->journal.note_fd = -1;
    list_init(&s->line);
    rc = open_journal(s, live_fd);
    if (rc == 0)
        rc = commit_init(&s->commit, &quota_file, s, &s->io, max);
    if (rc == 0)
        rc = io_start(&s->io, loop);
    if (rc < 0)
        free_service(s);
    return rc;
}

void
quota_close(struct quota_service *s)
{
    if (!s->loop)
        return;
    io_stop(&s->io);
    free_service(s);
}

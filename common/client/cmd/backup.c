/* common/client/cmd/backup.c - countd backup: a copy that is a data directory.
 *
 * First everything received so far is merged or waits in log/waiting/, so the
 * copy needs no logs; this is done once more after live/requests was copied, so
 * that the copy counts each request that is recorded in it.  Then log/waiting/
 * is copied, then the keyspaces (R9 of common/log/waiting.h): what leaves the
 * folder meanwhile is in the later copy of its keyspace, so nothing has to be
 * locked.
 * Each keyspace is copied as one snapshot.  Every copy is checked before the
 * command reports success.
 *
 * A fill that is merged meanwhile is in the copies of some of its keyspaces
 * only.  So workers keep what they merge from before live/requests is copied
 * (common/log/kept.h), and at last, when all that can be in a copy is merged,
 * each fill that was kept until then is placed in the log/waiting/ of the copy,
 * for the keyspaces that lack it there, and its requests are copied.  The copy
 * then has the requests of exactly the fills that it counts: those of the first
 * copy of live/requests were merged before any keyspace was copied, or kept;
 * and what was not kept by then was in no log when the last keyspace was copied.
 *
 * The copy is made in a folder DATADIR_PARTIAL of the new directory, and its
 * parts are renamed to their places when it is whole: a command that is killed
 * leaves a directory that every program refuses.
 *
 * Read from the end: cmd_backup(), run_backup(), copy_all(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/base/folder.h"
#include "common/client/cmd/cmd_data.h"
#include "common/client/cmd/cmd_terminal.h"
#include "common/log/kept.h"
#include "common/log/requests.h"
#include "common/setup/merge_note.h"

#define TURN_MS 30000 /* for files of log/waiting/ that are being replaced */

struct backup {
    const struct cmd_line *line;
    const char *path; /* the directory of the copy */
    struct store_session in;
    struct store *copy; /* the copied keyspaces, for the check */
    int top_fd;         /* of `path` */
    int fd;             /* the copy: DATADIR_PARTIAL in it until it is whole */
    int log_fd;         /* its log/ */
    int keyspace_fd;    /* its keyspace/ */
    struct kept kept;
    bool lacks_requests; /* live/requests is not in the copy */
    int status;          /* what failed is reported; an exit status */
    struct progress progress;
    uint64_t keyspaces, keys, faults;
    char what[NAME_TEXT_SIZE + 16]; /* being copied or checked */
};

/* ---- the new directory ------------------------------------------------- */

static int
refuse_file(void *ctx, int folder_fd, const char *name)
{
    (void)ctx;
    (void)folder_fd;
    (void)name;
    return -ENOTEMPTY;
}

static bool
is_inside(const char *path, const char *data_dir)
{
    char *inner = realpath(path, NULL), *top = realpath(data_dir, NULL);
    const size_t size = top ? strlen(top) : 0;
    const bool is =
        inner && top && strncmp(inner, top, size) == 0 && inner[size] == '/';

    free(inner);
    free(top);
    return is;
}

/* log/ of a copy has no logs; daemons and countd check expect it. */
static int
make_copy_dir(struct backup *b)
{
    int rc;

    b->top_fd = folder_make(AT_FDCWD, b->path);
    if (b->top_fd < 0)
        return b->top_fd;
    rc = dirstream_each(b->top_fd, ".", refuse_file, NULL);
    b->fd = rc < 0 ? rc : folder_make(b->top_fd, DATADIR_PARTIAL);
    b->log_fd = b->fd < 0 ? b->fd : folder_make(b->fd, "log");
    b->keyspace_fd = b->log_fd < 0 ? b->log_fd : folder_make(b->fd, "keyspace");
    return b->keyspace_fd < 0 ? b->keyspace_fd : 0;
}

static int
move_part(void *ctx, int folder_fd, const char *name)
{
    const struct backup *b = ctx;

    return renameat(folder_fd, name, b->top_fd, name) < 0 ? -errno : 0;
}

/* Moves the copy, which is whole and synced, to its place.  No program uses the
 * directory while DATADIR_PARTIAL is in it: a crash in between leaves a backup
 * that is refused, never half of one. */
static int
publish_copy(struct backup *b)
{
    int rc;

    rc = dirstream_each(b->top_fd, DATADIR_PARTIAL, move_part, b);
    if (rc == 0 && fsync(b->top_fd) < 0)
        rc = -errno;
    if (rc == 0 && unlinkat(b->top_fd, DATADIR_PARTIAL, AT_REMOVEDIR) < 0)
        rc = -errno;
    if (rc == 0 && fsync(b->top_fd) < 0)
        rc = -errno;
    if (rc == 0)
        rc = folder_sync_parent(b->top_fd);
    /* A parent that this user may not read has had the directory before. */
    return rc == -EACCES ? 0 : rc;
}

/* ---- what is not merged yet -------------------------------------------- */

/* Waits until everything that is in the logs now is merged. Returns an exit
 * status. */
static int
flush_logs(struct backup *b)
{
    const uint64_t timeout_ms = cmd_option_ms(b->line, "timeout", 30000);
    int rc;

    if (*b->line->status != 0 || cmd_value(b->line, "no-flush") != NULL)
        return *b->line->status;
    rc = wait_merged(b->line, &b->in.dir, timeout_ms);
    if (rc == 0)
        return 0;
    if (rc == -EAGAIN && wait_report_cause(b->line))
        return CONFIG_EXIT_SYSTEM;
    if (rc == -EAGAIN)
        return cmd_fail(CONFIG_EXIT_SYSTEM,
                        "logs are not merged in time; is countd-worker "
                        "running? --no-flush copies what is merged");
    return cmd_failed(rc, "wait for the logs to be merged");
}

/* The copy must not answer a request as repeated that it does not count. */
static int
leave_requests(struct backup *b, const char *why)
{
    const int rc = backup_requests_remove(b->fd);

    b->lacks_requests = true;
    if (rc > 0)
        diag(DIAG_WARNING,
             "%s, so " REQUESTS_FOLDER " is not in the copy: "
             "requests with an Idempotency-Key that are sent to it again count "
             "again",
             why);
    return rc < 0 ? cmd_failed(rc, "remove " REQUESTS_FOLDER " from the copy")
                  : 0;
}

/* Waits as flush_logs().  Without waiting there is no telling what the copy
 * counts, unless nothing is in the logs.  Returns an exit status. */
static int
settle_logs(struct backup *b)
{
    int rc;

    if (cmd_value(b->line, "no-flush") == NULL)
        return flush_logs(b);
    rc = wait_is_pending(b->line, b->in.dir.log_fd);
    if (rc < 0)
        return cmd_failed(rc, "read log/");
    return rc > 0 ? leave_requests(b, "logs are not merged") : 0;
}

/* Copies live/requests before the keyspaces, and then waits until what is in the
 * logs is merged: a request is recorded there before its increments are merged.
 * Returns an exit status. */
static int
copy_requests(struct backup *b)
{
    int rc;

    rc = kept_begin(&b->kept, b->in.dir.log_fd);
    if (rc < 0)
        diag_errno(DIAG_WARNING, rc, "make log/" KEPT_FOLDER);
    rc = backup_requests(b->in.dir.fd, b->fd, NULL);
    return rc < 0 ? cmd_failed(rc, "copy " REQUESTS_FOLDER) : settle_logs(b);
}

/* Has the copy count what was merged while it was made, in all keyspaces.
 * Returns an exit status. */
static int
copy_kept(struct backup *b)
{
    char path[CONFIG_TEXT_SIZE + sizeof "/log/" KEPT_FOLDER];
    struct store_session copy = {.store = b->copy};
    bool whole;
    int rc;

    rc = settle_logs(b);
    if (rc != 0)
        return rc;
    (void)snprintf(path, sizeof path, "%s/log/" KEPT_FOLDER,
                   b->line->config.data_dir);
    whole = kept_is_whole(&b->kept);
    rc = waiting_open(&copy.waiting, b->log_fd, true, true, 0);
    if (rc == 0) {
        if (whole && !b->lacks_requests)
            rc = backup_kept(b->in.dir.fd, path, &copy, b->fd);
        if (rc == 0) /* also of what was kept */
            rc = backup_dropped(&b->in, &copy.waiting);
        waiting_close(&copy.waiting);
    }
    if (rc < 0)
        return cmd_failed(rc, "copy what was merged meanwhile");
    return whole || b->lacks_requests
               ? 0
               : leave_requests(b,
                                "what was merged meanwhile could not be kept");
}

/* ---- keyspaces --------------------------------------------------------- */

static void
copy_fault(void *ctx, const char *text)
{
    struct backup *b = ctx;

    b->faults++;
    progress_clear(&b->progress);
    diag(DIAG_ERROR, "%s: %s", b->what, text);
}

/* Copies what waits and reads the whole copy back. */
static int
copy_waiting(struct backup *b)
{
    struct wait_turn turn = {.deadline_ms = clock_ms() + TURN_MS};
    struct waiting copy;
    int rc;

    do
        rc = waiting_copy(&b->in.waiting, b->log_fd);
    while (wait_turn(&turn, rc, 0));
    if (rc == 0)
        rc = waiting_open(&copy, b->log_fd, false, true, 0);
    if (rc < 0)
        return rc;
    (void)snprintf(b->what, sizeof b->what, "log/" WAITING_FOLDER);
    rc = waiting_check(&copy, copy_fault, b);
    waiting_close(&copy);
    return rc;
}

/* Copies one keyspace and reads the whole copy back. */
static int
copy_keyspace(void *ctx, const uint8_t *name, size_t size, int64_t keys)
{
    struct store_check result = {.fault = copy_fault, .ctx = ctx};
    struct backup *b = ctx;
    int rc;

    (void)keys; /* the check counts them */
    (void)snprintf(b->what, sizeof b->what, "keyspace %s",
                   cmd_text(name, size));
    rc = store_copy(b->in.store, name, size, b->keyspace_fd);
    if (rc == -ENOENT && !store_session_is_file(name, size))
        return 0; /* it was removed since it was listed */
    if (rc == 0)
        rc = store_check(b->copy, name, size, &result);
    if (rc < 0) {
        b->faults++;
        progress_clear(&b->progress);
        diag_errno(DIAG_ERROR, rc, "%s is not in the copy", b->what);
        /* The others are worth having; a full disk is the end of it. */
        return rc == -ENOSPC ? rc : 0;
    }
    b->keyspaces++;
    b->keys += result.keys;
    progress_show(&b->progress, 0, b->keyspaces, "keyspace");
    return 0;
}

/* The check of the copies left lock files, which are of this moment only. */
static int
remove_lock(void *ctx, int folder_fd, const char *name)
{
    const char *suffix = strrchr(name, '.');

    (void)ctx;
    if (suffix != NULL && strcmp(suffix, ".mdb-lock") == 0)
        (void)unlinkat(folder_fd, name, 0); /* one that stays does no harm */
    return 0;
}

static int
copy_keyspaces(struct backup *b)
{
    static const uint8_t first[1];
    int rc;

    rc = store_session_store(b->line, b->keyspace_fd, false, &b->copy);
    if (rc < 0)
        return rc;
    progress_init(&b->progress, "copying", 0);
    rc = copy_waiting(b);
    if (rc == 0)
        rc = store_list(b->in.store, first, 0, copy_keyspace, b);
    progress_clear(&b->progress);
    if (rc == 0)
        b->status = copy_kept(b);
    store_close(b->copy);
    return b->status != 0 ? -ECANCELED : rc;
}

static int
copy_all(struct backup *b)
{
    struct merge_note note;
    int rc;

    /* Before the first copy: what is merged from now on may be missing. */
    rc = merge_note_read(&b->in.dir, &note);
    if (rc == 0)
        rc = copy_keyspaces(b);
    if (rc == 0)
        rc = dirstream_each(b->keyspace_fd, ".", remove_lock, NULL);
    if (rc == 0)
        rc = dirstream_each(b->fd, ".", remove_lock, NULL);
    if (rc == 0)
        rc = merge_note_put(b->keyspace_fd, note.keyspace_ms);
    if (rc == 0)
        rc = backup_live(b->in.dir.fd, b->fd);
    if (rc == 0 &&
        (fsync(b->log_fd) < 0 || fsync(b->keyspace_fd) < 0 || fsync(b->fd) < 0))
        rc = -errno;
    return rc < 0 ? rc : publish_copy(b);
}

/* ---- the subcommand ---------------------------------------------------- */

static int
refuse_dir(const struct backup *b, int rc)
{
    struct stat st;
    char partial[CONFIG_TEXT_SIZE], user[DATADIR_USER_SIZE];

    (void)snprintf(partial, sizeof partial, "%s/" DATADIR_PARTIAL, b->path);
    if (rc == -ENOTEMPTY && stat(partial, &st) == 0)
        diag(DIAG_ERROR,
             "%s has a backup that was not finished; remove %s, or give a new "
             "directory",
             b->path, partial);
    else if (rc == -ENOTEMPTY)
        diag(DIAG_ERROR, "%s is not empty; give a new directory", b->path);
    else if (rc == -ENOENT)
        diag(DIAG_ERROR, "make %s: its parent folder does not exist", b->path);
    else if (rc == -EACCES || rc == -EPERM)
        diag(DIAG_ERROR,
             "make %s: %s; this runs as user %s: give a place where that user "
             "may write; install -d -o USER %s makes one",
             b->path, diag_text(rc), datadir_format_user(geteuid(), user),
             b->path);
    else
        diag_errno(DIAG_ERROR, rc, "make %s", b->path);
    return rc == -ENOTEMPTY ? CONFIG_EXIT_USAGE
                            : datadir_exit_status(rc, DATADIR_WRITE);
}

/* With the data directory open. */
static int
run_backup(struct backup *b)
{
    struct unmerged unmerged;
    int rc, status;

    status = flush_logs(b);
    if (status != 0)
        return status;
    rc = make_copy_dir(b);
    if (rc < 0)
        return refuse_dir(b, rc);
    if (is_inside(b->path, b->line->config.data_dir))
        diag(DIAG_WARNING,
             "%s is inside the data directory and is lost with it; give "
             "another place",
             b->path);
    status = copy_requests(b);
    rc = status == 0 ? copy_all(b) : 0;
    status = status == 0 ? b->status : status;
    kept_end(&b->kept, b->in.dir.log_fd);
    if (status != 0)
        return cmd_fail(status, "what is in %s is not a backup; remove it",
                        b->path);
    if (rc < 0)
        return cmd_failed(
            rc, "copy to %s (what is in it is not a backup; remove it)",
            b->path);
    rc = unmerged_read(&b->in.dir, &b->in.waiting, NULL, &unmerged);
    unmerged.fills = 0; /* they are in the copy */
    if (rc < 0)
        diag_errno(DIAG_WARNING, rc, "read quarantined logs, and what waits");
    else
        unmerged_warn(&unmerged, "not in the copy");
    (void)printf("copied and checked keyspaces=%" PRIu64 " keys=%" PRIu64
                 " faults=%" PRIu64 "\n",
                 b->keyspaces, b->keys, b->faults);
    return b->faults > 0 ? CONFIG_EXIT_NEGATIVE : CONFIG_EXIT_OK;
}

int
cmd_backup(struct cmd_line *line)
{
    struct backup b = {.line = line,
                       .path = line->args[0],
                       .top_fd = -1,
                       .fd = -1,
                       .log_fd = -1,
                       .keyspace_fd = -1};
    const int *const fds[] = {&b.log_fd, &b.keyspace_fd, &b.fd, &b.top_fd};
    int status;

    if (line->config.store_postgresql)
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "store = postgresql: PostgreSQL copies its counters, "
                        "with pg_basebackup or pg_dump");
    status = store_session_open(line, SESSION_READ, &b.in);
    if (status != 0)
        return status;
    status = run_backup(&b);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (*fds[i] >= 0)
            (void)close(*fds[i]); /* synced, or failed already */
    store_session_close(&b.in);
    return status;
}

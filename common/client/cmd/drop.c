/* common/client/cmd/drop.c - countd drop, countd del: increments acknowledged
 * before the call are gone when it returns, increments sent after its return
 * count, and each increment in between does either.
 *
 * An earlier increment is in one of four places, which are emptied in the order
 * in which it moves:
 *
 *   1. A log.  All fills that contain increments now are noted, the writer
 *      seals its log, and the command waits until each of these fills is
 *      merged: then its increments are in the keyspace, or wait for it.  Later
 *      fills contain no earlier increments.  Without a worker this wait does
 *      not end; then nothing is dropped, because increments in the logs would
 *      return.
 *   2. A log that is empty, but whose emptiness is not durable: a power loss
 *      brings the fill back, and only the keyspace's mark shows that it is
 *      merged.  A damaged keyspace is replaced by an empty one without marks.
 *      So all logs are synced here, no earlier fill can return, and the new
 *      file needs no marks.  (It must not have a mark of the log that is being
 *      filled: increments after the return would be taken for merged.)
 *   3. log/waiting/, where the keyspace is left out of every file: no worker
 *      merges one meanwhile, since its flock is taken.  Fills that were merged
 *      before are in 4.
 *   4. The keyspace: one transaction of the store, which preserves the marks.
 *      A log that some worker merged and has not emptied is not counted again.
 *      If the file was replaced, readers may still have the old one open: they
 *      check ten times a second.  Another drop, killed or concurrent, may have
 *      replaced it without a trace, so every drop waits a tenth of a second
 *      before it returns.
 *
 * A full disk keeps logs from being merged.  Then the keyspace is replaced
 * before step 1 by an empty file with all its marks, written into reserved
 * space (common/setup/reserve.h): no fill is merged twice, and the logs are
 * merged into the space that is now free.  Until step 4 is done the command
 * says "space freed, not finished".  A file that cannot be read stays until 4:
 * its marks are not known.
 *
 * Each step is durable before the next begins, and none depends on an earlier
 * run: a command that was killed is run again.  Fills that are quarantined or
 * merged meanwhile came after step 1.
 *
 * Quarantined files (log/bad-*, log/waiting/bad-*) and archive/ stay: salvage and
 * replay bring their increments back, and the command says so.
 *
 * A deleted key could return from step 3: del refuses while a fill waits that
 * its keyspace has not got.
 *
 * Read from the end: cmd_del(), cmd_drop(), drop_all().
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/folder.h"
#include "common/client/cmd/cmd_data.h"
#include "common/log/kept.h"
#include "common/log/logfile.h"
#include "common/setup/reserve.h"

#define NOTICED_MS (STORE_REPLACED_MS + 10) /* by clocks that count ms */

struct drop {
    const struct cmd_line *line;
    struct store_session in;
    struct wait_turn turn;
    uint64_t timeout_ms;
    bool dry_run, opened;
    bool vacated; /* some keyspace was, and is not dropped yet */

    /* A place for each argument. */
    struct found *found;
    struct store_key *keys;
};

/* ---- before: logs ------------------------------------------------------ */

static int
sync_log(void *ctx, const struct logfile *f)
{
    const int *log_fd = ctx;
    int fd, rc;

    if (f->kind != LOGFILE_LOG)
        return 0;
    fd = folder_open_file(*log_fd, f->name);
    /* Gone; or full again (0200), and then its start was synced. */
    if (fd < 0)
        return fd == -ENOENT || fd == -EACCES ? 0 : fd;
    rc = fsync(fd) < 0 ? -errno : 0;
    (void)close(fd);
    return rc;
}

static int
report_unmerged(struct drop *d)
{
    struct unmerged unmerged;

    if (unmerged_read(&d->in.dir, &d->in.waiting, d->in.store, &unmerged) == 0)
        unmerged_warn(&unmerged, "not merged");
    if (d->vacated)
        diag(DIAG_ERROR,
             "space freed, not finished: what is in the logs is not merged in "
             "time and would come back; repeat the command; is countd-worker "
             "running?");
    if (wait_report_cause(d->line) || d->vacated)
        return CONFIG_EXIT_NEGATIVE;
    return cmd_fail(
        CONFIG_EXIT_NEGATIVE,
        "nothing is changed: logs are not merged in time, and what is in them "
        "would come back; is countd-worker running? countd log list shows "
        "what waits");
}

/* Steps 1 and 2.  Returns an exit status. */
static int
await_logs(struct drop *d)
{
    int rc;

    if (d->dry_run)
        return 0;
    rc = wait_merged(d->line, &d->in.dir, d->timeout_ms);
    if (rc == 0)
        rc = logfile_list_each(d->in.dir.log_fd, sync_log, &d->in.dir.log_fd);
    if (rc == 0)
        return 0;
    if (rc == -EAGAIN)
        return report_unmerged(d);
    return cmd_failed(rc, "wait for the logs to be merged");
}

/* ---- what there is ----------------------------------------------------- */

struct found {
    struct increment_name name;
    char text[NAME_TEXT_SIZE];
    bool vacated;  /* keys and total were read before vacating */
    int error;     /* -ENOENT: no such keyspace; or it cannot be read */
    uint64_t keys; /* else */
    int64_t total;
    uint64_t fills; /* that wait for it */
};

static int
read_totals(struct drop *d, struct found *f)
{
    const struct increment_name *name = &f->name;
    struct store_query q = {
        .op = STORE_TOTAL, .name = name->bytes, .name_size = name->size};
    struct waiting_sum sum = {.counts = NULL};
    int rc;

    (void)name_escape(name->bytes, name->size, f->text);
    f->error = store_read(d->in.store, &q, NULL, 0);
    if (q.error == 0 && !f->vacated) {
        f->keys = q.totals.keys;
        f->total = store_total(&q.totals);
    }
    store_read_end(d->in.store);
    rc = unmerged_list(&d->in.waiting);
    if (rc == 0)
        waiting_sum(d->in.store, &d->in.waiting,
                    waiting_find(&d->in.waiting, name->bytes, name->size),
                    &sum);
    f->fills = rc == 0 ? sum.fills : 0;
    return rc;
}

static int
report_unknown(const char *keyspace)
{
    return cmd_fail(CONFIG_EXIT_NEGATIVE,
                    "there is no keyspace %s; countd keyspaces lists them",
                    keyspace);
}

/* ---- drop -------------------------------------------------------------- */

static void
print_found(const struct drop *d, const struct found *f)
{
    (void)printf("%s keyspace=%s ", d->dry_run ? "would drop" : "dropped",
                 f->text);
    if (f->error < 0)
        (void)printf("keys=- total=- held=%" PRIu64 "\n", f->fills);
    else
        (void)printf("keys=%" PRIu64 " total=%" PRId64 " held=%" PRIu64 "\n",
                     f->keys, f->total, f->fills);
}

/* Does steps 3 and 4. -ENOENT: nothing waited and the keyspace does not exist.
 */
static int
empty_keyspace(struct drop *d, struct found *f)
{
    const struct increment_name *n = &f->name;
    struct waiting_left_out what = {.name = n->bytes, .size = n->size};
    int rc;

    kept_spoil(d->in.dir.log_fd); /* a backup would bring it back */
    do
        rc = waiting_leave_out(&d->in.waiting, &what);
    while (wait_turn(&d->turn, rc, 0));
    f->fills = what.fills;
    if (rc < 0)
        return rc;
    /* -ESTALE: it was replaced just now, by whom is as well. */
    do
        rc = store_drop(d->in.store, n->bytes, n->size);
    while (wait_turn(&d->turn, rc == -ESTALE ? -EAGAIN : rc,
                     store_session_holder(&d->in)));
    /* A worker may just have removed the empty file. */
    return rc == -ENOENT && (f->fills > 0 || f->error != -ENOENT) ? 0 : rc;
}

static int
drop_one(struct drop *d, struct found *f)
{
    int rc;

    rc = read_totals(d, f);
    if (rc == 0 && !d->dry_run)
        rc = empty_keyspace(d, f);
    else if (rc == 0 && f->error == -ENOENT && f->fills == 0)
        rc = -ENOENT;
    if (rc == -ENOENT)
        return report_unknown(f->text);
    if (rc < 0)
        return cmd_failed(rc, "drop keyspace %s", f->text);
    print_found(d, f);
    return CONFIG_EXIT_OK;
}

/* Frees the space of a keyspace before its logs are merged. If that fails, the
 * keyspace is dropped after the merge, as on a disk that is not full. */
static void
vacate_one(struct drop *d, struct found *f)
{
    int rc;

    if (read_totals(d, f) < 0 || f->error < 0 || f->keys == 0)
        return;
    (void)reserve_make(d->in.dir.fd); /* store_vacate() says when there is none
                                       */
    do
        rc = store_vacate(d->in.store, f->name.bytes, f->name.size,
                          d->in.dir.fd);
    while (wait_turn(&d->turn, rc, store_session_holder(&d->in)));
    if (rc < 0) {
        diag_errno(DIAG_WARNING, rc, "free the space of keyspace %s", f->text);
        return;
    }
    f->vacated = d->vacated = true;
    diag(DIAG_INFO,
         "keyspace %s: space freed, not finished: waiting until the logs are "
         "merged",
         f->text);
}

/* Quarantined files may contain increments of any keyspace. */
static void
warn_quarantined(struct drop *d)
{
    struct unmerged unmerged;
    int rc;

    rc = unmerged_read(&d->in.dir, &d->in.waiting, d->in.store, &unmerged);
    if (rc < 0)
        diag_errno(DIAG_WARNING, rc, "read quarantined files");
    else if (unmerged.logs + unmerged.damaged > 0)
        diag(DIAG_WARNING,
             "%zu damaged file%s quarantined (%s%s) may contain more: salvage "
             "brings back what is in there",
             unmerged.logs + unmerged.damaged,
             output_plural(unmerged.logs + unmerged.damaged),
             unmerged.logs > 0 ? "log/" : "log/waiting/",
             unmerged.logs > 0 ? unmerged.log : unmerged.file);
}

/* Drops the named keyspaces, with the directory open.  Returns an exit status.
 */
static int
drop_all(struct drop *d, int count)
{
    int status;

    if (!d->dry_run && wait_is_disk_full(d->line))
        for (int i = 0; i < count; i++)
            vacate_one(d, &d->found[i]);
    status = await_logs(d);
    if (status != 0)
        return status;
    for (int i = 0; i < count; i++)
        status = cmd_worse(status, drop_one(d, &d->found[i]));
    if (!d->dry_run)
        wait_ms(NOTICED_MS);
    warn_quarantined(d);
    return status;
}

/* Reads the arguments and opens the directory.  Returns an exit status;
 * end_drop() frees in any case. */
static int
begin_drop(struct drop *d, const char *what)
{
    const struct cmd_line *line = d->line;
    const size_t count = (size_t)line->arg_count;
    int status;

    d->found = calloc(count, sizeof *d->found);
    d->keys = calloc(count, sizeof *d->keys);
    if (d->found == NULL || d->keys == NULL)
        return cmd_failed(ENOMEM, "read the arguments");
    for (size_t i = 0; i < count; i++)
        d->found[i].name = cmd_name(line, line->args[i], what);
    d->timeout_ms = cmd_option_ms(line, "timeout", 30000);
    d->turn.deadline_ms = clock_ms() + d->timeout_ms;
    status = store_session_open(line, d->dry_run ? SESSION_READ : SESSION_WRITE,
                                &d->in);
    d->opened = status == 0;
    return status;
}

static void
end_drop(struct drop *d)
{
    if (d->opened)
        store_session_close(&d->in);
    free(d->keys);
    free(d->found);
}

int
cmd_drop(struct cmd_line *line)
{
    struct drop d = {.line = line};
    int status;

    d.dry_run = cmd_value(line, "dry-run") != NULL;
    status = begin_drop(&d, "keyspace");
    if (status == 0)
        status = drop_all(&d, line->arg_count);
    end_drop(&d);
    return status;
}

/* ---- del --------------------------------------------------------------- */

/* Sorted and each once; returns their number. */
static size_t
sort_keys(const struct found *found, size_t count, struct store_key *keys)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        keys[i] = (struct store_key){.key = found[i].name.bytes,
                                     .key_size = found[i].name.size};
    qsort(keys, count, sizeof *keys, purge_compare_keys);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || purge_compare_keys(&keys[kept - 1], &keys[i]) != 0)
            keys[kept++] = keys[i];
    return kept;
}

/* Removes the bytes of keys that are deleted.  Each step may be repeated. */
static int
purge_keys(struct drop *d, const struct increment_name *keyspace,
           const struct store_key *keys, size_t count)
{
    int rc;

    do
        rc = store_purge(d->in.store, keyspace->bytes, keyspace->size);
    while (wait_turn(&d->turn, rc == -ESTALE ? -EAGAIN : rc,
                     store_session_holder(&d->in)));
    if (rc < 0 && rc != -ENOENT)
        return cmd_failed(
            rc, "purge the keyspace: the keys are deleted, their bytes are "
                "left");
    wait_ms(NOTICED_MS);
    return purge_files(&d->in, keyspace, keys, count, d->turn.deadline_ms);
}

static int
delete_keys(struct drop *d, struct found *f, const struct store_key *keys,
            size_t count)
{
    const bool purge = cmd_value(d->line, "purge") != NULL;
    const struct increment_name *keyspace = &f->name;
    struct store_deletion deletion = {.name = keyspace->bytes,
                                      .name_size = keyspace->size,
                                      .keys = keys,
                                      .count = count};
    int rc;

    rc = read_totals(d, f);
    if (rc == 0 && f->fills > 0)
        return cmd_fail(CONFIG_EXIT_NEGATIVE,
                        "nothing is deleted: fills=%" PRIu64
                        " of logs wait for keyspace %s "
                        "and may bring the keys back; countd held says why",
                        f->fills, f->text);
    if (rc == 0)
        do
            rc = store_del(d->in.store, &deletion);
        while (wait_turn(&d->turn, rc, store_session_holder(&d->in)));
    /* A purge that is repeated may find that the empty file is removed. */
    if (rc == -ENOENT && purge)
        return purge_keys(d, keyspace, keys, count);
    if (rc == -ENOENT)
        return report_unknown(f->text);
    if (rc < 0)
        return cmd_failed(rc, "delete from keyspace %s", f->text);
    (void)printf("deleted keyspace=%s keys=%" PRIu64 " of %zu\n", f->text,
                 deletion.deleted, count);
    warn_quarantined(d);
    if (purge)
        return purge_keys(d, keyspace, keys, count);
    return deletion.deleted == count ? CONFIG_EXIT_OK : CONFIG_EXIT_NEGATIVE;
}

int
cmd_del(struct cmd_line *line)
{
    const size_t count = (size_t)line->arg_count - 1;
    struct drop d = {.line = line};
    int status;

    if (line->config.store_postgresql && cmd_value(line, "purge"))
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "--purge: PostgreSQL keeps bytes of deleted rows in "
                        "its own files and their copies");
    status = begin_drop(&d, "name");
    if (status == 0)
        status = await_logs(&d);
    if (status == 0)
        status = delete_keys(&d, &d.found[0], d.keys,
                             sort_keys(d.found + 1, count, d.keys));
    end_drop(&d);
    return status;
}

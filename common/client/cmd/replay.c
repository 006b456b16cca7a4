/* common/client/cmd/replay.c - countd replay: applies archived logs to a data
 * directory, for an audit or a repair.
 *
 * Each log goes in under its own mark, as a worker had it, so it counts once
 * there: also when the command is killed and run again, and where a worker of
 * that directory has merged the log.  Logs go in by time, and of each log by
 * epoch, since a mark only says up to which fill a log is in; so everything
 * stops at a log that cannot be read and at a keyspace that refuses, and the
 * next run goes on from there.
 *
 * A log is taken as a whole or not at all: --from and --to go by its first
 * increment.  Nothing of it is applied before all of it has been checked.
 *
 * Read from the end: cmd_replay(), replay_log(), apply_log(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd_data.h"
#include "common/client/cmd/cmd_terminal.h"

#define WAIT_MS 30000

struct replay {
    const struct cmd_line *line;
    struct archived_list list;
    uint64_t from_ms, to_ms;  /* logs that begin in between */
    struct cmd_name keyspace; /* size 0: all */
    bool dry_run, skip;
    uint64_t wait_ms;

    bool opened; /* there is a target */
    struct store_session in;
    struct log_apply sums;
    struct log_apply_result result;
    struct progress progress;
    uint64_t done;    /* bytes of files */
    uint64_t records; /* of all logs that were read */
    uint64_t logs, left_out, missing, damaged;
};

/* ---- applying ---------------------------------------------------------- */

static void
refused(void *ctx, const uint8_t *name, size_t name_size, int rc)
{
    struct replay *r = ctx;

    progress_clear(&r->progress);
    diag_errno(DIAG_ERROR, rc, "keyspace %s cannot take its records",
               cmd_text(name, name_size));
}

static long
holder(void *ctx)
{
    const struct replay *r = ctx;

    return store_session_holder(&r->in);
}

/* Applies the log that was read. */
static int
apply_log(struct replay *r)
{
    const struct log_apply_how how = {
        .held = r->opened ? r->in.held : NULL,
        .dry_run = r->dry_run,
        .pass = true,
        .wait_ms = r->wait_ms,
        .holder = holder,
        .refused = refused,
        .ctx = r,
    };

    return log_apply_apply(&r->sums, r->opened ? r->in.store : NULL, &how,
                           &r->result);
}

/* ---- reading ----------------------------------------------------------- */

static int
add_block(struct replay *r, const struct archive_record *records, int count)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < count; i++) {
        const struct message *m = &records[i].m;

        if (r->keyspace.size > 0 &&
            !bytes_equal(m->keyspace, m->keyspace_size, r->keyspace.bytes,
                         r->keyspace.size))
            continue;
        rc = log_apply_add(&r->sums, m, records[i].received_ms);
    }
    r->records += (uint64_t)count;
    progress_show(&r->progress, r->done, r->records, "increment");
    return rc;
}

static int
add_records(struct replay *r, struct archive_reader *from)
{
    const struct archive_header *h = archive_reader_header(from);
    struct store_fill mark = {.epoch = h->epoch, .first_ms = h->first_ms};
    const struct archive_record *records;
    int count, rc = 0;

    memcpy(mark.uuid, h->uuid, sizeof mark.uuid);
    log_apply_begin(&r->sums, &mark);
    while (rc == 0 && (count = archive_reader_next(from, &records)) != 0)
        rc = count < 0 ? count : add_block(r, records, count);
    return rc;
}

static int
read_log(struct replay *r, const struct archived *a)
{
    const uint64_t records = r->records;
    struct archive_reader *from;
    int fd, rc;

    rc = a->error < 0 ? a->error : archived_open(a, &from, &fd);
    if (rc < 0)
        return rc;
    rc = add_records(r, from);
    archived_close(from, fd);
    if (rc < 0)
        r->records = records;
    return rc;
}

/* Reports what is wrong with a log. 0: continue with the others; else an exit
 * status. */
static int
report_damaged(struct replay *r, const struct archived *a, int rc)
{
    progress_clear(&r->progress);
    if (rc == -ENOMEM)
        return cmd_failed(rc, "read %s", a->path);
    r->damaged++;
    if (rc == -EBADMSG)
        diag(DIAG_ERROR, "%s is damaged: nothing of it is applied", a->path);
    else if (rc == -EPROTONOSUPPORT)
        diag(DIAG_ERROR,
             "%s has the archive format of another version: replay it with the "
             "countd that wrote it, or remove it",
             a->path);
    else
        diag_errno(DIAG_ERROR, rc, "read %s", a->path);
    if (r->skip)
        return 0;
    return cmd_fail(CONFIG_EXIT_NEGATIVE,
                    "stopped before it: later fills would hide it for ever; "
                    "mend it, or give --skip-damaged");
}

static int
wrong_sizes(const struct replay *r, const struct archived *a)
{
    const struct archive_header *h = &a->header;

    if (a->error < 0 || (h->keyspace_size == r->line->config.keyspace_size &&
                         h->key_size == r->line->config.key_size))
        return 0;
    return cmd_fail(
        CONFIG_EXIT_USAGE,
        "%s was written with message.keyspace_size=%u and "
        "message.key_size=%u: set these with -o, for another directory",
        a->path, h->keyspace_size, h->key_size);
}

/* Reads one file of the list and applies it.  Returns an exit status. */
static int
replay_log(struct replay *r, const struct archived *a)
{
    int rc, status;

    if (a->missing) {
        progress_clear(&r->progress);
        diag(DIAG_WARNING, "%s: this log was merged and is not in the archive",
             a->path);
        r->missing++;
        return 0;
    }
    status = wrong_sizes(r, a);
    if (status != 0)
        return status;
    rc = read_log(r, a);
    r->done += a->size;
    if (rc < 0)
        return report_damaged(r, a, rc);
    r->logs++;
    return apply_log(r) < 0 ? CONFIG_EXIT_SYSTEM : 0;
}

static int
take_all(struct replay *r)
{
    int status = 0;

    for (size_t i = 0; status == 0 && i < r->list.count; i++) {
        const struct archived *a = &r->list.logs[i];

        if (a->header.first_ms >= r->from_ms && a->header.first_ms < r->to_ms) {
            status = replay_log(r, a);
        } else {
            r->left_out++;
            r->done += a->size;
        }
    }
    progress_clear(&r->progress);
    return status;
}

/* ---- the subcommand ---------------------------------------------------- */

/* A repeated command finds all of it merged.  Whether a fill before the last
 * one that is merged of its log was left out is not known. */
static void
print_nothing_new(struct output *out, const struct log_apply_result *s)
{
    const uint64_t count = s->already + s->passed + s->held;

    output_text(out, "nothing new");
    if (count > 0)
        output_text(out, ": %" PRIu64 " increment%s merged%s before", count,
                    count == 1 ? " was" : "s were",
                    s->passed > 0 ? ", or left out," : "");
    if (s->held > 0)
        output_text(out, ", of these %" PRIu64 " held for their keyspace",
                    s->held);
}

static void
print_merged(struct output *out, const struct log_apply_result *s, bool dry_run)
{
    output_text(out, "%" PRIu64 " increment%s %s, %" PRIu64 " merged already",
                s->merged, output_plural(s->merged),
                dry_run ? "would be merged" : "merged", s->already + s->passed);
    if (s->passed > 0)
        output_text(out,
                    " (of these %" PRIu64
                    " of logs with a later fill in: merged or left out "
                    "before it)",
                    s->passed);
    if (s->held > 0)
        output_text(out,
                    ", %" PRIu64 " held behind what is held for their keyspace",
                    s->held);
}

static int
print_result(const struct replay *r)
{
    const struct log_apply_result *s = &r->result;
    struct output out;

    output_init(&out, r->line, NULL, 0);
    output_count(&out, "logs", r->logs);
    output_count(&out, "merged", s->merged);
    output_count(&out, "already_merged", s->already);
    output_count(&out, "held", s->held);
    output_count(&out, "passed", s->passed);
    output_count(&out, "logs_left_out", r->left_out);
    output_count(&out, "logs_missing", r->missing);
    output_count(&out, "logs_damaged", r->damaged);
    output_fact(&out, "dry_run", cell_bool(r->dry_run));
    output_text(&out, "%" PRIu64 " log%s: ", r->logs, output_plural(r->logs));
    if (s->merged == 0 && s->held == s->held_before)
        print_nothing_new(&out, s);
    else
        print_merged(&out, s, r->dry_run);
    output_text(&out,
                "; logs left out %" PRIu64 ", missing %" PRIu64
                ", damaged %" PRIu64 "\n",
                r->left_out, r->missing, r->damaged);
    return output_fini(&out);
}

/* A dry run makes no directory. */
static int
open_target(struct replay *r)
{
    int status;

    if (r->dry_run && access(r->line->config.data_dir, F_OK) < 0 &&
        errno == ENOENT)
        return 0;
    status = r->dry_run ? store_session_open(r->line, false, &r->in)
                        : store_session_make(r->line, &r->in);
    r->opened = status == 0;
    return status;
}

static void
read_options(struct replay *r)
{
    const struct cmd_line *line = r->line;
    const char *keyspace = cmd_value(line, "keyspace");
    const uint64_t now = clock_unix_ms();

    r->dry_run = cmd_value(line, "dry-run") != NULL;
    r->skip = cmd_value(line, "skip-damaged") != NULL;
    r->from_ms = cmd_time_option(line, "from", now, 0);
    r->to_ms = cmd_time_option(line, "to", now, UINT64_MAX);
    r->wait_ms = cmd_option_ms(line, "timeout", WAIT_MS);
    if (keyspace != NULL)
        r->keyspace = cmd_name(line, keyspace, "keyspace");
}

static int
list_logs(struct replay *r)
{
    for (int i = 0; i < r->line->arg_count; i++) {
        const int rc = archived_add(&r->list, r->line->args[i]);

        if (rc < 0)
            return rc == -EINVAL || rc == -ENOENT ? CONFIG_EXIT_USAGE
                                                  : CONFIG_EXIT_SYSTEM;
    }
    archived_sort(&r->list);
    if (r->list.count > 0)
        return 0;
    return cmd_fail(CONFIG_EXIT_NEGATIVE, "no archived logs there");
}

int
cmd_replay(struct cmd_line *line)
{
    struct replay r = {.line = line};
    int status;

    read_options(&r);
    status = *line->status != 0 ? *line->status : list_logs(&r);
    if (status == 0)
        status = open_target(&r);
    if (status == 0) {
        progress_init(&r.progress, "replaying", r.list.size);
        status = take_all(&r);
        if (status == 0 || status == CONFIG_EXIT_NEGATIVE) {
            const int printed = print_result(&r);

            status = printed != 0 ? printed : status;
        }
    }
    if (status == 0 && r.missing + r.damaged > 0)
        status = CONFIG_EXIT_NEGATIVE;
    log_apply_fini(&r.sums);
    if (r.opened)
        store_session_close(&r.in);
    archived_free(&r.list);
    return status;
}

/* common/client/cmd/replay.c - countd replay: applies archived logs to a data
 * directory, for an audit or a repair.
 *
 * Each log is placed in log/waiting/ under its own name, as a worker had it, and
 * a worker merges it: so it counts once there, also when the command is killed
 * and run again, and where a worker of that directory has merged the log.  Logs
 * are placed by time, and of each log by epoch, since a mark only says up to
 * which fill a log is in (R10 of common/log/waiting.h); so everything stops at a
 * log that cannot be read, and the next run goes on from there.  A keyspace that
 * refuses gets its part when it can take it.
 *
 * A log is taken as a whole or not at all: --from and --to go by its first
 * increment.  Nothing of it is placed before all of it has been checked.
 *
 * Read from the end: cmd_replay(), replay_log(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd_data.h"
#include "common/client/cmd/cmd_terminal.h"

struct replay {
    const struct cmd_line *line;
    struct archived_list list;
    uint64_t from_ms, to_ms; /* logs that begin in between */
    bool skip;

    struct store_session in;
    struct place place; /* its `in` is NULL while there is no target */
    struct progress progress;
    uint64_t done;    /* bytes of files */
    uint64_t records; /* of all logs that were read */
    uint64_t logs, left_out, missing, damaged;
};

/* ---- placing ------------------------------------------------------------ */

/* Reports what is wrong with a log. 0: continue with the others; else an exit
 * status. */
static int
report_damaged(struct replay *r, const struct archived *a, int rc)
{
    progress_clear(&r->progress);
    if (rc == -ENOMEM)
        return cmd_failed(rc, "read %s", a->path);
    r->damaged++;
    archived_report(a->path, rc);
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

/* Reads one file of the list and places it.  Returns an exit status. */
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
    rc = place_archived(&r->place, a);
    r->done += a->size;
    if (r->place.unread)
        return report_damaged(r, a, rc);
    r->logs++;
    r->records += a->header.count;
    progress_show(&r->progress, r->done, r->records, "increment");
    return rc < 0 ? cmd_failed(rc, "place %s in log/waiting/", a->path) : 0;
}

static int
take_all(struct replay *r)
{
    int status = 0;

    progress_init(&r->progress, "replaying", r->list.size);
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
print_nothing_new(struct output *out, const struct place *p)
{
    const uint64_t count = p->already + p->passed;

    output_text(out, "nothing new");
    if (count > 0)
        output_text(out, ": %" PRIu64 " increment%s merged%s before", count,
                    count == 1 ? " was" : "s were",
                    p->passed > 0 ? ", or left out," : "");
}

static void
print_merged(struct output *out, const struct replay *r)
{
    const struct place *p = &r->place;
    const uint64_t merged = p->wanted - p->waiting;

    output_text(out, "%" PRIu64 " increment%s %s, %" PRIu64 " merged already",
                merged, output_plural(merged),
                r->place.dry_run ? "would be merged" : "merged",
                p->already + p->passed);
    if (p->passed > 0)
        output_text(out,
                    " (of these %" PRIu64
                    " of logs with a later fill in: merged or left out "
                    "before it)",
                    p->passed);
    if (p->waiting > 0)
        output_text(out, ", %" PRIu64 " wait (countd held)", p->waiting);
}

static void
print_result(const struct replay *r)
{
    const struct place *p = &r->place;
    struct output out;

    output_init(&out, r->line, NULL, 0);
    output_count(&out, "logs", r->logs);
    output_count(&out, "merged", p->wanted - p->waiting);
    output_count(&out, "already_merged", p->already);
    output_count(&out, "waiting", p->waiting);
    output_count(&out, "passed", p->passed);
    output_count(&out, "logs_left_out", r->left_out);
    output_count(&out, "logs_missing", r->missing);
    output_count(&out, "logs_damaged", r->damaged);
    output_fact(&out, "dry_run", cell_bool(r->place.dry_run));
    output_text(&out, "%" PRIu64 " log%s: ", r->logs, output_plural(r->logs));
    if (p->wanted == 0)
        print_nothing_new(&out, p);
    else
        print_merged(&out, r);
    output_text(&out,
                "; logs left out %" PRIu64 ", missing %" PRIu64
                ", damaged %" PRIu64 "\n",
                r->left_out, r->missing, r->damaged);
    output_fini(&out);
}

/* A dry run makes no directory. */
static int
open_target(struct replay *r)
{
    int status;

    if (r->place.dry_run && access(r->line->config.data_dir, F_OK) < 0 &&
        errno == ENOENT)
        return 0;
    status = store_session_open(
        r->line, r->place.dry_run ? SESSION_READ : SESSION_MAKE, &r->in);
    r->place.in = status == 0 ? &r->in : NULL;
    return status;
}

static void
read_options(struct replay *r)
{
    const struct cmd_line *line = r->line;
    const char *keyspace = cmd_value(line, "keyspace");
    const uint64_t now = clock_unix_ms();

    r->place.dry_run = cmd_value(line, "dry-run") != NULL;
    r->skip = cmd_value(line, "skip-damaged") != NULL;
    r->from_ms = cmd_time_option(line, "from", now, 0);
    r->to_ms = cmd_time_option(line, "to", now, UINT64_MAX);
    if (keyspace != NULL)
        r->place.keyspace = cmd_name(line, keyspace, "keyspace");
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
        status = take_all(&r);
        if (status <= CONFIG_EXIT_NEGATIVE)
            status = cmd_worse(status, place_merge(&r.place, line));
        if (status <= CONFIG_EXIT_NEGATIVE)
            print_result(&r);
    }
    if (status == 0 && r.missing + r.damaged > 0)
        status = CONFIG_EXIT_NEGATIVE;
    if (r.place.has_other && status <= CONFIG_EXIT_NEGATIVE)
        status = cmd_fail(
            CONFIG_EXIT_NEGATIVE,
            "the directory has other fills of these logs: it and the one they "
            "were archived in are copies that were both used, so increments "
            "that are called merged already may be missing");
    place_fini(&r.place);
    if (r.place.in)
        store_session_close(&r.in);
    archived_free(&r.list);
    return status;
}

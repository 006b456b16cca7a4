/* common/client/cmd/flush.c - countd flush: everything acknowledged before
 * the call is readable after it.
 *
 * With access to the data directory the log is sealed soon, and the logs show
 * what is missing and why; without access the command waits until the
 * writer seals it.  Read from the end: cmd_flush(), run_flush() with access,
 * wait_afar() without. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "common/base/clock.h"
#include "common/client/cmd/cmd_data.h"
#include "common/log/pending.h"

/* A worker tries again what it has come to hold after a twentieth of a second,
 * then less and less often; what goes in goes in at once. */
#define HELD_WAIT_MS 3000

struct flush {
    const struct cmd_line *line;
    struct datadir dir;
    struct waiting waiting; /* held files alone */
    struct countd *c;
    struct logdir logs;
    struct pending_set fills; /* what is waited for; see pending.h */
    uint64_t timeout_ms;
    int64_t as_of_ms;
    uint64_t stuck_ms; /* when only fills that wait began to be missing; or 0 */
};

/* 1: all that was in a log is merged, and thus in every later answer of a reader
 * that asks no standby.  Time stamps of increments cannot show that: the clock
 * may have been set back.  The logs come before log/waiting/, as records move
 * from one to the other.
 *   -EBUSY  only fills that wait are missing, and they stay: the next attempt
 *           of a worker is up to a minute away */
static int
is_readable(void *ctx)
{
    struct flush *f = ctx;
    const uint64_t now = clock_ms();
    int rc = countd_as_of(f->c, countd_name(""), &f->as_of_ms);

    if (rc == 0)
        rc = pending_set_drop_merged(&f->fills, &f->logs);
    if (rc == 0)
        rc = unmerged_list(&f->waiting);
    if (rc < 0)
        return rc;
    if (f->fills.count > 0)
        f->stuck_ms = 0;
    else if (f->waiting.held_files == 0)
        return 1;
    else if (f->stuck_ms == 0)
        f->stuck_ms = now;
    return f->stuck_ms != 0 && now - f->stuck_ms >= HELD_WAIT_MS ? -EBUSY : 0;
}

static int
too_late(const struct cmd_line *line, int64_t as_of_ms)
{
    char age[32];

    if (wait_report_cause(line))
        return CONFIG_EXIT_NEGATIVE;
    output_age((int64_t)clock_unix_ms() - as_of_ms, age);
    return cmd_fail(CONFIG_EXIT_NEGATIVE,
                    "not merged in time: readable as of %s ago; is "
                    "countd-worker running? countd log list shows what waits",
                    age);
}

/* Returns an exit status. */
static int
read_unmerged(struct flush *f, struct unmerged *out)
{
    const int rc = unmerged_read(&f->dir, &f->waiting, NULL, out);

    return rc == 0 ? 0
                   : cmd_failed(rc, "read quarantined logs, and what waits");
}

/* Reports increments that no reader returns although there is nothing left to
 * wait for. The exit status covers what waits, and files quarantined during
 * this call, not older ones. */
static int
report_unreadable(struct flush *f, const struct unmerged *before)
{
    struct unmerged unmerged;
    int status;

    status = read_unmerged(f, &unmerged);
    if (status != 0)
        return status;
    unmerged_warn(&unmerged, "not readable");
    return unmerged.fills > 0 || unmerged.logs > before->logs ||
                   unmerged.damaged > before->damaged
               ? CONFIG_EXIT_NEGATIVE
               : CONFIG_EXIT_OK;
}

/* For another machine or another user, where the writer seals the log when it is
 * old enough, and for a standby, which may lack what is merged: as_of_ms of the
 * reader shows how far its answers reach. */
static int
wait_afar(struct flush *f)
{
    const int rc =
        countd_wait_readable(f->c, countd_name(""), (int)f->timeout_ms);

    if (rc == 0)
        return CONFIG_EXIT_OK;
    if (rc != -ETIMEDOUT)
        return cmd_peer_failed(f->line, CMD_READER, rc);
    return cmd_fail(CONFIG_EXIT_NEGATIVE,
                    "not readable in time; is countd-worker running there, "
                    "and does nothing wait (countd held)?");
}

/* Flushes with the reader's handle and the data directory open. */
static int
run_flush(struct flush *f)
{
    struct unmerged before, now;
    int rc, status;

    status = read_unmerged(f, &before);
    if (status != 0)
        return status;
    rc = pending_set_note(&f->fills, &f->logs);
    if (rc == 0)
        rc = wait_until(&f->dir, 0, f->timeout_ms, is_readable, f);
    if (rc == 0 && f->line->config.store_postgresql &&
        f->line->config.store_read_conninfo[0] != '\0')
        status = wait_afar(f);
    if (status != 0)
        return status;
    switch (rc) {
    case 0:
    case -EBUSY:
        return report_unreadable(f, &before);
    case -EAGAIN:
        if (read_unmerged(f, &now) == 0)
            unmerged_warn(&now, "not readable");
        return too_late(f->line, f->as_of_ms);
    case -EPERM:
        return cmd_fail(CONFIG_EXIT_SYSTEM,
                        "cannot signal countd-write: it runs as another user; "
                        "run this command as that user");
    default:
        return cmd_peer_failed(f->line, CMD_READER, rc);
    }
}

static int
flush_dir(struct flush *f)
{
    int rc, status = wait_datadir(f->line, &f->dir);

    if (status != 0)
        return status;
    rc = waiting_open(&f->waiting, f->dir.log_fd, false, false, 0);
    if (rc == 0) {
        rc = wait_logs_open(f->line, f->dir.log_fd, &f->logs);
        if (rc == 0) {
            status = run_flush(f);
            pending_set_fini(&f->fills);
            logdir_close(&f->logs);
        }
        waiting_close(&f->waiting);
    }
    datadir_close(&f->dir);
    return rc < 0 ? cmd_failed(rc, "open %s/log", f->line->config.data_dir)
                  : status;
}

int
cmd_flush(struct cmd_line *line)
{
    struct flush f = {.line = line};
    int status;

    f.timeout_ms = cmd_option_ms(line, "timeout", 30000);
    status = cmd_connect(line, CMD_READER, &f.c);
    if (status != 0)
        return status;
    status = wait_has_datadir(line) ? flush_dir(&f) : wait_afar(&f);
    countd_close(f.c);
    return status;
}

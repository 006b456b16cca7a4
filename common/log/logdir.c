/* common/log/logdir.c - see logdir.h: logdir_scan(), logdir_recover(),
 * logdir_claim(), logdir_create(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/logdir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/log/inspect.h"
#include "common/log/log_owner.h"
#include "common/log/log_recover.h"

#define CREATE_TRIES 16

static struct diag_repeat failures, newer, alien, sizes, keyless;

int
logdir_open(struct logdir *dir, int log_fd, const struct layout *l,
            uint64_t log_size)
{
    struct logdir d = {.layout = *l, .slots = log_slots(log_size, l)};
    int rc;

    if (d.slots == 0)
        return -ERANGE;
    rc = dirstream_open(log_fd, ".", &d.stream);
    if (rc < 0)
        return rc;
    d.fd = dirfd(d.stream);
    *dir = d;
    return 0;
}

void
logdir_close(struct logdir *dir)
{
    (void)closedir(dir->stream);
    logfile_list_free(&dir->files);
    *dir = (struct logdir){.fd = -1};
}

/* ---- scan --------------------------------------------------------------- */

int
logdir_scan(struct logdir *dir)
{
    int rc;

    dir->count = dir->bad = 0;
    rc = logfile_list_scan(&dir->files, dir->stream);
    if (rc < 0)
        return rc;
    dir->entries = dir->files.files;
    for (size_t i = 0; i < dir->files.count; i++) {
        const struct logfile *f = &dir->files.files[i];

        dir->count += f->kind <= LOGFILE_LOCK;
        dir->bad += f->kind == LOGFILE_BAD;
    }
    if (dir->bad > dir->bad_reported)
        diag(DIAG_WARNING,
             "damaged logs quarantined as log/bad-*: %zu; see countd log",
             dir->bad);
    dir->bad_reported = dir->bad;
    return 0;
}

/* ---- recover ------------------------------------------------------------ */

/* Reports what happened to a log, unless that is normal. */
static void
report_outcome(int rc, uint64_t index, const char *doing)
{
    if (rc > 0) {
        diag(DIAG_WARNING,
             "log=%" PRIu64 ": removed %d records at the end, the first of "
             "them torn or of a request that is not whole: power was lost or "
             "the writer was killed while writing",
             index, rc);
        return;
    }
    switch (rc) {
    case 0:
    case -EBUSY:  /* owned: normal */
    case -EAGAIN: /* another process stores marks: the next scan recovers it */
    case -ESTALE:
    case -ENOENT:
        return;
    case -EBADMSG:
        diag(DIAG_ERROR,
             "log=%" PRIu64 " is damaged and quarantined as log/bad-%010" PRIu64
             "-*, not merged and not removed; see countd log",
             index, index);
        return;
    case -EPROTONOSUPPORT:
        diag_repeating(&newer, DIAG_WARNING,
                       "log=%" PRIu64 ": written by a newer version of countd; "
                       "skipped",
                       index);
        return;
    case -ENOKEY:
        diag_repeating(&keyless, DIAG_ERROR,
                       "log=%" PRIu64 ": has requests with an Idempotency-Key, "
                       "and live/requests/secret is lost: the log waits; "
                       "restore it, or have their keys forgotten by countd "
                       "log accept",
                       index);
        return;
    case -EPERM:
        diag_repeating(&alien, DIAG_WARNING,
                       "log=%" PRIu64 ": not a regular file of this user; "
                       "skipped",
                       index);
        return;
    default:
        diag_repeating(&failures, DIAG_ERROR, "%s log=%" PRIu64 ": %s", doing,
                       index, diag_text(rc));
    }
}

/* Whether a log of a dead owner stays as it is, until something changes. */
static bool
is_unrecovered(int rc)
{
    return rc < 0 && rc != -EBUSY && rc != -EAGAIN && rc != -ESTALE &&
           rc != -ENOENT && rc != -EBADMSG;
}

static bool
is_at_rest(const struct logfile *e)
{
    return !e->locked &&
           (e->mode == LOG_MODE_EMPTY || e->mode == LOG_MODE_FULL);
}

/* Whether a log with the mode of an empty one is empty.  Reads it without
 * owning it: if it changes hands meanwhile, the claim that follows fails. */
static int
is_empty(const struct logdir *dir, uint64_t index, bool *empty)
{
    struct inspect look;
    int rc;

    rc = inspect_log(dir->fd, index, &look);
    if (rc < 0)
        return rc;
    *empty = look.headers_rc == 0 && look.header.state == LOG_EMPTY &&
             look.header_ok[0] && look.header_ok[1] && look.missing == 0;
    return 0;
}

/* Repairs the log if it has the mode of an empty one and is not empty.  The
 * mode of a full log is repaired by the worker that claims it.  Returns 1 if
 * something was done. */
static int
reconcile_mode(struct logdir *dir, uint64_t index)
{
    struct log log;
    bool empty = true;
    int rc;

    rc = is_empty(dir, index, &empty);
    if (rc < 0 && rc != -ENOENT && rc != -EACCES) {
        dir->reconciled = false; /* check again next time */
        report_outcome(rc, index, "read headers of");
    }
    if (rc < 0 || empty)
        return 0;
    rc = log_claim(&log, dir->fd, index, LOG_MODE_EMPTY);
    if (rc == 0)
        rc = log_release(&log);
    else if (rc == -ESTALE)
        rc = log_recover(dir->fd, index, dir->requests);
    report_outcome(rc, index, "recover");
    return rc >= 0 || rc == -EBADMSG;
}

int
logdir_recover(struct logdir *dir)
{
    const bool first = !dir->reconciled;
    const struct logfile *e;
    size_t i, unrecovered = 0;
    bool was_owned;
    int rc, done = 0;

    rc = logdir_scan(dir);
    if (rc < 0)
        return rc;
    dir->reconciled = true;
    for (i = 0; i < dir->count; i++) {
        e = &dir->entries[i];
        if (!is_at_rest(e)) {
            rc = log_recover_dead(dir->fd, e->index, dir->requests, &was_owned);
            report_outcome(rc, e->index, "recover");
            dir->recovered += rc >= 0 && was_owned;
            done += rc >= 0 || rc == -EBADMSG;
            unrecovered += is_unrecovered(rc);
        } else if (first && e->ours && e->mode == LOG_MODE_EMPTY) {
            done += reconcile_mode(dir, e->index);
        }
    }
    /* While another process tries to recover one, it is busy here. */
    if (unrecovered > 0 || dir->all_recovered)
        dir->unrecovered = unrecovered;
    dir->all_recovered = unrecovered == 0;
    if (done > 0) {
        rc = logdir_scan(dir);
        if (rc < 0)
            return rc;
    }
    return done;
}

/* ---- choose and create -------------------------------------------------- */

/* Whether a log has other message sizes than the directory was opened with:
 * names would be cut.  Reports it. */
static bool
has_other_sizes(const struct logdir *dir, const struct layout *l)
{
    if (l->keyspace_size == dir->layout.keyspace_size &&
        l->key_size == dir->layout.key_size)
        return false;
    diag_repeating(&sizes, DIAG_ERROR,
                   "log/ was written with message.keyspace_size=%u and "
                   "message.key_size=%u: set these, or use another data_dir",
                   l->keyspace_size, l->key_size);
    return true;
}

int
logdir_claim_log(struct logdir *dir, uint64_t index, mode_t want_mode,
                 struct log *log)
{
    struct log mine;
    int rc;

    rc = log_claim(&mine, dir->fd, index, want_mode);
    if (rc < 0) {
        report_outcome(rc, index, "claim");
        return rc;
    }
    if (!has_other_sizes(dir, &mine.header.layout)) {
        *log = mine;
        return 0;
    }
    rc = log_release(&mine);
    report_outcome(rc, index, "release");
    return rc < 0 ? rc : -EPROTO;
}

int
logdir_claim(struct logdir *dir, mode_t want_mode, struct log *log)
{
    const struct logfile *e;
    size_t i;
    int rc, failure = -EAGAIN;

    rc = logdir_scan(dir);
    if (rc < 0)
        return rc;
    for (i = 0; i < dir->count; i++) {
        e = &dir->entries[i];
        if (!e->ours || e->locked || e->mode != want_mode)
            continue;
        rc = logdir_claim_log(dir, e->index, want_mode, log);
        switch (rc) {
        case 0:
            return 0;
        case -EBUSY: /* another process has it, or it cannot be used: try the
                        next */
        case -ESTALE:
        case -ENOENT:
        case -EPERM:
        case -EBADMSG:
        case -EPROTO:
        case -EPROTONOSUPPORT:
            break;
        default:
            failure = rc;
        }
    }
    return failure;
}

int
logdir_create(struct logdir *dir, size_t max)
{
    uint64_t next = 0;
    size_t at = 0;
    int rc, i;

    rc = logdir_scan(dir);
    if (rc < 0)
        return rc;
    if (dir->count >= max)
        return -EMFILE;
    for (i = 0; i < CREATE_TRIES; i++) {
        for (; at < dir->count && dir->entries[at].index == next; at++)
            next++;
        if (next > LOG_INDEX_MAX)
            return -EMFILE;
        rc = log_create(dir->fd, next, &dir->layout, dir->slots);
        if (rc == -EEXIST)
            next++; /* another process created it first */
        else if (rc != -EAGAIN)
            return rc;
    }
    return -EAGAIN;
}

/* -EPROTO: a log has other message sizes. */
static int
check_size(const struct logdir *dir, uint64_t index)
{
    struct inspect look;
    int rc;

    rc = inspect_log(dir->fd, index, &look);
    if (rc == -EACCES || rc == -ENOENT)
        return 0; /* a full log: the worker that claims it compares */
    if (rc < 0 || look.headers_rc < 0)
        return rc;
    return has_other_sizes(dir, &look.header.layout) ? -EPROTO : 0;
}

int
logdir_check_sizes(struct logdir *dir)
{
    int rc = logdir_scan(dir);

    for (size_t i = 0; rc == 0 && i < dir->count; i++)
        if (dir->entries[i].ours)
            rc = check_size(dir, dir->entries[i].index);
    if (rc < 0 && rc != -EPROTO)
        diag_errno(DIAG_ERROR, rc, "read log/");
    return rc;
}

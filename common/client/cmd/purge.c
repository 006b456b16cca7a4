/* common/client/cmd/purge.c - countd del --purge: removes the bytes of deleted
 * keys from log/, log/waiting/ and archive/; see cmd_data.h.  Read from the end:
 * purge_files(), which calls purge_archive(), purge_logs() and purge_waiting().
 * The end of the command reports errors of stdout.
 *
 * Slots of an empty log keep what was in them until the next fill: they are
 * overwritten with zeros, while the log is claimed, by this process or, on its
 * request, by the writer that has claimed the log ahead of need.  An archived
 * log with one of the keys is written again without its increments; the new
 * file replaces the old one when it is durable, so a crash leaves one of the
 * two complete. The archive's flock keeps another purge away, which would bring
 * back what this one removed.
 *
 * A log that a daemon owns is waited for, a quarantined one only read. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/base/files.h"
#include "common/base/folder.h"
#include "common/log/archive.h"
#include "common/log/inspect.h"
#include "common/log/kept.h"
#include "common/log/log_recover.h"
#include "common/log/logfile.h"
#include "common/setup/signals.h"

#define TEMPORARY  "%p" /* and the name of the archived log */
#define CHUNK_SIZE ((size_t)1 << 20)
#define REPORT_MS  1000 /* until it is said what it waits for */

struct purge {
    struct store_session *in;
    const struct increment_name *keyspace;
    const struct store_key *keys; /* sorted */
    size_t count;
    uint8_t *chunk; /* CHUNK_SIZE */
    uint64_t logs, archived, waiting, left;
    uint64_t busy;     /* logs in use that may have a key, in the last pass */
    uint64_t since_ms; /* that it waits for logs, by clock_ms() */
    bool reported;     /* that it does */
    bool is_last;      /* this is the last pass over the logs */
    struct archive_writer *writer;
    uint64_t found; /* increments of the keys in one archived log */
};

int
purge_compare_keys(const void *a, const void *b)
{
    const struct store_key *x = a, *y = b;

    return bytes_compare(x->key, x->key_size, y->key, y->key_size);
}

static bool
is_purged(const struct purge *p, const struct message *m)
{
    const struct store_key key = {.key = m->key, .key_size = m->key_size};

    return bytes_equal(m->keyspace, m->keyspace_size, p->keyspace->bytes,
                       p->keyspace->size) &&
           bsearch(&key, p->keys, p->count, sizeof key, purge_compare_keys) !=
               NULL;
}

static void
report_left(struct purge *p, const char *folder, const char *name,
            const char *why)
{
    (void)printf("left %s/%s: %s\n", folder, name, why);
    p->left++;
}

/* ---- the bytes of a key ------------------------------------------------- */

static bool
has_key(const struct purge *p, size_t size)
{
    for (size_t i = 0; i < p->count; i++)
        if (memmem(p->chunk, size, p->keys[i].key, p->keys[i].key_size))
            return true;
    return false;
}

/* Whether the bytes of one of the keys are anywhere in a file: 1, 0, or an
 * error. */
static int
find_key(const struct purge *p, int fd)
{
    uint64_t at = 0;
    size_t kept = 0;
    ssize_t got;

    while ((got = read_at(fd, p->chunk + kept, CHUNK_SIZE - kept, at)) > 0) {
        const size_t size = kept + (size_t)got;

        if (has_key(p, size))
            return 1;
        at += (uint64_t)got;
        kept = size < MESSAGE_NAME_MAX ? size : MESSAGE_NAME_MAX;
        memmove(p->chunk, p->chunk + size - kept, kept);
    }
    return (int)got;
}

/* ---- logs -------------------------------------------------------------- */

/* Whether a slot of a log, of whatever fill, has the names of a purged key: 1,
 * 0, or an error. */
static int
find_slot(struct purge *p, int fd)
{
    struct inspect look;
    int rc;

    rc = inspect_headers(fd, UINT64_MAX, &look);
    if (rc < 0 || look.headers_rc < 0)
        return rc < 0 ? rc : find_key(p, fd);
    const struct layout *l = &look.header.layout;
    const size_t fit = CHUNK_SIZE / l->slot_size * l->slot_size;
    uint64_t at = LOG_SLOTS_AT;
    struct message m;
    ssize_t got;

    while ((got = read_at(fd, p->chunk, fit, at)) > 0) {
        for (size_t i = 0; i + l->slot_size <= (size_t)got; i += l->slot_size)
            if (message_parse(l, p->chunk + i, &m) == 0 && is_purged(p, &m))
                return 1;
        at += (uint64_t)got;
    }
    return (int)got;
}

static void
report_progress(struct purge *p, const char *name)
{
    if (p->reported || clock_ms() - p->since_ms < REPORT_MS)
        return;
    p->reported = true;
    diag(DIAG_INFO, "waiting for log/%s, which a daemon has in use", name);
}

/* A log that is not free for this process: it is one to wait for if it has a
 * key, or cannot be read to find out. */
static void
note_busy(struct purge *p, const struct logfile *f)
{
    const int fd = logfile_open(p->in->dir.log_fd, f->name);
    const int rc = fd < 0 ? fd : find_slot(p, fd);

    if (fd >= 0)
        (void)close(fd);
    if (rc == 0 || rc == -ENOENT)
        return;
    p->busy++;
    report_progress(p, f->name);
    if (p->is_last)
        report_left(p, "log", f->name,
                    "a daemon has it in use, and it may have a key; repeat the "
                    "command");
}

static int
purge_log(void *ctx, const struct logfile *f)
{
    struct purge *p = ctx;
    struct log log;
    int rc, cleared;

    if (f->kind != LOGFILE_LOG)
        return 0;
    rc = log_claim(&log, p->in->dir.log_fd, f->index, LOG_MODE_EMPTY);
    /* A purge that was killed may have owned it. */
    if (rc < 0 && log_recover(p->in->dir.log_fd, f->index, NULL) >= 0)
        rc = log_claim(&log, p->in->dir.log_fd, f->index, LOG_MODE_EMPTY);
    if (rc == -ENOENT)
        return 0;
    if (rc < 0) {
        note_busy(p, f);
        return 0;
    }
    cleared = log_clear(&log);
    rc = log_release(&log);
    p->logs += cleared > 0;
    return cleared < 0 ? cleared : rc;
}

/* One pass over the logs: 1 if no log that is in use may have a key.  `last`:
 * those that may are reported. */
static int
pass_logs(struct purge *p, bool last)
{
    int rc;

    p->busy = 0;
    p->is_last = last;
    rc = logfile_list_each(p->in->dir.log_fd, purge_log, p);
    return rc < 0 ? rc : p->busy == 0;
}

static int
try_logs(void *ctx)
{
    return pass_logs(ctx, false);
}

/* The writer of a quiet store owns every log that there is.  Each request of
 * wait_until() has it clear and release those with nothing in them but one,
 * which it releases at the next. */
static int
purge_logs(struct purge *p, uint64_t deadline_ms)
{
    const uint64_t now_ms = p->since_ms = clock_ms();
    int rc;

    rc = wait_until(&p->in->dir, SIGNALS_CLEAR,
                    deadline_ms > now_ms ? deadline_ms - now_ms : 0, try_logs,
                    p);
    if (rc == -EAGAIN || rc == -EPERM)
        rc = pass_logs(p, true);
    return rc < 0 ? rc : 0;
}

static int
search_quarantined(void *ctx, const struct logfile *f)
{
    struct purge *p = ctx;
    int fd, rc;

    if (f->kind != LOGFILE_BAD && f->kind != LOGFILE_SALVAGED)
        return 0;
    fd = logfile_open(p->in->dir.log_fd, f->name);
    rc = fd < 0 ? fd : find_key(p, fd);
    if (fd >= 0)
        (void)close(fd);
    if (rc != 0 && rc != -ENOENT)
        report_left(p, "log", f->name,
                    rc > 0 ? "it is quarantined and may have a key"
                           : "it cannot be read");
    return 0;
}

/* ---- the archive ------------------------------------------------------- */

static int
count_purged(void *ctx, uint32_t number, const struct message *m,
             const struct slot_stamp *stamp)
{
    struct purge *p = ctx;

    (void)number;
    (void)stamp;
    p->found += is_purged(p, m);
    return 0;
}

static int
write_other(void *ctx, uint32_t number, const struct message *m,
            const struct slot_stamp *stamp)
{
    struct purge *p = ctx;

    (void)number;
    return is_purged(p, m)
               ? 0
               : archive_writer_add(p->writer, m, stamp->received_ms);
}

static int
write_again(struct purge *p, int from, int to)
{
    struct archive_header h;
    int rc;

    rc = archive_read_names(from, NULL, &h, NULL, NULL);
    if (rc < 0)
        return rc;
    h.count -= p->found;
    h.names = 0;
    rc = archive_writer_begin(p->writer, &h, NULL, to, 0);
    if (rc == 0)
        rc = archive_each(from, NULL, write_other, p);
    if (rc == 0)
        rc = archive_writer_end(p->writer, NULL);
    return rc == 0 && fdatasync(to) < 0 ? -errno : rc;
}

static int
replace_archived(struct purge *p, const char *name, int from)
{
    const int dirfd = p->in->dir.archive_fd;
    char temp[ARCHIVE_NAME_SIZE + 2];
    int to, rc;

    (void)snprintf(temp, sizeof temp, "%s%s", TEMPORARY, name);
    to = openat(dirfd, temp, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    rc = write_again(p, from, to);
    (void)close(to); /* synced, or given up */
    if (rc == 0 && renameat(dirfd, temp, dirfd, name) < 0)
        rc = -errno;
    if (rc < 0)
        (void)unlinkat(dirfd, temp, 0); /* else the next purge does */
    p->archived += rc == 0;
    return rc;
}

/* What a worker was archiving, or a purge writing again, when it died. */
static int
remove_left(int folder_fd, const char *name)
{
    const int fd = folder_open_file(folder_fd, name);
    int rc = 0;

    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(folder_fd, name, 0) < 0 &&
        errno != ENOENT)
        rc = -errno;
    (void)close(fd);
    return rc;
}

static int
purge_archived(void *ctx, int folder_fd, const char *name)
{
    struct purge *p = ctx;
    struct archive_name n;
    int fd, rc;

    if (name[0] == '%')
        return remove_left(folder_fd, name);
    if (archive_name_parse(name, &n) < 0 || n.missing)
        return 0;
    fd = folder_open_file(folder_fd, name);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    p->found = 0;
    rc = archive_each(fd, NULL, count_purged, p);
    if (rc == -EBADMSG || rc == -EPROTONOSUPPORT) {
        report_left(p, ARCHIVE_FOLDER, name,
                    rc == -EBADMSG ? "it is damaged and may have a key"
                                   : "it is of another version and may have a "
                                     "key");
        rc = 0;
    } else if (rc == 0 && p->found > 0) {
        rc = replace_archived(p, name, fd);
    }
    (void)close(fd);
    return rc;
}

static int
purge_archive(struct purge *p)
{
    int rc;

    if (p->in->dir.archive_fd < 0)
        return 0;
    if (flock(p->in->dir.archive_fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    rc = archive_writer_new(&p->writer);
    if (rc == 0)
        rc = dirstream_each(p->in->dir.archive_fd, ".", purge_archived, p);
    if (rc == 0 && fsync(p->in->dir.archive_fd) < 0)
        rc = -errno;
    archive_writer_free(p->writer);
    (void)flock(p->in->dir.archive_fd, LOCK_UN);
    return rc;
}

/* ---- what waits -------------------------------------------------------- */

static bool
is_in(void *ctx, const struct log_fill *id)
{
    const struct purge *p = ctx;

    return waiting_is_in(p->in->store, p->keyspace->bytes, p->keyspace->size,
                         id) > 0;
}

/* Leaves the keyspace out of fills that it has, which wait for others.  One that
 * came meanwhile and that it has not got may have a key. */
static int
purge_waiting(struct purge *p, uint64_t deadline_ms)
{
    struct wait_turn turn = {.deadline_ms = deadline_ms};
    struct waiting *w = &p->in->waiting;
    struct waiting_left_out what = {.name = p->keyspace->bytes,
                                    .size = p->keyspace->size,
                                    .leaves = is_in,
                                    .ctx = p};
    const struct waiting_part *parts;
    size_t count;
    int rc;

    do
        rc = waiting_leave_out(w, &what);
    while (wait_turn(&turn, rc, 0));
    p->waiting += what.fills;
    if (rc == 0)
        rc = unmerged_list(w);
    if (rc < 0)
        return rc;
    parts = waiting_parts(w, waiting_find(w, what.name, what.size), &count);
    for (size_t i = 0; i < count; i++)
        report_left(p, "log/" WAITING_FOLDER, parts[i].fill->file->name,
                    "it waits for the keyspace and may have a key");
    return 0;
}

/* What a killed backup left goes; what a running one uses may have a key. */
static int
purge_kept(struct purge *p)
{
    const int fd = kept_open(p->in->dir.log_fd);

    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    (void)close(fd);
    report_left(p, "log", KEPT_FOLDER, "a backup is running, and removes it");
    return 0;
}

int
purge_files(struct store_session *in, const struct increment_name *keyspace,
            const struct store_key *keys, size_t count, uint64_t deadline_ms)
{
    static const char *const left[] = {"live/statsd-rests",
                                       "live/statsd-totals", "live/statsd.new"};
    struct purge p = {
        .in = in, .keyspace = keyspace, .keys = keys, .count = count};
    int rc;

    p.chunk = malloc(CHUNK_SIZE);
    rc = p.chunk == NULL ? -ENOMEM : purge_archive(&p);
    if (rc == 0)
        rc = purge_logs(&p, deadline_ms);
    if (rc == 0)
        rc = logfile_list_each(in->dir.log_fd, search_quarantined, &p);
    /* What a writer that stopped, or was killed while it did, left for the next
     * one: less than one of each name, and where totals were, so it is not worth
     * writing again without the keys. */
    for (size_t i = 0; rc == 0 && i < sizeof left / sizeof left[0]; i++)
        if (unlinkat(in->dir.fd, left[i], 0) < 0 && errno != ENOENT)
            rc = -errno;
    if (rc == 0)
        rc = purge_kept(&p);
    if (rc == 0)
        rc = purge_waiting(&p, deadline_ms);
    free(p.chunk);
    if (rc == -EWOULDBLOCK)
        return cmd_fail(CONFIG_EXIT_SYSTEM,
                        "another countd del --purge is running: not finished; "
                        "repeat the command");
    if (rc < 0)
        return cmd_failed(
            rc, "purge log/ and archive/: not finished; repeat the command");
    (void)printf("purged logs=%" PRIu64 " archived=%" PRIu64 " waiting=%" PRIu64
                 " left=%" PRIu64 "\n",
                 p.logs, p.archived, p.waiting, p.left);
    return p.left > 0 ? CONFIG_EXIT_NEGATIVE : CONFIG_EXIT_OK;
}

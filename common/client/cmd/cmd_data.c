/* common/client/cmd/cmd_data.c - see cmd_data.h: store_session_open(),
 * wait_until(), which rotates and waits, wait_turn(), which waits for another
 * process that is writing, unmerged_read(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_data.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/log/logfile.h"
#include "common/log/pending.h"
#include "common/setup/merge_note.h"
#include "common/setup/privilege.h"
#include "common/store/lmdb/lmdb_store.h"
#include "common/store/postgresql/postgresql_store.h"
#include "common/wire/message.h"

/* ---- wait merged --------------------------------------------------------- */

#define AGAIN_MS        200  /* between two requests to hand the log on */
#define TURN_MS         4    /* between two tries, or two looks */
#define TURN_REPORT_MS  1000 /* until it is said who is writing */
#define OPEN_TIMEOUT_MS 2000 /* of a log that changes hands */

/* A commit that does not fit has taken all there was; what is left is less than
 * a keyspace's file needs to grow. */
#define FULL_DISK_BYTES (UINT64_C(16) << 20)

/* Returns an exit status. */
static int
open_datadir(const struct cmd_line *line, enum datadir_need need,
             struct datadir *d)
{
    int rc, status = *line->status;

    /* Files that root made here would be in the daemons' way. */
    if (status == 0 && geteuid() == 0 && line->config.user[0] != '\0')
        status = privilege_become(&line->config, need);
    if (status != 0)
        return status;
    rc = datadir_open(d, line->config.data_dir, need);
    return rc < 0 ? datadir_exit_status(rc, need) : 0;
}

int
wait_datadir(const struct cmd_line *line, struct datadir *d)
{
    const int status = open_datadir(line, DATADIR_READ, d);

    if (status == 0 && !cmd_names_directory(line) && datadir_writer_pid(d) == 0)
        diag(DIAG_WARNING,
             "no countd-write runs on ./%s, which is taken as nothing names a "
             "data directory; -d does",
             line->config.data_dir);
    return status;
}

bool
wait_has_datadir(const struct cmd_line *line)
{
    char path[CONFIG_TEXT_SIZE + sizeof "/keyspace"];
    struct cmd_place place;

    (void)snprintf(path, sizeof path, "%s/keyspace", line->config.data_dir);
    if (line->host != NULL || access(path, R_OK | X_OK) < 0)
        return false;
    cmd_find_place(line, CMD_READER, &place);
    return place.directory != NULL || cmd_names_directory(line);
}

static int
rotate_log(const struct datadir *d, int value)
{
    const union sigval v = {.sival_int = value};
    const long pid = datadir_writer_pid(d);

    /* A writer that cannot be signalled seals the log when that is old enough. */
    if (pid <= 0 || sigqueue((pid_t)pid, SIGUSR2, v) == 0)
        return 0;
    /* It stopped just now, and a clean stop hands the log on as well. */
    return errno == ESRCH ? 0 : -errno;
}

int
wait_logs_open(const struct cmd_line *line, int log_fd, struct logdir *out)
{
    struct layout layout;
    const int rc = layout_init(&layout, (unsigned)line->config.keyspace_size,
                               (unsigned)line->config.key_size);

    return rc < 0 ? rc
                  : logdir_open(out, log_fd, &layout, line->config.log_size);
}

int
wait_is_pending(const struct cmd_line *line, int log_fd)
{
    uint64_t oldest_ms;
    struct logdir logs;
    int rc = wait_logs_open(line, log_fd, &logs);

    if (rc < 0)
        return rc;
    rc = pending_oldest_ms(&logs, &oldest_ms);
    logdir_close(&logs);
    return rc < 0 ? rc : oldest_ms < UINT64_MAX;
}

static int
check_sizes(const struct cmd_line *line, const struct datadir *d)
{
    struct logdir logs;
    int rc = wait_logs_open(line, d->log_fd, &logs);

    if (rc < 0)
        return cmd_failed(rc, "read %s/log", line->config.data_dir);
    rc = logdir_check_sizes(&logs);
    logdir_close(&logs);
    return rc == 0 ? 0 : rc == -EPROTO ? CONFIG_EXIT_USAGE : CONFIG_EXIT_SYSTEM;
}

static bool
is_full(const struct statvfs *fs)
{
    /* A file system without a fixed number of inodes counts none. */
    return (uint64_t)fs->f_bavail * fs->f_frsize < FULL_DISK_BYTES ||
           (fs->f_files > 0 && fs->f_favail == 0);
}

/* A merge that is late because the disk is full is explained once, and not only
 * at the end. */
static void
warn_full_disk(const struct datadir *d, uint64_t since_ms, bool *warned)
{
    struct statvfs fs;

    if (*warned || clock_ms() - since_ms < AGAIN_MS ||
        fstatvfs(d->fd, &fs) < 0 || !is_full(&fs))
        return;
    *warned = true;
    diag(DIAG_WARNING,
         "waiting: the disk of the data directory is full (%" PRIu64
         " MB, %" PRIu64 " inodes free), and increments are not merged until "
         "there is room",
         (uint64_t)fs.f_bavail * fs.f_frsize / 1000000, (uint64_t)fs.f_favail);
}

int
wait_until(const struct datadir *d, int value, uint64_t timeout_ms,
           int (*is_done)(void *ctx), void *ctx)
{
    const uint64_t since_ms = clock_ms();
    uint64_t rotate_ms = since_ms;
    bool warned = false;
    int rc = 0;

    for (;;) {
        const uint64_t now_ms = clock_ms();

        /* A writer that has just been started may not have heard the first. */
        if (now_ms >= rotate_ms) {
            rotate_ms = now_ms + AGAIN_MS;
            rc = rotate_log(d, value);
        }
        if (rc == 0)
            rc = is_done(ctx);
        if (rc != 0)
            return rc < 0 ? rc : 0;
        if (clock_ms() - since_ms >= timeout_ms)
            return -EAGAIN;
        warn_full_disk(d, since_ms, &warned);
        wait_ms(TURN_MS);
    }
}

struct fills {
    struct pending_set set; /* noted, and not merged yet */
    struct logdir *logs;
};

static int
are_merged(void *ctx)
{
    struct fills *f = ctx;
    const int rc = pending_set_drop_merged(&f->set, f->logs);

    return rc < 0 ? rc : f->set.count == 0;
}

int
wait_logs(const struct datadir *d, struct logdir *logs, uint64_t timeout_ms)
{
    struct fills fills = {.logs = logs};
    int rc = pending_set_note(&fills.set, logs);

    if (rc == 0)
        rc = wait_until(d, 0, timeout_ms, are_merged, &fills);
    pending_set_fini(&fills.set);
    return rc;
}

int
wait_merged(const struct cmd_line *line, const struct datadir *d,
            uint64_t timeout_ms)
{
    struct logdir logs;
    int rc = wait_logs_open(line, d->log_fd, &logs);

    if (rc == 0) {
        rc = wait_logs(d, &logs, timeout_ms);
        logdir_close(&logs);
    }
    return rc;
}

bool
wait_is_disk_full(const struct cmd_line *line)
{
    struct statvfs fs;

    return statvfs(line->config.data_dir, &fs) == 0 && is_full(&fs);
}

bool
wait_report_older(const struct cmd_line *line)
{
    char text[MERGE_NOTE_TEXT];
    struct merge_note n;
    struct datadir d;
    int rc;

    if (datadir_open(&d, line->config.data_dir, DATADIR_READ) < 0)
        return false;
    rc = merge_note_read(&d, &n);
    datadir_close(&d);
    if (rc < 0 || !merge_note_is_older(&n))
        return false;
    merge_note_explain(&n, text);
    diag(DIAG_ERROR, "data_dir=%s: %s", line->config.data_dir, text);
    return true;
}

bool
wait_report_cause(const struct cmd_line *line)
{
    struct statvfs fs;

    if (statvfs(line->config.data_dir, &fs) < 0 || !is_full(&fs))
        return wait_report_older(line);
    diag(DIAG_ERROR,
         "data_dir=%s: the disk is full (%" PRIu64 " MB, %" PRIu64
         " inodes free), and increments are not merged until there is room; "
         "no data is lost; delete other files, or countd drop a keyspace",
         line->config.data_dir, (uint64_t)fs.f_bavail * fs.f_frsize / 1000000,
         (uint64_t)fs.f_favail);
    return true;
}

void
wait_ms(unsigned ms)
{
    const struct timespec t = {.tv_sec = ms / 1000,
                               .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)nanosleep(&t, NULL); /* woken early, we only look sooner */
}

bool
wait_turn(struct wait_turn *t, int rc, long holder)
{
    const uint64_t now = clock_ms();

    if ((rc != -EAGAIN && rc != -EBUSY) || now >= t->deadline_ms) {
        t->since_ms = 0;
        return false;
    }
    if (t->since_ms == 0)
        t->since_ms = now;
    if (!t->reported && now - t->since_ms >= TURN_REPORT_MS) {
        t->reported = true;
        if (holder > 0)
            diag(DIAG_INFO, "waiting for process %ld, which is writing",
                 holder);
        else
            diag(DIAG_INFO, "waiting for another process, which is writing");
    }
    wait_ms(TURN_MS);
    return true;
}

int
wait_open_log(int log_fd, const char *name)
{
    struct wait_turn turn = {.deadline_ms = clock_ms() + OPEN_TIMEOUT_MS};
    int fd;

    do
        fd = logfile_open(log_fd, name);
    while (wait_turn(&turn, fd, 0));
    return fd;
}

/* ---- store session ------------------------------------------------------- */

#define TXN_MEMORY ((size_t)64 << 20)
#define OPEN_MAX   16 /* keyspaces at once */

int
store_session_store(const struct cmd_line *line, int keyspace_fd, bool writable,
                    struct store **out)
{
    const struct lmdb_options options = {
        .keyspace_fd = keyspace_fd,
        .keyspace_size = (uint16_t)line->config.keyspace_size,
        .key_size = (uint16_t)line->config.key_size,
        .writable = writable,
        .open_max = OPEN_MAX,
        .txn_memory = writable ? TXN_MEMORY : 0,
        .keyspace_max = line->config.keyspace_max,
        .keys_max = line->config.keyspace_max_keys,
        .history = &line->config.history,
        .history_of_new = true, /* these settings may not be the workers' */
        .history_max = line->config.history_max,
    };
    const struct postgresql_options remote = {
        .config = &line->config, .writable = writable, .history_of_new = true};

    return line->config.store_postgresql ? postgresql_store_open(out, &remote)
                                         : lmdb_store_open(out, &options);
}

bool
store_session_is_file(const uint8_t *name, size_t size)
{
    return size > 2 && memcmp(name, "%h", 2) == 0;
}

long
store_session_holder(const struct store_session *in)
{
    return store_is_local(in->store) ? lmdb_store_holder(in->store) : 0;
}

int
store_session_open(const struct cmd_line *line, enum store_session_need need,
                   struct store_session *out)
{
    const bool writable = need != SESSION_READ;
    int rc, status = need == SESSION_MAKE
                         ? open_datadir(line, DATADIR_WRITE, &out->dir)
                         : wait_datadir(line, &out->dir);

    if (status != 0)
        return status;
    status = check_sizes(line, &out->dir);
    if (status != 0)
        goto close_dir;
    rc = store_session_store(line, out->dir.keyspace_fd, writable, &out->store);
    status = CONFIG_EXIT_SYSTEM;
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "open %s/keyspace", line->config.data_dir);
        goto close_dir;
    }
    rc = waiting_open(&out->waiting, out->dir.log_fd, writable, true, 0);
    if (rc == 0)
        return 0;
    status =
        cmd_failed(rc, "open %s/log/" WAITING_FOLDER, line->config.data_dir);
    store_close(out->store);

close_dir:
    datadir_close(&out->dir);
    return status;
}

void
store_session_close(struct store_session *in)
{
    waiting_close(&in->waiting);
    store_close(in->store);
    datadir_close(&in->dir);
}

/* ---- unmerged ------------------------------------------------------------ */

#define TURN_TIMEOUT_MS 3000

static int
note_log(void *ctx, const struct logfile *f)
{
    struct unmerged *out = ctx;

    if (f->kind == LOGFILE_BAD && out->logs++ == 0)
        strcpy(out->log, cmd_text(f->name, strlen(f->name)));
    return 0;
}

static int
note_waiting(void *ctx, const struct waiting_sum *sum)
{
    struct unmerged *out = ctx;

    if (out->fills == 0)
        strcpy(out->keyspace, cmd_text(sum->name, sum->name_size));
    out->fills += sum->fills;
    return 0;
}

static int
note_damaged(void *ctx, int folder_fd, const char *file)
{
    struct unmerged *out = ctx;

    (void)folder_fd;
    if (strncmp(file, WAITING_BAD, strlen(WAITING_BAD)) == 0 &&
        out->damaged++ == 0)
        strcpy(out->file, cmd_text(file, strlen(file)));
    return 0;
}

int
unmerged_list(struct waiting *w)
{
    struct wait_turn turn = {.deadline_ms = clock_ms() + TURN_TIMEOUT_MS};
    int rc;

    do
        rc = waiting_list(w);
    while (wait_turn(&turn, rc, 0));
    return rc;
}

int
unmerged_read(const struct datadir *d, struct waiting *w, struct store *s,
              struct unmerged *out)
{
    int rc;

    *out = (struct unmerged){0};
    rc = logfile_list_each(d->log_fd, note_log, out);
    if (rc == 0)
        rc = unmerged_list(w);
    if (rc == 0)
        rc = waiting_each(s, w, note_waiting, out);
    if (rc == 0)
        rc = dirstream_each(d->log_fd, WAITING_FOLDER, note_damaged, out);
    return rc;
}

void
unmerged_warn(const struct unmerged *k, const char *what)
{
    if (k->logs > 0)
        diag(DIAG_WARNING,
             "%s: %zu damaged log%s quarantined (log/%s%s); countd log salvage "
             "merges what is valid",
             what, k->logs, output_plural(k->logs), k->log,
             k->logs == 1 ? "" : " ...");
    if (k->fills == 1)
        diag(DIAG_WARNING,
             "%s: a fill of a log waits for a keyspace that cannot take it now "
             "(%s); see countd held",
             what, k->keyspace);
    else if (k->fills > 0)
        diag(DIAG_WARNING,
             "%s: %" PRIu64 " fills of logs wait for keyspaces that cannot "
             "take them now (%s ...); see countd held",
             what, k->fills, k->keyspace);
    if (k->damaged > 0)
        diag(DIAG_WARNING,
             "%s: %zu damaged file%s (log/waiting/%s%s): what was damaged is "
             "lost; they stay until you remove them",
             what, k->damaged, output_plural(k->damaged), k->file,
             k->damaged == 1 ? "" : " ...");
}
